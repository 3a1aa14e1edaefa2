//! How large a request may be: Octavia refuses the body of a larger one with 413.

use serde_json::Value;

/// The most bytes of a body. Octavia takes 114,688, the default of oslo.middleware's `max_request_body_size`.
const LARGEST: usize = 110_000;
/// The most bytes around the members of a batch.
const AROUND: usize = 32;

/// Returns how many of the members fit into one batch, the first ones; at least one.
pub(crate) fn fitting(members: &[Value]) -> usize {
    let mut size = AROUND;
    let fit = members.iter().take_while(|member| {
        size += size_of(member) + 1;
        size <= LARGEST
    });
    fit.count().max(1)
}

/// Takes members out of the body of a new load balancer until it fits, of each pool its last ones: they come afterwards, and
/// meanwhile the others serve. Then policies, of each listener its last ones, and with them the default pool, which comes after
/// all of them. Returns `None` if it does not fit without any.
pub(crate) fn fitted_balancer(mut body: Value) -> Option<Value> {
    while size_of(&body) + AROUND > LARGEST {
        if !has_fewer_members(&mut body)? {
            has_fewer_policies(&mut body)?;
        }
    }
    Some(body)
}

fn has_fewer_members(body: &mut Value) -> Option<bool> {
    // `[..]` would add what is not there, as null.
    let pools = body.get_mut("pools")?.as_array_mut()?;
    let members = pools.iter_mut().filter_map(|pool| pool.get_mut("members")?.as_array_mut());
    let most = members.max_by_key(|members| members.len()).filter(|members| !members.is_empty());
    Some(most.map(|most| most.truncate(most.len() / 2)).is_some())
}

fn has_fewer_policies(body: &mut Value) -> Option<()> {
    let count = |one: &Value| one.get("l7policies").and_then(Value::as_array).map_or(0, Vec::len);
    let listeners = body.get_mut("listeners")?.as_array_mut()?;
    let most = listeners.iter_mut().max_by_key(|one| count(one)).filter(|one| count(one) > 0)?;
    let policies = most.get_mut("l7policies")?.as_array_mut()?;
    policies.truncate(policies.len() - policies.len().div_ceil(16));
    most.as_object_mut()?.remove("default_pool");
    Some(())
}

fn size_of(value: &Value) -> usize {
    value.to_string().len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn member(number: usize) -> Value {
        json!({"address": format!("10.0.{}.{}", number / 250, number % 250), "tags": ["x".repeat(100)]})
    }

    #[test]
    fn as_many_members_as_fit_and_never_none() {
        let members: Vec<Value> = (0..2_000).map(member).collect();
        let fit = fitting(&members);
        assert!(size_of(&json!({"members": members[..fit]})) <= LARGEST);
        assert!(size_of(&json!({"members": members[..fit + 1]})) > LARGEST - AROUND);
        assert_eq!(fitting(&members[..3]), 3);
        assert_eq!(fitting(&[json!("x".repeat(LARGEST))]), 1);
    }

    #[test]
    fn the_pool_with_the_most_members_gives_some_up() {
        let members = |count: usize| (0..count).map(member).collect::<Value>();
        let body = json!({"pools": [{"members": members(3)}, {}, {"members": members(2_000)}]});
        let fitted = fitted_balancer(body.clone()).unwrap();
        assert_eq!((&fitted["pools"][0], &fitted["pools"][1]), (&body["pools"][0], &body["pools"][1]));
        let left = fitted["pools"][2]["members"].as_array().unwrap();
        assert!(left.len() > 100 && size_of(&fitted) <= LARGEST);
        let small = json!({"pools": [{"members": members(3)}]});
        assert_eq!(fitted_balancer(small.clone()), Some(small));
        assert_eq!(fitted_balancer(json!({"pools": [{"name": "x".repeat(LARGEST)}]})), None);
    }

    #[test]
    fn the_last_policies_of_a_router_come_afterwards_and_the_default_pool_after_them() {
        let policies: Value = (0..400).map(|number| json!({"name": number, "tags": ["x".repeat(500)]})).collect();
        let listener = |policies: Value| json!({"l7policies": policies, "default_pool": {"name": "p"}});
        let all = json!({"pools": [{"members": [member(1)]}], "listeners": [listener(policies), listener(json!([]))]});
        let fitted = fitted_balancer(all).unwrap();
        let left = fitted["listeners"][0]["l7policies"].as_array().unwrap();
        assert!(left.len() > 150 && size_of(&fitted) <= LARGEST, "{}", left.len());
        assert!(left.iter().zip(0..).all(|(one, number)| one["name"] == number));
        let default = |at: usize| fitted["listeners"][at].get("default_pool").is_some();
        assert_eq!((default(0), default(1)), (false, true));
    }
}
