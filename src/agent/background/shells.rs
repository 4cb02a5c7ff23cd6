//! Commands of an agent that go on beside it, in the registry.

use super::{Background, Launch, LaunchError, Outcome, TaskEnd};
use crate::agent::core::AgentCore;
use crate::os::command::Exit;
use crate::tools::background_shell::{self, BackgroundShell, Cut, ShellEnd};
use crate::tools::context::BackgroundShells;
use crate::tools::tool::BoxFuture;
use crate::wire::background::{StoppedBy, TaskKind};
use crate::wire::ids::{BackgroundId, RunId};
use std::sync::Arc;

/// Takes the background commands of one call.
pub struct ShellLauncher {
    core: Arc<AgentCore>,
    tool_use_id: String,
}

impl ShellLauncher {
    /// For a call of `core`.
    pub fn new(core: Arc<AgentCore>, tool_use_id: &str) -> Self {
        Self { core, tool_use_id: tool_use_id.to_owned() }
    }

    fn background(&self) -> &Background {
        &self.core.runtime.background
    }
}

impl BackgroundShells for ShellLauncher {
    fn refusal(&self) -> Option<String> {
        (!self.background().allowed()).then(|| LaunchError::TurnedOff.to_string())
    }

    fn adopt(&self, shell: BackgroundShell) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(async move {
            let launch = Launch {
                id: BackgroundId::shell(),
                kind: TaskKind::Shell,
                run_id: RunId::generate(),
                description: shell.description.clone(),
                name: None,
                launcher: Arc::clone(&self.core),
                tool_use_id: self.tool_use_id.clone(),
                meta: None,
            };
            let work = move |control: super::TaskControl| async move {
                end(background_shell::run(shell, &control.output_file, &control.cancel).await)
            };
            let launched = self.background().launch(launch, work).await.map_err(|e| e.to_string())?;
            let look = if self.core.tool_names().iter().any(|tool| tool == "TaskOutput") {
                "TaskOutput shows what it writes"
            } else {
                "the file has what it writes"
            };
            Ok(format!(
                "The command runs in the background.\ntask_id: {}\noutput_file: {}\n{look}, TaskStop ends it. You are \
                 told when it has ended; it ends with you at the latest.",
                launched.id,
                launched.output_file.display()
            ))
        })
    }
}

fn end(shell: ShellEnd) -> TaskEnd {
    let mut end = TaskEnd::new(match (shell.exit, shell.cut) {
        (_, Some(Cut::Stopped | Cut::AgentEnded)) => Outcome::Cancelled,
        (Some(exit), None) if exit.is_success() => Outcome::Completed,
        (_, Some(Cut::TimedOut)) | (Some(_) | None, None) => Outcome::Failed,
    });
    if shell.cut == Some(Cut::AgentEnded) {
        end.stopped_by = Some(StoppedBy::AgentEnd);
    }
    end.error = match (shell.exit, shell.cut) {
        (Some(exit @ Exit::Code(0)), None) => shell.note.map(|note| format!("{exit}; {note}")),
        (Some(exit), None) => Some(format!("the command ended with {exit}")),
        (_, Some(Cut::TimedOut)) => Some("its time was over; all it had started was ended".to_owned()),
        (None, None) => Some("the command was lost".to_owned()),
        (_, Some(Cut::Stopped | Cut::AgentEnded)) => None,
    };
    end.result = Some(shell.tail).filter(|tail| !tail.is_empty());
    end
}
