//! Routers that an Ingress has left, or may have left, when it goes.

use serde_json::json;

use crate::api::{self, Kind, named};
use crate::life::served;
use crate::objects::ingress;
use crate::world::{KINDS, SHARED, World};

#[test]
fn the_router_of_a_group_is_labeled_so_whatever_its_first_ingress_is_called() {
    let mut world = World::new(Some(true));
    for (name, asked) in [("web", "group:web"), ("a", "own")] {
        world.api.create(Kind::Ingress, &format!("team/{name}"), ingress("kuryr", Some(asked), "s1"));
    }
    world.rest();
    world.check();
    for (router, kind) in [("team/web", "group"), ("team/a", "own")] {
        let labels = &world.api.get(Kind::Router, router).unwrap()["metadata"]["labels"];
        assert_eq!(labels["kuryr.openstack.org/l7-router"], kind, "{router}");
    }
}

/// A former release has labeled the router of such a group as that of one Ingress.
#[test]
fn an_ingress_waits_for_the_router_of_a_group_that_has_the_name_of_another_one() {
    for label in [None, Some("own")] {
        let mut world = World::new(Some(true));
        world.api.create(Kind::Ingress, "team/web", ingress("kuryr", Some("group:web"), "s1"));
        world.rest();
        if let Some(label) = label {
            let labels = json!({ "kuryr.openstack.org/l7-router": label });
            world.api.edit(Kind::Router, "team/web", |it| it["metadata"]["labels"] = labels);
        }
        world.api.create(Kind::Ingress, "team/a", ingress("kuryr", Some("group:web"), "s2"));
        world.rest();
        world.check();
        world.writer.refuse("web", Some("not here"));
        world.api.delete(Kind::Ingress, "team/a");
        world.rest();
        assert_eq!(named(world.api.get(Kind::Router, "team/web").unwrap()), ["team/web".to_owned()].into());
        world.restart(&KINDS);
        world.rest();
        assert!(world.api.get(Kind::Ingress, "team/a").is_some(), "{label:?}: it waits");
        world.writer.refuse("web", None);
        world.rest();
        world.check();
        assert_eq!(world.api.get(Kind::Ingress, "team/a"), None);
    }
}

/// That may last, and a namespace would stay with it.
#[test]
fn after_a_restart_an_ingress_waits_for_no_router_of_others_that_is_impeded() {
    let refuse: fn(&mut World) = |world| world.writer.refuse("kuryr-l7-router", Some("not here"));
    let stall: fn(&mut World) = |world| world.writer.is_stuck = true;
    let never: fn(&mut World) = |_| {};
    for (at_first, later) in [(refuse, never), (never, refuse), (never, stall)] {
        let mut world = World::new(Some(true));
        at_first(&mut world);
        world.api.create(Kind::Ingress, "team/a", ingress("kuryr", Some("own"), "s1"));
        world.rest();
        later(&mut world);
        // A change that is not carried out.
        world.api.create(Kind::Ingress, "team/b", ingress("kuryr", None, "s2"));
        world.rest();
        world.api.delete(Kind::Ingress, "team/a");
        world.restart(&KINDS);
        world.rest();
        assert_eq!(world.api.get(Kind::Ingress, "team/a"), None, "{:?}", world.explain(SHARED));
        // One that has asked for it waits.
        world.api.delete(Kind::Ingress, "team/b");
        world.restart(&KINDS);
        world.rest();
        assert!(world.api.get(Kind::Ingress, "team/b").is_some());
        world.writer.is_stuck = false;
        world.writer.refuse("kuryr-l7-router", None);
        world.break_stream();
        world.rest();
        world.check();
    }
}

/// It is known to have been there.
#[test]
fn one_that_has_moved_waits_for_a_router_that_is_impeded() {
    let mut world = served();
    world.api.create(Kind::Ingress, "team/b", ingress("kuryr", None, "s2"));
    world.rest();
    world.writer.refuse("kuryr-l7-router", Some("not here"));
    world.api.edit(Kind::Ingress, "team/a", |it| it["metadata"]["annotations"][api::ANNOTATION] = json!("own"));
    world.rest();
    assert_eq!(named(world.api.get(Kind::Router, SHARED).unwrap()), ["team/b".to_owned()].into());
    world.api.delete(Kind::Ingress, "team/a");
    world.rest();
    assert!(world.api.get(Kind::Ingress, "team/a").is_some());
    world.writer.refuse("kuryr-l7-router", None);
    world.rest();
    world.check();
    assert_eq!(world.api.get(Kind::Ingress, "team/a"), None);
}

/// Takes the label off a router, as somebody does while no controller runs.
fn without_label(world: &mut World, router: &str) {
    let is_edited = world.api.edit(Kind::Router, router, |it| {
        it["metadata"].as_object_mut().unwrap().remove("labels");
    });
    assert!(is_edited);
}

#[test]
fn a_router_whose_label_was_taken_off_goes_before_its_ingress() {
    for (asked, router) in [("own", "team/a"), ("group:web", "team/web")] {
        let mut world = World::new(Some(true));
        world.api.create(Kind::Ingress, "team/a", ingress("kuryr", Some(asked), "s1"));
        world.rest();
        world.check();
        without_label(&mut world, router);
        world.api.delete(Kind::Ingress, "team/a");
        world.restart(&KINDS);
        world.purposes.clear();
        world.rest();
        world.check();
        assert_eq!((world.api.get(Kind::Router, router), world.api.get(Kind::Ingress, "team/a")), (None, None));
        let at = |what: &str| world.purposes.iter().position(|purpose| purpose.starts_with(what));
        let (gone, released) = (at("KuryrL7Router"), at("Ingress"));
        assert!(gone.is_some() && gone < released, "{:#?}", world.purposes);
    }
}

/// Meanwhile its Ingress has come to ask for the shared one.
#[test]
fn a_router_of_its_own_whose_label_was_taken_off_goes_when_its_ingress_has_moved() {
    let mut world = World::new(Some(true));
    world.api.create(Kind::Ingress, "team/a", ingress("kuryr", Some("own"), "s1"));
    world.rest();
    world.check();
    without_label(&mut world, "team/a");
    world.api.edit(Kind::Ingress, "team/a", |it| {
        it["metadata"]["annotations"].as_object_mut().unwrap().remove(api::ANNOTATION);
    });
    world.restart(&KINDS);
    world.rest();
    world.check();
    assert_eq!(world.api.get(Kind::Router, "team/a"), None);
    assert_eq!(named(world.api.get(Kind::Router, SHARED).unwrap()), ["team/a".to_owned()].into());
}

/// Its routes are still there.
#[test]
fn an_ingress_waits_for_the_shared_router_whose_label_was_taken_off() {
    let mut world = served();
    world.api.create(Kind::Ingress, "team/b", ingress("kuryr", None, "s2"));
    world.rest();
    without_label(&mut world, SHARED);
    world.api.delete(Kind::Ingress, "team/a");
    world.writer.is_stuck = true;
    world.restart(&KINDS);
    world.rest();
    assert!(world.api.get(Kind::Ingress, "team/a").is_some());
    world.writer.is_stuck = false;
    world.break_stream();
    world.rest();
    world.check();
    assert_eq!(world.api.get(Kind::Ingress, "team/a"), None);
}

/// Routes and all.
#[test]
fn a_copy_of_a_router_is_its_makers() {
    let mut world = served();
    let spec = world.api.get(Kind::Router, SHARED).unwrap()["spec"].clone();
    world.api.create(Kind::Router, "team/copy", json!({ "spec": spec }));
    world.rest();
    world.api.delete(Kind::Ingress, "team/a");
    world.rest();
    let copy = world.api.get(Kind::Router, "team/copy").unwrap();
    assert_eq!((&copy["spec"], copy["metadata"].get("labels")), (&spec, None));
}
