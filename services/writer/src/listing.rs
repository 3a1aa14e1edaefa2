//! Services for inspection calls, in order and in parts, so that no question keeps the owner busy for long.

use gimbal_model::BackendName;
use gimbal_reconcile::{Claim, Reconciler, ServiceStatus, SyncState};
use gimbal_transport::{Part, Place, Viewer};
use gimbal_wire::pb;

/// Most Services that one question reads.
const PART: usize = 500;

/// The Services that a call asks about.
#[derive(Debug, Clone)]
pub(crate) struct ServiceSelection {
    pub(crate) viewer: Viewer,
    /// Name of a backend; empty: every one.
    pub(crate) backend: String,
    /// Source namespace; empty: every one.
    pub(crate) namespace: String,
}

impl ServiceSelection {
    pub(crate) fn wants(&self, claim: &Claim) -> bool {
        self.wants_backend(&claim.backend) && (self.namespace.is_empty() || *claim.key.namespace == *self.namespace)
    }

    /// Returns the backend if the selection is limited to one.
    pub(crate) fn only_backend(&self) -> Option<BackendName> {
        match &self.viewer {
            Viewer::Backend(own) => Some(own.clone()),
            Viewer::All => BackendName::parse(&self.backend).ok(),
        }
    }

    fn wants_backend(&self, name: &BackendName) -> bool {
        self.viewer.sees(name.as_str()) && (self.backend.is_empty() || name.as_str() == self.backend)
    }

    /// Returns the `wanted` Services among the next few after a place.
    pub(crate) fn part(
        &self,
        state: &Reconciler,
        after: Option<&Place>,
        wanted: impl Fn(&ServiceStatus) -> bool,
    ) -> Part {
        let mut part = Part::default();
        let mut left = PART;
        let rest = |name: &&BackendName| after.is_none_or(|after| **name >= after.backend);
        for name in state.backends().keys().filter(rest).filter(|name| self.wants_backend(name)) {
            let after = after.filter(|after| after.backend == *name).map(|after| &after.key);
            let keys = state.keys_after(name, &self.namespace, after, left);
            left -= keys.len();
            for key in keys {
                let claim = Claim { backend: name.clone(), key };
                part.services.extend(state.status(&claim).filter(&wanted).as_ref().map(status));
                part.seen = Some(Place { backend: claim.backend, key: claim.key });
            }
            if left == 0 {
                return part;
            }
        }
        Part { seen: None, ..part }
    }
}

/// Converts the status of a Service for an answer.
pub(crate) fn status(known: &ServiceStatus) -> pb::ServiceStatus {
    let state = match known.state {
        SyncState::Synced => pb::ServiceState::Synced,
        SyncState::Pending => pb::ServiceState::Pending,
        SyncState::Rejected => pb::ServiceState::Rejected,
        SyncState::Held => pb::ServiceState::Held,
    };
    let reason = known.reject.as_ref().map_or(pb::RejectReason::Unspecified, |reject| reject.reason.into());
    let published = known.observed_endpoints.map(|count| count as u64);
    let service = known.service.as_deref();
    let ready = service.map_or(0, |s| s.endpoints().filter(|(_, endpoint)| endpoint.conditions.ready).count());
    pb::ServiceStatus {
        backend: known.claim.backend.to_string(),
        source: Some((&known.claim.key).into()),
        target: known.target.as_ref().map(Into::into),
        state: state.into(),
        endpoints: service.map_or_else(|| published.unwrap_or_default(), |service| service.endpoint_count() as u64),
        ready_endpoints: ready as u64,
        ports: service.map(|s| s.header.ports.iter().map(Into::into).collect()).unwrap_or_default(),
        reject_reason: reason.into(),
        message: known.reject.as_ref().map(|reject| reject.message.clone()).unwrap_or_default(),
        digest: known.digest.map(|digest| digest.to_bytes().to_vec()).unwrap_or_default(),
        published_endpoints: published,
        written_ports: known.written_ports.iter().map(Into::into).collect(),
    }
}
