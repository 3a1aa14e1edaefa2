//! Whatever the order of events, the index ends as a fresh one that lists the final state of the source.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{at, service, slice};
use gimbal_kubernetes_join::test_support::{Index, ends_as_a_fresh_index, steps};
use gimbal_kubernetes_source::{KubernetesIndex, Omission, Selection};
use gimbal_model::{Service, SourceKey};
use proptest::prelude::*;
use serde_json::json;

/// Variants 4 and 5 are not offered.
fn make_service(name: u8, variant: u8) -> gimbal_kubernetes_objects::Service {
    let mut object = service("a", &format!("svc{name}"));
    object.metadata.labels.insert("v".into(), variant.to_string().into());
    match variant {
        4 => object.spec.type_ = Some("ExternalName".into()),
        5 => drop(object.metadata.labels.insert("gimbal.projectcontour.io/backend".into(), "b".into())),
        _ => {}
    }
    object
}

/// Bits 0 to 3 choose endpoints, bit 4 makes them ready, bit 5 adds an unreadable one, bits 6 and 7 together make it FQDN.
fn make_slice(name: u8, service: u8, bits: u8) -> gimbal_kubernetes_objects::EndpointSlice {
    let endpoints: Vec<_> = (0..4)
        .filter(|host| bits & (1 << host) != 0)
        .map(|host| json!({"addresses": [format!("10.0.0.{host}")], "conditions": {"ready": bits & 16 != 0}}))
        .chain((bits & 32 != 0).then(|| at("unreadable")))
        .collect();
    let mut object = slice("a", &format!("slice{name}"), &format!("svc{service}"), json!(endpoints));
    if bits & 192 == 192 {
        object.address_type = "FQDN".into();
    }
    object
}

struct Slices(KubernetesIndex);

impl Index for Slices {
    type Value = Arc<Service>;
    type Counts = BTreeMap<Omission, u64>;

    fn new() -> Self {
        Self(KubernetesIndex::new(Selection::default()))
    }

    fn service(&mut self, name: u8, variant: Option<u8>) {
        match variant {
            Some(variant) => self.0.apply_service(make_service(name, variant)),
            None => self.0.delete_service("a", &format!("svc{name}")),
        }
    }

    fn part(&mut self, name: u8, state: Option<(u8, u8)>) {
        match state {
            Some((service, bits)) => self.0.apply_slice(make_slice(name, service, bits)),
            None => self.0.delete_slice("a", &format!("slice{name}")),
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

    fn drain(&mut self) -> Vec<(SourceKey, Option<Arc<Service>>)> {
        self.0.drain()
    }

    fn counts(&self) -> BTreeMap<Omission, u64> {
        self.0.skipped().clone()
    }
}

proptest! {
    #[test]
    fn services_do_not_depend_on_the_order_of_events(steps in steps(6)) {
        ends_as_a_fresh_index::<Slices>(steps)?;
    }
}
