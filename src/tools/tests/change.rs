//! `Write` and `Edit` on real files.

use super::*;
use crate::tools::edit::Edit;
use crate::tools::glob::Glob;
use crate::tools::grep::Grep;
use crate::tools::read::Read;
use crate::tools::write::Write;
use serde_json::json;
use std::os::unix::fs::{PermissionsExt, symlink};

fn content(path: &Path) -> String {
    fs::read_to_string(path).expect("read")
}

#[tokio::test]
async fn a_new_file_is_made_with_its_directories() {
    let place = Place::new();
    let path = place.dir.join("new dir/ü\n/a.txt");
    let text = place.ok(&Write, json!({"file_path": path, "content": "a\nb\n"})).await;
    assert!(text.ends_with("was created (2 lines, 4 bytes)."), "{text}");
    assert_eq!(content(&path), "a\nb\n");
    assert_eq!(names(path.parent().expect("has one")), ["a.txt"]);
    // What the agent wrote it knows.
    place.ok(&Edit, json!({"file_path": path, "old_string": "a", "new_string": "c"})).await;
    place.ok(&Write, json!({"file_path": path, "content": ""})).await;
    place.ok(&Edit, json!({"file_path": path, "old_string": "", "new_string": "full"})).await;
    assert_eq!(content(&path), "full");
}

#[tokio::test]
async fn an_existing_file_has_to_be_read_and_unchanged() {
    let place = Place::new();
    let path = place.file("a", "one two");
    let write = json!({"file_path": path, "content": "new"});
    let edit = json!({"file_path": path, "old_string": "one", "new_string": "1"});
    for (tool, input) in [(&Write as &dyn Tool, &write), (&Edit, &edit)] {
        let text = place.err(tool, input.clone()).await;
        assert!(text.contains("Read it first; nothing was changed"), "{text}");
    }
    place.ok(&Read, json!({"file_path": path})).await;
    fs::write(&path, "one TWO").expect("somebody else writes");
    for (tool, input) in [(&Write as &dyn Tool, &write), (&Edit, &edit)] {
        let text = place.err(tool, input.clone()).await;
        assert!(text.contains("has changed since you read it"), "{text}");
    }
    assert_eq!(content(&path), "one TWO");
    place.ok(&Read, json!({"file_path": path})).await;
    // Touched is not changed.
    fs::write(&path, "one TWO").expect("touch");
    let text = place.ok(&Edit, edit).await;
    assert_eq!(text, format!("{} was changed in one place:\n     1\t1 TWO", path.display()));
    place.ok(&Write, write).await;
    assert_eq!(content(&path), "new");
}

#[tokio::test]
async fn an_edit_that_cannot_be_made_says_why_and_changes_nothing() {
    let place = Place::new();
    let path = place.file("a", "x\ny\nx\n");
    place.ok(&Read, json!({"file_path": path})).await;
    for (old, new, why) in [
        ("x", "x", "are the same"),
        ("x", "z", "2 times, at lines 1, 3"),
        ("q", "z", "does not hold `old_string`"),
        ("", "z", "is not empty"),
    ] {
        let text = place.err(&Edit, json!({"file_path": path, "old_string": old, "new_string": new})).await;
        assert!(text.contains(why), "{text}");
    }
    assert_eq!(content(&path), "x\ny\nx\n");
    let text = place
        .ok(&Edit, json!({"file_path": path, "old_string": "x", "new_string": "z", "replace_all": true}))
        .await;
    assert!(text.contains("in 2 places"), "{text}");
    assert_eq!(content(&path), "z\ny\nz\n");
    let text = place.err(&Edit, json!({"file_path": "none", "old_string": "x", "new_string": "z"})).await;
    assert!(text.contains("There is no file"), "{text}");
    place.ok(&Edit, json!({"file_path": "made", "old_string": "", "new_string": "z"})).await;
    assert_eq!(content(&place.dir.join("made")), "z");
}

#[tokio::test]
async fn mode_mark_and_line_ends_stay() {
    let place = Place::new();
    let path = place.file("run.sh", "\u{feff}a\r\nb\r\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("mode");
    place.ok(&Read, json!({"file_path": path})).await;
    place.ok(&Edit, json!({"file_path": path, "old_string": "a\nb", "new_string": "a\nc\nb"})).await;
    assert_eq!(content(&path), "\u{feff}a\r\nc\r\nb\r\n");
    assert_eq!(fs::metadata(&path).expect("meta").permissions().mode() & 0o777, 0o755);
}

#[tokio::test]
async fn a_link_stays_and_its_target_is_changed() {
    let place = Place::new();
    let target = place.file("real/target", "old");
    symlink("real/target", place.dir.join("link")).expect("link");
    symlink("real/new", place.dir.join("dangling")).expect("link");
    place.ok(&Read, json!({"file_path": "link"})).await;
    place.ok(&Write, json!({"file_path": "link", "content": "new"})).await;
    place.ok(&Write, json!({"file_path": "dangling", "content": "made"})).await;
    assert!(fs::symlink_metadata(place.dir.join("link")).expect("meta").is_symlink());
    assert_eq!((content(&target), content(&place.dir.join("real/new"))), ("new".into(), "made".into()));
}

#[tokio::test]
async fn nothing_is_written_into_the_closed_part() {
    let place = Place::new();
    let inbox = place.closed.join("inbox.json");
    fs::write(&inbox, "[]").expect("write");
    symlink(&inbox, place.dir.join("file-link")).expect("link");
    symlink(&place.closed, place.dir.join("dir-link")).expect("link");
    symlink(place.closed.join("new"), place.dir.join("dangling")).expect("link");
    let before = names(&place.closed);
    for name in
        ["file-link", "dir-link/inbox.json", "dir-link/new", "dir-link/a/b", "dangling", "../state/teams/x"]
    {
        for (tool, input) in [
            (&Write as &dyn Tool, json!({"file_path": name, "content": "x"})),
            (&Edit, json!({"file_path": name, "old_string": "", "new_string": "x"})),
        ] {
            let text = place.err(tool, input).await;
            assert!(text.contains("closed to tools"), "{name}: {text}");
        }
    }
    assert_eq!((names(&place.closed), content(&inbox)), (before, "[]".into()));
}

#[tokio::test]
async fn of_many_edits_at_once_none_is_lost() {
    let place = Place::new();
    let path = place.file("a", (0..20).map(|n| format!("<{n}>\n")).collect::<String>());
    place.ok(&Read, json!({"file_path": path})).await;
    // Twenty agents, each with its own knowledge of the same state.
    let edits = (0..20).map(|n| {
        let mut ctx = place.ctx.clone();
        ctx.files = Arc::new((*place.ctx.files).clone());
        ctx.approved = Arc::new([path.clone()]);
        let path = path.clone();
        async move {
            let input = json!({"file_path": path, "old_string": format!("<{n}>"), "new_string": "done"});
            let raw = serde_json::value::to_raw_value(&input).expect("raw").into();
            Edit.run(ToolCall { id: format!("t{n}"), raw, input }, &ctx).await
        }
    });
    let mut tasks = tokio::task::JoinSet::new();
    edits.for_each(|edit| {
        tasks.spawn(edit);
    });
    let outputs = tasks.join_all().await;
    let made = outputs.iter().filter(|output| !output.is_error).count();
    let refused = outputs.into_iter().filter(|output| output.is_error).map(text);
    assert!(refused.into_iter().all(|text| text.contains("has changed since you read it")));
    assert_eq!(made, 1, "the others have to read again");
    assert_eq!(content(&path).matches("done").count(), 1);
}

#[tokio::test]
async fn what_is_no_file_is_not_replaced() {
    let place = Place::new();
    fs::create_dir(place.dir.join("dir")).expect("dir");
    let text = place.err(&Write, json!({"file_path": "dir", "content": "x"})).await;
    assert!(text.contains("is a directory, not a regular file"), "{text}");
    place.file("plain", "");
    let text = place.err(&Write, json!({"file_path": "plain/below", "content": "x"})).await;
    assert!(text.contains("Nothing was changed"), "{text}");
    let text = place.err(&Write, json!({"file_path": "/", "content": "x"})).await;
    assert!(text.contains("is a directory"), "{text}");
}

#[test]
fn access_is_told_without_a_look_at_the_disk() {
    let cwd = Path::new("/nowhere/here");
    let access = Edit.access(&json!({"file_path": "../a/./b", "old_string": "x", "new_string": "y\nz"}), cwd);
    assert_eq!(access.target, crate::wire::access::Target::Edit(vec!["/nowhere/a/b".into()]));
    assert_eq!(access.summary, "Edit /nowhere/a/b (-1 +2 lines)");
    let access = Write.access(&json!({"file_path": "b", "content": "1\n2\n"}), cwd);
    assert_eq!(access.summary, "Write b (2 lines)");
}

#[tokio::test]
async fn nothing_but_what_was_judged_is_touched() {
    let place = Place::new();
    let judged = place.file("judged", "harmless");
    let other = place.file("other", "secret");
    let dir = place.file("dir/x", "secret").parent().expect("has one").to_owned();
    // What a link that was changed after the judgement comes to.
    let calls: [(&dyn Tool, serde_json::Value); 6] = [
        (&Read, json!({"file_path": other})),
        (&Read, json!({"file_path": dir})),
        (&Write, json!({"file_path": other, "content": "x"})),
        (&Edit, json!({"file_path": other, "old_string": "secret", "new_string": "x"})),
        (&Glob, json!({"pattern": "*", "path": dir})),
        (&Grep, json!({"pattern": "s", "path": dir})),
    ];
    for (tool, input) in calls {
        let output = place.approved_call(tool, input, vec![judged.clone()]).await;
        assert!(output.is_error);
        let text = text(output);
        assert!(text.contains("was not what this call was allowed for"), "{}: {text}", tool.spec().name);
        assert!(!text.contains("secret"));
    }
    assert_eq!(content(&other), "secret");
    let read = place.approved_call(&Read, json!({"file_path": other}), vec![other.clone()]).await;
    assert!(!read.is_error);
}
