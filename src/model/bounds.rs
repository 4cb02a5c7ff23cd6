//! How much a model server may send, and for how long it may send nothing that matters.
//!
//! Owns the bounds of every wire in one place. A real answer stays far below them: 128 000 tokens are
//! less than 1 MiB of text. Never lets more through to a parser or an assembler than they say.

use super::idle::StreamFailure;
use super::provider::{ModelError, ModelErrorKind};
use bytes::Bytes;
use futures_core::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// The most of one event, on the wire. The largest ones repeat a whole answer with its encrypted
/// reasoning. Reading one takes several times its size for a moment, hence not more.
pub(super) const EVENT_BYTES: usize = 8 * MIB;
/// The most of an answer that is no stream: read at once, as one event is.
pub(super) const BODY_BYTES: usize = EVENT_BYTES;
/// The most that the events of one answer bring: text, thinking, inputs of calls, and
/// [`PIECE_BYTES`] for each piece.
pub(super) const ANSWER_BYTES: usize = 32 * MIB;
/// What a piece counts beside its content, so that ever so many tiny ones are bounded too.
pub(super) const PIECE_BYTES: usize = 64;
/// The most text that is kept of an answer that failed.
pub(super) const PARTIAL_BYTES: usize = MIB;
/// What is read of an error's body.
pub(super) const ERROR_BODY_BYTES: usize = 64 * KIB;
/// So many times the idle timeout a connection is kept by events that bring nothing (pings, comments,
/// empty pieces). A provider sends those while a model thinks unseen.
pub(super) const IDLE_TIMES: u32 = 4;

/// A response that is larger than `limit` bytes; `what` says which part of it.
pub(super) fn too_large(what: &str, limit: usize) -> ModelError {
    let what = format!("the model provider sent {what} of more than {} MiB", limit / MIB);
    ModelError::new(ModelErrorKind::Protocol, what)
}

/// The texts that came before a failure, joined by line breaks, as far as they are kept. Blank ones
/// are left out.
pub(super) fn partial<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut kept = String::new();
    for text in texts.filter(|text| !text.trim().is_empty()) {
        if !kept.is_empty() {
            kept.push('\n');
        }
        let room = PARTIAL_BYTES.saturating_sub(kept.len());
        if text.len() > room {
            kept.push_str(&text[..text.floor_char_boundary(room)]);
            break;
        }
        kept.push_str(text);
    }
    kept
}

/// Counts the bytes of the event that is coming in, as they pass.
#[derive(Debug)]
struct EventSize {
    bytes: usize,
    /// Nothing of the current line came yet.
    line_start: bool,
    /// A line feed belongs to the line end before it.
    after_cr: bool,
}

impl EventSize {
    fn new() -> Self {
        Self { bytes: 0, line_start: true, after_cr: false }
    }

    /// Whether every event in it, and the one it leaves open, is within `limit`.
    fn take(&mut self, chunk: &[u8], limit: usize) -> bool {
        for &byte in chunk {
            self.bytes += 1;
            match byte {
                b'\n' if self.after_cr => self.after_cr = false,
                b'\n' | b'\r' => {
                    if self.line_start {
                        self.bytes = 0;
                    }
                    self.line_start = true;
                    self.after_cr = byte == b'\r';
                }
                _ => {
                    self.line_start = false;
                    self.after_cr = false;
                }
            }
            if self.bytes > limit {
                return false;
            }
        }
        true
    }
}

/// A stream of server-sent events that ends before its reader, which has no bound of its own, could hold
/// an event of more than [`EVENT_BYTES`].
pub(super) struct BoundedEvents<S> {
    inner: S,
    size: EventSize,
}

impl<S> BoundedEvents<S> {
    /// Bounds `inner`.
    pub(super) fn new(inner: S) -> Self {
        Self { inner, size: EventSize::new() }
    }
}

impl<S: Stream<Item = Result<Bytes, StreamFailure>> + Unpin> Stream for BoundedEvents<S> {
    type Item = Result<Bytes, StreamFailure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        Pin::new(&mut this.inner).poll_next(cx).map(|next| {
            next.map(|chunk| {
                let bytes = chunk?;
                let within = this.size.take(&bytes, EVENT_BYTES);
                if within { Ok(bytes) } else { Err(StreamFailure::EventTooLarge) }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(stream: &str, limit: usize, chunk: usize) -> bool {
        let mut size = EventSize::new();
        stream.as_bytes().chunks(chunk).all(|chunk| size.take(chunk, limit))
    }

    #[test]
    fn an_event_is_measured_whatever_its_line_ends_and_pieces() {
        for end in ["\n", "\r", "\r\n"] {
            let event = format!("event: x{end}data: 1234567890{end}: note{end}{end}");
            let stream = event.repeat(20);
            for chunk in 1..=stream.len() {
                assert!(within(&stream, event.len(), chunk), "{end:?} {chunk}");
                // The last byte of the blank line is no more to be kept.
                assert!(!within(&stream, event.len() - 2 * end.len(), chunk), "{end:?} {chunk}");
            }
            assert!(!within(&format!("data: 1{end}").repeat(20), 100, 7), "lines without an end {end:?}");
        }
        assert!(!within(&"x".repeat(101), 100, 7), "a line without an end");
    }

    #[test]
    fn of_a_long_text_the_beginning_is_kept() {
        assert_eq!(partial(["a", " \n", "b"].into_iter()), "a\nb");
        let long = "\u{e9}".repeat(PARTIAL_BYTES);
        let kept = partial(["a", &long, "b"].into_iter());
        assert!(kept.len() <= PARTIAL_BYTES && kept.len() > PARTIAL_BYTES - 4, "{}", kept.len());
        assert!(format!("a\n{long}").starts_with(&kept));
    }
}
