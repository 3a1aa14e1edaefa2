//! Clusters, certificates and processes.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use gimbal_kubernetes_client::{Access, ApiError, Cluster};
use gimbal_kubernetes_objects::{Kind, Namespace, Object as _};
use gimbal_testkit::{Rights, TestCluster};
use gimbal_tests::{discoverer_rights, writer_rights};

use crate::processes::Processes;
use crate::sight::Sight;
use crate::view::{self, View};
use crate::{BACKEND, fill, objects};

/// The writer's own namespace, for its Lease and its saved state.
const SYSTEM: &str = "gimbal-demo-system";

/// The backend's policy.
const POLICY: &str = "namespaces: {allow: [\"gimbal-demo-*\"]}\naddresses: {allow: [\"10.0.0.0/8\", \"fd00::/8\"]}";

/// One of the two clusters.
pub struct Side {
    pub cluster: Cluster,
    /// Kubeconfig with all rights.
    kubeconfig: PathBuf,
    /// Kubeconfig of the process: with the fewest rights it needs, if the demo started the cluster.
    process_kubeconfig: PathBuf,
    made: Vec<String>,
    own: Option<TestCluster>,
}

/// The clusters and processes of the demo.
pub struct Stage {
    pub source: Side,
    pub gimbal: Side,
    pub sight: Sight,
    pub processes: Processes,
}

impl Stage {
    pub async fn build(source: Option<&Path>, gimbal: Option<&Path>) -> anyhow::Result<Self> {
        let discoverer_rights = discoverer_rights()?;
        // The writer keeps its Lease in a namespace that the demo makes.
        let writer_rights = writer_rights()?.in_namespace(SYSTEM);
        let (source, gimbal) = tokio::try_join!(
            Side::open(source, "discoverer", &discoverer_rights),
            Side::open(gimbal, "writer", &writer_rights)
        )?;
        Ok(Self { sight: Sight::open(&gimbal.cluster), source, gimbal, processes: Processes::new(POLICY)? })
    }

    /// Creates the namespaces, except for the one that comes later.
    pub async fn make_namespaces(&mut self) -> anyhow::Result<()> {
        for name in [fill::SHOP, fill::MEDIA, fill::LATE] {
            self.source.make_namespace(name).await?;
        }
        for name in [fill::SHOP, fill::MEDIA, SYSTEM] {
            // One cluster may be both ends.
            if self.one_cluster() && self.source.made.iter().any(|made| made == name) {
                continue;
            }
            // In a cluster of the demo it was created with the writer's Role.
            if name == SYSTEM && self.gimbal.own.is_some() {
                continue;
            }
            self.gimbal.make_namespace(name).await?;
        }
        Ok(())
    }

    /// Whether both ends are one cluster, in which all namespaces of the source exist already.
    pub fn one_cluster(&self) -> bool {
        self.source.cluster.url() == self.gimbal.cluster.url()
    }

    pub async fn start_writer(&mut self) -> anyhow::Result<()> {
        self.processes.start_writer(&self.gimbal.process_kubeconfig, &["--namespace", SYSTEM]).await
    }

    pub async fn start_discoverer(&mut self) -> anyhow::Result<()> {
        let programs = &self.processes.programs;
        let mut args = programs.to_writer(&programs.pair(BACKEND)?, self.processes.writer_port);
        args.push("--namespaces=gimbal-demo-*".to_owned());
        let discoverer = programs.start_discoverer(BACKEND, &self.source.process_kubeconfig, &args)?;
        self.processes.started(discoverer).await
    }

    /// Returns the content that the source offers.
    pub async fn offered(&self) -> anyhow::Result<View> {
        view::source(&self.source.cluster, &self.source.made).await
    }

    /// Returns the content that was published in the Gimbal cluster.
    pub async fn target(&self) -> anyhow::Result<View> {
        view::target(&self.gimbal.cluster).await
    }

    /// Ends the processes, and removes the namespaces from clusters of the user.
    pub async fn clean(&mut self) -> anyhow::Result<()> {
        self.processes.stop();
        let source = self.source.clean().await;
        let gimbal = self.gimbal.clean().await;
        source.and(gimbal)
    }

    /// Returns commands for further exploration.
    pub fn hints(&self) -> anyhow::Result<[(&'static str, String); 5]> {
        Ok([
            ("the status page, live", self.processes.status_page()?),
            (
                "what is in the Gimbal cluster",
                format!(
                    "kubectl --kubeconfig {} get services,endpointslices -A -l gimbal.projectcontour.io/backend={BACKEND}",
                    self.gimbal.kubeconfig.display()
                ),
            ),
            (
                "change something in the source",
                format!(
                    "kubectl --kubeconfig {} -n {} label service web tried=yes --overwrite",
                    self.source.kubeconfig.display(),
                    fill::SHOP
                ),
            ),
            ("what the writer knows", self.processes.ask_writer()?.line("InspectionService/ListBackends")?),
            ("what the discoverer knows", self.processes.discoverer()?.ask().line("InspectionService/ListServices")?),
        ])
    }
}

impl Side {
    /// Opens a cluster of the user, or starts one with a user for the process.
    async fn open(kubeconfig: Option<&Path>, user: &str, rights: &Rights) -> anyhow::Result<Self> {
        let (own, kubeconfig, process_kubeconfig) = match kubeconfig {
            Some(given) => {
                let given = given.canonicalize().with_context(|| format!("cannot read {}", given.display()))?;
                (None, given.clone(), given)
            }
            None => {
                let own = TestCluster::start().await?;
                let user = own.user(user)?;
                own.bind(&user, rights).await?;
                let kubeconfig = own.kubeconfig();
                (Some(own), kubeconfig, user.kubeconfig().to_owned())
            }
        };
        let cluster = Cluster::connect(&Access::Kubeconfig(kubeconfig.clone()), "gimbal-demo")?;
        Ok(Self { cluster, kubeconfig, process_kubeconfig, made: Vec::new(), own })
    }

    pub fn describe(&self) -> String {
        let whose = if self.own.is_some() { "started for the demo" } else { "yours; only gimbal-demo-* is touched" };
        format!("{}  ({whose})", self.cluster.url())
    }

    pub async fn make_namespace(&mut self, name: &str) -> anyhow::Result<()> {
        let made = self.cluster.create(&objects::namespace(name)).await;
        if let Err(ApiError::AlreadyExists { .. }) = made {
            anyhow::bail!(
                "namespace {name} is there already: an earlier demo's? look at its owner before you delete it"
            );
        }
        made.with_context(|| format!("cannot make namespace {name}"))?;
        self.made.push(name.to_owned());
        Ok(())
    }

    /// Deletes an object, as a manual edit would.
    pub async fn delete_by_hand(&self, kind: Kind, namespace: &str, name: &str) -> anyhow::Result<()> {
        Ok(self.cluster.delete(kind, namespace, name, "", "").await?)
    }

    async fn clean(&mut self) -> anyhow::Result<()> {
        if self.own.is_some() {
            return Ok(());
        }
        for name in self.made.drain(..) {
            match self.cluster.delete(Namespace::KIND, "", &name, "", "").await {
                Ok(()) | Err(ApiError::NotFound { .. }) => {}
                Err(error) => anyhow::bail!("namespace {name} is left behind: {error}"),
            }
        }
        Ok(())
    }
}
