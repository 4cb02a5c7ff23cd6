//! Wake-ups: who waits for a file to change is told, by the watch, by memory, or by the net.
//!
//! A signal is a hint: whoever is woken looks for itself. One watcher serves the process.

use crate::store::watch::{self, WatchGuard, Watcher};
use crate::store::{error::StoreError, paths::TeamPaths};
use crate::wire::ids::AgentName;
use crate::wire::limits::{POLL_NET, POLL_NET_NETWORK};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch as channel;

/// What can change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Topic {
    /// The inbox of an agent.
    Inbox(AgentName),
    /// Any run record.
    Runs,
    /// The run record of an agent.
    Run(AgentName),
    /// Any ask or decision.
    Asks,
    /// The roster, or what this process wrote to the event log.
    Team,
    /// The event log, whoever wrote to it.
    Log,
    /// The ledger of limits.
    Ledger,
}

/// Which run records are new to the one that asks.
#[derive(Debug, PartialEq, Eq)]
pub enum ChangedRuns {
    /// Any may be.
    Any,
    /// These.
    These(HashSet<AgentName>),
}

struct Signals {
    by_topic: Mutex<HashMap<Topic, channel::Sender<()>>>,
    runs: Mutex<ChangedRuns>,
}

impl Default for Signals {
    fn default() -> Self {
        Self { by_topic: Mutex::default(), runs: Mutex::new(ChangedRuns::Any) }
    }
}

impl Signals {
    fn sender(&self, topic: Topic) -> channel::Sender<()> {
        let mut all = self.by_topic.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(topic).or_insert_with(|| channel::channel(()).0).clone()
    }

    fn poke(&self, topic: Topic) {
        self.sender(topic).send_replace(());
    }

    fn poke_all(&self, chosen: impl Fn(&Topic) -> bool) {
        let all = self.by_topic.lock().unwrap_or_else(PoisonError::into_inner);
        for (topic, sender) in all.iter() {
            if chosen(topic) {
                sender.send_replace(());
            }
        }
    }

    fn runs(&self) -> MutexGuard<'_, ChangedRuns> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run_changed(&self, file: &OsStr) {
        let name = file.to_str().and_then(|f| f.strip_suffix(".json"));
        match name.map(AgentName::new) {
            Some(Ok(agent)) => {
                if let ChangedRuns::These(names) = &mut *self.runs() {
                    names.insert(agent.clone());
                }
                self.poke(Topic::Run(agent));
            }
            _ if file.is_empty() => {
                *self.runs() = ChangedRuns::Any;
                self.poke_all(|t| matches!(t, Topic::Run(_)));
            }
            _ => return,
        }
        self.poke(Topic::Runs);
    }

    fn inbox_changed(&self, file: &OsStr) {
        let name = file.to_str().and_then(|f| f.strip_suffix(".json"));
        match name.map(AgentName::new) {
            Some(Ok(agent)) => self.poke(Topic::Inbox(agent)),
            // Locks, temporary files and archives wake nobody; an empty name means: look at everything.
            _ if file.is_empty() => self.poke_all(|t| matches!(t, Topic::Inbox(_))),
            _ => {}
        }
    }
}

/// Hands out signals for one team.
#[derive(Clone)]
pub struct WakeHub {
    signals: Arc<Signals>,
    /// How often those who wait look for themselves; `None` where the watcher's own net does it for all.
    net: Option<Duration>,
    /// `None`: only what this process itself pokes is told.
    watches: Option<Watches>,
}

/// The watcher and what it watches; others take their place when the team moves.
type Watches = Arc<Mutex<Option<(Watcher, Vec<WatchGuard>)>>>;

impl WakeHub {
    /// Watches a team's directories; where that cannot be had (too many watchers), looks twice a second.
    pub fn start(team: &TeamPaths) -> Self {
        match Self::watched(team) {
            Ok(hub) => hub,
            Err(error) => {
                tracing::warn!(%error, "files are not watched; they are looked at twice a second instead");
                Self { net: Some(POLL_NET_NETWORK), ..Self::unwatched(team) }
            }
        }
    }

    fn watched(team: &TeamPaths) -> Result<Self, StoreError> {
        let signals = Arc::new(Signals::default());
        let watches = Self::watch(&signals, team)?;
        let net = watch::is_network_fs(&team.dir()).then_some(POLL_NET_NETWORK);
        Ok(Self { signals, net, watches: Some(Arc::new(Mutex::new(Some(watches)))) })
    }

    /// Watches the team where it is now, and tells everybody to look.
    pub fn follow(&self, team: &TeamPaths) {
        if let Some(watches) = &self.watches {
            let mut watches = watches.lock().unwrap_or_else(PoisonError::into_inner);
            // First the old ones: the system has only so many.
            *watches = None;
            match Self::watch(&self.signals, team) {
                Ok(new) => *watches = Some(new),
                Err(error) => tracing::warn!(%error, "the files of the team are only looked at by the net"),
            }
        }
        self.signals.poke_all(|_| true);
    }

    fn watch(signals: &Arc<Signals>, team: &TeamPaths) -> Result<(Watcher, Vec<WatchGuard>), StoreError> {
        let watcher = Watcher::start()?;
        let inboxes = Arc::clone(signals);
        let runs = Arc::clone(signals);
        let asks = Arc::clone(signals);
        let whole = Arc::clone(signals);
        let log = Arc::clone(signals);
        let events = team.events();
        let (ledger, rate) = (team.ledger(), team.rate());
        let guards = vec![
            watcher.watch(&team.inboxes(), move |file| inboxes.inbox_changed(file))?,
            watcher.watch(&team.run_dir(), move |file| runs.run_changed(file))?,
            watcher.watch(&team.asks_dir(), move |_| asks.poke(Topic::Asks))?,
            watcher.watch(&team.dir(), move |file| {
                // The ledger changes with every response; that is nothing new about the team.
                if ledger.file_name() == Some(file) {
                    whole.poke(Topic::Ledger);
                } else if rate.file_name() != Some(file) {
                    whole.poke(Topic::Team);
                }
                if file.is_empty() {
                    whole.poke(Topic::Ledger);
                }
            })?,
            watcher.watch_appends(&team.dir(), events.file_name().unwrap_or_default(), move |_| {
                log.poke(Topic::Log);
            })?,
        ];
        Ok((watcher, guards))
    }

    /// For a command that says its word and ends: watches nothing, costs nothing, cannot fail.
    pub fn unwatched(team: &TeamPaths) -> Self {
        let net = if watch::is_network_fs(&team.dir()) { POLL_NET_NETWORK } else { POLL_NET };
        Self { signals: Arc::default(), net: Some(net), watches: None }
    }

    /// Wakes those who wait for `topic` in this process.
    pub fn poke(&self, topic: Topic) {
        self.signals.poke(topic);
    }

    /// Wakes those who wait for the run record of `agent`, which this process has written.
    pub fn run_changed(&self, agent: &AgentName) {
        self.signals.run_changed(OsStr::new(&format!("{agent}.json")));
    }

    /// Which run records have changed since this was asked last. For one asker: the supervisor.
    pub fn take_changed_runs(&self) -> ChangedRuns {
        match self.net {
            None => std::mem::replace(&mut *self.signals.runs(), ChangedRuns::These(HashSet::new())),
            Some(_) => ChangedRuns::Any,
        }
    }

    /// They could not be read: the next look is at all of them.
    pub fn runs_unread(&self) {
        *self.signals.runs() = ChangedRuns::Any;
    }

    /// A signal for `topic`; changes from now on are seen.
    pub fn signal(&self, topic: Topic) -> Signal {
        Signal { changes: self.signals.sender(topic).subscribe(), net: self.net }
    }
}

/// Waits for changes of one topic.
#[derive(Clone)]
pub struct Signal {
    changes: channel::Receiver<()>,
    net: Option<Duration>,
}

impl Signal {
    /// Resolves at the next change, or when it is time to look anyway. Changes between two calls are not
    /// missed.
    pub async fn changed(&mut self) {
        // A closed channel cannot be, since the hub outlives its signals' users; and a timeout is a hint too.
        let changed = self.changes.changed();
        match self.net {
            None => drop(changed.await),
            Some(net) => drop(tokio::time::timeout(net, changed).await),
        }
    }
}
