//! A look before a person is asked: a call that must fail anyway is not worth a question.
//!
//! Promises that the model learns nothing by it that it might not read: a file is looked at only where
//! `Read` of it would be allowed, or where the agent has read it.

use super::tool_context;
use crate::agent::core::AgentCore;
use crate::policy::decide::Verdict;
use crate::tools::tool::{Tool, ToolCall, ToolOutput};
use crate::wire::access::{Access, Target};
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The tool whose rules say what an agent may know of a file.
const READ: &str = "Read";

/// What the call fails with whatever the person says; `None` when it may succeed, or nobody may look.
pub(super) async fn doomed(
    core: &Arc<AgentCore>,
    tool: &Arc<dyn Tool>,
    call: ToolCall,
    access: &Access,
    cancel: &CancellationToken,
) -> Option<ToolOutput> {
    let paths = access.target.paths();
    if paths.is_empty() || !paths.iter().all(|path| may_know(core, path)) {
        return None;
    }
    let context = tool_context(core, &call.id, paths.to_vec(), cancel);
    tool.check(call, &context).await
}

fn may_know(core: &AgentCore, path: &Path) -> bool {
    let target = Target::Read(vec![path.to_owned()]);
    match core.permissions.decide(&Access { tool: READ.to_owned(), target, summary: String::new() }, None) {
        Verdict::Allow { .. } => true,
        Verdict::Ask { .. } => core.files.state(path).is_some(),
        Verdict::Deny { .. } => false,
    }
}
