//! Records of background tasks, and the files their output goes to.
//!
//! Owns `background/<task>.json` and the making of `output/<task>.txt`. Promises that a record is
//! replaced whole, that members we do not know survive, and that a damaged record hides no other.

use super::atomic;
use super::error::StoreError;
use super::own::{self, Open};
use super::paths::ProjectPaths;
use crate::wire::background::TaskRecord;
use crate::wire::ids::{BackgroundId, SessionId};
use crate::wire::open::Open as OpenObject;
use crate::wire::settings::Durability;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Writes a record.
pub fn write(path: &Path, record: &TaskRecord) -> Result<(), StoreError> {
    atomic::make_dir(own::dir_of(path))?;
    let mut written = OpenObject::new(record.clone());
    match atomic::read_json::<OpenObject<TaskRecord>>(path) {
        Ok(Some(old)) => written.unknown = old.unknown,
        Ok(None) | Err(StoreError::Corrupt { .. }) => {}
        Err(error) => return Err(error),
    }
    atomic::write_json(path, &written, Durability::Process)
}

/// Reads one; `None` when there is none.
pub fn load(
    project: &ProjectPaths,
    session: &SessionId,
    task: &BackgroundId,
) -> Result<Option<TaskRecord>, StoreError> {
    let record = atomic::read_json::<OpenObject<TaskRecord>>(&project.background(session, task))?;
    Ok(record.map(|open| open.known))
}

/// All of a session, oldest first, with those that cannot be read.
pub fn list(
    project: &ProjectPaths,
    session: &SessionId,
) -> Result<(Vec<TaskRecord>, Vec<StoreError>), StoreError> {
    let dir = project.background_dir(session);
    project.check(&dir)?;
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok((Vec::new(), Vec::new())),
        Err(e) => return Err(StoreError::io("list", &dir, e)),
    };
    let (mut records, mut damaged) = (Vec::new(), Vec::new());
    for entry in entries.flatten() {
        if entry.path().extension().is_none_or(|e| e != "json") {
            continue;
        }
        match atomic::read_json::<OpenObject<TaskRecord>>(&entry.path()) {
            Ok(Some(record)) => records.push(record.known),
            Ok(None) => {}
            Err(error) => damaged.push(error),
        }
    }
    records.sort_by(|a, b| (&a.created_at, &a.task_id).cmp(&(&b.created_at, &b.task_id)));
    Ok((records, damaged))
}

/// Makes the output file of a task (0600) unless it is there from an earlier run.
pub fn make_output(path: &Path) -> Result<(), StoreError> {
    atomic::make_dir(own::dir_of(path))?;
    own::open_or_make(path, Open::Append).map(drop)
}

/// Adds text to it.
pub fn append_output(path: &Path, text: &str) -> Result<(), StoreError> {
    let mut file = own::open_or_make(path, Open::Append)?;
    file.write_all(text.as_bytes()).map_err(|e| StoreError::io("write", path, e))
}

/// Up to `most` bytes of an output file from `from` on, cut after a whole line where there is one: the
/// text, where the next look begins, and how many bytes are left.
pub fn read_output(path: &Path, from: u64, most: u64) -> Result<(String, u64, u64), StoreError> {
    let Some(mut file) = own::open(path, Open::Read)? else { return Ok((String::new(), from, 0)) };
    let failed = |e| StoreError::io("read", path, e);
    let length = file.metadata().map_err(failed)?.len();
    let from = from.min(length);
    file.seek(SeekFrom::Start(from)).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).map_err(failed)?;
    let mut to = from + bytes.len() as u64;
    if to < length
        && let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n')
    {
        bytes.truncate(end + 1);
        to = from + bytes.len() as u64;
    }
    Ok((String::from_utf8_lossy(&bytes).into_owned(), to, length.saturating_sub(to)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_read_on_from_where_the_last_look_ended() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("t.txt");
        assert_eq!(read_output(&path, 0, 10).expect("none"), (String::new(), 0, 0));
        make_output(&path).expect("makes");
        append_output(&path, "one\ntwo\nthree").expect("appends");
        assert_eq!(read_output(&path, 0, 10).expect("reads"), ("one\ntwo\n".to_owned(), 8, 5));
        assert_eq!(read_output(&path, 8, 10).expect("reads"), ("three".to_owned(), 13, 0));
        make_output(&path).expect("is there");
        append_output(&path, "\nfour\n").expect("appends");
        assert_eq!(read_output(&path, 13, 10).expect("reads"), ("\nfour\n".to_owned(), 19, 0));
        assert_eq!(read_output(&path, 99, 10).expect("reads"), (String::new(), 19, 0));
    }
}
