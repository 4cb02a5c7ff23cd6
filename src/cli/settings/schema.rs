//! The one JSON Schema of the settings, derived from the types that read them.
//!
//! Owns how it is rendered, and what of it the loader uses: where an object is wanted. Promises that
//! what it documents is what the loader takes; the tests walk through it and try every key.

use crate::wire::settings::Settings;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The address by which the schema calls itself; nothing is fetched from there.
const ID: &str = "urn:festoon:settings";

/// What a reader of the schema should know first. Objects are not closed: an unknown key is no error.
const ABOUT: &str = "A settings file of festoon. Every key is optional. A key that is not listed here is ignored, with \
                     a warning that names the file and the key; a value of another type is an error.";

/// The schema, draft 2020-12, without references, so that it can be read from top to bottom.
pub fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<Settings>().to_value();
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("$id".to_owned(), json!(ID));
        schema.insert("title".to_owned(), json!("Settings of festoon"));
        schema.insert("description".to_owned(), json!(ABOUT));
    }
    schema
}

/// The first place of a file where the schema wants an object and something else stands, as a path
/// (`limits`, `providers.ollama`). serde itself would take a list for an object.
pub(super) fn no_object(file: &Map<String, Value>) -> Option<String> {
    in_object(&schema(), file, "")
}

fn in_object(schema: &Value, object: &Map<String, Value>, path: &str) -> Option<String> {
    object.iter().find_map(|(key, value)| {
        let known = schema.get("properties").and_then(|all| all.get(key));
        let wanted = known.or_else(|| schema.get("additionalProperties"))?;
        let here = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        in_value(wanted, value, &here)
    })
}

fn in_value(wanted: &Value, value: &Value, path: &str) -> Option<String> {
    match value {
        Value::Object(object) => in_object(wanted, object, path),
        _ if wanted.get("type") == Some(&json!("object")) => Some(path.to_owned()),
        Value::Array(items) => {
            let item = wanted.get("items")?;
            let of = |(n, value): (usize, &Value)| in_value(item, value, &format!("{path}[{n}]"));
            items.iter().enumerate().find_map(of)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
