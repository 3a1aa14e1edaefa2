//! The servers and tools that tests need, at pinned versions: found in a given folder, or built once into a cache.
//!
//! `KUBEBUILDER_ASSETS` may name a folder with kube-apiserver and etcd. The cache is `GIMBAL_CACHE_DIR`, else
//! `$XDG_CACHE_HOME/gimbal`, else `~/.cache/gimbal`; it is outside of `target/`, for it takes minutes to fill.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

mod build;
mod debian;
mod lock;

use build::Recipe;
pub(crate) use build::say;

const KUBERNETES: &str = "1.36.1";
const ETCD: &str = "3.6.8";
const GRPCURL: &str = "1.9.3";
const BUF: &str = "1.66.0";

/// A third-party program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asset {
    /// etcd.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// grpcurl.
    Grpcurl,
    /// buf.
    Buf,
}

impl Asset {
    /// Returns the program's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Grpcurl => "grpcurl",
            Self::Buf => "buf",
        }
    }

    /// Returns the program's version.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::Etcd => ETCD,
            Self::ApiServer | Self::ControllerManager => KUBERNETES,
            Self::Grpcurl => GRPCURL,
            Self::Buf => BUF,
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
            Self::Etcd | Self::ApiServer | Self::ControllerManager => format!("k8s-{KUBERNETES}-etcd-{ETCD}"),
            Self::Grpcurl | Self::Buf => format!("{}-{}", self.name(), self.version()),
        }
    }

    fn recipe(self) -> Recipe {
        let version = self.version();
        match self {
            Self::Etcd => Recipe::Module { package: "./etcd".to_owned(), stamp: String::new() },
            Self::ApiServer | Self::ControllerManager => Recipe::Module {
                package: format!("k8s.io/kubernetes/cmd/{}", self.name()),
                // Without it the server reports v0.0.0, and clients that check the version refuse it.
                stamp: format!(
                    "-X k8s.io/component-base/version.gitVersion=v{version} -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
                ),
            },
            Self::Grpcurl => Recipe::Install(format!("github.com/fullstorydev/grpcurl/cmd/grpcurl@v{version}")),
            Self::Buf => Recipe::Install(format!("github.com/bufbuild/buf/cmd/buf@v{version}")),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_module() {
        let module = std::fs::read_to_string(build::module_dir().join("go.mod")).unwrap();
        for line in [format!("k8s.io/kubernetes v{KUBERNETES}"), format!("go.etcd.io/etcd/server/v3 v{ETCD}")] {
            assert!(module.contains(&line), "tests/assets/go.mod does not say {line:?}");
        }
    }

    #[test]
    fn folders_name_versions() {
        for asset in [Asset::Etcd, Asset::ApiServer, Asset::ControllerManager, Asset::Grpcurl, Asset::Buf] {
            assert!(asset.folder().contains(asset.version()), "{asset:?}");
        }
    }
}
