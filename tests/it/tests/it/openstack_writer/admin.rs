//! An administrator at the command line.

use std::process::Command;

use gimbal_testkit::eventually;
use gimbal_testkit::process::binary;
use gimbal_tests::SOON;
use serde_json::Value;

use super::stage::Stage;

/// What a command printed.
#[derive(Debug)]
pub struct Printed {
    pub code: Option<i32>,
    pub out: String,
    pub error: String,
}

impl Printed {
    /// Returns the output as JSON, one value a line.
    pub fn json(&self) -> Vec<Value> {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Checks that the command was refused with these words.
    pub fn expect_refusal(&self, words: &str) {
        assert_eq!(self.code, Some(1), "{self:?}");
        assert!(self.error.contains(words), "{self:?}");
    }
}

/// Runs `gimbalctl lb` as an administrator.
pub fn lb(stage: &Stage, words: &str) -> Printed {
    let pair = stage.programs.admin().unwrap();
    let mut command = Command::new(binary("gimbalctl").unwrap());
    command
        .arg(format!("--server=https://localhost:{}", stage.writer().port))
        .arg(format!("--tls-cert={}", pair.cert.display()))
        .arg(format!("--tls-key={}", pair.key.display()))
        .arg(format!("--tls-ca={}", stage.programs.pki.ca().display()))
        .arg("lb")
        .args(words.split(' '));
    // The controller of the test goes on meanwhile.
    let output = tokio::task::block_in_place(|| command.output()).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Printed { code: output.status.code(), out: text(&output.stdout), error: text(&output.stderr) }
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
