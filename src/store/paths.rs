//! Where everything is (contract §1).
//!
//! Owns the names of all files and directories of ours, and the making of directories. Promises
//! that no id or name leaves its directory, whatever it holds. The only file of this layer that
//! may ask the environment; never reads or writes a file.

use super::error::StoreError;
use super::own;
use super::slug;
use crate::wire::ids::{AgentId, AgentName, AskId, BackgroundId, RunId, SessionId, TeamName};
use crate::wire::task::TaskId;
use directories::ProjectDirs;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// The variable that moves everything to one directory.
pub const HOME_VARIABLE: &str = "FESTOON_HOME";

/// The roots. Cloning copies a pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths(Arc<Roots>);

#[derive(Debug, PartialEq, Eq)]
struct Roots {
    state: PathBuf,
    config: PathBuf,
    worktrees: PathBuf,
}

impl Paths {
    /// The places for this environment: below `FESTOON_HOME` if it is set, else where the platform
    /// wants them (the local data directory where it knows none for state).
    pub fn resolve(env: &dyn Fn(&str) -> Option<OsString>) -> Result<Self, StoreError> {
        if let Some(home) = env(HOME_VARIABLE).filter(|home| !home.is_empty()) {
            let home = PathBuf::from(home);
            let home = std::path::absolute(&home).map_err(|e| StoreError::io("find", &home, e))?;
            return Ok(Self::from_home(&home));
        }
        let dirs = ProjectDirs::from("", "", "festoon").ok_or(StoreError::NoHome)?;
        Ok(Self(Arc::new(Roots {
            state: dirs.state_dir().unwrap_or_else(|| dirs.data_local_dir()).to_owned(),
            config: dirs.config_dir().to_owned(),
            worktrees: dirs.cache_dir().join("worktrees"),
        })))
    }

    /// The places below one directory.
    pub fn from_home(home: &Path) -> Self {
        let worktrees = home.join("worktrees");
        Self(Arc::new(Roots { state: home.to_owned(), config: home.to_owned(), worktrees }))
    }

    /// Above all state.
    pub fn state_root(&self) -> &Path {
        &self.0.state
    }
    /// Holds the user's `settings.json` and `agents/`.
    pub fn config_root(&self) -> &Path {
        &self.0.config
    }
    /// The user's settings.
    pub fn user_settings(&self) -> PathBuf {
        self.0.config.join("settings.json")
    }
    /// The user's agent definitions.
    pub fn user_agents(&self) -> PathBuf {
        self.0.config.join("agents")
    }
    /// Worktrees of isolated agents.
    pub fn worktrees(&self) -> &Path {
        &self.0.worktrees
    }
    /// Logs of our processes.
    pub fn logs(&self) -> PathBuf {
        self.0.state.join("logs")
    }
    /// Its time says when old things were removed last.
    pub fn cleaned(&self) -> PathBuf {
        self.state_root().join("cleaned")
    }
    /// What was typed at the prompt.
    pub fn history(&self) -> PathBuf {
        self.state_root().join("history.jsonl")
    }
    /// The directories that a person trusts.
    pub fn trust(&self) -> PathBuf {
        self.state_root().join("trust.json")
    }
    /// All teams.
    pub fn teams(&self) -> PathBuf {
        self.0.state.join("teams")
    }
    /// All transcripts.
    pub fn projects(&self) -> PathBuf {
        self.0.state.join("projects")
    }

    /// One team.
    pub fn team(&self, name: &TeamName) -> TeamPaths {
        let place = Place { name: name.clone(), dir: self.teams().join(name.as_str()) };
        TeamPaths { paths: self.clone(), place: Arc::new(RwLock::new(place)) }
    }

    /// The sessions of one working directory, which should be absolute with its links resolved.
    pub fn project(&self, cwd: &Path) -> ProjectPaths {
        ProjectPaths { paths: self.clone(), dir: self.projects().join(slug::of_path(cwd)) }
    }

    /// The sessions in one directory below [`Paths::projects`], by the name it has there; `None` for a
    /// name that is a path.
    pub fn project_named(&self, name: &str) -> Option<ProjectPaths> {
        let plain = !name.is_empty() && !name.starts_with('.') && !name.contains('/');
        plain.then(|| ProjectPaths { paths: self.clone(), dir: self.projects().join(name) })
    }

    /// Every place with its name, for `festoon paths`.
    pub fn all(&self, cwd: &Path) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("state", self.0.state.clone()),
            ("config", self.0.config.clone()),
            ("settings", self.user_settings()),
            ("agents", self.user_agents()),
            ("teams", self.teams()),
            ("projects", self.projects()),
            ("project", self.project(cwd).dir().to_owned()),
            ("worktrees", self.0.worktrees.clone()),
            ("logs", self.logs()),
            ("trust", self.trust()),
        ]
    }

    /// What no agent's tools may enter.
    pub fn closed(&self) -> Vec<PathBuf> {
        vec![self.teams(), self.projects(), self.trust()]
    }

    /// Makes the state root with what stands directly below it, 0700. Refuses a link in its place,
    /// a root of another user, and one that everybody may write to.
    pub fn ensure_root(&self) -> Result<(), StoreError> {
        for dir in [self.teams(), self.projects(), self.logs()] {
            self.make_dirs(&dir)?;
        }
        Ok(())
    }

    /// Makes a directory below the state root, 0700, and checks those above it.
    pub fn make_dirs(&self, dir: &Path) -> Result<(), StoreError> {
        own::make_dirs(&self.0.state, dir)
    }

    /// Checks the directories from the state root down to `dir`.
    pub fn check_dirs(&self, dir: &Path) -> Result<(), StoreError> {
        own::check_dirs(&self.0.state, dir)
    }
}

/// The files of one team.
#[derive(Debug, Clone)]
pub struct TeamPaths {
    paths: Paths,
    /// Shared by all clones: a leader may give its team another name while nobody is in it.
    place: Arc<RwLock<Place>>,
}

#[derive(Debug, Clone)]
struct Place {
    name: TeamName,
    dir: PathBuf,
}

impl TeamPaths {
    fn place(&self) -> RwLockReadGuard<'_, Place> {
        self.place.read().unwrap_or_else(PoisonError::into_inner)
    }
    /// The team's name.
    pub fn name(&self) -> TeamName {
        self.place().name.clone()
    }
    /// The roots it belongs to.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }
    /// Its directory.
    pub fn dir(&self) -> PathBuf {
        self.place().dir.clone()
    }
    /// From now on this, and all that was cloned from it, means the team `name`. Paths that were taken
    /// before stay what they were.
    pub(super) fn move_to(&self, name: &TeamName) {
        let place = Place { name: name.clone(), dir: self.paths.teams().join(name.as_str()) };
        *self.place.write().unwrap_or_else(PoisonError::into_inner) = place;
    }
    /// `team.json`
    pub fn team_file(&self) -> PathBuf {
        self.dir().join("team.json")
    }
    /// The lock of `team.json`.
    pub fn team_lock(&self) -> PathBuf {
        self.dir().join("team.lock")
    }
    /// Held by the leader's process for its life.
    pub fn leader_lock(&self) -> PathBuf {
        self.dir().join("leader.lock")
    }
    /// All inboxes.
    pub fn inboxes(&self) -> PathBuf {
        self.dir().join("inboxes")
    }
    /// An agent's inbox.
    pub fn inbox(&self, agent: &AgentName) -> PathBuf {
        self.inboxes().join(format!("{agent}.json"))
    }
    /// The lock of an inbox.
    pub fn inbox_lock(&self, agent: &AgentName) -> PathBuf {
        self.inboxes().join(format!("{agent}.lock"))
    }
    /// An agent's read mail.
    pub fn archive(&self, agent: &AgentName) -> PathBuf {
        self.inboxes().join(format!("{agent}.archive.jsonl"))
    }
    /// What the agents say of themselves.
    pub fn run_dir(&self) -> PathBuf {
        self.dir().join("run")
    }
    /// What one agent says of itself.
    pub fn run(&self, agent: &AgentName) -> PathBuf {
        self.run_dir().join(format!("{agent}.json"))
    }
    /// All asks.
    pub fn asks_dir(&self) -> PathBuf {
        self.dir().join("asks")
    }
    /// Held while an ask is decided or closed.
    pub fn asks_lock(&self) -> PathBuf {
        self.dir().join("asks.lock")
    }
    /// One ask.
    pub fn ask(&self, id: &AskId) -> PathBuf {
        self.asks_dir().join(format!("{}.json", slug::of_id(id.as_str())))
    }
    /// Its decision.
    pub fn decision(&self, id: &AskId) -> PathBuf {
        self.asks_dir().join(format!("{}.decision.json", slug::of_id(id.as_str())))
    }
    /// All tasks.
    pub fn tasks_dir(&self) -> PathBuf {
        self.dir().join("tasks")
    }
    /// One task.
    pub fn task(&self, id: TaskId) -> PathBuf {
        self.tasks_dir().join(format!("{id}.json"))
    }
    /// The last number that was given to a task.
    pub fn tasks_counter(&self) -> PathBuf {
        self.tasks_dir().join("last-id")
    }
    /// Held while tasks are changed.
    pub fn tasks_lock(&self) -> PathBuf {
        self.dir().join("tasks.lock")
    }
    /// The signing keys.
    pub fn keys_dir(&self) -> PathBuf {
        self.dir().join("keys")
    }
    /// The event log.
    pub fn events(&self) -> PathBuf {
        self.dir().join("events.jsonl")
    }
    /// What the whole team has started, runs and has used.
    pub fn ledger(&self) -> PathBuf {
        self.dir().join("ledger.json")
    }
    /// The lock of the ledger.
    pub fn ledger_lock(&self) -> PathBuf {
        self.dir().join("ledger.lock")
    }
    /// Until when requests to a provider are held back.
    pub fn rate(&self) -> PathBuf {
        self.dir().join("rate.json")
    }
    /// The lock of that file.
    pub fn rate_lock(&self) -> PathBuf {
        self.dir().join("rate.lock")
    }
    /// What workers are started with.
    pub fn specs_dir(&self) -> PathBuf {
        self.dir().join("specs")
    }
    /// What one run of a worker is started with.
    pub fn spec(&self, agent: &AgentName, run: &RunId) -> PathBuf {
        self.specs_dir().join(format!("{agent}.{}.json", slug::of_id(run.as_str())))
    }

    /// Makes the directory with all below it.
    pub fn make(&self) -> Result<(), StoreError> {
        for dir in [
            self.inboxes(),
            self.run_dir(),
            self.asks_dir(),
            self.tasks_dir(),
            self.keys_dir(),
            self.specs_dir(),
        ] {
            self.paths.make_dirs(&dir)?;
        }
        Ok(())
    }

    /// Refuses when a directory on the way to `dir` is a link or somebody else's.
    pub fn check(&self, dir: &Path) -> Result<(), StoreError> {
        self.paths.check_dirs(dir)
    }
}

/// The sessions of one working directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectPaths {
    paths: Paths,
    dir: PathBuf,
}

impl ProjectPaths {
    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
    /// Makes the directory, 0700.
    pub fn make(&self) -> Result<(), StoreError> {
        self.paths.make_dirs(&self.dir)
    }
    /// Held while the project's local settings are changed. No session's name begins with a dot.
    pub fn settings_lock(&self) -> PathBuf {
        self.dir.join(".settings.local.lock")
    }
    /// The main agent's transcript.
    pub fn transcript(&self, session: &SessionId) -> PathBuf {
        self.dir.join(format!("{}.jsonl", stem(session)))
    }
    /// Held by the session's one writer for its life.
    pub fn session_lock(&self, session: &SessionId) -> PathBuf {
        self.dir.join(format!("{}.lock", stem(session)))
    }
    /// Everything of a session that is not its main transcript.
    pub fn session_dir(&self, session: &SessionId) -> PathBuf {
        self.dir.join(stem(session))
    }
    /// What a session has used, when its team is gone.
    pub fn ledger(&self, session: &SessionId) -> PathBuf {
        self.session_dir(session).join("ledger.json")
    }
    /// The transcripts of a session's other agents.
    pub fn sidechains(&self, session: &SessionId) -> PathBuf {
        self.session_dir(session).join("subagents")
    }
    /// Another agent's transcript.
    pub fn sidechain(&self, session: &SessionId, agent: &AgentId) -> PathBuf {
        self.sidechains(session).join(format!("agent-{}.jsonl", slug::of_id(agent.as_str())))
    }
    /// A teammate's transcript. A later incarnation is another agent, so it has a file of its own.
    pub fn member_sidechain(&self, session: &SessionId, agent: &AgentId, incarnation: u32) -> PathBuf {
        let stem = self.member_stem(session, agent, incarnation);
        stem.with_added_extension("jsonl")
    }
    /// What that teammate is.
    pub fn member_sidechain_meta(&self, session: &SessionId, agent: &AgentId, incarnation: u32) -> PathBuf {
        self.member_stem(session, agent, incarnation).with_added_extension("meta.json")
    }
    /// The frozen prefix of that teammate.
    pub fn member_prefix(&self, session: &SessionId, agent: &AgentId, incarnation: u32) -> PathBuf {
        self.member_stem(session, agent, incarnation).with_added_extension("prefix.json")
    }
    fn member_stem(&self, session: &SessionId, agent: &AgentId, incarnation: u32) -> PathBuf {
        let id = slug::of_id(agent.as_str());
        let life = if incarnation > 1 { format!(".{incarnation}") } else { String::new() };
        self.sidechains(session).join(format!("agent-{id}{life}"))
    }
    /// What that agent is.
    pub fn sidechain_meta(&self, session: &SessionId, agent: &AgentId) -> PathBuf {
        self.sidechains(session).join(format!("agent-{}.meta.json", slug::of_id(agent.as_str())))
    }
    /// The frozen prefix of a session's main agent.
    pub fn prefix(&self, session: &SessionId) -> PathBuf {
        self.session_dir(session).join("prefix.json")
    }
    /// The frozen prefixes that forks of a session were given.
    pub fn prefixes_dir(&self, session: &SessionId) -> PathBuf {
        self.session_dir(session).join("prefixes")
    }
    /// What files were before a session's agents changed them.
    pub fn checkpoints(&self, session: &SessionId) -> PathBuf {
        self.session_dir(session).join("checkpoints")
    }
    /// Long outputs of a session.
    pub fn output_dir(&self, session: &SessionId) -> PathBuf {
        self.session_dir(session).join("output")
    }
    /// One of them.
    pub fn output(&self, session: &SessionId, task: &str) -> PathBuf {
        self.output_dir(session).join(format!("{}.txt", slug::of_id(task)))
    }
    /// The records of a session's background tasks.
    pub fn background_dir(&self, session: &SessionId) -> PathBuf {
        self.session_dir(session).join("background")
    }
    /// How one of them stands.
    pub fn background(&self, session: &SessionId, task: &BackgroundId) -> PathBuf {
        self.background_dir(session).join(format!("{}.json", slug::of_id(task.as_str())))
    }
    /// Makes the directories of a session, 0700. Refuses when one of them, or another that agents of the
    /// session will write in, is a link or somebody else's.
    pub fn make_session(&self, session: &SessionId) -> Result<(), StoreError> {
        for dir in [self.sidechains(session), self.output_dir(session), self.background_dir(session)] {
            self.paths.make_dirs(&dir)?;
        }
        let later = [self.prefixes_dir(session), self.checkpoints(session)];
        later.iter().try_for_each(|dir| self.paths.check_dirs(dir))
    }
    /// Refuses when a directory on the way to `dir`, which is below this one, is a link or somebody else's.
    pub fn check(&self, dir: &Path) -> Result<(), StoreError> {
        self.paths.check_dirs(dir)
    }
}

fn stem(session: &SessionId) -> String {
    slug::of_id(session.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).expect("stat").permissions().mode() & 0o777
    }

    #[test]
    fn one_variable_moves_everything() {
        let env = |name: &str| (name == HOME_VARIABLE).then(|| OsString::from("/x/y"));
        let paths = Paths::resolve(&env).expect("resolves");
        assert_eq!(paths, Paths::from_home(Path::new("/x/y")));
        let all: Vec<_> = paths.all(Path::new("/p")).into_iter().map(|(_, path)| path).collect();
        assert!(all.iter().all(|path| path.starts_with("/x/y")), "{all:?}");
        let team = paths.team(&TeamName::new("review").expect("slug"));
        let anna = AgentName::new("anna").expect("slug");
        assert_eq!(team.inbox(&anna), Path::new("/x/y/teams/review/inboxes/anna.json"));
        assert_eq!(team.archive(&anna), Path::new("/x/y/teams/review/inboxes/anna.archive.jsonl"));
        let project = paths.project(Path::new("/p"));
        let session = SessionId::new("s1");
        assert_eq!(
            project.sidechain_meta(&session, &AgentId::new("anna@review")),
            Path::new("/x/y/projects/-p/s1/subagents/agent-anna@review.meta.json")
        );
    }

    #[test]
    fn a_relative_or_empty_variable() {
        let set = |value: &'static str| move |_: &str| Some(OsString::from(value));
        assert!(Paths::resolve(&set("x")).expect("resolves").state_root().is_absolute());
        let unset = Paths::resolve(&|_| None).expect("the platform has a place");
        assert_eq!(Paths::resolve(&set("")).expect("resolves"), unset);
        assert!(unset.state_root().ends_with("festoon") || cfg!(not(target_os = "linux")));
        assert!(!unset.closed().iter().any(|closed| unset.worktrees().starts_with(closed)));
    }

    #[test]
    fn ids_from_outside_stay_below_their_directory() {
        let paths = Paths::from_home(Path::new("/x"));
        let team = paths.team(&TeamName::new("t").expect("slug"));
        assert_eq!(team.ask(&AskId::new("../../etc/x")).parent(), Some(&*team.asks_dir()));
        let project = paths.project(Path::new("/p"));
        let session = SessionId::new("/etc/passwd");
        assert_eq!(project.transcript(&session).parent(), Some(project.dir()));
        assert_eq!(project.output(&session, "../x").parent(), Some(&*project.output_dir(&session)));
    }

    #[test]
    fn directories_are_closed_and_links_are_refused() {
        let dir = tempfile::tempdir().expect("temp dir");
        let home = dir.path().join("above/home");
        let paths = Paths::from_home(&home);
        paths.ensure_root().expect("makes");
        let team = paths.team(&TeamName::new("t").expect("slug"));
        team.make().expect("makes");
        for path in [&*home, &paths.teams(), &team.dir(), &team.keys_dir()] {
            assert_eq!(mode(path), 0o700, "{}", path.display());
        }
        std::fs::set_permissions(paths.teams(), PermissionsExt::from_mode(0o755)).expect("opens");
        paths.ensure_root().expect("closes");
        assert_eq!(mode(&paths.teams()), 0o700);

        let real = dir.path().join("real");
        std::fs::rename(team.inboxes(), &real).expect("moves");
        symlink(&real, team.inboxes()).expect("links");
        for refused in [team.make(), team.check(&team.inboxes())] {
            assert!(
                matches!(&refused, Err(StoreError::NotOurs { path, .. }) if *path == team.inboxes()),
                "{refused:?}"
            );
        }
        let linked = dir.path().join("linked");
        symlink(&home, &linked).expect("links");
        let refused = Paths::from_home(&linked).ensure_root();
        assert!(matches!(refused, Err(StoreError::NotOurs { .. })), "{refused:?}");
    }

    #[test]
    fn a_root_for_everybody_is_refused_and_a_new_one_is_closed() {
        let dir = tempfile::tempdir().expect("temp dir");
        let open = |mode: u32| std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(mode));
        open(0o1777).expect("opens");
        let refused = Paths::from_home(dir.path()).ensure_root();
        assert!(matches!(refused, Err(StoreError::NotOurs { .. })), "{refused:?}");
        open(0o755).expect("opens");
        Paths::from_home(dir.path()).ensure_root().expect("makes");
        assert_eq!(mode(dir.path()), 0o700);
    }
}
