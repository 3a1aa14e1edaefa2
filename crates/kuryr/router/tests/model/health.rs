//! A router that does not serve.

use gimbal_kuryr_resource::KuryrKind;
use gimbal_kuryr_router_core::RouterUp;
use serde_json::json;

use crate::api::Kind;
use crate::life::served;
use crate::objects::ingress;
use crate::world::{KINDS, SHARED, World};

/// Two Ingresses of the shared router, and one of another.
fn three() -> World {
    let mut world = served();
    world.api.create(Kind::Ingress, "team/b", ingress("kuryr", None, "s2"));
    world.api.create(Kind::Ingress, "team/c", ingress("kuryr", Some("group:web"), "s3"));
    world.rest();
    world.check();
    world.notices.clear();
    world
}

fn find(world: &mut World, serves: bool) {
    world.writer.finds(serves);
    world.rest();
}

fn ups(world: &World) -> Vec<(String, bool)> {
    let all = world.controller.routers_up().map(|RouterUp { router, is_up }| (router.to_string(), is_up));
    let mut all: Vec<_> = all.collect();
    all.sort();
    all
}

fn degraded(world: &World, router: &str) -> serde_json::Value {
    let status = &world.api.get(Kind::Router, router).unwrap()["status"];
    let all = status["conditions"].as_array().unwrap();
    all.iter().find(|one| one["type"] == "Degraded").cloned().unwrap_or_default()
}

/// The warnings on Ingresses since the last call.
fn warnings(world: &mut World) -> Vec<String> {
    let all = std::mem::take(&mut world.notices);
    let warnings = all.iter().filter(|one| one.object.kind == KuryrKind::Ingress && one.told.is_warning);
    let mut warnings: Vec<String> =
        warnings.map(|one| format!("{} {}: {}", one.object.name, one.told.reason, one.told.message)).collect();
    warnings.sort();
    warnings
}

#[test]
fn it_is_said_on_the_router_on_each_ingress_and_in_the_metric_once_a_change() {
    let mut world = three();
    let shared_and_web = |up| vec![(SHARED.to_owned(), up), ("team/web".to_owned(), up)];
    for round in 0..2 {
        assert_eq!(ups(&world), shared_and_web(true), "{round}");
        find(&mut world, false);
        let expected = ["a", "b", "c"].map(|name| format!("{name} KuryrNotAsAsked: the operating status is ERROR"));
        assert_eq!(warnings(&mut world), expected, "{round}");
        for router in [SHARED, "team/web"] {
            let said = degraded(&world, router);
            assert_eq!((&said["status"], &said["reason"]), (&json!("True"), &json!("NotServing")), "{router}");
        }
        assert_eq!(ups(&world), shared_and_web(false));
        let address = &world.api.get(Kind::Ingress, "team/a").unwrap()["status"]["loadBalancer"]["ingress"][0]["ip"];
        assert_eq!(address, "10.96.0.99", "DNS points to it");
        // The same again, to another process too, is no news.
        find(&mut world, false);
        world.break_stream();
        world.rest();
        world.restart(&KINDS);
        assert_eq!(ups(&world), shared_and_web(false), "as the status says");
        world.rest();
        assert_eq!((warnings(&mut world), ups(&world)), (vec![], shared_and_web(false)));
        find(&mut world, true);
        world.check();
        assert_eq!(warnings(&mut world), [""; 0]);
        assert_eq!(degraded(&world, SHARED)["status"], "False");
    }
}
