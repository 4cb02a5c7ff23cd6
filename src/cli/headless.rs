//! `festoon -p`: one prompt, turns until all is quiet, one result.

use super::args::{InputFormat, OutputFormat};
use super::compose::{LeadPlan, Session, lead};
use super::error::CliError;
use super::feed;
use super::input::Prompts;
use super::insist::{self, Insisting};
use super::out;
use super::output::result::{NO_ANSWER, RunResult, Subtype, worst};
use super::output::stream_json::Printer;
use super::refused;
use super::setup::Setup;
use super::signals::{self, Signalled};
use super::spent::{self, Spent};
use super::stdin;
use super::text;
use super::view;
use crate::agent::budget::LimitReached;
use crate::agent::context::{AgentContext, spawn_in};
use crate::agent::events::{AgentEvent, Observer};
use crate::agent::gates::{SessionEnding, SessionSource};
use crate::agent::turn::{TurnEnd, TurnError, TurnInput, TurnStatus};
use crate::store::clock;
use crate::team::lead::Settled;
use crate::wire::error::{ErrorReport, ExitKind};
use crate::wire::ids::SessionId;
use crate::wire::permission::PermissionMode;
use crate::wire::time::Timestamp;
use crate::wire::worker::AskPolicy;
use serde_json::json;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Who answers asks in a run without a terminal.
pub fn ask_policy(setup: &Setup) -> AskPolicy {
    setup.shared.ask_timeout.map_or(AskPolicy::Deny, AskPolicy::WaitSeconds)
}

/// The prompt: the flag's value, with what was piped in after it.
fn whole_prompt(flag: &str) -> Result<(String, Option<String>), CliError> {
    let piped = stdin::read(!flag.is_empty())?;
    let prompt = match (flag.trim().is_empty(), piped.text.trim().is_empty()) {
        (true, true) => {
            return Err(CliError::usage("there is no prompt", "festoon -p 'what to do', or pipe it in"));
        }
        (true, false) => piped.text,
        (false, true) => flag.to_owned(),
        (false, false) => format!("{flag}\n\n{}", piped.text),
    };
    Ok((prompt, piped.warning))
}

/// Says on standard error why an agent is silent or does less, where nothing else is shown of it.
struct Troubles;

impl Observer for Troubles {
    fn event(&self, agent: &AgentContext, event: &AgentEvent) {
        let what = match event {
            AgentEvent::Delta(delta) => view::retry(delta),
            AgentEvent::Notice(text) => Some(view::head(text)),
            _ => None,
        };
        if let Some(what) = what {
            let name = text::clean(agent.label());
            out::error(format_args!("{name}: {what}"));
        }
    }
}

/// Runs it; the exit status is the return value.
pub async fn run(
    setup: &Setup,
    flag: &str,
    (input, format): (InputFormat, OutputFormat),
    resume: Option<&SessionId>,
) -> Result<Option<ExitKind>, CliError> {
    // Said before standard input is read, which may take a while.
    setup.model().await?;
    let prompts = match input {
        InputFormat::Text => {
            let (prompt, warning) = whole_prompt(flag)?;
            warning.into_iter().for_each(out::warning);
            Prompts::one(&prompt)
        }
        InputFormat::StreamJson => {
            Prompts::streamed(Some(flag.to_owned()).filter(|flag| !flag.trim().is_empty()))?
        }
    };
    answer(setup, prompts, format, resume).await
}

/// The same for what is to be said.
pub async fn answer(
    setup: &Setup,
    mut prompts: Prompts,
    format: OutputFormat,
    resume: Option<&SessionId>,
) -> Result<Option<ExitKind>, CliError> {
    let (started, since) = (Instant::now(), clock::now());
    let model = setup.model().await?;
    let mut signals = signals::listen()?;
    insist::watch(Insisting::All, setup)?;
    let printer = (format == OutputFormat::StreamJson).then(Printer::start).transpose()?;
    let observer: Arc<dyn Observer> = match &printer {
        Some(printer) => Arc::new(printer.lines()),
        None => Arc::new(Troubles),
    };
    let plan = LeadPlan {
        model,
        title: setup.title(),
        resume: resume.cloned(),
        asks: ask_policy(setup),
        definitions: setup.roles(),
        observers: vec![observer],
        default_mode: PermissionMode::Default,
        rules: Vec::new(),
    };
    let mut session = lead(setup, plan).await?;
    if setup.shared.verbose && resume.is_some() && format == OutputFormat::Text {
        out::error(format_args!("goes on with session {}", session.id));
    }
    for warning in session.warnings.iter().chain(&session.taken_over) {
        out::warning(warning);
    }
    let cancel = CancellationToken::new();
    let feed_end = CancellationToken::new();
    let feeding = printer.as_ref().map(|printer| {
        let lines = printer.lines();
        lines.print(&init(&session));
        let (team, id) = (session.team.clone(), session.id.clone());
        let context = Arc::clone(&session.lead.agent.core().context);
        let (end, from) = (feed_end.clone(), since.clone());
        spawn_in(&context, async move {
            feed::follow(team, from, end, |event| lines.team_event(event, &id)).await
        })
    });
    let source = if resume.is_some() { SessionSource::Resume } else { SessionSource::Startup };
    let begins = session.lead.agent.session_starts(source, &cancel);
    signals::cancelling(begins, &cancel, &mut signals).await;
    let mut run = Run { rounds: 0, text: String::new(), last: None, unanswered: false, interrupted: false };
    let outcome = run.until_quiet(setup, &mut session, &mut prompts, &cancel, &mut signals).await;
    let mut result = run.result(&session, started, &since).await;
    if let Err(error) = outcome {
        result.trouble(error);
    }
    if let Some(first) = session.lead.supervisor.unsaid().await.into_iter().next() {
        let hint = "look at the disk and at `festoon ps --all`";
        result.trouble(CliError::new(ExitKind::Failed, "team", first, hint));
    }
    let last = CancellationToken::new();
    let ending = if run.interrupted { SessionEnding::Signal } else { SessionEnding::Done };
    signals::cancelling(session.lead.agent.session_ends(ending, &last), &last, &mut signals).await;
    for trouble in session.finish(setup.shared.keep_team).await {
        out::warning(trouble);
    }
    feed_end.cancel();
    if let Some(feeding) = feeding {
        match feeding.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => out::warning(error),
            Err(error) => out::warning(error),
        }
    }
    for note in result.object.note.into_iter().chain(result.forged.iter().map(String::as_str)) {
        out::warning(note);
    }
    print(&result, format, printer);
    if let Some(error) = result.object.error.clone() {
        CliError { exit: ExitKind::Failed, report: error }
            .show(setup.shared.json || format != OutputFormat::Text);
    }
    Ok(result.exit)
}

fn print(outcome: &Outcome, format: OutputFormat, printer: Option<Printer>) {
    let result = &outcome.object;
    match (format, printer) {
        (OutputFormat::StreamJson, Some(printer)) => printer.finish(result),
        (OutputFormat::Text, _) => {
            if outcome.is_answer && !result.result.is_empty() {
                let answer = result.result.trim_end();
                if std::io::stdout().is_terminal() {
                    out::line(text::clean(answer));
                } else {
                    out::plain(answer);
                }
            }
            for denial in result.permission_denials.iter().filter(|d| d.nobody_to_ask) {
                // No rule answers in the place of a person.
                let asks_itself = matches!(denial.tool_name.as_str(), "AskUserQuestion" | "ExitPlanMode");
                let allows = if asks_itself { "" } else { "--allowed-tools allows it, " };
                out::warning(format!(
                    "{} of {} was not run: {}; {allows}--ask-timeout leaves time to answer",
                    denial.tool_name, denial.agent_id, denial.reason
                ));
            }
            if result.stop_reason.is_some() {
                out::warning("the answer is cut: it reached the model's limit of output tokens");
            }
        }
        (OutputFormat::Json | OutputFormat::StreamJson, _) => out::line(json!(result)),
    }
}

/// The first line of the stream.
fn init(session: &Session) -> serde_json::Value {
    let core = session.lead.agent.core();
    json!({
        "type": "system", "subtype": "init", "session_id": session.id,
        "cwd": core.context.cwd, "model": core.model.full, "tools": core.tool_names(),
        "agents": session.runtime.definitions.kinds().names(), "permission_mode": core.permissions.mode(),
        "team": session.team.name(), "backend": session.backend, "backend_reason": session.backend_reason,
        "version": env!("CARGO_PKG_VERSION"),
    })
}

struct Run {
    rounds: u32,
    text: String,
    last: Option<TurnEnd>,
    /// Whether what was said last got no answer. Mail needs none.
    unanswered: bool,
    interrupted: bool,
}

struct Outcome {
    object: RunResult,
    exit: Option<ExitKind>,
    /// Whether the result is the model's answer, and no error's words.
    is_answer: bool,
    /// Decisions that were ignored.
    forged: Vec<String>,
}

impl Outcome {
    /// Something went wrong beside the turns: an answer that is there stays.
    fn trouble(&mut self, error: CliError) {
        if !self.is_answer || self.object.result.is_empty() {
            if self.object.error.is_none() {
                self.fail(error);
            }
            return;
        }
        self.exit = worst(self.exit.into_iter().chain([error.exit]));
        if self.object.error.is_none() {
            self.object.is_error = true;
            self.object.subtype = Subtype::ErrorDuringExecution;
            self.object.error = Some(error.report);
        }
    }

    /// A budget ended it; what was said until then is the result.
    fn limit(&mut self, limit: &LimitReached) {
        let CliError { exit, report } = limit_error(limit);
        self.exit = worst(self.exit.into_iter().chain([exit]));
        self.object.is_error = true;
        self.object.subtype = Subtype::ErrorLimit;
        if self.object.result.is_empty() {
            self.is_answer = false;
            self.object.result.clone_from(&report.message);
        }
        self.object.error = Some(report);
    }

    /// There is no answer but an error.
    fn fail(&mut self, error: CliError) {
        self.is_answer = false;
        self.exit = worst(self.exit.into_iter().chain([error.exit]));
        self.object.is_error = true;
        self.object.subtype = Subtype::ErrorDuringExecution;
        self.object.result.clone_from(&error.report.message);
        self.object.error = Some(error.report);
    }
}

impl Run {
    /// The prompt's turn, then a turn for whatever mail comes, until all is quiet and nothing more is said.
    async fn until_quiet(
        &mut self,
        setup: &Setup,
        session: &mut Session,
        prompts: &mut Prompts,
        cancel: &CancellationToken,
        signals: &mut mpsc::UnboundedReceiver<Signalled>,
    ) -> Result<(), CliError> {
        let Some(mut input) = self.next_input(session, prompts, signals).await? else { return Ok(()) };
        let mut deadline = None;
        loop {
            let is_mail = matches!(input, TurnInput::Mail);
            let end = {
                let turn = session.lead.turn(input, cancel);
                tokio::pin!(turn);
                loop {
                    tokio::select! {
                        biased;
                        end = &mut turn => break end?,
                        Some(_) = signals.recv() => {
                            self.interrupted = true;
                            cancel.cancel();
                        }
                    }
                }
            };
            self.take(end, is_mail);
            if self.interrupted {
                return Ok(());
            }
            // From the answer to a prompt on: mail does not start it anew.
            let until = *deadline.get_or_insert_with(|| {
                let wait = setup.shared.wait.map(Duration::from_secs)?;
                tokio::time::Instant::now().checked_add(wait)
            });
            let settled = tokio::select! {
                biased;
                Some(_) = signals.recv() => {
                    self.interrupted = true;
                    return Ok(());
                }
                settled = session.lead.settle() => settled?,
                () = async { match until { Some(at) => tokio::time::sleep_until(at).await, None => std::future::pending().await } } => return Ok(()),
            };
            match settled {
                Settled::Mail => input = TurnInput::Mail,
                Settled::Quiet => match self.next_input(session, prompts, signals).await? {
                    Some(next) => {
                        // A wait is for what an answer leaves running, not for whoever asks.
                        if matches!(next, TurnInput::Said(_)) {
                            deadline = None;
                        }
                        input = next;
                    }
                    None => return Ok(()),
                },
            }
        }
    }

    /// What is said next, or the mail that comes before it; `None` when nothing more is said.
    async fn next_input(
        &mut self,
        session: &Session,
        prompts: &mut Prompts,
        signals: &mut mpsc::UnboundedReceiver<Signalled>,
    ) -> Result<Option<TurnInput>, CliError> {
        tokio::select! {
            biased;
            Some(_) = signals.recv() => {
                self.interrupted = true;
                Ok(None)
            }
            said = prompts.next() => said.map(|said| said.map(TurnInput::Said)),
            () = session.lead.mail() => Ok(Some(TurnInput::Mail)),
        }
    }

    fn take(&mut self, end: TurnEnd, is_mail: bool) {
        let silent = end.silent && matches!(end.status, TurnStatus::Completed);
        self.unanswered = if is_mail { self.unanswered && end.text.trim().is_empty() } else { silent };
        self.rounds += end.rounds;
        if !end.text.trim().is_empty() {
            self.text.clone_from(&end.text);
        }
        if end.rounds > 0 || end.is_limit() || self.last.is_none() {
            self.last = Some(end);
        }
    }

    /// What came of it. What cannot be found out any more is said in the result and does not replace it.
    async fn result(&self, session: &Session, started: Instant, since: &Timestamp) -> Outcome {
        let mut troubles = Vec::new();
        let (refused, trouble) = refused::of_run(session, since).await;
        troubles.extend(trouble);
        let Spent { total, by_model } =
            spent::this_run(&session.runtime, &session.before).await.unwrap_or_else(|error| {
                troubles.push(error);
                spent::in_process(&session.runtime)
            });
        let is_cut = self.last.as_ref().is_some_and(|end| end.cut);
        let mut outcome = Outcome {
            object: RunResult {
                kind: "result",
                subtype: Subtype::Success,
                is_error: false,
                result: self.text.clone(),
                partial: None,
                stop_reason: is_cut.then_some("max_tokens"),
                note: self.unanswered.then_some(NO_ANSWER),
                session_id: session.id.clone(),
                num_turns: self.rounds,
                duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
                total_cost_usd: total.cost_usd,
                usage: total.usage,
                model_usage: by_model,
                permission_denials: refused.denials,
                error: None,
            },
            exit: refused.nobody.then_some(ExitKind::Denied),
            is_answer: true,
            forged: refused.forged,
        };
        self.judge(&mut outcome);
        if let Err(error) = session.runtime.budget.settled().await {
            troubles.push(error.into());
        }
        for error in troubles {
            outcome.trouble(error);
        }
        outcome
    }

    /// How the last turn ended, as subtype, error and exit status.
    fn judge(&self, outcome: &mut Outcome) {
        if self.interrupted {
            outcome.fail(CliError::new(ExitKind::Interrupted, "interrupted", "the run was interrupted", ""));
            return;
        }
        match self.last.as_ref().map(|end| &end.status) {
            Some(TurnStatus::Failed(TurnError::Limit(limit) | TurnError::Spawns(limit))) => {
                outcome.limit(limit)
            }
            Some(TurnStatus::Failed(error)) => {
                outcome.object.partial = partial(error);
                outcome.fail(turn_error(error));
            }
            Some(TurnStatus::Cancelled) => {
                outcome.fail(CliError::new(
                    ExitKind::Interrupted,
                    "interrupted",
                    "the turn was interrupted",
                    "",
                ));
            }
            Some(TurnStatus::MaxRounds) => {
                outcome.exit = worst(outcome.exit.into_iter().chain([ExitKind::Limit]));
                outcome.object.is_error = true;
                outcome.object.subtype = Subtype::ErrorMaxTurns;
                let rounds = self.last.as_ref().map_or(0, |end| end.rounds);
                outcome.object.error = Some(ErrorReport {
                    kind: "max_turns".to_owned(),
                    message: format!(
                        "the run stopped at its limit of {rounds} rounds; the answer is partial"
                    ),
                    hint: "--max-turns N allows more".to_owned(),
                });
            }
            Some(TurnStatus::Completed) | None => {}
        }
    }
}

/// What had come of an answer when the model failed.
fn partial(error: &TurnError) -> Option<String> {
    match error {
        TurnError::Model(error) => Some(error.partial.clone()).filter(|text| !text.trim().is_empty()),
        TurnError::Store(_)
        | TurnError::Stopped(_)
        | TurnError::Limit(_)
        | TurnError::Refused(_)
        | TurnError::Halted(_)
        | TurnError::Spawns(_)
        | TurnError::Panicked(_) => None,
    }
}

fn limit_error(limit: &LimitReached) -> CliError {
    CliError::new(ExitKind::Limit, "limit", limit.what.clone(), limit.hint.clone())
}

/// A failed turn as an error that ends the program.
pub fn turn_error(error: &TurnError) -> CliError {
    match error {
        TurnError::Model(error) => error.into(),
        TurnError::Store(error) => CliError { exit: ExitKind::Failed, report: error.report() },
        TurnError::Limit(limit) | TurnError::Spawns(limit) => limit_error(limit),
        TurnError::Refused(_) | TurnError::Halted(_) => CliError::new(
            ExitKind::Failed,
            "hook",
            error.to_string(),
            "`festoon doctor` counts the hooks in force; docs/guide/hooks.md says what they may do",
        ),
        TurnError::Stopped(why) => CliError::new(
            ExitKind::Failed,
            "stopped",
            format!("the model stopped: {why}"),
            "ask it in another way",
        ),
        TurnError::Panicked(_) => CliError::new(
            ExitKind::Failed,
            "bug",
            error.to_string(),
            "this is a fault of festoon; the log has more",
        ),
    }
}
