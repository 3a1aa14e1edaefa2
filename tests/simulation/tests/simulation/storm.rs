//! Partitions, restarts, slow servers: every random seed ends in the same state, and one seed always gives the same
//! run.

use gimbal_simulation::{Plan, Report, Trouble, run};

/// How many backends one storm has.
const MANY: u16 = 250;

fn run_well(plan: &Plan) -> Report {
    run(plan).unwrap_or_else(|fault| panic!("seed {} with {} backends: {fault}", plan.seed, plan.backends))
}

#[test]
fn any_seed_ends_in_the_same_state() {
    let reports: Vec<Report> = (1..=6).map(|seed| run_well(&Plan::new(seed, 40))).collect();
    for report in &reports {
        assert_eq!(report.content, reports[0].content);
        assert!(report.leaders > 2 && report.failed_writes > 0, "that was no storm: {report:?}");
    }
    // In a single storm the guard may have nothing to hold, but not in most of them.
    assert!(reports.iter().filter(|report| report.holds > 0).count() > 3, "the guard hardly ever held anything");
    assert!(reports.iter().map(|report| report.restorations).sum::<u64>() > 6, "the store was hardly ever put back");
    assert!(reports.iter().any(|report| report.trace != reports[0].trace), "every seed is the same storm");
}

#[test]
fn one_seed_ends_in_the_same_way() {
    let plan = Plan::new(11, 40);
    assert_eq!(run_well(&plan), run_well(&plan));
}

#[test]
fn many_backends_end_as_their_sources_are() {
    let mut plan = Plan::new(1, MANY.into());
    // The storms above include restorations; here each one would write all backends again.
    plan.troubles.retain(|trouble| *trouble != Trouble::Restoration);
    let report = run_well(&plan);
    assert!(report.lives > MANY.into() && report.changes > u64::from(MANY) * 4, "{report:?}");
}
