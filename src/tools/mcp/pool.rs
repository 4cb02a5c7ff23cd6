//! The servers of a process: one for each configuration, shared by all agents that use it.
//!
//! Costs nothing until the first lease. Promises that a server is started when it is first needed, that
//! its declarations are remembered by configuration, and that [`Pool::close`] leaves none behind.

use super::client::{Declared, Host};
use super::server::{Known, Lease, Server, Status};
use crate::wire::mcp::{McpServer, McpTransport};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

/// How long the end of all servers may take; each has its own, shorter steps.
const CLOSE_DEADLINE: Duration = Duration::from_secs(10);

/// What makes two configurations the same: names and places aside.
type Key = (McpTransport, Option<u64>);

fn key(config: &McpServer) -> Key {
    (config.transport.clone(), config.timeout_ms)
}

/// The servers.
pub struct Pool {
    host: Host,
    tasks: TaskTracker,
    registry: Arc<Registry>,
}

#[derive(Default)]
struct Entries {
    running: BTreeMap<Key, Arc<Server>>,
    known: BTreeMap<Key, Known>,
    closed: bool,
}

/// Who runs and what is known; shared with the servers' tasks.
#[derive(Default)]
pub(super) struct Registry(Mutex<Entries>);

impl Registry {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn remember(
        &self,
        config: &McpServer,
        tools: Arc<[Declared]>,
        instructions: Option<Arc<str>>,
    ) {
        self.entries().known.insert(key(config), (tools, instructions));
    }

    pub(super) fn users(&self, config: &McpServer) -> usize {
        self.entries().running.get(&key(config)).map_or(0, |server| server.users.load(Ordering::Acquire))
    }

    /// Takes a server out that nobody uses; a new lease is only given under the same lock.
    pub(super) fn forget_unused(&self, config: &McpServer) -> bool {
        let mut entries = self.entries();
        let key = key(config);
        let is_used =
            entries.running.get(&key).is_some_and(|server| server.users.load(Ordering::Acquire) > 0);
        if !is_used {
            entries.running.remove(&key);
        }
        !is_used
    }
}

impl Pool {
    /// Starts nothing yet.
    pub fn new(host: Host) -> Self {
        Self { host, tasks: TaskTracker::new(), registry: Arc::default() }
    }

    /// The right to use a server, which it lets run as long as it is held. Starts nothing; `None` once the
    /// pool is closed.
    pub fn lease(&self, config: &McpServer) -> Option<Lease> {
        let mut entries = self.registry.entries();
        if entries.closed {
            return None;
        }
        let key = key(config);
        let known = entries.known.get(&key).cloned();
        let server = entries.running.entry(key).or_insert_with(|| {
            Server::new(config.clone(), known, &self.host, &self.tasks, Arc::downgrade(&self.registry))
        });
        server.users.fetch_add(1, Ordering::AcqRel);
        Some(Lease(Arc::clone(server)))
    }

    /// What is known of a server, if anybody has used it.
    pub fn look(&self, config: &McpServer) -> Option<Status> {
        self.registry.entries().running.get(&key(config)).map(|server| server.status())
    }

    /// Ends all servers and gives no new ones. Returns when they are gone, or when that takes too long.
    pub async fn close(&self) {
        let servers: Vec<Arc<Server>> = {
            let mut entries = self.registry.entries();
            entries.closed = true;
            std::mem::take(&mut entries.running).into_values().collect()
        };
        self.tasks.close();
        let closing = async {
            futures_util::future::join_all(servers.iter().map(|server| server.close())).await;
            self.tasks.wait().await;
        };
        if timeout(CLOSE_DEADLINE, closing).await.is_err() {
            tracing::warn!("some MCP servers took too long to end; their guards end them");
        }
    }
}
