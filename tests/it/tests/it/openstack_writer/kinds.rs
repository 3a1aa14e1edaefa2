//! Whether these tests know every kind of change that openstack-writer makes.

use gimbal_kuryr_model::CertificateHash;
use gimbal_octavia_plan::{ApiService, ApiVerb, CloudChange, SecretPayload};
use gimbal_testkit::openstack::Service;
use regex::Regex;
use serde_json::Value;

use super::trouble::Kind;
use super::{routes, trouble};
use crate::openstack_traffic::replacement::FAILS_OVER;

/// The first change, and the one after each: a kind that is added has to find a place here.
fn next(last: Option<&CloudChange>) -> Option<CloudChange> {
    use CloudChange as C;
    let id = || "1".to_owned();
    let (pool, policy, body, fields, tags, revision) = (id(), id(), Value::Null, Value::Null, Value::Null, None);
    Some(match last {
        None => C::CreatePort { body },
        Some(C::CreatePort { .. }) => C::UpdatePort { id: id(), revision, fields },
        Some(C::UpdatePort { .. }) => C::TagPort { id: id(), tags },
        Some(C::TagPort { .. }) => C::DeletePort { id: id() },
        Some(C::DeletePort { .. }) => C::CreateBalancer { body },
        Some(C::CreateBalancer { .. }) => C::UpdateBalancer { id: id(), fields },
        Some(C::UpdateBalancer { .. }) => C::DeleteBalancer { id: id() },
        Some(C::DeleteBalancer { .. }) => C::FailoverBalancer { id: id() },
        Some(C::FailoverBalancer { .. }) => C::CreateListener { body },
        Some(C::CreateListener { .. }) => C::UpdateListener { id: id(), fields },
        Some(C::UpdateListener { .. }) => C::DeleteListener { id: id() },
        Some(C::DeleteListener { .. }) => C::CreatePolicy { body },
        Some(C::CreatePolicy { .. }) => C::UpdatePolicy { id: id(), fields },
        Some(C::UpdatePolicy { .. }) => C::DeletePolicy { id: id() },
        Some(C::DeletePolicy { .. }) => C::CreateRule { policy, body },
        Some(C::CreateRule { .. }) => C::CreatePool { body },
        Some(C::CreatePool { .. }) => C::UpdatePool { id: id(), fields },
        Some(C::UpdatePool { .. }) => C::DeletePool { id: id() },
        Some(C::DeletePool { .. }) => C::CreateMonitor { pool, body },
        Some(C::CreateMonitor { .. }) => C::UpdateMonitor { pool, id: id(), fields },
        Some(C::UpdateMonitor { .. }) => C::DeleteMonitor { pool, id: id() },
        Some(C::DeleteMonitor { .. }) => C::SetMembers { pool, members: Vec::new(), additive: false },
        Some(C::SetMembers { .. }) => C::CreateMember { pool, body },
        Some(C::CreateMember { .. }) => C::UpdateMember { pool, id: id(), fields },
        Some(C::UpdateMember { .. }) => C::DeleteMember { pool, id: id() },
        Some(C::DeleteMember { .. }) => C::CreateFloatingIp { body },
        Some(C::CreateFloatingIp { .. }) => C::UpdateFloatingIp { id: id(), revision, fields },
        Some(C::UpdateFloatingIp { .. }) => C::TagFloatingIp { id: id(), tags },
        Some(C::TagFloatingIp { .. }) => C::DeleteFloatingIp { id: id() },
        Some(C::DeleteFloatingIp { .. }) => {
            let (hash, payload) = (CertificateHash::from_bytes([0; 32]), SecretPayload::new(Vec::new().into()));
            C::CreateSecret { project: id(), name: id(), hash, payload }
        }
        Some(C::CreateSecret { .. }) => C::DeleteSecret { id: id() },
        Some(C::DeleteSecret { .. }) => return None,
    })
}

/// Service, method and path of the request that a change is.
fn call(change: &CloudChange) -> (Service, &'static str, String) {
    let call = change.request();
    let service = match call.service {
        ApiService::Octavia => Service::Octavia,
        ApiService::Neutron => Service::Neutron,
        ApiService::KeyManager => Service::Barbican,
    };
    let method = match call.verb {
        ApiVerb::Create => "POST",
        ApiVerb::Update => "PUT",
        ApiVerb::Delete => "DELETE",
    };
    (service, method, format!("/{}", call.path))
}

#[test]
fn the_answer_to_each_kind_of_change_is_lost_in_some_test() {
    let calls: Vec<_> =
        std::iter::successors(next(None), |last| next(Some(last))).map(|change| call(&change)).collect();
    let kinds: Vec<Kind> = [trouble::KINDS.concat(), routes::KINDS.concat(), vec![FAILS_OVER]].concat();
    let is_of = |call: &(Service, &str, String), (service, method, path): &Kind| {
        (call.0, call.1) == (*service, *method) && Regex::new(path).unwrap().is_match(&call.2)
    };
    let missing: Vec<_> = calls.iter().filter(|call| !kinds.iter().any(|kind| is_of(call, kind))).collect();
    assert!(missing.is_empty(), "no test loses the answers to these: {missing:#?}");
    let unknown: Vec<_> = kinds.iter().filter(|kind| !calls.iter().any(|call| is_of(call, kind))).collect();
    assert!(unknown.is_empty(), "the writer makes no such calls: {unknown:#?}");
}
