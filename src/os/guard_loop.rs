//! The guard's life: start the command, watch the lifeline, reap, end what is left.
//!
//! One thread, one loop; everything that can happen is an arm of its `select!`. `waitpid` for *any*
//! child finds every orphan below us, and "no child" means that nothing below us is left.

use super::guard::GRACE;
use super::guard_wire::{Bytes, GuardSpec, Order, Report};
use super::process::{self, Signal};
use crate::wire::run::ProcessId;
use nix::unistd::dup2_stdout;
use rustix::fs::MemfdFlags;
use rustix::process::{WaitOptions, WaitStatus};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::time::Instant;

/// Pause between two rounds of KILL.
const ROUND: Duration = Duration::from_millis(10);
/// When to stop trying: what survives KILL this long hangs in the kernel and dies when it returns.
const GIVE_UP: Duration = Duration::from_secs(10);
/// Longest spec; arguments and environment of a command cannot be longer (execve(2): 1/4 of the
/// stack limit, usually 2 MiB), and input is for hooks.
const MAX_LINE: usize = 256 * 1024 * 1024;
/// Input that waits for a command to read it; one that leaves more unread will not read at all.
const MAX_UNREAD: usize = 64 * 1024 * 1024;

/// Runs the guard. Returns when nothing below it lives.
pub(super) async fn run() -> io::Result<()> {
    rustix::process::setsid()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // Before the command starts, so that no end of a child is missed.
    let mut child = signal(SignalKind::child())?;
    let mut signals = Signals::new()?;
    let mut lifeline = Lifeline::new()?;
    let Some(line) = lifeline.line().await? else { return Ok(()) };
    let started = match serde_json::from_slice(&line).map_err(io::Error::other).and_then(start) {
        Ok(started) => started,
        Err(error) => {
            report(&Report::Failed { why: error.to_string() });
            return Ok(());
        }
    };
    report(&Report::Started { pid: started.pid });
    let mut guard = Guard {
        command: Some(started.pid),
        phase: Phase::Watching,
        stderr: started.stderr,
        input: started.input,
    };
    loop {
        if guard.reap() == Left::Nothing {
            return Ok(());
        }
        tokio::select! {
            order = lifeline.order(), if lifeline.open => guard.obey(order),
            _ = child.recv() => {}
            () = signals.any() => guard.begin_end(GRACE),
            data = chunk(guard.stderr.as_ref()) => guard.pass_on(data),
            written = written(guard.input.as_ref()) => guard.fed(written),
            () = tokio::time::sleep_until(guard.phase.next()), if guard.phase != Phase::Watching => {
                if guard.go_on() == Left::Stuck {
                    return Ok(());
                }
            }
        }
    }
}

/// How far the guard is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nobody has to go.
    Watching,
    /// All were asked to end; KILL follows.
    Asked { until: Instant },
    /// KILL, round after round.
    Killing { since: Instant, next: Instant },
}

impl Phase {
    fn next(self) -> Instant {
        match self {
            Self::Watching => Instant::now(),
            Self::Asked { until } => until,
            Self::Killing { next, .. } => next,
        }
    }
}

/// What is below the guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    Something,
    /// Something that KILL does not end.
    Stuck,
}

struct Guard {
    /// The command, until it was reaped.
    command: Option<u32>,
    phase: Phase,
    stderr: Option<Receiver>,
    input: Option<Input>,
}

/// The command's standard input, as long as more may come.
struct Input {
    pipe: Sender,
    /// What the command has not taken yet.
    unread: Vec<u8>,
    /// Nothing comes after `unread`.
    last: bool,
}

impl Guard {
    fn obey(&mut self, order: Order) {
        match order {
            Order::End { grace_ms } => self.begin_end(Duration::from_millis(grace_ms)),
            Order::Input { data } => {
                let Some(input) = self.input.as_mut().filter(|input| !input.last) else { return };
                input.unread.extend_from_slice(&data.0);
                if input.unread.len() > MAX_UNREAD {
                    self.begin_end(GRACE);
                }
            }
            Order::CloseInput => {
                self.input = self.input.take().filter(|input| !input.unread.is_empty());
                if let Some(input) = &mut self.input {
                    input.last = true;
                }
            }
        }
    }

    /// The command has taken so many bytes of its input, or never will take more.
    fn fed(&mut self, written: io::Result<usize>) {
        let Some(input) = &mut self.input else { return };
        match written {
            Ok(count) => drop(input.unread.drain(..count)),
            Err(_) => self.input = None,
        }
        self.input = self.input.take().filter(|input| !(input.last && input.unread.is_empty()));
    }

    /// Takes the status of all children that ended; reports that of the command.
    fn reap(&mut self) -> Left {
        let mut status = None;
        let left = loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, ended))) => {
                    let pid = pid.as_raw_pid().unsigned_abs();
                    if self.command == Some(pid) {
                        self.command = None;
                        status = Some(ended);
                    }
                }
                Ok(None) => break Left::Something,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break Left::Nothing,
            }
        };
        if let Some(status) = status {
            self.drain_stderr();
            report(&exited(status, left == Left::Something));
        }
        left
    }

    fn begin_end(&mut self, grace: Duration) {
        let now = Instant::now();
        match self.phase {
            Phase::Killing { .. } => {}
            Phase::Asked { until } => self.phase = Phase::Asked { until: until.min(now + grace) },
            Phase::Watching if grace.is_zero() => self.phase = Phase::Killing { since: now, next: now },
            Phase::Watching => {
                for id in below() {
                    // A stopped process takes its TERM only once it goes on.
                    let _ = process::signal(&id, Signal::Terminate);
                    let _ = process::signal(&id, Signal::Continue);
                }
                self.phase = Phase::Asked { until: now + grace };
            }
        }
    }

    /// The next step of an ending.
    fn go_on(&mut self) -> Left {
        let now = Instant::now();
        let since = match self.phase {
            Phase::Killing { since, .. } => since,
            Phase::Watching | Phase::Asked { .. } => now,
        };
        if now - since > GIVE_UP {
            return Left::Stuck;
        }
        kill_all();
        self.phase = Phase::Killing { since, next: now + ROUND };
        Left::Something
    }

    fn pass_on(&mut self, data: Vec<u8>) {
        if data.is_empty() {
            self.stderr = None;
        } else {
            report(&Report::Stderr { data: Bytes(data) });
        }
    }

    /// Passes on what the command had written before it ended; what its children write later is
    /// passed on as it comes.
    fn drain_stderr(&mut self) {
        let Some(pipe) = &self.stderr else { return };
        let mut data = vec![0; available(pipe)];
        // Read past the runtime, which may not have heard yet that there is something to read.
        if let Ok(count) = rustix::io::read(pipe.as_fd(), &mut data) {
            data.truncate(count);
            if !data.is_empty() {
                report(&Report::Stderr { data: Bytes(data) });
            }
        }
    }
}

fn below() -> Vec<ProcessId> {
    process::descendants(std::process::id())
}

/// One round: hold all still until no new ones appear, then KILL. Without the first step something
/// that forks quickly outruns us.
fn kill_all() {
    let mut held = HashSet::new();
    for _ in 0..20 {
        let new: Vec<ProcessId> = below().into_iter().filter(|id| held.insert(id.pid)).collect();
        if new.is_empty() {
            break;
        }
        for id in &new {
            let _ = process::signal(id, Signal::Stop);
        }
    }
    for id in below() {
        let _ = process::signal(&id, Signal::Kill);
    }
}

fn exited(status: WaitStatus, left: bool) -> Report {
    Report::Exited { code: status.exit_status(), signal: status.terminating_signal(), left }
}

/// Writes one line. The owner may be gone; then nobody needs it.
fn report(report: &Report) {
    if let Ok(mut line) = serde_json::to_vec(report) {
        line.push(b'\n');
        let _ = io::stderr().lock().write_all(&line);
    }
}

/// A command that runs: its standard error, if split off, and its input, if more may come.
struct Started {
    pid: u32,
    stderr: Option<Receiver>,
    input: Option<Input>,
}

/// Starts the command in a process group of its own.
fn start(spec: GuardSpec) -> io::Result<Started> {
    let mut argv = spec.argv.into_iter().map(OsString::from);
    let program = argv.next().ok_or_else(|| io::Error::other("no program was named"))?;
    let cwd = OsString::from(spec.cwd);
    if !Path::new(&cwd).is_dir() {
        // Checked here, since execve reports it exactly like a missing program.
        return Err(io::Error::other(format!("there is no directory {}", Path::new(&cwd).display())));
    }
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    let (stderr, errors): (Option<Receiver>, OwnedFd) = if spec.split {
        let (reader, writer) = io::pipe()?;
        (Some(Receiver::from_owned_fd(reader.into())?), writer.into())
    } else {
        (None, output.try_clone()?)
    };
    let (stdin, input) = if spec.open {
        let (reader, writer) = io::pipe()?;
        let pipe = Sender::from_owned_fd(writer.into())?;
        (Stdio::from(reader), Some(Input { pipe, unread: spec.stdin.0, last: false }))
    } else {
        (input(&spec.stdin.0)?, None)
    };
    let child = Command::new(program)
        .args(argv)
        .current_dir(cwd)
        .env_clear()
        .envs(spec.env)
        .stdin(stdin)
        .stdout(output)
        .stderr(errors)
        .process_group(0)
        .spawn()?;
    if spec.open {
        // So that whoever talks to the command sees it close its output.
        dup2_stdout(File::open("/dev/null")?)?;
    }
    // Not waited for through `child`: `reap` takes the status of everything.
    Ok(Started { pid: child.id(), stderr, input })
}

/// The command's input, as a file in memory: needs no one to write it while the command runs.
fn input(data: &[u8]) -> io::Result<Stdio> {
    if data.is_empty() {
        return Ok(Stdio::null());
    }
    let mut file = File::from(rustix::fs::memfd_create("input", MemfdFlags::CLOEXEC)?);
    file.write_all(data)?;
    file.rewind()?;
    Ok(file.into())
}

/// Bytes that can be read at once.
pub(super) fn available(pipe: &impl AsFd) -> usize {
    rustix::io::ioctl_fionread(pipe).ok().and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
}

/// The next bytes, empty at the end; pends for ever without a pipe.
async fn chunk(pipe: Option<&Receiver>) -> Vec<u8> {
    let Some(pipe) = pipe else { return std::future::pending().await };
    let mut data = vec![0; 16 * 1024];
    loop {
        if pipe.readable().await.is_err() {
            return Vec::new();
        }
        match pipe.try_read(&mut data) {
            Ok(count) => {
                data.truncate(count);
                return data;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return Vec::new(),
        }
    }
}

/// Gives the command some of its input; pends for ever while there is none.
async fn written(input: Option<&Input>) -> io::Result<usize> {
    let Some(input) = input.filter(|input| !input.unread.is_empty()) else {
        return std::future::pending().await;
    };
    loop {
        input.pipe.writable().await?;
        match input.pipe.try_write(&input.unread) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return done,
        }
    }
}

/// The signals that ask the guard itself to end.
struct Signals {
    terminate: Stream,
    interrupt: Stream,
    hangup: Stream,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn any(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}

/// The pipe from the owner.
struct Lifeline {
    pipe: Receiver,
    buffer: Vec<u8>,
    open: bool,
}

impl Lifeline {
    fn new() -> io::Result<Self> {
        let pipe = Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
        Ok(Self { pipe, buffer: Vec::new(), open: true })
    }

    /// The next line without its end; `None` when the owner is gone. May be dropped at any await.
    async fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.buffer[searched..].iter().position(|&byte| byte == b'\n') {
                let rest = self.buffer.split_off(searched + end + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                line.pop();
                return Ok(Some(line));
            }
            searched = self.buffer.len();
            if searched > MAX_LINE {
                return Err(io::Error::other("the spec is too long"));
            }
            let data = chunk(Some(&self.pipe)).await;
            if data.is_empty() {
                self.open = false;
                return Ok(None);
            }
            self.buffer.extend_from_slice(&data);
        }
    }

    /// What to do; the end of the lifeline is an order to end, too.
    async fn order(&mut self) -> Order {
        let line = self.line().await.ok().flatten();
        line.and_then(|line| serde_json::from_slice(&line).ok())
            .unwrap_or(Order::End { grace_ms: u64::try_from(GRACE.as_millis()).unwrap_or(u64::MAX) })
    }
}
