//! A property that every [`JoinOutput`](crate::JoinOutput) must have: the order of events does not matter.

use std::collections::BTreeMap;
use std::fmt::Debug;

use gimbal_model::SourceKey;
use proptest::prelude::*;

/// An index under test. Services and parts are known by small numbers; a `variant` is the content of an object.
pub trait Index {
    /// What the index yields for a Service.
    type Value: PartialEq + Debug;
    /// Whatever else must be the same in the end, for instance counts.
    type Counts: PartialEq + Debug;

    /// Returns an index that has seen nothing.
    fn new() -> Self;
    /// Applies or, with `None`, deletes a Service.
    fn service(&mut self, name: u8, variant: Option<u8>);
    /// Applies or, with `None`, deletes a part. With the variant comes the name of the Service that it belongs to.
    fn part(&mut self, name: u8, state: Option<(u8, u8)>);
    /// Begins a list of Services.
    fn begin_services(&mut self);
    /// Ends a list of Services.
    fn end_services(&mut self);
    /// Begins a list of parts.
    fn begin_parts(&mut self);
    /// Ends a list of parts.
    fn end_parts(&mut self);
    /// Returns the Services that changed.
    fn drain(&mut self) -> Vec<(SourceKey, Option<Self::Value>)>;
    /// What is counted now.
    fn counts(&self) -> Self::Counts;
}

/// What happens in the source, or between it and the index.
#[derive(Debug, Clone)]
pub enum JoinStep {
    /// A Service of this name and variant is created or changed.
    SetService(u8, u8),
    /// A Service is deleted.
    DropService(u8),
    /// A part of this name, Service and variant is created or changed.
    SetPart(u8, u8, u8),
    /// A part is deleted.
    DropPart(u8),
    /// The watch of Services delivers this many of its pending events.
    DeliverServices(u8),
    /// The watch of parts delivers this many of its pending events.
    DeliverParts(u8),
    /// The pending events of Services are lost and a list takes their place. The list fails after this many objects and is
    /// begun again.
    RelistServices(u8),
    /// The same of parts.
    RelistParts(u8),
    /// The last event of each watch is delivered again.
    Repeat,
    /// The index is drained.
    Drain,
}

/// Returns a strategy for up to 80 steps. Variants of Services are below `service_variants`.
pub fn steps(service_variants: u8) -> impl Strategy<Value = Vec<JoinStep>> {
    let n = 0u8..4;
    let step = prop_oneof![
        4 => (n.clone(), 0..service_variants).prop_map(|(a, b)| JoinStep::SetService(a, b)),
        2 => n.clone().prop_map(JoinStep::DropService),
        6 => (n.clone(), n.clone(), any::<u8>()).prop_map(|(a, b, c)| JoinStep::SetPart(a, b, c)),
        2 => n.clone().prop_map(JoinStep::DropPart),
        3 => n.clone().prop_map(JoinStep::DeliverServices),
        3 => n.clone().prop_map(JoinStep::DeliverParts),
        1 => n.clone().prop_map(JoinStep::RelistServices),
        1 => n.prop_map(JoinStep::RelistParts),
        1 => Just(JoinStep::Repeat),
        2 => Just(JoinStep::Drain),
    ];
    proptest::collection::vec(step, 0..80)
}

/// Checks that an index that lived through `steps` ends as a fresh one that lists the final state of the source.
///
/// # Errors
/// When it does not.
pub fn ends_as_a_fresh_index<I: Index>(steps: Vec<JoinStep>) -> Result<(), TestCaseError> {
    let mut watched = Watched::<I>::new();
    for step in steps {
        watched.step(step);
    }
    watched.deliver_services(usize::MAX);
    watched.deliver_parts(usize::MAX);
    watched.drain();

    let mut fresh = I::new();
    fresh.begin_parts();
    watched.source.parts.iter().for_each(|(name, state)| fresh.part(*name, Some(*state)));
    fresh.end_parts();
    fresh.begin_services();
    watched.source.services.iter().for_each(|(name, variant)| fresh.service(*name, Some(*variant)));
    fresh.end_services();
    let expected: BTreeMap<_, _> = fresh.drain().into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
    prop_assert_eq!(watched.published, expected);
    prop_assert_eq!(watched.index.counts(), fresh.counts());
    Ok(())
}

/// The objects as they really are.
#[derive(Debug, Default)]
struct Source {
    services: BTreeMap<u8, u8>,
    parts: BTreeMap<u8, (u8, u8)>,
}

type ServiceEvent = (u8, Option<u8>);
type PartEvent = (u8, Option<(u8, u8)>);

/// An index behind two watches that lag.
struct Watched<I: Index> {
    source: Source,
    index: I,
    services: Vec<ServiceEvent>,
    parts: Vec<PartEvent>,
    last: (Option<ServiceEvent>, Option<PartEvent>),
    published: BTreeMap<SourceKey, I::Value>,
}

impl<I: Index> Watched<I> {
    fn new() -> Self {
        let mut index = I::new();
        index.begin_services();
        index.end_services();
        index.begin_parts();
        index.end_parts();
        Self {
            source: Source::default(),
            index,
            services: Vec::new(),
            parts: Vec::new(),
            last: (None, None),
            published: BTreeMap::new(),
        }
    }

    fn step(&mut self, step: JoinStep) {
        match step {
            JoinStep::SetService(name, variant) => {
                self.source.services.insert(name, variant);
                self.services.push((name, Some(variant)));
            }
            JoinStep::DropService(name) => {
                self.source.services.remove(&name);
                self.services.push((name, None));
            }
            JoinStep::SetPart(name, service, variant) => {
                self.source.parts.insert(name, (service, variant));
                self.parts.push((name, Some((service, variant))));
            }
            JoinStep::DropPart(name) => {
                self.source.parts.remove(&name);
                self.parts.push((name, None));
            }
            JoinStep::DeliverServices(count) => self.deliver_services(count.into()),
            JoinStep::DeliverParts(count) => self.deliver_parts(count.into()),
            JoinStep::RelistServices(count) => self.relist_services(count.into()),
            JoinStep::RelistParts(count) => self.relist_parts(count.into()),
            JoinStep::Repeat => {
                if let Some(event) = self.last.0 {
                    self.service(event);
                }
                if let Some(event) = self.last.1 {
                    self.part(event);
                }
            }
            JoinStep::Drain => self.drain(),
        }
    }

    fn service(&mut self, (name, variant): ServiceEvent) {
        self.last.0 = Some((name, variant));
        self.index.service(name, variant);
    }

    fn part(&mut self, (name, state): PartEvent) {
        self.last.1 = Some((name, state));
        self.index.part(name, state);
    }

    fn deliver_services(&mut self, count: usize) {
        let count = count.min(self.services.len());
        for event in self.services.drain(..count).collect::<Vec<_>>() {
            self.service(event);
        }
    }

    fn deliver_parts(&mut self, count: usize) {
        let count = count.min(self.parts.len());
        for event in self.parts.drain(..count).collect::<Vec<_>>() {
            self.part(event);
        }
    }

    fn relist_services(&mut self, fails_after: usize) {
        self.services.clear();
        self.last.0 = None;
        let all: Vec<_> = self.source.services.iter().map(|(name, variant)| (*name, Some(*variant))).collect();
        for count in [fails_after, all.len()] {
            self.index.begin_services();
            all.iter().take(count).for_each(|event| self.service(*event));
        }
        self.index.end_services();
    }

    fn relist_parts(&mut self, fails_after: usize) {
        self.parts.clear();
        self.last.1 = None;
        let all: Vec<_> = self.source.parts.iter().map(|(name, state)| (*name, Some(*state))).collect();
        for count in [fails_after, all.len()] {
            self.index.begin_parts();
            all.iter().take(count).for_each(|event| self.part(*event));
        }
        self.index.end_parts();
    }

    fn drain(&mut self) {
        for (key, value) in self.index.drain() {
            match value {
                Some(value) => drop(self.published.insert(key, value)),
                None => drop(self.published.remove(&key)),
            }
        }
    }
}
