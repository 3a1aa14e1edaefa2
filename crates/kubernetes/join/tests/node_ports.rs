//! A second output beside the Services of a backend: the members of a load balancer that reaches Pods through the node ports
//! of the nodes that they run on.

use std::collections::BTreeSet;

use gimbal_kubernetes_join::test_support::{self, ends_as_a_fresh_index, steps};
use gimbal_kubernetes_join::{Join, JoinOutput};
use gimbal_model::SourceKey;
use proptest::prelude::*;

/// A node's name and a node port.
type Member = (String, u16);

/// Yields one member for each node with a ready Pod and each node port; counts what the join holds.
#[derive(Debug, Default)]
struct Members {
    services: usize,
    slices: usize,
}

impl JoinOutput for Members {
    /// Node ports; without any, the Service is not of a type that has members.
    type Header = Vec<u16>;
    /// The nodes of one slice's ready Pods.
    type Part = Vec<String>;
    type Value = BTreeSet<Member>;

    fn join<'a>(ports: &Vec<u16>, slices: impl Iterator<Item = &'a Vec<String>>) -> Option<Self::Value> {
        let nodes: BTreeSet<&String> = slices.flatten().collect();
        let members = nodes.into_iter().flat_map(|node| ports.iter().map(|port| (node.clone(), *port)));
        (!ports.is_empty()).then(|| members.collect())
    }

    fn header_added(&mut self, _: &Vec<u16>) {
        self.services += 1;
    }

    fn header_removed(&mut self, _: &Vec<u16>) {
        self.services -= 1;
    }

    fn part_added(&mut self, _: &Vec<String>) {
        self.slices += 1;
    }

    fn part_removed(&mut self, _: &Vec<String>) {
        self.slices -= 1;
    }
}

fn service(name: u8) -> SourceKey {
    SourceKey::new("team", format!("service-{name}"))
}

fn slice(name: u8) -> SourceKey {
    SourceKey::new("team", format!("slice-{name}"))
}

struct Index(Join<Members>);

impl test_support::Index for Index {
    type Value = BTreeSet<Member>;
    type Counts = (usize, usize);

    fn new() -> Self {
        Self(Join::new(Members::default()))
    }

    fn service(&mut self, name: u8, variant: Option<u8>) {
        match variant {
            Some(ports) => self.0.apply_service(service(name), (0..ports).map(|n| 30_000 + u16::from(n)).collect()),
            None => self.0.delete_service(&service(name)),
        }
    }

    fn part(&mut self, name: u8, state: Option<(u8, u8)>) {
        match state {
            Some((owner, bits)) => {
                let nodes = (0..8).filter(|n| bits & (1 << n) != 0).map(|n| format!("node-{n}")).collect();
                self.0.apply_part(slice(name), service(owner), nodes);
            }
            None => self.0.delete_part(&slice(name)),
        }
    }

    fn begin_services(&mut self) {
        self.0.begin_services();
    }

    fn end_services(&mut self) {
        self.0.end_services();
    }

    fn begin_parts(&mut self) {
        self.0.begin_parts();
    }

    fn end_parts(&mut self) {
        self.0.end_parts();
    }

    fn drain(&mut self) -> Vec<(SourceKey, Option<BTreeSet<Member>>)> {
        self.0.drain()
    }

    fn counts(&self) -> (usize, usize) {
        (self.0.output().services, self.0.output().slices)
    }
}

proptest! {
    #[test]
    fn members_do_not_depend_on_the_order_of_events(steps in steps(3)) {
        ends_as_a_fresh_index::<Index>(steps)?;
    }
}

#[test]
fn a_member_for_each_node_and_port() {
    let mut join = Join::new(Members::default());
    join.begin_services();
    join.apply_service(service(0), vec![30_000, 30_001]);
    join.end_services();
    assert!(join.drain().is_empty(), "slices were not listed yet");
    join.begin_parts();
    for name in [1, 2] {
        join.apply_part(slice(name), service(0), vec!["node-a".into(), format!("node-{name}")]);
    }
    join.end_parts();
    let drained = join.drain();
    let (key, members) = &drained[0];
    let expected = ["node-1", "node-2", "node-a"].map(|node| [30_000, 30_001].map(|port| (node.to_owned(), port)));
    assert_eq!((drained.len(), key, members), (1, &service(0), &Some(expected.into_iter().flatten().collect())));
    join.apply_service(service(0), vec![]);
    assert_eq!(join.drain(), [(service(0), None)]);
}
