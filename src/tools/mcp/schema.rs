//! A server's input schema as the wires take it, with its bytes left alone where they can be.
//!
//! Models' servers want an object schema without alternatives at its top. What is that already is passed
//! on byte for byte; else the least is changed: a missing `type` is added, `$schema` goes, alternatives
//! at the top become one object with all their fields. The MCP server checks its input itself.

use serde_json::{Map, Value};
use std::sync::Arc;

/// What takes any object.
const ANY: &str = r#"{"type":"object","properties":{}}"#;
/// Keywords of alternatives.
const ALTERNATIVES: [&str; 3] = ["anyOf", "oneOf", "allOf"];

/// The schema to declare for one that a server sent as this text.
pub fn declared(sent: &str) -> Arc<str> {
    let Ok(Value::Object(mut schema)) = serde_json::from_str::<Value>(sent) else { return ANY.into() };
    let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
    let has_alternatives = ALTERNATIVES.iter().any(|key| schema.contains_key(*key));
    // Some wires refuse an object without this member.
    let has_fields = schema.get("properties").is_some_and(Value::is_object);
    if is_object && has_fields && !has_alternatives && !schema.contains_key("$schema") {
        return sent.into();
    }
    schema.remove("$schema");
    for key in ALTERNATIVES {
        if let Some(Value::Array(parts)) = schema.remove(key) {
            join(&mut schema, parts, key);
        }
    }
    schema.insert("type".to_owned(), Value::from("object"));
    if !schema.get("properties").is_some_and(Value::is_object) {
        schema.insert("properties".to_owned(), Value::Object(Map::new()));
    }
    Value::Object(schema).to_string().into()
}

/// Takes the fields of the parts into the schema. What all parts demand stays demanded: every part of
/// `allOf` counts, of the others only what each of them demands.
fn join(schema: &mut Map<String, Value>, parts: Vec<Value>, keyword: &str) {
    let mut demanded: Option<Vec<Value>> = None;
    let mut fields = match schema.remove("properties") {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    for part in parts {
        let Value::Object(mut part) = part else { continue };
        if let Some(Value::Object(more)) = part.remove("properties") {
            for (name, field) in more {
                fields.entry(name).or_insert(field);
            }
        }
        let required = part.remove("required").and_then(|r| r.as_array().cloned()).unwrap_or_default();
        demanded = Some(match demanded {
            None => required,
            Some(so_far) if keyword == "allOf" => so_far.into_iter().chain(required).collect(),
            Some(so_far) => so_far.into_iter().filter(|name| required.contains(name)).collect(),
        });
        // Definitions that fields refer to.
        for key in ["$defs", "definitions"] {
            if let Some(Value::Object(more)) = part.remove(key)
                && let Value::Object(all) = schema.entry(key).or_insert_with(|| Value::Object(Map::new()))
            {
                all.extend(more);
            }
        }
    }
    schema.insert("properties".to_owned(), Value::Object(fields));
    let mut required = schema.remove("required").and_then(|r| r.as_array().cloned()).unwrap_or_default();
    for name in demanded.unwrap_or_default() {
        if !required.contains(&name) {
            required.push(name);
        }
    }
    if !required.is_empty() {
        schema.insert("required".to_owned(), Value::Array(required));
    }
    // It would refuse the fields of the other parts.
    schema.remove("additionalProperties");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_can_be_declared_keeps_its_bytes() {
        let sent = "{ \"type\":\"object\", \"properties\" : {\"z\":{\"type\":\"number\",\"minimum\":1e0},\"a\":{}},\"required\":[\"z\"]}";
        assert_eq!(&*declared(sent), sent);
    }

    #[test]
    fn what_cannot_is_changed_as_little_as_can_be() {
        let (a, b) = (json!({"type": "string"}), json!({"type": "integer"}));
        let cases = [
            (json!({}), json!({"type": "object", "properties": {}})),
            (json!({"type": "object"}), json!({"type": "object", "properties": {}})),
            (json!({"properties": {"a": a}}), json!({"type": "object", "properties": {"a": a}})),
            (
                json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"a": a},
                       "additionalProperties": false}),
                json!({"type": "object", "properties": {"a": a}, "additionalProperties": false}),
            ),
            (
                json!({"anyOf": [{"properties": {"a": a, "b": b}, "required": ["a", "b"]},
                                 {"properties": {"b": a}, "required": ["b"], "$defs": {"d": a}}],
                       "properties": {"c": b}, "required": ["c"]}),
                json!({"type": "object", "properties": {"a": a, "b": b, "c": b}, "required": ["c", "b"],
                       "$defs": {"d": a}}),
            ),
            (
                json!({"type": "object", "allOf": [{"properties": {"a": a}, "required": ["a"]},
                                                   {"properties": {"b": b}, "required": ["b"]}],
                       "additionalProperties": false}),
                json!({"type": "object", "properties": {"a": a, "b": b}, "required": ["a", "b"]}),
            ),
        ];
        for (sent, wanted) in cases {
            let made: Value = serde_json::from_str(&declared(&sent.to_string())).expect("JSON");
            assert_eq!(made, wanted, "{sent}");
        }
        for sent in ["", "7", "[]", "null"] {
            assert_eq!(&*declared(sent), ANY, "{sent:?}");
        }
    }
}
