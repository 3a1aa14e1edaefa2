//! What the writer says about the Services of a backend, as far as it decides about an adoption. No I/O.

use gimbal_wire::pb;

use super::decide::{AdoptionOffer, AdoptionOffers};
use super::ports::offered;
use crate::diff::Known;
use crate::services::message;

/// A writer lists no more unknown parts of a source than this.
const LISTED: usize = 10;

/// Returns what the backend offers, by the Service of the Gimbal cluster that each leads to.
pub fn offers(backend: &pb::Backend, known: &Known) -> AdoptionOffers {
    let mut offers = AdoptionOffers::new();
    // Without a digest, the Gimbal cluster has it and no source offers it.
    for status in known.values().filter(|status| !status.digest.is_empty()) {
        let (Some(source), Some(target)) = (&status.source, &status.target) else { continue };
        let place = (target.namespace.clone(), target.name.clone());
        let synced = status.state() == pb::ServiceState::Synced;
        offers.entry(place).or_default().push(AdoptionOffer {
            namespace: source.namespace.clone(),
            name: source.name.clone(),
            refused: refused(status),
            synced,
            unknown: unknown(backend, &source.namespace),
            ports: offered(status),
        });
    }
    offers
}

/// Returns why the writer may hold something else of a namespace than the source has now. Its state of a Service does not say
/// that: what is held of a backend whose agent is gone counts as published as it is known.
fn unknown(backend: &pb::Backend, namespace: &str) -> Option<String> {
    if !backend.connected {
        return Some("no agent of the backend is connected".to_owned());
    }
    if !backend.complete {
        return Some("its agent has not sent everything yet".to_owned());
    }
    if backend.loss.as_ref().is_some_and(|loss| loss.source_silent_ms.is_some()) {
        return Some("its agent does not hear from it".to_owned());
    }
    let covers = |unknown: &&pb::UnknownScope| {
        let names = unknown.scope.as_ref().map_or(&[][..], |scope| scope.namespaces.as_slice());
        names.is_empty() || names.iter().any(|name| name == namespace)
    };
    // Beyond these there may be more, of any namespace.
    let mut any = backend.unknown.iter().filter(|_| backend.unknown.len() >= LISTED);
    backend.unknown.iter().find(covers).or_else(|| any.next()).map(|unknown| unknown.reason.clone())
}

/// Returns why the writer would not publish a Service though its name were free.
fn refused(status: &pb::ServiceStatus) -> Option<String> {
    if status.state() != pb::ServiceState::Rejected {
        return None;
    }
    match status.reject_reason() {
        // That the name is taken is what an adoption ends; quarantine is ended by a person; and an address that is refused keeps
        // no other from being published.
        pb::RejectReason::NameConflict | pb::RejectReason::Quarantined | pb::RejectReason::AddressRefused => None,
        _ => Some(message(status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::service_id;

    fn live() -> pb::Backend {
        pb::Backend { connected: true, complete: true, ..Default::default() }
    }

    fn status(name: &str, state: pb::ServiceState, reason: pb::RejectReason) -> pb::ServiceStatus {
        let key = |name: String| Some(pb::ServiceKey { namespace: "team1".into(), name });
        pb::ServiceStatus {
            backend: "node02".into(),
            source: key(name.to_owned()),
            target: key(format!("node02-{name}")),
            state: state.into(),
            reject_reason: reason.into(),
            message: "why".into(),
            digest: vec![1; 16],
            ..Default::default()
        }
    }

    #[test]
    fn only_what_is_wrong_with_the_service_itself_keeps_it() {
        use pb::{RejectReason, ServiceState};
        let cases = [
            (ServiceState::Synced, RejectReason::Unspecified, None, true),
            (ServiceState::Pending, RejectReason::Unspecified, None, false),
            (ServiceState::Rejected, RejectReason::NameConflict, None, false),
            (ServiceState::Rejected, RejectReason::Quarantined, None, false),
            (ServiceState::Rejected, RejectReason::AddressRefused, None, false),
            (ServiceState::Rejected, RejectReason::Quota, Some("quota: why"), false),
            (ServiceState::Rejected, RejectReason::NamespaceMissing, Some("namespace missing: why"), false),
        ];
        for (state, reason, refused, synced) in cases {
            let status = status("web", state, reason);
            let found = offers(&live(), &[(service_id(&status), status)].into());
            let offer = &found[&("team1".to_owned(), "node02-web".to_owned())][0];
            assert_eq!((&*offer.name, offer.refused.as_deref(), offer.synced), ("web", refused, synced), "{reason:?}");
        }
    }

    #[test]
    fn what_no_source_offers_is_no_offer() {
        let gone = pb::ServiceStatus {
            digest: Vec::new(),
            ..status("web", pb::ServiceState::Held, pb::RejectReason::Unspecified)
        };
        assert!(offers(&live(), &[(service_id(&gone), gone)].into()).is_empty());
    }

    /// A Service stays `Synced` while its agent is gone and the policy says hold.
    #[test]
    fn what_the_writer_knows_of_a_source_is_known_by_its_agent_alone() {
        let scope = |namespaces: &[&str]| pb::UnknownScope {
            scope: Some(pb::Scope { namespaces: namespaces.iter().map(ToString::to_string).collect() }),
            reason: "forbidden".into(),
        };
        let silent = pb::BackendLoss { source_silent_ms: Some(1), ..Default::default() };
        let many = (0..LISTED).map(|n| scope(&[&format!("n{n}")])).collect();
        for (backend, why) in [
            (live(), None),
            (pb::Backend { unknown: vec![scope(&["team2"])], ..live() }, None),
            (pb::Backend { connected: false, ..live() }, Some("no agent of the backend is connected")),
            (pb::Backend { complete: false, ..live() }, Some("its agent has not sent everything yet")),
            (pb::Backend { loss: Some(silent), ..live() }, Some("its agent does not hear from it")),
            (pb::Backend { unknown: vec![scope(&["team2", "team1"])], ..live() }, Some("forbidden")),
            (pb::Backend { unknown: vec![scope(&[])], ..live() }, Some("forbidden")),
            (pb::Backend { unknown: many, ..live() }, Some("forbidden")),
        ] {
            let status = status("web", pb::ServiceState::Synced, pb::RejectReason::Unspecified);
            let found = offers(&backend, &[(service_id(&status), status)].into());
            assert_eq!(found.values().next().unwrap()[0].unknown.as_deref(), why, "{backend:?}");
        }
    }
}
