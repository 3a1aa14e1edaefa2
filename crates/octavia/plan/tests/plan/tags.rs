//! Tags that the configuration puts on everything.

use gimbal_octavia_plan::BalancerStep;
use serde_json::{Value, json};

use crate::executor::World;
use crate::services::{change, made, world};

fn untagged(world: &mut World, tag: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lists = vec![
        ("/v2/lbaas/loadbalancers".to_owned(), "loadbalancers"),
        ("/v2/lbaas/listeners".to_owned(), "listeners"),
        ("/v2/lbaas/pools".to_owned(), "pools"),
        ("/v2/lbaas/healthmonitors".to_owned(), "healthmonitors"),
        ("/v2.0/ports".to_owned(), "ports"),
        ("/v2.0/floatingips".to_owned(), "floatingips"),
    ];
    for pool in world.rows("/v2/lbaas/pools", "pools", &[]) {
        lists.push((format!("/v2/lbaas/pools/{}/members", pool["id"].as_str().unwrap()), "members"));
    }
    for (path, key) in lists {
        let rows = world.rows(&path, key, &[]);
        assert!(!rows.is_empty(), "nothing in {path}");
        let has = |row: &&Value| row["tags"].as_array().unwrap().iter().any(|one| one == tag);
        found.extend(rows.iter().filter(|row| !has(row)).map(|_| key.to_owned()));
    }
    found
}

#[test]
fn everything_carries_them_also_what_was_made_before() {
    let (mut wish, mut world) = world(|wish| (wish.from_outside, wish.floating, wish.monitor) = (true, true, true));
    world.actor.set_resource_tags(["blue".into()].into());
    made(&wish, &mut world);
    assert_eq!(untagged(&mut world, "blue"), [""; 0]);
    // The mark is still all there is in the description, by which Neutron's objects are found.
    assert!(!world.rows("/v2.0/ports", "ports", &[])[0]["description"].to_string().contains("blue"));
    let changes = change(&mut world, &mut wish, |wish| wish.members = vec![(1, 80, 1), (9, 80, 1)]);
    assert_eq!((changes.len(), untagged(&mut world, "blue")), (1, Vec::new()));

    world.actor.set_resource_tags(["blue".into(), "green".into()].into());
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(untagged(&mut world, "green"), [""; 0]);
    world.sent.clear();
    world.restart();
    world.actor.set_resource_tags(["green".into()].into());
    assert_eq!((world.run(), world.sent.len()), (BalancerStep::Done, 0), "{:#?}", world.sent);
    assert_eq!(untagged(&mut world, "blue"), [""; 0], "what is no longer in the configuration is left as it is");
}

/// With the tags it would be taken for something that was forgotten.
#[test]
fn a_floating_ip_that_is_kept_loses_the_tags_of_the_mark_and_no_others() {
    let (wish, mut world) = world(|wish| (wish.from_outside, wish.floating, wish.keep) = (true, true, true));
    world.actor.set_resource_tags(["blue".into()].into());
    made(&wish, &mut world);
    world.actor.want(wish.deleting());
    assert_eq!(world.run(), BalancerStep::Gone);
    let left = world.rows("/v2.0/floatingips", "floatingips", &[]);
    assert_eq!((left.len(), &left[0]["tags"], &left[0]["description"]), (1, &json!(["blue"]), &json!("gimbal:keep")));
}

#[test]
fn without_any_neutron_is_asked_for_nothing_more() {
    let (wish, mut world) = world(|wish| (wish.from_outside, wish.floating) = (true, true));
    made(&wish, &mut world);
    assert_eq!(world.sent.len(), 3, "{:#?}", world.sent);
    assert_eq!(world.rows("/v2.0/ports", "ports", &[])[0]["tags"], json!([]));
}
