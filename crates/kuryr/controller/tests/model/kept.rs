//! What exists where a setting would have none made, and what people do to it.

use gimbal_kuryr_controller_core::{KuryrController, KuryrSettings};
use gimbal_kuryr_resource::NamespacePatterns;
use gimbal_kuryr_translate::ControllerSettings;
use serde_json::{Value, json};

use crate::api::{self, BALANCER_FINALIZER, Kind, SERVICE_FINALIZER};
use crate::common::{ORDER, conditions, get, served};
use crate::went_back::{cluster_ip, deleting, restart_with};
use crate::world::World;

fn off() -> ControllerSettings {
    ControllerSettings { cluster_ip_services: false, ..ControllerSettings::default() }
}

/// It is served as before, and says that no other is made.
fn check_kept(world: &mut World) {
    assert!(!deleting(world), "{:?}", world.heard);
    assert!(conditions(world).contains(&"Held=True Setting".to_owned()), "{:?}", conditions(world));
    world.check();
}

#[test]
fn what_somebody_makes_of_one_that_is_kept_lets_it_not_go() {
    let edits: [fn(&mut Value); 5] = [
        |it| it["metadata"]["finalizers"] = json!([]),
        |it| it["spec"]["type"] = json!("LoadBalancer"),
        |it| it["spec"]["load_balancer_class"] = json!("of-others"),
        |it| {
            it["metadata"]["ownerReferences"] = json!([]);
            it["spec"].as_object_mut().unwrap().remove("service_uid");
        },
        |it| it["spec"] = json!({"ip": "10.96.0.10", "ports": []}),
    ];
    for edit in edits {
        let mut world = cluster_ip();
        restart_with(&mut world, off());
        world.api.edit(Kind::Balancer, "a", edit);
        world.rest();
        check_kept(&mut world);
        assert!(api::has(&get(&world, Kind::Balancer), BALANCER_FINALIZER));
    }
}

/// Somebody applies a manifest of Kuryr's time.
#[test]
fn an_annotation_of_old_lets_nothing_go() {
    for restarts in [false, true] {
        let mut world = served();
        world.api.edit(Kind::Service, "a", |it| {
            it["metadata"]["annotations"]["openstack.org/kuryr-lbaas-spec"] = json!("{}")
        });
        if restarts {
            world.restart(&ORDER);
        }
        world.rest();
        check_kept(&mut world);
        world.api.edit(Kind::Service, "a", |it| it["metadata"]["annotations"] = json!({}));
        world.rest();
        assert_eq!(conditions(&world)[0], "Ready=True Ready");
        world.check();
    }
}

#[test]
fn one_that_is_to_be_made_again_is_kept() {
    let mut world = cluster_ip();
    world.api.delete(Kind::Balancer, "a");
    world.watch(Kind::Balancer);
    while world.plan() {
        world.answer(0, 0);
    }
    assert_eq!(get(&world, Kind::Balancer), Value::Null);
    restart_with(&mut world, off());
    check_kept(&mut world);
}

#[test]
fn objects_that_vanish_with_their_definition_are_made_again() {
    let mut world = cluster_ip();
    restart_with(&mut world, off());
    world.api.edit(Kind::Balancer, "a", |it| it["metadata"]["finalizers"] = json!([]));
    world.api.delete(Kind::Balancer, "a");
    world.list(Kind::Balancer);
    world.rest();
    check_kept(&mut world);
}

#[test]
fn a_service_that_asks_for_something_else_is_not_kept() {
    let mut world = cluster_ip();
    world.api.edit(Kind::Service, "a", |it| it["spec"]["type"] = json!("LoadBalancer"));
    world.rest();
    restart_with(&mut world, off());
    world.check();
    world.api.wanted_since.clear();
    world.api.edit(Kind::Service, "a", |it| it["spec"]["type"] = json!("ClusterIP"));
    world.rest();
    assert!(deleting(&world) && world.writer.made.is_empty(), "{:?}", world.heard);
    let service = get(&world, Kind::Service);
    assert!(!api::has(&service, SERVICE_FINALIZER) && get(&world, Kind::Balancer).is_null());
}

#[test]
fn one_in_a_namespace_that_is_left_out_says_so_and_a_person_lets_it_go() {
    let mut world = served();
    let namespaces = NamespacePatterns { only: vec!["other-*".into()], except: Vec::new() };
    world.controller = KuryrController::new(KuryrSettings { namespaces, ..KuryrSettings::default() });
    world.restart(&ORDER);
    world.rest();
    check_kept(&mut world);
    assert!(world.explain("a").iter().any(|said| said.contains("--namespaces")), "{:?}", world.explain("a"));
    world.api.wanted_since.clear();
    world.api.delete(Kind::Balancer, "a");
    world.rest();
    assert!(deleting(&world) && world.writer.made.is_empty(), "{:?}", world.heard);
    assert!(!api::has(&get(&world, Kind::Service), SERVICE_FINALIZER));
}
