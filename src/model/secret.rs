//! Keys of providers, kept out of everything that is shown.

use super::provider::{ModelError, ModelErrorKind};
use reqwest::header::{HeaderName, HeaderValue};
use std::fmt;

/// Keys are at least so long, in bytes.
const SHORTEST: usize = 8;

/// A key. Its `Debug` form does not hold it, and it has no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a key as it stands in the environment; white space around it (a newline from a file) is
    /// not part of it. `None` when nothing is left.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }
    /// A request header with `before` and the key, marked so that nothing prints it.
    pub(super) fn header(
        &self,
        name: HeaderName,
        before: &str,
    ) -> Result<(HeaderName, HeaderValue), ModelError> {
        let mut value = HeaderValue::from_str(&format!("{before}{}", self.0)).map_err(|_| {
            ModelError::new(
                ModelErrorKind::Credentials,
                "the key holds characters that cannot be sent in a header",
            )
        })?;
        value.set_sensitive(true);
        Ok((name, value))
    }
    /// `text` without the key, should a provider repeat it in an error.
    pub fn scrub(&self, text: &str) -> String {
        // Shorter than any provider's key, and likely to be a part of ordinary words.
        if self.0.len() < SHORTEST { text.to_owned() } else { text.replace(&self.0, "[key]") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
