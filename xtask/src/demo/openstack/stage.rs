//! A cloud, the Gimbal cluster, and Gimbal's processes.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use gimbal_kubernetes_objects::keys;
use gimbal_testkit::TestCluster;
use gimbal_testkit::assets::Asset;
use gimbal_testkit::openstack::{OpenStack, PROJECTS, User};
use gimbal_testkit::process::free_port;
use gimbal_tests::{Discoverer, Programs, Writer, writer_rights};

use crate::build;
use crate::demo::BACKEND;
use crate::demo::sight::Sight;

const ENDS_WITHIN: Duration = Duration::from_secs(30);
const OFTEN: [&str; 3] = ["--poll-interval=1s", "--sweep=5s", "--projects-interval=1s"];

pub struct Stage {
    pub cloud: OpenStack,
    pub gimbal: TestCluster,
    pub sight: Sight,
    programs: Programs,
    config: PathBuf,
    grpcurl: PathBuf,
    writer_port: u16,
    writer: Option<Writer>,
    discoverer: Option<Discoverer>,
}

impl Stage {
    pub async fn build() -> anyhow::Result<Self> {
        let names = ["gimbal-writer", "gimbal-openstack-discoverer"];
        let servers = [Asset::Grpcurl, Asset::Etcd, Asset::ApiServer];
        let bin_dir = tokio::task::block_in_place(|| build::all(&names, &servers))?;
        let (cloud, gimbal) = tokio::try_join!(OpenStack::start(), TestCluster::start())?;
        for project in PROJECTS {
            gimbal.namespace(project).await?;
        }
        gimbal.bind(&gimbal.user("writer")?, &writer_rights()?).await?;
        let programs = Programs::new(Some(bin_dir))?;
        cloud.credentials(User::Admin).write_secret(&programs.path("credentials"))?;
        Ok(Self {
            sight: Sight::open(&gimbal.client()?),
            cloud,
            gimbal,
            config: programs.config(&[BACKEND], "")?,
            grpcurl: tokio::task::spawn_blocking(|| Asset::Grpcurl.path()).await??,
            writer_port: free_port()?,
            writer: None,
            discoverer: None,
            programs,
        })
    }

    pub async fn start_writer(&mut self) -> anyhow::Result<()> {
        let user = self.gimbal.user("writer")?;
        let writer = self.programs.start_writer(user.kubeconfig(), self.writer_port, &self.config, &[]).await?;
        self.writer = Some(writer);
        Ok(())
    }

    pub async fn start_discoverer(&mut self) -> anyhow::Result<()> {
        let credentials = self.programs.path("credentials");
        let mut discoverer = self.programs.openstack_discoverer(BACKEND, &credentials, self.writer_port, &OFTEN)?;
        discoverer.alive().await?;
        self.discoverer = Some(discoverer);
        Ok(())
    }

    pub async fn end_discoverer(&mut self) -> anyhow::Result<()> {
        let mut discoverer = self.discoverer.take().context("the discoverer does not run")?;
        let exit = discoverer.process.terminate(ENDS_WITHIN).await?;
        anyhow::ensure!(exit.code == Some(0), "the discoverer ends with {:?}", exit.code);
        Ok(())
    }

    /// Returns the ends of the logs, to find the cause of a failure.
    pub fn logs(&self) -> String {
        let writer = self.writer.as_ref().map(|writer| writer.process.log_tail());
        let discoverer = self.discoverer.as_ref().map(|discoverer| discoverer.process.log_tail());
        let tails = writer.into_iter().chain(discoverer).map(|tail| format!("---\n{tail}\n"));
        format!("{}---\nthe demo failed", tails.collect::<String>())
    }

    /// Returns commands for further exploration.
    pub fn hints(&self) -> [(&'static str, String); 3] {
        let (port, admin) =
            self.discoverer.as_ref().map(|discoverer| (discoverer.port, discoverer.admin_port)).unwrap_or_default();
        let grpcurl = self.grpcurl.display();
        [
            (
                "what is in the Gimbal cluster",
                format!(
                    "kubectl --kubeconfig {} get services,endpointslices -A -l {}={BACKEND}",
                    self.gimbal.kubeconfig().display(),
                    keys::BACKEND
                ),
            ),
            (
                "what the discoverer knows",
                format!("{grpcurl} -plaintext 127.0.0.1:{port} gimbal.discovery.v1.InspectionService/ListServices"),
            ),
            ("what polls cost", format!("curl -s http://127.0.0.1:{admin}/metrics | grep -E 'cloud_calls|poll_'")),
        ]
    }
}
