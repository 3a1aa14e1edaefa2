//! The order of events does not matter.

use std::sync::Arc;

use gimbal_kubernetes_join::test_support::{Index, ends_as_a_fresh_index, steps};
use gimbal_kubernetes_objects::{BalancedService, BalancedSlice};
use gimbal_kuryr_crd::KuryrLoadBalancer;
use gimbal_kuryr_model::DesiredMembers;
use gimbal_kuryr_translate::{
    ControllerSettings, Input, Joined, NodeChange, Nodes, ServiceIndex, Streamed, Translated, desired, translate,
};
use gimbal_model::SourceKey;
use proptest::prelude::*;
use serde_json::json;

use crate::common::{facts, joined, node, object, pod, service, slice, translated};

struct Watched(ServiceIndex);

fn a_service(name: u8, variant: u8) -> BalancedService {
    let ports = json!([
        {"name": "http", "port": 80 + i32::from(variant), "targetPort": "web", "nodePort": 30080},
        {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
    ]);
    let mut object = service(json!({"ports": ports}), json!({"openstack.org/kuryr-timeout-client-data": "soon"}));
    object.metadata.meta.name = format!("web-{name}").as_str().into();
    object
}

fn a_slice(name: u8, service: u8, variant: u8) -> BalancedSlice {
    let endpoints = (0..variant % 4).map(|n| pod(&format!("10.1.{name}.{n}"), &format!("web-{name}-{n}"))).collect();
    let mut object = slice(&format!("slice-{name}"), serde_json::Value::Array(endpoints));
    object.metadata.labels.insert("kubernetes.io/service-name".into(), format!("web-{service}").as_str().into());
    object
}

fn both(joined: &Joined) -> (Translated, Streamed) {
    let translated = translated(joined, &Nodes::default(), Some(&facts()));
    let desired = desired(&object(translated.spec.clone()), &facts()).unwrap();
    (translated, desired)
}

impl Index for Watched {
    type Value = (Translated, Streamed);
    type Counts = ();

    fn new() -> Self {
        Self(ServiceIndex::default())
    }
    fn service(&mut self, name: u8, variant: Option<u8>) {
        match variant {
            Some(variant) => self.0.apply_service(a_service(name, variant)),
            None => self.0.delete_service("team", &format!("web-{name}")),
        }
    }
    fn part(&mut self, name: u8, state: Option<(u8, u8)>) {
        match state {
            Some((service, variant)) => self.0.apply_slice(a_slice(name, service, variant)),
            None => self.0.delete_slice("team", &format!("slice-{name}")),
        }
    }
    fn begin_services(&mut self) {
        self.0.begin_services();
    }
    fn end_services(&mut self) {
        self.0.end_services();
    }
    fn begin_parts(&mut self) {
        self.0.begin_slices();
    }
    fn end_parts(&mut self) {
        self.0.end_slices();
    }
    fn drain(&mut self) -> Vec<(SourceKey, Option<Self::Value>)> {
        self.0.drain().into_iter().map(|(key, joined)| (key, joined.as_ref().map(both))).collect()
    }
    fn counts(&self) {}
}

/// An endpoint by address, condition and port.
fn any_slices() -> impl Strategy<Value = Vec<BalancedSlice>> {
    let endpoint = (0u8..8, 0u8..4).prop_map(|(last, condition)| {
        let mut endpoint = pod(&format!("10.1.0.{last}"), &format!("web-{last}"));
        endpoint["conditions"] = [
            json!({}),
            json!({"ready": true}),
            json!({"ready": false}),
            json!({"ready": false, "serving": true, "terminating": true}),
        ][usize::from(condition)]
        .clone();
        endpoint
    });
    let endpoints = proptest::collection::vec(endpoint, 0..5);
    proptest::collection::vec(endpoints, 0..4).prop_map(|all| {
        let slices = all.into_iter().enumerate();
        slices.map(|(n, endpoints)| slice(&format!("slice-{n}"), json!(endpoints))).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_events_ends_in_the_same_spec(steps in steps(3)) {
        ends_as_a_fresh_index::<Watched>(steps)?;
    }

    /// What the API server gives back, translated again, is what it was; and so is what is streamed.
    #[test]
    fn translating_again_changes_nothing(slices in any_slices()) {
        let joined = joined(service(json!({}), json!({})), slices);
        let (translated, wanted) = both(&joined);
        let stored: KuryrLoadBalancer =
            serde_json::from_str(&serde_json::to_string(&object(translated.spec.clone())).unwrap()).unwrap();
        prop_assert_eq!(&stored.spec, &translated.spec);
        prop_assert_eq!(&desired(&stored, &facts()).unwrap(), &wanted);
        let settings = ControllerSettings::default();
        let input = Input {
            joined: &joined, nodes: &Nodes::default(), facts: Some(&facts()), settings: &settings, exists: true, chosen: None,
        };
        prop_assert_eq!(translate(&input).unwrap(), translated);
    }

    /// Nothing that serves is lost on the way, and nothing that does not is kept.
    #[test]
    fn every_endpoint_that_serves_is_a_member(slices in any_slices()) {
        let (_, wanted) = both(&joined(service(json!({}), json!({})), slices.clone()));
        let endpoints = || slices.iter().flat_map(|slice| &slice.endpoints);
        let weight = |last: u8| {
            let of_address = endpoints().filter(|one| *one.addresses[0] == *format!("10.1.0.{last}"));
            let weight = |one: &gimbal_kubernetes_objects::BalancedEndpoint| match one.conditions.ready {
                None | Some(true) => Some(1),
                Some(false) => (one.conditions.terminating == Some(true)).then_some(0),
            };
            of_address.filter_map(weight).max()
        };
        let expected: Vec<(String, u8)> = (0..8).filter_map(|last| Some((format!("10.1.0.{last}"), weight(last)?))).collect();
        let members: &DesiredMembers = &wanted.wanted.members;
        let found: Vec<_> = members.as_slice().iter().map(|one| (one.id.address.to_string(), one.weight)).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn the_order_of_nodes_does_not_matter(order in Just((0..6u8).collect::<Vec<_>>()).prop_shuffle()) {
        let apply = |order: &[u8]| {
            let mut nodes = Nodes::default();
            for n in order {
                assert_eq!(nodes.apply(&node(&format!("node-{n}"), &format!("10.0.0.{n}"))), NodeChange::Members);
            }
            translated(&joined(service(json!({}), json!({})), Vec::new()), &nodes, Some(&crate::common::node_facts()))
        };
        prop_assert_eq!(apply(&order), apply(&[0, 1, 2, 3, 4, 5]));
    }
}

#[test]
fn a_slice_before_its_service_and_a_label_that_is_not_read() {
    let mut index = ServiceIndex::default();
    index.begin_services();
    index.begin_slices();
    index.apply_slice(a_slice(1, 1, 1));
    index.apply_service(a_service(1, 0));
    index.end_slices();
    assert!(!index.is_complete() && index.drain().is_empty());
    index.end_services();
    let drained = index.drain();
    let [(key, Some(joined))] = drained.as_slice() else { panic!("{drained:?}") };
    assert_eq!(joined.slices.len(), 1);
    assert_eq!(index.get(key).as_ref(), Some(joined));
    let mut labelled = a_service(1, 0);
    labelled.metadata.meta.labels.insert("a".into(), "b".into());
    index.apply_service(labelled);
    assert!(index.drain().is_empty());
    assert!(Arc::strong_count(&joined.service) > 0);
}
