//! What a request is, byte for byte.

use crate::model::anthropic::request::{segments, system, tools};
use crate::model::provider::{Anchor, ModelProvider, ModelRequest, PromptPrefix, ToolDeclaration};
use crate::model::testing::{prefix, request, user};
use crate::model::tuning::Tuning;
use crate::wire::block::{Block, ChatMessage};
use crate::wire::settings::Effort;
use std::sync::Arc;

const MARKER: &str = r#","cache_control":{"type":"ephemeral"}"#;

fn text(request: &ModelRequest) -> String {
    String::from_utf8(segments(request).joined()).expect("text")
}

fn call(id: &str, input: &str) -> ChatMessage {
    let raw = format!(r#"{{"type":"tool_use","id":"{id}","name":"Read","input":{input}}}"#);
    ChatMessage::assistant(vec![Block::parse(&raw).expect("block")])
}

fn result(id: &str) -> ChatMessage {
    ChatMessage::user(vec![Block::tool_result(id, "done", false)])
}

#[test]
fn fields_stand_in_a_fixed_order() {
    let mut request = request("a", 1, &[user("hi")]);
    assert_eq!(
        text(&request),
        concat!(
            r#"{"model":"claude-test","max_tokens":1000,"stream":true,"tools":[{"name":"Read","#,
            r#""description":"reads","input_schema":{"type":"object"}}],"system":[{"type":"text","#,
            r#""text":"be brief","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","#,
            r#""content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}]}"#
        )
    );
    request.prefix = Arc::new(PromptPrefix {
        model: "a\"b".to_owned(),
        tools: "[]".into(),
        system: "".into(),
        max_output_tokens: 5,
        thinking: Some(r#"{"type":"adaptive"}"#.into()),
        effort: Some(r#"{"effort":"low"}"#.into()),
    });
    request.anchors.clear();
    assert_eq!(
        text(&request),
        concat!(
            r#"{"model":"a\"b","max_tokens":5,"thinking":{"type":"adaptive"},"output_config":{"effort":"low"},"stream":true,"#,
            r#""messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}"#
        )
    );
}

#[test]
fn the_users_wishes_stand_in_the_prefix_as_far_as_the_model_takes_them() {
    let client = crate::model::anthropic::Anthropic::new(
        crate::model::http::HttpClient::default(),
        "http://127.0.0.1:1",
        crate::model::anthropic::Credentials::ApiKey(
            crate::model::anthropic::Secret::new("k").expect("a key"),
        ),
        std::time::Duration::from_secs(1),
    );
    let look = |model: &str, max_output_tokens| {
        let tuning = Tuning { max_output_tokens, effort: Some(Effort::Medium) };
        let prefix = client.freeze(model, "", &[], &tuning);
        (prefix.max_output_tokens, prefix.effort.is_some())
    };
    assert_eq!(look("claude-sonnet-5-5", Some(100_000)), (100_000, true));
    assert_eq!(look("claude-sonnet-5-5", Some(999_999)), (128_000, true));
    assert_eq!(look("claude-opus-4-5", None), (64_000, true));
    assert_eq!(look("claude-haiku-4-5", None), (64_000, false));
    assert_eq!(look("nobody-knows", Some(500)), (500, true));
}

#[test]
fn the_prefix_is_rendered_as_the_wire_wants_it() {
    let tool = |description: &str| ToolDeclaration {
        name: "N".to_owned(),
        description: description.to_owned(),
        schema: r#"{ "type":"object", "x": 1e2 }"#.into(),
    };
    assert_eq!(tools(&[]), "[]");
    assert_eq!(
        tools(&[tool("d\n"), tool(" ")]),
        concat!(
            r#"[{"name":"N","description":"d\n","input_schema":{ "type":"object", "x": 1e2 }},"#,
            r#"{"name":"N","input_schema":{ "type":"object", "x": 1e2 }}]"#
        )
    );
    assert_eq!(system(" \n"), "");
    assert_eq!(system("é"), r#"{"type":"text","text":"é"}"#);
}

/// Everything a model may write in an input, which must come back to it unchanged.
#[test]
fn odd_json_is_sent_as_it_was_written() {
    for input in [
        r#"{"n":1e2,"m":0.10,"big":123456789012345678901234567890}"#,
        r#"{"a":1,"a":2}"#,
        r#"{"s":"\u00e9\/\ud83d\ude00"}"#,
        "{ \"spaced\" :\t[ 1 , 2 ] }",
        "{\n  \"lines\": \"x\"\n}",
        "{}",
    ] {
        let request = request("a", 2, &[user("go"), call("t1", input), result("t1")]);
        let body = text(&request);
        let want = format!(r#"{{"type":"tool_use","id":"t1","name":"Read","input":{input}}}"#);
        assert!(body.contains(&want), "{body}");
    }
}

#[test]
fn each_round_begins_with_the_bytes_of_the_round_before() {
    let mut messages = vec![user("begin")];
    let mut before = String::new();
    for round in 1..12 {
        let mut now = request("a", round, &messages);
        now.anchors = [messages.len().saturating_sub(3), messages.len() - 1].map(Anchor::end_of).to_vec();
        let plain = text(&now).replace(MARKER, "");
        let shared = plain.len() - "]}".len();
        assert!(plain.starts_with(&before), "round {round}");
        before = plain[..shared].to_owned();
        let id = format!("t{round}");
        messages.push(call(&id, r#"{"file_path":"\u00e9"}"#));
        messages.push(result(&id));
    }
}

#[test]
fn markers_move_and_change_nothing_else() {
    let thinking = Block::thinking("hm", "sig");
    let messages = [
        user("one"),
        ChatMessage::assistant(vec![Block::text("two"), thinking.clone()]),
        ChatMessage::user(vec![Block::text("a"), Block::text("b")]),
    ];
    let marked = |anchors: &[Anchor]| {
        let mut request = request("a", 1, &messages);
        request.anchors = anchors.to_vec();
        let body = text(&request);
        let (head, conversation) = body.split_once(r#""messages":"#).expect("messages");
        assert_eq!(head.matches(MARKER).count(), 1, "the system prompt's own");
        (conversation.replace(MARKER, "^"), body.replace(MARKER, ""))
    };
    let (none, plain) = marked(&[]);
    assert!(!none.contains('^'));
    for (anchors, want) in [
        (vec![Anchor::end_of(2)], r#"{"type":"text","text":"b"^}"#),
        (vec![Anchor::after(2, 0)], r#"{"type":"text","text":"a"^}"#),
        (vec![Anchor::after(2, 9)], r#"{"type":"text","text":"b"^}"#),
        // Never on thinking: the block before it.
        (vec![Anchor::end_of(1)], r#"{"type":"text","text":"two"^},{"type":"thinking""#),
        // The same place twice is one marker.
        (vec![Anchor::end_of(0), Anchor::after(0, 0), Anchor::end_of(7)], r#""one"^}"#),
    ] {
        let (conversation, without) = marked(&anchors);
        assert!(conversation.contains(want), "{anchors:?}: {conversation}");
        assert_eq!(conversation.matches('^').count(), 1, "{anchors:?}");
        assert_eq!(without, plain);
    }
    // At most three, and the last ones count.
    let many: Vec<Anchor> = [0, 1, 2].map(Anchor::end_of).into_iter().chain([Anchor::after(2, 0)]).collect();
    let (conversation, _) = marked(&many);
    assert_eq!(conversation.matches('^').count(), 3);
    assert!(!conversation.contains(r#""one"^"#));
}

#[test]
fn a_message_of_thinking_alone_and_a_block_with_its_own_marker_get_none() {
    let own = r#"{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}}"#;
    let messages = [
        user("q"),
        ChatMessage::assistant(vec![Block::thinking("hm", "sig")]),
        ChatMessage::user(vec![Block::parse(own).expect("block")]),
    ];
    let mut request = request("a", 1, &messages);
    request.anchors = vec![Anchor::end_of(1), Anchor::end_of(2)];
    let body = text(&request);
    assert_eq!(body.matches("cache_control").count(), 2, "{body}");
    // Text that only speaks of markers is marked like any other.
    let messages = [user("what is cache_control?")];
    let body = text(&crate::model::testing::request("a", 1, &messages));
    assert!(body.contains(&format!(r#"?"{MARKER}}}"#)), "{body}");
}

/// A conversation that began with another provider goes on here.
#[test]
fn blocks_of_other_wires_are_left_out() {
    let parse = |raw: &str| Block::parse(raw).expect("block");
    let reasoning = parse(r#"{"type":"reasoning","id":"rs_1","encrypted_content":"AAA"}"#);
    let phase = parse(r#"{"type":"message_phase","phase":"commentary"}"#);
    let unsigned = parse(r#"{"type":"thinking","thinking":"signature"}"#);
    let signed = Block::thinking("hm", "");
    let messages = [
        user("a"),
        ChatMessage::assistant(vec![unsigned.clone(), signed, reasoning.clone(), Block::text("b"), phase]),
        user("c"),
        ChatMessage::assistant(vec![reasoning, unsigned]),
        user("d"),
    ];
    let mut request = request("a", 1, &messages);
    request.anchors = vec![Anchor::end_of(1), Anchor::end_of(3)];
    let body = text(&request);
    let (_, conversation) = body.split_once(r#""messages":"#).expect("messages");
    assert_eq!(
        conversation.replace(MARKER, "^"),
        concat!(
            r#"[{"role":"user","content":[{"type":"text","text":"a"}]},"#,
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""},"#,
            r#"{"type":"text","text":"b"^}]},"#,
            r#"{"role":"user","content":[{"type":"text","text":"c"}]},"#,
            r#"{"role":"user","content":[{"type":"text","text":"d"}]}]}"#
        )
    );
}

/// Hundred forks of a large history must not be hundred copies of it.
#[test]
fn blocks_and_prefix_are_shared_by_pointer() {
    let messages = [user("one"), call("t1", "{}"), result("t1")];
    let request = request("a", 1, &messages);
    let segments = segments(&request);
    let tools = prefix().tools.len();
    let held: Vec<*const u8> = segments.list().iter().map(|s| s.as_ptr()).collect();
    for message in request.messages.iter() {
        for block in message.blocks.iter() {
            assert!(held.contains(&block.raw().as_ptr()), "{}", block.raw());
        }
    }
    assert!(held.contains(&request.prefix.tools.as_ptr()));
    assert!(held.contains(&request.prefix.system.as_ptr()));
    let own: usize = segments.list().iter().map(|s| s.len()).sum();
    assert_eq!(own, segments.joined().len());
    assert!(own > tools);
}
