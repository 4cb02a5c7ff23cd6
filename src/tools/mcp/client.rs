//! A connection to one server: made, listed, called, closed.
//!
//! Owns the protocol crate's client. Promises that a connection attempt ends within [`START_DEADLINE`] and a closing within a
//! few seconds, with nothing of a server's process left.

use super::failure::{Refusal, said, unreachable};
use super::handler::{Heard, Us};
use super::schema;
use super::stdio::{self, Kept};
use crate::os::command::CommandSpec;
use crate::wire::mcp::{McpServer, McpTransport};
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::Peer;
use rmcp::model::{
    ClientRequest, ListToolsRequest, PaginatedRequestParams, ProtocolVersion, ServerResult,
    SubscriptionFilter, Tool,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, RoleClient,
    RunningServiceCancellationToken, ServiceError,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long a server may take from its start to its list of tools. Some are downloaded first.
pub const START_DEADLINE: Duration = Duration::from_secs(60);
/// How long a server that runs may take for its list of tools.
pub const LIST_DEADLINE: Duration = Duration::from_secs(15);
/// How long a closing may take before it is no longer waited for; processes are gone well before.
pub const CLOSE_DEADLINE: Duration = Duration::from_secs(8);
/// How long the end of a process may lag behind the end of its output.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Pages of a list; a server that has more has no end.
const MAX_PAGES: usize = 1_000;
/// Characters of a tool's description.
const MAX_DESCRIPTION: usize = 4_000;

/// Gives the HTTP client for an address: with the proxies and certificates of the process. The error is
/// one sentence.
pub type HttpClients = Arc<dyn Fn(&str) -> Result<reqwest::Client, String> + Send + Sync>;

/// What all servers of a process are started with.
#[derive(Clone)]
pub struct Host {
    /// The environment of tool commands; a server gets it with its own variables over it.
    pub environment: Arc<BTreeMap<String, String>>,
    /// Clients for servers on the network.
    pub http: HttpClients,
    /// The directory that servers are told they work in.
    pub root: PathBuf,
}

/// A tool as its server declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// The server's name for it.
    pub name: String,
    /// For a model; may be empty.
    pub description: String,
    /// JSON Schema of the input, as it is declared to models.
    pub schema: Arc<str>,
    /// The server says that it changes nothing.
    pub read_only: bool,
}

/// What a server says at the start of a connection.
pub(super) struct Greeting {
    /// Its tools, by name.
    pub tools: Vec<Declared>,
    /// How it wants its tools to be used; its own words.
    pub instructions: Option<String>,
}

/// An open connection.
pub(super) struct Connection {
    /// For calls.
    pub link: Link,
    closed: watch::Receiver<bool>,
    stop: Option<RunningServiceCancellationToken>,
}

/// What calls need of a connection. It may be closed meanwhile; calls then fail.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) peer: Peer<RoleClient>,
    pub(super) heard: Arc<Heard>,
    kept: Option<Kept>,
}

impl Connection {
    /// Starts or reaches a server and asks for its tools. Dropping the future ends what it began.
    ///
    /// # Errors
    /// A sentence that says at which step and why.
    pub async fn open(
        server: &McpServer,
        host: &Host,
        tasks: &TaskTracker,
    ) -> Result<(Self, Greeting), String> {
        let life = CancellationToken::new();
        let ends = life.clone().drop_guard();
        let opened = timeout(START_DEADLINE, Self::opened(server, host, tasks, &life)).await;
        let (connection, greeting) = opened.map_err(|_| {
            format!("it did not answer within {} s; is it an MCP server?", START_DEADLINE.as_secs())
        })??;
        ends.disarm();
        Ok((connection, greeting))
    }

    async fn opened(
        server: &McpServer,
        host: &Host,
        tasks: &TaskTracker,
        life: &CancellationToken,
    ) -> Result<(Self, Greeting), String> {
        let old = ClientLifecycleMode::Initialize;
        let connection = match Self::connected(server, host, tasks, life.child_token(), old).await {
            // A server that has given up the old handshake.
            Err(Refusal { knows_no_handshake: true, .. }) => {
                let preferred_versions = vec![ProtocolVersion::LATEST];
                let new = ClientLifecycleMode::Discover { preferred_versions };
                Self::connected(server, host, tasks, life.child_token(), new).await
            }
            other => other,
        };
        let connection = connection.map_err(|refusal| refusal.why)?;
        let info = connection.link.peer.peer_info();
        let has_tools = info.as_ref().is_none_or(|info| info.capabilities.tools.is_some());
        let tools = if has_tools { connection.link.list().await? } else { Vec::new() };
        let instructions = info.and_then(|info| info.instructions.clone());
        Ok((connection, Greeting { tools, instructions }))
    }

    async fn connected(
        server: &McpServer,
        host: &Host,
        tasks: &TaskTracker,
        life: CancellationToken,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Self, Refusal> {
        let heard = Arc::new(Heard::default());
        let us = Us::new(Arc::clone(&heard), host.root.clone());
        let (service, kept) = match &server.transport {
            McpTransport::Stdio { command, args, env, cwd } => {
                let mut environment = (*host.environment).clone();
                environment.extend(env.clone());
                let argv = std::iter::once(command).chain(args);
                let spec = CommandSpec::new(argv, cwd, environment);
                let started = stdio::start(spec, tasks, life).await;
                let (pipes, kept) = started.map_err(|error| Refusal::new(error.to_string()))?;
                match us.serve_with_lifecycle((pipes.from, pipes.to), lifecycle).await {
                    Ok(service) => (service, Some(kept)),
                    Err(error) => {
                        let mut refusal = Refusal::of(&error);
                        if !matches!(error, ClientInitializeError::JsonRpcError(_)) {
                            refusal.why = format!(
                                "it gave no answer to the greeting: {}",
                                kept.last_words(LAST_WORDS).await
                            );
                        }
                        return Err(refusal);
                    }
                }
            }
            McpTransport::Http { url, headers } => {
                let client = (host.http)(url).map_err(Refusal::new)?;
                let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .custom_headers(header_map(headers).map_err(Refusal::new)?)
                    .reinit_on_expired_session(true);
                let transport = StreamableHttpClientTransport::with_client(client.clone(), config);
                match us.serve_with_lifecycle(transport, lifecycle).await {
                    Ok(service) => (service, None),
                    Err(ClientInitializeError::ConnectionClosed(_)) => {
                        return Err(Refusal::new(unreachable(&client, url).await));
                    }
                    Err(error) => return Err(Refusal::of(&error)),
                }
            }
        };
        let link = Link { peer: service.peer().clone(), heard, kept };
        let stop = Some(service.cancellation_token());
        link.listen(tasks);
        let (close, closed) = watch::channel(false);
        tasks.spawn(async move {
            // A panic in the crate's loop ends the connection like any other end.
            let _ = service.waiting().await;
            close.send_replace(true);
        });
        Ok(Self { link, closed, stop })
    }

    /// Resolves when the connection has ended.
    pub async fn ended(&self) {
        // The sender goes with the task that watches the connection.
        let _ = self.closed.clone().wait_for(|closed| *closed).await;
    }

    /// Resolves when the server says that its tools have changed.
    pub async fn changed(&self) {
        self.link.heard.changed().await;
    }

    /// Closes it, and ends the server if it is a process of ours.
    pub async fn close(mut self) {
        if let Some(stop) = self.stop.take() {
            stop.cancel();
        }
        let closing = async {
            self.ended().await;
            if let Some(kept) = &self.link.kept {
                kept.gone().await;
            }
        };
        if timeout(CLOSE_DEADLINE, closing).await.is_err() {
            tracing::warn!("an MCP server took too long to close; its guard ends it");
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.cancel();
        }
    }
}

impl Link {
    /// How the connection ended, for a message.
    pub async fn last_words(&self) -> String {
        match &self.kept {
            Some(kept) => kept.last_words(LAST_WORDS).await,
            None => "the connection was closed".to_owned(),
        }
    }

    /// Asks a server of the protocol without a greeting to say when its tools change; others say so by
    /// themselves.
    fn listen(&self, tasks: &TaskTracker) {
        let Some(info) = self.peer.peer_info() else { return };
        let tells = info.capabilities.tools.as_ref().and_then(|tools| tools.list_changed) == Some(true);
        if !tells || info.protocol_version.has_initialize() {
            return;
        }
        let link = self.clone();
        tasks.spawn(async move {
            let wanted = SubscriptionFilter::builder().tools_list_changed().build();
            // Ends with the connection; a server that does not do what it says goes without.
            let Ok(mut changes) = link.peer.listen(wanted).await else { return };
            while let Ok(Some(_)) = changes.next().await {
                link.heard.has_changed();
            }
        });
    }

    /// All tools of the server, by name.
    ///
    /// # Errors
    /// A sentence.
    pub async fn list(&self) -> Result<Vec<Declared>, String> {
        let mut tools: BTreeMap<String, Declared> = BTreeMap::new();
        let mut seen = HashSet::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let params =
                cursor.take().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let request =
                ListToolsRequest { method: Default::default(), params, extensions: Default::default() };
            let answer = self.peer.send_request(ClientRequest::ListToolsRequest(request)).await;
            let answer = match answer {
                Ok(answer) => answer,
                Err(ServiceError::McpError(error)) => {
                    return Err(format!("its tools cannot be listed: {}", said(&error.message)));
                }
                Err(_) => return Err(format!("its tools could not be listed: {}", self.last_words().await)),
            };
            let (listed, next) = listed(answer)?;
            for tool in listed {
                tools.insert(tool.name.to_string(), self.declared(tool));
            }
            match next.filter(|next| !next.is_empty() && seen.insert(next.clone())) {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        Ok(tools.into_values().collect())
    }

    fn declared(&self, tool: Tool) -> Declared {
        let sent = self.kept.as_ref().and_then(|kept| kept.schemas.of(&tool.name));
        let sorted = || Value::Object((*tool.input_schema).clone()).to_string();
        let schema = schema::declared(&sent.map_or_else(sorted, |raw| raw.get().to_owned()));
        let title = tool.title.clone().or_else(|| tool.annotations.as_ref()?.title.clone());
        let description = tool.description.as_deref().filter(|text| !text.trim().is_empty());
        let description = description.or(title.as_deref()).unwrap_or_default();
        Declared {
            name: tool.name.to_string(),
            description: super::shortened(description.trim(), MAX_DESCRIPTION),
            schema,
            read_only: tool.annotations.as_ref().and_then(|a| a.read_only_hint) == Some(true),
        }
    }
}

fn header_map(headers: &BTreeMap<String, String>) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let mut map = HashMap::new();
    for (name, value) in headers {
        let key: HeaderName = name.parse().map_err(|_| format!("{name:?} is no name of a header"))?;
        let mut value: HeaderValue =
            value.parse().map_err(|_| format!("the value of the header {name} cannot be sent"))?;
        value.set_sensitive(true);
        map.insert(key, value);
    }
    Ok(map)
}

/// The tools on a page, and where the next one begins. Of a page that is not as it should be, each tool
/// that is.
fn listed(answer: ServerResult) -> Result<(Vec<Tool>, Option<String>), String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Page {
        tools: Vec<Value>,
        next_cursor: Option<String>,
    }
    match answer {
        ServerResult::ListToolsResult(page) => Ok((page.tools, page.next_cursor)),
        ServerResult::CustomResult(page) => {
            let page: Page =
                serde_json::from_value(page.0).map_err(|_| "its list of tools makes no sense".to_owned())?;
            let tools = page.tools.into_iter().filter_map(|tool| serde_json::from_value(tool).ok());
            Ok((tools.collect(), page.next_cursor))
        }
        ServerResult::EmptyResult(_) => Ok((Vec::new(), None)),
        _ => Err("its list of tools makes no sense".to_owned()),
    }
}
