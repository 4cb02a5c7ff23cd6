//! One output item of the Responses API as blocks.

use super::super::ids::CallIds;
use super::super::lenient;
use super::super::names::ToolNames;
use crate::model::calls::{self, Malformed};
use crate::model::foreign::{ANNOTATIONS, PHASE, WEB_SEARCH_CALL};
use crate::wire::block::{Block, NotABlock};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The members that matter.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Item {
    #[serde(rename = "type", deserialize_with = "lenient")]
    pub(super) kind: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) name: Option<String>,
    #[serde(deserialize_with = "lenient")]
    call_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    arguments: Option<String>,
    #[serde(deserialize_with = "lenient")]
    content: Option<Vec<Content>>,
    phase: Option<Box<RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Content {
    #[serde(deserialize_with = "lenient")]
    text: Option<String>,
    #[serde(deserialize_with = "lenient")]
    refusal: Option<String>,
    #[serde(deserialize_with = "lenient")]
    annotations: Option<Vec<Box<RawValue>>>,
}

/// What all items of an answer come to.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) blocks: Vec<Block>,
    pub(super) malformed: Vec<Malformed>,
    pub(super) refused: bool,
    pub(super) calls: bool,
    /// Searches of the web that the provider made.
    pub(super) searches: u64,
}

impl Collected {
    /// Adds a finished item.
    pub(super) fn add(
        &mut self,
        raw: &RawValue,
        ids: &mut CallIds<'_>,
        names: &ToolNames,
    ) -> Result<(), NotABlock> {
        let item: Item = serde_json::from_str(raw.get()).unwrap_or_default();
        match item.kind.as_deref() {
            Some("message") => self.message(&item),
            Some("function_call") => {
                let id = ids.unique(item.call_id.as_deref().unwrap_or_default());
                let name = names.meant(item.name.as_deref().unwrap_or_default());
                let (block, bad) = calls::call(&id, &name, item.arguments.unwrap_or_default());
                self.blocks.push(block);
                self.malformed.extend(bad);
                self.calls = true;
            }
            Some(WEB_SEARCH_CALL) => {
                self.searches += 1;
                self.blocks.push(Block::from_raw(raw.to_owned())?);
            }
            // Reasoning, and whatever else the provider does: as it came.
            _ => self.blocks.push(Block::from_raw(raw.to_owned())?),
        }
        Ok(())
    }

    fn message(&mut self, item: &Item) {
        let mut texts = Vec::new();
        for content in item.content.iter().flatten() {
            self.refused |= content.refusal.as_ref().is_some_and(|text| !text.is_empty());
            texts.extend(content.text.as_ref().or(content.refusal.as_ref()));
        }
        texts.retain(|text| !text.trim().is_empty());
        if let (Some(phase), false) = (&item.phase, texts.is_empty())
            && phase.get() != "null"
        {
            let raw = format!(r#"{{"type":"{PHASE}","phase":{}}}"#, phase.get());
            self.blocks.extend(Block::parse(&raw).ok());
        }
        let annotations =
            item.content.iter().flatten().flat_map(|content| content.annotations.iter().flatten());
        let annotations: Vec<&str> = annotations.map(|annotation| annotation.get()).collect();
        if !annotations.is_empty() {
            let raw = format!(r#"{{"type":"{ANNOTATIONS}","annotations":[{}]}}"#, annotations.join(","));
            self.blocks.extend(Block::parse(&raw).ok());
        }
        self.blocks.extend(texts.into_iter().map(|text| Block::text(text)));
    }
}
