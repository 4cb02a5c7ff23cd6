//! Rules that "always" could add, wide enough to help and narrow enough to be meant.

use super::decide::Query;
use super::rule::{check, host};
use super::shell::{Script, Simple};
use super::unwrap::behind;
use crate::wire::access::Target;
use crate::wire::permission::{Behavior, Suggestion};
use std::path::Path;

/// Programs whose first argument says what they do.
const WITH_SUBCOMMANDS: &[&str] = &[
    "apt",
    "brew",
    "bun",
    "bundle",
    "cargo",
    "composer",
    "deno",
    "docker",
    "dotnet",
    "gh",
    "git",
    "go",
    "gradle",
    "helm",
    "just",
    "kubectl",
    "make",
    "mvn",
    "npm",
    "nx",
    "pip",
    "pip3",
    "pnpm",
    "poetry",
    "rustup",
    "swift",
    "systemctl",
    "terraform",
    "uv",
    "yarn",
];
/// Subcommands whose next word says what they do.
const RUNNERS: &[&str] = &["compose", "exec", "run", "x"];
/// Programs that can do anything with their arguments: only the exact command is suggested.
const OPEN_ENDED: &[&str] = &[
    "awk",
    "bash",
    "chmod",
    "chown",
    "command",
    "cp",
    "curl",
    "dash",
    "dd",
    "doas",
    "env",
    "eval",
    "exec",
    "find",
    "kill",
    "mv",
    "node",
    "nohup",
    "npx",
    "osascript",
    "parallel",
    "perl",
    "php",
    "pkill",
    "python",
    "python3",
    "rm",
    "rsync",
    "ruby",
    "scp",
    "sed",
    "sh",
    "source",
    "ssh",
    "su",
    "sudo",
    "tee",
    "time",
    "timeout",
    "wget",
    "xargs",
    "zsh",
];
/// More rules than this in one suggestion say less than the command itself.
const MAX_RULES: usize = 4;

/// Rules that together would allow the call.
pub(super) fn suggestions(
    query: &Query<'_>,
    script: Option<&Script>,
    uncovered: &[&Simple],
) -> Vec<Suggestion> {
    let tool = &query.access.tool;
    let rules = match &query.access.target {
        Target::Command(command) => commands(command, script, uncovered),
        Target::Edit(paths) => paths.iter().map(|path| format!("Edit({})", files(query, path))).collect(),
        Target::Read(paths) => {
            let outside = paths.iter().filter(|path| !super::path::inside(path, query.project));
            outside.map(|path| format!("Read({})", files(query, path))).collect()
        }
        Target::Fetch(url) => host(url).iter().map(|host| format!("WebFetch(domain:{host})")).collect(),
        Target::Agent(name) | Target::Message(name) => vec![format!("{tool}({name})")],
        Target::Search(_) | Target::Named => vec![tool.clone()],
        Target::Nothing => Vec::new(),
    };
    let mut out: Vec<Suggestion> = Vec::new();
    for rule in rules {
        if check(&rule).is_err() {
            return Vec::new();
        }
        let suggestion = Suggestion { rule, behavior: Behavior::Allow };
        if !out.contains(&suggestion) {
            out.push(suggestion);
        }
    }
    out
}

fn commands(command: &str, script: Option<&Script>, uncovered: &[&Simple]) -> Vec<String> {
    let command = command.trim();
    let exact = || match command.contains('\n') || command.ends_with(":*") || command.contains('*') {
        true => Vec::new(),
        false => vec![format!("Bash({command})")],
    };
    let Some(script) = script.filter(|script| script.doubts.is_empty() && script.writes.is_empty()) else {
        return exact();
    };
    if script.commands.len() > 1 && uncovered.len() > MAX_RULES {
        return exact();
    }
    let mut rules = Vec::new();
    for simple in uncovered {
        match prefix(simple) {
            Some(prefix) => rules.push(format!("Bash({prefix}:*)")),
            None => return exact(),
        }
    }
    rules
}

/// The words that say what a command does; `None` when only all of them do.
fn prefix(simple: &Simple) -> Option<String> {
    let plain =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "_-./:@+".contains(c));
    let behind = behind(simple);
    if !simple.assignments.is_empty() || !behind.hidden.is_empty() || !behind.doubts.is_empty() {
        return None;
    }
    let texts: Vec<&str> = simple
        .words
        .iter()
        .take_while(|word| word.literal && !word.glob && plain(&word.text))
        .map(|word| word.text.as_str())
        .collect();
    let (name, args) = texts.split_first()?;
    let base = name.rsplit('/').next().unwrap_or_default();
    if OPEN_ENDED.contains(&base) {
        return None;
    }
    if !WITH_SUBCOMMANDS.contains(&base) {
        return Some((*name).to_owned());
    }
    let sub = args.first().filter(|sub| !sub.starts_with('-'))?;
    let last = args.get(1).filter(|next| !next.starts_with('-'));
    match last {
        Some(next) if RUNNERS.contains(sub) => Some(format!("{name} {sub} {next}")),
        None if RUNNERS.contains(sub) && base != "cargo" && base != "go" => None,
        _ => Some(format!("{name} {sub}")),
    }
}

/// A pattern for the files beside `path`.
fn files(query: &Query<'_>, path: &Path) -> String {
    let text = |path: &Path| globset::escape(&path.to_string_lossy());
    let below = query.project.first().and_then(|root| path.strip_prefix(root).ok());
    match (below, below.unwrap_or(path).parent()) {
        (Some(file), Some(dir)) if dir.as_os_str().is_empty() => text(file),
        (Some(_), Some(dir)) => format!("{}/**", text(dir)),
        (Some(_), None) => "**".to_owned(),
        (None, Some(dir)) if dir.parent().is_some() => format!("/{}/**", text(dir)),
        (None, _) => format!("/{}", text(path)),
    }
}
