//! What was refused in a run, in whatever process: for its result, its warnings and its exit status.

use super::compose::Session;
use super::error::CliError;
use crate::agent::tally::Denial;
use crate::store::asks;
use crate::team::bubble::NOBODY;
use crate::team::denials;
use crate::wire::time::Timestamp;

/// All of it.
#[derive(Debug, Default)]
pub struct RunRefusals {
    /// Denied calls, each once: those of this process first.
    pub denials: Vec<Denial>,
    /// Decisions that were ignored, a sentence each.
    pub forged: Vec<String>,
    /// Whether somebody could have said yes, and nobody was there.
    pub nobody: bool,
}

/// Finds it. A resumed session keeps the asks and the log of earlier runs, so only what is newer than `since`
/// counts. What this process knows is there also after an error.
pub async fn of_run(session: &Session, since: &Timestamp) -> (RunRefusals, Option<CliError>) {
    let mut denials = session.runtime.tally.denials();
    let mut nobody = denials.iter().any(|denial| denial.nobody_to_ask);
    let (paths, begin) = (session.team.paths.clone(), since.clone());
    let dir = paths.asks_dir();
    let look = move || {
        let unanswered = asks::list(&paths)?.into_iter().any(|(ask, ..)| {
            ask.created_at >= begin && ask.closed.is_some_and(|closed| closed.reason == NOBODY)
        });
        Ok((unanswered, denials::since(&paths, &begin)?))
    };
    let mut forged = Vec::new();
    let mut trouble = None;
    match session.team.disk.run(&dir, look).await {
        Ok((unanswered, elsewhere)) => {
            nobody |= unanswered || elsewhere.denials.iter().any(|denial| denial.nobody_to_ask);
            forged = elsewhere.forged;
            for denial in elsewhere.denials {
                let same = |d: &Denial| d.agent_id == denial.agent_id && d.tool_use_id == denial.tool_use_id;
                if !denials.iter().any(same) {
                    denials.push(denial);
                }
            }
        }
        Err(error) => trouble = Some(error.into()),
    }
    (RunRefusals { denials, forged, nobody }, trouble)
}
