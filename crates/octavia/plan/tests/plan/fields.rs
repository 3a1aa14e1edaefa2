//! Fields that have a value also where nothing is asked for.

use gimbal_kuryr_model::Algorithm;
use gimbal_octavia_plan::CloudChange;
use gimbal_octavia_sim::SimRequest;
use serde_json::{Value, json};

use crate::executor::World;
use crate::services::{change, made, world};
use crate::wish::Wish;

fn listener(world: &mut World) -> Value {
    world.rows("/v2/lbaas/listeners", "listeners", &[]).remove(0)
}

/// Wants something else, after a restart or without one. Returns the fields of the only change, which is one of the listener.
fn changed(world: &mut World, wish: &mut Wish, restarts: bool, how: impl FnOnce(&mut Wish)) -> Value {
    if restarts {
        world.restart();
    }
    let changes = change(world, wish, how);
    let [CloudChange::UpdateListener { fields, .. }] = &changes[..] else { panic!("{changes:#?}") };
    fields.clone()
}

fn nothing_changes(world: &mut World, wish: &Wish) {
    world.sent.clear();
    world.restart();
    made(wish, world);
    assert_eq!(world.sent, []);
}

#[test]
fn a_limit_that_is_asked_for_no_longer_is_lifted() {
    for restarts in [false, true] {
        let (mut wish, mut world) = world(|wish| wish.connection_limit = Some(100));
        made(&wish, &mut world);
        let fields = changed(&mut world, &mut wish, restarts, |wish| wish.connection_limit = None);
        assert_eq!(fields, json!({"connection_limit": -1}));
        nothing_changes(&mut world, &wish);
    }
}

/// What Octavia is configured for is not known here, so that it fills it in itself.
#[test]
fn a_time_that_is_asked_for_no_longer_is_octavias_again() {
    for restarts in [false, true] {
        let (mut wish, mut world) = world(|_| {});
        made(&wish, &mut world);
        let usual = listener(&mut world);
        changed(&mut world, &mut wish, restarts, |wish| wish.timeout = Some(1_000));
        assert_eq!(listener(&mut world)["timeout_client_data"], json!(1_000));
        nothing_changes(&mut world, &wish);
        let fields = changed(&mut world, &mut wish, restarts, |wish| wish.timeout = None);
        assert_eq!(fields["timeout_client_data"], Value::Null, "{fields}");
        let now = listener(&mut world);
        assert_eq!((&now["timeout_client_data"], &now["tags"]), (&usual["timeout_client_data"], &usual["tags"]));
        nothing_changes(&mut world, &wish);
    }
}

#[test]
fn a_time_that_was_asked_for_from_the_beginning_is_octavias_again_too() {
    for populated in [true, false] {
        let (mut wish, mut world) = world(|wish| wish.timeout = Some(1_000));
        world.cloud.provider_mut().populated = populated;
        made(&wish, &mut world);
        nothing_changes(&mut world, &wish);
        changed(&mut world, &mut wish, true, |wish| wish.timeout = None);
        assert_eq!(listener(&mut world)["timeout_client_data"], json!(50_000));
    }
}

/// Somebody has set it by hand, or an older version of this program because it was asked for.
#[test]
fn a_time_that_nothing_is_known_about_stays_and_is_not_written_for_its_tag() {
    let (mut wish, mut world) = world(|_| {});
    made(&wish, &mut world);
    let path = format!("/v2/lbaas/listeners/{}", listener(&mut world)["id"].as_str().unwrap());
    world.by_hand(&SimRequest::put(&path, json!({"listener": {"timeout_client_data": 7_000}})));
    nothing_changes(&mut world, &wish);
    assert_eq!(change(&mut world, &mut wish, |wish| wish.timeout = Some(7_000)), []);
    nothing_changes(&mut world, &wish);
    // The next change says it.
    changed(&mut world, &mut wish, true, |wish| wish.connection_limit = Some(9));
    let tags = listener(&mut world)["tags"].to_string();
    assert!(tags.contains("gimbal-set:timeout_client_data"), "{tags}");
    changed(&mut world, &mut wish, true, |wish| (wish.timeout, wish.connection_limit) = (None, None));
    assert_eq!(listener(&mut world)["timeout_client_data"], json!(50_000));
}

#[test]
fn an_algorithm_that_is_asked_for_no_longer_is_given_up_whatever_it_was() {
    for algorithm in [Algorithm::LeastConnections, Algorithm::SourceIp, Algorithm::SourceIpPort] {
        let (mut wish, mut world) = world(|wish| wish.algorithm = Some(algorithm));
        made(&wish, &mut world);
        nothing_changes(&mut world, &wish);
        world.restart();
        let changes = change(&mut world, &mut wish, |wish| wish.algorithm = None);
        let [CloudChange::UpdatePool { fields, .. }] = &changes[..] else { panic!("{changes:#?}") };
        assert_eq!(fields["lb_algorithm"], json!("ROUND_ROBIN"));
        nothing_changes(&mut world, &wish);
    }
}

#[test]
fn a_path_that_a_monitor_is_to_ask_for_no_longer_is_octavias_again() {
    let (mut wish, mut world) = world(|wish| {
        (wish.monitor, wish.monitor_http, wish.monitor_path) = (true, true, Some(("/healthz", "200-204")))
    });
    made(&wish, &mut world);
    nothing_changes(&mut world, &wish);
    let changes = change(&mut world, &mut wish, |wish| wish.monitor_path = None);
    let [CloudChange::UpdateMonitor { fields, .. }] = &changes[..] else { panic!("{changes:#?}") };
    assert_eq!(*fields, json!({"url_path": "/", "expected_codes": "200"}));
    nothing_changes(&mut world, &wish);
}

/// The provider knows nothing else.
#[test]
fn an_algorithm_stays_where_the_provider_has_no_other() {
    let (mut wish, mut world) = world(|wish| wish.algorithm = Some(Algorithm::SourceIpPort));
    world.cloud.provider_mut().algorithms = vec!["SOURCE_IP_PORT".into()];
    made(&wish, &mut world);
    world.restart();
    change(&mut world, &mut wish, |wish| wish.algorithm = None);
    nothing_changes(&mut world, &wish);
}
