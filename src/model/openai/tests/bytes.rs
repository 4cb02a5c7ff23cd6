//! What a request is, byte for byte.

use super::{ODD, asking, at, call, text, tool};
use crate::model::body::Segments;
use crate::model::foreign::unsigned_thinking;
use crate::model::openai::{OpenAi, Sending, chat, is_vendor, responses};
use crate::model::prices::returns_reasoning;
use crate::model::provider::{ModelProvider, ModelRequest};
use crate::model::testing::user;
use crate::model::tuning::Tuning;
use crate::wire::block::{Block, ChatMessage};
use crate::wire::settings::{Effort, OpenAiWire};
use serde_json::Value;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;

fn offline(wire: OpenAiWire) -> OpenAi {
    at("http://127.0.0.1:1/v1", wire, Duration::from_secs(1))
}

fn segments(client: &OpenAi, request: &ModelRequest) -> Segments {
    let mut sending = Sending {
        reasoning: returns_reasoning(&request.prefix.model),
        cache_key: None,
        encoded: &client.encoded,
    };
    match client.wire {
        OpenAiWire::Chat => chat::segments(request, &sending),
        OpenAiWire::Responses => {
            sending.reasoning = true;
            responses::segments(request, &sending)
        }
    }
}

fn body(client: &OpenAi, model: &str, messages: &[ChatMessage]) -> String {
    String::from_utf8(segments(client, &asking(client, model, messages)).joined()).expect("text")
}

/// The messages after the system's, as they stand in a chat completions body.
fn chat_messages(model: &str, messages: &[ChatMessage]) -> String {
    let body = body(&offline(OpenAiWire::Chat), model, messages);
    let (_, after) = body.split_once(r#"{"role":"system","content":"be brief"}"#).expect("system");
    after.strip_suffix("]}").expect("the end").to_owned()
}

fn items(messages: &[ChatMessage]) -> String {
    let body = body(&offline(OpenAiWire::Responses), "m", messages);
    let (_, after) = body.split_once(r#""input":["#).expect("input");
    after.strip_suffix("]}").expect("the end").to_owned()
}

#[test]
fn fields_stand_in_a_fixed_order() {
    let messages = [user("hi")];
    assert_eq!(
        body(&offline(OpenAiWire::Chat), "gpt-6.2-sol", &messages),
        concat!(
            r#"{"model":"gpt-6.2-sol","stream":true,"stream_options":{"include_usage":true},"#,
            r#""max_completion_tokens":64000,"tools":[{"type":"function","function":{"name":"Read","#,
            r#""description":"does Read","parameters":{"type":"object"}}},{"type":"function","function":{"#,
            r#""name":"mcp__some_server__a_tool_ee456cc0","description":"does mcp__some.server__a tool","#,
            r#""parameters":{"type":"object"}}}],"messages":[{"role":"system","content":"be brief"},"#,
            r#"{"role":"user","content":"hi"}]}"#
        )
    );
    assert_eq!(
        body(&offline(OpenAiWire::Responses), "own-model", &messages),
        concat!(
            r#"{"model":"own-model","stream":true,"store":false,"include":["reasoning.encrypted_content"],"#,
            r#""instructions":"be brief","tools":[{"type":"function","name":"Read","description":"does Read","#,
            r#""parameters":{"type":"object"},"strict":false},{"type":"function","#,
            r#""name":"mcp__some_server__a_tool_ee456cc0","description":"does mcp__some.server__a tool","#,
            r#""parameters":{"type":"object"},"strict":false}],"input":[{"type":"message","role":"user","#,
            r#""content":[{"type":"input_text","text":"hi"}]}]}"#
        )
    );
    for wire in [OpenAiWire::Chat, OpenAiWire::Responses] {
        let client = offline(wire);
        let prefix = client.freeze("m", " \n", &[], &Tuning::default());
        assert_eq!((&*prefix.system, &*prefix.tools, prefix.max_output_tokens), ("", "[]", 0));
        let mut request = asking(&client, "m", &messages);
        request.prefix = prefix.into();
        let body: Value = serde_json::from_slice(&segments(&client, &request).joined()).expect("JSON");
        for absent in ["tools", "instructions", "max_output_tokens", "max_completion_tokens"] {
            assert_eq!(body.get(absent), None);
        }
    }
}

#[test]
fn how_hard_to_think_is_said_where_the_wire_wants_it() {
    for (wire, model, said) in [
        (OpenAiWire::Chat, "m", r#","max_completion_tokens":700,"reasoning_effort":"high","tools""#),
        (
            OpenAiWire::Responses,
            "m",
            r#","max_output_tokens":700,"reasoning":{"effort":"high"},"instructions""#,
        ),
        (OpenAiWire::Chat, "gpt-4o", r#","max_completion_tokens":700,"tools""#),
        (OpenAiWire::Responses, "gpt-4o", r#","max_output_tokens":700,"instructions""#),
    ] {
        let client = offline(wire);
        let tuning = Tuning { max_output_tokens: Some(700), effort: Some(Effort::High) };
        let mut request = asking(&client, model, &[user("hi")]);
        request.prefix = client.freeze(model, "be brief", &[tool("Read")], &tuning).into();
        let body = String::from_utf8(segments(&client, &request).joined()).expect("text");
        assert!(body.contains(said), "{body}");
    }
}

#[test]
fn an_answer_and_its_results_become_messages_in_order() {
    let png = r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}"#;
    let image = Block::parse(png).expect("a block");
    let messages = [
        user("go"),
        ChatMessage::assistant(vec![
            Block::thinking("hm", "sig"),
            Block::text("I \"look\""),
            call("a", "Read", r#"{"p": 1e2}"#),
            call("b", "not.allowed", "{}"),
        ]),
        ChatMessage::user(vec![
            Block::tool_result("a", "é\n", false),
            Block::tool_result_blocks("b", &[Block::text("see"), image.clone()], true),
            Block::text("and you?"),
        ]),
        ChatMessage::assistant(vec![Block::thinking("only", "sig")]),
        ChatMessage::assistant(vec![call("c", "Read", "{}")]),
        ChatMessage::user(vec![Block::tool_result("c", "x", false)]),
        ChatMessage::user(vec![image, Block::text("two"), Block::text("texts")]),
    ];
    assert_eq!(
        chat_messages("m", &messages),
        concat!(
            r#",{"role":"user","content":"go"},"#,
            r#"{"role":"assistant","content":"I \"look\"","tool_calls":[{"id":"a","type":"function","#,
            r#""function":{"name":"Read","arguments":"{\"p\": 1e2}"}},{"id":"b","type":"function","#,
            r#""function":{"name":"not_allowed_a0247e51","arguments":"{}"}}]},"#,
            r#"{"role":"tool","tool_call_id":"a","content":"é\n"},"#,
            r#"{"role":"tool","tool_call_id":"b","content":"Error: see"},"#,
            r#"{"role":"user","content":[{"type":"text","text":"Images of the result of b:"},"#,
            r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}},"#,
            r#"{"type":"text","text":"and you?"}]},"#,
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","#,
            r#""function":{"name":"Read","arguments":"{}"}}]},"#,
            r#"{"role":"tool","tool_call_id":"c","content":"x"},"#,
            r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}},"#,
            r#"{"type":"text","text":"two"},{"type":"text","text":"texts"}]}"#
        )
    );
    assert_eq!(
        items(&messages),
        concat!(
            r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]},"#,
            r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I \"look\""}]},"#,
            r#"{"type":"function_call","call_id":"a","name":"Read","arguments":"{\"p\": 1e2}"},"#,
            r#"{"type":"function_call","call_id":"b","name":"not_allowed_a0247e51","arguments":"{}"},"#,
            r#"{"type":"function_call_output","call_id":"a","output":"é\n"},"#,
            r#"{"type":"function_call_output","call_id":"b","output":[{"type":"input_text","text":"Error: see"},"#,
            r#"{"type":"input_image","image_url":"data:image/png;base64,AA=="}]},"#,
            r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"and you?"}]},"#,
            r#"{"type":"function_call","call_id":"c","name":"Read","arguments":"{}"},"#,
            r#"{"type":"function_call_output","call_id":"c","output":"x"},"#,
            r#"{"type":"message","role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,AA=="},"#,
            r#"{"type":"input_text","text":"two"},{"type":"input_text","text":"texts"}]}"#
        )
    );
}

#[test]
fn a_user_message_of_one_text_after_results_stands_alone() {
    let messages = [
        user("go"),
        ChatMessage::assistant(vec![call("a", "Read", "{}")]),
        ChatMessage::user(vec![Block::tool_result("a", "x", false), Block::text("mail")]),
    ];
    let sent = chat_messages("m", &messages);
    let end = r#"{"role":"tool","tool_call_id":"a","content":"x"},{"role":"user","content":"mail"}"#;
    assert!(sent.ends_with(end), "{sent}");
}

#[test]
fn reasoning_goes_back_only_where_servers_want_it() {
    let thought = unsigned_thinking("let me\nsee").expect("a block");
    let messages = [
        user("go"),
        ChatMessage::assistant(vec![thought.clone(), call("a", "Read", "{}")]),
        ChatMessage::user(vec![Block::tool_result("a", "x", false)]),
        ChatMessage::assistant(vec![call("b", "Read", "{}")]),
        ChatMessage::user(vec![Block::tool_result("b", "x", false)]),
        ChatMessage::assistant(vec![Block::text("done")]),
        user("more"),
    ];
    assert!(!chat_messages("qwen3", &messages).contains("reasoning"));
    let sent = chat_messages("deepseek-v4-pro", &messages);
    let back = r#"{"role":"assistant","content":null,"reasoning_content":"let me\nsee","tool_calls":["#;
    assert!(sent.contains(back), "{sent}");
    // A call without it is refused there.
    assert!(sent.contains(r#""content":null,"reasoning_content":"","tool_calls":["#), "{sent}");
    assert!(sent.contains(r#"{"role":"assistant","content":"done"}"#), "{sent}");
    assert!(!items(&messages).contains("reasoning"));
}

#[test]
fn encrypted_reasoning_goes_back_byte_for_byte_before_what_it_led_to() {
    let raw = r#"{ "type":"reasoning", "id":"rs_1","summary":[],"n":1e2, "encrypted_content":"g\u00e9\/A="}"#;
    let parse = |raw: &str| Block::parse(raw).expect("a block");
    let phase = parse(r#"{"type":"message_phase","phase":"commentary"}"#);
    let empty = parse(r#"{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":null}"#);
    let other = parse(r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{}}"#);
    let messages = [
        user("go"),
        ChatMessage::assistant(vec![
            parse(raw),
            phase,
            Block::text("a"),
            empty,
            other,
            call("c", "Read", "{}"),
            parse(raw),
        ]),
        ChatMessage::user(vec![Block::tool_result("c", "x", false)]),
        ChatMessage::assistant(vec![parse(raw)]),
        user("more"),
    ];
    let sent = items(&messages);
    let want = format!(
        r#"{raw},{{"type":"message","role":"assistant","phase":"commentary","content":[{{"type":"output_text","text":"a"}}]}},{{"type":"function_call","call_id":"c""#
    );
    assert!(sent.contains(&want), "{sent}");
    assert_eq!(sent.matches("encrypted_content").count(), 1, "{sent}");
    assert!(!sent.contains("web_search"), "{sent}");
    assert!(!chat_messages("m", &messages).contains("reasoning"));
}

/// Everything a model may write in an input, which must come back to it unchanged.
#[test]
fn odd_json_is_sent_as_it_was_written() {
    for input in ODD {
        let messages = [
            user("go"),
            ChatMessage::assistant(vec![call("t", "Read", input)]),
            ChatMessage::user(vec![Block::tool_result("t", "x", false)]),
        ];
        let want = format!(r#""arguments":{}"#, text(input));
        assert!(chat_messages("m", &messages).contains(&want), "{input}");
        assert!(items(&messages).contains(&want), "{input}");
    }
}

#[test]
fn each_round_begins_with_the_bytes_of_the_round_before() {
    for wire in [OpenAiWire::Chat, OpenAiWire::Responses] {
        let client = offline(wire);
        let mut messages = vec![user("begin")];
        let mut before = String::new();
        for round in 0..24 {
            let now = body(&client, "deepseek-or-not", &messages);
            assert!(now.starts_with(&before), "{wire:?} {round}");
            before = now.strip_suffix("]}").expect("the end").to_owned();
            let id = format!("t{round}");
            messages.push(ChatMessage::assistant(vec![
                unsigned_thinking("hm").expect("a block"),
                Block::text("so"),
                call(&id, "Read", ODD[round % ODD.len()]),
            ]));
            let mut blocks = vec![Block::tool_result(&id, "x", round % 2 == 0)];
            if round % 3 == 0 {
                blocks.push(Block::text("by the way"));
            }
            messages.push(ChatMessage::user(blocks));
            // A second client, as after a restart, makes the same bytes.
            assert_eq!(
                body(&offline(wire), "deepseek-or-not", &messages),
                body(&client, "deepseek-or-not", &messages)
            );
        }
    }
}

/// Hundred forks of a large history must not be hundred copies of it.
#[test]
fn messages_are_encoded_once_and_shared() {
    for wire in [OpenAiWire::Chat, OpenAiWire::Responses] {
        let client = offline(wire);
        let messages = [user("one"), ChatMessage::assistant(vec![Block::text("two")]), user("three")];
        let request = asking(&client, "m", &messages);
        let mut fork = request.clone();
        Arc::make_mut(&mut fork.messages).push(user("four"));
        let parts = |request: &ModelRequest| -> Vec<(*const u8, usize)> {
            segments(&client, request).list().iter().map(|b| (b.as_ptr(), b.len())).collect()
        };
        let (of_parent, of_fork) = (parts(&request), parts(&fork));
        let shared = of_parent.len() - 1;
        // All but the head, which is small and made anew, and the end.
        assert_eq!(of_parent[1..shared], of_fork[1..shared]);
    }
}

/// On wires without markers a cache finds what begins alike: all of two forks but their last words.
#[test]
fn forks_begin_alike_up_to_their_directive() {
    for wire in [OpenAiWire::Chat, OpenAiWire::Responses] {
        let client = offline(wire);
        let call =
            |id: &str| Block::tool_use(id, "Agent", &RawValue::from_string("{}".to_owned()).expect("raw"));
        let parent = vec![user("go")];
        let fork = |directive: &str| {
            let mut all = parent.clone();
            all.push(ChatMessage::assistant(vec![Block::text("Two at once."), call("a"), call("b")]));
            let results = ["a", "b"].map(|id| Block::tool_result(id, "later", false));
            all.push(ChatMessage::user(results.into_iter().chain([Block::text(directive)]).collect()));
            body(&client, "m", &all)
        };
        let (one, two) = (fork("first part"), fork("second part"));
        let at = one.find("first part").expect("its directive");
        assert_eq!(one[..at], two[..at]);
        let own = body(&client, "m", &parent);
        let own = own.strip_suffix("]}").expect("ends with a message");
        assert!(one.starts_with(own), "{one}\n{own}");
    }
}

#[test]
fn the_vendor_is_known_by_its_host_and_chooses_its_wire() {
    for (base, vendor) in [
        ("https://api.openai.com/v1", true),
        (" https://eu.api.openai.com ", true),
        ("https://api.openai.com.evil.test/v1", false),
        ("https://notapi.openai.com/v1", false),
        ("http://127.0.0.1:8000/v1", false),
        ("api.openai.com", false),
    ] {
        assert_eq!(is_vendor(base), vendor, "{base}");
    }
    let url = |base: &str, wire| {
        let server = super::Server { wire, ..at(base, OpenAiWire::Chat, Duration::ZERO).server };
        OpenAi::new(crate::model::http::HttpClient::default(), server).url
    };
    for (base, wire, want) in [
        ("https://api.openai.com/v1", None, "https://api.openai.com/v1/responses"),
        ("https://api.openai.com/", None, "https://api.openai.com/v1/responses"),
        ("https://api.openai.com/v1", Some(OpenAiWire::Chat), "https://api.openai.com/v1/chat/completions"),
        ("http://x/v1/", None, "http://x/v1/chat/completions"),
        ("http://x/v1/chat/completions", None, "http://x/v1/chat/completions"),
        ("http://x/any", Some(OpenAiWire::Responses), "http://x/any/responses"),
    ] {
        assert_eq!(url(base, wire), want);
    }
}

#[test]
fn rounds_and_forks_share_a_cache_key_and_sessions_do_not() {
    let client = offline(OpenAiWire::Responses);
    let key = |messages: &[ChatMessage]| super::super::cache_key(&asking(&client, "m", messages));
    let one = key(&[user("a")]);
    assert_eq!(one.len(), 32);
    assert_eq!(key(&[user("a"), ChatMessage::assistant(vec![Block::text("b")]), user("c")]), one);
    assert_ne!(key(&[user("b")]), one);
}
