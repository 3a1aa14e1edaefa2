//! NetworkPolicies as security groups let through what cyclonus, which knows nothing of us, says that they do.
//! `GIMBAL_PROVE` sets the number of clusters with any policies, and takes all of cyclonus' own cases.
#![allow(clippy::unwrap_used)] // A panic is the report.

use std::net::IpAddr;
use std::sync::Arc;

use gimbal_cyclonus::{cases, verdicts};
use gimbal_kubernetes_objects::{Namespace, NetworkPolicy, Pod};
use gimbal_kuryr_isolation::PolicyIndex;
use gimbal_kuryr_isolation::test_support::{
    FilteringCloud, LabelsOf, NAMESPACES, OUTSIDE, PODS, PORTS, Packet, any_namespace, any_pod, any_policy,
};
use gimbal_model::{Family, Protocol, SourceKey};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

/// How many clusters a change waits for, and each how many of cyclonus' cases is taken then.
const CLUSTERS: usize = 25;
const EACH: usize = 8;
/// How many packets are sent in each, of all that differ.
const PACKETS: usize = 300;

#[derive(Debug)]
struct Cluster {
    namespaces: Vec<Namespace>,
    pods: Vec<Pod>,
    policies: Vec<NetworkPolicy>,
}

fn any_cluster() -> impl Strategy<Value = Cluster> {
    // cyclonus takes `NotIn` for false where there is no such label, other than Kubernetes. So every object has them.
    let namespaces = NAMESPACES.map(|name| any_namespace(name, LabelsOf::All));
    let pods: Vec<_> =
        (0..NAMESPACES.len() * PODS.len()).map(|at| any_pod(at / PODS.len(), at % PODS.len(), LabelsOf::All)).collect();
    let policies = NAMESPACES.map(|namespace| vec(any_policy(namespace, ""), 0..3));
    (namespaces, pods, policies).prop_map(|(namespaces, pods, policies)| {
        let mut policies: Vec<_> = policies.into_iter().flatten().collect();
        for (at, policy) in policies.iter_mut().enumerate() {
            policy.metadata.name = format!("policy-{at}").into();
            write_types(policy);
        }
        Cluster { namespaces: namespaces.into(), pods, policies }
    })
}

/// Writes out which directions a policy is about, as the API server does.
fn write_types(policy: &mut NetworkPolicy) {
    if policy.spec.policy_types.is_empty() {
        let egress = (!policy.spec.egress.is_empty()).then_some("Egress");
        policy.spec.policy_types = std::iter::once("Ingress").chain(egress).map(Arc::from).collect();
    }
}

impl Cluster {
    /// The cluster that cyclonus makes for its own cases.
    fn of_cyclonus(policies: Vec<NetworkPolicy>) -> Self {
        let namespace = |name: &str| json!({"metadata": {"name": name, "labels": {"ns": name, "kubernetes.io/metadata.name": name}}});
        let pod = |at: usize| {
            let (namespace, name) = (at / PODS.len(), at % PODS.len());
            let ports = [80, 81].into_iter().flat_map(|port| {
                ["TCP", "UDP", "SCTP"].map(|protocol| {
                    json!({"name": format!("serve-{port}-{}", protocol.to_lowercase()), "containerPort": port, "protocol": protocol})
                })
            });
            let ports: Vec<_> = ports.collect();
            json!({
                "metadata": {"namespace": NAMESPACES[namespace], "name": PODS[name], "labels": {"pod": PODS[name]}},
                "spec": {"nodeName": "n", "containers": [{"ports": ports}]},
                "status": {"podIPs": [{"ip": format!("192.168.{namespace}.{}", name + 1)}]},
            })
        };
        Self {
            namespaces: NAMESPACES.map(|name| serde_json::from_value(namespace(name)).unwrap()).into(),
            pods: (0..NAMESPACES.len() * PODS.len()).map(|at| serde_json::from_value(pod(at)).unwrap()).collect(),
            policies,
        }
    }

    fn cloud(&self) -> FilteringCloud {
        let (mut index, mut cloud) = (PolicyIndex::default(), FilteringCloud::default());
        index.begin_pods();
        self.pods.iter().for_each(|pod| index.apply_pod(pod));
        index.end_pods();
        index.begin_policies();
        self.policies.iter().for_each(|policy| index.apply_policy(policy));
        index.end_policies();
        index.begin_namespaces();
        self.namespaces.iter().for_each(|namespace| index.apply_namespace(namespace));
        index.end_namespaces();
        index.end_nodes();
        cloud.apply(&index.drain());
        assert_eq!(cloud.missing(), None);
        let meta = |pod: &Pod| SourceKey::new(pod.metadata.namespace.clone(), pod.metadata.name.clone());
        cloud.addresses = self.pods.iter().map(|pod| (meta(pod), addresses(pod))).collect();
        cloud
    }

    /// Packets between Pods, and between them and the outside.
    fn packets(&self) -> Vec<Packet> {
        let inside: Vec<IpAddr> = self.pods.iter().flat_map(addresses).collect();
        let outside: Vec<IpAddr> = OUTSIDE.iter().map(|address| address.parse().unwrap()).collect();
        let pairs = inside.iter().flat_map(|one| {
            let to_pods = inside.iter().map(|other| (*one, *other));
            to_pods.chain(outside.iter().flat_map(|other| [(*one, *other), (*other, *one)]))
        });
        // What a Pod sends to itself does not pass its port, which cyclonus leaves to whoever asks.
        let differ = |(one, other): &(IpAddr, IpAddr)| {
            Family::of(*one) == Family::of(*other) && self.pod(*one).map(name) != self.pod(*other).map(name)
        };
        let kinds = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
        let kinds: Vec<_> = kinds.into_iter().flat_map(|protocol| PORTS.map(|port| (protocol, port))).collect();
        let packet = |(source, destination)| {
            let of = move |&(protocol, port): &_| Packet { source, destination, protocol: Some(protocol), port };
            kinds.iter().map(of).collect::<Vec<_>>()
        };
        pairs.filter(differ).flat_map(packet).collect()
    }

    fn pod(&self, address: IpAddr) -> Option<&Pod> {
        self.pods.iter().find(|pod| addresses(pod).contains(&address))
    }

    fn peer(&self, address: IpAddr) -> Value {
        let internal = self.pod(address).map(|pod| {
            let namespace = self.namespaces.iter().find(|one| one.metadata.name == pod.metadata.namespace).unwrap();
            json!({
                "PodLabels": pod.metadata.labels,
                "NamespaceLabels": namespace.metadata.labels,
                "Namespace": pod.metadata.namespace,
            })
        });
        json!({"Internal": internal, "IP": address.to_string()})
    }

    /// A packet in the words of cyclonus.
    fn traffic(&self, packet: &Packet) -> Value {
        let protocol = packet.protocol.map(Protocol::as_str);
        let called = self.pod(packet.destination).and_then(|pod| {
            let mut ports = pod.spec.containers.iter().flat_map(|container| &container.ports);
            let is_it = |port: &&gimbal_kubernetes_objects::ContainerPort| {
                port.container_port == i32::from(packet.port) && port.protocol.as_deref() == protocol
            };
            ports.find(is_it)?.name.clone()
        });
        json!({
            "Source": self.peer(packet.source), "Destination": self.peer(packet.destination),
            "Protocol": protocol, "ResolvedPort": packet.port, "ResolvedPortName": called.unwrap_or_default(),
        })
    }

    /// Returns how many packets were let through, and how many were sent.
    fn agrees_with_cyclonus(&self) -> (usize, usize) {
        let mut packets = self.packets();
        // No multiple of a divisor of the number of ports and protocols, so that all of them are sent.
        let meets_all = |every: &usize| !every.is_multiple_of(2) && !every.is_multiple_of(3);
        let every = (packets.len().div_ceil(PACKETS)..).find(meets_all).unwrap();
        packets = packets.into_iter().step_by(every).collect();
        let traffic: Vec<_> = packets.iter().map(|packet| self.traffic(packet)).collect();
        let policies: Vec<_> = self.policies.iter().map(|policy| serde_json::to_value(policy).unwrap()).collect();
        let (verdicts, cloud) = (verdicts(&policies, &traffic).unwrap(), self.cloud());
        for (packet, expected) in packets.iter().zip(&verdicts) {
            assert_eq!(cloud.lets_through(packet), *expected, "{packet:?}\n{}", Value::from(policies));
        }
        (verdicts.iter().filter(|is_allowed| **is_allowed).count(), verdicts.len())
    }
}

fn addresses(pod: &Pod) -> Vec<IpAddr> {
    pod.status.pod_ips.iter().map(|one| one.ip.parse().unwrap()).collect()
}

fn name(pod: &Pod) -> (&str, &str) {
    (&pod.metadata.namespace, &pod.metadata.name)
}

#[test]
fn groups_let_through_what_cyclonus_says() {
    let clusters = std::env::var("GIMBAL_PROVE").map_or(CLUSTERS, |clusters| clusters.parse().unwrap());
    let mut runner = TestRunner::new(Config::default());
    let (mut allowed, mut sent) = (0, 0);
    for _ in 0..clusters {
        let cluster = any_cluster().new_tree(&mut runner).unwrap().current();
        let (passed, packets) = cluster.agrees_with_cyclonus();
        allowed += passed;
        sent += packets;
    }
    println!("{clusters} clusters: {allowed} of {sent} packets were let through");
    assert!(allowed > sent / 10 && allowed < sent * 9 / 10, "the policies say too little");
}

#[test]
fn groups_agree_with_the_cases_of_cyclonus() {
    let each = if std::env::var_os("GIMBAL_PROVE").is_some() { 1 } else { EACH };
    let cases = cases().unwrap();
    assert!(cases.len() > 100, "only {} cases", cases.len());
    for case in cases.iter().step_by(each) {
        let policies = case.iter().map(|text| serde_saphyr::from_str(text).unwrap()).collect();
        Cluster::of_cyclonus(policies).agrees_with_cyclonus();
    }
}
