//! What one agent may do: its mode, its rules, and the answers it has been given.
//!
//! Belongs to one agent alone. A child gets its own, narrowed from a snapshot, so that neither can
//! change anything of the other's. The mode changes only for a person, the leader, or plan mode.

use crate::os::file::resolve;
use crate::policy::decide::{Query, Verdict, decide};
use crate::policy::reach::{Kept, Touches};
use crate::wire::access::Access;
use crate::wire::permission::{Behavior, PermissionMode, Rule, RuleSource};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

/// The mode, and what plan mode needs to remember.
#[derive(Debug, Clone, Copy)]
struct Modes {
    now: PermissionMode,
    /// Where plan mode goes back to; `None` when the agent was started in it.
    before: Option<PermissionMode>,
    /// Whether the last that the model was told is that it is in plan mode.
    told_plan: bool,
}

/// What the model has to be told of its mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModeNews {
    /// Plan mode has begun.
    Begins,
    /// It is over; this is the mode now.
    Over(PermissionMode),
}

/// The permissions of one agent.
#[derive(Debug)]
pub struct Permissions {
    modes: RwLock<Modes>,
    /// What the mode may not become wider than: the parent's when the agent was started. `None` for whom a
    /// person or the leader's present mode bounds.
    pub ceiling: Option<PermissionMode>,
    rules: RwLock<Vec<Rule>>,
    /// The agent's directory; links resolved.
    pub cwd: PathBuf,
    /// The project's root and what counts as the project beside it; links resolved. A child has its
    /// parent's, so that rules mean the same to both.
    pub project: Vec<PathBuf>,
    /// The person's home, for `~/` in rules.
    pub home: Option<PathBuf>,
    /// Directories that no tool may touch.
    pub closed: Vec<PathBuf>,
    /// The one directory below them that the agent may read: where its long outputs go.
    pub own_output: PathBuf,
}

impl Permissions {
    /// Starts from a mode and rules that are already narrowed.
    pub fn new(
        mode: PermissionMode,
        rules: Vec<Rule>,
        cwd: PathBuf,
        project: Vec<PathBuf>,
        home: Option<PathBuf>,
        closed: Vec<PathBuf>,
        own_output: PathBuf,
    ) -> Self {
        let before = Some(mode).filter(|mode| *mode != PermissionMode::Plan);
        let modes = RwLock::new(Modes { now: mode, before, told_plan: false });
        Self { modes, ceiling: None, rules: RwLock::new(rules), cwd, project, home, closed, own_output }
    }

    /// The same for a child of an agent in this mode.
    pub fn below(self, parent: PermissionMode) -> Self {
        Self { ceiling: Some(parent), ..self }
    }

    fn modes(&self) -> Modes {
        *self.modes.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mode.
    pub fn mode(&self) -> PermissionMode {
        self.modes().now
    }

    /// The mode that plan mode goes back to; `None` when the agent was started in it. Outside of it, the mode.
    pub fn mode_before_plan(&self) -> Option<PermissionMode> {
        self.modes().before
    }

    /// Changes the mode; says whether it was another one.
    pub fn set_mode(&self, mode: PermissionMode) -> bool {
        let mut modes = self.modes.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = modes.now != mode;
        modes.now = mode;
        if mode != PermissionMode::Plan {
            modes.before = Some(mode);
        }
        is_new
    }

    /// What the model does not know yet of its mode; asked once, it counts as told.
    pub fn take_mode_news(&self) -> Option<ModeNews> {
        let mut modes = self.modes.write().unwrap_or_else(PoisonError::into_inner);
        let plans = modes.now == PermissionMode::Plan;
        if plans == modes.told_plan {
            return None;
        }
        modes.told_plan = plans;
        Some(if plans { ModeNews::Begins } else { ModeNews::Over(modes.now) })
    }

    /// The rules as they are now.
    pub fn rules(&self) -> Vec<Rule> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds what a person allowed for the session.
    pub fn allow_for_session(&self, rules: impl IntoIterator<Item = String>) {
        let session = |text| Rule { text, behavior: Behavior::Allow, source: RuleSource::Session };
        self.add_rules(rules.into_iter().map(session));
    }

    /// Adds rules.
    pub fn add_rules(&self, rules: impl IntoIterator<Item = Rule>) {
        let mut all = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        for rule in rules {
            if !all.contains(&rule) {
                all.push(rule);
            }
        }
    }

    /// The directory for a child that wants to work in `wanted` (else where its parent
    /// does), links resolved. Looks at the disk.
    ///
    /// # Errors
    /// When it is no directory, or outside the project: a child may not have more than its parent. A
    /// sentence for the model.
    pub fn child_dir(&self, wanted: Option<&Path>) -> Result<PathBuf, String> {
        let named = wanted.map_or_else(|| self.cwd.clone(), |wanted| self.cwd.join(wanted));
        let real = resolve(&named);
        if !real.is_dir() {
            return Err(format!("{} is not a directory.", named.display()));
        }
        if self.project.iter().any(|dir| real.starts_with(dir)) {
            return Ok(real);
        }
        let project: Vec<String> = self.project.iter().map(|dir| dir.display().to_string()).collect();
        let is = if real == named { String::new() } else { format!(" (really {})", real.display()) };
        Err(format!(
            "{}{is} lies outside your project, which is {}. Choose a directory inside it, or leave cwd out.",
            named.display(),
            project.join(" and ")
        ))
    }

    /// The files that rules keep from being read.
    pub fn kept(&self) -> Kept {
        let root = self.project.first().map_or(self.cwd.as_path(), PathBuf::as_path);
        Kept::new(&self.rules(), root, self.home.as_deref())
    }

    /// Decides about a call whose paths are resolved. `touches` is what a command would touch, where that
    /// matters.
    pub fn decide(&self, access: &Access, touches: Option<&Touches>) -> Verdict {
        let rules = self.rules();
        decide(&Query {
            access,
            rules: &rules,
            mode: self.mode(),
            cwd: &self.cwd,
            project: &self.project,
            home: self.home.as_deref(),
            closed: &self.closed,
            touches,
            own_output: &self.own_output,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PermissionMode::{AcceptEdits, Default, Plan};
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn plan_mode_remembers_where_it_came_from_and_is_told_once() {
        let nowhere = || PathBuf::from("/");
        let made = |mode| Permissions::new(mode, vec![], nowhere(), vec![], None, vec![], nowhere());
        let own = made(AcceptEdits);
        assert_eq!((own.take_mode_news(), own.mode_before_plan()), (None, Some(AcceptEdits)));
        assert!(own.set_mode(Plan) && !own.set_mode(Plan));
        assert_eq!((own.mode(), own.mode_before_plan()), (Plan, Some(AcceptEdits)));
        assert_eq!([own.take_mode_news(), own.take_mode_news()], [Some(ModeNews::Begins), None]);
        assert!(own.set_mode(Default));
        assert_eq!([own.take_mode_news(), own.take_mode_news()], [Some(ModeNews::Over(Default)), None]);
        let started = made(Plan);
        assert_eq!((started.mode_before_plan(), started.take_mode_news()), (None, Some(ModeNews::Begins)));
    }

    #[test]
    fn a_child_works_inside_the_project() {
        let temp = tempfile::tempdir().expect("temp");
        let root = fs::canonicalize(temp.path()).expect("real");
        for dir in ["p/sub", "more/x", "out"] {
            fs::create_dir_all(root.join(dir)).expect("dirs");
        }
        fs::write(root.join("p/file"), "").expect("file");
        symlink("../out", root.join("p/link")).expect("link");
        symlink("sub", root.join("p/inner")).expect("link");
        let project = vec![root.join("p"), root.join("more")];
        let mode = Default;
        let own =
            Permissions::new(mode, vec![], root.join("p/sub"), project, None, vec![], root.join("none"));
        let dir = |text: &str| own.child_dir(Some(Path::new(text)));
        let at = |name: &str| root.join(name).display().to_string();
        assert_eq!(own.child_dir(None), Ok(root.join("p/sub")));
        assert_eq!(dir(".."), Ok(root.join("p")));
        assert_eq!(dir("../inner"), Ok(root.join("p/sub")));
        assert_eq!(dir(&at("more/x")), Ok(root.join("more/x")));
        assert_eq!(dir("../file"), Err(format!("{}/../file is not a directory.", at("p/sub"))));
        let refused = |named: &str, real: &str| {
            Err(format!(
                "{named} (really {}) lies outside your project, which is {} and {}. Choose a directory inside it, or \
                 leave cwd out.",
                at(real),
                at("p"),
                at("more")
            ))
        };
        assert_eq!(dir("../link"), refused(&format!("{}/../link", at("p/sub")), "out"));
        assert_eq!(dir("../../out"), refused(&format!("{}/../../out", at("p/sub")), "out"));
        assert!(dir(&at("out")).is_err());
        assert!(dir("/").is_err());
    }
}
