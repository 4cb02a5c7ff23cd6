//! The Messages API client: bytes on the way out, events on the way in.

mod bytes;
mod failures;
mod responses;
