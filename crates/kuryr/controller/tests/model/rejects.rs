//! What the writer does not try.

use gimbal_kuryr_model::{DesiredKey, DesiredKind, Phase, ReportedObjects};
use serde_json::{Value, json};

use crate::api::{Kind, text};
use crate::common::{ORDER, conditions, get, reasons, served};
use crate::world::{World, service};
use crate::writer::report;

/// The condition of the Service: reason and message.
fn refusal(world: &World) -> (String, String) {
    let service = get(world, Kind::Service);
    let all = service["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.iter().find(|one| text(one, "/type") == "kuryr.openstack.org/LoadBalancerRefused");
    let none = Value::Null;
    let found = found.unwrap_or(&none);
    (text(found, "/reason").to_owned(), text(found, "/message").to_owned())
}

fn refused(words: &str) -> World {
    let mut world = World::new(true);
    world.writer.refuse("a", Some(words));
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    world.rest();
    world
}

#[test]
fn what_the_writer_does_not_try_is_said_to_its_owner() {
    let mut world = refused("project p is not allowed");
    assert_eq!(conditions(&world), ["Ready=False ProjectNotAllowed", "Synced=False Pending"]);
    assert_eq!(refusal(&world), ("ProjectNotAllowed".into(), "project p is not allowed".into()));
    assert_eq!(reasons(&world), ["KuryrEnsureLBError"]);
    assert_eq!(world.notices[0].told.message, "project p is not allowed");
    // A retry, a new stream and a new process have nothing new to say.
    let writes = world.writes;
    world.writer.refuse("a", Some("project p is not allowed"));
    world.break_stream();
    world.rest();
    world.restart(&ORDER);
    world.rest();
    assert_eq!((world.writes, reasons(&world).len()), (writes, 1), "{:?}", world.purposes);
    // Other words are shown, and are no other reason.
    world.writer.refuse("a", Some("project q is not allowed"));
    world.rest();
    assert_eq!(refusal(&world).1, "project q is not allowed");
    assert_eq!(reasons(&world).len(), 1, "{:?}", world.notices);
    world.check_refusals();
    world.writer.refuse("a", None);
    world.rest();
    assert_eq!(reasons(&world), ["KuryrEnsureLBError", "KuryrEnsuredLB"]);
    assert_eq!(refusal(&world), (String::new(), String::new()));
    world.check();
}

#[test]
fn what_is_taken_back_is_not_shown_until_there_is_a_report() {
    let mut world = refused("no");
    // The writer is at it, and has not said so yet.
    world.controller.resolved(&key(), world.now);
    world.rest();
    assert_eq!(conditions(&world), ["Ready=False WaitingForWriter", "Synced=False Pending"]);
    assert_eq!(refusal(&world), (String::new(), String::new()));
    world.writer.refuse("a", None);
    world.rest();
    world.check();
}

/// Where Ingresses are not served, no other core hears of routers.
#[test]
fn what_is_said_of_a_router_concerns_no_load_balancer_of_its_name() {
    let mut world = served();
    let router = DesiredKey::new(DesiredKind::L7Router, "team", "a");
    world.controller.rejected(&router, "ProjectNotAllowed", "no");
    world.rest();
    world.check();
    let report = report(&"Service-2".into(), 1, Phase::Blocked, ReportedObjects::default());
    world.deliver(&router, &report, 101);
    world.rest();
    world.check();
    world.writer.refuse("a", Some("no"));
    world.rest();
    world.controller.resolved(&router, world.now);
    world.rest();
    assert_eq!(refusal(&world), ("ProjectNotAllowed".into(), "no".into()));
}

#[test]
fn what_ended_with_a_stream_ends_with_the_next_report() {
    let mut world = refused("no");
    world.writer.refuse("a", None);
    world.writer.receive();
    world.writer.work();
    // That it was taken back is lost.
    world.break_stream();
    world.rest();
    world.check();
}

#[test]
fn what_serves_and_is_refused_keeps_what_it_shows() {
    let mut world = served();
    let before = get(&world, Kind::Balancer)["status"].clone();
    world.writer.refuse("a", Some("no"));
    world.rest();
    assert_eq!(conditions(&world), ["Ready=False ProjectNotAllowed", "Synced=False Pending"]);
    let after = get(&world, Kind::Balancer)["status"].clone();
    assert_eq!((&after["loadbalancer"], &after["members"]), (&before["loadbalancer"], &before["members"]));
    assert_eq!(text(&get(&world, Kind::Service), "/status/loadBalancer/ingress/0/ip"), "10.96.0.10");
    // Neither a report of what is there nor a new stream or process changes that.
    let writes = world.writes;
    world.break_stream();
    world.rest();
    world.restart(&ORDER);
    world.rest();
    assert_eq!(world.writes, writes, "{:?}", world.purposes);
    world.check_refusals();
    // It can go: that is never refused.
    world.api.delete(Kind::Service, "a");
    world.rest();
    assert_eq!((get(&world, Kind::Service), get(&world, Kind::Balancer)), (Value::Null, Value::Null));
    assert!(world.writer.made.is_empty());
}

#[test]
fn a_new_process_takes_nothing_back_before_the_writer_has_reported() {
    let mut world = served();
    let mut degraded = report(&"Service-2".into(), 1, Phase::Degraded, ReportedObjects::default());
    degraded.objects.load_balancer = world.writer.latest_balancer(&key());
    world.deliver(&key(), &degraded, 101);
    world.controller.rejected(&key(), "ProjectNotAllowed", "no");
    world.rest();
    let before = get(&world, Kind::Balancer)["status"].clone();
    assert!(conditions(&world).contains(&"Degraded=True Degraded".to_owned()), "{:?}", conditions(&world));
    // The reject comes first.
    world.works = false;
    world.restart(&ORDER);
    world.controller.rejected(&key(), "ProjectNotAllowed", "no");
    world.rest();
    assert_eq!(get(&world, Kind::Balancer)["status"], before);
}

#[test]
fn a_standby_has_heard_nothing() {
    let mut world = refused("no");
    world.lead(false);
    world.controller.rejected(&key(), "Quota", "of a former stream");
    assert_eq!(world.controller.counts().rejected, 0);
    world.writer.refuse("a", None);
    world.lead(true);
    world.rest();
    world.check();
}

#[test]
fn reasons_that_are_conditions_are_those() {
    for (reason, condition) in [
        ("OwnerConflict", "Conflict=True OwnerConflict"),
        ("Unsupported", "Unsupported=True Unsupported"),
        ("Quota", "QuotaExceeded=True Quota"),
    ] {
        let mut world = served();
        world.controller.rejected(&key(), reason, "words");
        world.rest();
        assert!(conditions(&world).iter().any(|one| one == condition), "{:?}", conditions(&world));
        assert_eq!(reasons(&world), ["KuryrEnsureLBError"], "once: {:?}", world.notices);
    }
}

#[test]
fn what_contradicts_itself_is_said_on_the_service_too() {
    let mut world = served();
    world.api.edit(Kind::Service, "a", |it| {
        it["spec"]["clusterIP"] = json!("10.97.0.10");
        it["spec"]["clusterIPs"] = json!(["10.97.0.10"]);
    });
    world.rest();
    assert_eq!(refusal(&world).0, "VipOutsideSubnet");
    assert_eq!(reasons(&world), ["KuryrEnsureLBError"], "{:?}", world.notices);
}

#[test]
fn what_is_refused_while_its_entry_is_away_holds_when_it_is_back() {
    let mut world = World::new(true);
    world.api.back_up();
    world.writer.refuse("a", Some("no"));
    world.works = false;
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    world.rest();
    world.writer.receive();
    assert!(world.writer.work());
    world.go_back();
    world.rest();
    assert_eq!(world.heard.last().map(String::as_str), Some("a gone"));
    assert!(world.report());
    assert_eq!(world.controller.counts().rejected, 0, "nothing is offered that it is about");
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    world.rest();
    // The writer receives both changes before it works on one: its words are true of the newer state as well.
    world.writer.to.retain(|(_, entry)| entry.is_some());
    world.works = true;
    world.rest();
    assert_eq!(world.controller.counts().rejected, 1);
    world.check_refusals();
    assert_eq!(conditions(&world), ["Ready=False ProjectNotAllowed", "Synced=False Pending"]);
    // It is remembered no longer than the stream.
    world.api.forced.insert(text(&get(&world, Kind::Service), "/metadata/uid").to_owned());
    world.api.delete(Kind::Service, "a");
    world.rest();
    assert_eq!((get(&world, Kind::Service), world.offered.len()), (Value::Null, 0));
    world.writer.refuse("a", None);
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    world.rest();
    world.check();
}

#[test]
fn what_is_left_out_of_one_that_is_refused_is_said() {
    let unreadable = |it: &mut Value| {
        it["metadata"]["annotations"] = json!({"openstack.org/kuryr-timeout-client-data": "soon"});
    };
    let mut world = refused("no");
    world.api.edit(Kind::Service, "a", unreadable);
    world.rest();
    assert!(conditions(&world).contains(&"Unsupported=True InvalidAnnotation".to_owned()), "{:?}", conditions(&world));
    let writes = world.writes;
    world.restart(&ORDER);
    world.rest();
    assert_eq!(world.writes, writes, "{:?}", world.purposes);
    // What a report has said stays while there is no other one.
    let mut world = served();
    let mut degraded = report(&"Service-2".into(), 1, Phase::Degraded, ReportedObjects::default());
    degraded.objects.load_balancer = world.writer.latest_balancer(&key());
    world.deliver(&key(), &degraded, 101);
    world.controller.rejected(&key(), "ProjectNotAllowed", "no");
    world.rest();
    world.works = false;
    world.restart(&ORDER);
    world.controller.rejected(&key(), "ProjectNotAllowed", "no");
    world.api.edit(Kind::Service, "a", unreadable);
    world.rest();
    for expected in ["Ready=False ProjectNotAllowed", "Unsupported=True InvalidAnnotation", "Degraded=True Degraded"] {
        assert!(conditions(&world).iter().any(|one| one == expected), "{:?}", conditions(&world));
    }
}

fn key() -> DesiredKey {
    DesiredKey::new(DesiredKind::LoadBalancer, "team", "a")
}
