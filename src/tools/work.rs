//! What the tools' runs have in common: their input as a type of their own, refusals that are results,
//! file work off the runtime's threads.

use super::context::ToolContext;
use super::tool::{BoxFuture, ToolCall, ToolOutput, ToolSpec};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

/// What a call answers that was cancelled before it had any effect.
pub(super) const CANCELLED: &str = "The call was cancelled before it had any effect.";

/// A run in which a refusal ends the work and is the result.
pub fn run<'a>(
    work: impl Future<Output = Result<ToolOutput, ToolOutput>> + Send + 'a,
) -> BoxFuture<'a, ToolOutput> {
    Box::pin(async move { work.await.unwrap_or_else(|refusal| refusal) })
}

/// A check whose refusal is what the call would fail with.
pub(super) fn check<'a>(
    work: impl Future<Output = Result<(), ToolOutput>> + Send + 'a,
) -> BoxFuture<'a, Option<ToolOutput>> {
    Box::pin(async move { work.await.err() })
}

/// A call's input as the tool's own type. The schema has been checked; what it cannot say is told here.
pub fn input<I: DeserializeOwned>(spec: &ToolSpec, call: ToolCall) -> Result<I, ToolOutput> {
    serde_json::from_value(call.input)
        .map_err(|error| ToolOutput::error(format!("The input of {} is wrong: {error}.", spec.name)))
}

/// The run of a tool that only looks at files.
pub(super) fn looking<'a, I: DeserializeOwned + Send + 'static>(
    spec: &'a ToolSpec,
    call: ToolCall,
    ctx: &'a ToolContext,
    look: fn(&I, &ToolContext) -> Result<ToolOutput, ToolOutput>,
) -> BoxFuture<'a, ToolOutput> {
    run(async move {
        let input: I = input(spec, call)?;
        let owned = ctx.clone();
        reading(&ctx.cancel, move || look(&input, &owned)).await?
    })
}

/// Does blocking work. An error is a panic in it, told like any failure of a tool.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ToolOutput> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| ToolOutput::error(format!("The tool itself failed: {error}. Nothing was returned.")))
}

/// Does blocking work that has no effect; when cancelled it is not waited for (a network file system
/// may hang), so it should look at the token itself where it takes long.
pub(super) async fn reading<T: Send + 'static>(
    cancel: &CancellationToken,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ToolOutput> {
    tokio::select! {
        result = blocking(work) => result,
        () = cancel.cancelled() => Err(ToolOutput::error(CANCELLED)),
    }
}
