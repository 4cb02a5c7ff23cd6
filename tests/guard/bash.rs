//! The `Bash` tool on real commands.

use crate::support::*;
use festoon::os::process;
use festoon::tools::background_shell::BackgroundShell;
use festoon::tools::bash::Bash;
use festoon::tools::context::{BackgroundShells, BeforeChange, Former, ProgressSink, TodoList, ToolContext};
use festoon::tools::file_cache::FileCache;
use festoon::tools::shells::Shells;
use festoon::tools::tool::{BoxFuture, Tool, ToolCall, ToolContent};
use festoon::tools::web::{Found, Wanted, Web};
use festoon::tools::web_fetch::fetch::{Client, HttpError};
use festoon::tools::web_fetch::pages::Pages;
use festoon::wire::limits::TOOL_RESULT_CHARS;
use festoon::wire::mask::Mask;
use festoon::wire::todo::Todo;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

#[derive(Default)]
struct Seen(Mutex<Vec<String>>);
impl ProgressSink for Seen {
    fn progress(&self, text: &str) {
        self.0.lock().expect("lock").push(text.to_owned());
    }
}

impl BackgroundShells for Seen {
    fn refusal(&self) -> Option<String> {
        Some("there is no registry here".to_owned())
    }
    fn adopt(&self, shell: BackgroundShell) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(async move { Err(shell.description) })
    }
}

impl BeforeChange for Seen {
    fn wants(&self, _: &Path) -> bool {
        false
    }
    fn keep(&self, _: &Path, _: Former) {}
}

impl TodoList for Seen {
    fn replace(&self, _: Vec<Todo>) {}
}

/// No network.
impl Web for Seen {
    fn client(&self, _: &str) -> Result<Client, String> {
        Err("none".to_owned())
    }
    fn reason(&self, error: &HttpError) -> String {
        error.to_string()
    }
    fn pages(&self) -> &Pages {
        static PAGES: LazyLock<Pages> = LazyLock::new(Pages::default);
        &PAGES
    }
    fn ask_page<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async { Err("none".to_owned()) })
    }
    fn search<'a>(&'a self, _: &'a Wanted) -> BoxFuture<'a, Result<Found, String>> {
        Box::pin(async { Err("none".to_owned()) })
    }
}

struct Agent {
    temp: tempfile::TempDir,
    mark: String,
    seen: Arc<Seen>,
    ctx: ToolContext,
}

impl Agent {
    fn new() -> Self {
        let temp = tempfile::tempdir().expect("temp");
        let (mark, seen) = (mark(), Arc::new(Seen::default()));
        let ctx = ToolContext {
            approved: Arc::new([]),
            cwd: temp.path().to_owned(),
            tool_use_id: "toolu_1".to_owned(),
            cancel: CancellationToken::new(),
            files: Arc::new(FileCache::default()),
            shells: Arc::new(Shells::new(binary())),
            background: Arc::clone(&seen) as Arc<dyn BackgroundShells>,
            environment: Arc::new(environment(&mark)),
            closed: Arc::from([]),
            output_dir: temp.path().join("output"),
            kept_back: Arc::new(|_| false),
            mask: Mask::default(),
            web: Arc::clone(&seen) as Arc<dyn Web>,
            todos: Arc::clone(&seen) as Arc<dyn TodoList>,
            checkpoints: Arc::clone(&seen) as Arc<dyn BeforeChange>,
            progress: Arc::clone(&seen) as Arc<dyn ProgressSink>,
        };
        Self { temp, mark, seen, ctx }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    /// Whether it failed, and the text.
    async fn run(&self, input: Value) -> (bool, String) {
        let raw = serde_json::value::to_raw_value(&input).expect("raw").into();
        let call = ToolCall { id: "toolu_1".to_owned(), raw, input };
        let output = Bash.run(call, &self.ctx).await;
        match output.content {
            ToolContent::Text(text) => (output.is_error, text),
            ToolContent::Blocks(blocks) => panic!("{blocks:?}"),
        }
    }

    async fn sh(&self, command: &str) -> (bool, String) {
        self.run(json!({"command": command})).await
    }

    fn alive(&self) -> Vec<u32> {
        marked(&self.mark)
    }
}

#[tokio::test]
async fn output_and_status_come_back() {
    let agent = Agent::new();
    for (command, failed, text) in [
        ("echo out; echo err >&2", false, "out\nerr\n"),
        ("true", false, ""),
        ("[[ a == a ]] && printf \"%s\" bash", false, "bash"),
        ("echo no; exit 3", true, "Exit status 3\nno\n"),
        ("false", true, "Exit status 1"),
        ("kill -SEGV $$", true, "The command was killed by signal 11 (SEGV)"),
        ("printf 'a\\377b'", false, "a\u{fffd}b\n[bytes that are not UTF-8 are shown as \u{fffd}]"),
        ("cat; echo end", false, "end\n"),
        ("mkdir 'a b\n\u{e9}' && cd 'a b\n\u{e9}' && basename \"$PWD\"", false, "a b\n\u{e9}\n"),
    ] {
        assert_eq!(agent.sh(command).await, (failed, text.to_owned()), "{command}");
    }
    let (failed, text) = agent.sh("if").await;
    assert!(failed && text.starts_with("Exit status 2\n") && text.contains("syntax error"), "{text}");
    assert_eq!(agent.ctx.shells.kept(), 0);
}

#[tokio::test]
async fn ten_megabytes_are_kept_whole_and_shown_short() {
    let agent = Agent::new();
    let (failed, text) = agent.sh("yes 0123456 | head -c 10485760; echo end").await;
    assert!(!failed);
    assert!(text.chars().count() <= TOOL_RESULT_CHARS);
    assert!(text.starts_with("0123456\n") && text.ends_with("0123456\nend\n"), "{}", &text[..100]);
    let file = agent.path("output/toolu_1.txt");
    assert!(text.contains(&format!("the whole is in {}", file.display())), "{text}");
    let whole = std::fs::read(file).expect("kept");
    assert_eq!(whole.len(), 10 * 1024 * 1024 + 4);
    assert!(
        whole.chunks(8).take(1024 * 1024 + 1).skip(1).all(|line| line == b"0123456\n" || line == b"end\n")
    );
}

#[tokio::test]
async fn a_timeout_ends_everything_and_keeps_what_was_written() {
    let agent = Agent::new();
    let command = format!("echo before; ({STUBBORN}) & sleep 600");
    let started = Instant::now();
    let (failed, text) = agent.run(json!({"command": command, "timeout": 300})).await;
    assert!(failed);
    assert!(text.starts_with("Timed out after 300 ms: "), "{text}");
    assert!(text.contains("\nbefore\n"), "{text}");
    assert!(started.elapsed() < LONG);
    assert_eq!(agent.alive(), Vec::<u32>::new());
}

#[tokio::test]
async fn a_cancelled_command_is_gone_before_the_result_is_there() {
    let agent = Agent::new();
    let command = format!("echo before; {STUBBORN}\nsleep 600");
    let cancel = async {
        until("the child is up", LONG, || agent.path("ready").exists()).await;
        assert!(!agent.alive().is_empty());
        agent.ctx.cancel.cancel();
    };
    let ((failed, text), ()) = tokio::join!(agent.sh(&command), cancel);
    assert!(failed && text.starts_with("Cancelled: ") && text.contains("\nbefore\n"), "{text}");
    assert_eq!(agent.alive(), Vec::<u32>::new());
}

#[tokio::test]
async fn dropping_a_call_ends_its_command() {
    let agent = Agent::new();
    let command = format!("{STUBBORN}\nsleep 600");
    tokio::select! {
        result = agent.sh(&command) => panic!("{result:?}"),
        () = until("the child is up", LONG, || agent.path("ready").exists()) => {}
    }
    until("all are gone", Duration::from_secs(5), || agent.alive().is_empty()).await;
}

#[tokio::test]
async fn what_is_left_running_lives_until_the_agent_ends() {
    let agent = Agent::new();
    let server = "(trap '' TERM; while [ ! -e go ]; do sleep 0.02; done; seq 100000; touch wrote; sleep 600) & echo $!";
    let (failed, text) = agent.sh(server).await;
    let (pid, note) = text.split_once('\n').expect("two lines");
    assert!(!failed);
    assert_eq!(note, "[the command left processes running; they live until you end]");
    let server = process::of(pid.parse().expect("a pid")).expect("it lives");
    // Its output, more than a pipe holds, is taken from it.
    std::fs::write(agent.path("go"), "").expect("go");
    until("it has written", LONG, || agent.path("wrote").exists()).await;
    assert_eq!(agent.sh("echo next").await, (false, "next\n".to_owned()));
    assert!(process::is_alive(&server));
    assert_eq!(agent.ctx.shells.kept(), 1);
    agent.ctx.shells.end().await;
    assert!(!process::is_alive(&server));
    assert_eq!((agent.alive(), agent.ctx.shells.kept()), (Vec::new(), 0));
}

#[tokio::test]
async fn dropping_the_shells_ends_what_is_left_running() {
    let agent = Agent::new();
    let (failed, _) = agent.sh("sleep 600 &").await;
    assert!(!failed && !agent.alive().is_empty());
    let Agent { mark, ctx, .. } = agent;
    drop(ctx);
    until("all are gone", Duration::from_secs(5), || marked(&mark).is_empty()).await;
}

#[tokio::test]
async fn progress_is_the_last_line() {
    let agent = Agent::new();
    let command = "echo one; echo; while [ ! -e go ]; do sleep 0.02; done";
    let go = async {
        until("progress", LONG, || !agent.seen.0.lock().expect("lock").is_empty()).await;
        std::fs::write(agent.path("go"), "").expect("go");
    };
    let ((failed, _), ()) = tokio::join!(agent.sh(command), go);
    assert!(!failed);
    assert_eq!(agent.seen.0.lock().expect("lock").first().map(String::as_str), Some("one"));
}

#[tokio::test]
async fn a_command_that_cannot_start_says_so() {
    let mut agent = Agent::new();
    agent.ctx.cwd = agent.path("gone");
    let (failed, text) = agent.sh("true").await;
    assert!(failed && text.contains("there is no directory") && text.ends_with("Nothing was run."), "{text}");
}
