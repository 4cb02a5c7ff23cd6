//! Notifications at the edge of their launcher's life: each is stored once, where it is read.

use super::*;
use crate::agent::context::spawn_in;
use crate::agent::subagent::launch;
use crate::agent::testing::{Bench, PATIENCE, until};
use crate::os::process;
use crate::store::background as records;
use crate::wire::background::StoppedBy;
use crate::wire::run::ProcessId;
use tokio::sync::oneshot;

/// An agent that works until it is stopped.
const SCRIPT: &str = "[[rule]]\nreply = [{ gate = \"never\" }]\n";

/// A launcher at work.
async fn launcher(bench: &Bench) -> (BackgroundId, Arc<AgentCore>) {
    let before = bench.kit.cores.lock().expect("cores").len();
    let launched = launch::launch(bench.request("ID:launcher")).await.expect("launches");
    let kit = Arc::clone(&bench.kit);
    until("it is built", || kit.cores.lock().expect("cores").len() > before).await;
    let core = Arc::clone(&bench.kit.cores.lock().expect("cores")[before]);
    (launched.id, core)
}

/// A task that it has launched, which ends when it is told to.
async fn task_of(bench: &Bench, core: &Arc<AgentCore>) -> (BackgroundId, oneshot::Sender<()>) {
    let (end, told) = oneshot::channel();
    let launch = Launch {
        id: BackgroundId::shell(),
        kind: TaskKind::Shell,
        run_id: RunId::generate(),
        description: "a task".to_owned(),
        name: None,
        launcher: Arc::clone(core),
        tool_use_id: "call".to_owned(),
        meta: None,
    };
    let work = |_: TaskControl| async move {
        let _ = told.await;
        TaskEnd::new(Outcome::Completed)
    };
    let launched = bench.runtime.background.launch(launch, work).await.expect("launches");
    (launched.id, end)
}

async fn over(bench: &Bench, task: &BackgroundId) {
    let mut state = bench.runtime.background.follow(task).expect("known");
    let ended = tokio::time::timeout(PATIENCE, state.wait_for(|state| state.is_over())).await;
    assert!(ended.is_ok_and(|ended| ended.is_ok()), "{task} ends");
}

/// How often a task was told of in an inbox, unread.
fn told(bench: &Bench, inbox: &str, task: &BackgroundId) -> usize {
    let mail = bench.post.waiting(inbox).unwrap_or_default();
    mail.iter().filter(|claimed| !claimed.message.read && claimed.message.from == task.as_str()).count()
}

#[tokio::test]
async fn who_lives_is_told_and_for_one_that_leaves_the_agent_above_it() {
    let bench = Bench::new(SCRIPT).await;
    let (id, core) = launcher(&bench).await;
    let own = core.context.id();
    let (early, end_early) = task_of(&bench, &core).await;
    let (late, end_late) = task_of(&bench, &core).await;
    end_early.send(()).expect("it waits");
    over(&bench, &early).await;
    assert_eq!((told(&bench, own.as_str(), &early), told(&bench, "team-lead", &early)), (1, 0));

    // Its last steps take a while, as with a command that does not want to end.
    let held = core.shells.hold();
    let (background, stopped) = (bench.runtime.background.clone(), id.clone());
    let stop =
        spawn_in(&bench.main.core().context, async move { background.stop(&stopped, StoppedBy::User).await });
    tokio::time::timeout(PATIENCE, core.shells.ending().cancelled()).await.expect("it leaves");
    end_late.send(()).expect("it waits");
    over(&bench, &late).await;
    assert_eq!((told(&bench, own.as_str(), &late), told(&bench, "team-lead", &late)), (0, 1));
    drop(held);
    tokio::time::timeout(PATIENCE, stop).await.expect("in time").expect("stops");
    assert_eq!(told(&bench, "team-lead", &id), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_end_that_meets_its_launchers_end_is_told_once() {
    let bench = Bench::new(SCRIPT).await;
    for _ in 0..30 {
        let (id, core) = launcher(&bench).await;
        let (task, end) = task_of(&bench, &core).await;
        let (background, stopped) = (bench.runtime.background.clone(), id.clone());
        let stop =
            spawn_in(
                &bench.main.core().context,
                async move { background.stop(&stopped, StoppedBy::User).await },
            );
        let finish = spawn_in(&bench.main.core().context, async move { end.send(()) });
        finish.await.expect("ends").expect("it waits");
        stop.await.expect("stops");
        over(&bench, &task).await;
        over(&bench, &id).await;
        let own = core.context.id();
        let places = || (told(&bench, own.as_str(), &task), told(&bench, "team-lead", &task));
        // An end is on disk before it is told.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while places() != (0, 1) && std::time::Instant::now() < deadline {
            tokio::task::yield_now().await;
        }
        assert_eq!(places(), (0, 1), "where somebody reads it");
        assert_eq!(told(&bench, "team-lead", &id), 1);
    }
}

#[tokio::test]
async fn what_a_launcher_has_not_read_when_it_is_stopped_goes_to_the_agent_above_it() {
    let bench = Bench::new(SCRIPT).await;
    let (id, core) = launcher(&bench).await;
    let own = core.context.id();
    let (task, end) = task_of(&bench, &core).await;
    end.send(()).expect("it waits");
    over(&bench, &task).await;
    assert_eq!((told(&bench, own.as_str(), &task), told(&bench, "team-lead", &task)), (1, 0));
    bench.runtime.background.stop(&id, StoppedBy::User).await.expect("stops");
    assert_eq!((told(&bench, own.as_str(), &task), told(&bench, "team-lead", &task)), (0, 1));
    let project = bench.runtime.paths.project(&core.context.session_cwd);
    let record = records::load(&project, &core.context.session, &task).expect("reads").expect("there");
    let told = record.notification.as_ref().map(|told| (told.to.as_str(), told.announced));
    assert_eq!(told, Some(("team-lead", true)));
}

#[tokio::test]
async fn a_session_that_ends_does_not_wait_for_ever_for_what_remains() {
    let bench = Bench::new(SCRIPT).await;
    let main = Arc::clone(bench.main.core());
    let (hold, held) = oneshot::channel();
    let launch = Launch {
        id: BackgroundId::shell(),
        kind: TaskKind::Shell,
        run_id: RunId::generate(),
        description: "a task".to_owned(),
        name: None,
        launcher: Arc::clone(&main),
        tool_use_id: "call".to_owned(),
        meta: None,
    };
    let work = |control: TaskControl| async move {
        assert!(hold.send(control.remains.hold()).is_ok());
        control.cancel.cancelled().await;
        TaskEnd::new(Outcome::Cancelled)
    };
    let task = bench.runtime.background.launch(launch, work).await.expect("launches").id;
    let _held = held.await.expect("it works");
    let stop = bench.runtime.background.stop_all(StoppedBy::SessionEnd);
    tokio::time::timeout(PATIENCE, stop).await.expect("it ends");
    let project = bench.runtime.paths.project(&main.context.session_cwd);
    let record = records::load(&project, &main.context.session, &task).expect("reads").expect("there");
    let error = record.outcome.and_then(|outcome| outcome.error);
    assert_eq!(
        (record.state, error.as_deref()),
        (TaskState::Cancelled, Some("its last steps did not end within 0 s"))
    );
}

#[tokio::test]
async fn what_still_runs_is_not_interrupted_whoever_runs_it() {
    let bench = Bench::new(SCRIPT).await;
    let main = Arc::clone(bench.main.core());
    let (own, _end) = task_of(&bench, &main).await;
    let project = bench.runtime.paths.project(&main.context.session_cwd);
    let session = main.context.session.clone();
    let state =
        |task: &BackgroundId| records::load(&project, &session, task).expect("reads").expect("there").state;
    // The same, as another process has written it, which lives.
    let theirs = BackgroundId::shell();
    let mut record = records::load(&project, &session, &own).expect("reads").expect("there");
    record.task_id = theirs.clone();
    record.process = process::of(1);
    records::write(&project.background(&session, &theirs), &record).expect("writes");
    let background = &bench.runtime.background;
    assert_eq!(background.reconcile(&main.context).await.expect("looks"), Vec::<String>::new());
    assert_eq!((state(&own), state(&theirs)), (TaskState::Running, TaskState::Running));

    // Another one has its number now.
    record.process = record.process.map(|gone| ProcessId { start_time: gone.start_time + 1, ..gone });
    records::write(&project.background(&session, &theirs), &record).expect("writes");
    let said = background.reconcile(&main.context).await.expect("looks");
    assert_eq!(said, ["Background command \"a task\" was interrupted"]);
    assert_eq!((state(&own), state(&theirs)), (TaskState::Running, TaskState::Failed));
    assert_eq!(told(&bench, "team-lead", &theirs), 1);
    // Once, however often.
    background.reconcile(&main.context).await.expect("looks");
    assert_eq!(told(&bench, "team-lead", &theirs), 1);
}
