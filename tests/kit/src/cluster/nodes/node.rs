//! One node: kubelet, containerd and kube-proxy in namespaces of their own.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::json;

use super::{Network, READY_WITHIN, Registry, Site};
use crate::Process;
use crate::assets::{Asset, NodeTools};
use crate::cluster::{TestCluster, users};

/// The name of the image of what keeps a Pod's namespaces.
pub(super) const PAUSE: &str = "pause:1";

/// What nodes run, built before any of them starts.
pub(super) struct Programs {
    assets: Vec<PathBuf>,
    tools: NodeTools,
}

impl Programs {
    pub(super) fn find() -> anyhow::Result<Self> {
        let assets = Asset::NODE.into_iter().map(Asset::path).collect::<anyhow::Result<_>>()?;
        Ok(Self { assets, tools: NodeTools::find()? })
    }

    /// Returns what keeps a Pod's namespaces.
    pub(super) fn pause(&self) -> &Path {
        &self.tools.pause
    }

    /// Puts all of them into one folder.
    fn link(&self, folder: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder).context("cannot make the folder of the programs")?;
        for program in self.assets.iter().chain([&self.tools.runc, &self.tools.nft]) {
            let name = program.file_name().context("a program without a name")?;
            symlink(program, folder.join(name)).with_context(|| format!("cannot link {}", program.display()))?;
        }
        Ok(())
    }
}

/// A running node. Its processes and mounts go with it.
pub(super) struct Node {
    name: String,
    dir: PathBuf,
    process: Process,
}

impl Node {
    /// Starts a node, without waiting for it.
    pub(super) fn start(
        site: &Site,
        cluster: &TestCluster,
        network: Network,
        number: u8,
        programs: &Programs,
    ) -> anyhow::Result<Self> {
        let name = users::node(number);
        let dir = cluster.dir().join(&name);
        programs.link(&dir.join("bin"))?;
        // Nodes of different clusters have the same names.
        let group = site.make_cgroups(&format!("{}-{name}", network.bridge()))?;
        let file = |file: &str, text: String| {
            let path = dir.join(file);
            std::fs::create_dir_all(path.parent().unwrap_or(&dir))?;
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        let resolver = dir.join("resolv.conf");
        file("resolv.conf", String::new())?;
        file("hosts/_default/hosts.toml", Registry::hosts(&network.servers()))?;
        file("net/10-bridge.conflist", connections(&network.pods_of(number)))?;
        file("containerd.toml", containerd(&dir, &programs.tools.plugins))?;
        file("kubelet.json", kubelet(&dir, &group, &network.node(number), &resolver))?;
        let kubeconfig = cluster.write_kubeconfig(&name, &users::token(&format!("system:node:{name}")))?;
        let proxy = cluster.write_kubeconfig("proxy", &users::token("system:kube-proxy"))?;
        let path = std::env::var("PATH").unwrap_or_default();
        let env = [
            ("PATH", format!("{}:{path}:/usr/sbin:/sbin", dir.join("bin").display())),
            ("NODE", name.clone()),
            ("ADDRESS", network.node(number)),
            ("GATEWAY", network.servers()),
            ("DIR", dir.display().to_string()),
            ("KUBECONFIG", kubeconfig.display().to_string()),
            ("PROXY_KUBECONFIG", proxy.display().to_string()),
        ];
        let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut args: Vec<String> =
            ["--net", "--mount", "--uts", "--pid", "--ipc", "--fork", "--mount-proc"].map(str::to_owned).into();
        args.extend(["--kill-child=KILL", "sh", "-c", include_str!("node.sh")].map(str::to_owned));
        let log = dir.join("kubelet.log");
        let process = Process::start_with("the node", Path::new("unshare"), &args, &env, &log)?;
        let node = Self { name, dir, process };
        node.wait_for_namespace()?;
        network.connect(number, node.process.id())?;
        Ok(node)
    }

    /// Waits until its process has a network namespace of its own, which takes milliseconds.
    fn wait_for_namespace(&self) -> anyhow::Result<()> {
        let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net"));
        let (own, process) = (of("self").context("this process has no namespaces")?, self.process.id().to_string());
        let start = Instant::now();
        while of(&process).is_ok_and(|namespace| namespace == own) {
            anyhow::ensure!(start.elapsed() < READY_WITHIN, "{} gets no network namespace", self.name);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    pub(super) async fn wait_ready(&mut self, cluster: &TestCluster) -> anyhow::Result<()> {
        let path = format!("/api/v1/nodes/{}", self.name);
        let ready = crate::eventually("the node is ready", READY_WITHIN, async || {
            if let Some(status) = self.process.exited()? {
                return Ok(Err(anyhow::anyhow!("the node ended with {status}")));
            }
            let node = cluster.admin().get(&path).await?;
            let conditions = node["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
            let ready = conditions.iter().find(|condition| condition["type"] == "Ready").context("no condition")?;
            anyhow::ensure!(ready["status"] == "True", "{}", ready["message"]);
            anyhow::Ok(Ok(()))
        });
        let ready = ready.await.and_then(|ready| ready);
        let containerd = || std::fs::read_to_string(self.dir.join("containerd.log")).unwrap_or_default();
        ready.map_err(|error| {
            let containerd = containerd();
            let lines: Vec<&str> = containerd.lines().rev().take(20).collect();
            anyhow::anyhow!(
                "{error:#}; kubelet's log ends:\n{}\ncontainerd's, last first: {lines:#?}",
                self.process.log_tail()
            )
        })
    }
}

/// Connects Pods by a bridge; packets leave the node with the Pods' own addresses.
fn connections(pods: &str) -> String {
    let addresses = json!({"type": "host-local", "ranges": [[{"subnet": pods}]], "routes": [{"dst": "0.0.0.0/0"}]});
    let bridge = json!({"type": "bridge", "bridge": "pods", "isGateway": true, "hairpinMode": true, "ipMasq": false,
        "ipam": addresses});
    json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}).to_string()
}

fn kubelet(dir: &Path, group: &str, address: &str, resolver: &Path) -> String {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "failCgroupV1": false,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{group}"),
        "failSwapOn": false,
        "containerRuntimeEndpoint": format!("unix://{}/containerd.sock", dir.display()),
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "makeIPTablesUtilChains": false,
        // A full disk of the machine is no reason to evict.
        "evictionHard": {"imagefs.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "resolvConf": resolver,
        "podLogsDir": "/var/log/pods",
        "healthzBindAddress": "127.0.0.1",
        "imagePullCredentialsVerificationPolicy": "NeverVerify",
    })
    .to_string()
}

fn containerd(dir: &Path, plugins: &Path) -> String {
    let (dir, plugins) = (dir.display(), plugins.display());
    format!(
        "version = 3
root = '{dir}/containerd'
state = '/run/containerd'
imports = []
disabled_plugins = ['io.containerd.nri.v1.nri', 'io.containerd.snapshotter.v1.devmapper', 'io.containerd.snapshotter.v1.zfs', 'io.containerd.snapshotter.v1.btrfs', 'io.containerd.snapshotter.v1.blockfile', 'io.containerd.snapshotter.v1.erofs']
[grpc]
address = '{dir}/containerd.sock'
[ttrpc]
address = '/run/containerd/containerd.sock.ttrpc'
[plugins.'io.containerd.metadata.v1.bolt']
no_sync = true
[plugins.'io.containerd.cri.v1.images']
snapshotter = 'overlayfs'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = 'images.test/{PAUSE}'
[plugins.'io.containerd.cri.v1.images'.registry]
config_path = '{dir}/hosts'
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
disable_apparmor = true
netns_mounts_under_state_dir = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['{plugins}']
conf_dir = '{dir}/net'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = '{dir}/bin/runc'
SystemdCgroup = false
"
    )
}
