//! Scripts as they are played.

use super::*;
use crate::model::provider::Anchor;
use crate::model::testing::{Heard, request, user};
use crate::wire::block::ChatMessage;
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

fn player(text: &str) -> Scripted {
    Scripted::new(Script::parse(Path::new("/dir/s.toml"), text).expect("a script"), Gates::default())
}

fn wrong(text: &str) -> String {
    Script::parse(Path::new("/dir/s.toml"), text).expect_err("wrong").to_string()
}

/// An agent that goes on with whatever it is told.
struct Agent<'a> {
    player: &'a Scripted,
    name: &'a str,
    round: u32,
    messages: Vec<ChatMessage>,
}

impl<'a> Agent<'a> {
    fn new(player: &'a Scripted, name: &'a str, prompt: &str) -> Self {
        Self { player, name, round: 0, messages: vec![user(prompt)] }
    }

    async fn ask(&mut self) -> Result<ModelResponse, ModelError> {
        self.round += 1;
        let request = request(self.name, self.round, &self.messages);
        self.player.respond(&request, &Heard::default()).await
    }

    /// Asks, takes the answer into the history, and gives each call this result.
    async fn step(&mut self, result: &str) -> ModelResponse {
        let response = self.ask().await.expect("an answer");
        let answer = ChatMessage::assistant(response.blocks.clone());
        let results: Vec<Block> =
            answer.tool_uses().iter().map(|c| Block::tool_result(&c.id, result, false)).collect();
        self.messages.push(answer);
        if !results.is_empty() {
            self.messages.push(ChatMessage::user(results));
        }
        response
    }

    fn hear(&mut self, text: &str) {
        self.messages.push(user(text));
    }

    async fn text(&mut self) -> String {
        let response = self.step("ok").await;
        ChatMessage::assistant(response.blocks).text()
    }
}

#[tokio::test]
async fn rules_are_used_in_order_once_in_each_conversation() {
    let player = player(
        r#"
[[rule]]
agent = "anna"
reply = [{ text = "one" }]
[[rule]]
agent = "an*"
times = 2
reply = [{ text = "two" }]
[[rule]]
reply = [{ text = "anyone, {{agent}} {{round}}" }]
"#,
    );
    let mut anna = Agent::new(&player, "anna", "go");
    let mut bert = Agent::new(&player, "bert", "go");
    assert_eq!(bert.text().await, "anyone, bert 1");
    for want in ["one", "two", "two", "anyone, anna 4"] {
        assert_eq!(anna.text().await, want);
        anna.hear("more");
    }
    let error = anna.ask().await.expect_err("nothing is left");
    assert_eq!(error.kind, ModelErrorKind::Script);
    assert_eq!(
        error.what,
        "/dir/s.toml: no rule answers agent `anna` in round 5; used up: the rules at line 2, 5, 9; \
         it was given \"more\""
    );
    // The same agent in a new conversation begins again.
    assert_eq!(Agent::new(&player, "anna", "another").text().await, "one");
}

#[tokio::test]
async fn conditions_look_where_they_say() {
    let player = player(
        r#"
[[rule]]
times = "always"
round = 7
reply = [{ text = "round" }]
[[rule]]
times = "always"
contains = "needle"
reply = [{ text = "input" }]
[[rule]]
times = "always"
matches = '^\d+$'
reply = [{ text = "number" }]
[[rule]]
times = "always"
prompt-is = "exactly"
reply = [{ text = "exact" }]
[[rule]]
times = "always"
prompt = "task b"
anywhere-matches = "(?i)SECRET"
reply = [{ text = "both" }]
[[rule]]
times = "always"
contains = ["left", "right"]
anywhere-matches = ["^task", '\bend$']
reply = [{ text = "all of them" }]
[[rule]]
times = "always"
prompt = "task b"
reply = [{ text = "prompt" }]
[[rule]]
times = "always"
reply = [{ tool = "Read", id = "r" }]
"#,
    );
    let mut agent = Agent::new(&player, "a", "task b");
    assert_eq!(agent.text().await, "prompt");
    agent.hear("a needle");
    agent.hear("mail after it belongs to the same input");
    assert_eq!(agent.text().await, "input");
    agent.hear("no more");
    assert_eq!(agent.text().await, "prompt");
    agent.hear("secret");
    assert_eq!(agent.text().await, "both");
    agent.hear("other");
    assert_eq!(agent.text().await, "both", "anywhere is anywhere");
    let mut several = Agent::new(&player, "a", "task b");
    several.hear("left");
    assert_eq!(several.text().await, "prompt");
    several.hear("left, right, end");
    assert_eq!(several.text().await, "all of them");
    assert_eq!(Agent::new(&player, "a", "exactly").text().await, "exact");
    let mut other = Agent::new(&player, "a", "exactly!");
    other.step("123").await;
    assert_eq!(other.text().await, "number", "results count as input");
    other.round = 6;
    other.hear("x");
    assert_eq!(other.text().await, "round");
}

#[tokio::test]
async fn values_come_from_results_and_mail() {
    let player = player(
        r#"
[[rule]]
reply = [{ tool = "Grep", input = { pattern = "x", deep = { list = [1, 2.5, true, "{{agent}}"] } }, id = "g" }]
[[rule]]
reply = [{ tool = "Read", input = { file_path = '{{result:g | line 2 | match "^(\S+?):" 1}}', limit = "{{result:g | lines | int}}" } }]
[[rule]]
reply = [{ tool = "Bash", raw = '{ "command": {{result | json}}, "n": 1e2 }' }]
[[rule]]
reply = [{ text = '{{mail:anna}}|{{mails:anna | replace "\n" "/"}}|{{mail:bert | default "nothing"}}{{mails:bert | default ""}}|{{prompt}}|{{input | last 1}}' }]
[[rule]]
reply = [{ text = "fine" }, { text = "{{result:missing}}" }]
"#,
    );
    let mut agent = Agent::new(&player, "lead", "count");
    let inputs = |r: &ModelResponse| r.blocks[0].as_tool_use().expect("a call").input.get().to_owned();
    let first = agent.step("a.rs:1: x\nb.rs:7: x\nc.rs:9: x").await;
    assert_eq!(inputs(&first), r#"{"deep":{"list":[1,2.5,true,"lead"]},"pattern":"x"}"#);
    let second = agent.step("say \"hi\"").await;
    assert_eq!(inputs(&second), r#"{"file_path":"b.rs","limit":3}"#);
    let third = agent.step("done").await;
    assert_eq!(inputs(&third), r#"{ "command": "say \"hi\"", "n": 1e2 }"#);
    let mail = |text: &str| {
        format!(
            "<teammate-message teammate_id=\"anna\" color=\"blue\" summary=\"s\">\n{text}\n</teammate-message>"
        )
    };
    agent.hear(&format!("{}\n{}", mail("old"), mail("a &lt;b&gt; &amp;amp; c\nd")));
    agent.hear("the last line");
    assert_eq!(agent.text().await, "a <b> &amp; c\nd|old/a <b> &amp; c/d|nothing|count|the last line");
    agent.hear("go on");
    let error = agent.ask().await.expect_err("nothing there");
    assert_eq!(error.kind, ModelErrorKind::Script);
    assert_eq!(error.what, "/dir/s.toml:11: `{{result:missing}}`: there is no result of a call `missing`");
}

#[tokio::test]
async fn call_ids_are_stable_and_never_used_twice_in_a_conversation() {
    let text = r#"
[[rule]]
times = "always"
reply = [{ tool = "A" }, { tool = "B", id = "named" }, { tool = "B", id = "named" }]
"#;
    let mut runs = Vec::new();
    for _ in 0..2 {
        let player = player(text);
        let mut agent = Agent::new(&player, "Ex plore", "go");
        let mut ids = Vec::new();
        for _ in 0..2 {
            let response = agent.step("ok").await;
            ids.extend(response.blocks.iter().filter_map(Block::as_tool_use).map(|c| c.id));
        }
        runs.push(ids);
    }
    assert_eq!(runs[0], runs[1]);
    let ids = &runs[0];
    assert_eq!(ids[1..3], ["named".to_owned(), "named__2".to_owned()]);
    assert_eq!(ids[4..6], ["named__3".to_owned(), "named__4".to_owned()]);
    assert!(ids[0].starts_with("toolu_Explore_") && ids[0].ends_with("_1"), "{ids:?}");
    assert!(ids[3].ends_with("_4"), "{ids:?}");
}

#[tokio::test]
async fn parallel_agents_of_one_name_do_not_use_up_each_others_rules() {
    let player = Arc::new(player(
        r#"
[[rule]]
reply = [{ tool = "Read" }]
[[rule]]
reply = [{ tool = "Grep" }]
[[rule]]
reply = [{ text = "end of {{prompt}}" }]
"#,
    ));
    let mut tasks = JoinSet::new();
    for n in 0..20 {
        let player = Arc::clone(&player);
        tasks.spawn(async move {
            let prompt = format!("job {n}");
            let mut agent = Agent::new(&player, "Explore", &prompt);
            let mut said = Vec::new();
            for _ in 0..3 {
                let response = agent.step("ok").await;
                said.extend(response.blocks.iter().filter_map(Block::as_tool_use).map(|c| c.name));
                said.extend(response.blocks.iter().filter_map(Block::as_text));
                tokio::task::yield_now().await;
            }
            assert_eq!(said, ["Read".to_owned(), "Grep".to_owned(), format!("end of {prompt}")]);
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic");
    }
}

/// Forks share everything but the last block; each is a conversation of its own.
#[tokio::test]
async fn forks_are_told_apart_by_their_directive() {
    let player = player(
        r#"
[[rule]]
agent = "fork"
prompt = "directive one"
reply = [{ text = "1" }]
[[rule]]
agent = "fork"
prompt = "directive two"
reply = [{ text = "2" }]
[[rule]]
reply = [{ tool = "Agent", id = "f" }]
"#,
    );
    let mut parent = Agent::new(&player, "lead", "go");
    parent.step("started").await;
    for (directive, want) in [("directive two", "2"), ("directive one", "1")] {
        let mut fork = Agent { player: &player, name: "fork", round: 0, messages: parent.messages.clone() };
        fork.hear(directive);
        assert_eq!(fork.text().await, want);
    }
}

#[tokio::test]
async fn a_failed_attempt_uses_its_rule_up() {
    let player = player(
        r#"
[[rule]]
reply = [{ text = "par" }, { text = "tial" }, { error = { status = 429, message = "slow", retry-after = 1.5 } }]
[[rule]]
reply = [{ error = { message = "gone" } }]
[[rule]]
reply = [{ text = "fine" }]
"#,
    );
    let request = request("a", 1, &[user("go")]);
    let ask = || async { player.respond(&request, &Heard::default()).await };
    let error = ask().await.expect_err("limited");
    assert_eq!(
        (error.kind, error.retry_after, error.partial.as_str(), error.what.as_str()),
        (
            ModelErrorKind::RateLimited,
            Some(Duration::from_millis(1500)),
            "par\ntial",
            "the scripted model answered 429: slow"
        )
    );
    assert_eq!(ask().await.expect_err("broken").kind, ModelErrorKind::Connection);
    assert_eq!(ask().await.expect("fine").blocks[0].as_text().as_deref(), Some("fine"));
}

#[tokio::test]
async fn after_compaction_the_conversation_goes_on() {
    let player = player("[[rule]]\nreply = [{ text = \"one\" }]\n[[rule]]\nreply = [{ text = \"two\" }]\n");
    let mut agent = Agent::new(&player, "a", "go");
    assert_eq!(agent.text().await, "one");
    agent.messages = vec![user("a summary of it all")];
    assert_eq!(agent.text().await, "two");
}

#[tokio::test]
async fn answers_hold_what_a_model_can_say() {
    let player = player(
        r#"
[[rule]]
reply = [
  { thinking = "hm", signature = "sig" },
  { text = "  " },
  { tool = "Bad", raw = "{nope", id = "b" },
  { block = '{"type":"redacted_thinking","data":"x"}' },
  { stop = "max_tokens" },
  { usage = { output-tokens = 5000 } },
]
"#,
    );
    let response = Agent::new(&player, "a", "go").ask().await.expect("an answer");
    let raw: Vec<&str> = response.blocks.iter().map(Block::raw).collect();
    assert_eq!(
        raw,
        [
            r#"{"type":"thinking","thinking":"hm","signature":"sig"}"#,
            r#"{"type":"tool_use","id":"b","name":"Bad","input":{}}"#,
            r#"{"type":"redacted_thinking","data":"x"}"#,
        ]
    );
    assert_eq!(response.malformed, [("b".to_owned(), "{nope".to_owned())]);
    assert_eq!(response.stop, StopReason::MaxTokens);
    assert_eq!(response.usage.output_tokens, 5000);
    assert!(response.usage.input_tokens + response.usage.cache_creation_input_tokens > 0);
}

#[tokio::test(start_paused = true)]
async fn text_comes_in_pieces_at_the_scripts_pace() {
    let player =
        player("pace-ms = 10\npiece = 3\n[[rule]]\nreply = [{ text = \"äbcdefg\" }, { delay-ms = 5000 }]\n");
    let (heard, begun) = (Heard::default(), tokio::time::Instant::now());
    player.respond(&request("a", 1, &[user("go")]), &heard).await.expect("an answer");
    let pieces = ["äbc", "def", "g"].map(|p| Delta::Text(p.to_owned()));
    assert_eq!(heard.all(), pieces);
    let took = begun.elapsed();
    assert!((5030..5040).contains(&took.as_millis()), "{took:?}");
}

#[tokio::test]
async fn gates_open_by_hand_or_by_file_and_have_a_deadline() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("s.toml");
    fs::write(
        &path,
        r#"
gate-deadline-ms = 20000
[[rule]]
reply = [{ text = "before" }, { gate = "go" }, { text = "after" }]
[[rule]]
reply = [{ gate = "file.1" }, { text = "file" }]
"#,
    )
    .expect("writes");
    let gates = Gates::default();
    let player = Arc::new(Scripted::load(&path, gates.clone()).expect("a script"));
    let heard = Arc::new(Heard::default());
    let mut tasks = JoinSet::new();
    let (waiting, listening) = (Arc::clone(&player), Arc::clone(&heard));
    tasks.spawn(async move { waiting.respond(&request("a", 1, &[user("go")]), &*listening).await });
    while heard.text() != "before" {
        tokio::task::yield_now().await;
    }
    gates.open("go");
    let response = tasks.join_next().await.expect("a task").expect("no panic").expect("an answer");
    assert_eq!(ChatMessage::assistant(response.blocks).text(), "before\nafter");

    tasks.spawn(async move { player.respond(&request("a", 1, &[user("go")]), &Heard::default()).await });
    let gate_directory = directory.path().join("s.toml.gate");
    fs::create_dir(&gate_directory).expect("a directory");
    fs::write(gate_directory.join("file.1"), "").expect("a file");
    tasks.join_next().await.expect("a task").expect("no panic").expect("an answer");
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_stays_closed_is_an_error_with_its_line() {
    let player =
        player("gate-deadline-ms = 500\n[[rule]]\nreply = [\n{ text = \"x\" },\n{ gate = \"never\" },\n]\n");
    let error = Agent::new(&player, "a", "go").ask().await.expect_err("too late");
    assert_eq!(error.what, "/dir/s.toml:5: gate `never` was not opened within 0.5 s");
    assert_eq!((error.kind, error.partial.as_str()), (ModelErrorKind::Script, "x"));
}

#[test]
fn mistakes_are_reported_with_their_line() {
    for (text, want) in [
        (
            "[[rule]]\nreply = [\n  { text = \"a\", gate = \"b\" },\n]",
            "/dir/s.toml:3: a part has exactly one of text, thinking, tool, block, delay-ms, gate, error, usage, stop",
        ),
        (
            "[[rule]]\nreply = [{}]",
            "/dir/s.toml:2: a part has exactly one of text, thinking, tool, block, delay-ms, gate, error, usage, stop",
        ),
        (
            "[[rule]]\nreply = [{ text = \"{{nope}}\" }]",
            "/dir/s.toml:2: `{{nope}}`: unknown source `nope` (known: result:ID, result, mail:NAME, mails:NAME, prompt, input, agent, round)",
        ),
        (
            "[[rule]]\nreply = [{ tool = \"T\", input = { a = [\"{{result\"] } }]",
            "/dir/s.toml:2: `{{result` has no end",
        ),
        (
            "[[rule]]\nreply = [{ tool = \"T\", input = {}, raw = \"\" }]",
            "/dir/s.toml:2: a tool has `input` or `raw`, not both",
        ),
        (
            "[[rule]]\nreply = [{ text = \"T\", id = \"i\" }]",
            "/dir/s.toml:2: `input`, `raw` and `id` belong to `tool`",
        ),
        (
            "[[rule]]\nreply = [{ gate = \"../x\" }]",
            "/dir/s.toml:2: `../x` is no name for a gate (letters, digits, `-`, `_`, `.`)",
        ),
        (
            "[[rule]]\nreply = [{ block = '{}' }]",
            "/dir/s.toml:2: not a content block: missing field `type` at line 1 column 2",
        ),
        ("\n\n[[rule]]\ntimes = 0\nreply = []", "/dir/s.toml:3: `times = 0` would never answer"),
        (
            "[[rule]]\ntimes = \"often\"\nreply = []",
            "/dir/s.toml:1: `times` is a number or \"always\", not \"often\"",
        ),
        ("[[rule]]\nreply = []\ncolour = 1", "/dir/s.toml:3: unknown field `colour`"),
        ("rule = 1", "/dir/s.toml:1: invalid type: integer `1`, expected a sequence"),
        ("a = ", "/dir/s.toml:1: "),
        ("[[rule]]\nmatches = \"(\"\nreply = []", "/dir/s.toml:1: `(` is no regular expression: "),
        ("[[rule]]\nagent = \"[\"\nreply = []", "/dir/s.toml:1: `[` is no pattern: "),
    ] {
        let got = wrong(text);
        assert!(got.starts_with(want), "{text}\n got {got}\nwant {want}");
    }
    let error = Scripted::load(Path::new("/no/such/script.toml"), Gates::default()).err().expect("no file");
    assert!(error.to_string().starts_with("cannot read the script /no/such/script.toml: "), "{error}");
}

/// The simulated cache behaves like the real one: only what was marked is read again.
#[tokio::test]
async fn usage_shows_what_a_cache_would_have_saved() {
    let player = player("[[rule]]\ntimes = \"always\"\nreply = [{ text = \"ok\" }]\n");
    let usage = |request: ModelRequest| {
        let player = &player;
        async move { player.respond(&request, &Heard::default()).await.expect("an answer").usage }
    };
    let size = |m: &ChatMessage| m.blocks.iter().map(|b| b.raw().len() as u64).sum::<u64>();
    let mut messages = vec![user(&"x".repeat(4000))];
    let first = usage(request("lead", 1, &messages)).await;
    assert_eq!((first.input_tokens, first.cache_read_input_tokens), (0, 0));
    assert!(first.cache_creation_input_tokens > size(&messages[0]) / 4);
    messages.push(ChatMessage::assistant(vec![Block::text("ok")]));
    messages.push(user("more"));
    let second = usage(request("lead", 2, &messages)).await;
    assert_eq!(second.cache_read_input_tokens, first.cache_creation_input_tokens);
    assert!(second.cache_creation_input_tokens < 40, "{second:?}");
    // Another agent with the same beginning, marked inside its last message.
    let fork = |directive: &str| {
        let mut messages = messages.clone();
        messages.pop();
        messages.push(ChatMessage::user(vec![Block::text("shared"), Block::text(directive)]));
        let mut request = request("fork", 1, &messages);
        request.anchors = vec![Anchor::end_of(0), Anchor::after(2, 0)];
        request
    };
    let one = usage(fork("one")).await;
    let two = usage(fork("two")).await;
    assert_eq!(one.cache_read_input_tokens, first.cache_creation_input_tokens);
    assert_eq!(two.cache_read_input_tokens, one.cache_read_input_tokens + one.cache_creation_input_tokens);
    assert_eq!(two.cache_creation_input_tokens, 0);
    assert!(two.input_tokens > 0);
    // Without markers only the system prompt's own counts.
    let mut bare = request("lead", 3, &messages);
    bare.anchors.clear();
    let bare = usage(bare).await;
    assert!(bare.input_tokens > 1000, "{bare:?}");
}

/// What the documentation shows can be played.
#[test]
fn the_examples_of_the_documentation_are_scripts() {
    let page = include_str!("../../../docs/formats/script.md");
    let examples: Vec<&str> =
        page.split("```toml\n").skip(1).filter_map(|rest| rest.split_once("```")).map(|p| p.0).collect();
    assert!(examples.len() >= 2);
    for example in examples {
        let script = Script::parse(Path::new("script.md"), example).expect(example);
        assert!(!script.rules.is_empty());
    }
}
