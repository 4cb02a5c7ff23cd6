//! Values in scripts: `{{source | function …}}`.
//!
//! Owns the little language and its evaluation. A value that is missing is an error that names it,
//! unless a `default` follows. Never touches a file.

use regex::Regex;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// `result:ID`: the text of that call's result; `result`: of the latest one.
    Result(Option<String>),
    /// `mail:NAME`: the text of that teammate's latest message.
    Mail(String),
    /// `mails:NAME`: the texts of all its messages, one after the other.
    Mails(String),
    /// `prompt`: what the conversation began with.
    Prompt,
    /// `input`: what came since the last answer.
    Input,
    /// `agent`: who asks.
    Agent,
    /// `round`: the round's number.
    Round,
}

/// Gives the values of one request.
pub trait Values {
    /// The value, or `None` when the conversation has none.
    fn value(&self, source: &Source) -> Option<String>;
}

#[derive(Debug, Clone)]
enum Step {
    Lines,
    Line(usize),
    First(usize),
    Last(usize),
    Match(Regex, usize),
    Count(Regex),
    Replace(Regex, String),
    Trim,
    Json,
    Int,
    Default(String),
}

#[derive(Debug, Clone)]
struct Hole {
    written: String,
    source: Source,
    steps: Vec<Step>,
}

#[derive(Debug, Clone)]
enum Piece {
    Plain(String),
    Hole(Hole),
}

/// A text with holes.
#[derive(Debug, Clone)]
pub struct Template(Vec<Piece>);

/// What a template became.
#[derive(Debug, PartialEq, Eq)]
pub enum Rendered {
    /// Text.
    Text(String),
    /// A whole number, when the template is one hole that ends in `int`.
    Int(String),
}

impl Template {
    /// A text that stands as it is.
    pub fn literal(text: &str) -> Self {
        Self(vec![Piece::Plain(text.to_owned())])
    }

    /// Reads a text with holes. The error is a fragment that quotes the hole.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find("{{") {
            let (plain, after) = (&rest[..at], &rest[at + 2..]);
            let end = hole_end(after).ok_or_else(|| format!("`{{{{{}` has no end", head(after)))?;
            if !plain.is_empty() {
                pieces.push(Piece::Plain(plain.to_owned()));
            }
            let inside = after[..end].trim();
            pieces.push(Piece::Hole(hole(inside).map_err(|why| format!("`{{{{{inside}}}}}`: {why}"))?));
            rest = &after[end + 2..];
        }
        if !rest.is_empty() {
            pieces.push(Piece::Plain(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    /// Fills the holes. The error is a fragment that names what is missing.
    pub fn render(&self, values: &dyn Values) -> Result<Rendered, String> {
        if let [Piece::Hole(hole)] = &self.0[..]
            && matches!(hole.steps.last(), Some(Step::Int))
        {
            return hole.evaluate(values).map(Rendered::Int);
        }
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Plain(plain) => text.push_str(plain),
                Piece::Hole(hole) => text.push_str(&hole.evaluate(values)?),
            }
        }
        Ok(Rendered::Text(text))
    }

    /// Fills the holes of a template whose value is used as text in any case.
    pub fn text(&self, values: &dyn Values) -> Result<String, String> {
        self.render(values).map(|r| match r {
            Rendered::Text(text) | Rendered::Int(text) => text,
        })
    }
}

fn head(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Where the `}}` stands that ends a hole, quoted ones aside.
fn hole_end(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match quote {
            _ if escaped => escaped = false,
            Some('"') if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None if text[at..].starts_with("}}") => return Some(at),
            None => {}
        }
    }
    None
}

/// Splits at `|` and at white space; `"…"` knows `\"` and `\\`, `'…'` knows no escapes.
fn words(text: &str) -> Result<Vec<Vec<String>>, String> {
    let mut steps = vec![Vec::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '|' => steps.push(Vec::new()),
            '"' | '\'' => {
                let mut word = String::new();
                loop {
                    match chars.next() {
                        None => return Err("a quote has no end".to_owned()),
                        Some(end) if end == c => break,
                        Some('\\') if c == '"' && matches!(chars.peek(), Some('"' | '\\')) => {
                            word.extend(chars.next());
                        }
                        Some(other) => word.push(other),
                    }
                }
                push(&mut steps, word);
            }
            c if c.is_whitespace() => {}
            c => {
                let mut word = String::from(c);
                while let Some(next) = chars.next_if(|n| !n.is_whitespace() && *n != '|') {
                    word.push(next);
                }
                push(&mut steps, word);
            }
        }
    }
    Ok(steps)
}

fn push(steps: &mut [Vec<String>], word: String) {
    if let Some(step) = steps.last_mut() {
        step.push(word);
    }
}

fn hole(text: &str) -> Result<Hole, String> {
    let parts = words(text)?;
    let mut parts = parts.iter();
    let source = match parts.next().map(Vec::as_slice) {
        Some([word]) => source(word)?,
        _ => return Err("one source is expected before the first `|`".to_owned()),
    };
    let steps = parts.map(|words| step(words)).collect::<Result<_, _>>()?;
    Ok(Hole { written: text.to_owned(), source, steps })
}

fn source(word: &str) -> Result<Source, String> {
    match word.split_once(':') {
        Some(("result", id)) if !id.is_empty() => Ok(Source::Result(Some(id.to_owned()))),
        Some(("mail", name)) if !name.is_empty() => Ok(Source::Mail(name.to_owned())),
        Some(("mails", name)) if !name.is_empty() => Ok(Source::Mails(name.to_owned())),
        None if word == "result" => Ok(Source::Result(None)),
        None if word == "prompt" => Ok(Source::Prompt),
        None if word == "input" => Ok(Source::Input),
        None if word == "agent" => Ok(Source::Agent),
        None if word == "round" => Ok(Source::Round),
        _ => Err(format!(
            "unknown source `{word}` (known: result:ID, result, mail:NAME, mails:NAME, prompt, input, agent, \
             round)"
        )),
    }
}

fn step(words: &[String]) -> Result<Step, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Ok(match words[..] {
        ["lines"] => Step::Lines,
        ["line", n] => Step::Line(number(n)?),
        ["first", n] => Step::First(number(n)?),
        ["last", n] => Step::Last(number(n)?),
        ["match", regex] => Step::Match(pattern(regex)?, 0),
        ["match", regex, group] => Step::Match(pattern(regex)?, number(group)?),
        ["count", regex] => Step::Count(pattern(regex)?),
        ["replace", regex, with] => Step::Replace(pattern(regex)?, with.to_owned()),
        ["trim"] => Step::Trim,
        ["json"] => Step::Json,
        ["int"] => Step::Int,
        ["default", text] => Step::Default(text.to_owned()),
        _ => {
            return Err(format!(
                "cannot apply `{}` (known: lines, line N, first N, last N, match REGEX [GROUP], \
                 count REGEX, replace REGEX TEXT, trim, json, int, default TEXT)",
                words.join(" ")
            ));
        }
    })
}

fn number(word: &str) -> Result<usize, String> {
    word.parse().map_err(|_| format!("`{word}` is not a number"))
}

fn pattern(word: &str) -> Result<Regex, String> {
    Regex::new(word).map_err(|e| format!("`{word}` is no regular expression: {e}"))
}

impl Hole {
    fn evaluate(&self, values: &dyn Values) -> Result<String, String> {
        let mut value = values.value(&self.source);
        let mut missing = match (&value, &self.source) {
            (Some(_), _) => String::new(),
            (None, Source::Result(Some(id))) => format!("there is no result of a call `{id}`"),
            (None, Source::Result(None)) => "there is no tool result".to_owned(),
            (None, Source::Mail(name) | Source::Mails(name)) => format!("there is no message from `{name}`"),
            (None, _) => "there is no such text".to_owned(),
        };
        for step in &self.steps {
            let before = value.is_some();
            value = step.apply(value)?;
            if before && value.is_none() {
                missing = format!("nothing is left after `{}`", step.name());
            }
        }
        value.ok_or_else(|| format!("`{{{{{}}}}}`: {missing}", self.written))
    }
}

impl Step {
    fn name(&self) -> String {
        match self {
            Self::Line(n) => format!("line {n}"),
            Self::Match(regex, group) => format!("match {regex} {group}"),
            _ => "that step".to_owned(),
        }
    }

    fn apply(&self, value: Option<String>) -> Result<Option<String>, String> {
        let Some(text) = value else {
            return Ok(match self {
                Self::Default(text) => Some(text.clone()),
                _ => None,
            });
        };
        let lines = || text.lines();
        Ok(match self {
            Self::Lines => Some(lines().count().to_string()),
            Self::Line(n) => n.checked_sub(1).and_then(|n| lines().nth(n)).map(str::to_owned),
            Self::First(n) => Some(lines().take(*n).collect::<Vec<_>>().join("\n")),
            Self::Last(n) => {
                let skip = lines().count().saturating_sub(*n);
                Some(lines().skip(skip).collect::<Vec<_>>().join("\n"))
            }
            Self::Match(regex, group) => {
                regex.captures(&text).and_then(|c| c.get(*group)).map(|m| m.as_str().to_owned())
            }
            Self::Count(regex) => Some(regex.find_iter(&text).count().to_string()),
            Self::Replace(regex, with) => Some(regex.replace_all(&text, with.as_str()).into_owned()),
            Self::Trim => Some(text.trim().to_owned()),
            Self::Json => Some(serde_json::Value::from(text).to_string()),
            Self::Int => match text.trim().parse::<i64>() {
                Ok(number) => Some(number.to_string()),
                Err(_) => return Err(format!("`{}` is not a whole number", head(&text))),
            },
            Self::Default(_) => Some(text),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;
    impl Values for Fixed {
        fn value(&self, source: &Source) -> Option<String> {
            match source {
                Source::Result(Some(id)) if id == "r" => Some("one\ntwo }} \"x\"\nthree\n".to_owned()),
                Source::Round => Some("3".to_owned()),
                _ => None,
            }
        }
    }

    fn render(text: &str) -> Result<String, String> {
        Template::parse(text)?.text(&Fixed)
    }

    #[test]
    fn functions_do_what_they_say() {
        for (text, want) in [
            ("no holes", "no holes"),
            ("", ""),
            ("{{result:r | lines}} lines", "3 lines"),
            ("<{{ result:r | line 2 | trim }}>", "<two }} \"x\">"),
            ("{{result:r | first 1}}/{{result:r | last 1}}", "one/three"),
            ("{{result:r | match \"t(w)o\" 1}}{{result:r | match 'th\\w+'}}", "wthree"),
            ("{{result:r | count o}}", "2"),
            ("{{result:r | replace '(?m)^t(.)' '$1-'}}", "one\nw-o }} \"x\"\nh-ree\n"),
            ("{{result:r | replace nothing x | first 1}}", "one"),
            ("{{result:r|line 2|json}}", "\"two }} \\\"x\\\"\""),
            ("{{mail:anna | default \"}} \\\" none\"}}", "}} \" none"),
            ("{{result:r | line 9 | default 'gone'}}", "gone"),
            ("{{round | int}}", "3"),
            ("{ {round} }", "{ {round} }"),
        ] {
            assert_eq!(render(text).as_deref(), Ok(want), "{text}");
        }
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        for (text, want) in [
            ("{{result:x}}", "`{{result:x}}`: there is no result of a call `x`"),
            ("{{mail:anna | trim}}", "`{{mail:anna | trim}}`: there is no message from `anna`"),
            ("{{result:r | line 9}}", "`{{result:r | line 9}}`: nothing is left after `line 9`"),
            ("{{result:r", "`{{result:r` has no end"),
            ("{{result:r | line x}}", "`{{result:r | line x}}`: `x` is not a number"),
        ] {
            assert_eq!(render(text), Err(want.to_owned()), "{text}");
        }
        for text in
            ["{{}}", "{{nope}}", "{{result:r | frob}}", "{{result:r | match '('}}", "{{result:r | int}}"]
        {
            assert!(render(text).is_err(), "{text}");
        }
    }
}
