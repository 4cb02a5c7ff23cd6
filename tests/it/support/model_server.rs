//! A strict Messages API server on 127.0.0.1.
//!
//! Plays scripted replies as a stream of events, refuses what the real service refuses, counts
//! prompt-cache tokens from the exact bytes it was sent, and keeps every request. Whatever it had to
//! refuse fails the test when the server is dropped.

pub mod cache;
mod http;
pub mod refuse;
pub mod reply;
pub mod request;

use super::wait::{self, PATIENCE};
use super::world::{KEY, World};
use cache::{Cache, Found};
use refuse::Issued;
pub use reply::{Part, Reply, block, call, call_as, gate, say, think};
pub use request::Request;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// When a rule answers; all conditions must hold.
#[derive(Debug, Clone, Default)]
pub struct When {
    prompt: Option<String>,
    input: Option<String>,
    fork: Option<String>,
}

/// It is a fork, and its directive holds this text.
pub fn fork(text: &str) -> When {
    When { fork: Some(text.to_owned()), ..When::default() }
}

/// The conversation began with a message that holds this text.
pub fn prompt(text: &str) -> When {
    When { prompt: Some(text.to_owned()), ..When::default() }
}

impl When {
    /// What came since the last answer holds this text.
    pub fn input(mut self, text: &str) -> Self {
        self.input = Some(text.to_owned());
        self
    }

    fn fits(&self, request: &Request) -> bool {
        let holds = |wanted: &Option<String>, text: &str| wanted.as_ref().is_none_or(|w| text.contains(w));
        let directive = request.directive().unwrap_or_default();
        holds(&self.prompt, &request.prompt())
            && holds(&self.input, &request.input())
            && self.fork.as_ref().is_none_or(|wanted| directive.contains(wanted))
    }
}

struct Rule {
    when: When,
    replies: Vec<Arc<Reply>>,
    used: usize,
    always: bool,
}

struct State {
    rules: Vec<Rule>,
    requests: Vec<Arc<Request>>,
    complaints: Vec<String>,
    open: BTreeSet<String>,
    waiting: BTreeSet<String>,
    issued: Issued,
    cache: Cache,
    usage: Vec<(String, Value)>,
    /// By the request's number.
    found: Vec<(u64, Found)>,
    next: u64,
    closing: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the server's state")
    }

    /// Waits until the gate is open; `false` when the server closes instead.
    fn pass(&self, name: &str) -> bool {
        let mut state = self.state();
        state.waiting.insert(name.to_owned());
        self.changed.notify_all();
        let end = Instant::now() + PATIENCE;
        while !state.open.contains(name) && !state.closing && Instant::now() < end {
            state = self.changed.wait_timeout(state, Duration::from_secs(1)).expect("the server's state").0;
        }
        state.open.contains(name)
    }

    /// Keeps silent until the server closes.
    fn stay_silent(&self) {
        let mut state = self.state();
        while !state.closing {
            state = self.changed.wait_timeout(state, Duration::from_secs(1)).expect("the server's state").0;
        }
    }

    fn complain(&self, what: String) {
        self.state().complaints.push(what);
    }
}

/// The server.
pub struct ModelServer {
    /// Where it is.
    pub url: String,
    shared: Arc<Shared>,
    address: std::net::SocketAddr,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl ModelServer {
    /// Listens on a free port.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = listener.local_addr().expect("address");
        let state = State {
            rules: Vec::new(),
            requests: Vec::new(),
            complaints: Vec::new(),
            open: BTreeSet::new(),
            waiting: BTreeSet::new(),
            issued: Issued::default(),
            cache: Cache::default(),
            usage: Vec::new(),
            found: Vec::new(),
            next: 0,
            closing: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let serving = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.state().closing {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let shared = Arc::clone(&serving);
                std::thread::spawn(move || http::serve(stream, &shared));
            }
        });
        Self { url: format!("http://{address}"), shared, address, thread: Some(thread) }
    }

    /// A world whose binary talks to this server, with short retries.
    pub fn world(&self) -> World {
        let mut world = World::new();
        let settings =
            r#"{"retry":{"baseDelayMs":1,"maxDelayMs":20,"maxAttempts":4,"streamIdleTimeoutMs":20000}}"#;
        std::fs::create_dir_all(&world.home).expect("state root");
        std::fs::write(world.home.join("settings.json"), settings).expect("settings");
        for (name, value) in [
            ("ANTHROPIC_BASE_URL", self.url.as_str()),
            ("ANTHROPIC_API_KEY", KEY),
            ("FESTOON_MODEL", "anthropic:test-model"),
        ] {
            world.env.insert(name.to_owned(), value.to_owned());
        }
        world
    }

    /// The first, second … request of a conversation that fits gets the first, second … reply. Rules
    /// are tried in the order they were added; one whose replies are used up fits no more.
    pub fn on(&self, when: When, replies: impl IntoIterator<Item = Reply>) -> &Self {
        self.add(when, replies.into_iter().map(Arc::new).collect(), false)
    }

    /// Every request that fits gets this reply.
    pub fn always(&self, when: When, reply: impl Into<Reply>) -> &Self {
        self.add(when, vec![Arc::new(reply.into())], true)
    }

    fn add(&self, when: When, replies: Vec<Arc<Reply>>, always: bool) -> &Self {
        self.shared.state().rules.push(Rule { when, replies, used: 0, always });
        self
    }

    /// Opens a gate.
    pub fn open(&self, gate: &str) {
        self.shared.state().open.insert(gate.to_owned());
        self.shared.changed.notify_all();
    }

    /// Waits until a reply stands before this gate.
    pub fn reached(&self, gate: &str) {
        wait::until(&format!("the gate {gate} is reached"), || self.shared.state().waiting.contains(gate));
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Arc<Request>> {
        self.shared.state().requests.clone()
    }

    /// The requests of the conversation that began with this text.
    pub fn of(&self, prompt: &str) -> Vec<Arc<Request>> {
        self.requests().into_iter().filter(|r| r.prompt().contains(prompt)).collect()
    }

    /// The last request of a conversation: it holds all the earlier ones.
    pub fn last_of(&self, prompt: &str) -> Arc<Request> {
        self.of(prompt).pop().unwrap_or_else(|| panic!("no request of {prompt}"))
    }

    /// Waits until a conversation has made so many requests.
    pub fn wait_for(&self, prompt: &str, count: usize) {
        wait::until(&format!("{count} requests of {prompt}"), || self.of(prompt).len() >= count);
    }

    /// The tokens of all complete replies to a model; `None` for all models.
    pub fn usage(&self, model: Option<&str>) -> Value {
        let state = self.shared.state();
        let counted: Vec<&Value> =
            state.usage.iter().filter(|(m, _)| model.is_none_or(|w| w == m)).map(|(_, u)| u).collect();
        let sum = |key: &str| counted.iter().filter_map(|u| u[key].as_u64()).sum::<u64>();
        let keys =
            ["input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
        keys.iter()
            .map(|key| ((*key).to_owned(), Value::from(sum(key))))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    /// What the prompt cache gave each request that was answered, in order.
    pub fn cached(&self) -> Vec<Found> {
        self.shared.state().found.iter().map(|(_, found)| *found).collect()
    }

    /// What it gave this one.
    #[track_caller]
    pub fn cached_for(&self, request: &Request) -> Found {
        // The lock is not held where the test may fail.
        let found = self.shared.state().found.clone();
        let own = found.iter().find(|(number, _)| *number == request.number);
        own.unwrap_or_else(|| panic!("request {} was not answered", request.number)).1
    }

    /// The requests of forks whose directive holds this text.
    pub fn of_fork(&self, directive: &str) -> Vec<Arc<Request>> {
        let is_one = |r: &Arc<Request>| r.directive().is_some_and(|text| text.contains(directive));
        self.requests().into_iter().filter(is_one).collect()
    }

    /// Fails unless every scripted reply was given.
    #[track_caller]
    pub fn all_played(&self) {
        let state = self.shared.state();
        let left: Vec<String> = state
            .rules
            .iter()
            .filter(|r| !r.always && r.used < r.replies.len())
            .map(|r| format!("{} of {} replies to {:?}", r.used, r.replies.len(), r.when))
            .collect();
        drop(state);
        assert_eq!(left, Vec::<String>::new());
    }

    /// Takes what was refused, for tests that provoke it.
    pub fn take_complaints(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.state().complaints)
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.state().closing = true;
        self.shared.changed.notify_all();
        // Wakes the listener, which then ends.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let complaints = self.take_complaints();
        if !complaints.is_empty() {
            // Also when the test fails anyway: this is usually why.
            let _ = writeln!(std::io::stderr(), "the model server refused: {complaints:#?}");
            assert!(std::thread::panicking(), "the model server refused requests");
        }
    }
}
