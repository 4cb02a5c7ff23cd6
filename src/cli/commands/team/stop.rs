//! `festoon team stop` and `delete`.
//!
//! A team with a leader is stopped through its members' own runtimes, by a shutdown request from the
//! user, and the leader writes the verdicts. A team without one is stopped by process evidence, while
//! this command holds the leader's lock; one whose roster cannot be read, by what its members say of
//! themselves. Nothing is removed while something lives.

use super::show;
use crate::cli::args::Shared;
use crate::cli::backends::finders;
use crate::cli::error::CliError;
use crate::cli::out::Out;
use crate::cli::setup::Setup;
use crate::cli::teams::row::Row;
use crate::cli::teams::{self, Desk, TeamView, inbox_owner};
use crate::cli::words;
use crate::os::process;
use crate::store::roster::Roster;
use crate::store::{clock, lock, run};
use crate::team::context::{Team, latest};
use crate::team::executor::Grace;
use crate::team::leaderless::{self, LeaderlessEnd};
use crate::team::mailbox::{FileMailbox, Sender};
use crate::team::session;
use crate::wire::error::ExitKind;
use crate::wire::event::EventKind;
use crate::wire::frame::{FrameType, ShutdownRequest};
use crate::wire::ids::{AgentName, USER};
use crate::wire::mail::Draft;
use crate::wire::team::{BackendType, Ended, Member};
use serde_json::json;
use std::time::{Duration, Instant};

/// Between two looks at the roster.
const LOOK: Duration = Duration::from_millis(50);
/// How long a leader may take to write that a member is gone, after it is.
const VERDICT: Duration = Duration::from_secs(5);

/// What became of one member.
enum Outcome {
    Over(Ended),
    Stays(String),
}

/// Ends members.
pub async fn stop(
    setup: &Setup,
    wanted: &str,
    agent: Option<&str>,
    grace: Option<u64>,
) -> Result<Option<ExitKind>, CliError> {
    let view = teams::choose(&setup.paths, Some(wanted))?;
    let agent = agent.map(|agent| inbox_owner(&view, agent)).transpose()?;
    if agent.as_ref().is_some_and(AgentName::is_lead) {
        let where_it_is = view.leader().pid.map_or("it is gone".to_owned(), |pid| format!("pid {pid}"));
        return Err(CliError::usage(
            format!("a leader is ended where it runs ({where_it_is})"),
            format!("end its session; `festoon team stop {}` ends the members", view.name()),
        ));
    }
    let team = session::open_unwatched(&setup.paths, &setup.disk, view.name(), setup.durability())?;
    let Some(roster) = &view.roster else {
        view.warn();
        let outcomes = without_a_roster(setup, &team, agent.as_ref(), grace).await?;
        return report(&setup.shared, &view, agent.as_ref(), &outcomes);
    };
    let living: Vec<Member> = view
        .members()
        .iter()
        .filter(|row| agent.as_ref().is_none_or(|agent| *agent == row.name))
        .filter_map(|row| latest(roster, &row.name))
        .filter(|member| member.ended.is_none())
        .cloned()
        .collect();
    let outcomes = if view.leader_alive {
        through_the_leader(setup, &team, &view, living, grace).await
    } else {
        without_a_leader(setup, &team, &view, living, grace).await?
    };
    report(&setup.shared, &view, agent.as_ref(), &outcomes)
}

fn report(
    shared: &Shared,
    view: &TeamView,
    agent: Option<&AgentName>,
    outcomes: &[(AgentName, Outcome)],
) -> Result<Option<ExitKind>, CliError> {
    let mut out = Out::default();
    let stays = outcomes.iter().any(|(_, outcome)| matches!(outcome, Outcome::Stays(_)));
    let exit = stays.then_some(ExitKind::Failed);
    if shared.json {
        let rows: Vec<_> = outcomes
            .iter()
            .map(|(name, outcome)| match outcome {
                Outcome::Over(ended) => json!({ "team": view.name(), "name": name, "stopped": true,
                    "state": ended.state, "exit": ended.exit, "reason": ended.reason }),
                Outcome::Stays(why) => json!({ "team": view.name(), "name": name, "stopped": false,
                    "state": null, "exit": null, "reason": why }),
            })
            .collect();
        out.json(&rows)?;
        return Ok(exit);
    }
    for (name, outcome) in outcomes {
        out.line(match outcome {
            Outcome::Over(ended) => {
                format!("{name} is {} ({}: {})", ended.state.as_str(), ended.exit, words::line(&ended.reason))
            }
            Outcome::Stays(why) => format!("{name} still runs: {}", words::line(why)),
        })?;
    }
    if outcomes.is_empty() {
        out.line(match agent.and_then(|agent| view.members().iter().find(|row| row.name == *agent)) {
            Some(row) => format!("{} is {} already: {}", row.name, row.state, words::line(&row.evidence)),
            None => format!("team {} has no member that runs", view.name()),
        })?;
    }
    Ok(exit)
}

/// Asks each member's runtime, then ends by force what has a process of its own.
async fn through_the_leader(
    setup: &Setup,
    team: &Team,
    view: &TeamView,
    members: Vec<Member>,
    grace: Option<u64>,
) -> Vec<(AgentName, Outcome)> {
    let shutdown = &setup.loaded.settings.shutdown;
    let polite = grace.map_or(Duration::from_millis(shutdown.polite_ms), Duration::from_secs);
    let force = Duration::from_millis(shutdown.terminate_ms);
    let ends = members.into_iter().map(|member| async move {
        let outcome = match ask(team, &member, polite).await {
            Ok(()) => wait_or_force(setup, team, view, &member, polite, force).await,
            Err(why) => Outcome::Stays(why),
        };
        (member.agent_name, outcome)
    });
    futures_util::future::join_all(ends).await
}

/// A request that the member's runtime grants by itself, also during a hung tool call.
async fn ask(team: &Team, member: &Member, polite: Duration) -> Result<(), String> {
    let request_id = format!("shutdown-{}", &uuid::Uuid::new_v4().simple().to_string()[..8]);
    let reason = "the user stops it";
    let fields = json!({ "requestId": request_id, "by": USER, "reason": reason });
    let request = ShutdownRequest {
        request_id,
        deadline: clock::in_future(polite),
        reason: Some(reason.to_owned()),
        leader_leaves: true,
    };
    let name = &member.agent_name;
    let text = format!("The user ends {name}.");
    let draft = Draft::frame(FrameType::ShutdownRequest, text, &request).map_err(|e| e.to_string())?;
    team.log(EventKind::Shutdown, name, member.incarnation, fields).await;
    let user = FileMailbox::new(team.clone(), AgentName::user(), 1, None);
    user.post(name, draft, Sender::Trusted).await.map(drop).map_err(|e| e.what)
}

async fn wait_or_force(
    setup: &Setup,
    team: &Team,
    view: &TeamView,
    member: &Member,
    polite: Duration,
    force: Duration,
) -> Outcome {
    if let Some(ended) = verdict(team, member, polite).await {
        return Outcome::Over(ended);
    }
    let record = match run::load(&team.paths, &member.agent_name) {
        Ok(record) => record.filter(|record| record.incarnation == member.incarnation),
        Err(error) => return Outcome::Stays(error.to_string()),
    };
    let own = member.backend_type != BackendType::InProcess;
    if let Some(record) = record.filter(|record| own && process::is_alive(&record.process())) {
        for executor in finders(setup, team) {
            let Some(handle) = executor.adopt(member, Some(&record.known)).await else { continue };
            handle.terminate(Grace { interrupt: Duration::ZERO, terminate: force }).await;
            break;
        }
        if let Some(ended) = verdict(team, member, VERDICT).await {
            return Outcome::Over(ended);
        }
        if !process::is_alive(&record.process()) {
            return Outcome::Stays("its process is gone, but its leader has not noted that".to_owned());
        }
    }
    let seconds = polite.as_secs();
    let leader = view.leader().pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    Outcome::Stays(format!("it has not ended within {seconds} s; tell its leader{leader} to stop it"))
}

/// The leader's verdict, once it is written.
async fn verdict(team: &Team, member: &Member, within: Duration) -> Option<Ended> {
    let until = Instant::now() + within;
    loop {
        if let Ok(Some(roster)) = Roster::load(&team.paths) {
            let is_it =
                |m: &&Member| m.agent_name == member.agent_name && m.incarnation == member.incarnation;
            match roster.members.iter().map(|m| &m.known).find(is_it) {
                Some(Member { ended: Some(ended), .. }) => return Some(ended.clone()),
                Some(_) => {}
                None => return None,
            }
        }
        if Instant::now() >= until {
            return None;
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn without_a_leader(
    setup: &Setup,
    team: &Team,
    view: &TeamView,
    members: Vec<Member>,
    grace: Option<u64>,
) -> Result<Vec<(AgentName, Outcome)>, CliError> {
    lead_for_a_moment(view)?;
    let grace = without_asking(setup, grace);
    let executors = finders(setup, team);
    let ends = members.into_iter().map(|member| {
        let executors = &executors;
        async move {
            let outcome = match leaderless::end(team, executors, &member, USER, grace).await {
                Ok(LeaderlessEnd::Over(ended)) => Outcome::Over(ended),
                Ok(LeaderlessEnd::Stays(why)) => Outcome::Stays(why),
                Err(error) => Outcome::Stays(error.to_string()),
            };
            (member.agent_name, outcome)
        }
    });
    Ok(futures_util::future::join_all(ends).await)
}

/// Ends what says of itself that it runs, where the roster cannot be read. Nothing is written: there is nothing
/// to write it in, and nobody resumes such a team.
async fn without_a_roster(
    setup: &Setup,
    team: &Team,
    agent: Option<&AgentName>,
    grace: Option<u64>,
) -> Result<Vec<(AgentName, Outcome)>, CliError> {
    let grace = without_asking(setup, grace);
    let executors = finders(setup, team);
    let members = leaderless::by_records(&team.paths)?;
    let wanted =
        members.into_iter().filter(|(member, _)| agent.is_none_or(|name| *name == member.agent_name));
    let ends = wanted.map(|(member, record)| {
        let executors = &executors;
        async move {
            let end = leaderless::end_process(executors, &member, Some(&record), USER, grace).await;
            let outcome = match end {
                LeaderlessEnd::Over(ended) => Outcome::Over(ended),
                LeaderlessEnd::Stays(why) => Outcome::Stays(why),
            };
            (member.agent_name, outcome)
        }
    });
    Ok(futures_util::future::join_all(ends).await)
}

fn without_asking(setup: &Setup, grace: Option<u64>) -> Grace {
    let default = Duration::from_millis(setup.loaded.settings.shutdown.terminate_ms);
    Grace { interrupt: Duration::ZERO, terminate: grace.map_or(default, Duration::from_secs) }
}

/// Takes the leader's lock until this process ends, so that nobody resumes the team meanwhile.
fn lead_for_a_moment(view: &TeamView) -> Result<(), CliError> {
    let note = format!("festoon team, pid {}\n", std::process::id());
    if lock::hold_for_life(&view.paths.leader_lock(), &note)? {
        return Ok(());
    }
    Err(CliError::new(
        ExitKind::Failed,
        "team_runs",
        format!("team {} has a leader again", view.name()),
        "try again: its members are then ended through it",
    ))
}

/// Removes a team.
pub fn delete(desk: &Desk, shared: &Shared, wanted: &str, force: bool) -> Result<Option<ExitKind>, CliError> {
    let view = teams::choose(&desk.paths, Some(wanted))?;
    let name = view.name().clone();
    let refused =
        |message: String, hint: String| CliError::new(ExitKind::Failed, "team_lives", message, hint);
    if view.leader_alive && !(force && is_elsewhere(view.leader())) {
        let pid = view.leader().pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
        return Err(refused(
            format!("team {name} runs: its leader is alive{pid}; nothing was removed"),
            "end that session first".to_owned(),
        ));
    }
    let alive: Vec<String> = view
        .members()
        .iter()
        .filter(|row| row.lives && !(force && is_elsewhere(row)))
        .map(|row| format!("{} ({})", row.name, row.evidence))
        .collect();
    if !alive.is_empty() {
        let message = format!("team {name} has members that live: {}; nothing was removed", alive.join(", "));
        // Stopping goes by the record, so it cannot help where that is damaged.
        let silent = |row: &&Row| row.lives && row.state == "unknown";
        let pids: Vec<String> = view
            .members()
            .iter()
            .filter(silent)
            .filter_map(|row| row.pid)
            .map(|pid| pid.to_string())
            .collect();
        let hint = if pids.is_empty() {
            format!("`festoon team stop {name}` ends them; --force ignores what cannot be seen from here")
        } else {
            let pids = pids.join(" ");
            format!("what has no readable record is ended with `kill {pids}`; then delete the team again")
        };
        return Err(refused(message, hint));
    }
    lead_for_a_moment(&view)?;
    let held = if force { Vec::new() } else { show::held(&view)? };
    if !held.is_empty() {
        return Err(CliError::new(
            ExitKind::Failed,
            "team_holds_work",
            format!("team {name} holds {}; nothing was removed", held.join("; ")),
            format!("`festoon team resume {name}` goes on with it; --force removes it all the same"),
        ));
    }
    Roster::remove_team(&view.paths)?;
    let mut out = Out::default();
    if shared.json {
        out.json(&json!({ "team": name, "deleted": true }))?;
    } else {
        out.line(format!("team {name} is removed; its transcripts stay (`festoon log list --all`)"))?;
    }
    Ok(None)
}

/// Whether an agent counts as alive only because nobody can look.
fn is_elsewhere(row: &Row) -> bool {
    row.lives && row.pid.is_none()
}
