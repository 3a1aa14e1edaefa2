//! A Kubernetes API server and its etcd, without nodes and controllers: it contains only what a test creates.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;

use crate::{Pki, Process};

mod api;
mod audit;
mod controllers;
mod crds;
mod empty;
mod etcd;
mod nodes;
mod pool;
mod rights;
mod start;
mod users;

pub use api::{Api, Method, Refused, USER_AGENT};
pub use audit::AuditEntry;
pub use etcd::{BUMP, Backup, Snapshot};
pub use nodes::{Network, NodeCluster, Registry, Site};
pub use pool::PooledCluster;
pub use rights::Rights;
pub use users::{Rule, UserAccess};

/// A cluster of one test. Its servers and data are removed when it is dropped.
pub struct TestCluster {
    servers: Mutex<Servers>,
    layout: start::Layout,
    admin: Api,
    /// Whether a server was stopped or changed, so that the cluster is not as a new one, even if it is emptied.
    changed: AtomicBool,
    /// Where the audit of the present test begins in the log.
    audit_from: AtomicU64,
    // Dropped last: the servers still write to it.
    dir: tempfile::TempDir,
}

struct Servers {
    apiserver: Option<Process>,
    etcd: Process,
}

impl TestCluster {
    /// Starts a cluster and waits until it is ready.
    ///
    /// # Errors
    /// A server is missing and cannot be built, or does not get ready; the message has the end of its log.
    pub async fn start() -> anyhow::Result<Self> {
        let tools = tokio::task::spawn_blocking(start::Tools::find).await??;
        // Another process may take a free port before the server binds it.
        let mut last = None;
        for _ in 0..3 {
            match Self::try_start(&tools, &start::Place::Loopback).await {
                Ok(cluster) => return Ok(cluster),
                Err(error) => last = Some(error),
            }
        }
        Err(last.context("not tried")?)
    }

    async fn try_start(tools: &start::Tools, place: &start::Place) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("gimbal-cluster-").tempdir().context("no temporary folder")?;
        let layout = start::Layout::write(dir.path(), tools, place)?;
        let etcd = layout.start_etcd()?;
        let mut apiserver = layout.start_apiserver()?;
        let admin = Api::connect(&layout.url, users::ADMIN_TOKEN, &layout.ca)?;
        start::wait_ready(&admin, &mut apiserver).await?;
        let servers = Mutex::new(Servers { apiserver: Some(apiserver), etcd });
        let (changed, audit_from) = (AtomicBool::new(false), AtomicU64::new(0));
        let cluster = Self { servers, layout, admin, changed, audit_from, dir };
        cluster.write_kubeconfig("admin", users::ADMIN_TOKEN)?;
        Ok(cluster)
    }

    /// Returns the API server's URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.layout.url
    }

    /// Returns a folder for files that a test keeps with the cluster.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns a kubeconfig file for `system:masters`.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig_path("admin")
    }

    /// Returns the API as `system:masters`, in plain JSON: to fill a cluster, and to check it independently of the code
    /// under test.
    #[must_use]
    pub fn admin(&self) -> &Api {
        &self.admin
    }

    /// Returns a [`gimbal_kubernetes_client::Cluster`] for `system:masters`.
    ///
    /// # Errors
    /// The kubeconfig file is missing.
    pub fn client(&self) -> anyhow::Result<gimbal_kubernetes_client::Cluster> {
        Ok(gimbal_kubernetes_client::Cluster::connect(
            &gimbal_kubernetes_client::Access::Kubeconfig(self.kubeconfig()),
            USER_AGENT,
        )?)
    }

    /// Returns the end of the API server's log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.servers().apiserver.as_ref().map(Process::log_tail).unwrap_or_default()
    }

    /// Kills the API server (SIGKILL). Its data stays.
    ///
    /// # Errors
    /// It does not run.
    pub fn stop_apiserver(&self) -> anyhow::Result<()> {
        self.changed.store(true, Ordering::SeqCst);
        self.servers().apiserver.take().context("the API server does not run")?.kill()
    }

    /// Starts the API server again, on the same port with the same data, and waits until it is ready.
    ///
    /// # Errors
    /// It is running already, or does not get ready.
    pub async fn start_apiserver(&self) -> anyhow::Result<()> {
        anyhow::ensure!(self.servers().apiserver.is_none(), "the API server runs already");
        let mut apiserver = self.layout.start_apiserver()?;
        start::wait_ready(&self.admin, &mut apiserver).await?;
        self.servers().apiserver = Some(apiserver);
        Ok(())
    }

    /// Returns the process ID of the API server.
    ///
    /// # Errors
    /// It does not run.
    pub fn api_server(&self) -> anyhow::Result<u32> {
        self.servers().apiserver.as_ref().map(Process::id).context("the API server does not run")
    }

    /// Stops the API server's process (SIGSTOP): connections stay open, and no call is answered.
    ///
    /// # Errors
    /// It does not run.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.changed.store(true, Ordering::SeqCst);
        self.servers().apiserver.as_ref().context("the API server does not run")?.freeze()
    }

    /// Ends [`TestCluster::pause`].
    ///
    /// # Errors
    /// It does not run.
    pub fn resume(&self) -> anyhow::Result<()> {
        self.servers().apiserver.as_ref().context("the API server does not run")?.signal("CONT")
    }

    /// Returns the authority of the API server's certificate and of clients' certificates, whose common name is the
    /// user's name.
    #[must_use]
    pub fn authority(&self) -> &Pki {
        &self.layout.authority
    }

    /// Returns the authority that replaces the first one in a rotation; its client certificates are accepted from the
    /// start.
    #[must_use]
    pub fn next_authority(&self) -> &Pki {
        &self.layout.next_authority
    }

    /// Has the API server present a certificate of the next authority, within a minute.
    ///
    /// # Errors
    /// The certificate cannot be written.
    pub fn serve_by_next_authority(&self) -> anyhow::Result<()> {
        self.changed.store(true, Ordering::SeqCst);
        self.layout.serve_by_next_authority()
    }

    /// Creates a namespace, unless it exists.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn namespace(&self, name: &str) -> anyhow::Result<()> {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        match self.admin.post("/api/v1/namespaces", &body).await {
            Err(error) if error.code == 409 => Ok(()),
            other => Ok(other.map(|_| ())?),
        }
    }

    fn servers(&self) -> MutexGuard<'_, Servers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kubeconfig_path(&self, user: &str) -> PathBuf {
        self.dir.path().join(format!("kubeconfig-{user}"))
    }

    fn write_kubeconfig(&self, user: &str, token: &str) -> anyhow::Result<PathBuf> {
        let path = self.kubeconfig_path(user);
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": self.url(), "certificate-authority": self.layout.ca}}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
        });
        // JSON is YAML. Replaced atomically: a process that was given the file before may be reading it.
        let new = tempfile::NamedTempFile::new_in(self.dir.path())?;
        std::fs::write(new.path(), serde_json::to_vec_pretty(&config)?)
            .and_then(|()| new.persist(&path).map(drop).map_err(|error| error.error))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

/// How long a server may take to get ready, on a machine that is busy with other tests.
const READY_WITHIN: Duration = Duration::from_secs(60);
