//! The tree of statuses below a load balancer, as a map by ID. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

/// The statuses of a load balancer and of everything below it. The two dialects return different trees, in which a pool
/// may occur several times, with the same statuses for each ID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statuses {
    /// The statuses by the object's ID.
    pub by_id: BTreeMap<String, ObjectStatus>,
    /// The server's clock (`Date`).
    pub server_time: Option<Timestamp>,
}

/// An object's statuses as the API spells them; empty if it has none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectStatus {
    /// The operating status, for instance `ONLINE`, `ERROR` or `NO_MONITOR`.
    pub operating: String,
    /// The provisioning status, for instance `ACTIVE` or `PENDING_UPDATE`.
    pub provisioning: String,
}

impl Statuses {
    pub(crate) fn read(tree: &Value, server_time: Option<Timestamp>) -> Self {
        let mut by_id = BTreeMap::new();
        collect(tree, &mut by_id);
        Self { by_id, server_time }
    }
}

/// serde_json refuses trees deeper than 128, which bounds the recursion.
fn collect(tree: &Value, by_id: &mut BTreeMap<String, ObjectStatus>) {
    match tree {
        Value::Object(object) => {
            let text = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
            if let (Some(id), Some(provisioning)) = (text("id"), text("provisioning_status")) {
                by_id
                    .insert(id, ObjectStatus { operating: text("operating_status").unwrap_or_default(), provisioning });
            }
            object.values().for_each(|value| collect(value, by_id));
        }
        Value::Array(items) => items.iter().for_each(|value| collect(value, by_id)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_trees_lie_flat() {
        let member = r#"{"id":"m","provisioning_status":"ACTIVE","operating_status":"ERROR","address":"10.0.0.1"}"#;
        let pool = format!(
            r#"{{"id":"p","provisioning_status":"ACTIVE","operating_status":"DEGRADED","members":[{member}]}}"#
        );
        let octavia = format!(
            r#"{{"statuses":{{"loadbalancer":{{"id":"l","provisioning_status":"ACTIVE","operating_status":"ONLINE",
                "listeners":[{{"id":"i","provisioning_status":"ACTIVE","operating_status":"ONLINE","pools":[{pool}]}}]}}}}}}"#
        );
        let lbaas = format!(
            r#"{{"statuses":{{"loadbalancer":{{"id":"l","provisioning_status":"ACTIVE","operating_status":"ONLINE",
                "pools":[{pool}],"listeners":[{{"id":"i","provisioning_status":"ACTIVE","operating_status":"ONLINE",
                "l7policies":[],"pools":[{pool}]}}]}}}}}}"#
        );
        for tree in [octavia, lbaas] {
            let statuses = Statuses::read(&serde_json::from_str(&tree).unwrap(), None);
            let flat: Vec<_> =
                statuses.by_id.iter().map(|(id, status)| (id.as_str(), status.operating.as_str())).collect();
            assert_eq!(flat, [("i", "ONLINE"), ("l", "ONLINE"), ("m", "ERROR"), ("p", "DEGRADED")]);
        }
    }
}
