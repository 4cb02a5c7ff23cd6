//! `festoon log export`: a transcript as a document for people or as messages for programs.

use crate::cli::error::CliError;
use crate::cli::out::{Out, warning};
use crate::cli::words;
use crate::store::transcript;
use crate::wire::block::{Block, BlockKind};
use crate::wire::error::ExitKind;
use crate::wire::transcript::{Line, LineMessage, LineType};
use clap::ValueEnum;
use serde::Serialize;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// What a transcript becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A document: who said what, calls and results as blocks of code.
    Markdown,
    /// An array of messages in the shape of the Messages API.
    Json,
}

impl Format {
    /// What the name of a file says; a document when it says nothing.
    fn of(file: &Path) -> Self {
        match file.extension().and_then(|e| e.to_str()) {
            Some("json") => Self::Json,
            _ => Self::Markdown,
        }
    }
}

/// A message as other programs know it.
#[derive(Serialize)]
struct Plain<'a> {
    role: &'a crate::wire::block::Role,
    content: Vec<&'a Block>,
}

/// Writes it to `file`, `-` for standard output; status 1 when a line could not be read.
pub(super) fn export(path: &Path, file: &Path, format: Option<Format>) -> Result<Option<ExitKind>, CliError> {
    let format = format.unwrap_or_else(|| Format::of(file));
    let mut target = Target::open(file)?;
    let (mut bad, mut first, mut failed) = (0, true, None);
    if format == Format::Json {
        target.write("[")?;
    }
    transcript::read_while(path, |number, line| {
        match line {
            Ok(Line { message: Some(message), kind, timestamp, .. }) => {
                let text = match format {
                    Format::Markdown => Ok(section(&message, kind, &words::local(&timestamp, "%F %T"))),
                    Format::Json => json(&message, first),
                };
                first = false;
                failed = text.and_then(|text| target.write(&text)).err();
            }
            Ok(_) => {}
            Err(error) => {
                bad += 1;
                warning(format!("{}:{number}: {error}", path.display()));
            }
        }
        failed.is_none()
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    if format == Format::Json {
        target.write("\n]\n")?;
    }
    target.finish(file)?;
    Ok((bad > 0).then_some(ExitKind::Failed))
}

fn json(message: &LineMessage, first: bool) -> Result<String, CliError> {
    let content = message.content.iter().map(|block| &block.0).collect();
    let plain = Plain { role: &message.role, content };
    let text = serde_json::to_string(&plain).map_err(|e| {
        CliError::new(ExitKind::Failed, "encode", format!("a message cannot be written: {e}"), "")
    })?;
    Ok(format!("{}\n{text}", if first { "" } else { "," }))
}

fn section(message: &LineMessage, kind: LineType, time: &str) -> String {
    let mut out = String::new();
    let only_results = message.content.iter().all(|b| b.0.kind() == BlockKind::ToolResult);
    let who = match kind {
        LineType::Assistant => format!("Agent ({})", message.model.as_deref().unwrap_or("?")),
        LineType::User | LineType::System if only_results => "Results".to_owned(),
        LineType::User | LineType::System => "User".to_owned(),
    };
    let _ = writeln!(out, "## {who}\n\n*{time}*\n");
    for block in &message.content {
        match block.0.kind() {
            BlockKind::Text => {
                let _ = writeln!(out, "{}\n", block.0.as_text().unwrap_or_default().trim_end());
            }
            BlockKind::ToolUse => {
                if let Some(call) = block.0.as_tool_use() {
                    let input = call.malformed.as_deref().unwrap_or(call.input.get());
                    let _ = writeln!(out, "**{}**\n\n{}\n", call.name, fenced("json", input));
                }
            }
            BlockKind::ToolResult => {
                if let Some((_, said, is_error)) = block.0.as_tool_result() {
                    let failed = if is_error { "*failed*\n\n" } else { "" };
                    let _ = writeln!(out, "{failed}{}\n", fenced("", &said));
                }
            }
            BlockKind::Thinking => {}
            BlockKind::Other => {
                let _ = writeln!(out, "{}\n", fenced("json", block.0.raw()));
            }
        }
    }
    out
}

/// A block of code whose fence is longer than any in it.
fn fenced(language: &str, text: &str) -> String {
    let longest = text.lines().map(|l| l.trim_start().bytes().take_while(|b| *b == b'`').count()).max();
    let fence = "`".repeat(longest.unwrap_or(0).max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", text.trim_end())
}

enum Target {
    Screen(Out),
    File(BufWriter<File>),
}

impl Target {
    fn open(file: &Path) -> Result<Self, CliError> {
        if file.as_os_str() == "-" {
            return Ok(Self::Screen(Out::default()));
        }
        File::create(file).map(|f| Self::File(BufWriter::new(f))).map_err(|e| not_written(file, &e))
    }

    fn write(&mut self, text: &str) -> Result<(), CliError> {
        match self {
            Self::Screen(out) => out.write(text),
            Self::File(file) => file.write_all(text.as_bytes()).map_err(Into::into),
        }
    }

    fn finish(self, name: &Path) -> Result<(), CliError> {
        match self {
            Self::Screen(_) => Ok(()),
            Self::File(mut file) => {
                file.flush().map_err(|e| not_written(name, &e))?;
                let mut out = Out::default();
                out.line(format!("written to {}", name.display()))
            }
        }
    }
}

fn not_written(file: &Path, error: &std::io::Error) -> CliError {
    let what = format!("cannot write {}: {error}", file.display());
    CliError::new(ExitKind::Failed, "io", what, "name another file with -o, or print it with -o -")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_in_code_keeps_its_fence() {
        assert_eq!(fenced("", "x\n"), "```\nx\n```");
        assert_eq!(fenced("json", "  ````\nx"), "`````json\n  ````\nx\n`````");
    }
}
