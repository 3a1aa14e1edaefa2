//! The writer's configuration: the backends and their identities, the namespaces and addresses that they may use, and
//! what happens when they are lost (docs/design.md#command-lines). Read again when the file changes, and replaced as a
//! whole.

mod current;
mod file;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::time::Duration;

use gimbal_admission::{AdminPrincipal, FileFormat, Identity, Tenant, identify};
use gimbal_backend::BackendSpec;
use gimbal_model::BackendName;
use gimbal_reconcile::Policy;
use gimbal_transport::{Denied, Peer};
use ipnet::IpNet;

pub use current::Current;

/// For how many backends one writer is built (docs/scale.md).
const BACKENDS: usize = 255;

/// How long an agent with one address may take to notice that its connection is dead.
const RECONNECT: Duration = Duration::from_secs(15);

/// The whole configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    /// Identities that may use the AdminService.
    pub admins: Vec<AdminPrincipal>,
    /// Certificates that are refused, whatever names they have.
    pub denied: Denied,
    /// Ranges that no backend may publish; already part of each backend's rules.
    pub refused_addresses: Vec<IpNet>,
    /// Backends in the order of the file, or of their names where they are objects.
    pub backends: Vec<BackendConfig>,
    /// Whether a backend that is not listed is admitted under the default policy.
    any_backend: bool,
}

/// One backend and its policy.
#[derive(Debug, Clone, PartialEq)]
pub struct BackendConfig {
    /// The backend's name.
    pub name: BackendName,
    /// The URI or DNS SAN of its client certificate; `None` only without certificates ([`Config::first_look`]).
    pub identity: Option<String>,
    /// What it may publish, and what happens when it is lost.
    pub policy: Policy,
}

/// Why a file cannot be used, on one line: the file, the line, and the problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ConfigError {
    place: String,
    problem: String,
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is empty, is not YAML, or has an unknown key, an invalid value, or
    /// values that contradict each other.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| Self::unreadable(path, &error))?;
        Self::parse(path, &text)
    }

    /// Parses and checks the text of a file. `path` is used in errors only.
    ///
    /// # Errors
    /// Returns an error if the text is empty or not YAML, or has an unknown key, an invalid value, or values that
    /// contradict each other.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        file::read(path, text)
    }

    /// Returns who a peer is under this configuration.
    #[must_use]
    pub fn identify(&self, peer: &Peer) -> Identity<'_, BackendConfig> {
        identify(peer, &self.admins, &self.backends)
    }

    /// Returns the configuration without a file: any backend, under the default policy. For plaintext on loopback only.
    #[must_use]
    pub fn first_look() -> Self {
        Self { any_backend: true, ..Self::default() }
    }

    /// Returns this configuration with these backends.
    #[must_use]
    pub fn with_backends(&self, backends: Vec<BackendConfig>) -> Self {
        Self { backends, ..self.clone() }
    }

    /// Returns the configuration of a file beside which backends are objects.
    ///
    /// # Errors
    /// Returns an error if the file names backends: one of two lists would be followed, and somebody would edit the other.
    pub fn without_backends(self) -> Result<Self, ConfigError> {
        let Some(first) = self.backends.first() else { return Ok(self) };
        let place = format!("backends: {}", first.name);
        let problem =
            "backends are objects (--backends objects): make this one an object too, and leave the key out of the file";
        Err(ConfigError { place, problem: problem.to_owned() })
    }

    /// Returns whether backends need not be listed, because there is no file.
    #[must_use]
    pub fn admits_any(&self) -> bool {
        self.any_backend
    }

    /// Returns the backend of this name, for connections without certificates. Without a file, every name has the
    /// default policy.
    #[must_use]
    pub fn backend_named(&self, name: &BackendName) -> Option<Cow<'_, BackendConfig>> {
        match self.backends.iter().find(|backend| &backend.name == name) {
            Some(backend) => Some(Cow::Borrowed(backend)),
            None => self.any_backend.then(|| Cow::Owned(BackendConfig::by_default(name.clone()))),
        }
    }

    /// Returns the policy of each listed backend.
    #[must_use]
    pub fn policies(&self) -> BTreeMap<BackendName, Policy> {
        self.backends.iter().map(|backend| (backend.name.clone(), backend.policy.clone())).collect()
    }

    /// Returns warnings: what the file allows and its author may not intend, one sentence each.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.names_that_join();
        warnings.extend(too_many(self.backends.len()));
        warnings.extend(self.backends.iter().filter_map(|backend| {
            let after = backend.policy.on_loss.not_ready_after.filter(|after| *after < RECONNECT)?;
            Some(format!(
                "backend {}: onLoss.notReadyAfter is {} s; an agent whose connection broke may need up to {} s to be back, \
                 and until then its endpoints would be not ready",
                backend.name,
                after.as_secs(),
                RECONNECT.as_secs()
            ))
        }));
        warnings
    }

    /// Returns a warning for each two backends of which one can take names that the other would have (Service `b-c` of
    /// `a`, Service `c` of `a-b`), as long as they are free.
    fn names_that_join(&self) -> Vec<String> {
        let sentence = |(short, long): (&BackendName, &BackendName)| {
            format!(
                "backends {short} and {long}: a Service of {short} can have the name of one of {long} as long as that is \
                 not there; give them namespaces of their own (namespaces.allow), or other names"
            )
        };
        self.joining().map(sentence).collect()
    }

    /// Returns each two backends of which one can take names that the other would have, the one with the shorter name first.
    /// Those whose namespaces differ cannot.
    pub(crate) fn joining(&self) -> impl Iterator<Item = (&BackendName, &BackendName)> {
        let meet = |short: &BackendConfig, long: &BackendConfig| {
            let rest = long.name.as_str().strip_prefix(short.name.as_str());
            rest.is_some_and(|rest| rest.starts_with('-')) && short.policy.namespaces.may_meet(&long.policy.namespaces)
        };
        self.backends.iter().flat_map(move |short| {
            let longer = self.backends.iter().filter(move |long| meet(short, long));
            longer.map(move |long| (&short.name, &long.name))
        })
    }
}

/// Returns a warning if this many backends are more than one writer is built for.
pub(crate) fn too_many(backends: usize) -> Option<String> {
    let sentence = || format!("{backends} backends are more than the {BACKENDS} that one writer is built for");
    (backends > BACKENDS).then(sentence)
}

impl BackendConfig {
    /// Returns a backend as it was written. `refused` are the ranges that no backend may publish.
    #[must_use]
    pub fn new(name: BackendName, spec: BackendSpec, refused: &[IpNet]) -> Self {
        Self { name, identity: Some(spec.identity.0.clone()), policy: spec.policy(refused) }
    }

    fn by_default(name: BackendName) -> Self {
        Self { name, identity: None, policy: Policy::default() }
    }
}

impl Tenant for BackendConfig {
    const NOUN: &str = "backend";

    fn name(&self) -> &dyn Display {
        &self.name
    }

    fn identity(&self) -> Option<&str> {
        self.identity.as_deref()
    }
}

impl FileFormat for Config {
    type Error = ConfigError;

    fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        file::read(path, text)
    }

    fn unreadable(path: &Path, error: &io::Error) -> ConfigError {
        ConfigError { place: path.display().to_string(), problem: format!("cannot be read: {error}") }
    }
}
