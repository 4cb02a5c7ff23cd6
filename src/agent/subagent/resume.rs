//! Going on with a subagent that has ended: the same id and transcript, a new run, in the background.
//!
//! What it is stands in its metadata; what it knows, in its sidechain. Its new launcher is whoever writes
//! to it, and it may do no more than that one. Promises that nothing is launched for a message that is not
//! stored.

use super::launch::{First, begin};
use super::{Beside, Prepared, isolate, permissions, tools};
use crate::agent::background::Launched;
use crate::agent::context::{AgentContext, Tier};
use crate::agent::core::AgentCore;
use crate::agent::definitions::{GENERAL_PURPOSE, query_source};
use crate::agent::fork::{self, FORK_SOURCE};
use crate::agent::ports::MailError;
use crate::agent::worktree::WorktreeLease;
use crate::policy::narrow::{Parent, Wish, narrow};
use crate::store::{slug, transcript};
use crate::wire::background::TaskKind;
use crate::wire::definition::Isolation;
use crate::wire::ids::{AgentId, BackgroundId, RunId};
use crate::wire::transcript::AgentMeta;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An agent that goes on.
#[derive(Debug)]
pub struct Resumed<T> {
    /// Proof that the message is stored.
    pub stored: T,
    /// Its new run.
    pub launched: Launched,
    /// What is not as it was, a sentence each.
    pub notes: Vec<String>,
}

/// Why an agent does not go on.
#[derive(Debug)]
pub struct NotResumed {
    /// True when the message is in its inbox all the same: whoever wrote it must not send it again.
    pub stored: bool,
    /// The end of a sentence for a model.
    pub why: String,
}

impl From<String> for NotResumed {
    fn from(why: String) -> Self {
        Self { stored: false, why }
    }
}

/// What is known of an agent without a name; `None` when there never was one.
pub async fn known(by: &AgentCore, id: &AgentId) -> Result<Option<AgentMeta>, String> {
    let project = by.runtime.paths.project(&by.context.session_cwd);
    let path = project.sidechain_meta(&by.context.session, id);
    let file = path.clone();
    let read = by.runtime.disk.run(&path, move || transcript::read_meta(&file)).await;
    read.map(|found| found.map(|open| open.known)).map_err(|e| e.to_string())
}

/// Goes on with an agent for `by`. `store` puts the message into its inbox, once all that can be refused
/// has been looked at.
pub async fn resume<T, S>(by: &Arc<AgentCore>, meta: AgentMeta, store: S) -> Result<Resumed<T>, NotResumed>
where
    S: Future<Output = Result<T, MailError>>,
{
    let mut notes = Vec::new();
    let prepared = prepare(by, meta, &mut notes).await?;
    let name = prepared.meta.name.as_deref().and_then(|name| slug::agent_name(name).ok());
    let post = by.runtime.background.post();
    // Its inbox was taken away if it never had mail.
    post.mailbox(&prepared.context).await.map_err(|e| e.to_string())?;
    let stored = store.await.map_err(|e| e.to_string())?;
    let kind = if prepared.fork.is_some() { TaskKind::Fork } else { TaskKind::Subagent };
    match begin(prepared, kind, name, First::Mail).await {
        Ok(launched) => Ok(Resumed { stored, launched, notes }),
        Err(why) => Err(NotResumed { stored: true, why }),
    }
}

async fn prepare(by: &Arc<AgentCore>, meta: AgentMeta, notes: &mut Vec<String>) -> Result<Prepared, String> {
    let runtime = &by.runtime;
    let definitions = runtime.definitions.kinds();
    let definition = match definitions.get(&meta.agent_type).or_else(|| definitions.get(GENERAL_PURPOSE)) {
        _ if meta.is_fork => fork::start::definition(&by.definition),
        Some(definition) => definition.clone(),
        None => return Err(format!("the kind {:?} is gone", meta.agent_type)),
    };
    if definition.name != meta.agent_type {
        notes.push(format!("the kind {:?} is gone, so it goes on as {}", meta.agent_type, definition.name));
    }
    let model = runtime.models.find(&meta.model, &by.model.full).map_err(|e| e.to_string())?;
    let fork = match meta.is_fork {
        true => Some(fork::resume::seed(by, &meta, &model).await?),
        false => None,
    };
    let (own, wanted) = (Arc::clone(by), PathBuf::from(&meta.cwd));
    let dir = move || Ok(own.permissions.child_dir(Some(&wanted)));
    let mut context = AgentContext {
        made_as: meta.agent_id.clone(),
        name: None,
        agent_type: definition.name.clone(),
        tier: Tier::Subagent,
        depth: meta.depth,
        query_source: match fork {
            Some(_) => FORK_SOURCE.to_owned(),
            None => query_source(&definition),
        },
        task: Some(BackgroundId::of_agent(&meta.agent_id)),
        parent_tool_use_id: meta.tool_use_id.clone(),
        ..(*by.context).clone()
    };
    let narrowed = narrow(
        Parent { mode: by.permissions.mode(), rules: &by.permissions.rules() },
        Wish {
            mode: Some(meta.permission_mode),
            definition: definition.permission_mode,
            allowed_tools: meta.allowed_tools.as_deref(),
        },
    );
    let worktree = match &meta.worktree_path {
        None => {
            let dir = runtime.disk.run(&by.context.cwd, dir).await;
            context.cwd = dir.map_err(|e| e.to_string())??;
            None
        }
        Some(path) => match runtime.nursery.find(Path::new(path), Path::new(&meta.cwd)).await {
            Some(tree) => {
                context.cwd.clone_from(&tree.cwd);
                Some(WorktreeLease::new(&runtime.nursery, tree))
            }
            // It was removed, since nothing was in it.
            None => {
                let isolation = Some(Isolation::Worktree);
                let (lease, notices) =
                    isolate(by, isolation, &mut context, narrowed.mode, &definition.hooks).await?;
                notes.extend(notices);
                lease
            }
        },
    };
    let cwd = context.cwd.clone();
    let project = runtime.paths.project(&context.session_cwd);
    let meta_path = project.sidechain_meta(&context.session, &context.id());
    let meta = AgentMeta { root: Some(context.root.clone()), ..meta };
    Ok(Prepared {
        tools: tools(by, Beside::Background),
        parent: Arc::clone(by),
        permissions: permissions(
            by,
            narrowed.mode,
            narrowed.rules,
            cwd,
            worktree.as_ref().map(WorktreeLease::tree),
        ),
        context,
        definition,
        model,
        meta_path,
        meta,
        run_id: RunId::generate(),
        notes: narrowed.notes,
        worktree,
        fork,
    })
}
