//! Load balancers as the discoverer framework offers them.

use gimbal_discoverer::OfferedPayload;
use gimbal_kuryr_model::{DesiredEntry, DesiredKey, DesiredKind, LoadBalancerHeader};
use gimbal_model::{BackendName, SourceKey};
use gimbal_wire::pb;

use crate::{Kuryr, KuryrReason};

impl OfferedPayload for Kuryr {
    const ENTRY: &'static str = "load balancer";

    /// A load balancer has the name of its custom resource, and so of its Service; others have their kind before it.
    fn shown_key(key: &DesiredKey) -> SourceKey {
        match key.kind {
            DesiredKind::LoadBalancer => SourceKey::new(key.namespace.clone(), key.name.clone()),
            kind => SourceKey::new(key.namespace.clone(), format!("{}:{}", kind.as_str(), key.name)),
        }
    }

    fn key_shown_as(name: &SourceKey) -> Option<DesiredKey> {
        let SourceKey { namespace, name } = name;
        Some(match name.split_once(':') {
            // No name of an object has a colon.
            None => DesiredKey::new(DesiredKind::LoadBalancer, namespace.clone(), name.clone()),
            Some((kind, name)) => {
                let mut others = DesiredKind::ALL.into_iter().filter(|kind| *kind != DesiredKind::LoadBalancer);
                DesiredKey::new(others.find(|other| other.as_str() == kind)?, namespace.clone(), name)
            }
        })
    }

    /// Returns the name that the load balancer gets in OpenStack.
    fn target(_: &BackendName, key: &DesiredKey) -> pb::ServiceKey {
        let name = LoadBalancerHeader::display_name(&key.namespace, &key.name);
        pb::ServiceKey { namespace: String::new(), name }
    }

    fn describe(entry: &DesiredEntry, status: &mut pb::ServiceStatus) {
        let DesiredEntry::LoadBalancer(wanted) = entry else { return };
        let serving = wanted.members.as_slice().iter().filter(|member| member.weight > 0).count();
        status.ready_endpoints = serving as u64;
        let port = |listener: &gimbal_kuryr_model::ListenerWish| pb::ServicePort {
            name: listener.name.as_deref().unwrap_or_default().to_owned(),
            port: listener.id.port.into(),
            protocol: pb::Protocol::from(listener.id.protocol).into(),
            ..pb::ServicePort::default()
        };
        status.ports = wanted.header.listeners.iter().map(port).collect();
    }

    fn reason_name(reason: KuryrReason) -> &'static str {
        reason.as_str()
    }

    /// The message beside it says which policy.
    fn shown_reason(reason: KuryrReason) -> pb::RejectReason {
        match reason {
            KuryrReason::Invalid => pb::RejectReason::Invalid,
            KuryrReason::TooLarge => pb::RejectReason::TooLarge,
            KuryrReason::Unsupported => pb::RejectReason::Unsupported,
            KuryrReason::OwnerConflict => pb::RejectReason::NameConflict,
            KuryrReason::ProjectNotAllowed
            | KuryrReason::NetworkNotAllowed
            | KuryrReason::FloatingNotAllowed
            | KuryrReason::ProviderNotAllowed
            | KuryrReason::MemberNotAllowed
            | KuryrReason::SharingNotAllowed
            | KuryrReason::CertificateNotAllowed => pb::RejectReason::NotAllowed,
            KuryrReason::Quota => pb::RejectReason::Quota,
            KuryrReason::Quarantined => pb::RejectReason::Quarantined,
        }
    }
}
