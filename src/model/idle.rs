//! A byte stream that ends with an error when it stays silent for too long.

use bytes::Bytes;
use futures_core::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// Why the stream ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum StreamFailure {
    /// No byte for that long.
    #[error("the stream was silent for {} s and was cut", .0.as_secs_f32())]
    Stalled(Duration),
    /// The connection broke.
    #[error("the stream broke: {0}")]
    Broken(String),
}

/// Wraps a response's bytes; every byte that comes counts as life, comments and pings too.
pub(super) struct IdleStream<S> {
    inner: Pin<Box<S>>,
    limit: Duration,
    alarm: Pin<Box<Sleep>>,
}

impl<S> IdleStream<S> {
    /// Cuts `inner` after `limit` without a byte.
    pub(super) fn new(inner: S, limit: Duration) -> Self {
        Self { inner: Box::pin(inner), limit, alarm: Box::pin(sleep(limit)) }
    }
}

impl<S: Stream<Item = reqwest::Result<Bytes>>> Stream for IdleStream<S> {
    type Item = Result<Bytes, StreamFailure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        match this.inner.as_mut().poll_next(cx) {
            Poll::Ready(Some(Ok(bytes))) => {
                this.alarm.as_mut().reset(Instant::now() + this.limit);
                Poll::Ready(Some(Ok(bytes)))
            }
            Poll::Ready(Some(Err(error))) => {
                Poll::Ready(Some(Err(StreamFailure::Broken(super::http::reason(&error)))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                this.alarm.as_mut().poll(cx).map(|()| Some(Err(StreamFailure::Stalled(this.limit))))
            }
        }
    }
}

/// The next item of a stream that is pinned on the heap or `Unpin`.
pub(super) async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    std::future::poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx)).await
}
