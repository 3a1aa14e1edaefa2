//! The memory for a large cloud is bounded by its objects. The test has its own process because it measures the whole
//! process.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // A panic is the report.

#[path = "it/common/mod.rs"]
mod common;

use common::{Caller, World};

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Ten times the promised size of a cloud. The texts of IDs belong to the test's world and are not counted.
#[test]
fn twenty_thousand_pools_under_120_mb() {
    let mut world = World::default();
    for p in 0..1_000 {
        world.project(&format!("{p:032x}"), &format!("team {p}"));
    }
    for n in 0..20_000 {
        world.tree(n, &format!("{:032x}", n % 1_000), 5);
    }
    world.seconds += 60;
    let before = resident_bytes();
    let mut caller = Caller::bulk(world);
    let outcome = caller.poll();
    assert_eq!((outcome.changes.len(), caller.member_reads().len()), (20_000, 20_000));
    for _ in 0..3 {
        let outcome = caller.poll();
        assert_eq!((outcome.changes.len(), caller.asked.len()), (0, 3));
    }
    let grown = resident_bytes() - before;
    assert!(grown < 120_000_000, "100,000 members in 20,000 pools take {grown} bytes");
}
