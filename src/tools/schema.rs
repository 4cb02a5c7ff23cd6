//! Checks a tool's input against its schema, and says what is wrong so that a model can mend it.
//!
//! Validators are compiled on first use and kept by schema text, for all agents of the process. A
//! schema that cannot be compiled (a server's) constrains nothing but that the input is an object.

use super::tool::ToolSpec;
use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Errors told at once; the rest is counted.
const MAX_ERRORS: usize = 10;

type Compiled = Option<Arc<Validator>>;

fn validator(schema: &Arc<str>) -> Compiled {
    static CACHE: OnceLock<Mutex<HashMap<Arc<str>, Compiled>>> = OnceLock::new();
    let mut cache = CACHE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = cache.get(schema) {
        return known.clone();
    }
    let compiled = serde_json::from_str::<Value>(schema)
        .ok()
        .and_then(|schema| jsonschema::validator_for(&schema).ok())
        .map(Arc::new);
    cache.insert(Arc::clone(schema), compiled.clone());
    compiled
}

/// Checks an input.
///
/// # Errors
/// What is wrong with which field and what is expected, for a model.
pub fn validate(spec: &ToolSpec, input: &Value) -> Result<(), String> {
    let mut faults: Vec<String> = Vec::new();
    let mut more = 0;
    if !input.is_object() {
        faults.push(format!("the input must be an object, not {}", kind(input)));
    } else if let Some(validator) = validator(&spec.schema) {
        for error in validator.iter_errors(input) {
            if faults.len() < MAX_ERRORS {
                faults.push(fault(&error));
            } else {
                more += 1;
            }
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    if more > 0 {
        faults.push(format!("and {more} more"));
    }
    let mut text = format!("The input does not fit the schema of {}; nothing was run.\n", spec.name);
    for fault in faults {
        let _ = writeln!(text, "- {fault}");
    }
    let _ = write!(text, "Expected: {}", shape(&spec.schema));
    Err(text)
}

/// Writes whole numbers as integers, wherever they stand: to JSON `1e4`, `30000.0` and `30000` are the same
/// kind of number, and a schema's `integer` means all of them.
pub fn whole_numbers(value: &mut Value) {
    /// From here on not every whole number has a float of its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.as_i64().is_none() && number.as_u64().is_none() => {
            if let Some(float) = number.as_f64().filter(|f| f.fract() == 0.0 && f.abs() < EXACT) {
                #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
                let whole = float as i64;
                *value = Value::from(whole);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn fault(error: &ValidationError<'_>) -> String {
    let place = place(error.instance_path().as_str());
    let at = if place.is_empty() { String::new() } else { format!("{place}: ") };
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            format!("{at}there is no field {}", unexpected.join(", "))
        }
        ValidationErrorKind::Required { property } => {
            format!("{at}the field {} is missing", property.as_str().unwrap_or_default())
        }
        ValidationErrorKind::Type { .. } => {
            format!("{at}{} (it is {})", error.masked(), kind(error.instance()))
        }
        // Masked: the value itself may be a whole file.
        _ => format!("{at}{}", error.masked()),
    }
}

/// `/todos/0/status` as people write it: `todos[0].status`.
fn place(pointer: &str) -> String {
    let mut text = String::new();
    for part in pointer.split('/').skip(1) {
        if part.parse::<usize>().is_ok() {
            let _ = write!(text, "[{part}]");
        } else {
            let dot = if text.is_empty() { "" } else { "." };
            let _ = write!(text, "{dot}{}", part.replace("~1", "/").replace("~0", "~"));
        }
    }
    text
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The fields of a schema with their types, optional ones with `?`.
fn shape(schema: &str) -> String {
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let empty = Map::new();
    let fields = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, field)| {
            let mark = if required.contains(&name.as_str()) { "" } else { "?" };
            format!("{name}{mark}: {}", type_of(field))
        })
        .collect();
    format!("{{ {} }}", fields.join(", "))
}

fn type_of(field: &Value) -> String {
    if let Some(options) = field.get("enum").and_then(Value::as_array) {
        let options: Vec<String> = options.iter().map(Value::to_string).collect();
        return options.join(" | ");
    }
    match field.get("type") {
        Some(Value::String(name)) if name == "array" => {
            format!("array of {}", field.get("items").map_or_else(|| "any".to_owned(), type_of))
        }
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | "),
        _ => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(schema: &Value) -> ToolSpec {
        ToolSpec { name: "Pick".into(), description: String::new(), schema: schema.to_string().into() }
    }

    fn picking() -> ToolSpec {
        spec(&json!({
            "type": "object",
            "properties": {
                "list": { "type": "array", "items": {
                    "type": "object", "properties": { "a/b": { "type": "integer" } } } },
                "mode": { "enum": ["one", "two"] },
                "path": { "type": "string" },
            },
            "required": ["path"],
            "additionalProperties": false,
        }))
    }

    #[test]
    fn what_fits_passes_and_what_does_not_is_told_field_by_field() {
        assert_eq!(validate(&picking(), &json!({"path": "x", "list": [{"a/b": 1}], "mode": "two"})), Ok(()));
        let wrong = json!({"list": [{"a/b": 1}, {"a/b": "secret"}], "mode": "three", "extra": 1});
        let text = validate(&picking(), &wrong).expect_err("does not fit");
        let mut lines: Vec<&str> = text.lines().collect();
        lines[1..5].sort_unstable();
        assert_eq!(
            lines,
            [
                "The input does not fit the schema of Pick; nothing was run.",
                "- list[1].a/b: value is not of type \"integer\" (it is a string)",
                "- mode: value is not one of \"one\" or \"two\"",
                "- the field path is missing",
                "- there is no field extra",
                "Expected: { list?: array of object, mode?: \"one\" | \"two\", path: string }",
            ]
        );
    }

    #[test]
    fn whole_numbers_are_integers_however_they_are_written() {
        let text =
            r#"{"a":1e4,"b":[30000.0,-2.0,-0.0],"c":{"d":2.5,"e":1e300,"f":18446744073709551615},"g":"1e4"}"#;
        let mut value: Value = serde_json::from_str(text).expect("JSON");
        whole_numbers(&mut value);
        let wanted = json!({"a": 10_000, "b": [30_000, -2, 0],
                            "c": {"d": 2.5, "e": 1e300, "f": u64::MAX}, "g": "1e4"});
        assert_eq!(value, wanted);
        assert!(value["a"].is_u64() && value["b"][2].is_u64());
    }

    #[test]
    fn an_input_is_always_an_object_also_below_a_broken_schema() {
        let broken = spec(&json!({"type": 7}));
        assert_eq!(validate(&broken, &json!({"any": 1})), Ok(()));
        assert!(validate(&broken, &json!([1])).expect_err("no object").contains("not an array"));
        let remote = spec(&json!({"$ref": "http://127.0.0.1:1/schema.json"}));
        assert_eq!(validate(&remote, &json!({})), Ok(()), "nothing is fetched");
    }
}
