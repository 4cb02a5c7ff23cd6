//! A shell command taken apart into the simple commands it would run.
//!
//! Owns the only use of the shell parser. Promises that whatever it cannot read with certainty is
//! named in [`Script::doubts`]; a caller that allows must refuse a script with doubts, a caller that
//! denies may still use what was found. Never runs or expands anything.

use brush_parser::ast::{
    AndOr, Assignment, AssignmentName, AssignmentValue, Command, CommandPrefixOrSuffixItem as Item,
    CompoundCommand, CompoundList, ElseClause, ExtendedTestExpr, IoFileRedirectKind, IoFileRedirectTarget,
    IoRedirect, Pipeline, SimpleCommand, UnaryPredicate,
};
use brush_parser::word::{self, ParameterExpr, ParameterTransformOp, WordPiece, WordPieceWithSource};
use brush_parser::{ParserOptions, tokenize_str_with_options};

/// More that opens something than this is not taken apart: the parser recurses on each.
const MAX_OPENERS: usize = 400;
/// Room for that recursion, in bytes; only touched when it is used.
const STACK: usize = 64 * 1024 * 1024;
/// Longer commands are not taken apart.
const MAX_LEN: usize = 64 * 1024;
/// Deeper nesting of substitutions and compounds is not followed.
const MAX_DEPTH: usize = 24;

/// As the name of a command these mean that shell and parser read it differently.
const RESERVED: &[&str] = &[
    "!", "[[", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in",
    "select", "then", "time", "until", "while", "{", "}",
];

/// One word of a simple command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// The text, quotes removed; expansions stand in it as written.
    pub text: String,
    /// False when the shell would expand something in it other than `~` and file name wildcards.
    pub literal: bool,
    /// Whether it holds an unquoted wildcard.
    pub glob: bool,
}

/// One command with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Simple {
    /// `NAME=value` before the command, as written.
    pub assignments: Vec<String>,
    /// The command's name and arguments; may be empty when there are only assignments.
    pub words: Vec<Word>,
}

/// Everything a command would run, read and write, as far as its text shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Script {
    /// Every simple command, those in substitutions and compounds included.
    pub commands: Vec<Simple>,
    /// Files that redirections read.
    pub reads: Vec<Word>,
    /// Files that redirections write, `/dev/null` left out.
    pub writes: Vec<Word>,
    /// What could not be read with certainty, in a few words each.
    pub doubts: Vec<String>,
}

fn options() -> ParserOptions {
    // As `bash -c` starts: no extended wildcards. `~` is handled by `path::resolve`.
    ParserOptions {
        enable_extended_globbing: false,
        tilde_expansion_at_word_start: false,
        ..ParserOptions::default()
    }
}

/// Takes a command apart.
pub(super) fn parse(text: &str) -> Script {
    let mut reader = Reader { script: Script::default(), depth: 0, options: options() };
    stacker::grow(STACK, || reader.text(text));
    reader.script
}

/// An upper bound of how deeply `text` can nest, whatever is quoted in it.
fn openers(text: &str) -> usize {
    let signs = text.bytes().filter(|b| matches!(b, b'(' | b'{' | b'`' | b'[')).count();
    let word =
        |word: &&str| matches!(*word, "if" | "elif" | "while" | "until" | "for" | "case" | "select" | "!");
    signs + text.split(|c: char| !c.is_alphanumeric() && c != '!').filter(word).count()
}

struct Reader {
    script: Script,
    depth: usize,
    options: ParserOptions,
}

impl Reader {
    fn doubt(&mut self, what: impl Into<String>) {
        let what = what.into();
        if !self.script.doubts.contains(&what) {
            self.script.doubts.push(what);
        }
    }

    fn text(&mut self, text: &str) {
        if text.len() > MAX_LEN || self.depth >= MAX_DEPTH || openers(text) > MAX_OPENERS {
            return self.doubt("it is too long or nested too deeply");
        }
        if text.chars().any(|c| (c.is_control() && c != '\n' && c != '\t') || c == '\u{feff}') {
            return self.doubt("it holds control characters");
        }
        if text.contains("<<") && (text.contains("((") || text.contains("<(") || text.contains(">(")) {
            // The tokenizer loses here-documents in some of these.
            self.doubt("its here-document is not understood");
        }
        if text.contains("$'") && text.contains("\\\n") {
            self.doubt("a word is not understood"); // a line break that a shell would keep
        }
        self.depth += 1;
        let parsed = tokenize_str_with_options(text, &self.options.tokenizer_options())
            .map_err(drop)
            .and_then(|tokens| brush_parser::parse_tokens(&tokens, &self.options).map_err(drop));
        match parsed {
            Ok(program) => program.complete_commands.iter().for_each(|list| self.list(list)),
            Err(()) => self.doubt("its syntax is not understood"),
        }
        self.depth -= 1;
    }

    fn list(&mut self, list: &CompoundList) {
        if self.depth >= MAX_DEPTH {
            return self.doubt("it is too long or nested too deeply");
        }
        self.depth += 1;
        for item in &list.0 {
            self.pipeline(&item.0.first);
            for next in &item.0.additional {
                match next {
                    AndOr::And(pipeline) | AndOr::Or(pipeline) => self.pipeline(pipeline),
                }
            }
        }
        self.depth -= 1;
    }

    fn pipeline(&mut self, pipeline: &Pipeline) {
        for command in &pipeline.seq {
            match command {
                Command::Simple(simple) => self.simple(simple),
                Command::Compound(compound, redirects) => {
                    self.compound(compound);
                    self.redirects(redirects.as_ref().map_or(&[], |list| &list.0));
                }
                Command::Function(function) => {
                    self.doubt("it defines a function");
                    self.compound(&function.body.0);
                    self.redirects(function.body.1.as_ref().map_or(&[], |list| &list.0));
                }
                Command::ExtendedTest(test, redirects) => {
                    self.test(&test.expr);
                    self.redirects(redirects.as_ref().map_or(&[], |list| &list.0));
                }
            }
        }
    }

    fn compound(&mut self, compound: &CompoundCommand) {
        match compound {
            CompoundCommand::BraceGroup(group) => self.list(&group.list),
            CompoundCommand::Subshell(shell) => self.list(&shell.list),
            CompoundCommand::ForClause(clause) => {
                self.variable(&clause.variable_name);
                for value in clause.values.iter().flatten() {
                    self.word(&value.value);
                }
                self.list(&clause.body.list);
            }
            CompoundCommand::CaseClause(clause) => {
                self.word(&clause.value.value);
                for case in &clause.cases {
                    for pattern in &case.patterns {
                        self.word(&pattern.value);
                    }
                    if let Some(list) = &case.cmd {
                        self.list(list);
                    }
                }
            }
            CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition);
                self.list(&clause.then);
                for ElseClause { condition, body } in clause.elses.iter().flatten() {
                    if let Some(condition) = condition {
                        self.list(condition);
                    }
                    self.list(body);
                }
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                self.list(&clause.0);
                self.list(&clause.1.list);
            }
            CompoundCommand::Arithmetic(_) => self.doubt("it calculates"),
            CompoundCommand::ArithmeticForClause(clause) => {
                self.doubt("it calculates");
                self.list(&clause.body.list);
            }
            CompoundCommand::Coprocess(process) => {
                self.doubt("it starts a coprocess");
                let alone = Pipeline { timed: None, bang: false, seq: vec![(*process.body).clone()] };
                self.pipeline(&alone);
            }
        }
    }

    /// A loop variable: upper-case names steer the shell and other programs (`PATH`, `IFS`, …).
    fn variable(&mut self, name: &str) {
        let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !plain || name.ends_with("_proxy") {
            self.doubt(format!("it sets the variable {name}"));
        }
    }

    fn simple(&mut self, simple: &SimpleCommand) {
        let mut found = Simple { assignments: Vec::new(), words: Vec::new() };
        for item in simple.prefix.iter().flat_map(|prefix| &prefix.0) {
            self.item(item, &mut found, true);
        }
        if let Some(name) = &simple.word_or_name {
            let name = self.word(&name.value);
            if !name.literal || name.glob || (name.text.contains('[') && name.text != "[") {
                self.doubt("the name of a command is only known when it runs");
            }
            if RESERVED.contains(&name.text.as_str()) {
                self.doubt("a reserved word stands where a command should");
            }
            found.words.push(name);
        }
        for item in simple.suffix.iter().flat_map(|suffix| &suffix.0) {
            self.item(item, &mut found, false);
        }
        if !found.words.is_empty() || !found.assignments.is_empty() {
            self.script.commands.push(found);
        }
    }

    fn item(&mut self, item: &Item, found: &mut Simple, before_name: bool) {
        match item {
            Item::IoRedirect(redirect) => self.redirects(std::slice::from_ref(redirect)),
            Item::Word(word) => {
                let word = self.word(&word.value);
                found.words.push(word);
            }
            Item::AssignmentWord(assignment, word) => {
                self.assignment(assignment);
                let word = self.word(&word.value);
                match before_name {
                    true => found.assignments.push(word.text),
                    false => found.words.push(word),
                }
            }
            Item::ProcessSubstitution(_, shell) => {
                self.list(&shell.list);
                found.words.push(Word { text: "<(…)".to_owned(), literal: false, glob: false });
            }
        }
    }

    fn assignment(&mut self, assignment: &Assignment) {
        if matches!(assignment.name, AssignmentName::ArrayElementName(..)) {
            self.doubt("it sets an array"); // evaluates the subscript
        }
        match &assignment.value {
            AssignmentValue::Scalar(_) => {} // a part of the word that is read as a whole
            AssignmentValue::Array(values) => {
                self.doubt("it sets an array");
                for (key, value) in values {
                    key.iter().for_each(|key| drop(self.word(&key.value)));
                    self.word(&value.value);
                }
            }
        }
    }

    fn redirects(&mut self, redirects: &[IoRedirect]) {
        for redirect in redirects {
            match redirect {
                IoRedirect::File(_, kind, target) => self.redirect(kind, target),
                IoRedirect::HereDocument(_, document) => {
                    if document.requires_expansion {
                        match word::parse_heredoc(&document.doc.value, &self.options) {
                            Ok(pieces) => drop(self.pieces(&pieces, &document.doc.value)),
                            Err(_) => self.doubt("its here-document is not understood"),
                        }
                    }
                }
                IoRedirect::HereString(_, word) => drop(self.word(&word.value)),
                IoRedirect::OutputAndError(word, _) => self.write(&word.value),
            }
        }
    }

    fn redirect(&mut self, kind: &IoFileRedirectKind, target: &IoFileRedirectTarget) {
        use IoFileRedirectKind::{
            Append, Clobber, DuplicateInput, DuplicateOutput, Read, ReadAndWrite, Write,
        };
        match (target, kind) {
            (IoFileRedirectTarget::Fd(_), _) => {}
            (IoFileRedirectTarget::ProcessSubstitution(_, shell), _) => self.list(&shell.list),
            (IoFileRedirectTarget::Duplicate(word), _)
            | (IoFileRedirectTarget::Filename(word), DuplicateInput)
                if is_descriptor(&word.value) => {}
            (
                IoFileRedirectTarget::Filename(word) | IoFileRedirectTarget::Duplicate(word),
                DuplicateInput | DuplicateOutput,
            ) if word.value.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => {
                self.doubt("a redirection is not understood"); // a shell ends `>&-` before the next letter
            }
            (IoFileRedirectTarget::Filename(word), Read) => {
                let word = self.word(&word.value);
                self.script.reads.push(word);
            }
            (
                IoFileRedirectTarget::Filename(word) | IoFileRedirectTarget::Duplicate(word),
                Read | Write | Append | ReadAndWrite | Clobber | DuplicateInput | DuplicateOutput,
            ) => self.write(&word.value),
        }
    }

    fn write(&mut self, value: &str) {
        let word = self.word(value);
        if word.text != "/dev/null" || !word.literal {
            self.script.writes.push(word);
        }
    }

    fn test(&mut self, test: &ExtendedTestExpr) {
        match test {
            ExtendedTestExpr::And(a, b) | ExtendedTestExpr::Or(a, b) => {
                self.test(a);
                self.test(b);
            }
            ExtendedTestExpr::Not(inner) | ExtendedTestExpr::Parenthesized(inner) => self.test(inner),
            ExtendedTestExpr::UnaryTest(predicate, word) => {
                use UnaryPredicate::{ShellVariableIsSetAndAssigned, ShellVariableIsSetAndNameRef};
                if matches!(predicate, ShellVariableIsSetAndAssigned | ShellVariableIsSetAndNameRef) {
                    self.doubt("it tests a variable by name"); // evaluates subscripts
                }
                self.word(&word.value);
            }
            ExtendedTestExpr::BinaryTest(predicate, left, right) => {
                if format!("{predicate:?}").starts_with("Arithmetic") {
                    self.doubt("it calculates"); // `[[ x -eq y ]]` evaluates both sides
                }
                self.word(&left.value);
                self.word(&right.value);
            }
        }
    }

    /// Reads a word and everything that would run inside it.
    fn word(&mut self, value: &str) -> Word {
        match word::parse(value, &self.options) {
            Ok(pieces) => self.pieces(&pieces, value),
            Err(_) => {
                self.doubt("a word is not understood");
                Word { text: value.to_owned(), literal: false, glob: false }
            }
        }
    }

    fn pieces(&mut self, pieces: &[WordPieceWithSource], source: &str) -> Word {
        let mut word = Word { text: String::new(), literal: true, glob: false };
        for WordPieceWithSource { piece, start_index, end_index } in pieces {
            let written = source.get(*start_index..*end_index).unwrap_or(source);
            match piece {
                WordPiece::Text(text) => {
                    word.glob |= text.contains(['*', '?']) || (text.contains('[') && source.contains(']'));
                    // A brace may expand to several words, a trailing backslash continues the line.
                    let braces = text.contains('{') && (source.contains(',') || source.contains(".."));
                    word.literal &= !braces && !text.contains(['\\', '`', '$']);
                    word.text.push_str(text);
                }
                WordPiece::SingleQuotedText(text) => word.text.push_str(text),
                WordPiece::AnsiCQuotedText(text) => {
                    word.literal &= !text.contains('\\');
                    word.text.push_str(text);
                }
                WordPiece::DoubleQuotedSequence(inner) | WordPiece::GettextDoubleQuotedSequence(inner) => {
                    self.double_quoted(inner, source, &mut word);
                }
                WordPiece::EscapeSequence(text) => match text.strip_prefix('\\') {
                    Some("\n") => word.literal = false,
                    Some(escaped) => word.text.push_str(escaped),
                    None => word.literal = false,
                },
                WordPiece::TildeExpansion(_) => {
                    word.literal = false;
                    word.text.push_str(written);
                }
                WordPiece::ParameterExpansion(expression) => {
                    word.literal = false;
                    word.text.push_str(written);
                    self.parameter(expression, written);
                }
                WordPiece::CommandSubstitution(command) => {
                    word.literal = false;
                    word.text.push_str("$(…)");
                    self.text(command);
                }
                WordPiece::BackquotedCommandSubstitution(command) => {
                    word.literal = false;
                    word.text.push_str("$(…)");
                    self.text(&unescape_backquoted(command));
                }
                WordPiece::ArithmeticExpression(_) => {
                    word.literal = false;
                    word.text.push_str(written);
                    self.doubt("it calculates");
                }
            }
        }
        word
    }

    fn double_quoted(&mut self, inner: &[WordPieceWithSource], source: &str, word: &mut Word) {
        for piece in inner {
            if let WordPiece::Text(text) = &piece.piece {
                // Wildcards and braces mean nothing here; `\` before a line break does.
                word.literal &= !text.contains("\\\n") && !text.contains('`');
                word.text.push_str(text);
                continue;
            }
            let one = self.pieces(std::slice::from_ref(piece), source);
            word.literal &= one.literal;
            word.text.push_str(&one.text);
        }
    }

    fn parameter(&mut self, expression: &ParameterExpr, written: &str) {
        let runs = written.contains("$(") || written.contains('`') || written.contains("<(");
        match expression {
            ParameterExpr::AssignDefaultValues { .. } => self.doubt("an expansion sets a variable"),
            ParameterExpr::Transform { op: ParameterTransformOp::PromptExpand, .. } => {
                self.doubt("an expansion runs what it holds");
            }
            ParameterExpr::Substring { .. } => self.doubt("it calculates"),
            _ if runs || written.contains('[') || written.contains("${!") => {
                self.doubt("an expansion is not understood");
            }
            _ => {}
        }
        if runs {
            self.inside_expansion(written);
        }
    }

    /// Best effort for rules that deny: what would run inside `${x:-$(…)}`.
    fn inside_expansion(&mut self, written: &str) {
        if let Some(at) = written.find("$(").filter(|_| self.depth < MAX_DEPTH) {
            let inner = written[at..].trim_end_matches('}');
            self.depth += 1;
            self.word(inner);
            self.depth -= 1;
        }
    }
}

fn is_descriptor(text: &str) -> bool {
    text == "-" || (!text.is_empty() && text.trim_end_matches('-').bytes().all(|b| b.is_ascii_digit()))
}

/// Inside backquotes a backslash before `$`, a backquote or itself is taken away first.
fn unescape_backquoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match chars.peek() {
            Some(next @ ('$' | '`' | '\\')) if c == '\\' => {
                out.push(*next);
                chars.next();
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests;
