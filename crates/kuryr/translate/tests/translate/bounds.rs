//! Objects that would become too large.

use gimbal_kubernetes_objects::BalancedSlice;
use gimbal_kuryr_crd::KuryrLoadBalancerSpec;
use gimbal_kuryr_translate::{Finding, LEAN_ABOVE, MOST_BYTES, Nodes, Translated, encoded_len};
use serde_json::{Value, json};

use crate::common::{facts, joined, pod, service, slice, translated};

fn of(slices: Vec<BalancedSlice>) -> Translated {
    translated(&joined(service(json!({}), json!({})), slices), &Nodes::default(), Some(&facts()))
}

/// Slices of up to 100 endpoints, as their controller makes them.
fn slices(endpoints: usize) -> Vec<BalancedSlice> {
    let pods: Vec<Value> =
        (0..endpoints).map(|n| pod(&format!("10.1.{}.{}", n / 250, n % 250), &format!("web-{n}"))).collect();
    pods.chunks(100).enumerate().map(|(n, pods)| slice(&format!("web-{n:03}"), json!(pods))).collect()
}

fn addresses(spec: &KuryrLoadBalancerSpec) -> Vec<&str> {
    spec.endpoint_slices.iter().flat_map(|slice| &slice.endpoints).map(|one| &*one.addresses[0]).collect()
}

#[test]
fn nothing_is_left_out_of_a_small_one() {
    let translated = of(slices(1_000));
    assert!(encoded_len(&translated.spec) < LEAN_ABOVE);
    let endpoint = &translated.spec.endpoint_slices[9].endpoints[99];
    assert!(endpoint.target_ref.is_some() && endpoint.node_name.is_some());
    assert_eq!(translated.findings, []);
}

#[test]
fn details_go_before_endpoints() {
    let translated = of(slices(5_000));
    let endpoints = || translated.spec.endpoint_slices.iter().flat_map(|slice| &slice.endpoints);
    assert!(endpoints().all(|one| one.target_ref.is_none() && one.node_name.is_none()));
    assert_eq!((endpoints().count(), translated.findings.len()), (5_000, 0));
}

#[test]
fn whole_endpoints_go_from_the_end_and_both_counts_are_said() {
    let all = slices(30_000);
    let translated = of(all.clone());
    let len = encoded_len(&translated.spec);
    assert!(len <= MOST_BYTES && len > MOST_BYTES - 10_000, "{len}");
    let kept = addresses(&translated.spec);
    let [Finding::TooLarge { kept: said, total }] = translated.findings.as_slice() else { panic!() };
    assert_eq!((*said, *total), (kept.len(), 30_000));
    let given: Vec<&str> = all.iter().flat_map(|slice| &slice.endpoints).map(|one| &*one.addresses[0]).collect();
    assert_eq!(kept, given[..kept.len()]);
    assert!(translated.spec.endpoint_slices.iter().all(|slice| !slice.endpoints.is_empty()));
    let message = translated.findings[0].to_string();
    assert!(message.starts_with(&format!("{} of 30000 endpoints are kept", kept.len())), "{message}");
    assert_eq!(of(all), translated, "the same cut each time");
}

#[test]
fn the_length_is_that_of_the_encoding() {
    let spec = of(slices(3)).spec;
    assert_eq!(encoded_len(&spec), serde_json::to_vec(&spec).unwrap().len());
}
