//! What a backend may publish, as the writer's configuration says.

use std::time::Duration;

use gimbal_guard::GuardConfig;
use gimbal_kubernetes_objects::keys;
use gimbal_model::{AddressRules, BackendName, Service, SourceKey, TargetKey, service_name};
use gimbal_plan::{AppProtocols, EndpointsApi, Keep, Rules, Strip};

use crate::{LossPolicy, NamespacePolicy, NamespaceRefused};

/// The policy for one backend. The default is what applies to a configuration file that leaves everything out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Policy {
    /// The namespaces that its Services are published in.
    pub namespaces: NamespacePolicy,
    /// The addresses that its endpoints may have.
    pub addresses: AddressRules,
    /// The labels and annotations that are left out.
    pub strip: Strip,
    /// If set, the only labels and annotations that are kept.
    pub keep: Keep,
    /// The application protocols that are renamed or dropped.
    pub app_protocols: AppProtocols,
    /// Limits on what it publishes.
    pub quota: Quota,
    /// The configuration of its mass-change guards.
    pub guard: GuardConfig,
    /// What happens when the backend is lost.
    pub on_loss: LossPolicy,
    /// What happens when its removal was ordered.
    pub on_removal: RemovalPolicy,
    /// Whether anything is written for the backend.
    pub mode: Mode,
    /// Whether it is to leave: it stays as it is until an admin orders its removal, and is not admitted after that.
    pub leaving: bool,
}

/// Limits on what a backend publishes; `None` means no limit. The first three refuse only growth: Services that
/// exceed a limit when it is lowered stay, and may shrink or change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Number of Services.
    pub services: Option<u64>,
    /// Number of endpoints of all Services.
    pub endpoints: Option<u64>,
    /// Bytes of the headers and endpoints of all Services on the stream.
    pub bytes: Option<u64>,
    /// Changes per second. Changes beyond that wait, and are replaced by newer ones.
    pub changes_per_second: Option<u64>,
}

/// What happens between the order to remove a backend and the first deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemovalPolicy {
    /// For this time its endpoints are not ready, so that whoever still needs them notices while nothing is gone. Zero: its objects
    /// are deleted at once.
    pub not_ready_for: Duration,
}

impl Default for RemovalPolicy {
    fn default() -> Self {
        Self { not_ready_for: Duration::from_secs(60) }
    }
}

/// Whether anything is written for a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Changes are written.
    #[default]
    Admit,
    /// Changes are planned and shown only. Existing objects stay as they are.
    Quarantine,
}

impl Policy {
    /// Returns the rules that shape objects.
    #[must_use]
    pub fn rules(&self, api: EndpointsApi) -> Rules<'_> {
        let Self { strip, keep, app_protocols, addresses, .. } = self;
        Rules { strip, keep, app_protocols, addresses, api }
    }

    /// Returns the target of a source Service. `service` is its content, if an agent sent it.
    ///
    /// # Errors
    /// Returns why the policy admits no target.
    pub fn target(
        &self,
        backend: &BackendName,
        key: &SourceKey,
        service: Option<&Service>,
    ) -> Result<TargetKey, NamespaceRefused> {
        let project = service.and_then(|service| service.header.annotations.get(keys::PROJECT));
        let namespace = self.namespaces.target(&key.namespace, project.map(|id| &**id))?;
        Ok(TargetKey::new(namespace, service_name(backend, &key.name)))
    }
}
