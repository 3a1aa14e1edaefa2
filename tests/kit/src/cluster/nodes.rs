//! Clusters with nodes: real kubelets and containerds, on which charts are installed and Pods run.
//!
//! Everything is in one network namespace without a route to anywhere else; see [`Site`].

use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;

use super::TestCluster;
use super::start::{Place, Tools};
use crate::Process;
use crate::assets::Asset;

mod network;
mod node;
mod registry;
mod site;

pub use network::Network;
use node::Node;
pub use registry::Registry;
pub use site::Site;

/// How long a node may take to be ready, and its default ServiceAccounts to be there.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// A cluster with nodes, Kubernetes' own controllers, and its scheduler.
pub struct NodeCluster {
    // Dropped first: nodes ask the API server.
    _nodes: Vec<Node>,
    _controllers: [Process; 2],
    cluster: TestCluster,
}

impl NodeCluster {
    /// Starts it with `count` nodes, and waits until they are ready. Images come from the registry.
    ///
    /// # Errors
    /// A program is missing and cannot be built, or a part does not get ready; the message has the end of its log.
    pub async fn start(site: &Site, network: Network, count: u8, registry: &Registry) -> anyhow::Result<Self> {
        let tools = tokio::task::spawn_blocking(Tools::find).await??;
        let programs = tokio::task::spawn_blocking(node::Programs::find).await??;
        network.make_bridge()?;
        let cluster = TestCluster::try_start(&tools, &Place::Network(network)).await?;
        let controllers = [cluster.start_all_controllers().await?, cluster.start_scheduler().await?];
        registry.push_program(programs.pause(), node::PAUSE)?;
        let nodes = (1..=count).map(|number| Node::start(site, &cluster, network, number, &programs));
        let mut nodes = nodes.collect::<anyhow::Result<Vec<_>>>()?;
        for node in &mut nodes {
            node.wait_ready(&cluster).await?;
        }
        let account = "/api/v1/namespaces/default/serviceaccounts/default";
        crate::eventually("the default ServiceAccount", READY_WITHIN, async || cluster.admin().get(account).await)
            .await?;
        Ok(Self { _nodes: nodes, _controllers: controllers, cluster })
    }

    /// Runs kubectl as `system:masters`, and returns what it says.
    ///
    /// # Errors
    /// What kubectl says when it fails.
    pub fn kubectl(&self, args: &[&str]) -> anyhow::Result<String> {
        self.run(&Asset::Kubectl.path()?, args)
    }

    /// Runs Helm as `system:masters`, and returns what it says.
    ///
    /// # Errors
    /// What Helm says when it fails.
    pub fn helm(&self, args: &[&str]) -> anyhow::Result<String> {
        self.run(&Asset::Helm.path()?, args)
    }

    fn run(&self, program: &PathBuf, args: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(program);
        // Both keep files of their own below the home folder.
        command.args(args).env("KUBECONFIG", self.kubeconfig()).env("HOME", self.dir()).stdin(Stdio::null());
        output(command)
    }
}

impl Deref for NodeCluster {
    type Target = TestCluster;

    fn deref(&self) -> &TestCluster {
        &self.cluster
    }
}

impl TestCluster {
    /// Starts kube-controller-manager with all controllers.
    async fn start_all_controllers(&self) -> anyhow::Result<Process> {
        let [ca, key] = [&self.layout.ca, &self.layout.accounts.key].map(|path| path.display().to_string());
        let more = [
            format!("--root-ca-file={ca}"),
            format!("--service-account-private-key-file={key}"),
            "--use-service-account-credentials=true".to_owned(),
            "--allocate-node-cidrs=false".to_owned(),
        ];
        self.start_controller_manager(&more).await
    }

    async fn start_scheduler(&self) -> anyhow::Result<Process> {
        let program = tokio::task::spawn_blocking(|| Asset::Scheduler.path()).await??;
        let kubeconfig = self.write_kubeconfig("scheduler", &super::users::token("system:kube-scheduler"))?;
        let args = [
            format!("--kubeconfig={}", kubeconfig.display()),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        Process::start("kube-scheduler", &program, &args, &self.dir().join("scheduler.log"))
    }
}

/// Runs a command to its end, and returns its output.
fn output(mut command: Command) -> anyhow::Result<String> {
    let out = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {command:?}"))?;
    let said = String::from_utf8_lossy(&out.stderr);
    anyhow::ensure!(out.status.success(), "{command:?} failed ({}): {}", out.status, said.trim());
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Runs `ip` with these words.
fn ip(words: &str) -> anyhow::Result<()> {
    let mut command = Command::new("ip");
    command.args(words.split(' '));
    output(command).map(drop)
}
