//! Whether an object is as it is to be.

use serde_json::Value;

/// Whether `observed` has everything that is `wanted`. What the server or somebody else added does not count, except in lists,
/// which are compared element by element.
pub(crate) fn has_all(observed: &Value, wanted: &Value) -> bool {
    match (observed, wanted) {
        (Value::Object(observed), Value::Object(wanted)) => {
            let has = |(key, value): (&String, &Value)| match observed.get(key) {
                Some(there) => has_all(there, value),
                // The server leaves out what is empty.
                None => is_empty(value),
            };
            wanted.iter().all(has)
        }
        (Value::Array(observed), Value::Array(wanted)) => {
            observed.len() == wanted.len() && observed.iter().zip(wanted).all(|(there, wanted)| has_all(there, wanted))
        }
        _ => observed == wanted,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Null => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_others_add_is_no_difference_and_what_they_change_is_one() {
        let wanted = json!({"a": 1, "list": [{"name": "x"}], "empty": {}});
        for (observed, is) in [
            (json!({"a": 1, "list": [{"name": "x", "protocol": "TCP"}], "more": 2}), true),
            (json!({"a": 2, "list": [{"name": "x"}]}), false),
            (json!({"a": 1, "list": [{"name": "x"}, {"name": "y"}]}), false),
            (json!({"a": 1, "list": []}), false),
            (json!({"a": 1}), false),
        ] {
            assert_eq!(has_all(&observed, &wanted), is, "{observed}");
        }
    }
}
