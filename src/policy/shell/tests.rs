//! Commands taken apart, and what is doubted.

use super::*;
use proptest::prelude::*;

/// The commands as `name|arg|arg`, with reads as `<`, writes as `>`, doubts as `?`.
fn shown(text: &str) -> Vec<String> {
    let script = parse(text);
    let commands = script.commands.iter().map(|command| {
        let words = command.words.iter().map(|word| match word.literal {
            true => word.text.clone(),
            false => format!("~{}", word.text),
        });
        command.assignments.iter().cloned().chain(words).collect::<Vec<_>>().join("|")
    });
    commands
        .chain(script.reads.iter().map(|word| format!("<{}", word.text)))
        .chain(script.writes.iter().map(|word| format!(">{}", word.text)))
        .chain(script.doubts.iter().map(|doubt| format!("?{doubt}")))
        .collect()
}

#[test]
fn separators_and_compounds() {
    let table: &[(&str, &[&str])] = &[
        ("git status", &["git|status"]),
        ("a; b && c || d | e & f", &["a", "b", "c", "d", "e", "f"]),
        ("a\nb\n\nc # d; e", &["a", "b", "c"]),
        ("a |& b", &["a", "b"]),
        ("! a", &["a"]),
        ("time a", &["a"]),
        ("(a; b)", &["a", "b"]),
        ("{ a; b; }", &["a", "b"]),
        ("if a; then b; elif c; then d; else e; fi", &["a", "b", "c", "d", "e"]),
        ("while a; do b; done", &["a", "b"]),
        ("for f in x $(a); do b \"$f\"; done", &["a", "b|~$f"]),
        ("case x in y) a;; *) b;; esac", &["a", "b"]),
        ("a \\\n b", &["a|b"]),
        ("", &[]),
    ];
    for (text, expected) in table {
        assert_eq!(shown(text), *expected, "{text}");
    }
}

#[test]
fn what_runs_inside_words() {
    let table: &[(&str, &[&str])] = &[
        ("a $(b c)", &["b|c", "a|~$(…)"]),
        ("a `b c`", &["b|c", "a|~$(…)"]),
        ("a \"x $(b) y\"", &["b", "a|~x $(…) y"]),
        ("a '$(b)'", &["a|$(b)"]),
        ("a $(b $(c))", &["c", "b|~$(…)", "a|~$(…)"]),
        ("a `b \\`c\\``", &["c", "b|~$(…)", "a|~$(…)"]),
        ("a <(b) >(c)", &["b", "c", "a|~<(…)|~<(…)"]),
        ("X=$(b) a", &["b", "X=$(…)|a"]),
        ("a <<E\n$(b)\nE", &["b", "a"]),
        ("a <<'E'\n$(b)\nE", &["a"]),
        ("a <<< $(b)", &["b", "a"]),
        ("[[ -f $(b) ]] && a", &["b", "a"]),
        ("a ${X:-$(b)}", &["b", "a|~${X:-$(b)}", "?an expansion is not understood"]),
    ];
    for (text, expected) in table {
        let (mut found, mut expected) = (shown(text), expected.to_vec());
        found.sort();
        expected.sort_unstable();
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn quoting() {
    let table: &[(&str, &[&str])] = &[
        ("r\"\"m 'a b' c\\ d", &["rm|a b|c d"]),
        ("\\rm x", &["rm|x"]),
        ("a \"\\$b\" \"\\n\"", &["a|$b|\\n"]),
        ("a $'x' $'\\x72m'", &["a|x|~\\x72m"]),
        ("a {b,c} HEAD@{1} {}", &["a|~{b,c}|HEAD@{1}|{}"]),
        ("a *.rs", &["a|*.rs"]),
        ("a ~/x ~bob", &["a|~/x|~bob"]),
        ("a $", &["a|~$"]),
    ];
    for (text, expected) in table {
        assert_eq!(shown(text), *expected, "{text}");
    }
    assert!(parse("a *.rs").commands[0].words[1].glob);
    assert!(!parse("a '*.rs'").commands[0].words[1].glob);
}

#[test]
fn redirections() {
    let table: &[(&str, &[&str])] = &[
        ("a > b", &["a", ">b"]),
        ("a >> b", &["a", ">b"]),
        ("a >| b", &["a", ">b"]),
        ("a 2> b", &["a", ">b"]),
        ("a &> b", &["a", ">b"]),
        ("a >& b", &["a", ">b"]),
        ("a <> b", &["a", ">b"]),
        ("a < b", &["a", "<b"]),
        ("> b", &[">b"]),
        ("a > /dev/null 2>&1", &["a"]),
        ("a >&2", &["a"]),
        ("a > $X", &["a", ">$X"]),
        ("(a) > b", &["a", ">b"]),
        ("while a; do b; done > c", &["a", "b", ">c"]),
    ];
    for (text, expected) in table {
        assert_eq!(shown(text), *expected, "{text}");
    }
}

#[test]
fn doubts() {
    let table: &[(&str, &[&str])] = &[
        ("git() { rm x; }; git", &["rm|x", "git", "?it defines a function"]),
        ("$X a", &["~$X|a", "?the name of a command is only known when it runs"]),
        ("/bin/r? a", &["/bin/r?|a", "?the name of a command is only known when it runs"]),
        ("echo $((x))", &["echo|~$((x))", "?it calculates"]),
        ("((x++))", &["?it calculates"]),
        ("[[ a -eq b ]]", &["?it calculates"]),
        ("for PATH in x; do a; done", &["a", "?it sets the variable PATH"]),
        ("echo ${x@P}", &["echo|~${x@P}", "?an expansion runs what it holds"]),
        ("echo ${x:=1}", &["echo|~${x:=1}", "?an expansion sets a variable"]),
        ("a <((b <<E\n$(c)\nE\n))", &["b", "E", "a|~<(…)", "?its here-document is not understood"]),
        ("! time a", &["time|a", "?a reserved word stands where a command should"]),
        ("a[ b ]=c d", &["a[|b|]=c|d", "?the name of a command is only known when it runs"]),
        ("a >&-b", &["a", "?a redirection is not understood"]),
        ("$'\\\n' a", &["|a", "?a word is not understood"]),
        ("echo 'a", &["?its syntax is not understood"]),
        ("a (", &["?its syntax is not understood"]),
        ("a\rb", &["?it holds control characters"]),
    ];
    for (text, expected) in table {
        assert_eq!(shown(text), *expected, "{text}");
    }
    assert_eq!(parse(&"a ".repeat(60_000)).doubts, ["it is too long or nested too deeply"]);
}

/// Text in which a command `MARK` certainly runs (or its syntax is wrong).
fn around(inner: BoxedStrategy<String>) -> BoxedStrategy<String> {
    let frames = [
        "a; @",
        "a && @",
        "@ | b",
        "@ & b",
        "a\n@",
        "(@)",
        "{ @; }",
        "! @",
        "a $(@)",
        "a \"$(@)\"",
        "a <(@)",
        "if @; then b; fi",
        "while @; do b; done",
        "for x in y; do @; done",
        "a <<E\n$(@)\nE\n",
        "X=1 @ > f",
        "case x in x) @;; esac",
        "[[ -n $(@) ]]",
        "a ${x:-$(@)}",
        "f() { @; }",
    ];
    (inner, proptest::sample::select(frames.to_vec()))
        .prop_map(|(inner, frame)| frame.replace('@', &inner))
        .boxed()
}

proptest! {
    #[test]
    fn a_command_is_found_wherever_it_stands(text in Just("MARK x".to_owned()).boxed().prop_recursive(5, 32, 1, |inner| around(inner.boxed()))) {
        let script = parse(&text);
        let found = script.commands.iter().any(|c| c.words.iter().any(|word| word.text == "MARK"));
        prop_assert!(found || !script.doubts.is_empty(), "{:?}", script);
    }

    #[test]
    fn nothing_that_is_typed_breaks_it(text in "[a-c {}()\\[\\]<>|&;$`'\"\\\\~#!*?=0-9\n-]{0,40}") {
        let _ = parse(&text);
        let _ = super::super::unwrap::readings(&parse(&text));
    }
}

#[test]
fn deep_nesting_is_survived() {
    let frames = [
        ("$(", ")"),
        ("(", ")"),
        ("{ ", "; }"),
        ("if ", "; then x; fi"),
        ("`", "`"),
        ("\"$(", ")\""),
        ("${x:-", "}"),
        ("<(", ")"),
        ("! ", ""),
        ("$((", "))"),
        ("a[", "]"),
        ("[[ ( ", " ) ]]"),
        ("'(' $(", ")"),
        ("x=(", ")"),
        ("f() (", ")"),
        ("{a,", "}"),
        ("case x in (", ") a;; esac"),
    ];
    for (open, close) in frames {
        for depth in [MAX_DEPTH, MAX_OPENERS - 1, 10_000] {
            let _ = parse(&format!("{}x{}", open.repeat(depth), close.repeat(depth)));
        }
    }
    assert_eq!(parse(&"$(".repeat(1_000)).doubts, ["it is too long or nested too deeply"]);
}
