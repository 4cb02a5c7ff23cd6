//! The kinds of agents that can be started. Built in: `general-purpose`, `Explore` and `Plan`.
//!
//! Owns which kinds there are now. Files that change are read again at the next use, without a restart; what
//! cannot be used is told once, and never hides the others.

use super::definition_sources::{Print, print};
use crate::wire::definition::{AgentDefinition, ToolChoice};
use crate::wire::hooks::HookSettings;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a working agent looks whether there are new kinds.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What the main agent runs.
pub const MAIN: &str = "main";
/// What the main agent runs in coordinator mode.
pub const COORDINATOR: &str = "coordinator";
/// What a missing `subagent_type` means.
pub const GENERAL_PURPOSE: &str = "general-purpose";
/// The read-only searcher.
pub const EXPLORE: &str = "Explore";

/// The read-only planner.
pub const PLAN: &str = "Plan";

/// All kinds at one moment, built in ones last.
#[derive(Debug, Clone, PartialEq)]
pub struct Kinds {
    all: Vec<AgentDefinition>,
}

/// The kinds of a process, as they are now. Cloning shares them.
#[derive(Clone)]
pub struct Definitions(Arc<Inner>);

struct Inner {
    now: Mutex<Arc<Kinds>>,
    live: Option<Live>,
}

/// How to look again.
struct Live {
    dirs: Vec<PathBuf>,
    read: Box<ReadKinds>,
    seen: Mutex<Seen>,
}

/// Reads all kinds but those that are built in, and says which files cannot be used.
pub type ReadKinds = dyn Fn() -> (Vec<AgentDefinition>, Vec<String>) + Send + Sync;

struct Seen {
    print: Print,
    at: Instant,
    /// What has been told of files that cannot be used.
    told: Vec<String>,
}

/// How often the directories are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Now.
    AtOnce,
    /// Unless that was less than [`LOOK_AGAIN`] ago.
    NowAndThen,
}

impl Definitions {
    /// Kinds that stay as they are.
    pub fn new(more: Vec<AgentDefinition>) -> Self {
        Self(Arc::new(Inner { now: Mutex::new(Arc::new(Kinds::new(more))), live: None }))
    }

    /// Kinds that follow the files in `dirs`. `read` gives what is there; what it complains of now is for the
    /// caller to tell.
    pub fn live(dirs: Vec<PathBuf>, read: Box<ReadKinds>) -> Self {
        // In this order: what changes in between is read once more.
        let print = print(&dirs);
        let (more, told) = read();
        let seen = Mutex::new(Seen { print, at: Instant::now(), told });
        let now = Mutex::new(Arc::new(Kinds::new(more)));
        Self(Arc::new(Inner { now, live: Some(Live { dirs, read, seen }) }))
    }

    /// The kinds as they were when somebody looked last.
    pub fn kinds(&self) -> Arc<Kinds> {
        Arc::clone(&self.0.now.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks whether files have changed, and reads them again if so. Returns what is new about files that
    /// cannot be used. Blocks on the disk.
    pub fn look(&self, pace: Pace) -> Vec<String> {
        let Some(live) = &self.0.live else { return Vec::new() };
        let mut seen = live.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if pace == Pace::NowAndThen && seen.at.elapsed() < LOOK_AGAIN {
            return Vec::new();
        }
        seen.at = Instant::now();
        let print = print(&live.dirs);
        if print == seen.print {
            return Vec::new();
        }
        seen.print = print;
        let (more, errors) = (live.read)();
        *self.0.now.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(Kinds::new(more));
        let new = errors.iter().filter(|error| !seen.told.contains(error)).cloned().collect();
        seen.told = errors;
        new
    }
}

impl Kinds {
    /// What is built in, after `more` (roles of a blueprint, files), which win by name; of equal names the
    /// first counts.
    pub fn new(more: Vec<AgentDefinition>) -> Self {
        let mut all: Vec<AgentDefinition> = Vec::new();
        for definition in more.into_iter().chain(built_in()) {
            if !all.iter().any(|d| d.name == definition.name) {
                all.push(definition);
            }
        }
        Self { all }
    }

    /// The definition with this name.
    pub fn get(&self, name: &str) -> Option<&AgentDefinition> {
        self.all.iter().find(|d| d.name == name)
    }

    /// All names, in order.
    pub fn names(&self) -> Vec<&str> {
        self.all.iter().map(|d| d.name.as_str()).collect()
    }

    /// All definitions, in order.
    pub fn iter(&self) -> impl Iterator<Item = &AgentDefinition> {
        self.all.iter()
    }
}

/// What requests of an agent of this kind are counted as: `agent:builtin:<type>` for what ships with the
/// program, else `agent:custom:<name>` (contract §13).
pub fn query_source(definition: &AgentDefinition) -> String {
    // A role or a file may take a name that ships; its prompt tells it apart. A spawner may have changed
    // tools and model.
    let ships =
        built_in().iter().any(|d| d.name == definition.name && d.system_prompt == definition.system_prompt);
    format!("agent:{}:{}", if ships { "builtin" } else { "custom" }, definition.name)
}

/// The definition of the main agent.
pub fn main_agent() -> AgentDefinition {
    AgentDefinition {
        name: MAIN.to_owned(),
        description: "The agent the user talks to.".to_owned(),
        tools: ToolChoice::All,
        disallowed_tools: Vec::new(),
        mcp_servers: None,
        model: None,
        permission_mode: None,
        max_turns: None,
        background: None,
        effort: None,
        isolation: None,
        color: None,
        one_shot: false,
        omit_instructions: false,
        hooks: HookSettings::default(),
        system_prompt: include_str!("prompts/main.md").to_owned(),
    }
}

/// The definition of a main agent that only plans and delegates; what its workers have is put into its
/// prompt when it is built.
pub fn coordinator() -> AgentDefinition {
    let tools =
        ["Agent", "SendMessage", "TaskOutput", "TaskStop", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate"];
    AgentDefinition {
        name: COORDINATOR.to_owned(),
        tools: ToolChoice::List(tools.map(str::to_owned).to_vec()),
        system_prompt: include_str!("prompts/coordinator.md").to_owned(),
        ..main_agent()
    }
}

fn built_in() -> Vec<AgentDefinition> {
    let general = AgentDefinition {
        name: GENERAL_PURPOSE.to_owned(),
        description:
            "Works on any task of several steps: searching, reading, changing files, running commands."
                .to_owned(),
        system_prompt: include_str!("prompts/general-purpose.md").to_owned(),
        ..main_agent()
    };
    let explore = AgentDefinition {
        name: EXPLORE.to_owned(),
        description: "Searches and reads quickly, changes nothing. Say what to find and how thorough to be."
            .to_owned(),
        disallowed_tools: ["Agent", "Edit", "Write", "NotebookEdit", "ExitPlanMode"]
            .map(str::to_owned)
            .to_vec(),
        model: Some("fast".to_owned()),
        permission_mode: Some(crate::wire::permission::PermissionMode::Plan),
        one_shot: true,
        omit_instructions: true,
        system_prompt: include_str!("prompts/explore.md").to_owned(),
        ..main_agent()
    };
    let plan = AgentDefinition {
        name: PLAN.to_owned(),
        description:
            "Studies the code and lays out how a change should be made, changes nothing. Say what is \
                      wanted and what must stay."
                .to_owned(),
        model: None,
        system_prompt: include_str!("prompts/plan.md").to_owned(),
        ..explore.clone()
    };
    vec![general, explore, plan]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::definition_sources::discover;

    #[test]
    fn the_planner_is_the_explorer_with_its_parents_model() {
        let definitions = Kinds::new(Vec::new());
        let get = |name: &str| definitions.get(name).cloned().expect("a definition");
        let (explore, plan) = (get(EXPLORE), get(PLAN));
        assert_eq!((explore.model.as_deref(), plan.model.as_deref()), (Some("fast"), None));
        assert_eq!(
            AgentDefinition { model: None, ..explore },
            AgentDefinition {
                name: EXPLORE.to_owned(),
                description: get(EXPLORE).description,
                system_prompt: get(EXPLORE).system_prompt,
                ..plan
            }
        );
    }

    #[test]
    fn built_in_kinds_are_there_and_can_be_replaced_by_name() {
        let own = AgentDefinition { description: "mine".into(), name: EXPLORE.into(), ..main_agent() };
        let definitions = Kinds::new(vec![own]);
        assert_eq!(definitions.names(), [EXPLORE, GENERAL_PURPOSE, PLAN]);
        assert_eq!(definitions.get(EXPLORE).map(|d| d.description.as_str()), Some("mine"));
        let source = |name: &str| query_source(definitions.get(name).expect("a definition"));
        assert_eq!(source(EXPLORE), "agent:custom:Explore");
        assert_eq!(source(GENERAL_PURPOSE), "agent:builtin:general-purpose");
    }

    #[test]
    fn files_are_read_again_when_they_change_and_complaints_come_once() {
        let dir = tempfile::tempdir().expect("temp dir");
        let file = |name: &str| dir.path().join(name);
        let write = |name: &str, text: &str| std::fs::write(file(name), text).expect("file");
        let definition = |name: &str| format!("---\nname: {name}\ndescription: d\n---\nprompt");
        write("bad.md", "no front matter");
        let dirs = vec![dir.path().to_owned()];
        let user = dir.path().to_owned();
        let read = move || {
            let found = discover(&user, &user.join("elsewhere"), None);
            (found.definitions(), found.errors)
        };
        assert_eq!(read().1.len(), 1);
        let live = Definitions::live(dirs, Box::new(read));
        let has = |name: &str| live.kinds().get(name).is_some();
        assert_eq!((live.look(Pace::AtOnce), has("one")), (vec![], false));
        write("one.md", &definition("one"));
        assert!(!has("one"));
        assert_eq!((live.look(Pace::AtOnce), has("one")), (vec![], true));
        // In place, of the same length.
        write("one.md", &definition("two"));
        write("worse.md", "---\nname: [\n---\n");
        let complaints = live.look(Pace::AtOnce);
        assert_eq!((complaints.len(), has("one"), has("two")), (1, false, true));
        assert!(complaints[0].contains("worse.md:"), "{complaints:?}");
        assert_eq!(live.look(Pace::AtOnce), Vec::<String>::new());
        std::fs::remove_file(file("one.md")).expect("removes");
        assert_eq!((live.look(Pace::AtOnce), has("two")), (vec![], false));
        // Who asks now and then does not look again at once.
        write("three.md", &definition("three"));
        live.look(Pace::NowAndThen);
        assert!(!has("three"));
        // Mended and broken again is told again.
        std::fs::remove_file(file("worse.md")).expect("removes");
        assert_eq!(live.look(Pace::AtOnce), Vec::<String>::new());
        write("worse.md", "---\nname: [\n---\n");
        assert_eq!(live.look(Pace::AtOnce).len(), 1);
    }
}
