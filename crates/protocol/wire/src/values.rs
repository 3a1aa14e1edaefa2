//! Converts values of the model to protobuf messages, for the stream and for inspection.

use gimbal_model::{AddressObject, Conditions, EndpointPort, Protocol, ServicePort, SourceKey, TargetKey, TargetPort};
use gimbal_session::{Freshness, RejectReason, Scope, Summary};

use crate::parse::millis;
use crate::pb;

impl From<&SourceKey> for pb::ServiceKey {
    fn from(key: &SourceKey) -> Self {
        Self { namespace: key.namespace.to_string(), name: key.name.to_string() }
    }
}

impl From<&TargetKey> for pb::ServiceKey {
    fn from(key: &TargetKey) -> Self {
        Self { namespace: key.namespace.to_string(), name: key.name.to_string() }
    }
}

impl From<Protocol> for pb::Protocol {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Tcp => Self::Tcp,
            Protocol::Udp => Self::Udp,
            Protocol::Sctp => Self::Sctp,
        }
    }
}

impl From<&ServicePort> for pb::ServicePort {
    fn from(port: &ServicePort) -> Self {
        let ServicePort { name, port, protocol, app_protocol, target_port } = port;
        Self {
            name: name.to_string(),
            port: (*port).into(),
            protocol: pb::Protocol::from(*protocol).into(),
            app_protocol: app_protocol.as_deref().map(Into::into),
            target_port: target_port.as_ref().map(|target| match target {
                TargetPort::Number(number) => pb::service_port::TargetPort::TargetNumber((*number).into()),
                TargetPort::Name(name) => pb::service_port::TargetPort::TargetName(name.to_string()),
            }),
        }
    }
}

impl From<&EndpointPort> for pb::EndpointPort {
    fn from(port: &EndpointPort) -> Self {
        let EndpointPort { name, port, protocol, app_protocol } = port;
        Self {
            name: name.to_string(),
            port: port.map(Into::into),
            protocol: pb::Protocol::from(*protocol).into(),
            app_protocol: app_protocol.as_deref().map(Into::into),
        }
    }
}

impl From<Conditions> for pb::EndpointConditions {
    fn from(conditions: Conditions) -> Self {
        let Conditions { ready, serving, terminating } = conditions;
        Self { ready, serving, terminating }
    }
}

impl From<&AddressObject> for pb::AddressObject {
    fn from(object: &AddressObject) -> Self {
        let AddressObject { kind, name, conditions } = object;
        Self { kind: (*kind).to_owned(), name: name.to_string(), conditions: Some((*conditions).into()) }
    }
}

impl From<Summary> for pb::Summary {
    fn from(summary: Summary) -> Self {
        let Summary { count, digest } = summary;
        Self { count, digest: digest.to_bytes().to_vec() }
    }
}

impl From<&Freshness> for pb::SourceFreshness {
    fn from(freshness: &Freshness) -> Self {
        Self { kind: freshness.kind.clone(), age_ms: freshness.age.map(|age| millis(age, u64::MAX)) }
    }
}

impl From<&Scope> for pb::Scope {
    /// A scope without any namespace is sent as the namespace "", which the receiver refuses. An empty list would mean
    /// everything, and the end of such a snapshot would delete everything.
    fn from(scope: &Scope) -> Self {
        let namespaces = match scope {
            Scope::All => Vec::new(),
            Scope::Namespaces(none) if none.is_empty() => vec![String::new()],
            Scope::Namespaces(namespaces) => namespaces.iter().map(ToString::to_string).collect(),
        };
        Self { namespaces }
    }
}

impl From<RejectReason> for pb::RejectReason {
    fn from(reason: RejectReason) -> Self {
        match reason {
            RejectReason::NameConflict => Self::NameConflict,
            RejectReason::NamespaceMissing => Self::NamespaceMissing,
            RejectReason::NamespaceForbidden => Self::NamespaceForbidden,
            RejectReason::AddressRefused => Self::AddressRefused,
            RejectReason::Invalid => Self::Invalid,
            RejectReason::Unsupported => Self::Unsupported,
            RejectReason::TooLarge => Self::TooLarge,
            RejectReason::Quota => Self::Quota,
            RejectReason::ApiError => Self::ApiError,
            RejectReason::Held => Self::Held,
            RejectReason::Quarantined => Self::Quarantined,
        }
    }
}
