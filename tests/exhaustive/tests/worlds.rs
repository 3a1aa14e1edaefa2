//! Checks small worlds state by state. A test run visits the ordinary order with a change or a trouble at any moment;
//! more is visited if `GIMBAL_PROVE` is set (`cargo xtask prove worlds`). `GIMBAL_WORLD` selects one world;
//! `GIMBAL_DETOURS` and `GIMBAL_STATES` set other bounds.
#![allow(clippy::unwrap_used)] // A panic is the report.

mod table;

use std::time::Instant;

use gimbal_exhaustive::{Bounds, explore};

/// Bounds of the test run: the ordinary order, with a change or a trouble at any moment.
const SHORT: Bounds = Bounds { detours: Some(0), states: Some(1_000) };

/// Bounds if `GIMBAL_PROVE` is set; they fit a machine with a few gigabytes.
const WHOLE: Bounds = Bounds { detours: Some(1), states: Some(200_000) };

fn bounds() -> Bounds {
    let number = |name| std::env::var(name).ok().map(|number| number.parse().unwrap());
    let usual = if std::env::var_os("GIMBAL_PROVE").is_none() { SHORT } else { WHOLE };
    Bounds { detours: number("GIMBAL_DETOURS").or(usual.detours), states: number("GIMBAL_STATES").or(usual.states) }
}

#[test]
fn no_path_breaks_a_rule() {
    let (bounds, only) = (bounds(), std::env::var("GIMBAL_WORLD").ok());
    let mut broken = 0;
    for setup in table::worlds().into_iter().filter(|setup| only.as_ref().is_none_or(|only| setup.name == only)) {
        let (name, begun) = (setup.name, Instant::now());
        let seen = explore(setup, bounds).unwrap_or_else(|fault| panic!("{name}, at its beginning: {fault}"));
        let (size, took) = (if seen.cut_short { "the first" } else { "all" }, begun.elapsed().as_secs_f64());
        println!(
            "{name}: {size} {} states, {} steps, {} ends, all with {} detours, {took:.1} s; {:?}",
            seen.states, seen.steps, seen.ends, seen.detours, seen.states_by_trouble
        );
        for ((rule, trouble), path) in &seen.broken {
            println!("{name}, {trouble}, {rule:?}: {path}");
            broken += 1;
        }
    }
    assert_eq!(broken, 0, "paths that break a rule; they are printed above");
}
