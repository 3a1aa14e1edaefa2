//! The ports of VIPs.

use serde_json::{Value, json};

use super::{Network, OCTAVIA, PORTS};
use crate::http::ApiRefusal;

/// Where the VIP of a load balancer is.
pub(crate) struct Vip {
    pub(crate) port: String,
    pub(crate) subnet: String,
    pub(crate) network: String,
    pub(crate) address: String,
    /// The port's other addresses, as rows show them.
    pub(crate) additional: Vec<Value>,
}

impl Network {
    /// All addresses of one load balancer are of one network, and of different subnets:
    /// `_validate_subnets_share_network_but_no_duplicates`.
    pub(crate) fn check_subnets(&self, first: Option<&str>, more: &[Value]) -> Result<(), ApiRefusal> {
        let mut seen: Vec<&str> = first.into_iter().collect();
        for one in more {
            let Some(subnet) = one["subnet_id"].as_str() else {
                return Err(ApiRefusal::new(
                    400,
                    "Invalid input for field/attribute subnet_id. Mandatory field missing.",
                ));
            };
            if seen.contains(&subnet) {
                let words = "Duplicate VIP subnet(s) specified. Only one IP can be bound per subnet.";
                return Err(ApiRefusal::invalid(words));
            }
            seen.push(subnet);
        }
        let mut networks = Vec::new();
        for subnet in seen {
            let known = self.subnets.get(subnet).ok_or_else(|| ApiRefusal::not_found("Subnet", subnet))?;
            networks.push(&known.network);
        }
        networks.dedup();
        if networks.len() > 1 {
            return Err(ApiRefusal::invalid("All VIP subnets must belong to the same network."));
        }
        Ok(())
    }

    /// Takes the caller's port: `_validate_port_and_fill_or_validate_subnet`. Whether the driver writes itself into the port
    /// is up to the driver; Octavia does not.
    pub(crate) fn given_vip(
        &mut self,
        balancer: &str,
        port: &str,
        subnet: Option<&str>,
        address: Option<&str>,
        claims: bool,
    ) -> Result<Vip, ApiRefusal> {
        let row = self.get(PORTS, port).map_err(|_| ApiRefusal::invalid(format!("Port {port} not found.")))?;
        if let Some(device) = row["device_id"].as_str().filter(|device| !device.is_empty()) {
            return Err(ApiRefusal::invalid(format!("Port {port} is already used by device {device} ")));
        }
        let all = row["fixed_ips"].as_array().cloned().unwrap_or_default();
        let chosen = match (subnet, address) {
            (Some(subnet), _) => all
                .iter()
                .position(|one| one["subnet_id"] == subnet)
                .ok_or("No VIP address found on the specified VIP port within the specified subnet."),
            (None, Some(address)) => all
                .iter()
                .position(|one| one["ip_address"] == address)
                .ok_or("Specified VIP address not found on the specified VIP port."),
            (None, None) if all.len() == 1 => Ok(0),
            (None, None) => {
                Err("VIP port's subnet could not be determined. Please specify either a VIP subnet or address.")
            }
        };
        let chosen = chosen.map_err(ApiRefusal::invalid)?;
        if claims {
            self.edit(PORTS, port, |row| _ = row.insert("device_id".into(), json!(format!("lb-{balancer}"))));
        }
        Ok(vip(&row, chosen))
    }

    /// Makes Octavia's own port: `allocate_vip`.
    pub(crate) fn made_vip(
        &mut self,
        balancer: &str,
        project: &str,
        subnet: Option<&str>,
        address: Option<&str>,
        more: &[Value],
        groups: &Value,
    ) -> Result<Vip, ApiRefusal> {
        if let Some(subnet) = subnet
            && !self.subnets.contains_key(subnet)
        {
            return Err(ApiRefusal::not_found("Subnet", subnet));
        }
        let mut first = json!({"subnet_id": subnet});
        if let Some(address) = address {
            first["ip_address"] = json!(address);
        }
        let mut fixed = vec![first];
        fixed.extend(more.iter().cloned());
        let port = json!({
            "security_groups": groups,
            "name": format!("octavia-lb-{balancer}"),
            "project_id": project,
            "device_id": format!("lb-{balancer}"),
            "device_owner": OCTAVIA,
            "fixed_ips": fixed,
        });
        let network = subnet.and_then(|id| self.subnets.get(id)).map(|one| one.network.clone()).unwrap_or_default();
        let made = self.create(PORTS, &port).map_err(|refused| match refused.status {
            409 => ApiRefusal::new(
                500,
                format!("Error creating neutron port on network {network} due to ConflictException('ConflictException: 409')."),
            ),
            _ => refused,
        })?;
        Ok(vip(&made, 0))
    }

    /// Returns a VIP that only the provider knows.
    pub(crate) fn invented_vip(
        &mut self,
        port: Option<String>,
        subnet: Option<String>,
        address: Option<String>,
    ) -> Vip {
        let port = port.unwrap_or_else(|| self.new_id());
        let subnet = subnet.unwrap_or_else(|| self.new_id());
        let address = address.unwrap_or_else(|| "198.51.100.1".into());
        Vip { port, subnet, network: self.new_id(), address, additional: Vec::new() }
    }

    /// Gives a port the group of its load balancer and these, and no others: `update_vip_sg`.
    pub(crate) fn set_port_groups(&mut self, balancer: &str, port: &str, groups: &[Value]) {
        let own = own_group(balancer);
        self.groups.insert(own.clone());
        let all = std::iter::once(json!(own)).chain(groups.iter().cloned()).collect::<Vec<_>>();
        self.edit(PORTS, port, |row| _ = row.insert("security_groups".into(), json!(all)));
    }

    /// Gives back the port of a load balancer: Octavia's own goes, the caller's stays and is free again.
    pub(crate) fn release(&mut self, balancer: &str, port: Option<&str>) {
        let Some(port) = port else { return };
        let own = own_group(balancer);
        if self.groups.remove(&own) {
            self.edit(PORTS, port, |row| {
                if let Some(all) = row.get_mut("security_groups").and_then(Value::as_array_mut) {
                    all.retain(|one| *one != own);
                }
            });
        }
        let device = json!(format!("lb-{balancer}"));
        let Ok(row) = self.get(PORTS, port) else { return };
        if row["device_id"] != device {
            return;
        }
        if row["device_owner"] == json!(OCTAVIA) {
            self.objects.remove(&(PORTS, port.to_owned()));
            self.disassociate(port);
        } else {
            self.edit(PORTS, port, |row| _ = row.insert("device_id".into(), json!("")));
        }
    }
}

/// Returns the ID of the group that the driver makes for a load balancer, `lb-<id>`.
fn own_group(balancer: &str) -> String {
    balancer.replacen("00000000", "5ec00000", 1)
}

fn vip(port: &Value, chosen: usize) -> Vip {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = port["fixed_ips"].as_array().cloned().unwrap_or_default();
    let fixed = all.get(chosen).cloned().unwrap_or_default();
    let additional = all.into_iter().enumerate().filter(|(nth, _)| *nth != chosen).map(|(_, one)| one).collect();
    Vip {
        port: text(&port["id"]),
        subnet: text(&fixed["subnet_id"]),
        network: text(&port["network_id"]),
        address: text(&fixed["ip_address"]),
        additional,
    }
}
