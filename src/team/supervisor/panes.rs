//! Panes out of sight and back, as the person says; the roster remembers which are hidden.

use super::{Charge, Order, Supervisor, Work};
use crate::agent::context::spawn_in;
use crate::store::roster::Roster;
use crate::team::wake::Topic;
use crate::wire::ids::{AgentName, RunId};
use tokio::sync::oneshot;

/// What a person wants of a pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// Out of sight; its teammate goes on.
    Hidden,
    /// Back where teammates stand.
    Shown,
}

/// A pane that was moved.
pub(super) struct Moved {
    name: AgentName,
    run_id: RunId,
    pane: String,
    sight: Sight,
    done: oneshot::Sender<Seen>,
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
        let (run_id, orders) = (handle.record().run_id, self.orders.clone());
        // tmux may take its time, and nobody else waits for it.
        drop(spawn_in(&self.parts.lead, async move {
            let moved = match sight {
                Sight::Hidden => handle.hide().await,
                Sight::Shown => handle.show().await,
            };
            let Some(pane) = handle.record().pane_id.filter(|_| moved) else {
                let _ = done.send(Err(format!("{name} has no pane that can be moved")));
                return;
            };
            // A closed channel means that the leader is ending.
            let _ = orders.send(Order::PaneMoved(Moved { name, run_id, pane, sight, done }));
        }));
    }

    /// Notes it; a pane whose teammate has ended meanwhile is gone, and not hidden.
    pub(super) async fn pane_moved(&mut self, moved: Moved) {
        let Moved { name, run_id, pane, sight, done } = moved;
        let lives = self.is_current(&name, &run_id) && self.members.get(&name).is_some_and(Charge::is_there);
        let is_hidden = lives && sight == Sight::Hidden;
        let team = &self.parts.team;
        let paths = team.paths.clone();
        let file = paths.team_file();
        let noted = team.disk.run(&file, move || {
            Roster::update(&paths, |team| {
                team.hidden_pane_ids.retain(|hidden| *hidden != pane);
                if is_hidden {
                    team.hidden_pane_ids.push(pane);
                }
                Ok(())
            })
        });
        let seen = match noted.await {
            Err(error) => Err(format!("the pane of {name} was moved, but not noted: {error}")),
            Ok(()) if !lives => Err(format!("{name} has ended")),
            Ok(()) if is_hidden => Ok(format!("{name} is out of sight; /team show {name}")),
            Ok(()) => Ok(format!("{name} is in sight")),
        };
        team.hub.poke(Topic::Team);
        let _ = done.send(seen);
    }
}
