//! `festoon log tree`: who started whom in a session, with what each has used.

use crate::agent::restore;
use crate::cli::args::Shared;
use crate::cli::error::CliError;
use crate::cli::out::{Out, warning};
use crate::cli::table::{self, Cell, Column, Table};
use crate::cli::{status, words};
use crate::model::prices::PriceTable;
use crate::store::paths::ProjectPaths;
use crate::store::transcript;
use crate::wire::error::ExitKind;
use crate::wire::ids::SessionId;
use crate::wire::transcript::AgentMeta;
use crate::wire::usage::{Money, Usage};
use anstyle::{AnsiColor, Style};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// An agent with those it has started.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    agent_id: String,
    name: Option<String>,
    agent_type: String,
    description: String,
    status: String,
    model: String,
    is_fork: bool,
    messages: usize,
    tokens: u64,
    cost: Money,
    children: Vec<Node>,
}

impl Node {
    /// What people call it.
    fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.agent_type)
    }
}

/// What a transcript says of its agent's work; a file that is not there says nothing.
struct Work {
    messages: usize,
    model: String,
    usage: Usage,
    cost: Money,
}

fn work(path: &Path, exit: &mut Option<ExitKind>) -> Work {
    let restored = restore::load(path).unwrap_or_else(|error| {
        warning(&error);
        *exit = Some(ExitKind::Failed);
        restore::Restored::default()
    });
    let prices = PriceTable::new(&BTreeMap::new());
    let mut work = Work {
        messages: restored.history.len(),
        model: String::new(),
        usage: Usage::default(),
        cost: Money::default(),
    };
    for (model, usage) in &restored.usage {
        work.model.clone_from(model);
        work.usage += *usage;
        work.cost += prices.cost(model, usage);
    }
    work
}

/// Shows it.
pub(super) fn show(
    project: &ProjectPaths,
    session: &SessionId,
    shared: &Shared,
) -> Result<Option<ExitKind>, CliError> {
    let mut exit = None;
    let metas = transcript::sidechains(project, session)?;
    let main = work(&project.transcript(session), &mut exit);
    let mut root = Node {
        agent_id: "team-lead".to_owned(),
        name: Some("team-lead".to_owned()),
        agent_type: "main".to_owned(),
        description: String::new(),
        status: String::new(),
        model: main.model,
        is_fork: false,
        messages: main.messages,
        tokens: main.usage.total(),
        cost: main.cost,
        children: Vec::new(),
    };
    let files = transcript::sidechain_files(project, session)?;
    let known: Vec<String> = metas.iter().map(|meta| meta.agent_id.to_string()).collect();
    let mut nodes: Vec<(String, Node)> = Vec::new();
    for meta in metas {
        let id = meta.agent_id.to_string();
        let path = files.iter().find(|(name, _)| *name == id).map(|(_, path)| path.clone());
        let path = path.unwrap_or_else(|| project.sidechain(session, &meta.agent_id));
        let did = work(&path, &mut exit);
        nodes.push((meta.parent_agent_id.to_string(), node(meta, did)));
    }
    // The latest first, so that each is complete before it is put below its parent.
    while let Some((parent, node)) = nodes.pop() {
        let above = nodes.iter_mut().find(|(_, n)| n.agent_id == parent && known.contains(&parent));
        above.map_or(&mut root, |(_, above)| above).children.insert(0, node);
    }
    let mut out = Out::default();
    if shared.json {
        out.json(&root)?;
        return Ok(exit);
    }
    let mut table = Table::new(&[
        Column::Cut("AGENT", 20),
        Column::Fixed("STATUS"),
        Column::Right("MESSAGES"),
        Column::Right("TOKENS"),
        Column::Right("COST"),
        Column::Cut("FOR", 16),
    ]);
    rows(&mut table, &root, "", "");
    for line in table.render(table::columns()) {
        out.line(line)?;
    }
    Ok(exit)
}

fn node(meta: AgentMeta, did: Work) -> Node {
    Node {
        agent_id: meta.agent_id.to_string(),
        name: meta.name,
        agent_type: meta.agent_type,
        description: meta.description,
        status: meta.status,
        model: meta.model,
        is_fork: meta.is_fork,
        messages: did.messages,
        tokens: did.usage.total(),
        cost: did.cost,
        children: Vec::new(),
    }
}

fn rows(table: &mut Table, node: &Node, before: &str, below: &str) {
    let style = match node.status.as_str() {
        "completed" => AnsiColor::Green.on_default(),
        "failed" => AnsiColor::Red.on_default(),
        "running" => AnsiColor::Yellow.on_default(),
        _ => Style::new().dimmed(),
    };
    let fork = if node.is_fork { " (fork)" } else { "" };
    table.row([
        Cell::from(format!("{before}{}{fork}", node.label())),
        Cell::styled(&node.status, style),
        Cell::from(node.messages.to_string()),
        Cell::from(status::tokens(node.tokens)),
        Cell::from(words::money(node.cost)),
        Cell::from(&node.description),
    ]);
    for (at, child) in node.children.iter().enumerate() {
        let last = at + 1 == node.children.len();
        let branch = format!("{below}{}", if last { "└ " } else { "├ " });
        let further = format!("{below}{}", if last { "  " } else { "│ " });
        rows(table, child, &branch, &further);
    }
}
