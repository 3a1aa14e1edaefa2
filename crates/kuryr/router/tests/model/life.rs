//! The lives of routers and Ingresses, step by step.

use gimbal_kuryr_resource::{ClusterKnowledge, KuryrKind};
use serde_json::json;

use crate::api::{self, INGRESS_FINALIZER, Kind, named};
use crate::objects::ingress;
use crate::world::{KINDS, SHARED, World};

/// A world with one Ingress that is served by the shared router.
pub fn served() -> World {
    let mut world = World::new(Some(true));
    world.api.create(Kind::Ingress, "team/a", ingress("kuryr", None, "s1"));
    world.rest();
    world.check();
    world.purposes.clear();
    world.heard.clear();
    world.notices.clear();
    world
}

#[test]
fn the_shared_router_is_there_before_the_first_ingress_and_stays_after_the_last() {
    let mut world = World::new(Some(true));
    world.rest();
    world.check();
    let router = world.api.get(Kind::Router, SHARED).unwrap().clone();
    assert_eq!(router["metadata"]["labels"]["kuryr.openstack.org/l7-router"], "shared");
    world.api.create(Kind::Ingress, "team/a", ingress("kuryr", None, "s1"));
    world.rest();
    world.check();
    world.api.delete(Kind::Ingress, "team/a");
    world.rest();
    world.check();
    assert_eq!(world.api.get(Kind::Ingress, "team/a"), None);
    let after = world.api.get(Kind::Router, SHARED).unwrap();
    assert_eq!(after["metadata"]["uid"], router["metadata"]["uid"]);
    assert!(named(after).is_empty());
}

#[test]
fn an_ingress_costs_four_writes() {
    let mut world = World::new(Some(true));
    world.rest();
    world.purposes.clear();
    world.api.create(Kind::Ingress, "team/a", ingress("kuryr", None, "s1"));
    world.rest();
    world.check();
    let mut written = world.purposes.clone();
    written.sort();
    let expected = [
        "Ingress team/a: set the finalizer",
        "Ingress team/a: set the status",
        "KuryrL7Router gimbal/kuryr-l7-router: set the spec",
        "KuryrL7Router gimbal/kuryr-l7-router: set the status",
    ];
    assert_eq!(written, expected);
}

#[test]
fn a_router_of_a_group_goes_with_its_last_ingress() {
    let mut world = World::new(Some(true));
    world.api.create(Kind::Ingress, "team/a", ingress("kuryr", Some("group:web"), "s1"));
    world.api.create(Kind::Ingress, "team/b", ingress("kuryr", Some("group:web"), "s2"));
    world.rest();
    world.check();
    assert_eq!(named(world.api.get(Kind::Router, "team/web").unwrap()).len(), 2);
    world.api.delete(Kind::Ingress, "team/a");
    world.rest();
    world.check();
    assert_eq!(named(world.api.get(Kind::Router, "team/web").unwrap()), ["team/b".to_owned()].into());
    world.api.delete(Kind::Ingress, "team/b");
    world.rest();
    world.check();
    assert_eq!(world.api.get(Kind::Router, "team/web"), None);
    assert!(world.heard.iter().any(|heard| heard.starts_with("web deleting")), "{:?}", world.heard);
}

#[test]
fn an_ingress_waits_for_its_routes_to_leave_octavia() {
    for (router, asked) in [(SHARED, None), ("team/web", Some("group:web"))] {
        for restarts in [false, true] {
            let mut world = World::new(Some(true));
            world.api.create(Kind::Ingress, "team/a", ingress("kuryr", asked, "s1"));
            // What keeps the router of a group.
            world.api.create(Kind::Ingress, "team/b", ingress("kuryr", asked, "s2"));
            world.rest();
            world.works = false;
            world.api.delete(Kind::Ingress, "team/a");
            world.rest();
            let named = named(world.api.get(Kind::Router, router).unwrap());
            assert_eq!(named, ["team/b".to_owned()].into(), "its routes leave the spec");
            if restarts {
                world.restart(&KINDS);
                world.rest();
            }
            let a = world.api.get(Kind::Ingress, "team/a").expect("it waits");
            assert!(api::has(a, INGRESS_FINALIZER), "{router}, restarts: {restarts}");
            world.works = true;
            world.rest();
            world.check();
            assert_eq!(world.api.get(Kind::Ingress, "team/a"), None);
        }
    }
}

/// What is left of it is not known after a restart, and every router that may have had it is gone or has said so.
#[test]
fn an_ingress_of_a_router_that_is_gone_waits_for_nothing_after_a_restart() {
    for (enabled, by_hand) in [(true, false), (true, true), (false, false)] {
        let mut world = served();
        if by_hand {
            let spec = json!({"project_id": "project", "subnet_id": "services"});
            world.api.create(Kind::Router, "team/mine", json!({ "spec": spec }));
            world.rest();
        }
        world.works = false;
        world.api.delete(Kind::Ingress, "team/a");
        world.enabled = Some(enabled);
        world.restart(&KINDS);
        world.rest();
        assert!(world.api.get(Kind::Ingress, "team/a").is_some(), "it waits");
        world.works = true;
        world.rest();
        world.check();
        assert_eq!(world.api.get(Kind::Ingress, "team/a"), None, "{enabled}, {by_hand}");
    }
}

/// That is what a report about a later generation says whose load balancer is pending for ever, or in ERROR.
#[test]
fn an_ingress_waits_where_nothing_can_be_done_about_its_routes() {
    let mut world = served();
    world.writer.is_stuck = true;
    world.api.delete(Kind::Ingress, "team/a");
    world.rest();
    assert!(named(world.api.get(Kind::Router, SHARED).unwrap()).is_empty(), "its routes leave the spec");
    assert!(api::has(world.api.get(Kind::Ingress, "team/a").expect("it waits"), INGRESS_FINALIZER));
    world.writer.is_stuck = false;
    world.break_stream();
    world.rest();
    world.check();
    assert_eq!(world.api.get(Kind::Ingress, "team/a"), None);
}

/// A router that is blocked by one route is not blocked for the others.
#[test]
fn a_route_that_is_refused_is_in_the_way_of_no_other_ingress() {
    let mut world = served();
    world.writer.refused_routes.insert("team/c".to_owned());
    world.api.create(Kind::Ingress, "team/c", ingress("kuryr", None, "s2"));
    world.rest();
    world.api.create(Kind::Ingress, "team/b", ingress("kuryr", None, "s3"));
    world.api.delete(Kind::Ingress, "team/a");
    world.rest();
    let address = |name: &str| {
        let status = &world.api.get(Kind::Ingress, name).unwrap()["status"]["loadBalancer"];
        status["ingress"][0]["ip"].as_str().map(str::to_owned)
    };
    assert_eq!(address("team/b").as_deref(), Some("10.96.0.99"));
    assert_eq!(address("team/c"), None);
    assert_eq!(world.api.get(Kind::Ingress, "team/a"), None);
    let conditions = world.api.get(Kind::Router, SHARED).unwrap()["status"]["conditions"].clone();
    let refused = conditions.as_array().unwrap().iter().find(|one| one["type"] == "QuotaExceeded").unwrap();
    assert_eq!((&refused["reason"], &refused["message"]), (&json!("Quota"), &json!("team/c: no room")));
}

#[test]
fn a_router_that_is_deleted_is_made_anew_once_it_is_gone() {
    let mut world = served();
    let before = world.api.get(Kind::Router, SHARED).unwrap()["metadata"]["uid"].clone();
    world.api.delete(Kind::Router, SHARED);
    world.works = false;
    world.rest();
    assert!(api::is_going(world.api.get(Kind::Router, SHARED).unwrap()), "it waits for the writer");
    world.works = true;
    world.rest();
    world.check();
    let after = &world.api.get(Kind::Router, SHARED).unwrap()["metadata"]["uid"];
    assert_ne!(*after, before);
    assert!(world.heard.contains(&format!("kuryr-l7-router deleting {}", before.as_str().unwrap())));
}

#[test]
fn the_writer_takes_its_leave_back() {
    let mut world = served();
    world.learn_facts(false);
    world.rest();
    world.check();
    assert_eq!(world.api.of(Kind::Router), Vec::<serde_json::Value>::new());
    assert_eq!(world.reasons(KuryrKind::Ingress), ["KuryrIngressSkipped"]);
    world.learn_facts(true);
    world.rest();
    world.check();
}

#[test]
fn without_leave_nothing_is_made_and_an_event_says_so() {
    let mut world = World::new(Some(false));
    world.api.create(Kind::Ingress, "team/a", ingress("kuryr", None, "s1"));
    world.api.create(Kind::Ingress, "team/b", ingress("nginx", None, "s1"));
    world.rest();
    world.check();
    assert_eq!(world.purposes, [] as [String; 0]);
    assert_eq!(world.reasons(KuryrKind::Ingress), ["KuryrIngressSkipped"]);
    assert_eq!(&*world.notices[0].object.name, "a");
    world.check_restart(&KINDS);
}

#[test]
fn without_facts_nothing_has_a_finalizer_and_facts_add_them() {
    let mut world = World::new(None);
    world.api.create(Kind::Ingress, "team/a", ingress("kuryr", None, "s1"));
    world.rest();
    let router = world.api.get(Kind::Router, SHARED).unwrap();
    assert!(router["metadata"]["finalizers"].is_null() && router["spec"]["project_id"].is_null(), "{router}");
    assert_eq!(named(router), ["team/a".to_owned()].into());
    assert_eq!(router["status"]["conditions"][0]["reason"], "WaitingForWriter");
    assert!(matches!(world.controller.knowledge(), ClusterKnowledge::Waiting(_)));
    let uid = router["metadata"]["uid"].clone();
    world.learn_facts(true);
    world.rest();
    world.check();
    let router = world.api.get(Kind::Router, SHARED).unwrap();
    assert_eq!((&router["metadata"]["uid"], &router["spec"]["project_id"]), (&uid, &json!("project")));
}

#[test]
fn a_router_without_facts_goes_where_ingresses_are_not_served() {
    let mut world = World::new(None);
    world.api.create(Kind::Ingress, "team/a", ingress("kuryr", None, "s1"));
    world.rest();
    world.learn_facts(false);
    world.rest();
    world.check();
    assert!(world.heard.is_empty(), "{:?}", world.heard);
}

#[test]
fn an_edit_is_set_back_before_the_writer_hears_of_it() {
    let mut world = served();
    world.api.edit(Kind::Router, SHARED, |it| it["spec"]["routes"] = json!([]));
    world.rest();
    world.check();
    let heard: Vec<_> = world.heard.iter().map(|heard| heard.rsplit(' ').next().unwrap().to_owned()).collect();
    let generation = world.api.get(Kind::Router, SHARED).unwrap()["metadata"]["generation"].to_string();
    assert_eq!(heard, [generation], "only what was set back: {:?}", world.heard);
}

#[test]
fn one_that_somebody_made_is_served_and_left_alone() {
    let mut world = served();
    let spec =
        json!({"project_id": "project", "subnet_id": "services", "routes": [{"path": "/x", "redirect": "http://x"}]});
    world.api.create(Kind::Router, "team/mine", json!({"spec": spec}));
    world.rest();
    world.check();
    assert_eq!(world.api.get(Kind::Router, "team/mine").unwrap()["spec"], spec);
    world.api.delete(Kind::Router, "team/mine");
    world.rest();
    world.check();
    assert_eq!(world.api.get(Kind::Router, "team/mine"), None);
}

#[test]
fn an_ingress_that_asks_for_one_that_somebody_made_does_not_get_it() {
    // Whoever writes a router may write the name of an Ingress into it.
    for route in [json!({"path": "/x", "redirect": "http://x"}), json!({"path": "/x", "ingress": "team/none"})] {
        let mut world = served();
        let spec = json!({"project_id": "project", "subnet_id": "services", "routes": [route]});
        world.api.create(Kind::Router, "team/mine", json!({"spec": spec}));
        world.rest();
        let group = json!("group:mine");
        world.api.edit(Kind::Ingress, "team/a", |it| it["metadata"]["annotations"][api::ANNOTATION] = group);
        world.rest();
        let router = world.api.get(Kind::Router, "team/mine").unwrap();
        assert_eq!((&router["spec"], router["metadata"].get("labels")), (&spec, None));
        assert_eq!(world.reasons(KuryrKind::Ingress), ["KuryrIngressSkipped"], "{:?}", world.notices);
        world.api.delete(Kind::Ingress, "team/a");
        world.rest();
        assert_eq!(world.api.get(Kind::Ingress, "team/a"), None);
        assert_eq!(world.api.get(Kind::Router, "team/mine").unwrap()["spec"], spec);
    }
}

#[test]
fn one_that_exists_is_taken_for_the_shared_router() {
    let mut world = World::new(None);
    world.api.create(Kind::Router, SHARED, json!({"spec": {"routes": [{"path": "/x", "redirect": "http://x"}]}}));
    let uid = world.api.get(Kind::Router, SHARED).unwrap()["metadata"]["uid"].clone();
    world.learn_facts(true);
    world.rest();
    world.check();
    let router = world.api.get(Kind::Router, SHARED).unwrap();
    assert_eq!((&router["metadata"]["uid"], &router["spec"]["routes"]), (&uid, &serde_json::Value::Null));
}

#[test]
fn an_ingress_of_another_class_is_let_go_with_its_address() {
    let mut world = served();
    world.api.edit(Kind::Ingress, "team/a", |it| it["spec"]["ingressClassName"] = json!("nginx"));
    world.rest();
    world.check();
    let a = world.api.get(Kind::Ingress, "team/a").unwrap();
    assert_eq!(a["status"]["loadBalancer"], json!({}));
    world.check_restart(&KINDS);
}

#[test]
fn an_ingress_moves_to_a_router_of_its_own() {
    let mut world = served();
    world.api.edit(Kind::Ingress, "team/a", |it| it["metadata"]["annotations"][api::ANNOTATION] = json!("own"));
    world.rest();
    world.check();
    assert!(named(world.api.get(Kind::Router, SHARED).unwrap()).is_empty());
    assert_eq!(named(world.api.get(Kind::Router, "team/a").unwrap()), ["team/a".to_owned()].into());
    for order in [&KINDS, &[Kind::Secret, Kind::Router, Kind::Ingress, Kind::Class]] {
        world.check_restart(order);
    }
}

/// A slip of the pen in the annotation.
#[test]
fn an_ingress_stays_where_it_is_while_its_router_cannot_be_read() {
    for restarts in [false, true] {
        let mut world = World::new(Some(true));
        world.api.create(Kind::Ingress, "team/a", ingress("kuryr", Some("group:web"), "s1"));
        world.rest();
        world.check();
        let router = world.api.get(Kind::Router, "team/web").unwrap()["metadata"]["uid"].clone();
        let annotate = |world: &mut World, value| {
            world.api.edit(Kind::Ingress, "team/a", |it| it["metadata"]["annotations"][api::ANNOTATION] = json!(value))
        };
        annotate(&mut world, "Own");
        if restarts {
            world.restart(&KINDS);
        }
        world.rest();
        let kept = world.api.get(Kind::Router, "team/web").unwrap();
        assert_eq!((&kept["metadata"]["uid"], named(kept).len()), (&router, 1), "{:?}", world.purposes);
        assert!(named(world.api.get(Kind::Router, SHARED).unwrap()).is_empty());
        annotate(&mut world, "group:web");
        world.rest();
        world.check();
        // One that is made with it has no other router.
        annotate(&mut world, "own");
        world.rest();
        world.check();
        let mut other = ingress("kuryr", Some("Own"), "s1");
        other["spec"]["rules"][0]["host"] = json!("b.example");
        world.api.create(Kind::Ingress, "team/b", other);
        world.rest();
        world.check();
        assert_eq!(named(world.api.get(Kind::Router, SHARED).unwrap()).len(), 1);
    }
}

#[test]
fn an_ingress_that_moves_is_served_where_it_was_until_the_other_router_has_it() {
    for to in ["own", "group:web"] {
        let mut world = served();
        world.api.create(Kind::Ingress, "team/b", ingress("kuryr", Some("group:web"), "s2"));
        world.rest();
        let address = world.api.get(Kind::Ingress, "team/a").unwrap()["status"].clone();
        world.works = false;
        world.api.edit(Kind::Ingress, "team/a", |it| it["metadata"]["annotations"][api::ANNOTATION] = json!(to));
        world.rest();
        let new = if to == "own" { "team/a" } else { "team/web" };
        assert!(named(world.api.get(Kind::Router, new).unwrap()).contains("team/a"));
        assert!(named(world.api.get(Kind::Router, SHARED).unwrap()).contains("team/a"), "{to}: it is served there");
        assert_eq!(world.api.get(Kind::Ingress, "team/a").unwrap()["status"], address, "{to}");
        // What is served by a router that is not the Ingress' own any more follows it.
        world.restart(&KINDS);
        world.rest();
        assert!(named(world.api.get(Kind::Router, SHARED).unwrap()).contains("team/a"), "{to}: after a restart");
        world.works = true;
        world.rest();
        world.check();
        assert!(named(world.api.get(Kind::Router, SHARED).unwrap()).is_empty(), "{to}");
    }
}

#[test]
fn one_that_somebody_made_with_routes_of_others_keeps_none_of_them() {
    let mut world = served();
    let spec =
        json!({"project_id": "project", "subnet_id": "services", "routes": [{"ingress": "team/a", "path": "/x"}]});
    world.api.create(Kind::Router, "team/mine", json!({"spec": spec}));
    world.rest();
    assert!(world.heard.iter().any(|heard| heard.starts_with("mine")), "it is served: {:?}", world.heard);
    world.api.delete(Kind::Ingress, "team/a");
    world.rest();
    assert_eq!(world.api.get(Kind::Ingress, "team/a"), None);
}

#[test]
fn an_address_is_taken_back_before_an_ingress_is_let_go() {
    for restarts in [false, true] {
        let mut world = served();
        world.api.refuses_status = Some((Kind::Ingress, "team/a".into()));
        world.patience = std::time::Duration::from_secs(10);
        world.api.edit(Kind::Ingress, "team/a", |it| it["spec"]["ingressClassName"] = json!("nginx"));
        world.rest();
        assert!(api::has(world.api.get(Kind::Ingress, "team/a").unwrap(), INGRESS_FINALIZER));
        if restarts {
            world.restart(&KINDS);
            world.rest();
        }
        world.api.refuses_status = None;
        world.pass(std::time::Duration::from_secs(600));
        world.rest();
        world.check();
        let a = world.api.get(Kind::Ingress, "team/a").unwrap();
        let left = (&a["status"]["loadBalancer"], api::has(a, INGRESS_FINALIZER));
        assert_eq!(left, (&json!({}), false), "restarts: {restarts}");
    }
}

#[test]
fn findings_are_events_on_the_ingress_once() {
    let mut world = served();
    world.api.create(Kind::Ingress, "team/b", ingress("kuryr", None, "missing"));
    world.rest();
    world.check();
    assert_eq!(world.reasons(KuryrKind::Ingress), ["KuryrBackendMissing"], "{:?}", world.notices);
    world.pods("missing", 1);
    world.rest();
    world.check();
    assert_eq!(world.reasons(KuryrKind::Ingress).len(), 1, "{:?}", world.notices);
    world.check_restart(&KINDS);
}

#[test]
fn what_the_writer_refuses_is_told_on_each_ingress() {
    let mut world = served();
    world.writer.refuse("kuryr-l7-router", Some("not here"));
    world.rest();
    assert_eq!(world.reasons(KuryrKind::Ingress), ["KuryrEnsureLBError"], "{:?}", world.notices);
    let ready = &world.api.get(Kind::Router, SHARED).unwrap()["status"]["conditions"][0];
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("ProjectNotAllowed")));
    world.writer.refuse("kuryr-l7-router", None);
    world.rest();
    world.check();
}

#[test]
fn endpoints_of_other_services_write_nothing() {
    let mut world = served();
    world.pods("other", 3);
    world.rest();
    assert_eq!(world.purposes, [] as [String; 0]);
    world.pods("s1", 3);
    world.rest();
    world.check();
    assert_eq!(world.purposes.len(), 2, "spec and status: {:?}", world.purposes);
}
