//! Lists: filters, `fields`, pages.

use serde_json::{Map, Value, json};

use crate::cloud::CloudModel;
use crate::http::{ApiRefusal, SimRequest, SimResponse};
use crate::objects::ApiObject;
use crate::schema::ApiKind;

/// The longest page: `pagination_max_limit`.
const LONGEST_PAGE: usize = 1000;

impl CloudModel {
    pub(crate) fn show(&self, kind: ApiKind, id: &str) -> Result<SimResponse, ApiRefusal> {
        self.answer(200, kind, id)
    }

    pub(crate) fn list(&self, kind: ApiKind, request: &SimRequest) -> Result<SimResponse, ApiRefusal> {
        // Most lists are of little, and rows are dear to make.
        let is_asked_for =
            |(_, object): &(&str, &ApiObject)| request.query.iter().all(|(key, value)| may_fit(object, key, value));
        let objects = self.store.all_after(kind, request.parameter("marker")).filter(is_asked_for);
        self.page(kind, objects.map(|(id, object)| (id, self.store.row(id, object))), request)
    }

    /// Returns one page of `rows`, which are in the order of creation.
    pub(crate) fn page<'a>(
        &'a self,
        kind: ApiKind,
        rows: impl Iterator<Item = (&'a str, Value)>,
        request: &SimRequest,
    ) -> Result<SimResponse, ApiRefusal> {
        let limit = match request.parameter("limit").map(str::parse::<usize>) {
            None => LONGEST_PAGE,
            Some(Ok(limit)) => limit.min(LONGEST_PAGE),
            Some(Err(_)) => return Err(ApiRefusal::new(400, "Supplied pagination limit is not valid.")),
        };
        let marker = request.parameter("marker");
        if let Some(marker) = marker
            && self.store.get(kind, marker).is_err()
        {
            return Err(ApiRefusal::new(400, format!("Supplied pagination marker '{marker}' is not valid.")));
        }
        let mut rows = rows
            .filter(|(id, _)| marker.is_none_or(|marker| *id > marker))
            .filter(|(_, row)| request.query.iter().all(|(key, value)| fits(row, key, value)));
        let page: Vec<(&str, Value)> = rows.by_ref().take(limit).collect();
        // A full page has a next one, even if that is empty. The link drops the filters.
        let next = page.last().filter(|_| page.len() == limit).map(|(last, _)| {
            let path = format!("/v2/lbaas/{}?limit={limit}&marker={last}", kind.plural());
            json!([{"rel": "next", "href": path}])
        });
        let fields: Vec<&str> =
            request.query.iter().filter(|(key, _)| key == "fields").map(|(_, f)| f.as_str()).collect();
        let shown: Vec<Value> = page.into_iter().map(|(_, row)| chosen(row, &fields)).collect();
        let links = next.unwrap_or_else(|| json!([]));
        Ok(SimResponse::ok(200, json!({kind.plural(): shown, format!("{}_links", kind.plural()): links})))
    }
}

/// Returns false if the row of an object does not fit one parameter of the query.
fn may_fit(object: &ApiObject, key: &str, value: &str) -> bool {
    let has =
        |tag| object.fields.get("tags").and_then(Value::as_array).is_some_and(|all| all.iter().any(|one| one == tag));
    match (key, object.kind) {
        ("tags", _) => value.split(',').all(has),
        ("provisioning_status", _) => object.provisioning.as_str() == value,
        ("loadbalancer_id", ApiKind::Listener | ApiKind::Pool) => object.parent.as_deref() == Some(value),
        _ => true,
    }
}

/// Returns whether a row fits one parameter of the query.
fn fits(row: &Value, key: &str, value: &str) -> bool {
    let tags = |value: &str| -> Vec<bool> {
        let has = |tag: &str| row["tags"].as_array().is_some_and(|all| all.iter().any(|one| one == tag));
        value.split(',').map(has).collect()
    };
    match key {
        "limit" | "marker" | "fields" | "sort" | "sort_key" | "sort_dir" => true,
        "tags" => tags(value).iter().all(|has| *has),
        "tags-any" => tags(value).iter().any(|has| *has),
        "not-tags" => !tags(value).iter().all(|has| *has),
        "not-tags-any" => !tags(value).iter().any(|has| *has),
        "loadbalancer_id" => {
            row["loadbalancers"].as_array().is_some_and(|all| all.iter().any(|one| one["id"] == value))
        }
        _ => match &row[key] {
            Value::String(text) => text == value,
            Value::Bool(on) => value.eq_ignore_ascii_case(if *on { "true" } else { "false" }),
            Value::Number(number) => number.to_string() == value,
            _ => false,
        },
    }
}

fn chosen(row: Value, fields: &[&str]) -> Value {
    match row {
        Value::Object(row) if !fields.is_empty() => {
            Value::Object(row.into_iter().filter(|(key, _)| fields.contains(&key.as_str())).collect::<Map<_, _>>())
        }
        other => other,
    }
}
