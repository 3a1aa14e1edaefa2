//! Answers that are lost, at each kind of change; processes that are killed at each call.

use std::time::Duration;

use gimbal_neutron_plan::{PortChange, PortReport, PortWork};
use gimbal_octavia_sim::SimRequest;

use crate::world::{Way, World};

const MINUTE: Duration = Duration::from_secs(60);

/// Makes every change end in one way the first time that it is of its kind.
fn life(ways: &[(&str, Way)], kills: Option<u64>) -> World {
    let (mut world, place) = World::simple(|_| {});
    let mut left = ways.to_vec();
    let mut taken = 0;
    let mut go = |world: &mut World, seconds: u64| {
        let end = world.now + Duration::from_secs(seconds);
        while world.now < end {
            while world.begin(0) {
                let flight = world.writers[0].flights.last().unwrap();
                let kind = match &flight.what {
                    PortWork::Change(change) => kind(change),
                    PortWork::Read(_) => "read",
                };
                let way = left.iter().position(|(of, _)| *of == kind).map_or(Way::Arrives, |at| left.remove(at).1);
                taken += 1;
                if kills == Some(taken) {
                    world.start_writer();
                    world.kill(|| Way::AnswerLost);
                    world.tell();
                    continue;
                }
                world.end(0, world.writers[0].flights.len() - 1, way);
                world.kubernetes.plug_all(&mut world.neutron);
                world.tell();
            }
            world.advance(Duration::from_millis(500));
        }
    };
    let pods = [world.add_pod(&place), world.add_pod(&place)];
    go(&mut world, 120);
    // One takes a port of the pool, and one gives its own back.
    let third = world.add_pod(&place);
    world.kubernetes.unplug(&pods[0], &mut world.neutron);
    world.end_pod(&pods[0]);
    go(&mut world, 120);
    world.kubernetes.unplug(&pods[1], &mut world.neutron);
    world.end_pod(&pods[1]);
    go(&mut world, 120);
    world.end_pod(&third);
    go(&mut world, 60);
    world.run_for(60 * MINUTE);
    assert_eq!(world.ours().len(), 0, "{ways:?}, killed at {kills:?}: {:?}", world.ours());
    assert!(world.kubernetes.pods.is_empty(), "{:?}", world.kubernetes.pods);
    assert!(pods.iter().chain([&third]).all(|pod| matches!(world.reports.get(pod), Some(PortReport::Gone { .. }))));
    world
}

fn kind(change: &PortChange) -> &'static str {
    match change {
        PortChange::Create { .. } => "create",
        PortChange::Tag { .. } => "tag",
        PortChange::Delete { .. } => "delete",
        PortChange::Update { fields, .. } if fields["description"].as_str().unwrap_or_default().contains("going") => {
            "retire"
        }
        PortChange::Update { fields, .. } if fields.get("security_groups").is_some() => "recycle",
        PortChange::Update { .. } => "assign",
    }
}

#[test]
fn every_kind_of_change_is_made_once_where_nothing_is_lost() {
    let world = life(&[], None);
    let mut kinds: Vec<&str> = world.sent.iter().map(|(_, change)| kind(change)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds, ["assign", "create", "delete", "recycle", "retire", "tag"]);
}

#[test]
fn whatever_answer_is_lost_nothing_is_left_and_nothing_is_made_twice() {
    for kind in ["assign", "create", "delete", "recycle", "retire", "tag", "read"] {
        for way in [Way::Lost, Way::AnswerLost, Way::NotSent, Way::Busy] {
            let world = life(&[(kind, way)], None);
            let made = world.sent.iter().filter(|(_, change)| matches!(change, PortChange::Create { .. })).count();
            // Two creations are lost and made again at most: the first one, and that for the pool.
            assert!(made <= 8, "{kind} {way:?}: {made}");
        }
        life(&[(kind, Way::Late)], None);
    }
}

/// A port that was made, and whose answer was lost, is found by its mark before another one is made.
#[test]
fn a_creation_whose_answer_is_lost_is_looked_for() {
    let (mut world, place) = World::simple(|_| {});
    let pod = world.add_pod(&place);
    assert!(world.begin(0));
    world.end(0, 0, Way::Arrives);
    assert!(world.begin(0));
    world.end(0, 0, Way::AnswerLost);
    let sent = world.sent.len();
    assert!(world.begin(0), "the look");
    let what = format!("{:?}", world.writers[0].flights[0].what);
    assert!(what.contains("Marked") && what.contains(&*pod), "{what}");
    world.end(0, 0, Way::Arrives);
    world.run();
    assert_eq!(world.ports_of(&pod).len(), 1);
    assert!(
        !world.sent[sent..].iter().any(|(_, change)| matches!(change, PortChange::Create { .. })),
        "{:?}",
        world.sent
    );
}

#[test]
fn a_creation_that_has_not_arrived_is_looked_for_thrice_and_made_again() {
    let (mut world, place) = World::simple(|_| {});
    let pod = world.add_pod(&place);
    for way in [Way::Arrives, Way::Lost] {
        assert!(world.begin(0));
        world.end(0, 0, way);
    }
    world.reads = 0;
    world.run_for(Duration::from_secs(9));
    assert_eq!((world.ports_of(&pod).len(), world.reads), (0, 2), "a request may still be under way");
    world.run_for(Duration::from_secs(2));
    assert_eq!(world.ports_of(&pod).len(), 1);
}

/// A list shows that a port was not given to a Pod, before it is read by itself, and it is given away again while it is read.
#[test]
fn whichever_read_says_that_a_pod_has_not_got_a_port_it_waits_once_for_another() {
    for first in [0, 1] {
        let (mut world, place) = World::simple(|settings| {
            (settings.pool_min, settings.list_interval) = (1, Duration::from_secs(7));
        });
        world.add_pod(&place);
        world.run_for(MINUTE);
        let mut pods = vec![world.add_pod(&place)];
        assert!(world.begin(0), "it is given the port that is ready");
        world.end(0, 0, Way::Lost);
        world.advance(Duration::from_secs(7));
        assert!(world.begin(0), "the list");
        world.end(0, 0, Way::Arrives);
        assert!(world.begin(0), "the port is read");
        pods.push(world.add_pod(&place));
        assert!(world.begin(0), "the port is given away again");
        world.end(0, first, Way::Arrives);
        while world.begin(0) {}
        world.run_for(Duration::from_secs(30));
        let have: Vec<usize> = pods.iter().map(|pod| world.ports_of(pod).len()).collect();
        assert_eq!(have, [1, 1], "{first}");
    }
}

/// The port that a Pod uses vanishes while its second one is being removed, and the removal arrives at any time.
#[test]
fn a_port_whose_removal_may_still_arrive_is_not_reported() {
    for way in [Way::Arrives, Way::AnswerLost, Way::Late] {
        let (mut world, pod, used) = World::with_a_port_being_removed();
        world.neutron.handle(&SimRequest::delete(&format!("/v2.0/ports/{used}")));
        world.advance(Duration::from_secs(5));
        assert!(world.begin(0), "the list");
        world.end(0, 1, Way::Arrives);
        world.end(0, 0, way);
        world.run_for(20 * MINUTE);
        assert_eq!(Some(world.port_of(&pod).id), world.kubernetes.pods[&pod].wish.port, "{way:?}");
    }
}

#[test]
fn killed_at_each_call_nothing_is_left() {
    let calls = life(&[], None).sent.len() as u64 + 10;
    for nth in 1..calls {
        life(&[], Some(nth));
    }
}

#[test]
fn a_stream_that_is_lost_changes_nothing() {
    let (mut world, place) = World::simple(|_| {});
    world.add_pod(&place);
    world.plan().set_live(false);
    world.run_for(60 * MINUTE);
    assert_eq!((world.sent.len(), world.ours().len()), (0, 0));
    world.plan().set_live(true);
    world.run();
    assert_eq!(world.ours().len(), 6);
}
