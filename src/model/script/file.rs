//! A script file as it is written, and its way to a [`Script`].

use super::template::Template;
use super::{Action, Condition, Find, Input, Part, Place, Rule, Script, ScriptError, Shape, UsageOverride};
use crate::wire::block::Block;
use globset::{Glob, GlobMatcher};
use regex::Regex;
use serde::Deserialize;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;
use toml::{Spanned, Table, Value};

/// Characters of a piece of text unless the script says otherwise.
const PIECE: usize = 24;
/// How long a gate is waited for unless the script says otherwise, in milliseconds.
const GATE_DEADLINE_MS: u64 = 60_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileText {
    #[serde(default)]
    pace_ms: u64,
    piece: Option<usize>,
    gates: Option<String>,
    gate_deadline_ms: Option<u64>,
    #[serde(default)]
    web_search: bool,
    #[serde(default)]
    rule: Vec<Spanned<RuleText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RuleText {
    agent: Option<String>,
    round: Option<u32>,
    contains: Option<Texts>,
    matches: Option<Texts>,
    prompt: Option<Texts>,
    prompt_is: Option<String>,
    prompt_matches: Option<Texts>,
    anywhere: Option<Texts>,
    anywhere_matches: Option<Texts>,
    times: Option<Times>,
    reply: Vec<Spanned<PartText>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Times {
    Number(u32),
    Word(String),
}

/// One text, or several that must all be found.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a text or a list of texts")]
enum Texts {
    One(String),
    All(Vec<String>),
}

impl Texts {
    fn list(texts: Option<Self>) -> Vec<String> {
        match texts {
            None => Vec::new(),
            Some(Self::One(text)) => vec![text],
            Some(Self::All(texts)) => texts,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct PartText {
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    tool: Option<String>,
    input: Option<Table>,
    raw: Option<String>,
    id: Option<String>,
    literal: bool,
    block: Option<String>,
    delay_ms: Option<u64>,
    gate: Option<String>,
    error: Option<ErrorText>,
    usage: Option<UsageOverride>,
    stop: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ErrorText {
    status: Option<u16>,
    message: Option<String>,
    retry_after: Option<f64>,
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
}

pub(super) fn read(path: &Path, text: &str) -> Result<Script, ScriptError> {
    let reader = Reader { path, text };
    let file: FileText = toml::from_str(text)
        .map_err(|e| reader.wrong(&e.span().unwrap_or_default(), e.message().to_owned()))?;
    let beside = path.parent().unwrap_or(Path::new(""));
    let gates = match file.gates {
        Some(directory) => beside.join(directory),
        None => {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(".gate");
            beside.join(name)
        }
    };
    Ok(Script {
        path: path.to_owned(),
        pace: Duration::from_millis(file.pace_ms),
        piece: file.piece.unwrap_or(PIECE).max(1),
        gates,
        gate_deadline: Duration::from_millis(file.gate_deadline_ms.unwrap_or(GATE_DEADLINE_MS)),
        web_search: file.web_search,
        rules: file.rule.into_iter().map(|r| reader.rule(r)).collect::<Result<_, _>>()?,
    })
}

impl Reader<'_> {
    fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        before.bytes().filter(|b| *b == b'\n').count() + 1
    }

    fn wrong(&self, span: &Range<usize>, why: String) -> ScriptError {
        ScriptError::Wrong { path: self.path.to_owned(), line: self.line(span), why }
    }

    fn rule(&self, written: Spanned<RuleText>) -> Result<Rule, ScriptError> {
        let span = written.span();
        let wrong = |why| self.wrong(&span, why);
        let rule = written.into_inner();
        let times = match rule.times {
            None => Some(1),
            Some(Times::Number(0)) => return Err(wrong("`times = 0` would never answer".to_owned())),
            Some(Times::Number(n)) => Some(n),
            Some(Times::Word(word)) if word == "always" => None,
            Some(Times::Word(word)) => {
                return Err(wrong(format!("`times` is a number or \"always\", not \"{word}\"")));
            }
        };
        let texts =
            [(Place::Input, rule.contains), (Place::Prompt, rule.prompt), (Place::Anywhere, rule.anywhere)];
        let patterns = [
            (Place::Input, rule.matches),
            (Place::Prompt, rule.prompt_matches),
            (Place::Anywhere, rule.anywhere_matches),
        ];
        let mut conditions: Vec<Condition> = texts
            .into_iter()
            .flat_map(|(place, texts)| Texts::list(texts).into_iter().map(move |text| (place, text)))
            .map(|(place, text)| Condition { place, find: Find::Text(text) })
            .collect();
        if let Some(text) = rule.prompt_is {
            conditions.push(Condition { place: Place::Prompt, find: Find::Whole(text) });
        }
        let patterns =
            patterns.into_iter().flat_map(|(place, p)| Texts::list(p).into_iter().map(move |p| (place, p)));
        for (place, pattern) in patterns {
            let regex = Regex::new(&pattern)
                .map_err(|e| wrong(format!("`{pattern}` is no regular expression: {e}")))?;
            conditions.push(Condition { place, find: Find::Pattern(regex) });
        }
        Ok(Rule {
            line: self.line(&span),
            agent: rule.agent.map(|agent| glob(&agent).map_err(wrong)).transpose()?,
            round: rule.round,
            conditions,
            times,
            reply: rule.reply.into_iter().map(|p| self.part(p)).collect::<Result<_, _>>()?,
        })
    }

    fn part(&self, written: Spanned<PartText>) -> Result<Part, ScriptError> {
        let span = written.span();
        let action = written.into_inner().action().map_err(|why| self.wrong(&span, why))?;
        Ok(Part { line: self.line(&span), action })
    }
}

fn glob(text: &str) -> Result<GlobMatcher, String> {
    Glob::new(text).map(|g| g.compile_matcher()).map_err(|e| format!("`{text}` is no pattern: {e}"))
}

impl PartText {
    fn template(&self, text: &str) -> Result<Template, String> {
        if self.literal { Ok(Template::literal(text)) } else { Template::parse(text) }
    }

    fn action(self) -> Result<Action, String> {
        let kinds = [
            self.text.is_some(),
            self.thinking.is_some(),
            self.tool.is_some(),
            self.block.is_some(),
            self.delay_ms.is_some(),
            self.gate.is_some(),
            self.error.is_some(),
            self.usage.is_some(),
            self.stop.is_some(),
        ];
        if kinds.iter().filter(|k| **k).count() != 1 {
            return Err("a part has exactly one of text, thinking, tool, block, delay-ms, gate, error, \
                        usage, stop"
                .to_owned());
        }
        if self.tool.is_none() && (self.input.is_some() || self.raw.is_some() || self.id.is_some()) {
            return Err("`input`, `raw` and `id` belong to `tool`".to_owned());
        }
        if self.thinking.is_none() && self.signature.is_some() {
            return Err("`signature` belongs to `thinking`".to_owned());
        }
        if let Some(text) = &self.text {
            return self.template(text).map(Action::Text);
        }
        if let Some(text) = &self.thinking {
            let template = self.template(text)?;
            return Ok(Action::Thinking(template, self.signature.unwrap_or_default()));
        }
        if let Some(name) = self.tool.clone() {
            return self.tool(name);
        }
        if let Some(raw) = self.block {
            return Block::parse(&raw).map(Action::Block).map_err(|e| e.to_string());
        }
        if let Some(ms) = self.delay_ms {
            return Ok(Action::Delay(Duration::from_millis(ms)));
        }
        if let Some(name) = self.gate {
            let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
            if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
                return Err(format!("`{name}` is no name for a gate (letters, digits, `-`, `_`, `.`)"));
            }
            return Ok(Action::Gate(name));
        }
        if let Some(error) = self.error {
            let retry_after = error.retry_after.map(Duration::try_from_secs_f64).transpose();
            return Ok(Action::Error {
                status: error.status,
                message: error.message.unwrap_or_else(|| "as the script says".to_owned()),
                retry_after: retry_after.map_err(|e| format!("`retry-after`: {e}"))?,
            });
        }
        match (self.usage, self.stop) {
            (Some(usage), _) => Ok(Action::Usage(usage)),
            (None, stop) => Ok(Action::Stop(stop.unwrap_or_default())),
        }
    }

    fn tool(self, name: String) -> Result<Action, String> {
        let input = match (&self.input, &self.raw) {
            (Some(_), Some(_)) => return Err("a tool has `input` or `raw`, not both".to_owned()),
            (_, Some(raw)) => Input::Raw(self.template(raw)?),
            (Some(table), None) => Input::Object(self.members(table)?),
            (None, None) => Input::Object(Vec::new()),
        };
        if self.id.as_deref().is_some_and(|id| id.trim().is_empty()) {
            return Err("an empty `id`".to_owned());
        }
        Ok(Action::Tool { name, input, id: self.id })
    }

    fn members(&self, table: &Table) -> Result<Vec<(String, Shape)>, String> {
        table.iter().map(|(key, value)| Ok((key.clone(), self.shape(value)?))).collect()
    }

    fn shape(&self, value: &Value) -> Result<Shape, String> {
        Ok(match value {
            Value::String(text) => Shape::Text(self.template(text)?),
            Value::Integer(number) => Shape::Fixed(number.to_string()),
            Value::Float(number) => Shape::Fixed(
                serde_json::Number::from_f64(*number)
                    .ok_or_else(|| format!("{number} cannot be written in JSON"))?
                    .to_string(),
            ),
            Value::Boolean(flag) => Shape::Fixed(flag.to_string()),
            Value::Datetime(time) => Shape::Fixed(format!("\"{time}\"")),
            Value::Array(list) => {
                Shape::List(list.iter().map(|v| self.shape(v)).collect::<Result<_, String>>()?)
            }
            Value::Table(table) => Shape::Object(self.members(table)?),
        })
    }
}
