//! What every command starts from: environment, places, settings, directory.

use super::args::Shared;
use super::environment::{Environment, OF_MODELS};
use super::error::CliError;
use super::logging;
use super::settings::{self, Loaded};
use super::trust::{self, Trust, Withheld};
use crate::agent::definition_sources::discover;
use crate::agent::disk::Disk;
use crate::model::connect::ConnectOptions;
use crate::model::http::HttpClient;
use crate::model::limiter::Limiters;
use crate::model::ollama;
use crate::model::registry::{ModelRef, ModelSetupError, choose, is_script};
use crate::model::scripted::gates::Gates;
use crate::store::paths::{HOME_VARIABLE, Paths};
use crate::team::session::TeamTitle;
use crate::wire::blueprint::BlueprintTask;
use crate::wire::definition::AgentDefinition;
use crate::wire::error::ExitKind;
use crate::wire::settings::Durability;
use std::path::{Path, PathBuf};

/// Set to 1, it is `--coordinator`.
const COORDINATOR_MODE: &str = "FESTOON_COORDINATOR_MODE";

/// The team of a blueprint, for the session that is to lead it.
#[derive(Debug, Clone)]
pub struct Crew {
    /// Its name; no other team has it.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The kinds of its members.
    pub roles: Vec<AgentDefinition>,
    /// What stands in its task list from the start.
    pub tasks: Vec<BlueprintTask>,
    /// What it is to do.
    pub task: String,
}

/// The start of a command.
#[derive(Clone)]
pub struct Setup {
    /// The environment.
    pub environment: Environment,
    /// Where everything is.
    pub paths: Paths,
    /// The store thread.
    pub disk: Disk,
    /// The working directory, links resolved.
    pub cwd: PathBuf,
    /// Settings and rules.
    pub loaded: Loaded,
    /// How much of what the project brings counts.
    pub trust: Trust,
    /// The flags.
    pub shared: Shared,
    /// The team that a blueprint asks for.
    pub crew: Option<Crew>,
}

impl Setup {
    /// Reads the environment and the settings.
    pub fn new(shared: Shared) -> Result<Self, CliError> {
        let environment = Environment::snapshot();
        let cwd = std::env::current_dir().and_then(|d| d.canonicalize()).map_err(|e| {
            CliError::new(
                ExitKind::Failed,
                "io",
                format!("the working directory cannot be used: {e}"),
                "go to a directory that exists",
            )
        })?;
        environment.check(&[HOME_VARIABLE, "FESTOON_LOG"])?;
        let paths = Paths::resolve(&|key| environment.get_os(key))?;
        logging::start(&paths.logs(), environment.get("FESTOON_LOG"))?;
        let (trust, unread) = trust::of(&paths, &cwd, shared.trust);
        let mut loaded = load(&paths, &cwd, &shared, trust)?;
        loaded.warnings.extend(unread);
        Ok(Self { environment, paths, disk: Disk::start()?, cwd, loaded, trust, shared, crew: None })
    }

    /// The same with as much of what the project brings as this trust lets count.
    pub fn with_trust(&self, trust: Trust) -> Result<Self, CliError> {
        let loaded = load(&self.paths, &self.cwd, &self.shared, trust)?;
        Ok(Self { loaded, trust, ..self.clone() })
    }

    /// What the project brings and is withheld.
    pub fn withheld(&self) -> Vec<Withheld> {
        let mut withheld = self.loaded.withheld.clone();
        withheld.extend(trust::servers(&self.cwd, self.trust));
        let mut found = discover(&self.paths.user_agents(), &self.cwd, None);
        withheld.extend(trust::restrict(&mut found, self.trust));
        withheld
    }

    /// The same for a command that starts agents. What they are told about their places is JSON, so
    /// these have to be text.
    pub fn for_agents(shared: Shared) -> Result<Self, CliError> {
        let setup = Self::new(shared)?;
        let state = setup.paths.state_root();
        let places = [("the working directory", setup.cwd.as_path()), ("the state directory", state)];
        let added = setup.shared.add_dir.iter().map(|dir| ("--add-dir", dir.as_path()));
        if let Some((what, path)) = places.into_iter().chain(added).find(|(_, path)| path.to_str().is_none())
        {
            return Err(CliError::usage(
                format!("{what} {path:?} is not UTF-8 text, and agents cannot work there"),
                "rename the directory, or use another one",
            ));
        }
        check_added(&setup)?;
        Ok(setup)
    }

    /// Whether the main agent only plans and delegates.
    pub fn coordinates(&self) -> bool {
        self.shared.coordinator || self.environment.get(COORDINATOR_MODE) == Some("1")
    }

    /// What "stored" survives, as the settings say.
    pub fn durability(&self) -> Durability {
        self.loaded.settings.durability.unwrap_or_default()
    }

    /// What the session's team is called.
    pub fn title(&self) -> TeamTitle<'_> {
        match &self.crew {
            Some(crew) => TeamTitle::Named { name: &crew.name, description: &crew.description },
            None => TeamTitle::Session,
        }
    }

    /// Kinds of agents beside those that are built in.
    pub fn roles(&self) -> Vec<AgentDefinition> {
        self.crew.iter().flat_map(|crew| crew.roles.iter().cloned()).collect()
    }

    /// The main agent's model. Only when nothing names one is a running Ollama looked for.
    pub async fn model(&self) -> Result<ModelRef, CliError> {
        let flag = self.shared.model.as_deref();
        self.environment.check(asked_of_the_environment(flag))?;
        let chosen = match choose(flag, self.environment.all(), &self.loaded.settings) {
            Err(ModelSetupError::NoModel) => {
                ollama::running(&self.connect_options()).await.ok_or(ModelSetupError::NoModel)
            }
            chosen => chosen,
        };
        Ok(chosen.map_err(no_model)?.anchored(&self.cwd))
    }

    /// How models are reached.
    pub fn connect_options(&self) -> ConnectOptions {
        ConnectOptions {
            env: self.environment.all().clone(),
            providers: self.loaded.settings.providers.clone(),
            retry: self.loaded.settings.retry.clone(),
            limiters: Limiters::default(),
            http: HttpClient::default(),
            gates: Gates::default(),
        }
    }
}

/// Refuses a directory that is none: what was meant would be outside of the project, and nobody would see why.
fn check_added(setup: &Setup) -> Result<(), CliError> {
    for dir in &setup.shared.add_dir {
        let why = match setup.cwd.join(dir).metadata() {
            Ok(found) if found.is_dir() => continue,
            Ok(_) => "is no directory".to_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "does not exist".to_owned(),
            Err(error) => format!("cannot be used: {error}"),
        };
        return Err(CliError::usage(
            format!("--add-dir: {} {why}", dir.display()),
            "name a directory that is there",
        ));
    }
    Ok(())
}

/// The settings with what the command line says of limits and forks.
fn load(paths: &Paths, cwd: &Path, shared: &Shared, trust: Trust) -> Result<Loaded, CliError> {
    let mut loaded = settings::load(paths, cwd, shared.settings.as_deref(), trust)?;
    let limits = &mut loaded.settings.limits;
    limits.max_depth = shared.max_depth.or(limits.max_depth);
    limits.max_agents = shared.max_agents.or(limits.max_agents);
    limits.max_agents_total = shared.max_agents_total.or(limits.max_agents_total);
    limits.max_tokens_total = shared.max_tokens_total.or(limits.max_tokens_total);
    limits.max_cost = shared.max_cost.or(limits.max_cost);
    let fork = &mut loaded.settings.fork;
    *fork = shared.fork.map(Into::into).or(*fork);
    Ok(loaded)
}

/// The variables that count when the command line names this model. A script needs none.
pub fn asked_of_the_environment(flag: Option<&str>) -> &'static [&'static str] {
    match flag {
        None => &OF_MODELS,
        Some(model) if is_script(model) => &[],
        Some(_) => &OF_MODELS[1..], // FESTOON_MODEL comes first
    }
}

/// A model that cannot be used, as an error that ends the program.
pub fn no_model(error: ModelSetupError) -> CliError {
    let (exit, kind, hint) = match &error {
        ModelSetupError::NoModel => {
            (ExitKind::NoModel, "no_model", "`festoon demo` shows a team at work without one")
        }
        ModelSetupError::NoKey(..) => (ExitKind::NoModel, "no_model", "set the key, or try `festoon demo`"),
        ModelSetupError::Address(..) => {
            (ExitKind::Usage, "usage", "OLLAMA_HOST and `baseUrl` take addresses like http://127.0.0.1:11434")
        }
        ModelSetupError::Script(_) => {
            (ExitKind::Usage, "script", "docs/formats/script.md describes the format")
        }
        ModelSetupError::Name(..) | ModelSetupError::Provider(..) | ModelSetupError::AliasLoop(_) => {
            (ExitKind::Usage, "usage", "for example --model anthropic:NAME")
        }
    };
    CliError::new(exit, kind, error.to_string(), hint)
}
