//! File work off the runtime's threads.

use super::tool::ToolOutput;
use tokio_util::sync::CancellationToken;

/// What a call answers that was cancelled before it had any effect.
pub(super) const CANCELLED: &str = "The call was cancelled before it had any effect.";

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
