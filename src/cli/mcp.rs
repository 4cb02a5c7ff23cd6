//! The MCP servers of a session: where their configuration stands, and what a person sees of them.
//!
//! Weakest first: extensions, the user's settings, `.mcp.json`, the project's and the local settings,
//! `--settings`, `--mcp-config`. Of equal names the strongest counts, whole. What a project brings counts
//! where the directory is trusted ([`super::trust`] names what is withheld).

use super::environment::Environment;
use super::error::CliError;
use super::settings::Loaded;
use super::text;
use super::trust::Trust;
use crate::agent::mcp::Mcp;
use crate::model::connect::client_for;
use crate::model::http::HttpClient;
use crate::store::atomic;
use crate::tools::mcp::config::{self, Entries, Place};
use crate::tools::mcp::pool::Pool;
use crate::tools::mcp::server::{Phase, Status};
use crate::tools::mcp::{Host, names};
use crate::wire::mcp::{McpServer, McpTransport};
use crate::wire::permission::RuleSource;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file of a project's or an extension's servers.
const FILE: &str = ".mcp.json";
/// Names of tools that a listing shows of a server.
const SHOWN_TOOLS: usize = 8;

/// What is configured.
#[derive(Debug, Default)]
pub struct Configured {
    /// The servers, by name.
    pub servers: Vec<McpServer>,
    /// Entries and files that cannot be used, a sentence each.
    pub errors: Vec<String>,
    /// What else is odd.
    pub warnings: Vec<String>,
}

/// Where configuration is looked for.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The working directory.
    pub cwd: &'a Path,
    /// The settings.
    pub loaded: &'a Loaded,
    /// How much of the project counts.
    pub trust: Trust,
    /// `--mcp-config`, in order.
    pub given: &'a [String],
    /// The environment.
    pub environment: &'a Environment,
}

/// The nearest `.mcp.json` from the working directory up to the root of the checkout; only there outside
/// a checkout.
pub fn file_of_project(cwd: &Path) -> Option<PathBuf> {
    let all: Vec<&Path> = cwd.ancestors().collect();
    let root = all.iter().position(|dir| dir.join(".git").exists()).unwrap_or(0);
    all[..=root].iter().map(|dir| dir.join(FILE)).find(|file| file.is_file())
}

/// The directories of the setting `extensions`.
pub fn extensions(cwd: &Path, loaded: &Loaded, environment: &Environment) -> Vec<PathBuf> {
    let place = |dir: &String| match (dir.strip_prefix("~/"), environment.home()) {
        (Some(below), Some(home)) => home.join(below),
        _ => cwd.join(dir),
    };
    loaded.settings.extensions.iter().map(place).collect()
}

/// Everything that is configured.
///
/// # Errors
/// When a value of `--mcp-config` cannot be read; what is wrong elsewhere is in the result.
pub fn configured(sources: Sources<'_>) -> Result<Configured, CliError> {
    let Sources { cwd, loaded, environment, .. } = sources;
    // A person's own files may name anything of theirs; others fill in what tool commands see.
    let own = environment.all();
    let others = environment.for_tools(&loaded.settings.env, "");
    let mut found = Configured::default();
    let mut servers: BTreeMap<String, McpServer> = BTreeMap::new();
    for dir in extensions(cwd, loaded, environment) {
        found.take_file(&mut servers, &dir.join(FILE), &others);
    }
    let by = |source: RuleSource| loaded.mcp.iter().filter(move |given| given.source == source);
    let from_settings = |source, variables, found: &mut Configured, servers: &mut _| {
        for given in by(source) {
            let place = Place { origin: &given.origin, cwd, variables };
            found.take(servers, config::read_all(&given.servers, place));
        }
    };
    from_settings(RuleSource::User, own, &mut found, &mut servers);
    if let (Trust::Full, Some(file)) = (sources.trust, file_of_project(cwd)) {
        found.take_file(&mut servers, &file, &others);
    }
    from_settings(RuleSource::Project, &others, &mut found, &mut servers);
    from_settings(RuleSource::Local, &others, &mut found, &mut servers);
    from_settings(RuleSource::CommandLine, own, &mut found, &mut servers);
    for given in sources.given {
        let entries = given_on_the_command_line(given, cwd, own)?;
        found.take(&mut servers, entries);
    }
    found.servers = servers.into_values().collect();
    Ok(found)
}

fn given_on_the_command_line(
    given: &str,
    cwd: &Path,
    variables: &BTreeMap<String, String>,
) -> Result<Entries, CliError> {
    let wrong = |why: String| {
        CliError::usage(why, "give a file, or JSON text: {\"mcpServers\": {\"name\": {\"command\": \"…\"}}}")
    };
    if given.trim_start().starts_with('{') {
        let place = Place { origin: "--mcp-config", cwd, variables };
        return config::read_document(given, place).map_err(wrong);
    }
    let path = cwd.join(given);
    let origin = path.display().to_string();
    let bytes = atomic::read_optional(&path)?;
    let bytes = bytes.ok_or_else(|| wrong(format!("--mcp-config: {origin} is no file")))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong(format!("{origin}: it is not UTF-8")))?;
    config::read_document(&text, Place { origin: &origin, cwd, variables }).map_err(wrong)
}

impl Configured {
    fn take(&mut self, servers: &mut BTreeMap<String, McpServer>, entries: Entries) {
        for name in entries.disabled {
            servers.remove(&name);
        }
        servers.extend(entries.servers.into_iter().map(|server| (server.name.clone(), server)));
        self.errors.extend(entries.errors);
        self.warnings.extend(entries.warnings);
    }

    /// A file that may be there; its servers run where it stands.
    fn take_file(
        &mut self,
        servers: &mut BTreeMap<String, McpServer>,
        path: &Path,
        variables: &BTreeMap<String, String>,
    ) {
        let origin = path.display().to_string();
        let place = Place { origin: &origin, cwd: path.parent().unwrap_or(path), variables };
        let read = match atomic::read_optional(path) {
            Ok(None) => return,
            Ok(Some(bytes)) => {
                let text = String::from_utf8(bytes).map_err(|_| format!("{origin}: it is not UTF-8"));
                text.and_then(|text| config::read_document(&text, place))
            }
            Err(error) => Err(error.to_string()),
        };
        match read {
            Ok(entries) => self.take(servers, entries),
            Err(why) => self.errors.push(why),
        }
    }
}

/// The servers of a process. Nothing is started.
pub fn start(
    servers: Vec<McpServer>,
    environment: &Arc<BTreeMap<String, String>>,
    http: HttpClient,
    cwd: &Path,
) -> Mcp {
    let host = Host {
        environment: Arc::clone(environment),
        http: Arc::new(move |url| client_for(url, &http).get().cloned().map_err(|error| error.to_string())),
        root: cwd.to_owned(),
    };
    Mcp::new(Pool::new(host), servers, Arc::clone(environment), cwd.to_owned())
}

/// What to do about a server that cannot be used.
pub fn hint(server: &McpServer) -> String {
    match &server.transport {
        // Not with its arguments: they may hold a token.
        McpTransport::Stdio { command, .. } => {
            format!("try by hand whether {command} runs, as it is configured in {}", server.origin)
        }
        McpTransport::Http { .. } => {
            format!("look at its url and headers in {}, and whether the server is up", server.origin)
        }
    }
}

/// A server in one line, and what its tools are called.
pub fn described(server: &McpServer, label: &str, status: Option<&Status>) -> (String, Option<String>) {
    let tools = status.and_then(|status| status.tools.as_deref());
    let count = tools.map(|tools| match tools.len() {
        1 => "1 tool".to_owned(),
        n => format!("{n} tools"),
    });
    let state = match (status.map(|status| &status.phase), count) {
        (None | Some(Phase::Asleep), None) => "not started".to_owned(),
        (None | Some(Phase::Asleep), Some(count)) => format!("not running, {count}"),
        (Some(Phase::Starting), _) => "starting".to_owned(),
        (Some(Phase::Ready), count) => format!("ready, {}", count.unwrap_or_default()),
        (Some(Phase::Failed(why)), _) => format!("cannot be used: {why}"),
    };
    let line = format!("{} ({}, {}): {state}", server.name, server.kind(), server.origin);
    let names = tools.filter(|tools| !tools.is_empty()).map(|tools| {
        let names = names::tools(label, tools.iter().map(|tool| tool.name.as_str()));
        let more = names.len().saturating_sub(SHOWN_TOOLS);
        let shown = names[..names.len() - more].join(", ");
        if more > 0 { format!("{shown} and {more} more") } else { shown }
    });
    (line, names)
}

/// What `/mcp` prints; `unusable` is what is configured and cannot be used, with the reasons.
pub fn listing(mcp: &Mcp, unusable: &[String]) -> Vec<String> {
    let servers = mcp.configured();
    if servers.is_empty() && unusable.is_empty() {
        return vec!["no MCP servers are configured (docs/guide/mcp.md)".to_owned()];
    }
    let labels = names::labels(servers.iter().map(|server| server.name.as_str()));
    let mut lines = Vec::new();
    for (server, label) in servers.iter().zip(labels) {
        let status = mcp.look(server);
        let (line, names) = described(server, &label, status.as_ref());
        lines.push(line);
        lines.extend(names.map(|names| format!("  {names}")));
        if matches!(status.map(|status| status.phase), Some(Phase::Failed(_))) {
            lines.push(format!("  → {}", hint(server)));
        }
    }
    lines.extend(unusable.iter().map(|why| format!("not used: {why}")));
    lines.iter().map(|line| text::clean(line).into_owned()).collect()
}
