//! gimbalctl, as an administrator runs it.

use std::process::{Command, Output};

use gimbal_testkit::process::binary;
use serde_json::Value;

use crate::{Programs, Watching};

/// What a command printed.
#[derive(Debug)]
pub struct Printed {
    /// Its exit code; unset: a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub error: String,
}

impl Printed {
    fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), out: text(&output.stdout), error: text(&output.stderr) }
    }

    /// Returns the output as JSON, one value a line.
    ///
    /// # Panics
    /// The command failed, or a line is no JSON.
    #[must_use]
    pub fn json(&self) -> Vec<Value> {
        assert_eq!(self.code, Some(0), "{self:?}");
        let value = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.out.lines().map(value).collect()
    }

    /// Checks that the command was refused with these words.
    ///
    /// # Panics
    /// It was not.
    pub fn expect_refusal(&self, words: &str) {
        assert_eq!(self.code, Some(1), "{self:?}");
        assert!(self.error.contains(words), "{self:?}");
    }
}

/// Runs `gimbalctl` with an administrator's certificate against the program on this port.
///
/// # Errors
/// The certificate cannot be written, or the program is missing.
pub fn gimbalctl(programs: &Programs, port: u16, words: &str) -> anyhow::Result<Printed> {
    let mut command = command(programs, port, words)?;
    // Programs of the test that run as tasks go on meanwhile.
    Ok(Printed::of(&tokio::task::block_in_place(|| command.output())?))
}

/// As [`gimbalctl`], while the rest of the caller's task goes on.
///
/// # Errors
/// As [`gimbalctl`].
pub async fn gimbalctl_beside(programs: &Programs, port: u16, words: &str) -> anyhow::Result<Printed> {
    let mut command = command(programs, port, words)?;
    Ok(Printed::of(&tokio::task::spawn_blocking(move || command.output()).await??))
}

/// Runs a command of `gimbalctl` that prints JSON until it is stopped, as [`gimbalctl`] does.
///
/// # Errors
/// As [`gimbalctl`].
pub fn gimbalctl_watch(programs: &Programs, port: u16, words: &str) -> anyhow::Result<Watching> {
    Watching::start(command(programs, port, words)?)
}

fn command(programs: &Programs, port: u16, words: &str) -> anyhow::Result<Command> {
    let pair = programs.admin()?;
    let mut command = Command::new(binary("gimbalctl")?);
    command
        .arg(format!("--server=https://localhost:{port}"))
        .arg(format!("--tls-cert={}", pair.cert.display()))
        .arg(format!("--tls-key={}", pair.key.display()))
        .arg(format!("--tls-ca={}", programs.pki.ca().display()))
        .args(words.split(' '));
    Ok(command)
}
