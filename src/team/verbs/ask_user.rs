//! `AskUserQuestion`: a question to the person, answered from the prompt or any terminal.

use crate::agent::consult::{Inquiry, consult, refuse};
use crate::agent::core::AgentCore;
use crate::tools::context::ToolContext;
use crate::tools::tool::{BoxFuture, Concurrency, Tool, ToolCall, ToolOutput, ToolSpec};
use crate::wire::access::{Access, Target};
use crate::wire::ask::AskKind;
use crate::wire::permission::{Decision, PermissionMode};
use crate::wire::question::{QuestionAnswer, Questions};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, LazyLock};

const NAME: &str = "AskUserQuestion";

static SPEC: LazyLock<ToolSpec> = LazyLock::new(|| {
    ToolSpec {
    name: NAME.to_owned(),
    description: "Asks the person up to four questions at once and waits for the answers. Use it when their wish \
                  decides and a wrong guess would cost them much; not for what you can find out or decide yourself, \
                  nor for the approval of a plan. The person can always answer in their own words, so offer no option \
                  for that. Put the option you advise first and say so in its label."
        .to_owned(),
    schema: r#"{"type":"object","properties":{"questions":{"type":"array","minItems":1,"maxItems":4,"items":{"type":"object","properties":{"question":{"type":"string","minLength":1,"description":"The whole question"},"header":{"type":"string","description":"What it is about, in a word or two"},"options":{"type":"array","maxItems":9,"description":"Two to four distinct choices; none for a question that needs words","items":{"type":"object","properties":{"label":{"type":"string","minLength":1,"description":"The choice, in a few words"},"description":{"type":"string","description":"What choosing it means"}},"required":["label"],"additionalProperties":false}},"multiSelect":{"type":"boolean","description":"Whether several may be chosen"}},"required":["question","options"],"additionalProperties":false}}},"required":["questions"],"additionalProperties":false}"#
        .into(),
}
});

/// The tool of one agent.
pub struct AskUserQuestion(Arc<AgentCore>);

impl AskUserQuestion {
    /// For one agent.
    pub fn new(core: Arc<AgentCore>) -> Self {
        Self(core)
    }

    async fn ask(&self, call: ToolCall, context: &ToolContext) -> ToolOutput {
        let without = "Choose what fits best yourself, and say in your answer what you chose and that it was not asked.";
        if self.0.permissions.mode() == PermissionMode::DontAsk {
            refuse(&self.0, &call, NAME, "dontAsk mode denies what would ask", false);
            return ToolOutput::error(format!(
                "The person does not want to be asked (dontAsk mode). {without}"
            ));
        }
        let inquiry = Inquiry {
            kind: AskKind::Question,
            tool: NAME,
            summary: summary(&call.input),
            why: "the agent asks a question",
            modes: Vec::new(),
            without,
        };
        match consult(&self.0, &call, inquiry, &context.cancel).await {
            Err(output) => output,
            Ok(said) if said.decision == Decision::Allow => ToolOutput::ok(result(&said.answers, said.note)),
            Ok(said) => {
                let words = said.note.map(|note| format!(" They say: {note}")).unwrap_or_default();
                ToolOutput::error(format!(
                    "{} does not want to answer.{words} Do not ask the same again.",
                    said.by
                ))
            }
        }
    }
}

/// The questions in a line.
fn summary(input: &Value) -> String {
    let asked =
        serde_json::from_value::<Questions>(input.clone()).map(|input| input.questions).unwrap_or_default();
    let texts: Vec<&str> = asked.iter().map(|question| question.question.as_str()).collect();
    texts.join(" · ")
}

fn result(answers: &[QuestionAnswer], note: Option<String>) -> String {
    let mut text = String::from("The person answered.");
    for answer in answers {
        let _ = write!(text, "\n\nQuestion: {}", answer.question);
        if !answer.selected.is_empty() {
            let _ = write!(text, "\nChosen: {}", answer.selected.join("; "));
        }
        if let Some(own) = &answer.text {
            let _ = write!(text, "\nIn their own words: {own}");
        }
    }
    if let Some(note) = note {
        let _ = write!(text, "\n\nThey add: {note}");
    }
    text
}

impl Tool for AskUserQuestion {
    fn spec(&self) -> &ToolSpec {
        &SPEC
    }

    fn access(&self, input: &Value, _: &Path) -> Access {
        Access { tool: NAME.to_owned(), target: Target::Nothing, summary: summary(input) }
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Exclusive
    }

    fn run<'a>(&'a self, call: ToolCall, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        Box::pin(self.ask(call, context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_with_their_questions() {
        let answer = |question: &str, selected: &[&str], text: Option<&str>| QuestionAnswer {
            question: question.into(),
            selected: selected.iter().map(|s| (*s).to_owned()).collect(),
            text: text.map(str::to_owned),
        };
        let answers = [answer("Which?", &["A", "C"], None), answer("Why?", &[], Some("speed"))];
        assert_eq!(
            result(&answers, Some("thanks".into())),
            "The person answered.\n\nQuestion: Which?\nChosen: A; C\n\nQuestion: Why?\nIn their own words: speed\n\n\
             They add: thanks"
        );
    }
}
