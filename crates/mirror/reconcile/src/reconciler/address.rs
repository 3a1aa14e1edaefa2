//! Explains where one address of a Service is, and why it is there or absent.

use std::collections::BTreeSet;
use std::net::IpAddr;

use gimbal_model::{AddressObject, AddressRefusal, Conditions, Family, Service};
use gimbal_session::{Reject, RejectReason};

use crate::{Backend, Decommission, Explanation, Reconciler, Stage};

/// What is known of one address of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressExplanation {
    /// The address.
    pub address: IpAddr,
    /// Its endpoint as the agent sent it last: the best, if several sets of ports have one. `None`: none has.
    pub sent: Option<Conditions>,
    /// The objects in the Gimbal cluster that have it.
    pub objects: Vec<AddressObject>,
    /// Why it is there or absent, as sentences in order.
    pub reasons: Vec<String>,
}

impl Reconciler {
    /// Explains an address of the Service that an explanation is about.
    #[must_use]
    pub fn explain_address(&self, explanation: &Explanation, address: IpAddr) -> AddressExplanation {
        let status = explanation.status.as_ref();
        let service = status.and_then(|status| status.service.as_deref());
        let sent = service.and_then(|service| service.conditions_at(address));
        let place = explanation.target.as_ref().and_then(|key| Some((key, self.targets.get(key)?)));
        // The objects of another claim say nothing of this one.
        let is_theirs = status.is_none_or(|status| explanation.holder.as_ref() == Some(&status.claim));
        let theirs = place.filter(|_| is_theirs);
        let objects =
            theirs.map(|(key, target)| target.observed().with_address(address, &key.name)).unwrap_or_default();
        let backend = status.and_then(|status| self.desired.get(&status.claim.backend));
        let facts = AddressFacts {
            address,
            service,
            sent,
            published: objects.iter().map(|object| object.conditions).reduce(Conditions::better),
            refusal: backend.and_then(|backend| backend.policy().addresses.check(address).err()),
            reject: status.and_then(|status| status.reject.as_ref()),
            removal: backend.filter(|backend| backend.is_being_decommissioned()).and_then(Backend::decommission),
            is_gone: backend.zip(status).is_some_and(|(backend, status)| backend.is_absent(&status.claim.key)),
            stage: place.map(|(_, target)| self.view().stage_of(target)).unwrap_or_default(),
            converged: place.is_some_and(|(_, target)| target.has_converged()),
        };
        AddressExplanation { address, sent, reasons: facts.reasons(), objects }
    }
}

/// What decides about an address.
#[derive(Debug, Clone, Copy)]
struct AddressFacts<'a> {
    address: IpAddr,
    /// As the agent sent it last.
    service: Option<&'a Service>,
    sent: Option<Conditions>,
    /// As in the Gimbal cluster.
    published: Option<Conditions>,
    /// Why the policy of the backend leaves it out, if it does.
    refusal: Option<AddressRefusal>,
    /// Why the Service is not published as the agent sent it.
    reject: Option<&'a Reject>,
    /// The removal of its backend, once the order is stored.
    removal: Option<Decommission>,
    /// Whether the source has said that its Service is gone.
    is_gone: bool,
    stage: Stage,
    /// Whether nothing is left to write.
    converged: bool,
}

impl AddressFacts<'_> {
    fn reasons(&self) -> Vec<String> {
        let ready = |conditions: Conditions| if conditions.ready { "ready" } else { "not ready" };
        let published = match (self.sent, self.published) {
            (None, None) => None,
            (Some(_), None) => Some(format!("it is not published: {}", self.cause())),
            (None, Some(_)) => Some(format!("it is still published: {}", self.cause())),
            (Some(sent), Some(published)) if sent.ready == published.ready => {
                Some("it is published as the agent sent it".to_owned())
            }
            (Some(_), Some(published)) => Some(format!("it is published as {}: {}", ready(published), self.cause())),
        };
        self.at_the_agent().into_iter().chain(published).collect()
    }

    /// Returns what there is to say of what the agent sent.
    fn at_the_agent(&self) -> Option<String> {
        let Some(service) = self.service else { return Some("the agent has sent no such Service".to_owned()) };
        match self.sent {
            Some(sent) if sent.ready => None,
            Some(sent) if sent.terminating => Some("it is terminating, and not ready, in the source".to_owned()),
            Some(_) => Some("it is not ready in the source".to_owned()),
            None => {
                let families: BTreeSet<Family> =
                    service.endpoints().map(|(_, endpoint)| Family::of(endpoint.address)).collect();
                Some(match families.first() {
                    None => "the agent sent no endpoints at all".to_owned(),
                    Some(only) if !families.contains(&Family::of(self.address)) => {
                        format!("the agent sent endpoints of {} only", only.as_str())
                    }
                    Some(_) => match service.endpoint_count() {
                        1 => "the agent sent one endpoint, with another address".to_owned(),
                        count => format!("the agent sent {count} endpoints, and none with this address"),
                    },
                })
            }
        }
    }

    /// Returns why the Gimbal cluster has something else than the agent sent. What was decided about the address alone
    /// comes first, then what was decided about its Service.
    fn cause(&self) -> String {
        if let Some(refusal) = self.refusal.filter(|_| self.sent.is_some()) {
            return format!("{} {refusal}", self.address);
        }
        // Refused addresses are others: the rest of the Service is published.
        if let Some(reject) = self.reject.filter(|reject| reject.reason != RejectReason::AddressRefused) {
            return format!("its Service is rejected ({}): {}", reject.reason.as_str(), reject.message);
        }
        match self.removal {
            Some(Decommission::MakingNotReady { .. } | Decommission::NotReady { .. }) => {
                return "the removal of its backend is approved: its endpoints are not ready, and are deleted later (onRemoval.notReadyFor)".into();
            }
            Some(Decommission::Running { .. }) => return "its backend is being removed, and this with it".into(),
            Some(Decommission::Ordered { .. }) | None => {}
        }
        match self.stage {
            Stage::NotReady => return "its backend is lost: its endpoints are not ready (onLoss.notReadyAfter)".into(),
            Stage::Drained => return "its backend is lost: its endpoints were removed (onLoss.drainAfter)".into(),
            Stage::Hold => {}
        }
        match (self.service, self.converged) {
            (None, _) if self.is_gone => {
                "the agent has said that its Service is gone: a write is waiting or under way".to_owned()
            }
            (None, _) => "no agent has said that it is gone, so what was last known stays".to_owned(),
            (Some(_), false) => "a write is waiting or under way".to_owned(),
            (Some(_), true) => "the API server stores another form than was sent, and that is accepted".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
