//! The status of a source Service, and explanations of it.

use gimbal_model::{BackendName, Digest, SourceKey, TargetKey};
use gimbal_plan::Action;
use gimbal_session::{Reject, RejectReason};

use crate::decide::{Ownership, RemovalReason};
use crate::target::Target;
use crate::{Claim, Reconciler, Stage, TargetProgress};

/// How far a source Service is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SyncState {
    /// Published as the source has it.
    Synced,
    /// A write is waiting or under way.
    Pending,
    /// Not published as the source has it, for the reason in [`ServiceStatus::reject`].
    Rejected,
    /// The guard holds removals, the loss policy has changed the endpoints, or the Service is published although its
    /// agent is not known to have it.
    Held,
}

/// The status of a source Service.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceStatus {
    /// The source Service.
    pub claim: Claim,
    /// Its target; `None` if its policy admits none.
    pub target: Option<TargetKey>,
    /// How far it is published.
    pub state: SyncState,
    /// Why it is rejected or held, if it is.
    pub reject: Option<Reject>,
    /// Its content as the agent sent it last; `None` if only the Gimbal cluster knows of it.
    pub service: Option<std::sync::Arc<gimbal_model::Service>>,
    /// Its ports as they are written, where the policy changes them; else empty.
    pub written_ports: Vec<gimbal_model::ServicePort>,
    /// The digest of that content.
    pub digest: Option<Digest>,
    /// The number of its endpoints in the Gimbal cluster; `None` if it is not published.
    pub observed_endpoints: Option<usize>,
}

/// Why an object of the Gimbal cluster is as it is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Explanation {
    /// The status of its source Service, if one is known.
    pub status: Option<ServiceStatus>,
    /// The target that it is about, if one is known.
    pub target: Option<TargetKey>,
    /// How far that Service has come.
    pub progress: TargetProgress,
    /// The claim that the object belongs to, as far as is known. The reasons are about this claim.
    pub holder: Option<Claim>,
    /// The reasons, as sentences in order.
    pub reasons: Vec<String>,
    /// Other claims on the same name.
    pub others: Vec<Claim>,
    /// The writes that wait for the backend to leave quarantine, each with its difference in words.
    pub planned: Vec<(Action, Vec<String>)>,
}

impl Reconciler {
    /// Returns the status of a source Service; `None` if neither its agent nor the Gimbal cluster knows it.
    #[must_use]
    pub fn status(&self, claim: &Claim) -> Option<ServiceStatus> {
        let backend = self.desired.get(&claim.backend)?;
        let service = backend.end().service(&claim.key).cloned();
        let target = self.desired.target_of(&claim.backend, &claim.key).and_then(Result::ok);
        let entry = target.as_ref().and_then(|key| self.targets.get(key));
        let reject = backend.end().rejects().get(&claim.key).cloned();
        let is_named = entry.is_some_and(|entry| {
            let owner = entry.observed().owner();
            owner.is_some_and(|(label, key)| **label == *claim.backend.as_str() && *key == claim.key)
        });
        if service.is_none() && !is_named {
            return None;
        }
        let state = match &reject {
            Some(reject) if reject.reason == RejectReason::Held => SyncState::Held,
            Some(_) => SyncState::Rejected,
            None if entry.is_some_and(|entry| !entry.has_converged()) => SyncState::Pending,
            None if service.is_none() || backend.loss().stage() != Stage::Hold => SyncState::Held,
            None => SyncState::Synced,
        };
        let observed_endpoints = entry.filter(|_| is_named).map(|entry| entry.observed().endpoint_count());
        let digest = backend.end().digest(&claim.key);
        let protocols = &backend.policy().app_protocols;
        let ports = service.as_ref().map_or(&[][..], |service| service.header.ports.as_slice());
        let written_ports = protocols.changed_ports(ports).unwrap_or_default();
        let claim = claim.clone();
        Some(ServiceStatus { claim, target, state, reject, service, written_ports, digest, observed_endpoints })
    }

    /// Returns the keys of a backend's source Services in a namespace (empty: in all), in order: at most `most` of
    /// those after `after`. Services that only the Gimbal cluster knows are included.
    #[must_use]
    pub fn keys_after(
        &self,
        name: &BackendName,
        namespace: &str,
        after: Option<&SourceKey>,
        most: usize,
    ) -> Vec<SourceKey> {
        let Some(backend) = self.desired.get(name) else { return Vec::new() };
        let mut keys = self.targets.stood_for(name.as_str(), namespace, after, most);
        keys.extend(backend.end().keys_after(namespace, after).take(most).cloned());
        keys.into_iter().take(most).collect()
    }

    /// Explains the status of a source Service.
    #[must_use]
    pub fn explain_source(&self, claim: &Claim) -> Explanation {
        let Some(target) = self.desired.target_of(&claim.backend, &claim.key) else {
            let reasons = vec![format!("backend {} is not configured", claim.backend)];
            return Explanation { reasons, ..Explanation::default() };
        };
        match target {
            Ok(target) => {
                let mut explanation = self.explain_target(&target);
                if explanation.status.as_ref().is_none_or(|status| status.claim != *claim) {
                    if let Some(status) = self.status(claim) {
                        if let Some(reject) = &status.reject {
                            explanation.reasons.push(format!(
                                "{claim} is rejected ({}): {}",
                                reject.reason.as_str(),
                                reject.message
                            ));
                        }
                        explanation.status = Some(status);
                    } else {
                        explanation.reasons.push(format!("neither the agent nor the Gimbal cluster knows {claim}"));
                    }
                    // What was written of the target was another's.
                    explanation.progress = self.progress(claim, None);
                    explanation.others.retain(|other| other != claim);
                }
                explanation
            }
            Err(refused) => Explanation {
                status: self.status(claim),
                progress: self.progress(claim, None),
                holder: Some(claim.clone()),
                reasons: vec![refused.to_string()],
                ..Explanation::default()
            },
        }
    }

    /// Explains where an object of the Gimbal cluster comes from, or why it is missing.
    #[must_use]
    pub fn explain_target(&self, key: &TargetKey) -> Explanation {
        let mut reasons = Vec::new();
        let Some(target) = self.targets.get(key) else {
            reasons
                .push(format!("no backend offers a Service that would be {key}, and no object of ours has that name"));
            return Explanation { reasons, ..Explanation::default() };
        };
        let claim = match self.view().ownership(key, target) {
            Ownership::Owned(claim) => {
                reasons.push(format!("{key} stands for {claim}"));
                Some(claim)
            }
            Ownership::Blocked(holder) => {
                reasons.push(format!("{key} stands for {holder}, which may still be there; others wait"));
                Some(holder)
            }
            Ownership::Gone(why) => {
                let why = match why {
                    RemovalReason::Source => "its source has it no more".to_owned(),
                    RemovalReason::Policy(refused) => refused,
                    RemovalReason::Moved(to) => format!("it is {to} now"),
                    RemovalReason::Decommissioned => "an admin ordered the removal of its backend".to_owned(),
                };
                reasons.push(format!("{key} is about to be deleted: {why}"));
                target.leaving().first().cloned().or_else(|| target.owner().cloned()).or_else(|| target.holder(key))
            }
            Ownership::Moving(claim, to) => {
                reasons
                    .push(format!("{key} stands for {claim}, which leads to {to} now; it stays until that is there"));
                Some(claim)
            }
            Ownership::Frozen(claim) => {
                let name = &claim.backend;
                reasons.push(format!("{key} is {claim}'s, and backend {name} is in quarantine: it stays as it is"));
                Some(claim)
            }
            Ownership::Kept(why) => {
                reasons.push(format!("{key} stays as it is: {why}"));
                target.observed().owner().and_then(|(label, source)| {
                    BackendName::parse(label).ok().map(|backend| Claim { backend, key: source.clone() })
                })
            }
            Ownership::Vacant => {
                reasons.push(format!("{key} does not exist and no backend wants it"));
                None
            }
        };
        if let Some(backend) = claim.as_ref().and_then(|claim| self.desired.get(&claim.backend)) {
            let trouble = backend.trouble();
            if !trouble.is_empty() {
                reasons.push(format!("backend {}: {trouble}", backend.name()));
            }
        }
        if !self.cluster.has_namespace(&key.namespace) {
            reasons.push(format!("namespace {} does not exist in the Gimbal cluster", key.namespace));
        }
        let status = claim.as_ref().and_then(|claim| self.status(claim));
        if let Some(reject) = status.as_ref().and_then(|status| status.reject.as_ref()) {
            reasons.push(format!("rejected ({}): {}", reject.reason.as_str(), reject.message));
        }
        if let Some((service, backend)) = status
            .as_ref()
            .and_then(|status| Some((status.service.as_deref()?, self.desired.get(&status.claim.backend)?)))
        {
            reasons.extend(gimbal_plan::left_out(service, &backend.policy().rules(self.desired.api())));
        }
        if target.failures() > 0 {
            reasons.push(format!("{} tries in a row failed; it is tried again", target.failures()));
        }
        reasons.push(if target.has_converged() {
            format!(
                "{} endpoints are in the Gimbal cluster; nothing is left to write",
                target.observed().endpoint_count()
            )
        } else {
            format!(
                "{} endpoints are in the Gimbal cluster; a write is waiting or under way",
                target.observed().endpoint_count()
            )
        });
        let others = target.claims().iter().filter(|other| Some(*other) != claim.as_ref()).cloned().collect();
        let planned = self.preview_of(key);
        let progress = match &claim {
            Some(claim) => self.progress(claim, Some(target)),
            None => TargetProgress::default(),
        };
        Explanation { status, target: Some(key.clone()), progress, holder: claim, reasons, others, planned }
    }

    /// Returns how far a source Service has come, with the writes of its target.
    fn progress(&self, claim: &Claim, target: Option<&Target>) -> TargetProgress {
        let backend = self.desired.get(&claim.backend);
        let writes = target.map(Target::writes);
        TargetProgress {
            carried: backend.and_then(|backend| backend.end().carried_by(&claim.key)),
            last_write: writes.and_then(|writes| writes.last().cloned()),
            written: writes.and_then(|writes| writes.accepted()),
        }
    }
}
