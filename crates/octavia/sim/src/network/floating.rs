//! Floating IPs.

use serde_json::{Value, json};

use super::{FLOATING, Network, NeutronRow, PORTS};
use crate::http::ApiRefusal;

impl Network {
    /// Gives a new floating IP its address, and leads it to its port.
    pub(super) fn new_floating(&mut self, row: &mut NeutronRow, body: &Value) -> Result<(), ApiRefusal> {
        let network = body["floating_network_id"].as_str().unwrap_or_default().to_owned();
        let subnet = body["subnet_id"].as_str().map(str::to_owned).or_else(|| self.subnet_in(&network));
        if subnet.is_none() {
            return Err(ApiRefusal::new(404, format!("Network {network} could not be found.")));
        }
        row.entry("description").or_insert(json!(""));
        row.entry("port_id").or_insert(Value::Null);
        let (_, address) = self.allocate(subnet.as_deref(), body["floating_ip_address"].as_str())?;
        row.insert("floating_ip_address".into(), json!(address));
        row.remove("subnet_id");
        self.associate(row)
    }

    /// Checks the port of a floating IP, and fills in its address: `_check_and_get_fip_assoc`.
    pub(super) fn associate(&self, row: &mut NeutronRow) -> Result<(), ApiRefusal> {
        let Some(port) = row["port_id"].as_str().map(str::to_owned) else {
            row.insert("fixed_ip_address".into(), Value::Null);
            return Ok(());
        };
        let found = self.get(PORTS, &port)?;
        let own = row.get("id").cloned();
        let inside = found["fixed_ips"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_v4 = |one: &&Value| one["ip_address"].as_str().is_some_and(|address| address.contains('.'));
        let [inside] = inside.iter().filter(is_v4).collect::<Vec<_>>()[..] else {
            let words = format!(
                "Port {port} has multiple fixed IPv4 addresses.  Must provide a specific IPv4 address when assigning a floating IP"
            );
            return Err(ApiRefusal::new(400, format!("Bad floatingip request: {words}.")));
        };
        let inside = inside["ip_address"].clone();
        // One of another external network is in the way of none.
        let is_in_the_way = |other: &NeutronRow| {
            other["port_id"] == json!(port)
                && other.get("floating_network_id") == row.get("floating_network_id")
                && other.get("id") != own.as_ref()
        };
        if self.all(FLOATING).any(is_in_the_way) {
            let words = format!(
                "Cannot associate floating IP {} with port {port}, as that fixed IP already has a floating IP",
                row["floating_ip_address"].as_str().unwrap_or_default()
            );
            return Err(ApiRefusal::new(409, words));
        }
        row.insert("fixed_ip_address".into(), inside);
        Ok(())
    }

    /// A floating IP whose port goes stays, without a port.
    pub(super) fn disassociate(&mut self, port: &str) {
        for ((collection, _), row) in &mut self.objects {
            if *collection == FLOATING && row["port_id"] == json!(port) {
                row.insert("port_id".into(), Value::Null);
                row.insert("fixed_ip_address".into(), Value::Null);
                super::bump(row);
            }
        }
    }
}
