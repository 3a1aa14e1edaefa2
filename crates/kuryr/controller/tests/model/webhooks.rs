//! What webhooks of the API server make of writes.

use std::time::Duration;

use serde_json::{Value, json};

use crate::api::Kind;
use crate::common::{conditions, get, reasons};
use crate::world::{World, service, slice};

#[test]
fn what_a_webhook_makes_of_an_object_is_not_fought_over() {
    let mut world = World::new(true);
    world.api.webhook = Some(|kind, object| match kind {
        Kind::Balancer => object["spec"]["availability_zone"] = json!("of-the-webhook"),
        Kind::Service if object["status"]["loadBalancer"]["ingress"].is_array() => {
            object["status"]["loadBalancer"]["ingress"][0].as_object_mut().unwrap().remove("ipMode");
        }
        _ => {}
    });
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    world.rest();
    world.check();
    assert!(world.writes <= 5, "{:?}", world.purposes);
    let writes = world.writes;
    world.api.create(Kind::Slice, "b", slice("b", 1));
    world.api.edit(Kind::Service, "a", |it| it["metadata"]["annotations"] = json!({"note": "no matter"}));
    world.rest();
    assert_eq!(world.writes, writes, "{:?}", world.purposes);
}

fn without(object: &mut Value, part: &str, field: &str) {
    if let Some(part) = object.get_mut(part).and_then(Value::as_object_mut) {
        part.remove(field);
    }
}

/// The API server answers as if all was well, and the write would be due again at once.
#[test]
fn what_a_webhook_takes_away_is_not_set_again_at_once() {
    let finalizers: fn(Kind, &mut Value) = |kind, object| {
        if kind == Kind::Service {
            without(object, "metadata", "finalizers");
        }
    };
    let finalizers_with_stamp: fn(Kind, &mut Value) = |kind, object| {
        if kind == Kind::Service {
            without(object, "metadata", "finalizers");
            // Each write makes a new version.
            let stamps =
                object["metadata"]["annotations"]["stamps"].as_str().map_or(0, |it| it.parse::<u64>().unwrap());
            object["metadata"]["annotations"]["stamps"] = json!((stamps + 1).to_string());
        }
    };
    let owners: fn(Kind, &mut Value) = |kind, object| {
        if kind == Kind::Balancer {
            without(object, "metadata", "ownerReferences");
        }
    };
    let of_status: fn(Kind, &mut Value) = |kind, object| {
        if kind == Kind::Service {
            without(object, "status", "conditions");
        }
    };
    for (webhook, refusal, told) in [
        (finalizers, None, ["KuryrAddServiceFinalizerError"].as_slice()),
        (finalizers_with_stamp, None, &["KuryrAddServiceFinalizerError"]),
        (owners, None, &["KuryrEnsureLBError", "KuryrEnsuredLB"]),
        // Only what is refused has a condition.
        (of_status, Some("no"), &["KuryrEnsureLBError"]),
    ] {
        let mut world = World::new(true);
        world.writer.refuse("a", refusal);
        world.patience = Duration::from_millis(500);
        world.api.webhook = Some(webhook);
        world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
        world.rest();
        assert!(world.writes <= 5, "{:?}", world.purposes);
        assert_eq!(reasons(&world), told, "{:?}", world.notices);
        // What else changes does not wait for it.
        if told.len() == 2 {
            world.api.create(Kind::Slice, "a", slice("a", 1));
            world.rest();
            let members = &get(&world, Kind::Balancer)["status"]["members"];
            assert_eq!((members.as_array().map(Vec::len), &*conditions(&world)[0]), (Some(1), "Ready=True Ready"));
        }
        world.api.webhook = None;
        world.writer.refuse("a", None);
        world.pass(Duration::from_secs(60));
        world.rest();
        world.check();
    }
}
