//! Taking mail out of an inbox to read it, and saying that it was read.
//!
//! Owns the order of delivery and the putting in order of what others wrote. Promises that claiming
//! changes nothing about who has read what: a claimed message comes again until it is acknowledged.

use super::super::clock;
use super::super::error::StoreError;
use super::super::lock::Patience;
use super::entries::Item;
use super::held::{Held, Loaded, is_for};
use super::{Claim, Inbox, InboxNotice, log_notices};
use crate::wire::frame::FrameType;
use crate::wire::ids::{MessageId, TEAM_LEAD, USER};
use crate::wire::limits::INBOX_BYTES;
use crate::wire::mail::{Claimed, Message, Origin};
use serde_json::json;
use std::collections::HashSet;

pub(super) fn claim(
    inbox: &Inbox,
    incarnation: u32,
    max: usize,
    patience: Patience,
) -> Result<Option<Claim>, StoreError> {
    inbox.locked(patience, |held| {
        if let Some((_, Some(stamp))) = held.read()?
            && stamp.tally.waiting == 0
            && stamp.tally.odd == 0
        {
            return Ok(Claim::default());
        }
        let mut loaded = held.load()?;
        put_in_order(held, &mut loaded, Some(incarnation))?;
        let unread = loaded.items.iter().filter_map(Item::unread).filter(|m| is_for(m, incarnation));
        let mut messages = claimed(inbox, unread);
        messages.truncate(max);
        Ok(Claim { messages, notices: loaded.notices })
    })
}

pub(super) fn repair(inbox: &Inbox, patience: Patience) -> Result<Option<Vec<InboxNotice>>, StoreError> {
    inbox.locked(patience, |held| {
        let mut loaded = held.load()?;
        put_in_order(held, &mut loaded, None)?;
        held.store(&loaded.items, loaded.seq)?; // in our layout, whoever wrote it
        Ok(loaded.notices)
    })
}

pub(super) fn ack(inbox: &Inbox, ids: &[MessageId], patience: Patience) -> Result<Option<()>, StoreError> {
    let ids: HashSet<&MessageId> = ids.iter().collect();
    inbox.locked(patience, |held| {
        let mut loaded = held.load()?;
        log_notices(&inbox.0, &loaded.notices);
        let mut changed = false;
        for item in &mut loaded.items {
            if item.unread().is_some() && item.id().is_some_and(|id| ids.contains(id)) {
                item.set_read();
                changed = true;
            }
        }
        if changed {
            let old = Held::take_old(&mut loaded.items, INBOX_BYTES);
            held.archive(&old, &loaded.items)?;
            held.store(&loaded.items, loaded.seq)?;
        }
        Ok(())
    })
}

/// Gives ids and positions to entries of other programs, sets aside what is no message or comes
/// twice, and archives what was meant for an ended incarnation.
fn put_in_order(held: &Held<'_>, loaded: &mut Loaded, incarnation: Option<u32>) -> Result<(), StoreError> {
    let mut changed = false;
    let mut ids = HashSet::new();
    let mut seqs = HashSet::new();
    let mut kept = Vec::with_capacity(loaded.items.len());
    let mut undeliverable = Vec::new();
    for mut item in loaded.items.drain(..) {
        let (read, meant) = match &item.message {
            Ok(message) => (message.read, message.incarnation),
            Err(why) => {
                loaded.notices.push(held.set_entry_aside(&item, why.clone())?);
                changed = true;
                continue;
            }
        };
        if item.id().is_none() {
            item.set_id(MessageId::generate());
            changed = true;
        }
        if item.id().is_some_and(|id| !ids.insert(id.clone())) {
            let why = "an entry with the same id stands before it".to_owned();
            loaded.notices.push(held.set_entry_aside(&item, why)?);
            changed = true;
            continue;
        }
        if item.seq() == 0 || !seqs.insert(item.seq()) {
            loaded.seq += 1;
            item.set_seq(loaded.seq);
            seqs.insert(loaded.seq);
            changed = true;
        }
        let ended = matches!((meant, incarnation), (Some(meant), Some(mine)) if meant < mine);
        if ended && let (false, Ok(message)) = (read, &item.message) {
            loaded.notices.push(InboxNotice::Undeliverable { message: Box::new(message.clone()) });
            let why = json!({ "reason": "it was for an agent that has ended", "at": clock::now() });
            item.set("undeliverable", &why);
            undeliverable.push(item);
            changed = true;
            continue;
        }
        kept.push(item);
    }
    loaded.items = kept;
    if changed {
        held.archive(&undeliverable, &loaded.items)?;
        held.store(&loaded.items, loaded.seq)?;
    }
    Ok(())
}

/// Messages with what their signatures prove, in the order of delivery: shutdown, the user, the
/// leader, peers by arrival, mail from outside (spec §11). Entries without an id, which no claim
/// has seen yet, are left out.
pub(super) fn claimed<'a>(inbox: &Inbox, messages: impl Iterator<Item = &'a Message>) -> Vec<Claimed> {
    let mut all: Vec<Claimed> = messages
        .filter_map(|message| {
            let id = message.id.clone()?;
            Some(Claimed { id, origin: origin(inbox, message), message: message.clone() })
        })
        .collect();
    all.sort_by_key(|claimed| (rank(claimed), claimed.message.seq));
    all
}

/// A signature proves its sender only for the inbox it was made for.
pub(super) fn origin(inbox: &Inbox, message: &Message) -> Origin {
    if message.to.as_ref() == Some(&inbox.0.agent) && inbox.0.keys.verify_message(message) {
        Origin::Team
    } else {
        Origin::Outside
    }
}

fn rank(claimed: &Claimed) -> u8 {
    match (claimed.origin, &claimed.message.kind, claimed.message.from.as_str()) {
        (Origin::Outside, ..) => 4,
        (Origin::Team, FrameType::ShutdownRequest, _) => 0,
        (Origin::Team, _, USER) => 1,
        (Origin::Team, _, TEAM_LEAD) => 2,
        (Origin::Team, ..) => 3,
    }
}
