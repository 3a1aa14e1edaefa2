//! Networks and subnets.

use ipnet::Ipv4Net;
use serde_json::{Value, json};

use crate::NeutronModel;
use crate::model::{ModelRefusal, ModelRow, NETWORKS, POOLS, PORTS, SUBNETS, missing};

impl NeutronModel {
    /// Adds a network with one subnet, and returns the network's ID. Anything that is no range counts as `10.0.0.0/24`.
    pub fn add_network(&mut self, project: &str, cidr: &str) -> String {
        let network = self.add(NETWORKS, row(json!({"project_id": project})));
        let range: Ipv4Net = cidr.parse().unwrap_or_default();
        let range = if range == Ipv4Net::default() { "10.0.0.0/24".to_owned() } else { range.to_string() };
        let subnet =
            json!({"project_id": project, "network_id": network, "cidr": range, "gateway_ip": gateway(&range)});
        self.add(SUBNETS, row(subnet));
        network
    }

    /// Adds a subnet pool with one prefix whose subnets have `length` bits, and returns its ID.
    pub fn add_subnet_pool(&mut self, prefix: &str, length: u8) -> String {
        self.add(POOLS, row(json!({"prefixes": [prefix], "default_prefixlen": length.to_string()})))
    }

    pub(crate) fn complete_subnet(&mut self, subnet: &mut ModelRow) -> Result<(), ModelRefusal> {
        let network = subnet.get("network_id").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.get(NETWORKS, &network)?;
        if let Some(pool) = subnet.get("subnetpool_id").and_then(Value::as_str) {
            let range = self.allocate_range(pool)?;
            subnet.insert("cidr".into(), json!(range));
        }
        let Some(range) = subnet.get("cidr").and_then(Value::as_str).map(str::to_owned) else {
            return Err((
                400,
                "Bad subnets request: a subnetpool must be specified in the absence of a cidr.".to_owned(),
            ));
        };
        subnet.insert("gateway_ip".into(), json!(gateway(&range)));
        Ok(())
    }

    /// Returns the first range of a pool that no subnet overlaps.
    fn allocate_range(&self, pool: &str) -> Result<String, ModelRefusal> {
        let row = self.get(POOLS, pool).map_err(|_| missing(POOLS, pool))?;
        let length = &row["default_prefixlen"];
        let length = length.as_str().map_or_else(|| length.to_string(), str::to_owned).parse().unwrap_or(24);
        let used: Vec<Ipv4Net> = self.rows(SUBNETS).filter_map(|row| row["cidr"].as_str()?.parse().ok()).collect();
        let overlaps = |range: &Ipv4Net| used.iter().any(|one| one.contains(range) || range.contains(one));
        let prefixes = row["prefixes"].as_array().into_iter().flatten();
        let prefixes = prefixes.filter_map(|prefix| prefix.as_str()?.parse::<Ipv4Net>().ok());
        let mut ranges = prefixes.filter_map(|prefix| prefix.subnets(length).ok()).flatten();
        let words =
            || format!("Failed to allocate subnet: Insufficient prefix space to allocate subnet size /{length}.");
        ranges.find(|range| !overlaps(range)).map(|range| range.to_string()).ok_or_else(|| (500, words()))
    }

    pub(crate) fn check_network_removal(&mut self, id: &str) -> Result<(), ModelRefusal> {
        if self.rows(PORTS).any(|port| port["network_id"] == id) {
            let why = "There are one or more ports still in use on the network";
            return Err((409, format!("Unable to complete operation on network {id}. {why}")));
        }
        // The subnets of a network go with it.
        self.objects.retain(|(of, _), row| *of != SUBNETS || row["network_id"] != id);
        Ok(())
    }

    pub(crate) fn check_subnet_removal(&self, id: &str) -> Result<(), ModelRefusal> {
        let has =
            |row: &Value| row["fixed_ips"].as_array().is_some_and(|all| all.iter().any(|one| one["subnet_id"] == id));
        if self.rows(PORTS).any(|row| has(&row)) {
            let why = "One or more ports have an IP allocation from this subnet.";
            return Err((409, format!("Unable to complete operation on subnet {id}: {why}")));
        }
        Ok(())
    }
}

/// The first address of a range.
fn gateway(range: &str) -> String {
    let range: Ipv4Net = range.parse().unwrap_or_default();
    range.hosts().next().unwrap_or_else(|| range.network()).to_string()
}

fn row(value: Value) -> ModelRow {
    value.as_object().cloned().unwrap_or_default()
}
