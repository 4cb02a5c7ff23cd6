//! A Jupyter notebook (nbformat 4) as text with known places: which bytes are which cell.
//!
//! Owns the reading, and how cells are named: by their id, or `cell-N` (N from 0) where the format had no
//! ids yet. Never encodes again what was there: an edit replaces the bytes of one cell.
//! The format: <https://nbformat.readthedocs.io/en/latest/format_description.html>.

use crate::wire::open::RawMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::ops::Range;

/// The version of the format that is understood.
const MAJOR: u64 = 4;
/// The minor version from which cells have ids.
const WITH_IDS: u64 = 5;

/// A notebook.
pub(super) struct Notebook<'a> {
    /// The whole file, without a byte order mark.
    pub text: &'a str,
    /// The list of cells in `text`, brackets included.
    pub list: Range<usize>,
    /// In order.
    pub cells: Vec<Cell>,
    /// Whether cells of this notebook have ids.
    pub has_ids: bool,
    /// What its code is written in; empty when it does not say.
    pub language: String,
}

/// One cell.
pub(super) struct Cell {
    /// Its bytes in the notebook's text.
    pub span: Range<usize>,
    /// Its members in order, raw.
    pub members: RawMap,
    /// Its own id; `None` in older notebooks.
    pub id: Option<String>,
    /// `code`, `markdown` or `raw`.
    pub kind: String,
    /// What is written in it.
    pub source: String,
}

#[derive(Deserialize)]
struct File<'a> {
    nbformat: u64,
    #[serde(default)]
    nbformat_minor: u64,
    #[serde(borrow)]
    cells: &'a RawValue,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    language_info: Named,
    kernelspec: Kernel,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Kernel {
    language: String,
}

#[derive(Deserialize)]
struct Known {
    id: Option<String>,
    cell_type: String,
    #[serde(default)]
    source: Lines,
}

/// A text that is written as one string or as a list of lines.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Lines {
    /// One string.
    One(String),
    /// Lines with their ends.
    Many(Vec<String>),
}

impl Default for Lines {
    fn default() -> Self {
        Self::One(String::new())
    }
}

impl Lines {
    /// The text.
    pub(super) fn text(self) -> String {
        match self {
            Self::One(text) => text,
            Self::Many(lines) => lines.concat(),
        }
    }
}

/// Where a part of a text lies in it.
fn place(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr().saturating_sub(text.as_ptr().addr());
    start..start + part.len()
}

impl<'a> Notebook<'a> {
    /// Reads a notebook. The error says why the text is none, as the end of a sentence.
    pub(super) fn read(text: &'a str) -> Result<Self, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let file: File<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if file.nbformat != MAJOR {
            return Err(format!("its format is version {}, not {MAJOR}", file.nbformat));
        }
        let raw: Vec<&RawValue> =
            serde_json::from_str(file.cells.get()).map_err(|error| error.to_string())?;
        let read = |(number, cell): (usize, &RawValue)| Cell::read(text, number, cell);
        let cells = raw.into_iter().enumerate().map(read).collect::<Result<_, _>>()?;
        let Metadata { language_info, kernelspec } = file.metadata;
        let named = [language_info.name, kernelspec.language];
        Ok(Self {
            text,
            list: place(text, file.cells.get()),
            cells,
            has_ids: file.nbformat_minor >= WITH_IDS,
            language: named.into_iter().find(|name| !name.is_empty()).unwrap_or_default(),
        })
    }

    /// What the cell with this number is called.
    pub(super) fn name(&self, index: usize) -> String {
        self.cells.get(index).and_then(|cell| cell.id.clone()).unwrap_or_else(|| format!("cell-{index}"))
    }

    /// The numbers of all cells with this id; a notebook that was put together by hand may hold one twice.
    pub(super) fn with_id(&self, id: &str) -> Vec<usize> {
        let has = |index: &usize| self.cells[*index].id.as_deref() == Some(id);
        (0..self.cells.len()).filter(has).collect()
    }

    /// The number of the cell that is called so.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let by_id = self.cells.iter().position(|cell| cell.id.as_deref() == Some(name));
        let number = || name.strip_prefix("cell-").unwrap_or(name).parse::<usize>().ok();
        by_id.or_else(|| number().filter(|index| *index < self.cells.len()))
    }
}

impl Cell {
    fn read(text: &str, number: usize, raw: &RawValue) -> Result<Self, String> {
        let wrong = |error: serde_json::Error| format!("cell {number} (from 0) cannot be read: {error}");
        let known: Known = serde_json::from_str(raw.get()).map_err(wrong)?;
        let members: RawMap = serde_json::from_str(raw.get()).map_err(wrong)?;
        Ok(Self {
            span: place(text, raw.get()),
            members,
            id: known.id,
            kind: known.cell_type,
            source: known.source.text(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_found_by_id_and_by_number() {
        let text = "\u{feff}{\"cells\": [{\"cell_type\":\"code\",\"id\":\"1\",\"source\":[\"a\\n\",\"b\"]},\n \
                    {\"cell_type\":\"raw\"}], \"nbformat\": 4, \"metadata\": {\"kernelspec\": {\"language\": \"R\"}}}";
        let notebook = Notebook::read(text).expect("a notebook");
        assert_eq!((notebook.cells.len(), notebook.has_ids, notebook.language.as_str()), (2, false, "R"));
        assert_eq!(notebook.cells[0].source, "a\nb");
        assert_eq!(&notebook.text[notebook.cells[1].span.clone()], "{\"cell_type\":\"raw\"}");
        assert!(notebook.text[notebook.list.clone()].starts_with("[{\"cell"));
        assert!(notebook.text[notebook.list.clone()].ends_with("\"raw\"}]"));
        assert_eq!((notebook.name(0), notebook.name(1)), ("1".to_owned(), "cell-1".to_owned()));
        // An id wins over a number.
        let found = ["1", "cell-1", "0", "cell-0", "2", "cell-x"].map(|name| notebook.find(name));
        assert_eq!(found, [Some(0), Some(1), Some(0), Some(0), None, None]);
        let old = r#"{"nbformat": 3, "cells": []}"#;
        assert_eq!(Notebook::read(old).err().as_deref(), Some("its format is version 3, not 4"));
    }
}
