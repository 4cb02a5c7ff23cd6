//! The first user message of an agent: its surroundings, the instructions that hold there, its prompt.
//!
//! What changes often stands here and not in the system prompt, whose bytes are frozen.

use super::core::AgentCore;
use super::events::AgentEvent;
use super::instructions::{self, Places};
use super::modes;
use super::turn::Agent;
use crate::os::capture::capture;
use crate::os::command::{CommandSpec, Exit};
use crate::os::git;
use crate::store::clock;
use crate::wire::block::Block;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// How long `git status` may take; a repository where it takes longer goes without.
const GIT_DEADLINE: Duration = Duration::from_secs(1);
/// How much of it is shown, in bytes.
const GIT_MOST: usize = 2_000;

/// The surroundings, the instructions, and the prompt, a block each.
pub async fn first_message(agent: &Agent, prompt: &str) -> Vec<Block> {
    let blocks = surroundings(agent.core(), agent.branch()).await;
    said(agent.core(), blocks, prompt)
}

/// The prompt after what belongs before it; between them what there is to say of the mode.
fn said(core: &AgentCore, mut blocks: Vec<Block>, prompt: &str) -> Vec<Block> {
    blocks.extend(modes::news(core).map(|news| Block::text(&news)));
    blocks.push(Block::text(non_empty(prompt)));
    blocks
}

/// The surroundings and the instructions, a block each; `branch` is empty outside git.
pub async fn surroundings(core: &AgentCore, branch: &str) -> Vec<Block> {
    let shown = if branch.is_empty() { "none: not a git checkout, or a detached head" } else { branch };
    let now = clock::now();
    let date = now.as_str().split('T').next().unwrap_or_default();
    let mut surroundings = include_str!("prompts/environment.md")
        .replace("{cwd}", &core.context.cwd.display().to_string())
        .replace("{date}", date)
        .replace("{platform}", &core.runtime.platform)
        .replace("{git_branch}", shown)
        .trim()
        .to_owned();
    if core.definition.omit_instructions {
        return vec![Block::text(&surroundings)];
    }
    let here = look_around(core, !branch.is_empty()).await;
    if let Some(status) = &here.git_status {
        surroundings.push_str(&format!("\n- Git status at the start of the session:\n{status}"));
    }
    let mut blocks = vec![Block::text(&surroundings)];
    if !here.instructions.is_empty() {
        let head = "# Instructions\n\nThe user keeps these for every agent that works here. Follow them unless the \
                    user says otherwise.\n";
        blocks.push(Block::text(format!("{head}{}", here.instructions).trim()));
    }
    blocks.extend(core.runtime.mcp.instructions(core).map(|text| Block::text(&text)));
    blocks
}

/// What the user says: with the surroundings when nothing was said before.
pub async fn user_message(agent: &Agent, prompt: &str) -> Vec<Block> {
    if agent.is_fresh() { first_message(agent, prompt).await } else { said(agent.core(), Vec::new(), prompt) }
}

/// What an agent finds in its directory, looked up once a session: children get the same bytes as their
/// parent, at no cost.
#[derive(Debug, Default)]
pub struct Surroundings {
    git_status: Option<String>,
    instructions: String,
}

/// The surroundings that were looked up, by directory.
pub type Known = Mutex<HashMap<PathBuf, Arc<Surroundings>>>;

async fn look_around(core: &AgentCore, in_git: bool) -> Arc<Surroundings> {
    let runtime = &core.runtime;
    let cwd = &core.context.cwd;
    let mut known = runtime.surroundings.lock().await;
    if let Some(found) = known.get(cwd) {
        return Arc::clone(found);
    }
    let user = runtime.paths.config_root().to_owned();
    let (home, dir, closed) = (runtime.home.clone(), cwd.clone(), core.permissions.closed.clone());
    let read = runtime.disk.run(cwd, move || {
        let places = Places { user: &user, home: home.as_deref(), cwd: &dir, closed: &closed };
        Ok(instructions::collect(places))
    });
    let git_status = async { if in_git { git_status(core).await } else { None } };
    let (read, git_status) = tokio::join!(read, git_status);
    // Only the end of the store thread can fail here, and with it everything else.
    let read = read.unwrap_or_default();
    for notice in read.notices {
        runtime.observer.event(&core.context, &AgentEvent::Notice(notice));
    }
    let found = Arc::new(Surroundings { git_status, instructions: read.text });
    known.insert(cwd.clone(), Arc::clone(&found));
    found
}

/// `git status --short`, cut; `None` when there is nothing to say or it cannot be had in time.
async fn git_status(core: &AgentCore) -> Option<String> {
    let top = core.context.cwd.clone();
    if tokio::task::spawn_blocking(move || git::may_filter(&top)).await.unwrap_or(true) {
        return Some(
            "  not looked at: the repository's own configuration has programs run over its files".to_owned(),
        );
    }
    // Nobody has been asked yet whether the programs that a repository names may run.
    let no_programs = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"];
    let argv = [&["git"], &no_programs[..], &["--no-optional-locks", "status", "--short"]].concat();
    let spec = CommandSpec::new(argv, core.context.cwd.clone(), (*core.runtime.environment).clone());
    let status = capture(spec, GIT_DEADLINE, GIT_MOST).await.ok()?;
    let text = String::from_utf8_lossy(&status.stdout).trim_end().to_owned();
    match status.exit {
        Exit::Code(0) if text.is_empty() => Some("  nothing changed".to_owned()),
        Exit::Code(0) if status.is_cut => Some(format!("{text}\n  … (cut)")),
        Exit::Code(0) => Some(text),
        _ => None,
    }
}

/// A prompt that models accept: they refuse blank text blocks.
fn non_empty(prompt: &str) -> &str {
    if prompt.trim().is_empty() { "(no prompt was given)" } else { prompt }
}
