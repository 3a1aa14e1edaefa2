//! The endpoints of Endpoints objects and slices, in one form, so that they can be compared.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use gimbal_kubernetes_objects::{EndpointSlice, Endpoints};

/// An endpoint on one port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndpointOnPort {
    address: String,
    port: i32,
    protocol: Arc<str>,
    /// The port's name, by which consumers find the port of the Service; empty without one.
    name: Arc<str>,
}

impl fmt::Display for EndpointOnPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, port, protocol, name } = self;
        write!(f, "{address} {port}/{protocol}")?;
        if name.is_empty() { Ok(()) } else { write!(f, " ({name})") }
    }
}

impl EndpointOnPort {
    /// Whether it is the same but for the name of the port.
    fn is_named_otherwise(&self, other: &Self) -> bool {
        (&self.address, self.port, &self.protocol) == (&other.address, other.port, &other.protocol)
    }
}

/// How slices lack a ready endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// No slice has it.
    Absent,
    /// A slice has it, not ready.
    NotReady,
    /// A slice has it, on a port of another name.
    NamedOtherwise,
}

impl Lack {
    /// Returns where it is, in words.
    pub fn place(self) -> &'static str {
        match self {
            Self::Absent => "in no slice of the writer",
            Self::NotReady => "not ready in the slices of the writer",
            Self::NamedOtherwise => "on a port of another name in the slices of the writer",
        }
    }
}

/// The endpoints in the writer's slices of a Service.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PublishedEndpoints {
    ready: BTreeSet<EndpointOnPort>,
    not_ready: BTreeSet<EndpointOnPort>,
}

impl PublishedEndpoints {
    /// Takes those of a slice. Where the condition is unset, the API says that an endpoint is ready.
    pub fn add(&mut self, slice: &EndpointSlice) {
        for one in &slice.endpoints {
            let ready = one.conditions.ready.unwrap_or(true);
            let all = if ready { &mut self.ready } else { &mut self.not_ready };
            let Some(address) = one.addresses.first() else { continue };
            all.extend(
                slice
                    .ports
                    .iter()
                    .filter_map(|port| Some(endpoint(address, port.port?, port.protocol.as_ref(), port.name.as_ref()))),
            );
        }
    }

    /// Returns how a ready endpoint is lacking, if it is.
    pub fn lack(&self, wanted: &EndpointOnPort) -> Option<Lack> {
        if self.ready.contains(wanted) {
            return None;
        }
        if self.not_ready.contains(wanted) {
            return Some(Lack::NotReady);
        }
        let mut all = self.ready.iter().chain(&self.not_ready);
        Some(if all.any(|one| one.is_named_otherwise(wanted)) { Lack::NamedOtherwise } else { Lack::Absent })
    }
}

/// Returns the ready endpoints of an Endpoints object.
pub fn in_endpoints(endpoints: &Endpoints) -> BTreeSet<EndpointOnPort> {
    let each = endpoints.subsets.iter().flat_map(|subset| {
        subset.addresses.iter().flat_map(move |address| {
            let ports = subset.ports.iter();
            ports.map(move |port| endpoint(&address.ip, port.port, port.protocol.as_ref(), port.name.as_ref()))
        })
    });
    each.collect()
}

fn endpoint(address: &str, port: i32, protocol: Option<&Arc<str>>, name: Option<&Arc<str>>) -> EndpointOnPort {
    // An address of version 6 has several spellings.
    let address = address.parse().map_or_else(|_| address.to_owned(), |parsed: IpAddr| parsed.to_string());
    let protocol = protocol.cloned().unwrap_or_else(|| "TCP".into());
    EndpointOnPort { address, port, protocol, name: name.cloned().unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn endpoints(subsets: Value) -> BTreeSet<EndpointOnPort> {
        in_endpoints(&serde_json::from_value(json!({"subsets": subsets})).unwrap())
    }

    fn slices(all: &[(Value, Value)]) -> PublishedEndpoints {
        let mut published = PublishedEndpoints::default();
        for (endpoints, ports) in all {
            published.add(&serde_json::from_value(json!({"endpoints": endpoints, "ports": ports})).unwrap());
        }
        published
    }

    #[test]
    fn both_kinds_have_one_form() {
        let packed = endpoints(json!([
            {"addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00:0::1"}], "notReadyAddresses": [{"ip": "10.0.0.9"}],
             "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]},
            {"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]},
        ]));
        let sliced = |ready: Value| {
            let one = json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}]);
            let http = json!([{"name": "http", "port": 80}]);
            let dns = json!([{"name": "dns", "port": 53, "protocol": "UDP"}]);
            let v6 = json!([{"addresses": ["fd00::1"], "conditions": {"ready": true}}]);
            slices(&[(one.clone(), http.clone()), (v6, http), (one, dns)])
        };
        assert_eq!(packed, sliced(json!(true)).ready);
        assert_eq!(packed, sliced(json!(null)).ready);
        let not_ready = sliced(json!(false));
        let lacking: Vec<_> = packed.iter().filter_map(|one| Some((one.to_string(), not_ready.lack(one)?))).collect();
        let expected = ["10.0.0.1 53/UDP (dns)", "10.0.0.1 80/TCP (http)"];
        assert_eq!(lacking, expected.map(|one| (one.to_owned(), Lack::NotReady)));
    }

    /// Consumers find endpoints by the name of the port, and a port of another protocol serves other clients.
    #[test]
    fn another_name_or_protocol_is_another_endpoint() {
        let wanted =
            endpoints(json!([{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "port-53", "port": 53}]}]));
        let wanted = wanted.first().unwrap();
        for (port, lack) in [
            (json!({"name": "port-53", "port": 53}), None),
            (json!({"name": "dns", "port": 53}), Some(Lack::NamedOtherwise)),
            (json!({"port": 53}), Some(Lack::NamedOtherwise)),
            (json!({"name": "port-53", "port": 53, "protocol": "UDP"}), Some(Lack::Absent)),
            (json!({"name": "port-53", "port": 54}), Some(Lack::Absent)),
            // A port without a number is every port.
            (json!({"name": "port-53"}), Some(Lack::Absent)),
        ] {
            let published = slices(&[(json!([{"addresses": ["10.0.0.1"]}]), json!([port]))]);
            assert_eq!(published.lack(wanted), lack, "{port}");
        }
    }
}
