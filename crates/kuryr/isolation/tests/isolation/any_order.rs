//! Any policies over any Pods, in any order: the groups let through what the policies say, in as few rules as are found.

use std::net::IpAddr;
use std::sync::Arc;

use gimbal_kubernetes_objects::{Namespace, NetworkPolicy, Pod};
use gimbal_kuryr_isolation::test_support::{
    FilteringCloud, LabelsOf, NAMESPACES, NODES, OUTSIDE, PODS, PORTS, Packet, any_namespace, any_pod, any_policy,
    node, node_addresses,
};
use gimbal_kuryr_isolation::{GroupRule, PolicyIndex, RuleRemote};
use gimbal_model::{Family, Protocol, SourceKey};
use proptest::prelude::*;
use proptest::sample::select;

use crate::common::complete;
use crate::naive::Cluster;

#[derive(Debug, Clone)]
enum Step {
    Pod(usize, usize, Option<Box<Pod>>),
    Namespace(&'static str, Option<Namespace>),
    Policy(&'static str, &'static str, Option<Box<NetworkPolicy>>),
    Node(&'static str, bool),
    Relist,
    Drain,
}

fn step() -> impl Strategy<Value = Step> {
    let gone = || prop::bool::weighted(0.2);
    let pods = (0..NAMESPACES.len(), 0..PODS.len(), gone()).prop_flat_map(|(namespace, name, is_gone)| {
        any_pod(namespace, name, LabelsOf::Any)
            .prop_map(move |pod| Step::Pod(namespace, name, (!is_gone).then(|| Box::new(pod))))
    });
    let namespaces = (select(NAMESPACES.to_vec()), gone(), gone()).prop_flat_map(|(name, is_gone, is_isolated)| {
        any_namespace(name, LabelsOf::Any).prop_map(move |mut namespace| {
            if is_isolated {
                let isolation = r#"{"ingress":{"isolation":"DefaultDeny"}}"#;
                let key = "net.beta.kubernetes.io/network-policy";
                namespace.metadata.annotations.insert(key.into(), isolation.into());
            }
            Step::Namespace(name, (!is_gone).then_some(namespace))
        })
    });
    let policies = (select(NAMESPACES.to_vec()), select(vec!["p", "q", "r"]), gone());
    let policies = policies.prop_flat_map(|(namespace, name, is_gone)| {
        any_policy(namespace, name)
            .prop_map(move |policy| Step::Policy(namespace, name, (!is_gone).then(|| Box::new(policy))))
    });
    let nodes = (select(NODES.to_vec()), gone()).prop_map(|(name, is_gone)| Step::Node(name, !is_gone));
    prop_oneof![
        6 => pods, 3 => namespaces, 5 => policies, 1 => nodes, 1 => Just(Step::Relist), 2 => Just(Step::Drain),
    ]
}

/// An index, what it has seen, and the cloud after each drain.
#[derive(Default)]
struct Run {
    index: PolicyIndex,
    cluster: Cluster,
    cloud: FilteringCloud,
}

impl Run {
    fn take(&mut self, step: Step) {
        let Self { index, cluster, .. } = self;
        match step {
            Step::Pod(namespace, name, Some(pod)) => {
                index.apply_pod(&pod);
                cluster.pods.insert(SourceKey::new(NAMESPACES[namespace], PODS[name]), *pod);
            }
            Step::Pod(namespace, name, None) => {
                index.delete_pod(NAMESPACES[namespace], PODS[name]);
                cluster.pods.remove(&SourceKey::new(NAMESPACES[namespace], PODS[name]));
            }
            Step::Namespace(name, Some(namespace)) => {
                index.apply_namespace(&namespace);
                cluster.namespaces.insert(name.into(), namespace);
            }
            Step::Namespace(name, None) => {
                index.delete_namespace(name);
                cluster.namespaces.remove(name);
            }
            Step::Policy(namespace, name, Some(policy)) => {
                index.apply_policy(&policy);
                cluster.policies.insert(SourceKey::new(namespace, name), *policy);
            }
            Step::Policy(namespace, name, None) => {
                index.delete_policy(namespace, name);
                cluster.policies.remove(&SourceKey::new(namespace, name));
            }
            Step::Node(name, true) => {
                index.apply_node(&node(name));
                cluster.nodes.insert(name.into());
            }
            Step::Node(name, false) => {
                index.delete_node(name);
                cluster.nodes.remove(name);
            }
            Step::Relist => list(index, cluster),
            Step::Drain => self.drain(),
        }
    }

    fn drain(&mut self) {
        self.cloud.apply(&self.index.drain());
        let addresses = |(key, pod): (&SourceKey, &Pod)| (key.clone(), Cluster::addresses(pod));
        self.cloud.addresses = self.cluster.pods.iter().map(addresses).collect();
    }
}

/// Lists everything, of which some was applied before.
fn list(index: &mut PolicyIndex, cluster: &Cluster) {
    index.begin_policies();
    cluster.policies.values().for_each(|policy| index.apply_policy(policy));
    index.end_policies();
    index.begin_pods();
    cluster.pods.values().rev().for_each(|pod| index.apply_pod(pod));
    index.end_pods();
    index.begin_nodes();
    cluster.nodes.iter().for_each(|name| index.apply_node(&node(name)));
    index.end_nodes();
    index.begin_namespaces();
    cluster.namespaces.values().for_each(|namespace| index.apply_namespace(namespace));
    index.end_namespaces();
}

fn packets(cluster: &Cluster) -> Vec<Packet> {
    let inside: Vec<IpAddr> = cluster.pods.values().flat_map(Cluster::addresses).collect();
    let outside = OUTSIDE.iter().map(|address| address.parse().unwrap());
    let around: Vec<IpAddr> = outside.chain(NODES.into_iter().flat_map(node_addresses)).collect();
    let all = inside.iter().chain(&around);
    let pairs = all.flat_map(|one| inside.iter().flat_map(move |other| [(*one, *other), (*other, *one)]));
    let pairs = pairs.filter(|(source, destination)| Family::of(*source) == Family::of(*destination));
    let kinds = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].into_iter();
    let kinds = kinds.flat_map(|protocol| PORTS.map(|port| (Some(protocol), port))).chain([(None, 0)]);
    let kinds: Vec<_> = kinds.collect();
    pairs
        .flat_map(|(source, destination)| {
            kinds.iter().map(move |(protocol, port)| Packet { source, destination, protocol: *protocol, port: *port })
        })
        .collect()
}

fn agree(run: &Run, every: usize) -> Result<(), TestCaseError> {
    prop_assert_eq!(run.cloud.missing(), None);
    for packet in packets(&run.cluster).iter().step_by(every) {
        prop_assert_eq!(run.cloud.lets_through(packet), run.cluster.allows(packet), "{:?}", packet);
    }
    Ok(())
}

#[test]
fn groups_let_through_what_policies_say_in_any_order_of_arrival() {
    gimbal_property::check(60, &prop::collection::vec(step(), 1..60), |steps| {
        let mut run = Run::default();
        complete(&mut run.index);
        for step in steps {
            let is_drain = matches!(step, Step::Drain);
            run.take(step);
            if is_drain {
                agree(&run, 11)?;
            }
        }
        run.drain();
        agree(&run, 1)?;
        let mut fresh = Run::default();
        list(&mut fresh.index, &run.cluster);
        fresh.cluster = run.cluster;
        fresh.drain();
        prop_assert_eq!(&run.cloud.groups, &fresh.cloud.groups);
        prop_assert_eq!(&run.cloud.ports, &fresh.cloud.ports);
        Ok(())
    });
}

#[test]
fn no_rule_is_contained_in_another_and_no_two_could_be_one() {
    gimbal_property::check(60, &prop::collection::vec(step(), 20..60), |steps| {
        let mut run = Run::default();
        complete(&mut run.index);
        steps.into_iter().for_each(|step| run.take(step));
        run.drain();
        for group in run.cloud.groups.values() {
            for rules in [&group.ingress, &group.egress] {
                for (at, one) in rules.iter().enumerate() {
                    for other in rules.iter().skip(at + 1) {
                        let same = contains(one, other) || contains(other, one) || is_one(one, other);
                        prop_assert!(!same, "{:?} {:?}", one, other);
                    }
                }
            }
        }
        Ok(())
    });
}

fn ports(rule: &GroupRule) -> (u16, u16) {
    rule.ports.unwrap_or((1, u16::MAX))
}

fn contains(one: &GroupRule, other: &GroupRule) -> bool {
    let remote = match (&one.remote, &other.remote) {
        (RuleRemote::Anyone, _) => true,
        (RuleRemote::Range(one), RuleRemote::Range(other)) => one.contains(other),
        (one, other) => one == other,
    };
    let (mine, its) = (ports(one), ports(other));
    let is_wider = one.protocol.is_none() || one.protocol == other.protocol && mine.0 <= its.0 && its.1 <= mine.1;
    one.family == other.family && remote && is_wider
}

fn is_one(one: &GroupRule, other: &GroupRule) -> bool {
    let touch = one.remote == other.remote && (ports(one).1.checked_add(1) == Some(ports(other).0));
    let joined = match (&one.remote, &other.remote) {
        (RuleRemote::Range(one), RuleRemote::Range(other)) => ipnet::IpNet::aggregate(&vec![*one, *other]).len() == 1,
        _ => false,
    };
    let same_ports = one.ports == other.ports;
    one.family == other.family && one.protocol == other.protocol && (touch || joined && same_ports)
}

#[test]
fn nothing_is_drained_before_everything_was_listed() {
    let mut index = PolicyIndex::default();
    let ends: [fn(&mut PolicyIndex); 4] =
        [PolicyIndex::end_pods, PolicyIndex::end_policies, PolicyIndex::end_nodes, PolicyIndex::end_namespaces];
    for end in ends {
        assert!(!index.is_complete() && index.drain().groups.is_empty());
        end(&mut index);
    }
    assert!(index.is_complete());
    let groups: Vec<_> =
        index.drain().groups.into_iter().map(|(name, group)| (name, group.map(Arc::unwrap_or_clone))).collect();
    assert_eq!(groups.len(), 2, "{groups:?}");
}
