//! Clusters, certificates and processes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use gimbal_kubernetes_client::{Access, ApiError, Cluster};
use gimbal_kubernetes_objects::{Kind, Namespace, Object as _};
use gimbal_testkit::assets::Asset;
use gimbal_testkit::process::free_port;
use gimbal_testkit::{Pair, Pki, Process, Rule, San, TestCluster, pki};

use super::sight::Sight;
use super::view::{self, View};
use super::{BACKEND, fill, objects};
use crate::build;

/// The writer's own: its lease, and what it keeps.
const SYSTEM: &str = "gimbal-demo-system";

const ADMIN: &str = "spiffe://gimbal.example/admin";

const INSPECTION: &str = "gimbal.discovery.v1.InspectionService";

const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// One end.
pub struct Side {
    pub cluster: Cluster,
    /// With all rights.
    kubeconfig: PathBuf,
    /// What the process gets: as few rights as it needs where the cluster is ours.
    process_kubeconfig: PathBuf,
    made: Vec<String>,
    own: Option<TestCluster>,
}

/// Everything that the demo plays with.
pub struct Stage {
    pub source: Side,
    pub gimbal: Side,
    pub sight: Sight,
    writer: Option<Process>,
    discoverer: Option<Process>,
    writer_program: PathBuf,
    discoverer_program: PathBuf,
    grpcurl: PathBuf,
    certificates: Certificates,
    ports: Ports,
    dir: tempfile::TempDir,
}

struct Certificates {
    ca: PathBuf,
    writer: Pair,
    backend: Pair,
    admin: Pair,
}

struct Ports {
    writer: u16,
    writer_admin: u16,
    discoverer: u16,
    discoverer_admin: u16,
}

impl Stage {
    pub async fn build(source: Option<&Path>, gimbal: Option<&Path>) -> anyhow::Result<Self> {
        let programs = ["gimbal-writer", "gimbal-kubernetes-discoverer"];
        let [writer_program, discoverer_program] = tokio::task::block_in_place(|| build::programs(programs))?;
        let grpcurl = tokio::task::spawn_blocking(|| Asset::Grpcurl.path()).await??;
        let read = [
            Rule::read("", &["namespaces", "services", "endpoints"]),
            Rule::read("discovery.k8s.io", &["endpointslices"]),
        ];
        let write = [
            Rule::read("", &["namespaces"]),
            Rule::write("", &["services", "endpoints", "configmaps"]),
            Rule::write("discovery.k8s.io", &["endpointslices"]),
            Rule::write("coordination.k8s.io", &["leases"]),
        ];
        let (source, gimbal) =
            tokio::try_join!(Side::open(source, "discoverer", &read), Side::open(gimbal, "writer", &write))?;
        let dir = tempfile::Builder::new().prefix("gimbal-demo-").tempdir().context("no temporary folder")?;
        let pki = Pki::create(dir.path().join("pki"))?;
        let certificates = Certificates {
            ca: pki.ca().to_owned(),
            writer: pki.server("writer")?,
            backend: pki.backend(BACKEND)?,
            admin: pki.issue("admin", &[San::Uri(ADMIN)])?,
        };
        let ports = Ports {
            writer: free_port()?,
            writer_admin: free_port()?,
            discoverer: free_port()?,
            discoverer_admin: free_port()?,
        };
        let (writer, discoverer) = (None, None);
        let sight = Sight::open(&gimbal.cluster);
        let stage = Self {
            source,
            gimbal,
            sight,
            writer,
            discoverer,
            writer_program,
            discoverer_program,
            grpcurl,
            certificates,
            ports,
            dir,
        };
        std::fs::write(stage.config(), configuration()).context("cannot write the configuration")?;
        Ok(stage)
    }

    /// Makes the namespaces, all but the one that comes later.
    pub async fn make_namespaces(&mut self) -> anyhow::Result<()> {
        for name in [fill::SHOP, fill::MEDIA, fill::LATE] {
            self.source.make_namespace(name).await?;
        }
        for name in [fill::SHOP, fill::MEDIA, SYSTEM] {
            // One cluster may be both ends.
            if self.one_cluster() && self.source.made.iter().any(|made| made == name) {
                continue;
            }
            self.gimbal.make_namespace(name).await?;
        }
        Ok(())
    }

    /// Whether both ends are one cluster, where every namespace of the source is there already.
    pub fn one_cluster(&self) -> bool {
        self.source.cluster.url() == self.gimbal.cluster.url()
    }

    pub async fn start_writer(&mut self) -> anyhow::Result<()> {
        let (listen, admin) = (local(self.ports.writer), local(self.ports.writer_admin));
        let mut args = options(&[
            ("config", &self.config().display().to_string()),
            ("kubeconfig", &self.gimbal.process_kubeconfig.display().to_string()),
            ("listen", &listen),
            ("admin-listen", &admin),
            ("namespace", SYSTEM),
        ]);
        args.extend(self.tls(&self.certificates.writer));
        let log = self.dir.path().join("writer.log");
        let mut process = Process::start("writer", &self.writer_program, &args, &log)?;
        process.answers(&format!("http://{admin}/healthz"), STARTS_WITHIN).await?;
        self.writer = Some(process);
        Ok(())
    }

    pub async fn start_discoverer(&mut self) -> anyhow::Result<()> {
        let (listen, admin) = (local(self.ports.discoverer), local(self.ports.discoverer_admin));
        let mut args = options(&[
            ("backend-name", BACKEND),
            ("kubeconfig", &self.source.process_kubeconfig.display().to_string()),
            ("writer", &format!("https://localhost:{}", self.ports.writer)),
            ("listen", &listen),
            ("admin-listen", &admin),
            ("namespaces", "gimbal-demo-*"),
        ]);
        args.extend(self.tls(&self.certificates.backend));
        let log = self.dir.path().join("discoverer.log");
        let mut process = Process::start("discoverer", &self.discoverer_program, &args, &log)?;
        process.answers(&format!("http://{admin}/healthz"), STARTS_WITHIN).await?;
        self.discoverer = Some(process);
        Ok(())
    }

    pub fn writer(&mut self) -> anyhow::Result<&mut Process> {
        self.writer.as_mut().context("the writer does not run")
    }

    pub fn discoverer(&mut self) -> anyhow::Result<&mut Process> {
        self.discoverer.as_mut().context("the discoverer does not run")
    }

    /// What the source offers.
    pub async fn offered(&self) -> anyhow::Result<View> {
        view::source(&self.source.cluster, &self.source.made).await
    }

    /// What came to the Gimbal cluster.
    pub async fn target(&self) -> anyhow::Result<View> {
        view::target(&self.gimbal.cluster).await
    }

    /// The ends of the logs, for whoever has to find out what went wrong.
    pub fn logs(&self) -> String {
        let tail = |name: &str, process: &Option<Process>| {
            process.as_ref().map(|process| format!("--- the {name} said last:\n{}\n", process.log_tail()))
        };
        let logs = [tail("writer", &self.writer), tail("discoverer", &self.discoverer)];
        format!("{}---\nthe demo failed", logs.into_iter().flatten().collect::<String>())
    }

    /// Ends the processes, and removes the namespaces from clusters that stay.
    pub async fn clean(&mut self) -> anyhow::Result<()> {
        self.discoverer = None;
        self.writer = None;
        let source = self.source.clean().await;
        let gimbal = self.gimbal.clean().await;
        source.and(gimbal)
    }

    /// Lines to look further with.
    pub fn hints(&self) -> [(&'static str, String); 4] {
        [
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
            ("what the writer knows", self.ask_writer().join(" ")),
            ("what the discoverer knows", self.ask_discoverer().join(" ")),
        ]
    }

    /// A command line that asks the writer about its backends, as an admin.
    pub fn ask_writer(&self) -> Vec<String> {
        let Certificates { ca, admin, .. } = &self.certificates;
        let files = [("-cacert", ca), ("-cert", &admin.cert), ("-key", &admin.key)];
        let mut line = vec![self.grpcurl.display().to_string()];
        line.extend(files.iter().flat_map(|(flag, file)| [(*flag).to_owned(), file.display().to_string()]));
        line.extend([format!("localhost:{}", self.ports.writer), format!("{INSPECTION}/ListBackends")]);
        line
    }

    /// A command line that asks the discoverer about its Services.
    pub fn ask_discoverer(&self) -> Vec<String> {
        let grpcurl = self.grpcurl.display().to_string();
        vec![grpcurl, "-plaintext".to_owned(), local(self.ports.discoverer), format!("{INSPECTION}/ListServices")]
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("writer.yaml")
    }

    fn tls(&self, pair: &Pair) -> Vec<String> {
        options(&[
            ("tls-cert", &pair.cert.display().to_string()),
            ("tls-key", &pair.key.display().to_string()),
            ("tls-ca", &self.certificates.ca.display().to_string()),
        ])
    }
}

impl Side {
    /// A cluster of the user's, or one of our own with a user for the process.
    async fn open(kubeconfig: Option<&Path>, user: &str, rules: &[Rule]) -> anyhow::Result<Self> {
        let (own, kubeconfig, process_kubeconfig) = match kubeconfig {
            Some(given) => {
                let given = given.canonicalize().with_context(|| format!("cannot read {}", given.display()))?;
                (None, given.clone(), given)
            }
            None => {
                let own = TestCluster::start().await?;
                let user = own.user(user)?;
                own.grant(&user, rules).await?;
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
            anyhow::bail!("namespace {name} is there already: an earlier demo's? delete it, or look whose it is");
        }
        made.with_context(|| format!("cannot make namespace {name}"))?;
        self.made.push(name.to_owned());
        Ok(())
    }

    /// Removes an object by hand.
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

fn configuration() -> String {
    format!(
        "admins: [\"{ADMIN}\"]\nbackends:\n- name: {BACKEND}\n  identity: {}\n  namespaces: {{allow: [\"gimbal-demo-*\"]}}\n  \
         addresses: {{allow: [\"10.0.0.0/8\", \"fd00::/8\"]}}\n",
        pki::backend_identity(BACKEND)
    )
}

fn options(pairs: &[(&str, &str)]) -> Vec<String> {
    pairs.iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}
