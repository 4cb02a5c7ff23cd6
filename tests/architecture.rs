//! The layers of `src/` and the doors of outside crates, as a test.
//!
//! Owns the two tables that `docs/architecture.md` explains. Reads every source file, tests
//! included, and names the file, the line, the edge and the place that should own the code. There
//! is no list of exceptions; the last tests feed it wrong snippets, to show that it can fail.

#![expect(clippy::expect_used, reason = "a test says what it expected by failing")]

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// The layers, bottom first, with what each may import of ours beside itself.
const LAYERS: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("store", &["wire"]),
    ("os", &["wire"]),
    ("model", &["wire"]),
    ("policy", &["wire"]),
    ("tools", &["wire", "os"]),
    ("agent", &["wire", "store", "os", "model", "policy", "tools"]),
    ("team", &["wire", "store", "os", "model", "policy", "tools", "agent"]),
    ("exec", &["wire", "store::paths", "os", "team"]),
    ("cli", &["wire", "store", "os", "model", "policy", "tools", "agent", "team", "exec"]),
];

/// What `main.rs` may use of the library: it looks for the helper mode, then hands over.
const MAIN: &[&str] = &["cli", "os"];

/// Any layer above `wire`.
const ABOVE_WIRE: &[&str] =
    &["store/", "os/", "model/", "policy/", "tools/", "agent/", "team/", "exec/", "cli/", "main.rs"];
/// The layers that may know the runtime.
const ASYNC: &[&str] = &["os/", "model/", "tools/", "agent/", "team/", "exec/", "cli/", "main.rs"];

/// Crates (and parts of the standard library) that stay behind a door: the files that may name them.
const DOORS: &[(&str, &[&str])] = &[
    ("anstream", &["cli/"]),
    ("anstyle", &["cli/"]),
    ("clap", &["cli/"]),
    ("clap_complete", &["cli/"]),
    ("clap_mangen", &["cli/"]),
    ("rustyline", &["cli/"]),
    ("unicode_width", &["cli/"]),
    ("tracing_subscriber", &["cli/"]),
    ("fd_lock", &["store/lock.rs"]),
    ("notify", &["store/watch.rs"]),
    ("directories", &["store/paths.rs"]),
    ("any_ascii", &["store/"]),
    ("unicode_normalization", &["store/"]),
    ("unicode_security", &["store/slug.rs"]),
    ("nix", &["os/"]),
    ("rustix", &["os/", "store/"]),
    ("rmcp", &["tools/mcp"]),
    ("ignore", &["tools/"]),
    ("grep_regex", &["tools/"]),
    ("grep_searcher", &["tools/"]),
    ("jsonschema", &["tools/", "agent/"]),
    ("memchr", &["tools/"]),
    ("strsim", &["tools/", "cli/"]),
    ("htmd", &["tools/web_fetch"]),
    ("encoding_rs", &["tools/web_fetch"]),
    ("flate2", &["tools/web_fetch"]),
    ("brotli_decompressor", &["tools/web_fetch"]),
    ("schemars", &["wire/", "cli/settings"]),
    ("tmux_interface", &["exec/tmux"]),
    ("brush_parser", &["policy/shell"]),
    ("stacker", &["policy/shell"]),
    ("reqwest", &["model/", "tools/mcp", "tools/web_fetch"]),
    ("rustls", &["model/", "tools/web_fetch"]),
    ("sse_stream", &["model/"]),
    ("http_body", &["model/"]),
    ("tokio", ASYNC),
    ("tokio_util", ASYNC),
    ("futures_core", ASYNC),
    ("futures_util", ASYNC),
    ("serde_ignored", &["cli/settings.rs", "agent/definition_file.rs"]),
    ("serde_saphyr", &["agent/definition_file.rs"]),
    ("serde_path_to_error", &["cli/settings.rs", "agent/definition_file.rs"]),
    ("bytes", ABOVE_WIRE),
    ("base64", ABOVE_WIRE),
    ("hmac", ABOVE_WIRE),
    ("sha2", ABOVE_WIRE),
    ("serde_json_canonicalizer", ABOVE_WIRE),
    ("globset", ABOVE_WIRE),
    ("regex", ABOVE_WIRE),
    ("jiff", ABOVE_WIRE),
    ("tempfile", ABOVE_WIRE),
    ("toml", ABOVE_WIRE),
    ("tracing", ABOVE_WIRE),
    ("serde", &[""]),
    ("serde_json", &[""]),
    ("thiserror", &[""]),
    ("uuid", &[""]),
];

/// Parts of the standard library with a door: what, where, and who should own the code instead.
const STD_DOORS: &[(&str, &[&str], &str)] = &[
    ("std::env", &["cli/", "os/", "store/paths.rs", "main.rs"], "`cli`, which hands the value down"),
    ("std::fs", &ASYNC_AND_STORE, "`store`"),
    ("std::process::Command", &["os/"], "`os::command`"),
    ("tokio::process", &["os/"], "`os::command`"),
    ("std::time::SystemTime", &ASYNC_AND_STORE, "`store::clock`"),
    ("std::time::Instant", &ASYNC_AND_STORE, "the caller, which hands the time in"),
];
const ASYNC_AND_STORE: [&str; 8] = ["store/", "os/", "model/", "tools/", "agent/", "team/", "exec/", "cli/"];

/// One path that a file names, absolute where it is ours.
struct Named {
    path: Vec<String>,
    line: usize,
    test: bool,
}

/// Walks one file.
struct Reader {
    module: Vec<String>,
    local: HashSet<String>,
    test: bool,
    named: Vec<Named>,
    banned: Vec<(usize, &'static str)>,
}

impl Reader {
    fn name(&mut self, mut path: Vec<String>, line: usize) {
        let mut module = self.module.clone();
        let mut ours = false;
        while let Some(first) = path.first().cloned() {
            match first.as_str() {
                "crate" | "festoon" => module.clear(),
                "self" => {}
                "super" => drop(module.pop()),
                _ => break,
            }
            ours = true;
            path.remove(0);
        }
        if ours {
            module.insert(0, "crate".to_owned());
            module.append(&mut path);
            path = module;
        } else if path.first().is_some_and(|first| self.local.contains(first)) {
            return;
        }
        self.named.push(Named { path, line, test: self.test });
    }

    fn use_tree(&mut self, tree: &syn::UseTree, before: &[String]) {
        let with = |name: String| [before, &[name]].concat();
        match tree {
            syn::UseTree::Path(path) => self.use_tree(&path.tree, &with(path.ident.to_string())),
            syn::UseTree::Name(name) => self.name(with(name.ident.to_string()), name.span().start().line),
            syn::UseTree::Rename(name) => self.name(with(name.ident.to_string()), name.span().start().line),
            syn::UseTree::Glob(glob) => self.name(before.to_vec(), glob.span().start().line),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.use_tree(tree, before)),
        }
    }

    /// Macro bodies are tokens: paths in them are found by their `::`, words by their name.
    fn tokens(&mut self, tokens: TokenStream, words_only: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is = |i: usize, c: char| matches!(tokens.get(i), Some(TokenTree::Punct(p)) if p.as_char() == c);
        let ident = |i: usize| match tokens.get(i) {
            Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
            _ => None,
        };
        for (i, token) in tokens.iter().enumerate() {
            let line = token.span().start().line;
            match token {
                TokenTree::Group(group) => {
                    let attribute = group.delimiter() == Delimiter::Bracket
                        && i > 0
                        && (is(i - 1, '#') || (is(i - 1, '!') && i > 1 && is(i - 2, '#')));
                    let first = group.stream().into_iter().next().map(|t| t.to_string());
                    if words_only && attribute && first.as_deref() == Some("allow") {
                        self.banned.push((line, "#[allow] (use #[expect(lint, reason = \"…\")])"));
                    }
                    self.tokens(group.stream(), words_only);
                }
                TokenTree::Ident(word) if words_only => {
                    let word = word.to_string();
                    match word.as_str() {
                        "unsafe" => self.banned.push((line, "unsafe")),
                        "todo" if is(i + 1, '!') => self.banned.push((line, "todo!")),
                        "unimplemented" if is(i + 1, '!') => self.banned.push((line, "unimplemented!")),
                        _ => {}
                    }
                }
                TokenTree::Ident(word) if i == 0 || !is(i - 1, ':') => {
                    let mut path = vec![word.to_string()];
                    let mut at = i + 1;
                    while is(at, ':') && is(at + 1, ':') {
                        let Some(next) = ident(at + 2) else { break };
                        path.push(next);
                        at += 3;
                    }
                    if path.len() > 1 {
                        self.name(path, line);
                    }
                }
                _ => {}
            }
        }
    }
}

fn is_test(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|attr| {
        attr.path().is_ident("cfg")
            && attr.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"))
    })
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let was = self.test;
        self.test |= is_test(&item.attrs);
        self.use_tree(&item.tree, &[]);
        self.test = was;
    }
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let was = self.test;
        self.test |= is_test(&item.attrs);
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
        self.test = was;
    }
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.name(names, path.span().start().line);
        }
        visit::visit_path(self, path);
    }
    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.tokens(item.tokens.clone(), false);
        visit::visit_macro(self, item);
    }
}

/// Names that a file's own `use` and `mod` items bind: they hide crates of the same name.
fn local_names(file: &syn::File) -> HashSet<String> {
    struct Locals(HashSet<String>);
    fn bind(tree: &syn::UseTree, ours: bool, names: &mut HashSet<String>) {
        match tree {
            syn::UseTree::Path(path) => {
                let ours = ours || ["crate", "self", "super"].iter().any(|root| path.ident == root);
                bind(&path.tree, ours, names);
            }
            syn::UseTree::Name(name) if ours => drop(names.insert(name.ident.to_string())),
            syn::UseTree::Rename(name) if ours => drop(names.insert(name.rename.to_string())),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| bind(tree, ours, names)),
            _ => {}
        }
    }
    impl<'ast> Visit<'ast> for Locals {
        fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
            bind(&item.tree, false, &mut self.0);
        }
        fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
            self.0.insert(item.ident.to_string());
            visit::visit_item_mod(self, item);
        }
    }
    let mut locals = Locals(HashSet::new());
    locals.visit_file(file);
    locals.0
}

fn begins(path: &[String], with: &str) -> bool {
    let with: Vec<&str> = with.split("::").collect();
    path.len() >= with.len() && path.iter().zip(&with).all(|(a, b)| a == b)
}

fn may(from: &str, path: &[String]) -> bool {
    let allowed = match from {
        "main" => MAIN,
        _ => LAYERS.iter().find(|(layer, _)| *layer == from).map_or(&[][..], |(_, allowed)| allowed),
    };
    path[0] == from || allowed.iter().any(|prefix| begins(path, prefix))
}

/// Everything wrong with one file, one sentence each. `file` is relative to `src/`.
fn check(file: &str, text: &str) -> Vec<String> {
    let tokens: TokenStream = match text.parse() {
        Ok(tokens) => tokens,
        Err(error) => return vec![format!("src/{file}: {error}")],
    };
    let parsed = match syn::parse2::<syn::File>(tokens.clone()) {
        Ok(parsed) => parsed,
        Err(error) => return vec![format!("src/{file}: {error}")],
    };
    let stem = file.trim_end_matches(".rs").trim_end_matches("/mod");
    let module: Vec<String> = match stem {
        "lib" | "main" => Vec::new(),
        _ => stem.split('/').map(str::to_owned).collect(),
    };
    let from = module.first().cloned().unwrap_or_else(|| stem.to_owned());
    if from == "lib" {
        return Vec::new(); // declares the layers; `the_map_declares_the_layers_in_order` reads it
    }
    let in_tests = file.ends_with("/tests.rs") || file.contains("/tests/");
    let local = local_names(&parsed);
    let mut reader = Reader { module, local, test: in_tests, named: Vec::new(), banned: Vec::new() };
    reader.tokens(tokens, true);
    reader.visit_file(&parsed);

    let mut wrong: BTreeMap<(usize, String), ()> = BTreeMap::new();
    for (line, what) in &reader.banned {
        wrong.insert((*line, format!("`{what}` is not used in this project")), ());
    }
    if !LAYERS.iter().any(|(layer, _)| *layer == from) && from != "main" {
        wrong.insert((1, format!("`{from}` is no layer: add it to the table or move the file")), ());
    }
    for Named { path, line, test } in &reader.named {
        let shown = path.join("::");
        let layer = path.get(1).filter(|name| LAYERS.iter().any(|(layer, _)| layer == name));
        if path[0] == "crate" {
            let Some(to) = layer.filter(|_| !may(&from, &path[1..])) else { continue };
            let owner = LAYERS
                .iter()
                .map(|(layer, _)| *layer)
                .find(|owner| may(owner, std::slice::from_ref(&from)) && may(owner, &path[1..]));
            let owner = owner.unwrap_or("cli");
            let text = format!("{from} → {to} (`{shown}`): code that needs both belongs to `{owner}`");
            wrong.insert((*line, text), ());
            continue;
        }
        let opens = |doors: &[&str]| doors.iter().any(|door| file.starts_with(door));
        if let Some((krate, doors)) = DOORS.iter().find(|(krate, _)| *krate == path[0])
            && !opens(doors)
        {
            let text =
                format!("{from} → crate {krate} (`{shown}`): that crate belongs to {}", doors.join(", "));
            wrong.insert((*line, text), ());
        }
        for (part, doors, owner) in STD_DOORS {
            let constant = begins(path, "std::env::consts");
            if begins(path, part) && !opens(doors) && !*test && !constant {
                wrong.insert((*line, format!("{from} → {part} (`{shown}`): this belongs to {owner}")), ());
            }
        }
    }
    wrong.into_keys().map(|(line, what)| format!("src/{file}:{line}: {what}")).collect()
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("source directory") {
        let path = entry.expect("directory entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_file_keeps_to_its_layer() {
    let src = root().join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    files.sort();
    let mut report = String::new();
    for path in &files {
        let name = path.strip_prefix(&src).expect("below src").to_str().expect("UTF-8");
        for line in check(name, &std::fs::read_to_string(path).expect("source file")) {
            let _ = writeln!(report, "{line}");
        }
    }
    assert!(files.len() > 20, "found only {} files", files.len());
    assert!(report.is_empty(), "\n{report}");
}

#[test]
fn the_map_declares_the_layers_in_order() {
    let lib = std::fs::read_to_string(root().join("src/lib.rs")).expect("lib.rs");
    let file = syn::parse_file(&lib).expect("lib.rs parses");
    let declared: Vec<String> = file
        .items
        .iter()
        .map(|item| match item {
            syn::Item::Mod(item) => item.ident.to_string(),
            _ => "something that is no module".to_owned(),
        })
        .collect();
    let expected: Vec<&str> =
        LAYERS.iter().map(|(layer, _)| *layer).filter(|layer| declared.iter().any(|d| d == layer)).collect();
    assert_eq!(declared, expected);
}

#[test]
fn every_dependency_has_a_door() {
    let manifest: toml::Table =
        std::fs::read_to_string(root().join("Cargo.toml")).expect("manifest").parse().expect("TOML");
    let missing: Vec<String> = manifest["dependencies"]
        .as_table()
        .expect("dependencies")
        .keys()
        .map(|name| name.replace('-', "_"))
        .filter(|name| !DOORS.iter().any(|(krate, _)| krate == name))
        .collect();
    assert_eq!(missing, Vec::<String>::new(), "say in DOORS which files may use them");
}

#[test]
fn wrong_snippets_are_found_and_named() {
    let snippets = [
        (
            "store/inbox.rs",
            "use crate::{wire::mail, agent::session};",
            "src/store/inbox.rs:1: store → agent (`crate::agent::session`): code that needs both belongs to `agent`",
        ),
        (
            "tools/read.rs",
            "fn f() {\n super::super::policy::decide::decide(); }",
            "src/tools/read.rs:2: tools → policy (`crate::policy::decide::decide`): code that needs both belongs to `agent`",
        ),
        (
            "exec/tmux.rs",
            "fn f() { format!(\"{}\", crate::store::inbox::read()); }",
            "src/exec/tmux.rs:1: exec → store (`crate::store::inbox::read`): code that needs both belongs to `cli`",
        ),
        (
            "team/spawn.rs",
            "use tmux_interface::Tmux;",
            "src/team/spawn.rs:1: team → crate tmux_interface (`tmux_interface::Tmux`): that crate belongs to exec/tmux",
        ),
        (
            "store/disk.rs",
            "#[cfg(test)] mod tests { use tokio::fs; }",
            "src/store/disk.rs:1: store → crate tokio (`tokio::fs`): that crate belongs to os/, model/, tools/, agent/, team/, exec/, cli/, main.rs",
        ),
        (
            "agent/session.rs",
            "use std::{env, fs};",
            "src/agent/session.rs:1: agent → std::env (`std::env`): this belongs to `cli`, which hands the value down",
        ),
        (
            "policy/decide.rs",
            "fn f() { let _ = std::fs::read(\"x\"); }",
            "src/policy/decide.rs:1: policy → std::fs (`std::fs::read`): this belongs to `store`",
        ),
        (
            "tools/bash.rs",
            "use std::process::Command;",
            "src/tools/bash.rs:1: tools → std::process::Command (`std::process::Command`): this belongs to `os::command`",
        ),
        ("util/misc.rs", "", "src/util/misc.rs:1: `util` is no layer: add it to the table or move the file"),
        ("wire/mail.rs", "fn f() { unsafe {} }", "src/wire/mail.rs:1: `unsafe` is not used in this project"),
        ("wire/mail.rs", "fn f() { todo!() }", "src/wire/mail.rs:1: `todo!` is not used in this project"),
        (
            "wire/mail.rs",
            "#[allow(dead_code)] fn f() {}",
            "src/wire/mail.rs:1: `#[allow] (use #[expect(lint, reason = \"…\")])` is not used in this project",
        ),
    ];
    for (file, text, message) in snippets {
        assert_eq!(check(file, text), [message], "{file}: {text}");
    }
}

#[test]
fn right_snippets_pass() {
    let snippets = [
        ("exec/tmux/pane.rs", "use crate::store::paths::Paths; use tmux_interface::Tmux; use super::layout;"),
        (
            "agent/session.rs",
            "use crate::policy::decide; use crate::agent::notify; fn f() { notify::all(); }",
        ),
        ("store/lock.rs", "use fd_lock::RwLock; // never unsafe, no todo!() here\n"),
        ("cli/errors.rs", "use crate::team::executor; fn f() { let _ = std::env::var(\"X\"); }"),
        ("main.rs", "fn main() { festoon::cli::run(); }"),
        ("tools/grep.rs", "#[cfg(test)] mod tests { use std::env; use super::super::context; }"),
    ];
    for (file, text) in snippets {
        assert_eq!(check(file, text), Vec::<String>::new(), "{file}: {text}");
    }
}
