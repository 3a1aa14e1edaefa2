//! The original Gimbal, as far as the Gimbal cluster sees it: the objects that it makes, and how it writes them.

use std::collections::BTreeSet;
use std::convert::Infallible;

use gimbal_testkit::TestCluster;
use serde_json::{Value, json};

use super::stage::MARK;

/// The objects that the original makes of one Service of the source.
pub struct Made {
    /// Its name in the Gimbal cluster.
    pub name: String,
    service: Value,
    endpoints: Value,
}

/// Translates a Service and its slices as the original translates a Service and its Endpoints. `domain` is that of its labels,
/// which was `gimbal.heptio.com` until 0.4.0.
pub fn made(domain: &str, service: &Value, slices: &[Value]) -> Made {
    let source = service["metadata"]["name"].as_str().unwrap();
    let name = format!("node02-{source}");
    let mut labels = service["metadata"]["labels"].clone();
    labels[format!("{domain}/backend")] = json!("node02");
    labels[format!("{domain}/service")] = json!(source);
    let mut metadata = json!({"namespace": "team1", "name": name, "labels": labels});
    // Annotations are copied whole; of ports only name and number.
    metadata["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": "{}"});
    let port = |port: &Value| json!({"name": port["name"], "port": port["port"]});
    let ports: Vec<Value> = service["spec"]["ports"].as_array().unwrap().iter().map(port).collect();
    let spec = json!({"type": "ClusterIP", "clusterIP": "None", "ports": ports});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec});
    metadata["labels"]["endpoints.kubernetes.io/managed-by"] = json!("endpoint-controller");
    metadata["annotations"] = json!({"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"});
    let subsets: Vec<Value> = slices.iter().map(subset).collect();
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets});
    Made { name, service, endpoints }
}

fn subset(slice: &Value) -> Value {
    let of = |ready: bool| {
        let each = slice["endpoints"].as_array().unwrap().iter();
        let each = each.filter(|endpoint| endpoint["conditions"]["ready"] == ready);
        // Nodes and Pods of the source are copied, too.
        let address = |endpoint: &Value| {
            let Value::Object(mut address) = endpoint.clone() else { panic!("{endpoint}") };
            let ip = address.remove("addresses").map(|addresses| addresses[0].clone());
            address.remove("conditions");
            address.insert("ip".to_owned(), ip.unwrap_or_default());
            Value::Object(address)
        };
        each.map(address).collect::<Vec<Value>>()
    };
    json!({"addresses": of(true), "notReadyAddresses": of(false), "ports": slice["ports"]})
}

impl Made {
    /// Writes both as the original does: creates them, and patches what exists to what it would have created, whoever made it.
    pub async fn write(&self, cluster: &TestCluster) {
        for (object, collection) in [(&self.service, "services"), (&self.endpoints, "endpoints")] {
            let collection = format!("/api/v1/namespaces/team1/{collection}");
            match cluster.admin().post(&collection, object).await {
                Ok(_) => {}
                Err(error) if error.code == 409 => self.overwrite(cluster, &collection, object).await,
                Err(error) => panic!("{collection}: {error}"),
            }
        }
    }

    /// Writes both each time that somebody has set the mark on the Service.
    pub async fn write_on(&self, cluster: &TestCluster) -> Infallible {
        loop {
            let [service, _] = self.there(cluster).await;
            if service["metadata"]["labels"][MARK] == "gimbal-writer" {
                self.write(cluster).await;
            }
        }
    }

    async fn overwrite(&self, cluster: &TestCluster, collection: &str, object: &Value) {
        let path = format!("{collection}/{}", self.name);
        let there = cluster.admin().get(&path).await.unwrap();
        let mut patch = object.clone();
        for field in ["labels", "annotations"] {
            let keys = there["metadata"][field].as_object().into_iter().flatten().map(|(key, _)| key);
            let foreign: Vec<&String> = keys.filter(|key| object["metadata"][field][*key].is_null()).collect();
            foreign.into_iter().for_each(|key| patch["metadata"][field][key] = Value::Null);
        }
        cluster.admin().patch(&path, &patch).await.unwrap();
    }

    /// Returns `address:port` of every endpoint, with `!` before one that is not ready.
    pub fn addresses(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for subset in self.endpoints["subsets"].as_array().into_iter().flatten() {
            for (field, mark) in [("addresses", ""), ("notReadyAddresses", "!")] {
                for address in subset[field].as_array().into_iter().flatten() {
                    for port in subset["ports"].as_array().into_iter().flatten() {
                        found.insert(format!("{mark}{}:{}", address["ip"].as_str().unwrap_or_default(), port["port"]));
                    }
                }
            }
        }
        found
    }

    /// Returns both as they are.
    pub async fn there(&self, cluster: &TestCluster) -> [Value; 2] {
        let get = async |collection: &str| {
            cluster.admin().get(&format!("/api/v1/namespaces/team1/{collection}/{}", self.name)).await.unwrap()
        };
        [get("services").await, get("endpoints").await]
    }
}
