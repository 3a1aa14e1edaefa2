//! What the writer says of the cloud, and what users write.

use gimbal_kuryr_model::{CertificateHash, CloudFacts, ExternalNetwork, SubnetFacts};
use gimbal_kuryr_translate::{CertificateProblem, KnownSecret, ServableCertificate};
use gimbal_model::SourceKey;
use serde_json::{Value, json};

use crate::api;

pub fn facts(enabled: bool) -> CloudFacts {
    let subnet = |network: &str, cidr: &str| SubnetFacts {
        network: network.into(),
        cidr: cidr.parse().unwrap(),
        name: "".into(),
        tags: Default::default(),
        mtu: 1450,
    };
    CloudFacts {
        provider: Some("amphora".into()),
        project: "project".into(),
        subnets: [
            ("services".into(), subnet("services-net", "10.96.0.0/16")),
            ("public".into(), subnet("public-net", "172.24.4.0/24")),
        ]
        .into(),
        service_subnets: vec!["services".into()],
        external: Some(ExternalNetwork {
            network: "public-net".into(),
            subnet: Some("public".into()),
            allowed: Default::default(),
            user_addresses: true,
        }),
        enable_ingress: enabled,
        certificates: true,
        ..CloudFacts::default()
    }
}

/// An Ingress of a class, whose rule leads to a Service.
pub fn ingress(class: &str, router: Option<&str>, service: &str) -> Value {
    let path = json!({"path": format!("/{service}"), "pathType": "Prefix",
        "backend": {"service": {"name": service, "port": {"number": 80}}}});
    let mut ingress = json!({"spec": {
        "ingressClassName": class, "rules": [{"host": "www.example.com", "http": {"paths": [path]}}],
    }});
    if let Some(router) = router {
        ingress["metadata"]["annotations"][api::ANNOTATION] = json!(router);
    }
    ingress
}

/// A Secret whose content this number stands for; 0 for one that cannot be served.
pub fn secret(content: u8) -> Value {
    json!({"spec": {"content": content}})
}

/// The hash of a content.
pub fn hash(content: u8) -> CertificateHash {
    CertificateHash::from_bytes([content; 32])
}

pub fn known_secret(object: &Value) -> KnownSecret {
    let key = SourceKey::new(api::text(object, "/metadata/namespace"), api::text(object, "/metadata/name"));
    let content = u8::try_from(object["spec"]["content"].as_u64().unwrap()).unwrap();
    let names = ["www.example.com".into()].into();
    let certificate = (content > 0).then(|| ServableCertificate { hash: hash(content), names });
    KnownSecret { key, state: certificate.ok_or(CertificateProblem::Chain) }
}

/// Has an Ingress name a Secret, or none.
pub fn set_tls(ingress: &mut Value, secret: Option<&str>) {
    let entries = secret.map(|name| json!({"hosts": ["www.example.com"], "secretName": name}));
    ingress["spec"]["tls"] = entries.into_iter().collect();
}
