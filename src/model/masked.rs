//! A provider whose answers hold none of our keys, whatever the model has read and repeats.
//!
//! Stands directly before the wire, so that histories, transcripts, recordings and tool calls all hold the
//! same bytes. Never touches what is sent.

use super::provider::{BoxFuture, DeltaSink, ModelError, ModelProvider, ModelRequest, ModelResponse};
use super::provider::{PromptPrefix, ToolDeclaration};
use super::search::Bounds;
use super::tuning::Tuning;
use crate::wire::mask::Mask;
use std::sync::Arc;

/// A provider behind a [`Mask`].
pub struct Masked {
    inner: Arc<dyn ModelProvider>,
    mask: Mask,
}

impl Masked {
    /// `inner`, with its answers masked.
    pub fn new(inner: Arc<dyn ModelProvider>, mask: Mask) -> Self {
        Self { inner, mask }
    }

    fn answer(&self, response: ModelResponse) -> ModelResponse {
        let malformed = response.malformed.into_iter().map(|(id, text)| (id, self.mask.text(text)));
        ModelResponse {
            blocks: self.mask.blocks(response.blocks),
            malformed: malformed.collect(),
            ..response
        }
    }

    fn failure(&self, error: ModelError) -> ModelError {
        ModelError { what: self.mask.text(error.what), partial: self.mask.text(error.partial), ..error }
    }
}

impl ModelProvider for Masked {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn freeze(&self, model: &str, system: &str, tools: &[ToolDeclaration], tuning: &Tuning) -> PromptPrefix {
        self.inner.freeze(model, system, tools, tuning)
    }

    fn freeze_search(&self, model: &str, system: &str, bounds: &Bounds) -> Option<PromptPrefix> {
        self.inner.freeze_search(model, system, bounds)
    }

    fn respond<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let outcome = self.inner.respond(request, sink).await;
            outcome.map(|response| self.answer(response)).map_err(|error| self.failure(error))
        })
    }
}
