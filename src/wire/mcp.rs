//! An MCP server as it is to be reached: read from configuration, with everything in it filled in.
//!
//! Handed to workers in their spec, so its form is written down. Holds secrets (environment, headers),
//! which its `Debug` leaves out.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// One server.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpServer {
    /// What its configuration calls it.
    pub name: String,
    /// The file or flag it stands in.
    pub origin: String,
    /// How it is reached.
    pub transport: McpTransport,
    /// Milliseconds that a call may take; `None` is the default.
    pub timeout_ms: Option<u64>,
}

impl McpServer {
    /// `stdio` or `http`.
    pub fn kind(&self) -> &'static str {
        match self.transport {
            McpTransport::Stdio { .. } => "stdio",
            McpTransport::Http { .. } => "http",
        }
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "McpServer({} from {}, {})", self.name, self.origin, self.kind())
    }
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "type")]
pub enum McpTransport {
    /// A process that reads requests and writes answers, one a line.
    Stdio {
        /// The program, looked up in the `PATH` of its environment.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables beside those that tool commands get.
        env: BTreeMap<String, String>,
        /// Where it runs.
        cwd: PathBuf,
    },
    /// Streamable HTTP.
    Http {
        /// The address of its endpoint.
        url: String,
        /// Sent with every request.
        headers: BTreeMap<String, String>,
    },
}

/// A server that a definition of an agent names (`mcpServers`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum McpChoice {
    /// One that is configured.
    Named(String),
    /// One that the definition brings: its name and its configuration as it stands there.
    Brought(String, serde_json::Value),
}
