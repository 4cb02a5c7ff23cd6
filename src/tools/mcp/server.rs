//! One server in the pool: a task that starts it when it is needed, starts it again when it has died, and
//! ends it when nobody uses it any more.
//!
//! The task owns the connection; users send it orders and look at its [`Status`]. Promises that there is
//! at most one connection, that a failing server is not started in a loop (back-off), and that an ended
//! one is gone before its task is.

use super::client::{Connection, Declared, Greeting, Host, LIST_DEADLINE, Link};
use super::pool::Registry;
use crate::wire::mcp::McpServer;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::task::TaskTracker;

/// How long a server outlives its last user, so that agents that follow each other share it.
pub const LINGER: Duration = Duration::from_secs(10);
/// The pause before a server that failed twice is started again; doubled each time.
const BACK_OFF: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);
/// A server that has run so long has not failed to start when it dies.
const STEADY: Duration = Duration::from_secs(30);
/// The least time between two looks at tools that change.
const CHANGES: Duration = Duration::from_secs(1);

/// Where a server is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Nobody has needed it yet, or it has ended and nobody has needed it since.
    Asleep,
    /// It is being started.
    Starting,
    /// It can be called.
    Ready,
    /// It could not be started, or has died; why, in a sentence.
    Failed(Arc<str>),
}

/// What is known of a server.
#[derive(Debug, Clone)]
pub struct Status {
    /// Where it is in its life.
    pub phase: Phase,
    /// Its tools as last listed, also when it does not run; `None` before they ever were.
    pub tools: Option<Arc<[Declared]>>,
    /// How it wants its tools to be used; its own words.
    pub instructions: Option<Arc<str>>,
}

/// What is remembered of a server that does not run: its tools and its instructions.
pub(super) type Known = (Arc<[Declared]>, Option<Arc<str>>);

/// What the task is told.
enum Order {
    /// Somebody needs it to run. Answered when it does or cannot.
    Need(oneshot::Sender<Result<Link, String>>),
    /// A user has gone.
    Released,
    /// End it, whoever uses it.
    Close(oneshot::Sender<()>),
}

/// A server that is shared by all agents of the process with the same configuration.
pub struct Server {
    /// Its configuration.
    pub config: McpServer,
    status: watch::Receiver<Status>,
    orders: mpsc::UnboundedSender<Order>,
    pub(super) users: AtomicUsize,
}

impl Server {
    /// A server that sleeps.
    pub(super) fn new(
        config: McpServer,
        known: Option<Known>,
        host: &Host,
        tasks: &TaskTracker,
        registry: Weak<Registry>,
    ) -> Arc<Self> {
        let (tools, instructions) = known.map_or((None, None), |(tools, words)| (Some(tools), words));
        let (status, seen) = watch::channel(Status { phase: Phase::Asleep, tools, instructions });
        let (orders, mailbox) = mpsc::unbounded_channel();
        let server =
            Arc::new(Self { config: config.clone(), status: seen, orders, users: AtomicUsize::new(0) });
        let task = Task {
            config,
            host: host.clone(),
            tasks: tasks.clone(),
            registry,
            status,
            orders: mailbox,
            failures: 0,
            not_before: None,
        };
        tasks.spawn(task.run());
        server
    }

    /// What is known of it now.
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// Waits until its tools are known or it has failed; the caller sets the deadline. Starts it.
    pub async fn introduced(&self) {
        if self.status.borrow().tools.is_none() {
            // The answer says no more than the status.
            let _ = self.link().await;
        }
    }

    /// A connection to it, started if need be.
    ///
    /// # Errors
    /// A sentence that says why it cannot be used.
    pub(super) async fn link(&self) -> Result<Link, String> {
        let ended = || "the session ends".to_owned();
        let (answer, answered) = oneshot::channel();
        self.orders.send(Order::Need(answer)).map_err(|_| ended())?;
        answered.await.unwrap_or_else(|_| Err(ended()))
    }

    pub(super) fn released(&self) {
        // The task only ends with the pool.
        let _ = self.orders.send(Order::Released);
    }

    /// Ends it.
    pub(super) async fn close(&self) {
        let (done, finished) = oneshot::channel();
        if self.orders.send(Order::Close(done)).is_ok() {
            // A task that is gone has closed its connection.
            let _ = finished.await;
        }
    }
}

struct Task {
    config: McpServer,
    host: Host,
    tasks: TaskTracker,
    registry: Weak<Registry>,
    status: watch::Sender<Status>,
    orders: mpsc::UnboundedReceiver<Order>,
    /// Failures in a row.
    failures: u32,
    not_before: Option<Instant>,
}

/// Why the task stops waiting.
enum Next {
    /// Start the server for these.
    Start(Vec<oneshot::Sender<Result<Link, String>>>),
    /// It has died.
    Died,
    /// End for good.
    End(Option<oneshot::Sender<()>>),
}

type Listing = Pin<Box<dyn Future<Output = Option<Vec<Declared>>> + Send>>;

impl Task {
    async fn run(mut self) {
        let mut connection: Option<Connection> = None;
        loop {
            let next = match &connection {
                None => self.sleep().await,
                Some(connection) => self.serve(connection).await,
            };
            match next {
                Next::Start(waiting) => match self.start(waiting).await {
                    Ok(started) => connection = started,
                    Err(done) => return Self::end(connection, done).await,
                },
                Next::Died => {
                    let Some(dead) = connection.take() else { continue };
                    let why = dead.link.last_words().await;
                    tracing::info!(server = self.config.name, why, "an MCP server has died");
                    self.failed(&why);
                }
                Next::End(done) => return Self::end(connection, done).await,
            }
        }
    }

    async fn end(connection: Option<Connection>, done: Option<oneshot::Sender<()>>) {
        if let Some(connection) = connection {
            connection.close().await;
        }
        if let Some(done) = done {
            // Whoever asked may not wait any more.
            let _ = done.send(());
        }
    }

    fn set(&self, phase: Phase) {
        self.status.send_modify(|status| status.phase = phase);
    }

    fn learn(&self, tools: Vec<Declared>, instructions: Option<String>) {
        let tools: Arc<[Declared]> = tools.into();
        let instructions = instructions.filter(|text| !text.trim().is_empty()).map(Arc::from);
        if let Some(registry) = self.registry.upgrade() {
            registry.remember(&self.config, Arc::clone(&tools), instructions.clone());
        }
        self.status.send_modify(|status| {
            status.phase = Phase::Ready;
            status.tools = Some(tools);
            status.instructions = instructions;
        });
    }

    fn failed(&mut self, why: &str) {
        // The first failure may be the only one.
        let pause = match self.failures.checked_sub(1) {
            None => Duration::ZERO,
            Some(more) => BACK_OFF.saturating_mul(1 << more.min(6)).min(LONGEST_BACK_OFF),
        };
        self.failures += 1;
        self.not_before = Some(Instant::now() + pause);
        self.set(Phase::Failed(why.into()));
    }

    /// Waits while there is no connection.
    async fn sleep(&mut self) -> Next {
        let mut reaped = self.reap_at();
        loop {
            tokio::select! {
                order = self.orders.recv() => match order {
                    None => return Next::End(None),
                    Some(Order::Close(done)) => return Next::End(Some(done)),
                    Some(Order::Released) => reaped = self.reap_at(),
                    Some(Order::Need(answer)) => match self.refusal() {
                        None => return Next::Start(vec![answer]),
                        Some(why) => drop(answer.send(Err(why))),
                    },
                },
                () = at(reaped) => {
                    if self.is_unused() {
                        return Next::End(None);
                    }
                    reaped = None;
                }
            }
        }
    }

    /// Why it is not started again yet.
    fn refusal(&self) -> Option<String> {
        let until = self.not_before?.checked_duration_since(Instant::now())?;
        let Phase::Failed(why) = &self.status.borrow().phase else { return None };
        Some(format!("{why}; it is tried again in {} s", until.as_secs() + 1))
    }

    /// Starts the server while orders go on coming. `Err` when it has to end instead.
    async fn start(
        &mut self,
        mut waiting: Vec<oneshot::Sender<Result<Link, String>>>,
    ) -> Result<Option<Connection>, Option<oneshot::Sender<()>>> {
        self.set(Phase::Starting);
        let (config, host, tasks) = (self.config.clone(), self.host.clone(), self.tasks.clone());
        let opening = Connection::open(&config, &host, &tasks);
        tokio::pin!(opening);
        let opened = loop {
            tokio::select! {
                opened = &mut opening => break opened,
                order = self.orders.recv() => match order {
                    None => return Err(None),
                    Some(Order::Close(done)) => return Err(Some(done)),
                    // Whether it is still needed is looked at once it runs.
                    Some(Order::Released) => {}
                    Some(Order::Need(answer)) => waiting.push(answer),
                },
            }
        };
        let result = match opened {
            Ok((connection, Greeting { tools, instructions })) => {
                self.learn(tools, instructions);
                Ok(connection)
            }
            Err(why) => {
                self.failed(&why);
                Err(why)
            }
        };
        let link = result.as_ref().map(|connection| connection.link.clone()).map_err(Clone::clone);
        for answer in waiting {
            // Whoever asked may not wait any more.
            let _ = answer.send(link.clone());
        }
        Ok(result.ok())
    }

    /// Looks after a running server until it dies or is to end.
    async fn serve(&mut self, connection: &Connection) -> Next {
        let started = Instant::now();
        let mut reaped = self.reap_at();
        let mut listing: Option<Listing> = None;
        let mut look_after: Option<Instant> = None;
        let link = connection.link.clone();
        loop {
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    None => return Next::End(None),
                    Some(Order::Close(done)) => return Next::End(Some(done)),
                    Some(Order::Released) => reaped = self.reap_at(),
                    // Whoever asked may not wait any more.
                    Some(Order::Need(answer)) => drop(answer.send(Ok(link.clone()))),
                },
                () = connection.ended() => {
                    if started.elapsed() >= STEADY {
                        self.failures = 0;
                    }
                    return Next::Died;
                }
                () = connection.changed(), if look_after.is_none() => {
                    look_after = Some(Instant::now() + CHANGES);
                    let link = link.clone();
                    listing = Some(Box::pin(async move {
                        timeout(LIST_DEADLINE, link.list()).await.ok().and_then(Result::ok)
                    }));
                }
                listed = done(&mut listing) => {
                    listing = None;
                    let instructions = self.status.borrow().instructions.as_deref().map(str::to_owned);
                    match listed {
                        Some(tools) => self.learn(tools, instructions),
                        None => tracing::warn!(server = self.config.name, "its changed tools cannot be listed"),
                    }
                }
                () = at(look_after), if listing.is_none() => look_after = None,
                () = at(reaped) => {
                    if self.is_unused() {
                        return Next::End(None);
                    }
                    reaped = None;
                }
            }
        }
    }

    /// When to end a server that nobody uses.
    fn reap_at(&self) -> Option<Instant> {
        let registry = self.registry.upgrade()?;
        (registry.users(&self.config) == 0).then(|| Instant::now() + LINGER)
    }

    /// Takes it out of the registry if nobody uses it: whoever comes after that gets a new one.
    fn is_unused(&self) -> bool {
        self.registry.upgrade().is_none_or(|registry| registry.forget_unused(&self.config))
    }
}

async fn at(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}

async fn done(listing: &mut Option<Listing>) -> Option<Vec<Declared>> {
    match listing {
        Some(listing) => listing.await,
        None => std::future::pending().await,
    }
}

/// The right to use a server; the last one to go lets it end.
pub struct Lease(pub(super) Arc<Server>);

impl std::ops::Deref for Lease {
    type Target = Server;
    fn deref(&self) -> &Server {
        &self.0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.0.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.released();
        }
    }
}
