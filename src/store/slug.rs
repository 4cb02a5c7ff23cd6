//! From a display name to its slug: ASCII, safe as a file name, one for each name.
//!
//! Owns what makes two names the same: NFKC, case-folded, trimmed (contract §16). Promises that a
//! slug is its own slug, that different names get different slugs (up to 32 bits of hash), and that
//! the same name in other clothes gets the same. Never lets a path through.

use super::error::StoreError;
use crate::wire::ids::{AgentName, MAX_NAME_CHARS, RESERVED, TeamName};
use sha2::{Digest, Sha256};
use std::path::Path;
use unicode_normalization::UnicodeNormalization;
use unicode_security::skeleton;

/// Longest readable part before a hash; with it a slug is a name of at most 64 characters itself.
const READABLE: usize = 48;
/// Longest encoded path component that is kept as it is; the file system takes 255.
const COMPONENT: usize = 180;

/// The slug of an agent's display name, which may be a slug already. Reserved names are refused.
pub fn agent_name(display: &str) -> Result<AgentName, StoreError> {
    let slug = slug(display)?;
    if RESERVED.contains(&slug.as_str()) {
        return Err(refused(display, "it is reserved"));
    }
    if looks_reserved(display.trim()) {
        return Err(refused(display, "it looks like a reserved name (team-lead, user, system or main)"));
    }
    AgentName::new(slug).map_err(|_| refused(display, "it has no slug"))
}

/// The slug of a team's display name, which may be a slug already.
pub fn team_name(display: &str) -> Result<TeamName, StoreError> {
    TeamName::new(slug(display)?).map_err(|_| refused(display, "it has no slug"))
}

fn slug(display: &str) -> Result<String, StoreError> {
    let trimmed = display.trim();
    if trimmed.is_empty() {
        return Err(refused(display, "it is empty"));
    }
    if trimmed.chars().count() > MAX_NAME_CHARS {
        return Err(refused(display, "it is longer than 64 characters"));
    }
    let identity = identity(trimmed);
    if RESERVED.contains(&identity.as_str()) {
        return Err(refused(display, "it is reserved"));
    }
    if identity.starts_with('.') {
        return Err(refused(display, "it begins with a dot"));
    }
    if let Some(bad) = identity.chars().find(|c| matches!(c, '/' | '\\' | '@') || is_control(*c)) {
        let why = if is_control(bad) { "it holds a control character" } else { "it holds '/', '\\' or '@'" };
        return Err(refused(display, why));
    }
    if !identity.chars().any(|c| c.is_alphanumeric() && !is_filler(c)) {
        return Err(refused(display, "it holds no letter or digit"));
    }
    if identity.starts_with('-') {
        return Err(refused(display, "it begins with a dash, like an option of a command"));
    }
    // One character may be several after NFKC (㎓), so the length is looked at again.
    if identity.len() <= MAX_NAME_CHARS && identity.bytes().all(is_plain) {
        return Ok(identity);
    }
    Ok(format!("{}-{}", readable(&identity), hex(&Sha256::digest(identity.as_bytes())[..4])))
}

/// What makes two names the same name.
fn identity(trimmed: &str) -> String {
    let normal: String = trimmed.nfkc().collect();
    let folded: String = normal.chars().flat_map(fold).nfkc().collect();
    folded.trim().to_owned()
}

/// Case folding by way of the upper case, which joins `ß` with `ss` and `ς` with `σ`. The dotless
/// i is a letter of its own.
fn fold(c: char) -> Vec<char> {
    match c {
        'ı' => vec![c],
        _ => c.to_uppercase().flat_map(char::to_lowercase).collect(),
    }
}

/// Whether a person could take it for a reserved name: the same to the eye, in whatever script or case.
fn looks_reserved(name: &str) -> bool {
    let seen = look(name);
    RESERVED.iter().any(|word| look(word) == seen)
}

/// What is the same for names that look alike: the skeleton of Unicode TS 39, in which characters that show
/// nothing are gone, with all dashes and all cases as one. Twice, since the table knows the capital
/// Т of Cyrillic as T, and its small т as nothing else.
fn look(name: &str) -> String {
    let dashed: String = name.nfkc().map(|c| if is_dash(c) { '-' } else { c }).collect();
    let once: String = skeleton(&dashed).flat_map(char::to_lowercase).collect();
    // The capital I stands for an l there, and a small l for itself.
    skeleton(&once).map(|c| if matches!(c, 'l' | 'ı') { 'i' } else { c }).collect()
}

/// The dashes and hyphens of Unicode, and what is drawn like one.
fn is_dash(c: char) -> bool {
    matches!(
        c,
        '\u{2010}'
            ..='\u{2015}'
                | '\u{2043}'
                | '\u{207b}'
                | '\u{208b}'
                | '\u{2212}'
                | '\u{058a}'
                | '\u{05be}'
                | '\u{1806}'
                | '\u{2e3a}'
                | '\u{2e3b}'
                | '\u{30fc}'
                | '\u{fe58}'
                | '\u{fe63}'
                | '\u{ff0d}'
                | '\u{ff70}'
    )
}

/// Control characters, and those that reorder or break the line they stand in.
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Letters by their class that show nothing.
fn is_filler(c: char) -> bool {
    matches!(c, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}')
}

fn is_plain(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'-' || b == b'_'
}

fn readable(identity: &str) -> String {
    let mut text = String::new();
    for c in any_ascii::any_ascii(identity).chars() {
        match c.to_ascii_lowercase() {
            c if c.is_ascii_alphanumeric() || c == '_' => text.push(c),
            _ if text.ends_with('-') || text.is_empty() => {}
            _ => text.push('-'),
        }
        if text.len() >= READABLE {
            break;
        }
    }
    let text = text.trim_end_matches('-');
    if text.is_empty() { "name".to_owned() } else { text.to_owned() }
}

fn refused(name: &str, why: &'static str) -> StoreError {
    StoreError::Name { name: name.chars().take(2 * MAX_NAME_CHARS).collect(), why }
}

/// A path as one component, readable and without collisions: `/` becomes `-`, letters, digits, `.`
/// and `_` stay, every other byte is `=` and two hex digits; what would be too long ends in a hash.
pub(super) fn of_path(path: &Path) -> String {
    shortened(path.as_os_str().as_encoded_bytes(), b"._", Some(b'/'))
}

/// An id as one component: itself when it is made of letters, digits, `-`, `_`, `.`, `@` and does
/// not begin with a dot, else escaped in the same manner.
pub(super) fn of_id(id: &str) -> String {
    shortened(id.as_bytes(), b"-_.@", None)
}

/// The id behind a component of [`of_id`]; `None` when nothing, or not all of it, is to be read there.
pub(super) fn id_of(component: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = component;
    while let Some((plain, escaped)) = rest.split_once('=') {
        bytes.extend_from_slice(plain.as_bytes());
        bytes.push(u8::from_str_radix(escaped.get(..2)?, 16).ok()?);
        rest = &escaped[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok().filter(|id| of_id(id) == component)
}

fn shortened(bytes: &[u8], plain: &[u8], separator: Option<u8>) -> String {
    let mut text = String::new();
    for (i, b) in bytes.iter().enumerate() {
        if Some(*b) == separator {
            text.push('-');
        } else if b.is_ascii_alphanumeric() || (plain.contains(b) && !(i == 0 && *b == b'.')) {
            text.push(char::from(*b));
        } else {
            text.push('=');
            text.push_str(&hex(&[*b]));
        }
    }
    if text.is_empty() {
        return "=".to_owned();
    }
    if text.len() > COMPONENT {
        // Longer than any that is kept, so it cannot be one of those.
        text.truncate(COMPONENT - 20);
        text.push('=');
        text.push_str(&hex(&Sha256::digest(bytes)[..16]));
    }
    text
}

/// Lower-case hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |n: u8| char::from(DIGITS[usize::from(n & 15)]);
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(*b)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn name(display: &str) -> String {
        agent_name(display).unwrap_or_else(|e| panic!("{e}")).as_str().to_owned()
    }

    #[test]
    fn plain_names_are_their_own_slug_and_clothes_do_not_matter() {
        for (display, slug) in
            [("anna", "anna"), (" Anna ", "anna"), ("ＡＮＮＡ", "anna"), ("a-1_b", "a-1_b")]
        {
            assert_eq!(name(display), slug);
        }
        assert_eq!(name("STRASSE über"), name("straße Über"));
        assert_eq!(name("u\u{308}ber"), name("über"));
        assert_eq!(name("ΣΊΣΥΦΟΣ"), name("σίσυφος"));
        assert_eq!(name("Anna Smith"), name("anna smith"));
    }

    #[test]
    fn different_names_have_different_slugs() {
        let names = [
            "anna smith",
            "anna-smith",
            "anna_smith",
            "anna  smith",
            "anna.smith",
            "änna smith",
            "anna\u{200b}",
            "ılk",
            "ilk",
            "北京",
            "背景",
            "Пётр",
            "petr",
            "pëtr",
            "ß1",
            "ss1!",
            "é",
            "e",
            "１²",
            "12",
            "1 2",
        ];
        let mut seen: HashMap<String, &str> = HashMap::new();
        for display in names {
            if display == "１²" {
                assert_eq!(name(display), name("12"));
                continue;
            }
            if let Some(other) = seen.insert(name(display), display) {
                panic!("{display:?} and {other:?} have the same slug");
            }
        }
        assert!(name("北京").starts_with("beijing-") || name("北京").starts_with("bei"), "{}", name("北京"));
    }

    const LOOKS: &str = "it looks like a reserved name (team-lead, user, system or main)";

    #[test]
    fn names_beside_the_reserved_ones_are_free() {
        for display in
            ["team-lead-2", "users", "Usha", "маин", "Märit", "user-2", "lead", "teamlead", "主", "a-b"]
        {
            agent_name(display).unwrap_or_else(|e| panic!("{e}"));
        }
    }

    #[test]
    fn names_that_nobody_may_have() {
        let long = "x".repeat(65);
        for (display, why) in [
            ("", "it is empty"),
            (" \t", "it is empty"),
            (".", "it begins with a dot"),
            ("../x", "it begins with a dot"),
            (".hidden", "it begins with a dot"),
            ("．．／x", "it begins with a dot"),
            ("a/b", "it holds '/', '\\' or '@'"),
            ("a\\b", "it holds '/', '\\' or '@'"),
            ("a@b", "it holds '/', '\\' or '@'"),
            ("a／b", "it holds '/', '\\' or '@'"),
            ("a\0b", "it holds a control character"),
            ("a\nb", "it holds a control character"),
            ("a\u{202e}b", "it holds a control character"),
            ("!?", "it holds no letter or digit"),
            ("---", "it holds no letter or digit"),
            ("\u{200b}\u{200d}", "it holds no letter or digit"),
            ("\u{3164}\u{115f}", "it holds no letter or digit"),
            ("Team-Lead", "it is reserved"),
            ("ＵＳＥＲ", "it is reserved"),
            ("system ", "it is reserved"),
            ("main", "it is reserved"),
            ("*", "it is reserved"),
            (long.as_str(), "it is longer than 64 characters"),
            ("--help", "it begins with a dash, like an option of a command"),
            ("-x", "it begins with a dash, like an option of a command"),
            ("－x", "it begins with a dash, like an option of a command"),
            ("team\u{2011}lead", LOOKS),
            ("team\u{2014}lead", LOOKS),
            ("team\u{30fc}lead", LOOKS),
            ("teаm-lead", LOOKS),
            ("ТЕАМ-LЕАD", LOOKS),
            ("team\u{200b}-lead", LOOKS),
            ("team\u{ad}-lead", LOOKS),
            ("tearn-lead", LOOKS),
            ("team-Iead", LOOKS),
            ("usеr", LOOKS),
            ("UЅER", LOOKS),
            ("ѕystem", LOOKS),
            ("mаin", LOOKS),
            ("maın", LOOKS),
        ] {
            match agent_name(display) {
                Err(StoreError::Name { why: found, .. }) => assert_eq!(found, why, "{display:?}"),
                other => panic!("{display:?}: {other:?}"),
            }
        }
        assert_eq!(name(&"x".repeat(64)).len(), 64);
        assert_eq!(team_name("Review").map(|t| t.as_str().to_owned()).ok(), Some("review".to_owned()));
    }

    #[test]
    fn directories_are_encoded_without_collisions() {
        let encoded = |text: &str| of_path(Path::new(text));
        assert_eq!(encoded("/home/u/my-app"), "-home-u-my=2dapp");
        assert_ne!(encoded("/a/b"), encoded("/a-b"));
        assert_ne!(encoded("/a=2db"), encoded("/a-b"));
        let (one, two) = (encoded(&"/long".repeat(100)), encoded(&format!("{}x", "/long".repeat(99))));
        assert_ne!(one, two);
        assert!(one.len() < 220);
    }

    #[test]
    fn ids_never_leave_their_directory() {
        assert_eq!(of_id("anna@review"), "anna@review");
        assert_eq!(of_id("../../x"), "=2e.=2f..=2fx");
        assert_eq!(of_id(""), "=");
        assert_eq!(of_id("."), "=2e");
        for id in ["../../x", ".", "", "plain-1", "a=2eb", "mit Lücke"] {
            let back = if id.is_empty() { None } else { Some(id.to_owned()) };
            assert_eq!(id_of(&of_id(id)), back, "{id:?}");
        }
        for odd in ["=zz", "=2", "a b", "=2E", "=c3"] {
            assert_eq!(id_of(odd), None, "{odd:?}");
        }
        assert_eq!(id_of(&of_id(&"x".repeat(300))), None, "the hash does not say");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_slug_is_its_own_slug(display in "\\PC{1,64}") {
            if let Ok(first) = agent_name(&display) {
                prop_assert_eq!(agent_name(first.as_str()).expect("a slug is a name"), first);
            }
        }

        #[test]
        fn encoded_components_are_safe_and_distinct(a in "\\PC{0,80}", b in "\\PC{0,80}") {
            let (x, y) = (of_id(&a), of_id(&b));
            prop_assert_eq!(a == b, x == y);
            prop_assert!(!x.is_empty() && !x.contains('/') && x != "." && x != "..");
            let (x, y) = (of_path(Path::new(&a)), of_path(Path::new(&b)));
            prop_assert_eq!(a == b, x == y);
        }
    }
}
