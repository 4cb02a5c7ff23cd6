//! Which backend new teammates get, and where its executor is found.
//!
//! Owns the choice as a pure function of facts that others collected (spec §10), and a table that
//! executors register themselves in. It imports none of them, starts nothing, and never looks at
//! the environment. The choice is made once for a process; adoption asks the table whatever the mode.

use super::executor::{SpawnError, TeammateExecutor};
use crate::wire::team::BackendType;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// What the person asked for with `--teammate-mode` or the setting `teammateMode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TeammateMode {
    /// Decide from the surroundings.
    #[default]
    Auto,
    /// This backend or an error.
    Only(BackendType),
}

/// A text that names no mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown teammate mode {0:?}: use auto, in-process, process, tmux or iterm2")]
pub struct UnknownMode(pub String);

impl FromStr for TeammateMode {
    type Err = UnknownMode;
    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        use BackendType::{InProcess, Iterm2, Process, Tmux};
        if text == "auto" {
            return Ok(Self::Auto);
        }
        [InProcess, Process, Tmux, Iterm2]
            .into_iter()
            .find(|backend| backend.as_str() == text)
            .map(Self::Only)
            .ok_or_else(|| UnknownMode(text.to_owned()))
    }
}

impl fmt::Display for TeammateMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Only(backend) => backend.as_str(),
        })
    }
}

/// A release of tmux; releases order by number, then letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TmuxVersion {
    /// The 3 of `3.3a`.
    pub major: u32,
    /// The 3 of `.3a`.
    pub minor: u32,
    /// The `a`; a release without a letter comes before those with one.
    pub letter: Option<char>,
}

impl TmuxVersion {
    /// The oldest tmux that panes work with: the first with `split-window -Z`, `-e` and
    /// `run-shell -C` in a release without the crashes of 3.2.
    pub const OLDEST: Self = Self { major: 3, minor: 2, letter: Some('a') };
    /// What a build that names no release (`master`, `openbsd-7.4`) counts as.
    pub const UNRELEASED: Self = Self { major: u32::MAX, minor: 0, letter: None };

    /// Reads what `tmux -V` prints: `tmux 3.3a`, `tmux next-3.4`, `tmux master`, `tmux openbsd-7.4`.
    pub fn parse(printed: &str) -> Option<Self> {
        let version = printed.trim().strip_prefix("tmux ")?.trim();
        if version == "master" || version.starts_with("openbsd-") {
            return Some(Self::UNRELEASED);
        }
        let version = version.strip_prefix("next-").unwrap_or(version);
        let (major, rest) = version.split_once('.')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (minor, letter) = rest.split_at(digits);
        Some(Self {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
            letter: letter.chars().next().filter(char::is_ascii_lowercase),
        })
    }
}

impl fmt::Display for TmuxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::UNRELEASED {
            return f.write_str("unreleased");
        }
        write!(f, "{}.{}", self.major, self.minor)?;
        self.letter.map_or(Ok(()), |letter| write!(f, "{letter}"))
    }
}

/// What the choice depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackendFacts {
    /// The leader sits in a tmux pane.
    pub inside_tmux: bool,
    /// The tmux that would be run; `None` when there is none.
    pub tmux_version: Option<TmuxVersion>,
    /// Standard output is a terminal.
    pub stdout_is_terminal: bool,
    /// The leader sits in iTerm2 with its `it2` command.
    pub iterm2: bool,
}

/// Chooses the backend of new teammates, with the reason in one line.
///
/// An explicit mode is obeyed or is an error; `auto` always finds one.
pub fn choose(mode: TeammateMode, facts: &BackendFacts) -> Result<(BackendType, String), SpawnError> {
    match mode {
        TeammateMode::Auto => Ok(choose_auto(facts)),
        TeammateMode::Only(BackendType::InProcess) => {
            Ok((BackendType::InProcess, "asked for with --teammate-mode in-process".to_owned()))
        }
        TeammateMode::Only(BackendType::Tmux) => match usable_tmux(facts) {
            Ok(version) => {
                let place = if facts.inside_tmux { "beside this pane" } else { "in a server of its own" };
                Ok((BackendType::Tmux, format!("asked for; tmux {version}, {place}")))
            }
            Err(why) => Err(unavailable(
                why,
                format!("install tmux {} or newer, or use --teammate-mode in-process", TmuxVersion::OLDEST),
            )),
        },
        TeammateMode::Only(BackendType::Process) => {
            Ok((BackendType::Process, "asked for with --teammate-mode process".to_owned()))
        }
        TeammateMode::Only(BackendType::Iterm2) if facts.iterm2 => {
            Ok((BackendType::Iterm2, "asked for; beside this pane of iTerm2".to_owned()))
        }
        TeammateMode::Only(BackendType::Iterm2) => Err(unavailable(
            "this is no session of iTerm2 with the command it2".to_owned(),
            "start festoon in iTerm2 with it2 in the PATH, or use --teammate-mode tmux or in-process"
                .to_owned(),
        )),
    }
}

fn choose_auto(facts: &BackendFacts) -> (BackendType, String) {
    let in_process = |why: String| (BackendType::InProcess, why);
    if !facts.stdout_is_terminal {
        return in_process("standard output is no terminal".to_owned());
    }
    if facts.inside_tmux {
        return match usable_tmux(facts) {
            Ok(version) => (BackendType::Tmux, format!("inside tmux {version}")),
            Err(why) => in_process(format!("inside tmux, but {why}")),
        };
    }
    if facts.iterm2 {
        return (BackendType::Iterm2, "inside iTerm2, with it2".to_owned());
    }
    in_process("not inside tmux, nor in iTerm2 with it2".to_owned())
}

fn usable_tmux(facts: &BackendFacts) -> Result<TmuxVersion, String> {
    match facts.tmux_version {
        None => Err("no tmux program was found".to_owned()),
        Some(version) if version < TmuxVersion::OLDEST => {
            Err(format!("tmux {version} is older than {}", TmuxVersion::OLDEST))
        }
        Some(version) => Ok(version),
    }
}

fn unavailable(why: String, hint: String) -> SpawnError {
    SpawnError { step: "choose backend", why, hint }
}

/// The executors of this process, by backend.
#[derive(Clone, Default)]
pub struct BackendRegistry {
    executors: HashMap<BackendType, Arc<dyn TeammateExecutor>>,
}

impl BackendRegistry {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds an executor under its own backend; a later one of the same backend replaces it.
    pub fn register(&mut self, executor: Arc<dyn TeammateExecutor>) {
        self.executors.insert(executor.backend(), executor);
    }
    /// The executor of a backend, if one registered.
    pub fn get(&self, backend: BackendType) -> Option<Arc<dyn TeammateExecutor>> {
        self.executors.get(&backend).map(Arc::clone)
    }
    /// Closes all of them.
    pub async fn close(&self) {
        for executor in self.executors.values() {
            executor.close().await;
        }
    }
    /// The executor of a backend, or an error that can be shown.
    pub fn require(&self, backend: BackendType) -> Result<Arc<dyn TeammateExecutor>, SpawnError> {
        self.get(backend).ok_or_else(|| {
            unavailable(
                format!("no executor for the {} backend is registered", backend.as_str()),
                "use --teammate-mode in-process".to_owned(),
            )
        })
    }
}

impl fmt::Debug for BackendRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.executors.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use BackendType::{InProcess, Iterm2, Process, Tmux};

    const V33A: TmuxVersion = TmuxVersion { major: 3, minor: 3, letter: Some('a') };
    const V32: TmuxVersion = TmuxVersion { major: 3, minor: 2, letter: None };

    fn facts() -> BackendFacts {
        BackendFacts { inside_tmux: true, tmux_version: Some(V33A), stdout_is_terminal: true, iterm2: false }
    }

    #[test]
    fn modes_are_read_as_they_are_written() {
        for (text, mode) in [
            ("auto", TeammateMode::Auto),
            ("in-process", TeammateMode::Only(InProcess)),
            ("process", TeammateMode::Only(Process)),
            ("tmux", TeammateMode::Only(Tmux)),
            ("iterm2", TeammateMode::Only(Iterm2)),
        ] {
            assert_eq!(text.parse(), Ok(mode));
            assert_eq!(mode.to_string(), text);
        }
        assert_eq!("Tmux".parse::<TeammateMode>(), Err(UnknownMode("Tmux".to_owned())));
    }

    #[test]
    fn tmux_versions_are_read_and_ordered() {
        let parse = TmuxVersion::parse;
        assert_eq!(parse("tmux 3.3a\n"), Some(V33A));
        assert_eq!(parse("tmux next-3.4"), Some(TmuxVersion { major: 3, minor: 4, letter: None }));
        assert_eq!(parse("tmux 3.4-rc2"), Some(TmuxVersion { major: 3, minor: 4, letter: None }));
        assert_eq!(parse("tmux master"), Some(TmuxVersion::UNRELEASED));
        assert_eq!(parse("tmux openbsd-7.4"), Some(TmuxVersion::UNRELEASED));
        assert_eq!(parse("screen 4.9"), None);
        let mut sorted = ["tmux 3.4", "tmux 3.2a", "tmux 2.9a", "tmux 3.2", "tmux master"].map(parse);
        sorted.sort();
        let shown: Vec<String> = sorted.iter().flatten().map(ToString::to_string).collect();
        assert_eq!(shown, ["2.9a", "3.2", "3.2a", "3.4", "unreleased"]);
    }

    #[test]
    fn auto_follows_the_surroundings_and_says_why() {
        let chosen = |facts: BackendFacts| choose(TeammateMode::Auto, &facts).expect("auto always finds one");
        let expect = |backend, why: &str| (backend, why.to_owned());
        assert_eq!(chosen(facts()), expect(Tmux, "inside tmux 3.3a"));
        assert_eq!(
            chosen(BackendFacts { stdout_is_terminal: false, ..facts() }),
            expect(InProcess, "standard output is no terminal")
        );
        assert_eq!(
            chosen(BackendFacts { tmux_version: Some(V32), ..facts() }),
            expect(InProcess, "inside tmux, but tmux 3.2 is older than 3.2a")
        );
        assert_eq!(
            chosen(BackendFacts { tmux_version: None, ..facts() }),
            expect(InProcess, "inside tmux, but no tmux program was found")
        );
        assert_eq!(
            chosen(BackendFacts { inside_tmux: false, ..facts() }),
            expect(InProcess, "not inside tmux, nor in iTerm2 with it2")
        );
        assert_eq!(
            chosen(BackendFacts { inside_tmux: false, iterm2: true, ..facts() }),
            expect(Iterm2, "inside iTerm2, with it2")
        );
    }

    #[test]
    fn an_explicit_mode_works_or_is_an_error() {
        let outside = BackendFacts { inside_tmux: false, stdout_is_terminal: false, ..facts() };
        let tmux = TeammateMode::Only(Tmux);
        assert_eq!(choose(tmux, &outside).expect("tmux is there").0, Tmux);
        assert_eq!(choose(TeammateMode::Only(InProcess), &facts()).expect("always").0, InProcess);
        let why = |mode, facts: &BackendFacts| choose(mode, facts).expect_err("cannot work").to_string();
        assert_eq!(
            why(tmux, &BackendFacts { tmux_version: None, ..outside }),
            "choose backend: no tmux program was found"
        );
        assert_eq!(choose(TeammateMode::Only(Process), &outside).expect("always").0, Process);
        assert_eq!(
            why(TeammateMode::Only(Iterm2), &facts()),
            "choose backend: this is no session of iTerm2 with the command it2"
        );
        let inside = BackendFacts { iterm2: true, ..outside };
        assert_eq!(choose(TeammateMode::Only(Iterm2), &inside).expect("it is there").0, Iterm2);
    }
}
