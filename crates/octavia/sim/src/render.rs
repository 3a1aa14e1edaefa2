//! Objects in the services' JSON.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::objects::{ApiObject, ObjectTree};
use crate::schema::ApiKind;

/// The clock's zero, in seconds since 1970.
const EPOCH: i64 = 1_767_225_600;

/// Returns a time as Octavia prints it: UTC, whole seconds, no zone.
pub(crate) fn time(at: Duration) -> Value {
    let seconds = EPOCH.saturating_add_unsigned(at.as_secs());
    Timestamp::from_second(seconds).map_or(Value::Null, |at| json!(at.strftime("%Y-%m-%dT%H:%M:%S").to_string()))
}

impl ObjectTree {
    /// Returns an object as its own path and its list show it.
    pub(crate) fn row(&self, id: &str, object: &ApiObject) -> Value {
        let mut row = self.common(id, object);
        let references = |kind| -> Value { self.below(id, kind).map(|(id, _)| json!({"id": id})).collect() };
        let up = |id: &Option<String>| json!(id.iter().map(|id| json!({"id": id})).collect::<Vec<_>>());
        match object.kind {
            ApiKind::LoadBalancer => {
                row.insert("listeners".into(), references(ApiKind::Listener));
                row.insert("pools".into(), references(ApiKind::Pool));
            }
            ApiKind::Listener => {
                row.insert("loadbalancers".into(), up(&object.parent));
                row.insert("l7policies".into(), self.policies_of(id).iter().map(|id| json!({"id": id})).collect());
            }
            ApiKind::Pool => {
                row.insert("loadbalancers".into(), up(&object.parent));
                row.insert("listeners".into(), self.users(id));
                row.insert("members".into(), references(ApiKind::Member));
                let monitor = self.below(id, ApiKind::Monitor).next().map(|(id, _)| id);
                row.insert("healthmonitor_id".into(), json!(monitor));
            }
            ApiKind::Policy => _ = row.insert("rules".into(), references(ApiKind::Rule)),
            ApiKind::Member | ApiKind::Rule => {}
            ApiKind::Monitor => _ = row.insert("pools".into(), up(&object.parent)),
        }
        Value::Object(row)
    }

    /// Returns a load balancer with everything below it, the answer to its creation.
    pub(crate) fn full_row(&self, id: &str, object: &ApiObject) -> Value {
        let mut row = self.common(id, object);
        let listeners = self.below(id, ApiKind::Listener).map(|(id, one)| {
            let mut row = self.common(id, one);
            row.insert(
                "l7policies".into(),
                self.policies_of(id).iter().filter_map(|id| self.full_policy(id)).collect(),
            );
            Value::Object(row)
        });
        row.insert("listeners".into(), listeners.collect());
        let pools = self.below(id, ApiKind::Pool).map(|(id, one)| {
            let mut row = self.common(id, one);
            row.insert("listeners".into(), self.users(id));
            let members = self.below(id, ApiKind::Member).map(|(id, one)| Value::Object(self.common(id, one)));
            row.insert("members".into(), members.collect());
            if let Some((id, monitor)) = self.below(id, ApiKind::Monitor).next() {
                row.insert("healthmonitor".into(), Value::Object(self.common(id, monitor)));
            }
            Value::Object(row)
        });
        row.insert("pools".into(), pools.collect());
        Value::Object(row)
    }

    fn full_policy(&self, id: &str) -> Option<Value> {
        let mut row = self.common(id, self.find(id)?);
        let rules = self.below(id, ApiKind::Rule).map(|(id, one)| Value::Object(self.common(id, one)));
        row.insert("rules".into(), rules.collect());
        Some(Value::Object(row))
    }

    fn users(&self, pool: &str) -> Value {
        self.listeners_of(pool).into_iter().map(|id| json!({"id": id})).collect()
    }

    fn common(&self, id: &str, object: &ApiObject) -> Map<String, Value> {
        let mut row: Map<String, Value> =
            object.fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        row.insert("id".into(), json!(id));
        if object.kind == ApiKind::Policy {
            row.insert("listener_id".into(), json!(object.parent));
        }
        row.insert("project_id".into(), json!(object.project));
        row.insert("tenant_id".into(), json!(object.project));
        row.insert("provisioning_status".into(), json!(object.provisioning.as_str()));
        row.insert("operating_status".into(), json!(object.operating));
        row.insert("created_at".into(), time(object.created));
        row.insert("updated_at".into(), object.updated.map_or(Value::Null, time));
        row
    }
}
