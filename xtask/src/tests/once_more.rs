//! Tests on real servers that failed beside others, once more on a machine that is quiet by then.
//!
//! Two cores carry several API servers and an OpenStack at once, and a test may run into its deadline for that alone. What
//! passes by itself does not fail the run, and is named at its end, because it may also be a race that was lost.

use super::Program;

/// If more tests than this failed, none is run again: then it is not the load.
const MOST: usize = 10;

/// Returns the names of the tests that failed, from what their program wrote.
pub(super) fn failed_tests(said: &str) -> Vec<String> {
    let Some((_, last)) = said.rsplit_once("\nfailures:\n") else { return Vec::new() };
    last.lines().map_while(|line| line.strip_prefix("    ")).map(str::to_owned).collect()
}

/// Runs these tests one after the other. `fails` gets the name of each program whose tests fail again.
pub(super) fn run(tests: &[(&Program, &str)], passes: impl Fn(&Program, &str) -> bool, fails: impl Fn(&str)) {
    let is_load = tests.len() <= MOST;
    let (passed, failed): (Vec<_>, Vec<_>) = tests.iter().partition(|(program, test)| is_load && passes(program, test));
    for (program, _) in failed {
        fails(&program.name);
    }
    for (program, test) in passed {
        eprintln!(
            "UNSTEADY: {test} of {} failed beside others and passed alone; its first output is above",
            program.name
        );
    }
}

#[cfg(test)]
mod of_tests {
    use std::cell::RefCell;

    use super::*;

    const SAID: &str = "\nrunning 3 tests\ntest a::one ... FAILED\n\nfailures:\n\n---- a::one stdout ----\n\n    not a name\n\n\n\
                        failures:\n    a::one\n    a::two\n\ntest result: FAILED. 1 passed; 2 failed\n";

    #[test]
    fn the_names_are_those_of_the_last_list() {
        assert_eq!(failed_tests(SAID), ["a::one", "a::two"]);
        assert!(failed_tests("\nrunning 0 tests\n").is_empty(), "it died before it could say");
    }

    fn failed(tests: &[&str], pass: &[&str]) -> Vec<String> {
        let program = Program { name: "it".to_owned(), path: "it".into(), dir: "it".into() };
        let tests: Vec<_> = tests.iter().map(|test| (&program, *test)).collect();
        let failed = RefCell::new(Vec::new());
        run(&tests, |_, test| pass.contains(&test), |name| failed.borrow_mut().push(name.to_owned()));
        failed.into_inner()
    }

    #[test]
    fn what_fails_twice_fails_the_run() {
        assert!(failed(&["a", "b"], &["a", "b"]).is_empty());
        assert_eq!(failed(&["a", "b"], &["a"]), ["it"]);
    }

    #[test]
    fn many_failures_are_not_the_load() {
        assert_eq!(failed(&["a"; 11], &["a"]).len(), 11);
    }
}
