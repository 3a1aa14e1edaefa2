//! Who has which address.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Value, json};

use super::{FLOATING, Network, NeutronRow, PORTS, Subnet};
use crate::http::ApiRefusal;

impl Network {
    /// Gives a new port its addresses.
    pub(super) fn place(&mut self, row: &mut NeutronRow, body: &Value) -> Result<(), ApiRefusal> {
        let none = [Value::Null];
        let wanted = body["fixed_ips"].as_array().filter(|all| !all.is_empty()).map_or(&none[..], Vec::as_slice);
        let mut fixed = Vec::new();
        for one in wanted {
            let subnet = one["subnet_id"].as_str().map(str::to_owned);
            let subnet = subnet.or_else(|| self.subnet_in(body["network_id"].as_str().unwrap_or_default()));
            let (subnet, address) = self.allocate(subnet.as_deref(), one["ip_address"].as_str())?;
            row.insert("network_id".into(), json!(self.subnets[&subnet].network));
            fixed.push(json!({"subnet_id": subnet, "ip_address": address}));
        }
        row.insert("fixed_ips".into(), json!(fixed));
        Ok(())
    }

    pub(super) fn subnet_in(&self, network: &str) -> Option<String> {
        self.subnets.iter().find(|(_, subnet)| subnet.network == network).map(|(id, _)| id.clone())
    }

    pub(super) fn allocate(
        &mut self,
        subnet: Option<&str>,
        wanted: Option<&str>,
    ) -> Result<(String, String), ApiRefusal> {
        let missing = || ApiRefusal::new(404, format!("Subnet {} could not be found.", subnet.unwrap_or_default()));
        let id = subnet.ok_or_else(missing)?.to_owned();
        if let Some(address) = wanted {
            let parsed: IpAddr = address.parse().map_err(|_| ApiRefusal::new(400, "Invalid input for ip_address."))?;
            if self.is_taken(&parsed.to_string()) {
                return Err(ApiRefusal::new(409, format!("IP address {address} already allocated in subnet {id}")));
            }
            return self.subnets.contains_key(&id).then(|| (id, parsed.to_string())).ok_or_else(missing);
        }
        let Some(Subnet { network, base, used, is_exhausted }) = self.subnets.get(&id).cloned() else {
            return Err(missing());
        };
        let nth = |n: u32| Ipv4Addr::from(u32::from(base).wrapping_add(n)).to_string();
        let next = (used + 1..used + 65_536).find(|n| !is_exhausted && !self.is_taken(&nth(*n + 1)));
        let words = || format!("No more IP addresses available on network {network}.");
        let next = next.ok_or_else(|| ApiRefusal::new(409, words()))?;
        if let Some(subnet) = self.subnets.get_mut(&id) {
            subnet.used = next;
        }
        Ok((id, nth(next + 1)))
    }

    fn is_taken(&self, address: &str) -> bool {
        let in_port = |row: &NeutronRow| {
            row["fixed_ips"].as_array().is_some_and(|all| all.iter().any(|one| one["ip_address"] == address))
        };
        self.all(PORTS).any(in_port) || self.all(FLOATING).any(|row| row["floating_ip_address"] == address)
    }
}
