//! Commands: every child process we start, each below a guard of its own.
//!
//! Promises that a command and everything it ever started end with the [`RunningCommand`] (dropped,
//! ended or killed with our process), that output written before the command's end is delivered
//! before its [`CommandEvent::Exited`], and that neither arguments nor environment of the guard show
//! anything of the command. Never gives a command our environment or standard streams.

use super::error::OsError;
use super::guard;
use super::guard_wire::{Bytes, GuardSpec, Order, Report};
use super::process::{self, Signal};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, ChildStderr, ChildStdin, Command};
use tokio::time::Instant;

/// Bytes of output in one event, at most.
const CHUNK: usize = 64 * 1024;
/// How long the guard has, beyond the command's grace, before it is killed itself.
const GUARD_GRACE: Duration = Duration::from_secs(12);

/// Where a command's standard error goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StandardError {
    /// Into the output, in the order it was written.
    #[default]
    Merged,
    /// Into events of its own.
    Apart,
}

/// When a command's standard input ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StandardInput {
    /// After what the spec holds.
    #[default]
    Given,
    /// When [`RunningCommand::close_input`] says so; until then [`RunningCommand::feed`] adds to it.
    Open,
}

/// What to run.
#[derive(Debug, Clone)]
pub struct CommandSpec {
    /// Program (looked up in the `PATH` of `env`) and arguments; no shell is involved.
    pub argv: Vec<OsString>,
    /// Where; absolute.
    pub cwd: PathBuf,
    /// The complete environment.
    pub env: BTreeMap<String, String>,
    /// What it reads on standard input; nothing is `/dev/null`.
    pub stdin: Vec<u8>,
    /// Whether more comes after `stdin`.
    pub input: StandardInput,
    /// Where its standard error goes.
    pub stderr: StandardError,
    /// Our binary, for the guard; [`guard::SELF_EXE`] except in tests.
    pub guard: PathBuf,
}

impl CommandSpec {
    /// A command without input whose output is merged.
    pub fn new(
        argv: impl IntoIterator<Item = impl Into<OsString>>,
        cwd: impl Into<PathBuf>,
        env: BTreeMap<String, String>,
    ) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            cwd: cwd.into(),
            env,
            stdin: Vec::new(),
            input: StandardInput::Given,
            stderr: StandardError::Merged,
            guard: PathBuf::from(guard::SELF_EXE),
        }
    }

    /// The name of its program, for messages.
    pub fn program(&self) -> String {
        self.argv.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Its guard was killed; it was killed, too.
    Lost,
}

impl Exit {
    /// Status 0.
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit status {code}"),
            Self::Signal(number) => write!(f, "killed by signal {number}{}", name(*number)),
            Self::Lost => f.write_str("killed together with its guard"),
        }
    }
}

/// Names of the signals that end commands most often.
fn name(number: i32) -> &'static str {
    match number {
        1 => " (HUP)",
        2 => " (INT)",
        6 => " (ABRT)",
        9 => " (KILL)",
        11 => " (SEGV)",
        13 => " (PIPE)",
        15 => " (TERM)",
        _ => "",
    }
}

/// What happens to a running command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandEvent {
    /// Output; after `Exited`, that of processes it left behind. Once empty when its output is closed while its
    /// input is kept open.
    Output(Vec<u8>),
    /// Standard error, when it is kept apart.
    Stderr(Vec<u8>),
    /// The command ended.
    Exited {
        /// How.
        exit: Exit,
        /// Whether processes it started still run; they end with the [`RunningCommand`].
        left: bool,
    },
    /// Nothing of it is left. Comes once, after `Exited`; then again at every call.
    Gone,
}

/// A command and everything it started. Dropping it ends all of that, without waiting.
#[derive(Debug)]
pub struct RunningCommand {
    program: String,
    pid: u32,
    guard: Child,
    guard_pid: u32,
    lifeline: Option<ChildStdin>,
    /// Orders that the lifeline has not taken yet.
    orders: Vec<u8>,
    reports: Option<ChildStderr>,
    buffer: Vec<u8>,
    output: Option<Receiver>,
    /// Output that was written before the end and comes before `ended`.
    owed: usize,
    /// Whether the end of its output is an event.
    tells_end: bool,
    ended: Option<(Exit, bool)>,
    told: bool,
    force_at: Option<Instant>,
    gone: bool,
}

/// Starts a command. Returns when it runs.
///
/// # Errors
/// When the program or directory does not exist or the guard cannot run.
pub async fn start(spec: CommandSpec) -> Result<RunningCommand, OsError> {
    let program = spec.program();
    let failed = |why: String| OsError::Start { program: program.clone(), why };
    let line = line_of(&spec).map_err(|error| failed(error.to_string()))?;
    let mut running = spawn(&spec.guard, &program).map_err(|error| failed(error.to_string()))?;
    running.tells_end = spec.input == StandardInput::Open;
    if let Some(lifeline) = &mut running.lifeline {
        // An error here means that the guard is gone, which its reports will tell.
        let _ = lifeline.write_all(&line).await;
        let _ = lifeline.flush().await;
    }
    match running.report().await {
        Some(Report::Started { pid }) => {
            running.pid = pid;
            Ok(running)
        }
        Some(Report::Failed { why }) => Err(failed(why)),
        Some(Report::Stderr { .. } | Report::Exited { .. }) | None => {
            Err(failed(format!("its guard {} did not answer", spec.guard.display())))
        }
    }
}

fn line_of(spec: &CommandSpec) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&GuardSpec {
        argv: spec.argv.iter().map(|word| word.as_os_str().into()).collect(),
        cwd: spec.cwd.as_os_str().into(),
        env: spec.env.clone(),
        stdin: Bytes(spec.stdin.clone()),
        split: spec.stderr == StandardError::Apart,
        open: spec.input == StandardInput::Open,
    })?;
    line.push(b'\n');
    Ok(line)
}

fn spawn(path: &Path, program: &str) -> io::Result<RunningCommand> {
    let mut guard = Command::new(path)
        .arg0("festoon")
        .arg(guard::ARGUMENT)
        // Neither our keys nor our directory (which may be removed) stay with it.
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let output = guard.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    Ok(RunningCommand {
        program: program.to_owned(),
        pid: 0,
        guard_pid: guard.id().ok_or(io::ErrorKind::NotFound)?,
        lifeline: guard.stdin.take(),
        orders: Vec::new(),
        reports: guard.stderr.take(),
        guard,
        buffer: Vec::new(),
        output: Some(Receiver::from_owned_fd(output.into_owned_fd()?)?),
        owed: 0,
        tells_end: false,
        ended: None,
        told: false,
        force_at: None,
        gone: false,
    })
}

enum Happened {
    Output(io::Result<Vec<u8>>),
    Report(Option<Report>),
    Ordered(io::Result<usize>),
    Forced,
}

impl RunningCommand {
    /// The command's pid. It may be gone.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The guard's pid; it is also the id of the command's process session.
    pub fn guard_pid(&self) -> u32 {
        self.guard_pid
    }

    /// The next event. May be dropped at any await without losing anything.
    pub async fn event(&mut self) -> CommandEvent {
        loop {
            if let Some(data) = self.owed_output() {
                return CommandEvent::Output(data);
            }
            if let Some((exit, left)) = self.ended.filter(|_| !self.told) {
                self.told = true;
                return CommandEvent::Exited { exit, left };
            }
            if self.gone {
                return CommandEvent::Gone;
            }
            let happened = tokio::select! {
                data = read(self.output.as_ref()) => Happened::Output(data),
                report = next_report(&mut self.reports, &mut self.buffer) => Happened::Report(report),
                count = written(&mut self.lifeline, &self.orders) => Happened::Ordered(count),
                () = sleep_until(self.force_at) => Happened::Forced,
            };
            match happened {
                Happened::Output(Ok(data)) if !data.is_empty() => return CommandEvent::Output(data),
                Happened::Output(_) => {
                    self.output = None;
                    if self.tells_end {
                        return CommandEvent::Output(Vec::new());
                    }
                }
                Happened::Report(Some(Report::Stderr { data })) => return CommandEvent::Stderr(data.0),
                Happened::Report(Some(Report::Exited { code, signal, left })) => {
                    self.owed = self.output.as_ref().map_or(0, super::guard_loop::available);
                    let exit = match (code, signal) {
                        (Some(code), _) => Exit::Code(code),
                        (None, Some(signal)) => Exit::Signal(signal),
                        (None, None) => Exit::Lost,
                    };
                    self.ended = Some((exit, left));
                }
                Happened::Report(Some(Report::Started { .. } | Report::Failed { .. })) => {}
                Happened::Report(None) => self.take_leave().await,
                Happened::Ordered(Ok(count)) => drop(self.orders.drain(..count)),
                // The guard is gone, which its reports will tell.
                Happened::Ordered(Err(_)) => self.orders.clear(),
                Happened::Forced => self.force(),
            }
        }
    }

    /// Output that was there when the command ended, read past the runtime, which may not have heard
    /// yet that there is something to read.
    fn owed_output(&mut self) -> Option<Vec<u8>> {
        if self.owed == 0 {
            return None;
        }
        let mut data = vec![0; self.owed.min(CHUNK)];
        let count = self.output.as_ref().and_then(|pipe| rustix::io::read(pipe.as_fd(), &mut data).ok());
        let Some(count) = count.filter(|&count| count > 0) else {
            self.owed = 0;
            return None;
        };
        self.owed -= count;
        data.truncate(count);
        Some(data)
    }

    /// The guard has closed its reports, so it is gone or going.
    async fn take_leave(&mut self) {
        self.lifeline = None;
        let clean = self.guard.wait().await.is_ok_and(|status| status.success());
        if !clean || self.ended.is_none() {
            // It was killed. What did not leave its session can still be found.
            process::signal_session(self.guard_pid, Signal::Kill);
            self.ended.get_or_insert((Exit::Lost, false));
        }
        self.owed = self.output.as_ref().map_or(0, super::guard_loop::available);
        self.reports = None;
        self.force_at = None;
        self.gone = true;
    }

    fn force(&mut self) {
        self.force_at = None;
        for id in process::descendants(self.guard_pid) {
            let _ = process::signal(&id, Signal::Kill);
        }
        let _ = self.guard.start_kill();
    }

    async fn report(&mut self) -> Option<Report> {
        next_report(&mut self.reports, &mut self.buffer).await
    }

    /// Adds to an open standard input. It is written while [`RunningCommand::event`] is waited for;
    /// [`RunningCommand::unfed`] says how much still has to be.
    pub fn feed(&mut self, data: &[u8]) {
        self.order(&Order::Input { data: Bytes(data.to_vec()) });
    }

    /// Ends an open standard input after what it was fed.
    pub fn close_input(&mut self) {
        self.order(&Order::CloseInput);
    }

    /// Bytes that wait on our side of the command's input, in the form they are passed on in.
    pub fn unfed(&self) -> usize {
        self.orders.len()
    }

    fn order(&mut self, order: &Order) {
        if let (Some(_), Ok(line)) = (&self.lifeline, serde_json::to_vec(order)) {
            self.orders.extend_from_slice(&line);
            self.orders.push(b'\n');
        }
    }

    /// Begins to end the command and all it started: TERM, then KILL after `grace` (at once when it
    /// is zero). Events go on until [`CommandEvent::Gone`], which is then certain to come.
    pub fn end(&mut self, grace: Duration) {
        // Input is of no use any more, but a line that was begun has to be completed.
        let begun = self.orders.iter().position(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        self.orders.truncate(begun);
        self.order(&Order::End { grace_ms: u64::try_from(grace.as_millis()).unwrap_or(u64::MAX) });
        if begun == 0
            && let Some(lifeline) = &self.lifeline
        {
            // At once, since nobody may wait for events. The pipe is empty, so one short line fits; a
            // dead guard needs no order.
            let written = lifeline
                .as_fd()
                .try_clone_to_owned()
                .and_then(|fd| rustix::io::write(fd, &self.orders).map_err(io::Error::from));
            self.orders.drain(..written.unwrap_or(0));
        }
        self.force_at = Some(Instant::now() + grace + GUARD_GRACE);
    }

    /// Ends the command and all it started, and waits until nothing of it is left. Output on the way
    /// is thrown away.
    pub async fn terminate(&mut self, grace: Duration) -> Exit {
        self.end(grace);
        self.wait_gone().await
    }

    /// Like [`RunningCommand::terminate`], without asking first.
    pub async fn kill(&mut self) -> Exit {
        self.terminate(Duration::ZERO).await
    }

    /// Waits until nothing of it is left, throwing output away.
    pub async fn wait_gone(&mut self) -> Exit {
        while self.event().await != CommandEvent::Gone {}
        self.ended.map_or(Exit::Lost, |(exit, _)| exit)
    }

    /// The program's name, for messages.
    pub fn program(&self) -> &str {
        &self.program
    }
}

async fn sleep_until(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}

/// Passes some orders on; pends for ever while there are none.
async fn written(lifeline: &mut Option<ChildStdin>, orders: &[u8]) -> io::Result<usize> {
    match lifeline {
        Some(lifeline) if !orders.is_empty() => lifeline.write(orders).await,
        _ => std::future::pending().await,
    }
}

async fn read(pipe: Option<&Receiver>) -> io::Result<Vec<u8>> {
    let Some(pipe) = pipe else { return std::future::pending().await };
    let mut data = vec![0; CHUNK];
    loop {
        pipe.readable().await?;
        match pipe.try_read(&mut data) {
            Ok(count) => {
                data.truncate(count);
                return Ok(data);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// The next report; `None` once there is no more. Lines that are none (a panic's last words) are
/// passed over.
async fn next_report(reports: &mut Option<ChildStderr>, buffer: &mut Vec<u8>) -> Option<Report> {
    let Some(pipe) = reports else { return std::future::pending().await };
    loop {
        while let Some(end) = buffer.iter().position(|&byte| byte == b'\n') {
            let rest = buffer.split_off(end + 1);
            let line = std::mem::replace(buffer, rest);
            if let Ok(report) = serde_json::from_slice(&line) {
                return Some(report);
            }
        }
        if !matches!(pipe.read_buf(buffer).await, Ok(count) if count > 0) {
            return None;
        }
    }
}
