//! Objects that would become too large.

use std::sync::Arc;

use gimbal_kubernetes_objects::BalancedSlice;
use gimbal_kuryr_crd::{KlbPort, KuryrLoadBalancerSpec};
use gimbal_kuryr_translate::{
    Finding, LEAN_ABOVE, MOST_BYTES, MOST_LISTED, Nodes, NotStreamed, Translated, desired, encoded_len,
};
use serde_json::{Value, json};

use crate::common::{desired_of, facts, joined, object, pod, service, slice, spec_of, translated};

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

/// A Service with this many ports, and one slice that has all of them.
fn with_ports(ports: usize, endpoints: usize) -> KuryrLoadBalancerSpec {
    let port = |n| json!({"name": format!("p{n}"), "port": 1 + n, "protocol": "TCP", "targetPort": "80"});
    let of_slice = |n| json!({"name": format!("p{n}"), "port": 1 + n, "protocol": "TCP"});
    let endpoint = |n: usize| json!({"addresses": [format!("10.1.{}.{}", n / 250, n % 250)], "conditions": {}});
    let mut spec = serde_json::to_value(spec_of(json!({}), json!({})).spec).unwrap();
    spec["ports"] = (0..ports).map(port).collect();
    spec["endpointSlices"] = json!([{
        "endpoints": (0..endpoints).map(endpoint).collect::<Vec<_>>(),
        "ports": (0..ports).map(of_slice).collect::<Vec<_>>(),
    }]);
    serde_json::from_value(spec).unwrap()
}

#[test]
fn ports_and_endpoints_make_no_more_members_than_one_load_balancer_may_have() {
    let spec = with_ports(300, 1_000);
    let cut = desired_of(spec.clone());
    let members = cut.wanted.members.as_slice();
    assert_eq!(members.len(), 66 * 300, "whole endpoints");
    assert!(members.iter().any(|member| member.id.address.to_string() == "10.1.0.65"), "the first ones");
    let said: Vec<_> = cut.findings.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["66 of 1000 endpoints are kept: with its ports there would be more than 20000 members"]);
    assert_eq!((cut.findings[0].condition(), cut.findings[0].reason()), ("TooLarge", "TooManyMembers"));
    assert_eq!(desired_of(spec), cut, "the same cut each time");
    // As many as it may have.
    let whole = desired_of(with_ports(20, 1_000));
    assert_eq!((whole.wanted.members.as_slice().len(), whole.findings.len()), (20_000, 0));
    // While endpoints move to another slice, both have them.
    let mut twice = with_ports(20, 1_000);
    twice.endpoint_slices.push(twice.endpoint_slices[0].clone());
    assert_eq!(desired_of(twice), whole);
}

/// Makes a list of this length.
type List<'a> = &'a dyn Fn(&mut KuryrLoadBalancerSpec, usize);

#[test]
fn what_fits_in_no_frame_is_not_streamed() {
    let of = |change: &dyn Fn(&mut KuryrLoadBalancerSpec)| {
        let mut spec = spec_of(json!({}), json!({})).spec;
        change(&mut spec);
        desired(&object(spec), &facts()).map(|found| found.findings)
    };
    let range = |n: usize| format!("10.{}.{}.0/24", n / 256, n % 256).as_str().into();
    let ranges = |count: usize| -> Vec<Arc<str>> { (0..count).map(range).collect() };
    // Beside a port and a security group.
    let most = MOST_LISTED / 32 - 3;
    assert_eq!(of(&|spec| spec.source_ranges = Some(ranges(most))), Ok(vec![]));
    let error = of(&|spec| spec.source_ranges = Some(ranges(40_000))).unwrap_err();
    let said =
        "its 1 ports, 40000 source ranges and other lists take 1280073 bytes, and no more than 800000 can be sent";
    assert_eq!((error.to_string().as_str(), error.reason(), error.condition()), (said, "TooLarge", Some("TooLarge")));
    // Whatever the list is.
    let names = |count: usize| -> Vec<Arc<str>> { (0..count).map(|n| format!("{n:0100}").as_str().into()).collect() };
    let lists: [List<'_>; 5] = [
        &|spec, count| spec.security_groups_ids = names(count),
        &|spec, count| spec.additional_vip_subnet_ids = names(count),
        &|spec, count| spec.tls_container_refs = names(count),
        &|spec, count| spec.additional_ips = vec!["10.0.0.1".into(); 5 * count],
        &|spec, count| {
            let port = spec.ports[0].clone();
            let named = |(n, name)| KlbPort { name: Some(name), port: n, ..port.clone() };
            spec.ports = (1..).zip(names(count)).map(named).collect();
        },
    ];
    for (at, list) in lists.iter().enumerate() {
        assert_eq!(of(&|spec| list(spec, 4_900)), Ok(vec![]), "{at}");
        assert!(matches!(of(&|spec| list(spec, 6_200)), Err(NotStreamed::TooLarge { .. })), "{at}");
    }
}
