//! Lines of a transcript as the prompt shows what an agent does.

use crate::cli::repl::recap;
use crate::cli::view::{head, style_of_warning};
use crate::cli::{text, words};
use crate::tools;
use crate::tools::tool::Tool;
use crate::wire::block::{Block, BlockKind, ToolUse};
use crate::wire::transcript::{Line, LineType};
use anstyle::Style;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// What is told of a run is no news to whoever looks: where it began, and which mail was delivered.
const QUIET: [&str; 4] = ["run_started", "mail_delivered", "fork_origin", "side_request"];

/// Knows what calls mean.
pub struct Shower {
    tools: Vec<Arc<dyn Tool>>,
}

impl Default for Shower {
    fn default() -> Self {
        Self { tools: tools::all() }
    }
}

impl Shower {
    /// One line of a transcript for a person; nothing for what is not for people.
    pub fn lines(&self, line: &Line) -> Vec<String> {
        let dim = Style::new().dimmed();
        let blocks = line.message.iter().flat_map(|message| message.content.iter().map(|block| &block.0));
        match line.kind {
            LineType::System => {
                let subtype = line.subtype.as_deref().unwrap_or_default();
                let said = line.text.as_deref().unwrap_or_default();
                if QUIET.contains(&subtype) || said.is_empty() {
                    return Vec::new();
                }
                vec![format!("{dim}· {}: {}{dim:#}", words::line(&subtype.replace('_', " ")), head(said))]
            }
            LineType::User => self.heard(blocks),
            LineType::Assistant => blocks.flat_map(|block| self.said(block, Path::new(&line.cwd))).collect(),
        }
    }

    fn said(&self, block: &Block, cwd: &Path) -> Vec<String> {
        let dim = Style::new().dimmed();
        if let Some(call) = block.as_tool_use() {
            return vec![format!("{dim}·{dim:#} {}", head(&self.summary(&call, cwd)))];
        }
        let text = block.as_text().unwrap_or_default();
        text::clean(&text).trim_end().lines().map(str::to_owned).collect()
    }

    /// What a call does, in the tool's own words where it has some.
    fn summary(&self, call: &ToolUse, cwd: &Path) -> String {
        let known = self.tools.iter().find(|tool| tool.spec().name == call.name);
        let input = serde_json::from_str::<Value>(call.input.get()).ok().filter(Value::is_object);
        match (known, input) {
            (Some(tool), Some(input)) => tool.access(&input, cwd).summary,
            (None, Some(input)) => {
                let words = ["description", "subject", "summary", "to"];
                let about = words.iter().find_map(|key| input.get(*key)?.as_str());
                format!("{} {}", call.name, about.unwrap_or(call.input.get()))
            }
            (_, None) => call.name.clone(),
        }
    }

    /// What reached the agent: failures of its calls, mail, words.
    fn heard<'a>(&self, blocks: impl Iterator<Item = &'a Block> + Clone) -> Vec<String> {
        let (dim, warn) = (Style::new().dimmed(), style_of_warning());
        let mut lines = Vec::new();
        for block in blocks.clone() {
            if block.kind() == BlockKind::ToolResult {
                let failed = block.as_tool_result().filter(|(_, _, is_error)| *is_error);
                lines.extend(failed.map(|(_, said, _)| format!("{warn}! {}{warn:#}", head(&said))));
            } else if let Some((from, said)) = block.as_text().as_deref().and_then(recap::mail) {
                lines.push(format!("{dim}mail from{dim:#} {from}: {}", head(&said)));
            }
        }
        let own = recap::said(blocks).filter(|_| lines.is_empty());
        lines.extend(own.map(|said| format!("{dim}>{dim:#} {}", head(&said))));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(line: Value) -> Vec<String> {
        let mut whole = json!({ "uuid": "u", "parentUuid": null, "sessionId": "s", "isSidechain": true,
                                "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/p", "version": "0" });
        whole.as_object_mut().expect("an object").extend(line.as_object().cloned().expect("an object"));
        let line: Line = serde_json::from_value(whole).expect("a line");
        Shower::default().lines(&line).iter().map(|l| anstream::adapter::strip_str(l).to_string()).collect()
    }

    fn user(content: Value) -> Vec<String> {
        shown(json!({ "type": "user", "message": { "role": "user", "content": content } }))
    }

    #[test]
    fn a_transcript_is_shown_as_it_happened() {
        let said = json!([{ "type": "text", "text": "I look.\u{1b}[2J\nNow." },
            { "type": "tool_use", "id": "t", "name": "Read", "input": { "file_path": "/p/a.txt" } },
            { "type": "tool_use", "id": "u", "name": "SendMessage", "input": { "to": "bo", "message": "x" } }]);
        assert_eq!(
            shown(json!({ "type": "assistant", "message": { "role": "assistant", "content": said } })),
            ["I look.\\u{1b}[2J", "Now.", "· Read a.txt", "· SendMessage bo"]
        );
        assert_eq!(
            user(
                json!([{ "type": "tool_result", "tool_use_id": "t", "content": "no such file", "is_error": true },
                        { "type": "tool_result", "tool_use_id": "u", "content": "fine" }])
            ),
            ["! no such file"]
        );
        let mail = "<teammate-message teammate_id=\"anna\" color=\"blue\">\na &lt;b&gt;\n</teammate-message>";
        assert_eq!(user(json!([{ "type": "text", "text": mail }])), ["mail from anna: a <b>"]);
        let told = "<task-notification>\n<summary>Agent \"x\" completed</summary>\n</task-notification>";
        assert_eq!(
            user(json!([{ "type": "text", "text": told }])),
            ["mail from background work: Agent \"x\" completed"]
        );
        assert_eq!(
            user(json!([{ "type": "text", "text": "# Environment" }, { "type": "text", "text": "Count." }])),
            ["> Count."]
        );
        assert_eq!(
            shown(json!({ "type": "system", "subtype": "run_started", "text": "x" })),
            [] as [&str; 0]
        );
        assert_eq!(
            shown(json!({ "type": "system", "subtype": "run_ended", "text": "completed" })),
            ["· run ended: completed"]
        );
    }
}
