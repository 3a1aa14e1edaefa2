//! The writer and the discoverer of the demo.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use gimbal_testkit::Process;
use gimbal_testkit::process::free_port;
use gimbal_tests::{Discoverer, Grpcurl, Printed, Programs, Writer, gimbalctl};

use crate::BACKEND;

/// How long a process may take to end when it is asked to.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// Both processes, each of which may end and start again.
pub struct Processes {
    pub programs: Programs,
    config: PathBuf,
    /// The same after a restart, so that the discoverer finds the writer again.
    pub writer_port: u16,
    writer: Option<Writer>,
    discoverer: Option<Discoverer>,
}

impl Processes {
    /// Prepares both, with this policy for the backend.
    pub fn new(policy: &str) -> anyhow::Result<Self> {
        let programs = Programs::new(None)?;
        let config = programs.config(&[BACKEND], policy)?;
        Ok(Self { programs, config, writer_port: free_port()?, writer: None, discoverer: None })
    }

    pub async fn start_writer(&mut self, kubeconfig: &Path, args: &[&str]) -> anyhow::Result<()> {
        self.writer = Some(self.programs.start_writer(kubeconfig, self.writer_port, &self.config, args).await?);
        Ok(())
    }

    /// Keeps a discoverer that was just started, and waits until it serves.
    pub async fn started(&mut self, mut discoverer: Discoverer) -> anyhow::Result<()> {
        discoverer.alive().await?;
        self.discoverer = Some(discoverer);
        Ok(())
    }

    /// Asks the writer to end, as an operator would, and waits for it.
    pub async fn end_writer(&mut self) -> anyhow::Result<()> {
        let mut writer = self.writer.take().context("the writer does not run")?;
        end("writer", &mut writer.process).await
    }

    /// Asks the discoverer to end, and waits for it.
    pub async fn end_discoverer(&mut self) -> anyhow::Result<()> {
        let mut discoverer = self.discoverer.take().context("the discoverer does not run")?;
        end("discoverer", &mut discoverer.process).await
    }

    /// Kills the writer.
    pub fn kill_writer(&mut self) -> anyhow::Result<()> {
        self.writer.take().context("the writer does not run")?.process.kill()
    }

    /// Kills the discoverer.
    pub fn kill_discoverer(&mut self) -> anyhow::Result<()> {
        self.discoverer.take().context("the discoverer does not run")?.process.kill()
    }

    /// Kills what runs.
    pub fn stop(&mut self) {
        self.discoverer = None;
        self.writer = None;
    }

    /// Returns a client that asks the writer as an admin.
    pub fn ask_writer(&self) -> anyhow::Result<Grpcurl> {
        self.programs.ask(self.writer.as_ref().context("the writer does not run")?)
    }

    /// Runs `gimbalctl` as an admin, with the writer as its server.
    pub fn gimbalctl(&self, words: &str) -> anyhow::Result<Printed> {
        gimbalctl(&self.programs, self.writer_port, words)
    }

    /// Returns the address of the writer's status page.
    pub fn status_page(&self) -> anyhow::Result<String> {
        let writer = self.writer.as_ref().context("the writer does not run")?;
        Ok(format!("http://127.0.0.1:{}/status", writer.admin_port))
    }

    /// Returns the discoverer.
    pub fn discoverer(&self) -> anyhow::Result<&Discoverer> {
        self.discoverer.as_ref().context("the discoverer does not run")
    }

    /// Returns the ends of the logs, to find the cause of a failure.
    pub fn logs(&self) -> String {
        let writer = self.writer.as_ref().map(|writer| &writer.process);
        let discoverer = self.discoverer.as_ref().map(|discoverer| &discoverer.process);
        let tails = [("writer", writer), ("discoverer", discoverer)].into_iter().filter_map(|(name, process)| {
            process.map(|process| format!("--- the end of the {name}'s log:\n{}\n", process.log_tail()))
        });
        format!("{}---\nthe demo failed", tails.collect::<String>())
    }
}

async fn end(name: &str, process: &mut Process) -> anyhow::Result<()> {
    let exit = process.terminate(ENDS_WITHIN).await?;
    anyhow::ensure!(exit.code == Some(0), "the {name} ends with {:?}:\n{}", exit.code, process.log_tail());
    Ok(())
}
