//! The asks of the demo: shown with all they would do, answered by a key, from elsewhere, or by time.
//!
//! Owns the keyboard while it is there. Promises that an ask which nobody answers in time gets the
//! demo's own no, as a decision like any other, so that nobody waits for ever.

use super::program;
use crate::agent::context::spawn_in;
use crate::cli::ask_dialog::{Place, dialog, who};
use crate::cli::compose::Session;
use crate::cli::screen::Lines;
use crate::cli::text::DEFAULT_COLUMNS;
use crate::cli::view::LineSink;
use crate::os::terminal::{self, Modes};
use crate::store::asks;
use crate::store::error::StoreError;
use crate::team::answer::{Answered, Word, answer};
use crate::team::context::Team;
use crate::team::wake::Topic;
use crate::wire::ask::{Ask, AskStatus};
use crate::wire::ids::AskId;
use crate::wire::permission::Decision;
use std::io::Read;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What is typed, key by key. Must outlive whoever draws on the terminal, since it puts the modes back
/// as they were before both.
pub(super) struct Keyboard {
    modes: Modes,
    keys: Option<mpsc::UnboundedReceiver<char>>,
}

impl Keyboard {
    /// `None` where there is no keyboard to read from.
    pub(super) fn open() -> Option<Self> {
        let modes = Modes::remember()?;
        modes.single_keys().ok()?;
        let (sender, keys) = mpsc::unbounded_channel();
        // It ends with the process: a read cannot be called back.
        let reading = std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
            let mut stdin = std::io::stdin().lock();
            let mut byte = [0];
            while matches!(stdin.read(&mut byte), Ok(1)) {
                if sender.send(char::from(byte[0])).is_err() {
                    return;
                }
            }
        });
        Some(Self { modes, keys: reading.ok().map(|_| keys) })
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        // A terminal that is gone has no modes.
        let _ = self.modes.restore();
    }
}

/// Keeps the queue of asks.
pub(super) struct Keeper {
    task: JoinHandle<usize>,
    end: CancellationToken,
}

impl Keeper {
    /// Starts with the session's first ask. After `limit` the demo says no; `None`: it waits.
    pub(super) fn start(
        session: &Session,
        lines: Lines,
        keyboard: Option<&mut Keyboard>,
        limit: Option<Duration>,
    ) -> Self {
        let end = CancellationToken::new();
        let keys = keyboard.and_then(|keyboard| keyboard.keys.take());
        let team = session.team.clone();
        let queue = Queue { team, lines, limit, keys, open: Vec::new(), unanswered: 0 };
        let context = &session.lead.agent.core().context;
        let task = spawn_in(context, queue.keep(end.clone()));
        Self { task, end }
    }

    /// Ends; says how many asks the demo had to answer itself.
    pub(super) async fn finish(self) -> usize {
        self.end.cancel();
        // A panic in it has been reported by itself.
        self.task.await.unwrap_or_default()
    }
}

/// Between an ask and the word that somebody still waits: other lines have moved it up by then.
const REMINDER: Duration = Duration::from_secs(4);

/// An open ask.
struct Waiting {
    id: AskId,
    who: String,
    /// When the demo says no.
    due: Option<Instant>,
    /// When the person is reminded.
    remind: Option<Instant>,
}

struct Queue {
    team: Team,
    lines: Lines,
    limit: Option<Duration>,
    keys: Option<mpsc::UnboundedReceiver<char>>,
    /// In the order in which they came.
    open: Vec<Waiting>,
    unanswered: usize,
}

impl Queue {
    async fn keep(mut self, end: CancellationToken) -> usize {
        let mut signal = self.team.hub.signal(Topic::Asks);
        loop {
            if let Err(error) = self.look().await {
                self.lines.line(format!("the asks could not be read: {error}"));
            }
            let due = self.open.iter().flat_map(|ask| [ask.due, ask.remind]).flatten().min();
            tokio::select! {
                biased;
                () = end.cancelled() => return self.unanswered,
                () = async { match due { Some(at) => tokio::time::sleep_until(at).await, None => std::future::pending().await } } => {
                    self.remind();
                    self.say_no().await;
                }
                key = next(&mut self.keys) => self.key(key).await,
                () = signal.changed() => {}
            }
        }
    }

    /// Shows what is new, forgets what has an answer.
    async fn look(&mut self) -> Result<(), StoreError> {
        let paths = self.team.paths.clone();
        let dir = paths.asks_dir();
        let all = self.team.disk.run(&dir, move || asks::list(&paths)).await?;
        let open: Vec<Ask> =
            all.into_iter().filter(|(_, s, _)| *s == AskStatus::Open).map(|(a, ..)| a).collect();
        self.open.retain(|known| open.iter().any(|ask| ask.id == known.id));
        for ask in open {
            if self.open.iter().all(|known| known.id != ask.id) {
                self.show(&ask).await?;
                let now = Instant::now();
                self.open.push(Waiting {
                    who: who(&ask),
                    id: ask.id,
                    due: self.limit.map(|limit| now + limit),
                    remind: self.keys.as_ref().map(|_| now + REMINDER),
                });
            }
        }
        Ok(())
    }

    async fn show(&self, ask: &Ask) -> Result<(), StoreError> {
        let roster = self.team.roster().await?;
        let color = roster.members.iter().find(|m| m.agent_id == ask.agent_id).map(|m| m.color.clone());
        let columns = terminal::size().map_or(DEFAULT_COLUMNS, |size| size.columns);
        let here = Place { number: 1, of: 1 };
        // One answer for one call: nothing that would be remembered in the directory.
        let once = Ask { suggestions: Vec::new(), ..ask.clone() };
        let mut lines = dialog(&once, color.as_deref(), here, columns);
        lines.pop();
        let elsewhere = format!("{} ask approve {}", program(), ask.id);
        match (&self.keys, self.limit) {
            (Some(_), _) => {
                lines.push("└ press y for yes, n for no, or answer from another terminal:".to_owned());
            }
            (None, Some(limit)) => {
                lines.push(format!("└ open for {} s; answer from any terminal:", limit.as_secs()));
            }
            (None, None) => lines.push("└ answer from any terminal:".to_owned()),
        }
        lines.push(format!("    {elsewhere}"));
        lines.into_iter().for_each(|line| self.lines.line(line));
        Ok(())
    }

    /// A key answers what is asked first.
    async fn key(&mut self, key: char) {
        let decision = match key {
            'y' | 'Y' => Decision::Allow,
            'n' | 'N' => Decision::Deny,
            _ => return,
        };
        if let Some(ask) = self.open.first() {
            self.decide(&ask.id, decision, "user", None).await;
        }
    }

    /// Says who still waits, once.
    fn remind(&mut self) {
        let now = Instant::now();
        for ask in self.open.iter_mut().filter(|ask| ask.remind.is_some_and(|at| at <= now)) {
            ask.remind = None;
            self.lines.line(format!("{} waits for you: y or n", ask.who));
        }
    }

    /// Answers what is due.
    async fn say_no(&mut self) {
        let now = Instant::now();
        let is_due = |ask: &&Waiting| ask.due.is_some_and(|at| at <= now);
        let due: Vec<AskId> = self.open.iter().filter(is_due).map(|ask| ask.id.clone()).collect();
        let seconds = self.limit.unwrap_or_default().as_secs();
        for id in due {
            let note = format!("nobody answered within {seconds} s");
            if self.decide(&id, Decision::Deny, "demo", Some(note)).await {
                self.unanswered += 1;
            }
            self.open.retain(|known| known.id != id);
        }
    }

    /// Says whether this answer counts.
    async fn decide(&self, id: &AskId, decision: Decision, by: &str, note: Option<String>) -> bool {
        let word = Word::once(decision, note, by);
        match answer(&self.team, id, word).await {
            Ok(Answered::Counts { warnings, .. }) => {
                warnings.into_iter().for_each(|warning| self.lines.line(warning));
                true
            }
            // Somebody was faster, or it takes more than a yes or a no.
            Ok(Answered::TooLate(_) | Answered::Unfit(_) | Answered::Unknown) => false,
            Err(error) => {
                self.lines.line(format!("the ask could not be answered: {error}"));
                false
            }
        }
    }
}

async fn next(keys: &mut Option<mpsc::UnboundedReceiver<char>>) -> char {
    match keys {
        Some(receiver) => match receiver.recv().await {
            Some(key) => key,
            // The terminal is gone: nothing is typed any more.
            None => {
                *keys = None;
                std::future::pending().await
            }
        },
        None => std::future::pending().await,
    }
}
