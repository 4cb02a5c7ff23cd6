//! Teammates in panes of real tmux servers on private sockets, with scripts as workers.

#![expect(clippy::expect_used, reason = "a test says what it expected by failing")]

use festoon::exec::tmux::{self, TmuxExecutor, TmuxOptions, TmuxTarget};
use festoon::os::process;
use festoon::team::executor::{
    ExitKind, ExitReport, Grace, Launch, Liveness, SpawnError, TeammateExecutor, TeammateHandle,
};
use festoon::wire::ids::{AgentId, RunId};
use festoon::wire::run::{ProcessId, RunRecord};
use festoon::wire::team::Member;
use festoon::wire::worker::WorkerSpec;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

/// How long anything here may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(300);
/// A worker that is ready at once and then does nothing.
const IDLE: &str = "touch \"$HERE/ready\"; while :; do sleep 1000; done";

/// A tmux of its own: sockets in a directory of the test, gone with it.
struct Tmux {
    socket: String,
    dir: TempDir,
    env: BTreeMap<String, String>,
}

impl Tmux {
    fn none() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = TempDir::new().expect("temp dir");
        let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
        let env = [
            ("PATH", std::env::var("PATH").expect("PATH")),
            ("TERM", "xterm-256color".to_owned()),
            ("SHELL", "/bin/false".to_owned()),
            ("TMUX_TMPDIR", text(dir.path())),
            ("HOME", text(dir.path())),
        ];
        Self {
            socket: format!("festoon-test-{}-{n}", std::process::id()),
            env: env.map(|(name, value)| (name.to_owned(), value)).into(),
            dir,
        }
    }

    /// A user's server with unusual settings and one pane, the leader's.
    fn with_leader(columns: u32, rows: u32) -> Self {
        let tmux = Self::none();
        fs::write(
            tmux.dir.path().join("conf"),
            "set -g base-index 1\nsetw -g pane-base-index 1\nset -g default-shell /bin/false\n\
             set -g default-command 'exit 3'\nset -g remain-on-exit off\nset -g renumber-windows on\n",
        )
        .expect("conf");
        let (columns, rows) = (columns.to_string(), rows.to_string());
        tmux.ok(&["new-session", "-d", "-x", &columns, "-y", &rows, "-s", "user", "sleep", "1000"]);
        tmux
    }

    fn run(&self, args: &[&str]) -> Output {
        let conf = self.dir.path().join("conf");
        Command::new("tmux")
            .args(["-L", &self.socket, "-f"])
            .arg(conf)
            .args(args)
            .env_clear()
            .envs(&self.env)
            .output()
            .expect("tmux runs")
    }

    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    }

    fn panes(&self, format: &str) -> Vec<String> {
        let output = self.run(&["list-panes", "-a", "-F", format]);
        String::from_utf8(output.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
    }

    fn pane(&self, pane: &str, format: &str) -> String {
        let all = self.panes(&format!("#{{pane_id}} {format}"));
        let prefix = format!("{pane} ");
        all.iter().find_map(|line| line.strip_prefix(&prefix)).expect("the pane is there").to_owned()
    }

    fn inside(&self) -> BTreeMap<String, String> {
        let leader = self.ok(&["list-panes", "-a", "-F", "#{socket_path},#{pid},0 #{pane_id}"]);
        let (tmux, pane) = leader.lines().next().and_then(|line| line.split_once(' ')).expect("a pane");
        let mut env = self.env.clone();
        env.insert("TMUX".to_owned(), tmux.to_owned());
        env.insert("TMUX_PANE".to_owned(), pane.to_owned());
        env
    }

    /// The executor of a leader in the first pane.
    fn beside(&self, worker: &Worker) -> TmuxExecutor {
        self.executor(worker, self.inside())
    }

    fn executor(&self, worker: &Worker, env: BTreeMap<String, String>) -> TmuxExecutor {
        // A loaded machine may take long to say how a process ended.
        let options = TmuxOptions { status_wait: PATIENCE, ..TmuxOptions::new(worker.program.clone(), env) };
        TmuxExecutor::detect(&self.socket, options)
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

/// A script that stands for our program, and the directory it writes into.
struct Worker {
    program: PathBuf,
    dir: TempDir,
}

impl Worker {
    fn new(script: &str) -> Self {
        Self::interpreted("/bin/sh", script)
    }
    fn interpreted(interpreter: &str, script: &str) -> Self {
        let dir = TempDir::new().expect("temp dir");
        let program = dir.path().join("worker");
        let here = dir.path().display();
        fs::write(&program, format!("#!{interpreter}\nHERE='{here}'\n{script}\n")).expect("script");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
        Self { program, dir }
    }
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("it was written")
    }
    fn launch(&self, name: &str) -> Launch {
        let ready = self.path("ready");
        Launch {
            spec: spec(name, self.dir.path()),
            spec_file: self.path("spec.json"),
            ready: Box::pin(async move { until(|| ready.exists()).await }),
            deadline: PATIENCE,
        }
    }
    /// The pids that the script wrote into a file.
    fn pids(&self, name: &str) -> Vec<u32> {
        self.read(name).split_whitespace().map(|pid| pid.parse().expect("pid")).collect()
    }
}

fn spec(name: &str, cwd: &Path) -> WorkerSpec {
    serde_json::from_value(json!({
        "version": 1, "programVersion": "0", "stateRoot": "/", "team": "review", "name": name,
        "agentId": format!("{name}@review"), "incarnation": 1, "runId": format!("run-{name}"),
        "leadSessionId": "lead", "leadCwd": "/", "sessionId": "own", "toolUseId": null,
        "description": "", "prompt": "",
        "definition": { "name": "general-purpose", "description": "", "systemPrompt": "" },
        "model": "scripted:none", "permissionMode": "default", "rules": [],
        "projectRoot": cwd, "additionalDirectories": [], "cwd": cwd, "color": "blue", "backend": "tmux", "depth": 1,
        "asks": "wait", "retry": {}, "settings": {},
    }))
    .expect("a spec")
}

/// The row and the record of a teammate, as a later leader would read them.
fn traces(handle: &dyn TeammateHandle) -> (Member, RunRecord) {
    let record = handle.record();
    let process = record.process.expect("a process");
    let now = "2026-01-01T00:00:00.000Z";
    let member = json!({
        "agentId": record.agent_id, "agentName": "anna", "displayName": "anna", "agentType": "x",
        "model": "scripted:none", "color": "blue", "backendType": "tmux", "paneId": record.pane_id, "paneServer": record.pane_server,
        "incarnation": 1, "permissionMode": "default", "cwd": "/", "worktreePath": null,
        "sessionId": "own", "joinedAt": now,
    });
    let run = json!({
        "agentId": record.agent_id, "incarnation": 1, "runId": record.run_id, "state": "idle",
        "since": now, "pid": process.pid, "startTime": process.start_time,
        "bootId": process.boot_id, "host": process.host, "version": "0",
    });
    (serde_json::from_value(member).expect("member"), serde_json::from_value(run).expect("run"))
}

async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        sleep(Duration::from_millis(10)).await;
    }
}

async fn soon(what: &str, condition: impl FnMut() -> bool) {
    assert!(timeout(PATIENCE, until(condition)).await.is_ok(), "{what}");
}

async fn exit_of(handle: &dyn TeammateHandle) -> ExitReport {
    timeout(PATIENCE, handle.exited()).await.expect("it ends")
}

fn grace(terminate: Duration) -> Grace {
    Grace { interrupt: Duration::ZERO, terminate }
}

fn pane_of(handle: &dyn TeammateHandle) -> String {
    handle.record().pane_id.expect("a pane")
}

fn process_of(handle: &dyn TeammateHandle) -> ProcessId {
    handle.record().process.expect("a process")
}

async fn spawn(executor: &TmuxExecutor, worker: &Worker, name: &str) -> Box<dyn TeammateHandle> {
    executor.spawn(worker.launch(name)).await.expect("it starts")
}

async fn refusal(executor: &TmuxExecutor, launch: Launch) -> SpawnError {
    timeout(PATIENCE, executor.spawn(launch)).await.expect("in time").err().expect("it does not start")
}

/// What must not change: every pane that was there before, with its place.
const EVERYTHING: &str = "#{pane_id} #{pane_pid} #{window_id} #{window_index} #{pane_left},#{pane_top} \
     #{pane_width}x#{pane_height} #{pane_active} #{window_active}";

#[tokio::test]
async fn a_teammate_stands_beside_its_leader_as_the_panes_own_process() {
    let tmux = Tmux::with_leader(200, 50);
    let worker =
        Worker::new(&format!(r#"printf '%s\n' "$0" "$@" > "$HERE/args"; pwd > "$HERE/cwd"; {IDLE}"#));
    let executor = tmux.beside(&worker);
    assert_eq!(executor.attach_command(), None);
    let handle = spawn(&executor, &worker, "anna").await;

    let record = handle.record();
    assert_eq!((record.agent_id, record.run_id), (AgentId::new("anna@review"), RunId::new("run-anna")));
    assert_eq!(
        tmux.panes(
            "#{pane_id} #{pane_left} #{pane_width} #{pane_height} #{pane_active} #{window_index} \
             #{pane_title} #{@festoon}"
        )
        .iter()
        .map(|line| line.replace(&tmux.pane("%0", "#{pane_title}"), "T"))
        .collect::<Vec<_>>(),
        ["%0 0 100 50 1 1 T ", "%1 101 99 50 0 1 anna anna@review/run-anna"]
    );
    let process = process_of(handle.as_ref());
    assert_eq!(tmux.pane("%1", "#{pane_pid}"), process.pid.to_string());
    let stat = process::stat(process.pid).expect("it runs");
    assert_eq!((stat.session, stat.group), (process.pid, process.pid));
    assert_eq!(
        handle.probe().await,
        Liveness { alive: true, evidence: format!("pid {} running in pane %1", process.pid) }
    );

    let program = worker.program.display();
    let spec_file = worker.path("spec.json");
    assert_eq!(worker.read("args"), format!("{program}\nteammate\n--spec\n{}\n", spec_file.display()));
    assert_eq!(worker.read("cwd").trim(), worker.dir.path().to_str().expect("UTF-8"));

    let report = handle.terminate(grace(PATIENCE)).await;
    assert_eq!(
        report,
        ExitReport { exit: "signal 15".to_owned(), kind: ExitKind::Killed, forced: true, unexpected: false }
    );
    assert_eq!(tmux.panes("#{pane_id} #{pane_width}"), ["%0 200"]);
    assert_eq!(
        handle.probe().await,
        Liveness { alive: false, evidence: format!("pid {} gone", process.pid) }
    );
}

#[tokio::test]
async fn arguments_and_environment_arrive_as_they_are() {
    let odd = "a b'c\"d $HOME `id` #{pane_id} %H \\\n;x;";
    let tmux = Tmux::none();
    let worker = Worker::new(&format!(r#"printf '%s' "$3" > "$HERE/args"; env -0 > "$HERE/env"; {IDLE}"#));
    let mut env = tmux.env.clone();
    env.insert("LOGNAME".to_owned(), odd.to_owned());
    env.insert("SECRET_API_KEY".to_owned(), "secret".to_owned());
    let executor = tmux.executor(&worker, env);
    let directory = worker.path("dir #{pane_id} %H;");
    fs::create_dir(&directory).expect("directory");
    let mut launch = worker.launch("anna");
    launch.spec_file = PathBuf::from(format!("/{odd}"));
    launch.spec.cwd = directory.clone();
    let handle = executor.spawn(launch).await.expect("it starts");

    assert_eq!(worker.read("args"), format!("/{odd}"));
    let process = process_of(handle.as_ref());
    assert_eq!(fs::read_link(format!("/proc/{}/cwd", process.pid)).expect("its directory"), directory);
    let env = worker.read("env");
    let variables: BTreeMap<&str, &str> = env.split('\0').filter_map(|pair| pair.split_once('=')).collect();
    assert_eq!(variables.get("LOGNAME"), Some(&odd));
    assert_eq!(variables.get("SECRET_API_KEY"), None);
    handle.terminate(grace(PATIENCE)).await;
}

#[tokio::test]
async fn a_private_server_starts_with_the_first_pane_and_ends_with_the_last() {
    let tmux = Tmux::none();
    let worker = Worker::new(IDLE);
    let executor = tmux.executor(&worker, tmux.env.clone());
    assert_eq!(executor.attach_command(), Some(format!("tmux -L {} attach", tmux.socket)));
    let anna = spawn(&executor, &worker, "anna").await;
    let bert = spawn(&executor, &worker, "bert").await;
    assert_eq!(
        tmux.panes("#{session_name} #{window_index} #{pane_width}x#{pane_height} #{@festoon}"),
        ["festoon 0 100x50 anna@review/run-anna", "festoon 0 99x50 bert@review/run-bert"]
    );
    anna.terminate(grace(PATIENCE)).await;
    bert.terminate(grace(PATIENCE)).await;
    soon("the server is gone", || !tmux.run(&["list-sessions"]).status.success()).await;
    // And it starts again.
    let carl = spawn(&executor, &worker, "carl").await;
    carl.terminate(grace(PATIENCE)).await;
}

#[tokio::test]
async fn a_worker_that_does_not_start_leaves_its_last_words_and_nothing_else() {
    let tmux = Tmux::with_leader(200, 50);
    let before = tmux.panes(EVERYTHING);

    let fails = Worker::new("echo 'the spec is unreadable' >&2; exit 3");
    let error = refusal(&tmux.beside(&fails), fails.launch("anna")).await;
    assert_eq!(
        error.to_string(),
        "wait for ready: it ended before it was ready (exit 3); its last words: the spec is unreadable"
    );
    assert_eq!(tmux.panes(EVERYTHING), before);

    let leaves = Worker::new("exit 0");
    let error = refusal(&tmux.beside(&leaves), leaves.launch("anna")).await;
    assert_eq!(error.to_string(), "wait for ready: it ended before it was ready (exit 0)");
    assert_eq!(tmux.panes(EVERYTHING), before);

    // tmux itself cannot start it: its interpreter is missing.
    let broken = Worker::interpreted("/does/not/exist", "");
    let error = refusal(&tmux.beside(&broken), broken.launch("anna")).await;
    assert_eq!(error.step, "wait for ready");
    assert_eq!(tmux.panes(EVERYTHING), before);

    let mut missing = Worker::new("");
    missing.program = PathBuf::from("/does/not/exist");
    let error = refusal(&tmux.beside(&missing), missing.launch("anna")).await;
    assert_eq!(error.to_string(), "prepare worker: /does/not/exist is not our program");
    let mut launch = leaves.launch("anna");
    launch.spec.cwd = PathBuf::from("/does/not/exist");
    let error = refusal(&tmux.beside(&leaves), launch).await;
    assert_eq!(error.to_string(), "prepare worker: /does/not/exist is no directory");
    assert_eq!(tmux.panes(EVERYTHING), before);
}

#[tokio::test]
async fn a_worker_that_is_never_ready_and_ignores_term_is_gone_all_the_same() {
    let tmux = Tmux::with_leader(200, 50);
    let before = tmux.panes(EVERYTHING);
    let worker = Worker::new(
        "trap '' TERM HUP INT; echo 'still thinking'; echo $$ > \"$HERE/pids\"; while :; do sleep 1000; done",
    );
    let mut launch = worker.launch("anna");
    launch.deadline = Duration::from_secs(2);
    let error = refusal(&tmux.beside(&worker), launch).await;
    assert_eq!(
        error.to_string(),
        "wait for ready: it was not ready within 2000 ms; its last words: still thinking"
    );
    assert_eq!(tmux.panes(EVERYTHING), before);
    assert_eq!(process::of(worker.pids("pids")[0]), None);
}

#[tokio::test]
async fn a_spawn_nobody_waits_for_any_more_is_undone() {
    let tmux = Tmux::with_leader(200, 50);
    let before = tmux.panes(EVERYTHING);
    let worker = Worker::new("while :; do sleep 1000; done");
    let executor = tmux.beside(&worker);
    assert!(timeout(SHORT, executor.spawn(worker.launch("anna"))).await.is_err());
    soon("the pane is gone", || tmux.panes(EVERYTHING) == before).await;
}

#[tokio::test]
async fn a_kill_from_outside_is_told_to_all() {
    let tmux = Tmux::with_leader(200, 50);
    let worker = Worker::new(IDLE);
    let executor = tmux.beside(&worker);
    let handle = spawn(&executor, &worker, "anna").await;
    process::signal(&process_of(handle.as_ref()), process::Signal::Kill).expect("killed");
    let (first, second) = tokio::join!(exit_of(handle.as_ref()), exit_of(handle.as_ref()));
    let expected =
        ExitReport { exit: "signal 9".to_owned(), kind: ExitKind::Killed, forced: false, unexpected: true };
    assert_eq!((&first, &second), (&expected, &expected));
    assert_eq!(exit_of(handle.as_ref()).await, expected);
    assert_eq!(handle.terminate(grace(PATIENCE)).await, expected);
    assert_eq!(tmux.panes("#{pane_id}"), ["%0"]);
}

#[tokio::test]
async fn a_server_that_hangs_does_not_hold_back_the_news() {
    let tmux = Tmux::with_leader(200, 50);
    let worker = Worker::new(IDLE);
    let options = TmuxOptions::new(worker.program.clone(), tmux.inside());
    let executor = TmuxExecutor::detect(&tmux.socket, options);
    let handle = spawn(&executor, &worker, "anna").await;
    let server = tmux.ok(&["display-message", "-p", "#{pid}"]).parse().expect("a pid");
    let server = process::of(server).expect("it runs");
    process::signal(&server, process::Signal::Stop).expect("stopped");
    let killed = Instant::now();
    process::signal(&process_of(handle.as_ref()), process::Signal::Kill).expect("killed");
    let report = exit_of(handle.as_ref()).await;
    let took = killed.elapsed();
    process::signal(&server, process::Signal::Continue).expect("continued");
    assert_eq!((report.exit.as_str(), report.kind), ("gone, and tmux does not answer", ExitKind::Unknown));
    // Within a second; three leave room for a loaded machine, and are less than a call's deadline.
    assert!(took < Duration::from_secs(3), "took {took:?}");
    handle.terminate(grace(PATIENCE)).await;
    assert_eq!(tmux.panes("#{pane_id}"), ["%0"]);
}

#[tokio::test]
async fn an_end_leaves_nothing_to_be_shown_in_the_users_server() {
    let tmux = Tmux::with_leader(200, 50);
    let worker = Worker::new("touch \"$HERE/ready\"; until [ -e \"$HERE/go\" ]; do sleep 0.02; done; exit 7");
    let executor = tmux.beside(&worker);
    let handle = spawn(&executor, &worker, "anna").await;
    fs::write(worker.path("go"), "").expect("go");
    exit_of(handle.as_ref()).await;
    soon("its pane is gone", || tmux.panes("#{pane_id}") == ["%0"]).await;
    // After what the pane's own end has set going.
    tmux.ok(&["run-shell", "-d", "4", "-C", "set-option -g @later yes"]);
    soon("its time is over", || tmux.run(&["show-options", "-gv", "@later"]).stdout == b"yes\n").await;
    tmux.ok(&["new-session", "-d", "-s", "next", "sleep", "1000"]);
    assert_eq!(tmux.panes("#{pane_id} [#{pane_mode}]"), ["%2 []", "%0 []"]);
}

#[tokio::test]
async fn an_end_by_itself_is_told_with_its_status() {
    let tmux = Tmux::with_leader(200, 50);
    let worker = Worker::new("touch \"$HERE/ready\"; until [ -e \"$HERE/go\" ]; do sleep 0.02; done; exit 7");
    let executor = tmux.beside(&worker);
    let handle = spawn(&executor, &worker, "anna").await;
    fs::write(worker.path("go"), "").expect("go");
    assert_eq!(
        exit_of(handle.as_ref()).await,
        ExitReport { exit: "exit 7".to_owned(), kind: ExitKind::Failed, forced: false, unexpected: true }
    );
}

#[tokio::test]
async fn terminate_reaches_every_group_of_the_session() {
    let tmux = Tmux::with_leader(200, 50);
    // Jobs of a shell with job control stand in groups of their own; all ignore TERM and HUP.
    let worker = Worker::new(
        "trap '' TERM HUP INT; set -m; sleep 1000 & one=$!; (sleep 1001; :) & two=$!; set +m\n\
         sleep 1002 & echo $$ $one $two $! > \"$HERE/pids\"; touch \"$HERE/ready\"; while :; do sleep 1000; done",
    );
    let executor = tmux.beside(&worker);
    let handle = spawn(&executor, &worker, "anna").await;
    let pids = worker.pids("pids");
    let groups: Vec<u32> = pids.iter().map(|pid| process::stat(*pid).expect("it runs").group).collect();
    assert_eq!(groups, [pids[0], pids[1], pids[2], pids[0]]);
    let report = handle.terminate(grace(SHORT)).await;
    assert_eq!(
        report,
        ExitReport { exit: "signal 9".to_owned(), kind: ExitKind::Killed, forced: true, unexpected: false }
    );
    assert_eq!(pids.iter().filter_map(|pid| process::of(*pid)).collect::<Vec<_>>(), []);
    assert_eq!(tmux.panes("#{pane_id}"), ["%0"]);
}

#[tokio::test]
async fn an_interrupt_reaches_the_worker_alone() {
    let tmux = Tmux::with_leader(200, 50);
    let worker = Worker::new(
        "sh -c 'trap \"touch $HERE/child-hit\" INT; touch $HERE/child-ready; while :; do sleep 0.05; done' & \n\
         trap 'touch \"$HERE/hit\"' INT; until [ -e \"$HERE/child-ready\" ]; do sleep 0.02; done\n\
         touch \"$HERE/ready\"; while :; do sleep 0.05; done",
    );
    // Variables of the script are not those of its child.
    let script = worker.read("worker").replace("HERE='", "export HERE='");
    fs::write(&worker.program, script).expect("script");
    let executor = tmux.beside(&worker);
    let handle = spawn(&executor, &worker, "anna").await;
    handle.interrupt().await;
    soon("the worker was interrupted", || worker.path("hit").exists()).await;
    assert!(!worker.path("child-hit").exists());
    assert!(handle.probe().await.alive);
    handle.terminate(grace(SHORT)).await;
}

#[tokio::test]
async fn a_pane_closed_by_hand_ends_its_teammate_and_the_next_gets_a_new_one() {
    let tmux = Tmux::with_leader(200, 50);
    let worker = Worker::new(IDLE);
    let executor = tmux.beside(&worker);
    let handle = spawn(&executor, &worker, "anna").await;
    tmux.ok(&["kill-pane", "-t", &pane_of(handle.as_ref())]);
    assert_eq!(
        exit_of(handle.as_ref()).await,
        ExitReport {
            exit: "gone, its pane was closed".to_owned(),
            kind: ExitKind::Unknown,
            forced: false,
            unexpected: true
        }
    );
    let again = spawn(&executor, &worker, "anna").await;
    assert_eq!(pane_of(again.as_ref()), "%2");
    again.terminate(grace(PATIENCE)).await;
}

#[tokio::test]
async fn a_worker_that_outlives_its_pane_is_still_ours_to_end() {
    let tmux = Tmux::with_leader(200, 50);
    let worker = Worker::new("trap '' HUP; touch \"$HERE/ready\"; while :; do sleep 1000; done");
    let executor = tmux.beside(&worker);
    let handle = spawn(&executor, &worker, "anna").await;
    let process = process_of(handle.as_ref());
    tmux.ok(&["kill-pane", "-t", "%1"]);
    assert_eq!(
        handle.probe().await,
        Liveness { alive: true, evidence: format!("pid {} running but pane %1 is gone", process.pid) }
    );
    assert!(!handle.hide().await && !handle.show().await);
    handle.terminate(grace(PATIENCE)).await;
    assert!(!process::is_alive(&process));
}

#[tokio::test]
async fn many_at_once_stay_readable_and_leave_everybody_else_alone() {
    let tmux = Tmux::with_leader(200, 50);
    // The user's own panes: one below the leader, one window; and one of another team.
    tmux.ok(&["split-window", "-d", "-v", "-l", "10", "-t", "%0", "sleep", "1000"]);
    tmux.ok(&["new-window", "-d", "sleep", "1000"]);
    tmux.ok(&["new-window", "-d", "sleep", "1000"]);
    tmux.ok(&["set-option", "-p", "-t", "%3", "@festoon", "eva@other/run"]);
    let others = "#{pane_id} #{pane_pid} #{window_index} #{pane_width}x#{pane_height}";
    let untouched = |tmux: &Tmux| {
        let panes = tmux.panes(others).into_iter();
        panes.filter(|line| ["%1", "%2", "%3"].contains(&&line[..2])).collect::<Vec<_>>()
    };
    let before = untouched(&tmux);
    let worker = Worker::new(IDLE);
    let executor = tmux.beside(&worker);
    let names = ["a", "b", "c", "d", "e", "f"];
    let spawns = names.map(|name| executor.spawn(worker.launch(name)));
    let mut handles = Vec::new();
    for outcome in join_all(spawns).await {
        handles.push(outcome.expect("it starts"));
    }
    let ours = tmux.panes("#{@festoon} #{window_id} #{pane_width} #{pane_height} #{window_name}");
    let ours: Vec<&String> = ours.iter().filter(|line| line.contains("@review/")).collect();
    assert_eq!(ours.len(), names.len());
    let mut windows = BTreeMap::<&str, usize>::new();
    for line in &ours {
        let fields: Vec<&str> = line.split(' ').collect();
        let number = |n: usize| fields[n].parse::<u32>().expect("a number");
        assert!(number(2) >= 60 && number(3) >= 10, "{line}");
        *windows.entry(fields[1]).or_default() += 1;
    }
    // The leader's 39 rows hold two of them; the others share a window of their own.
    assert_eq!(windows.values().copied().collect::<Vec<_>>(), [2, 4]);
    assert_eq!(tmux.pane("%0", "#{pane_active} #{window_active} #{pane_left}"), "1 1 0");
    let terminated = join_all(handles.iter().map(|handle| handle.terminate(grace(PATIENCE)))).await;
    assert!(terminated.iter().all(|report| report.exit == "signal 15"), "{terminated:?}");
    assert_eq!(untouched(&tmux), before);
    assert_eq!(tmux.panes("#{pane_id}").len(), 4);
}

#[tokio::test]
async fn a_narrow_unattached_session_still_shows_it_in_the_leaders_window() {
    let tmux = Tmux::with_leader(80, 24);
    let worker = Worker::new(IDLE);
    let executor = tmux.beside(&worker);
    let handle = spawn(&executor, &worker, "anna").await;
    assert_eq!(
        tmux.panes("#{pane_id} #{window_id} #{pane_top} #{pane_width}x#{pane_height} #{pane_active}"),
        ["%0 @0 0 80x12 1", "%1 @0 13 80x11 0"]
    );
    handle.terminate(grace(PATIENCE)).await;
}

#[tokio::test]
async fn a_zoomed_leader_stays_zoomed() {
    let tmux = Tmux::with_leader(200, 50);
    tmux.ok(&["split-window", "-d", "-v", "-l", "10", "-t", "%0", "sleep", "1000"]);
    tmux.ok(&["resize-pane", "-Z", "-t", "%0"]);
    let worker = Worker::new(IDLE);
    let executor = tmux.beside(&worker);
    let handle = spawn(&executor, &worker, "anna").await;
    assert_eq!(tmux.pane("%0", "#{window_zoomed_flag} #{pane_active}"), "1 1");
    assert_eq!(tmux.pane("%2", "#{window_id}"), "@0");
    handle.terminate(grace(PATIENCE)).await;
}

#[tokio::test]
async fn a_pane_is_hidden_and_shown_again() {
    let tmux = Tmux::with_leader(200, 50);
    let worker = Worker::new(IDLE);
    let executor = tmux.beside(&worker);
    let anna = spawn(&executor, &worker, "anna").await;
    let places =
        |tmux: &Tmux| tmux.panes("#{pane_id} #{window_id} #{pane_width}x#{pane_height} #{window_active}");
    assert!(anna.hide().await);
    assert!(anna.hide().await, "twice is once");
    assert_eq!(places(&tmux), ["%0 @0 200x50 1", "%1 @1 200x50 0"]);
    // A hidden pane gives no place to others.
    let bert = spawn(&executor, &worker, "bert").await;
    assert_eq!(places(&tmux), ["%0 @0 100x50 1", "%2 @0 99x50 1", "%1 @1 200x50 0"]);
    assert!(anna.show().await);
    assert!(anna.show().await, "twice is once");
    assert_eq!(places(&tmux), ["%0 @0 100x50 1", "%2 @0 99x25 1", "%1 @0 99x24 1"]);
    assert_eq!(tmux.pane("%0", "#{pane_active}"), "1");
    assert!(anna.hide().await);
    anna.terminate(grace(PATIENCE)).await;
    bert.terminate(grace(PATIENCE)).await;
    assert_eq!(places(&tmux), ["%0 @0 200x50 1"]);
}

#[tokio::test]
async fn a_later_leader_finds_it_again_and_only_what_is_proved() {
    let tmux = Tmux::with_leader(200, 50);
    let worker = Worker::new(IDLE);
    let first = tmux.beside(&worker);
    let handle = spawn(&first, &worker, "anna").await;
    let (member, run) = traces(handle.as_ref());
    let record = handle.record();
    drop((handle, first));

    let second = tmux.beside(&worker);
    assert!(second.adopt(&member, None).await.is_none(), "no record, never ready");
    let adopted = second.adopt(&member, Some(&run)).await.expect("it lives");
    assert_eq!(adopted.record(), record);
    assert!(adopted.hide().await && adopted.show().await);

    // A row that names somebody else's pane proves nothing: the process is ours, the pane is not.
    let mut wrong = member.clone();
    wrong.pane_id = Some("%0".to_owned());
    let unproved = second.adopt(&wrong, Some(&run)).await.expect("it lives");
    assert_eq!(unproved.record().pane_id, None);
    assert!(!unproved.hide().await);
    unproved.terminate(grace(PATIENCE)).await;
    assert_eq!(exit_of(adopted.as_ref()).await.exit, "signal 15");
    assert_eq!(tmux.panes("#{pane_id}"), ["%0"]);
    assert!(second.adopt(&member, Some(&run)).await.is_none(), "provably gone");
}

#[tokio::test]
async fn a_leader_of_another_server_finds_it_in_the_one_that_is_recorded() {
    let (tmux, other) = (Tmux::none(), Tmux::none());
    let worker = Worker::new(IDLE);
    let first = tmux.executor(&worker, tmux.env.clone());
    let handle = spawn(&first, &worker, "anna").await;
    let (member, run) = traces(handle.as_ref());
    let record = handle.record();
    drop((handle, first));
    let second = other.executor(&worker, other.env.clone());
    let adopted = second.adopt(&member, Some(&run)).await.expect("it lives");
    assert_eq!(adopted.record(), record);
    assert!(adopted.hide().await && adopted.show().await);
    // Its own server is another one still.
    let bert = spawn(&second, &worker, "bert").await;
    assert_ne!(bert.record().pane_server, record.pane_server);
    adopted.terminate(grace(PATIENCE)).await;
    bert.terminate(grace(PATIENCE)).await;
    // The first server has ended with its last pane, and its socket goes as well.
    second.close().await;
    let socket = PathBuf::from(record.pane_server.expect("a server"));
    assert!(!socket.exists(), "{}", socket.display());
}

#[test]
fn a_dead_pane_does_not_stay_when_nobody_watches() {
    let tmux = Tmux::with_leader(200, 50);
    let worker = Worker::new(IDLE);
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("runtime");
    let leader = runtime();
    let executor = tmux.beside(&worker);
    let process = process_of(leader.block_on(spawn(&executor, &worker, "anna")).as_ref());
    drop(leader);
    process::signal(&process, process::Signal::Kill).expect("killed");
    let gone = || {
        // Any child's end makes the server look after the others, should it have missed this one.
        tmux.ok(&["if-shell", "-b", "true", ""]);
        tmux.panes("#{pane_id}") == ["%0"]
    };
    runtime().block_on(soon("the server removed it", gone));
}

#[tokio::test]
async fn a_worker_without_a_leader_lets_its_own_pane_go() {
    let tmux = Tmux::with_leader(200, 50);
    let worker = Worker::new(IDLE);
    let executor = tmux.beside(&worker);
    let handle = spawn(&executor, &worker, "anna").await;
    let pid = process_of(handle.as_ref()).pid;
    let remain = |pane: &str| tmux.ok(&["show-options", "-p", "-v", "-t", pane, "remain-on-exit"]);
    let mut env = tmux.inside();
    // Not its own pane, and not its own process.
    tmux::release_own_pane(&env, pid).await.expect("nothing to do");
    env.insert("TMUX_PANE".to_owned(), "%1".to_owned());
    tmux::release_own_pane(&env, 1).await.expect("nothing to do");
    assert_eq!((remain("%0"), remain("%1")), (String::new(), "on".to_owned()));
    tmux::release_own_pane(&env, pid).await.expect("done");
    assert_eq!((remain("%0"), remain("%1")), (String::new(), "off".to_owned()));
    handle.terminate(grace(PATIENCE)).await;
    assert_eq!(tmux.panes("#{pane_id}"), ["%0"]);
}

#[tokio::test]
async fn the_surroundings_are_looked_at_and_not_believed() {
    let tmux = Tmux::with_leader(200, 50);
    let seen = tmux::look(&tmux.inside()).await;
    assert!(seen.inside && seen.version.is_some());
    assert!(!tmux::look(&tmux.env).await.inside);
    let mut stale = tmux.inside();
    stale.insert("TMUX_PANE".to_owned(), "%99".to_owned());
    assert!(!tmux::look(&stale).await.inside);
    let nothing = BTreeMap::from([("PATH".to_owned(), "/does/not/exist".to_owned())]);
    let seen = tmux::look(&nothing).await;
    assert_eq!((seen.inside, seen.version), (false, None));

    let worker = Worker::new(IDLE);
    let error = refusal(&tmux.executor(&worker, stale), worker.launch("anna")).await;
    assert!(
        error.to_string().starts_with("create pane: the leader's pane %99 is not in the server"),
        "{error}"
    );
    let inside = tmux.beside(&worker);
    assert!(matches!(inside.target(), TmuxTarget::Inside { pane, .. } if pane == "%0"));
}

async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut done: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(move |cx| {
        for (future, slot) in futures.iter_mut().zip(&mut done) {
            if slot.is_none()
                && let std::task::Poll::Ready(output) = future.as_mut().poll(cx)
            {
                *slot = Some(output);
            }
        }
        if done.iter().any(Option::is_none) {
            return std::task::Poll::Pending;
        }
        std::task::Poll::Ready(done.iter_mut().filter_map(Option::take).collect())
    })
    .await
}
