//! kube-controller-manager, for tests that want what it does: EndpointSlices of Pods, garbage collection, namespaces that go.

use anyhow::Context as _;

use super::TestCluster;
use crate::Process;
use crate::assets::Asset;

/// The controllers that run. The others need nodes or other parts that a test cluster has not.
const CONTROLLERS: [&str; 3] = ["endpointslice-controller", "garbage-collector-controller", "namespace-controller"];

impl TestCluster {
    /// Starts kube-controller-manager, which ends with the returned value. What it does is awaited by its effects. It learns
    /// of custom resources only every half minute, so definitions are installed before.
    ///
    /// # Errors
    /// It is missing and cannot be built, or cannot be started.
    pub async fn start_controllers(&self) -> anyhow::Result<Process> {
        self.start_controller_manager(&[format!("--controllers={}", CONTROLLERS.join(","))]).await
    }

    /// Starts the controller that mirrors Endpoints of Services without a selector as EndpointSlices, as [`start_controllers`]
    /// starts others.
    ///
    /// # Errors
    /// As [`start_controllers`].
    ///
    /// [`start_controllers`]: TestCluster::start_controllers
    pub async fn start_mirroring(&self) -> anyhow::Result<Process> {
        self.start_controller_manager(&["--controllers=endpointslice-mirroring-controller".to_owned()]).await
    }

    /// Starts kube-controller-manager with further arguments.
    pub(super) async fn start_controller_manager(&self, more: &[String]) -> anyhow::Result<Process> {
        let program = tokio::task::spawn_blocking(|| Asset::ControllerManager.path()).await??;
        let kubeconfig = self.kubeconfig();
        let kubeconfig = kubeconfig.to_str().context("a folder without a name in UTF-8")?;
        let args = [
            format!("--kubeconfig={kubeconfig}"),
            "--leader-elect=false".to_owned(),
            // It serves nothing.
            "--secure-port=0".to_owned(),
        ];
        let args = [&args[..], more].concat();
        Process::start("kube-controller-manager", &program, &args, &self.dir().join("controller-manager.log"))
    }
}
