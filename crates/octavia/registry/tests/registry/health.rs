//! What is said of load balancers that serve or not, by a writer that was started a moment ago.

use gimbal_kuryr_model::Phase;
use gimbal_octavia_plan::CloudChange;

use crate::wish::key;
use crate::world::{SECOND, Way, World};

/// How the only load balancer is when its writer is started anew, and what is said of it in each of the next seconds.
fn after_a_restart(world: &mut World, status: &'static str, seconds: u32) -> Vec<Phase> {
    let web = key("shop", "s0");
    let balancer = world.balancers_of("prod1-shop-0").remove(0);
    world.cloud.report_operating(&balancer, status);
    world.run(190 * SECOND);
    world.restart(0);
    let mut said = vec![world.phase("prod1", &web).unwrap()];
    for _ in 0..seconds {
        world.run(SECOND);
        said.extend(world.phase("prod1", &web).filter(|phase| said.last() != Some(phase)));
    }
    said
}

#[test]
fn one_that_is_offline_is_not_ready_for_a_restart() {
    let mut world = World::at_rest(1);
    assert_eq!(after_a_restart(&mut world, "OFFLINE", 300), [Phase::Degraded]);
    let reports = world.report_count;
    assert_eq!(after_a_restart(&mut world, "ONLINE", 5), [Phase::Ready]);
    assert!(world.report_count >= reports + 2, "one that serves is reported at once");
}

/// Octavia has heard nothing of a new one, and that is no reason to say nothing.
#[test]
fn a_new_one_is_ready_at_once() {
    let mut world = World::usual();
    world.cloud.provider_mut().reports_health = false;
    world.want_many("prod1", "shop", 1);
    world.converge(60 * SECOND);
    assert_eq!(world.phase("prod1", &key("shop", "s0")), Some(Phase::Ready));
}

/// Each list shows all of them, whether their rows were read since they became ACTIVE or not.
#[test]
fn a_new_one_that_a_list_shows_first_is_ready_as_soon_as_it_is_read() {
    let mut world = World::usual();
    world.cloud.provider_mut().reports_health = false;
    world.slow_reads = Some(|read| read.path.starts_with("loadbalancers/").then_some(70 * SECOND));
    world.want_many("prod1", "shop", 1);
    world.run(50 * SECOND);
    world.slow_reads = None;
    world.run(50 * SECOND);
    assert_eq!(world.phase("prod1", &key("shop", "s0")), Some(Phase::Ready));
}

/// It is ACTIVE when it is seen first.
#[test]
fn a_new_one_whose_creation_was_not_answered_is_ready_as_soon_as_it_is_found() {
    let mut world = World::usual();
    world.cloud.provider_mut().reports_health = false;
    world.cloud.provider_mut().create_time = SECOND;
    world.way_of = Some(|change| matches!(change, CloudChange::CreateBalancer { .. }).then_some(Way::AnswerLost));
    world.want_many("prod1", "shop", 1);
    world.converge(45 * SECOND);
}

/// The one before it was down.
#[test]
fn one_that_is_made_anew_is_ready_at_once() {
    let mut world = World::at_rest(1);
    world.cloud.provider_mut().reports_health = false;
    assert_eq!(after_a_restart(&mut world, "OFFLINE", 130), [Phase::Degraded]);
    let web = key("shop", "s0");
    world.change("prod1", &web, |wish| wish.address = Some("10.0.0.100".to_owned()));
    world.run(50 * SECOND);
    assert!(world.balancers().iter().any(|row| row["vip_address"] == "10.0.0.100"));
    assert_eq!(world.phase("prod1", &web), Some(Phase::Ready));
}
