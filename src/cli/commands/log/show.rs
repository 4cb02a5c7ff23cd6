//! `festoon log show`: one transcript for a person, or its lines for a program.

use crate::cli::args::Shared;
use crate::cli::error::CliError;
use crate::cli::out::{Out, warning};
use crate::cli::{text, view, words};
use crate::store::transcript;
use crate::wire::block::{Block, BlockKind};
use crate::wire::error::ExitKind;
use crate::wire::transcript::{Line, LineType};
use anstyle::{AnsiColor, Style};
use std::path::Path;

/// Lines of a tool result, and characters of a line, that are shown without `--full`.
const HEAD_LINES: usize = 12;
const HEAD_COLUMNS: usize = 400;

/// Shows it; status 1 when a line cannot be read.
pub(super) fn show(path: &Path, shared: &Shared, full: bool) -> Result<Option<ExitKind>, CliError> {
    let mut out = Out::default();
    let mut bad = 0;
    let mut failed = None;
    if shared.json {
        transcript::read_raw(path, |bytes| {
            failed = out.bytes(bytes).and_then(|()| out.bytes(b"\n")).err();
            failed.is_none() && !out.is_closed()
        })?;
        return failed.map_or(Ok(None), Err);
    }
    let mut page = Page { out: &mut out, full, speaker: None };
    transcript::read_while(path, |number, line| {
        match line {
            Ok(line) => failed = page.line(&line).err(),
            Err(error) => {
                bad += 1;
                warning(format!("{}:{number}: {error}", path.display()));
            }
        }
        failed.is_none() && !page.out.is_closed()
    })?;
    match failed {
        Some(error) => Err(error),
        None => Ok((bad > 0).then_some(ExitKind::Failed)),
    }
}

struct Page<'a> {
    out: &'a mut Out,
    full: bool,
    speaker: Option<String>,
}

impl Page<'_> {
    fn line(&mut self, line: &Line) -> Result<(), CliError> {
        let dim = Style::new().dimmed();
        let time = words::local(&line.timestamp, "%F %T");
        let Some(message) = &line.message else {
            let what = line.subtype.as_deref().unwrap_or("system");
            let said = line.text.as_deref().unwrap_or_default();
            let ids: Vec<&str> = line.message_ids.iter().map(|id| id.as_str()).collect();
            self.speaker = None;
            let text = words::line(&format!("{what}: {said} {}", ids.join(" ")));
            return self.out.line(format!("{dim}· {time} {text}{dim:#}"));
        };
        let agent = line.agent_id.as_ref().map_or("team-lead", |id| id.as_str());
        let (speaker, style) = match line.kind {
            LineType::Assistant => {
                (agent.to_owned(), Style::new().bold().fg_color(Some(AnsiColor::Cyan.into())))
            }
            LineType::User | LineType::System if only_results(message.content.iter().map(|b| &b.0)) => {
                (String::new(), Style::new())
            }
            LineType::User | LineType::System => ("user".to_owned(), Style::new().bold()),
        };
        if !speaker.is_empty() && self.speaker.as_ref() != Some(&speaker) {
            let model = message.model.as_deref().map(|m| format!(" {}", words::line(m))).unwrap_or_default();
            self.out.line(format!("{style}{}{style:#} {dim}{time}{model}{dim:#}", words::line(&speaker)))?;
            self.speaker = Some(speaker);
        }
        for block in &message.content {
            self.block(&block.0)?;
        }
        Ok(())
    }

    fn block(&mut self, block: &Block) -> Result<(), CliError> {
        let dim = Style::new().dimmed();
        match block.kind() {
            BlockKind::Text => {
                self.body("  ", &block.as_text().unwrap_or_default(), Style::new(), usize::MAX)
            }
            BlockKind::ToolUse => {
                let Some(call) = block.as_tool_use() else { return Ok(()) };
                let tool = Style::new().fg_color(Some(AnsiColor::Green.into()));
                let input = call.malformed.as_deref().unwrap_or(call.input.get());
                let input = words::line(input);
                let input = if self.full { input } else { text::fit(&input, HEAD_COLUMNS).into_owned() };
                self.out.line(format!("  {tool}{}{tool:#} {input}", words::line(&call.name)))
            }
            BlockKind::ToolResult => {
                let Some((_, said, is_error)) = block.as_tool_result() else { return Ok(()) };
                let style = if is_error { Style::new().fg_color(Some(AnsiColor::Red.into())) } else { dim };
                self.body("    ", &said, style, HEAD_LINES)
            }
            BlockKind::Thinking => {
                let thought = serde_json::from_str::<serde_json::Value>(block.raw()).unwrap_or_default();
                let thought = thought.get("thinking").and_then(|t| t.as_str()).unwrap_or_default().to_owned();
                self.body("  ", &thought, dim.italic(), HEAD_LINES)
            }
            BlockKind::Other => self.body("  ", &view::head(block.raw()), dim, 1),
        }
    }

    fn body(&mut self, indent: &str, said: &str, style: Style, most: usize) -> Result<(), CliError> {
        let said = text::clean(said);
        let lines: Vec<&str> = said.trim_end().lines().collect();
        let shown = if self.full { lines.len() } else { lines.len().min(most) };
        for line in &lines[..shown] {
            let line =
                if self.full { (*line).to_owned() } else { text::fit(line, HEAD_COLUMNS).into_owned() };
            self.out.line(format!("{indent}{style}{line}{style:#}"))?;
        }
        if shown < lines.len() {
            let dim = Style::new().dimmed();
            self.out.line(format!(
                "{indent}{dim}… {} (--full)",
                words::number(lines.len() - shown, "more line")
            ))?;
        }
        Ok(())
    }
}

fn only_results<'a>(mut blocks: impl Iterator<Item = &'a Block>) -> bool {
    blocks.all(|block| block.kind() == BlockKind::ToolResult)
}
