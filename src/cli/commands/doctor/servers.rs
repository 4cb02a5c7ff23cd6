//! What `festoon doctor` says about MCP servers: each is started, asked for its tools, and ended.

use super::Check;
use crate::agent::mcp::Mcp;
use crate::cli::args::Shared;
use crate::cli::environment::Environment;
use crate::cli::mcp::{self, Sources};
use crate::cli::settings::Loaded;
use crate::cli::trust::Trust;
use crate::model::http::HttpClient;
use crate::tools::mcp::names;
use crate::tools::mcp::server::Phase;
use crate::wire::mcp::McpServer;
use futures_util::future::join_all;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long a server is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// A line for each server and each entry that cannot be used; none when nothing is configured.
pub(super) async fn checks(
    environment: &Environment,
    shared: &Shared,
    cwd: &Path,
    loaded: &Loaded,
    trust: Trust,
) -> Vec<Check> {
    let sources = Sources { cwd, loaded, trust, given: &shared.mcp_config, environment };
    let configured = match mcp::configured(sources) {
        Ok(configured) => configured,
        Err(error) => return vec![Check::error("mcp", error)],
    };
    let form = "docs/guide/mcp.md shows the form";
    let errors = configured.errors.into_iter().map(|why| Check::problem("mcp", why, form));
    let warnings = configured.warnings.into_iter().map(|why| Check::note("mcp", why, form));
    let mut checks: Vec<Check> = errors.chain(warnings).collect();
    let of_tools = Arc::new(environment.for_tools(&loaded.settings.env, "doctor"));
    let all = mcp::start(configured.servers, &of_tools, HttpClient::default(), cwd);
    let labels = names::labels(all.configured().iter().map(|server| server.name.as_str()));
    let looks = all.configured().iter().zip(&labels).map(|(server, label)| look(&all, server, label));
    checks.extend(join_all(looks).await);
    all.close().await;
    checks
}

async fn look(all: &Mcp, server: &McpServer, label: &str) -> Check {
    let lease = all.lease(server);
    if let Some(lease) = &lease {
        // Who is not there by then is seen to be starting.
        let _ = timeout(PATIENCE, lease.introduced()).await;
    }
    let status = all.look(server);
    let (line, names) = mcp::described(server, label, status.as_ref());
    match status.map(|status| status.phase) {
        Some(Phase::Ready) => Check::new("mcp", super::Status::Ok, line, names.unwrap_or_default()),
        Some(Phase::Starting) => Check::note(
            "mcp",
            format!("{line}, for {} s already", PATIENCE.as_secs()),
            "its tools join a session when it is there; until then agents work without them",
        ),
        Some(Phase::Asleep | Phase::Failed(_)) | None => Check::problem("mcp", line, mcp::hint(server)),
    }
}
