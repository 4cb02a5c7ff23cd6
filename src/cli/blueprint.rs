//! Blueprints of teams: read from a file or from those that ship, with their roles and scripts.
//!
//! Owns the files of `teams/` as they stand in the program. Promises that whatever is wrong is named
//! with file, line and reason before anything is started.

use super::error::CliError;
use super::setup::Crew;
use crate::agent::definition_file;
use crate::store::tasks::NewTask;
use crate::store::{atomic, slug};
use crate::team::context;
use crate::team::tasks::TaskDesk;
use crate::wire::blueprint::{Blueprint, BlueprintMember, MEMBERS, TASK, TASKS};
use crate::wire::definition::{AgentDefinition, Isolation};
use crate::wire::error::ExitKind;
use crate::wire::ids::AgentName;
use crate::wire::permission::PermissionMode;
use crate::wire::task::TaskId;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Every file of `teams/`, with its path below it.
pub const SHIPPED: [(&str, &str); 16] = [
    ("demo.toml", include_str!("../../teams/demo.toml")),
    ("demo.script.toml", include_str!("../../teams/demo.script.toml")),
    ("review.toml", include_str!("../../teams/review.toml")),
    ("feature.toml", include_str!("../../teams/feature.toml")),
    ("investigate.toml", include_str!("../../teams/investigate.toml")),
    ("roles/scout.md", include_str!("../../teams/roles/scout.md")),
    ("roles/reader.md", include_str!("../../teams/roles/reader.md")),
    ("roles/historian.md", include_str!("../../teams/roles/historian.md")),
    ("roles/reviewer.md", include_str!("../../teams/roles/reviewer.md")),
    ("roles/tester.md", include_str!("../../teams/roles/tester.md")),
    ("roles/security.md", include_str!("../../teams/roles/security.md")),
    ("roles/builder.md", include_str!("../../teams/roles/builder.md")),
    ("roles/verifier.md", include_str!("../../teams/roles/verifier.md")),
    ("roles/reproducer.md", include_str!("../../teams/roles/reproducer.md")),
    ("roles/tracer.md", include_str!("../../teams/roles/tracer.md")),
    ("roles/bisector.md", include_str!("../../teams/roles/bisector.md")),
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
    /// What the leader is told: the prompt with the task, the members and the tasks in it.
    pub fn lead_prompt(&self, task: &str) -> String {
        let (mut members, mut tasks) = (String::new(), String::new());
        for member in &self.blueprint.members {
            let definition = self.kind(member);
            let more = match definition.as_ref().map(|d| (d.isolation, d.permission_mode)) {
                Some((Some(Isolation::Worktree), _)) => " (in a git worktree of its own)",
                Some((None, Some(PermissionMode::Plan))) => " (asks you for approval of its plan first)",
                _ => "",
            };
            let kind = definition.map_or_else(|| member.role.clone(), |d| d.name);
            let _ =
                writeln!(members, "- name `{}`, subagent_type `{kind}`{more}: {}", member.name, member.duty);
        }
        for (number, task) in (1..).zip(&self.blueprint.tasks) {
            let whose = task.owner.as_ref().map(|owner| format!(", {owner}'s")).unwrap_or_default();
            let _ = writeln!(tasks, "- task {number}{whose}: {}", task.subject);
        }
        // The task comes last, so that a place in it stays what it is.
        let prompt = self.blueprint.lead_prompt.trim().replace(MEMBERS, members.trim_end());
        prompt.replace(TASKS, tasks.trim_end()).replace(TASK, task.trim())
    }

    /// The kinds of its members: their roles, and one for each member that differs from its role.
    pub fn kinds(&self) -> Vec<AgentDefinition> {
        let own = |member| self.kind(member).filter(|kind: &AgentDefinition| self.role(&kind.name).is_none());
        self.roles.iter().cloned().chain(self.blueprint.members.iter().filter_map(own)).collect()
    }

    fn role(&self, name: &str) -> Option<&AgentDefinition> {
        self.roles.iter().find(|role| role.name == name)
    }

    /// What a member is: its role, or what becomes of it with the member's own settings.
    fn kind(&self, member: &BlueprintMember) -> Option<AgentDefinition> {
        let role = self.role(&member.role)?;
        let own = AgentDefinition {
            model: member.model.clone().or_else(|| role.model.clone()),
            permission_mode: member.permission_mode.or(role.permission_mode),
            isolation: member.isolation.or(role.isolation),
            ..role.clone()
        };
        if own == *role {
            return Some(own);
        }
        let name = slug::agent_name(&member.name).ok()?;
        Some(AgentDefinition { name: format!("{}-{name}", role.name), ..own })
    }
}

/// Puts the tasks of a crew into the list of its team, which is just made.
pub async fn fill(team: &context::Team, crew: &Crew) -> Result<(), CliError> {
    let desk = TaskDesk::new(team.clone(), AgentName::user(), 1);
    let mut made: Vec<(&str, TaskId)> = Vec::new();
    for plan in &crew.tasks {
        let waits = |subject: &String| made.iter().find(|(s, _)| s == subject).map(|(_, id)| *id);
        let new = NewTask {
            subject: plan.subject.clone(),
            description: plan.description.trim().replace(TASK, crew.task.trim()),
            owner: plan.owner.as_deref().map(slug::agent_name).transpose()?,
            blocked_by: plan.blocked_by.iter().filter_map(waits).collect(),
            ..NewTask::default()
        };
        let task = desk.create(new).await.map_err(|e| {
            let what = format!("the tasks of the blueprint could not be made: {e}");
            CliError::new(ExitKind::Failed, "tasks", what, "look at the disk; the team has not begun")
        })?;
        made.push((&plan.subject, task.id));
    }
    Ok(())
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
    #[serde(default)]
    task: Vec<Spanned<IgnoredAny>>,
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
        self.tasks(&team.blueprint, &names, &places)?;
        if let (Some(name), Some(place)) = (&team.blueprint.script, &places.script) {
            team.script = Some(self.script(name, &place.span())?);
        }
        Ok(team)
    }

    /// Tasks belong to members and wait for tasks above them; so they can form no circle.
    fn tasks(&self, blueprint: &Blueprint, members: &[AgentName], places: &Places) -> Result<(), CliError> {
        let mut above: Vec<&str> = Vec::new();
        for (task, place) in blueprint.tasks.iter().zip(&places.task) {
            let wrong = |why: String| Err(self.wrong(&place.span(), why));
            let subject = task.subject.as_str();
            if subject.trim().is_empty() || subject.contains('\n') {
                return wrong("the `subject` of a task is one line that says what is to be done".to_owned());
            }
            if above.contains(&subject) {
                return wrong(format!("there are two tasks {subject:?}"));
            }
            if let Some(unknown) = task.blocked_by.iter().find(|wanted| !above.contains(&wanted.as_str())) {
                return wrong(format!("`blocked-by` names {unknown:?}, and no task above has that subject"));
            }
            if let Some(owner) = &task.owner
                && !slug::agent_name(owner).is_ok_and(|name| members.contains(&name))
            {
                return wrong(format!("`owner` is {owner:?}, and no member has that name"));
            }
            above.push(subject);
        }
        Ok(())
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
