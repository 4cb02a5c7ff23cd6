//! An iTerm2 that is not there: an `it2` in the `PATH`, and behind it the application, a thread of the test.
//!
//! Behaves like the command line of the package `it2` 0.2: `session list|split|close|get-var|read`, `profile
//! list`. Profiles are taken from the directory that iTerm2 watches; a session's command is started without a
//! shell, in an environment of the application's own. What would type into a session is noted.

use super::world::{MARK, World};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

/// The session that the leader sits in.
pub const LEADER: &str = "11111111-2222-3333-4444-555555555555";

/// Hands the words of a call to the application, and passes on what it answers: the status, then text.
const CLIENT: &str = r#"#!/bin/sh
me="$0.d/$$"
for word in "$@"; do printf '%s\n' "$word"; done >"$me.tmp"
mv "$me.tmp" "$me.call"
while [ ! -f "$me.answer" ]; do sleep 0.01; done
{ read -r code; cat; } <"$me.answer" >"$me.text"
code=$(head -n 1 "$me.answer")
if [ "$code" = 0 ]; then cat "$me.text"; else cat "$me.text" >&2; fi
rm -f "$me.answer" "$me.text"
exit "$code"
"#;

#[derive(Default)]
struct State {
    /// The sessions beside the leader's: id, profile, process.
    sessions: Vec<(String, String, Child)>,
    /// What was split, with which direction.
    splits: Vec<(String, &'static str)>,
    typed: Vec<String>,
    refuses: bool,
    made: usize,
}

/// The application. It ends, and its sessions with it, when it is dropped.
pub struct Iterm {
    state: Arc<Mutex<State>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    profiles: PathBuf,
    bin: PathBuf,
}

impl Iterm {
    /// Starts it for the person of this world.
    pub fn start(world: &World) -> Self {
        let bin = world.outside().join("iterm");
        let calls = bin.join("it2.d");
        fs::create_dir_all(&calls).expect("dir");
        fs::write(bin.join("it2"), CLIENT).expect("client");
        fs::set_permissions(bin.join("it2"), fs::Permissions::from_mode(0o755)).expect("mode");
        let home = Path::new(&world.env["HOME"]);
        let profiles = home.join("Library/Application Support/iTerm2/DynamicProfiles");
        let (state, stop) = (Arc::<Mutex<State>>::default(), Arc::new(AtomicBool::new(false)));
        let app = App {
            state: Arc::clone(&state),
            calls,
            profiles: profiles.clone(),
            env: [
                ("PATH".to_owned(), world.env["PATH"].clone()),
                ("TERM".to_owned(), "xterm-256color".to_owned()),
                ("ANTHROPIC_API_KEY".to_owned(), "key-of-the-application".to_owned()),
                ("ONLY_IN_ITERM".to_owned(), "yes".to_owned()),
                (MARK.to_owned(), world.mark.clone()),
            ]
            .into(),
        };
        let ends = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::Acquire) {
                app.look();
                std::thread::park_timeout(Duration::from_millis(5));
            }
        });
        Self { state, stop, thread: Some(thread), profiles, bin }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("state")
    }

    /// The environment of a leader in its first session.
    pub fn env(&self, world: &World) -> BTreeMap<String, String> {
        let mut env = world.env.clone();
        env.insert("TERM_PROGRAM".to_owned(), "iTerm.app".to_owned());
        env.insert("ITERM_SESSION_ID".to_owned(), format!("w0t0p0:{LEADER}"));
        env.insert("PATH".to_owned(), format!("{}:{}", self.bin.display(), world.env["PATH"]));
        env
    }

    /// The sessions beside the leader's.
    pub fn sessions(&self) -> Vec<String> {
        self.state().sessions.iter().map(|(id, ..)| id.clone()).collect()
    }

    /// What was split, with `-v` where it was beside.
    pub fn splits(&self) -> Vec<(String, &'static str)> {
        self.state().splits.clone()
    }

    /// What was typed into sessions.
    pub fn typed(&self) -> Vec<String> {
        self.state().typed.clone()
    }

    /// Profiles that are still offered.
    pub fn profiles(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.profiles).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    }

    /// From now on no session is split.
    pub fn refuse(&self) {
        self.state().refuses = true;
    }

    /// The person closes a session.
    pub fn close(&self, id: &str) {
        let mut state = self.state();
        if let Some(at) = state.sessions.iter().position(|(known, ..)| known == id) {
            let (.., mut child) = state.sessions.remove(at);
            child.kill().expect("kills");
            child.wait().expect("waits");
        }
    }
}

impl Drop for Iterm {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
        let Ok(mut state) = self.state.lock() else { return };
        for (.., child) in &mut state.sessions {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

struct App {
    state: Arc<Mutex<State>>,
    calls: PathBuf,
    profiles: PathBuf,
    env: BTreeMap<String, String>,
}

impl App {
    fn look(&self) {
        let mut state = self.state.lock().expect("state");
        // Sessions close when their command ends.
        state.sessions.retain_mut(|(.., child)| matches!(child.try_wait(), Ok(None)));
        for entry in fs::read_dir(&self.calls).into_iter().flatten().flatten() {
            let call = entry.path();
            if call.extension().is_none_or(|kind| kind != "call") {
                continue;
            }
            let words = fs::read_to_string(&call).expect("a call");
            fs::remove_file(&call).expect("taken");
            let words: Vec<&str> = words.lines().collect();
            let (code, text) = self
                .answer(&mut state, &words)
                .map_or_else(|(code, why)| (code, format!("Error: {why}")), |text| (0, text));
            let draft = call.with_extension("draft");
            fs::write(&draft, format!("{code}\n{text}\n")).expect("an answer");
            fs::rename(draft, call.with_extension("answer")).expect("an answer");
        }
    }

    fn answer(&self, state: &mut State, words: &[&str]) -> Result<String, (i32, String)> {
        let after = |flag: &str| {
            words.iter().position(|word| *word == flag).and_then(|at| words.get(at + 1)).copied()
        };
        let wanted = after("-s").unwrap_or(LEADER);
        let at = state.sessions.iter().position(|(id, ..)| id == wanted);
        let none = || (3, format!("Session '{wanted}' not found"));
        match words {
            ["profile", "list", "--json"] => {
                let names = self
                    .offered()
                    .into_iter()
                    .map(|profile| serde_json::json!({ "guid": profile["Guid"], "name": profile["Name"] }));
                Ok(serde_json::Value::from_iter(names).to_string())
            }
            ["session", "split", ..] => {
                if state.refuses || (at.is_none() && wanted != LEADER) {
                    return Err(none());
                }
                let name = after("-p").expect("a profile");
                let profile = self.offered().into_iter().find(|profile| profile["Name"] == name);
                let profile = profile.ok_or((1, "INVALID_PROFILE_NAME".to_owned()))?;
                state.made += 1;
                let id = format!("00000000-0000-0000-0000-{:012}", state.made);
                let command = taken_apart(profile["Command"].as_str().expect("a command"));
                assert_eq!(profile["Custom Command"], "Yes");
                let child = Command::new(&command[0])
                    .args(&command[1..])
                    .current_dir(profile["Working Directory"].as_str().expect("a directory"))
                    .env_clear()
                    .envs(&self.env)
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .expect("starts");
                state.sessions.push((id.clone(), name.to_owned(), child));
                state.splits.push((wanted.to_owned(), if words.contains(&"-v") { "-v" } else { "" }));
                Ok(format!("Created new pane: {id}"))
            }
            ["session", "get-var", variable, ..] => {
                let (_, profile, child) = &state.sessions[at.ok_or_else(none)?];
                match *variable {
                    "pid" => Ok(child.id().to_string()),
                    "profileName" => Ok(profile.clone()),
                    other => Ok(format!("Variable '{other}' not set")),
                }
            }
            ["session", "read", ..] => at.map(|_| "what it showed last".to_owned()).ok_or_else(none),
            ["session", "close", ..] => {
                assert!(words.contains(&"-f"), "it would ask");
                let (.., mut child) = state.sessions.remove(at.ok_or_else(none)?);
                child.kill().expect("kills");
                child.wait().expect("waits");
                Ok("Session closed".to_owned())
            }
            other => {
                state.typed.push(other.join(" "));
                Err((2, "no such command".to_owned()))
            }
        }
    }

    fn offered(&self) -> Vec<serde_json::Value> {
        let files = fs::read_dir(&self.profiles).into_iter().flatten().flatten();
        let texts = files.filter_map(|entry| fs::read_to_string(entry.path()).ok());
        let read = texts.filter_map(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
        read.flat_map(|file| file["Profiles"].as_array().cloned().unwrap_or_default()).collect()
    }
}

/// A command's words, as iTerm2 takes it apart: at spaces, without a shell.
fn taken_apart(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match (c, words.last_mut()) {
            (' ', _) => words.push(String::new()),
            ('\\', Some(word)) => word.extend(chars.next()),
            (c, Some(word)) => word.push(c),
            (_, None) => {}
        }
    }
    words
}
