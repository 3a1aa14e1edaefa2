//! Gimbal's binaries in a scene.

use std::path::Path;

use gimbal_testkit::process::free_port;
use gimbal_testkit::{ApiProxy, Pair, Process, TestCluster};

use crate::programs::ready;
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
    /// It does not get ready; the message has the end of its log.
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

    /// As [`Scene::writer_at`], as another user of the Gimbal cluster, whose rights the test grants.
    ///
    /// # Errors
    /// As [`Scene::writer`].
    pub async fn writer_as(&self, user: &str, port: u16, config: &Path, args: &[&str]) -> anyhow::Result<Writer> {
        self.start_writer(self.gimbal.user(user)?.kubeconfig(), port, config, args).await
    }

    /// As [`Scene::writer`], with a proxy in front of the Gimbal cluster's API server.
    ///
    /// # Errors
    /// As [`Scene::writer`].
    pub async fn writer_through(&self, proxy: &ApiProxy, config: &Path, args: &[&str]) -> anyhow::Result<Writer> {
        self.start_writer(proxy.kubeconfig(), free_port()?, config, args).await
    }

    /// As [`Scene::writer`], with a kubeconfig file of the test.
    ///
    /// # Errors
    /// As [`Scene::writer`].
    pub async fn writer_by(&self, kubeconfig: &Path, config: &Path, args: &[&str]) -> anyhow::Result<Writer> {
        self.start_writer(kubeconfig, free_port()?, config, args).await
    }

    /// Starts a discoverer of `cluster` for a backend, over mTLS with that backend's certificate. Does not wait until
    /// it is ready, because the source may be down.
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
        let mut all = self.to_writer(pair, writer_port);
        all.extend(texts(args));
        self.start_discoverer(backend, cluster.user("discoverer")?.kubeconfig(), &all)
    }

    /// Starts a discoverer without a writer.
    ///
    /// # Errors
    /// As [`Scene::discoverer`].
    pub fn dry_run(&self, backend: &str, cluster: &TestCluster, args: &[&str]) -> anyhow::Result<Discoverer> {
        self.start_discoverer(backend, cluster.user("discoverer")?.kubeconfig(), &texts(args))
    }
}

impl Discoverer {
    /// Waits until its source has been read.
    ///
    /// # Errors
    /// It does not get ready; the message has the end of its log.
    pub async fn ready(&self) -> anyhow::Result<()> {
        ready(&self.process, self.admin_port).await
    }

    /// Waits until it serves, whether or not its source answers.
    ///
    /// # Errors
    /// It ends, or does not serve in time; the message has the end of its log.
    pub async fn alive(&mut self) -> anyhow::Result<()> {
        let url = format!("http://127.0.0.1:{}/healthz", self.admin_port);
        self.process.answers(&url, SOON).await.map(drop)
    }
}
