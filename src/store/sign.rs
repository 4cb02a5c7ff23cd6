//! Signatures: what our processes wrote can be told from what others wrote.
//!
//! Owns the keys of a team (`keys/`, 0600, 32 random bytes each in hex) and HMAC-SHA-256 over the
//! RFC 8785 form of the parsed members, so that a program that reformats a file breaks nothing
//! (contract §16). Mail is signed with the team's key; what only a leader may say to a worker, with
//! that worker's. Promises that a missing key verifies nothing. Never shows a key.

use super::atomic;
use super::error::StoreError;
use super::paths::TeamPaths;
use super::slug::hex;
use crate::wire::ask::DecisionRecord;
use crate::wire::frame::FrameType;
use crate::wire::ids::{AgentName, MessageId};
use crate::wire::mail::Message;
use crate::wire::settings::Durability;
use crate::wire::time::Timestamp;
use hmac::{Hmac, KeyInit, Mac};
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::Sha256;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a key: the block that HMAC-SHA-256 puts out (RFC 2104 §3 wants at least that).
const KEY_BYTES: usize = 32;
/// Where the system's random bytes come from.
const RANDOM: &str = "/dev/urandom";

/// The keys of a team. Cloning copies a pointer.
#[derive(Clone)]
pub struct Keys(Arc<Inner>);

struct Inner {
    place: TeamPaths,
    team: Vec<u8>,
}

impl Inner {
    fn dir(&self) -> PathBuf {
        self.place.keys_dir()
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.0.dir().display())
    }
}

/// What a message's signature covers; absent members are left out.
#[derive(Serialize)]
struct Signed<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a MessageId>,
    #[serde(rename = "type")]
    kind: &'a FrameType,
    from: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<&'a AgentName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    incarnation: Option<u32>,
    timestamp: &'a Timestamp,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Value>,
}

impl Keys {
    /// Makes the keys of a team and its leader; those that are there already stay.
    pub fn create(team: &TeamPaths) -> Result<Self, StoreError> {
        let dir = team.keys_dir();
        team.paths().make_dirs(&dir)?;
        make_key(&dir.join("team.key"))?;
        make_key(&worker_key(&dir, &AgentName::team_lead()))?;
        Self::load(team)
    }

    /// Reads the team's key. Keys of workers are read when they are needed: they come later.
    pub fn load(team: &TeamPaths) -> Result<Self, StoreError> {
        let dir = team.keys_dir();
        team.check(&dir)?;
        let path = dir.join("team.key");
        let key = read_key(&path)?.ok_or(StoreError::NotFound { path })?;
        Ok(Self(Arc::new(Inner { place: team.clone(), team: key })))
    }

    /// Makes the key of a worker; one that is there already stays, since the incarnation is signed.
    pub fn add_worker(&self, worker: &AgentName) -> Result<(), StoreError> {
        make_key(&worker_key(&self.0.dir(), worker))
    }

    /// Signs a message as it is. A message that only a leader may send needs the key of its
    /// recipient; without `to` it cannot be signed.
    pub fn sign_message(&self, message: &mut Message) -> Result<(), StoreError> {
        let bytes = message_bytes(message).map_err(|e| StoreError::invalid(&self.0.dir(), e))?;
        let tag = if needs_worker_key(&message.kind) {
            let Some(to) = &message.to else {
                return Err(StoreError::invalid(&self.0.dir(), "a control frame needs a recipient"));
            };
            let path = worker_key(&self.0.dir(), to);
            let key = read_key(&path)?.ok_or(StoreError::NotFound { path })?;
            mac(&key, &bytes)
        } else {
            mac(&self.0.team, &bytes)
        };
        message.sig = Some(hex(&tag.finalize().into_bytes()));
        Ok(())
    }

    /// Whether a message carries the right signature.
    pub fn verify_message(&self, message: &Message) -> bool {
        let Some(sig) = message.sig.as_deref().and_then(unhex) else { return false };
        let Ok(bytes) = message_bytes(message) else { return false };
        if !needs_worker_key(&message.kind) {
            return mac(&self.0.team, &bytes).verify_slice(&sig).is_ok();
        }
        let key = message.to.as_ref().map(|to| read_key(&worker_key(&self.0.dir(), to)));
        matches!(key, Some(Ok(Some(key))) if mac(&key, &bytes).verify_slice(&sig).is_ok())
    }

    /// Signs a decision with the team's key.
    pub fn sign_decision(&self, decision: &mut DecisionRecord) -> Result<(), StoreError> {
        let invalid = |e: serde_json::Error| StoreError::invalid(&self.0.dir(), e);
        let bytes = decision_bytes(&serde_json::to_value(&*decision).map_err(invalid)?).map_err(invalid)?;
        decision.sig = hex(&mac(&self.0.team, &bytes).finalize().into_bytes());
        Ok(())
    }

    /// Whether a decision, as parsed and with members we do not know, carries the right signature.
    pub(super) fn verify_object(&self, object: &Value) -> bool {
        let sig = object.get("sig").and_then(Value::as_str).and_then(unhex);
        match (sig, decision_bytes(object)) {
            (Some(sig), Ok(bytes)) => mac(&self.0.team, &bytes).verify_slice(&sig).is_ok(),
            _ => false,
        }
    }
}

/// What a worker acts on and only its leader, or who decided an ask, may send.
fn needs_worker_key(kind: &FrameType) -> bool {
    matches!(
        kind,
        FrameType::PermissionResponse
            | FrameType::SandboxPermissionResponse
            | FrameType::QuestionResponse
            | FrameType::PlanApprovalResponse
            | FrameType::ShutdownRequest
            | FrameType::ModeSetRequest
            | FrameType::TeamPermissionUpdate
            | FrameType::TaskStopRequest
    )
}

fn message_bytes(message: &Message) -> serde_json::Result<Vec<u8>> {
    let payload = message.payload.as_ref().map(|raw| serde_json::from_str(raw.get())).transpose()?;
    serde_json_canonicalizer::to_vec(&Signed {
        id: message.id.as_ref(),
        kind: &message.kind,
        from: &message.from,
        to: message.to.as_ref(),
        incarnation: message.incarnation,
        timestamp: &message.timestamp,
        text: &message.text,
        payload,
    })
}

fn decision_bytes(object: &Value) -> serde_json::Result<Vec<u8>> {
    let members: Map<String, Value> = object
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, value)| *key != "sig" && !value.is_null())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    serde_json_canonicalizer::to_vec(&members)
}

fn mac(key: &[u8], bytes: &[u8]) -> Hmac<Sha256> {
    // HMAC takes keys of any length; ours are checked when they are read.
    let mut mac = match Hmac::<Sha256>::new_from_slice(key) {
        Ok(mac) => mac,
        Err(_) => Hmac::new(&Default::default()),
    };
    mac.update(bytes);
    mac
}

pub(super) fn worker_key(dir: &Path, worker: &AgentName) -> PathBuf {
    dir.join(format!("agent.{worker}.key"))
}

fn make_key(path: &Path) -> Result<(), StoreError> {
    if read_key(path)?.is_some() {
        return Ok(());
    }
    let mut key = [0; KEY_BYTES];
    File::open(RANDOM)
        .and_then(|mut random| random.read_exact(&mut key))
        .map_err(|e| StoreError::io("read", Path::new(RANDOM), e))?;
    atomic::create_exclusive(path, hex(&key).as_bytes(), Durability::Process)?;
    Ok(())
}

fn read_key(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(text) = atomic::read_optional(path)? else { return Ok(None) };
    let key = std::str::from_utf8(&text).ok().and_then(|text| unhex(text.trim()));
    match key {
        Some(key) if key.len() == KEY_BYTES => Ok(Some(key)),
        _ => Err(StoreError::invalid(path, "it is not a key")),
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    Some(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}
