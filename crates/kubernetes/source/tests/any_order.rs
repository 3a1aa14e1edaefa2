//! Whatever the order of events, the end is what the last state of each object makes of a fresh index.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{at, list_nothing, service, slice};
use gimbal_kubernetes_source::{KubernetesIndex, Selection};
use gimbal_model::{Service, SourceKey};
use proptest::prelude::*;
use serde_json::json;

/// The source as it really is.
#[derive(Debug, Clone, Default)]
struct Source {
    services: BTreeMap<u8, u8>,
    slices: BTreeMap<u8, (u8, u8)>,
}

#[derive(Debug, Clone)]
enum Step {
    SetService(u8, u8),
    DropService(u8),
    SetSlice(u8, u8, u8),
    DropSlice(u8),
    /// The watch of Services tells the next so many of its waiting events.
    TellServices(u8),
    TellSlices(u8),
    /// What waits is lost, and a list takes its place; it is broken off after so many objects, then begun anew.
    RelistServices(u8),
    RelistSlices(u8),
    /// The newest event once more.
    Repeat,
    Drain,
}

fn step() -> impl Strategy<Value = Step> {
    let n = 0u8..4;
    prop_oneof![
        4 => (n.clone(), 0u8..6).prop_map(|(a, b)| Step::SetService(a, b)),
        2 => n.clone().prop_map(Step::DropService),
        6 => (n.clone(), n.clone(), any::<u8>()).prop_map(|(a, b, c)| Step::SetSlice(a, b, c)),
        2 => n.clone().prop_map(Step::DropSlice),
        3 => n.clone().prop_map(Step::TellServices),
        3 => n.clone().prop_map(Step::TellSlices),
        1 => n.clone().prop_map(Step::RelistServices),
        1 => n.prop_map(Step::RelistSlices),
        1 => Just(Step::Repeat),
        2 => Just(Step::Drain),
    ]
}

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

type ServiceEvent = (u8, Option<u8>);
type SliceEvent = (u8, Option<(u8, u8)>);

/// An index behind two watches that lag.
struct Watched {
    source: Source,
    index: KubernetesIndex,
    services: Vec<ServiceEvent>,
    slices: Vec<SliceEvent>,
    last: (Option<ServiceEvent>, Option<SliceEvent>),
    offered: BTreeMap<SourceKey, Arc<Service>>,
}

impl Watched {
    fn service(&mut self, (name, state): ServiceEvent) {
        self.last.0 = Some((name, state));
        match state {
            Some(variant) => self.index.apply_service(make_service(name, variant)),
            None => self.index.delete_service("a", &format!("svc{name}")),
        }
    }

    fn slice(&mut self, (name, state): SliceEvent) {
        self.last.1 = Some((name, state));
        match state {
            Some((service, bits)) => self.index.apply_slice(make_slice(name, service, bits)),
            None => self.index.delete_slice("a", &format!("slice{name}")),
        }
    }

    fn tell_services(&mut self, count: usize) {
        let count = count.min(self.services.len());
        for event in self.services.drain(..count).collect::<Vec<_>>() {
            self.service(event);
        }
    }

    fn tell_slices(&mut self, count: usize) {
        let count = count.min(self.slices.len());
        for event in self.slices.drain(..count).collect::<Vec<_>>() {
            self.slice(event);
        }
    }

    fn relist_services(&mut self, broken_after: usize) {
        self.services.clear();
        self.last.0 = None;
        let all: Vec<_> = self.source.services.iter().map(|(name, variant)| (*name, Some(*variant))).collect();
        for count in [broken_after, all.len()] {
            self.index.begin_services();
            all.iter().take(count).for_each(|event| self.service(*event));
        }
        self.index.end_services();
    }

    fn relist_slices(&mut self, broken_after: usize) {
        self.slices.clear();
        self.last.1 = None;
        let all: Vec<_> = self.source.slices.iter().map(|(name, state)| (*name, Some(*state))).collect();
        for count in [broken_after, all.len()] {
            self.index.begin_slices();
            all.iter().take(count).for_each(|event| self.slice(*event));
        }
        self.index.end_slices();
    }

    fn drain(&mut self) {
        for (key, service) in self.index.drain() {
            match service {
                Some(service) => drop(self.offered.insert(key, service)),
                None => drop(self.offered.remove(&key)),
            }
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::SetService(name, variant) => {
                self.source.services.insert(name, variant);
                self.services.push((name, Some(variant)));
            }
            Step::DropService(name) => {
                self.source.services.remove(&name);
                self.services.push((name, None));
            }
            Step::SetSlice(name, service, bits) => {
                self.source.slices.insert(name, (service, bits));
                self.slices.push((name, Some((service, bits))));
            }
            Step::DropSlice(name) => {
                self.source.slices.remove(&name);
                self.slices.push((name, None));
            }
            Step::TellServices(count) => self.tell_services(count.into()),
            Step::TellSlices(count) => self.tell_slices(count.into()),
            Step::RelistServices(count) => self.relist_services(count.into()),
            Step::RelistSlices(count) => self.relist_slices(count.into()),
            Step::Repeat => {
                if let Some(event) = self.last.0 {
                    self.service(event);
                }
                if let Some(event) = self.last.1 {
                    self.slice(event);
                }
            }
            Step::Drain => self.drain(),
        }
    }
}

proptest! {
    #[test]
    fn ends_as_a_fresh_index(steps in proptest::collection::vec(step(), 0..80)) {
        let mut index = KubernetesIndex::new(Selection::default());
        list_nothing(&mut index);
        let mut watched = Watched {
            source: Source::default(), index, services: Vec::new(), slices: Vec::new(), last: (None, None),
            offered: BTreeMap::new(),
        };
        for step in steps {
            watched.step(step);
        }
        watched.tell_services(usize::MAX);
        watched.tell_slices(usize::MAX);
        watched.drain();

        let mut fresh = KubernetesIndex::new(Selection::default());
        fresh.begin_slices();
        for (name, (service, bits)) in &watched.source.slices {
            fresh.apply_slice(make_slice(*name, *service, *bits));
        }
        fresh.end_slices();
        fresh.begin_services();
        for (name, variant) in &watched.source.services {
            fresh.apply_service(make_service(*name, *variant));
        }
        fresh.end_services();
        let expected: BTreeMap<_, _> =
            fresh.drain().into_iter().filter_map(|(key, service)| Some((key, service?))).collect();
        prop_assert_eq!(watched.offered, expected);
        prop_assert_eq!(watched.index.skipped(), fresh.skipped());
    }
}
