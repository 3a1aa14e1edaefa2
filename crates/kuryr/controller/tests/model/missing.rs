//! What somebody removes in OpenStack is an Event on the Service, once for each time.

use gimbal_kuryr_model::{
    DesiredKey, LoadBalancerReport, Phase, ReportedListener, ReportedMissing, ReportedObjects, ReportedPool,
};

use crate::api::Kind;
use crate::common::{ORDER, reasons, served};
use crate::world::{World, service};
use crate::writer::report;

fn key(world: &World) -> DesiredKey {
    world.offered.keys().next().unwrap().clone()
}

/// What the writer says when everything is there, with IDs that end in this.
fn made(world: &World, end: &str) -> LoadBalancerReport {
    let mut report = report(&"Service-2".into(), 1, Phase::Ready, ReportedObjects::default());
    let objects = &mut report.objects;
    objects.load_balancer = world.writer.latest_balancer(&key(world));
    objects.load_balancer.as_mut().unwrap().id = format!("lb-{end}").into();
    objects.listeners.push(ReportedListener {
        id: format!("listener-{end}").into(),
        name: "team/a:TCP:80".into(),
        protocol: "TCP".into(),
        port: 80,
        timeout_client_data: None,
        timeout_member_data: None,
    });
    objects.pools.push(ReportedPool {
        id: format!("pool-{end}").into(),
        listener: format!("listener-{end}").into(),
        name: "team/a:TCP:80".into(),
        protocol: "TCP".into(),
    });
    report
}

fn say(world: &mut World, report: &LoadBalancerReport, number: u64) {
    let key = key(world);
    world.deliver(&key, report, number);
    world.rest();
}

/// A Service whose status names what has these IDs.
fn shown(end: &str) -> World {
    let mut world = served();
    let report = made(&world, end);
    // From here on the test speaks for it.
    world.works = false;
    say(&mut world, &report, 101);
    assert_eq!(reasons(&world), [""; 0]);
    world
}

fn lost_balancer(end: &str) -> Option<Box<ReportedMissing>> {
    let load_balancers = vec![format!("lb-{end}").into()];
    Some(Box::new(ReportedMissing { load_balancers, ..ReportedMissing::default() }))
}

#[test]
fn what_is_found_missing_is_one_event_for_each_time() {
    let mut world = shown("1");
    // The work takes long: what is left is reported, and again with each attempt.
    let mut making = made(&world, "1");
    (making.phase, making.objects, making.missing) = (Phase::Making, ReportedObjects::default(), lost_balancer("1"));
    for number in [102, 103, 104] {
        making.last_error = Some(format!("attempt {number}").into());
        say(&mut world, &making, number);
    }
    let mut again = LoadBalancerReport { missing: lost_balancer("1"), ..made(&world, "2") };
    say(&mut world, &again, 105);
    assert_eq!(reasons(&world), ["LoadBalancerMissing", "KuryrEnsureLB", "KuryrEnsuredLB"]);
    let told = &world.notices[0].told;
    assert_eq!(
        (told.is_warning, &*told.message),
        (true, "someone else removed load balancer lb (lb-1); it is made again")
    );
    assert_eq!(world.notices[0].object.kind, gimbal_kuryr_resource::KuryrKind::Service);
    world.notices.clear();
    // A new stream, and a new process, hear it again.
    say(&mut world, &again, 106);
    world.restart(&ORDER);
    say(&mut world, &again, 107);
    assert_eq!(reasons(&world), [""; 0]);
    // It is made again so soon that only that is reported.
    (again.missing, again.objects.load_balancer.as_mut().unwrap().id) = (lost_balancer("2"), "lb-3".into());
    say(&mut world, &again, 108);
    assert_eq!(reasons(&world), ["LoadBalancerMissing"]);
}

#[test]
fn a_listener_a_pool_and_a_member_are_told_by_kind() {
    let mut world = shown("1");
    let mut after = made(&world, "1");
    after.objects.listeners[0].id = "listener-2".into();
    let listeners = vec!["listener-1".into()];
    after.missing = Some(Box::new(ReportedMissing { listeners, ..ReportedMissing::default() }));
    say(&mut world, &after, 102);
    after.objects.pools[0].id = "pool-2".into();
    let pools = vec!["pool-1".into()];
    after.missing = Some(Box::new(ReportedMissing { pools, ..ReportedMissing::default() }));
    say(&mut world, &after, 103);
    assert_eq!(reasons(&world), ["LoadBalancerListenerMissing", "LoadBalancerPoolMissing"]);

    let mut world = served();
    world.works = false;
    let key = key(&world);
    let mut after = made(&world, "1");
    after.objects = ReportedObjects { load_balancer: world.writer.latest_balancer(&key), ..ReportedObjects::default() };
    let members = vec!["member-10.1.0.1".into()];
    after.missing = Some(Box::new(ReportedMissing { members, ..ReportedMissing::default() }));
    say(&mut world, &after, 101);
    assert_eq!(reasons(&world), ["LoadBalancerMemberMissing"]);
    assert!(world.notices[0].told.message.contains("(member-10.1.0.1)"), "{:?}", world.notices);
}

#[test]
fn what_goes_on_purpose_is_not_told() {
    // A writer of an older release does not say why something has another ID.
    let mut world = shown("1");
    let other = made(&world, "2");
    say(&mut world, &other, 102);
    // What is found missing while the Service goes is not made again.
    let mut going = other;
    going.missing = lost_balancer("2");
    world.api.delete(Kind::Service, "a");
    world.rest();
    (going.phase, going.objects) = (Phase::Removing, ReportedObjects::default());
    say(&mut world, &going, 103);
    assert_eq!(reasons(&world), ["KuryrReleaseLB"]);
    // What was found missing before is not named once more because the Service takes a port away.
    let mut world = shown("1");
    let mut after = LoadBalancerReport { missing: lost_balancer("1"), ..made(&world, "2") };
    say(&mut world, &after, 102);
    world.api.edit(Kind::Service, "a", |it| it["spec"]["ports"] = service("LoadBalancer", 81)["spec"]["ports"].clone());
    world.rest();
    (after.generation, after.objects.listeners[0].id) = (2, "listener-3".into());
    say(&mut world, &after, 103);
    let mut told = reasons(&world);
    told.retain(|reason| reason.ends_with("Missing"));
    assert_eq!(told, ["LoadBalancerMissing"]);
}
