//! What the user's blocks hold, as far as OpenAI's wires have a place for it.
//!
//! Pure functions of a block: equal blocks give equal parts, so that what is made of them never changes.

use crate::model::foreign::type_of;
use crate::wire::block::{Block, BlockKind};
use serde::Deserialize;
use serde_json::value::RawValue;

/// What a result says that is nothing but images.
const IMAGES_ONLY: &str = "(an image)";

/// A piece of a user's message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Text.
    Text(String),
    /// An image as an address, mostly a `data:` one.
    Image(String),
}

/// What became of a tool call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// The call's id.
    pub(super) id: String,
    /// What the tool said; begins with `Error: ` when it failed, as these wires have no flag for that.
    pub(super) text: String,
    /// The images in it.
    pub(super) images: Vec<String>,
}

/// A JSON string.
pub(super) fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A block that is no result. What has no place is named, so that the model knows of it.
pub(super) fn part(block: &Block) -> Part {
    if let Some(text) = block.as_text() {
        return Part::Text(text);
    }
    let kind = type_of(block);
    match (kind.as_str(), image(block)) {
        ("image", Some(url)) => Part::Image(url),
        _ => Part::Text(format!("[{kind}: cannot be shown to this model]")),
    }
}

fn image(block: &Block) -> Option<String> {
    #[derive(Deserialize)]
    struct Image {
        source: Source,
    }
    #[derive(Deserialize)]
    struct Source {
        #[serde(default)]
        media_type: String,
        data: Option<String>,
        url: Option<String>,
    }
    let source = serde_json::from_str::<Image>(block.raw()).ok()?.source;
    match (source.data, source.url) {
        (Some(data), _) => Some(format!("data:{};base64,{data}", source.media_type)),
        (None, url) => url,
    }
}

/// A block that is a result.
pub(super) fn outcome(block: &Block) -> Option<Outcome> {
    #[derive(Deserialize)]
    struct Answer {
        tool_use_id: String,
        content: Option<Box<RawValue>>,
        #[serde(default)]
        is_error: bool,
    }
    if block.kind() != BlockKind::ToolResult {
        return None;
    }
    let answer: Answer = serde_json::from_str(block.raw()).ok()?;
    let mut texts = Vec::new();
    let mut images = Vec::new();
    let content = answer.content.as_deref().map_or("\"\"", RawValue::get);
    if let Ok(text) = serde_json::from_str::<String>(content) {
        texts.push(text);
    } else {
        for part in serde_json::from_str::<Vec<Block>>(content).unwrap_or_default().iter().map(part) {
            match part {
                Part::Text(text) => texts.push(text),
                Part::Image(url) => images.push(url),
            }
        }
    }
    let mut text = texts.join("\n");
    if text.is_empty() && !images.is_empty() {
        IMAGES_ONLY.clone_into(&mut text);
    }
    if answer.is_error {
        text.insert_str(0, "Error: ");
    }
    Some(Outcome { id: answer.tool_use_id, text, images })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(raw: &str) -> Block {
        Block::parse(raw).expect("a block")
    }

    #[test]
    fn results_say_what_failed_and_give_their_images_apart() {
        let image =
            parse(r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA+/=="}}"#);
        let url = "data:image/png;base64,AA+/==".to_owned();
        let read = |block: &Block| outcome(block).expect("a result");
        let want = |text: &str, images: &[String]| Outcome {
            id: "t".to_owned(),
            text: text.to_owned(),
            images: images.to_vec(),
        };
        assert_eq!(read(&Block::tool_result("t", "no \"x\"", true)), want("Error: no \"x\"", &[]));
        let mixed = [Block::text("a"), image.clone(), Block::text("b")];
        assert_eq!(
            read(&Block::tool_result_blocks("t", &mixed, false)),
            want("a\nb", std::slice::from_ref(&url))
        );
        assert_eq!(
            read(&Block::tool_result_blocks("t", &[image], false)),
            want("(an image)", std::slice::from_ref(&url))
        );
        assert_eq!(read(&parse(r#"{"type":"tool_result","tool_use_id":"t"}"#)), want("", &[]));
        assert_eq!(outcome(&Block::text("x")), None);
    }

    #[test]
    fn what_has_no_place_is_named() {
        let remote = parse(r#"{"type":"image","source":{"type":"url","url":"https://x.test/a.png"}}"#);
        assert_eq!(part(&remote), Part::Image("https://x.test/a.png".to_owned()));
        let document = parse(r#"{"type":"document","source":{"type":"text","data":"x"}}"#);
        assert_eq!(part(&document), Part::Text("[document: cannot be shown to this model]".to_owned()));
    }
}
