//! Lives of load balancers, step by step.

use std::time::Duration;

use gimbal_kuryr_controller_core::KuryrSettings;
use gimbal_kuryr_model::{ListenerId, Phase, PortRefusal, ReportedObjects};
use gimbal_kuryr_resource::NamespacePatterns;
use gimbal_kuryr_translate::ControllerSettings;
use serde_json::{Value, json};

use crate::api::{self, BALANCER_FINALIZER, Kind, SERVICE_FINALIZER, text};
use crate::common::{ORDER, conditions, get, reasons, served};
use crate::world::{World, service, slice};
use crate::writer::report;

#[test]
fn a_service_costs_four_writes_and_one_event() {
    let mut world = World::new(true);
    world.api.create(Kind::Slice, "a", slice("a", 2));
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    world.rest();
    world.check();
    let mut purposes = world.purposes.clone();
    purposes[2..].sort();
    let expected = ["set the finalizer false", "create it true", "set the status false", "set the status true"];
    assert_eq!(purposes, expected);
    assert_eq!(reasons(&world), ["KuryrEnsuredLB"]);
    assert_eq!(world.notices[0].told.message, "the load balancer serves at 10.96.0.10");
    // Its status is the second thing that is offered of it: it names what exists.
    assert_eq!(world.heard, ["a Service-2 known=false", "a Service-2 known=true"]);
}

#[test]
fn without_the_writer_there_are_no_finalizers() {
    let mut world = World::new(false);
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    world.rest();
    let (service, balancer) = (get(&world, Kind::Service), get(&world, Kind::Balancer));
    assert!(!api::has(&service, SERVICE_FINALIZER) && !api::has(&balancer, BALANCER_FINALIZER));
    assert_eq!((&balancer["spec"]["project_id"], &balancer["spec"]["ip"]), (&Value::Null, &json!("10.96.0.10")));
    assert_eq!(conditions(&world), ["Ready=False WaitingForWriter", "Synced=False Pending"]);
    let said = world.explain("a");
    assert!(said.iter().any(|said| said.contains("has not said anything about the cloud")), "{said:?}");
    assert!(said.contains(&"Once it has, TCP port 80 is offered with no member.".to_owned()), "{said:?}");
    world.api.create(Kind::Slice, "a", slice("a", 12));
    world.rest();
    let (said, named) = (world.explain("a"), (1..=10).map(|n| format!("10.1.0.{n}:8080")).collect::<Vec<_>>());
    let expected = format!("Once it has, TCP port 80 is offered with 12 members: {} and 2 more.", named.join(", "));
    assert!(said.contains(&expected), "{said:?}");
    // Once it speaks, everything is added, and only then it is offered.
    assert_eq!(world.heard, Vec::<String>::new());
    world.learn_facts();
    world.rest();
    world.check();
    // Before that, a Service may go without asking.
    let mut world = World::new(false);
    world.api.create(Kind::Service, "a", self::service("LoadBalancer", 80));
    world.rest();
    world.api.delete(Kind::Service, "a");
    world.rest();
    assert_eq!((get(&world, Kind::Service), get(&world, Kind::Balancer)), (Value::Null, Value::Null));
}

#[test]
fn a_deletion_waits_for_the_writer() {
    let mut world = served();
    world.api.delete(Kind::Service, "a");
    world.works = false;
    world.rest();
    assert!(api::has(&get(&world, Kind::Service), SERVICE_FINALIZER));
    assert!(api::is_going(&get(&world, Kind::Balancer)) && api::has(&get(&world, Kind::Balancer), BALANCER_FINALIZER));
    assert_eq!(text(&get(&world, Kind::Service), "/status/loadBalancer/ingress/0/ip"), "", "the address goes first");
    assert_eq!(reasons(&world), ["KuryrReleaseLB"]);
    world.works = true;
    world.rest();
    assert_eq!((get(&world, Kind::Service), get(&world, Kind::Balancer)), (Value::Null, Value::Null));
    assert_eq!(world.heard, ["a deleting Service-2", "a gone"]);
    assert!(!world.purposes.iter().any(|purpose| purpose.starts_with("read")), "{:?}", world.purposes);
}

#[test]
fn a_load_balancer_that_is_deleted_beside_its_service_is_made_again() {
    let mut world = served();
    world.api.delete(Kind::Balancer, "a");
    world.rest();
    world.check();
    assert!(!world.heard.iter().any(|heard| heard.contains("deleting") || heard.contains("gone")), "{:?}", world.heard);
    assert_eq!(world.purposes, ["remove the finalizer true", "create it true", "set the status true"]);
    assert_eq!(text(&get(&world, Kind::Service), "/status/loadBalancer/ingress/0/ip"), "10.96.0.10");
}

#[test]
fn a_service_of_the_same_name_comes_after_the_one_before() {
    let mut world = served();
    // By force, so that it is gone at once.
    world.api.forced.insert("Service-2".into());
    world.api.edit(Kind::Service, "a", |it| it["metadata"]["finalizers"] = json!([]));
    world.api.delete(Kind::Service, "a");
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    world.rest();
    world.check();
    let expected = ["a deleting Service-2", "a gone", "a Service-4 known=false", "a Service-4 known=true"];
    assert_eq!(world.heard.iter().map(String::as_str).filter(|heard| *heard != "a gone").collect::<Vec<_>>(), {
        expected.iter().copied().filter(|heard| *heard != "a gone").collect::<Vec<_>>()
    });
    assert!(!world.writer.made.contains("Service-2"));
}

#[test]
fn a_wiped_status_is_asked_for() {
    for wipe in [
        (|it: &mut Value| drop(it.as_object_mut().unwrap().remove("status"))) as fn(&mut Value),
        |it| it["status"] = json!({}),
        |it| drop(it["status"].as_object_mut().unwrap().remove("loadbalancer")),
        |it| drop(it["status"].as_object_mut().unwrap().remove("members")),
    ] {
        let mut world = served();
        let before = get(&world, Kind::Balancer)["status"].clone();
        world.api.edit(Kind::Balancer, "a", wipe);
        world.rest();
        assert_eq!(world.heard, ["a Service-2 known=false", "a Service-2 known=true"]);
        let mut after = get(&world, Kind::Balancer)["status"].clone();
        after["conditions"] = before["conditions"].clone();
        assert_eq!(after, before);
        world.check();
    }
}

#[test]
fn what_somebody_changes_is_set_back() {
    let mut world = served();
    world.api.edit(Kind::Balancer, "a", |it| it["spec"]["provider"] = json!("ovn"));
    world.api.edit(Kind::Balancer, "a", |it| it["metadata"]["finalizers"] = json!(["of/others"]));
    world.api.edit(Kind::Service, "a", |it| it["metadata"]["finalizers"] = json!(["of/others"]));
    world.rest();
    world.check();
    assert_eq!(get(&world, Kind::Balancer)["spec"]["provider"], json!("amphora"));
    assert_eq!(get(&world, Kind::Balancer)["metadata"]["finalizers"], json!(["of/others", BALANCER_FINALIZER]));
    assert_eq!(get(&world, Kind::Service)["metadata"]["finalizers"], json!(["of/others", SERVICE_FINALIZER]));
    assert!(!world.heard.iter().any(|heard| heard.contains("deleting") || heard.contains("gone")), "{:?}", world.heard);
}

#[test]
fn a_type_that_wants_none_is_a_transition() {
    let mut world = served();
    world.api.edit(Kind::Service, "a", |it| it["spec"]["type"] = json!("NodePort"));
    world.rest();
    world.check();
    assert_eq!(get(&world, Kind::Balancer), Value::Null);
    assert_eq!(world.heard, ["a deleting Service-2", "a gone"]);
    world.api.edit(Kind::Service, "a", |it| it["spec"]["loadBalancerClass"] = json!("of-others"));
    world.api.edit(Kind::Service, "a", |it| it["spec"]["type"] = json!("LoadBalancer"));
    world.rest();
    assert_eq!(get(&world, Kind::Balancer), Value::Null);
    world.api.edit(Kind::Service, "a", |it| drop(it["spec"].as_object_mut().unwrap().remove("loadBalancerClass")));
    world.rest();
    world.check();
    assert_ne!(get(&world, Kind::Balancer), Value::Null);
}

/// It is served by another controller by now, which would show its address again.
#[test]
fn what_another_controller_shows_stays_while_ours_goes() {
    let to_others = |it: &mut Value, shown: Value| {
        it["spec"]["type"] = json!("LoadBalancer");
        it["spec"]["loadBalancerClass"] = json!("of-others");
        it["metadata"]["annotations"] = json!({"loadbalancer.openstack.org/hostname": "ours.example"});
        it["status"]["loadBalancer"] = json!({ "ingress": shown });
    };
    let theirs = json!([{"ip": "1.2.3.4"}]);
    for (through, shown) in [
        (Some("NodePort"), theirs.clone()),
        (None, theirs.clone()),
        (None, json!([{"ip": "10.96.0.10"}, {"ip": "1.2.3.4"}, {"hostname": "ours.example"}])),
    ] {
        let mut world = served();
        world.works = false;
        if let Some(type_) = through {
            world.api.edit(Kind::Service, "a", |it| it["spec"]["type"] = json!(type_));
            world.rest();
            assert_eq!(world.heard, ["a deleting Service-2"]);
        }
        world.api.edit(Kind::Service, "a", |it| to_others(it, shown.clone()));
        world.rest();
        assert!(api::is_going(&get(&world, Kind::Balancer)), "{through:?}");
        assert_eq!(get(&world, Kind::Service)["status"]["loadBalancer"]["ingress"], theirs, "{through:?}: {shown}");
        world.works = true;
        world.rest();
        let service = get(&world, Kind::Service);
        assert!(!api::has(&service, SERVICE_FINALIZER) && get(&world, Kind::Balancer).is_null());
        assert_eq!(service["status"]["loadBalancer"]["ingress"], theirs, "{through:?}: {shown}");
    }
}

#[test]
fn settings_say_what_is_served_and_let_stay_what_exists() {
    let settings = KuryrSettings {
        services: ControllerSettings { require_endpoints: true, ..ControllerSettings::default() },
        ..KuryrSettings::default()
    };
    let mut world = World::with(true, settings);
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    world.rest();
    assert_eq!((world.writes, reasons(&world)), (0, vec!["KuryrServiceSkipped"]));
    world.api.create(Kind::Slice, "a", slice("a", 1));
    world.rest();
    world.check();
    // What exists stays without endpoints, and where a pattern leaves its namespace out.
    world.api.edit(Kind::Slice, "a", |it| it["endpoints"] = json!([]));
    world.rest();
    world.check();
    let mut world = served();
    let namespaces = NamespacePatterns { only: vec!["other-*".into()], except: Vec::new() };
    let elsewhere = KuryrSettings { namespaces, ..KuryrSettings::default() };
    world.controller = gimbal_kuryr_controller_core::KuryrController::new(elsewhere);
    world.restart(&ORDER);
    world.rest();
    world.check();
    world.api.create(Kind::Service, "b", service("LoadBalancer", 80));
    world.rest();
    assert_eq!(world.api.get(Kind::Balancer, "b"), None);
    let said = world.explain("b");
    assert!(said[0].contains("--namespaces"), "{said:?}");
    world.api.delete(Kind::Service, "a");
    world.rest();
    assert_eq!(get(&world, Kind::Service), Value::Null);
    assert!(world.writer.made.is_empty());
}

#[test]
fn one_bad_object_stops_no_other() {
    for kind in [Kind::Service, Kind::Balancer] {
        let mut world = World::new(true);
        world.patience = Duration::from_secs(20);
        world.api.refuses = Some((kind, "a".into()));
        for name in ["a", "b"] {
            world.api.create(Kind::Service, name, service("LoadBalancer", 80));
        }
        world.rest();
        assert!(world.writer.made.contains("Service-2") && !world.writer.made.contains("Service-1"));
        let expected = if kind == Kind::Service { "KuryrAddServiceFinalizerError" } else { "KuryrEnsureLBError" };
        let told: Vec<_> =
            world.notices.iter().filter(|notice| &*notice.object.name == "a").map(|it| it.told.reason).collect();
        assert_eq!(told, [expected], "not for each attempt");
        assert_eq!(world.controller.counts().failing, 1);
        world.api.refuses = None;
        world.pass(Duration::from_secs(60));
        world.rest();
        world.check();
    }
}

#[test]
fn what_lasts_is_reported_while_it_lasts() {
    let mut world = World::new(true);
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    world.works = false;
    world.patience = Duration::from_secs(1);
    world.rest();
    world.writer.receive();
    world.writer.work();
    world.report();
    world.rest();
    assert_eq!((conditions(&world), reasons(&world)), (vec![], vec![]), "not yet");
    world.pass(Duration::from_secs(6));
    world.rest();
    assert_eq!(conditions(&world), ["Ready=False Making", "Synced=False Pending"]);
    assert_eq!(reasons(&world), ["KuryrEnsureLB"]);
    world.works = true;
    world.rest();
    assert_eq!(conditions(&world), ["Ready=True Ready", "Synced=True Applied"]);
    assert_eq!(reasons(&world), ["KuryrEnsureLB", "KuryrEnsuredLB"]);
    // A member more is no event, and one status.
    let before = world.writes;
    world.api.create(Kind::Slice, "a", slice("a", 1));
    world.rest();
    world.check();
    assert_eq!((world.writes - before, reasons(&world).len()), (2, 2), "{:?}", world.purposes);
}

#[test]
fn a_storm_of_slices_is_a_handful_of_writes() {
    let mut world = served();
    let before = world.writes;
    for pods in (0..100).map(|n| n % 7) {
        let slice = slice("a", pods);
        world.api.edit(Kind::Slice, "a", |it| it["endpoints"] = slice["endpoints"].clone());
        world.watch(Kind::Slice);
        world.plan();
        if pods == 5 {
            world.answer(0, 0);
            world.watch(Kind::Balancer);
        }
    }
    assert!(world.writes - before <= 15, "{}", world.writes - before);
    world.rest();
    world.check();
    let spec = &get(&world, Kind::Balancer)["spec"];
    assert_eq!(spec["endpointSlices"][0]["endpoints"].as_array().map(Vec::len), Some(99 % 7));
}

#[test]
fn a_kind_that_cannot_be_read_is_not_empty() {
    let mut world = served();
    let offered = world.offered.clone();
    for kind in ORDER {
        world.unreadable(kind);
    }
    world.api.edit(Kind::Balancer, "a", |it| it["spec"]["provider"] = json!("ovn"));
    world.rest();
    assert_eq!(world.purposes, Vec::<String>::new());
    let knowledge = world.controller.knowledge();
    let expected = gimbal_kuryr_resource::ClusterKnowledge::Unreadable("Service cannot be read: no rights".into());
    assert_eq!(knowledge, expected);
    // A new process that cannot read a kind offers nothing at all, and does nothing.
    for missing in ORDER {
        let others: Vec<_> = ORDER.into_iter().filter(|kind| *kind != missing).collect();
        world.restart(&others);
        world.unreadable(missing);
        world.rest();
        assert!(world.offered.is_empty() && world.purposes.is_empty(), "{missing:?}: {:?}", world.purposes);
        assert!(matches!(world.controller.knowledge(), gimbal_kuryr_resource::ClusterKnowledge::Waiting(_)));
    }
    world.quiet();
    world.check();
    assert_eq!(world.offered.keys().collect::<Vec<_>>(), offered.keys().collect::<Vec<_>>());
}

#[test]
fn slices_that_cannot_be_read_take_no_member_away() {
    let mut world = served();
    world.restart(&[Kind::Service, Kind::Balancer, Kind::Slice]);
    world.unreadable(Kind::Slice);
    world.api.edit(Kind::Service, "a", |it| it["spec"]["ports"][0]["port"] = json!(81));
    world.rest();
    let spec = get(&world, Kind::Balancer)["spec"].clone();
    assert_eq!((&spec["ports"][0]["port"], spec["endpointSlices"].as_array().map(Vec::len)), (&json!(80), Some(1)));
    assert_eq!(world.offered.len(), 1);
    world.list(Kind::Slice);
    world.rest();
    world.check();
}

#[test]
fn a_controller_that_does_not_lead_does_nothing() {
    let mut world = served();
    world.lead(false);
    world.api.create(Kind::Service, "b", service("LoadBalancer", 80));
    world.rest();
    assert_eq!((world.purposes.len(), world.offered.len()), (0, 0));
    world.lead(true);
    world.rest();
    world.check();
    assert_eq!(world.offered.len(), 2);
}

#[test]
fn a_load_balancer_of_its_own_is_served_and_blocks_a_service_of_its_name() {
    let mut world = World::new(true);
    let spec = json!({
        "ip": "10.96.0.77", "project_id": "project", "subnet_id": "services", "type": "ClusterIP",
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "8080"}],
    });
    world.api.create(Kind::Balancer, "a", json!({ "spec": spec }));
    world.rest();
    world.check();
    assert_eq!(world.heard, ["a Balancer-1 known=false", "a Balancer-1 known=true"]);
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    world.rest();
    world.check();
    assert!(!api::has(&get(&world, Kind::Service), SERVICE_FINALIZER));
    assert!(reasons(&world).contains(&"KuryrEnsureLBError"), "{:?}", world.notices);
    world.check_restart(&ORDER);
    // When it goes, the Service gets one.
    world.api.delete(Kind::Balancer, "a");
    world.rest();
    world.check();
    assert!(api::has(&get(&world, Kind::Service), SERVICE_FINALIZER));
    assert!(!world.writer.made.contains("Balancer-1"));
}

#[test]
fn what_kuryr_left_is_taken_over() {
    let mut world = World::new(true);
    let left = json!({
        "metadata": {"finalizers": [BALANCER_FINALIZER]},
        "spec": {"ip": "10.96.0.10", "ports": [], "project_id": "project", "subnet_id": "services"},
        "status": {"loadbalancer": {"id": "l", "ip": "10.96.0.10", "name": "n", "port_id": "p", "project_id": "project",
                                    "provider": "amphora", "security_groups": [], "subnet_id": "services"}},
    });
    world.api.create(Kind::Balancer, "a", left);
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    world.api.edit(Kind::Service, "a", |it| it["metadata"]["finalizers"] = json!([SERVICE_FINALIZER]));
    world.restart(&ORDER);
    world.rest();
    world.check();
    let owner = text(&get(&world, Kind::Balancer), "/metadata/ownerReferences/0/uid").to_owned();
    assert_eq!(owner, "Service-2");
}

#[test]
fn a_port_that_is_not_served_is_said_on_the_service() {
    let mut world = served();
    let of_others =
        json!({"type": "OfOthers", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "t"});
    world.api.edit(Kind::Service, "a", |it| it["status"]["conditions"] = json!([of_others]));
    world.rest();
    let key = world.offered.keys().next().unwrap().clone();
    let mut report = report(&"Service-2".into(), 1, Phase::Ready, ReportedObjects::default());
    report.objects.load_balancer = world.writer.latest_balancer(&key);
    report.objects.listeners = world.writer.latest_listeners(&key);
    report.refused_ports.push(PortRefusal {
        listener: ListenerId::new(gimbal_model::Protocol::Tcp, 80),
        reason: "NoTcp".into(),
        message: "the provider has no TCP".into(),
    });
    world.deliver(&key, &report, 101);
    world.rest();
    let status = get(&world, Kind::Service)["status"].clone();
    assert_eq!(status["loadBalancer"]["ingress"][0]["ports"][0]["error"], json!("kuryr.openstack.org/NoTcp"));
    assert_eq!(status["conditions"][0], of_others);
    assert_eq!(text(&status, "/conditions/1/type"), "LoadBalancerPortsError");
    assert_eq!(text(&status, "/conditions/1/message"), "80/TCP: kuryr.openstack.org/NoTcp");
    assert_eq!(reasons(&world), ["KuryrSkipListener"]);
    assert!(conditions(&world).contains(&"Unsupported=True NoTcp".to_owned()), "{:?}", conditions(&world));
    report.refused_ports.clear();
    world.deliver(&key, &report, 102);
    world.rest();
    assert_eq!(get(&world, Kind::Service)["status"]["conditions"], json!([of_others]));
    assert!(world.writer.unhandled.is_empty());
}

#[test]
fn what_a_load_balancer_keeps_for_its_life_is_an_event_when_it_changes() {
    let replaced = |changes: &str| vec![format!("the load balancer is replaced: {changes}")];
    let told = |world: &mut World| -> Vec<String> {
        world.rest();
        let told = world.notices.drain(..).filter(|notice| notice.told.reason == "KuryrUpdateProvider");
        told.map(|notice| notice.told.message).collect()
    };
    let mut world = served();
    let facts = gimbal_kuryr_model::CloudFacts { provider: Some("ovn".into()), ..crate::world::facts() };
    world.controller.set_facts(&facts);
    assert_eq!(told(&mut world), replaced("its provider was amphora and is to be ovn"));
    let asks = |name: &str, value: &str| {
        let annotations = json!({ format!("loadbalancer.openstack.org/{name}"): value });
        move |it: &mut Value| it["metadata"]["annotations"] = annotations
    };
    world.api.edit(Kind::Service, "a", asks("flavor-id", "large"));
    assert_eq!(told(&mut world), replaced("its flavor is to be large"));
    world.api.edit(Kind::Service, "a", asks("flavor-id", "small"));
    assert_eq!(told(&mut world), replaced("its flavor was large and is to be small"));
    // What it is without the annotation is the cloud's choice, and it may stay.
    world.api.edit(Kind::Service, "a", asks("connection-limit", "9"));
    assert_eq!(told(&mut world), [""; 0]);
    world.api.edit(Kind::Service, "a", asks("subnet-id", "elsewhere"));
    assert_eq!(told(&mut world), replaced("its subnet was services and is to be elsewhere"));
    // The writer does not hear of what is set back.
    world.api.edit(Kind::Balancer, "a", |it| it["spec"]["provider"] = json!("amphora"));
    assert_eq!(told(&mut world), [""; 0]);
}

/// A Service that stays in `Terminating` says why.
#[test]
fn a_finalizer_that_cannot_be_removed_is_an_event() {
    let mut world = served();
    world.patience = Duration::from_secs(20);
    world.api.delete(Kind::Service, "a");
    world.api.refuses = Some((Kind::Service, "a".into()));
    world.api.refuses_only = Some(|body| matches!(body, gimbal_kuryr_resource::WriteBody::Patch { .. }));
    world.rest();
    assert!(api::has(&get(&world, Kind::Service), SERVICE_FINALIZER));
    assert_eq!(reasons(&world), ["KuryrReleaseLB", "KuryrReleaseLBError"], "{:?}", world.notices);
}

#[test]
fn a_quota_that_is_met_is_one_event() {
    let mut world = served();
    let key = world.offered.keys().next().unwrap().clone();
    let mut report = report(&"Service-2".into(), 1, Phase::Blocked, ReportedObjects::default());
    report.objects.load_balancer = world.writer.latest_balancer(&key);
    report.objects.listeners = world.writer.latest_listeners(&key);
    report.last_error = Some("Quota has been met for resources: Listener".into());
    for number in [101, 102, 103] {
        report.last_error = Some(format!("Quota has been met, attempt {number}").into());
        world.deliver(&key, &report, number);
        world.rest();
    }
    assert_eq!(reasons(&world), ["KuryrEnsureLBError"]);
    assert_eq!(conditions(&world), ["Ready=False Blocked", "Synced=False Pending"]);
    // The address stays while it is changed.
    assert_eq!(text(&get(&world, Kind::Service), "/status/loadBalancer/ingress/0/ip"), "10.96.0.10");
}
