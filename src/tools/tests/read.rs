//! `Read` on every kind of file.

use super::*;
use crate::tools::image::tests::{GIF, JPEG, PNG, WEBP};
use crate::tools::read::Read;
use crate::wire::limits::TOOL_RESULT_CHARS;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::os::unix::fs::symlink;

fn numbered(lines: impl IntoIterator<Item = (usize, String)>) -> String {
    lines.into_iter().map(|(n, line)| format!("{n:>6}\t{line}")).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn lines_come_numbered_without_their_ends_and_marks() {
    let place = Place::new();
    let path = place.file("a b\nü.txt", "\u{feff}one\r\n\r\n\tthree\nfour");
    let text = place.ok(&Read, json!({"file_path": path})).await;
    assert_eq!(text, "     1\tone\n     2\t\n     3\t\tthree\n     4\tfour");
    let relative = place.ok(&Read, json!({"file_path": "./x/../a b\nü.txt"})).await;
    assert_eq!(relative, text);
    assert_eq!(place.ctx.files.recent(), [path]);
}

#[tokio::test]
async fn a_long_file_is_paged_by_lines_and_by_characters() {
    let place = Place::new();
    let lines = |range: std::ops::RangeInclusive<usize>| numbered(range.map(|n| (n, format!("l{n}"))));
    let path = place.file("long", (1..=5000).map(|n| format!("l{n}\n")).collect::<String>());
    let text = place.ok(&Read, json!({"file_path": path})).await;
    assert_eq!(text, format!("{}\n\n[lines 1–2000 of 5000; go on with offset 2001]", lines(1..=2000)));
    let text = place.ok(&Read, json!({"file_path": path, "offset": 4999})).await;
    assert_eq!(text, lines(4999..=5000));
    let text = place.ok(&Read, json!({"file_path": path, "offset": 10, "limit": 2})).await;
    assert_eq!(text, format!("{}\n\n[lines 10–11 of 5000; go on with offset 12]", lines(10..=11)));
    let float = place.ok(&Read, json!({"file_path": path, "offset": 1e1, "limit": 2.0})).await;
    assert_eq!(float, text);
    let text = place.err(&Read, json!({"file_path": path, "offset": 5001})).await;
    assert!(text.ends_with("has only 5000 lines, so there is no line 5001."), "{text}");

    let wide = place.file("wide", format!("{}\n", "w".repeat(1_000)).repeat(100));
    let text = place.ok(&Read, json!({"file_path": wide})).await;
    assert!(text.chars().count() < TOOL_RESULT_CHARS);
    assert!(text.ends_with("[lines 1–28 of 100; go on with offset 29]"), "{}", &text[text.len() - 80..]);
}

#[tokio::test]
async fn long_lines_are_cut_with_a_mark() {
    let place = Place::new();
    let path = place.file("min.js", format!("{}\nshort\n", "ü".repeat(10_000)));
    let text = place.ok(&Read, json!({"file_path": path})).await;
    let cut = format!("{} [… 16000 bytes of this line are left out]", "ü".repeat(2_000));
    assert_eq!(text, numbered([(1, cut), (2, "short".to_owned())]));
}

#[tokio::test]
async fn what_is_odd_about_a_file_is_said() {
    let place = Place::new();
    let empty = place.file("empty", "");
    assert_eq!(place.ok(&Read, json!({"file_path": empty})).await, format!("[{} is empty]", empty.display()));
    let latin = place.file("latin1", b"gr\xfc\xdfe\n");
    assert_eq!(
        place.ok(&Read, json!({"file_path": latin})).await,
        "     1\tgr\u{fffd}\u{fffd}e\n\n[the file is not valid UTF-8; what is not is shown as \u{fffd}]"
    );
    for (name, content, what) in [
        ("a.bin", &b"\x7fELF\0\0\0"[..], "a binary file (7 bytes)"),
        ("a.pdf", b"%PDF-1.7 text", "a PDF file"),
        ("a.txt", b"\xff\xfea\0b\0", "UTF-16 text"),
    ] {
        let text = place.err(&Read, json!({"file_path": place.file(name, content)})).await;
        assert!(text.contains(what) && text.contains("Use Bash"), "{text}");
    }
    let text = place.err(&Read, json!({"file_path": place.dir})).await;
    assert!(
        text.contains("is a directory") && text.ends_with("\na.bin\na.pdf\na.txt\nempty\nlatin1"),
        "{text}"
    );
    let fifo = place.dir.join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    assert!(place.err(&Read, json!({"file_path": fifo})).await.contains("is a FIFO, not a regular file"));
}

#[tokio::test]
async fn a_missing_file_names_the_nearest() {
    let place = Place::new();
    let path = place.file("src/Settings.rs", "");
    let text = place.err(&Read, json!({"file_path": "src/setting.rs"})).await;
    assert!(text.ends_with(&format!("Did you mean {}?", path.display())), "{text}");
    let text = place.err(&Read, json!({"file_path": "/nowhere/at/all"})).await;
    assert!(text.ends_with(&format!("The agent's directory is {}.", place.dir.display())), "{text}");
}

#[tokio::test]
async fn images_become_blocks() {
    let place = Place::new();
    let decoded = |data: &str| STANDARD.decode(data).expect("base64");
    for (name, content, media_type) in [
        ("a.png", decoded(PNG), "image/png"),
        ("a", JPEG.to_vec(), "image/jpeg"),
        ("b.txt", decoded(GIF), "image/gif"),
        ("c.webp", decoded(WEBP), "image/webp"),
    ] {
        let data = STANDARD.encode(&content);
        let path = place.file(name, content);
        let output = place.call(&Read, json!({"file_path": path})).await;
        let ToolContent::Blocks(blocks) = output.content else { panic!("no blocks for {name}") };
        let raw: Vec<Value> =
            blocks.iter().map(|block| serde_json::from_str(block.raw()).expect("JSON")).collect();
        let source = json!({"type": "base64", "media_type": media_type, "data": data});
        assert_eq!(raw, [json!({"type": "image", "source": source})]);
    }
    let mut huge = b"\x89PNG\r\n\x1a\n".to_vec();
    let text = place.err(&Read, json!({"file_path": place.file("cut.png", &huge)})).await;
    assert!(text.ends_with("cut.png is damaged or no real image/png, so it was not shown."), "{text}");
    huge.resize(4_000_000, 0);
    let text = place.err(&Read, json!({"file_path": place.file("huge.png", huge)})).await;
    assert!(text.contains("4000000 bytes; at most 3750000"), "{text}");
}

#[tokio::test]
async fn the_closed_part_is_not_read_through_links_either() {
    let place = Place::new();
    fs::write(place.closed.join("secret"), "key").expect("write");
    symlink(place.closed.join("secret"), place.dir.join("file-link")).expect("link");
    symlink(&place.closed, place.dir.join("dir-link")).expect("link");
    symlink("../state", place.dir.join("up-link")).expect("link");
    for name in ["file-link", "dir-link/secret", "dir-link", "up-link/teams/secret", "../state/teams/secret"]
    {
        let text = place.err(&Read, json!({"file_path": name})).await;
        assert!(text.contains("closed to tools") && !text.contains("key"), "{name}: {text}");
    }
    let kept = place.ctx.output_dir.join("toolu_0.txt");
    fs::write(&kept, "output").expect("write");
    assert_eq!(place.ok(&Read, json!({"file_path": kept})).await, "     1\toutput");
}

#[tokio::test]
async fn a_cancelled_read_says_so() {
    let place = Place::new();
    let path = place.file("a", "x\n".repeat(1_000_000));
    place.ctx.cancel.cancel();
    assert!(place.err(&Read, json!({"file_path": path})).await.contains("cancelled"));
}
