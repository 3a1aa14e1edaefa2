//! Our binaries in a scene.

use std::path::Path;

use gimbal_testkit::process::{binary, free_port, wait_url};
use gimbal_testkit::{ApiProxy, Pair, Process, TestCluster};

use crate::{SOON, Scene};

/// A running `gimbal-writer`.
pub struct Writer {
    /// The process.
    pub process: Process,
    /// Port for agents and inspection.
    pub port: u16,
    /// Port for metrics and health.
    pub admin_port: u16,
}

/// A running discoverer.
pub struct Discoverer {
    /// The process.
    pub process: Process,
    /// Port for inspection.
    pub port: u16,
    /// Port for metrics and health.
    pub admin_port: u16,
}

fn texts(args: &[&str]) -> Vec<String> {
    args.iter().map(ToString::to_string).collect()
}

impl Scene {
    /// Starts the writer over mTLS with this configuration file, and waits until it is ready.
    ///
    /// # Errors
    /// It does not get ready, with the end of its log.
    pub async fn writer(&self, config: &Path, args: &[&str]) -> anyhow::Result<Writer> {
        self.writer_at(free_port()?, config, args).await
    }

    /// As [`Scene::writer`], on a given port, so that agents find it again.
    ///
    /// # Errors
    /// As [`Scene::writer`].
    pub async fn writer_at(&self, port: u16, config: &Path, args: &[&str]) -> anyhow::Result<Writer> {
        self.writer_as("writer", port, config, args).await
    }

    /// As [`Scene::writer_at`], as another user of the Gimbal cluster, whose rights are the test's business.
    ///
    /// # Errors
    /// As [`Scene::writer`].
    pub async fn writer_as(&self, user: &str, port: u16, config: &Path, args: &[&str]) -> anyhow::Result<Writer> {
        self.start_writer(self.gimbal.user(user)?.kubeconfig(), port, config, args).await
    }

    /// As [`Scene::writer`], with a proxy before the Gimbal cluster's API server.
    ///
    /// # Errors
    /// As [`Scene::writer`].
    pub async fn writer_through(&self, proxy: &ApiProxy, config: &Path, args: &[&str]) -> anyhow::Result<Writer> {
        self.start_writer(proxy.kubeconfig(), free_port()?, config, args).await
    }

    /// As [`Scene::writer`], with a kubeconfig of the test's own.
    ///
    /// # Errors
    /// As [`Scene::writer`].
    pub async fn writer_by(&self, kubeconfig: &Path, config: &Path, args: &[&str]) -> anyhow::Result<Writer> {
        self.start_writer(kubeconfig, free_port()?, config, args).await
    }

    async fn start_writer(&self, kubeconfig: &Path, port: u16, config: &Path, args: &[&str]) -> anyhow::Result<Writer> {
        let admin_port = free_port()?;
        let all = self.writer_args(kubeconfig, port, admin_port, config, args)?;
        let log = self.path(&format!("writer-{port}-{admin_port}.log"));
        let process = Process::start("gimbal-writer", &binary("gimbal-writer")?, &all, &log)?;
        let writer = Writer { process, port, admin_port };
        ready(&writer.process, admin_port).await?;
        Ok(writer)
    }

    /// The command line of a writer.
    ///
    /// # Errors
    /// Its certificate cannot be written.
    pub fn writer_args(
        &self,
        kubeconfig: &Path,
        port: u16,
        admin_port: u16,
        config: &Path,
        args: &[&str],
    ) -> anyhow::Result<Vec<String>> {
        let pair = self.pki.server("writer")?;
        let mut all = vec![
            "--config".to_owned(),
            config.display().to_string(),
            "--kubeconfig".to_owned(),
            kubeconfig.display().to_string(),
            "--listen".to_owned(),
            format!("127.0.0.1:{port}"),
            "--admin-listen".to_owned(),
            format!("127.0.0.1:{admin_port}"),
        ];
        all.extend(self.tls(&pair));
        all.extend(texts(args));
        Ok(all)
    }

    /// Starts a discoverer of `cluster` for a backend, over mTLS with that backend's certificate. It is not awaited: a
    /// source may be down.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn discoverer(
        &self,
        backend: &str,
        cluster: &TestCluster,
        writer_port: u16,
        args: &[&str],
    ) -> anyhow::Result<Discoverer> {
        let pair = self.pair(backend)?;
        self.discoverer_as(&pair, backend, cluster, writer_port, args)
    }

    /// As [`Scene::discoverer`], with any certificate.
    ///
    /// # Errors
    /// As [`Scene::discoverer`].
    pub fn discoverer_as(
        &self,
        pair: &Pair,
        backend: &str,
        cluster: &TestCluster,
        writer_port: u16,
        args: &[&str],
    ) -> anyhow::Result<Discoverer> {
        let mut all = vec!["--writer".to_owned(), format!("https://localhost:{writer_port}")];
        all.extend(self.tls(pair));
        all.extend(texts(args));
        self.start_discoverer(backend, cluster, all)
    }

    /// Starts a discoverer that has no writer.
    ///
    /// # Errors
    /// As [`Scene::discoverer`].
    pub fn dry_run(&self, backend: &str, cluster: &TestCluster, args: &[&str]) -> anyhow::Result<Discoverer> {
        self.start_discoverer(backend, cluster, texts(args))
    }

    fn start_discoverer(&self, backend: &str, cluster: &TestCluster, args: Vec<String>) -> anyhow::Result<Discoverer> {
        let (port, admin_port) = (free_port()?, free_port()?);
        let kubeconfig = cluster.user("discoverer")?;
        let mut all = vec![
            "--backend-name".to_owned(),
            backend.to_owned(),
            "--kubeconfig".to_owned(),
            kubeconfig.kubeconfig().display().to_string(),
            "--listen".to_owned(),
            format!("127.0.0.1:{port}"),
            "--admin-listen".to_owned(),
            format!("127.0.0.1:{admin_port}"),
        ];
        all.extend(args);
        let log = self.path(&format!("discoverer-{backend}-{port}.log"));
        let name = "gimbal-kubernetes-discoverer";
        let process = Process::start(name, &binary(name)?, &all, &log)?;
        Ok(Discoverer { process, port, admin_port })
    }

    /// A backend's certificate, issued once: a process that was started a moment ago may be reading it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn pair(&self, backend: &str) -> anyhow::Result<Pair> {
        let dir = self.pki.ca().with_file_name("");
        let pair = Pair { cert: dir.join(format!("{backend}.pem")), key: dir.join(format!("{backend}.key")) };
        if pair.cert.exists() { Ok(pair) } else { self.pki.backend(backend) }
    }

    /// The flags for a backend's certificate.
    ///
    /// # Errors
    /// As [`Scene::pair`].
    pub fn tls_of(&self, backend: &str) -> anyhow::Result<Vec<String>> {
        Ok(self.tls(&self.pair(backend)?))
    }

    pub(crate) fn tls(&self, pair: &Pair) -> Vec<String> {
        let text = |path: &Path| path.display().to_string();
        vec![
            "--tls-cert".to_owned(),
            text(&pair.cert),
            "--tls-key".to_owned(),
            text(&pair.key),
            "--tls-ca".to_owned(),
            text(self.pki.ca()),
        ]
    }
}

impl Discoverer {
    /// Waits until its source is read.
    ///
    /// # Errors
    /// It does not get ready, with the end of its log.
    pub async fn ready(&self) -> anyhow::Result<()> {
        ready(&self.process, self.admin_port).await
    }
}

async fn ready(process: &Process, admin_port: u16) -> anyhow::Result<()> {
    let url = format!("http://127.0.0.1:{admin_port}/readyz");
    match wait_url(&url, SOON).await {
        Ok(_) => Ok(()),
        Err(error) => anyhow::bail!("{error:#}\n{}", process.log_tail()),
    }
}
