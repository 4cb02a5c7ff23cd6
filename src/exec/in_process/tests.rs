use super::*;
use crate::wire::testing::worker_spec as spec;
use std::future::{pending, ready};
use std::sync::Mutex;
use tokio::sync::oneshot;

/// How long anything here may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(30);

type Run = Box<dyn FnOnce(RunnerControl) -> BoxFuture<'static, RunnerExit> + Send>;

/// A runner that does what the test says, once.
struct Scripted(Mutex<Option<Run>>);

impl TeammateRunner for Scripted {
    fn run(
        &self,
        _spec: crate::wire::worker::WorkerSpec,
        control: RunnerControl,
    ) -> BoxFuture<'static, RunnerExit> {
        let run = self.0.lock().expect("lock").take().expect("run once");
        run(control)
    }
}

fn executor<F>(run: impl FnOnce(RunnerControl) -> F + Send + 'static) -> InProcessExecutor
where
    F: Future<Output = RunnerExit> + Send + 'static,
{
    let run: Run = Box::new(|control| Box::pin(run(control)));
    InProcessExecutor::new(Arc::new(Scripted(Mutex::new(Some(run)))))
}

fn launch(ready: BoxFuture<'static, ()>, deadline: Duration) -> Launch {
    Launch {
        spec: spec("anna", "review", std::path::Path::new("/")),
        spec_file: "/none".into(),
        ready,
        deadline,
    }
}

fn completed() -> RunnerExit {
    RunnerExit { exit: "completed".to_owned(), failed: false }
}

async fn started<F>(run: impl FnOnce(RunnerControl) -> F + Send + 'static) -> Box<dyn TeammateHandle>
where
    F: Future<Output = RunnerExit> + Send + 'static,
{
    executor(run).spawn(launch(Box::pin(ready(())), PATIENCE)).await.expect("ready")
}

async fn exit_of(handle: &dyn TeammateHandle) -> ExitReport {
    tokio::time::timeout(PATIENCE, handle.exited()).await.expect("it ends")
}

fn grace(interrupt: Duration, terminate: Duration) -> Grace {
    Grace { interrupt, terminate }
}

#[tokio::test]
async fn a_teammate_lives_until_its_runner_ends_and_says_so_to_all() {
    let (finish, finished) = oneshot::channel::<()>();
    let handle = started(|_control| async {
        finished.await.expect("told");
        completed()
    })
    .await;
    assert_eq!(
        handle.record(),
        HandleRecord {
            agent_id: crate::wire::ids::AgentId::new("anna@review"),
            run_id: crate::wire::ids::RunId::new("run-1"),
            pane_id: None,
            pane_server: None,
            process: None,
        }
    );
    assert_eq!(handle.probe().await, Liveness { alive: true, evidence: "task running".to_owned() });
    assert!(!handle.hide().await && !handle.show().await);
    finish.send(()).expect("runs");
    let expected =
        ExitReport { exit: "completed".to_owned(), kind: ExitKind::Clean, forced: false, unexpected: true };
    let (first, second) = tokio::join!(exit_of(handle.as_ref()), exit_of(handle.as_ref()));
    assert_eq!((&first, &second), (&expected, &expected));
    assert_eq!(exit_of(handle.as_ref()).await, expected);
    assert_eq!(handle.probe().await, Liveness { alive: false, evidence: "task ended: completed".to_owned() });
}

#[tokio::test]
async fn a_panic_ends_its_teammate_only() {
    let bad = started(|_control| async { panic!("at the disco") }).await;
    let good = started(|_control| pending()).await;
    assert_eq!(
        exit_of(bad.as_ref()).await,
        ExitReport {
            exit: "panicked: at the disco".to_owned(),
            kind: ExitKind::Failed,
            forced: false,
            unexpected: true
        }
    );
    assert!(good.probe().await.alive);
}

#[tokio::test]
async fn a_runner_that_panics_before_it_waits_fails_the_spawn() {
    let runner = InProcessExecutor::new(Arc::new(Scripted(Mutex::new(None))));
    let error = runner.spawn(launch(Box::pin(pending()), PATIENCE)).await.err().expect("no teammate");
    assert_eq!(error.to_string(), "wait for ready: ended before it was ready: panicked: run once");
}

#[tokio::test]
async fn an_early_end_fails_the_spawn_with_its_words() {
    let executor = executor(|_control| async { RunnerExit { exit: "no model".to_owned(), failed: true } });
    let error = executor.spawn(launch(Box::pin(pending()), PATIENCE)).await.err().expect("no teammate");
    assert_eq!(error.to_string(), "wait for ready: ended before it was ready: no model");
}

#[tokio::test]
async fn a_teammate_that_is_never_ready_is_cancelled() {
    let (seen, was_cancelled) = oneshot::channel();
    let executor = executor(|control| async move {
        control.cancel.cancelled().await;
        seen.send(()).expect("test waits");
        completed()
    });
    let error = executor.spawn(launch(Box::pin(pending()), SHORT)).await.err().expect("no teammate");
    assert_eq!(error.to_string(), "wait for ready: not ready within 30 ms");
    was_cancelled.await.expect("cancelled");
}

#[tokio::test]
async fn a_spawn_nobody_waits_for_any_more_takes_its_teammate_along() {
    let (seen, was_cancelled) = oneshot::channel();
    let executor = executor(|control| async move {
        control.cancel.cancelled().await;
        seen.send(()).expect("test waits");
        completed()
    });
    let spawn = executor.spawn(launch(Box::pin(pending()), PATIENCE));
    assert!(tokio::time::timeout(SHORT, spawn).await.is_err());
    tokio::time::timeout(PATIENCE, was_cancelled).await.expect("in time").expect("cancelled");
}

#[tokio::test]
async fn terminate_lets_it_end_in_order_first() {
    let handle = started(|control| async move {
        control.cancel.cancelled().await;
        RunnerExit { exit: "cancelled".to_owned(), failed: false }
    })
    .await;
    let report =
        ExitReport { exit: "cancelled".to_owned(), kind: ExitKind::Clean, forced: false, unexpected: false };
    assert_eq!(handle.terminate(grace(PATIENCE, PATIENCE)).await, report);
    assert_eq!(handle.terminate(grace(PATIENCE, PATIENCE)).await, report);
}

#[tokio::test]
async fn one_that_ignores_the_cancel_is_aborted() {
    let handle = started(|_control| pending()).await;
    assert_eq!(
        handle.terminate(grace(SHORT, PATIENCE)).await,
        ExitReport { exit: "aborted".to_owned(), kind: ExitKind::Killed, forced: true, unexpected: false }
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_never_yields_is_fenced() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (begin, begun) = oneshot::channel();
    let handle = started(move |_control| async move {
        begin.send(()).expect("test waits");
        released.recv().ok();
        completed()
    })
    .await;
    begun.await.expect("it runs");
    let fenced =
        ExitReport { exit: "fenced".to_owned(), kind: ExitKind::Fenced, forced: true, unexpected: false };
    assert_eq!(handle.terminate(grace(SHORT, SHORT)).await, fenced);
    drop(release);
    // Its late end changes nothing of what was said.
    assert_eq!(exit_of(handle.as_ref()).await, fenced);
}

#[tokio::test(start_paused = true)]
async fn one_whose_last_steps_take_long_is_not_fenced() {
    let leaving = |time: Duration| {
        started(move |control| async move {
            // As its finalizer does, in a task of its own.
            control.leaving.spawn(tokio::time::sleep(time));
            pending().await
        })
    };
    let report = |exit: &str| ExitReport {
        exit: exit.to_owned(),
        kind: ExitKind::Killed,
        forced: true,
        unexpected: false,
    };
    let long = leaving(Duration::from_secs(25)).await;
    assert_eq!(long.terminate(grace(SHORT, SHORT)).await, report("aborted"));
    let endless = leaving(Duration::from_secs(3600)).await;
    let said = report("aborted; its last steps did not end within 60 s");
    assert_eq!(endless.terminate(grace(SHORT, SHORT)).await, said);
}

#[tokio::test]
async fn an_interrupt_reaches_the_runner_and_leaves_it_alive() {
    let (begin, begun) = oneshot::channel();
    let handle = started(|mut control| async move {
        control.interrupt.borrow_and_update();
        begin.send(()).expect("test waits");
        control.interrupt.changed().await.expect("handle lives");
        RunnerExit { exit: format!("interrupts: {}", *control.interrupt.borrow()), failed: false }
    })
    .await;
    begun.await.expect("a turn begins");
    assert!(handle.probe().await.alive);
    handle.interrupt().await;
    assert_eq!(exit_of(handle.as_ref()).await.exit, "interrupts: 1");
}
