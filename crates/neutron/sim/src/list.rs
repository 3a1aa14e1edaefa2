//! Lists.

use serde_json::Value;

use crate::NeutronModel;
use crate::model::ModelRow;

impl NeutronModel {
    /// Lists what fits every parameter; of several values of one parameter, one must fit.
    pub(crate) fn list(&self, of: &'static str, query: &[(String, String)]) -> Vec<Value> {
        let rows = self.objects.iter().filter(|((one, _), _)| *one == of).map(|(_, row)| row);
        rows.filter(|row| fits(row, query)).cloned().map(Value::Object).collect()
    }
}

fn fits(row: &ModelRow, query: &[(String, String)]) -> bool {
    query.iter().all(|(key, _)| {
        let mut values = query.iter().filter(|(one, _)| one == key).map(|(_, value)| value.as_str());
        match key.as_str() {
            "fields" | "limit" | "marker" => true,
            "tags" => values.flat_map(|value| value.split(',')).all(|tag| has(&row["tags"], tag)),
            "fixed_ips" => values.all(|value| has_address(row, value)),
            _ => values.any(|value| row.get(key).and_then(Value::as_str).unwrap_or_default() == value),
        }
    })
}

fn has(list: &Value, wanted: &str) -> bool {
    list.as_array().is_some_and(|all| all.iter().any(|one| one == wanted))
}

/// `fixed_ips=subnet_id=...` and `fixed_ips=ip_address=...`.
fn has_address(row: &ModelRow, wanted: &str) -> bool {
    let Some((key, value)) = wanted.split_once('=') else { return false };
    row["fixed_ips"].as_array().is_some_and(|all| all.iter().any(|one| one[key] == value))
}
