//! The API: objects by collection and ID, and who answers which request.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_octavia_sim::{Method, SimRequest, SimResponse};
use serde_json::{Map, Value, json};

pub(crate) const NETWORKS: &str = "networks";
pub(crate) const SUBNETS: &str = "subnets";
pub(crate) const PORTS: &str = "ports";
pub(crate) const ROUTERS: &str = "routers";
pub(crate) const POOLS: &str = "subnetpools";
pub(crate) const GROUPS: &str = "security-groups";

pub(crate) type ModelRow = Map<String, Value>;
/// The status and the words of a refusal.
pub(crate) type ModelRefusal = (u16, String);

/// Neutron, for one token that may do everything.
#[derive(Debug, Clone, Default)]
pub struct NeutronModel {
    pub(crate) objects: BTreeMap<(&'static str, String), ModelRow>,
    /// The last host number that each subnet has given out.
    pub(crate) last: BTreeMap<String, u32>,
    made: u64,
    /// How many objects a project may have, by collection.
    quotas: BTreeMap<(String, &'static str), usize>,
    /// Hosts without an agent that could bind a port.
    pub(crate) dead_hosts: BTreeSet<String>,
}

impl NeutronModel {
    /// Returns a Neutron without any object.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many ports a project may have; `None`: any number.
    pub fn set_port_quota(&mut self, project: &str, most: Option<usize>) {
        let key = (project.to_owned(), PORTS);
        match most {
            Some(most) => _ = self.quotas.insert(key, most),
            None => _ = self.quotas.remove(&key),
        }
    }

    /// Sets whether no agent runs on a host: ports cannot be bound to it.
    pub fn set_dead(&mut self, host: &str, is_dead: bool) {
        if is_dead {
            self.dead_hosts.insert(host.to_owned());
        } else {
            self.dead_hosts.remove(host);
        }
    }

    /// Adds a security group, and returns its ID.
    pub fn add_group(&mut self) -> String {
        self.add(GROUPS, ModelRow::new())
    }

    /// Returns all objects of a collection, for instance `ports`.
    pub fn rows(&self, collection: &str) -> impl Iterator<Item = Value> {
        let of_it = self.objects.iter().filter(move |((one, _), _)| *one == collection);
        of_it.map(|(_, row)| Value::Object(row.clone()))
    }

    /// Returns one object.
    #[must_use]
    pub fn row(&self, collection: &'static str, id: &str) -> Option<Value> {
        self.objects.get(&(collection, id.to_owned())).cloned().map(Value::Object)
    }

    /// Answers a request.
    pub fn handle(&mut self, request: &SimRequest) -> SimResponse {
        let path: Vec<&str> = request.path.split('/').filter(|segment| !segment.is_empty()).collect();
        let answer = match path.as_slice() {
            ["v2.0", collection, rest @ ..] => collection_of(collection).and_then(|of| self.route(of, rest, request)),
            _ => Err(nothing()),
        };
        answer.unwrap_or_else(|(status, words)| SimResponse {
            status,
            body: json!({"NeutronError": {"type": "Refusal", "message": words, "detail": ""}}),
        })
    }

    fn route(&mut self, of: &'static str, rest: &[&str], request: &SimRequest) -> Result<SimResponse, ModelRefusal> {
        let singular = of.trim_end_matches('s').replace('-', "_");
        let ok = |status, body| Ok(SimResponse { status, body });
        if let (Method::Put, [id, ..]) = (request.method, rest) {
            self.check_revision(of, id, request.revision)?;
        }
        match (request.method, rest) {
            (Method::Get, []) => ok(200, json!({of.replace('-', "_"): self.list(of, &request.query)})),
            (Method::Get, [id]) => ok(200, json!({singular: self.get(of, id)?})),
            (Method::Post, []) => {
                if let Some(bodies) = request.body[of].as_array() {
                    return ok(201, json!({of: self.create_all(of, bodies)?}));
                }
                ok(201, json!({singular.clone(): self.create(of, &request.body[&singular])?}))
            }
            (Method::Put, [id, "tags"]) => {
                let tags = request.body["tags"].clone();
                self.change(of, id, |row| _ = row.insert("tags".into(), tags.clone()))?;
                ok(200, json!({"tags": tags}))
            }
            (Method::Put, [id, "add_router_interface"]) if of == ROUTERS => {
                ok(200, self.add_interface(id, &request.body)?)
            }
            (Method::Put, [id, "remove_router_interface"]) if of == ROUTERS => {
                ok(200, self.remove_interface(id, &request.body)?)
            }
            (Method::Put, [id]) => {
                let fields = request.body[&singular].as_object().cloned().unwrap_or_default();
                if of == PORTS {
                    self.check_groups(&request.body["port"])?;
                }
                self.change(of, id, |row| row.extend(fields))?;
                ok(200, json!({singular: self.get(of, id)?}))
            }
            (Method::Delete, [id]) => {
                self.delete(of, id)?;
                ok(204, Value::Null)
            }
            _ => Err(nothing()),
        }
    }

    /// Creates all of them, or none.
    fn create_all(&mut self, of: &'static str, bodies: &[Value]) -> Result<Vec<Value>, ModelRefusal> {
        let before = self.clone();
        let made: Result<Vec<_>, _> = bodies.iter().map(|body| self.create(of, body)).collect();
        made.inspect_err(|_| *self = before)
    }

    fn create(&mut self, of: &'static str, body: &Value) -> Result<Value, ModelRefusal> {
        let mut row = body.as_object().cloned().ok_or_else(|| (400, "Invalid input.".to_owned()))?;
        let project = body["project_id"].as_str().unwrap_or_default();
        let used = self.rows(of).filter(|row| row["project_id"] == project).count();
        if self.quotas.get(&(project.to_owned(), of)).is_some_and(|most| used >= *most) {
            let resource = of.trim_end_matches('s').replace('-', "_");
            return Err((409, format!("Quota exceeded for resources: ['{resource}'].")));
        }
        match of {
            PORTS => self.complete_port(&mut row)?,
            SUBNETS => self.complete_subnet(&mut row)?,
            _ => {}
        }
        let id = self.add(of, row);
        self.get(of, &id)
    }

    /// Stores a new object with what each has, and returns its ID.
    pub(crate) fn add(&mut self, of: &'static str, mut row: ModelRow) -> String {
        self.made += 1;
        let (id, n) = (format!("00000000-0002-4000-8000-{:012x}", self.made), self.made);
        for field in ["name", "description", "project_id"] {
            row.entry(field).or_insert(json!(""));
        }
        row.entry("tags").or_insert(json!([]));
        row.insert("id".into(), json!(id));
        row.insert("revision_number".into(), json!(1));
        let time = format!("2026-01-{:02}T{:02}:{:02}:{:02}Z", 1 + n / 86_400, n / 3600 % 24, n / 60 % 60, n % 60);
        row.insert("created_at".into(), json!(time));
        self.objects.insert((of, id.clone()), row);
        id
    }

    pub(crate) fn get(&self, of: &'static str, id: &str) -> Result<Value, ModelRefusal> {
        self.row(of, id).ok_or_else(|| missing(of, id))
    }

    fn check_revision(&self, of: &'static str, id: &str, wanted: Option<u64>) -> Result<(), ModelRefusal> {
        let present = self.get(of, id)?["revision_number"].as_u64();
        if wanted.is_none() || wanted == present {
            return Ok(());
        }
        Err((412, format!("Constrained to {wanted:?}, but current revision is {present:?}")))
    }

    /// Changes a row. It is another revision then, also if it says the same as before.
    pub(crate) fn change(
        &mut self,
        of: &'static str,
        id: &str,
        change: impl FnOnce(&mut ModelRow),
    ) -> Result<(), ModelRefusal> {
        let row = self.objects.get_mut(&(of, id.to_owned())).ok_or_else(|| missing(of, id))?;
        let revision = row["revision_number"].as_u64().unwrap_or_default();
        change(row);
        row.insert("revision_number".into(), json!(revision + 1));
        Ok(())
    }

    fn delete(&mut self, of: &'static str, id: &str) -> Result<(), ModelRefusal> {
        let row = self.get(of, id)?;
        match of {
            PORTS => Self::check_port_removal(&row)?,
            NETWORKS => self.check_network_removal(id)?,
            SUBNETS => self.check_subnet_removal(id)?,
            ROUTERS => self.check_router_removal(id)?,
            GROUPS => self.check_group_removal(id)?,
            _ => {}
        }
        self.objects.remove(&(of, id.to_owned()));
        Ok(())
    }
}

fn collection_of(name: &str) -> Result<&'static str, ModelRefusal> {
    let all = [NETWORKS, SUBNETS, PORTS, ROUTERS, POOLS, GROUPS];
    all.into_iter().find(|one| *one == name).ok_or_else(nothing)
}

fn nothing() -> ModelRefusal {
    (404, "The resource could not be found.".to_owned())
}

pub(crate) fn missing(of: &str, id: &str) -> ModelRefusal {
    let words = match of {
        NETWORKS => format!("Network {id} could not be found."),
        SUBNETS => format!("Subnet {id} could not be found."),
        PORTS => format!("Port {id} could not be found."),
        ROUTERS => format!("Router {id} could not be found"),
        POOLS => format!("Subnet pool {id} could not be found."),
        _ => format!("Security group {id} does not exist"),
    };
    (404, words)
}
