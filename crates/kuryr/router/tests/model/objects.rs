//! What the writer says of the cloud, and what users write.

use gimbal_kuryr_model::{CloudFacts, ExternalNetwork, SubnetFacts};
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
