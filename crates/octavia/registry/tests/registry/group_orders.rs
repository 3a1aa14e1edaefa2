//! What administrators order about load balancers that several owners share.

use gimbal_kuryr_model::{DesiredKey, DesiredKind, Phase};
use gimbal_octavia_plan::CloudChange;
use gimbal_octavia_registry::{AdoptionOutcome, RegistryEvent};

use crate::sharing::{at, shares, two};
use crate::wish::going;
use crate::world::{SECOND, Way, World};

const ADDRESS: &str = "10.0.0.77";

/// A load balancer of somebody on port 80, and two owners of a group, of whom the older one wants its address and that port.
fn in_the_way() -> (World, String) {
    let mut world = World::new(0);
    let theirs = world.made_by_hand(&["kuryr"], Some(ADDRESS));
    world.add_cluster("prod1");
    world.add_writer();
    world.connect(0, "prod1");
    for (name, owner, created, port) in [("a", "ua", 1, 80), ("b", "ub", 2, 81)] {
        let mut wish = shares(&world, owner, created, &[port], 1..3);
        (wish.from_outside, wish.address) = (false, Some(ADDRESS.to_owned()));
        world.want("prod1", at(name), wish);
    }
    world.run(60 * SECOND);
    (world, theirs)
}

fn adopt(world: &mut World, name: &str, balancer: &str, dry_run: bool) -> Option<AdoptionOutcome> {
    let now = world.now();
    world.events.clear();
    assert!(world.writers[0].registry.adopt("prod1", &at(name), balancer, dry_run, now));
    world.run(30 * SECOND);
    world.events.iter().find_map(|event| match event {
        RegistryEvent::Adopted { outcome, .. } => Some(outcome.clone()),
        _ => None,
    })
}

#[test]
fn a_load_balancer_that_one_of_them_adopts_serves_all_of_them() {
    let (mut world, theirs) = in_the_way();
    let Some(AdoptionOutcome::WouldChange(changes)) = adopt(&mut world, "b", &theirs, true) else { panic!() };
    use CloudChange::{UpdateBalancer, UpdateListener, UpdatePool};
    let [UpdateBalancer { fields, .. }, UpdateListener { fields: listener, .. }, UpdatePool { fields: pool, .. }] =
        &changes[..]
    else {
        panic!("{changes:?}")
    };
    let all =
        ["gimbal-cluster:prod1", "gimbal-group:shop:web", "k8s-cluster:uid-prod1", "k8s-svc-uid:ua", "k8s-svc-uid:ub"];
    assert_eq!(fields["tags"], serde_json::json!([&all[..], &["kuryr"]].concat()));
    // Each part is of its owner.
    for part in [listener, pool] {
        assert!(part["name"] == "shop/a:TCP:80" && part["tags"].to_string().contains("k8s-svc-uid:ua"), "{part}");
        assert!(!part["tags"].to_string().contains("k8s-svc-uid:ub"), "{part}");
    }
    assert_eq!(adopt(&mut world, "b", &theirs, false), Some(AdoptionOutcome::Done));
    world.converge(60 * SECOND);
    assert_eq!((world.balancers_of("ua"), world.balancers_of("ub")), (vec![theirs.clone()], vec![theirs.clone()]));
    assert_eq!(adopt(&mut world, "a", &theirs, false), Some(AdoptionOutcome::Done), "it has it");
    // It is kept, and goes with the last of them, as one that was made.
    world.change("prod1", &at("a"), |wish| wish.deleting = true);
    world.converge(60 * SECOND);
    assert_eq!(world.balancers_of("ub"), [theirs]);
    world.change("prod1", &at("b"), |wish| wish.deleting = true);
    world.converge(60 * SECOND);
    assert_eq!(world.left_of("prod1"), [""; 0]);
}

/// The group has found it by its mark meanwhile, and named its owners on it.
#[test]
fn an_adoption_whose_answer_is_lost_finds_what_the_group_has_made_of_it() {
    let (mut world, theirs) = in_the_way();
    world.way_of = Some(|change| {
        let is_mark = matches!(change, CloudChange::UpdateBalancer { fields, .. } if fields["description"].is_string());
        is_mark.then_some(Way::AnswerLost)
    });
    assert_eq!(adopt(&mut world, "a", &theirs, false), Some(AdoptionOutcome::Done));
    world.way_of = None;
    world.converge(60 * SECOND);
    assert_eq!(world.balancers_of("ub"), [theirs]);
}

/// Whoever joins a group must not stop it.
#[test]
fn a_younger_owner_that_names_another_load_balancer_is_told_and_the_group_goes_on() {
    let mut world = two();
    let mut wish = shares(&world, "uc", 3, &[90], 7..9);
    wish.adopt = Some("5a49c3c1-2f58-4c4c-8d0e-6a1d6a3c0b11".to_owned());
    world.want("prod1", at("c"), wish);
    world.change("prod1", &at("a"), |wish| wish.members = vec![(9, 80)]);
    world.converge(60 * SECOND);
    assert_eq!(world.conditions("prod1", &at("a")), [""; 0]);
    assert_eq!(world.conditions("prod1", &at("c")), ["Conflict/SharedSettings"]);
}

/// As openstack-writer does it: a registry of its own that knows nothing but the marks of the inventory.
#[test]
fn everything_of_a_group_is_removed_by_its_mark_whoever_shares_it() {
    let mut world = two();
    let mut wish = crate::wish::Wish::new("alone", &world.subnet);
    wish.ports = vec![90];
    world.want("prod1", at("alone"), wish);
    world.converge(60 * SECOND);
    world.wishes.clear();
    world.writers.clear();
    world.add_writer();
    world.connect(0, "prod1");
    let now = world.now();
    world.writers[0].registry.set_current("prod1", true, false);
    let marks = ["alone", "gimbal-group:shop:web"];
    let keys = marks.map(|mark| DesiredKey::new(DesiredKind::LoadBalancer, "", mark));
    for (mark, key) in marks.iter().zip(&keys) {
        assert!(world.writers[0].registry.want("prod1", key.clone(), going(mark), now));
    }
    world.reports.clear();
    let is_gone = |world: &World, key: &DesiredKey| world.phase("prod1", key) == Some(Phase::Gone);
    world.run_until(120 * SECOND, "all is gone", |world| keys.iter().all(|key| is_gone(world, key)));
    assert_eq!(world.left_of("prod1"), [""; 0]);
}
