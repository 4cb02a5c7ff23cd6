//! Any order of sends, claims, acknowledgements and deaths: each message is shown once, none is lost.

use super::super::*;
use super::{put, text};
use crate::store::tests::team::{Team, message};
use crate::wire::limits::{INBOX_BYTES, INBOX_KEPT_READ};
use proptest::prelude::*;
use std::collections::HashSet;

#[derive(Debug, Clone)]
enum Step {
    /// One of three senders; a long text now and then.
    Send(u8, bool),
    /// The same message again, by a sender that did not live to know.
    SendAgain,
    /// Another program appends an entry, in its own layout.
    Foreign(bool),
    /// The reader claims and records.
    Claim(usize),
    /// The reader acknowledges what it recorded since.
    Ack,
    /// The reader dies: what it recorded stays, what it wanted to acknowledge is forgotten.
    ReaderDies,
    /// A writer dies after the archive has the lines that the inbox still has.
    DieAfterArchive,
    /// A writer dies after the rename, before the stamp.
    DieBeforeStamp,
    /// A writer dies in its temporary file.
    DieInTemp,
    /// Somebody removes the lock file while nobody holds it, and the stamp with it.
    LoseLock,
    /// Something is written behind the array.
    Damage,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..3_u8, prop::bool::weighted(0.1)).prop_map(|(who, long)| Step::Send(who, long)),
        1 => Just(Step::SendAgain),
        1 => any::<bool>().prop_map(Step::Foreign),
        5 => (1..30_usize).prop_map(Step::Claim),
        4 => Just(Step::Ack),
        1 => Just(Step::ReaderDies),
        1 => Just(Step::DieAfterArchive),
        1 => Just(Step::DieBeforeStamp),
        1 => Just(Step::DieInTemp),
        1 => Just(Step::LoseLock),
        1 => Just(Step::Damage),
    ];
    prop::collection::vec(step, 1..100)
}

struct World {
    inbox: Inbox,
    /// Texts of what was stored, which are all different.
    sent: Vec<String>,
    last: Option<Message>,
    /// The reader's transcript.
    shown: Vec<String>,
    known: HashSet<MessageId>,
    pending: Vec<MessageId>,
    seqs: HashSet<u64>,
}

impl World {
    fn send(&mut self, who: u8, long: bool) {
        let mut text = format!("{who}:{:05}", self.sent.len());
        if long {
            text.push_str(&"x".repeat(20_000));
        }
        let message = message(&format!("sender-{who}"), &text);
        let receipt = self.inbox.send(message.clone()).expect("sends");
        assert!(self.seqs.insert(receipt.seq), "position {} twice", receipt.seq);
        self.sent.push(text);
        self.last = Some(Message { id: Some(receipt.id), ..message });
    }

    fn claim(&mut self, max: usize) {
        for claimed in self.inbox.claim(1, max).expect("claims").messages {
            if self.known.insert(claimed.id.clone()) {
                self.shown.push(claimed.message.text);
            }
            self.pending.push(claimed.id);
        }
    }

    fn ack(&mut self) {
        self.inbox.ack(&std::mem::take(&mut self.pending)).expect("acknowledges");
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Send(who, long) => self.send(*who, *long),
            Step::SendAgain => {
                let waits =
                    |m: &Message| text(&self.inbox).contains(m.id.as_ref().map_or("", MessageId::as_str));
                if let Some(message) = self.last.clone().filter(waits) {
                    self.inbox.send(message).expect("sends");
                }
            }
            Step::Foreign(pretty) => {
                let mut all: Vec<Value> = serde_json::from_str(&text(&self.inbox)).unwrap_or_default();
                if all.is_empty() && !text(&self.inbox).starts_with("[\n]") {
                    return; // damaged just now: a careful program leaves it alone
                }
                let line = format!("9:{:05}", self.sent.len());
                all.push(serde_json::json!({"from": "x", "text": line, "timestamp": "t", "read": false}));
                let written =
                    if *pretty { serde_json::to_string_pretty(&all) } else { serde_json::to_string(&all) };
                put(&self.inbox, &written.expect("writes"));
                self.sent.push(line);
            }
            Step::Claim(max) => self.claim(*max),
            Step::Ack => self.ack(),
            Step::ReaderDies => self.pending.clear(),
            Step::DieAfterArchive => {
                let pending: HashSet<MessageId> = self.pending.drain(..).collect();
                let half = |held: &Held<'_>| {
                    let mut items = held.load()?.items;
                    for item in &mut items {
                        if item.id().is_some_and(|id| pending.contains(id)) {
                            item.set_read();
                        }
                    }
                    let old = Held::take_old(&mut items, INBOX_BYTES);
                    held.archive(&old, &items)
                };
                self.inbox.locked(Patience::Once, half).expect("half done").expect("free");
            }
            Step::DieBeforeStamp => {
                let stamp = std::fs::read(&self.inbox.0.lock).unwrap_or_default();
                self.send(0, false);
                std::fs::write(&self.inbox.0.lock, stamp).expect("writes");
            }
            Step::DieInTemp => std::fs::write(&self.inbox.0.temp, "[\n{\"from\":").expect("writes"),
            Step::LoseLock => drop(std::fs::remove_file(&self.inbox.0.lock)),
            Step::Damage => {
                let damaged = format!("{}{{\"from\":\"nobody", text(&self.inbox));
                put(&self.inbox, &damaged);
            }
        }
    }
}

/// Takes the steps, then reads until nothing waits, and compares.
fn check(steps: &[Step]) -> Result<(), TestCaseError> {
    let team = Team::new();
    let inbox = team.inbox("anna");
    let mut world = World {
        inbox: inbox.clone(),
        sent: Vec::new(),
        last: None,
        shown: Vec::new(),
        known: HashSet::new(),
        pending: Vec::new(),
        seqs: HashSet::new(),
    };
    for step in steps {
        world.take(step);
    }
    while inbox.counts().map_or(true, |counts| counts.waiting > 0) {
        world.claim(50);
        world.ack();
    }
    let mut shown = world.shown.clone();
    shown.sort();
    let mut sent = world.sent.clone();
    sent.sort();
    prop_assert_eq!(shown, sent);
    // Peers by arrival: each sender's messages in the order it sent them.
    for who in ["0:", "1:", "2:"] {
        let of = |all: &[String]| all.iter().filter(|t| t.starts_with(who)).cloned().collect::<Vec<_>>();
        prop_assert_eq!(of(&world.shown), of(&world.sent));
    }
    let kept = inbox.messages().expect("reads");
    prop_assert!(kept.len() <= INBOX_KEPT_READ);
    let mut ids: Vec<MessageId> = kept.into_iter().filter_map(|m| m.known.id).collect();
    ids.extend(inbox.archive().expect("reads").filter_map(|m| m.known.id));
    let all = ids.len();
    prop_assert_eq!(all, world.sent.len(), "the file and the archive have all");
    prop_assert_eq!(ids.into_iter().collect::<HashSet<_>>().len(), all, "and each once");
    Ok(())
}

proptest! {
    // Found cases become tests of their own, below.
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_message_is_shown_once(steps in steps()) {
        check(&steps)?;
    }
}

/// What the property found before it held: two deaths, or a death and damage, in a row.
#[test]
fn two_faults_in_a_row_archive_nothing_twice() {
    use Step::{Ack, Claim, Damage, DieAfterArchive, Foreign, LoseLock, Send};
    let sends = |n: usize| std::iter::repeat_n(Send(0, false), n);
    let damaged = sends(23).chain([Claim(23), DieAfterArchive, Damage]);
    let without_a_stamp =
        sends(22).chain([Claim(22), LoseLock, DieAfterArchive, Foreign(false), Claim(1), Ack]);
    let in_part =
        sends(19).chain([Claim(19), Ack]).chain(sends(3)).chain([Claim(3), DieAfterArchive, Claim(2), Ack]);
    for steps in [damaged.collect::<Vec<_>>(), without_a_stamp.collect(), in_part.collect()] {
        check(&steps).unwrap_or_else(|e| panic!("{e}: {steps:?}"));
    }
}
