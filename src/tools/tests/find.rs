//! `Glob` and `Grep` on real trees.

use super::*;
use crate::tools::glob::Glob;
use crate::tools::grep::Grep;
use serde_json::json;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

/// A tree with everything that is to be left out.
fn tree() -> Place {
    let place = Place::new();
    for (age, (name, content)) in [
        ("src/main.rs", "fn main() {\n    go();\n}\n"),
        ("src/deep/go.rs", "fn go() {\n    // TODO: go\n}\nstruct A {\n    b: u8,\n}\n"),
        ("notes.md", "todo: nothing\r\n"),
        (".hidden.rs", "// TODO hidden\n"),
        ("a b\u{e9}.txt", "TODO in a file with a name\n"),
        ("target/out.rs", "// TODO ignored\n"),
        ("kept.log", "TODO ignored\n"),
        (".git/config.rs", "TODO git\n"),
        (".gitignore", "target/\n*.log\n"),
        ("bin.rs", "TODO \0 binary\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = place.file(name, content);
        let time = SystemTime::now() - Duration::from_secs(60 * (age as u64 + 1));
        fs::File::options().write(true).open(path).expect("open").set_modified(time).expect("time");
    }
    fs::write(place.closed.join("secret.rs"), "TODO secret\n").expect("write");
    symlink(&place.closed, place.dir.join("link")).expect("link");
    symlink(place.closed.join("secret.rs"), place.dir.join("link.rs")).expect("link");
    place
}

#[tokio::test]
async fn glob_finds_the_last_changed_first_and_leaves_out_the_ignored() {
    let place = tree();
    for (input, expected) in [
        (json!({"pattern": "*.rs"}), "src/main.rs\nsrc/deep/go.rs\n.hidden.rs\nbin.rs"),
        (json!({"pattern": "src/*.rs"}), "src/main.rs"),
        (json!({"pattern": "*.rs", "path": "src/deep"}), "src/deep/go.rs"),
        (json!({"pattern": format!("{}/src/**/*.rs", place.dir.display())}), "src/main.rs\nsrc/deep/go.rs"),
        (json!({"pattern": "../work/src/*.rs"}), "src/main.rs"),
        (json!({"pattern": "a b*.{txt,md}"}), "a b\u{e9}.txt"),
        (json!({"pattern": place.dir.join("notes.md")}), "notes.md"),
    ] {
        assert_eq!(place.ok(&Glob, input.clone()).await, expected, "{input}");
    }
    let none = place.ok(&Glob, json!({"pattern": "*.py"})).await;
    assert_eq!(none, format!("No file matches *.py in {}.", place.dir.display()));
    assert!(place.err(&Glob, json!({"pattern": "{a"})).await.contains("is wrong"));
    assert!(place.err(&Glob, json!({"pattern": "*", "path": "nodir"})).await.contains("There is no file"));
}

#[tokio::test]
async fn glob_names_a_bounded_number() {
    let place = Place::new();
    for number in 0..250 {
        place.file(&format!("f{number}"), "");
    }
    let text = place.ok(&Glob, json!({"pattern": "f*"})).await;
    assert_eq!(text.lines().count(), 201);
    assert!(text.ends_with("[the last changed 200 of 250 files; narrow the pattern]"), "{text}");
}

#[tokio::test]
async fn the_closed_part_is_not_searched() {
    let place = tree();
    for path in ["link", "../state/teams", "link.rs"] {
        let text = place.err(&Grep, json!({"pattern": "secret", "path": path})).await;
        assert!(text.contains("closed to tools"), "{path}: {text}");
    }
    assert!(place.err(&Glob, json!({"pattern": "*", "path": "link"})).await.contains("closed to tools"));
    let above = json!({"pattern": "secret", "path": "..", "output_mode": "content"});
    assert!(place.ok(&Grep, above).await.starts_with("No matches"));
    let above = place.ok(&Glob, json!({"pattern": "secret*", "path": ".."})).await;
    assert!(above.starts_with("No file matches"), "{above}");
}

#[tokio::test]
async fn grep_in_its_three_modes() {
    let place = tree();
    for (input, expected) in [
        (json!({"pattern": "TODO"}), "src/deep/go.rs\n.hidden.rs\na b\u{e9}.txt"),
        (json!({"pattern": "todo", "-i": true}), "src/deep/go.rs\nnotes.md\n.hidden.rs\na b\u{e9}.txt"),
        (json!({"pattern": "TODO", "glob": "*.rs"}), "src/deep/go.rs\n.hidden.rs"),
        (json!({"pattern": "TODO", "glob": "!*.rs"}), "a b\u{e9}.txt"),
        (json!({"pattern": "todo", "type": "md"}), "notes.md"),
        (json!({"pattern": "TODO", "path": "src/deep/go.rs"}), "src/deep/go.rs"),
        (
            json!({"pattern": "TODO", "head_limit": 1}),
            "src/deep/go.rs\n[the first 1 of 3 lines; raise head_limit for more]",
        ),
        (
            json!({"pattern": "go|b", "output_mode": "count", "type": "rust"}),
            "src/deep/go.rs:3\nsrc/main.rs:1\n[4 matching lines in 2 files]",
        ),
        (
            json!({"pattern": "todo|TODO", "output_mode": "content"}),
            ".hidden.rs:1:// TODO hidden\na b\u{e9}.txt:1:TODO in a file with a name\nnotes.md:1:todo: \
             nothing\nsrc/deep/go.rs:2:    // TODO: go",
        ),
        (
            json!({"pattern": "TODO: go", "output_mode": "content", "-n": false}),
            "src/deep/go.rs:    // TODO: go",
        ),
        (
            json!({"pattern": "go\\(", "output_mode": "content", "-C": 1, "-B": 0, "path": "src"}),
            "src/deep/go.rs:1:fn go() {\nsrc/deep/go.rs-2-    // TODO: go\n--\nsrc/main.rs:2:    go();\nsrc/main.rs-3-}",
        ),
        (
            json!({"pattern": "^}|b:", "output_mode": "content", "path": "src/deep", "-A": 0}),
            "src/deep/go.rs:3:}\nsrc/deep/go.rs:5:    b: u8,\nsrc/deep/go.rs:6:}",
        ),
        (
            json!({"pattern": "struct.*b", "output_mode": "content", "multiline": true}),
            "src/deep/go.rs:4:struct A {\nsrc/deep/go.rs:5:    b: u8,",
        ),
    ] {
        assert_eq!(place.ok(&Grep, input.clone()).await, expected, "{input}");
    }
}

#[tokio::test]
async fn grep_says_what_is_wrong() {
    let place = tree();
    for (input, why) in [
        (json!({"pattern": "a("}), "no regular expression"),
        (json!({"pattern": "a\nb"}), "needs `multiline`"),
        (json!({"pattern": "a", "type": "rustt"}), "Similar: rust"),
        (json!({"pattern": "a", "glob": "{a"}), "glob \"{a\" is wrong"),
        (json!({"pattern": "a", "path": "srcc"}), "Did you mean"),
    ] {
        let text = place.err(&Grep, input).await;
        assert!(text.contains(why), "{text}");
    }
    assert!(place.ok(&Grep, json!({"pattern": "nowhere at all"})).await.starts_with("No matches in "));
}

#[tokio::test]
async fn grep_is_bounded_in_lines_and_files() {
    let place = Place::new();
    place.file("long", format!("{}x{}\n", "a".repeat(400), "b".repeat(10_000)));
    let text = place.ok(&Grep, json!({"pattern": "x", "output_mode": "content"})).await;
    assert_eq!(text, format!("long:1:{}x{} [… 9901 bytes more]", "a".repeat(400), "b".repeat(99)));
    for number in 0..10 {
        place.file(&format!("many{number}"), format!("{}\n", "y".repeat(400)).repeat(1_000));
    }
    let text = place.ok(&Grep, json!({"pattern": "y", "output_mode": "content"})).await;
    assert!(text.len() < 3_000_000 && text.ends_with("too many matches; narrow it]"), "{}", text.len());
    place.ctx.cancel.cancel();
    assert!(place.err(&Grep, json!({"pattern": "y"})).await.contains("cancelled"));
}
