//! The border to checks that stand outside the program: what happens, to whom, and what they may say.
//!
//! Implemented by `hooks`. Events are typed here and become JSON there; what an answer means at each
//! event is decided by the loop and the pipeline, never by the check itself.

use super::context::{AgentContext, Tier};
use super::core::AgentCore;
use super::events::{AgentEvent, Trigger};
use super::ports::BoxFuture;
use crate::store::paths::Paths;
use crate::tools::shells::Shells;
use crate::wire::hooks::{HookEvent, HookSettings};
use crate::wire::ids::{AgentId, AgentName, SessionId, TeamName};
use crate::wire::permission::{PermissionMode, Suggestion};
use crate::wire::task::TaskId;
use serde_json::value::RawValue;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// Whom an event is about.
#[derive(Debug, Clone)]
pub struct Scene<'a> {
    /// The agent.
    pub agent_id: AgentId,
    /// What kind it is.
    pub agent_type: &'a str,
    /// The main session it belongs to.
    pub session: &'a SessionId,
    /// Its own transcript.
    pub transcript: PathBuf,
    /// Its directory.
    pub cwd: &'a Path,
    /// The directory of the main session.
    pub project: &'a Path,
    /// Its mode.
    pub mode: PermissionMode,
    /// The hooks of its definition.
    pub own: &'a HookSettings,
    /// Who keeps what a hook leaves running, until the agent ends; it ends with the hook when left out.
    pub shells: Option<&'a Shells>,
}

/// A call of a tool.
#[derive(Debug, Clone, Copy)]
pub struct GateCall<'a> {
    /// The tool.
    pub tool: &'a str,
    /// Its exact input.
    pub input: &'a RawValue,
    /// The call.
    pub id: &'a str,
}

/// Why a session begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionSource {
    /// It is new.
    Startup,
    /// It goes on from its transcript.
    Resume,
    /// It goes on from a summary.
    Compact,
    /// It is new, in the place of one before it.
    Clear,
}

impl SessionSource {
    /// Its name for hooks.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Resume => "resume",
            Self::Compact => "compact",
            Self::Clear => "clear",
        }
    }
}

/// Why a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEnding {
    /// The person leaves.
    Exit,
    /// The work of a headless run is done.
    Done,
    /// A signal, or a terminal that is gone.
    Signal,
    /// Another one takes its place.
    Clear,
}

impl SessionEnding {
    /// Its name for hooks.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Done => "done",
            Self::Signal => "signal",
            Self::Clear => "clear",
        }
    }
}

/// A working tree of an agent's own.
#[derive(Debug, Clone, Copy)]
pub struct GateTree<'a> {
    /// Its top.
    pub path: &'a Path,
    /// Its branch.
    pub branch: &'a str,
}

/// A task of the team's list.
#[derive(Debug, Clone, Copy)]
pub struct GateTask<'a> {
    /// Its number, once it has one.
    pub id: Option<TaskId>,
    /// What is to be done, in a line.
    pub subject: &'a str,
    /// All of it.
    pub description: &'a str,
    /// Who makes or completes it.
    pub by: &'a AgentName,
    /// Whose list it is on.
    pub team: &'a TeamName,
}

/// An agent has given its final answer.
#[derive(Debug, Clone, Copy)]
pub struct Answered<'a> {
    /// True when a hook has sent it on in this turn before.
    pub again: bool,
    /// The answer.
    pub text: &'a str,
}

/// What happens.
#[derive(Debug, Clone, Copy)]
pub enum GateEvent<'a> {
    /// A session begins.
    SessionStart(SessionSource),
    /// A session ends.
    SessionEnd(SessionEnding),
    /// The user has said something.
    UserPromptSubmit(&'a str),
    /// A call is about to be decided.
    PreToolUse(GateCall<'a>),
    /// A call has run.
    PostToolUse {
        /// The call, as it ran.
        call: GateCall<'a>,
        /// The text of its result.
        response: &'a str,
        /// Whether it failed.
        is_error: bool,
    },
    /// A call needs a person.
    PermissionRequest {
        /// The call.
        call: GateCall<'a>,
        /// The rule or mode that led here.
        rule: &'a str,
        /// What "always" could mean.
        suggestions: &'a [Suggestion],
    },
    /// Somebody waits for the person.
    Notification {
        /// For what, as a word.
        kind: &'a str,
        /// In a sentence.
        message: &'a str,
    },
    /// The main agent has answered.
    Stop(Answered<'a>),
    /// A subagent begins.
    SubagentStart,
    /// A subagent has answered.
    SubagentStop(Answered<'a>),
    /// A teammate has answered and is about to wait.
    TeammateIdle {
        /// Its answer.
        answered: Answered<'a>,
        /// Its name.
        name: &'a AgentName,
        /// Its team.
        team: &'a TeamName,
    },
    /// A task is about to be put on the list.
    TaskCreated(GateTask<'a>),
    /// A task is about to be completed.
    TaskCompleted(GateTask<'a>),
    /// A conversation is about to be compacted.
    PreCompact {
        /// Why.
        trigger: Trigger,
        /// What the person wants kept above all.
        focus: Option<&'a str>,
    },
    /// A worktree was made, and its agent is about to be started in it.
    WorktreeCreate(GateTree<'a>),
    /// A worktree in which nothing was new is gone.
    WorktreeRemove(GateTree<'a>),
}

impl GateEvent<'_> {
    /// Its kind.
    pub fn kind(&self) -> HookEvent {
        match self {
            Self::SessionStart(_) => HookEvent::SessionStart,
            Self::SessionEnd(_) => HookEvent::SessionEnd,
            Self::UserPromptSubmit(_) => HookEvent::UserPromptSubmit,
            Self::PreToolUse(_) => HookEvent::PreToolUse,
            Self::PostToolUse { .. } => HookEvent::PostToolUse,
            Self::PermissionRequest { .. } => HookEvent::PermissionRequest,
            Self::Notification { .. } => HookEvent::Notification,
            Self::Stop(_) => HookEvent::Stop,
            Self::SubagentStart => HookEvent::SubagentStart,
            Self::SubagentStop(_) => HookEvent::SubagentStop,
            Self::TeammateIdle { .. } => HookEvent::TeammateIdle,
            Self::TaskCreated(_) => HookEvent::TaskCreated,
            Self::TaskCompleted(_) => HookEvent::TaskCompleted,
            Self::PreCompact { .. } => HookEvent::PreCompact,
            Self::WorktreeCreate(_) => HookEvent::WorktreeCreate,
            Self::WorktreeRemove(_) => HookEvent::WorktreeRemove,
        }
    }
}

/// What the checks say together: a refusal beats a question, a question beats a yes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum GateVerdict {
    /// Nothing.
    #[default]
    Pass,
    /// It need not be asked about; rules that deny still do.
    Allow,
    /// A person is to decide, for this reason.
    Ask(String),
    /// No, for this reason.
    Block(String),
}

/// What came of an event.
#[derive(Debug, Clone, Default)]
pub struct GateOutcome {
    /// The decision.
    pub verdict: GateVerdict,
    /// The agent is to stop altogether, for this reason.
    pub stop: Option<String>,
    /// An input for the call instead of its own.
    pub updated_input: Option<Box<RawValue>>,
    /// What the model should know, one text a hook.
    pub context: Vec<String>,
    /// What the person should know.
    pub notices: Vec<String>,
}

impl GateOutcome {
    /// Why something is not to happen, where refusing and stopping are the same.
    pub fn refusal(&self) -> Option<&str> {
        match (&self.verdict, &self.stop) {
            (GateVerdict::Block(why), _) | (_, Some(why)) => Some(why),
            (GateVerdict::Pass | GateVerdict::Allow | GateVerdict::Ask(_), None) => None,
        }
    }
}

/// Checks around what agents do that stand outside the program.
pub trait Gates: Send + Sync {
    /// Runs what is to run at this event, for at most as long as each of it may take. What fails is a
    /// notice, never a refusal.
    fn pass<'a>(
        &'a self,
        scene: &'a Scene<'a>,
        event: GateEvent<'a>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, GateOutcome>;

    /// Whether something runs at this event whatever the agent's definition brings.
    fn listens(&self, event: HookEvent) -> bool;
}

impl AgentCore {
    /// Lets an event of this agent pass the checks; what the person should know is observed.
    pub async fn gate(&self, event: GateEvent<'_>, cancel: &CancellationToken) -> GateOutcome {
        let scene = self.scene();
        let outcome = self.runtime.gates.pass(&scene, event, cancel).await;
        for notice in &outcome.notices {
            self.runtime.observer.event(&self.context, &AgentEvent::Notice(notice.clone()));
        }
        outcome
    }

    fn scene(&self) -> Scene<'_> {
        let context = &self.context;
        Scene {
            agent_id: context.id(),
            agent_type: &context.agent_type,
            session: &context.session,
            transcript: transcript_of(&self.runtime.paths, context),
            cwd: &context.cwd,
            project: &context.session_cwd,
            mode: self.permissions.mode(),
            own: &self.definition.hooks,
            shells: Some(&self.shells),
        }
    }
}

/// An agent that is not there yet, or no more: what its hooks leave running ends with them.
pub(super) fn scene_of<'a>(
    paths: &Paths,
    context: &'a AgentContext,
    cwd: &'a Path,
    mode: PermissionMode,
    own: &'a HookSettings,
) -> Scene<'a> {
    Scene {
        agent_id: context.id(),
        agent_type: &context.agent_type,
        session: &context.session,
        transcript: transcript_of(paths, context),
        cwd,
        project: &context.session_cwd,
        mode,
        own,
        shells: None,
    }
}

/// The transcript of an agent.
fn transcript_of(paths: &Paths, context: &AgentContext) -> PathBuf {
    let project = paths.project(&context.session_cwd);
    match context.tier {
        Tier::Main => project.transcript(&context.session),
        Tier::Teammate => project.member_sidechain(&context.session, &context.id(), context.incarnation),
        Tier::Subagent => project.sidechain(&context.session, &context.id()),
    }
}
