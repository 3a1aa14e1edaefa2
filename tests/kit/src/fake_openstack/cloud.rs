//! The content of the cloud, and how it is listed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::answer::{Answer, Asked};

/// How lists are cut into pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paging {
    /// As Octavia does.
    Markers,
    /// The marker is ignored, and a next page is offered all the same.
    Repeating,
    /// As in a Neutron without pagination: always every row, without a next page.
    None,
}

/// The content of the cloud. Rows are JSON, so that a test can put anything there.
pub struct FakeCloud {
    pub(super) url: String,
    /// The password of the user `fake`, and the secret of the application credential `fake`.
    pub password: String,
    /// How long tokens live.
    pub token_life: Duration,
    /// The tokens that are accepted, by value.
    pub tokens: BTreeMap<String, Token>,
    pub(super) issued: usize,
    /// Whether the user may list the objects of all projects.
    pub global: bool,
    /// Further roles of the user, which show no objects.
    pub roles: BTreeSet<&'static str>,
    /// Projects, in order.
    pub projects: Vec<Value>,
    /// Projects on which the user has no role (any more).
    pub foreign: BTreeSet<String>,
    /// Whether each list of projects is marked as truncated.
    pub projects_truncated: bool,
    /// Whether the list of all projects has pages, as from Keystone 27 on.
    pub projects_paged: bool,
    /// The most projects that Keystone returns at once (`max_db_limit`); without a page limit in the request the list
    /// is truncated without notice.
    pub projects_max: usize,
    /// Whether the catalog has Octavia, or only Neutron with neutron-lbaas.
    pub octavia: bool,
    /// The types of services in the catalog, if they differ from the existing services. A `network` beside Octavia has
    /// an old plug-in for load balancing without any objects.
    pub catalog: Option<Vec<&'static str>>,
    /// The lists that show no objects of other projects, whatever the user may see elsewhere: a policy for each kind.
    pub restricted: BTreeSet<&'static str>,
    /// Whether answers have a readable `Date`.
    pub dated: bool,
    /// How lists are paged.
    pub paging: Paging,
    /// The server's own maximum of rows per page.
    pub page_max: usize,
    /// Load balancers, in order of creation, as all other lists.
    pub load_balancers: Vec<Value>,
    /// Listeners.
    pub listeners: Vec<Value>,
    /// Pools.
    pub pools: Vec<Value>,
    /// L7 policies.
    pub l7_policies: Vec<Value>,
    /// Members by their pool's ID.
    pub members: BTreeMap<String, Vec<Value>>,
}

/// A token that is accepted.
#[derive(Debug, Clone)]
pub struct Token {
    pub(super) project: Option<String>,
    /// Whether it is bound to its project, by an application credential.
    pub(super) bound: bool,
    /// Whether it is scoped to the system.
    pub(super) system: bool,
    pub(super) expires_at: Timestamp,
}

impl FakeCloud {
    pub(super) fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            password: "fake-secret".to_owned(),
            token_life: Duration::from_secs(3600),
            tokens: BTreeMap::new(),
            issued: 0,
            global: false,
            roles: BTreeSet::new(),
            projects: Vec::new(),
            foreign: BTreeSet::new(),
            projects_truncated: false,
            projects_paged: true,
            projects_max: 1000,
            octavia: true,
            catalog: None,
            restricted: BTreeSet::new(),
            dated: true,
            paging: Paging::Markers,
            page_max: 1000,
            load_balancers: Vec::new(),
            listeners: Vec::new(),
            pools: Vec::new(),
            l7_policies: Vec::new(),
            members: BTreeMap::new(),
        }
    }

    /// Adds a project.
    pub fn project(&mut self, id: &str, name: &str) {
        self.projects.push(json!({"id": id, "name": name, "domain_id": "default", "enabled": true}));
    }

    /// Adds a load balancer. It is ACTIVE, as are the objects that the methods below add.
    pub fn load_balancer(&mut self, project: &str, id: &str, name: &str) {
        let row = json!({"id": id, "name": name, "vip_address": "10.9.0.9", "listeners": [], "pools": []});
        self.load_balancers.push(settled(row, project));
    }

    /// Adds a listener to a load balancer.
    pub fn listener(&mut self, load_balancer: &str, id: &str, protocol: &str, port: u16, pool: Option<&str>) {
        let row = json!({"id": id, "protocol": protocol, "protocol_port": port, "default_pool_id": pool,
            "loadbalancers": [{"id": load_balancer}], "l7policies": []});
        self.listeners.push(settled(row, &project_of(&self.load_balancers, load_balancer)));
        refer(&mut self.load_balancers, load_balancer, "listeners", id);
    }

    /// Adds a pool to a load balancer.
    pub fn pool(&mut self, load_balancer: &str, id: &str) {
        let row = json!({"id": id, "protocol": "HTTP", "members": [], "listeners": [],
            "loadbalancers": [{"id": load_balancer}]});
        self.pools.push(settled(row, &project_of(&self.load_balancers, load_balancer)));
        refer(&mut self.load_balancers, load_balancer, "pools", id);
    }

    /// Adds a member to a pool.
    pub fn member(&mut self, pool: &str, id: &str, address: &str, port: u16) {
        let row = json!({"id": id, "address": address, "protocol_port": port, "weight": 1, "backup": false});
        let row = settled(row, &project_of(&self.pools, pool));
        self.members.entry(pool.to_owned()).or_default().push(row);
        refer(&mut self.pools, pool, "members", id);
    }

    /// Changes the row with this ID, wherever it is, and its `updated_at`.
    pub fn change(&mut self, id: &str, key: &str, value: Value) {
        for row in self.lists().into_iter().flatten().filter(|row| row["id"] == id) {
            row[key] = value.clone();
            row["updated_at"] = now().into();
        }
    }

    /// Removes the row with this ID, and references to it. A pool's members are removed with it.
    pub fn remove(&mut self, id: &str) {
        self.members.remove(id);
        for list in self.lists() {
            list.retain(|row| row["id"] != id);
            for row in list {
                for key in ["listeners", "pools", "members", "loadbalancers"] {
                    if let Some(references) = row.get_mut(key).and_then(Value::as_array_mut) {
                        references.retain(|reference| reference["id"] != id);
                    }
                }
            }
        }
    }

    fn lists(&mut self) -> Vec<&mut Vec<Value>> {
        let lists = [&mut self.load_balancers, &mut self.listeners, &mut self.pools, &mut self.l7_policies];
        lists.into_iter().chain(self.members.values_mut()).collect()
    }

    /// Returns a page of those rows that the token may see.
    pub(super) fn page(&self, key: &str, rows: &[Value], asked: &Asked, project: &str) -> Answer {
        let global = self.shows_all(key);
        let wanted = asked.query("project_id").or_else(|| asked.query("tenant_id"));
        if wanted.as_deref().is_some_and(|wanted| wanted != project) && !global {
            return Answer::forbidden();
        }
        let visible = |row: &&Value| {
            (global || row["project_id"] == project) && wanted.as_ref().is_none_or(|id| row["project_id"] == **id)
        };
        let named = asked.query("id");
        let rows: Vec<_> =
            rows.iter().filter(visible).filter(|row| named.as_ref().is_none_or(|id| row["id"] == **id)).collect();
        let limit = asked.limit().unwrap_or(usize::MAX).min(self.page_max);
        let start = match asked.marker().filter(|_| self.paging == Paging::Markers) {
            None => 0,
            Some(marker) => match rows.iter().position(|row| row["id"] == *marker) {
                Some(at) => at + 1,
                None if self.octavia => return Answer::marker_gone(&marker),
                // As tests/openstack/recorded/lbaas/loadbalancers-unknown-marker.json has it.
                None => return Answer::json(200, &json!({key: [], format!("{key}_links"): []})),
            },
        };
        let limit = if self.paging == Paging::None { usize::MAX } else { limit };
        let page: Vec<_> = rows.into_iter().skip(start).take(limit).map(|row| self.shaped(row)).collect();
        let mut body = json!({key: page});
        if self.paging != Paging::None {
            // As in Octavia, the link lacks the filters and fields of the request.
            let next = json!({"rel": "next", "href": format!("{}/nowhere?limit={limit}", self.url)});
            body[format!("{key}_links")] = if page.len() == limit { json!([next]) } else { json!([]) };
        }
        Answer::json(200, &body)
    }

    /// Whether the user sees the objects of all projects, of a kind given by the last part of its path.
    pub(super) fn shows_all(&self, key: &str) -> bool {
        self.global && !self.restricted.contains(key)
    }

    /// Returns a row in the form of the API that the cloud has, Octavia or neutron-lbaas.
    pub(super) fn shaped(&self, row: &Value) -> Value {
        let mut row = row.clone();
        if let Value::Object(fields) = &mut row
            && !self.octavia
        {
            for key in ["project_id", "created_at", "updated_at", "backup"] {
                fields.remove(key);
            }
            if !fields.contains_key("vip_address") {
                fields.remove("provisioning_status");
                fields.remove("operating_status");
            }
        }
        row
    }
}

fn settled(mut row: Value, project: &str) -> Value {
    for (key, value) in [
        ("project_id", json!(project)),
        ("tenant_id", json!(project)),
        ("admin_state_up", json!(true)),
        ("provisioning_status", json!("ACTIVE")),
        ("operating_status", json!("ONLINE")),
        ("created_at", json!(now())),
        ("updated_at", json!(null)),
    ] {
        row[key] = value;
    }
    row
}

fn project_of(rows: &[Value], id: &str) -> String {
    rows.iter().find(|row| row["id"] == id).and_then(|row| row["project_id"].as_str()).unwrap_or_default().to_owned()
}

fn refer(rows: &mut [Value], id: &str, key: &str, to: &str) {
    for row in rows.iter_mut().filter(|row| row["id"] == id) {
        if let Some(references) = row[key].as_array_mut() {
            references.push(json!({"id": to}));
        }
        row["updated_at"] = now().into();
    }
}

/// Returns the current time in UTC without a zone, as Octavia writes it.
fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S").to_string()
}
