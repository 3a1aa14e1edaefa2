//! Who has which address.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde_json::{Value, json};

use crate::NeutronModel;
use crate::model::{ModelRefusal, PORTS, SUBNETS};

impl NeutronModel {
    /// Returns an address of a network for a port that asks for none: of the first subnet that has one left.
    pub(crate) fn allocate(&mut self, network: &str) -> Result<Vec<Value>, ModelRefusal> {
        let subnets: Vec<(String, Ipv4Net)> = self.subnets_of(network).collect();
        if subnets.is_empty() {
            return Ok(Vec::new());
        }
        for (id, range) in subnets {
            if let Some(address) = self.next_in(&id, range) {
                return Ok(vec![json!({"subnet_id": id, "ip_address": address.to_string()})]);
            }
        }
        Err((409, format!("No more IP addresses available on network {network}.")))
    }

    pub(crate) fn subnets_of<'a>(&'a self, network: &'a str) -> impl Iterator<Item = (String, Ipv4Net)> + 'a {
        let of_it = self.objects.iter().filter(move |((of, _), row)| *of == SUBNETS && row["network_id"] == network);
        of_it.filter_map(|((_, id), row)| Some((id.clone(), row["cidr"].as_str()?.parse().ok()?)))
    }

    /// Addresses go round, so that one that was given back is not given out at once.
    fn next_in(&mut self, subnet: &str, range: Ipv4Net) -> Option<Ipv4Addr> {
        // Not those of the network, of the gateway, and for broadcasts.
        let hosts = u32::from(range.broadcast()) - u32::from(range.network());
        let last = self.last.get(subnet).copied().unwrap_or(1);
        let hosts = (0..hosts).map(|n| (last + n) % hosts + 1).filter(|host| (2..hosts).contains(host));
        let found = hosts.map(|host| (host, Ipv4Addr::from(u32::from(range.network()) + host)));
        let (host, address) = found.into_iter().find(|(_, address)| !self.is_taken(subnet, *address))?;
        self.last.insert(subnet.to_owned(), host);
        Some(address)
    }

    pub(crate) fn is_taken(&self, subnet: &str, address: Ipv4Addr) -> bool {
        let address = address.to_string();
        let has = |one: &Value| one["subnet_id"] == subnet && one["ip_address"] == address.as_str();
        self.rows(PORTS).any(|row| row["fixed_ips"].as_array().is_some_and(|all| all.iter().any(has)))
    }
}
