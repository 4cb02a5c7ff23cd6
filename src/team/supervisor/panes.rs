//! Panes out of sight and back, as the person says; the roster remembers which are hidden.

use super::{Order, Supervisor, Work};
use crate::agent::context::spawn_in;
use crate::store::roster::Roster;
use crate::team::wake::Topic;
use crate::wire::ids::AgentName;
use tokio::sync::oneshot;

/// What a person wants of a pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// Out of sight; its teammate goes on.
    Hidden,
    /// Back where teammates stand.
    Shown,
}

/// How that went: a sentence, or why not.
pub(super) type Seen = Result<String, String>;

impl Supervisor {
    /// Hides or shows the pane of a living teammate.
    pub async fn pane(&self, name: &AgentName, sight: Sight) -> Result<String, String> {
        let (done, seen) = oneshot::channel();
        self.order(Order::Pane { name: name.clone(), sight, done });
        seen.await.unwrap_or_else(|_| Err("the leader is ending".to_owned()))
    }
}

impl Work {
    pub(super) fn pane(&self, name: AgentName, sight: Sight, done: oneshot::Sender<Seen>) {
        let living = self.members.get(&name).filter(|charge| !charge.life.is_over());
        let Some(handle) = living.and_then(|charge| charge.handle.clone()) else {
            // The asker may be gone, here and below.
            let _ = done.send(Err(format!("there is no teammate {name} that lives")));
            return;
        };
        let team = self.parts.team.clone();
        // tmux may take its time, and nobody else waits for it.
        drop(spawn_in(&self.parts.lead, async move {
            let moved = match sight {
                Sight::Hidden => handle.hide().await,
                Sight::Shown => handle.show().await,
            };
            let pane = handle.record().pane_id.filter(|_| moved);
            let Some(pane) = pane else {
                let _ = done.send(Err(format!("{name} has no pane that can be moved")));
                return;
            };
            let paths = team.paths.clone();
            let file = paths.team_file();
            let noted = team.disk.run(&file, move || {
                Roster::update(&paths, |team| {
                    team.hidden_pane_ids.retain(|hidden| *hidden != pane);
                    if sight == Sight::Hidden {
                        team.hidden_pane_ids.push(pane);
                    }
                    Ok(())
                })
            });
            let seen = match noted.await {
                Ok(()) if sight == Sight::Hidden => Ok(format!("{name} is out of sight; /team show {name}")),
                Ok(()) => Ok(format!("{name} is in sight")),
                Err(error) => Err(format!("the pane of {name} was moved, but not noted: {error}")),
            };
            team.hub.poke(Topic::Team);
            let _ = done.send(seen);
        }));
    }
}
