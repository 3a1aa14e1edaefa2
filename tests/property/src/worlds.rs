//! Properties of random worlds: each world is a long history that follows from one seed.

use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::from_env;

/// How often a long run says how far it is.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// The number of failures after which a long run ends.
const FAILURES: usize = 10;
/// The lines of a script that are printed: its end.
const SCRIPT_LINES: usize = 5_000;

thread_local! {
    /// What happens in the world that runs in this thread, if that is recorded.
    static SCRIPT: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// What a world has gone through.
#[derive(Debug, Clone, Copy, Default)]
pub struct WorldCounts {
    /// Steps that were taken.
    pub steps: u64,
    /// Processes that were killed.
    pub kills: u64,
}

impl fmt::Display for WorldCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} steps, {} kills", self.steps, self.kills)
    }
}

/// Adds a line to the script of a world. Only the script of a world that has failed is written, when it is run again.
pub fn note(line: impl FnOnce() -> String) {
    SCRIPT.with_borrow_mut(|script| {
        if let Some(script) = script {
            script.push(line());
        }
    });
}

/// Runs `usual` worlds, with seeds from 0. A world must do the same whenever it gets the same seed.
///
/// `GIMBAL_PROVE` replaces the number, `GIMBAL_PROVE_SECONDS` makes it run for a time, `GIMBAL_PROVE_FIRST` is the first seed,
/// and `GIMBAL_WORLD` the only one.
///
/// # Panics
/// If a world fails. The script of the first one is printed; a long run goes on to find others.
pub fn worlds(property: &str, usual: u64, world: impl Fn(u64) -> WorldCounts) {
    let (one, number) = (from_env::<u64>("GIMBAL_WORLD"), from_env::<u64>("GIMBAL_PROVE"));
    let seconds = from_env("GIMBAL_PROVE_SECONDS").map(Duration::from_secs);
    let first = one.or_else(|| from_env("GIMBAL_PROVE_FIRST")).unwrap_or(0);
    let least = if one.is_some() { 1 } else { number.unwrap_or(usual) };
    let is_long = one.is_none() && (number.is_some() || seconds.is_some());
    let began = Instant::now();
    let (mut told, mut counts, mut failed, mut done) = (began, WorldCounts::default(), Vec::new(), 0);
    let say = |done: u64, counts: WorldCounts, failed: &[u64]| {
        let last = (first + done).saturating_sub(1);
        let failed = if failed.is_empty() { String::new() } else { format!("; failed: {failed:?}") };
        let took = began.elapsed().as_secs_f64();
        println!("{property}: {done} worlds ({first} to {last}), {counts}, {took:.1} s{failed}");
    };
    while done < least || (is_long && seconds.is_some_and(|time| began.elapsed() < time)) {
        let seed = first + done;
        done += 1;
        match catch_unwind(AssertUnwindSafe(|| world(seed))) {
            Ok(WorldCounts { steps, kills }) => {
                (counts.steps, counts.kills) = (counts.steps + steps, counts.kills + kills)
            }
            Err(_) => {
                println!("{property}: world {seed} fails; GIMBAL_WORLD={seed} runs it alone");
                failed.push(seed);
                if failed.len() == 1 {
                    print_script(seed, &world);
                }
            }
        }
        if !failed.is_empty() && (!is_long || failed.len() >= FAILURES) {
            break;
        }
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            say(done, counts, &failed);
        }
    }
    say(done, counts, &failed);
    assert!(failed.is_empty(), "{property}: worlds {failed:?} fail");
}

fn print_script(seed: u64, world: &impl Fn(u64) -> WorldCounts) {
    SCRIPT.set(Some(Vec::new()));
    let again = catch_unwind(AssertUnwindSafe(|| world(seed)));
    let script = SCRIPT.take().unwrap_or_default();
    if again.is_ok() {
        println!("world {seed} does not fail again: it is not the same each time");
    }
    let left_out = script.len().saturating_sub(SCRIPT_LINES);
    println!("script of world {seed}, without its first {left_out} lines:");
    for line in script.iter().skip(left_out) {
        println!("  {line}");
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn every_seed_is_run_once() {
        let seeds = RefCell::new(Vec::new());
        worlds("test", 3, |seed| {
            note(|| "a step that is not recorded".to_owned());
            seeds.borrow_mut().push(seed);
            WorldCounts { steps: 1, kills: 0 }
        });
        assert_eq!(seeds.into_inner(), [0, 1, 2]);
    }

    #[test]
    fn a_world_that_fails_is_run_again_with_its_script() {
        let (runs, notes) = (Cell::new(0), Cell::new(0));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            worlds("test", 9, |seed| {
                runs.set(runs.get() + 1);
                note(|| {
                    notes.set(notes.get() + 1);
                    format!("step of {seed}")
                });
                assert!(seed < 2, "world {seed}");
                WorldCounts::default()
            });
        }));
        assert!(outcome.is_err());
        assert_eq!((runs.get(), notes.get()), (4, 1), "0, 1, 2, and 2 again");
    }
}
