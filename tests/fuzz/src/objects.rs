//! Objects of a source's API server: JSON, one object in each message, applied to the index.

use gimbal_kubernetes_objects::{EndpointSlice, Endpoints, Service};
use gimbal_kubernetes_source::{Flavour, KubernetesIndex, Selection};

use crate::cut::{cut, join};

pub(crate) fn run(data: &[u8]) {
    for flavour in [Flavour::Slices, Flavour::Endpoints] {
        let mut index = KubernetesIndex::new(Selection { flavour, ..Selection::default() });
        index.begin_services();
        index.begin_slices();
        for object in cut(data) {
            if let Ok(service) = serde_json::from_slice::<Service>(object) {
                index.apply_service(service);
            }
            match flavour {
                Flavour::Slices => {
                    if let Ok(slice) = serde_json::from_slice::<EndpointSlice>(object) {
                        index.apply_slice(slice);
                    }
                }
                Flavour::Endpoints => {
                    if let Ok(endpoints) = serde_json::from_slice::<Endpoints>(object) {
                        index.apply_endpoints(endpoints);
                    }
                }
            }
        }
        index.end_services();
        index.end_slices();
        index.set_slices_current(true);
        for (key, service) in index.drain() {
            assert!(service.is_none() || key.namespace.as_ref() != "kube-system", "kube-system is never offered");
        }
        assert!(index.drain().is_empty(), "what was drained changed by itself");
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let service = r#"{"metadata":{"namespace":"team-a","name":"nginx","uid":"1","resourceVersion":"1","labels":{"app":"web"},"annotations":{"a":"b"}},"spec":{"type":"ClusterIP","ports":[{"name":"http","port":80,"protocol":"TCP","targetPort":8080},{"name":"dns","port":53,"protocol":"UDP","targetPort":"dns"}]}}"#;
    let slice = r#"{"metadata":{"namespace":"team-a","name":"nginx-1","labels":{"kubernetes.io/service-name":"nginx"}},"addressType":"IPv4","ports":[{"name":"http","port":8080,"protocol":"TCP"}],"endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":true,"serving":true,"terminating":false},"hostname":"a","zone":"z1","hints":{"forZones":[{"name":"z1"}]}}]}"#;
    let endpoints = r#"{"metadata":{"namespace":"team-a","name":"nginx"},"subsets":[{"addresses":[{"ip":"10.0.0.1"}],"notReadyAddresses":[{"ip":"fd00::1"}],"ports":[{"name":"http","port":8080,"protocol":"TCP"}]}]}"#;
    let one = |text: &str| text.as_bytes().to_vec();
    [service, slice, endpoints]
        .iter()
        .map(|text| join([one(text)]))
        .chain([join([one(service), one(slice)]), join([one(endpoints), one(service)])])
        .collect()
}
