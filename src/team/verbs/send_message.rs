//! `SendMessage`: mail from a model to another agent. It says *stored* or why not, never less.

mod agents;

use crate::agent::core::AgentCore;
use crate::agent::ports::Mailbox;
use crate::store::slug;
use crate::team::context::Team;
use crate::team::supervisor::Supervisor;
use crate::tools::context::ToolContext;
use crate::tools::tool::{BoxFuture, Concurrency, Tool, ToolCall, ToolOutput, ToolSpec};
use crate::wire::access::{Access, Target};
use crate::wire::ids::{AgentName, AskId, USER};
use crate::wire::mail::Draft;
use crate::wire::permission::Decision;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;
use std::sync::{Arc, LazyLock};

const SCHEMA: &str = r#"{"type":"object","properties":{"to":{"type":"string","description":"A teammate's name, team-lead (or main), the id or name of a background agent, or * for every other member of the team"},"message":{"description":"Plain text for the agent to read; or, for the protocols of shutting down and of plans, one of the objects","anyOf":[{"type":"string"},{"type":"object","properties":{"type":{"type":"string","enum":["shutdown_request","shutdown_response","plan_approval_response"]},"request_id":{"type":"string","description":"In a response: the id that the request shows"},"approve":{"type":"boolean","description":"In a response: whether you agree"},"reason":{"type":"string"},"feedback":{"type":"string","description":"In a plan_approval_response: what has to change, or what to mind"}},"required":["type"]}]},"summary":{"type":"string","description":"Five to ten words for people who look on"}},"required":["to","message"],"additionalProperties":false}"#;

static SPEC: LazyLock<ToolSpec> = LazyLock::new(|| {
    ToolSpec {
    name: "SendMessage".to_owned(),
    description: "Sends a message to another agent. What you write as plain text is not seen by other \
                  agents: this tool is the only way to reach them. The message is stored safely and delivered \
                  between the rounds of the receiver, also while it works; you get its answer as a message of its \
                  own, so never wait or poll for it. Messages to you come by themselves. A subagent that has ended goes on with \
                  your message, in the background, with all it knows. To end a teammate, send it \
                  {\"type\":\"shutdown_request\",\"reason\":\"…\"}."
        .to_owned(),
    schema: SCHEMA.into(),
}
});

#[derive(Deserialize)]
struct Input {
    to: String,
    message: Body,
    summary: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Body {
    Text(String),
    Protocol(Protocol),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Protocol {
    ShutdownRequest { reason: Option<String> },
    ShutdownResponse { request_id: String, approve: bool, reason: Option<String> },
    PlanApprovalResponse { request_id: String, approve: bool, feedback: Option<String> },
}

/// The tool of one agent.
pub struct SendMessage {
    core: Arc<AgentCore>,
    team: Team,
    mailbox: Arc<dyn Mailbox>,
    supervisor: Option<Supervisor>,
}

impl SendMessage {
    /// Sends through `mailbox`; only the leader has a `supervisor`.
    pub fn new(
        core: Arc<AgentCore>,
        team: Team,
        mailbox: Arc<dyn Mailbox>,
        supervisor: Option<Supervisor>,
    ) -> Self {
        Self { core, team, mailbox, supervisor }
    }

    async fn send(&self, input: Input) -> ToolOutput {
        let text = match input.message {
            Body::Protocol(protocol) => return self.protocol(&input.to, protocol).await,
            Body::Text(text) => text,
        };
        let draft = Draft { summary: input.summary, ..Draft::text(text) };
        if input.to.trim() == "*" {
            return self.broadcast(draft).await;
        }
        match self.agent(input.to.trim()).await {
            Ok(Some(id)) => return self.send_to_agent(&id, draft).await,
            Ok(None) => {}
            Err(why) => return ToolOutput::error(format!("Not sent: {why}.")),
        }
        let to = match self.recipient(&input.to).await {
            Ok(to) => to,
            Err(why) => return ToolOutput::error(format!("{why}{}", self.agents_listed())),
        };
        match self.mailbox.send(&to, draft).await {
            Ok(receipt) => ToolOutput::ok(format!(
                "Stored in the inbox of {to} (message {}, position {}). It is delivered between {to}'s rounds.",
                receipt.id, receipt.seq
            )),
            Err(error) if error.kind == "no_such_member" => {
                ToolOutput::error(format!("Not sent: {error}.{}", self.agents_listed()))
            }
            Err(error) => ToolOutput::error(format!("Not sent: {error}.")),
        }
    }

    async fn broadcast(&self, draft: Draft) -> ToolOutput {
        let others = match self.mailbox.others().await {
            Ok(others) if others.is_empty() => {
                return ToolOutput::error("Not sent: the team has no other living member.");
            }
            Ok(others) => others,
            Err(error) => return ToolOutput::error(format!("Not sent: {error}.")),
        };
        let mut lines = Vec::with_capacity(others.len());
        let mut failed = false;
        for to in others {
            match self.mailbox.send(&to, draft.clone()).await {
                Ok(receipt) => lines.push(format!("{to}: stored (message {})", receipt.id)),
                Err(error) => {
                    failed = true;
                    lines.push(format!("{to}: not sent: {error}"));
                }
            }
        }
        let text = lines.join("\n");
        if failed { ToolOutput::error(text) } else { ToolOutput::ok(text) }
    }

    async fn protocol(&self, to: &str, protocol: Protocol) -> ToolOutput {
        match protocol {
            Protocol::ShutdownRequest { reason } => {
                let Some(supervisor) = &self.supervisor else {
                    return ToolOutput::error(
                        "Only the leader may ask an agent to shut down. Send it a text instead.",
                    );
                };
                let to = match self.recipient(to).await {
                    Ok(to) if to.is_lead() => {
                        return ToolOutput::error("The leader cannot shut itself down this way.");
                    }
                    Ok(to) => to,
                    Err(why) => return ToolOutput::error(why),
                };
                match self.mailbox.others().await {
                    Ok(others) if !others.contains(&to) => {
                        return ToolOutput::error(format!(
                            "There is no living agent {to}. {}",
                            listed(&others)
                        ));
                    }
                    Ok(_) => {}
                    Err(error) => return ToolOutput::error(format!("Not sent: {error}.")),
                }
                let by = self.mailbox.owner().as_str();
                let request =
                    supervisor.request_stop(&to, by, reason.as_deref().unwrap_or("its work is done"));
                ToolOutput::ok(format!(
                    "{to} is asked to shut down (request {request}). You are told when it has ended or refuses; do \
                     not wait for it."
                ))
            }
            Protocol::PlanApprovalResponse { request_id, approve, feedback } => {
                let to = match self.recipient(to).await {
                    Ok(to) => to,
                    Err(why) => return ToolOutput::error(why),
                };
                let decision = if approve { Decision::Allow } else { Decision::Deny };
                let id = AskId::new(request_id);
                match self.mailbox.answer_plan(&to, &id, decision, feedback).await {
                    Ok(()) if approve => {
                        ToolOutput::ok(format!("The plan of {to} is approved; it carries it out."))
                    }
                    Ok(()) => ToolOutput::ok(format!("{to} is told that its plan has to change.")),
                    Err(error) => ToolOutput::error(format!("Not answered: {error}.")),
                }
            }
            Protocol::ShutdownResponse { request_id, approve, reason } => {
                let refusal = (!approve).then(|| reason.unwrap_or_else(|| "no reason was given".to_owned()));
                match self.mailbox.answer_shutdown(&request_id, refusal).await {
                    Ok(()) if approve => ToolOutput::ok("You agreed; you end after this round."),
                    Ok(()) => {
                        ToolOutput::ok("The leader is told that you refuse, and why. Go on with your work.")
                    }
                    Err(error) => ToolOutput::error(format!("Not answered: {error}.")),
                }
            }
        }
    }

    async fn recipient(&self, to: &str) -> Result<AgentName, String> {
        let to = to.trim();
        if to == "main" || to == AgentName::team_lead().as_str() {
            if self.mailbox.owner().is_lead() {
                return Err(
                    "Not sent: that is you. What you write as your answer is what the user sees.".to_owned()
                );
            }
            return Ok(AgentName::team_lead());
        }
        if to == USER {
            return Err("Not sent: the user reads what the leader answers; write to team-lead.".to_owned());
        }
        let name = slug::agent_name(to.split_once('@').map_or(to, |(name, _)| name));
        match name {
            Ok(name) if &name == self.mailbox.owner() => Err("Not sent: that is you.".to_owned()),
            Ok(name) => Ok(name),
            Err(error) => {
                let others = self.mailbox.others().await.unwrap_or_default();
                Err(format!("Not sent: {error}. {}", listed(&others)))
            }
        }
    }
}

fn listed(names: &[AgentName]) -> String {
    let names: Vec<&str> = names.iter().map(AgentName::as_str).collect();
    if names.is_empty() {
        "Nobody can be reached.".to_owned()
    } else {
        format!("These can be reached: {}.", names.join(", "))
    }
}

impl Tool for SendMessage {
    fn spec(&self) -> &ToolSpec {
        &SPEC
    }

    fn access(&self, input: &Value, _: &Path) -> Access {
        let to = input.get("to").and_then(Value::as_str).unwrap_or_default();
        Access {
            tool: SPEC.name.clone(),
            target: Target::Message(to.to_owned()),
            summary: format!("Send a message to {to}"),
        }
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Exclusive
    }

    fn run<'a>(&'a self, call: ToolCall, _: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            match serde_json::from_value::<Input>(call.input) {
                Ok(input) => self.send(input).await,
                Err(error) => ToolOutput::error(format!(
                    "Not sent: the message must be a text, or an object with type shutdown_request, \
                     shutdown_response or plan_approval_response and its fields ({error})."
                )),
            }
        })
    }
}
