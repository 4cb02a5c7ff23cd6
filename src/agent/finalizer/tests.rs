//! Every tier of subagent with every way to end: what must be gone is gone, before anybody is told. Of the
//! tools, `Bash` leaves something running, `Glob` panics and `Grep` is deaf.

use super::*;
use crate::agent::subagent::{self, launch};
use crate::agent::testing::{Bench, PATIENCE, until};
use crate::wire::background::{StoppedBy, TaskState};
use crate::wire::ids::BackgroundId;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// How a child is to end; each has a rule of the script.
const SCRIPT: &str = r#"
[[rule]]
prompt = "ID:"
reply = [{ tool = "Bash", input = {} }]

[[rule]]
prompt = "ID:completed"
reply = [{ text = "Done." }]

[[rule]]
prompt = "ID:failed"
reply = [{ error = { status = 400, message = "no" } }]

[[rule]]
prompt = "ID:panicked"
reply = [{ tool = "Glob", input = {} }]

[[rule]]
prompt = "ID:cancelled"
reply = [{ gate = "never" }, { text = "Not said." }]

[[rule]]
prompt = "ID:cut"
reply = [{ tool = "Grep", input = {} }]
"#;

/// The child was built and has left a command behind.
async fn begun(bench: &Bench) -> Arc<AgentCore> {
    let kit = Arc::clone(&bench.kit);
    until("the child is built", || kit.cores.lock().expect("cores").len() == 2).await;
    let core = Arc::clone(&bench.kit.cores.lock().expect("cores")[1]);
    until("it has left a command", || core.shells.kept() > 0 || *bench.kit.ended.lock().expect("ended") > 0)
        .await;
    core
}

/// What must be gone when a child is over.
fn all_gone(bench: &Bench, core: &AgentCore, end: &str) {
    assert_eq!(*bench.kit.ended.lock().expect("ended"), 1, "{end}: its command has ended");
    assert_eq!(core.shells.kept(), 0, "{end}");
    assert!(core.place.get().is_none() && core.files.recent().is_empty(), "{end}");
    assert!(core.fork_point.snapshot().is_none() && core.todos.current().is_empty(), "{end}");
    assert_eq!(
        bench.post.waiting(core.context.id().as_str()).map(|mail| mail.len()),
        None,
        "{end}: its inbox"
    );
    assert!(bench.runtime.background.enter(&core.context.id()).is_some(), "{end}: it may be started again");
    let project = bench.runtime.paths.project(&core.context.session_cwd);
    let lines =
        std::fs::read_to_string(project.sidechain(&core.context.session, &core.context.id())).expect("lines");
    let last: serde_json::Value = serde_json::from_str(lines.lines().last().expect("a line")).expect("JSON");
    assert_eq!(last["subtype"], "run_ended", "{end}");
    let meta = std::fs::read_to_string(project.sidechain_meta(&core.context.session, &core.context.id()));
    let meta: serde_json::Value = serde_json::from_str(&meta.expect("meta")).expect("JSON");
    let said = match end {
        "completed" => "completed",
        "failed" | "panicked" => "failed",
        _ => "cancelled",
    };
    assert_eq!((&meta["status"], &last["text"]), (&said.into(), &said.into()), "{end}");
}

#[tokio::test]
async fn a_foreground_child_leaves_nothing_however_it_ends() {
    for end in ["completed", "failed", "panicked", "cancelled", "cut"] {
        let bench = Bench::new(SCRIPT).await;
        let cancel = CancellationToken::new();
        let request = bench.request(&format!("ID:{end}"));
        let stop = cancel.clone();
        let mut child =
            spawn_in(&bench.main.core().context, async move { subagent::run(request, &stop).await });
        let core = begun(&bench).await;
        match end {
            "cancelled" => cancel.cancel(),
            // Its parent's own task is cut off; the parent's end waits for what is left.
            "cut" => {
                until("it is deaf", || bench.seen.started("Grep")).await;
                child.abort();
                assert!((&mut child).await.expect_err("cut off").is_cancelled());
                bench.main.core().let_go().await;
                all_gone(&bench, &core, end);
                continue;
            }
            _ => {}
        }
        let output = tokio::time::timeout(PATIENCE, child).await.expect("in time").expect("a result");
        assert_eq!(output.is_error, end != "completed", "{end}: {output:?}");
        let text = format!("{output:?}");
        assert_eq!(text.contains("The agent failed: panicked: on purpose."), end == "panicked", "{text}");
        all_gone(&bench, &core, end);
        until("the ledger has its place again", || bench.running() == 0).await;
    }
}

#[tokio::test]
async fn a_background_child_leaves_nothing_however_it_ends() {
    for end in ["completed", "failed", "panicked", "cancelled", "cut"] {
        let bench = Bench::new(SCRIPT).await;
        let launched = launch::launch(bench.request(&format!("ID:{end}"))).await.expect("launches");
        let core = begun(&bench).await;
        let background = &bench.runtime.background;
        let mut state = background.follow(&launched.id).expect("known");
        match end {
            "cancelled" => drop(background.stop(&launched.id, StoppedBy::User).await),
            "cut" => {
                until("it is deaf", || bench.seen.started("Grep")).await;
                background.stop(&launched.id, StoppedBy::User).await;
            }
            _ => {}
        }
        let over = tokio::time::timeout(PATIENCE, state.wait_for(|state| state.is_over())).await;
        let over = *over.expect("in time").expect("the registry lives");
        let expected = match end {
            "completed" => TaskState::Completed,
            "failed" | "panicked" => TaskState::Failed,
            _ => TaskState::Cancelled,
        };
        assert_eq!(over, expected, "{end}");
        all_gone(&bench, &core, end);
        let told = bench.post.waiting("team-lead").expect("told");
        assert_eq!(told.len(), 1, "{end}: once");
        assert!(background.root_of(&BackgroundId::of_agent(&core.context.id())).is_some());
        until("the ledger has its place again", || bench.running() == 0).await;
    }
}

#[tokio::test]
async fn a_panic_in_a_turn_leaves_a_history_that_can_go_on() {
    let mut bench = Bench::new(
        "[[rule]]\nreply = [{ tool = \"Glob\", input = {} }]\n[[rule]]\nreply = [{ text = \"Here again.\" }]\n",
    )
    .await;
    let cancel = CancellationToken::new();
    let say = |text: &str| crate::agent::turn::TurnInput::Said(text.to_owned());
    let end = bench.main.turn(say("Go."), &cancel).await;
    assert_eq!(format!("{:?}", end.status), "Failed(Panicked(\"on purpose\"))");
    let end = bench.main.turn(say("And now?"), &cancel).await;
    assert_eq!((format!("{:?}", end.status), end.text.as_str()), ("Completed".to_owned(), "Here again."));
    let lines = std::fs::read_to_string(bench.main.transcript().path()).expect("lines");
    assert!(lines.contains("The call was interrupted: what ran it has broken off."), "{lines}");
}
