//! A cloud, the Gimbal cluster, and our processes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use gimbal_kubernetes_objects::keys;
use gimbal_testkit::assets::Asset;
use gimbal_testkit::openstack::{OpenStack, PROJECTS, User};
use gimbal_testkit::process::free_port;
use gimbal_testkit::{Pki, Process, Rule, TestCluster, pki};

use crate::build;
use crate::demo::BACKEND;
use crate::demo::sight::Sight;

const STARTS_WITHIN: Duration = Duration::from_secs(30);
const PROGRAMS: [&str; 2] = ["gimbal-writer", "gimbal-openstack-discoverer"];

pub struct Stage {
    pub cloud: OpenStack,
    pub gimbal: TestCluster,
    pub sight: Sight,
    programs: [PathBuf; 2],
    grpcurl: PathBuf,
    pki: Pki,
    ports: [u16; 4],
    processes: Vec<Process>,
    dir: tempfile::TempDir,
}

impl Stage {
    pub async fn build() -> anyhow::Result<Self> {
        let programs = tokio::task::block_in_place(|| build::programs(PROGRAMS))?;
        let grpcurl = tokio::task::spawn_blocking(|| Asset::Grpcurl.path()).await??;
        let (cloud, gimbal) = tokio::try_join!(OpenStack::start(), TestCluster::start())?;
        for project in PROJECTS {
            gimbal.namespace(project).await?;
        }
        let write = [
            Rule::read("", &["namespaces"]),
            Rule::write("", &["services", "endpoints", "configmaps"]),
            Rule::write("discovery.k8s.io", &["endpointslices"]),
            Rule::write("coordination.k8s.io", &["leases"]),
        ];
        gimbal.grant(&gimbal.user("writer")?, &write).await?;
        let dir = tempfile::Builder::new().prefix("gimbal-demo-").tempdir().context("no temporary folder")?;
        let pki = Pki::create(dir.path().join("pki"))?;
        let ports = [free_port()?, free_port()?, free_port()?, free_port()?];
        let sight = Sight::open(&gimbal.client()?);
        cloud.credentials(User::Admin).write_secret(&dir.path().join("credentials"))?;
        let identity = pki::backend_identity(BACKEND);
        let config = format!("backends:\n- name: {BACKEND}\n  identity: {identity}\n");
        std::fs::write(dir.path().join("writer.yaml"), config).context("cannot write the configuration")?;
        Ok(Self { cloud, gimbal, sight, programs, grpcurl, pki, ports, processes: Vec::new(), dir })
    }

    pub async fn start_writer(&mut self) -> anyhow::Result<()> {
        let [port, admin, ..] = self.ports;
        let pair = self.pki.server("writer")?;
        let mut args = vec![
            format!("--config={}", self.dir.path().join("writer.yaml").display()),
            format!("--kubeconfig={}", self.gimbal.user("writer")?.kubeconfig().display()),
            format!("--listen=127.0.0.1:{port}"),
            format!("--admin-listen=127.0.0.1:{admin}"),
        ];
        args.extend(self.tls(&pair.cert, &pair.key));
        self.start("writer", 0, &args, admin).await
    }

    pub async fn start_discoverer(&mut self) -> anyhow::Result<()> {
        let [writer, _, port, admin] = self.ports;
        let pair = self.pki.backend(BACKEND)?;
        let mut args = vec![
            format!("--backend-name={BACKEND}"),
            format!("--credentials={}", self.dir.path().join("credentials").display()),
            format!("--writer=https://localhost:{writer}"),
            format!("--listen=127.0.0.1:{port}"),
            format!("--admin-listen=127.0.0.1:{admin}"),
        ];
        args.extend(["--poll-interval=1s", "--sweep=5s", "--projects-interval=1s"].map(str::to_owned));
        args.extend(self.tls(&pair.cert, &pair.key));
        self.start("discoverer", 1, &args, admin).await
    }

    async fn start(&mut self, name: &str, program: usize, args: &[String], admin: u16) -> anyhow::Result<()> {
        let log = self.dir.path().join(format!("{name}.log"));
        let mut process = Process::start(name, &self.programs[program], args, &log)?;
        process.answers(&format!("http://127.0.0.1:{admin}/healthz"), STARTS_WITHIN).await?;
        self.processes.push(process);
        Ok(())
    }

    /// Ends the process that was started last: the discoverer.
    pub async fn end_discoverer(&mut self) -> anyhow::Result<()> {
        let mut discoverer = self.processes.pop().context("the discoverer does not run")?;
        let exit = discoverer.terminate(STARTS_WITHIN).await?;
        anyhow::ensure!(exit.code == Some(0), "the discoverer ends with {:?}", exit.code);
        Ok(())
    }

    fn tls(&self, cert: &Path, key: &Path) -> [String; 3] {
        [("cert", cert), ("key", key), ("ca", self.pki.ca())]
            .map(|(name, file)| format!("--tls-{name}={}", file.display()))
    }

    /// The ends of the logs, for whoever has to find out what went wrong.
    pub fn logs(&self) -> String {
        let tails = self.processes.iter().map(|process| format!("---\n{}\n", process.log_tail()));
        format!("{}---\nthe demo failed", tails.collect::<String>())
    }

    /// Lines to look further with.
    pub fn hints(&self) -> [(&'static str, String); 3] {
        let [.., port, admin] = self.ports;
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
