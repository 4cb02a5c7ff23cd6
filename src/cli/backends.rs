//! Where teammates of a leader can run, and which backend new ones get.
//!
//! Looks at the surroundings once, makes the executors, and says the choice with its reason.

use super::error::CliError;
use super::setup::Setup;
use crate::exec::in_process::InProcessExecutor;
use crate::exec::iterm2::{self, Iterm2Executor};
use crate::exec::process::ProcessExecutor;
use crate::exec::tmux::{self, PRIVATE, TmuxExecutor, TmuxOptions, TmuxTarget};
use crate::store::paths::TeamPaths;
use crate::team::context::Team;
use crate::team::executor::{BoxFuture, RunnerControl, RunnerExit, TeammateExecutor, TeammateRunner};
use crate::team::registry::{BackendFacts, BackendRegistry, TeammateMode, UnknownMode, choose};
use crate::team::teammate::{self, Host};
use crate::wire::error::ExitKind;
use crate::wire::team::BackendType;
use crate::wire::worker::WorkerSpec;
use sha2::{Digest, Sha256};
use std::io::IsTerminal;
use std::sync::Arc;

/// The mode that flag and settings ask for.
pub fn teammate_mode(setup: &Setup) -> Result<TeammateMode, CliError> {
    let text = setup.shared.teammate_mode.as_deref().or(setup.loaded.settings.teammate_mode.as_deref());
    text.unwrap_or("auto").parse().map_err(|e: UnknownMode| {
        CliError::usage(e.to_string(), "one of auto, in-process, process, tmux, iterm2")
    })
}

/// Where teammates can run, which backend new ones get, and why.
pub async fn backends(
    setup: &Setup,
    team: &Team,
    host: &Host,
) -> Result<(BackendRegistry, BackendType, String), CliError> {
    let mode = teammate_mode(setup)?;
    let mut registry = BackendRegistry::new();
    registry.register(Arc::new(InProcessExecutor::new(Arc::new(InProcess(host.clone())))));
    let program = std::env::current_exe()?;
    registry.register(Arc::new(ProcessExecutor::new(program.clone(), setup.environment.all())));
    let wants_tmux = mode == TeammateMode::Only(BackendType::Tmux)
        || (mode == TeammateMode::Auto && std::io::stdout().is_terminal());
    let mut facts = BackendFacts {
        inside_tmux: false,
        tmux_version: None,
        stdout_is_terminal: std::io::stdout().is_terminal(),
        iterm2: iterm2::is_here(setup.environment.all()),
    };
    if wants_tmux {
        let seen = tmux::look(setup.environment.all()).await;
        facts.inside_tmux = seen.inside;
        facts.tmux_version = seen.version;
    }
    let (backend, mut reason) = choose(mode, &facts).map_err(|e| {
        CliError::new(ExitKind::Usage, "backend", format!("teammates cannot run there: {}", e.why), e.hint)
    })?;
    if backend != BackendType::InProcess && setup.shared.record.is_some() {
        return Err(CliError::usage(
            "--record takes what this process hears, and teammates would run in others",
            "add --teammate-mode in-process",
        ));
    }
    if facts.iterm2 {
        registry.register(Arc::new(Iterm2Executor::new(program.clone(), setup.environment.all())));
    }
    if backend == BackendType::Tmux || has_panes(team).await? {
        let options = TmuxOptions::new(program, setup.environment.all().clone());
        let executor = if facts.inside_tmux {
            TmuxExecutor::detect(&private_socket(team), options)
        } else {
            let target = TmuxTarget::Private { socket_name: private_socket(team) };
            TmuxExecutor::new(target, options)
        };
        if backend == BackendType::Tmux
            && let Some(attach) = executor.attach_command()
        {
            reason = format!("{reason}; look with: {attach}");
        }
        registry.register(Arc::new(executor));
    }
    Ok((registry, backend, reason))
}

/// Whether a member of an earlier leader may still sit in a pane.
async fn has_panes(team: &Team) -> Result<bool, CliError> {
    let roster = team.roster().await?;
    Ok(roster.members.iter().any(|m| m.ended.is_none() && m.backend_type == BackendType::Tmux))
}

/// The tmux server of a team whose leader is not inside tmux.
fn private_socket(team: &Team) -> String {
    socket_of(&team.paths)
}

/// The same by the team's files.
pub fn socket_of(team: &TeamPaths) -> String {
    // The same for every leader of the team, so that panes are found again; another state root is
    // another team, whatever its name.
    let root = Sha256::digest(team.dir().as_os_str().as_encoded_bytes());
    format!("{PRIVATE}{}-{:02x}{:02x}{:02x}", team.name(), root[0], root[1], root[2])
}

/// Who can find members of a team again and end them, without a leader: whatever they run in.
pub fn finders(setup: &Setup, team: &Team) -> Vec<Arc<dyn TeammateExecutor>> {
    let env = setup.environment.all();
    // The program is for spawning, which nobody does with these, and for guarding.
    let program = std::env::current_exe().unwrap_or_default();
    let private = TmuxTarget::Private { socket_name: private_socket(team) };
    let target = TmuxTarget::from_env(env).unwrap_or(private);
    let mut all: Vec<Arc<dyn TeammateExecutor>> =
        vec![Arc::new(TmuxExecutor::new(target, TmuxOptions::new(program.clone(), env.clone())))];
    if iterm2::is_here(env) {
        all.push(Arc::new(Iterm2Executor::new(program.clone(), env)));
    }
    all.push(Arc::new(ProcessExecutor::new(program, env)));
    all
}

struct InProcess(Host);

impl TeammateRunner for InProcess {
    fn run(&self, spec: WorkerSpec, control: RunnerControl) -> BoxFuture<'static, RunnerExit> {
        Box::pin(teammate::run(self.0.clone(), spec, control))
    }
}
