//! What was seen as the lines of a screen: a summary, the asks, and an agent a line below its team; the part
//! around the chosen agent when not all of it fits.

use super::seen::{Part, Seen};
use crate::cli::commands::ps::{agents, heading};
use crate::cli::view::{head, style_of_warning};
use crate::cli::{ask_dialog, status, text, words};
use crate::wire::ids::{AgentId, TeamName};
use crate::wire::run::AgentState;
use crate::wire::usage::Money;
use anstyle::Style;

/// Asks that are named at the top.
const ASKS: usize = 5;
/// Columns beyond which lines get no wider.
const WIDEST: usize = 160;

/// Which agent is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Its team.
    pub team: TeamName,
    /// Its id.
    pub agent: AgentId,
}

/// The lines of everything, and which of them is whose.
pub struct Page {
    /// Above the agents.
    top: Vec<String>,
    /// Teams and agents.
    body: Vec<(String, Option<Chosen>)>,
}

impl Page {
    /// All that was seen, in so many columns.
    pub fn new(seen: &Seen, columns: usize) -> Self {
        let columns = columns.min(WIDEST);
        let mut top = vec![summary(seen)];
        top.extend(asks(seen, columns));
        let mut body = Vec::new();
        for part in &seen.teams {
            body.push((format!("{}{}", heading(&part.view), beside(part)), None));
            let mut lines = agents(&part.view.rows, &part.children).render(columns).into_iter();
            body.extend(lines.next().map(|titles| (titles, None)));
            let chosen = |row: &crate::cli::teams::row::Row| {
                Some(Chosen { team: row.team.clone(), agent: row.agent_id.clone() })
            };
            body.extend(lines.zip(part.agents().map(chosen)));
        }
        Self { top, body }
    }

    /// The agents in their order.
    pub fn agents(&self) -> Vec<&Chosen> {
        self.body.iter().filter_map(|(_, whose)| whose.as_ref()).collect()
    }

    /// All lines, for where nothing can be drawn.
    pub fn whole(&self) -> Vec<String> {
        self.top.iter().chain(self.body.iter().map(|(line, _)| line)).cloned().collect()
    }

    /// Exactly so many rows, each no wider than the screen, with the chosen agent among them.
    pub fn screen(&self, rows: usize, columns: usize, chosen: Option<&Chosen>, foot: &str) -> Vec<String> {
        let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
        // However small the screen, the chosen agent has a row.
        let top = self.top.len().min(rows.saturating_sub(2).min(rows / 2));
        let room = rows.saturating_sub(top + 1);
        let at = self.body.iter().position(|(_, whose)| whose.is_some() && whose.as_ref() == chosen);
        let first = first_row(at.unwrap_or(0), room, self.body.len());
        let mut lines = self.top[..top].to_vec();
        let shown = self.body.iter().enumerate().skip(first).take(room);
        lines.extend(shown.map(|(n, (line, _))| match at == Some(n) {
            true => format!("{bold}>{bold:#}{}", line.get(1..).unwrap_or_default()),
            false => line.clone(),
        }));
        lines.resize(rows.saturating_sub(1), String::new());
        let hidden = self.body.len().saturating_sub(room);
        let place =
            if hidden > 0 { format!(" · {} of {}", first + 1, self.body.len()) } else { String::new() };
        lines.push(format!("{dim}{foot}{place}{dim:#}"));
        lines.iter().map(|line| cut(line, columns)).collect()
    }
}

/// The first of `all` rows that is shown in `room`, with row `at` in the middle where it can be.
fn first_row(at: usize, room: usize, all: usize) -> usize {
    at.saturating_sub(room / 2).min(all.saturating_sub(room))
}

/// A line with colours, cut to the width.
fn cut(line: &str, columns: usize) -> String {
    let plain = anstream::adapter::strip_str(line).to_string();
    if text::width(&plain) <= columns {
        return line.to_owned();
    }
    // Its colours go with its end: rows that are too long are rare, and a torn sequence would stay.
    text::fit(&plain, columns).into_owned()
}

fn summary(seen: &Seen) -> String {
    let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
    let mut cost = Money::default();
    let mut tokens = 0;
    for total in seen.teams.iter().filter_map(|part| part.view.ledger.as_ref()).map(|file| file.total()) {
        cost += total.cost;
        tokens += total.usage.total();
    }
    let working = seen.agents().filter(|row| row.state == AgentState::Working.as_str()).count();
    let asks: usize = seen.teams.iter().map(|part| part.asks.len()).sum();
    let mut parts = vec![
        words::number(seen.teams.len(), "team"),
        format!("{}, {working} at work", words::number(seen.agents().count(), "agent")),
        format!("{} tokens", status::tokens(tokens)),
        status::money(cost),
    ];
    if asks > 0 {
        let warn = style_of_warning();
        parts.push(format!("{warn}{}{warn:#}", words::number(asks, "open ask")));
    }
    if seen.ended > 0 {
        parts.push(format!("{dim}{} ended{dim:#}", seen.ended));
    }
    format!("{bold}festoon top{bold:#}  {}", parts.join(" · "))
}

fn asks(seen: &Seen, columns: usize) -> Vec<String> {
    let warn = style_of_warning();
    let all: Vec<_> = seen.teams.iter().flat_map(|part| &part.asks).collect();
    let mut lines: Vec<String> = all
        .iter()
        .take(ASKS)
        .map(|ask| {
            let who = text::clean(&ask_dialog::who(ask)).into_owned();
            let line = format!(
                "  ? {who}, {}: {} ({})",
                words::age(&ask.created_at),
                head(&ask.description),
                ask.id
            );
            format!("{warn}{}{warn:#}", text::fit(&line, columns))
        })
        .collect();
    if all.len() > ASKS {
        lines.push(format!("  and {} more: festoon ask list", all.len() - ASKS));
    }
    lines
}

/// What else there is to say of a team behind its heading.
fn beside(part: &Part) -> String {
    let dim = Style::new().dimmed();
    let [pending, in_progress, completed] = part.tasks;
    let all = pending + in_progress + completed;
    match all {
        0 => String::new(),
        all => format!("{dim} · tasks: {completed} of {all} done, {in_progress} in progress{dim:#}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(count: usize) -> Page {
        let agent = |n: usize| Chosen {
            team: TeamName::new("t").expect("a slug"),
            agent: AgentId::new(format!("a{n}@t")),
        };
        let lines = (0..count).map(|n| (format!("  a{n} works"), Some(agent(n))));
        let head = [("team".to_owned(), None), ("  AGENT".to_owned(), None)];
        Page { top: vec!["top".to_owned()], body: head.into_iter().chain(lines).collect() }
    }

    #[test]
    fn a_screen_has_its_rows_whatever_there_is_and_shows_the_chosen_agent() {
        for count in [0, 1, 5, 1000] {
            let page = page(count);
            let agents: Vec<Chosen> = page.agents().into_iter().cloned().collect();
            for (rows, columns) in [(24, 80), (5, 40), (3, 10)] {
                for at in [0, count / 2, count.saturating_sub(1)] {
                    let screen = page.screen(rows, columns, agents.get(at), "q quits");
                    assert_eq!(screen.len(), rows, "{count} {rows}");
                    let plain: Vec<String> =
                        screen.iter().map(|l| anstream::adapter::strip_str(l).to_string()).collect();
                    assert!(plain.iter().all(|line| text::width(line) <= columns), "{plain:#?}");
                    let marked: Vec<&String> = plain.iter().filter(|line| line.starts_with('>')).collect();
                    let wanted = text::fit(&format!("> a{at} works"), columns).into_owned();
                    let wanted = if count == 0 { vec![] } else { vec![&wanted] };
                    assert_eq!(marked, wanted, "{count} {rows} {at}");
                }
            }
        }
    }

    #[test]
    fn the_chosen_row_is_in_the_middle_where_it_can_be() {
        assert_eq!([0, 3, 50, 99].map(|at| first_row(at, 10, 100)), [0, 0, 45, 90]);
        assert_eq!(first_row(5, 10, 6), 0);
    }
}
