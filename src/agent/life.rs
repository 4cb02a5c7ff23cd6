//! The life of an agent that a call has started: turns, until nothing waits for it and nothing it has
//! launched is at work.
//!
//! Whatever reaches it is mail, delivered between rounds; mail that comes while its last answer is
//! written starts one turn more. It closes its door only when there is none, so no message is lost
//! between two runs. While it waits it offers its place to those it waits for.

use super::background::Door;
use super::core::AgentCore;
use super::ports::Mailbox;
use super::turn::{Agent, TurnEnd, TurnInput, TurnStatus};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Why an agent waits no longer.
enum Next {
    Mail,
    Over,
    Cancelled,
}

/// Runs an agent to its end; its door is closed then.
pub async fn live(agent: &mut Agent, first: TurnInput, door: &Door, cancel: &CancellationToken) -> TurnEnd {
    let core = Arc::clone(agent.core());
    let mailbox = agent.mailbox().cloned();
    let mut whole = agent.turn(first, cancel).await;
    while matches!(whole.status, TurnStatus::Completed) {
        match next(&core, mailbox.as_deref(), door, cancel).await {
            Next::Over => return whole,
            Next::Cancelled => whole.status = TurnStatus::Cancelled,
            Next::Mail => {
                let end = agent.turn(TurnInput::Mail, cancel).await;
                let showed_nothing = end.rounds == 0;
                whole = followed(whole, end);
                if showed_nothing {
                    break;
                }
            }
        }
    }
    door.close_unless(async { false }).await;
    whole
}

async fn next(
    core: &AgentCore,
    mailbox: Option<&dyn Mailbox>,
    door: &Door,
    cancel: &CancellationToken,
) -> Next {
    let background = &core.runtime.background;
    let mut changes = background.changes();
    loop {
        changes.borrow_and_update();
        // In this order: a notification is stored before its task counts as over.
        let waits_for_tasks = background.launched_by(&core.context.id()) > 0;
        if has_mail(mailbox).await {
            return tokio::select! {
                biased;
                () = core.place.retake(&core.runtime.slots) => Next::Mail,
                () = cancel.cancelled() => Next::Cancelled,
            };
        }
        if !waits_for_tasks {
            if door.close_unless(has_mail(mailbox)).await {
                return Next::Over;
            }
            continue;
        }
        core.place.offer();
        let mail = async {
            match mailbox {
                Some(mailbox) => mailbox.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Next::Cancelled,
            // Closed is what it cannot be: the registry outlives its agents.
            _ = changes.changed() => {}
            () = mail => {}
        }
    }
}

/// Whether something waits for the model. Mail that cannot be read is told by the next turn that tries.
async fn has_mail(mailbox: Option<&dyn Mailbox>) -> bool {
    match mailbox {
        Some(mailbox) => mailbox.claim(1).await.is_ok_and(|mail| !mail.is_empty()),
        None => false,
    }
}

/// Two turns as one.
fn followed(first: TurnEnd, then: TurnEnd) -> TurnEnd {
    TurnEnd {
        text: if then.text.trim().is_empty() { first.text } else { then.text },
        rounds: first.rounds + then.rounds,
        tool_uses: first.tool_uses + then.tool_uses,
        last_usage: if then.rounds == 0 { first.last_usage } else { then.last_usage },
        ..then
    }
}
