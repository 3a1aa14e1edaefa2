//! Merge patches (RFC 7386).

use std::hash::{DefaultHasher, Hasher};

use serde::Serialize;
use serde_json::{Map, Value};

/// Returns the patch that leads from `old` to `new`, without what is equal in both; `None` if there is no difference.
#[must_use]
pub fn difference(old: &impl Serialize, new: &impl Serialize) -> Option<Value> {
    // The types that are written here have texts as keys, so they can always be written as JSON.
    let (old, new) = (serde_json::to_value(old).ok()?, serde_json::to_value(new).ok()?);
    between(&old, &new)
}

fn between(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let Value::Object(new) = new else { return Some(new.clone()) };
    let empty = Map::new();
    // An object in the place of something else replaces it, and so do its fields.
    let old = old.as_object().unwrap_or(&empty);
    let gone = old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let changed = new.iter().filter_map(|(key, value)| {
        let change = between(old.get(key).unwrap_or(&Value::Null), value)?;
        Some((key.clone(), change))
    });
    Some(Value::Object(gone.chain(changed).collect()))
}

/// Returns a number by which two values can be compared, so that neither has to be kept.
#[must_use]
pub fn fingerprint(value: &impl Serialize) -> u64 {
    let mut hasher = DefaultHasher::new();
    // See `difference`.
    hasher.write(&serde_json::to_vec(value).unwrap_or_default());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// As in RFC 7386.
    fn merge(target: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        for (key, value) in patch {
            if value.is_null() {
                target.as_object_mut().unwrap().remove(key);
            } else {
                merge(target.as_object_mut().unwrap().entry(key).or_insert(Value::Null), value);
            }
        }
    }

    /// Objects without null, as the types of Kubernetes are written.
    fn any_object() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![(0..3).prop_map(|n| json!(n)), Just(json!([1, 2])), Just(json!([]))];
        let value = leaf.prop_recursive(3, 12, 3, |inner| {
            proptest::collection::hash_map("[ab]", inner, 0..3).prop_map(|map| json!(map))
        });
        proptest::collection::hash_map("[abc]", value, 0..4).prop_map(|map| json!(map))
    }

    proptest! {
        #[test]
        fn a_patch_leads_from_one_to_the_other(old in any_object(), new in any_object()) {
            match difference(&old, &new) {
                None => prop_assert_eq!(&old, &new),
                Some(patch) => {
                    prop_assert_ne!(&old, &new);
                    let mut merged = old;
                    merge(&mut merged, &patch);
                    prop_assert_eq!(merged, new);
                }
            }
        }
    }
}
