//! Child processes: their logs, their ends, and that none of them outlives the test process.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;

mod binary;
mod port;
mod spawn;

pub use binary::binary;
pub use port::free_port;

/// How long a process may take to stop after SIGSTOP.
const FREEZE: Duration = Duration::from_secs(5);
/// Number of a log's lines that are shown when a test fails.
const SHOWN: usize = 60;

/// A running program. Killed when dropped; if a panic drops it, the end of its log is printed.
pub struct Process {
    name: String,
    log: PathBuf,
    child: Child,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Time since the process was asked to end, or since the wait for it began.
    pub after: Duration,
}

impl Process {
    /// Starts `program` with its output appended to `log`.
    ///
    /// # Errors
    /// The program cannot be started, or the log cannot be written.
    pub fn start(name: &str, program: &Path, args: &[String], log: &Path) -> anyhow::Result<Self> {
        Self::start_with(name, program, args, &[], log)
    }

    /// As [`Process::start`], with further environment variables.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub fn start_with(
        name: &str,
        program: &Path,
        args: &[String],
        env: &[(&str, &str)],
        log: &Path,
    ) -> anyhow::Result<Self> {
        let out = std::fs::OpenOptions::new().create(true).append(true).open(log);
        let out = out.with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = spawn::command(program);
        // The log is a file, so it gets no colours.
        command.env("NO_COLOR", "1");
        command.args(args).envs(env.iter().copied()).stdin(Stdio::null());
        command.stdout(out.try_clone()?).stderr(out);
        let child = spawn::spawn(command).with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { name: name.to_owned(), log: log.to_owned(), child })
    }

    /// Returns the process ID.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the whole log.
    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Returns the last lines of the log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(SHOWN)..].join("\n")
    }

    /// Returns how the process ended, or `None` while it runs.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn exited(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.child.try_wait().with_context(|| format!("cannot ask after {}", self.name))
    }

    /// Waits until `url`, which the process serves, answers 200, and returns the body.
    ///
    /// # Errors
    /// It does not within `timeout`, or the process ends before; the message has the end of its log.
    pub async fn answers(&mut self, url: &str, timeout: Duration) -> anyhow::Result<String> {
        let client = reqwest::Client::builder().no_proxy().build()?;
        let what = format!("{} answers at {url}", self.name);
        let answer = crate::eventually(&what, timeout, async || {
            if let Some(status) = self.exited()? {
                return Ok(Err(anyhow::anyhow!("{} ended with {status}", self.name)));
            }
            anyhow::Ok(Ok(client.get(url).send().await?.error_for_status()?.text().await?))
        });
        let answer = answer.await.and_then(|answer| answer);
        answer.map_err(|error| anyhow::anyhow!("{error:#}; the end of its log:\n{}", self.log_tail()))
    }

    /// Sends a signal by name, for instance `STOP`.
    ///
    /// # Errors
    /// The process has ended.
    pub fn signal(&self, name: &str) -> anyhow::Result<()> {
        let status = Command::new("kill").args(["-s", name, &self.id().to_string()]).stderr(Stdio::null()).status();
        anyhow::ensure!(status.context("cannot run kill")?.success(), "cannot send {name} to {}", self.name);
        Ok(())
    }

    /// Stops the process (SIGSTOP) and returns when all of its threads have stopped; otherwise an answer on its way
    /// would still leave.
    ///
    /// # Errors
    /// It does not run any more, or does not stop in time.
    pub fn freeze(&self) -> anyhow::Result<()> {
        self.signal("STOP")?;
        let deadline = Instant::now() + FREEZE;
        while !self.stands_still()? {
            anyhow::ensure!(Instant::now() < deadline, "{} does not stop", self.name);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn stands_still(&self) -> anyhow::Result<bool> {
        let tasks = format!("/proc/{}/task", self.child.id());
        for task in std::fs::read_dir(&tasks).with_context(|| format!("{} runs no more", self.name))? {
            // A thread may end while its state is read.
            let Ok(stat) = std::fs::read_to_string(task?.path().join("stat")) else { continue };
            let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
            if state != Some('T') {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sends SIGTERM and waits for the end.
    ///
    /// # Errors
    /// The process does not end within `timeout`.
    pub async fn terminate(&mut self, timeout: Duration) -> anyhow::Result<Exit> {
        if self.exited()?.is_none() {
            self.signal("TERM")?;
        }
        self.wait_exit(timeout).await
    }

    /// Kills the process (SIGKILL).
    ///
    /// # Errors
    /// The operating system's error.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().with_context(|| format!("cannot kill {}", self.name))?;
        self.child.wait().with_context(|| format!("cannot wait for {}", self.name))?;
        Ok(())
    }

    /// Waits until the process ends by itself.
    ///
    /// # Errors
    /// It does not within `timeout`.
    pub async fn wait_exit(&mut self, timeout: Duration) -> anyhow::Result<Exit> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.exited()? {
                return Ok(Exit { code: status.code(), after: start.elapsed() });
            }
            anyhow::ensure!(start.elapsed() < timeout, "{} has not ended within {timeout:?}", self.name);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- end of {}'s log ({}):\n{}\n---", self.name, self.log.display(), self.log_tail());
        }
        // Both fail only if the process has ended already; then there is nothing left to do.
        self.kill().ok();
    }
}

/// Waits until `url` answers 200, and returns the body.
///
/// # Errors
/// It does not within `timeout`.
pub async fn wait_url(url: &str, timeout: Duration) -> anyhow::Result<String> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    crate::eventually(url, timeout, async || {
        let answer = client.get(url).send().await?.error_for_status()?;
        anyhow::Ok(answer.text().await?)
    })
    .await
}
