//! The numbers of spec §24, in one place. Settings override those that users may change.

use std::time::Duration;

/// Concurrency-safe tool calls that run together.
pub const TOOL_CONCURRENCY: usize = 10;
/// Bash timeout unless the call names one.
pub const BASH_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest Bash timeout a call may name.
pub const BASH_TIMEOUT_MAX: Duration = Duration::from_secs(600);
/// How long `TaskOutput` waits for the end of a task unless the call says.
pub const TASK_OUTPUT_WAIT: Duration = Duration::from_secs(30);
/// Longest wait a call of `TaskOutput` may name.
pub const TASK_OUTPUT_WAIT_MAX: Duration = Duration::from_secs(600);
/// Tool result in the history, in characters.
pub const TOOL_RESULT_CHARS: usize = 30_000;
/// Lines that `Read` returns at once.
pub const READ_LINES: usize = 2_000;
/// How long a worker may take to say it is ready.
pub const READY_DEADLINE: Duration = Duration::from_secs(10);
/// The share of a model's context that the next request may fill before the conversation is compacted.
pub const COMPACTION_THRESHOLD: f64 = 0.85;
/// Bytes of the largest file whose former state is kept for `/rewind`.
pub const CHECKPOINT_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes that a session keeps of files at most.
pub const CHECKPOINT_BYTES: u64 = 256 * 1024 * 1024;
/// Days after which old sessions, logs and unused teams are removed.
pub const CLEANUP_DAYS: u32 = 30;
/// How long a store operation tries for a lock.
pub const LOCK_DEADLINE: Duration = Duration::from_secs(10);
/// Poll beneath file notification on local file systems.
pub const POLL_NET: Duration = Duration::from_secs(5);
/// Poll beneath file notification on network file systems.
pub const POLL_NET_NETWORK: Duration = Duration::from_millis(500);
/// Messages a model may send to one recipient in a burst.
pub const SEND_BURST: u32 = 30;
/// Messages a second after the burst.
pub const SEND_PER_SECOND: u32 = 1;
/// Waiting messages an inbox holds.
pub const INBOX_MESSAGES: usize = 10_000;
/// Bytes an inbox holds.
pub const INBOX_BYTES: usize = 4 * 1024 * 1024;
/// Read messages that stay in the inbox file.
pub const INBOX_KEPT_READ: usize = 20;
/// Bytes of read messages that stay at most, so that a few long ones do not slow every send down.
pub const INBOX_KEPT_READ_BYTES: usize = 256 * 1024;
/// Deepest agent that may exist; the main agent is 0.
pub const MAX_DEPTH: u32 = 3;
/// Agents that run at once, the main agent not counted.
pub const MAX_AGENTS: usize = 16;
/// Agents a session may start.
pub const MAX_AGENTS_TOTAL: usize = 200;
/// Rounds a fork may take.
pub const FORK_ROUNDS: u32 = 200;
/// Files whose state `Read` remembers.
pub const FILE_CACHE_FILES: usize = 100;
/// Bytes of file content the file-state cache holds.
pub const FILE_CACHE_BYTES: usize = 25 * 1024 * 1024;
/// How long `WebFetch` waits for a page, redirects included.
pub const WEB_FETCH_DEADLINE: Duration = Duration::from_secs(30);
/// Bytes of a page that `WebFetch` reads.
pub const WEB_FETCH_BYTES: usize = 10 * 1024 * 1024;
/// How long a session keeps a page.
pub const WEB_CACHE: Duration = Duration::from_secs(15 * 60);
/// Bytes of text of all pages that a session keeps.
pub const WEB_CACHE_BYTES: usize = 32 * 1024 * 1024;
/// How often new leaders start a teammate again that was at work each time its leader died, within
/// [`RESTART_WINDOW`]. Once may be chance, and twice; then it is likelier the cause.
pub const RESTARTS: usize = 3;
/// See [`RESTARTS`].
pub const RESTART_WINDOW: Duration = Duration::from_mins(10);
