//! A cluster with Ingresses, for the tests.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kubernetes_objects::{BalancedService, BalancedSlice, Ingress, IngressClass};
use gimbal_kuryr_crd::{KlrPathType, KlrRoute, KuryrL7RouterSpec};
use gimbal_kuryr_model::{CertificateHash, CloudFacts, Text};
use gimbal_kuryr_translate::{
    IngressIndex, IngressSettings, KnownSecret, Nodes, RouterInput, RouterTranslated, SecretIndex, ServableCertificate,
    ServiceIndex, translate_router,
};
use gimbal_model::SourceKey;
use serde_json::{Value, json};

use crate::common;

/// Namespace and name of the shared router.
pub fn shared() -> SourceKey {
    SourceKey::new("gimbal-system", "kuryr-l7-router")
}

pub fn facts() -> CloudFacts {
    CloudFacts {
        enable_ingress: true,
        certificates: true,
        l7_router_ip: Some("172.24.4.13".parse().unwrap()),
        service_subnets: vec!["services".into()],
        ..common::facts()
    }
}

static NONE: BTreeSet<SourceKey> = BTreeSet::new();

/// What has been seen of a cluster.
pub struct Cluster {
    pub ingresses: IngressIndex,
    pub services: ServiceIndex,
    pub nodes: Nodes,
    pub facts: CloudFacts,
    pub secrets: SecretIndex,
    /// What the router has before.
    pub certificates: BTreeMap<Text, Text>,
}

impl Cluster {
    /// A cluster whose lists are complete and empty, but for the class `kuryr`, which is ours.
    pub fn new() -> Self {
        let mut cluster = Self {
            ingresses: IngressIndex::new(IngressSettings::in_namespace("gimbal-system")),
            services: ServiceIndex::default(),
            nodes: Nodes::default(),
            facts: facts(),
            secrets: SecretIndex::default(),
            certificates: BTreeMap::new(),
        };
        cluster.secrets.begin_list();
        cluster.secrets.end_list();
        cluster.ingresses.begin_classes();
        cluster.ingresses.apply_class(&class("kuryr", "kuryr.openstack.org/ingress", json!({})));
        cluster.ingresses.end_classes();
        cluster.ingresses.begin_ingresses();
        cluster.ingresses.end_ingresses();
        cluster.services.begin_services();
        cluster.services.end_services();
        cluster.services.begin_slices();
        cluster.services.end_slices();
        cluster.ingresses.drain();
        cluster
    }

    /// With these Ingresses, the first of them the oldest.
    pub fn with(ingresses: impl IntoIterator<Item = Ingress>) -> Self {
        let mut cluster = Self::new();
        for (age, mut ingress) in ingresses.into_iter().enumerate() {
            ingress.metadata.creation_timestamp.get_or_insert_with(|| created(age));
            cluster.ingresses.apply_ingress(ingress);
        }
        cluster
    }

    pub fn and_services(mut self, services: impl IntoIterator<Item = BalancedService>) -> Self {
        services.into_iter().for_each(|service| self.services.apply_service(service));
        self
    }

    pub fn and_slices(mut self, slices: impl IntoIterator<Item = BalancedSlice>) -> Self {
        slices.into_iter().for_each(|slice| self.services.apply_slice(slice));
        self
    }

    pub fn and_secrets(mut self, secrets: impl IntoIterator<Item = KnownSecret>) -> Self {
        for secret in secrets {
            self.secrets.apply(secret);
        }
        self
    }

    /// What a router is made from, of all of its Ingresses.
    pub fn input<'a>(&'a self, router: &'a SourceKey) -> RouterInput<'a> {
        RouterInput {
            router,
            ingresses: &self.ingresses,
            without: &NONE,
            moving: &NONE,
            services: &self.services,
            nodes: &self.nodes,
            facts: Some(&self.facts),
            chosen: None,
            secrets: &self.secrets,
            certificates: &self.certificates,
        }
    }

    pub fn router(&self, router: &SourceKey) -> RouterTranslated {
        translate_router(&self.input(router))
    }

    pub fn shared(&self) -> RouterTranslated {
        self.router(&shared())
    }
}

pub fn created(age: usize) -> std::sync::Arc<str> {
    format!("2026-01-01T{:02}:{:02}:00Z", age / 60, age % 60).as_str().into()
}

pub fn class(name: &str, controller: &str, annotations: Value) -> IngressClass {
    let metadata = json!({"name": name, "annotations": annotations});
    serde_json::from_value(json!({"metadata": metadata, "spec": {"controller": controller}})).unwrap()
}

/// An Ingress of class `kuryr` in namespace `team`.
pub fn ingress(name: &str, spec: Value) -> Ingress {
    let mut object = json!({
        "metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}")},
        "spec": {"ingressClassName": "kuryr"},
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

/// The backend `s1:80` or `s1:http`.
pub fn backend(text: &str) -> Value {
    let (name, port) = text.split_once(':').unwrap();
    let port = match port.parse::<u16>() {
        Ok(number) => json!({"number": number}),
        Err(_) => json!({"name": port}),
    };
    json!({"service": {"name": name, "port": port}})
}

/// A path as `/a* s1:80` (Prefix), `/a s1:80` (Exact) or `* s1:80` (no path).
fn path(text: &str) -> Value {
    let (path, to) = text.split_once(' ').unwrap();
    match path.strip_suffix('*') {
        Some("") => json!({"pathType": "ImplementationSpecific", "backend": backend(to)}),
        Some(prefix) => json!({"path": prefix, "pathType": "Prefix", "backend": backend(to)}),
        None => json!({"path": path, "pathType": "Exact", "backend": backend(to)}),
    }
}

/// A rule for a host, which may be empty, with paths.
pub fn rule(host: &str, paths: &[&str]) -> Value {
    let http = json!({"paths": paths.iter().map(|text| path(text)).collect::<Vec<_>>()});
    if host.is_empty() { json!({"http": http}) } else { json!({"host": host, "http": http}) }
}

/// An Ingress with one rule.
pub fn one_rule(name: &str, host: &str, paths: &[&str]) -> Ingress {
    ingress(name, json!({"rules": [rule(host, paths)]}))
}

/// A Secret `NAMESPACE/NAME` with a certificate for these names, and a content that this number stands for.
pub fn secret(key: &str, content: u8, names: &[&str]) -> KnownSecret {
    let (namespace, name) = key.split_once('/').unwrap();
    let names = names.iter().map(|name| (*name).into()).collect();
    let hash = CertificateHash::from_bytes([content; 32]);
    KnownSecret { key: SourceKey::new(namespace, name), state: Ok(ServableCertificate { hash, names }) }
}

/// A Service of type `ClusterIP` in namespace `team` with these ports, each `name:number`.
pub fn service(name: &str, ports: &[&str]) -> BalancedService {
    let ports: Vec<_> = ports.iter().map(|port| port.split_once(':').unwrap()).collect();
    let ports = ports.iter().map(|(name, number)| {
        let number: i32 = number.parse().unwrap();
        json!({"name": name, "port": number, "protocol": "TCP", "targetPort": number + 8000})
    });
    let object = json!({
        "metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}")},
        "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.10", "ports": ports.collect::<Vec<_>>()},
    });
    serde_json::from_value(object).unwrap()
}

/// A slice of a Service with its ports, each as the Service of [`service`] has it, and ready Pods with these addresses.
pub fn slice(name: &str, service: &str, ports: &[&str], addresses: &[&str]) -> BalancedSlice {
    let ports: Vec<_> = ports.iter().map(|port| port.split_once(':').unwrap()).collect();
    let ports = ports.iter().map(|(name, number)| {
        let number: i32 = number.parse().unwrap();
        json!({"name": name, "port": number + 8000, "protocol": "TCP"})
    });
    let endpoints: Vec<Value> =
        addresses.iter().map(|address| common::pod(address, &format!("{service}-{address}"))).collect();
    let object = json!({
        "metadata": {"name": name, "namespace": "team", "labels": {"kubernetes.io/service-name": service}},
        "addressType": if addresses.iter().any(|address| address.contains(':')) { "IPv6" } else { "IPv4" },
        "endpoints": endpoints, "ports": ports.collect::<Vec<_>>(),
    });
    serde_json::from_value(object).unwrap()
}

/// The routes of a router in order, each as `host path -> service:port`; then its default.
pub fn routes(spec: &KuryrL7RouterSpec) -> Vec<String> {
    let route = |route: &KlrRoute| {
        let path = match (route.path.as_deref(), route.path_type) {
            (None, _) => "*".to_owned(),
            (Some(path), Some(KlrPathType::Exact)) => path.to_owned(),
            (Some(path), _) => format!("{path}*"),
        };
        let to = match (&route.service, route.port) {
            (Some(service), Some(port)) => format!("{service}:{port}"),
            _ => "503".to_owned(),
        };
        format!("{} {path} -> {to}", route.host.as_deref().unwrap_or("*"))
    };
    let default = spec.default_pool.iter().map(|pool| format!("default -> {pool}"));
    spec.routes.iter().map(route).chain(default).collect()
}

/// Findings as they are reported.
pub fn findings(translated: &RouterTranslated) -> Vec<String> {
    translated.findings.iter().map(|one| format!("{}/{}: {one}", one.condition(), one.reason())).collect()
}

/// The addresses of a pool's members in the spec.
pub fn addresses(spec: &KuryrL7RouterSpec, pool: &str) -> Option<Vec<String>> {
    let pool = spec.pools.iter().find(|one| &*one.name == pool)?;
    let endpoints = pool.endpoint_slices.iter().flat_map(|slice| {
        let port = slice.ports[0].port.unwrap();
        slice.endpoints.iter().map(move |endpoint| format!("{}:{port}", endpoint.addresses[0]))
    });
    Some(endpoints.collect())
}
