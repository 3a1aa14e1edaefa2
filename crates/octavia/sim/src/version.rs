//! Versions of Octavia's API: what an older one does not know is refused in a request, and is in no answer.

use serde_json::Value;

use crate::http::{ApiRefusal, SimRequest};
use crate::schema::unknown;

/// Fields, and the minor version that was the first to know each.
const FIELDS: [(&str, u16); 3] = [("allowed_cidrs", 12), ("additional_vips", 26), ("vip_sg_ids", 29)];

/// The same of what a query may say.
const ARGUMENTS: [(&str, u16); 1] = [("additive_only", 11)];

/// Refuses what version 2.`minor` does not know.
pub(crate) fn check(minor: u16, request: &SimRequest) -> Result<(), ApiRefusal> {
    let is_new = |name: &str| ARGUMENTS.iter().any(|(one, since)| *one == name && minor < *since);
    if let Some((name, _)) = request.query.iter().find(|(name, _)| is_new(name)) {
        return Err(ApiRefusal::new(400, format!("Unknown argument: \"{name}\"")));
    }
    let found = FIELDS.iter().find(|(name, since)| minor < *since && has(&request.body, name));
    found.map_or(Ok(()), |(name, _)| Err(unknown(name)))
}

/// Takes what version 2.`minor` does not know out of an answer.
pub(crate) fn hide(minor: u16, body: &mut Value) {
    match body {
        Value::Object(fields) => {
            fields.retain(|name, _| !FIELDS.iter().any(|(one, since)| one == name && minor < *since));
            fields.values_mut().for_each(|one| hide(minor, one));
        }
        Value::Array(all) => all.iter_mut().for_each(|one| hide(minor, one)),
        _ => {}
    }
}

fn has(body: &Value, name: &str) -> bool {
    match body {
        Value::Object(fields) => fields.contains_key(name) || fields.values().any(|one| has(one, name)),
        Value::Array(all) => all.iter().any(|one| has(one, name)),
        _ => false,
    }
}
