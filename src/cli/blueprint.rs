//! Blueprints of teams: read from a file or from those that ship, with their roles and scripts.
//!
//! Owns the files of `teams/` as they stand in the program. Promises that whatever is wrong is named
//! with file, line and reason before anything is started.

use super::error::CliError;
use crate::agent::definition_file;
use crate::store::{atomic, slug};
use crate::wire::blueprint::{Blueprint, MEMBERS, TASK};
use crate::wire::definition::AgentDefinition;
use crate::wire::error::ExitKind;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Every file of `teams/`, with its path below it.
pub const SHIPPED: [(&str, &str); 9] = [
    ("demo.toml", include_str!("../../teams/demo.toml")),
    ("demo.script.toml", include_str!("../../teams/demo.script.toml")),
    ("review.toml", include_str!("../../teams/review.toml")),
    ("roles/scout.md", include_str!("../../teams/roles/scout.md")),
    ("roles/reader.md", include_str!("../../teams/roles/reader.md")),
    ("roles/historian.md", include_str!("../../teams/roles/historian.md")),
    ("roles/reviewer.md", include_str!("../../teams/roles/reviewer.md")),
    ("roles/tester.md", include_str!("../../teams/roles/tester.md")),
    ("roles/security.md", include_str!("../../teams/roles/security.md")),
];

/// How a blueprint's file ends.
const SUFFIX: &str = ".toml";

/// A blueprint with everything it names.
#[derive(Debug)]
pub struct Team {
    /// The blueprint.
    pub blueprint: Blueprint,
    /// The definitions of its members, each once.
    pub roles: Vec<AgentDefinition>,
    /// The text of its script.
    pub script: Option<String>,
    /// What its author should know, with file and line.
    pub warnings: Vec<String>,
}

impl Team {
    /// What the leader is told: the prompt with the task and the members in it.
    pub fn lead_prompt(&self, task: &str) -> String {
        let mut members = String::new();
        for member in &self.blueprint.members {
            let (name, role, duty) = (&member.name, &member.role, &member.duty);
            let _ = writeln!(members, "- name `{name}`, subagent_type `{role}`: {duty}");
        }
        // The task comes last, so that a place in it stays what it is.
        self.blueprint.lead_prompt.trim().replace(MEMBERS, members.trim_end()).replace(TASK, task.trim())
    }
}

/// The names of the blueprints that ship.
pub fn shipped_names() -> Vec<&'static str> {
    let top = SHIPPED.iter().map(|(path, _)| *path).filter(|path| !path.contains('/'));
    top.filter(|path| !path.ends_with(".script.toml")).filter_map(|path| path.strip_suffix(SUFFIX)).collect()
}

/// The blueprint that `text` names: a file, or one that ships.
pub fn find(text: &str, cwd: &Path) -> Result<Team, CliError> {
    if text.contains('/') || text.ends_with(SUFFIX) {
        let path = cwd.join(text);
        let beside = path.parent().unwrap_or(Path::new("/")).to_owned();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return load(&Shelf::Directory(beside), &name);
    }
    shipped(text)
}

/// A blueprint that ships.
pub fn shipped(name: &str) -> Result<Team, CliError> {
    let names = shipped_names();
    if !names.contains(&name) {
        return Err(CliError::usage(
            format!("there is no blueprint {name:?}"),
            format!("these ship: {}; a file is named with its path", names.join(", ")),
        ));
    }
    load(&Shelf::Shipped, &format!("{name}{SUFFIX}"))
}

/// Where a blueprint and what it names are read from.
enum Shelf {
    Shipped,
    Directory(PathBuf),
}

impl Shelf {
    fn path(&self, name: &str) -> PathBuf {
        match self {
            Self::Shipped => Path::new("teams").join(name),
            Self::Directory(dir) => dir.join(name),
        }
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, CliError> {
        match self {
            Self::Shipped => Ok(SHIPPED.iter().find(|(n, _)| *n == name).map(|(_, t)| t.as_bytes().to_vec())),
            Self::Directory(_) => Ok(atomic::read_optional(&self.path(name))?),
        }
    }
}

/// Where things stand in the file that can only be judged once it is read.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Places {
    name: Spanned<IgnoredAny>,
    lead_prompt: Spanned<IgnoredAny>,
    script: Option<Spanned<IgnoredAny>>,
    member: Vec<Spanned<IgnoredAny>>,
}

/// The file that is being read.
struct Reader<'a> {
    shelf: &'a Shelf,
    path: PathBuf,
    text: String,
}

fn refused(message: String) -> CliError {
    CliError::new(ExitKind::Usage, "blueprint", message, "docs/formats/blueprint.md describes the format")
}

fn load(shelf: &Shelf, name: &str) -> Result<Team, CliError> {
    let path = shelf.path(name);
    let bytes =
        shelf.read(name)?.ok_or_else(|| refused(format!("{}: there is no such file", path.display())))?;
    let text =
        String::from_utf8(bytes).map_err(|_| refused(format!("{}: it is not UTF-8", path.display())))?;
    let text = text.trim_start_matches('\u{feff}').to_owned();
    Reader { shelf, path, text }.team()
}

impl Reader<'_> {
    fn wrong(&self, span: &Range<usize>, why: impl std::fmt::Display) -> CliError {
        let before = self.text.get(..span.start).unwrap_or(&self.text);
        let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
        refused(format!("{}:{line}: {why}", self.path.display()))
    }

    fn toml<T: for<'de> Deserialize<'de>>(&self) -> Result<T, CliError> {
        toml::from_str(&self.text).map_err(|e| self.wrong(&e.span().unwrap_or_default(), e.message()))
    }

    fn team(&self) -> Result<Team, CliError> {
        let blueprint: Blueprint = self.toml()?;
        let places: Places = self.toml()?;
        slug::team_name(&blueprint.name).map_err(|e| self.wrong(&places.name.span(), e))?;
        if !blueprint.lead_prompt.contains(TASK) {
            let why = format!("`lead-prompt` has no place for the task: {TASK}");
            return Err(self.wrong(&places.lead_prompt.span(), why));
        }
        let mut team = Team { blueprint, roles: Vec::new(), script: None, warnings: Vec::new() };
        let mut names = Vec::new();
        for (member, place) in team.blueprint.members.clone().iter().zip(&places.member) {
            let span = place.span();
            let name = slug::agent_name(&member.name).map_err(|e| self.wrong(&span, e))?;
            if names.contains(&name) {
                return Err(self.wrong(&span, format!("there are two members named `{name}`")));
            }
            names.push(name);
            self.role(&mut team, &member.role, &span)?;
        }
        if names.is_empty() {
            return Err(self.wrong(&(0..0), "there is no [[member]]"));
        }
        if let (Some(name), Some(place)) = (&team.blueprint.script, &places.script) {
            team.script = Some(self.script(name, &place.span())?);
        }
        Ok(team)
    }

    /// A file beside the blueprint.
    fn beside(&self, name: &str, span: &Range<usize>) -> Result<Vec<u8>, CliError> {
        let path = self.shelf.path(name);
        self.shelf.read(name)?.ok_or_else(|| {
            self.wrong(span, format!("it names {}, and there is no such file", path.display()))
        })
    }

    fn role(&self, team: &mut Team, role: &str, span: &Range<usize>) -> Result<(), CliError> {
        self.plain("role", role, span)?;
        if team.roles.iter().any(|known| known.name == role) {
            return Ok(());
        }
        let file = format!("roles/{role}.md");
        let bytes = self.beside(&file, span)?;
        let path = self.shelf.path(&file);
        let read = definition_file::parse(&path, &bytes).map_err(|e| refused(e.to_string()))?;
        let warnings = read.warnings.iter().map(|w| format!("{}:{}: {}", path.display(), w.line, w.what));
        team.warnings.extend(warnings);
        if read.definition.name != role {
            let why = format!("`name` is `{}`; a role has the name of its file", read.definition.name);
            return Err(refused(format!("{}: {why}", path.display())));
        }
        team.roles.push(read.definition);
        Ok(())
    }

    fn script(&self, name: &str, span: &Range<usize>) -> Result<String, CliError> {
        self.plain("script", name, span)?;
        let path = self.shelf.path(name);
        let text = String::from_utf8(self.beside(name, span)?)
            .map_err(|_| refused(format!("{}: it is not UTF-8", path.display())))?;
        crate::model::script::Script::parse(&path, &text).map_err(|e| refused(e.to_string()))?;
        Ok(text)
    }

    fn plain(&self, key: &str, name: &str, span: &Range<usize>) -> Result<(), CliError> {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', '\0']) {
            return Err(self.wrong(span, format!("`{key}` is the plain name of a file, not {name:?}")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
