//! What a script can see of a request: texts, results, mail; and which conversation it belongs to.
//!
//! Conversations are told apart by who asks and how they began, so that agents that run in parallel
//! under one name never use up each other's rules.

use crate::model::provider::ModelRequest;
use crate::model::script::template::{Source, Values};
use crate::model::script::{Place, Rule};
use crate::wire::block::{Block, BlockKind, ChatMessage, Role};
use regex::Regex;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{LazyLock, OnceLock};

/// What sets a repeated call id apart from its first use.
pub(super) const REPEAT: &str = "__";

/// The texts of one request.
pub(in crate::model) struct View<'a> {
    request: &'a ModelRequest,
    /// Messages the conversation began with.
    opening: usize,
    input: OnceLock<String>,
    prompt: OnceLock<String>,
    all: OnceLock<String>,
}

fn texts<'a>(messages: impl Iterator<Item = &'a ChatMessage>) -> String {
    let text = |block: &Block| match block.kind() {
        BlockKind::Text => block.as_text(),
        BlockKind::ToolResult => block.as_tool_result().map(|r| r.1),
        _ => None,
    };
    let all: Vec<String> = messages.flat_map(|m| m.blocks.iter().filter_map(text)).collect();
    all.join("\n")
}

/// The user's messages after the last one of the model.
fn tail(messages: &[ChatMessage]) -> &[ChatMessage] {
    let begin = messages.iter().rposition(|m| m.role == Role::Assistant).map_or(0, |i| i + 1);
    &messages[begin..]
}

impl<'a> View<'a> {
    pub(in crate::model) fn new(request: &'a ModelRequest, opening: usize) -> Self {
        Self { request, opening, input: OnceLock::new(), prompt: OnceLock::new(), all: OnceLock::new() }
    }

    /// Text and results since the last answer.
    pub(super) fn input(&self) -> &str {
        self.input.get_or_init(|| texts(tail(&self.request.messages).iter()))
    }

    /// Text and results that the conversation began with, after the last answer in them.
    pub(in crate::model) fn prompt(&self) -> &str {
        self.prompt.get_or_init(|| {
            let end = self.opening.min(self.request.messages.len());
            texts(tail(&self.request.messages[..end]).iter())
        })
    }

    fn all(&self) -> &str {
        self.all.get_or_init(|| texts(self.request.messages.iter()))
    }

    /// Whether a rule answers this request, however often it has.
    pub(super) fn fits(&self, rule: &Rule) -> bool {
        let tag = &self.request.tag;
        rule.agent.as_ref().is_none_or(|glob| glob.is_match(&tag.agent))
            && rule.round.is_none_or(|round| round == tag.round)
            && rule.conditions.iter().all(|condition| {
                let text = match condition.place {
                    Place::Input => self.input(),
                    Place::Prompt => self.prompt(),
                    Place::Anywhere => self.all(),
                };
                condition.find.is_in(text)
            })
    }

    /// The latest result of the call `id` or of a repetition of it; of any call when `id` is `None`.
    fn result(&self, id: Option<&str>) -> Option<String> {
        let fits = |found: &str| match id {
            None => true,
            Some(id) => found.strip_prefix(id).is_some_and(|rest| {
                rest.is_empty()
                    || rest
                        .strip_prefix(REPEAT)
                        .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
            }),
        };
        let blocks = self.request.messages.iter().rev().flat_map(|m| m.blocks.iter().rev());
        blocks.filter_map(Block::as_tool_result).find(|(found, _, _)| fits(found)).map(|r| r.1)
    }

    /// The messages from a teammate, as it wrote them, the latest last.
    fn mail(&self, sender: &str) -> Vec<String> {
        static MESSAGE: LazyLock<Option<Regex>> = LazyLock::new(|| {
            Regex::new(
                r#"(?s)<teammate-message\s[^>]*?teammate_id="([^"]*)"[^>]*>\n?(.*?)\n?</teammate-message>"#,
            )
            .ok()
        });
        let users = self.request.messages.iter().filter(|m| m.role == Role::User);
        let text = texts(users);
        let all = MESSAGE.iter().flat_map(|message| message.captures_iter(&text));
        all.filter(|c| unescape(&c[1]) == sender).map(|c| unescape(&c[2])).collect()
    }

    /// The ids of the conversation's calls.
    pub(super) fn calls(&self) -> impl Iterator<Item = String> {
        self.request.messages.iter().flat_map(ChatMessage::tool_uses).map(|call| call.id)
    }
}

fn unescape(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&#39;", "'")
        .replace("&amp;", "&")
}

impl Values for View<'_> {
    fn value(&self, source: &Source) -> Option<String> {
        match source {
            Source::Result(id) => self.result(id.as_deref()),
            Source::Mail(name) => self.mail(name).pop(),
            Source::Mails(name) => Some(self.mail(name).join("\n")).filter(|all| !all.is_empty()),
            Source::Prompt => Some(self.prompt().to_owned()),
            Source::Input => Some(self.input().to_owned()),
            Source::Agent => Some(self.request.tag.agent.clone()),
            Source::Round => Some(self.request.tag.round.to_string()),
        }
    }
}

/// One conversation and what it has used.
#[derive(Debug)]
pub(in crate::model) struct Conversation {
    /// Messages it began with.
    pub(in crate::model) opening: usize,
    /// Hash of these messages.
    pub(in crate::model) key: u64,
    /// How often each rule has answered.
    pub(super) used: Vec<u32>,
}

/// All conversations of a script, by who asks.
#[derive(Debug, Default)]
pub(in crate::model) struct Conversations(HashMap<String, Vec<Conversation>>);

fn key(messages: &[ChatMessage]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for message in messages {
        (message.role as u8, message.blocks.len()).hash(&mut hasher);
        for block in message.blocks.iter() {
            block.raw().hash(&mut hasher);
        }
    }
    hasher.finish()
}

impl Conversations {
    /// The conversation that a request goes on with: the one whose beginning is the beginning of the
    /// request (the longest, when several are); in the first round, and when nothing fits and the agent
    /// is new, a new one; when nothing fits because the history was compacted, the agent's latest.
    pub(in crate::model) fn of(&mut self, request: &ModelRequest, rules: usize) -> &mut Conversation {
        let known = self.0.entry(request.tag.agent.clone()).or_default();
        let messages = &request.messages;
        let starts = request.tag.round <= 1;
        let fits = |c: &Conversation| {
            let length = if starts { c.opening == messages.len() } else { c.opening <= messages.len() };
            length && key(&messages[..c.opening]) == c.key
        };
        let found = (0..known.len()).filter(|&i| fits(&known[i])).max_by_key(|&i| known[i].opening);
        let index = match found {
            Some(index) => index,
            None if !starts && !known.is_empty() => known.len() - 1,
            None => {
                let opening = messages.len();
                known.push(Conversation { opening, key: key(messages), used: vec![0; rules] });
                known.len() - 1
            }
        };
        &mut known[index]
    }
}
