//! A byte stream that ends with an error when it stays silent, or brings nothing that matters, for too
//! long.

use super::bounds::IDLE_TIMES;
use bytes::Bytes;
use futures_core::Stream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// Why the stream ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum StreamFailure {
    /// No byte for that long.
    #[error("the stream was silent for {} s and was cut", .0.as_secs_f32())]
    Stalled(Duration),
    /// Bytes, but nothing of an answer for that long.
    #[error("the stream brought nothing of an answer for {} s and was cut", .0.as_secs_f32())]
    Empty(Duration),
    /// The connection broke.
    #[error("the stream broke: {0}")]
    Broken(String),
    /// One event is larger than any may be.
    #[error("an event is too large")]
    EventTooLarge,
}

/// How much of an answer was found in a stream's bytes: told by who reads them, heard by the stream.
/// Cloning shares it.
#[derive(Debug, Clone, Default)]
pub(super) struct Brought(Arc<AtomicUsize>);

impl Brought {
    /// Adds so many bytes and gives the sum; with 0 nothing happened.
    pub(super) fn add(&self, bytes: usize) -> usize {
        self.0.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
    }
}

/// Wraps a response's bytes. Every byte that comes counts as life for `limit`, comments and pings too;
/// without anything of an answer they do so for [`IDLE_TIMES`] as long.
pub(super) struct IdleStream<S> {
    inner: Pin<Box<S>>,
    limit: Duration,
    alarm: Pin<Box<Sleep>>,
    brought: Brought,
    known: usize,
    /// When the last bytes came.
    heard: Instant,
    /// When the stream is cut unless it brings something.
    patience: Instant,
}

impl<S> IdleStream<S> {
    /// Cuts `inner` after `limit` without a byte, or a multiple of it in which `brought` stays the same.
    pub(super) fn new(inner: S, limit: Duration, brought: Brought) -> Self {
        let now = Instant::now();
        let patience = now + limit.saturating_mul(IDLE_TIMES);
        let alarm = Box::pin(sleep_until(now + limit));
        Self { inner: Box::pin(inner), limit, alarm, known: brought.add(0), brought, heard: now, patience }
    }

    fn wake_in_time(&mut self) {
        let at = self.patience.min(self.heard + self.limit);
        self.alarm.as_mut().reset(at);
    }

    fn empty(&self) -> StreamFailure {
        StreamFailure::Empty(self.limit.saturating_mul(IDLE_TIMES))
    }
}

impl<S: Stream<Item = reqwest::Result<Bytes>>> Stream for IdleStream<S> {
    type Item = Result<Bytes, StreamFailure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let brought = this.brought.add(0);
        if brought != this.known {
            this.known = brought;
            this.patience = Instant::now() + this.limit.saturating_mul(IDLE_TIMES);
            this.wake_in_time();
        } else if this.heard >= this.patience {
            // Bytes that came after the end of patience were read, and were nothing again.
            return Poll::Ready(Some(Err(this.empty())));
        }
        match this.inner.as_mut().poll_next(cx) {
            Poll::Ready(Some(Ok(bytes))) => {
                this.heard = Instant::now();
                this.wake_in_time();
                Poll::Ready(Some(Ok(bytes)))
            }
            Poll::Ready(Some(Err(error))) => {
                Poll::Ready(Some(Err(StreamFailure::Broken(super::http::reason(&error)))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => this.alarm.as_mut().poll(cx).map(|()| {
                let silent = this.heard + this.limit <= this.patience;
                Some(Err(if silent { StreamFailure::Stalled(this.limit) } else { this.empty() }))
            }),
        }
    }
}

/// The next item of a stream that is pinned on the heap or `Unpin`.
pub(super) async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    std::future::poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx)).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::interval;

    const SECOND: Duration = Duration::from_secs(1);

    /// How long a stream lives, and why it ends, that sends a byte so often and brings something with the
    /// bytes of these numbers.
    async fn life(every: Duration, brings: &[usize]) -> (Duration, String) {
        let mut pace = interval(every);
        let bytes = futures_util::stream::poll_fn(move |cx| {
            pace.poll_tick(cx).map(|_| Some(Ok(Bytes::from_static(b"x"))))
        });
        let brought = Brought::default();
        let began = Instant::now();
        let mut stream = IdleStream::new(bytes, 10 * SECOND, brought.clone());
        let mut count = 0;
        loop {
            match next(&mut stream).await {
                Some(Ok(_)) if brings.contains(&count) => drop(brought.add(1)),
                Some(Ok(_)) => {}
                Some(Err(why)) => return (began.elapsed(), why.to_string()),
                None => panic!("it has no end"),
            }
            count += 1;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn signs_of_life_are_believed_for_a_multiple_of_the_limit() {
        let empty = "the stream brought nothing of an answer for 40 s and was cut".to_owned();
        let silent = "the stream was silent for 10 s and was cut".to_owned();
        assert_eq!(life(3 * SECOND, &[]).await, (40 * SECOND, empty.clone()));
        // The first byte comes at once, the sixth after 15 s.
        assert_eq!(life(3 * SECOND, &[5]).await, (55 * SECOND, empty.clone()));
        assert_eq!(life(9 * SECOND, &[0, 4, 8]).await, (112 * SECOND, empty.clone()));
        assert_eq!(life(11 * SECOND, &[0]).await, (10 * SECOND, silent));
        // Bytes that never let the reader rest.
        let (time, why) = life(Duration::from_millis(1), &[]).await;
        assert_eq!(why, empty);
        assert!((40 * SECOND..41 * SECOND).contains(&time), "{time:?}");
    }
}
