//! Word that a file in a directory was replaced, made or removed.
//!
//! Owns the one watcher of a process: it watches directories, because a watch on a file ends with
//! the first rename onto it, and passes on renames, creations and removals alone, because a reader
//! that reacts to reading would wake itself. Who follows a file of lines is told of appends to it,
//! and nobody else is. Events are hints: many changes may come as one, and an
//! empty name means *look at everything* (the queue overflowed, or the directory was replaced and is
//! watched anew). Never reads a file.
//!
//! Under the events lies a net, one for the process: every [`POLL_NET`] it looks whether a directory is
//! another one or was changed since the last time, which costs a `stat` and wakes nobody else; every
//! [`ANYWAY`] it says *look at everything* whatever it saw, for those whose last look failed.

use super::error::StoreError;
use super::seen::SAME_TIME;
use crate::wire::limits::POLL_NET;
use notify::event::{ModifyKind, RenameMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Instant, SystemTime};

/// So many nets make one that says *look at everything*: a minute.
const ANYWAY: u32 = 12;

/// Takes a file name, or an empty one. Runs on the watcher's thread: it must be quick and must not
/// call the watcher.
type Callback = Arc<dyn Fn(&OsStr) + Send + Sync>;

/// The watcher of a process. Cloning copies a pointer; it ends with its last clone and guard.
#[derive(Clone)]
pub struct Watcher(Arc<Shared>);

struct Shared {
    /// Never called from the watcher's own thread, which it waits for.
    system: Mutex<RecommendedWatcher>,
    dirs: Arc<Dirs>,
    errands: Sender<Errand>,
}

/// What is watched, by directory.
#[derive(Default)]
struct Dirs(Mutex<HashMap<PathBuf, Dir>>);

#[derive(Default)]
struct Dir {
    /// Device and inode that are watched; `None` while there is no such directory.
    armed: Option<(u64, u64)>,
    /// How it looked at the last net; `None` when that says nothing about now.
    seen: Option<Look>,
    callbacks: HashMap<u64, Interest>,
}

/// What changes with a directory: when a name last came or went, and the lengths of files that are followed.
#[derive(PartialEq)]
struct Look {
    changed: SystemTime,
    lengths: Vec<Option<u64>>,
}

/// Who wants to hear what.
struct Interest {
    /// Appends to this file; else names that come and go.
    appends_to: Option<OsString>,
    on: Callback,
}

/// What the watcher's thread cannot do itself.
enum Errand {
    /// The directory may be another one now.
    Rearm(PathBuf),
    /// Nobody may be interested in it any more.
    Tidy(PathBuf),
}

/// Keeps a callback; dropping it ends the calls, but for one that is under way.
pub struct WatchGuard {
    shared: Arc<Shared>,
    dir: PathBuf,
    id: u64,
}

impl Watcher {
    /// Starts the watcher of this process. Fails where the system has no more to give (Linux allows
    /// a user 128); callers then look from time to time.
    pub fn start() -> Result<Self, StoreError> {
        let dirs = Arc::new(Dirs::default());
        let (errands, inbox) = mpsc::channel();
        let handler = {
            let (dirs, errands) = (Arc::clone(&dirs), errands.clone());
            move |event: notify::Result<Event>| handle(&dirs, &errands, event)
        };
        let system = notify::recommended_watcher(handler).map_err(|e| failed(Path::new("/"), &e))?;
        let shared = Arc::new(Shared { system: Mutex::new(system), dirs, errands });
        let weak = Arc::downgrade(&shared);
        std::thread::Builder::new()
            .name("store-watch".to_owned())
            .spawn(move || run_errands(&weak, &inbox))
            .map_err(|e| StoreError::io("start a thread for", Path::new("/"), e))?;
        Ok(Self(shared))
    }

    /// Calls `on` with the name of each file in `dir` that is renamed onto, made or removed. Names
    /// that begin with a dot (temporary files) are left out. `dir` may come and go.
    pub fn watch(
        &self,
        dir: &Path,
        on: impl Fn(&OsStr) + Send + Sync + 'static,
    ) -> Result<WatchGuard, StoreError> {
        self.add(dir, Interest { appends_to: None, on: Arc::new(on) })
    }

    /// Calls `on` when something is appended to the file `name` in `dir`, by whatever process.
    pub fn watch_appends(
        &self,
        dir: &Path,
        name: &OsStr,
        on: impl Fn(&OsStr) + Send + Sync + 'static,
    ) -> Result<WatchGuard, StoreError> {
        self.add(dir, Interest { appends_to: Some(name.to_owned()), on: Arc::new(on) })
    }

    fn add(&self, dir: &Path, interest: Interest) -> Result<WatchGuard, StoreError> {
        let id = {
            let mut dirs = self.0.dirs.lock();
            let watched = dirs.entry(dir.to_owned()).or_default();
            let id = watched.callbacks.keys().max().map_or(0, |id| id + 1);
            watched.callbacks.insert(id, interest);
            id
        };
        let guard = WatchGuard { shared: Arc::clone(&self.0), dir: dir.to_owned(), id };
        self.0.arm(dir, Known::Trust)?; // on failure the guard takes the callback away again
        self.0.dirs.has_changed(dir);
        Ok(guard)
    }

    /// Watches anew what was replaced without a word, at once and not only with the next net.
    pub fn rearm(&self) {
        for dir in self.0.dirs.names() {
            self.0.rearm(&dir, Known::Trust);
        }
    }
}

/// Whether what is known of a directory's watch is believed.
#[derive(Clone, Copy, PartialEq)]
enum Known {
    /// The same directory means the same watch.
    Trust,
    /// The system watcher drops a watch with each word that the directory is gone, also with a late
    /// one about a directory before it.
    Doubt,
}

impl Shared {
    fn system(&self) -> MutexGuard<'_, RecommendedWatcher> {
        self.system.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches the directory, unless it is watched, and the one it is in, to see it come back.
    fn arm(&self, dir: &Path, known: Known) -> Result<bool, StoreError> {
        let mut system = self.system();
        let now = identity(dir);
        let before = self.dirs.lock().get(dir).and_then(|watched| watched.armed);
        if known == Known::Trust && now.is_some() && now == before {
            return Ok(false);
        }
        if let Some(above) = dir.parent() {
            // It may be watched already, which is fine, or be gone too; `rearm` comes again.
            drop(system.watch(above, RecursiveMode::NonRecursive));
        }
        drop(system.unwatch(dir)); // a watch of the directory that was here before
        let armed = match system.watch(dir, RecursiveMode::NonRecursive) {
            Ok(()) => now,
            Err(_) if now.is_none() => None,
            Err(e) => return Err(failed(dir, &e)),
        };
        if let Some(watched) = self.dirs.lock().get_mut(dir) {
            watched.armed = armed;
        }
        Ok(armed.is_some())
    }

    fn rearm(&self, dir: &Path, known: Known) {
        if self.arm(dir, known).unwrap_or(true) {
            self.dirs.tell(dir, OsStr::new(""));
        }
    }

    /// Tells of what no event has told.
    fn net(&self, anyway: bool) {
        for dir in self.dirs.names() {
            self.rearm(&dir, Known::Trust);
            if self.dirs.has_changed(&dir) || anyway {
                self.dirs.tell(&dir, OsStr::new(""));
            }
        }
    }

    /// Ends the watch of a directory that nobody asks for.
    fn tidy(&self, dir: &Path) {
        let mut system = self.system();
        let mut dirs = self.dirs.lock();
        if dirs.get(dir).is_some_and(|watched| !watched.callbacks.is_empty()) {
            return;
        }
        dirs.remove(dir);
        let above = dir.parent().filter(|above| {
            !dirs.contains_key(*above) && !dirs.keys().any(|other| other.parent() == Some(above))
        });
        let needed = dirs.keys().any(|other| other.parent() == Some(dir));
        let above = above.map(Path::to_owned);
        drop(dirs);
        if !needed {
            drop(system.unwatch(dir));
        }
        if let Some(above) = above {
            drop(system.unwatch(&above));
        }
    }
}

impl Dirs {
    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Dir>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn names(&self) -> Vec<PathBuf> {
        self.lock().keys().cloned().collect()
    }

    fn contains(&self, dir: &Path) -> bool {
        self.lock().contains_key(dir)
    }

    /// Whether a directory looks different from the last time this was asked, or may.
    fn has_changed(&self, dir: &Path) -> bool {
        let followed: Vec<OsString> = match self.lock().get(dir) {
            Some(watched) => watched.callbacks.values().filter_map(|i| i.appends_to.clone()).collect(),
            None => return false,
        };
        let length = |name: &OsString| std::fs::metadata(dir.join(name)).ok().map(|m| m.len());
        let look = std::fs::metadata(dir).and_then(|m| m.modified()).ok();
        let look = look.map(|changed| Look { changed, lengths: followed.iter().map(length).collect() });
        let is_old = |look: &Look| look.changed.elapsed().is_ok_and(|age| age > SAME_TIME);
        let mut dirs = self.lock();
        let Some(watched) = dirs.get_mut(dir) else { return false };
        let is_same = look.is_some() && look == watched.seen;
        watched.seen = look.filter(is_old);
        !is_same
    }

    /// Calls everybody who watches `dir`, without the lock.
    fn tell(&self, dir: &Path, name: &OsStr) {
        self.tell_those(dir, name, |interest| interest.appends_to.is_none() || name.is_empty());
    }

    /// Calls those who follow the file.
    fn tell_appended(&self, dir: &Path, name: &OsStr) {
        self.tell_those(dir, name, |interest| interest.appends_to.as_deref() == Some(name));
    }

    fn tell_those(&self, dir: &Path, name: &OsStr, chosen: impl Fn(&Interest) -> bool) {
        let callbacks: Vec<Callback> = match self.lock().get(dir) {
            Some(watched) => {
                watched.callbacks.values().filter(|i| chosen(i)).map(|i| Arc::clone(&i.on)).collect()
            }
            None => return,
        };
        for callback in callbacks {
            callback(name);
        }
    }
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        if let Some(watched) = self.shared.dirs.lock().get_mut(&self.dir) {
            watched.callbacks.remove(&self.id);
        }
        // By the other thread, so that a guard may be dropped anywhere. It is gone when all is over.
        drop(self.shared.errands.send(Errand::Tidy(self.dir.clone())));
    }
}

fn run_errands(shared: &Weak<Shared>, errands: &Receiver<Errand>) {
    let (mut due, mut nets) = (Instant::now() + POLL_NET, 0);
    loop {
        let errand = errands.recv_timeout(due.saturating_duration_since(Instant::now()));
        let Some(shared) = shared.upgrade() else { return };
        match errand {
            Ok(Errand::Rearm(dir)) => shared.rearm(&dir, Known::Doubt),
            Ok(Errand::Tidy(dir)) => shared.tidy(&dir),
            Err(RecvTimeoutError::Timeout) => {
                nets += 1;
                shared.net(nets % ANYWAY == 0);
                due = Instant::now() + POLL_NET;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// On the system watcher's thread.
fn handle(dirs: &Dirs, errands: &Sender<Errand>, event: notify::Result<Event>) {
    let event = match event {
        Ok(event) if !event.need_rescan() => event,
        _ => {
            dirs.names().iter().for_each(|dir| dirs.tell(dir, OsStr::new("")));
            return;
        }
    };
    if matches!(event.kind, EventKind::Modify(ModifyKind::Data(_))) {
        for path in &event.paths {
            if let (Some(dir), Some(name)) = (path.parent(), path.file_name()) {
                dirs.tell_appended(dir, name);
            }
        }
        return;
    }
    if !is_change(&event.kind) {
        return;
    }
    for path in &event.paths {
        if dirs.contains(path) {
            drop(errands.send(Errand::Rearm(path.clone())));
        }
        if let (Some(dir), Some(name)) = (path.parent(), path.file_name())
            && !name.as_encoded_bytes().starts_with(b".")
        {
            dirs.tell(dir, name);
        }
    }
}

/// Names that come and go. Not `Both`, which repeats what `From` and `To` have said.
fn is_change(kind: &EventKind) -> bool {
    match kind {
        EventKind::Create(_) | EventKind::Remove(_) => true,
        EventKind::Modify(ModifyKind::Name(mode)) => *mode != RenameMode::Both,
        _ => false,
    }
}

fn identity(dir: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(dir).ok().filter(std::fs::Metadata::is_dir).map(|found| (found.dev(), found.ino()))
}

fn failed(path: &Path, e: &notify::Error) -> StoreError {
    StoreError::Watch { path: path.to_owned(), why: e.to_string() }
}

/// Whether changes by other machines may go unnoticed here, so that callers look more often.
pub fn is_network_fs(dir: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        /// `f_type` of file systems whose content may change elsewhere, from statfs(2) and
        /// `linux/magic.h`: NFS, SMB, CIFS, SMB2, AFS, Ceph, Lustre, 9p, Coda, FUSE (sshfs and the like).
        const REMOTE: [u32; 11] = [
            0x6969,
            0x517b,
            0xff53_4d42,
            0xfe53_4d42,
            0x5346_414f,
            0x6b41_4653,
            0x00c3_6400,
            0x0bd0_0bd0,
            0x0102_1997,
            0x7375_7245,
            0x6573_5546,
        ];
        rustix::fs::statfs(dir)
            .is_ok_and(|found| REMOTE.contains(&((found.f_type as u64 & 0xffff_ffff) as u32)))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = dir;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::atomic;
    use crate::wire::settings::Durability;
    use std::time::{Duration, Instant};

    /// Collects names until `enough` says so, or fails after ten seconds.
    struct Heard(Receiver<String>, Vec<String>);

    impl Heard {
        fn until(&mut self, enough: impl Fn(&[String]) -> bool) -> &[String] {
            let deadline = Instant::now() + Duration::from_secs(10);
            while !enough(&self.1) {
                let left = deadline.saturating_duration_since(Instant::now());
                match self.0.recv_timeout(left) {
                    Ok(name) => self.1.push(name),
                    Err(_) => panic!("heard only {:?}", self.1),
                }
            }
            &self.1
        }

        /// Does it again until `name` is heard; every time something must be.
        fn after_some(&mut self, act: impl Fn(), name: &str) -> Vec<String> {
            let mut all = Vec::new();
            while !all.iter().any(|heard| heard == name) {
                self.forget();
                act();
                all.extend_from_slice(self.until(|names| !names.is_empty()));
            }
            all
        }

        fn forget(&mut self) {
            while self.0.try_recv().is_ok() {}
            self.1.clear();
        }
    }

    fn listen(watcher: &Watcher, dir: &Path) -> (WatchGuard, Heard) {
        let (sender, receiver) = mpsc::channel();
        let guard = watcher
            .watch(dir, move |name| drop(sender.send(name.to_string_lossy().into_owned())))
            .expect("watches");
        (guard, Heard(receiver, Vec::new()))
    }

    /// The same without the words of the net, which comes when it is due.
    fn listen_to_names(watcher: &Watcher, dir: &Path) -> (WatchGuard, Heard) {
        let (sender, receiver) = mpsc::channel();
        let named = move |name: &OsStr| {
            if !name.is_empty() {
                drop(sender.send(name.to_string_lossy().into_owned()));
            }
        };
        (watcher.watch(dir, named).expect("watches"), Heard(receiver, Vec::new()))
    }

    fn until(what: &str, is: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !is() {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::yield_now();
        }
    }

    fn replace(path: &Path) {
        atomic::replace(path, b"x", Durability::Process).expect("replaces");
    }

    #[test]
    fn a_replaced_file_is_told_each_time_and_reading_it_is_not() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("anna.json");
        let watcher = Watcher::start().expect("starts");
        let (_guard, mut heard) = listen_to_names(&watcher, dir.path());
        for _ in 0..5 {
            replace(&path);
            assert_eq!(heard.until(|names| !names.is_empty()), ["anna.json"]);
            heard.forget();
        }
        for _ in 0..20 {
            std::fs::read(&path).expect("reads");
        }
        std::fs::File::options().append(true).open(&path).map(drop).expect("opens to write");
        replace(&dir.path().join("last.json"));
        assert_eq!(heard.until(|names| names.contains(&"last.json".to_owned())), ["last.json"]);
        std::fs::remove_file(&path).expect("removes");
        heard.until(|names| names.last().is_some_and(|name| name == "anna.json"));
    }

    #[test]
    fn what_no_event_told_is_caught_by_the_net() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("anna.json");
        replace(&path);
        let watcher = Watcher::start().expect("starts");
        let (_guard, mut heard) = listen(&watcher, dir.path());
        until("what was before is old", || !watcher.0.dirs.has_changed(dir.path()));
        // Behind its back: from here on there are no events.
        watcher.0.system().unwatch(dir.path()).expect("was watched");
        replace(&path);
        assert_eq!(heard.until(|names| !names.is_empty()), [""]);
        // A net over nothing new says nothing, one that comes anyway does.
        until("what was told is old", || !watcher.0.dirs.has_changed(dir.path()));
        heard.forget();
        watcher.0.net(false);
        assert!(heard.0.try_recv().is_err());
        watcher.0.net(true);
        assert_eq!(heard.until(|names| !names.is_empty()), [""]);
    }

    #[test]
    fn a_replaced_directory_is_watched_again() {
        let home = tempfile::tempdir().expect("temp dir");
        let dir = home.path().join("inboxes");
        std::fs::create_dir(&dir).expect("makes");
        let watcher = Watcher::start().expect("starts");
        let (_guard, mut heard) = listen(&watcher, &dir);
        for round in 0..6 {
            let old = home.path().join(format!("old-{round}"));
            std::fs::rename(&dir, &old).expect("moves away");
            std::fs::create_dir(&dir).expect("makes another");
            if round >= 3 {
                std::fs::remove_dir(&dir).expect("removes");
                std::fs::create_dir(&dir).expect("makes a third");
            }
            heard.until(|names| names.contains(&String::new()));
            // Until the last word about the old directories has come, an empty name may stand for a file.
            heard.after_some(|| replace(&dir.join("a.json")), "a.json");
            replace(&old.join("b.json"));
            let names = heard.after_some(|| replace(&dir.join("c.json")), "c.json");
            assert!(!names.contains(&"b.json".to_owned()), "the old directory is not ours: {names:?}");
        }
    }

    #[test]
    fn a_directory_may_come_later_and_rearming_finds_what_was_missed() {
        let home = tempfile::tempdir().expect("temp dir");
        let team = home.path().join("team");
        let dir = team.join("inboxes");
        let watcher = Watcher::start().expect("starts");
        let (_guard, mut heard) = listen(&watcher, &dir);
        std::fs::create_dir_all(&dir).expect("makes"); // its parent too: nobody could tell
        watcher.rearm();
        heard.until(|names| names.contains(&String::new()));
        replace(&dir.join("a.json"));
        heard.until(|names| names.contains(&"a.json".to_owned()));
        heard.forget();
        watcher.rearm();
        assert!(heard.0.try_recv().is_err(), "nothing was replaced");
    }

    #[test]
    fn a_dropped_guard_ends_its_calls_and_no_others() {
        let home = tempfile::tempdir().expect("temp dir");
        let dir = home.path().join("inboxes");
        std::fs::create_dir(&dir).expect("makes");
        let watcher = Watcher::start().expect("starts");
        let (first, mut one) = listen(&watcher, &dir);
        let (second, mut two) = listen(&watcher, &dir);
        drop(first);
        drop(watcher);
        replace(&dir.join("a.json"));
        two.until(|names| names.contains(&"a.json".to_owned()));
        assert!(one.0.recv_timeout(Duration::from_secs(10)).is_err(), "its sender is gone");
        one.forget();
        let shared = Arc::clone(&second.shared);
        drop(second);
        until("nothing is watched", || shared.dirs.names().is_empty());
        let ended = Arc::downgrade(&shared);
        drop(shared); // the last, but for an errand
        until("the watcher ends", || ended.upgrade().is_none());
    }

    #[test]
    fn an_overflow_means_look_at_everything() {
        let dirs = Dirs::default();
        let (sender, heard) = mpsc::channel();
        let callback: Callback = Arc::new(move |name| drop(sender.send(name.to_owned())));
        let watched = Dir {
            armed: None,
            seen: None,
            callbacks: HashMap::from([(0, Interest { appends_to: None, on: callback })]),
        };
        dirs.lock().insert(PathBuf::from("/d"), watched);
        let (errands, _inbox) = mpsc::channel();
        let overflow = Event::new(EventKind::Other).set_flag(notify::event::Flag::Rescan);
        handle(&dirs, &errands, Ok(overflow));
        handle(&dirs, &errands, Err(notify::Error::generic("x")));
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), ["", ""]);
    }

    #[test]
    fn the_temporary_directory_is_local() {
        let dir = tempfile::tempdir().expect("temp dir");
        assert!(!is_network_fs(dir.path()));
        assert!(!is_network_fs(Path::new("/nowhere")));
    }

    #[test]
    fn appends_are_told_to_those_who_follow_the_file_alone() {
        let dir = tempfile::tempdir().expect("temp dir");
        let (out, heard) = mpsc::channel();
        let watcher = Watcher::start().expect("starts");
        let all = out.clone();
        let _names = watcher
            .watch(dir.path(), move |name| drop(all.send(format!("name {}", name.to_string_lossy()))))
            .expect("watches");
        let _log = watcher
            .watch_appends(dir.path(), OsStr::new("log"), move |_| drop(out.send("appended".to_owned())))
            .expect("watches");
        let mut heard = Heard(heard, Vec::new());
        let path = dir.path().join("log");
        let mut log = std::fs::File::create(&path).expect("made");
        std::fs::write(dir.path().join("other"), "x").expect("made");
        heard.until(|names| names.iter().any(|n| n == "name other"));
        heard.forget();
        std::fs::read(&path).expect("read");
        std::io::Write::write_all(&mut log, b"a line\n").expect("written");
        assert_eq!(heard.until(|names| !names.is_empty()), ["appended"]);
    }
}
