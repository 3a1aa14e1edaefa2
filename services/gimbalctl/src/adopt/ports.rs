//! What the first write of the writer changes on the ports of a Service. No I/O.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kubernetes_objects::ServicePort;
use gimbal_wire::pb;

/// A port: the number and the protocol tell it from others.
type PortId = (i64, String);

/// What a port is called, and what it speaks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortWords {
    name: String,
    app_protocol: String,
}

/// The ports of a Service.
pub type Ports = BTreeMap<PortId, PortWords>;

/// What changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortChanges {
    /// Each change, in words.
    pub changes: BTreeSet<String>,
    /// Those of them that are about what a port speaks.
    pub of_protocol: Vec<String>,
}

/// Returns the ports of a Service as it is.
pub fn there(ports: &[ServicePort]) -> Ports {
    let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().unwrap_or_default().to_owned();
    let port = |port: &ServicePort| {
        let protocol = port.protocol.as_deref().unwrap_or("TCP").to_owned();
        ((port.port.into(), protocol), PortWords { name: text(&port.name), app_protocol: text(&port.app_protocol) })
    };
    ports.iter().map(port).collect()
}

/// Returns the ports that the writer writes.
pub fn offered(status: &pb::ServiceStatus) -> Ports {
    // Without ports of their own, those that are written are those of the source.
    let written = if status.written_ports.is_empty() { &status.ports } else { &status.written_ports };
    let port = |port: &pb::ServicePort| {
        let protocol = port.protocol().as_str_name().trim_start_matches("PROTOCOL_").to_owned();
        let words = PortWords { name: port.name.clone(), app_protocol: port.app_protocol.clone().unwrap_or_default() };
        ((port.port.into(), protocol), words)
    };
    written.iter().map(port).collect()
}

/// Compares. The target port is not: without a selector, no consumer reads it.
pub fn changes(there: &Ports, offered: &Ports) -> PortChanges {
    let (mut found, nothing) = (PortChanges::default(), PortWords::default());
    for (id @ (number, protocol), next) in offered {
        let now = there.get(id);
        let port = format!("port {number}/{protocol}");
        match now {
            None => drop(found.changes.insert(format!("{port} is new"))),
            Some(now) if now.name != next.name => {
                found.changes.insert(format!("{port} is called {:?}, not {:?}", next.name, now.name));
            }
            Some(_) => {}
        }
        let (before, after) = (&now.unwrap_or(&nothing).app_protocol, &next.app_protocol);
        let change = match (before.is_empty(), after.is_empty()) {
            _ if before == after => continue,
            (true, _) => format!("{port} gets appProtocol {after}"),
            (_, true) => format!("{port} loses appProtocol {before}"),
            _ => format!("{port} gets appProtocol {after} instead of {before}"),
        };
        found.of_protocol.push(change.clone());
        found.changes.insert(change);
    }
    let gone = there.keys().filter(|id| !offered.contains_key(*id));
    found.changes.extend(gone.map(|(number, protocol)| format!("port {number}/{protocol} goes")));
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(ports: &Value) -> Ports {
        there(&serde_json::from_value::<Vec<ServicePort>>(ports.clone()).unwrap())
    }

    #[test]
    fn each_change_of_a_port_is_told_and_those_of_what_it_speaks_apart() {
        let port = |name: &str, number: u16, more: Value| {
            let mut port = json!({"name": name, "port": number});
            port.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            port
        };
        let plain = || port("http", 80, json!({"protocol": "TCP"}));
        let speaks = |what: &str| port("http", 80, json!({"appProtocol": what}));
        for (now, next, changes, of_protocol) in [
            (plain(), port("http", 80, json!({"targetPort": 8080})), &[][..], false),
            (plain(), port("web", 80, json!({})), &["port 80/TCP is called \"web\", not \"http\""][..], false),
            (plain(), speaks("h2c"), &["port 80/TCP gets appProtocol h2c"][..], true),
            (speaks("h2c"), plain(), &["port 80/TCP loses appProtocol h2c"][..], true),
            (speaks("a"), speaks("b"), &["port 80/TCP gets appProtocol b instead of a"][..], true),
            (
                plain(),
                port("http", 80, json!({"protocol": "UDP"})),
                &["port 80/TCP goes", "port 80/UDP is new"][..],
                false,
            ),
        ] {
            let found = super::changes(&of(&json!([now])), &of(&json!([next])));
            assert_eq!(found.changes.iter().collect::<Vec<_>>(), changes, "{next}");
            assert_eq!(!found.of_protocol.is_empty(), of_protocol, "{next}");
        }
    }

    #[test]
    fn ports_are_offered_as_the_policy_has_them() {
        let port = |app: Option<&str>| pb::ServicePort {
            name: "http".into(),
            port: 80,
            protocol: pb::Protocol::Tcp.into(),
            app_protocol: app.map(str::to_owned),
            ..Default::default()
        };
        let mut status = pb::ServiceStatus { ports: vec![port(Some("grpc"))], ..Default::default() };
        assert_eq!(offered(&status), of(&json!([{"name": "http", "port": 80, "appProtocol": "grpc"}])));
        status.written_ports = vec![port(None)];
        assert_eq!(offered(&status), of(&json!([{"name": "http", "port": 80}])));
    }
}
