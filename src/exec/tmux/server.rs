//! One tmux server, as commands that are sent to it and facts that it prints.
//!
//! Owns every call of the `tmux` program and the reading of its answers. Promises that each call has a
//! deadline (a server may hang), that an argument arrives as it is, that panes are named only by the
//! ids tmux gave them, and that no shell is involved. Never types into a pane, never moves the focus,
//! and gives tmux nothing of our environment but what it needs to run.

use super::layout::{Place, Side};
use super::socket;
use crate::os::process::{self, Signal};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;
use tmux_interface::{Tmux, TmuxCommand};
use tokio::sync::oneshot;

/// How long one call may take. Most take 3 ms; a loaded machine may need a second.
const CALL_DEADLINE: Duration = Duration::from_secs(5);
/// The variables that tmux itself needs: its socket directory, its terminal and its texts.
const PASSED_ON: [&str; 11] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMUX_TMPDIR"];
/// How the names of our own servers begin.
pub const PRIVATE: &str = "festoon-";
/// The name of the session of a private server, and of overflow windows.
const SESSION: &str = "festoon";
/// The size of a private server's windows until a person attaches.
const DETACHED_SIZE: (&str, &str) = ("200", "50");
/// What stands in a pane for the moment until the worker takes its place. It ends by itself, so that
/// a leader killed in that moment leaves nothing behind.
const PLACEHOLDER: [&str; 2] = ["sleep", "30"];
/// How long a dead pane waits for a leader to read its exit status before the server removes it.
const DEAD_PANE_SECONDS: u32 = 3;

/// What is asked of each pane. The tag comes last: it alone could hold anything.
const FACTS: &str = "#{pane_id}|#{pane_pid}|#{pid}|#{window_id}|#{session_id}|#{pane_width}|#{pane_height}|\
                     #{window_zoomed_flag}|#{pane_dead}|#{pane_dead_status}|#{pane_dead_signal}|\
                     #{@festoon-hidden}|#{@festoon}";

/// A call of tmux that did not work.
#[derive(Debug, thiserror::Error)]
pub enum TmuxError {
    /// The program could not be run.
    #[error("run tmux in {}: {source}", cwd.display())]
    Start {
        /// The directory it was to run in.
        cwd: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There is no server at this socket.
    #[error("{0}")]
    NoServer(String),
    /// tmux refused.
    #[error("tmux {verb}: {said}")]
    Refused {
        /// The command.
        verb: &'static str,
        /// tmux's own words.
        said: String,
    },
    /// tmux did not answer.
    #[error("tmux {verb} did not answer within {} ms", after.as_millis())]
    TimedOut {
        /// The command.
        verb: &'static str,
        /// The deadline.
        after: Duration,
    },
    /// tmux answered with something else than what was asked for.
    #[error("tmux {verb} answered {answer:?}")]
    Unreadable {
        /// The command.
        verb: &'static str,
        /// The answer.
        answer: String,
    },
}

/// Which server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TmuxTarget {
    /// The one the leader's terminal is a pane of.
    Inside {
        /// Its socket.
        socket: PathBuf,
        /// The leader's own pane, `%0`.
        pane: String,
    },
    /// One that a pane of an earlier leader is in; never started.
    At {
        /// Its socket.
        socket: PathBuf,
    },
    /// One of our own, started when it is needed and gone with its last pane.
    Private {
        /// The socket's name in tmux's socket directory.
        socket_name: String,
    },
}

impl TmuxTarget {
    /// The server around us, by the variables `TMUX` and `TMUX_PANE`; `None` outside tmux.
    pub fn from_env(env: &BTreeMap<String, String>) -> Option<Self> {
        // socket,pid of the server,number of the session
        let (socket, _) = env.get("TMUX")?.rsplit_once(',')?.0.rsplit_once(',')?;
        let pane = env.get("TMUX_PANE")?;
        let known = !socket.is_empty() && pane.starts_with('%');
        known.then(|| Self::Inside { socket: socket.into(), pane: pane.clone() })
    }
}

/// What tmux says of a pane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaneFacts {
    /// `%3`
    pub id: String,
    /// The process it was made for, dead or alive.
    pub pid: u32,
    /// The server's process.
    pub server_pid: u32,
    /// `@1`
    pub window: String,
    /// `$0`
    pub session: String,
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// True when its window shows one pane only.
    pub zoomed: bool,
    /// True when its process is gone.
    pub dead: bool,
    /// Status the process ended with.
    pub status: Option<i32>,
    /// Signal the process ended by; tmux 3.3 and later say it.
    pub signal: Option<i32>,
    /// True when it was taken out of sight.
    pub hidden: bool,
    /// Our tag; empty on everybody else's panes.
    pub tag: String,
}

impl PaneFacts {
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.splitn(13, '|').collect();
        let [id, pid, server, window, session, width, height, zoomed, dead, status, signal, hidden, tag] =
            fields.try_into().ok()?;
        Some(Self {
            id: id.to_owned(),
            pid: pid.parse().ok()?,
            server_pid: server.parse().ok()?,
            window: window.to_owned(),
            session: session.to_owned(),
            width: width.parse().ok()?,
            height: height.parse().ok()?,
            zoomed: zoomed == "1",
            dead: dead == "1",
            status: status.parse().ok(),
            signal: signal.parse().ok(),
            hidden: hidden == "1",
            tag: tag.to_owned(),
        })
    }
}

/// One tmux server.
#[derive(Debug, Clone)]
pub struct Server {
    target: TmuxTarget,
    env: BTreeMap<String, String>,
    deadline: Duration,
}

/// A command with its arguments as they are meant.
fn command<'a>(verb: &'a str, args: impl IntoIterator<Item = &'a str>) -> TmuxCommand<'a> {
    let mut command = TmuxCommand::with_name(verb);
    for arg in args {
        command.push_param(literal(arg));
    }
    command
}

/// An argument that tmux takes as it is: it reads a `;` at the end of one as the end of the command.
fn literal(arg: &str) -> String {
    match arg.strip_suffix(';') {
        Some(rest) => format!("{rest}\\;"),
        None => arg.to_owned(),
    }
}

impl Server {
    /// A server; nothing is started yet. Of `env` only what tmux needs is used.
    pub fn new(target: TmuxTarget, env: &BTreeMap<String, String>) -> Self {
        let env = PASSED_ON
            .iter()
            .filter_map(|name| env.get(*name).map(|value| ((*name).to_owned(), value.clone())))
            .collect();
        Self { target, env, deadline: CALL_DEADLINE }
    }
    /// Which server.
    pub fn target(&self) -> &TmuxTarget {
        &self.target
    }

    /// The same client for the server behind another socket.
    pub fn at(&self, socket: PathBuf) -> Self {
        Self { target: TmuxTarget::At { socket }, env: self.env.clone(), deadline: self.deadline }
    }
    /// Whether it is one of our own, which ends with its last pane.
    pub fn is_private(&self) -> bool {
        match &self.target {
            TmuxTarget::Private { .. } => true,
            TmuxTarget::Inside { .. } => false,
            TmuxTarget::At { socket } => socket
                .file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| name.starts_with(PRIVATE)),
        }
    }
    /// Where it is reached.
    pub fn socket(&self) -> PathBuf {
        match &self.target {
            TmuxTarget::Inside { socket, .. } | TmuxTarget::At { socket } => socket.clone(),
            TmuxTarget::Private { socket_name } => socket::path(socket_name, &self.env),
        }
    }

    /// What `tmux -V` prints.
    pub async fn version(&self) -> Result<String, TmuxError> {
        self.run("-V", Tmux::new().version(), Path::new("/")).await
    }

    /// All panes of the server; none when there is no server.
    pub async fn panes(&self) -> Result<Vec<PaneFacts>, TmuxError> {
        let answer = self.call("list-panes", [command("list-panes", ["-a", "-F", FACTS])]).await;
        match answer {
            Ok(answer) => Ok(answer.lines().filter_map(PaneFacts::parse).collect()),
            Err(TmuxError::NoServer(_)) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Makes a pane with a placeholder in it, unseen and without moving the focus. Its process will
    /// stand in `cwd`. `session` is the session (`$0`) for a window of its own; `None` makes one.
    pub async fn create(
        &self,
        place: &Place,
        zoomed: bool,
        session: Option<&str>,
        cwd: &Path,
    ) -> Result<PaneFacts, TmuxError> {
        let common = ["-d", "-P", "-F", FACTS];
        let mut args: Vec<String> = common.map(str::to_owned).to_vec();
        let verb = match (place, session) {
            (Place::Split { pane, side, cells }, _) => {
                args.extend(split_args(*side, *cells, pane));
                // Keeps a zoomed window zoomed (and would zoom any other).
                args.extend(zoomed.then(|| "-Z".to_owned()));
                "split-window"
            }
            (Place::Window, Some(session)) => {
                args.extend(["-n", SESSION, "-t"].map(str::to_owned));
                // With the colon, the next free index of this session, whatever the first one is.
                args.push(format!("{session}:"));
                "new-window"
            }
            (Place::Window, None) => {
                let (columns, rows) = DETACHED_SIZE;
                args.extend(["-s", SESSION, "-n", SESSION, "-x", columns, "-y", rows].map(str::to_owned));
                "new-session"
            }
        };
        args.extend(PLACEHOLDER.map(str::to_owned));
        let command = command(verb, args.iter().map(String::as_str));
        let answer = self.run(verb, self.tmux().command(command), cwd).await?;
        let facts = answer.lines().next().and_then(PaneFacts::parse);
        facts.ok_or(TmuxError::Unreadable { verb, answer })
    }

    /// Marks a pane as ours, and keeps it for a moment when its process ends: long enough to read how
    /// it ended, and gone all the same when nobody is there to read.
    pub async fn tag(&self, pane: &str, tag: &str, title: &str) -> Result<(), TmuxError> {
        // The pane may be gone by then, and an error of a hook is shown to whoever attaches next. The format is
        // read twice: by `run-shell`, which takes one `#` away, and when the time has come.
        let is_there = format!("##{{S:##{{W:##{{P:##{{?##{{==:##{{pane_id}},{pane}}},1,}}}}}}}}");
        let closing =
            format!("run-shell -d {DEAD_PANE_SECONDS} -C \"if-shell -F '{is_there}' 'kill-pane -t {pane}'\"");
        let commands = [
            command("set-option", ["-p", "-t", pane, "@festoon", tag]),
            command("set-option", ["-p", "-t", pane, "remain-on-exit", "on"]),
            command("set-hook", ["-p", "-t", pane, "pane-died", &closing]),
            command("select-pane", ["-t", pane, "-T", title]),
        ];
        self.call("set-option", commands).await.map(drop)
    }

    /// Puts a program into a pane instead of the placeholder, as separate arguments. The pane's pid is
    /// read in the same breath, before the server can notice that the program has ended.
    pub async fn replace_program(&self, pane: &str, argv: &[String]) -> Result<PaneFacts, TmuxError> {
        let args = ["-k", "-t", pane].into_iter().chain(argv.iter().map(String::as_str));
        let commands = [command("respawn-pane", args), command("list-panes", ["-a", "-F", FACTS])];
        let answer = self.call("respawn-pane", commands).await?;
        let facts = answer.lines().filter_map(PaneFacts::parse).find(|facts| facts.id == pane);
        facts.ok_or(TmuxError::Unreadable { verb: "respawn-pane", answer })
    }

    /// The last lines a pane shows, without empty ones and tmux's own remark that it is dead.
    pub async fn last_lines(&self, pane: &str, count: usize) -> Result<String, TmuxError> {
        let capture = command("capture-pane", ["-p", "-J", "-S", "-100", "-t", pane]);
        let answer = self.call("capture-pane", [capture]).await?;
        let lines: Vec<&str> = answer
            .lines()
            .map(str::trim_end)
            .filter(|line| !line.is_empty() && !line.starts_with("Pane is dead"))
            .collect();
        Ok(lines[lines.len().saturating_sub(count)..].join("\n"))
    }

    /// Makes the server look after its dead children by giving it one more. It closes the login record
    /// of a dead pane with libutempter, which ignores the signal of a child that ends meanwhile, so the
    /// dead process may stay a zombie, and its status unknown, until the next child ends (seen in one
    /// death of ten with tmux 3.3a on Debian).
    pub async fn reap(&self) -> Result<(), TmuxError> {
        // Whatever the default shell makes of it: it starts and ends, and nothing is shown.
        self.call("if-shell", [command("if-shell", ["-b", "true", ""])]).await.map(drop)
    }

    /// Lets a pane go at once when its process ends, whether or not anybody reads how.
    pub async fn let_go(&self, pane: &str) -> Result<(), TmuxError> {
        self.call("set-option", [command("set-option", ["-p", "-t", pane, "remain-on-exit", "off"])])
            .await
            .map(drop)
    }

    /// Removes a pane, and with the last one its window, session and private server.
    pub async fn close(&self, pane: &str) -> Result<(), TmuxError> {
        self.call("kill-pane", [command("kill-pane", ["-t", pane])]).await.map(drop)
    }

    /// Moves a pane into an unseen window of its own and remembers that on the pane.
    pub async fn hide(&self, pane: &PaneFacts, title: &str) -> Result<(), TmuxError> {
        let session = format!("{}:", pane.session);
        let commands = [
            command("set-option", ["-p", "-t", &pane.id, "@festoon-hidden", "1"]),
            command("break-pane", ["-d", "-s", &pane.id, "-t", &session, "-n", title]),
        ];
        self.call("break-pane", commands).await.map(drop)
    }

    /// Brings a hidden pane back to a place; [`Place::Window`] leaves it in its own window.
    pub async fn show(&self, pane: &str, place: &Place) -> Result<(), TmuxError> {
        let forget = command("set-option", ["-p", "-u", "-t", pane, "@festoon-hidden"]);
        let Place::Split { pane: beside, side, cells } = place else {
            return self.call("set-option", [forget]).await.map(drop);
        };
        let split = split_args(*side, *cells, beside);
        let args = ["-d", "-s", pane].into_iter().chain(split.iter().map(String::as_str));
        self.call("join-pane", [command("join-pane", args), forget]).await.map(drop)
    }

    fn tmux(&self) -> Tmux<'static> {
        // Answers in UTF-8, whatever the locale says.
        let tmux = Tmux::new().force_utf8();
        match &self.target {
            TmuxTarget::Inside { socket, .. } | TmuxTarget::At { socket } => {
                tmux.socket_path(socket.to_string_lossy().into_owned())
            }
            TmuxTarget::Private { socket_name } => tmux.file("/dev/null").socket_name(socket_name.clone()),
        }
    }

    async fn call<'a>(
        &self,
        verb: &'static str,
        commands: impl IntoIterator<Item = TmuxCommand<'a>>,
    ) -> Result<String, TmuxError> {
        let tmux: Tmux<'a> = commands.into_iter().fold(self.tmux(), Tmux::command);
        self.run(verb, tmux, Path::new("/")).await
    }

    /// Runs the client in a thread of its own, since it blocks, and kills it at the deadline.
    async fn run(&self, verb: &'static str, tmux: Tmux<'_>, cwd: &Path) -> Result<String, TmuxError> {
        let failed = |source| TmuxError::Start { cwd: cwd.to_owned(), source };
        let mut client = tmux.into_command();
        client.env_clear().envs(&self.env).current_dir(cwd);
        client.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (started, start) = oneshot::channel();
        let (finished, finish) = oneshot::channel();
        let work = move || match client.spawn() {
            Ok(child) => {
                // Nobody listens any more after the deadline, and then it does not matter.
                let _ = started.send(Ok(child.id()));
                let _ = finished.send(child.wait_with_output());
            }
            Err(error) => drop(started.send(Err(error))),
        };
        std::thread::Builder::new().name("tmux".to_owned()).spawn(work).map_err(failed)?;
        let vanished = || failed(io::ErrorKind::BrokenPipe.into());
        let pid = start.await.map_err(|_| vanished())?.map_err(failed)?;
        match tokio::time::timeout(self.deadline, finish).await {
            Ok(output) => read_answer(verb, &output.map_err(|_| vanished())?.map_err(failed)?),
            Err(_) => {
                // Its thread has not reaped it, so the pid is still its own.
                if let Some(client) = process::of(pid) {
                    let _ = process::signal(&client, Signal::Kill);
                }
                Err(TmuxError::TimedOut { verb, after: self.deadline })
            }
        }
    }
}

fn split_args(side: Side, cells: u32, pane: &str) -> Vec<String> {
    let direction = match side {
        Side::Right => "-h",
        Side::Below => "-v",
    };
    [direction, "-l", &cells.to_string(), "-t", pane].map(str::to_owned).to_vec()
}

fn read_answer(verb: &'static str, output: &Output) -> Result<String, TmuxError> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let no_server = ["no server running", "error connecting to", "server exited", "lost server"];
    if no_server.iter().any(|words| said.starts_with(words)) {
        return Err(TmuxError::NoServer(said));
    }
    Err(TmuxError::Refused { verb, said })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn only_a_semicolon_at_the_end_means_something_to_tmux() {
        let kept = ["", "a;b", "$x `y` \"z\" 'q'", "two\nlines", "-k"];
        assert_eq!(kept.map(literal), kept.map(str::to_owned));
        let ends = ["a;", ";", "a\\;", "a;;"];
        assert_eq!(ends.map(literal), ["a\\;", "\\;", "a\\\\;", "a;\\;"].map(str::to_owned));
    }

    #[test]
    fn the_server_around_us_is_read_from_the_environment() {
        let inside = env(&[("TMUX", "/tmp/tmux-0/a,b,4711,0"), ("TMUX_PANE", "%7")]);
        let expected = TmuxTarget::Inside { socket: PathBuf::from("/tmp/tmux-0/a,b"), pane: "%7".to_owned() };
        assert_eq!(TmuxTarget::from_env(&inside), Some(expected));
        for outside in [
            env(&[]),
            env(&[("TMUX", ""), ("TMUX_PANE", "%7")]),
            env(&[("TMUX", "/tmp/s,1,0")]),
            env(&[("TMUX", "/tmp/s,1,0"), ("TMUX_PANE", "")]),
        ] {
            assert_eq!(TmuxTarget::from_env(&outside), None);
        }
    }

    #[test]
    fn facts_are_read_and_a_foreign_tag_may_hold_anything() {
        let line = "%3|4711|4700|@1|$0|99|24|1|1|7||1|not|ours";
        let expected = PaneFacts {
            id: "%3".to_owned(),
            pid: 4711,
            server_pid: 4700,
            window: "@1".to_owned(),
            session: "$0".to_owned(),
            width: 99,
            height: 24,
            zoomed: true,
            dead: true,
            status: Some(7),
            signal: None,
            hidden: true,
            tag: "not|ours".to_owned(),
        };
        assert_eq!(PaneFacts::parse(line), Some(expected));
        assert_eq!(PaneFacts::parse("no server"), None);
    }

    #[test]
    fn tmux_gets_only_what_it_needs_of_our_environment() {
        let leader =
            env(&[("PATH", "/bin"), ("ANTHROPIC_API_KEY", "secret"), ("TMUX", "x"), ("TERM", "xterm")]);
        let server = Server::new(TmuxTarget::Private { socket_name: "s".to_owned() }, &leader);
        assert_eq!(server.env, env(&[("PATH", "/bin"), ("TERM", "xterm")]));
    }
}
