//! `festoon doctor`: what works here, what does not, and what to do about it.
//!
//! Looks, and tries what can be tried without a trace; no file that stays. Providers of models that are
//! set up are asked for one word, unless `--offline` is given. MCP servers are started, asked for their tools
//! and ended.

mod providers;
mod servers;
mod worktrees;

use crate::agent::definition_sources::discover;
use crate::cli::args::Shared;
use crate::cli::environment::{Environment, TOOL_MARK};
use crate::cli::error::CliError;
use crate::cli::out::Out;
use crate::cli::settings::{self, Loaded};
use crate::cli::setup::{asked_of_the_environment, no_model};
use crate::cli::teams::{self, Desk};
use crate::cli::trust::{self, Trust};
use crate::cli::{table, text, words};
use crate::exec::tmux;
use crate::model::connect::{ConnectOptions, Connections};
use crate::model::registry::{ModelRef, Provider, choose};
use crate::os::capture::capture;
use crate::os::command::{CommandSpec, Exit};
use crate::os::guard;
use crate::store::watch::{Watcher, is_network_fs};
use crate::team::registry::TmuxVersion;
use crate::wire::error::ExitKind;
use crate::wire::hooks::HookEvent;
use anstyle::{AnsiColor, Style};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{ErrorKind, IsTerminal};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// The arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Prints the JSON Schema of the settings, and does nothing else.
    #[arg(long)]
    pub schema: bool,
    /// Asks no provider of models anything.
    #[arg(long)]
    pub offline: bool,
}

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    /// It works.
    Ok,
    /// It works, with less than there could be.
    Note,
    /// Something will not work.
    Problem,
}

/// One check.
#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    status: Status,
    message: String,
    hint: String,
}

impl Check {
    fn new(check: &'static str, status: Status, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { check, status, message: message.into(), hint: hint.into() }
    }
    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self::new(check, Status::Ok, message, "")
    }
    fn note(check: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(check, Status::Note, message, hint)
    }
    fn problem(check: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(check, Status::Problem, message, hint)
    }
    fn error(check: &'static str, error: impl Into<CliError>) -> Self {
        let report = error.into().report;
        Self::problem(check, report.message, report.hint)
    }
}

/// Runs it; status 1 when there is a problem.
pub async fn run(args: &Args, shared: Shared) -> Result<Option<ExitKind>, CliError> {
    if args.schema {
        // For people as for programs: it is read from top to bottom.
        Out::default().line(format!("{:#}", settings::schema::schema()))?;
        return Ok(None);
    }
    let desk = Desk::new()?;
    let cwd = std::env::current_dir().and_then(|dir| dir.canonicalize());
    let mut checks = vec![Check::ok("version", format!("festoon {}", env!("CARGO_PKG_VERSION")))];
    checks.extend(state(&desk));
    match &cwd {
        Ok(cwd) => {
            let (found, read) = models(&desk, &shared, cwd);
            checks.extend(found);
            if let Some(Read { loaded, trust, ask }) = read {
                if let Some((chosen, options)) = ask.filter(|_| !args.offline) {
                    if chosen.as_ref().is_some_and(|model| model.provider != Provider::Scripted) {
                        checks.retain(|check| check.check != "model");
                    }
                    checks.extend(providers::check(chosen.as_ref(), &options).await);
                }
                checks.extend(servers::checks(&desk.environment, &shared, cwd, &loaded, trust).await);
            }
        }
        Err(error) => checks.push(Check::problem(
            "directory",
            format!("the working directory: {error}"),
            "go to a directory that exists",
        )),
    }
    checks.push(git(&desk.environment, cwd.as_deref().unwrap_or(Path::new("/"))).await);
    checks.push(panes(&desk.environment).await);
    checks.push(terminal(&desk.environment));
    checks.push(watching());
    checks.push(Check::note(
        "sandbox",
        "tool commands are not confined in this version: what a model runs can do what you can do",
        "read what you approve; for more, run festoon as a user of its own or in a container",
    ));
    checks.extend(leftovers(&desk));
    checks.extend(worktrees::checks(&desk).await);
    if desk.environment.get(TOOL_MARK).is_some() || guard::is_below_guard() {
        checks.push(Check::note(
            "person",
            "this runs below an agent's tool: asks cannot be answered here",
            "use a terminal of your own",
        ));
    }
    show(&checks, &shared)?;
    Ok(checks.iter().any(|check| check.status == Status::Problem).then_some(ExitKind::Failed))
}

fn show(checks: &[Check], shared: &Shared) -> Result<(), CliError> {
    let mut out = Out::default();
    if shared.json {
        return out.json(checks);
    }
    let color = |color: AnsiColor| Style::new().fg_color(Some(color.into()));
    let dim = Style::new().dimmed();
    for check in checks {
        let (mark, style) = match check.status {
            Status::Ok => ("ok", color(AnsiColor::Green)),
            Status::Note => ("note", color(AnsiColor::Yellow)),
            Status::Problem => ("problem", color(AnsiColor::Red)),
        };
        let space = table::columns().saturating_sub(21).max(30);
        let mut first = true;
        for line in wrapped(&words::line(&check.message), space) {
            let head =
                if first { format!("{style}{mark:<8}{style:#}{:<12}", check.check) } else { " ".repeat(20) };
            out.line(format!("{head} {line}"))?;
            first = false;
        }
        if !check.hint.is_empty() {
            for line in wrapped(&format!("→ {}", words::line(&check.hint)), space) {
                out.line(format!("{:20} {dim}{line}{dim:#}", ""))?;
            }
        }
    }
    Ok(())
}

/// Words on as many lines as they need; a word that is too long stands alone.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(last) = lines.last_mut() else { continue };
        if !last.is_empty() && text::width(last) + 1 + text::width(word) > columns {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}

/// The state root: ours, closed to others, writable, on a local disk.
fn state(desk: &Desk) -> Vec<Check> {
    let root = desk.paths.state_root();
    let shown = root.display();
    let mut checks = Vec::new();
    let dirs = [desk.paths.teams(), desk.paths.projects(), desk.paths.logs()];
    let refused = dirs.iter().filter_map(|dir| desk.paths.check_dirs(dir).err());
    // What is wrong with the root is said of each directory below it.
    let mut refused: Vec<Check> = refused.map(|error| Check::error("state", error)).collect();
    refused.dedup_by(|a, b| a.message == b.message);
    if !refused.is_empty() {
        return refused;
    }
    let mode = match std::fs::metadata(root) {
        Ok(found) => found.permissions().mode() & 0o777,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return vec![match writable(nearest(root)) {
                Ok(()) => Check::ok("state", format!("{shown} is made at the first run")),
                Err(error) => Check::problem(
                    "state",
                    format!("{shown} cannot be made: {error}"),
                    "set FESTOON_HOME to a directory of yours",
                ),
            }];
        }
        Err(error) => {
            return vec![Check::problem(
                "state",
                format!("{shown}: {error}"),
                "set FESTOON_HOME to a directory of yours",
            )];
        }
    };
    checks.push(match writable(root) {
        Err(error) => Check::problem(
            "state",
            format!("{shown} cannot be written to: {error}"),
            "make room, or set FESTOON_HOME to a directory of yours",
        ),
        Ok(()) if mode & 0o002 != 0 => Check::problem(
            "state",
            format!("{shown} is refused: everybody may write to it (mode {mode:03o})"),
            format!("chmod 700 {shown}, or set FESTOON_HOME to a directory of yours"),
        ),
        Ok(()) if mode & 0o077 != 0 => Check::note(
            "state",
            format!("{shown} can be entered by others (mode {mode:03o})"),
            format!("chmod 700 {shown}"),
        ),
        Ok(()) => Check::ok("state", format!("{shown} (mode {mode:03o})")),
    });
    if is_network_fs(root) {
        checks.push(Check::note(
            "disk",
            format!("{shown} is on a network file system: changes are found by looking twice a second"),
            "set FESTOON_HOME to a local directory",
        ));
    }
    checks
}

/// The directory that is there already.
fn nearest(path: &Path) -> &Path {
    path.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"))
}

fn writable(dir: &Path) -> std::io::Result<()> {
    tempfile::Builder::new().prefix(".doctor-").tempfile_in(dir).map(drop)
}

/// The settings, and what is needed to ask models: the chosen one, if there is one.
struct Read {
    loaded: Loaded,
    trust: Trust,
    ask: Option<(Option<ModelRef>, ConnectOptions)>,
}

/// Settings and model, without asking anybody. The settings come with it when they can be read.
fn models(desk: &Desk, shared: &Shared, cwd: &Path) -> (Vec<Check>, Option<Read>) {
    let (trust, unread) = trust::of(&desk.paths, cwd, shared.trust);
    let loaded = match settings::load(&desk.paths, cwd, shared.settings.as_deref(), trust) {
        Ok(loaded) => loaded,
        Err(error) => return (vec![Check::error("settings", error)], None),
    };
    let mut checks: Vec<Check> = loaded
        .warnings
        .iter()
        .map(|warning| Check::note("settings", warning, "remove it, or correct its name"))
        .collect();
    if checks.is_empty() {
        checks.push(Check::ok("settings", "they can be read"));
    }
    checks.extend(
        unread.map(|why| Check::problem("trust", why, "mend the file, or remove it: you are asked again")),
    );
    checks.extend(trusted(desk, cwd, trust, &loaded));
    checks.push(hooks(desk, cwd, trust, &loaded));
    let options = ConnectOptions {
        env: desk.environment.all().clone(),
        providers: loaded.settings.providers.clone(),
        retry: loaded.settings.retry.clone(),
        ..ConnectOptions::default()
    };
    let model = shared.model.as_deref();
    if let Err(error) = desk.environment.check(asked_of_the_environment(model)) {
        checks.push(Check::error("model", error));
        return (checks, Some(Read { loaded, trust, ask: None }));
    }
    let chosen = choose(shared.model.as_deref(), desk.environment.all(), &loaded.settings)
        .map(|model| model.anchored(cwd));
    let model = chosen.and_then(|model| Connections::new(options.clone()).get(&model).map(|_| model));
    checks.push(match &model {
        Ok(model) => Check::ok("model", format!("{model} (not asked anything)")),
        Err(error) => {
            let report = no_model(error.clone()).report;
            Check::note("model", report.message, report.hint)
        }
    });
    (checks, Some(Read { loaded, trust, ask: Some((model.ok(), options)) }))
}

/// Whether the directory is trusted, and what is skipped if not.
fn trusted(desk: &Desk, cwd: &Path, trust: Trust, loaded: &Loaded) -> Option<Check> {
    let mut found = discover(&desk.paths.user_agents(), cwd, None);
    let mut withheld = loaded.withheld.clone();
    withheld.extend(trust::servers(cwd, trust));
    withheld.extend(trust::restrict(&mut found, trust));
    if trust == Trust::Full {
        return Some(Check::ok("trust", format!("{} is trusted", cwd.display())));
    }
    let skipped = trust::skipped(&withheld).map(|what| format!("so this is skipped: {what}"));
    let widens =
        trust::skipped(&loaded.widens).map(|what| format!("and its settings widen what may be done: {what}"));
    let said: Vec<String> = skipped.into_iter().chain(widens).collect();
    (!said.is_empty()).then(|| {
        Check::note(
            "trust",
            format!("{} is not trusted, {}", cwd.display(), said.join("; ")),
            "`festoon` at a terminal asks once; --trust takes it for one run",
        )
    })
}

/// The hooks in force, by event.
fn hooks(desk: &Desk, cwd: &Path, trust: Trust, loaded: &Loaded) -> Check {
    let mut found = discover(&desk.paths.user_agents(), cwd, None);
    drop(trust::restrict(&mut found, trust)); // said above
    let own = found.definitions().iter().filter(|d| !d.hooks.is_empty()).count();
    let mut by_event: BTreeMap<HookEvent, usize> = BTreeMap::new();
    for (event, _) in loaded.settings.hooks.commands() {
        *by_event.entry(event).or_default() += 1;
    }
    let all: usize = by_event.values().sum();
    let counted: Vec<String> = by_event.iter().map(|(event, n)| format!("{} {n}", event.as_str())).collect();
    let in_settings = match all {
        0 => "none in the settings".to_owned(),
        _ => format!("{all} in the settings ({})", counted.join(", ")),
    };
    let in_definitions = match own {
        0 => String::new(),
        _ => format!(", and those of {}", words::number(own, "definition")),
    };
    Check::ok("hooks", in_settings + &in_definitions)
}

async fn git(environment: &Environment, cwd: &Path) -> Check {
    let hint = "install git: branches are not shown, and worktrees cannot be made without it";
    let spec = CommandSpec::new(["git", "--version"], cwd, environment.all().clone());
    match capture(spec, Duration::from_secs(5), 4096).await {
        Ok(captured) if captured.exit == Exit::Code(0) => {
            Check::ok("git", String::from_utf8_lossy(&captured.stdout).trim().to_owned())
        }
        Ok(captured) => Check::note("git", format!("git --version ended with {}", captured.exit), hint),
        Err(error) => Check::note("git", error.to_string(), hint),
    }
}

async fn panes(environment: &Environment) -> Check {
    let seen = tmux::look(environment.all()).await;
    let place = if seen.inside {
        "teammates get panes beside this one"
    } else {
        "not inside tmux: teammates run in the leader's process, unless --teammate-mode tmux"
    };
    match seen.version {
        None => Check::note(
            "tmux",
            "there is no tmux: teammates run in the leader's process",
            format!("install tmux {} or newer to see them in panes", TmuxVersion::OLDEST),
        ),
        Some(version) if version < TmuxVersion::OLDEST => Check::note(
            "tmux",
            format!("tmux {version} is too old for panes"),
            format!("install tmux {} or newer", TmuxVersion::OLDEST),
        ),
        Some(version) => Check::ok("tmux", format!("{version}; {place}")),
    }
}

fn terminal(environment: &Environment) -> Check {
    if !std::io::stdout().is_terminal() {
        return Check::ok("terminal", "standard output is no terminal: no colours here");
    }
    let term = environment.get("TERM").unwrap_or("not set");
    let columns = table::columns();
    let colours = if environment.get("NO_COLOR").is_some() { "off by NO_COLOR" } else { "on" };
    let said = format!("TERM {term}, {columns} columns, colours {colours}");
    if matches!(term, "dumb" | "not set") {
        return Check::note(
            "terminal",
            said,
            "set TERM to what your terminal is, for example xterm-256color",
        );
    }
    if columns < text::DEFAULT_COLUMNS {
        return Check::note("terminal", said, "listings want 80 columns");
    }
    Check::ok("terminal", said)
}

/// Whether the system tells about changes of files.
fn watching() -> Check {
    let limit = |name: &str| {
        let path = format!("/proc/sys/fs/inotify/{name}");
        std::fs::read_to_string(path).map_or("?".to_owned(), |text| text.trim().to_owned())
    };
    let (instances, watches) = (limit("max_user_instances"), limit("max_user_watches"));
    let limits = format!("at most {instances} watchers a user, {watches} watches");
    match Watcher::start() {
        Ok(_) => Check::ok("watching", limits),
        Err(error) => Check::problem(
            "watching",
            format!("{error}; {limits}"),
            "end programs that watch files, or raise it: sysctl fs.inotify.max_user_instances=512",
        ),
    }
}

/// Teams whose leader is gone, and files that cannot be read.
fn leftovers(desk: &Desk) -> Vec<Check> {
    let mut checks = Vec::new();
    let all = match teams::all(&desk.paths) {
        Ok(all) => all,
        Err(error) => return vec![Check::error("teams", error)],
    };
    for team in &all {
        let name = team.name();
        match team.state() {
            "leaderless" => {
                let alive = team.members().iter().filter(|row| row.lives).count();
                checks.push(Check::note(
                    "team",
                    format!(
                        "the leader of {name} is gone ({}), still running: {}",
                        team.leader().evidence,
                        words::number(alive, "member")
                    ),
                    format!(
                        "`festoon team resume {name}` goes on with it, `festoon team stop {name}` ends them"
                    ),
                ));
            }
            "lost" => checks.push(Check::note(
                "team",
                format!("{name} ended without a word: its leader is gone ({})", team.leader().evidence),
                format!(
                    "`festoon team resume {name}` goes on with it, `festoon team delete {name}` removes it"
                ),
            )),
            _ => {}
        }
        for trouble in &team.troubles {
            let report = trouble.report();
            checks.push(Check::problem("team", report.message, report.hint));
        }
    }
    if checks.is_empty() {
        let running = all.iter().filter(|team| team.lives()).count();
        checks.push(Check::ok(
            "teams",
            format!("{} running, {} ended, none left behind", running, all.len() - running),
        ));
    }
    checks
}
