//! An administrator at the command line.

use gimbal_testkit::eventually;
use gimbal_tests::{Printed, SOON, gimbalctl};

use super::stage::Stage;

/// Runs `gimbalctl lb` as an administrator.
pub fn lb(stage: &Stage, words: &str) -> Printed {
    gimbalctl(&stage.programs, stage.writer().port, &format!("lb {words}")).unwrap()
}

/// Waits until a command succeeds.
pub async fn eventually_lb(stage: &Stage, words: &str) -> Printed {
    let wait = eventually(words, SOON, async || {
        let printed = lb(stage, words);
        if printed.code == Some(0) { Ok(printed) } else { Err(format!("{printed:?}")) }
    });
    wait.await.unwrap()
}

/// Gives one cluster more keys in the configuration, in place of those before.
pub fn configure_one(stage: &Stage, cluster: &str, more: &str) {
    stage.configure("");
    let text = std::fs::read_to_string(&stage.config).unwrap();
    let head = format!("- name: {cluster}\n");
    assert!(text.contains(&head), "{text}");
    std::fs::write(&stage.config, text.replace(&head, &format!("{head}  {more}\n"))).unwrap();
}
