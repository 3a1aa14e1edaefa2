//! Lanes for the services of a cloud: what limits one of them does not limit another.

use std::time::{Duration, Instant};

use gimbal_schedule::{Lanes, LimiterSettings, Room, WaitReason, WriteResult, WriteSample};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Service {
    Octavia,
    Neutron,
}

fn lanes(qps: u32) -> Lanes<Service> {
    let latency_target = Duration::from_secs(1);
    Lanes::new(LimiterSettings { concurrency: 4, latency_target, qps, fanout: 0, watchers: 0 })
}

#[test]
fn each_service_has_its_own_concurrency() {
    let (mut lanes, now) = (lanes(0), Instant::now());
    lanes.lane(&Service::Octavia).start(4);
    assert_eq!(lanes.lane(&Service::Octavia).room(false, None, now), Err(WaitReason::Concurrency));
    assert_eq!(lanes.lane(&Service::Neutron).room(false, None, now), Ok(Room::Anybody(4)));
    lanes.lane(&Service::Octavia).done(4);
    let refused = WriteSample { sent: now, took: Duration::ZERO, result: WriteResult::Throttled };
    lanes.lane(&Service::Octavia).answered(&refused);
    assert_eq!(lanes.lane(&Service::Octavia).room(false, None, now), Ok(Room::Anybody(2)));
    assert_eq!(lanes.lane(&Service::Neutron).room(false, None, now), Ok(Room::Anybody(4)));
}

#[test]
fn each_service_has_its_own_rate() {
    let (mut lanes, now) = (lanes(4), Instant::now());
    let octavia = lanes.lane(&Service::Octavia);
    assert_eq!(octavia.room(false, None, now), Ok(Room::Anybody(4)));
    assert_eq!(octavia.pay(&["create", "create"], |_| 0), 1);
    assert_eq!(octavia.room(false, None, now), Err(WaitReason::Qps));
    assert_eq!(octavia.set_waiting(Some(WaitReason::Qps), now), None);
    assert_eq!(lanes.lane(&Service::Neutron).room(false, None, now), Ok(Room::Anybody(4)));
    let wake_at = lanes.wake_at(None, now).unwrap();
    assert_eq!(wake_at, now + Duration::from_millis(250));
    let octavia = lanes.lane(&Service::Octavia);
    assert_eq!(octavia.room(false, None, wake_at), Ok(Room::Anybody(4)));
    assert_eq!(octavia.set_waiting(None, wake_at), Some((WaitReason::Qps, Duration::from_millis(250))));
}

#[test]
fn single_writes_alternate_with_jobs() {
    let (mut lanes, now) = (lanes(0), Instant::now());
    let neutron = lanes.lane(&Service::Neutron);
    assert!(neutron.start_single(false, None, now));
    assert!(!neutron.start_single(false, None, now), "a job goes first, if one waits");
    neutron.pay(&["update"], |_| 0);
    assert!(neutron.start_single(false, None, now));
    neutron.idle();
    assert!(neutron.start_single(false, None, now), "no job waits");
    assert!(!neutron.start_single(false, Some(now + Duration::from_secs(1)), now), "the server asked for a pause");
}
