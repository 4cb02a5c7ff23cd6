//! Frames: typed messages that the runtime acts on (contract §12).

use super::background::{TaskState, TaskUsage};
use super::ids::{AgentId, AskId, BackgroundId};
use super::permission::{Decision, Scope, Suggestion};
use super::task::TaskId;
use super::time::Timestamp;
use super::usage::{Money, Usage};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

macro_rules! frame_types {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// The `type` of an inbox entry. An unknown one is kept as it came.
        #[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
        pub enum FrameType {
            $($(#[$doc])* $variant,)*
            /// A type of a newer version or another program; shown, never acted on.
            Unknown(String),
        }
        impl FrameType {
            /// The name on the wire.
            pub fn as_str(&self) -> &str {
                match self { $(Self::$variant => $name,)* Self::Unknown(name) => name }
            }
            /// The type with this name.
            pub fn from_name(name: &str) -> Self {
                match name { $($name => Self::$variant,)* other => Self::Unknown(other.to_owned()) }
            }
        }
    };
}

frame_types! {
    /// Plain text between agents.
    #[default]
    PeerDm = "peer_dm",
    /// [`PermissionRequest`]
    PermissionRequest = "permission_request",
    /// [`PermissionResponse`]
    PermissionResponse = "permission_response",
    /// A confined command wants the network.
    SandboxPermissionRequest = "sandbox_permission_request",
    /// The answer to it.
    SandboxPermissionResponse = "sandbox_permission_response",
    /// [`ShutdownRequest`]
    ShutdownRequest = "shutdown_request",
    /// [`ShutdownAnswer`]
    ShutdownApproved = "shutdown_approved",
    /// [`ShutdownAnswer`]
    ShutdownRejected = "shutdown_rejected",
    /// [`IdleNotification`]
    IdleNotification = "idle_notification",
    /// A task was given to the reader.
    TaskAssignment = "task_assignment",
    /// A task was completed.
    TaskCompleted = "task_completed",
    /// [`super::frame_asks::PlanApprovalRequest`]
    PlanApprovalRequest = "plan_approval_request",
    /// [`super::frame_asks::PlanApprovalResponse`]
    PlanApprovalResponse = "plan_approval_response",
    /// [`super::frame_asks::QuestionRequest`]
    QuestionRequest = "question_request",
    /// [`super::frame_asks::QuestionResponse`]
    QuestionResponse = "question_response",
    /// [`super::frame_asks::ModeSetRequest`]
    ModeSetRequest = "mode_set_request",
    /// [`super::frame_asks::TeamPermissionUpdate`]
    TeamPermissionUpdate = "team_permission_update",
    /// [`TaskNotification`]
    TaskNotification = "task_notification",
    /// [`TaskStopRequest`]
    TaskStopRequest = "task_stop_request",
    /// [`TeammateTerminated`]
    TeammateTerminated = "teammate_terminated",
}

impl FrameType {
    /// Frames the runtime consumes; the model never sees them as mail.
    pub fn is_control(&self) -> bool {
        matches!(
            self,
            Self::PermissionRequest
                | Self::PermissionResponse
                | Self::SandboxPermissionRequest
                | Self::SandboxPermissionResponse
                | Self::ShutdownRequest
                | Self::ShutdownApproved
                | Self::ShutdownRejected
                | Self::PlanApprovalResponse
                | Self::QuestionRequest
                | Self::QuestionResponse
                | Self::ModeSetRequest
                | Self::TeamPermissionUpdate
                | Self::TaskStopRequest
        )
    }
}

impl Serialize for FrameType {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}
impl<'de> Deserialize<'de> for FrameType {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(Self::from_name(&String::deserialize(d)?))
    }
}

/// worker → leader: an ask is open (its file holds the same).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRequest {
    /// The ask.
    pub ask_id: AskId,
    /// The tool that waits.
    pub tool_name: String,
    /// The call that waits.
    pub tool_use_id: String,
    /// Its exact input.
    pub input: Box<RawValue>,
    /// What it would do, in a sentence.
    pub description: String,
    /// The rule or mode that led to the ask.
    pub rule: String,
    /// What "always" could mean.
    pub suggestions: Vec<Suggestion>,
    /// The asking agent's directory.
    pub cwd: String,
}

/// who decided → worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionResponse {
    /// The ask.
    pub ask_id: AskId,
    /// Yes or no.
    pub decision: Decision,
    /// For how long.
    pub scope: Scope,
    /// The input to run with instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_input: Option<Box<RawValue>>,
    /// A word to the asking agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Who decided.
    pub by: String,
}

/// leader → worker: please end.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShutdownRequest {
    /// Names this request in the answer.
    pub request_id: String,
    /// Until when the polite step waits.
    pub deadline: Timestamp,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// True when the leader itself ends: the worker's runtime agrees without asking its model.
    #[serde(default)]
    pub leader_leaves: bool,
}

/// worker → leader: the answer to a shutdown request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShutdownAnswer {
    /// The request.
    pub request_id: String,
    /// The worker's pane, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pane_id: Option<String>,
    /// Where the worker runs.
    pub backend_type: String,
    /// Why not, in a rejection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Why an agent is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdleReason {
    /// Done, ready for more.
    Available,
    /// Its turn was interrupted.
    Interrupted,
    /// Its turn failed.
    Failed,
    /// It cannot go on without something.
    Blocked,
}

/// worker → leader, once per change from busy to idle.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdleNotification {
    /// Why it is idle.
    pub reason: IdleReason,
    /// The final text of the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The task it still owns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// Tokens of the whole run so far.
    pub usage: Usage,
    /// Money of the whole run so far.
    pub cost: Money,
}

/// who gives it → owner: a task is yours, or yours for the taking.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskAssignment {
    /// The task.
    pub task_id: TaskId,
    /// What is to be done, in a line.
    pub subject: String,
    /// Who says so.
    pub by: String,
    /// True when the reader has to claim it first: the runtime offers it to whoever is idle.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub offer: bool,
}

/// who has done it → leader.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskCompleted {
    /// The task.
    pub task_id: TaskId,
    /// What was to be done, in a line.
    pub subject: String,
    /// Who has done it.
    pub by: String,
}

/// system → leader: a teammate is gone.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TeammateTerminated {
    /// Who.
    pub agent_id: AgentId,
    /// Which of that name.
    pub incarnation: u32,
    /// How its process or task ended.
    pub exit: String,
    /// Why.
    pub reason: String,
}

/// task → the agent that launched it, once, when it has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskNotification {
    /// Which task.
    pub task_id: BackgroundId,
    /// How it ended.
    pub status: TaskState,
    /// A few words.
    pub summary: String,
    /// What it has to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The file with all of its output.
    pub output_file: String,
    /// What it has used.
    pub usage: TaskUsage,
    /// What a fork shared with its parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<serde_json::Value>,
    /// The worktree it has left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree_path: Option<String>,
    /// The branch of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree_branch: Option<String>,
}

/// leader → the worker that owns the task: stop it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskStopRequest {
    /// Which task.
    pub task_id: BackgroundId,
}
