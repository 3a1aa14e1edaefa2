//! What webhooks of the API server make of writes.

use std::time::Duration;

use gimbal_kuryr_resource::KuryrKind;
use serde_json::{Value, json};

use crate::api::{INGRESS_FINALIZER, Kind, named};
use crate::life::served;
use crate::objects::ingress;
use crate::world::{SHARED, World};

/// Pauses after refusals are longer.
const PATIENCE: Duration = Duration::from_millis(500);

fn without(object: &mut Value, key: &str) {
    object["metadata"].as_object_mut().unwrap().remove(key);
}

/// It makes a new version of every object that it sees.
fn stamp(object: &mut Value) {
    let stamps = object["metadata"]["annotations"]["stamps"].as_str().map_or(0, |it| it.parse::<u64>().unwrap());
    object["metadata"]["annotations"]["stamps"] = json!((stamps + 1).to_string());
}

/// The API server answers as if all was well, and the write would be due again at once.
#[test]
fn what_a_webhook_takes_away_is_not_set_again_at_once() {
    let of_ingress: fn(Kind, &mut Value) = |kind, object| {
        if kind == Kind::Ingress {
            without(object, "finalizers");
        }
    };
    let of_router: fn(Kind, &mut Value) = |kind, object| {
        if kind == Kind::Router {
            without(object, "finalizers");
        }
    };
    let of_ingress_with_stamp: fn(Kind, &mut Value) = |kind, object| {
        if kind == Kind::Ingress {
            without(object, "finalizers");
            stamp(object);
        }
    };
    for (webhook, kind, told) in [
        (of_ingress, KuryrKind::Ingress, "KuryrAddIngressFinalizerError"),
        (of_ingress_with_stamp, KuryrKind::Ingress, "KuryrAddIngressFinalizerError"),
        (of_router, KuryrKind::Router, "KuryrEnsureLBError"),
    ] {
        let mut world = World::new(Some(true));
        world.patience = PATIENCE;
        world.api.webhook = Some(webhook);
        world.pods("s1", 1);
        world.api.create(Kind::Ingress, "team/a", ingress("kuryr", None, "s1"));
        world.rest();
        assert!(world.purposes.len() <= 9, "{:#?}", world.purposes);
        assert_eq!(world.reasons(kind).iter().filter(|reason| **reason == told).count(), 1, "{:?}", world.notices);
        world.api.webhook = None;
        world.pass(Duration::from_secs(600));
        world.rest();
        world.check();
    }
}

/// Endpoints follow, whatever is the matter with a label or a finalizer.
#[test]
fn routes_follow_where_a_webhook_takes_the_finalizer_of_their_router() {
    let mut world = served();
    world.patience = PATIENCE;
    world.api.webhook = Some(|kind, object| {
        if kind == Kind::Router {
            without(object, "finalizers");
        }
    });
    world.api.edit(Kind::Router, SHARED, |router| router["metadata"]["annotations"] = json!({"touched": "yes"}));
    let mut other = ingress("kuryr", None, "s1");
    other["spec"]["rules"][0]["host"] = json!("b.example");
    world.api.create(Kind::Ingress, "team/b", other);
    world.rest();
    let router = world.api.get(Kind::Router, SHARED).unwrap();
    assert_eq!(named(router).len(), 2, "{:#?}", world.purposes);
    world.api.webhook = None;
    world.pass(Duration::from_secs(600));
    world.rest();
    world.check();
}

/// One that goes has its finalizer put back each time.
#[test]
fn a_finalizer_that_a_webhook_puts_back_is_not_removed_again_at_once() {
    let plainly: fn(Kind, &mut Value) = |kind, object| {
        if kind == Kind::Ingress {
            object["metadata"]["finalizers"] = json!([INGRESS_FINALIZER]);
        }
    };
    let with_stamp: fn(Kind, &mut Value) = |kind, object| {
        if kind == Kind::Ingress {
            object["metadata"]["finalizers"] = json!([INGRESS_FINALIZER]);
            stamp(object);
        }
    };
    for webhook in [plainly, with_stamp] {
        let mut world = served();
        world.patience = PATIENCE;
        world.api.webhook = Some(webhook);
        world.api.delete(Kind::Ingress, "team/a");
        world.purposes.clear();
        world.rest();
        let released = world.purposes.iter().filter(|purpose| purpose.contains("remove the finalizer")).count();
        assert!((1..=4).contains(&released), "{:#?}", world.purposes);
        world.api.webhook = None;
        world.pass(Duration::from_secs(600));
        world.rest();
        assert!(world.api.get(Kind::Ingress, "team/a").is_none());
    }
}
