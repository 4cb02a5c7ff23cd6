//! From a transcript file back to a history that a model accepts (spec §9, §18).
//!
//! Streams the file, reports bad lines, tolerates a torn tail, and drops what must not be sent:
//! thinking without text or calls, blank assistant messages, calls that never got a result. Nothing
//! in the file is changed.

use super::context_size;
use super::fork::seed::Beginning;
use super::rewind::RewindData;
use super::side::{Noted, SIDE_REQUEST};
use super::todos::Replay;
use super::transcript::{COMPACT_BOUNDARY, RUN_STARTED};
use crate::store::error::StoreError;
use crate::store::transcript;
use crate::wire::block::{Block, BlockKind, ChatMessage, Role};
use crate::wire::ids::{LineId, MessageId};
use crate::wire::transcript::{Line, LineType};
use crate::wire::usage::Usage;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

/// What a transcript holds.
#[derive(Debug, Default)]
pub struct Restored {
    /// The conversation.
    pub history: Vec<ChatMessage>,
    /// The last line, to go on after.
    pub last_line: Option<LineId>,
    /// Mail the model has been shown.
    pub delivered: HashSet<MessageId>,
    /// Tokens of all responses, by the model of the run that they belong to (`provider:name`, empty when
    /// the file does not say).
    pub usage: BTreeMap<String, Usage>,
    /// The list of things to do.
    pub(super) todos: Replay,
    /// The model of the run that is being read.
    model: String,
    /// Tokens of the next request: what the last response said, and an estimate of what came since.
    /// `None` when nothing was said since the conversation began, or began anew.
    pub filled: Option<u64>,
    /// The line behind which the conversation goes on from a summary, if that is the next one, and how
    /// many messages stay.
    boundary: Option<(LineId, usize)>,
    /// The line of the last thing a person said.
    pub prompt: Option<LineId>,
    /// What the conversation was before the lines to which it was rewound.
    past: HashMap<LineId, Past>,
    /// True when it began anew from a summary.
    pub compacted: bool,
    /// What stands before what is read, until it is put there.
    beginning: Beginning,
    /// What was wrong with the file.
    pub notices: Vec<String>,
    /// True when the last message is the user's: it waits for an answer.
    pub unanswered: bool,
    /// Calls of the last message that have no results: the process ended before they did.
    pub open_calls: Vec<String>,
    /// The line of the last message.
    pub message: Option<LineId>,
}

impl Restored {
    /// Puts the beginning before what was read, once.
    fn join(&mut self) {
        self.history = std::mem::take(&mut self.beginning).join(std::mem::take(&mut self.history));
    }
}

/// Loads a transcript; a missing file is an empty one.
pub fn load(path: &Path) -> Result<Restored, StoreError> {
    load_onto(path, Beginning::default())
}

/// The same for an agent before whose own words something stands.
pub fn load_onto(path: &Path, beginning: Beginning) -> Result<Restored, StoreError> {
    load_while(path, beginning, |_| true)
}

/// The same up to this line, which is the last one that counts; what it was when nothing stood behind it.
/// `last_line` tells whether it was found.
pub fn load_until(path: &Path, last: &LineId) -> Result<Restored, StoreError> {
    load_while(path, Beginning::default(), |uuid| uuid != last)
}

/// Loads as long as `goes_on` says so of the line just taken.
fn load_while(
    path: &Path,
    beginning: Beginning,
    goes_on: impl Fn(&LineId) -> bool,
) -> Result<Restored, StoreError> {
    let mut restored = Restored { beginning, ..Restored::default() };
    let targets = rewind_targets(path)?;
    let mut announced = None;
    let mut skipped = false;
    let found = transcript::read_while(path, |number, line| match line {
        Ok(line) => {
            let more = goes_on(&line.uuid);
            // Behind a line that was skipped this is no news.
            if !std::mem::take(&mut skipped)
                && restored.last_line.is_some()
                && line.parent_uuid != restored.last_line
            {
                let parent = line.parent_uuid.as_ref().map_or("none", LineId::as_str);
                let what = format!("follows on a line that is not there ({parent}); taken in its place");
                restored.notices.push(format!("{}:{number}: {what}", path.display()));
            }
            if targets.contains(&line.uuid) {
                restored.past.insert(line.uuid.clone(), Past::of(&restored));
            }
            take(&mut restored, &mut announced, line);
            more
        }
        Err(error) => {
            skipped = true;
            restored.notices.push(format!("{}:{number}: skipped: {error}", path.display()));
            true
        }
    });
    match found {
        Ok(()) => {}
        Err(StoreError::NotFound { .. }) => {}
        Err(error) => return Err(error),
    }
    restored.open_calls = mend(&mut restored.history);
    restored.unanswered = restored.history.last().is_some_and(|m| m.role == Role::User);
    restored.join();
    Ok(restored)
}

/// Takes one line. `announced` is the line that names mail, with its ids: they count as shown to the
/// model only when the user message that delivers them stands right behind it. Frames that were acted
/// on are named without a message, and acting twice is harmless.
fn take(restored: &mut Restored, announced: &mut Option<(LineId, Vec<MessageId>)>, line: Line) {
    restored.last_line = Some(line.uuid.clone());
    let Some(message) = line.message else {
        if line.subtype.as_deref() == Some(RUN_STARTED)
            && let Some(model) = line.data.as_ref().and_then(|data| model_of(data.get()))
        {
            restored.model = model;
        }
        if let Some(data) = RewindData::of(&line).filter(|data| data.conversation) {
            take_rewind(restored, &data.before);
        }
        if line.subtype.as_deref() == Some(COMPACT_BOUNDARY) {
            take_boundary(restored, &line);
        }
        if line.subtype.as_deref() == Some(SIDE_REQUEST)
            && let Some(noted) =
                line.data.as_ref().and_then(|data| serde_json::from_str::<Noted>(data.get()).ok())
        {
            *restored.usage.entry(noted.model).or_default() += noted.usage;
        }
        *announced = (!line.message_ids.is_empty()).then_some((line.uuid, line.message_ids));
        return;
    };
    if let Some(usage) = message.usage {
        *restored.usage.entry(restored.model.clone()).or_default() += usage;
    }
    let blocks: Vec<Block> = message.content.into_iter().map(|b| b.0).collect();
    blocks.iter().for_each(|block| restored.todos.take(block));
    let mut is_mail = false;
    if let Some((named_by, ids)) = announced.take()
        && line.kind == LineType::User
        && line.parent_uuid.as_ref() == Some(&named_by)
    {
        restored.delivered.extend(ids);
        is_mail = true;
    }
    if blocks.is_empty() {
        return;
    }
    let chat = ChatMessage { role: message.role, blocks: blocks.into() };
    restored.message = Some(line.uuid.clone());
    // Only right behind its boundary is a message a summary: a writer may have died between both lines.
    if let Some((boundary, kept)) = restored.boundary.take()
        && line.kind == LineType::User
        && line.parent_uuid.as_ref() == Some(&boundary)
    {
        begin_anew(restored, chat, kept);
        return;
    }
    if line.kind == LineType::User
        && !is_mail
        && !chat.blocks.iter().any(|b| b.kind() == BlockKind::ToolResult)
    {
        restored.prompt = Some(line.uuid.clone());
    }
    restored.filled = match message.usage.as_ref().and_then(context_size::after_response) {
        Some(tokens) => Some(tokens),
        None => restored.filled.map(|tokens| tokens + context_size::of_message(&chat)),
    };
    restored.history.push(chat);
}

/// The conversation at one line.
#[derive(Debug, Clone)]
struct Past {
    history: Vec<ChatMessage>,
    filled: Option<u64>,
    compacted: bool,
    todos: Replay,
    prompt: Option<LineId>,
}

impl Past {
    fn of(now: &Restored) -> Self {
        Self {
            history: now.history.clone(),
            filled: now.filled,
            compacted: now.compacted,
            todos: now.todos.clone(),
            prompt: now.prompt.clone(),
        }
    }
}

/// The lines to which rewinds of this transcript went back. Most have none; only lines that may be one
/// are read as JSON.
fn rewind_targets(path: &Path) -> Result<HashSet<LineId>, StoreError> {
    let mut targets = HashSet::new();
    let found = transcript::read_raw(path, |line| {
        if std::str::from_utf8(line).is_ok_and(|line| line.contains(r#""subtype":"rewind""#))
            && let Ok(line) = serde_json::from_slice::<Line>(line)
            && let Some(data) = RewindData::of(&line).filter(|data| data.conversation)
        {
            targets.insert(data.before);
        }
        true
    });
    match found {
        Ok(()) | Err(StoreError::NotFound { .. }) => Ok(targets),
        Err(error) => Err(error),
    }
}

/// The conversation goes on as it was before a line. What was used and delivered since stays so.
fn take_rewind(restored: &mut Restored, before: &LineId) {
    let Some(past) = restored.past.get(before).cloned() else {
        restored.notices.push(format!("a rewind to a line that is not there is passed over: {before}"));
        return;
    };
    restored.history = past.history;
    restored.filled = past.filled;
    restored.compacted = past.compacted;
    restored.todos = past.todos;
    restored.prompt = past.prompt;
    restored.boundary = None;
}

/// Takes a boundary: what its summary took counts, whether it was written or not.
fn take_boundary(restored: &mut Restored, line: &Line) {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Boundary {
        kept_messages: usize,
        #[serde(default)]
        usage: Usage,
        #[serde(default)]
        model: String,
    }
    let Some(data) = &line.data else { return };
    let Ok(found) = serde_json::from_str::<Boundary>(data.get()) else { return };
    *restored.usage.entry(found.model).or_default() += found.usage;
    restored.boundary = Some((line.uuid.clone(), found.kept_messages));
}

/// The conversation goes on from its summary and the messages that stay. What was mended when the run
/// began that wrote this is mended here the same way, so that the count is that of its history.
fn begin_anew(restored: &mut Restored, summary: ChatMessage, kept: usize) {
    mend(&mut restored.history);
    restored.join();
    restored.compacted = true;
    let from = restored.history.len().saturating_sub(kept);
    let tail = restored.history.split_off(from);
    restored.history = std::iter::once(summary).chain(tail).collect();
    restored.filled = None;
}

fn model_of(run: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Run {
        model: String,
    }
    serde_json::from_str(run).ok().map(|run: Run| run.model)
}

/// Makes a history that was cut anywhere acceptable again, once the calls that are returned have their
/// results.
fn mend(history: &mut Vec<ChatMessage>) -> Vec<String> {
    let mut under_way = Vec::new();
    let all = std::mem::take(history);
    let mut rest = all.into_iter().peekable();
    while let Some(message) = rest.next() {
        match message.role {
            Role::User => history.push(without_orphans(message, history.last())),
            Role::Assistant => {
                let open = match rest.peek() {
                    Some(next) if next.role == Role::User => unanswered_calls(&message, next),
                    Some(_) => message.tool_uses().into_iter().map(|c| c.id).collect(),
                    None => {
                        under_way = message.tool_uses().into_iter().map(|c| c.id).collect();
                        Vec::new()
                    }
                };
                let kept = without_calls(&message, &open);
                if kept.blocks.iter().any(says_something) {
                    history.push(kept);
                }
            }
        }
    }
    history.retain(|m| !m.blocks.is_empty());
    under_way
}

fn unanswered_calls(message: &ChatMessage, answers: &ChatMessage) -> Vec<String> {
    let answered: HashSet<String> =
        answers.blocks.iter().filter_map(|b| b.as_tool_result().map(|r| r.0)).collect();
    message.tool_uses().into_iter().map(|c| c.id).filter(|id| !answered.contains(id)).collect()
}

fn without_calls(message: &ChatMessage, ids: &[String]) -> ChatMessage {
    if ids.is_empty() {
        return message.clone();
    }
    let kept = message.blocks.iter().filter(|b| b.as_tool_use().is_none_or(|c| !ids.contains(&c.id)));
    ChatMessage { role: message.role, blocks: kept.cloned().collect() }
}

fn without_orphans(message: ChatMessage, before: Option<&ChatMessage>) -> ChatMessage {
    let calls: HashSet<String> = before
        .filter(|m| m.role == Role::Assistant)
        .map(|m| m.tool_uses().into_iter().map(|c| c.id).collect())
        .unwrap_or_default();
    if message.blocks.iter().all(|b| b.as_tool_result().is_none_or(|r| calls.contains(&r.0))) {
        return message;
    }
    let kept = message.blocks.iter().filter(|b| b.as_tool_result().is_none_or(|r| calls.contains(&r.0)));
    ChatMessage { role: message.role, blocks: kept.cloned().collect() }
}

fn says_something(block: &Block) -> bool {
    match block.kind() {
        BlockKind::Thinking => false,
        BlockKind::Text => block.as_text().is_some_and(|t| !t.trim().is_empty()),
        BlockKind::ToolUse | BlockKind::ToolResult | BlockKind::Other => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> Block {
        Block::parse(&format!(r#"{{"type":"tool_use","id":"{id}","name":"T","input":{{}}}}"#))
            .expect("parses")
    }

    #[test]
    fn a_history_cut_anywhere_becomes_acceptable() {
        let ask = ChatMessage::user(vec![Block::text("go")]);
        let calls = ChatMessage::assistant(vec![Block::thinking("hm", "sig"), call("a"), call("b")]);
        let half = ChatMessage::user(vec![Block::tool_result("a", "1", false)]);
        let mut history = vec![ask.clone(), calls.clone(), half.clone()];
        mend(&mut history);
        let kept = ChatMessage::assistant(vec![Block::thinking("hm", "sig"), call("a")]);
        assert_eq!(history, [ask.clone(), kept, half]);

        let mut history = vec![ask.clone(), calls.clone()];
        assert_eq!(mend(&mut history), ["a", "b"]);
        assert_eq!(history, [ask.clone(), calls.clone()]);

        // Results that mail stands before belong to nobody any more.
        let mut history = vec![ask.clone(), calls, ask.clone()];
        assert_eq!(mend(&mut history), Vec::<String>::new());
        assert_eq!(history, [ask.clone(), ask.clone()]);

        let blank = ChatMessage::assistant(vec![Block::text(" \n")]);
        let mut history =
            vec![ask.clone(), blank, ChatMessage::user(vec![Block::tool_result("x", "", false)])];
        mend(&mut history);
        assert_eq!(history, [ask]);
    }
}
