//! Names of models, and which one is meant.

use super::*;

fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn model(text: &str) -> ModelRef {
    text.parse().expect("a model")
}

#[test]
fn names_are_read_and_bad_ones_are_explained() {
    assert_eq!(model("anthropic:us.claude:0").name, "us.claude:0");
    assert_eq!(model(" scripted:/a b.toml ").to_string(), "scripted:/a b.toml");
    for (text, is) in [
        ("scripted:/x", true),
        (" scripted:x", true),
        ("scripted", false),
        ("scriptedly:x", false),
        ("anthropic:scripted:x", false),
    ] {
        assert_eq!(is_script(text), is, "{text}");
    }
    for (text, want) in [
        (
            "nope:x",
            "`nope:x`: there is no provider `nope` (known: anthropic:NAME, openai:NAME, ollama:NAME, scripted:FILE)",
        ),
        (
            "opsu",
            "`opsu` names no model: write PROVIDER:NAME (anthropic:NAME, openai:NAME, ollama:NAME, scripted:FILE) or an alias (default, fable, fast, haiku, opus, sonnet, strong)",
        ),
        (
            "anthropic:",
            "`anthropic:` names no model: write PROVIDER:NAME (anthropic:NAME, openai:NAME, ollama:NAME, scripted:FILE) or an alias (default, fable, fast, haiku, opus, sonnet, strong)",
        ),
    ] {
        assert_eq!(text.parse::<ModelRef>().expect_err(text).to_string(), want);
    }
}

#[test]
fn the_first_source_that_names_a_model_wins() {
    let key = ("ANTHROPIC_API_KEY", "k");
    let named = |s: &str| Settings { model: Some(s.to_owned()), ..Settings::default() };
    let none = Settings::default();
    let ok = |flag: Option<&str>, e: &[(&str, &str)], s: &Settings| {
        choose(flag, &env(e), s).expect("a model").to_string()
    };
    let all = [key, ("FESTOON_MODEL", "anthropic:b")];
    assert_eq!(ok(Some("anthropic:a"), &all, &named("anthropic:c")), "anthropic:a");
    assert_eq!(ok(None, &all, &named("anthropic:c")), "anthropic:b");
    assert_eq!(ok(None, &[key, ("FESTOON_MODEL", " ")], &named("anthropic:c")), "anthropic:c");
    assert_eq!(ok(None, &[key], &none), "anthropic:claude-sonnet-5-5");
    assert_eq!(ok(None, &[("ANTHROPIC_AUTH_TOKEN", "k")], &none), "anthropic:claude-sonnet-5-5");
    assert_eq!(ok(Some("strong"), &[key], &none), "anthropic:claude-opus-5-5");
    assert_eq!(ok(Some("claude-x"), &[], &none), "anthropic:claude-x");
    let openai = ("OPENAI_API_KEY", "k");
    assert_eq!(ok(None, &[openai], &none), "openai:gpt-6.2-sol");
    assert_eq!(ok(Some("haiku"), &[openai], &none), "openai:gpt-6-luna");
    assert_eq!(ok(None, &[openai, key], &none), "anthropic:claude-sonnet-5-5");
    assert_eq!(ok(Some("gpt-x"), &[], &none), "openai:gpt-x");
    assert_eq!(ok(Some("openai:strong"), &[], &none), "openai:gpt-6.2-astra");
    assert_eq!(ok(Some("ollama:qwen3:8b"), &[], &none), "ollama:qwen3:8b");
    assert_eq!(choose(Some("fast"), &env(&[]), &none), Err(ModelSetupError::NoModel));
    assert_eq!(choose(None, &env(&[("ANTHROPIC_API_KEY", "")]), &none), Err(ModelSetupError::NoModel));
    assert!(ModelSetupError::NoModel.to_string().contains("festoon demo"));
}

#[test]
fn aliases_follow_the_parents_provider() {
    let names = Names::new(&env(&[
        ("mine", "fast"),
        ("a", "b"),
        ("b", "a"),
        ("haiku", "anthropic:own-haiku"),
        ("opus", "opus"),
    ]));
    let claude = model("anthropic:claude-opus-5");
    let script = model("scripted:/s.toml");
    let gpt = model("openai:gpt-6.2-sol");
    let own = model("openai:qwen3-coder");
    let local = model("ollama:qwen3:8b");
    for (text, parent, want) in [
        ("inherit", &claude, "anthropic:claude-opus-5"),
        ("", &claude, "anthropic:claude-opus-5"),
        ("sonnet", &claude, "anthropic:claude-sonnet-5-5"),
        ("mine", &claude, "anthropic:claude-haiku-5-5"),
        ("haiku", &claude, "anthropic:own-haiku"),
        ("opus", &claude, "anthropic:claude-opus-5-5"),
        ("anthropic:fast", &script, "anthropic:claude-haiku-5-5"),
        ("any-gateway/model:7", &claude, "anthropic:any-gateway/model:7"),
        ("fast", &script, "scripted:/s.toml"),
        ("claude-opus-5", &script, "scripted:/s.toml"),
        ("scripted:/t.toml", &claude, "scripted:/t.toml"),
        ("fast", &gpt, "openai:gpt-6-luna"),
        ("opus", &gpt, "openai:gpt-6.2-astra"),
        ("gpt-x", &gpt, "openai:gpt-x"),
        // What such a server has beside the parent's model, nobody knows.
        ("fast", &own, "openai:qwen3-coder"),
        ("sonnet", &local, "ollama:qwen3:8b"),
        ("llama:70b", &local, "ollama:llama:70b"),
        ("openai:fast", &local, "openai:gpt-6-luna"),
    ] {
        assert_eq!(names.resolve(text, parent).expect(text).to_string(), want, "{text}");
    }
    assert_eq!(names.resolve("a", &claude), Err(ModelSetupError::AliasLoop("a".to_owned())));
}

#[test]
fn scripts_are_anchored() {
    let at = |text: &str| model(text).anchored(Path::new("/w")).to_string();
    assert_eq!(at("scripted:a/b.toml"), "scripted:/w/a/b.toml");
    assert_eq!(at("scripted:/b.toml"), "scripted:/b.toml");
    assert_eq!(at("anthropic:x"), "anthropic:x");
    assert_eq!(at("ollama:x/y"), "ollama:x/y");
}
