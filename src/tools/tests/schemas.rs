//! Schemas that every validator of a provider takes: plain objects of typed fields.

use serde_json::Value;

/// What strict validators refuse at the top of a tool's input.
const NOT_AT_THE_TOP: [&str; 6] = ["anyOf", "oneOf", "allOf", "not", "enum", "$ref"];

/// Every value has a type, every array its items, every required field is there.
fn faults(at: &str, schema: &Value, found: &mut Vec<String>) {
    match schema["type"].as_str() {
        None => found.push(format!("{at}: no type")),
        Some("array") if schema["items"].is_null() => found.push(format!("{at}: no items")),
        Some("array") => faults(&format!("{at}[]"), &schema["items"], found),
        Some("object") => {
            let fields = schema["properties"].as_object();
            let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            for name in names.filter(|name| fields.is_none_or(|fields| !fields.contains_key(*name))) {
                found.push(format!("{at}.{name}: required and not there"));
            }
            for (name, field) in fields.into_iter().flatten() {
                faults(&format!("{at}.{name}"), field, found);
            }
        }
        Some(_) => {}
    }
}

#[test]
fn every_schema_is_an_object_of_typed_fields() {
    let mut found = Vec::new();
    for tool in crate::tools::all() {
        let spec = tool.spec();
        let schema: Value = serde_json::from_str(&spec.schema).expect("JSON");
        assert_eq!(schema["type"], "object", "{}", spec.name);
        assert_eq!(schema["additionalProperties"], false, "{}", spec.name);
        found.extend(
            NOT_AT_THE_TOP
                .iter()
                .filter(|key| !schema[**key].is_null())
                .map(|key| format!("{}: {key} at the top", spec.name)),
        );
        faults(&spec.name, &schema, &mut found);
    }
    assert_eq!(found, Vec::<String>::new());
}
