//! What every tool looks like to the agent loop.

use super::context::ToolContext;
use crate::wire::access::Access;
use crate::wire::block::Block;
use serde_json::Value;
use serde_json::value::RawValue;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

/// A boxed future, for object-safe traits.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Name, description and input schema, frozen.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does and when to use it, for a model.
    pub description: String,
    /// JSON Schema of the input, an object, as text.
    pub schema: Arc<str>,
}

/// One call, already validated against the schema.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// The call's id.
    pub id: String,
    /// The input, byte for byte.
    pub raw: Arc<RawValue>,
    /// The input, parsed.
    pub input: Value,
}

/// What a call came to. Text is written for a model to act on.
#[derive(Debug, Clone)]
pub struct ToolOutput {
    /// The result.
    pub content: ToolContent,
    /// Whether it failed.
    pub is_error: bool,
}

/// A result's content.
#[derive(Debug, Clone)]
pub enum ToolContent {
    /// Text; cut to the cap by the pipeline, the whole kept in a file.
    Text(String),
    /// Blocks (images); passed on as they are.
    Blocks(Vec<Block>),
}

impl ToolOutput {
    /// A success.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { content: ToolContent::Text(text.into()), is_error: false }
    }
    /// A failure, with what to do about it.
    pub fn error(text: impl Into<String>) -> Self {
        Self { content: ToolContent::Text(text.into()), is_error: true }
    }
}

/// Whether calls of a tool may run beside others of the same message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concurrency {
    /// Changes nothing others see.
    Safe,
    /// Runs alone, in order.
    Exclusive,
}

/// A tool.
pub trait Tool: Send + Sync {
    /// Name, description, schema.
    fn spec(&self) -> &ToolSpec;
    /// What the call would touch. Pure; relative paths are taken from `cwd`.
    fn access(&self, input: &Value, cwd: &Path) -> Access;
    /// Whether this call may run beside others.
    fn concurrency(&self, input: &Value) -> Concurrency;
    /// What the call would fail with as things are now, found without changing anything; `None` when it may
    /// succeed. Asked before a person is.
    fn check<'a>(&'a self, _: ToolCall, _: &'a ToolContext) -> BoxFuture<'a, Option<ToolOutput>> {
        Box::pin(std::future::ready(None))
    }
    /// Runs it. Must end soon after `ctx.cancel` is cancelled, leaving nothing running.
    fn run<'a>(&'a self, call: ToolCall, ctx: &'a ToolContext) -> BoxFuture<'a, ToolOutput>;
}
