//! What a hundred forks of a large conversation cost, beside a hundred copies of it.
//!
//! The real binary goes on with a conversation of ten megabytes and forks it a hundred times in one
//! message; a script keeps all forks waiting for their first answer while memory and disk are looked at.

use crate::server::{memory, until};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const FORKS: usize = 100;
const MESSAGES: usize = 2_000;
const TEXT: usize = 5_000;

struct World {
    dir: tempfile::TempDir,
    session: &'static str,
}

impl World {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn festoon(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_festoon"));
        command.current_dir(self.path("project")).env_clear();
        command.env("PATH", "/usr/bin:/bin").env("HOME", self.path("home"));
        command.env("FESTOON_HOME", self.path("state")).args(args);
        command.arg("--model").arg(format!("scripted:{}", self.path("script.toml").display()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// A conversation as an earlier run would have left it.
    fn write_history(&self) {
        let mut lines = String::new();
        let mut parent = "null".to_owned();
        for n in 0..MESSAGES {
            let (role, more) = match n % 2 {
                0 => ("user", String::new()),
                _ => (
                    "assistant",
                    format!(r#","model":"m","id":"r{n}","usage":{{}},"stop_reason":"end_turn""#),
                ),
            };
            let text = format!("{n} {}", "x".repeat(TEXT));
            let _ = writeln!(
                lines,
                r#"{{"type":"{role}","uuid":"u{n}","parentUuid":{parent},"sessionId":"{}","isSidechain":false,"timestamp":"2026-01-01T00:00:00.000Z","cwd":"/","gitBranch":"","version":"0","message":{{"role":"{role}","content":[{{"type":"text","text":"{text}"}}]{more}}}}}"#,
                self.session
            );
            parent = format!("\"u{n}\"");
        }
        let path = self.transcript();
        let old = fs::read_to_string(&path).expect("the session");
        let first = old.lines().next().expect("a line").to_owned();
        fs::write(&path, format!("{first}\n{lines}")).expect("writes");
    }

    fn transcript(&self) -> PathBuf {
        let name = format!("{}.jsonl", self.session);
        let found =
            files(&self.path("state")).into_iter().find(|p| p.file_name().is_some_and(|f| f == &*name));
        found.expect("a transcript")
    }

    /// Bytes below the state root.
    fn disk(&self) -> u64 {
        let size = |path: &PathBuf| path.metadata().map_or(0, |m| m.len());
        files(&self.path("state")).iter().map(size).sum()
    }

    /// Forks whose directive is on disk.
    fn begun(&self) -> usize {
        let begun = |path: &PathBuf| {
            path.extension().is_some_and(|e| e == "jsonl")
                && path.parent().is_some_and(|p| p.ends_with("subagents"))
                && fs::read_to_string(path).is_ok_and(|text| text.contains("fork-boilerplate"))
        };
        files(&self.path("state")).iter().filter(|path| begun(path)).count()
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => all.extend(files(&entry.path())),
            Ok(_) => all.push(entry.path()),
            Err(_) => {}
        }
    }
    all
}

/// The size once it has not grown for a second.
fn settled(mut size: impl FnMut() -> u64) -> u64 {
    let (mut last, mut since) = (0, Instant::now());
    until("it settles", || {
        let now = size();
        if now > last + 64 * 1024 {
            (last, since) = (now, Instant::now());
        }
        since.elapsed() > Duration::from_secs(1)
    });
    last
}

/// Resident memory of a process, in bytes.
fn resident(child: &Child) -> u64 {
    memory(child.id(), "VmRSS:") as u64 * 1024
}

fn script() -> String {
    let mut calls = String::new();
    for n in 0..FORKS {
        let _ = writeln!(
            calls,
            r#"  {{ tool = "Agent", input = {{ description = "part {n}", prompt = "Part {n}.", subagent_type = "fork" }} }},"#
        );
    }
    format!(
        "gates = \"gates\"\ngate-deadline-ms = 300000\n\
         [[rule]]\nagent = \"fork\"\nreply = [{{ gate = \"forks\" }}, {{ text = \"Scope: x\" }}]\n\
         [[rule]]\nagent = \"team-lead\"\ncontains = \"Fork now.\"\nreply = [\n  {{ gate = \"lead\" }},\n{calls}]\n\
         [[rule]]\nagent = \"team-lead\"\ntimes = \"always\"\nreply = [{{ text = \"Fine.\" }}]\n"
    )
}

/// Prints the rows.
pub fn hundred_forks() {
    let world = World { dir: tempfile::tempdir().expect("temp dir"), session: "bench" };
    for dir in ["project", "home", "gates"] {
        fs::create_dir(world.path(dir)).expect("a directory");
    }
    fs::write(world.path("script.toml"), script()).expect("script");
    let first = world.festoon(&["-p", "Hello.", "--session-id", world.session]).status().expect("runs");
    assert!(first.success(), "{first}");
    world.write_history();
    let history = (MESSAGES * TEXT) as u64;
    let limits = ["--max-agents", "100", "--max-agents-total", "100"];
    let mut run =
        world.festoon(&["-p", "Fork now.", "--resume", world.session]).args(limits).spawn().expect("runs");
    let before_memory = settled(|| resident(&run));
    let before_disk = world.disk();
    fs::write(world.path("gates/lead"), "").expect("a gate");
    until("all forks have begun", || world.begun() == FORKS);
    let memory = (settled(|| resident(&run)) - before_memory) / FORKS as u64;
    let disk = (world.disk() - before_disk) / FORKS as u64;
    for (what, bytes) in
        [("memory a fork, of a 10 MB conversation", memory), ("disk a fork, before it works", disk)]
    {
        let share = bytes as f64 / history as f64;
        println!("{what:<44} {FORKS:>8}   {:>9.1} kB   × {share:.5}", bytes as f64 / 1e3);
    }
    println!("{:<44} {:>8}   (× is the share of a copy)", "", "");
    fs::write(world.path("gates/forks"), "").expect("a gate");
    let end = run.wait().expect("ends");
    assert!(end.success(), "{end}");
}
