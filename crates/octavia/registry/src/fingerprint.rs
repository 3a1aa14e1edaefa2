//! Whether rows have changed since they were read.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use gimbal_kuryr_model::{FloatingWish, Text};
use gimbal_octavia_plan::{Seen, SeenFloatingIp, names_another_cluster};

use crate::owner_look::OwnerRows;

/// Returns a number that differs when something of an owner was changed: a load balancer, or a listener, pool or policy that carries
/// the cluster's tag. A member that changes moves its pool's `updated_at`, and a rule that of its policy. Health is not part of it:
/// nothing has to be looked at for it ([`Cell::see_health`](crate::cell::Cell::see_health)). Neither is what is in other projects than
/// these: lists do not show it.
pub(crate) fn print_of(rows: &OwnerRows, cluster_tag: &str, projects: &[Text]) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut balancers: Vec<&Value> = rows.balancers.iter().filter(|row| is_in(row, projects)).collect();
    balancers.sort_by_key(|row| row["id"].as_str());
    balancers.into_iter().for_each(|row| add(row, &mut hasher));
    let parts = rows.listeners.values().chain(rows.pools.values()).chain(rows.policies.values());
    for row in parts.filter(|row| has_tag(row, cluster_tag) && is_in(row, projects)) {
        add(row, &mut hasher);
    }
    hasher.finish()
}

/// Returns a number for a row: that of a load balancer moves with every change of it, and of what is below it.
pub(crate) fn row_print(row: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    add(row, &mut hasher);
    hasher.finish()
}

/// Returns the same of floating IPs.
pub(crate) fn floating_print<'a>(rows: impl Iterator<Item = &'a Value>, projects: &[Text]) -> u64 {
    let all = rows.filter(|row| is_in(row, projects));
    let keys = ["id", "floating_ip_address", "port_id", "description"];
    print_of_floating(all.map(|row| keys.map(|key| text(row, key))).collect())
}

/// Returns the same of floating IPs as answers have shown them.
pub(crate) fn seen_floating_print<'a>(seen: &'a [SeenFloatingIp], projects: &[Text]) -> u64 {
    let is_in =
        |one: &&SeenFloatingIp| one.project.is_empty() || projects.iter().any(|project| **project == *one.project);
    let all = seen.iter().filter(is_in);
    let port = |one: &'a SeenFloatingIp| one.port.as_deref().unwrap_or_default();
    print_of_floating(all.map(|one| [&*one.id, &*one.address, port(one), &*one.description]).collect())
}

fn print_of_floating(mut all: Vec<[&str; 4]>) -> u64 {
    let mut hasher = DefaultHasher::new();
    all.sort_unstable();
    all.hash(&mut hasher);
    hasher.finish()
}

fn is_in(row: &Value, projects: &[Text]) -> bool {
    row["project_id"].as_str().is_none_or(|project| projects.iter().any(|one| **one == *project))
}

pub(crate) fn has_tag(row: &Value, tag: &str) -> bool {
    row["tags"].as_array().is_some_and(|tags| tags.iter().any(|one| one == tag))
}

pub(crate) fn tags_of(row: &Value) -> impl Iterator<Item = &str> + Clone {
    row["tags"].as_array().map(Vec::as_slice).unwrap_or_default().iter().filter_map(Value::as_str)
}

/// Whether the row's tags name another cluster than this one.
pub(crate) fn is_anothers(row: &Value, cluster: &str) -> bool {
    names_another_cluster(tags_of(row), cluster)
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_default()
}

fn add(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Null => hasher.write_u8(0),
        Value::Bool(on) => on.hash(hasher),
        Value::Number(number) => number.hash(hasher),
        Value::String(text) => text.hash(hasher),
        Value::Array(all) => {
            // In whatever order: a database shows IDs and tags in another one when nothing has changed.
            let mut prints: Vec<u64> = all.iter().map(row_print).collect();
            prints.sort_unstable();
            prints.hash(hasher);
        }
        Value::Object(fields) => {
            for (key, value) in fields.iter().filter(|(key, _)| *key != "operating_status") {
                key.hash(hasher);
                add(value, hasher);
            }
        }
    }
}

/// Returns a number for what was seen of the owner's load balancers without its mark; `None` if there is nothing. `floating`
/// is what the owner wants of a floating IP.
pub(crate) fn strangers_print(seen: &Seen, owner_tag: &str, floating: Option<&FloatingWish>) -> Option<u64> {
    let is_ours = |word: &str| word == owner_tag || word == gimbal_octavia_plan::KEEP;
    let is_strange = |tags: &[String]| !tags.iter().any(|tag| is_ours(tag));
    let mut hasher = DefaultHasher::new();
    let mut count = 0;
    let mut add = |id: &str| {
        id.hash(&mut hasher);
        count += 1;
    };
    for balancer in &seen.balancers {
        balancer.listeners.iter().filter(|one| is_strange(&one.tags)).for_each(|one| add(&one.id));
        // Rules belong to their policy, and carry no mark.
        let policies = balancer.listeners.iter().flat_map(|one| &one.policies);
        policies.filter(|one| is_strange(&one.tags)).for_each(|one| add(&one.id));
        for pool in &balancer.pools {
            if is_strange(&pool.tags) {
                add(&pool.id);
            }
            let tags_of = |row: &Value| -> Vec<String> {
                row["tags"].as_array().into_iter().flatten().filter_map(|tag| tag.as_str().map(str::to_owned)).collect()
            };
            pool.monitor.iter().filter(|one| is_strange(&tags_of(&one.row))).for_each(|one| add(&one.id));
            pool.members.iter().filter(|one| is_strange(&one.tags)).for_each(|one| add(&one.id));
        }
    }
    // One that somebody else made may be the one that is asked for.
    let is_asked_for = |one: &SeenFloatingIp| {
        let asked = floating.map(|wish| wish.address);
        asked.is_some_and(|address| address.is_none_or(|address| address.to_string() == one.address))
    };
    let is_added =
        |one: &&SeenFloatingIp| one.port.is_some() && !one.is_kept() && !one.description.split(' ').any(is_ours);
    let added = seen.floating.iter().filter(is_added);
    added.filter(|one| !is_asked_for(one)).for_each(|one| add(&one.id));
    (count > 0).then(|| hasher.finish())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_in_which_parts_are_named_says_nothing() {
        let row = |ids: &[&str]| {
            let named: Vec<Value> = ids.iter().map(|id| json!({"id": id})).collect();
            row_print(&json!({"id": "lb", "listeners": named, "tags": ids}))
        };
        assert_eq!(row(&["a", "b", "c"]), row(&["c", "a", "b"]));
        for other in [&["a", "b"][..], &["a", "b", "d"], &["a", "b", "c", "c"]] {
            assert_ne!(row(&["a", "b", "c"]), row(other), "{other:?}");
        }
    }

    /// Whatever else Octavia makes of the listener's row.
    #[test]
    fn a_policy_with_the_mark_that_changes_is_a_change_of_its_owner() {
        let print = |policy: Value| {
            let policies = BTreeMap::from([("p".to_owned(), policy)]);
            print_of(&OwnerRows { policies, ..OwnerRows::default() }, "ours", &["p1".into()])
        };
        let policy = |position, tag| json!({"id": "p", "project_id": "p1", "position": position, "tags": [tag]});
        assert_ne!(print(policy(1, "ours")), print(policy(2, "ours")));
        assert_eq!(print(policy(1, "theirs")), print(policy(2, "theirs")), "lists do not show those of others");
    }
}
