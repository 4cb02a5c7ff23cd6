//! What a definition comes to here, by the same functions that start its agents in every tier.

use crate::agent::background::tools::may_have;
use crate::agent::build::with_always;
use crate::agent::context::Tier as Stands;
use crate::agent::definition_sources::{Discovery, Found};
use crate::agent::tool_rules;
use crate::cli::compose::permission_mode;
use crate::cli::error::CliError;
use crate::cli::setup::Setup;
use crate::cli::trust;
use crate::model::registry::{INHERIT, Names, choose as choose_model};
use crate::policy::narrow::{Parent, Wish, narrow};
use crate::team::teammate::always_tools;
use crate::team::verbs;
use crate::tools;
use crate::tools::set::choose;
use crate::wire::definition::{AgentDefinition, ToolChoice};
use crate::wire::permission::PermissionMode;
use serde_json::{Map, Value, json};

/// How an agent is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Its caller waits.
    Subagent,
    /// Its caller goes on.
    Background,
    /// It stays, and is written to.
    Teammate,
}

/// How the names of tools begin that only members of a team have.
const OF_MEMBERS: &str = "Task";
/// The one whose name begins alike and that others have too.
const STOP: &str = "TaskStop";

/// How the names of tools begin that only the main agent has.
const OF_THE_MAIN_AGENT: &str = "Team";

/// The tools it gets, those of MCP servers left out; without any, the names that led nowhere.
pub fn tools(definition: &AgentDefinition, tier: Tier) -> Result<Vec<String>, Vec<String>> {
    let stands = if tier == Tier::Teammate { Stands::Teammate } else { Stands::Subagent };
    let mode = definition.permission_mode.unwrap_or_default();
    let has = |name: &str| {
        tool_rules::refusal(name, stands, mode).is_none()
            && !name.starts_with(OF_THE_MAIN_AGENT)
            && (tier != Tier::Background || may_have(name))
            && (tier == Tier::Teammate || name == STOP || !name.starts_with(OF_MEMBERS))
    };
    let offered = verbs::names(&tools::all());
    let offered: Vec<&str> = offered.iter().map(String::as_str).filter(|name| has(name)).collect();
    let always = if tier == Tier::Teammate { always_tools(mode) } else { Vec::new() };
    let choice = with_always(&definition.tools, &always);
    let (chosen, _) = choose(&offered, &choice, &definition.disallowed_tools)?;
    Ok(chosen.into_iter().map(str::to_owned).collect())
}

/// The tools that its subagents have not got, by the reason.
pub fn left_out(definition: &AgentDefinition) -> Vec<(&'static str, Vec<String>)> {
    let mode = definition.permission_mode.unwrap_or_default();
    let own = tools(definition, Tier::Subagent).unwrap_or_default();
    let background = tools(definition, Tier::Background).unwrap_or_default();
    let none = ToolChoice::All;
    let mut all: Vec<(&'static str, Vec<String>)> = Vec::new();
    for name in verbs::names(&tools::all()) {
        let taken = || choose(&[name.as_str()], &none, &definition.disallowed_tools).is_err();
        let why = if own.contains(&name) {
            if background.contains(&name) {
                continue;
            }
            "in the background"
        } else if name.starts_with(OF_THE_MAIN_AGENT) {
            "for the main agent only"
        } else if tool_rules::refusal(&name, Stands::Subagent, mode).is_some() {
            "not for subagents"
        } else if name != STOP && name.starts_with(OF_MEMBERS) {
            "for members of a team only"
        } else if taken() {
            "taken away by disallowedTools"
        } else {
            "not in its tools"
        };
        match all.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(name),
            None => all.push((why, vec![name])),
        }
    }
    all
}

/// Adds to a row all else that the definition says, and what that comes to in a session that is started here
/// with these flags and settings.
pub fn add(row: &mut Map<String, Value>, setup: &Setup, found: &Found) -> Result<(), CliError> {
    let definition = &found.definition;
    // Whatever a definition can say; what the row has already stays.
    if let Ok(Value::Object(all)) = serde_json::to_value(definition) {
        for (key, value) in all {
            row.entry(key).or_insert(value);
        }
    }
    for (tier, key) in [(Tier::Background, "toolsInBackground"), (Tier::Teammate, "toolsAsTeammate")] {
        row.insert(key.to_owned(), json!(tools(definition, tier).unwrap_or_default()));
    }
    if let Err(nowhere) = tools(definition, Tier::Subagent) {
        row.insert("toolsNotKnown".to_owned(), json!(nowhere));
    }
    row.insert(
        "toolsLeftOut".to_owned(),
        left_out(definition).into_iter().map(|(w, n)| (w, json!(n))).collect(),
    );
    let mode = permission_mode(setup, PermissionMode::Default)?;
    let wish = Wish { mode: None, definition: definition.permission_mode, allowed_tools: None };
    let narrowed = narrow(Parent { mode, rules: &[] }, wish);
    row.insert("permissionModeHere".to_owned(), json!(narrowed.mode));
    row.insert("modelHere".to_owned(), json!(model(setup, definition)));
    let mut alone = Discovery { found: vec![found.clone()], ..Discovery::default() };
    let withheld = trust::restrict(&mut alone, setup.trust);
    if let Some(withheld) = withheld.first() {
        let why = format!("{} is skipped here: the directory is not trusted", withheld.what);
        row.insert("withheld".to_owned(), json!(why));
    }
    Ok(())
}

/// The model it would have below a main agent that is started here; `null` when there is none to start with.
fn model(setup: &Setup, definition: &AgentDefinition) -> Option<String> {
    let (flag, settings) = (setup.shared.model.as_deref(), &setup.loaded.settings);
    let main = choose_model(flag, setup.environment.all(), settings).ok()?.anchored(&setup.cwd);
    let wanted = definition.model.as_deref().unwrap_or(INHERIT);
    Names::new(&settings.aliases).resolve(wanted, &main).ok().map(|model| model.to_string())
}
