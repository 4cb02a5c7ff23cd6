//! `festoon up BLUEPRINT`: a session whose leader is told to start the team of a blueprint.
//!
//! Owns the way from the blueprint to the session: roles, name, task, model. What follows is a session
//! like any other: at a terminal one to talk to, elsewhere one that ends with its answer.

use crate::cli::args::{OutputFormat, Shared};
use crate::cli::blueprint::{self, Team};
use crate::cli::error::CliError;
use crate::cli::input::Prompts;
use crate::cli::setup::{Crew, Setup};
use crate::cli::{headless, out, repl, worktree};
use crate::store::slug;
use crate::wire::blueprint::{Blueprint, BlueprintBudget};
use crate::wire::error::ExitKind;
use crate::wire::settings::LimitSettings;
use std::io::IsTerminal;
use std::path::Path;

/// The arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The name of a blueprint that ships, or a file (with its path, or ending in .toml).
    pub blueprint: String,
    /// What the team is to do, instead of the blueprint's own task.
    #[arg(long, value_name = "TEXT")]
    pub task: Option<String>,
    /// Ends with the leader's answer, also at a terminal.
    #[arg(short = 'p', long = "print")]
    pub print: bool,
    /// What is printed where nobody talks to the leader.
    #[arg(long, value_enum, default_value_t = OutputFormat::Text, value_name = "FORMAT")]
    pub output_format: OutputFormat,
}

/// Runs it.
pub async fn run(args: Args, shared: Shared) -> Result<Option<ExitKind>, CliError> {
    let mut setup = Setup::for_agents(shared)?;
    let team = blueprint::find(&args.blueprint, &setup.cwd)?;
    team.warnings.iter().for_each(out::warning);
    if setup.loaded.settings.teams == Some(false) {
        return Err(CliError::usage("the setting `teams` is false", "set it to true to start a team"));
    }
    let task = match args.task.as_deref().map(str::trim).filter(|task| !task.is_empty()) {
        Some(task) => task.to_owned(),
        None => team.blueprint.default_task.clone().ok_or_else(|| {
            CliError::usage(
                format!("the blueprint {} has no task of its own", team.blueprint.name),
                "say what the team is to do with --task",
            )
        })?,
    };
    if setup.shared.model.is_none() && team.script.is_some() {
        setup.shared.model = Some(scripted(&team, &args.blueprint, &setup.cwd)?);
    }
    let prompt = team.lead_prompt(&task);
    let name = free_name(&setup, &team.blueprint.name)?;
    let (roles, Blueprint { description, budget, tasks, .. }) = (team.kinds(), team.blueprint);
    within(&mut setup.loaded.settings.limits, &budget);
    setup.crew = Some(Crew { name, description, roles, tasks, task });
    let watched = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let (setup, own) = worktree::enter(setup).await?;
    let ended = if watched && !args.print {
        repl::run(&setup, Some(prompt), None).await
    } else {
        headless::answer(&setup, Prompts::one(&prompt), args.output_format, None).await
    };
    worktree::left(own, ended).await
}

/// The model that plays a blueprint's own script.
fn scripted(team: &Team, given: &str, cwd: &Path) -> Result<String, CliError> {
    let path = cwd.join(given);
    let script = path.parent().zip(team.blueprint.script.as_deref()).map(|(dir, script)| dir.join(script));
    match script.filter(|script| path.is_file() && script.is_file()) {
        Some(script) => Ok(format!("scripted:{}", script.display())),
        None => Err(CliError::usage(
            format!("the blueprint {} plays a script that ships with it", team.blueprint.name),
            format!("festoon {}, or name a model with --model", team.blueprint.name),
        )),
    }
}

/// The blueprint's budget holds where neither the command line nor a setting says otherwise.
fn within(limits: &mut LimitSettings, budget: &BlueprintBudget) {
    limits.max_tokens_total = limits.max_tokens_total.or(budget.max_tokens_total);
    limits.max_cost = limits.max_cost.or(budget.max_cost);
    limits.max_agents = limits.max_agents.or(budget.max_agents);
    limits.max_agents_total = limits.max_agents_total.or(budget.max_agents_total);
}

/// The team's name, with a number when there is such a team already.
fn free_name(setup: &Setup, name: &str) -> Result<String, CliError> {
    let mut free = name.to_owned();
    let mut number = 1;
    while setup.paths.team(&slug::team_name(&free)?).dir().exists() {
        number += 1;
        free = format!("{name}-{number}");
    }
    Ok(free)
}
