//! A Service that another controller serves by now.

use std::time::Duration;

use gimbal_kuryr_model::{Phase, ReportedLoadBalancer, ReportedObjects};
use gimbal_kuryr_resource::{KuryrKind, WriteBody};
use serde_json::json;

use crate::api::{self, Kind, SERVICE_FINALIZER};
use crate::common::{ORDER, get, served};
use crate::world::World;
use crate::writer::report;

/// Plays some turns in which everything is answered but writes of the status of one kind.
fn turns_without_status(world: &mut World, of: KuryrKind) {
    for _ in 0..10 {
        world.plan();
        while let Some(write) = world.in_flight.first() {
            let is_status = write.purpose == "set the status" && write.object.kind == of;
            world.answer(0, if is_status { 11 } else { 0 });
        }
        for kind in ORDER {
            while world.watch(kind) {}
        }
        world.drain();
        while world.writer.receive() || world.writer.work() || world.report() {}
        world.handled();
        world.pass(Duration::from_millis(100));
    }
}

/// The load balancer goes meanwhile, and with it what says which address is ours.
#[test]
fn our_address_goes_however_long_its_status_cannot_be_written() {
    for restarts in [false, true] {
        let mut world = served();
        world.api.edit(Kind::Service, "a", |it| it["spec"]["loadBalancerClass"] = json!("of-others"));
        turns_without_status(&mut world, KuryrKind::Service);
        assert!(world.writer.made.is_empty(), "{:?}", world.explain("a"));
        assert_eq!(get(&world, Kind::Service)["status"]["loadBalancer"]["ingress"][0]["ip"], "10.96.0.10");
        if restarts {
            world.restart(&ORDER);
        }
        world.rest();
        let service = get(&world, Kind::Service);
        assert!(!api::has(&service, SERVICE_FINALIZER) && get(&world, Kind::Balancer).is_null());
        assert_eq!(service["status"]["loadBalancer"], json!({}), "restarts: {restarts}");
        world.check();
    }
}

/// Nothing waits for a webhook that lets no status be written.
#[test]
fn a_status_that_is_refused_keeps_no_load_balancer() {
    let mut world = served();
    world.patience = Duration::from_secs(20);
    world.api.refuses = Some((Kind::Service, "a".into()));
    world.api.refuses_only = Some(|body| matches!(body, WriteBody::PatchStatus { .. }));
    world.api.edit(Kind::Service, "a", |it| it["spec"]["loadBalancerClass"] = json!("of-others"));
    world.rest();
    assert!(get(&world, Kind::Balancer).is_null() && world.writer.made.is_empty(), "{:?}", world.purposes);
}

/// The status of the KuryrLoadBalancer comes when all of it is as wanted.
#[test]
fn an_address_that_only_the_service_shows_goes_too() {
    let mut world = served();
    let key = world.offered.keys().next().unwrap().clone();
    let mut report = report(&"Service-2".into(), 0, Phase::Ready, ReportedObjects::default());
    let other =
        ReportedLoadBalancer { address: "10.96.0.77".parse().unwrap(), ..world.writer.latest_balancer(&key).unwrap() };
    report.objects.load_balancer = Some(other);
    report.objects.listeners = world.writer.latest_listeners(&key);
    world.deliver(&key, &report, 101);
    turns_without_status(&mut world, KuryrKind::LoadBalancer);
    assert_eq!(get(&world, Kind::Service)["status"]["loadBalancer"]["ingress"][0]["ip"], "10.96.0.77");
    assert_eq!(get(&world, Kind::Balancer)["status"]["loadbalancer"]["ip"], "10.96.0.10");
    world.api.edit(Kind::Service, "a", |it| {
        it["spec"]["loadBalancerClass"] = json!("of-others");
        let shown = it["status"]["loadBalancer"]["ingress"].as_array_mut().unwrap();
        shown.push(json!({"ip": "1.2.3.4"}));
    });
    turns_without_status(&mut world, KuryrKind::LoadBalancer);
    world.rest();
    let service = get(&world, Kind::Service);
    assert!(!api::has(&service, SERVICE_FINALIZER));
    assert_eq!(service["status"]["loadBalancer"], json!({"ingress": [{"ip": "1.2.3.4"}]}));
}
