//! The kinds of agents of a session: found, restricted to what is trusted, and found again when files change.

use super::mcp;
use super::setup::Setup;
use super::trust;
use crate::agent::definition_sources::{Discovery, dirs, discover};
use crate::agent::definitions::Definitions;
use crate::wire::definition::AgentDefinition;

/// Everything that files and `given` (the value of `--agents`) define here, without what needs trust and has
/// none.
pub fn found(setup: &Setup, given: Option<&str>) -> Discovery {
    let extensions = mcp::extensions(&setup.cwd, &setup.loaded, &setup.environment);
    let discovery = discover(&setup.paths.user_agents(), &setup.cwd, given);
    let mut discovery = discovery.with_extensions(&extensions);
    drop(trust::restrict(&mut discovery, setup.trust)); // named with all else that is withheld
    discovery
}

/// The same as a session uses it: with the roles of its blueprint, which come first, and following the files.
pub fn live(setup: &Setup, given: Option<&str>, roles: Vec<AgentDefinition>) -> Definitions {
    let user = setup.paths.user_agents();
    let extensions = mcp::extensions(&setup.cwd, &setup.loaded, &setup.environment);
    let dirs = dirs(&user, &setup.cwd, &extensions);
    let (cwd, given, trust) = (setup.cwd.clone(), given.map(str::to_owned), setup.trust);
    let read = move || {
        let mut found = discover(&user, &cwd, given.as_deref()).with_extensions(&extensions);
        let withheld = trust::restrict(&mut found, trust);
        let withheld = withheld
            .iter()
            .map(|w| format!("{}: {} is skipped: the directory is not trusted", w.place, w.what));
        let errors = found.errors.iter().cloned().chain(withheld).collect();
        (roles.iter().cloned().chain(found.definitions()).collect(), errors)
    };
    Definitions::live(dirs, Box::new(read))
}
