//! What is not known is not concluded from.

use std::time::Duration;

use gimbal_kuryr_model::DesiredEntry;
use gimbal_kuryr_resource::{ClusterKnowledge, KuryrKind, WriteBody};
use serde_json::json;

use crate::api::{INGRESS_FINALIZER, Kind, ROUTER_FINALIZER, named};
use crate::life::served;
use crate::objects::ingress;
use crate::world::{KINDS, SHARED, World};

#[test]
fn no_route_goes_while_a_kind_cannot_be_read() {
    for kind in [Some(Kind::Ingress), Some(Kind::Class), None] {
        let mut world = served();
        match kind {
            Some(kind) => world.unreadable(kind),
            None => world.services_are_current = false,
        }
        world.api.edit(Kind::Ingress, "team/a", |it| it["spec"]["ingressClassName"] = json!("nginx"));
        world.rest();
        assert_eq!(named(world.api.get(Kind::Router, SHARED).unwrap()).len(), 1, "{kind:?}: {:?}", world.purposes);
        world.quiet();
        world.check();
    }
}

#[test]
fn a_snapshot_is_not_complete_without_routers() {
    let mut world = served();
    for kind in [Kind::Router, Kind::Ingress] {
        world.unreadable(kind);
        world.rest();
        assert!(matches!(world.controller.knowledge(), ClusterKnowledge::Unreadable(_)), "{kind:?}");
        world.quiet();
        world.check();
    }
    world.restart(&[Kind::Class, Kind::Ingress]);
    assert!(matches!(world.controller.knowledge(), ClusterKnowledge::Waiting(_)));
    assert!(world.offered.is_empty());
}

/// A watch that is behind shows a router whose Ingress it has not shown.
#[test]
fn an_ingress_that_was_not_seen_yet_keeps_its_router() {
    let rules = ingress("kuryr", Some("group:web"), "s1");
    // What no route takes is its Ingress', too.
    let mut rest = rules.clone();
    rest["spec"] = json!({
        "ingressClassName": "kuryr",
        "defaultBackend": {"service": {"name": "s1", "port": {"number": 80}}},
    });
    for ingress in [rules, rest] {
        let mut world = World::new(Some(true));
        world.api.create(Kind::Ingress, "team/a", ingress);
        world.rest();
        world.check();
        world.purposes.clear();
        world.heard.clear();
        world.restart_behind();
        world.plan();
        assert!(world.in_flight.iter().all(|write| write.object.kind == KuryrKind::Ingress), "{:?}", world.in_flight);
        world.rest();
        world.check();
        assert_eq!(world.purposes, [] as [String; 0]);
    }
}

/// A watch that is behind shows the deletion of an Ingress, whose successor of the same name is served.
#[test]
fn an_ingress_that_is_there_again_keeps_its_routes_while_its_deletion_is_shown() {
    for (router, asked) in [(SHARED, None), ("team/a", Some("own"))] {
        let mut world = World::new(Some(true));
        world.api.create(Kind::Ingress, "team/a", ingress("kuryr", asked, "s1"));
        world.rest();
        world.api.delete(Kind::Ingress, "team/a");
        world.rest();
        world.api.create(Kind::Ingress, "team/a", ingress("kuryr", asked, "s1"));
        world.rest();
        world.check();
        world.purposes.clear();
        let uid = world.api.get(Kind::Router, router).unwrap()["metadata"]["uid"].clone();
        world.restart_behind();
        while world.watch(Kind::Ingress) {
            world.plan();
            for _ in 0..5 {
                world.answer(0, 0);
                world.plan();
            }
        }
        world.rest();
        world.check();
        assert_eq!(world.purposes, [] as [String; 0], "{router}");
        assert_eq!(world.api.get(Kind::Router, router).unwrap()["metadata"]["uid"], uid);
    }
}

/// The watch may say so much later: for as long as it is silent it is not taken for broken.
#[test]
fn one_that_goes_and_is_gone_by_force_holds_up_no_other_ingress() {
    let mut world = served();
    world.api.create(Kind::Ingress, "team/b", ingress("kuryr", None, "s2"));
    world.rest();
    world.works = false;
    world.api.delete(Kind::Ingress, "team/b");
    world.watch(Kind::Ingress);
    world.api.edit(Kind::Ingress, "team/b", |it| it["metadata"]["finalizers"] = json!([]));
    assert_eq!(world.api.get(Kind::Ingress, "team/b"), None);
    world.pods("s1", 3);
    for _ in 0..5 {
        world.plan();
        while world.answer(0, 0) {}
        world.watch(Kind::Router);
        world.pass(Duration::from_secs(1));
    }
    let router = world.api.get(Kind::Router, SHARED).unwrap();
    let endpoints = router["spec"]["pools"][0]["endpointSlices"][0]["endpoints"].as_array().unwrap();
    assert_eq!((named(router), endpoints.len()), (["team/a".to_owned()].into(), 3), "{:?}", world.purposes);
    world.works = true;
    world.rest();
    world.check();
}

/// A new process, which nothing answers that it writes to an Ingress of this name. It has to serve what was served before.
fn take_over_without_answers(world: &mut World, name: &str) {
    world.enabled = None;
    world.restart(&KINDS);
    world.plan();
    world.learn_facts(true);
    for turn in 0..12 {
        if turn == 6 {
            world.pods("s1", 3);
        }
        world.plan();
        while let Some(write) = world.in_flight.first() {
            let is_of_it = write.object.kind == KuryrKind::Ingress && &*write.object.name == name;
            world.answer(0, if is_of_it { 11 } else { 0 });
        }
        while world.watch(Kind::Router) {}
        world.drain();
        world.pass(Duration::from_secs(40));
    }
    assert_eq!(world.controller.knowledge(), ClusterKnowledge::Complete, "{:?}", world.explain(SHARED));
    let offered: Vec<_> = world.offered.values().collect();
    let [entry] = offered.as_slice() else { panic!("{offered:?}") };
    let DesiredEntry::LoadBalancer(wanted) = &***entry else { panic!("{entry:?}") };
    assert_eq!(wanted.members.as_slice().len(), 3, "{:?}", world.heard);
    let named = named(world.api.get(Kind::Router, SHARED).unwrap());
    assert_eq!(named, ["team/a".to_owned()].into(), "no routes before the finalizer");
    world.rest();
    world.check();
}

/// Before the facts every Ingress is taken for one that is served.
#[test]
fn a_new_ingress_that_does_not_get_its_finalizer_holds_up_no_router_after_a_restart() {
    let mut world = served();
    world.api.create(Kind::Ingress, "team/b", ingress("kuryr", None, "s2"));
    take_over_without_answers(&mut world, "b");
}

#[test]
fn a_finalizer_that_is_not_set_again_holds_up_no_router_after_a_restart() {
    let mut world = served();
    world.api.edit(Kind::Ingress, "team/a", |it| it["metadata"]["finalizers"] = json!([]));
    take_over_without_answers(&mut world, "a");
}

#[test]
fn a_store_that_went_back_withdraws_and_deletes_nothing() {
    let mut world = served();
    world.api.back_up();
    world.api.create(Kind::Ingress, "team/b", ingress("kuryr", Some("group:web"), "s1"));
    world.rest();
    world.check();
    world.heard.clear();
    world.go_back();
    world.rest();
    assert!(world.heard.contains(&"web gone".to_owned()), "{:?}", world.heard);
    assert!(!world.heard.iter().any(|heard| heard.contains("deleting")), "{:?}", world.heard);
    world.check();
}

/// What the watch has not shown yet may be all that is known of it.
#[test]
fn a_write_that_finds_no_router_is_no_deletion() {
    let mut world = World::new(Some(true));
    world.api.back_up();
    world.api.create(Kind::Ingress, "team/a", ingress("kuryr", None, "s1"));
    world.rest();
    world.check();
    world.heard.clear();
    world.pods("s1", 3);
    assert!(world.plan() && world.answer(0, 0), "its spec, which the watch does not show");
    world.go_back();
    world.pods("s1", 4);
    assert!(world.plan() && world.answer(0, 0), "its spec, which is not there any more");
    world.drain();
    world.rest();
    assert!(!world.heard.iter().any(|heard| heard.contains("deleting")), "{:?}", world.heard);
}

/// Generations come again.
#[test]
fn an_ingress_that_goes_waits_for_no_generation_of_before_the_store_went_back() {
    let mut world = served();
    world.works = false;
    world.api.delete(Kind::Ingress, "team/a");
    world.api.back_up();
    for provider in ["ovn", "amphora"] {
        world.api.edit(Kind::Router, SHARED, |it| it["spec"]["provider"] = json!(provider));
    }
    world.rest();
    assert!(named(world.api.get(Kind::Router, SHARED).unwrap()).is_empty(), "its routes leave the spec");
    world.go_back();
    world.rest();
    // The writer is another one, too.
    world.break_stream();
    world.works = true;
    world.rest();
    world.check();
    assert_eq!(world.api.get(Kind::Ingress, "team/a"), None);
}

/// The writer says that Ingresses are served, and before it has said so nothing is known.
#[test]
fn a_restart_before_the_facts_takes_nothing_away() {
    let mut world = served();
    world.api.create(Kind::Ingress, "team/b", ingress("kuryr", Some("group:web"), "s1"));
    world.api.delete(Kind::Ingress, "team/a");
    world.rest();
    world.check();
    world.purposes.clear();
    world.enabled = None;
    world.restart(&KINDS);
    world.rest();
    world.learn_facts(true);
    world.rest();
    world.check();
    assert_eq!(world.purposes, [] as [String; 0]);
}

#[test]
fn finalizers_that_are_removed_by_hand_are_set_again() {
    let mut world = served();
    for (kind, name, finalizer) in
        [(Kind::Ingress, "team/a", INGRESS_FINALIZER), (Kind::Router, SHARED, ROUTER_FINALIZER)]
    {
        world.api.edit(kind, name, |it| {
            it["metadata"]["finalizers"].as_array_mut().unwrap().retain(|one| one != finalizer);
        });
        world.rest();
        world.check();
    }
    let of_router = |what: &str| {
        world.purposes.iter().filter(|purpose| purpose.contains(SHARED) && purpose.ends_with(what)).count()
    };
    let written = (of_router("set the finalizer"), of_router("set the spec"));
    assert_eq!(written, (1, 0), "its own finalizer, and no routes: {:?}", world.purposes);
}

/// What is known of it is asked for, and not written from memory.
#[test]
fn a_wiped_status_is_filled_in_again() {
    let mut world = served();
    world.works = false;
    world.api.edit(Kind::Router, SHARED, |it| drop(it.as_object_mut().unwrap().remove("status")));
    world.rest();
    let status = &world.api.get(Kind::Router, SHARED).unwrap()["status"];
    assert!(status["loadbalancer"].is_null(), "{status}");
    world.works = true;
    world.rest();
    world.check();
    world.api.edit(Kind::Ingress, "team/a", |it| drop(it.as_object_mut().unwrap().remove("status")));
    world.rest();
    world.check();
}

#[test]
fn an_ingress_that_cannot_be_protected_stops_no_other_one() {
    let mut world = served();
    world.api.refuses = Some((Kind::Ingress, "team/b".into()));
    world.patience = Duration::from_secs(10);
    world.api.create(Kind::Ingress, "team/b", ingress("kuryr", None, "s3"));
    world.api.create(Kind::Ingress, "team/c", ingress("kuryr", None, "s2"));
    world.rest();
    let named = named(world.api.get(Kind::Router, SHARED).unwrap());
    assert_eq!(named, ["team/a".to_owned(), "team/c".to_owned()].into());
    assert!(world.reasons(KuryrKind::Ingress).contains(&"KuryrAddIngressFinalizerError"), "{:?}", world.notices);
    world.api.refuses = None;
    world.pass(Duration::from_secs(120));
    world.rest();
    world.check();
    world.check_restart(&KINDS);
}

/// Before the facts its routes are in the spec without it, and the router is to have nothing of them.
#[test]
fn no_route_is_made_of_an_ingress_that_has_not_got_its_finalizer() {
    for (finalizer, read) in [(10, 0), (11, 0), (10, 10)] {
        let mut world = World::new(None);
        for (name, service) in [("team/a", "s1"), ("team/b", "s2")] {
            world.api.create(Kind::Ingress, name, ingress("kuryr", None, service));
        }
        world.rest();
        world.learn_facts(true);
        for _ in 0..10 {
            world.plan();
            while let Some(write) = world.in_flight.first() {
                let is_of_it = write.object.kind == KuryrKind::Ingress && &*write.object.name == "a";
                let fate = if write.body == WriteBody::Read { read } else { finalizer };
                world.answer(0, if is_of_it { fate } else { 0 });
            }
            for kind in KINDS {
                while world.watch(kind) {}
            }
            world.drain();
            while world.writer.receive() || world.writer.work() || world.report() {}
            assert_eq!(world.writer.routed("team/a").count(), 0, "{finalizer} {read}: {:?}", world.purposes);
            world.pass(Duration::from_secs(1));
        }
        world.rest();
        world.check();
        assert_eq!(world.writer.routed("team/a").count(), 1);
    }
}

#[test]
fn one_that_cannot_be_protected_holds_up_no_router_that_is_new() {
    let mut world = World::new(None);
    for (name, service) in [("team/a", "s1"), ("team/b", "s2")] {
        world.api.create(Kind::Ingress, name, ingress("kuryr", None, service));
    }
    world.rest();
    world.api.refuses = Some((Kind::Ingress, "team/b".into()));
    world.patience = Duration::from_secs(10);
    world.learn_facts(true);
    world.rest();
    assert_eq!(named(world.api.get(Kind::Router, SHARED).unwrap()), ["team/a".to_owned()].into());
    let served = ["team/a", "team/b"].map(|name| world.writer.routed(name).count());
    assert_eq!(served, [1, 0], "{:?}", world.explain(SHARED));
    world.api.refuses = None;
    world.pass(Duration::from_secs(120));
    world.rest();
    world.check();
    world.check_restart(&KINDS);
}

#[test]
fn a_class_that_is_gone_takes_no_route_away() {
    let mut world = served();
    world.api.delete(Kind::Class, "kuryr");
    world.rest();
    assert_eq!(named(world.api.get(Kind::Router, SHARED).unwrap()).len(), 1);
    assert_eq!(world.reasons(KuryrKind::Ingress), ["KuryrRouterNotAsAsked"]);
}

#[test]
fn nothing_is_offered_before_the_watch_has_shown_it() {
    let mut world = World::new(Some(true));
    world.plan();
    world.answer(0, 0);
    world.drain();
    assert!(world.api.get(Kind::Router, SHARED).is_some() && world.heard.is_empty(), "{:?}", world.heard);
    assert!(world.watch(Kind::Router));
    world.drain();
    assert_eq!(world.heard.len(), 1, "{:?}", world.heard);
}

/// A default that has no room yet: the former one stays, and only that of a namespace.
#[test]
fn a_default_that_is_left_keeps_no_ingress_of_another_namespace() {
    let mut world = served();
    world.api.create(Kind::Ingress, "other/b", ingress("kuryr", None, "s2"));
    world.rest();
    world.writer.left_routes.insert("team/".to_owned());
    for ingress in ["team/a", "other/b"] {
        world.api.delete(Kind::Ingress, ingress);
    }
    world.rest();
    assert_eq!(world.api.get(Kind::Ingress, "other/b"), None);
    assert!(world.api.get(Kind::Ingress, "team/a").is_some(), "it waits");
    world.writer.left_routes.clear();
    world.break_stream();
    world.rest();
    world.check();
    assert_eq!(world.api.get(Kind::Ingress, "team/a"), None);
}
