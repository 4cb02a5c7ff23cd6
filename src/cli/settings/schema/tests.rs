//! Schema and loader agree: every key that is documented is taken, and nothing else silently.

use super::*;
use crate::cli::settings::{Loaded, Trust, load};
use crate::store::paths::Paths;

/// A value that the schema allows; rules have to be rules, so every text is one.
fn sample(schema: &Value) -> Value {
    if let Some(first) = ["enum", "oneOf", "anyOf"].iter().find_map(|key| schema.get(key)?.get(0)) {
        return if schema.get("enum").is_some() { first.clone() } else { sample(first) };
    }
    if let Some(only) = schema.get("const") {
        return only.clone();
    }
    match kind(schema).as_str() {
        "string" => json!("Read"),
        "integer" => json!(2),
        "number" => json!(0.5),
        "boolean" => json!(true),
        "array" => json!([schema.get("items").map(sample)]),
        "object" => {
            let known = schema.get("properties").and_then(Value::as_object);
            let known = known.into_iter().flatten().map(|(key, inner)| (key.clone(), sample(inner)));
            let more = schema.get("additionalProperties").filter(|more| more.is_object());
            Value::Object(known.chain(more.map(|more| ("own".to_owned(), sample(more)))).collect())
        }
        _ => Value::Null,
    }
}

/// Its type; of several the first that is not null. Empty for what may be anything.
fn kind(schema: &Value) -> String {
    let types = match schema.get("type") {
        Some(Value::String(one)) => return one.clone(),
        Some(Value::Array(types)) => types.clone(),
        _ => Vec::new(),
    };
    types.iter().filter_map(Value::as_str).find(|t| *t != "null").unwrap_or_default().to_owned()
}

/// All places of a value, the value itself last, as JSON pointers.
fn places(value: &Value, at: &str, all: &mut Vec<String>) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(n, value)| (n.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (key, value) in inner {
        places(value, &format!("{at}/{key}"), all);
    }
    all.push(at.to_owned());
}

/// The schema of a place.
fn schema_at<'a>(schema: &'a Value, pointer: &str) -> &'a Value {
    let step = |schema: &'a Value, key: &str| {
        let schema = schema.get("anyOf").and_then(|any| any.get(0)).unwrap_or(schema);
        let known = schema.get("properties").and_then(|all| all.get(key));
        known
            .or_else(|| schema.get("items"))
            .or_else(|| schema.get("additionalProperties"))
            .unwrap_or(&Value::Null)
    };
    pointer.split('/').skip(1).fold(schema, step)
}

fn taken(text: &Value) -> Result<Loaded, String> {
    let dir = tempfile::tempdir().expect("temp dir");
    let paths = Paths::from_home(&dir.path().join("home"));
    load(&paths, dir.path(), Some(&text.to_string()), Trust::Full).map_err(|error| error.report.message)
}

#[test]
fn every_documented_key_is_taken_without_a_word() {
    let whole = sample(&schema());
    assert_eq!(taken(&whole).expect("loads").warnings, Vec::<String>::new());
    for (key, value) in whole.as_object().expect("an object") {
        let alone = json!({ key: value });
        assert_eq!(taken(&alone).expect(key).warnings, Vec::<String>::new(), "{key}");
    }
}

#[test]
fn a_value_of_another_type_is_refused_by_its_key() {
    let (schema, whole) = (schema(), sample(&schema()));
    let mut all = Vec::new();
    places(&whole, "", &mut all);
    let mut tried = 0;
    for place in all.iter().filter(|place| !place.is_empty()) {
        let wrong = match schema_at(&schema, place) {
            anything if anything.get("type").is_none() && anything.get("oneOf").is_none() => continue,
            wanted if kind(wanted) == "string" && wanted.get("enum").is_none() => json!(5),
            _ => json!("no such value"),
        };
        let mut file = whole.clone();
        *file.pointer_mut(place).expect("a place") = wrong;
        let error = taken(&file).expect_err(place);
        let key = place.split('/').nth(1).expect("a key");
        assert!(error.contains(key), "{place}: {error}");
        tried += 1;
    }
    assert!(tried > 30, "only {tried} keys");
}

#[test]
fn an_unknown_key_is_a_warning_wherever_it_stands() {
    let (schema, whole) = (schema(), sample(&schema()));
    let mut all = Vec::new();
    places(&whole, "", &mut all);
    let closed = |place: &&String| {
        let wanted = schema_at(&schema, place);
        wanted.get("properties").is_some() && wanted.get("additionalProperties").is_none()
    };
    for place in all.iter().filter(closed) {
        let mut file = whole.clone();
        let object = file.pointer_mut(place).and_then(Value::as_object_mut).expect("an object");
        object.insert("noSuchKey".to_owned(), json!(1));
        let warnings = taken(&file).expect(place).warnings;
        assert_eq!(warnings.len(), 1, "{place}: {warnings:?}");
        assert!(warnings[0].contains("noSuchKey"), "{warnings:?}");
    }
}

#[test]
fn every_key_has_its_words_and_plain_values_their_default() {
    let schema = schema();
    let mut all = Vec::new();
    places(&sample(&schema), "", &mut all);
    for place in all.iter().filter(|place| !place.is_empty()) {
        let is_item = place.rsplit('/').next().is_some_and(|key| key == "own" || key.parse::<u32>().is_ok());
        let described = schema_at(&schema, place).get("description").is_some();
        assert!(described || is_item, "{place} has no description");
    }
    // Words for people, who know neither types nor modules.
    let text = schema.to_string();
    for code in ["`None`", "`Some", "[`", "::", "serde", "Option<"] {
        assert!(!text.contains(code), "{code} in {text}");
    }
    assert!(!text.contains(r#""additionalProperties":false"#), "an unknown key is a warning");
    assert_eq!(schema_at(&schema, "/retry/maxAttempts").get("default"), Some(&json!(8)));
}

/// Every field of the settings is read by some code that is not this file's: `.field`.
#[test]
fn every_key_is_read_somewhere() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut code = String::new();
    let mut dirs = vec![root.clone()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).expect("source").flatten() {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
            } else if path != root.join("wire/settings.rs") && !path.ends_with("tests.rs") {
                code.push_str(&std::fs::read_to_string(&path).expect("source"));
            }
        }
    }
    let mut all = Vec::new();
    places(&sample(&schema()), "", &mut all);
    for place in &all {
        let key = place.rsplit('/').next().expect("a part");
        if key.is_empty() || key == "own" || key.parse::<u32>().is_ok() {
            continue;
        }
        let mut field = String::new();
        for c in key.chars() {
            if c.is_uppercase() || (c == '5' && key == "cacheWrite5m") {
                field.push('_');
            }
            field.extend(c.to_lowercase());
        }
        // Names of events begin with a capital; `type` is a word of the language.
        let field = if key == "type" { "kind" } else { field.trim_start_matches('_') };
        assert!(code.contains(&format!(".{field}")), "nothing reads {place} (`.{field}`)");
    }
}
