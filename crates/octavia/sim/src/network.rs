//! The part of Neutron that load balancers need: subnets, ports, floating IPs.

mod addresses;
mod floating;
mod vip;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use serde_json::{Map, Value, json};

use crate::cloud::CloudModel;
use crate::http::{ApiRefusal, Method, SimRequest, SimResponse};
use crate::objects::uuid;

/// The owner of a port that Octavia made.
const OCTAVIA: &str = "Octavia";
const PORTS: &str = "ports";
const FLOATING: &str = "floatingips";

type NeutronRow = Map<String, Value>;

#[derive(Debug, Clone)]
struct Subnet {
    network: String,
    base: Ipv4Addr,
    /// How many addresses were given out.
    used: u32,
    /// Whether none is left but for those who ask for one by name.
    is_exhausted: bool,
}

/// Subnets, and objects by collection and ID.
#[derive(Debug, Clone, Default)]
pub(crate) struct Network {
    subnets: BTreeMap<String, Subnet>,
    objects: BTreeMap<(&'static str, String), NeutronRow>,
    /// IDs of security groups.
    groups: BTreeSet<String>,
    made: u64,
}

impl CloudModel {
    /// Adds an IPv4 subnet, in a network of its own, and returns its ID. Anything that is no such subnet counts as
    /// `10.0.0.0/24`.
    pub fn add_subnet(&mut self, cidr: &str) -> String {
        let network = self.network.new_id();
        self.network.add_subnet(cidr, network)
    }

    /// Adds a second IPv4 subnet to the network of another one.
    pub fn add_subnet_beside(&mut self, other: &str, cidr: &str) -> String {
        let network = self.network_of(other).unwrap_or_default().to_owned();
        self.network.add_subnet(cidr, network)
    }

    /// Sets whether a subnet has no address left, but for those who ask for one by name.
    pub fn set_exhausted(&mut self, subnet: &str, is_exhausted: bool) {
        if let Some(subnet) = self.network.subnets.get_mut(subnet) {
            subnet.is_exhausted = is_exhausted;
        }
    }

    /// Adds a security group, and returns its ID.
    pub fn add_security_group(&mut self) -> String {
        let id = self.network.new_id();
        self.network.groups.insert(id.clone());
        id
    }

    /// Returns the network of a subnet.
    #[must_use]
    pub fn network_of(&self, subnet: &str) -> Option<&str> {
        self.network.subnets.get(subnet).map(|subnet| subnet.network.as_str())
    }

    pub(crate) fn neutron(&mut self, path: &[&str], request: &SimRequest) -> Result<SimResponse, ApiRefusal> {
        let network = &mut self.network;
        let not_found = || ApiRefusal::new(404, "The resource could not be found.");
        let collection = match path.first() {
            Some(&"ports") => PORTS,
            Some(&"floatingips") => FLOATING,
            _ => return Err(not_found()),
        };
        let singular = collection.trim_end_matches('s');
        if let (Method::Put | Method::Delete, Some(id)) = (request.method, path.get(1)) {
            network.check_revision(collection, id, request.revision)?;
        }
        match (request.method, &path[1..]) {
            (Method::Get, []) => Ok(network.list(collection, request)),
            (Method::Get, [id]) => network.get(collection, id).map(|row| SimResponse::ok(200, json!({singular: row}))),
            (Method::Post, []) => {
                let row = network.create(collection, &request.body[singular])?;
                Ok(SimResponse::ok(201, json!({singular: row})))
            }
            (Method::Put, [id]) => {
                let row = network.update(collection, id, &request.body[singular])?;
                Ok(SimResponse::ok(200, json!({singular: row})))
            }
            (Method::Put, [id, "tags"]) => {
                network.get(collection, id)?;
                let tags = request.body["tags"].clone();
                network.edit(collection, id, |row| _ = row.insert("tags".into(), tags.clone()));
                Ok(SimResponse::ok(200, json!({"tags": tags})))
            }
            (Method::Delete, [id]) => network.delete(collection, id).map(|()| SimResponse::empty(204)),
            _ => Err(not_found()),
        }
    }
}

impl Network {
    fn new_id(&mut self) -> String {
        self.made += 1;
        uuid(1, self.made)
    }

    fn add_subnet(&mut self, cidr: &str, network: String) -> String {
        let base = cidr.split('/').next().and_then(|base| base.parse().ok()).unwrap_or(Ipv4Addr::new(10, 0, 0, 0));
        let id = self.new_id();
        self.subnets.insert(id.clone(), Subnet { network, base, used: 0, is_exhausted: false });
        id
    }

    fn edit(&mut self, collection: &'static str, id: &str, change: impl FnOnce(&mut NeutronRow)) {
        if let Some(row) = self.objects.get_mut(&(collection, id.to_owned())) {
            change(row);
            bump(row);
        }
    }

    fn all(&self, collection: &'static str) -> impl Iterator<Item = &NeutronRow> {
        self.objects.iter().filter(move |((one, _), _)| *one == collection).map(|(_, row)| row)
    }

    /// Lists what fits every parameter; of several values of one parameter, one must fit.
    fn list(&self, collection: &'static str, request: &SimRequest) -> SimResponse {
        let query = request.query.as_slice();
        let values =
            |key: &'_ String| query.iter().filter(|(one, _)| one == key).map(|(_, value)| value).collect::<Vec<_>>();
        let fits = |row: &&NeutronRow| {
            request.query.iter().all(|(key, _)| match key.as_str() {
                "fields" | "limit" | "marker" => true,
                "tags" => values(key).iter().flat_map(|value| value.split(',')).all(|tag| has_tag(row, tag)),
                "fixed_ips" => values(key).iter().all(|value| has_address(row, value)),
                _ => {
                    let has = row.get(key).and_then(Value::as_str).unwrap_or_default();
                    values(key).iter().any(|value| *value == has)
                }
            })
        };
        let is_after = |row: &&NeutronRow| {
            request.parameter("marker").is_none_or(|marker| row["id"].as_str().is_some_and(|id| id > marker))
        };
        let limit = request.parameter("limit").and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
        let rows = self.all(collection).filter(fits).filter(is_after).take(limit);
        let page: Vec<Value> = rows.cloned().map(Value::Object).collect();
        let links = match page.last().filter(|_| page.len() == limit) {
            Some(last) => json!([{"rel": "next", "href": format!("/v2.0/{collection}?marker={}", last["id"])}]),
            None => json!([]),
        };
        SimResponse::ok(200, json!({collection: page, format!("{collection}_links"): links}))
    }

    pub(crate) fn has_group(&self, id: &str) -> bool {
        self.groups.contains(id)
    }

    fn check_groups(&self, groups: &Value) -> Result<(), ApiRefusal> {
        let groups = groups.as_array().map(Vec::as_slice).unwrap_or_default();
        let unknown = groups.iter().filter_map(Value::as_str).find(|id| !self.has_group(id));
        unknown.map_or(Ok(()), |id| Err(ApiRefusal::new(404, format!("Security group {id} does not exist"))))
    }

    fn get(&self, collection: &'static str, id: &str) -> Result<Value, ApiRefusal> {
        let found = self.objects.get(&(collection, id.to_owned())).cloned().map(Value::Object);
        let kind = if collection == PORTS { "Port" } else { "Floating IP" };
        found.ok_or_else(|| ApiRefusal::new(404, format!("{kind} {id} could not be found.")))
    }

    fn check_revision(&self, collection: &'static str, id: &str, wanted: Option<u64>) -> Result<(), ApiRefusal> {
        let Some(wanted) = wanted else { return Ok(()) };
        let present = self.get(collection, id)?["revision_number"].as_u64().unwrap_or_default();
        if present == wanted {
            return Ok(());
        }
        Err(ApiRefusal::new(412, format!("Constrained to {wanted}, but current revision is {present}")))
    }

    fn create(&mut self, collection: &'static str, body: &Value) -> Result<Value, ApiRefusal> {
        let mut row = body.as_object().cloned().ok_or_else(|| ApiRefusal::new(400, "Invalid input."))?;
        if collection == PORTS {
            self.place(&mut row, body)?;
            for key in ["device_id", "device_owner", "description", "name"] {
                row.entry(key).or_insert(json!(""));
            }
            row.entry("security_groups").or_insert(json!([]));
            self.check_groups(&row["security_groups"])?;
        } else {
            self.new_floating(&mut row, body)?;
        }
        row.entry("tags").or_insert(json!([]));
        row.insert("revision_number".into(), json!(1));
        let id = self.new_id();
        row.insert("id".into(), json!(id));
        self.objects.insert((collection, id), row.clone());
        Ok(Value::Object(row))
    }

    fn update(&mut self, collection: &'static str, id: &str, body: &Value) -> Result<Value, ApiRefusal> {
        let Value::Object(mut row) = self.get(collection, id)? else { return Err(ApiRefusal::new(500, "no row")) };
        row.extend(body.as_object().cloned().unwrap_or_default());
        self.check_groups(&body["security_groups"])?;
        if collection == FLOATING && body.get("port_id").is_some() {
            self.associate(&mut row)?;
        }
        bump(&mut row);
        self.objects.insert((collection, id.to_owned()), row.clone());
        Ok(Value::Object(row))
    }

    fn delete(&mut self, collection: &'static str, id: &str) -> Result<(), ApiRefusal> {
        let row = self.get(collection, id)?;
        if collection == PORTS && row["device_owner"].as_str().is_some_and(|owner| owner.starts_with("network:")) {
            let words = format!("Port {id} cannot be deleted directly via the port API: has device owner.");
            return Err(ApiRefusal::new(409, words));
        }
        self.objects.remove(&(collection, id.to_owned()));
        self.disassociate(id);
        Ok(())
    }
}

fn bump(row: &mut NeutronRow) {
    let revision = row.get("revision_number").and_then(Value::as_u64).unwrap_or_default();
    row.insert("revision_number".into(), json!(revision + 1));
}

fn has_tag(row: &NeutronRow, tag: &str) -> bool {
    row["tags"].as_array().is_some_and(|all| all.iter().any(|one| one == tag))
}

/// `fixed_ips=ip_address=10.0.0.1` and `fixed_ips=subnet_id=...`.
fn has_address(row: &NeutronRow, wanted: &str) -> bool {
    let Some((key, value)) = wanted.split_once('=') else { return false };
    row["fixed_ips"].as_array().is_some_and(|all| all.iter().any(|one| one[key] == value))
}
