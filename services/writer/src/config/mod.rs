//! The writer's configuration: who may speak, for which namespaces and addresses, and what happens when they fall silent
//! (DESIGN 6). Read once and replaced as a whole.

mod current;
mod file;
mod identity;
mod namespaces;
#[cfg(test)]
mod tests;
mod values;

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use gimbal_link::Denied;
use gimbal_model::{AddressRules, BackendName};
use gimbal_plan::Strip;
use ipnet::IpNet;
use serde::Deserialize;

pub use current::Current;
pub use identity::Identity;
pub use namespaces::{NamespacePolicy, NamespaceRefused};

/// The whole configuration.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Identities that may use the AdminService.
    pub admins: Vec<String>,
    /// Certificates that are refused whatever they say.
    pub denied: Denied,
    /// Ranges that no backend may publish; already part of each backend's rules.
    pub refused_addresses: Vec<IpNet>,
    /// Backends in the order of the file.
    pub backends: Vec<BackendConfig>,
    /// Whether a backend that is not listed is admitted under the default policy.
    any_backend: bool,
}

/// One backend and its policy.
#[derive(Debug, Clone)]
pub struct BackendConfig {
    /// Its name.
    pub name: BackendName,
    /// The URI or DNS SAN of its client certificate; `None` only for a first look without certificates.
    pub identity: Option<String>,
    /// Where its Services go.
    pub namespaces: NamespacePolicy,
    /// Which addresses it may publish.
    pub addresses: AddressRules,
    /// Which labels and annotations are left out.
    pub strip: Strip,
    /// How much it may publish.
    pub quota: Quota,
    /// What happens when its stream is lost.
    pub on_loss: OnLoss,
    /// When its removals are held.
    pub guard: GuardPolicy,
    /// Whether anything is written for it.
    pub mode: Mode,
}

/// How much a backend may publish; what is not set has no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Quota {
    /// Services.
    #[serde(deserialize_with = "values::optional_number")]
    pub services: Option<u64>,
    /// Endpoints.
    #[serde(deserialize_with = "values::optional_number")]
    pub endpoints: Option<u64>,
    /// Bytes of all that it publishes.
    #[serde(deserialize_with = "values::optional_number")]
    pub bytes: Option<u64>,
    /// Changes a second.
    #[serde(deserialize_with = "values::optional_number")]
    pub changes_per_second: Option<u64>,
}

/// What happens after the loss of a stream. The default is to hold what was last known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OnLoss {
    /// After this, endpoints are not ready.
    pub not_ready_after: Option<Duration>,
    /// After this, they are removed.
    pub drain_after: Option<Duration>,
}

/// When removals are held (DESIGN 2, rule 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardPolicy {
    /// The share that may go within the window.
    pub max_drop_percent: u8,
    /// The number that may go whatever their share.
    pub min_endpoints: u64,
    /// How far back losses are counted.
    pub window: Duration,
    /// How much later a complete snapshot must still say so.
    pub quiet_time: Duration,
    /// After this, even a drop to nothing is believed.
    pub release_all_after: Option<Duration>,
}

impl Default for GuardPolicy {
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Self { max_drop_percent: 50, min_endpoints: 20, window: minute, quiet_time: minute, release_all_after: None }
    }
}

/// Whether anything is written for a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// Yes.
    #[default]
    Admit,
    /// No: plan and show only.
    Quarantine,
}

/// The file cannot be used: one line with the file, the line and what is wrong.
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
    /// When it cannot be read, is no YAML, holds an unknown key, or a value that makes no sense.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError {
            place: path.display().to_string(),
            problem: format!("cannot be read: {error}"),
        })?;
        Self::parse(path, &text)
    }

    /// Checks the text of a file, which `path` only names in the error.
    ///
    /// # Errors
    /// When it is no YAML, holds an unknown key, or a value that makes no sense.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        file::read(path, text)
    }

    /// What holds without a file: any backend, under the default policy. For plaintext on loopback only.
    #[must_use]
    pub fn first_look() -> Self {
        Self { any_backend: true, ..Self::default() }
    }

    /// The backend of this name where there are no certificates to tell, if it is one that is admitted.
    #[must_use]
    pub fn backend_named(&self, name: &BackendName) -> Option<Cow<'_, BackendConfig>> {
        match self.backends.iter().find(|backend| &backend.name == name) {
            Some(backend) => (backend.mode == Mode::Admit).then_some(Cow::Borrowed(backend)),
            None => self.any_backend.then(|| Cow::Owned(BackendConfig::by_default(name.clone()))),
        }
    }

    /// What the file says and this version does not do yet: a sentence each, to be logged as a warning.
    #[must_use]
    pub fn not_enforced(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        for backend in &self.backends {
            let name = &backend.name;
            if backend.quota != Quota::default() {
                sentences.push(format!("quota of backend {name} is not enforced yet: it may publish more"));
            }
            if backend.on_loss != OnLoss::default() {
                sentences.push(format!("onLoss of backend {name} is not enforced yet: what was last known is held"));
            }
            if backend.namespaces.create {
                sentences
                    .push(format!("namespaces.create of backend {name} is not enforced yet: create them yourself"));
            }
            if backend.mode == Mode::Quarantine {
                sentences.push(format!("mode quarantine of backend {name} is not there yet: the backend is refused"));
            }
        }
        sentences
    }
}

impl BackendConfig {
    fn by_default(name: BackendName) -> Self {
        Self {
            name,
            identity: None,
            namespaces: NamespacePolicy::default(),
            addresses: AddressRules::default(),
            strip: Strip::default(),
            quota: Quota::default(),
            on_loss: OnLoss::default(),
            guard: GuardPolicy::default(),
            mode: Mode::default(),
        }
    }
}
