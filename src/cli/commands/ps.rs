//! `festoon ps`: every agent of every team, with what its state rests on.

use crate::cli::args::Shared;
use crate::cli::error::CliError;
use crate::cli::out::Out;
use crate::cli::table::{self, Cell, Column, Table};
use crate::cli::teams::children::{Child, Places, Wanted};
use crate::cli::teams::row::Row;
use crate::cli::teams::{self, Desk, TeamView};
use crate::cli::{status, view, words};
use crate::model::registry::is_script;
use crate::wire::error::ExitKind;
use crate::wire::ledger::{LedgerFile, Used};
use crate::wire::run::AgentState;
use crate::wire::usage::Money;
use anstyle::{AnsiColor, Style};

/// The arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Also the agents of teams that have ended, which --json always has, and subagents that have ended.
    #[arg(long, short)]
    pub all: bool,
}

/// Runs it.
pub fn run(args: &Args, shared: &Shared) -> Result<Option<ExitKind>, CliError> {
    let desk = Desk::new()?;
    let teams = teams::all(&desk.paths)?;
    let places = Places::find(&desk.paths, &teams)?;
    let wanted = if args.all { Wanted::All } else { Wanted::AtWork };
    let mut out = Out::default();
    if shared.json {
        let rows: Vec<Row> = teams
            .iter()
            .flat_map(|team| {
                let children = places.children(team, wanted).into_iter().map(|child| child.row);
                team.rows.iter().cloned().chain(children).collect::<Vec<_>>()
            })
            .collect();
        out.json(&rows)?;
    } else {
        show(&mut out, &teams, |team| places.children(team, wanted), args.all)?;
    }
    // Every one of them, so no short circuit.
    let troubles = teams.iter().filter(|team| team.warn()).count();
    Ok((troubles > 0).then_some(ExitKind::Failed))
}

fn show(
    out: &mut Out,
    teams: &[TeamView],
    children: impl Fn(&TeamView) -> Vec<Child>,
    all: bool,
) -> Result<(), CliError> {
    let (shown, ended): (Vec<&TeamView>, Vec<&TeamView>) =
        teams.iter().partition(|team| all || team.state() != "stopped" || !team.troubles.is_empty());
    if !teams.iter().any(TeamView::lives) {
        out.line("no team is running; `festoon demo` shows one")?;
    }
    for team in shown {
        out.line(heading(team))?;
        for line in agents(&team.rows, &children(team)).render(table::columns()) {
            out.line(line)?;
        }
    }
    if !ended.is_empty() {
        let dim = Style::new().dimmed();
        let count = words::number(ended.len(), "team");
        out.line(format!("{dim}{count} ended: `festoon team list`, `festoon ps --all`{dim:#}"))?;
    }
    Ok(())
}

/// A team in a line above its agents.
pub fn heading(team: &TeamView) -> String {
    let bold = Style::new().bold();
    let (state, name) = (team.state(), team.name());
    let style = state_style(state);
    let what = match state {
        "running" => String::new(),
        "leaderless" => format!(
            ": its leader is gone; `festoon team resume {name}` goes on with it, `festoon team stop {name}` ends the rest"
        ),
        "lost" => format!(
            ": its leader is gone; `festoon team resume {name}` goes on with it, `festoon team delete {name}` removes it"
        ),
        _ => String::new(),
    };
    let dim = Style::new().dimmed();
    let used = team.ledger.as_ref().map(used).unwrap_or_default();
    format!("{bold}{}{bold:#} {style}{state}{style:#}{what}{dim}{used}{dim:#}", words::line(team.display()))
}

/// What a team has used, with its budgets: ` · 12.3k of 200.0k tokens · $0.120`.
fn used(ledger: &LedgerFile) -> String {
    let total = ledger.total();
    if total == Used::default() {
        return String::new();
    }
    let of = |bound: Option<String>| bound.map_or_else(String::new, |bound| format!(" of {bound}"));
    let tokens = of(ledger.limits.max_tokens_total.map(status::tokens));
    let money = of(ledger.limits.max_cost.map(|most| status::money(Money(Some(most)))));
    format!(
        " · {}{tokens} tokens · {}{money}",
        status::tokens(total.usage.total()),
        status::money(total.cost)
    )
}

/// The colour of a state, of an agent or of a team.
pub fn state_style(state: &str) -> Style {
    let color = |color: AnsiColor| Style::new().fg_color(Some(color.into()));
    match state {
        "working" | "running" => color(AnsiColor::Green),
        "starting" | "stopping" => color(AnsiColor::Cyan),
        "waiting" | "leaderless" | "unknown" | "open" => color(AnsiColor::Yellow),
        "lost" | "failed" => color(AnsiColor::Red),
        "idle" | "stopped" => Style::new().dimmed(),
        _ => Style::new(),
    }
}

/// The agents as a table, a line each; those without a row of their own below whom they work for.
pub fn agents(rows: &[Row], children: &[Child]) -> Table {
    let mut table = Table::new(&[
        // An id with its branch stays whole.
        Column::Cut("AGENT", 20),
        Column::Cut("TYPE", 8),
        Column::Fixed("STATE"),
        Column::Right("AGE"),
        Column::Right("TOKENS"),
        Column::Right("COST"),
        Column::Cut("MODEL", 10),
        Column::Cut("WHAT", 12),
    ])
    .indented(2);
    for row in rows {
        table.row(cells(row, &row.display));
        for child in children.iter().filter(|child| child.root == row.name) {
            // The leader is at depth 0, a member at 1.
            let base = if row.name.is_lead() { 1 } else { 2 };
            let depth = usize::try_from(child.meta.depth).unwrap_or(base).saturating_sub(base);
            let branch = "─".repeat(depth.min(8));
            table.row(cells(&child.row, &format!("└{branch} {}", child.row.display)));
        }
    }
    table
}

fn cells(row: &Row, name: &str) -> [Cell; 8] {
    // The cause of an end without a word says more than what was done then.
    let what = match &row.task {
        Some(task) if row.state != AgentState::Lost.as_str() => task.clone(),
        Some(_) | None => place(row),
    };
    [
        Cell::styled(name, view::style_of(row.color.as_deref())),
        Cell::from(row.kind.as_deref().unwrap_or("?")),
        Cell::styled(row.state, state_style(row.state)),
        Cell::from(row.since.as_ref().map(words::age).unwrap_or_default()),
        Cell::from(if row.tokens == 0 { String::new() } else { status::tokens(row.tokens) }),
        Cell::from(words::money(row.cost)),
        Cell::from(row.model.as_deref().map_or("?".to_owned(), short_model)),
        Cell::from(what),
    ]
}

/// What tells models apart at a glance: the name without its provider, a script without its directory.
pub fn short_model(full: &str) -> String {
    match full.split_once(':') {
        Some((provider, file)) if is_script(full) => {
            format!("{provider}:{}", file.rsplit('/').next().unwrap_or(file))
        }
        Some((_, name)) => name.to_owned(),
        None => full.to_owned(),
    }
}

/// Where a living agent is; what the state of another rests on.
fn place(row: &Row) -> String {
    match (row.lives, row.pid, row.backend, &row.pane_id) {
        (true, Some(pid), Some("tmux"), Some(pane)) => format!("pane {pane}, pid {pid}"),
        (true, Some(_), Some("in-process"), _) if !row.name.is_lead() => "in-process".to_owned(),
        (true, Some(pid), ..) if row.evidence == format!("pid {pid} running") => format!("pid {pid}"),
        _ => row.evidence.clone(),
    }
}
