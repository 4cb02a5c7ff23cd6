//! Processes: who they are, whether they live, how they are signalled.
//!
//! A process is named by pid *and* start time *and* boot, since pids are used again. Promises that a
//! zombie counts as dead and that a signal never reaches a later process with the same pid (where
//! the kernel has pidfds, Linux 5.3). Never ends anything by itself.

use super::error::OsError;
use crate::wire::run::ProcessId;
use rustix::process::{Pid, PidfdFlags};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

/// Pause between two looks where the kernel has no pidfd.
const LOOK: Duration = Duration::from_millis(20);

/// The signals we send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// INT: interrupt.
    Interrupt,
    /// TERM: please end.
    Terminate,
    /// KILL: end.
    Kill,
    /// STOP: hold still.
    Stop,
    /// CONT: go on.
    Continue,
}

impl Signal {
    fn raw(self) -> rustix::process::Signal {
        match self {
            Self::Interrupt => rustix::process::Signal::INT,
            Self::Terminate => rustix::process::Signal::TERM,
            Self::Kill => rustix::process::Signal::KILL,
            Self::Stop => rustix::process::Signal::STOP,
            Self::Continue => rustix::process::Signal::CONT,
        }
    }
}

/// One line of `/proc/<pid>/stat`, as far as we need it (proc_pid_stat(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The process.
    pub pid: u32,
    /// False for zombies and the dead.
    pub alive: bool,
    /// Its parent.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Its session.
    pub session: u32,
    /// Clock ticks after boot.
    pub start_time: u64,
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The name in parentheses may itself hold spaces and parentheses: the last one ends it.
    let (head, tail) = text.rsplit_once(')')?;
    let pid = head.split_once(' ')?.0.parse().ok()?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    Some(Stat {
        pid,
        alive: !matches!(*fields.first()?, "Z" | "X" | "x"),
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start_time: fields.get(19)?.parse().ok()?,
    })
}

/// What the kernel says of a process; `None` when there is none with this pid.
pub fn stat(pid: u32) -> Option<Stat> {
    // The name may hold any bytes, so the line is read as such.
    let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&String::from_utf8_lossy(&bytes))
}

/// All processes that can be seen.
pub fn all() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()))
        .filter_map(stat)
        .collect()
}

/// The kernel's boot id, or an empty text where there is none.
pub fn boot_id() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| {
        fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
    })
}

/// The host's name.
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The number of the user this process acts as.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn identity(stat: &Stat) -> ProcessId {
    ProcessId { pid: stat.pid, start_time: stat.start_time, boot_id: boot_id().to_owned(), host: host() }
}

/// The identity of a living process; `None` when there is none with this pid.
pub fn of(pid: u32) -> Option<ProcessId> {
    stat(pid).filter(|stat| stat.alive).map(|stat| identity(&stat))
}

/// The identity of this process.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn current() -> Result<ProcessId, OsError> {
    let pid = std::process::id();
    of(pid).ok_or_else(|| OsError::Process { pid, source: io::ErrorKind::NotFound.into() })
}

/// Makes this process the leader of a session of its own, unless it leads one already: what it starts
/// can then be found by the session.
///
/// # Errors
/// When it leads a group in somebody else's session.
pub fn lead_session() -> Result<(), OsError> {
    let pid = std::process::id();
    if stat(pid).is_some_and(|stat| stat.session == pid) {
        return Ok(());
    }
    let made = rustix::process::setsid();
    made.map(drop).map_err(|errno| OsError::Process { pid, source: errno.into() })
}

/// Whether exactly this process runs, here and now. A zombie, a later process with the same pid, and
/// a process of another boot or host are not alive.
pub fn is_alive(id: &ProcessId) -> bool {
    id.boot_id == boot_id() && id.host == host() && runs(id.pid, id.start_time)
}

fn runs(pid: u32, start_time: u64) -> bool {
    stat(pid).is_some_and(|stat| stat.alive && stat.start_time == start_time)
}

fn raw_pid(pid: u32) -> Option<Pid> {
    // 0 and 1 are never ours to signal; 0 would mean our own group.
    i32::try_from(pid).ok().filter(|&pid| pid > 1).and_then(Pid::from_raw)
}

/// A handle of exactly this process, or `None` when it is gone or the kernel has no pidfds.
fn handle(id: &ProcessId) -> Option<OwnedFd> {
    let fd = rustix::process::pidfd_open(raw_pid(id.pid)?, PidfdFlags::empty()).ok()?;
    // Opened first, looked at second: the handle stays with whoever had the pid at the look.
    is_alive(id).then_some(fd)
}

/// Sends a signal to exactly this process. `false` when it is gone.
///
/// # Errors
/// When the process may not be signalled.
pub fn signal(id: &ProcessId, signal: Signal) -> Result<bool, OsError> {
    let sent = match handle(id) {
        Some(fd) => rustix::process::pidfd_send_signal(fd, signal.raw()),
        None if !is_alive(id) => return Ok(false),
        None => match raw_pid(id.pid) {
            Some(pid) => rustix::process::kill_process(pid, signal.raw()),
            None => return Ok(false),
        },
    };
    delivered(id.pid, sent)
}

/// Sends a signal to all of a process group. `false` when there is none.
///
/// # Errors
/// When none of its members may be signalled.
pub fn signal_group(group: u32, signal: Signal) -> Result<bool, OsError> {
    let Some(pid) = raw_pid(group) else { return Ok(false) };
    delivered(group, rustix::process::kill_process_group(pid, signal.raw()))
}

fn delivered(pid: u32, result: rustix::io::Result<()>) -> Result<bool, OsError> {
    match result {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::SRCH) => Ok(false),
        Err(errno) => Err(OsError::Process { pid, source: errno.into() }),
    }
}

/// The living members of a process session.
pub fn session_members(session: u32) -> Vec<ProcessId> {
    all().iter().filter(|stat| stat.alive && stat.session == session).map(identity).collect()
}

/// Sends a signal to every living member of a process session, whatever its group; how many there
/// were that could be signalled. Nothing is sent to session 0 and 1 (kernel, init).
pub fn signal_session(session: u32, with: Signal) -> usize {
    if raw_pid(session).is_none() {
        return 0;
    }
    session_members(session).iter().filter(|member| signal(member, with).unwrap_or(false)).count()
}

/// All living processes below `pid` in the tree, parents before children, `pid` itself not included.
/// A process whose parent ended is below the nearest subreaper above it.
pub fn descendants(pid: u32) -> Vec<ProcessId> {
    let all = all();
    let mut children: HashMap<u32, Vec<&Stat>> = HashMap::new();
    for stat in &all {
        children.entry(stat.parent).or_default().push(stat);
    }
    let mut found = Vec::new();
    let mut next = vec![pid];
    while let Some(parent) = next.pop() {
        // Removed, so that a tree that changed under the walk cannot make it run in circles.
        for stat in children.remove(&parent).unwrap_or_default() {
            next.push(stat.pid);
            if stat.alive {
                found.push(identity(stat));
            }
        }
    }
    found
}

/// The processes above `pid`, nearest first, as far as they can be seen.
pub fn ancestors(pid: u32) -> Vec<Stat> {
    let mut found: Vec<Stat> = Vec::new();
    let mut next = stat(pid).map(|stat| stat.parent);
    while let Some(stat) = next.filter(|&pid| pid > 0).and_then(stat) {
        if found.iter().any(|seen| seen.pid == stat.pid) {
            break;
        }
        next = Some(stat.parent);
        found.push(stat);
    }
    found
}

/// The arguments a process was started with; empty when it is gone or a kernel thread.
pub fn arguments(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words: Vec<String> =
        bytes.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    // Each argument ends in NUL, so what follows the last one is no argument.
    words.pop();
    words
}

#[expect(deprecated, reason = "its successor is `unsafe fn`; an `OwnedFd` keeps what that demands")]
fn watch(fd: OwnedFd) -> Option<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, Interest::READABLE).ok()
}

/// Waits until exactly this process is gone (ended, reaped or not), at most `deadline`. `true` when
/// it is gone.
pub async fn wait_gone(id: &ProcessId, deadline: Duration) -> bool {
    let until = Instant::now() + deadline;
    if let Some(fd) = handle(id).and_then(watch) {
        // A pidfd becomes readable when its process ends.
        if tokio::time::timeout_at(until, fd.readable()).await.is_err() {
            return !is_alive(id);
        }
    }
    while is_alive(id) {
        if Instant::now() >= until {
            return false;
        }
        tokio::time::sleep(LOOK.min(until - Instant::now())).await;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").spawn().expect("sleep starts")
    }

    #[test]
    fn a_name_full_of_parentheses_does_not_shift_the_fields() {
        let line = "4711 (a) Z (b (c) S 1 4711 4700 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 987654 2 3";
        let expected =
            Stat { pid: 4711, alive: true, parent: 1, group: 4711, session: 4700, start_time: 987_654 };
        assert_eq!(parse_stat(line), Some(expected));
        assert_eq!(parse_stat("4711 (cut) S 1"), None);
    }

    #[tokio::test]
    async fn a_killed_process_is_dead_as_a_zombie_and_after() {
        let mut child = sleeper();
        let id = of(child.id()).expect("it lives");
        assert!(is_alive(&id));
        assert!(!wait_gone(&id, Duration::from_millis(10)).await);
        assert!(signal(&id, Signal::Kill).expect("signal"));
        assert!(wait_gone(&id, Duration::from_secs(10)).await, "nobody has reaped it");
        assert_eq!(of(child.id()), None);
        child.wait().expect("reaped");
        assert!(!is_alive(&id));
        assert!(!signal(&id, Signal::Kill).expect("no one there"));
    }

    #[test]
    fn another_start_time_boot_or_host_is_another_process() {
        let here = current().expect("we live");
        assert!(is_alive(&here));
        let other = |change: fn(&mut ProcessId)| {
            let mut id = here.clone();
            change(&mut id);
            (is_alive(&id), signal(&id, Signal::Continue).expect("looked"))
        };
        assert_eq!(other(|id| id.start_time += 1), (false, false));
        assert_eq!(other(|id| id.boot_id.push('x')), (false, false));
        assert_eq!(other(|id| id.host.push('x')), (false, false));
    }

    #[test]
    fn children_are_descendants_and_we_their_ancestor() {
        let mut child = sleeper();
        let pid = child.id();
        let below = descendants(std::process::id());
        let above = ancestors(pid);
        child.kill().expect("kill");
        child.wait().expect("reaped");
        assert!(below.iter().any(|id| id.pid == pid));
        assert_eq!(above.first().map(|stat| stat.pid), Some(std::process::id()));
        assert_eq!(arguments(std::process::id()).first(), std::env::args().next().as_ref());
    }

    #[test]
    fn nothing_reaches_our_own_group_through_a_zero() {
        assert!(!signal_group(0, Signal::Kill).expect("refused"));
        assert_eq!(signal_session(0, Signal::Kill), 0);
        assert_eq!(signal_session(1, Signal::Kill), 0);
    }
}
