//! The session's team gets a name while nobody has used it, or is removed for a fresh one (contract §16).
//!
//! Done by the one loop that owns the members, so that nobody joins meanwhile.

use super::{Order, Supervisor, Work};
use crate::store::error::StoreError;
use crate::store::roster::Roster;
use crate::store::{asks, exchange, slug};
use crate::team::session;
use crate::wire::ask::AskStatus;
use crate::wire::event::EventKind;
use crate::wire::ids::{AgentId, AgentName, TeamName};
use serde_json::json;
use tokio::sync::oneshot;

/// What a team is to be called.
pub(super) struct NewName {
    pub(super) display_name: String,
    pub(super) description: Option<String>,
}

/// What came of it: the team's name, or why not, in words for the model.
pub(super) type Named = Result<TeamName, String>;

impl Supervisor {
    /// Names the session's team, as long as nobody has used it; its name comes back.
    pub async fn name_team(&self, name: &str, description: Option<&str>) -> Result<TeamName, String> {
        let (done, named) = oneshot::channel();
        let new =
            NewName { display_name: name.trim().to_owned(), description: description.map(str::to_owned) };
        self.order(Order::Name(new, done));
        named.await.unwrap_or_else(|_| Err("The leader is ending; nothing was changed.".to_owned()))
    }

    /// Removes the team, in which nobody may live, for a fresh one; the name of that comes back.
    pub async fn delete_team(&self) -> Result<TeamName, String> {
        let (done, deleted) = oneshot::channel();
        self.order(Order::Delete(done));
        deleted.await.unwrap_or_else(|_| Err("The leader is ending; nothing was removed.".to_owned()))
    }
}

impl Work {
    pub(super) async fn name_team(&mut self, new: NewName) -> Named {
        let team = self.parts.team.clone();
        let name = slug::team_name(&new.display_name).map_err(|e| format!("{e}. Nothing was changed."))?;
        if let Some(why) = self.used().await.map_err(|e| e.to_string())? {
            return Err(format!(
                "Your team is {} and cannot become {name} any more: {why}. Go on with the team you have; when nobody \
                 lives in it, TeamDelete removes it for a new one.",
                team.name()
            ));
        }
        let (paths, to, old) = (team.paths.clone(), name.clone(), team.name());
        let file = paths.team_file();
        let renamed = team.disk.run(&file, move || {
            exchange::rename(&paths, &to, |file| {
                file.display_name = new.display_name;
                if let Some(description) = new.description {
                    file.description = description;
                }
            })
        });
        match renamed.await {
            Ok(()) => {}
            Err(StoreError::Exists { .. }) => {
                return Err(format!(
                    "There is another team called {name}. Choose another name; nothing was changed."
                ));
            }
            Err(error) => return Err(format!("The team could not be named: {error}.")),
        }
        let (paths, file) = (team.paths.clone(), team.paths.ledger());
        let old_lead = AgentId::member(&AgentName::team_lead(), &old);
        let noted = team.disk.attempt(&file, move || exchange::note_lead(&paths, &old_lead)).await;
        self.moved(&format!("the team {old} is called {name} now")).await;
        if let Err(error) = noted {
            self.notice(&format!("the leader could not be noted under its new id: {error}")).await;
        }
        Ok(name)
    }

    /// Why the team is not as it was made: members, asks, mail, or work that will end in mail.
    async fn used(&self) -> Result<Option<String>, StoreError> {
        if self.parts.background.all_at_work() > 0 {
            return Ok(Some("background agents are at work".to_owned()));
        }
        let (paths, inbox) = (self.parts.team.paths.clone(), self.parts.team.inbox(&AgentName::team_lead()));
        let file = paths.team_file();
        let look = move || {
            let members = Roster::load(&paths)?.map(|roster| roster.known.members).unwrap_or_default();
            if !members.is_empty() {
                let names: Vec<&str> = members.iter().map(|m| m.display_name.as_str()).collect();
                return Ok(Some(format!("it has members ({})", names.join(", "))));
            }
            if !asks::list(&paths)?.is_empty() {
                return Ok(Some("something was asked in it".to_owned()));
            }
            Ok((inbox.counts()?.last_seq > 0).then(|| "there is mail in it".to_owned()))
        };
        self.parts.team.disk.run(&file, look).await
    }

    pub(super) async fn delete_team(&mut self) -> Named {
        if let Some(why) = self.lives().await.map_err(|e| e.to_string())? {
            return Err(format!("The team {} was not removed: {why}", self.parts.team.name()));
        }
        let team = self.parts.team.clone();
        let old = team.name();
        let (paths, durability) = (team.paths.clone(), team.durability);
        let file = paths.team_file();
        let session = self.parts.lead.session.clone();
        let replaced = team.disk.run(&file, move || {
            let fresh = session::team_file(session::TeamTitle::Session, &session)?;
            exchange::replace(&paths, &fresh, durability)
        });
        let left = replaced.await.map_err(|e| format!("The team {old} could not be removed: {e}."))?;
        self.members.clear();
        let dir = left.dir();
        let removed = team.disk.run(&dir, move || Roster::remove_team(&left)).await;
        self.moved(&format!("the team {old} was removed")).await;
        if let Err(error) = removed {
            let rest = format!("files of the team {old} are left, `festoon team delete {old}` removes them");
            self.notice(&format!("{rest}: {error}")).await;
        }
        Ok(team.name())
    }

    /// Who or what would lose something, and what to do about it.
    async fn lives(&self) -> Result<Option<String>, StoreError> {
        let mut living: Vec<&str> =
            self.members.iter().filter(|(_, c)| c.is_there()).map(|(name, _)| name.as_str()).collect();
        living.sort_unstable();
        if !living.is_empty() {
            return Ok(Some(format!(
                "{} live in it. Ask each to shut down with SendMessage and a shutdown_request, and call again when \
                 you were told of their end.",
                living.join(", ")
            )));
        }
        if self.parts.background.all_at_work() > 0 {
            return Ok(Some(
                "background agents are at work, and their reports are mail. Call again when they have ended."
                    .to_owned(),
            ));
        }
        let (paths, inbox) = (self.parts.team.paths.clone(), self.parts.team.inbox(&AgentName::team_lead()));
        let file = paths.team_file();
        let look = move || {
            if asks::list(&paths)?.iter().any(|(_, status, _)| *status == AskStatus::Open) {
                return Ok(Some("an ask is open. Call again when it was answered.".to_owned()));
            }
            let waits = inbox.counts()?.waiting > 0;
            Ok(waits
                .then(|| "mail waits for you. It comes with the next message; call again then.".to_owned()))
        };
        self.parts.team.disk.run(&file, look).await
    }

    /// Everything that knows the team by its name or place learns the new one.
    async fn moved(&self, reason: &str) {
        let team = &self.parts.team;
        team.label.set(team.name());
        team.hub.follow(&team.paths);
        self.notice(reason).await;
    }

    async fn notice(&self, reason: &str) {
        let fields = json!({ "reason": reason });
        self.parts.team.log(EventKind::Notice, &AgentName::team_lead(), 1, fields).await;
    }
}
