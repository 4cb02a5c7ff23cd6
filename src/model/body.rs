//! A request body as a list of shared byte segments.
//!
//! Owns the sized streaming body; promises an exact length and that no segment is copied on the way
//! to the socket layer. Never joins segments.

use crate::wire::block::Block;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use serde_json::value::RawValue;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

struct SharedText(Arc<str>);

impl AsRef<[u8]> for SharedText {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

struct SharedRaw(Arc<RawValue>);

impl AsRef<[u8]> for SharedRaw {
    fn as_ref(&self) -> &[u8] {
        self.0.get().as_bytes()
    }
}

/// The bytes of a shared text, by pointer.
pub(super) fn shared(text: &Arc<str>) -> Bytes {
    Bytes::from_owner(SharedText(Arc::clone(text)))
}

/// The bytes of a block, by pointer.
pub(super) fn block(block: &Block) -> Bytes {
    Bytes::from_owner(SharedRaw(block.shared()))
}

/// The list, in order.
#[derive(Debug, Default)]
pub(super) struct Segments {
    list: VecDeque<Bytes>,
    left: u64,
    taken: Arc<AtomicU64>,
}

impl Segments {
    /// Adds bytes at the end; empty ones are left out.
    pub(super) fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.left += bytes.len() as u64;
            self.list.push_back(bytes);
        }
    }
    /// Adds a constant.
    pub(super) fn fixed(&mut self, text: &'static str) {
        self.push(Bytes::from_static(text.as_bytes()));
    }
    /// Counts the segments that were handed to the connection, to tell a slow upload from a stall.
    pub(super) fn progress(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.taken)
    }
    /// All of it as one copy, for tests.
    #[cfg(test)]
    pub(super) fn joined(&self) -> Vec<u8> {
        self.list.iter().flat_map(|b| b.iter().copied()).collect()
    }
    /// The segments themselves, for tests.
    #[cfg(test)]
    pub(super) fn list(&self) -> &VecDeque<Bytes> {
        &self.list
    }
}

impl Body for Segments {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.taken.fetch_add(1, Ordering::Relaxed);
        let next = self.list.pop_front();
        if let Some(bytes) = &next {
            self.left -= bytes.len() as u64;
        }
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.list.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
