//! A tmux server of a test's own, and a leader in one of its panes.

use super::wait::{self, PATIENCE};
use super::world::{World, command_line};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// The server. Its sockets lie in the world's directory and end with it.
pub struct Tmux<'a> {
    world: &'a World,
    sockets: PathBuf,
    conf: PathBuf,
    home: String,
}

/// Settings that break whoever counts windows and panes or types into shells.
const CONF: &str = "set -g base-index 1\nsetw -g pane-base-index 1\nset -g default-shell /bin/false\n\
                    set -g default-command 'exit 3'\nset -g remain-on-exit off\nset -g renumber-windows on\n";

impl<'a> Tmux<'a> {
    /// A user's server with two windows, the second with two panes.
    pub fn start(world: &'a World) -> Self {
        Self::start_with(world, CONF, "/")
    }

    /// The same with these settings, and what lies in this home.
    pub fn start_with(world: &'a World, conf_text: &str, home: &str) -> Self {
        let sockets = world.outside().join("tmux");
        fs::create_dir_all(&sockets).expect("dir");
        let conf = world.outside().join("tmux.conf");
        fs::write(&conf, conf_text).expect("conf");
        let tmux = Self { world, sockets, conf, home: home.to_owned() };
        tmux.ok(&["new-session", "-d", "-x", "160", "-y", "48", "-s", "user", "sleep", "1000"]);
        tmux.ok(&["new-window", "-d", "-t", "user:", "-n", "other", "sleep", "1000"]);
        tmux.ok(&["split-window", "-d", "-t", "user:other", "sleep", "1000"]);
        tmux
    }

    /// The same commands for the server behind another socket of this world.
    pub fn run_at(&self, socket: &str, args: &[&str]) -> Output {
        Command::new("tmux")
            .args(["-L", socket, "-f"])
            .arg(&self.conf)
            .args(args)
            .env_clear()
            .envs([
                ("PATH", self.world.env["PATH"].as_str()),
                ("HOME", self.home.as_str()),
                ("TERM", "xterm-256color"),
                ("LANG", "C.UTF-8"),
                // What a worker must not get.
                ("ANTHROPIC_API_KEY", "key-of-the-tmux-server"),
                ("ANTHROPIC_BASE_URL", "http://127.0.0.1:1/of-the-tmux-server"),
                ("ONLY_IN_TMUX", "yes"),
                (super::world::MARK, &self.world.mark),
            ])
            .env("TMUX_TMPDIR", &self.sockets)
            .output()
            .expect("tmux runs")
    }

    /// Runs a command that must work; returns what it prints.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.run_at("test", args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8").trim_end().to_owned()
    }

    /// All panes, in this format.
    pub fn panes(&self, format: &str) -> Vec<String> {
        self.ok(&["list-panes", "-a", "-F", format]).lines().map(str::to_owned).collect()
    }

    /// Runs the binary in a new pane with exactly this environment, and what tmux adds for itself.
    pub fn leader(&self, env: &BTreeMap<String, String>, args: &[&str]) -> Leader {
        let dir = self.world.outside().join(format!("leader-{}", uuid::Uuid::new_v4().simple()));
        fs::create_dir_all(&dir).expect("dir");
        let mut words: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        words.push(env!("CARGO_BIN_EXE_festoon").to_owned());
        words.extend(args.iter().map(|&a| a.to_owned()));
        fs::write(dir.join("words"), words.join("\0")).expect("words");
        let script = "cd \"$1\" && { printf 'TMUX=%s\\0TMUX_PANE=%s\\0' \"$TMUX\" \"$TMUX_PANE\"; cat \"$0/words\"; } \
                      | xargs -0 env -i >\"$0/out\" 2>\"$0/err\"; echo $? >\"$0/code.tmp\"; mv \"$0/code.tmp\" \"$0/code\"";
        let (here, project) = (dir.to_str().expect("UTF-8"), self.world.project.to_str().expect("UTF-8"));
        let pane = self.ok(&[
            "new-window",
            "-P",
            "-F",
            "#{pane_id}",
            "-t",
            "user:",
            "-n",
            "leader",
            "sh",
            "-c",
            script,
            here,
            project,
        ]);
        Leader { dir, pane }
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        self.run_at("test", &["kill-server"]);
    }
}

/// A leader in a pane.
pub struct Leader {
    /// Where its words and its output are.
    pub dir: PathBuf,
    /// Its pane.
    pub pane: String,
}

impl Leader {
    /// What it has printed so far.
    pub fn stdout(&self) -> String {
        fs::read_to_string(self.dir.join("out")).unwrap_or_default()
    }

    /// What it has complained about so far.
    pub fn stderr(&self) -> String {
        fs::read_to_string(self.dir.join("err")).unwrap_or_default()
    }

    /// Waits for its end; returns its status. `xargs` says 123 for any failure of what it runs.
    pub fn wait(&self) -> i32 {
        let code = wait::find("the leader ends", PATIENCE, || fs::read_to_string(self.dir.join("code")).ok());
        code.trim().parse().expect("a status")
    }
}

/// The process of a teammate's worker, once it runs; `name` as in its spec file's name.
pub fn worker(world: &World, name: &str) -> u32 {
    wait::find(&format!("the worker of {name} runs"), PATIENCE, || {
        let record = world.teams().first()?.join(format!("run/{name}.json"));
        let record: serde_json::Value = serde_json::from_str(&fs::read_to_string(record).ok()?).ok()?;
        let pid = u32::try_from(record["pid"].as_u64()?).ok()?;
        command_line(pid).contains(" teammate --spec ").then_some(pid)
    })
}

/// A process's environment.
pub fn environment(pid: u32) -> BTreeMap<String, String> {
    let raw = fs::read(format!("/proc/{pid}/environ")).expect("it runs");
    let text = String::from_utf8(raw).expect("UTF-8");
    let entries = text.split('\0').filter(|e| !e.is_empty());
    entries.filter_map(|e| e.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}
