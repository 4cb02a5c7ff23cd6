//! The live view of a run that is watched: a feed of lines above one status line an agent.
//!
//! Owns the terminal while it is there: one thread draws, everyone else sends it lines. Below
//! [`MIN_ROWS`] rows, or without a terminal, the same lines are printed and nothing is drawn. At the
//! end the block is taken away, the cursor and the modes are put back, whatever the way out. Costs
//! nothing while nobody works: it is redrawn when something changed, and only a working agent has a
//! clock.

use super::compose::Session;
use super::feed;
use super::out;
use super::status::{self, AgentStatus, SeenAgents};
use super::text;
use super::view::{Beside, LineSink, View};
use crate::agent::background::Background;
use crate::agent::context::spawn_in;
use crate::agent::events::Observer;
use crate::os::terminal::{self, Modes, Size};
use crate::store::clock;
use crate::team::context::Team;
use crate::team::wake::Topic;
use crate::wire::run::AgentState;
use crate::wire::time::Timestamp;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A block below a feed needs so much room.
pub const MIN_ROWS: usize = 10;
/// Between two pictures of the spinner.
const TICK: Duration = Duration::from_millis(150);
const SPINNER: [char; 4] = ['|', '/', '-', '\\'];

enum Draw {
    Line(String),
    Block(Vec<AgentStatus>),
    Tick,
    End,
}

/// A screen before there is a session: its observer belongs into the session's plan.
pub struct Prepared {
    draw: mpsc::Sender<Draw>,
    thread: JoinHandle<()>,
    live: bool,
    since: Timestamp,
}

/// The live view.
pub struct Screen {
    draw: mpsc::Sender<Draw>,
    thread: JoinHandle<()>,
    end: CancellationToken,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

/// Where lines for the feed go.
#[derive(Clone)]
pub struct Lines(mpsc::Sender<Draw>);

impl LineSink for Lines {
    fn line(&self, text: String) {
        // Fails only after the end, when nobody looks any more.
        let _ = self.0.send(Draw::Line(text));
    }
}

impl Prepared {
    /// Starts the drawing thread.
    pub fn start() -> io::Result<Self> {
        let live = can_draw();
        let (draw, waiting) = mpsc::channel();
        let name = "screen".to_owned();
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || if live { Drawing::start().run(&waiting) } else { print(&waiting) })?;
        Ok(Self { draw, thread, live, since: clock::now() })
    }

    /// What sees the agents of this process.
    pub fn observer(&self) -> Arc<dyn Observer> {
        Arc::new(View::new(Lines(self.draw.clone()), Beside::Log))
    }

    /// A handle for other lines.
    pub fn lines(&self) -> Lines {
        Lines(self.draw.clone())
    }

    /// Gives the terminal back, because there is no session after all.
    pub fn cancel(self) {
        let _ = self.draw.send(Draw::End);
        let _ = self.thread.join();
    }
}

impl Screen {
    /// Follows a session from its start.
    pub fn start(prepared: Prepared, session: &Session) -> Self {
        let context = Arc::clone(&session.lead.agent.core().context);
        let end = CancellationToken::new();
        let lines = prepared.lines();
        let (team, over, since) = (session.team.clone(), end.clone(), prepared.since.clone());
        let feeding = spawn_in(&context, async move {
            let errors = lines.clone();
            if let Err(error) = feed::follow_lines(team, since, over, |_| true, |line| lines.line(line)).await
            {
                errors.line(format!("the feed ended: {error}"));
            }
        });
        let mut tasks = vec![feeding];
        if prepared.live {
            let background = session.runtime.background.clone();
            let watching = watch(session.team.clone(), background, prepared.draw.clone(), end.clone());
            tasks.push(spawn_in(&context, watching));
        }
        Self { draw: prepared.draw, thread: prepared.thread, end, tasks }
    }

    /// A line of the caller's own, above the block.
    pub fn note(&self, line: impl Into<String>) {
        Lines(self.draw.clone()).line(line.into());
    }

    /// A handle for lines.
    pub fn lines(&self) -> Lines {
        Lines(self.draw.clone())
    }

    /// Shows what was said until now, takes the block away and gives the terminal back.
    pub async fn finish(self) {
        self.end.cancel();
        for task in self.tasks {
            // A feed that panicked has been reported by its panic.
            let _ = task.await;
        }
        let _ = self.draw.send(Draw::End);
        let _ = self.thread.join();
    }
}

/// Whether standard output is a terminal on which one can draw.
fn can_draw() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
    !dumb && terminal::size().is_some_and(|size| size.rows >= MIN_ROWS)
}

/// Looks at the agents whenever something changed.
async fn watch(team: Team, tasks: Background, draw: mpsc::Sender<Draw>, end: CancellationToken) {
    let mut states = tasks.changes();
    let mut progress = tasks.progress();
    let mut runs = team.hub.signal(Topic::Runs);
    let mut roster = team.hub.signal(Topic::Team);
    let seen = SeenAgents::default();
    loop {
        let mut busy = false;
        match status::look(&team, &seen).await {
            Ok(agents) => {
                let mut here: Vec<_> = agents.into_iter().filter(|a| !a.state.is_over()).collect();
                here.extend(status::background(&tasks));
                busy = here.iter().any(AgentStatus::is_busy);
                if draw.send(Draw::Block(here)).is_err() {
                    return;
                }
            }
            Err(error) => tracing::warn!(%error, "the agents could not be looked at"),
        }
        let changed = async {
            tokio::select! {
                () = runs.changed() => {}
                () = roster.changed() => {}
                // Both live as long as the session.
                _ = states.changed() => {}
                _ = progress.changed() => {}
            }
        };
        tokio::pin!(changed);
        loop {
            tokio::select! {
                () = end.cancelled() => return,
                () = &mut changed => break,
                () = tokio::time::sleep(TICK), if busy => {
                    if draw.send(Draw::Tick).is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// Without a terminal: lines alone.
fn print(waiting: &mpsc::Receiver<Draw>) {
    while let Ok(draw) = waiting.recv() {
        match draw {
            Draw::Line(line) => out::line(line),
            Draw::Block(_) | Draw::Tick => {}
            Draw::End => return,
        }
    }
}

/// The terminal, as long as it is drawn on.
struct Drawing {
    agents: Vec<AgentStatus>,
    /// Widths of the rows of the block that are on the screen.
    drawn: Vec<usize>,
    tick: usize,
    modes: Option<Modes>,
}

impl Drawing {
    fn start() -> Self {
        let modes = Modes::remember();
        if let Some(modes) = &modes {
            // What is typed while nobody reads would tear the block apart.
            let _ = modes.hide_input();
        }
        let drawing = Self { agents: Vec::new(), drawn: Vec::new(), tick: 0, modes };
        drawing.put("\x1b[?25l");
        drawing
    }

    fn run(mut self, waiting: &mpsc::Receiver<Draw>) {
        while let Ok(first) = waiting.recv() {
            let mut lines = String::new();
            let mut next = Some(first);
            while let Some(draw) = next {
                match draw {
                    Draw::Line(line) => {
                        lines.push_str(&line);
                        lines.push('\n');
                    }
                    Draw::Block(agents) => self.agents = agents,
                    Draw::Tick => self.tick += 1,
                    Draw::End => {
                        self.agents.clear();
                        self.draw(&lines);
                        return;
                    }
                }
                next = waiting.try_recv().ok();
            }
            self.draw(&lines);
        }
    }

    /// Takes the block away, prints lines in its place, and draws it anew below: in one write.
    fn draw(&mut self, lines: &str) {
        let size = terminal::size().unwrap_or(Size { columns: text::DEFAULT_COLUMNS, rows: 24 });
        let mut out = String::new();
        // A terminal that has become narrower has broken our rows.
        let rows: usize = self.drawn.iter().map(|w| w.div_ceil(size.columns).max(1)).sum();
        if rows > 0 {
            out.push_str(&format!("\r\x1b[{}A", rows.min(size.rows - 1)));
        }
        out.push_str("\r\x1b[J");
        out.push_str(&out::styled(lines));
        self.drawn.clear();
        for row in self.block(size) {
            self.drawn.push(text::width(&anstream::adapter::strip_str(&row).to_string()));
            out.push_str(&out::styled(&row));
            out.push('\n');
        }
        self.put(&out);
    }

    fn block(&self, size: Size) -> Vec<String> {
        if self.agents.is_empty() {
            return Vec::new();
        }
        let room = (size.rows / 2).max(2);
        let shown = self.agents.len().min(room);
        let names = status::name_columns(&self.agents);
        let columns = size.columns.min(120);
        let dim = anstyle::Style::new().dimmed();
        let mut rows = vec![format!("{dim}{}{dim:#}", "─".repeat(columns - 1))];
        for agent in &self.agents[..shown] {
            rows.push(status::line(agent, self.mark(agent), names, columns));
        }
        if shown < self.agents.len() {
            rows.push(format!("{dim}and {} more{dim:#}", self.agents.len() - shown));
        }
        rows
    }

    fn mark(&self, agent: &AgentStatus) -> char {
        match agent.state {
            _ if agent.is_busy() => SPINNER[self.tick % SPINNER.len()],
            AgentState::Waiting => '?',
            AgentState::Failed | AgentState::Lost => '!',
            _ => '·',
        }
    }

    fn put(&self, text: &str) {
        // A terminal that is gone shows nothing.
        let mut stdout = io::stdout().lock();
        let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    }
}

impl Drop for Drawing {
    fn drop(&mut self) {
        self.put("\x1b[?25h");
        if let Some(modes) = &self.modes {
            let _ = modes.restore();
        }
    }
}
