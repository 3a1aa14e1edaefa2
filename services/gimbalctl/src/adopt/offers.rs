//! What the writer says about the Services of a backend, as far as it decides about an adoption. No I/O.

use gimbal_wire::pb;

use super::decide::{AdoptionOffer, AdoptionOffers};
use crate::diff::Known;
use crate::services::message;

/// Returns what the backend offers, by the Service of the Gimbal cluster that each leads to.
pub fn offers(known: &Known) -> AdoptionOffers {
    let mut offers = AdoptionOffers::new();
    // Without a digest, the Gimbal cluster has it and no source offers it.
    for status in known.values().filter(|status| !status.digest.is_empty()) {
        let (Some(source), Some(target)) = (&status.source, &status.target) else { continue };
        let place = (target.namespace.clone(), target.name.clone());
        let synced = status.state() == pb::ServiceState::Synced;
        offers.entry(place).or_default().push(AdoptionOffer {
            name: source.name.clone(),
            refused: refused(status),
            synced,
        });
    }
    offers
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
            let found = offers(&[(service_id(&status), status)].into());
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
        assert!(offers(&[(service_id(&gone), gone)].into()).is_empty());
    }
}
