//! A store that was restored to an older state, and settings that leave Services out.

use gimbal_kuryr_controller_core::{KuryrController, KuryrSettings};
use gimbal_kuryr_model::{CloudFacts, Phase, ReportedObjects, VipMode};
use gimbal_kuryr_resource::ClusterKnowledge;
use gimbal_kuryr_translate::ControllerSettings;
use serde_json::{Value, json};

use crate::api::{self, BALANCER_FINALIZER, Kind, SERVICE_FINALIZER};
use crate::common::{ORDER, conditions, get, reasons, served};
use crate::world::{World, facts, service, slice};
use crate::writer::report;

pub fn deleting(world: &World) -> bool {
    world.heard.iter().any(|heard| heard.contains("deleting"))
}

#[test]
fn what_a_restored_store_lacks_was_not_deleted() {
    let mut world = World::new(true);
    world.api.back_up();
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    world.rest();
    world.check();
    world.go_back();
    world.rest();
    assert_eq!(world.heard.last().map(String::as_str), Some("a gone"), "{:?}", world.heard);
    assert!(!deleting(&world), "{:?}", world.heard);
    assert_eq!(world.writer.made.iter().collect::<Vec<_>>(), ["Service-1"], "it is left to the search for orphans");
    assert_eq!(world.controller.knowledge(), ClusterKnowledge::Complete);
}

#[test]
fn what_is_made_again_meanwhile_goes_with_its_lost_owner() {
    let mut world = World::new(true);
    world.api.back_up();
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    world.rest();
    world.go_back();
    // Load balancers are listed first; the Service seems to be there.
    world.watch(Kind::Balancer);
    world.watch(Kind::Balancer);
    while world.plan() {
        while world.answer(0, 0) {}
        while world.watch(Kind::Balancer) {}
        world.drain();
    }
    world.rest();
    assert!(!deleting(&world), "{:?}", world.heard);
    assert_eq!((get(&world, Kind::Balancer), world.controller.knowledge()), (Value::Null, ClusterKnowledge::Complete));
}

#[test]
fn a_write_that_finds_nothing_waits_for_the_list() {
    let mut world = World::new(true);
    world.api.back_up();
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    world.rest();
    world.api.edit(Kind::Service, "a", |it| it["status"] = json!({}));
    world.watch(Kind::Service);
    assert!(world.plan());
    world.go_back();
    assert!(world.answer(0, 0));
    world.drain();
    world.rest();
    assert!(!deleting(&world), "{:?}", world.heard);
    assert!(world.writer.made.contains("Service-1"));
}

#[test]
fn what_was_deleted_and_is_back_is_served() {
    let mut world = served();
    world.api.back_up();
    world.works = false;
    world.api.delete(Kind::Service, "a");
    world.rest();
    assert!(deleting(&world));
    world.go_back();
    world.works = true;
    world.rest();
    world.check();
    assert!(world.writer.made.contains("Service-2"));
}

#[test]
fn what_was_deleted_by_force_and_is_back_is_served() {
    let mut world = served();
    world.api.back_up();
    world.works = false;
    world.collects = false;
    world.api.edit(Kind::Service, "a", |it| it["metadata"]["finalizers"] = json!([]));
    world.api.delete(Kind::Service, "a");
    while world.watch(Kind::Service) {}
    world.go_back();
    world.works = true;
    world.rest();
    world.check();
    assert!(world.writer.made.contains("Service-2"));
}

#[test]
fn a_load_balancer_of_its_own_is_not_deleted_by_a_restored_store() {
    let mut world = World::new(true);
    world.api.back_up();
    let spec = json!({
        "ip": "10.96.0.77", "project_id": "project", "subnet_id": "services", "type": "ClusterIP",
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "8080"}],
    });
    world.api.create(Kind::Balancer, "a", json!({ "spec": spec }));
    world.rest();
    world.go_back();
    world.rest();
    assert!(!deleting(&world), "{:?}", world.heard);
    assert_eq!(world.heard.last().map(String::as_str), Some("a gone"));
}

/// What it was not seen to be yet may be all that is known of it.
#[test]
fn a_status_that_finds_nothing_is_no_deletion() {
    let mut world = World::new(true);
    world.api.back_up();
    let spec = json!({
        "ip": "10.96.0.77", "project_id": "project", "subnet_id": "services", "type": "ClusterIP",
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "8080"}],
    });
    world.api.create(Kind::Balancer, "a", json!({ "spec": spec }));
    world.rest();
    let key = world.offered.keys().next().unwrap().clone();
    let mut report = report(&"Balancer-1".into(), 1, Phase::Blocked, ReportedObjects::default());
    report.objects.load_balancer = world.writer.latest_balancer(&key);
    report.last_error = Some("no room".into());
    world.deliver(&key, &report, 101);
    assert!(world.plan() && world.answer(0, 0), "its status, which the watch does not show");
    world.go_back();
    report.last_error = Some("no room at all".into());
    report.phase = Phase::Degraded;
    world.deliver(&key, &report, 102);
    assert!(world.plan() && world.answer(0, 0), "its status, which is not there any more");
    world.drain();
    world.rest();
    assert!(!deleting(&world), "{:?}", world.heard);
    assert_eq!(world.heard.last().map(String::as_str), Some("a gone"));
}

pub fn settings(services: ControllerSettings) -> KuryrSettings {
    KuryrSettings { services, ..KuryrSettings::default() }
}

/// A new process with these settings.
pub fn restart_with(world: &mut World, services: ControllerSettings) {
    world.controller = KuryrController::new(settings(services));
    world.restart(&ORDER);
    world.rest();
}

pub fn cluster_ip() -> World {
    let mut world = World::new(true);
    world.api.create(Kind::Slice, "a", slice("a", 2));
    world.api.create(Kind::Service, "a", service("ClusterIP", 80));
    world.rest();
    world.check();
    world
}

#[test]
fn a_flag_takes_no_load_balancer_away() {
    let off = ControllerSettings { cluster_ip_services: false, ..ControllerSettings::default() };
    let mut world = cluster_ip();
    restart_with(&mut world, off);
    assert!(!deleting(&world), "{:?}", world.heard);
    assert_eq!(conditions(&world), ["Ready=True Ready", "Synced=True Applied", "Held=True Setting"]);
    assert!(reasons(&world).contains(&"KuryrServiceSkipped"), "{:?}", world.notices);
    // It is served as before.
    let more = slice("a", 3);
    world.api.edit(Kind::Slice, "a", |it| it["endpoints"] = more["endpoints"].clone());
    world.rest();
    world.check();
    assert_eq!(get(&world, Kind::Balancer)["status"]["memberCount"], json!(3));
    world.check_restart(&ORDER);
    // None is made, and a person lets one go.
    world.api.create(Kind::Service, "b", service("ClusterIP", 80));
    world.rest();
    assert_eq!(world.api.get(Kind::Balancer, "b"), None);
    world.api.wanted_since.clear();
    world.api.delete(Kind::Balancer, "a");
    world.rest();
    assert!(deleting(&world) && world.writer.made.is_empty());
    let service = get(&world, Kind::Service);
    assert!(!api::has(&service, SERVICE_FINALIZER) && !api::is_going(&service));
    // Without the flag it is made again.
    restart_with(&mut world, ControllerSettings::default());
    world.check();
    assert!(api::has(&get(&world, Kind::Balancer), BALANCER_FINALIZER));
}

/// One that is made for nothing would be removed at once, for each Service of the cluster.
#[test]
fn whether_a_cluster_ip_is_balanced_is_asked_before_it_is() {
    let waits = KuryrSettings { has_writer: true, ..KuryrSettings::default() };
    for (vip, is_balanced) in [(VipMode::Allocate, false), (VipMode::ClusterIp, true)] {
        let mut world = World::with(false, waits.clone());
        world.api.create(Kind::Service, "a", service("ClusterIP", 80));
        world.rest();
        assert_eq!((world.writes, reasons(&world)), (0, vec![]), "{:?}", world.purposes);
        world.knows_facts = true;
        world.controller.set_facts(&CloudFacts { vip, ..facts() });
        world.rest();
        assert_eq!(get(&world, Kind::Balancer).is_null(), !is_balanced, "{:?}", world.purposes);
        assert_eq!(world.writes > 0, is_balanced, "{:?}", world.purposes);
    }
    // Another one is begun with at once.
    let mut world = World::with(false, waits);
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    world.rest();
    assert_eq!(world.purposes[0], "create it true");
    world.learn_facts();
    world.rest();
    world.check();
}

#[test]
fn addresses_that_the_cloud_chooses_take_no_load_balancer_away() {
    let mut world = cluster_ip();
    world.controller.set_facts(&CloudFacts { vip: VipMode::Allocate, ..facts() });
    world.rest();
    assert!(!deleting(&world), "{:?}", world.heard);
    assert_eq!(get(&world, Kind::Balancer)["spec"]["ip"], json!("10.96.0.10"));
    assert!(conditions(&world).contains(&"Held=True Setting".to_owned()), "{:?}", conditions(&world));
    world.controller.set_facts(&facts());
    world.rest();
    assert!(conditions(&world).contains(&"Held=False Passed".to_owned()), "{:?}", conditions(&world));
}

#[test]
fn another_class_of_the_controller_takes_nothing_away_and_a_type_does() {
    let of =
        |class: &str| ControllerSettings { load_balancer_class: Some(class.into()), ..ControllerSettings::default() };
    let mut world = World::with(true, settings(of("one")));
    let mut service = service("LoadBalancer", 80);
    service["spec"]["loadBalancerClass"] = json!("one");
    world.api.create(Kind::Service, "a", service);
    world.rest();
    world.check();
    restart_with(&mut world, of("two"));
    assert!(!deleting(&world), "{:?}", world.heard);
    world.api.edit(Kind::Service, "a", |it| {
        it["spec"]["type"] = json!("ClusterIP");
        it["spec"].as_object_mut().unwrap().remove("loadBalancerClass");
    });
    world.rest();
    world.check();
    world.api.edit(Kind::Service, "a", |it| it["spec"]["type"] = json!("NodePort"));
    world.rest();
    assert!(deleting(&world) && world.writer.made.is_empty());
}

#[test]
fn one_that_is_made_again_with_equal_generation_is_not_filled_in_from_memory() {
    let mut world = served();
    world.works = false;
    world.api.delete(Kind::Balancer, "a");
    world.api.edit(Kind::Service, "a", |it| it["spec"]["ports"][0]["port"] = json!(81));
    world.rest();
    assert_ne!(conditions(&world).first().map(String::as_str), Some("Ready=True Ready"));
    world.works = true;
    world.rest();
    world.check();
}

#[test]
fn a_report_of_before_the_cloud_changed_is_not_about_what_is_wanted_now() {
    let mut world = served();
    let ready = conditions(&world);
    world.works = false;
    let old = CloudFacts { api_version: gimbal_kuryr_model::ApiVersion { major: 2, minor: 0 }, ..facts() };
    world.controller.set_facts(&old);
    world.rest();
    // Nothing is known of it, so what is said stays.
    assert_eq!(conditions(&world), ready);
    world.works = true;
    world.rest();
    world.check();
}
