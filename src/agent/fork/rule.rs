//! Which calls fork, in this session. A pure function of setting and session.

use super::FORK;
use crate::agent::definitions::COORDINATOR;
use crate::wire::definition::AgentDefinition;
use crate::wire::settings::ForkSetting;

/// What decides beside the setting `fork`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    /// A person sits at it.
    pub interactive: bool,
    /// Background work is not turned off.
    pub background: bool,
}

/// The rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forks {
    /// A call forks when it names the type.
    Explicit,
    /// Also when it names none; and every spawn runs in the background.
    Implicit,
    /// None does; why, for a model.
    Refused(&'static str),
}

impl Forks {
    /// The rule of a session.
    pub fn new(setting: ForkSetting, session: Session) -> Self {
        match setting {
            ForkSetting::Off => Self::Refused(
                "forks are turned off by the setting `fork`: start an agent of another type and give it all it needs",
            ),
            _ if !session.background => Self::Refused(
                "a fork runs in the background, and background work is turned off by the setting `background`: start \
                 an agent of another type and give it all it needs",
            ),
            ForkSetting::Implicit if session.interactive => Self::Implicit,
            ForkSetting::Implicit | ForkSetting::Explicit => Self::Explicit,
        }
    }

    /// The rule for one agent: a coordinator does not fork, since its forks could do no more than it.
    pub fn of(self, agent: &AgentDefinition) -> Self {
        if agent.name == COORDINATOR {
            return Self::Refused(
                "there are no forks in coordinator mode: start an agent of another type and give it all it needs",
            );
        }
        self
    }

    /// Whether a call with this type forks.
    pub fn takes(self, subagent_type: Option<&str>) -> bool {
        match subagent_type {
            Some(kind) => kind == FORK,
            None => self == Self::Implicit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_forks_and_what_does_not() {
        let all = Session { interactive: true, background: true };
        use ForkSetting::{Explicit, Implicit, Off};
        let why = |forks| match forks {
            Forks::Refused(why) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(Forks::new(Explicit, all), Forks::Explicit);
        assert_eq!(Forks::new(Implicit, all), Forks::Implicit);
        assert_eq!(Forks::new(Implicit, Session { interactive: false, ..all }), Forks::Explicit);
        assert!(why(Forks::new(Off, all)).contains("`fork`"));
        assert!(why(Forks::new(Implicit, Session { background: false, ..all })).contains("`background`"));
        let coordinator = crate::agent::definitions::coordinator();
        assert!(why(Forks::Explicit.of(&coordinator)).contains("coordinator"));
        assert_eq!(Forks::Explicit.of(&crate::agent::definitions::main_agent()), Forks::Explicit);
        let kinds = [None, Some("fork"), Some("Explore")];
        assert_eq!(kinds.map(|kind| Forks::Explicit.takes(kind)), [false, true, false]);
        assert_eq!(kinds.map(|kind| Forks::Implicit.takes(kind)), [true, true, false]);
        assert_eq!(kinds.map(|kind| Forks::Refused("").takes(kind)), [false, true, false]);
    }
}
