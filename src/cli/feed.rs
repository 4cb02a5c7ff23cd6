//! Follows a team's event log: the one feed that shows what happens in all its processes.

use super::text::clean;
use super::view::{head, prefixed, style_of, style_of_warning};
use crate::store::error::StoreError;
use crate::store::events::Reader;
use crate::team::context::Team;
use crate::team::denials::DENIAL;
use crate::team::wake::{Signal, Topic};
use crate::wire::event::{Event, EventKind};
use crate::wire::frame::FrameType;
use crate::wire::ids::AgentName;
use crate::wire::time::Timestamp;
use anstyle::Style;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// The log of a time, piece by piece.
struct Follower {
    team: Team,
    since: Timestamp,
    signal: Signal,
    reader: Arc<Mutex<Reader>>,
    cancel: CancellationToken,
    begun: bool,
    over: bool,
}

impl Follower {
    fn new(team: Team, since: Timestamp, cancel: CancellationToken) -> Self {
        let signal = team.hub.signal(Topic::Log);
        Self { team, since, signal, reader: Arc::default(), cancel, begun: false, over: false }
    }

    /// What is new, as soon as something may be; `None` at the end, after what came until then.
    async fn next(&mut self) -> Result<Option<Vec<Event>>, StoreError> {
        if self.over {
            return Ok(None);
        }
        if self.begun {
            tokio::select! {
                () = self.cancel.cancelled() => {}
                () = self.signal.changed() => {}
            }
        }
        self.begun = true;
        self.over = self.cancel.is_cancelled();
        let (paths, reader) = (self.team.paths.clone(), Arc::clone(&self.reader));
        let file = paths.events();
        let read = move || reader.lock().unwrap_or_else(PoisonError::into_inner).read(&paths);
        let mut events = self.team.disk.run(&file, read).await?;
        events.retain(|e| e.ts >= self.since);
        Ok(Some(events))
    }
}

/// Calls `each` for every line of the log that was written after `since`, until cancelled; then once
/// more for what was written meanwhile. A team that is taken over has older lines.
pub async fn follow(
    team: Team,
    since: Timestamp,
    cancel: CancellationToken,
    mut each: impl FnMut(&Event),
) -> Result<(), StoreError> {
    let mut follower = Follower::new(team, since, cancel);
    while let Some(events) = follower.next().await? {
        events.iter().for_each(&mut each);
    }
    Ok(())
}

/// The same as lines for a person, of those events that are `wanted`.
pub async fn follow_lines(
    team: Team,
    since: Timestamp,
    cancel: CancellationToken,
    wanted: impl Fn(&Event) -> bool,
    mut each: impl FnMut(String),
) -> Result<(), StoreError> {
    let mut follower = Follower::new(team.clone(), since, cancel);
    let mut faces = Faces::default();
    while let Some(events) = follower.next().await? {
        if !events.iter().all(|e| faces.knows(&e.agent)) {
            faces.learn(&team).await?;
        }
        events.iter().filter(|e| wanted(e)).filter_map(|e| line(e, &faces)).for_each(&mut each);
    }
    Ok(())
}

/// How the members of a team are shown.
#[derive(Debug, Default)]
pub struct Faces(HashMap<AgentName, Face>);

#[derive(Debug)]
struct Face {
    name: String,
    color: String,
}

impl Faces {
    fn knows(&self, name: &AgentName) -> bool {
        name.is_reserved() || self.0.contains_key(name)
    }

    /// Reads them from the roster.
    pub async fn learn(&mut self, team: &Team) -> Result<(), StoreError> {
        let roster = team.roster().await?;
        self.0.extend(
            roster.members.iter().map(|m| {
                (m.agent_name.clone(), Face { name: m.display_name.clone(), color: m.color.clone() })
            }),
        );
        Ok(())
    }

    fn of(&self, slug: &str) -> Option<&Face> {
        self.0.iter().find(|(known, _)| known.as_str() == slug).map(|(_, face)| face)
    }

    /// The colour of a member.
    pub fn color(&self, slug: &str) -> Option<&str> {
        self.of(slug).map(|face| face.color.as_str())
    }

    /// The name as it was given; the slug itself for whoever is not in the roster.
    pub fn name<'a>(&'a self, slug: &'a str) -> &'a str {
        self.of(slug).map_or(slug, |face| face.name.as_str())
    }
}

/// What an event is to a person; `None` for bookkeeping.
pub fn line(event: &Event, faces: &Faces) -> Option<String> {
    let dim = Style::new().dimmed();
    let warn = style_of_warning();
    let text = |key: &str| event.fields.get(key).and_then(|v| v.as_str()).unwrap_or_default();
    let told = match event.event {
        EventKind::Spawn => {
            format!("{dim}joins ({}):{dim:#} {}", text("backend"), head(text("summary")))
        }
        EventKind::Send => sent(text("type"), text("to"), text("summary"), faces)?,
        EventKind::Ask => {
            let closed = text("closed");
            let tool = clean(text("tool"));
            let wants = match text("kind") {
                "plan" => "presents a plan:".to_owned(),
                "question" => "asks:".to_owned(),
                _ => format!("asks for {tool}:"),
            };
            if closed.is_empty() {
                format!("{warn}{wants}{warn:#} {}", head(text("summary")))
            } else {
                format!("{warn}may not use {tool}, {}:{warn:#} {}", head(closed), head(text("summary")))
            }
        }
        EventKind::Decision => {
            let note = Some(text("note")).filter(|n| !n.is_empty());
            let note = note.map(|n| format!(" — {}", head(n))).unwrap_or_default();
            let word = match (text("kind"), text("decision")) {
                ("question", "allow") => "was answered",
                ("plan", "allow") => "has its plan approved",
                ("plan", _) => "has its plan rejected",
                (_, "allow") => "was allowed",
                _ => "was denied",
            };
            format!("{dim}{word} by {}{dim:#}{note}", clean(text("by")))
        }
        EventKind::Idle => {
            let error = text("error");
            if error.is_empty() {
                return None;
            }
            format!("{warn}failed: {}{warn:#}", head(error))
        }
        EventKind::Exit => format!("{dim}is {}: {}{dim:#}", text("state"), head(text("reason"))),
        EventKind::Lost => format!("{warn}is lost: {}{warn:#}", head(text("reason"))),
        // The agent's own lines say it.
        EventKind::Refused if event.fields.contains_key(DENIAL) => return None,
        EventKind::Notice | EventKind::Refused | EventKind::Undeliverable | EventKind::Limit => {
            format!("{warn}{}{warn:#}", head(text("reason")))
        }
        EventKind::Task => {
            let what = [text("summary"), text("subject"), text("status")];
            format!("{dim}task {}{dim:#} {}", text("taskId"), head(&what.join(" ")))
        }
        EventKind::Fork => format!("{dim}fork {}:{dim:#} {}", clean(text("agentId")), head(text("summary"))),
        EventKind::Ready | EventKind::Deliver | EventKind::Shutdown => return None,
    };
    let slug = event.agent.as_str();
    Some(prefixed(faces.name(slug), faces.color(slug), told.trim_end()))
}

fn sent(kind: &str, to: &str, summary: &str, faces: &Faces) -> Option<String> {
    let dim = Style::new().dimmed();
    match FrameType::from_name(kind) {
        FrameType::IdleNotification => Some(format!("{dim}is idle:{dim:#} {}", head(summary))),
        kind if kind.is_control() || kind == FrameType::TeammateTerminated => None,
        FrameType::PermissionRequest | FrameType::PermissionResponse => None,
        // Told by the process in which the task ran.
        FrameType::TaskNotification => None,
        _ => {
            let style = style_of(faces.color(to));
            Some(format!(
                "{dim}→{dim:#} {style}{}{style:#}{dim}:{dim:#} {}",
                clean(faces.name(to)),
                head(summary)
            ))
        }
    }
}
