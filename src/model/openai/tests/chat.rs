//! Chat completions: answers that come well, and all the ways in which servers bend the wire.

use super::{ODD, answer, asking, call, client, events, raws, text};
use crate::model::provider::{Delta, ModelProvider, ModelResponse, StopReason};
use crate::model::testing::{Answer, Heard, Server as Local, user};
use crate::wire::block::{Block, ChatMessage};
use crate::wire::settings::OpenAiWire::Chat;
use crate::wire::usage::Usage;
use ::bytes::Bytes;

fn chunk(delta: &str) -> String {
    format!(
        r#"{{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"real-model","choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#
    )
}

fn finish(reason: &str) -> String {
    format!(r#"{{"id":"chatcmpl-1","choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}"#)
}

const USAGE: &str = r#"{"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"prompt_tokens_details":{"cached_tokens":64}}}"#;

pub(super) fn stream(deltas: &[&str], reason: &str) -> Bytes {
    let mut data: Vec<String> = deltas.iter().map(|d| chunk(d)).collect();
    data.extend([finish(reason), USAGE.to_owned(), "[DONE]".to_owned()]);
    events(&data)
}

async fn streamed(bytes: Bytes, chunk: usize) -> (ModelResponse, Heard) {
    let (got, heard) = answer(Answer::Stream { bytes, chunk }, Chat).await;
    (got.expect("a response"), heard)
}

async fn of(deltas: &[&str], reason: &str) -> ModelResponse {
    streamed(stream(deltas, reason), 1000).await.0
}

#[tokio::test]
async fn a_response_is_put_together_from_its_pieces() {
    let bytes = stream(
        &[
            r#"{"role":"assistant","content":""}"#,
            r#"{"reasoning_content":"let me "}"#,
            r#"{"reasoning_content":"see\u00e9"}"#,
            r#"{"content":"Hel"}"#,
            r#"{"content":"lo\nwörld"}"#,
            r#"{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"Read","arguments":""}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"file_path\": "}}]}"#,
            r#"{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"mcp__some_server__a_tool_ee456cc0","arguments":""}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"\"/tmp/\\u00e9\", \"n\": 1e2}"}},{"index":1,"function":{"arguments":"{}"}}]}"#,
        ],
        "tool_calls",
    );
    for chunk in [1, 7, 100_000] {
        let (answer, heard) = streamed(bytes.clone(), chunk).await;
        assert_eq!(
            raws(&answer.blocks),
            [
                r#"{"type":"thinking","thinking":"let me seeé"}"#,
                r#"{"type":"text","text":"Hello\nwörld"}"#,
                r#"{"type":"tool_use","id":"call_a","name":"Read","input":{"file_path": "/tmp/\u00e9", "n": 1e2}}"#,
                r#"{"type":"tool_use","id":"call_b","name":"mcp__some.server__a tool","input":{}}"#,
            ]
        );
        assert_eq!((answer.id.as_str(), answer.model.as_str()), ("chatcmpl-1", "real-model"));
        assert_eq!(answer.stop, StopReason::ToolUse);
        assert_eq!(
            answer.usage,
            Usage {
                input_tokens: 36,
                output_tokens: 20,
                cache_creation_input_tokens: 0,
                cache_read_input_tokens: 64,
                web_search_requests: 0,
            }
        );
        assert!(answer.malformed.is_empty());
        assert_eq!(heard.text(), "Hello\nwörld");
        let all = heard.all();
        assert!(all.contains(&Delta::Thinking("let me ".to_owned())));
        assert!(all.contains(&Delta::ToolCall { name: "Read".to_owned() }));
        assert!(all.contains(&Delta::ToolCall { name: "mcp__some.server__a tool".to_owned() }));
    }
}

#[tokio::test]
async fn inputs_are_kept_byte_for_byte_whatever_the_pieces() {
    for input in ODD {
        let mut deltas = vec![
            r#"{"tool_calls":[{"index":0,"id":"t","function":{"name":"Read","arguments":""}}]}"#.to_owned(),
        ];
        for piece in input.chars().map(String::from) {
            deltas.push(format!(
                r#"{{"tool_calls":[{{"index":0,"function":{{"arguments":{}}}}}]}}"#,
                text(&piece)
            ));
        }
        let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
        let answer = of(&deltas, "tool_calls").await;
        assert_eq!(raws(&answer.blocks), [call("t", "Read", input).raw()]);
        assert!(answer.malformed.is_empty());
    }
}

#[tokio::test]
async fn an_input_that_is_no_object_is_set_aside() {
    for (input, malformed) in [
        ("", None),
        ("  ", None),
        ("{\"a\":", Some("{\"a\":")),
        ("[1]", Some("[1]")),
        ("null", Some("null")),
        ("{}{}", Some("{}{}")),
    ] {
        let delta = format!(
            r#"{{"tool_calls":[{{"index":0,"id":"t","function":{{"name":"Read","arguments":{}}}}}]}}"#,
            text(input)
        );
        let answer = of(&[&delta], "tool_calls").await;
        assert_eq!(raws(&answer.blocks), [call("t", "Read", "{}").raw()]);
        let want: Vec<(String, String)> =
            malformed.iter().map(|m| ("t".to_owned(), (*m).to_owned())).collect();
        assert_eq!(answer.malformed, want, "{input:?}");
    }
}

#[tokio::test]
async fn the_reason_for_the_end_is_named_as_elsewhere() {
    let delta = r#"{"tool_calls":[{"index":0,"id":"t","function":{"name":"Read","arguments":"{}"}}]}"#;
    for (reason, calls, want) in [
        ("stop", false, StopReason::EndTurn),
        ("stop", true, StopReason::ToolUse),
        ("tool_calls", true, StopReason::ToolUse),
        ("tool_calls", false, StopReason::EndTurn),
        ("length", false, StopReason::MaxTokens),
        ("length", true, StopReason::MaxTokens),
        ("content_filter", false, StopReason::Refusal),
        ("odd", false, StopReason::Other("odd".to_owned())),
    ] {
        let deltas = if calls { vec![delta] } else { vec![r#"{"content":"x"}"#] };
        assert_eq!(of(&deltas, reason).await.stop, want, "{reason} {calls}");
    }
    let refused = of(&[r#"{"refusal":"I will "}"#, r#"{"refusal":"not"}"#], "stop").await;
    assert_eq!(refused.stop, StopReason::Refusal);
    assert_eq!(raws(&refused.blocks), [r#"{"type":"text","text":"I will not"}"#]);
}

#[tokio::test]
async fn odd_members_are_passed_over_and_both_fields_of_reasoning_are_read() {
    let answer = of(
        &[
            r#"{"role":"assistant","content":null,"reasoning":"a"}"#,
            r#"{"reasoning":"b","reasoning_content":"b","content":17,"audio":{}}"#,
            r#"{"reasoning_content":"","reasoning":"c","reasoning_details":[{"type":"x"}]}"#,
            r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"d"}]},{"type":"text","text":"said"}]}"#,
            r#"{"tool_calls":null,"function_call":null}"#,
        ],
        "stop",
    )
    .await;
    assert_eq!(
        raws(&answer.blocks),
        [r#"{"type":"thinking","thinking":"abcd"}"#, r#"{"type":"text","text":"said"}"#]
    );
    let odd = [
        r#"{"id":null,"model":7,"choices":[{"delta":{"content":"x"}}],"usage":null}"#,
        r#"{"choices":[{"index":1,"delta":{"content":"another answer"}}]}"#,
        r#"{"choices":[{"index":0,"delta":null,"finish_reason":""}]}"#,
        r#"{"choices":[{"index":0,"finish_reason":"stop","usage":{"prompt_tokens":3,"completion_tokens":1}}]}"#,
        r#"{"choices":null,"error":null}"#,
        "[DONE]",
    ];
    let (answer, _) = streamed(events(&odd.map(str::to_owned)), 9).await;
    assert_eq!(raws(&answer.blocks), [r#"{"type":"text","text":"x"}"#]);
    assert_eq!((answer.id.as_str(), answer.model.as_str()), ("", "some-model"));
    assert_eq!((answer.usage.input_tokens, answer.usage.output_tokens), (3, 1));
}

#[tokio::test]
async fn a_stream_may_lack_its_end_mark_its_reason_or_its_type() {
    let said = [chunk(r#"{"content":"x"}"#), finish("stop")];
    let unmarked = events(&said);
    let (answer, _) = streamed(unmarked.clone(), 1000).await;
    assert_eq!(raws(&answer.blocks), [r#"{"type":"text","text":"x"}"#]);
    // The connection stays open and nothing more comes: the answer is whole all the same.
    let silent = Answer::Stall { after: unmarked.len(), bytes: unmarked };
    let (got, _) = super::answer(silent, Chat).await;
    assert_eq!(got.expect("a response").stop, StopReason::EndTurn);
    let unexplained = events(&[chunk(r#"{"content":"x"}"#), "[DONE]".to_owned()]);
    assert_eq!(streamed(unexplained, 1000).await.0.stop, StopReason::EndTurn);
    let text =
        format!(": processing\r\n\r\ndata:{}\r\n\r\ndata: {}\r\n\r\ndata:[DONE]\r\n\r\n", said[0], said[1]);
    assert_eq!(raws(&streamed(text.into(), 3).await.0.blocks), [r#"{"type":"text","text":"x"}"#]);
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let body = r#"{"id":"c1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi","reasoning_content":"hm","tool_calls":[{"id":"a","type":"function","function":{"name":"Read","arguments":"{\"n\":1e2}"}},{"type":"function","function":{"name":"Read","arguments":{"n": 2e0}}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}"#;
    let headers = vec![("content-type", "application/json; charset=utf-8".to_owned())];
    let plain = Answer::Plain { status: 200, headers, body: body.to_owned() };
    let (got, heard) = answer(plain, Chat).await;
    let got = got.expect("a response");
    let raw = raws(&got.blocks);
    assert_eq!(
        raw[..3],
        [
            r#"{"type":"thinking","thinking":"hm"}"#,
            r#"{"type":"text","text":"hi"}"#,
            r#"{"type":"tool_use","id":"a","name":"Read","input":{"n":1e2}}"#,
        ]
    );
    assert!(raw[3].ends_with(r#""name":"Read","input":{"n": 2e0}}"#), "{}", raw[3]);
    assert_eq!((got.stop, got.usage.input_tokens), (StopReason::ToolUse, 5));
    assert_eq!(heard.text(), "hi");
}

#[tokio::test]
async fn calls_get_ids_that_nothing_else_has() {
    let whole =
        |id: &str| format!(r#"{{"tool_calls":[{{{id}"function":{{"name":"Read","arguments":"{{}}"}}}}]}}"#);
    let deltas = [whole(""), whole(r#""id":"","#), whole(r#""id":"call_0","#), whole(r#""id":"call_0","#)];
    // The last two are one call that is repeated for servers that stream, so another index tells.
    let deltas: Vec<String> =
        deltas.iter().enumerate().map(|(i, d)| d.replacen("[{", &format!(r#"[{{"index":{i},"#), 1)).collect();
    let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
    let bytes = stream(&deltas, "tool_calls");
    let server = Local::start([(); 2].map(|()| Answer::Stream { bytes: bytes.clone(), chunk: 100 })).await;
    let client = client(&server, Chat);
    let history = [
        user("a"),
        ChatMessage::assistant(vec![call("call_0", "Read", "{}")]),
        ChatMessage::user(vec![Block::tool_result("call_0", "x", false)]),
    ];
    let request = asking(&client, "m", &history);
    let mut rounds = Vec::new();
    for _ in 0..2 {
        let answer = client.respond(&request, &Heard::default()).await.expect("a response");
        let ids: Vec<String> = answer.blocks.iter().map(|b| b.as_tool_use().expect("a call").id).collect();
        let different: std::collections::BTreeSet<&String> = ids.iter().collect();
        assert_eq!(different.len(), 4, "{ids:?}");
        assert!(ids.iter().all(|id| id != "call_0" && id.starts_with("call_")), "{ids:?}");
        rounds.push(ids);
    }
    assert_eq!(rounds[0], rounds[1], "a repeated request gives the same ids");
    assert_eq!(server.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn a_call_without_a_name_is_one_that_no_tool_has() {
    let answer =
        of(&[r#"{"tool_calls":[{"index":0,"id":"t","function":{"arguments":"{}"}}]}"#], "stop").await;
    assert_eq!(raws(&answer.blocks), [call("t", "unnamed_tool", "{}").raw()]);
}

/// Twenty rounds against a server that reads strictly; the model's odd inputs come back to it.
#[tokio::test]
async fn a_conversation_is_accepted_round_after_round() {
    let rounds = 20;
    let bytes = |round: usize| {
        let input = ODD[round % ODD.len()];
        let one = format!(
            r#"{{"reasoning":"hm","content":"so","tool_calls":[{{"index":0,"id":"a{round}","function":{{"name":"mcp__some_server__a_tool_ee456cc0","arguments":{}}}}},{{"index":1,"function":{{"name":"Read","arguments":"{{oops"}}}}]}}"#,
            text(input)
        );
        stream(&[&one], "tool_calls")
    };
    let server =
        Local::start((0..rounds).map(|round| Answer::Stream { bytes: bytes(round), chunk: 64 })).await;
    let client = client(&server, Chat);
    let mut messages = vec![user("begin")];
    for round in 0..rounds {
        let request = asking(&client, "kimi-k3", &messages);
        let answer = client.respond(&request, &Heard::default()).await.expect("a response");
        assert_eq!(answer.malformed.len(), 1);
        let results: Vec<Block> = answer
            .blocks
            .iter()
            .filter_map(Block::as_tool_use)
            .map(|call| Block::tool_result(&call.id, "x", round % 2 == 1))
            .collect();
        messages.push(ChatMessage::assistant(answer.blocks));
        messages.push(ChatMessage::user(results));
    }
    assert_eq!(server.refusals(), Vec::<String>::new());
    let bodies: Vec<Vec<u8>> = server.seen().into_iter().map(|seen| seen.body).collect();
    for pair in bodies.windows(2) {
        assert!(pair[1].starts_with(&pair[0][..pair[0].len() - 2]), "an earlier prefix changed");
    }
    let last = String::from_utf8(bodies.last().expect("requests").clone()).expect("text");
    for input in ODD {
        assert!(last.contains(&format!(r#""arguments":{}"#, text(input))), "{input}");
    }
}
