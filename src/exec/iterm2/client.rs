//! The `it2` command: what is asked of iTerm2 and what it answers.
//!
//! Owns every call of `it2` and the profiles that panes are made with. Promises that each call has a
//! deadline, that sessions are named by their ids, and that `it2` gets of our environment only what it
//! needs. Never calls what types into a session (`send`, `run`).

use super::profiles;
use crate::os::capture::capture;
use crate::os::command::CommandSpec;
use crate::os::error::OsError;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;

/// How long one call may take: a Python program that connects to iTerm2.
const CALL_DEADLINE: Duration = Duration::from_secs(10);
/// How long iTerm2 may take to see a new profile, and to know the process of a new session.
const SETTLE: Duration = Duration::from_secs(10);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// More than any list of sessions or profiles has.
const LIMIT: usize = 4 * 1024 * 1024;
/// Beginnings of the variables that `it2`, its Python and its connection need.
const PASSED_ON: [&str; 12] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "LANG",
    "LC_",
    "TERM",
    "ITERM",
    "PYTHON",
    "VIRTUAL_ENV",
    "XDG_",
];
/// Where iTerm2 looks for profiles that programs offer, below the home directory.
const PROFILES: &str = "Library/Application Support/iTerm2/DynamicProfiles";

/// A call that did not work.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum It2Error {
    /// It could not be run, or was not done in time.
    #[error("it2: {0}")]
    Run(String),
    /// It refused.
    #[error("it2 {verb}: {said}")]
    Refused {
        /// The command.
        verb: String,
        /// Its own words.
        said: String,
    },
    /// It answered with something else than was asked for.
    #[error("it2 {verb} answered {answer:?}")]
    Unreadable {
        /// The command.
        verb: String,
        /// The answer.
        answer: String,
    },
    /// A profile could not be offered.
    #[error("{path}: {why}", path = path.display())]
    Profile {
        /// Its file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// The session of the leader: what follows `w0t0p0:` in `ITERM_SESSION_ID`.
pub(super) fn leader(env: &BTreeMap<String, String>) -> Option<String> {
    let id = env.get("ITERM_SESSION_ID")?;
    let id = id.rsplit_once(':').map_or(id.as_str(), |(_, id)| id);
    (!id.is_empty()).then(|| id.to_owned())
}

/// The client.
pub(super) struct It2 {
    env: BTreeMap<String, String>,
    /// Our own program, the guard of the calls.
    guard: PathBuf,
    leader: Option<String>,
}

impl It2 {
    /// For the iTerm2 that `env` tells of.
    pub(super) fn new(env: &BTreeMap<String, String>, guard: PathBuf) -> Self {
        let passed = |name: &&String| PASSED_ON.iter().any(|beginning| name.starts_with(beginning));
        let kept = env.iter().filter(|(name, _)| passed(name));
        let env_of_it2 = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        Self { env: env_of_it2, guard, leader: leader(env) }
    }

    async fn call(&self, args: &[&str]) -> Result<String, It2Error> {
        let argv = ["it2"].into_iter().chain(args.iter().copied());
        let spec = CommandSpec { guard: self.guard.clone(), ..CommandSpec::new(argv, "/", self.env.clone()) };
        let done =
            capture(spec, CALL_DEADLINE, LIMIT).await.map_err(|e: OsError| It2Error::Run(e.to_string()))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if done.exit.is_success() {
            return Ok(text(&done.stdout));
        }
        let said = text(&done.stderr);
        Err(It2Error::Refused {
            verb: verb(args),
            said: if said.is_empty() { done.exit.to_string() } else { said },
        })
    }

    /// Offers iTerm2 a profile whose command is `argv`, and waits until it is known. The caller removes the
    /// file as soon as the pane is made.
    pub(super) async fn offer(&self, name: &str, argv: &[String], cwd: &Path) -> Result<PathBuf, It2Error> {
        let dir = PathBuf::from(self.env.get("HOME").map_or("/", String::as_str)).join(PROFILES);
        let file = dir.join(profiles::file_name(name));
        let command: Vec<String> = argv.iter().map(|word| quoted(word)).collect();
        let profile = json!({ "Profiles": [{
            "Name": name, "Guid": name, "Custom Command": "Yes", "Command": command.join(" "),
            "Custom Directory": "Yes", "Working Directory": cwd, "Close Sessions On End": true,
            "Prompt Before Closing 2": 0, "Tags": [profiles::TAG],
        }] });
        profiles::write(dir, file.clone(), profile.to_string())
            .await
            .map_err(|why| It2Error::Profile { path: file.clone(), why })?;
        match self.is_known(name).await {
            Ok(()) => Ok(file),
            Err(error) => {
                profiles::remove(file).await;
                Err(error)
            }
        }
    }

    /// Waits until iTerm2 knows the profile.
    async fn is_known(&self, name: &str) -> Result<(), It2Error> {
        let until = Instant::now() + SETTLE;
        loop {
            let args = ["profile", "list", "--json"];
            let answer = self.call(&args).await?;
            let all: Value = serde_json::from_str(&answer)
                .map_err(|_| It2Error::Unreadable { verb: verb(&args), answer: answer.clone() })?;
            if all.as_array().is_some_and(|all| all.iter().any(|profile| profile["name"] == name)) {
                return Ok(());
            }
            if Instant::now() >= until {
                let said = format!("iTerm2 has not taken up the profile within {} s", SETTLE.as_secs());
                return Err(It2Error::Refused { verb: verb(&args), said });
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// A new pane to the right of the leader's.
    pub(super) async fn split_beside_leader(&self, profile: &str) -> Result<String, It2Error> {
        match self.leader.as_deref() {
            Some(leader) => self.split(&["session", "split", "-v", "-s", leader, "-p", profile]).await,
            None => Err(It2Error::Run("the leader is in no session of iTerm2".to_owned())),
        }
    }

    /// A new pane below that of `session`.
    pub(super) async fn split_below(&self, session: &str, profile: &str) -> Result<String, It2Error> {
        self.split(&["session", "split", "-s", session, "-p", profile]).await
    }

    async fn split(&self, args: &[&str]) -> Result<String, It2Error> {
        let answer = self.call(args).await?;
        let id = answer.lines().find_map(|line| line.strip_prefix("Created new pane: "));
        id.map(|id| id.trim().to_owned()).ok_or_else(|| It2Error::Unreadable { verb: verb(args), answer })
    }

    /// The process of a session.
    pub(super) async fn pid(&self, session: &str) -> Result<u32, It2Error> {
        let until = Instant::now() + SETTLE;
        loop {
            let args = ["session", "get-var", "pid", "-s", session];
            let answer = self.call(&args).await?;
            match answer.parse() {
                Ok(pid) => return Ok(pid),
                Err(_) if Instant::now() < until => tokio::time::sleep(LOOK).await,
                Err(_) => return Err(It2Error::Unreadable { verb: verb(&args), answer }),
            }
        }
    }

    /// The name of the profile that a session was made with.
    pub(super) async fn profile_of(&self, session: &str) -> Result<String, It2Error> {
        self.call(&["session", "get-var", "profileName", "-s", session]).await
    }

    /// The last lines a session shows.
    pub(super) async fn last_lines(&self, session: &str, count: usize) -> Result<String, It2Error> {
        let screen = self.call(&["session", "read", "-s", session]).await?;
        let lines: Vec<&str> = screen.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        Ok(lines[lines.len().saturating_sub(count)..].join("\n"))
    }

    /// Closes a session without asking.
    pub(super) async fn close(&self, session: &str) -> Result<(), It2Error> {
        self.call(&["session", "close", "-f", "-s", session]).await.map(drop)
    }
}

fn verb(args: &[&str]) -> String {
    args.iter().take(2).copied().collect::<Vec<_>>().join(" ")
}

/// A word of a profile's command: iTerm2 takes it apart at spaces, quotes and backslashes, without a shell.
fn quoted(word: &str) -> String {
    let mut quoted = String::with_capacity(word.len());
    for c in word.chars() {
        if !(c.is_alphanumeric() || "/._-+,:@%".contains(c)) {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leaders_session_is_what_follows_its_place() {
        let env = |id: &str| BTreeMap::from([("ITERM_SESSION_ID".to_owned(), id.to_owned())]);
        assert_eq!(leader(&env("w0t1p2:AB-CD")), Some("AB-CD".to_owned()));
        assert_eq!(leader(&env("AB-CD")), Some("AB-CD".to_owned()));
        assert_eq!([leader(&env("")), leader(&env("w0t0p0:")), leader(&BTreeMap::new())], [None, None, None]);
    }

    #[test]
    fn words_of_a_command_stay_words() {
        assert_eq!(quoted("/opt/a-b_c/1.2"), "/opt/a-b_c/1.2");
        assert_eq!(quoted("a b\"c'd\\$e"), "a\\ b\\\"c\\'d\\\\\\$e");
    }

    #[test]
    fn it2_gets_only_what_it_needs_of_our_environment() {
        let pairs = [("PATH", "/bin"), ("ITERM2_COOKIE", "c"), ("ANTHROPIC_API_KEY", "k"), ("LC_ALL", "C")];
        let env = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let it2 = It2::new(&env, PathBuf::new());
        assert_eq!(it2.env.keys().collect::<Vec<_>>(), ["ITERM2_COOKIE", "LC_ALL", "PATH"]);
    }
}
