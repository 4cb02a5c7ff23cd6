//! A directory of its own for each test: state root, home, project, environment, and the proof that
//! nothing of it is left running.

use super::run::Festoon;
use super::wait;
use festoon::os::process;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// The variable by which everything a test has started is found again.
pub const MARK: &str = "FESTOON_TEST_MARK";
/// A key that must show up nowhere.
pub const KEY: &str = "sk-test-0f8e5d2a-never-on-disk";
/// What the contract promises after the end of an owner (contract §16), with room for a loaded machine.
const GONE: Duration = Duration::from_secs(15);

/// A world.
pub struct World {
    dir: TempDir,
    /// The state root.
    pub home: PathBuf,
    /// The working directory.
    pub project: PathBuf,
    /// What every process of this test carries.
    pub mark: String,
    /// The environment of the binary.
    pub env: BTreeMap<String, String>,
}

impl World {
    /// An empty project and no state.
    pub fn new() -> Self {
        let dir = TempDir::new().expect("temp dir");
        let root = dir.path().canonicalize().expect("path");
        let (home, project, person) = (root.join("state"), root.join("project"), root.join("person"));
        for made in [&project, &person] {
            fs::create_dir(made).expect("dir");
        }
        let mark = uuid::Uuid::new_v4().to_string();
        let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
        let env = [
            ("PATH", std::env::var("PATH").expect("PATH")),
            ("HOME", text(&person)),
            ("FESTOON_HOME", text(&home)),
            ("TMPDIR", text(&root)),
            ("TERM", "xterm-256color".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            (MARK, mark.clone()),
        ];
        Self { dir, home, project, mark, env: env.map(|(k, v)| (k.to_owned(), v)).into() }
    }

    /// A directory beside the project, outside of it.
    pub fn outside(&self) -> PathBuf {
        self.dir.path().canonicalize().expect("path")
    }

    /// Writes a file of the project.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.project.join(name);
        fs::create_dir_all(path.parent().expect("parent")).expect("dir");
        fs::write(&path, text).expect("file");
        path
    }

    /// The text of a file of the project.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.project.join(name)).expect("file")
    }

    /// A script as a model. It lies outside of the project.
    pub fn script(&self, toml: &str) -> String {
        let path = self.dir.path().join(format!("{}.toml", uuid::Uuid::new_v4().simple()));
        fs::write(&path, toml).expect("script");
        format!("scripted:{}", path.display())
    }

    /// The binary in this world.
    pub fn festoon<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Festoon {
        Festoon::new(&self.project, &self.env, args)
    }

    /// Living processes of this world.
    pub fn living(&self) -> Vec<u32> {
        marked(&self.mark)
    }

    /// Waits until nothing of this world runs.
    pub fn all_gone(&self) {
        wait::find("all processes are gone", GONE, || self.living().is_empty().then_some(()));
    }

    /// All regular files below the state root and the project.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        collect(self.dir.path(), &mut found);
        found
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let end = std::time::Instant::now() + GONE;
        while !self.living().is_empty() && std::time::Instant::now() < end && !std::thread::panicking() {
            wait::pause();
        }
        let left: Vec<(u32, String)> =
            self.living().into_iter().map(|pid| (pid, command_line(pid))).collect();
        for (pid, _) in &left {
            let pid = nix::unistd::Pid::from_raw(i32::try_from(*pid).expect("pid"));
            // It may have ended by itself just now.
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
        assert!(left.is_empty() || std::thread::panicking(), "left running: {left:?}");
    }
}

fn collect(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect(&path, found),
            Ok(kind) if kind.is_file() => found.push(path),
            _ => {}
        }
    }
}

/// The living processes that carry the mark.
pub fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    let carries = |pid: u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|entry| entry == wanted.as_bytes())
    };
    process::all().iter().filter(|stat| stat.alive && carries(stat.pid)).map(|stat| stat.pid).collect()
}

/// The arguments of a process, as `ps` shows them.
pub fn command_line(pid: u32) -> String {
    let raw = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&raw).replace('\0', " ")
}
