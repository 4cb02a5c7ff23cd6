//! Retries in virtual time.

use super::*;
use crate::model::provider::StopReason;
use crate::model::testing::{Heard, request, user};
use crate::model::tuning::Tuning;
use crate::wire::block::Block;
use std::collections::VecDeque;
use std::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Fails as told, then answers; remembers when it was asked.
struct Flaky {
    failures: Mutex<VecDeque<ModelError>>,
    asked: Mutex<Vec<Duration>>,
    begun: Instant,
}

impl Flaky {
    fn new(failures: impl IntoIterator<Item = ModelError>) -> Arc<Self> {
        let failures = Mutex::new(failures.into_iter().collect());
        Arc::new(Self { failures, asked: Mutex::default(), begun: Instant::now() })
    }
    fn asked(&self) -> Vec<Duration> {
        self.asked.lock().expect("times").clone()
    }
}

impl ModelProvider for Flaky {
    fn name(&self) -> &'static str {
        "flaky"
    }
    fn freeze(&self, _: &str, _: &str, _: &[ToolDeclaration], _: &Tuning) -> PromptPrefix {
        unreachable!("never asked to")
    }
    fn respond<'a>(
        &'a self,
        _: &'a ModelRequest,
        _: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        self.asked.lock().expect("times").push(self.begun.elapsed());
        let failure = self.failures.lock().expect("failures").pop_front();
        Box::pin(async move {
            match failure {
                Some(error) => Err(error),
                None => Ok(ModelResponse {
                    id: "m".to_owned(),
                    model: "flaky".to_owned(),
                    blocks: vec![Block::text("fine")],
                    stop: StopReason::EndTurn,
                    usage: crate::wire::usage::Usage::default(),
                    malformed: Vec::new(),
                }),
            }
        })
    }
}

fn error(kind: ModelErrorKind) -> ModelError {
    ModelError::new(kind, format!("{kind:?} it is"))
}

fn asking(kind: ModelErrorKind, seconds: u64) -> ModelError {
    ModelError { retry_after: Some(Duration::from_secs(seconds)), ..error(kind) }
}

fn settings() -> RetrySettings {
    RetrySettings { max_attempts: 5, base_delay_ms: 1000, max_delay_ms: 4000, ..RetrySettings::default() }
}

fn retrying(inner: &Arc<Flaky>, limiter: &Limiter) -> Retrying {
    let inner: Arc<dyn ModelProvider> = Arc::<Flaky>::clone(inner);
    Retrying::new(inner, settings(), limiter.clone())
}

async fn run(inner: &Arc<Flaky>) -> (Result<ModelResponse, ModelError>, Vec<Delta>) {
    let heard = Heard::default();
    let messages = [user("hi")];
    let outcome = retrying(inner, &Limiter::default()).respond(&request("a", 1, &messages), &heard).await;
    (outcome, heard.all())
}

#[tokio::test(start_paused = true)]
async fn delays_grow_with_jitter_and_are_shown() {
    let inner = Flaky::new([(); 4].map(|()| error(ModelErrorKind::Connection)));
    let (outcome, deltas) = run(&inner).await;
    outcome.expect("an answer in the end");
    let asked = inner.asked();
    let gaps: Vec<Duration> = asked.windows(2).map(|w| w[1] - w[0]).collect();
    for (gap, most) in gaps.iter().zip([1000, 2000, 4000, 4000]) {
        let (least, most) = (Duration::from_millis(most / 2), Duration::from_millis(most + 2));
        assert!((least..=most).contains(gap), "{gaps:?}");
    }
    assert_eq!(deltas.len(), 4);
    for (index, delta) in deltas.iter().enumerate() {
        let Delta::Retry { attempt, of, after, why } = delta else { panic!("{delta:?}") };
        assert_eq!((*attempt as usize, *of, why.as_str()), (index + 2, 5, "Connection it is"));
        // Timers have a resolution of a millisecond.
        assert!(gaps[index].abs_diff(*after) < Duration::from_millis(2));
    }
}

#[tokio::test(start_paused = true)]
async fn it_gives_up_with_the_last_words_and_the_longest_text() {
    let failures = ["", "some text", "some"]
        .map(|partial| error(ModelErrorKind::Unavailable).with_partial(partial))
        .into_iter()
        .chain([error(ModelErrorKind::Unavailable), error(ModelErrorKind::RateLimited)]);
    let inner = Flaky::new(failures);
    let (outcome, deltas) = run(&inner).await;
    let failed = outcome.expect_err("it gives up");
    assert_eq!(failed.kind, ModelErrorKind::RateLimited);
    assert_eq!(failed.what, "RateLimited it is (gave up after 5 attempts)");
    assert_eq!(failed.partial, "some text");
    assert_eq!((inner.asked().len(), deltas.len()), (5, 4));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_get_better_is_not_repeated() {
    use ModelErrorKind::{Credentials, Protocol, Refused, Script};
    for kind in [Credentials, Refused, Protocol, Script] {
        let inner = Flaky::new([error(kind)]);
        let (outcome, deltas) = run(&inner).await;
        let failed = outcome.expect_err("refused");
        assert_eq!((failed.kind, failed.what), (kind, format!("{kind:?} it is")));
        assert_eq!((inner.asked().len(), deltas.len()), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_provider_asks_for_is_waited_for_unless_it_is_absurd() {
    let inner = Flaky::new([asking(ModelErrorKind::RateLimited, 30)]);
    run(&inner).await.0.expect("an answer");
    assert!(inner.asked()[1] >= Duration::from_secs(30), "{:?}", inner.asked());
    assert!(inner.asked()[1] < Duration::from_secs(31), "{:?}", inner.asked());

    let inner = Flaky::new([asking(ModelErrorKind::RateLimited, 86_400)]);
    let failed = run(&inner).await.0.expect_err("a day is too long");
    assert_eq!(failed.retry_after, Some(Duration::from_secs(86_400)));
    assert_eq!(inner.asked().len(), 1);
}

/// One refusal holds everyone, and then they go one by one.
#[tokio::test(start_paused = true)]
async fn agents_that_share_a_limiter_wait_together_and_do_not_stampede() {
    let limiter = Limiter::default();
    let first = Flaky::new([asking(ModelErrorKind::RateLimited, 10)]);
    let others = Flaky::new([]);
    let mut tasks = JoinSet::new();
    let leader = retrying(&first, &limiter);
    let messages = vec![user("hi")];
    let question = messages.clone();
    tasks.spawn(
        async move { leader.respond(&request("lead", 1, &question), &Heard::default()).await.map(drop) },
    );
    // Until the first has been refused.
    while limiter.paused_for().is_none() {
        tokio::task::yield_now().await;
    }
    for agent in 0..6 {
        let other = retrying(&others, &limiter);
        let messages = messages.clone();
        tasks.spawn(async move {
            other.respond(&request(&agent.to_string(), 1, &messages), &Heard::default()).await.map(drop)
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic").expect("an answer");
    }
    let mut starts = others.asked();
    starts.sort_unstable();
    assert_eq!(starts.len(), 6);
    assert!(starts[0] >= Duration::from_secs(10), "{starts:?}");
    for pair in starts.windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_millis(199), "{starts:?}");
    }
    assert!(starts[5] < Duration::from_secs(12), "{starts:?}");
    assert_eq!(limiter.paused_for(), None);
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_one_holds_the_others_only_for_a_moment() {
    let limiter = Limiter::default();
    let inner: Arc<dyn ModelProvider> = Flaky::new([]);
    let slow = RetrySettings { base_delay_ms: 60_000, max_delay_ms: 60_000, ..settings() };
    let retrying = Retrying::new(inner, slow, limiter.clone());
    let (own, others) = retrying.delay(&error(ModelErrorKind::Unavailable), 2).expect("a delay");
    assert!(own >= Duration::from_secs(30));
    assert_eq!(others, Some(OTHERS_WAIT));
    assert_eq!(retrying.delay(&error(ModelErrorKind::Connection), 2).expect("a delay").1, None);
}

#[tokio::test(start_paused = true)]
async fn a_longer_pause_moves_those_who_wait() {
    let limiter = Limiter::default();
    limiter.pause(Duration::from_secs(5));
    let begun = Instant::now();
    let (waiting, other) = (limiter.clone(), limiter.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { waiting.pass(drop).await });
    tokio::task::yield_now().await;
    other.pause(Duration::from_secs(20));
    other.pause(Duration::from_secs(1));
    tasks.join_next().await.expect("a task").expect("no panic");
    assert!(begun.elapsed() >= Duration::from_secs(20), "{:?}", begun.elapsed());
}
