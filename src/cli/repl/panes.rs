//! `/team hide NAME` and `/team show NAME`: teammates' panes out of sight and back.

use crate::store::slug;
use crate::team::supervisor::{Sight, Supervisor};
use crate::wire::ids::AgentName;

/// What follows `/team`, when it is about panes.
pub fn order(rest: &str) -> Option<(Sight, AgentName)> {
    let (word, name) = rest.trim().split_once(char::is_whitespace)?;
    let sight = match word {
        "hide" => Sight::Hidden,
        "show" => Sight::Shown,
        _ => return None,
    };
    let name = name.trim().trim_start_matches('@');
    Some((sight, slug::agent_name(name).ok()?))
}

/// Carries it out; a sentence, or why not.
pub async fn obey(rest: &str, supervisor: &Supervisor) -> Result<String, String> {
    match order(rest) {
        Some((sight, name)) => supervisor.pane(&name, sight).await,
        None => Err("/team, /team hide NAME, or /team show NAME".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_a_word_and_a_name() {
        let read = |rest| order(rest).map(|(sight, name)| (sight, name.to_string()));
        assert_eq!(read("hide anna"), Some((Sight::Hidden, "anna".to_owned())));
        assert_eq!(read(" show  @Anna "), Some((Sight::Shown, "anna".to_owned())));
        assert_eq!(["hide", "", "anna", "drop anna", "hide ../x"].map(read), [None, None, None, None, None]);
    }
}
