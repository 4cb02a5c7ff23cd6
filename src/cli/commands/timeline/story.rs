//! From an event log to what can be drawn: rows, stretches of work and waiting, marks, messages.
//!
//! Owns the reading of events; knows nothing of pixels. What a log does not say is left out, never made
//! up: an agent without a word of its end is drawn as far as its last event.

use crate::store::clock;
use crate::wire::event::{Event, EventKind};
use crate::wire::ids::{AgentName, MessageId};
use serde_json::Value;
use std::collections::HashMap;
use std::time::SystemTime;

/// What an agent does for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// It starts.
    Starting,
    /// It is in a turn.
    Working,
    /// It waits for a person.
    Waiting,
    /// It has nothing to do.
    Idle,
}

/// A stretch of one agent's time; ends are indexes into [`Story::times`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) row: usize,
    pub(super) doing: Doing,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// A message from row to row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Letter {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) sent: usize,
    /// When its reader's model or runtime had it; `None` when it never did.
    pub(super) delivered: Option<usize>,
    pub(super) kind: String,
    pub(super) summary: String,
}

/// An event that is drawn as a sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) row: usize,
    pub(super) at: usize,
    pub(super) kind: EventKind,
    /// In words.
    pub(super) text: String,
}

/// Everything.
#[derive(Debug, Default)]
pub(super) struct Story {
    /// The agents, the leader first; then the person and the runtime where they wrote.
    pub(super) rows: Vec<AgentName>,
    /// When each event was; ascending.
    pub(super) times: Vec<SystemTime>,
    pub(super) stretches: Vec<Stretch>,
    pub(super) letters: Vec<Letter>,
    pub(super) marks: Vec<Mark>,
    /// Every event: index into `times`, who, what, in words.
    pub(super) words: Vec<(usize, AgentName, EventKind, String)>,
}

impl Story {
    /// Reads a log.
    pub(super) fn of(events: Vec<Event>) -> Self {
        let mut events: Vec<(SystemTime, Event)> =
            events.into_iter().filter_map(|e| Some((clock::parse(&e.ts)?, e))).collect();
        events.sort_by_key(|(at, _)| *at);
        let mut story = Self { times: events.iter().map(|(at, _)| *at).collect(), ..Self::default() };
        if events.is_empty() {
            return story;
        }
        story.row(&AgentName::team_lead());
        let mut open: HashMap<usize, (Doing, usize)> = HashMap::new();
        let mut on_the_way: HashMap<MessageId, usize> = HashMap::new();
        for (at, (_, event)) in events.iter().enumerate() {
            let row = story.row(&event.agent);
            let text = words(event);
            story.words.push((at, event.agent.clone(), event.event, text.clone()));
            match event.event {
                EventKind::Send => story.send(at, row, event, &mut on_the_way),
                EventKind::Deliver => story.deliver(at, event, &on_the_way),
                _ => story.marks.push(Mark { row, at, kind: event.event, text }),
            }
            story.change(&mut open, row, at, event);
        }
        let last = story.times.len() - 1;
        for (row, (doing, from)) in open {
            story.stretches.push(Stretch { row, doing, from, to: last });
        }
        story.stretches.sort_by_key(|s| (s.row, s.from));
        story
    }

    fn row(&mut self, agent: &AgentName) -> usize {
        match self.rows.iter().position(|known| known == agent) {
            Some(row) => row,
            None => {
                self.rows.push(agent.clone());
                self.rows.len() - 1
            }
        }
    }

    fn send(&mut self, at: usize, from: usize, event: &Event, on_the_way: &mut HashMap<MessageId, usize>) {
        let Some(to) = text(event, "to").and_then(|to| AgentName::new(to).ok()) else { return };
        let to = self.row(&to);
        if let Some(id) = text(event, "messageId") {
            on_the_way.insert(MessageId::new(id), self.letters.len());
        }
        self.letters.push(Letter {
            from,
            to,
            sent: at,
            delivered: None,
            kind: text(event, "type").unwrap_or("message").to_owned(),
            summary: text(event, "summary").unwrap_or_default().to_owned(),
        });
    }

    fn deliver(&mut self, at: usize, event: &Event, on_the_way: &HashMap<MessageId, usize>) {
        let ids = event.fields.get("messageIds").and_then(Value::as_array);
        for id in ids.into_iter().flatten().filter_map(Value::as_str) {
            if let Some(letter) = on_the_way.get(&MessageId::new(id)) {
                self.letters[*letter].delivered = Some(at);
            }
        }
    }

    /// Ends one stretch of an agent and begins the next, where the event says so.
    fn change(&mut self, open: &mut HashMap<usize, (Doing, usize)>, row: usize, at: usize, event: &Event) {
        let now = open.get(&row).map(|(doing, _)| *doing);
        let next = match event.event {
            EventKind::Spawn => Some(Doing::Starting),
            EventKind::Ready => Some(Doing::Working),
            EventKind::Idle => Some(Doing::Idle),
            EventKind::Ask => Some(Doing::Waiting),
            EventKind::Decision if now == Some(Doing::Waiting) => Some(Doing::Working),
            // Who never said that it was ready, like the leader, has no stretches.
            EventKind::Deliver if now == Some(Doing::Idle) => Some(Doing::Working),
            EventKind::Exit | EventKind::Lost => None,
            _ => return,
        };
        if next == now || (now.is_none() && event.event != EventKind::Spawn) {
            return;
        }
        if let Some((doing, from)) = open.remove(&row) {
            self.stretches.push(Stretch { row, doing, from, to: at });
        }
        if let Some(doing) = next {
            open.insert(row, (doing, at));
        }
    }
}

fn text<'a>(event: &'a Event, key: &str) -> Option<&'a str> {
    event.fields.get(key).and_then(Value::as_str)
}

/// An event in words.
fn words(event: &Event) -> String {
    let get = |key| text(event, key).unwrap_or_default();
    let task = || event.fields.get("taskId").map(ToString::to_string).unwrap_or_default();
    match event.event {
        EventKind::Spawn => format!("is started ({}): {}", get("backend"), get("summary")),
        EventKind::Ready => "is ready".to_owned(),
        EventKind::Send => format!("→ {}: {} ({})", get("to"), get("summary"), get("type")),
        EventKind::Deliver => {
            let count = event.fields.get("messageIds").and_then(Value::as_array).map_or(0, Vec::len);
            format!("reads {count} message{}", if count == 1 { "" } else { "s" })
        }
        EventKind::Ask => match (get("closed"), get("summary")) {
            ("", what) => format!("asks: {what}"),
            (why, _) => format!("asks no more: {why}"),
        },
        EventKind::Decision => format!("is answered by {}: {} {}", get("by"), get("decision"), get("note")),
        EventKind::Idle => format!("is idle ({})", get("reason")),
        EventKind::Task => format!("task {} {}: {}", task(), get("action"), get("subject")),
        EventKind::Shutdown => format!("is asked to end by {}: {}", get("by"), get("reason")),
        EventKind::Exit | EventKind::Lost => format!("is {}: {}", get("state"), get("reason")),
        EventKind::Undeliverable | EventKind::Refused | EventKind::Limit | EventKind::Notice => {
            get("reason").to_owned()
        }
        EventKind::Fork => format!("forks: {}", get("summary")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn events(lines: &[Value]) -> Vec<Event> {
        let whole = |(n, line): (usize, &Value)| {
            let mut event =
                json!({ "ts": format!("2026-01-01T00:00:{n:02}.000Z"), "team": "t", "incarnation": 1 });
            for (key, value) in line.as_object().expect("an object") {
                event[key] = value.clone();
            }
            serde_json::from_value(event).expect("an event")
        };
        lines.iter().enumerate().map(whole).collect()
    }

    #[test]
    fn a_log_becomes_rows_stretches_and_letters() {
        let story = Story::of(events(&[
            json!({ "event": "spawn", "agent": "bo" }),
            json!({ "event": "ready", "agent": "bo" }),
            json!({ "event": "ask", "agent": "bo", "summary": "rm x" }),
            json!({ "event": "decision", "agent": "bo", "by": "user", "decision": "allow" }),
            json!({ "event": "send", "agent": "bo", "to": "team-lead", "messageId": "m", "type": "peer_dm" }),
            json!({ "event": "idle", "agent": "bo", "reason": "available" }),
            json!({ "event": "deliver", "agent": "team-lead", "messageIds": ["m", "unknown"] }),
            json!({ "event": "send", "agent": "user", "to": "bo", "messageId": "n", "type": "peer_dm" }),
            json!({ "event": "exit", "agent": "bo", "state": "stopped", "reason": "done" }),
        ]));
        assert_eq!(story.rows.iter().map(AgentName::as_str).collect::<Vec<_>>(), ["team-lead", "bo", "user"]);
        let stretches: Vec<_> = story.stretches.iter().map(|s| (s.doing, s.from, s.to)).collect();
        assert_eq!(
            stretches,
            [
                (Doing::Starting, 0, 1),
                (Doing::Working, 1, 2),
                (Doing::Waiting, 2, 3),
                (Doing::Working, 3, 5),
                (Doing::Idle, 5, 8)
            ]
        );
        let letters: Vec<_> = story.letters.iter().map(|l| (l.from, l.to, l.sent, l.delivered)).collect();
        assert_eq!(letters, [(1, 0, 4, Some(6)), (2, 1, 7, None)]);
        assert_eq!(story.words.len(), 9);
        assert_eq!(story.words[3].3, "is answered by user: allow ");
    }

    #[test]
    fn who_said_nothing_of_its_end_is_drawn_to_the_last_event() {
        let story = Story::of(events(&[
            json!({ "event": "spawn", "agent": "bo" }),
            json!({ "event": "ready", "agent": "bo" }),
            json!({ "event": "notice", "agent": "team-lead", "reason": "x" }),
        ]));
        let last = story.stretches.last().expect("a stretch");
        assert_eq!((last.doing, last.from, last.to), (Doing::Working, 1, 2));
        assert!(Story::of(Vec::new()).rows.is_empty());
    }
}
