//! The use cases of Kuryr's design of Ingress, word by word.

use gimbal_kubernetes_objects::{BalancedService, BalancedSlice, Ingress};
use serde_json::json;

use super::common::{Cluster, addresses, findings, routes};

/// "Ingress is created under namespace 'mynamespace'", as in the design, in the API that took the place of `extensions/v1beta1`.
fn test_ingress() -> Ingress {
    serde_json::from_value(json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "test", "namespace": "mynamespace"},
        "spec": {
            "ingressClassName": "kuryr",
            "rules": [{
                "host": "www.example.com",
                "http": {"paths": [{
                    "pathType": "ImplementationSpecific",
                    "backend": {"service": {"name": "s1", "port": {"number": 80}}},
                }]},
            }],
        },
    }))
    .unwrap()
}

/// "Service/Endpoints is created under namespace 'mynamespace'", "name: s1".
fn s1() -> (BalancedService, BalancedSlice) {
    let service = json!({
        "metadata": {"name": "s1", "namespace": "mynamespace"},
        "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.10", "ports": [{"port": 80, "targetPort": 8080}]},
    });
    let slice = json!({
        "metadata": {
            "name": "s1-abcde", "namespace": "mynamespace", "labels": {"kubernetes.io/service-name": "s1"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.0.4"]}, {"addresses": ["10.1.0.5"]}],
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
    });
    (serde_json::from_value(service).unwrap(), serde_json::from_value(slice).unwrap())
}

const TO_S1: [&str; 1] = ["www.example.com * -> mynamespace/s1:80"];

#[test]
fn create_ingress_create_service_and_endpoints() {
    let mut cluster = Cluster::new();
    // "Ingress is created": "the Ingress handler will create LBaaS pool (attached to L7 router) - named 'mynamespace_s1'", and
    // "a L7 rule and L7 policy, the L7 policy direct its filtered traffic towards 'mynamespace_s1' pool".
    cluster.ingresses.apply_ingress(test_ingress());
    let made = cluster.shared();
    assert_eq!(addresses(&made.spec, "mynamespace_s1"), Some(vec![]));
    assert_eq!(routes(&made.spec), TO_S1);
    assert_eq!(
        findings(&made),
        ["Unsupported/NoService: Ingress mynamespace/test: there is no Service mynamespace/s1: what leads there is \
          answered with 503"]
    );
    // "Service/Endpoints is created": "will check for pool named 'mynamespace_s1' and will add its members to this pool".
    let (service, slice) = s1();
    cluster.services.apply_service(service);
    cluster.services.apply_slice(slice);
    let made = cluster.shared();
    assert_eq!(addresses(&made.spec, "mynamespace_s1"), Some(vec!["10.1.0.4:8080".into(), "10.1.0.5:8080".into()]));
    assert_eq!((routes(&made.spec), findings(&made)), (TO_S1.map(String::from).to_vec(), vec![]));
}

#[test]
fn create_service_and_endpoints_create_ingress_delete_ingress() {
    let mut cluster = Cluster::new();
    // "Since no pool named 'mynamespace_s1' exist in L7 router, no operation is required."
    let (service, slice) = s1();
    cluster.services.apply_service(service);
    cluster.services.apply_slice(slice);
    let before = cluster.shared();
    assert_eq!((&before.spec.pools, routes(&before.spec)), (&vec![], vec![]));
    // "Ingress is created with same details": the pool with its members, the rule and the policy.
    cluster.ingresses.apply_ingress(test_ingress());
    let made = cluster.shared();
    assert_eq!(addresses(&made.spec, "mynamespace_s1"), Some(vec!["10.1.0.4:8080".into(), "10.1.0.5:8080".into()]));
    assert_eq!((routes(&made.spec), findings(&made)), (TO_S1.map(String::from).to_vec(), vec![]));
    // Another Ingress points to it, too.
    let mut other = test_ingress();
    other.metadata.meta.name = "other".into();
    other.spec.rules[0].host = Some("other.example.com".into());
    cluster.ingresses.apply_ingress(other);
    // "Ingress is deleted": "will first delete L7 rule and L7 policy. In case no other L7 policy is pointing 'mynamespace_s1',
    // the Ingress handler will delete 'mynamespace_s1' pool's members and the pool itself."
    cluster.ingresses.delete_ingress("mynamespace", "test");
    let other = cluster.shared();
    assert_eq!(routes(&other.spec), ["other.example.com * -> mynamespace/s1:80"]);
    assert_eq!(addresses(&other.spec, "mynamespace_s1").map(|members| members.len()), Some(2));
    cluster.ingresses.delete_ingress("mynamespace", "other");
    // "The L7 router" itself stays.
    assert_eq!(cluster.shared(), before);
    assert_eq!(before.spec.l7_router_ip.as_deref(), Some("172.24.4.13"));
}
