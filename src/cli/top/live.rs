//! The terminal of `festoon top`: drawn anew when files change, at most once a second; keys move through it.
//!
//! Owns the terminal while it runs, on its other screen, and gives it back whatever the way out.

use super::frame::{Chosen, Page};
use super::seen::Seen;
use crate::cli::error::CliError;
use crate::cli::out;
use crate::cli::signals::Signalled;
use crate::cli::teams::kept::Kept;
use crate::cli::text::DEFAULT_COLUMNS;
use crate::os::terminal::{self, Modes, Size};
use crate::store::paths::Paths;
use crate::store::watch::{WatchGuard, Watcher};
use crate::wire::limits::{POLL_NET, POLL_NET_NETWORK};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Between two looks at the files, and between two pictures of a clock.
const AT_MOST_EVERY: Duration = Duration::from_secs(1);
/// The last row.
const FOOT: &str = "q quits · ↑ ↓ choose · Enter says how to attach";

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Enter,
    Quit,
}

/// Runs until the person leaves; the agent that they want to attach to, if any.
pub async fn run(
    paths: &Paths,
    signals: &mut mpsc::UnboundedReceiver<Signalled>,
) -> Result<(Option<Chosen>, Option<Signalled>), CliError> {
    let mut resized = signal(SignalKind::window_change())?;
    let kept = Kept::default();
    let mut seen = Seen::look(paths, &kept)?;
    let mut watch = Watch::start();
    watch.follow(seen.places(paths));
    let mut keys = read_keys()?;
    let screen = Screen::open();
    let mut chosen = None;
    let (mut looked, mut drawn) = (Instant::now(), Instant::now());
    let mut changed = false;
    loop {
        let size = terminal::size().unwrap_or(Size { columns: DEFAULT_COLUMNS, rows: 24 });
        let page = Page::new(&seen, size.columns);
        chosen = still_there(&page, chosen);
        screen.draw(&page.screen(size.rows, size.columns, chosen.as_ref(), FOOT));
        let wait = match (changed, seen.is_busy()) {
            (true, _) | (false, true) => AT_MOST_EVERY,
            (false, false) => watch.net,
        };
        tokio::select! {
            biased;
            signal = signals.recv() => return Ok((None, signal)),
            _ = resized.recv() => {}
            key = keys.recv() => match key {
                Some(Key::Enter) if chosen.is_some() => return Ok((chosen, None)),
                Some(Key::Enter) => {}
                Some(Key::Quit) | None => return Ok((None, None)),
                Some(key) => chosen = moved(&page, chosen, key, size.rows),
            },
            // Gathered until the second is over.
            Some(()) = watch.told.recv(), if !changed => changed = true,
            () = tokio::time::sleep_until(drawn + wait) => {
                if changed || looked.elapsed() >= watch.net {
                    seen = Seen::look(paths, &kept)?;
                    watch.follow(seen.places(paths));
                    (changed, looked) = (false, Instant::now());
                }
                drawn = Instant::now();
            }
        }
    }
}

/// The chosen agent as long as it is listed, else the first.
fn still_there(page: &Page, chosen: Option<Chosen>) -> Option<Chosen> {
    let agents = page.agents();
    chosen.filter(|chosen| agents.contains(&chosen)).or_else(|| agents.first().map(|first| (*first).clone()))
}

/// The agent that is chosen after a key.
fn moved(page: &Page, chosen: Option<Chosen>, key: Key, rows: usize) -> Option<Chosen> {
    let agents = page.agents();
    let at = chosen.and_then(|chosen| agents.iter().position(|agent| **agent == chosen)).unwrap_or(0);
    let (last, leap) = (agents.len().saturating_sub(1), (rows / 2).max(1));
    let to = match key {
        Key::Up => at.saturating_sub(1),
        Key::Down => (at + 1).min(last),
        Key::PageUp => at.saturating_sub(leap),
        Key::PageDown => (at + leap).min(last),
        Key::First => 0,
        Key::Last => last,
        Key::Enter | Key::Quit => at,
    };
    agents.get(to).map(|agent| (*agent).clone())
}

/// Word of changes.
struct Watch {
    watcher: Option<Watcher>,
    guards: BTreeMap<PathBuf, WatchGuard>,
    tell: mpsc::Sender<()>,
    told: mpsc::Receiver<()>,
    net: Duration,
}

impl Watch {
    fn start() -> Self {
        let (tell, told) = mpsc::channel(1);
        let watcher = Watcher::start()
            .inspect_err(|error| tracing::warn!(%error, "files are looked at from time to time"))
            .ok();
        let net = if watcher.is_some() { POLL_NET } else { POLL_NET_NETWORK.max(AT_MOST_EVERY) };
        Self { watcher, guards: BTreeMap::new(), tell, told, net }
    }

    /// Watches these directories and no others.
    fn follow(&mut self, dirs: Vec<PathBuf>) {
        let Some(watcher) = &self.watcher else { return };
        self.guards.retain(|dir, _| dirs.contains(dir));
        for dir in dirs {
            if self.guards.contains_key(&dir) {
                continue;
            }
            let tell = self.tell.clone();
            // A full channel already says what one more word would; what cannot be watched has the net.
            if let Ok(guard) = watcher.watch(&dir, move |_| _ = tell.try_send(())) {
                self.guards.insert(dir, guard);
            }
        }
        watcher.rearm();
    }
}

/// Reads keys in a thread of its own, which ends with the process.
fn read_keys() -> std::io::Result<mpsc::UnboundedReceiver<Key>> {
    let (pressed, keys) = mpsc::unbounded_channel();
    std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut bytes = [0; 64];
        loop {
            match stdin.read(&mut bytes) {
                Ok(0) => return,
                Ok(count) => {
                    if keys_in(&bytes[..count]).into_iter().any(|key| pressed.send(key).is_err()) {
                        return;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    })?;
    Ok(keys)
}

/// The keys in what a terminal sends.
fn keys_in(bytes: &[u8]) -> Vec<Key> {
    const KNOWN: [(&[u8], Key); 16] = [
        (b"\x1b[A", Key::Up),
        (b"\x1bOA", Key::Up),
        (b"k", Key::Up),
        (b"\x1b[B", Key::Down),
        (b"\x1bOB", Key::Down),
        (b"j", Key::Down),
        (b"\x1b[5~", Key::PageUp),
        (b"\x1b[6~", Key::PageDown),
        (b" ", Key::PageDown),
        (b"\x1b[H", Key::First),
        (b"g", Key::First),
        (b"\x1b[F", Key::Last),
        (b"G", Key::Last),
        (b"\r", Key::Enter),
        (b"\n", Key::Enter),
        (b"q", Key::Quit),
    ];
    let mut keys = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        match KNOWN.iter().find(|(sequence, _)| rest.starts_with(sequence)) {
            Some((sequence, key)) => {
                keys.push(*key);
                rest = &rest[sequence.len()..];
            }
            None => rest = &rest[1..],
        }
    }
    keys
}

/// The terminal's other screen.
struct Screen {
    modes: Option<Modes>,
}

impl Screen {
    fn open() -> Self {
        let modes = Modes::remember();
        if let Some(modes) = &modes {
            // Without it keys count after Enter.
            let _ = modes.single_keys();
        }
        put("\x1b[?1049h\x1b[?25l");
        Self { modes }
    }

    /// All rows, in one write.
    fn draw(&self, rows: &[String]) {
        // Emptied before it is written: behind a full row the cursor is still on its last cell.
        let rows: Vec<String> = rows.iter().map(|row| format!("\x1b[2K{}", out::styled(row))).collect();
        put(&format!("\x1b[H{}", rows.join("\r\n")));
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        put("\x1b[?25h\x1b[?1049l");
        if let Some(modes) = &self.modes {
            let _ = modes.restore();
        }
    }
}

fn put(text: &str) {
    // A terminal that is gone shows nothing.
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_what_a_terminal_sends() {
        assert_eq!(keys_in(b"\x1b[B\x1b[A\x1bOBjk"), [Key::Down, Key::Up, Key::Down, Key::Down, Key::Up]);
        assert_eq!(
            keys_in(b"x\x1b[5~ gG\r\nq"),
            [Key::PageUp, Key::PageDown, Key::First, Key::Last, Key::Enter, Key::Enter, Key::Quit]
        );
        assert_eq!(keys_in(b"\x1b[Z"), []);
    }
}
