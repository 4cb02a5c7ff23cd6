//! A tool of an MCP server, as a tool of ours.

use super::call::CallError;
use super::client::{Declared, START_DEADLINE};
use super::content;
use super::server::Lease;
use crate::tools::context::ToolContext;
use crate::tools::tool::{BoxFuture, Concurrency, Tool, ToolCall, ToolOutput, ToolSpec};
use crate::wire::access::{Access, Target};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long a call may take unless its server's configuration says otherwise (`timeout`).
pub const CALL_TIMEOUT: Duration = Duration::from_secs(300);
/// Characters of an input in a summary.
const SUMMARY: usize = 200;

/// One tool for one agent.
pub struct McpTool {
    spec: ToolSpec,
    /// The server's own name for it.
    name: String,
    read_only: bool,
    server: Arc<Lease>,
}

impl McpTool {
    /// A tool under the name that models know it by.
    pub fn new(name: String, declared: &Declared, server: Arc<Lease>) -> Self {
        let description = match declared.description.as_str() {
            "" => format!("The tool {} of the MCP server {}.", declared.name, server.config.name),
            text => text.to_owned(),
        };
        Self {
            spec: ToolSpec { name, description, schema: Arc::clone(&declared.schema) },
            name: declared.name.clone(),
            read_only: declared.read_only,
            server,
        }
    }

    async fn call(&self, call: ToolCall, ctx: &ToolContext) -> ToolOutput {
        let server = &self.server.config.name;
        let cancelled = || ToolOutput::error(format!("The call of {} was cancelled.", self.spec.name));
        // A server that died is started again here.
        let link = tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => return cancelled(),
            link = timeout(START_DEADLINE, self.server.link()) => link,
        };
        let link = match link.unwrap_or_else(|_| Err("it takes too long to start".to_owned())) {
            Ok(link) => link,
            Err(why) => {
                return ToolOutput::error(format!(
                    "The MCP server {server} cannot be used: {why}. Nothing was run. Go on without it, or tell the user."
                ));
            }
        };
        let arguments = match call.input {
            Value::Object(arguments) => arguments,
            _ => serde_json::Map::new(),
        };
        let limit = self.server.config.timeout_ms.map_or(CALL_TIMEOUT, Duration::from_millis);
        let mut sent = match link.call(&self.name, arguments, &ctx.progress).await {
            Ok(sent) => sent,
            Err(error) => return self.failure(error),
        };
        let answer = tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => {
                sent.cancel("the user interrupted it").await;
                return cancelled();
            }
            answer = timeout(limit, sent.result()) => answer,
        };
        match answer {
            Ok(Ok(result)) => content::output(result),
            Ok(Err(error)) => self.failure(error),
            Err(_) => {
                sent.cancel("it took too long").await;
                ToolOutput::error(format!(
                    "The MCP server {server} did not answer within {} s, the time limit of its calls; the call was \
                     cancelled, and it may have had some effect.",
                    limit.as_secs_f64()
                ))
            }
        }
    }

    fn failure(&self, error: CallError) -> ToolOutput {
        let server = &self.server.config.name;
        ToolOutput::error(match error {
            CallError::Refused(why) => format!("The MCP server {server} refused the call: {why}"),
            CallError::Odd(why) => format!("The MCP server {server} gave no usable answer: {why}."),
            CallError::Lost(why) => format!(
                "The connection to the MCP server {server} was lost during the call: {why}. Whether the call took effect \
                 is unknown; look before you repeat it. The server is started again at the next call."
            ),
        })
    }
}

impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, _: &Path) -> Access {
        let input = input.to_string();
        Access {
            tool: self.spec.name.clone(),
            target: Target::Named,
            summary: format!(
                "{}: {} {}",
                self.server.config.name,
                self.name,
                super::shortened(&input, SUMMARY)
            ),
        }
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        if self.read_only { Concurrency::Safe } else { Concurrency::Exclusive }
    }

    fn run<'a>(&'a self, call: ToolCall, ctx: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        Box::pin(self.call(call, ctx))
    }
}
