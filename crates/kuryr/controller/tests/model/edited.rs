//! What somebody makes of the KuryrLoadBalancer of a Service, and what a setting would.

use std::time::Duration;

use gimbal_kuryr_model::{ClassDefaults, CloudFacts, DesiredEntry, ExternalNetwork, LoadBalancerHeader, VipWish};
use gimbal_kuryr_resource::{ClusterKnowledge, WriteBody};
use serde_json::{Value, json};

use crate::api::{Kind, text};
use crate::common::{ORDER, conditions, get, reasons, served};
use crate::world::{World, facts, service, slice};
use crate::writer::Writer;

/// The writer would replace the load balancer before it hears that it was a mistake.
#[test]
fn what_somebody_changes_is_not_offered_before_it_is_set_back() {
    let edit = |it: &mut Value| it["spec"]["provider"] = json!("ovn");
    for fate in [0, 7, 9, 10, 11] {
        let mut world = served();
        let before = world.offered.clone();
        world.api.edit(Kind::Balancer, "a", edit);
        world.watch(Kind::Balancer);
        world.drain();
        assert_eq!(world.offered, before);
        assert!(world.plan() && world.answer(0, fate));
        world.drain();
        assert_eq!(world.offered, before, "{fate}");
        world.rest();
        world.check();
    }
    // Nor where it is not known what is wanted.
    let mut world = served();
    let before = world.offered.clone();
    world.unreadable(Kind::Slice);
    world.api.edit(Kind::Balancer, "a", edit);
    world.watch(Kind::Balancer);
    world.drain();
    assert_eq!(world.offered, before);
    world.list(Kind::Slice);
    world.rest();
    world.check();
    // One that somebody has put in its place.
    let mut world = served();
    let mut copy = get(&world, Kind::Balancer);
    copy["spec"]["provider"] = json!("ovn");
    world.api.edit(Kind::Balancer, "a", |it| it["metadata"]["finalizers"] = json!([]));
    world.api.delete(Kind::Balancer, "a");
    world.api.create(Kind::Balancer, "a", copy);
    while world.watch(Kind::Balancer) {}
    world.drain();
    assert!(world.offered.values().all(|entry| *entry == before.values().next().cloned().unwrap()));
    world.rest();
    world.check();
}

/// Nor does it hear of what was changed while no controller ran.
#[test]
fn what_was_changed_before_the_start_is_not_offered_before_it_is_set_back() {
    let edit = |it: &mut Value| it["spec"]["provider"] = json!("ovn");
    let is_offered = |world: &World| !world.offered.is_empty();
    for fate in [0, 7, 9, 10, 11] {
        let mut world = served();
        let before = header(&world);
        world.api.edit(Kind::Balancer, "a", edit);
        world.restart(&ORDER);
        assert!(!is_offered(&world) && world.controller.knowledge() != ClusterKnowledge::Complete);
        assert!(world.plan() && world.answer(0, fate));
        world.drain();
        assert!(world.offered.values().all(|entry| is_alone(entry)), "{fate}: {:?}", world.offered);
        world.rest();
        assert_eq!(header(&world), before, "{fate}");
        world.check();
    }
    // Where that is refused for good, nothing but the owner is known.
    let mut world = served();
    let before = header(&world);
    world.patience = Duration::from_secs(20);
    world.api.edit(Kind::Balancer, "a", edit);
    world.api.refuses = Some((Kind::Balancer, "a".into()));
    world.restart(&ORDER);
    world.rest();
    assert_eq!(world.controller.knowledge(), ClusterKnowledge::Complete);
    assert!(is_offered(&world) && world.offered.values().all(|entry| is_alone(entry)), "{:?}", world.offered);
    world.api.refuses = None;
    world.pass(Duration::from_secs(60));
    world.rest();
    assert_eq!(header(&world), before);
    world.check();
    // One that is as the writer had it is offered at once, whatever is wanted by now.
    world.api.edit(Kind::Slice, "a", |it| it["endpoints"] = slice("a", 3)["endpoints"].clone());
    world.restart(&ORDER);
    assert_eq!(header(&world), before);
    world.rest();
    world.check();
}

/// It names its owner, and wants nothing.
fn is_alone(entry: &DesiredEntry) -> bool {
    matches!(entry, DesiredEntry::LoadBalancer(wanted) if wanted.header.vip == VipWish::default())
}

#[test]
fn what_was_written_is_offered_while_more_is_to_come() {
    let mut world = served();
    let members = |world: &World| match world.offered.values().next().map(|entry| (**entry).clone()) {
        Some(DesiredEntry::LoadBalancer(wanted)) => wanted.members.as_slice().len(),
        _ => 0,
    };
    for (fate, pods, others) in [(0, 3, 4), (7, 5, 6), (0, 7, 8)] {
        let endpoints = |pods| move |it: &mut Value| it["endpoints"] = slice("a", pods)["endpoints"].clone();
        world.api.edit(Kind::Slice, "a", endpoints(pods));
        world.watch(Kind::Slice);
        assert!(world.plan() && world.answer(0, fate));
        world.api.edit(Kind::Slice, "a", endpoints(others));
        world.watch(Kind::Slice);
        world.watch(Kind::Balancer);
        world.drain();
        // Whose answer was lost is not known.
        let expected = if fate == 0 { pods } else { pods - 1 };
        assert_eq!(members(&world), usize::from(expected));
        world.rest();
        assert_eq!(members(&world), usize::from(others));
    }
    // Nor does it stop where a webhook makes something else of it.
    world.api.webhook = Some(|kind, object| {
        if kind == Kind::Balancer {
            object["spec"]["availability_zone"] = json!("of-the-webhook");
        }
    });
    for pods in [2, 3] {
        let endpoints = slice("a", pods)["endpoints"].clone();
        world.api.edit(Kind::Slice, "a", |it| it["endpoints"] = endpoints);
        world.rest();
        assert_eq!(members(&world), usize::from(pods));
    }
    world.check();
}

fn header(world: &World) -> LoadBalancerHeader {
    match world.offered.values().next().map(|entry| &**entry) {
        Some(DesiredEntry::LoadBalancer(wanted)) => (*wanted.header).clone(),
        other => panic!("{other:?}"),
    }
}

/// Else the status would say of the former spec that it is ready, and nothing of the one that is wanted.
#[test]
fn what_the_api_server_does_not_take_is_not_ready() {
    for (kind, told) in [(Kind::Balancer, "KuryrEnsureLBError"), (Kind::Service, "KuryrAddServiceFinalizerError")] {
        let mut world = served();
        world.patience = Duration::from_secs(20);
        world.api.refuses = Some((kind, "a".into()));
        world.api.refuses_only = Some(|body| matches!(body, WriteBody::Patch { .. }));
        if kind == Kind::Service {
            world.api.edit(Kind::Service, "a", |it| it["metadata"]["finalizers"] = json!([]));
        }
        world.api.edit(Kind::Slice, "a", |it| it["endpoints"] = slice("a", 3)["endpoints"].clone());
        world.rest();
        let expected = ["Ready=False WriteRefused", "Synced=False Pending", "Conflict=True WriteRefused"];
        assert_eq!(conditions(&world), expected);
        let message = text(&get(&world, Kind::Balancer), "/status/conditions/0/message").to_owned();
        assert!(
            message.starts_with("the API server refuses to set the ") && message.ends_with(": a policy"),
            "{message}"
        );
        assert_eq!(text(&get(&world, Kind::Service), "/status/loadBalancer/ingress/0/ip"), "10.96.0.10");
        assert_eq!(reasons(&world), [told], "{:?}", world.notices);
        // A new process has nothing else to say.
        let before = get(&world, Kind::Balancer);
        world.restart(&ORDER);
        world.rest();
        assert_eq!(get(&world, Kind::Balancer), before);
        world.api.refuses = None;
        world.pass(Duration::from_secs(60));
        world.rest();
        world.check();
        assert_eq!(
            get(&world, Kind::Balancer)["spec"]["endpointSlices"][0]["endpoints"].as_array().map(Vec::len),
            Some(3)
        );
    }
}

#[test]
fn a_class_that_is_gone_takes_no_load_balancer_away() {
    let fast = ClassDefaults { provider: Some("ovn".into()), flavor: Some("large".into()), ..ClassDefaults::default() };
    let with_class = CloudFacts { classes: [("fast".into(), fast)].into(), ..facts() };
    let mut world = World::new(true);
    world.controller.set_facts(&with_class);
    let mut wanted = service("LoadBalancer", 80);
    wanted["metadata"]["annotations"] = json!({"loadbalancer.openstack.org/class": "fast"});
    world.api.create(Kind::Service, "a", wanted);
    world.rest();
    let before = header(&world);
    assert_eq!(before.placement.provider.as_deref(), Some("ovn"));
    // A new process has the facts without the class from the beginning.
    for restarts in [false, true] {
        if restarts {
            world.restart(&ORDER);
        }
        world.controller.set_facts(&facts());
        world.rest();
        assert_eq!(header(&world), before);
        assert!(conditions(&world).contains(&"Held=True Setting".to_owned()), "{:?}", conditions(&world));
        // What somebody makes of it is set back all the same.
        world.api.edit(Kind::Balancer, "a", |it| it["spec"]["provider"] = json!("amphora"));
        world.rest();
        assert_eq!(header(&world), before);
        assert_eq!(get(&world, Kind::Balancer)["spec"]["provider"], json!("ovn"));
        // It can still be changed.
        world.api.create(Kind::Slice, "a", slice("a", 2));
        world.rest();
        assert_eq!(header(&world), before);
    }
    world.controller.set_facts(&with_class);
    world.rest();
    assert!(!conditions(&world).contains(&"Held=True Setting".to_owned()), "{:?}", conditions(&world));
    world.check();
}

#[test]
fn an_address_or_a_subnet_that_may_not_be_had_any_more_stays() {
    let external = facts().external.map(|external| ExternalNetwork { user_addresses: false, ..external });
    for later in [CloudFacts { external, ..facts() }, moved()] {
        let mut world = World::new(true);
        let mut wanted = service("LoadBalancer", 80);
        wanted["spec"]["loadBalancerIP"] = json!("172.24.4.9");
        world.api.create(Kind::Service, "a", wanted);
        world.rest();
        let before = header(&world);
        assert!(before.floating.as_ref().is_some_and(|floating| floating.address.is_some()), "{before:?}");
        for restarts in [false, true] {
            if restarts {
                world.restart(&ORDER);
            }
            world.controller.set_facts(&later);
            world.rest();
            assert_eq!(header(&world), before);
            assert!(conditions(&world).contains(&"Held=True Setting".to_owned()), "{:?}", conditions(&world));
        }
        world.controller.set_facts(&facts());
        world.rest();
        assert!(!conditions(&world).contains(&"Held=True Setting".to_owned()), "{:?}", conditions(&world));
        world.check();
    }
}

/// Service subnets have been replaced by `newer`, and the writer allows no other.
fn moved() -> CloudFacts {
    let mut moved = CloudFacts { service_subnets: vec!["newer".into()], ..facts() };
    let subnet = moved.subnets.remove("services").unwrap();
    moved.subnets.insert("newer".into(), subnet);
    moved
}

#[test]
fn a_subnet_that_may_not_be_had_any_more_stays_without_a_status() {
    let wiped: fn(&mut World) = |world| {
        world.api.edit(Kind::Balancer, "a", |it| drop(it.as_object_mut().unwrap().remove("status")));
    };
    let deleted: fn(&mut World) = |world| world.api.delete(Kind::Balancer, "a");
    for happens in [wiped, deleted] {
        let mut world = served();
        let before = header(&world);
        world.controller.set_facts(&moved());
        world.rest();
        // A new writer refuses the subnet, and does not fill in what is missing.
        let made = std::mem::take(&mut world.writer.made);
        world.writer = Writer::default();
        world.writer.made = made;
        world.writer.refuse("a", Some("subnet services is not allowed"));
        world.break_stream();
        world.rest();
        happens(&mut world);
        world.rest();
        assert_eq!(get(&world, Kind::Balancer)["status"]["loadbalancer"], Value::Null);
        for restarts in [false, true] {
            if restarts {
                world.restart(&ORDER);
                world.controller.set_facts(&moved());
                world.rest();
            }
            assert!(conditions(&world).contains(&"Held=True Setting".to_owned()), "{:?}", conditions(&world));
            assert_eq!(header(&world).vip, before.vip);
        }
        world.writer.refuse("a", None);
        world.controller.set_facts(&facts());
        world.rest();
        world.check();
        assert_eq!(header(&world), before);
    }
}

/// Whoever has named a wrong subnet first corrects that for all Services.
#[test]
fn a_subnet_in_which_nothing_was_made_does_not_stay() {
    let mut world = World::new(true);
    world.works = false;
    world.patience = Duration::from_secs(1);
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    world.rest();
    world.controller.set_facts(&moved());
    world.rest();
    assert_eq!(header(&world).vip.subnet.as_deref(), Some("newer"));
}

#[test]
fn a_network_that_is_gone_takes_no_floating_ip_away() {
    let mut world = served();
    let before = header(&world);
    assert!(before.floating.is_some());
    world.controller.set_facts(&CloudFacts { external: None, ..facts() });
    world.rest();
    assert_eq!(header(&world), before);
    assert!(conditions(&world).contains(&"Held=True Setting".to_owned()), "{:?}", conditions(&world));
    // A new one gets none.
    world.api.create(Kind::Service, "b", service("LoadBalancer", 80));
    world.rest();
    let new = world.offered.values().find(|entry| *entry.owner() != before.owner).cloned().unwrap();
    let DesiredEntry::LoadBalancer(new) = &*new else { panic!("{new:?}") };
    assert_eq!(new.header.floating, None);
}
