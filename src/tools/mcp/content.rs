//! Results of a server's tools as results of ours: text, images, and words about what is neither.

use crate::tools::image;
use crate::tools::tool::{ToolContent, ToolOutput};
use crate::wire::block::{Block, BlockKind};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

/// What stands where a tool returned nothing.
const NOTHING: &str = "(the tool returned nothing)";
/// What stands where a later version of the protocol has something.
const UNKNOWN: &str = "(something of a kind that is not known here)";
/// Characters of text beside images; a result of text alone is cut by the pipeline, which keeps the whole.
const TEXT_BESIDE_IMAGES: usize = 30_000;

/// A result for the model.
pub(super) fn output(result: CallToolResult) -> ToolOutput {
    let is_error = result.is_error == Some(true);
    let mut blocks: Vec<Block> = Vec::new();
    let mut texts: Vec<String> = Vec::new();
    let structured = result.structured_content.filter(|_| result.content.is_empty());
    for content in result.content {
        match piece(content) {
            Piece::Text(text) if text.is_empty() => {}
            Piece::Text(text) => texts.push(text),
            Piece::Image(image) => {
                flush(&mut texts, &mut blocks);
                blocks.push(image);
            }
        }
    }
    if let Some(value) = structured {
        texts.push(serde_json::to_string_pretty(&value).unwrap_or_else(|_| value.to_string()));
    }
    if blocks.is_empty() {
        let text = if texts.is_empty() { NOTHING.to_owned() } else { texts.join("\n") };
        return ToolOutput { content: ToolContent::Text(text), is_error };
    }
    flush(&mut texts, &mut blocks);
    // The Messages API takes text alone in results that are errors.
    let blocks = if is_error { blocks.into_iter().map(worded).collect() } else { blocks };
    ToolOutput { content: ToolContent::Blocks(blocks), is_error }
}

fn worded(block: Block) -> Block {
    if block.kind() == BlockKind::Text { block } else { Block::text("(an image)") }
}

fn flush(texts: &mut Vec<String>, blocks: &mut Vec<Block>) {
    if !texts.is_empty() {
        blocks.push(Block::text(&super::shortened(&texts.join("\n"), TEXT_BESIDE_IMAGES)));
        texts.clear();
    }
}

enum Piece {
    Text(String),
    Image(Block),
}

fn piece(content: ContentBlock) -> Piece {
    match content {
        ContentBlock::Text(text) => Piece::Text(text.text),
        ContentBlock::Image(picture) => picture_of(&picture.data, &picture.mime_type, "an image"),
        ContentBlock::Audio(sound) => Piece::Text(left_out("sound", &sound.mime_type, sound.data.len())),
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                Piece::Text(format!("[{uri}]\n{text}"))
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let mime_type = mime_type.unwrap_or_else(|| "unknown type".to_owned());
                picture_of(&blob, &mime_type, &uri)
            }
            _ => Piece::Text(UNKNOWN.to_owned()),
        },
        ContentBlock::ResourceLink(link) => {
            let title = link.title.unwrap_or(link.name);
            let about = link.description.map(|text| format!(": {text}")).unwrap_or_default();
            let kind = link.mime_type.map(|kind| format!(", {kind}")).unwrap_or_default();
            Piece::Text(format!("[{title}]({}{kind}){about}", link.uri))
        }
        _ => Piece::Text(UNKNOWN.to_owned()),
    }
}

/// An image if it is one that models take, whatever its server calls it.
fn picture_of(data: &str, mime_type: &str, what: &str) -> Piece {
    let Ok(bytes) = STANDARD.decode(data.trim()) else {
        return Piece::Text(format!("({what} that cannot be read: it is not base64)"));
    };
    image::block(&bytes).map_or_else(|_| Piece::Text(left_out(what, mime_type, data.len())), Piece::Image)
}

fn left_out(what: &str, mime_type: &str, encoded: usize) -> String {
    format!("({what}, {mime_type}, {} bytes, cannot be shown here)", encoded / 4 * 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::image::tests::PNG;
    use serde_json::json;

    fn made(result: serde_json::Value) -> (Vec<String>, bool) {
        let output = output(serde_json::from_value(result).expect("a result"));
        let parts = match output.content {
            ToolContent::Text(text) => vec![text],
            ToolContent::Blocks(blocks) => blocks.iter().map(|b| b.raw().to_owned()).collect(),
        };
        (parts, output.is_error)
    }

    #[test]
    fn text_resources_and_what_cannot_be_shown_are_words() {
        let (parts, is_error) = made(json!({"isError": true, "content": [
            {"type": "text", "text": "one"}, {"type": "text", "text": ""},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "two"}},
            {"type": "resource_link", "uri": "file:///b", "name": "b", "description": "the b"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "image", "data": "????", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///c", "blob": "AAAA", "mimeType": "application/pdf"}}]}));
        let wanted = "one\n[file:///a]\ntwo\n[b](file:///b): the b\n(sound, audio/wav, 3 bytes, cannot be shown here)\n\
                      (an image that cannot be read: it is not base64)\n\
                      (file:///c, application/pdf, 3 bytes, cannot be shown here)";
        assert_eq!((parts, is_error), (vec![wanted.to_owned()], true));
    }

    #[test]
    fn structured_content_counts_where_there_is_no_other() {
        let value = json!({"n": 1});
        let text = json!([{"type": "text", "text": "{\"n\":1}"}]);
        assert_eq!(made(json!({"content": [], "structuredContent": value})).0, ["{\n  \"n\": 1\n}"]);
        assert_eq!(made(json!({"content": text, "structuredContent": value})).0, ["{\"n\":1}"]);
        assert_eq!(made(json!({"content": []})).0, [NOTHING]);
    }

    #[test]
    fn images_are_known_by_their_bytes_and_stay_in_their_place() {
        let data = PNG;
        let (parts, _) = made(json!({"content": [
            {"type": "text", "text": "before"},
            {"type": "image", "data": data, "mimeType": "image/webp"},
            {"type": "text", "text": "after"}]}));
        let image = format!(
            r#"{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{data}"}}}}"#
        );
        assert_eq!(
            parts,
            [r#"{"type":"text","text":"before"}"#, &image, r#"{"type":"text","text":"after"}"#]
        );
    }
}
