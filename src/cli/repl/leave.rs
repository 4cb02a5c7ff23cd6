//! Leaving, and the question before it when teammates are still alive.

use crate::wire::ids::AgentName;
use crate::wire::team::BackendType;

/// How the session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leave {
    /// What becomes of teammates in panes.
    pub teammates: Teammates,
    /// Who wants it.
    pub by: By,
}

/// What becomes of teammates that could live on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Teammates {
    /// They are stopped.
    Stop,
    /// They go on in their panes.
    Keep,
}

/// Who ends the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The person, or the end of the input.
    Person,
    /// A signal, or a terminal that is gone.
    Signal,
}

/// The open question whether to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    can_keep: bool,
}

impl Question {
    /// The question and its words.
    pub fn ask(living: &[AgentName], backend: BackendType) -> (Self, Vec<String>) {
        let can_keep = !living.is_empty() && backend != BackendType::InProcess;
        let names: Vec<&str> = living.iter().map(AgentName::as_str).collect();
        let lines = match (living.len(), can_keep) {
            (0, _) => vec!["Leave? y leaves (so does Ctrl-C), n stays".to_owned()],
            (count, false) => vec![
                format!(
                    "{} {} still alive, in this process, and cannot live on without it.",
                    names.join(", "),
                    is(count)
                ),
                "Stop them and leave? y leaves (so does Ctrl-C), n stays".to_owned(),
            ],
            (count, true) => vec![
                format!("{} {} still alive.", names.join(", "), is(count)),
                "Leave? y stops them first (so does Ctrl-C), k leaves and keeps them running, n stays"
                    .to_owned(),
            ],
        };
        (Self { can_keep }, lines)
    }

    /// What an answer means; `None` when it is none.
    pub fn answer(self, line: &str) -> Option<Option<Teammates>> {
        match line.trim() {
            "y" | "yes" => Some(Some(Teammates::Stop)),
            "k" | "keep" if self.can_keep => Some(Some(Teammates::Keep)),
            "n" | "no" => Some(None),
            _ => None,
        }
    }
}

fn is(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_teammates_in_panes_can_be_kept() {
        let anna = [AgentName::new("anna").expect("a name")];
        let (here, lines) = Question::ask(&anna, BackendType::InProcess);
        assert_eq!(lines[0], "anna is still alive, in this process, and cannot live on without it.");
        assert_eq!(
            (here.answer("k"), here.answer("y"), here.answer("n")),
            (None, Some(Some(Teammates::Stop)), Some(None))
        );
        let (panes, _) = Question::ask(&anna, BackendType::Tmux);
        assert_eq!(panes.answer("k"), Some(Some(Teammates::Keep)));
        assert_eq!(Question::ask(&[], BackendType::Tmux).0.answer("k"), None);
    }
}
