//! Where agent definitions come from, and which one wins.
//!
//! By precedence: the command line (`--agents`), the project's directories from the nearest up, the
//! user's directory, extensions; what is built in comes after all of them (`definitions`). A bad file is reported
//! with its path, line and reason, and never hides the others.

use super::definition_file;
use super::definitions::main_agent;
use super::hooks;
use crate::wire::definition::{AgentDefinition, Isolation, ToolChoice};
use crate::wire::hooks::HookSettings;
use crate::wire::permission::PermissionMode;
use crate::wire::settings::Effort;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The directories of a project that hold definitions.
const PROJECT_DIRS: [&str; 2] = [".festoon/agents", ".claude/agents"];

/// Where a definition stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `--agents`
    CommandLine,
    /// A directory of the project.
    Project,
    /// The user's directory.
    User,
    /// A directory that settings name.
    Extension,
    /// Ships with the program.
    BuiltIn,
}

impl Source {
    /// Its name in listings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CommandLine => "command-line",
            Self::Project => "project",
            Self::User => "user",
            Self::Extension => "extension",
            Self::BuiltIn => "built-in",
        }
    }
}

/// A definition and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The definition.
    pub definition: AgentDefinition,
    /// Where it comes from.
    pub source: Source,
    /// Its file.
    pub path: Option<PathBuf>,
}

/// Everything that was found.
#[derive(Debug, Default)]
pub struct Discovery {
    /// In order of precedence; a name may come again, and the first one counts.
    pub found: Vec<Found>,
    /// Files that cannot be used: `path:line: why`.
    pub errors: Vec<String>,
    /// What the authors of used files should know: `path:line: what`.
    pub warnings: Vec<String>,
}

impl Discovery {
    /// The definitions alone.
    pub fn definitions(&self) -> Vec<AgentDefinition> {
        self.found.iter().map(|f| f.definition.clone()).collect()
    }
}

/// Looks everywhere. `user` is the user's directory of definitions, `given` the JSON of `--agents`.
pub fn discover(user: &Path, cwd: &Path, given: Option<&str>) -> Discovery {
    let mut discovery = Discovery::default();
    if let Some(text) = given {
        match from_json(text) {
            Ok(all) => {
                let found = |definition| Found { definition, source: Source::CommandLine, path: None };
                discovery.found.extend(all.into_iter().map(found));
            }
            Err(why) => discovery.errors.push(format!("--agents: {why}")),
        }
    }
    for dir in project_dirs(cwd) {
        discovery.take_dir(&dir, Source::Project);
    }
    discovery.take_dir(user, Source::User);
    discovery
}

/// The directories that [`discover`] and [`Discovery::with_extensions`] look into, whether or not they are
/// there.
pub fn dirs(user: &Path, cwd: &Path, extensions: &[PathBuf]) -> Vec<PathBuf> {
    let own = std::iter::once(user.to_owned());
    project_dirs(cwd).into_iter().chain(own).chain(extensions.iter().map(|dir| dir.join("agents"))).collect()
}

/// What tells two looks at the same directories apart: the files with their times, sizes and numbers.
pub type Print = Vec<(PathBuf, Option<SystemTime>, u64, u64)>;

/// Looks at directories without reading a file.
pub fn print(dirs: &[PathBuf]) -> Print {
    let mut all = Print::new();
    for dir in dirs {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|e| e == "md")
                && let Ok(found) = std::fs::metadata(&path)
            {
                all.push((path, found.modified().ok(), found.len(), found.ino()));
            }
        }
    }
    all.sort();
    all
}

/// From the working directory up to the root of the checkout; only the former outside a checkout.
fn project_dirs(cwd: &Path) -> Vec<PathBuf> {
    let all: Vec<&Path> = cwd.ancestors().collect();
    let root = all.iter().position(|dir| dir.join(".git").exists()).unwrap_or(0);
    all[..=root].iter().flat_map(|dir| PROJECT_DIRS.map(|below| dir.join(below))).collect()
}

impl Discovery {
    /// Adds what the extensions in these directories bring.
    pub fn with_extensions(mut self, dirs: &[PathBuf]) -> Self {
        for dir in dirs {
            self.take_dir(&dir.join("agents"), Source::Extension);
        }
        self
    }

    fn take_dir(&mut self, dir: &Path, source: Source) {
        let entries = match std::fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            Err(error) => return self.errors.push(format!("{}: {error}", dir.display())),
        };
        let mut paths: Vec<PathBuf> = entries
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|e| e == "md") && path.is_file())
            .collect();
        paths.sort();
        for path in paths {
            self.take_file(&path, dir, source);
        }
    }

    fn take_file(&mut self, path: &Path, dir: &Path, source: Source) {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) => return self.errors.push(format!("{}: {error}", path.display())),
        };
        let read = match definition_file::parse(path, &bytes) {
            Ok(read) => read,
            Err(error) => return self.errors.push(error.to_string()),
        };
        let warnings = read.warnings.iter().map(|w| format!("{}:{}: {}", path.display(), w.line, w.what));
        self.warnings.extend(warnings);
        let twin = self.found.iter().find(|f| {
            f.definition.name == read.definition.name
                && f.path.as_deref().and_then(Path::parent).is_some_and(|parent| parent == dir)
        });
        if let Some(twin) = twin {
            let first = twin.path.as_deref().unwrap_or(dir).display();
            let name = &read.definition.name;
            return self.errors.push(format!("{}:1: the name `{name}` is taken by {first}", path.display()));
        }
        self.found.push(Found { definition: read.definition, source, path: Some(path.to_owned()) });
    }
}

/// The value of `--agents`: an object of definitions by name.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Given {
    description: String,
    prompt: String,
    tools: Option<Vec<String>>,
    #[serde(default)]
    disallowed_tools: Vec<String>,
    mcp_servers: Option<Value>,
    model: Option<String>,
    permission_mode: Option<PermissionMode>,
    max_turns: Option<u32>,
    background: Option<bool>,
    isolation: Option<Isolation>,
    color: Option<String>,
    effort: Option<Effort>,
    #[serde(default, alias = "omitClaudeMd")]
    omit_instructions: bool,
    #[serde(default)]
    hooks: HookSettings,
}

fn from_json(text: &str) -> Result<Vec<AgentDefinition>, String> {
    let all: BTreeMap<String, Given> = serde_json::from_str(text).map_err(|e| e.to_string())?;
    for (name, given) in &all {
        hooks::check(&given.hooks).map_err(|why| format!("{name}.hooks.{why}"))?;
    }
    let define = |(name, given): (String, Given)| {
        let mcp_servers = given.mcp_servers.as_ref().map(definition_file::mcp_servers).transpose();
        Ok(AgentDefinition {
            mcp_servers: mcp_servers.map_err(|why| format!("{name}: {why}"))?,
            name,
            description: given.description,
            tools: given.tools.filter(|t| *t != ["*"]).map_or(ToolChoice::All, ToolChoice::List),
            disallowed_tools: given.disallowed_tools,
            model: given.model.filter(|m| m != "inherit"),
            permission_mode: given.permission_mode,
            max_turns: given.max_turns,
            background: given.background,
            isolation: given.isolation,
            color: given.color,
            effort: given.effort,
            omit_instructions: given.omit_instructions,
            hooks: given.hooks,
            system_prompt: given.prompt,
            ..main_agent()
        })
    };
    all.into_iter().map(define).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, name: &str) {
        std::fs::create_dir_all(path.parent().expect("parent")).expect("dir");
        std::fs::write(path, format!("---\nname: {name}\ndescription: d\n---\nprompt")).expect("file");
    }

    #[test]
    fn nearer_definitions_come_first_and_bad_files_hide_nothing() {
        let dir = tempfile::tempdir().expect("temp dir");
        let root = dir.path();
        std::fs::create_dir_all(root.join("repo/.git")).expect("dir");
        write(&root.join("repo/.festoon/agents/a.md"), "reviewer");
        write(&root.join("repo/.festoon/agents/b.md"), "reviewer");
        write(&root.join("repo/sub/.claude/agents/c.md"), "reviewer");
        write(&root.join("user/d.md"), "tester");
        std::fs::write(root.join("user/bad.md"), "no front matter").expect("file");
        let given = r#"{"fixer":{"description":"d","prompt":"p","tools":["Read"]}}"#;
        let discovery = discover(&root.join("user"), &root.join("repo/sub"), Some(given));
        let found: Vec<_> = discovery.found.iter().map(|f| (f.definition.name.as_str(), f.source)).collect();
        let wanted = [
            ("fixer", Source::CommandLine),
            ("reviewer", Source::Project),
            ("reviewer", Source::Project),
            ("tester", Source::User),
        ];
        assert_eq!(found, wanted);
        assert!(discovery.found[1].path.as_ref().is_some_and(|p| p.ends_with("sub/.claude/agents/c.md")));
        assert_eq!(discovery.errors.len(), 2, "{:?}", discovery.errors);
        assert!(
            discovery.errors[0].contains("b.md:1: the name `reviewer` is taken by"),
            "{:?}",
            discovery.errors
        );
        assert!(discovery.errors[1].contains("bad.md:1: "), "{:?}", discovery.errors);
    }
}
