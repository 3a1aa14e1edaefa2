//! Answers that come for something that is there no more.

use std::time::Duration;

use gimbal_octavia_registry::{CallAnswer, CallId, CloudCall, CloudRead, RegistryEvent};

use crate::wish::{Wish, key};
use crate::world::{SECOND, World};

/// Returns the reads that are to be made now. Nothing is to be changed.
fn reads(world: &mut World) -> Vec<(CallId, CloudRead)> {
    let now = world.now();
    let mut all = Vec::new();
    while let Some(call) = world.writers[0].registry.next_call(now) {
        let CloudCall::Read(read) = call.what else { panic!("{call:?}") };
        all.push((call.id, read));
    }
    all
}

fn answer(world: &mut World, reads: Vec<(CallId, CloudRead)>) {
    let now = world.now();
    for (id, read) in reads {
        let rows = world.read(&read);
        world.writers[0].registry.answered(id, CallAnswer::Rows(rows), now);
    }
}

fn answer_all(world: &mut World) {
    loop {
        let next = reads(world);
        if next.is_empty() {
            return;
        }
        answer(world, next);
    }
}

fn made() -> World {
    let mut world = World::usual();
    world.want("prod1", key("shop", "web"), Wish::new("u1", &world.subnet));
    world.converge(60 * SECOND);
    world.run(130 * SECOND);
    world.sent.clear();
    world
}

#[test]
fn what_a_former_look_has_asked_for_is_no_part_of_a_new_one() {
    let mut world = made();
    let (web, now) = (key("shop", "web"), world.now());
    world.writers[0].registry.look_anew("prod1", &"u1".into(), now);
    let first = reads(&mut world);
    answer(&mut world, first);
    // They come only when the owner is looked at anew: its entry was gone for a moment.
    let late = reads(&mut world);
    assert!(late.len() >= 3, "{late:?}");
    let wish = world.wishes[&("prod1".to_owned(), web.clone())].entry();
    world.writers[0].registry.forget("prod1", &web, now);
    assert!(world.writers[0].registry.want("prod1", web, wish, now));
    let second = reads(&mut world);
    answer(&mut world, late);
    answer_all(&mut world);
    answer(&mut world, second);
    answer_all(&mut world);
    world.run(60 * SECOND);
    assert_eq!(world.sent.len(), 0, "{:#?}", world.last_sent());
}

#[test]
fn what_was_asked_for_a_cluster_that_is_configured_again_is_not_told_of_the_new_one() {
    let mut world = made();
    let configure = |world: &mut World| {
        world.writers[0].registry.remove_cluster("prod1");
        world.connect(0, "prod1");
        reads(world)
    };
    let mut first = configure(&mut world);
    let balancers = first.iter().position(|(_, read)| read.path == "loadbalancers").unwrap();
    let balancers = first.remove(balancers);
    answer(&mut world, vec![balancers]);
    let second = configure(&mut world);
    world.writers[0].registry.take_events();
    answer(&mut world, first);
    let (lists, listeners) = second.into_iter().partition(|(_, read)| read.path != "listeners");
    answer(&mut world, listeners);
    let listed = |world: &mut World| -> Vec<usize> {
        let events = world.writers[0].registry.take_events();
        let found = events.into_iter().filter_map(|event| match event {
            RegistryEvent::Listed { found, is_complete: true, .. } => Some(found.len()),
            _ => None,
        });
        found.collect()
    };
    assert_eq!(listed(&mut world), [0; 0], "the load balancers are not listed yet");
    answer(&mut world, lists);
    answer_all(&mut world);
    assert_eq!(listed(&mut world), [1]);
}

#[test]
fn what_is_wanted_after_a_stream_was_silent_for_a_moment_is_timed() {
    let mut world = made();
    world.silence(0, "prod1");
    world.run(12 * SECOND);
    world.writers[0].streams.push("prod1".to_owned());
    world.events.clear();
    world.run(30 * SECOND);
    world.want("prod1", key("shop", "new"), Wish::new("u2", &world.subnet));
    world.converge(60 * SECOND);
    assert!(world.events.iter().any(|event| matches!(event, RegistryEvent::Served { .. })), "{:?}", world.events);
}

#[test]
fn what_is_served_or_gone_says_since_when_it_was_being_changed() {
    let mut world = made();
    world.events.clear();
    let new = key("shop", "new");
    world.want("prod1", new.clone(), Wish::new("u2", &world.subnet));
    world.run(Duration::from_millis(1));
    assert!(
        world.writers[0].registry.awaits("prod1", &new)
            && !world.writers[0].registry.awaits("prod1", &key("shop", "web"))
    );
    world.converge(60 * SECOND);
    let served = |event: &RegistryEvent| match event {
        RegistryEvent::Served { key, took, changing, .. } => Some((key.clone(), *took, *changing)),
        _ => None,
    };
    let found: Vec<_> = world.events.iter().filter_map(served).collect();
    let [(key, took, Some(changing))] = &found[..] else { panic!("{found:?}") };
    assert!(*key == new && changing <= took && !changing.is_zero(), "{found:?}");
    assert!(!world.writers[0].registry.awaits("prod1", &new));

    // What differs in nothing that OpenStack has needs no change.
    world.events.clear();
    world.change("prod1", &new, |_| {});
    world.converge(60 * SECOND);
    let found: Vec<_> = world.events.iter().filter_map(served).collect();
    assert!(found.iter().all(|(_, _, changing)| changing.is_none()), "{found:?}");

    world.events.clear();
    world.change("prod1", &new, |wish| wish.deleting = true);
    assert!(world.writers[0].registry.awaits("prod1", &new));
    world.converge(60 * SECOND);
    let removed = |event: &RegistryEvent| match event {
        RegistryEvent::Removed { key, changing, .. } => Some((key.clone(), changing.is_some())),
        _ => None,
    };
    assert_eq!(world.events.iter().filter_map(removed).collect::<Vec<_>>(), [(new.clone(), true)]);
    assert!(!world.writers[0].registry.awaits("prod1", &new));
}

/// The key has another owner by then, which is not removed.
#[test]
fn a_former_owner_that_is_gone_says_nothing_of_its_key() {
    let mut world = made();
    world.events.clear();
    let web = key("shop", "web");
    let wish = Wish { owner: "u3".to_owned(), ..world.wishes[&("prod1".to_owned(), web.clone())].clone() };
    let former = world.wishes[&("prod1".to_owned(), web.clone())].owner.clone();
    world.want("prod1", web, Wish { known: false, ..wish });
    world.converge(300 * SECOND);
    assert_eq!(world.balancers_of(&former), [""; 0]);
    let is_removed = |event: &RegistryEvent| matches!(event, RegistryEvent::Removed { .. });
    assert!(!world.events.iter().any(is_removed), "{:?}", world.events);
}
