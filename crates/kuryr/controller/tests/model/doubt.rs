//! What may exist in OpenStack although nothing is offered of it, and what is named by the wrong object.

use std::time::Duration;

use gimbal_kuryr_crd::KuryrL7Router;
use gimbal_kuryr_model::{CloudFacts, DesiredEntry, VipWish};
use gimbal_kuryr_resource::{ClusterKnowledge, Sighting};
use serde_json::{Value, json};

use crate::api::{BALANCER_FINALIZER, Kind, SERVICE_FINALIZER, has, is_going};
use crate::common::{ORDER, conditions, get, of_owner, served};
use crate::world::{World, facts, service, slice};

fn is_complete(world: &World) -> bool {
    world.controller.knowledge() == ClusterKnowledge::Complete
}

/// What is offered names this owner, and wants nothing.
fn names_alone(world: &World, owner: &str) -> bool {
    let alone = |entry: &DesiredEntry| matches!(entry, DesiredEntry::LoadBalancer(wanted) if wanted.header.vip == VipWish::default());
    world.offered.len() == 1 && world.offered.values().all(|entry| alone(entry) && &**entry.owner() == owner)
}

/// If its namespace were unknown instead, orphans of the whole cluster would stay for as long as one Service contradicts itself.
#[test]
fn a_living_owner_that_cannot_be_served_is_named() {
    let mut world = served();
    let ip = |ip: &'static str| {
        move |it: &mut Value| {
            it["spec"]["clusterIP"] = json!(ip);
            it["spec"]["clusterIPs"] = json!([ip]);
        }
    };
    world.api.edit(Kind::Service, "a", ip("10.97.0.10"));
    world.rest();
    assert_eq!(conditions(&world)[0], "Ready=False VipOutsideSubnet");
    assert!(is_complete(&world) && world.offered.len() == 1, "what was offered before stays");
    assert!(!names_alone(&world, "Service-2"));
    for restarts in [true, false] {
        if restarts {
            world.restart(&ORDER);
        } else {
            world.lead(false);
            world.lead(true);
        }
        assert!(is_complete(&world) && names_alone(&world, "Service-2"), "{:?}", world.offered);
        let writes = world.writes;
        world.rest();
        assert!(is_complete(&world) && names_alone(&world, "Service-2"), "{:?}", world.offered);
        assert_eq!((conditions(&world)[0].as_str(), world.writes), ("Ready=False VipOutsideSubnet", writes));
    }
    world.api.edit(Kind::Service, "a", ip("10.96.0.10"));
    world.rest();
    world.check();
    assert!(!names_alone(&world, "Service-2"));
    // So does one that is deleted.
    world.api.edit(Kind::Service, "a", ip("10.97.0.10"));
    world.rest();
    world.restart(&ORDER);
    world.rest();
    assert!(names_alone(&world, "Service-2"));
    world.api.delete(Kind::Service, "a");
    world.rest();
    world.check();
    assert!(world.writer.made.is_empty());
}

/// If it fitted in no frame, the session would have to take its namespace for unknown.
#[test]
fn what_is_too_large_to_be_sent_concerns_one_object() {
    let mut world = served();
    let before = world.offered.clone();
    let with = |ranges: Vec<String>| move |it: &mut Value| it["spec"]["loadBalancerSourceRanges"] = json!(ranges);
    let many = || (0..40_000).map(|n| format!("10.{}.{}.0/24", n / 256, n % 256)).collect();
    world.api.edit(Kind::Service, "a", with(many()));
    world.rest();
    assert!(world.offered == before, "what was made stays");
    let mut new = service("LoadBalancer", 80);
    with(many())(&mut new);
    world.api.create(Kind::Service, "b", new);
    world.rest();
    assert!(world.offered == before, "nothing is made of the other one");
    assert!(conditions(&world).contains(&"TooLarge=True TooLarge".to_owned()), "{:?}", conditions(&world));
    assert_eq!(conditions(&world)[0], "Ready=False TooLarge");
    let said = world.explain("a").join(" ");
    assert!(said.contains("its 1 ports, 40000 source ranges and other lists take"), "{said}");
    world.api.delete(Kind::Service, "b");
    world.rest();
    // A new process has not seen how it was.
    world.restart(&ORDER);
    world.rest();
    assert!(is_complete(&world) && names_alone(&world, "Service-2"), "{:?}", world.explain("a"));
    world.api.edit(Kind::Service, "a", with(vec!["10.0.0.0/8".to_owned()]));
    world.rest();
    world.check();
}

#[test]
fn a_text_that_is_not_sent_concerns_one_object() {
    let mut world = World::new(true);
    let spec = json!({
        "ip": "10.96.0.77", "project_id": "project", "subnet_id": "services", "type": "ClusterIP",
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "8080"}],
    });
    world.api.create(Kind::Balancer, "a", json!({ "spec": spec }));
    world.rest();
    world.check();
    world.api.edit(Kind::Balancer, "a", |it| it["spec"]["subnet_id"] = json!("a/b"));
    world.rest();
    assert_eq!(conditions(&world)[0], "Ready=False Invalid");
    world.restart(&ORDER);
    world.rest();
    assert!(is_complete(&world) && names_alone(&world, "Balancer-1"), "{:?}", world.offered);
    // What is no UID names no owner.
    world.api.edit(Kind::Balancer, "a", |it| {
        it["spec"]["subnet_id"] = json!("services");
        it["spec"]["service_uid"] = json!("a/b");
    });
    world.rest();
    assert!(is_complete(&world) && !names_alone(&world, "Balancer-1"), "{:?}", world.offered);
    world.api.delete(Kind::Balancer, "a");
    world.rest();
    assert_eq!(get(&world, Kind::Balancer), Value::Null);
    assert!(world.writer.made.is_empty());
}

/// Whether the writer knows that something may exist for an owner: by its entry, or because its namespace is unknown.
fn is_known(world: &World, owner: &str) -> bool {
    !is_complete(world) || world.offered.values().any(|entry| &**entry.owner() == owner)
}

fn outside(it: &mut Value) {
    it["spec"]["clusterIP"] = json!("10.97.0.10");
    it["spec"]["clusterIPs"] = json!(["10.97.0.10"]);
}

#[test]
fn what_another_controller_has_served_meanwhile_is_not_unmade() {
    let mut world = World::new(true);
    world.api.create(Kind::Slice, "a", slice("a", 2));
    let mut wanted = service("LoadBalancer", 80);
    outside(&mut wanted);
    world.api.create(Kind::Service, "a", wanted);
    for kind in ORDER {
        while world.watch(kind) {}
    }
    world.drain();
    world.lead(false);
    // By now the other one has served it, with the address that it had then.
    world.api.edit(Kind::Service, "a", |it| it["metadata"]["finalizers"] = json!([SERVICE_FINALIZER]));
    let owner = get(&world, Kind::Service)["metadata"]["uid"].as_str().unwrap().to_owned();
    world.api.create(Kind::Balancer, "a", of_owner(&owner));
    for kind in ORDER {
        while world.watch(kind) {}
    }
    world.lead(true);
    assert!(is_known(&world, &owner));
    world.rest();
    assert!(is_known(&world, &owner), "{:?}", world.explain("a"));
}

/// Only the deletion of a router removes what exists for it.
#[test]
fn what_names_a_router_as_its_owner_removes_nothing() {
    let owner = "6d0e7f4e-0000-4000-8000-000000000001";
    let mut router = KuryrL7Router::default();
    router.metadata.meta.uid = owner.into();
    let removal = DesiredEntry::Deleting { owner: owner.into() };
    let removes = |world: &World| world.offered.values().any(|entry| **entry == removal);
    for (listed, unread) in
        [(Some(true), false), (Some(false), false), (None, false), (None, true), (Some(false), true)]
    {
        let mut world = World::new(true);
        (world.works, world.patience) = (false, Duration::from_secs(20));
        world.controller.set_facts(&CloudFacts { enable_ingress: true, ..facts() });
        if let Some(exists) = listed {
            world.controller.saw_router(&Sighting::ListBegan);
            exists.then(|| world.controller.saw_router(&Sighting::Set(router.clone())));
            world.controller.saw_router(&Sighting::ListDone);
        }
        if unread {
            world.controller.saw_router(&Sighting::Unreadable("forbidden".to_owned()));
        }
        world.api.create(Kind::Balancer, "a", of_owner(owner));
        world.rest();
        let is_known = listed.is_some() && !unread;
        assert_eq!(removes(&world), is_known && listed == Some(false), "{listed:?} {unread}: {:?}", world.offered);
        assert_eq!(get(&world, Kind::Balancer).is_null(), listed == Some(true), "the copy goes");
        if is_known {
            continue;
        }
        // It is asked for once, and waits.
        assert!(!is_complete(&world), "{:?}", world.explain("a"));
        world.controller.saw_router(&Sighting::ListBegan);
        world.controller.saw_router(&Sighting::ListDone);
        world.rest();
        assert!(removes(&world), "there is no such router");
    }
}

/// Nor does what was decided before the writer has said whether there are routers.
#[test]
fn what_names_a_router_removes_nothing_once_the_facts_come() {
    let owner = "6d0e7f4e-0000-4000-8000-000000000001";
    let removal = DesiredEntry::Deleting { owner: owner.into() };
    for (enable_ingress, removes) in [(true, false), (false, true)] {
        let mut world = World::new(false);
        (world.works, world.patience) = (false, Duration::from_secs(20));
        world.api.create(Kind::Balancer, "a", of_owner(owner));
        world.rest();
        world.knows_facts = true;
        world.controller.set_facts(&CloudFacts { enable_ingress, ..facts() });
        world.rest();
        let removed = world.offered.values().any(|entry| **entry == removal);
        assert_eq!(removed, removes, "{enable_ingress}: {:?}", world.offered);
        assert_eq!(is_going(&get(&world, Kind::Balancer)), removes, "{enable_ingress}");
    }
}

/// Nor does it while the routers of a restored store were not listed.
#[test]
fn routers_are_unknown_after_the_store_went_back() {
    let owner = "6d0e7f4e-0000-4000-8000-000000000001";
    let mut router = KuryrL7Router::default();
    router.metadata.meta.uid = owner.into();
    let removal = DesiredEntry::Deleting { owner: owner.into() };
    let removes = |world: &World| world.offered.values().any(|entry| **entry == removal);
    let mut world = World::new(true);
    (world.works, world.patience) = (false, Duration::from_secs(20));
    world.controller.set_facts(&CloudFacts { enable_ingress: true, ..facts() });
    // It was deleted after the backup.
    world.controller.saw_router(&Sighting::ListBegan);
    world.controller.saw_router(&Sighting::ListDone);
    world.api.create(Kind::Balancer, "a", of_owner(owner));
    world.api.back_up();
    world.go_back();
    world.rest();
    assert!(!removes(&world), "{:?}", world.offered);
    world.controller.saw_router(&Sighting::ListBegan);
    world.controller.saw_router(&Sighting::Set(router));
    world.controller.saw_router(&Sighting::ListDone);
    world.rest();
    assert!(!removes(&world), "{:?}", world.offered);
}

#[test]
fn a_service_without_its_finalizer_is_not_unmade_while_its_object_has_one() {
    let mut world = served();
    world.api.edit(Kind::Service, "a", outside);
    world.rest();
    let owner = get(&world, Kind::Service)["metadata"]["uid"].as_str().unwrap().to_owned();
    world.api.edit(Kind::Service, "a", |it| it["metadata"]["finalizers"] = json!([]));
    world.restart(&ORDER);
    assert!(is_known(&world, &owner));
    world.rest();
    assert!(is_known(&world, &owner), "{:?}", world.explain("a"));
}

/// Its namespace is unknown until it is made again, and not for as long as the API server refuses that.
#[test]
fn a_protected_service_whose_object_cannot_be_made_is_named() {
    for goes in [false, true] {
        let mut world = World::new(true);
        world.patience = Duration::from_secs(20);
        let mut wanted = service("LoadBalancer", 80);
        wanted["metadata"]["annotations"] = json!({"openstack.org/kuryr-shared-group": "web"});
        world.api.create(Kind::Service, "a", wanted);
        world.rest();
        assert_eq!(conditions(&world)[0], "Ready=True Ready");
        world.api.edit(Kind::Balancer, "a", |it| it["metadata"]["finalizers"] = json!([]));
        world.api.delete(Kind::Balancer, "a");
        world.api.refuses = Some((Kind::Balancer, "a".into()));
        world.restart(&ORDER);
        assert!(world.offered.is_empty() && !is_complete(&world));
        world.rest();
        assert!(is_complete(&world) && names_alone(&world, "Service-1"), "{:?}", world.offered);
        let group = world.offered.values().find_map(|entry| match &**entry {
            DesiredEntry::LoadBalancer(wanted) => wanted.header.shared_group.clone(),
            DesiredEntry::Deleting { .. } => None,
        });
        assert_eq!(group.as_deref().map(|group| &*group.name), Some("team/web"), "it is no orphan's either");
        assert_eq!(world.writer.made.len(), 1, "what exists stays");
        if goes {
            world.api.delete(Kind::Service, "a");
            world.rest();
            assert!(world.writer.made.is_empty() && get(&world, Kind::Service).is_null());
            continue;
        }
        world.api.refuses = None;
        world.pass(Duration::from_secs(60));
        assert!(world.plan() && world.answer(0, 0) && !get(&world, Kind::Balancer).is_null());
        // That the writer refuses the entry is meant, and no one has to do anything.
        world.plan();
        assert!(world.in_flight.iter().all(|write| write.purpose != "set the status"), "{:?}", world.in_flight);
        world.rest();
        assert!(!names_alone(&world, "Service-1"));
        assert_eq!(conditions(&world)[0], "Ready=True Ready");
    }
}

/// The API server says nothing for certain while a webhook is down. What is tried again and again is named meanwhile.
#[test]
fn a_living_owner_for_whom_no_write_is_answered_is_named() {
    let unmade: fn(&mut World) = |world| {
        world.api.edit(Kind::Balancer, "a", |it| it["metadata"]["finalizers"] = json!([]));
        world.api.delete(Kind::Balancer, "a");
    };
    let edited: fn(&mut World) = |world| {
        world.api.edit(Kind::Balancer, "a", |it| it["spec"]["provider"] = json!("ovn"));
    };
    let unprotected: fn(&mut World) = |world| {
        world.api.edit(Kind::Balancer, "a", |it| it["metadata"]["finalizers"] = json!([]));
    };
    let of_another: fn(&mut World) = |world| {
        world.api.edit(Kind::Balancer, "a", |it| it["spec"]["service_uid"] = json!(""));
    };
    for (nth, happens) in [unmade, edited, unprotected, of_another].into_iter().enumerate() {
        for fate in [10, 11] {
            let mut world = served();
            happens(&mut world);
            world.restart(&ORDER);
            assert!(world.offered.is_empty() && !is_complete(&world), "{nth}");
            assert!(world.plan() && world.answer(0, fate));
            world.drain();
            assert!(is_complete(&world) && names_alone(&world, "Service-2"), "{nth} {fate}: {:?}", world.offered);
            world.rest();
            world.check();
            assert!(!names_alone(&world, "Service-2"));
        }
    }
}

/// Somebody else's finalizer may be there for as long as it likes.
#[test]
fn a_living_owner_whose_name_one_has_that_does_not_go_is_named() {
    for is_former in [false, true] {
        let mut world = served();
        world.collects = false;
        let kept = json!([BALANCER_FINALIZER, "example.org/keeps"]);
        world.api.edit(Kind::Balancer, "a", |it| it["metadata"]["finalizers"] = kept);
        if is_former {
            world.api.delete(Kind::Service, "a");
            world.rest();
            world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
        } else {
            world.api.delete(Kind::Balancer, "a");
        }
        world.rest();
        let owner = get(&world, Kind::Service)["metadata"]["uid"].as_str().unwrap().to_owned();
        assert!(has(&get(&world, Kind::Service), SERVICE_FINALIZER), "{is_former}");
        assert!(is_complete(&world), "{is_former}: nothing was made for it, or it is offered still");
        world.restart(&ORDER);
        world.rest();
        assert!(is_complete(&world) && names_alone(&world, &owner), "{is_former}: {:?}", world.explain("a"));
        world.api.edit(Kind::Balancer, "a", |it| it["metadata"]["finalizers"] = json!([]));
        world.rest();
        world.check();
        assert!(!names_alone(&world, &owner));
    }
}

#[test]
fn a_new_service_leaves_its_namespace_known() {
    let mut world = World::new(true);
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    for _ in 0..6 {
        for kind in ORDER {
            while world.watch(kind) {
                world.drain();
                assert!(is_complete(&world));
            }
        }
        world.plan();
        while world.answer(0, 0) {
            world.drain();
            assert!(is_complete(&world));
        }
    }
    world.rest();
    world.check();
}

/// A copy of what belongs to the Service `a`, under another name.
fn copied(world: &mut World) {
    let spec = get(world, Kind::Balancer)["spec"].clone();
    let copy = json!({"metadata": {"finalizers": [BALANCER_FINALIZER]}, "spec": spec});
    world.api.create(Kind::Balancer, "b", copy);
}

#[test]
fn a_copy_removes_nothing_of_the_service_that_it_names() {
    let mut world = served();
    copied(&mut world);
    world.rest();
    assert_eq!(world.api.get(Kind::Balancer, "b"), None);
    assert!(!world.heard.iter().any(|heard| heard.contains("deleting")), "{:?}", world.heard);
    world.check();
}

#[test]
fn a_copy_removes_nothing_before_the_service_is_seen() {
    let mut world = served();
    copied(&mut world);
    world.restart_behind();
    world.plan();
    // That there is no Service of the copy's name is known first.
    let at = world.in_flight.iter().position(|write| &*write.object.name == "b").unwrap();
    assert!(world.answer(at, 0));
    world.plan();
    world.drain();
    assert!(world.heard.is_empty(), "{:?}", world.heard);
    world.rest();
    assert_eq!(world.api.get(Kind::Balancer, "b"), None);
    assert!(!world.heard.iter().any(|heard| heard.contains("deleting")), "{:?}", world.heard);
    world.check();
}

#[test]
fn of_two_objects_that_name_a_service_that_is_gone_one_removes_it() {
    let mut world = served();
    copied(&mut world);
    world.collects = false;
    world.api.edit(Kind::Service, "a", |it| it["metadata"]["finalizers"] = json!([]));
    world.api.delete(Kind::Service, "a");
    world.restart(&ORDER);
    world.rest();
    assert_eq!(world.api.of(Kind::Balancer), Vec::<Value>::new());
    assert!(world.writer.made.is_empty());
    assert_eq!(world.heard.iter().filter(|heard| heard.contains("deleting")).count(), 1, "{:?}", world.heard);
}

/// The writer holds the owner for a name that is not offered any more, or is not offered by this process.
#[test]
fn a_refused_removal_keeps_its_finalizer_until_it_is_taken_up() {
    let mut world = served();
    world.works = false;
    world.api.delete(Kind::Service, "a");
    world.rest();
    let key = world.offered.keys().next().unwrap().clone();
    world.controller.rejected(&key, "OwnerConflict", "team/other has the same owner");
    world.rest();
    assert!(has(&get(&world, Kind::Balancer), BALANCER_FINALIZER));
    assert!(has(&get(&world, Kind::Service), SERVICE_FINALIZER));
    assert!(conditions(&world).contains(&"Conflict=True OwnerConflict".to_owned()), "{:?}", conditions(&world));
    assert!(world.notices.iter().any(|notice| notice.told.reason == "KuryrReleaseLBError"), "{:?}", world.notices);
    world.controller.resolved(&key, world.now);
    world.works = true;
    world.rest();
    assert_eq!((get(&world, Kind::Service), get(&world, Kind::Balancer)), (Value::Null, Value::Null));
    assert!(world.writer.made.is_empty());
}

/// The copy was seen first, and the removal of its owner was streamed before the Service was known.
#[test]
fn a_removal_that_is_refused_for_a_copy_leaves_the_copy_to_go() {
    let mut world = served();
    copied(&mut world);
    // Somebody has removed the original by force, so nothing but the copy names the Service.
    world.api.edit(Kind::Balancer, "a", |it| it["metadata"]["finalizers"] = json!([]));
    world.api.delete(Kind::Balancer, "a");
    world.api.wanted_since.clear();
    world.works = false;
    world.restart_behind();
    world.plan();
    let at = world.in_flight.iter().position(|write| &*write.object.name == "b").unwrap();
    assert!(world.answer(at, 0));
    world.plan();
    world.drain();
    world.patience = Duration::from_secs(20);
    world.rest();
    let copy = gimbal_kuryr_model::DesiredKey::new(gimbal_kuryr_model::DesiredKind::LoadBalancer, "team", "b");
    if world.offered.contains_key(&copy) {
        world.controller.rejected(&copy, "OwnerConflict", "team/a has the same owner");
    }
    world.works = true;
    world.rest();
    assert_eq!(world.api.get(Kind::Balancer, "b"), None, "{:?}", world.explain("b"));
    world.check();
}
