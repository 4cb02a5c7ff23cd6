//! What one agent may do: its mode, its rules, and the answers it has been given.
//!
//! Belongs to one agent alone. A child gets its own, narrowed from a snapshot, so that neither can
//! change anything of the other's.

use crate::os::file::resolve;
use crate::policy::decide::{Query, Verdict, decide};
use crate::wire::access::Access;
use crate::wire::permission::{Behavior, PermissionMode, Rule, RuleSource};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

/// The permissions of one agent.
#[derive(Debug)]
pub struct Permissions {
    mode: PermissionMode,
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
        Self { mode, rules: RwLock::new(rules), cwd, project, home, closed, own_output }
    }

    /// The mode.
    pub fn mode(&self) -> PermissionMode {
        self.mode
    }

    /// The rules as they are now.
    pub fn rules(&self) -> Vec<Rule> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds what a person allowed for the session.
    pub fn allow_for_session(&self, rules: impl IntoIterator<Item = String>) {
        let mut all = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        for text in rules {
            let rule = Rule { text, behavior: Behavior::Allow, source: RuleSource::Session };
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

    /// Decides about a call whose paths are resolved.
    pub fn decide(&self, access: &Access) -> Verdict {
        let rules = self.rules();
        decide(&Query {
            access,
            rules: &rules,
            mode: self.mode,
            cwd: &self.cwd,
            project: &self.project,
            home: self.home.as_deref(),
            closed: &self.closed,
            own_output: &self.own_output,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

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
        let mode = PermissionMode::Default;
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
