//! Structural schemas, the part of OpenAPI that a definition may have.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

/// The schema of a field that may hold any object.
#[must_use]
pub fn any_object(_: &mut schemars::SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// A structural schema. Reading one refuses every keyword that is not listed here.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct Structural {
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub type_: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    #[serde(rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub enum_: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_items: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_properties: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, Self>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_properties: Option<Box<Self>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Box<Self>>,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields", skip_serializing_if = "Option::is_none")]
    pub preserve_unknown_fields: Option<bool>,
    #[serde(rename = "x-kubernetes-list-type", skip_serializing_if = "Option::is_none")]
    pub list_type: Option<String>,
    #[serde(rename = "x-kubernetes-list-map-keys", skip_serializing_if = "Vec::is_empty")]
    pub list_map_keys: Vec<String>,
    #[serde(rename = "x-kubernetes-validations", skip_serializing_if = "Vec::is_empty")]
    pub validations: Vec<Rule>,
}

/// A condition in CEL, and what is said if it is not met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    pub rule: String,
    pub message: String,
}

impl Structural {
    /// The schema of a type.
    pub(crate) fn of<T: JsonSchema>() -> Result<Self, serde_json::Error> {
        let mut settings = SchemaSettings::draft07();
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
        simplify(&mut schema);
        let mut structural: Self = serde_json::from_value(schema)?;
        structural.sort();
        Ok(structural)
    }

    /// `required` in one order, whatever order the types have.
    fn sort(&mut self) {
        self.required.sort_unstable();
        self.properties.values_mut().for_each(Self::sort);
        let inner = [&mut self.items, &mut self.additional_properties];
        inner.into_iter().flatten().for_each(|inner| inner.sort());
    }
}

/// Rewrites what schemars says in ways that a structural schema has no words for. An optional field is one that may be
/// missing; none may be null.
fn simplify(value: &mut serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::Object(map) => {
            // An enum whose variants have descriptions.
            for keyword in ["oneOf", "anyOf"] {
                if let Some(Value::Array(variants)) = map.remove(keyword) {
                    merge_variants(map, variants);
                }
            }
            if let Some(Value::Array(types)) = map.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_mut_slice() {
                    let only = only.take();
                    map.insert("type".into(), only);
                }
            }
            if let Some(Value::Array(values)) = map.get_mut("enum") {
                values.retain(|value| !value.is_null());
            }
            if map.get("format").is_some_and(|format| format != "date-time") {
                map.remove("format");
            }
            // What has fields of any name says of which kind they are. For all others, the API server drops unknown fields.
            if map.get("additionalProperties").is_some_and(Value::is_boolean) {
                map.remove("additionalProperties");
            }
            // What a field is when it is missing is said in its description.
            map.remove("default");
            map.remove("title");
            for (keyword, value) in map {
                match value {
                    // Fields may have the names of keywords.
                    Value::Object(fields) if keyword == "properties" => fields.values_mut().for_each(simplify),
                    value => simplify(value),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(simplify),
        _ => {}
    }
}

/// Puts the alternatives of an enum into one list. The description of the field stays; those of the variants go.
fn merge_variants(map: &mut serde_json::Map<String, serde_json::Value>, variants: Vec<serde_json::Value>) {
    use serde_json::Value;
    let mut values = Vec::new();
    for mut variant in variants {
        simplify(&mut variant);
        let Value::Object(mut variant) = variant else { continue };
        if variant.get("type").is_some_and(|name| name == "null") {
            continue;
        }
        values.extend(variant.remove("const"));
        if let Some(Value::Array(more)) = variant.remove("enum") {
            values.extend(more);
        }
        for (key, value) in variant {
            map.entry(key).or_insert(value);
        }
    }
    if !values.is_empty() {
        map.insert("enum".into(), Value::Array(values));
    }
}
