//! Leaving, and the question before it when teammates are still alive.

use crate::wire::ids::AgentName;

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
    /// The question and its words; `bound` are those of the living that run in this process, beside so
    /// many background agents.
    pub fn ask(living: &[AgentName], bound: &[AgentName], background: usize) -> (Self, Vec<String>) {
        let free: Vec<AgentName> = living.iter().filter(|name| !bound.contains(name)).cloned().collect();
        let mut lines = Vec::new();
        if !free.is_empty() {
            lines.push(format!("{} still alive.", are(&free)));
        }
        if !bound.is_empty() {
            lines
                .push(format!("{} still alive, in this process, and cannot live on without it.", are(bound)));
        }
        if background > 0 {
            lines.push(if background == 1 {
                "1 background agent is at work and ends with this process; a resumed session can go on with it."
                    .to_owned()
            } else {
                format!(
                    "{background} background agents are at work and end with this process; a resumed session can go \
                     on with them."
                )
            });
        }
        let choice = match (free.is_empty(), bound.is_empty()) {
            (true, true) => "Leave? y leaves (so does Ctrl-C), n stays".to_owned(),
            (true, false) => "Stop them and leave? y leaves (so does Ctrl-C), n stays".to_owned(),
            (false, true) => {
                "Leave? y stops them first (so does Ctrl-C), k leaves and keeps them running, n stays"
                    .to_owned()
            }
            (false, false) => {
                let free: Vec<&str> = free.iter().map(AgentName::as_str).collect();
                format!(
                    "Leave? y stops all first (so does Ctrl-C), k leaves and keeps {} running, n stays",
                    free.join(", ")
                )
            }
        };
        lines.push(choice);
        (Self { can_keep: !free.is_empty() }, lines)
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

/// `anna is`, `anna, ben are`.
fn are(agents: &[AgentName]) -> String {
    let names: Vec<&str> = agents.iter().map(AgentName::as_str).collect();
    format!("{} {}", names.join(", "), if agents.len() == 1 { "is" } else { "are" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_teammates_in_panes_can_be_kept() {
        let anna = [AgentName::new("anna").expect("a name")];
        let (here, lines) = Question::ask(&anna, &anna, 0);
        assert_eq!(lines[0], "anna is still alive, in this process, and cannot live on without it.");
        assert_eq!(
            (here.answer("k"), here.answer("y"), here.answer("n")),
            (None, Some(Some(Teammates::Stop)), Some(None))
        );
        let (panes, _) = Question::ask(&anna, &[], 0);
        assert_eq!(panes.answer("k"), Some(Some(Teammates::Keep)));
        assert_eq!(Question::ask(&[], &[], 0).0.answer("k"), None);
        let both = [anna[0].clone(), AgentName::new("ben").expect("a name")];
        let (mixed, lines) = Question::ask(&both, &anna, 0);
        assert_eq!(mixed.answer("k"), Some(Some(Teammates::Keep)));
        assert_eq!(
            lines,
            [
                "ben is still alive.",
                "anna is still alive, in this process, and cannot live on without it.",
                "Leave? y stops all first (so does Ctrl-C), k leaves and keeps ben running, n stays",
            ]
        );
    }
}
