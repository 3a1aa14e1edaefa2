use std::collections::BTreeMap;
use std::path::Path;

use http::{HeaderValue, header};
use serde_json::Value;

use super::*;

fn result(service: ServiceType, status: u16, headers: &[(header::HeaderName, &'static str)], body: &str) -> String {
    let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
    let status = StatusCode::from_u16(status).unwrap();
    let answer = RawAnswer { status, headers, body: Bytes::copy_from_slice(body.as_bytes()) };
    match MutationResult::of("POST http://o/v2/lbaas/pools", service, answer) {
        MutationResult::Accepted(_) => "accepted".into(),
        MutationResult::NotSent(_) => "not sent".into(),
        MutationResult::Refused(MutationRefusal { complaint, .. }) => format!("refused {complaint:?}"),
        MutationResult::ProviderFailed(_) => "provider failed".into(),
        MutationResult::Unknown(_) => "unknown".into(),
    }
}

const IMMUTABLE: &str =
    r#"{"faultcode":"Client","faultstring":"Load Balancer 1 is immutable and cannot be updated.","debuginfo":null}"#;
const NOT_FOUND: &str = r#"{"faultcode":"Client","faultstring":"Pool 1 not found.","debuginfo":null}"#;
const BUSY: &str =
    r#"{"faultcode":"Server","faultstring":"Project busy.  Unable to lock the project.","debuginfo":null}"#;
const OF_NEUTRON: &str =
    r#"{"NeutronError":{"type":"PortNotFound","message":"Port 1 could not be found.","detail":""}}"#;
const PLAIN: &str = r#"{"code":409,"title":"Conflict","description":"a secret is there"}"#;
const PAGE: &str = "<html>It works!</html>";

#[test]
fn only_an_answer_of_the_service_itself_counts_as_its_refusal() {
    for (status, body, expected) in [
        (201, r#"{"pool":{"id":"1"}}"#, "accepted"),
        (204, "", "accepted"),
        (200, PAGE, "unknown"),
        (302, "", "unknown"),
        (307, IMMUTABLE, "unknown"),
        (409, IMMUTABLE, "refused Some(Immutable)"),
        (409, PAGE, "unknown"),
        (404, NOT_FOUND, "refused None"),
        (404, PAGE, "unknown"),
        (429, PAGE, "unknown"),
        (502, BUSY, "unknown"),
        (503, BUSY, "refused Some(ProjectBusy)"),
        (503, PAGE, "unknown"),
        (504, BUSY, "unknown"),
        (401, PAGE, "refused None"),
    ] {
        assert_eq!(result(ServiceType::LoadBalancer, status, &[], body), expected, "{status} {body}");
    }
    let throttled = [(header::RETRY_AFTER, "7")];
    assert_eq!(result(ServiceType::LoadBalancer, 429, &throttled, PAGE), "refused Some(Busy)");
}

/// Octavia has undone its own part by then; what the provider did, only a look shows. That one node of Octavia has no driver says
/// nothing about what the provider can do.
#[test]
fn a_driver_that_failed_may_have_made_the_change() {
    for (status, words, expected) in [
        (500, "Provider 'lab' reports error: it broke", "provider failed"),
        (500, "no idea", "unknown"),
        (501, "Provider 'lab' was not found.", "provider failed"),
        (
            501,
            "Provider 'lab' does not support a requested option: flavor 1 was not found.",
            "refused Some(Unsupported",
        ),
        (501, "Provider 'lab' does not support a requested action: failover", "refused Some(Unsupported"),
    ] {
        let body = serde_json::json!({"faultcode": "Server", "faultstring": words, "debuginfo": null}).to_string();
        let result = result(ServiceType::LoadBalancer, status, &[], &body);
        assert!(result.starts_with(expected), "{status} {words}: {result}");
    }
}

/// Gateways write JSON, too, and may do so while the service still works on the change.
#[test]
fn a_gateways_json_is_not_the_services_answer() {
    for body in [
        r#"{"message":"no Route matched with those values"}"#,
        r#"{"error_msg":"404 Route Not Found"}"#,
        r#"{"error":"timeout"}"#,
        r#"{"error":{"message":"upstream request timeout"}}"#,
        r#"{"code":404,"message":"not found","description":"gateway"}"#,
        r#"{"faultstring":"Request timed out"}"#,
        r#"{"NeutronError":"what an old proxy made of it"}"#,
    ] {
        for status in [400, 403, 404, 409, 412, 501, 503] {
            assert_eq!(result(ServiceType::LoadBalancer, status, &[], body), "unknown", "{status} {body}");
        }
    }
    for body in [IMMUTABLE, OF_NEUTRON, r#"{"error":{"code":408,"title":"Request Timeout","message":"slow"}}"#] {
        assert_eq!(result(ServiceType::LoadBalancer, 408, &[], body), "unknown", "{body}");
    }
}

/// The middleware before Octavia and Neutron answers in plain text, a proxy with a page.
#[test]
fn a_request_that_is_too_large_is_refused_by_whoever_says_so() {
    for body in ["413 Content Too Large\n\nRequest is too large.\n\n", "<html>413</html>", ""] {
        assert_eq!(result(ServiceType::LoadBalancer, 413, &[], body), "refused None", "{body}");
    }
}

#[test]
fn each_service_has_a_form_of_its_own() {
    use ServiceType::{KeyManager, LoadBalancer, Network};
    for (service, status, body, expected) in [
        (Network, 404, OF_NEUTRON, "refused None"),
        (Network, 409, IMMUTABLE, "unknown"),
        (LoadBalancer, 404, OF_NEUTRON, "refused None"),
        (KeyManager, 409, PLAIN, "refused None"),
        (LoadBalancer, 409, PLAIN, "refused None"),
        (LoadBalancer, 404, PLAIN, "unknown"),
        (Network, 409, PLAIN, "unknown"),
    ] {
        assert_eq!(result(service, status, &[], body), expected, "{service:?} {body}");
    }
}

#[test]
fn a_key_managers_words_are_left_out() {
    let echo = r#"{"code":400,"title":"Bad Request","description":"very-secret is not base64"}"#;
    assert_eq!(result(ServiceType::KeyManager, 400, &[], echo), r#"refused Some(Validation { detail: "" })"#);
    let answer = RawAnswer {
        status: StatusCode::BAD_REQUEST,
        headers: HeaderMap::new(),
        body: Bytes::from_static(echo.as_bytes()),
    };
    let shown = format!("{:?}", MutationResult::of("POST http://b/v1/secrets", ServiceType::KeyManager, answer));
    assert!(!shown.contains("very-secret"), "{shown}");
}

/// The answers of the real Octavia and Neutron, as the test `changes_in_a_real_cloud` has recorded them.
const RECORDED: [(&str, &str); 33] = [
    ("address-in-use", "refused Some(InUse)"),
    ("delete-of-what-is-gone", "refused None"),
    ("delete-while-pending", "refused Some(InvalidState)"),
    ("delete-without-cascade", "refused Some(Validation"),
    ("duplicate-listener", "refused Some(Duplicate)"),
    ("duplicate-member", "refused Some(Duplicate)"),
    ("duplicate-monitor", "refused Some(Duplicate)"),
    ("duplicate-rule", "refused Some(Duplicate)"),
    ("group-in-use", "refused Some(InUse)"),
    ("invalid-port", "refused Some(Validation"),
    ("load-balancer-while-pending", "refused Some(InvalidState)"),
    ("members-of-a-pool-that-is-gone", "refused None"),
    ("members-while-pending", "refused Some(Immutable)"),
    ("no-address", "refused Some(Exhausted"),
    ("no-floating-ip", "refused Some(Exhausted"),
    ("no-right", "refused None"),
    ("no-right-in-neutron", "refused None"),
    ("no-router", "refused Some(Unreachable"),
    ("outdated-revision", "refused Some(PreconditionFailed)"),
    ("pool-in-use-by-policy", "refused Some(PoolInUseByPolicy)"),
    ("port-that-is-gone", "refused None"),
    ("provider-failed", "provider failed"),
    ("quota-of-listeners", r#"refused Some(Quota { resource: "Listener" })"#),
    ("quota-of-load-balancers", r#"refused Some(Quota { resource: "Load Balancer" })"#),
    ("quota-of-networks", r#"refused Some(Quota { resource: "['network']" })"#),
    ("subnet-in-use", "refused Some(InUse)"),
    ("unknown-attribute", "refused Some(Validation"),
    ("unknown-provider", "refused Some(Validation"),
    ("unknown-subnet", "refused Some(Validation"),
    ("unknown-token", "refused None"),
    ("unknown-token-in-neutron", "refused None"),
    ("unsupported-option", "refused Some(Unsupported"),
    ("vip-address-in-use", "unknown"),
];

#[test]
fn what_real_services_answer() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/openstack/recorded/mutations");
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let recorded: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let of_octavia = recorded["request"].as_str().unwrap().contains(" /v2/lbaas/");
        let service = if of_octavia { ServiceType::LoadBalancer } else { ServiceType::Network };
        let status = u16::try_from(recorded["status"].as_u64().unwrap()).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        found.insert(name, result(service, status, &[], &recorded["body"].to_string()));
    }
    for (name, expected) in RECORDED {
        let result = found.remove(name).unwrap_or_else(|| panic!("{name} is not recorded"));
        assert!(result.starts_with(expected), "{name}: {result}");
    }
    assert!(found.is_empty(), "not expected: {found:?}");
}
