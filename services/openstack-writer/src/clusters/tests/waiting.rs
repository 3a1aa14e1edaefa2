//! How long entries wait for what they want.

use super::*;

#[test]
fn an_entry_waits_from_its_first_wish_that_was_not_met() {
    let report = |generation| LoadBalancerReport {
        owner: "u1".into(),
        generation,
        phase: gimbal_kuryr_model::Phase::Ready,
        conditions: Vec::new(),
        refused_ports: Vec::new(),
        objects: gimbal_kuryr_model::ReportedObjects::default(),
        last_error: None,
        missing: None,
    };
    let wanted = |generation, known| {
        let DesiredEntry::LoadBalancer(mut wanted) = present("u1", "services") else { panic!("present") };
        (wanted.generation, Arc::make_mut(&mut wanted.header).known) = (generation, known);
        wanted
    };
    let (mut waiting, start, web) = (WaitingEntries::default(), Instant::now(), key("a", "web"));
    waiting.wanted(&web, &wanted(1, false), None, start);
    waiting.wanted(&web, &wanted(2, false), None, start + 5 * SECOND);
    assert_eq!(waiting.by_age(start + 90 * SECOND), [0, 1, 0, 0]);
    waiting.reported(&web, 2, &report(1));
    assert_eq!(waiting.by_age(start + 90 * SECOND), [0, 1, 0, 0], "not as it is wanted now");
    waiting.reported(&web, 2, &report(2));
    waiting.wanted(&web, &wanted(2, true), Some(&PackedReport::keep(report(2))), start + 10 * SECOND);
    assert_eq!(waiting.by_age(start + 10 * SECOND), [0; 4]);
    waiting.wanted(&web, &wanted(3, true), Some(&PackedReport::keep(report(2))), start + 20 * SECOND);
    assert_eq!(waiting.by_age(start + 20 * SECOND), [1, 0, 0, 0]);
    waiting.reported(&web, 3, &report(3));
    assert_eq!(waiting.by_age(start + 21 * SECOND), [0; 4]);
}
