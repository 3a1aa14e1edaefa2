//! The ready endpoints of Endpoints objects and slices, in one form, so that they can be compared.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use gimbal_kubernetes_objects::{EndpointSlice, Endpoints};

/// A ready endpoint on one port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadyEndpoint {
    address: String,
    port: i32,
    protocol: Arc<str>,
    /// The port's name, by which consumers find the port of the Service; empty without one.
    name: Arc<str>,
}

impl fmt::Display for ReadyEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, port, protocol, name } = self;
        write!(f, "{address} {port}/{protocol}")?;
        if name.is_empty() { Ok(()) } else { write!(f, " ({name})") }
    }
}

/// Returns the ready endpoints of an Endpoints object.
pub fn in_endpoints(endpoints: &Endpoints) -> BTreeSet<ReadyEndpoint> {
    let each = endpoints.subsets.iter().flat_map(|subset| {
        subset.addresses.iter().flat_map(move |address| {
            let ports = subset.ports.iter();
            ports.map(move |port| ready(&address.ip, port.port, port.protocol.as_ref(), port.name.as_ref()))
        })
    });
    each.collect()
}

/// Returns the ready endpoints of a slice. Where the condition is unset, the API says that an endpoint is ready.
pub fn in_slice(slice: &EndpointSlice) -> BTreeSet<ReadyEndpoint> {
    let addresses = slice.endpoints.iter().filter(|endpoint| endpoint.conditions.ready.unwrap_or(true));
    let addresses = addresses.flat_map(|endpoint| endpoint.addresses.first());
    let each = addresses.flat_map(|address| {
        let ports = slice.ports.iter();
        ports.filter_map(move |port| Some(ready(address, port.port?, port.protocol.as_ref(), port.name.as_ref())))
    });
    each.collect()
}

fn ready(address: &str, port: i32, protocol: Option<&Arc<str>>, name: Option<&Arc<str>>) -> ReadyEndpoint {
    // An address of version 6 has several spellings.
    let address = address.parse().map_or_else(|_| address.to_owned(), |parsed: IpAddr| parsed.to_string());
    let protocol = protocol.cloned().unwrap_or_else(|| "TCP".into());
    ReadyEndpoint { address, port, protocol, name: name.cloned().unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn endpoints(subsets: Value) -> BTreeSet<ReadyEndpoint> {
        in_endpoints(&serde_json::from_value(json!({"subsets": subsets})).unwrap())
    }

    fn slice(endpoints: Value, ports: Value) -> BTreeSet<ReadyEndpoint> {
        in_slice(&serde_json::from_value(json!({"endpoints": endpoints, "ports": ports})).unwrap())
    }

    #[test]
    fn both_kinds_have_one_form() {
        let packed = endpoints(json!([
            {"addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00:0::1"}], "notReadyAddresses": [{"ip": "10.0.0.9"}],
             "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]},
            {"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]},
        ]));
        let sliced = |ready: Value| {
            let http = json!([{"name": "http", "port": 80}]);
            let mut all = slice(json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}]), http.clone());
            all.extend(slice(json!([{"addresses": ["fd00::1"], "conditions": {"ready": true}}]), http));
            let dns = json!([{"name": "dns", "port": 53, "protocol": "UDP"}]);
            all.extend(slice(json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}]), dns));
            all
        };
        assert_eq!(packed, sliced(json!(true)));
        assert_eq!(packed, sliced(json!(null)));
        let lacking: Vec<String> = packed.difference(&sliced(json!(false))).map(ToString::to_string).collect();
        assert_eq!(lacking, ["10.0.0.1 53/UDP (dns)", "10.0.0.1 80/TCP (http)"]);
    }

    /// Consumers find endpoints by the name of the port, and a port of another protocol serves other clients.
    #[test]
    fn another_name_or_protocol_is_another_endpoint() {
        let one = |port: Value| slice(json!([{"addresses": ["10.0.0.1"]}]), json!([port]));
        let wanted =
            endpoints(json!([{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "port-53", "port": 53}]}]));
        assert_eq!(one(json!({"name": "port-53", "port": 53})), wanted);
        for other in [
            json!({"name": "dns", "port": 53}),
            json!({"name": "port-53", "port": 53, "protocol": "UDP"}),
            json!({"name": "port-53", "port": 54}),
            json!({"port": 53}),
        ] {
            assert_ne!(one(other.clone()), wanted, "{other}");
        }
        assert!(one(json!({"name": "port-53"})).is_empty(), "a port without a number is every port");
    }
}
