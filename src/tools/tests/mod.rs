//! The file tools on real files; here what their tests share: a context in a temporary directory.

mod change;
mod find;
mod notebook;
mod read;
mod schemas;

use crate::os::file::resolve;
use crate::tools::background_shell::BackgroundShell;
use crate::tools::context::{BackgroundShells, BeforeChange, Former, ProgressSink, TodoList, ToolContext};
use crate::tools::file_cache::FileCache;
use crate::tools::schema;
use crate::tools::shells::Shells;
use crate::tools::tool::{BoxFuture, Tool, ToolCall, ToolContent, ToolOutput};
use crate::tools::web::{Found, Wanted, Web};
use crate::tools::web_fetch::fetch::{Client, HttpError};
use crate::tools::web_fetch::pages::Pages;
use crate::wire::mask::Mask;
use crate::wire::todo::Todo;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use tokio_util::sync::CancellationToken;

struct Nowhere;
impl ProgressSink for Nowhere {
    fn progress(&self, _: &str) {}
}

impl BackgroundShells for Nowhere {
    fn refusal(&self) -> Option<String> {
        Some("there is no registry here".to_owned())
    }
    fn adopt(&self, shell: BackgroundShell) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(async move { Err(shell.description) })
    }
}

impl BeforeChange for Nowhere {
    fn wants(&self, _: &Path) -> bool {
        false
    }
    fn keep(&self, _: &Path, _: Former) {}
}

impl TodoList for Nowhere {
    fn replace(&self, _: Vec<Todo>) {}
}

/// No network.
impl Web for Nowhere {
    fn client(&self, _: &str) -> Result<Client, String> {
        Err("there is no network".to_owned())
    }
    fn reason(&self, error: &HttpError) -> String {
        error.to_string()
    }
    fn pages(&self) -> &Pages {
        static PAGES: LazyLock<Pages> = LazyLock::new(Pages::default);
        &PAGES
    }
    fn ask_page<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async { Err("there is no model".to_owned()) })
    }
    fn search<'a>(&'a self, _: &'a Wanted) -> BoxFuture<'a, Result<Found, String>> {
        Box::pin(async { Err("there is no search".to_owned()) })
    }
}

/// A directory to work in and one that is closed, which holds the output directory.
pub(super) struct Place {
    _temp: tempfile::TempDir,
    pub dir: PathBuf,
    pub closed: PathBuf,
    pub ctx: ToolContext,
}

impl Place {
    pub fn new() -> Self {
        let temp = tempfile::tempdir().expect("temp");
        let root = fs::canonicalize(temp.path()).expect("real");
        let (dir, closed) = (root.join("work"), root.join("state/teams"));
        let output_dir = closed.join("output");
        for path in [&dir, &output_dir] {
            fs::create_dir_all(path).expect("dir");
        }
        let ctx = ToolContext {
            cwd: dir.clone(),
            tool_use_id: "toolu_1".to_owned(),
            cancel: CancellationToken::new(),
            files: Arc::new(FileCache::default()),
            shells: Arc::new(Shells::default()),
            background: Arc::new(Nowhere),
            environment: Arc::new(BTreeMap::new()),
            closed: vec![closed.clone()].into(),
            approved: Arc::new([]),
            output_dir,
            kept_back: Arc::new(|_| false),
            mask: Mask::default(),
            web: Arc::new(Nowhere),
            todos: Arc::new(Nowhere),
            checkpoints: Arc::new(Nowhere),
            progress: Arc::new(Nowhere),
        };
        Self { _temp: temp, dir, closed, ctx }
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.join(name);
        fs::create_dir_all(path.parent().expect("has one")).expect("dirs");
        fs::write(&path, content).expect("write");
        path
    }

    pub async fn call(&self, tool: &dyn Tool, mut input: Value) -> ToolOutput {
        schema::whole_numbers(&mut input);
        schema::validate(tool.spec(), &input).expect("fits the schema");
        let target = tool.access(&input, &self.ctx.cwd).target;
        self.approved_call(tool, input, target.paths().iter().map(|path| resolve(path)).collect()).await
    }

    /// A call that was judged by these paths.
    async fn approved_call(&self, tool: &dyn Tool, input: Value, approved: Vec<PathBuf>) -> ToolOutput {
        let raw = serde_json::value::to_raw_value(&input).expect("raw").into();
        let ctx = ToolContext { approved: approved.into(), ..self.ctx.clone() };
        tool.run(ToolCall { id: "toolu_1".to_owned(), raw, input }, &ctx).await
    }

    /// The text of a success.
    pub async fn ok(&self, tool: &dyn Tool, input: Value) -> String {
        let output = self.call(tool, input).await;
        let failed = output.is_error;
        let text = text(output);
        assert!(!failed, "{text}");
        text
    }

    /// The text of a failure.
    pub async fn err(&self, tool: &dyn Tool, input: Value) -> String {
        let output = self.call(tool, input).await;
        assert!(output.is_error, "{output:?}");
        text(output)
    }
}

fn text(output: ToolOutput) -> String {
    match output.content {
        ToolContent::Text(text) => text,
        ToolContent::Blocks(blocks) => panic!("blocks: {blocks:?}"),
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .expect("list")
        .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
