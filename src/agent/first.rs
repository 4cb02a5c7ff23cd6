//! The first user message of an agent: its surroundings, then its prompt.
//!
//! What changes often stands here and not in the system prompt, whose bytes are frozen.

use super::context::AgentContext;
use super::runtime::Runtime;
use super::turn::Agent;
use crate::store::clock;
use crate::wire::block::Block;

/// The surroundings and the prompt, as two blocks.
pub fn first_message(runtime: &Runtime, context: &AgentContext, branch: &str, prompt: &str) -> Vec<Block> {
    let branch = if branch.is_empty() { "none: not a git checkout, or a detached head" } else { branch };
    let now = clock::now();
    let date = now.as_str().split('T').next().unwrap_or_default();
    let text = include_str!("prompts/environment.md")
        .replace("{cwd}", &context.cwd.display().to_string())
        .replace("{date}", date)
        .replace("{platform}", &runtime.platform)
        .replace("{git_branch}", branch);
    vec![Block::text(text.trim()), Block::text(non_empty(prompt))]
}

/// What the user says: with the surroundings when nothing was said before.
pub fn user_message(runtime: &Runtime, agent: &Agent, prompt: &str) -> Vec<Block> {
    if agent.is_fresh() {
        return first_message(runtime, &agent.core().context, agent.branch(), prompt);
    }
    vec![Block::text(non_empty(prompt))]
}

/// A prompt that models accept: they refuse blank text blocks.
fn non_empty(prompt: &str) -> &str {
    if prompt.trim().is_empty() { "(no prompt was given)" } else { prompt }
}
