//! The brake that all agents share, in this process and through a [`RateGate`] in others.
//!
//! When a provider refuses one request for its rate, everyone who would ask it waits, and then they go one
//! after another: a herd that starts together would be refused together. Other processes begin at a moment of
//! chance after the pause, for the same reason. Never counts tokens; budgets are elsewhere.

use super::provider::BoxFuture;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Time between two requests that waited for the same pause.
const SPREAD: Duration = Duration::from_millis(200);
/// Within how much time after the pause of another process this one begins, at most.
const JITTER: Duration = Duration::from_secs(2);
/// Who is held for so long or longer is told.
const TOLD: Duration = Duration::from_secs(1);

/// Where the processes of a team tell each other of pauses.
pub trait RateGate: Send + Sync {
    /// Tells the others that requests to `provider` are held for so long from now. Must not block.
    fn hold(&self, provider: &'static str, time: Duration);
    /// How long requests to `provider` are still held by the word of any process; `None` when they are not,
    /// or nobody knows.
    fn held<'a>(&'a self, provider: &'static str) -> BoxFuture<'a, Option<Duration>>;
}

#[derive(Debug, Default)]
struct Brake {
    /// Nobody sends before.
    until: Option<Instant>,
    /// The last start that was given to a waiting request.
    last: Option<Instant>,
}

/// The brakes of all providers. Cloning shares them.
#[derive(Clone, Default)]
pub struct Limiters {
    by_provider: Arc<Mutex<BTreeMap<&'static str, Limiter>>>,
    gate: Option<Arc<dyn RateGate>>,
}

impl Limiters {
    /// Brakes that other processes feel too.
    pub fn shared(gate: Arc<dyn RateGate>) -> Self {
        Self { by_provider: Arc::default(), gate: Some(gate) }
    }

    /// The brake of a provider.
    pub fn of(&self, provider: &'static str) -> Limiter {
        let mut all = self.by_provider.lock().unwrap_or_else(PoisonError::into_inner);
        let gate = self.gate.clone();
        all.entry(provider).or_insert_with(|| Limiter { provider, gate, ..Limiter::default() }).clone()
    }
}

/// A handle on the brake of one provider. Cloning shares it.
#[derive(Clone, Default)]
pub struct Limiter {
    provider: &'static str,
    brake: Arc<Mutex<Brake>>,
    gate: Option<Arc<dyn RateGate>>,
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Limiter({})", self.provider)
    }
}

impl Limiter {
    /// Holds all requests to the provider for so long from now; a longer pause in force stays.
    pub fn pause(&self, time: Duration) {
        self.hold(time);
        if let Some(gate) = &self.gate {
            gate.hold(self.provider, time);
        }
    }

    fn hold(&self, time: Duration) {
        let Some(until) = Instant::now().checked_add(time) else { return };
        let mut brake = self.brake.lock().unwrap_or_else(PoisonError::into_inner);
        brake.until = brake.until.max(Some(until));
    }

    /// How long requests are held from now by this process; `None` when they are not.
    pub fn paused_for(&self) -> Option<Duration> {
        let brake = self.brake.lock().unwrap_or_else(PoisonError::into_inner);
        let left = brake.until?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Waits while requests are held, and for this request's turn after that. `told` hears of a wait that a
    /// person would notice.
    pub async fn pass(&self, mut told: impl FnMut(Duration)) {
        loop {
            self.hear_others().await;
            let Some(start) = self.turn() else { return };
            let wait = start.saturating_duration_since(Instant::now());
            if wait >= TOLD {
                told(wait);
            }
            sleep_until(start).await;
            // A new pause may have begun meanwhile, here or elsewhere, which moves the turn.
        }
    }

    /// Takes over what other processes were told, unless this one waits longer anyway.
    async fn hear_others(&self) {
        let Some(gate) = &self.gate else { return };
        let Some(left) = gate.held(self.provider).await else { return };
        if self.paused_for().is_none_or(|own| own + JITTER < left) {
            self.hold(left + chance(JITTER.min(left)));
        }
    }

    /// A start of its own for a request that has to wait; `None` when nothing holds it.
    fn turn(&self) -> Option<Instant> {
        let mut brake = self.brake.lock().unwrap_or_else(PoisonError::into_inner);
        let until = brake.until.filter(|until| *until > Instant::now())?;
        let start = match brake.last {
            Some(last) if last >= until => last + SPREAD,
            _ => until,
        };
        brake.last = Some(start);
        Some(start)
    }
}

/// Some time below `most`. A hasher with random keys is the standard library's only source of chance, and
/// enough here.
pub(super) fn chance(most: Duration) -> Duration {
    let random = RandomState::new().hash_one(0);
    let most = u64::try_from(most.as_micros()).unwrap_or(u64::MAX).max(1);
    Duration::from_micros(random % most)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gate in memory, as another process would write it.
    #[derive(Default)]
    struct Word(Mutex<Option<Instant>>);

    impl RateGate for Word {
        fn hold(&self, _: &'static str, time: Duration) {
            let mut until = self.0.lock().expect("word");
            *until = until.max(Some(Instant::now() + time));
        }
        fn held<'a>(&'a self, provider: &'static str) -> BoxFuture<'a, Option<Duration>> {
            let until = self.0.lock().expect("word").filter(|_| provider == "p");
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            Box::pin(async move { left.filter(|left| !left.is_zero()) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_word_of_another_process_holds_this_one_and_a_little_longer() {
        let gate = Arc::new(Word::default());
        let (here, there) = (Limiters::shared(gate.clone()), Limiters::shared(gate));
        there.of("p").pause(Duration::from_secs(10));
        let begun = Instant::now();
        let mut told = Vec::new();
        here.of("p").pass(|wait| told.push(wait)).await;
        let waited = begun.elapsed();
        assert!((Duration::from_secs(10)..Duration::from_millis(12_001)).contains(&waited), "{waited:?}");
        assert_eq!(told.len(), 1, "{told:?}");
        // Nothing holds it any more, and another provider was never held.
        here.of("p").pass(|_| panic!("not held")).await;
        there.of("q").pass(|_| panic!("not held")).await;
        assert_eq!(begun.elapsed(), waited);
    }

    #[tokio::test(start_paused = true)]
    async fn agents_of_one_provider_share_a_brake_and_others_do_not_feel_it() {
        let limiters = Limiters::default();
        limiters.of("p").pause(Duration::from_secs(3));
        assert!(limiters.of("p").paused_for().is_some());
        assert_eq!(limiters.of("q").paused_for(), None);
    }
}
