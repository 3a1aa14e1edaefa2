//! What a payload adds so that a discoverer can offer it.

use std::net::IpAddr;

use gimbal_model::{BackendName, Conditions, Service, SourceKey, service_name};
use gimbal_session::{Payload, RejectReason, Services};
use gimbal_transport::{WirePayload, pb};

/// A payload that a discoverer can offer: it has a form on the wire, and its entries have a form in `InspectionService`,
/// metrics and logs.
///
/// Inspection names every entry by a namespace and a name. A payload whose keys have more parts puts them into the name.
pub trait OfferedPayload: WirePayload {
    /// What one entry is called in logs.
    const ENTRY: &'static str;

    /// Returns the name of an entry in inspection. Different keys have different names.
    fn shown_key(key: &Self::Key) -> SourceKey;

    /// Returns the key with this name in inspection; `None` if no key has it.
    fn key_shown_as(name: &SourceKey) -> Option<Self::Key>;

    /// Returns the object that the writer makes of an entry, as far as the discoverer knows it.
    fn target(backend: &BackendName, key: &Self::Key) -> pb::ServiceKey;

    /// Sets the fields of `status` that describe the content of an entry, such as its ports and how many of its parts are
    /// ready. All other fields are set already.
    fn describe(entry: &Self::Entry, status: &mut pb::ServiceStatus);

    /// Returns the conditions of an entry's part with this address: the best, if several have it. The default is for
    /// entries without addresses.
    fn conditions_at(_entry: &Self::Entry, _address: IpAddr) -> Option<Conditions> {
        None
    }

    /// Returns the name of a reason in metrics and logs.
    fn reason_name(reason: <Self as Payload>::Reason) -> &'static str;

    /// Returns the reason as inspection shows it.
    fn shown_reason(reason: <Self as Payload>::Reason) -> pb::RejectReason;
}

impl OfferedPayload for Services {
    const ENTRY: &'static str = "Service";

    fn shown_key(key: &SourceKey) -> SourceKey {
        key.clone()
    }

    fn key_shown_as(name: &SourceKey) -> Option<SourceKey> {
        Some(name.clone())
    }

    /// Returns the target that a Service has unless the writer's policy maps its namespace, which only the writer knows.
    fn target(backend: &BackendName, key: &SourceKey) -> pb::ServiceKey {
        pb::ServiceKey { namespace: key.namespace.to_string(), name: service_name(backend, &key.name) }
    }

    fn describe(service: &Service, status: &mut pb::ServiceStatus) {
        let ready = service.endpoints().filter(|(_, endpoint)| endpoint.conditions.ready).count();
        status.ready_endpoints = ready as u64;
        status.ports = service.header.ports.iter().map(Into::into).collect();
    }

    fn conditions_at(service: &Service, address: IpAddr) -> Option<Conditions> {
        service.conditions_at(address)
    }

    fn reason_name(reason: RejectReason) -> &'static str {
        reason.as_str()
    }

    fn shown_reason(reason: RejectReason) -> pb::RejectReason {
        reason.into()
    }
}
