//! Notebooks: shown by their cells, changed one cell at a time with every other byte as it was.

use super::*;
use crate::tools::image::tests::PNG;
use crate::tools::notebook_edit::NotebookEdit;
use crate::tools::read::Read;
use crate::wire::block::Block;
use proptest::prelude::*;
use serde_json::json;

/// As Jupyter writes it: one space, names in order, a list of lines; with fields nobody knows.
const JUPYTER: &str = r##"{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "intro",
   "metadata": {},
   "source": [
    "# Title\n",
    "text"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 7,
   "id": "plot",
   "metadata": {
    "z": 1.10,
    "a": [1e2]
   },
   "outputs": [
    {
     "name": "stdout",
     "output_type": "stream",
     "text": [
      "one\n",
      "two\n"
     ]
    },
    {
     "data": {
      "text/plain": [
       "\"ü\""
      ]
     },
     "execution_count": 7,
     "metadata": {},
     "output_type": "execute_result"
    }
   ],
   "source": [
    "print(1)"
   ],
   "vendor": {"kept": true}
  }
 ],
 "metadata": {
  "language_info": {
   "name": "python"
  }
 },
 "nbformat": 4,
 "nbformat_minor": 5
}
"##;

async fn read(place: &Place, name: &str) -> String {
    place.ok(&Read, json!({ "file_path": name })).await
}

fn content(place: &Place, name: &str) -> String {
    fs::read_to_string(place.dir.join(name)).expect("file")
}

#[tokio::test]
async fn cells_are_shown_with_ids_and_outputs() {
    let place = Place::new();
    let path = place.file("a.ipynb", JUPYTER);
    let wanted = format!(
        "[{}: a notebook of 2 cells, python]\n\n[cell intro — markdown]\n# Title\ntext\n\n[cell plot — code, run 7]\n\
         print(1)\n[stdout]\none\ntwo\n[output]\n\"ü\"",
        path.display()
    );
    assert_eq!(read(&place, "a.ipynb").await, wanted);
    let second = place.ok(&Read, json!({ "file_path": "a.ipynb", "offset": 2, "limit": 1 })).await;
    assert!(!second.contains("intro") && second.contains("[cell plot"), "{second}");
    let first = place.ok(&Read, json!({ "file_path": "a.ipynb", "limit": 1 })).await;
    assert!(first.ends_with("text\n\n[cells 1–1 of 2; go on with offset 2]"), "{first}");
    let text = place.err(&Read, json!({ "file_path": "a.ipynb", "offset": 3 })).await;
    assert!(text.ends_with("has only 2 cells, so there is no cell 3."), "{text}");
    // What is no notebook is the text it is.
    place.file("b.ipynb", "{\"cells\": 7}");
    assert_eq!(read(&place, "b.ipynb").await, "     1\t{\"cells\": 7}");
}

#[tokio::test]
async fn images_and_errors_of_outputs_are_shown() {
    let place = Place::new();
    let outputs = json!([
        { "output_type": "display_data", "data": { "image/png": [&PNG[..30], "\n", &PNG[30..]], "text/plain": "<Figure>" } },
        { "output_type": "display_data", "data": { "image/png": "AAAA" } },
        { "output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\u{1b}[0;31mE\u{1b}[0m: v", "line"] },
        { "output_type": "stream", "name": "stderr", "text": "x".repeat(5_000) },
    ]);
    let cell = json!({ "cell_type": "code", "source": "plot()", "outputs": outputs });
    let notebook = json!({ "nbformat": 4, "nbformat_minor": 2, "cells": [cell] });
    let path = place.file("a.ipynb", notebook.to_string());
    let output = place.call(&Read, json!({ "file_path": "a.ipynb" })).await;
    let ToolContent::Blocks(blocks) = output.content else { panic!("{output:?}") };
    let image = Block::parse(
        &json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": PNG } })
            .to_string(),
    );
    let parsed = |block: &Block| serde_json::from_str::<Value>(block.raw()).expect("JSON");
    assert_eq!(blocks.len(), 3);
    assert_eq!(
        blocks[0].as_text().expect("text"),
        format!("[{}: a notebook of 1 cell]\n\n[cell cell-0 — code]\nplot()\n[image]", path.display())
    );
    assert_eq!(parsed(&blocks[1]), parsed(&image.expect("a block")));
    assert_eq!(
        blocks[2].as_text().expect("text"),
        format!(
            "[an image that cannot be shown: it is no PNG, JPEG, GIF or WebP image]\n[error]\nE: v\nline\n[stderr]\n{}\n\
             [… 1000 characters are left out]",
            "x".repeat(4_000)
        )
    );
}

#[tokio::test]
async fn a_large_notebook_is_paged() {
    let place = Place::new();
    let cells: Vec<Value> = (0..50)
        .map(|n| json!({ "cell_type": "code", "id": format!("c{n}"), "source": "y".repeat(3_000), "outputs": [] }))
        .collect();
    place.file("a.ipynb", json!({ "nbformat": 4, "nbformat_minor": 5, "cells": cells }).to_string());
    let (mut next, mut seen, mut pages) = (1, Vec::new(), 0);
    while next <= 50 {
        let text = place.ok(&Read, json!({ "file_path": "a.ipynb", "offset": next })).await;
        assert!(text.chars().count() < crate::wire::limits::TOOL_RESULT_CHARS);
        let ids = text.lines().filter_map(|line| line.strip_prefix("[cell ")?.split(' ').next());
        seen.extend(ids.map(str::to_owned));
        next = seen.len() + 1;
        pages += 1;
    }
    assert_eq!(seen, (0..50).map(|n| format!("c{n}")).collect::<Vec<_>>());
    assert!(pages < 10, "{pages}");
}

#[tokio::test]
async fn a_replaced_cell_is_all_that_changes() {
    let place = Place::new();
    place.file("a.ipynb", JUPYTER);
    let edit = json!({ "notebook_path": "a.ipynb", "cell_id": "plot", "new_source": "a = \"ü\"\nb\n" });
    let text = place.err(&NotebookEdit, edit.clone()).await;
    assert!(text.contains("you have not read it"), "{text}");
    read(&place, "a.ipynb").await;
    let text = place.ok(&NotebookEdit, edit.clone()).await;
    assert!(text.ends_with("a.ipynb: cell plot was replaced."), "{text}");
    let start = JUPYTER.find("   \"outputs\": [\n    {").expect("there");
    let end = JUPYTER.find("   \"vendor\"").expect("there");
    let wanted = format!(
        "{}   \"outputs\": [],\n   \"source\": [\n    \"a = \\\"ü\\\"\\n\",\n    \"b\\n\"\n   ],\n{}",
        &JUPYTER[..start],
        &JUPYTER[end..]
    )
    .replace("\"execution_count\": 7,\n   \"id\"", "\"execution_count\": null,\n   \"id\"");
    assert_eq!(content(&place, "a.ipynb"), wanted);
    // Its own change is known, another's is not.
    let more =
        json!({ "notebook_path": "a.ipynb", "cell_id": "intro", "new_source": "", "cell_type": "code" });
    place.ok(&NotebookEdit, more).await;
    let cell = "  {\n   \"cell_type\": \"code\",\n   \"id\": \"intro\",\n   \"metadata\": {},\n   \"source\": [],\n   \
                \"execution_count\": null,\n   \"outputs\": []\n  },";
    assert!(content(&place, "a.ipynb").contains(cell), "{}", content(&place, "a.ipynb"));
    place.file("a.ipynb", JUPYTER);
    let text = place.err(&NotebookEdit, edit).await;
    assert!(text.contains("has changed since you read it"), "{text}");
    assert_eq!(content(&place, "a.ipynb"), JUPYTER);
}

#[tokio::test]
async fn cells_are_inserted_and_deleted() {
    let place = Place::new();
    place.file("a.ipynb", JUPYTER);
    read(&place, "a.ipynb").await;
    let insert = |after: Option<&str>, kind: &str| {
        let mut input = json!({ "notebook_path": "a.ipynb", "new_source": "new", "cell_type": kind, "edit_mode": "insert" });
        input["cell_id"] = after.map_or(Value::Null, Value::from);
        input.as_object_mut().expect("object").retain(|_, value| !value.is_null());
        input
    };
    let id = |text: String| text.split("cell ").nth(1).expect("an id")[..8].to_owned();
    let first = id(place.ok(&NotebookEdit, insert(None, "markdown")).await);
    let last = id(place.ok(&NotebookEdit, insert(Some("plot"), "code")).await);
    let made = content(&place, "a.ipynb");
    let markdown = format!(
        "{{\n \"cells\": [\n  {{\n   \"cell_type\": \"markdown\",\n   \"id\": \"{first}\",\n   \"metadata\": {{}},\n   \
         \"source\": [\n    \"new\"\n   ]\n  }},\n  {{\n   \"cell_type\": \"markdown\",\n   \"id\": \"intro\""
    );
    assert!(made.starts_with(&markdown), "{made}");
    let code = format!(
        "  }},\n  {{\n   \"cell_type\": \"code\",\n   \"execution_count\": null,\n   \"id\": \"{last}\",\n   \"metadata\": \
         {{}},\n   \"outputs\": [],\n   \"source\": [\n    \"new\"\n   ]\n  }}\n ],\n"
    );
    assert!(made.contains(&code), "{made}");
    for id in [&first, &last] {
        let delete =
            json!({ "notebook_path": "a.ipynb", "cell_id": id, "new_source": "", "edit_mode": "delete" });
        place.ok(&NotebookEdit, delete).await;
    }
    assert_eq!(content(&place, "a.ipynb"), JUPYTER, "as if nothing had been");
    for id in ["cell-0", "plot"] {
        let delete =
            json!({ "notebook_path": "a.ipynb", "cell_id": id, "new_source": "", "edit_mode": "delete" });
        place.ok(&NotebookEdit, delete).await;
    }
    assert!(content(&place, "a.ipynb").starts_with("{\n \"cells\": [],\n \"metadata\""));
    place.ok(&NotebookEdit, insert(None, "raw")).await;
    let shown = read(&place, "a.ipynb").await;
    assert!(shown.contains("a notebook of 1 cell") && shown.ends_with("— raw]\nnew"), "{shown}");
}

#[tokio::test]
async fn old_and_compact_notebooks_stay_as_they_are() {
    let place = Place::new();
    let compact = "\u{feff}{\"nbformat\":4,\"nbformat_minor\":4,\"cells\":[{\"cell_type\":\"code\",\"source\":\"a\",\
                   \"metadata\":{}}],\"x\":12345678901234567890123}";
    place.file("a.ipynb", compact);
    read(&place, "a.ipynb").await;
    place
        .ok(&NotebookEdit, json!({ "notebook_path": "a.ipynb", "cell_id": "cell-0", "new_source": "b\nc" }))
        .await;
    let insert = json!({ "notebook_path": "a.ipynb", "cell_id": "0", "new_source": "# d", "cell_type": "markdown", "edit_mode": "insert" });
    let text = place.ok(&NotebookEdit, insert).await;
    assert!(text.ends_with("cell cell-1 was inserted."), "{text}");
    assert_eq!(
        content(&place, "a.ipynb"),
        "\u{feff}{\"nbformat\":4,\"nbformat_minor\":4,\"cells\":[{\"cell_type\":\"code\",\"source\":\"b\\nc\",\
         \"metadata\":{},\"execution_count\":null,\"outputs\":[]},{\"cell_type\":\"markdown\",\"metadata\":{},\
         \"source\":\"# d\"}],\"x\":12345678901234567890123}"
    );
}

#[tokio::test]
async fn cells_that_share_an_id_or_are_none_are_not_edited() {
    let place = Place::new();
    let twice = r#"{"cells": [{"cell_type": "raw", "id": "a", "source": "1", "metadata": {}},
 {"cell_type": "raw", "id": "b", "source": "2", "metadata": {}}, {"cell_type": "raw", "id": "a", "source": "3", "metadata": {}}],
 "nbformat": 4, "nbformat_minor": 5, "metadata": {}}"#;
    place.file("a.ipynb", twice);
    read(&place, "a.ipynb").await;
    for mode in ["replace", "insert", "delete"] {
        let edit = json!({ "notebook_path": "a.ipynb", "cell_id": "a", "new_source": "x", "cell_type": "raw",
                           "edit_mode": mode });
        let text = place.err(&NotebookEdit, edit).await;
        assert!(text.contains("2 cells with the id a") && text.contains("cell-0 or cell-2"), "{text}");
        assert_eq!(content(&place, "a.ipynb"), twice);
    }
    place
        .ok(&NotebookEdit, json!({ "notebook_path": "a.ipynb", "cell_id": "cell-2", "new_source": "x" }))
        .await;
    assert_eq!(content(&place, "a.ipynb").matches(r#""source": "x""#).count(), 1);
    assert!(content(&place, "a.ipynb").contains(r#""source": "1""#));

    for (cell, why) in [
        ("7", "cell 1 (from 0) cannot be read: "),
        (r#"{"id": "b", "source": "2"}"#, "cell 1 (from 0) cannot be read: missing field `cell_type`"),
        (r#"{"cell_type": "raw", "id": 7, "source": "2"}"#, "cell 1 (from 0) cannot be read: "),
        (r#"{"cell_type": "raw", "id": "b", "source": {}}"#, "cell 1 (from 0) cannot be read: "),
    ] {
        let text = format!(
            r#"{{"cells": [{{"cell_type": "raw", "id": "a", "source": "1"}}, {cell}], "nbformat": 4, "metadata": {{}}}}"#
        );
        place.file("b.ipynb", &text);
        read(&place, "b.ipynb").await;
        let edit = json!({ "notebook_path": "b.ipynb", "cell_id": "a", "new_source": "x" });
        let said = place.err(&NotebookEdit, edit).await;
        assert!(said.contains(why), "{said}");
        assert_eq!(content(&place, "b.ipynb"), text);
    }
}

#[tokio::test]
async fn an_edit_that_cannot_be_made_says_why() {
    let place = Place::new();
    place.file("a.ipynb", JUPYTER);
    read(&place, "a.ipynb").await;
    place.file("b.ipynb", "[]");
    read(&place, "b.ipynb").await;
    for (input, why) in [
        (json!({ "notebook_path": "a.ipynb", "new_source": "x" }), "`cell_id` is missing"),
        (
            json!({ "notebook_path": "a.ipynb", "cell_id": "no", "new_source": "x" }),
            "its cells are: intro, plot.",
        ),
        (
            json!({ "notebook_path": "a.ipynb", "new_source": "x", "edit_mode": "insert" }),
            "`cell_type` is missing",
        ),
        (
            json!({ "notebook_path": "b.ipynb", "cell_id": "0", "new_source": "x" }),
            "is no notebook that can be edited",
        ),
        (json!({ "notebook_path": "c.ipynb", "cell_id": "0", "new_source": "x" }), "There is no notebook"),
    ] {
        let text = place.err(&NotebookEdit, input).await;
        assert!(text.contains(why), "{text}");
    }
    assert_eq!(
        (content(&place, "a.ipynb"), content(&place, "b.ipynb")),
        (JUPYTER.to_owned(), "[]".to_owned())
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever is written into a cell is read back from it, and the other cells keep their bytes.
    #[test]
    fn what_is_written_is_read_back(source in any::<String>(), which in 0..2usize, compact in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(async {
            let place = Place::new();
            let text = if compact {
                serde_json::from_str::<Value>(JUPYTER).expect("JSON").to_string()
            } else {
                JUPYTER.to_owned()
            };
            place.file("a.ipynb", &text);
            read_any(&place).await;
            let id = ["intro", "plot"][which];
            let edit = json!({ "notebook_path": "a.ipynb", "cell_id": id, "new_source": source });
            place.ok(&NotebookEdit, edit).await;
            let after: Value = serde_json::from_str(&content(&place, "a.ipynb")).expect("JSON");
            let before: Value = serde_json::from_str(&text).expect("JSON");
            let lines = after["cells"][which]["source"].as_array().expect("lines");
            let joined: String = lines.iter().filter_map(Value::as_str).collect();
            assert_eq!(joined, source);
            assert_eq!(after["cells"][1 - which], before["cells"][1 - which]);
            assert_eq!(after["metadata"], before["metadata"]);
        });
    }
}

async fn read_any(place: &Place) {
    let output = place.call(&Read, json!({ "file_path": "a.ipynb" })).await;
    assert!(!output.is_error, "{output:?}");
}
