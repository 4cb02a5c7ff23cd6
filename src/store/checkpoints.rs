//! What files were before they were changed, by turn (`<session>/checkpoints`).
//!
//! Owns an append-only index and blobs named by their content, all 0600. Promises that a blob is whole
//! before the index names it, that a file is kept once a turn, and that a session keeps at most
//! [`CHECKPOINT_BYTES`]. Whoever uses it is the session's only writer. Never touches the files themselves.

use super::atomic;
use super::error::StoreError;
use super::jsonl::{self, Lines};
use crate::wire::checkpoint::{Checkpoint, FormerFile};
use crate::wire::ids::LineId;
use crate::wire::limits::CHECKPOINT_BYTES;
use crate::wire::settings::Durability;
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The checkpoints of one session.
#[derive(Debug)]
pub struct Checkpoints {
    dir: PathBuf,
    /// Bytes of all blobs; known once the directory was looked at.
    total: Option<u64>,
    known: HashSet<(LineId, String)>,
}

impl Checkpoints {
    /// Those in `dir`, which need not be there.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, total: None, known: HashSet::new() }
    }

    fn index(&self) -> PathBuf {
        self.dir.join("index.jsonl")
    }

    fn blob(&self, sha256: &str) -> PathBuf {
        self.dir.join("blobs").join(sha256)
    }

    /// Whether nothing is kept yet of this file in this turn.
    pub fn is_new(&mut self, turn: &LineId, path: &str) -> Result<bool, StoreError> {
        self.look()?;
        Ok(!self.known.contains(&(turn.clone(), path.to_owned())))
    }

    /// Keeps a content, and says under which name; an error text when the session keeps too much already.
    pub fn keep(&mut self, content: &[u8]) -> Result<Result<String, String>, StoreError> {
        let mut total = self.look()?;
        let mut name = String::with_capacity(64);
        for byte in Sha256::digest(content) {
            // Writing into a String cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
        let path = self.blob(&name);
        if !path.exists() {
            total += content.len() as u64;
            if total > CHECKPOINT_BYTES {
                return Ok(Err(format!(
                    "the session keeps more than {} MiB already",
                    CHECKPOINT_BYTES >> 20
                )));
            }
            atomic::create_exclusive(&path, content, Durability::Process)?;
            self.total = Some(total);
        }
        Ok(Ok(name))
    }

    /// Adds a line to the index.
    pub fn note(&mut self, line: Checkpoint) -> Result<(), StoreError> {
        self.look()?;
        let index = self.index();
        let bytes = jsonl::encode(&index, &line)?;
        jsonl::append_line(&index, &bytes)?;
        self.known.insert((line.turn, line.path));
        Ok(())
    }

    /// The index, oldest first; lines that cannot be read are left out.
    pub fn all(&self) -> Result<Vec<Checkpoint>, StoreError> {
        let Some(lines) = Lines::open(&self.index())? else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for line in lines {
            all.extend(serde_json::from_slice::<Checkpoint>(&line?.bytes).ok());
        }
        Ok(all)
    }

    /// A content that is kept.
    pub fn content(&self, sha256: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let plain = sha256.len() == 64 && sha256.bytes().all(|b| b.is_ascii_hexdigit());
        if plain { atomic::read_optional(&self.blob(sha256)) } else { Ok(None) }
    }

    /// Looks at the directory once, making it: bytes kept, and what of.
    fn look(&mut self) -> Result<u64, StoreError> {
        if let Some(total) = self.total {
            return Ok(total);
        }
        let blobs = self.dir.join("blobs");
        atomic::make_dir(&blobs)?;
        self.known = self.all()?.into_iter().map(|line| (line.turn, line.path)).collect();
        let entries = std::fs::read_dir(&blobs).map_err(|e| StoreError::io("list", &blobs, e))?;
        let total = entries.flatten().filter_map(|e| e.metadata().ok()).map(|m| m.len()).sum();
        self.total = Some(total);
        Ok(total)
    }
}

/// What has to be put back to undo everything from these turns on: for each file the oldest line, the
/// newest file last.
pub fn to_undo(all: &[Checkpoint], undone: impl Fn(&LineId) -> bool) -> Vec<(&Path, &FormerFile)> {
    let mut seen = HashSet::new();
    let mut first = Vec::new();
    for line in all.iter().filter(|line| undone(&line.turn)) {
        if seen.insert(line.path.as_str()) {
            first.push((Path::new(&line.path), &line.before));
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::clock;
    use std::os::unix::fs::PermissionsExt;

    fn line(turn: &str, path: &str, before: FormerFile) -> Checkpoint {
        let agent = "a".to_owned();
        Checkpoint { turn: LineId::new(turn), path: path.to_owned(), before, agent, at: clock::now() }
    }

    #[test]
    fn contents_are_kept_once_and_found_again_by_another_process() {
        let temp = tempfile::tempdir().expect("temp dir");
        let dir = temp.path().join("checkpoints");
        let mut one = Checkpoints::new(dir.clone());
        assert_eq!(one.all().expect("reads"), []);
        let name = one.keep(b"old \xff").expect("keeps").expect("has room");
        assert_eq!(one.keep(b"old \xff").expect("keeps"), Ok(name.clone()));
        let before = FormerFile::Content { sha256: name.clone(), mode: 0o644 };
        one.note(line("t1", "/f", before)).expect("notes");
        let mut other = Checkpoints::new(dir.clone());
        let new = |c: &mut Checkpoints, turn: &str| c.is_new(&LineId::new(turn), "/f").expect("looks");
        assert_eq!((new(&mut other, "t1"), new(&mut other, "t2")), (false, true));
        assert_eq!(other.content(&name).expect("reads").as_deref(), Some(&b"old \xff"[..]));
        assert_eq!(other.content("../index.jsonl").expect("refuses"), None);
        assert_eq!(other.all().expect("reads").len(), 1);
        for path in [dir.join("index.jsonl"), dir.join("blobs").join(name)] {
            assert_eq!(std::fs::metadata(path).expect("there").permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(std::fs::metadata(dir).expect("there").permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn there_is_a_bound() {
        let temp = tempfile::tempdir().expect("temp dir");
        let mut kept = Checkpoints::new(temp.path().join("c"));
        kept.look().expect("makes");
        kept.total = Some(CHECKPOINT_BYTES - 3);
        assert!(kept.keep(b"abc").expect("keeps").is_ok());
        let full = kept.keep(b"d").expect("looks").expect_err("full");
        assert!(full.contains("more than 256 MiB"), "{full}");
        assert!(kept.keep(b"abc").expect("keeps").is_ok(), "what is there costs nothing");
    }

    #[test]
    fn the_oldest_state_of_the_undone_turns_counts() {
        let kept = |n: &str| FormerFile::Content { sha256: n.to_owned(), mode: 0 };
        let all = [
            line("t1", "/a", FormerFile::Absent),
            line("t2", "/a", kept("a1")),
            line("t2", "/b", kept("b0")),
            line("t3", "/b", kept("b1")),
            line("t3", "/a", kept("a2")),
        ];
        let from = |turns: &[&str]| {
            let undone = to_undo(&all, |turn| turns.contains(&turn.as_str()));
            undone.into_iter().map(|(p, f)| (p.display().to_string(), f.clone())).collect::<Vec<_>>()
        };
        let (a, b) = ("/a".to_owned(), "/b".to_owned());
        assert_eq!(from(&["t3"]), [(b.clone(), kept("b1")), (a.clone(), kept("a2"))]);
        assert_eq!(from(&["t2", "t3"]), [(a.clone(), kept("a1")), (b.clone(), kept("b0"))]);
        assert_eq!(from(&["t1", "t2", "t3"]), [(a, FormerFile::Absent), (b, kept("b0"))]);
    }
}
