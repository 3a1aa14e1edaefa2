//! A look at everything that one owner has, read by read.

mod planned;
mod policies;
mod secrets;
mod stray;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use gimbal_kuryr_model::Text;
use gimbal_octavia_plan::{
    ApiService, Mark, Seen, SeenBalancer, SeenFloatingIp, SeenMember, SeenMonitor, SeenPool, SeenPort, is_group,
};
use serde_json::Value;

use self::secrets::SecretsLook;
pub(crate) use self::secrets::secrets_of_project;
pub(crate) use self::stray::Stray;
use crate::call::CloudRead;
use crate::fingerprint::{is_anothers, tags_of};
use crate::listed_row::PackedOwnerRows;
use crate::sharing::owners_of_row;

/// What a read of a look is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LookPart {
    Balancers,
    Ports,
    Floating,
    /// Floating IPs of the port of a VIP.
    FloatingOf(String),
    /// The listeners of a load balancer.
    Listeners(String),
    /// The pools of a load balancer.
    Pools(String),
    Monitor(String),
    Members(String),
    /// The policies of a listener.
    Policies(String),
    /// The rules of a policy.
    Rules(String),
    /// The load balancer that has a port of the owner's, whoever's it is.
    UserOf(String),
    /// The secrets of a project.
    Secrets,
}

/// A read, and the project that it is made in.
pub(crate) type LookRead = (LookPart, Text, CloudRead);

/// Rows that a list of everything with the cluster's mark has shown about one owner.
#[derive(Debug, Default)]
pub(crate) struct OwnerRows {
    pub(crate) balancers: Vec<Value>,
    pub(crate) listeners: BTreeMap<String, Value>,
    pub(crate) pools: BTreeMap<String, Value>,
    /// Policies of listeners.
    pub(crate) policies: BTreeMap<String, Value>,
    /// Unset: not listed.
    pub(crate) floating: Option<Vec<Value>>,
    /// Ports with the owner's mark, as far as they are known; unset: they are to be searched for.
    pub(crate) ports: Option<Vec<SeenPort>>,
}

/// A look that goes on.
#[derive(Debug)]
pub(crate) struct OwnerLook {
    /// Tells its reads from those of a former look, which may still be answered.
    pub(crate) number: u64,
    /// When the first of its reads began.
    pub(crate) from: Option<Instant>,
    /// The life of the stream in which it began.
    pub(crate) life: u32,
    /// Name of the cluster whose objects are looked for; unset: whoever's they are.
    cluster: Option<Text>,
    /// Whether what a group has is left out: it is looked for by its own mark.
    is_alone: bool,
    /// Groups that were found although they are not looked for, and their owners.
    groups: BTreeMap<Text, BTreeSet<Text>>,
    /// The mark that is looked for; unset: whatever is found.
    tags: Vec<String>,
    descriptions: Vec<String>,
    rows: OwnerRows,
    /// Rows that lists have shown, until something more is read: thousands of looks may wait for their first read at once.
    packed: Option<PackedOwnerRows>,
    floating: Vec<Value>,
    monitors: BTreeMap<String, Value>,
    members: BTreeMap<String, Vec<Value>>,
    /// The rules of policies.
    rules: BTreeMap<String, Vec<Value>>,
    ports: Vec<Value>,
    /// Ports that are known without a search.
    known_ports: Option<Vec<SeenPort>>,
    /// What was asked for already: the same object may be named twice.
    asked: BTreeSet<LookPart>,
    /// Whether floating IPs are still to be found by the ports of VIPs.
    asks_for_floating: bool,
    /// Reads that are not answered yet, those that wait among them.
    outstanding: usize,
    /// Reads that are not planned yet.
    waiting: VecDeque<LookRead>,
    planned: usize,
    repeated: usize,
    failed: bool,
    /// Projects whose reads may fail: what is there is then taken for unknown, and left out.
    spared: BTreeSet<Text>,
    /// Projects that could not be read.
    unread: BTreeSet<Text>,
    /// Ports of Neutron that are the owner's although somebody has added to their description.
    found: BTreeSet<String>,
    /// The load balancers that have ports of the owner's and are not the owner's, by port.
    users: BTreeMap<String, Value>,
    secrets: SecretsLook,
}

fn add_new(all: &mut Vec<Value>, row: Value) {
    if !all.iter().any(|one| one["id"] == row["id"]) {
        all.push(row);
    }
}

impl OwnerLook {
    /// Returns a look at whatever is found.
    fn of_anybody(life: u32) -> Self {
        Self {
            number: 0,
            from: None,
            life,
            cluster: None,
            is_alone: false,
            groups: BTreeMap::new(),
            tags: Vec::new(),
            descriptions: Vec::new(),
            rows: OwnerRows::default(),
            packed: None,
            floating: Vec::new(),
            monitors: BTreeMap::new(),
            members: BTreeMap::new(),
            rules: BTreeMap::new(),
            ports: Vec::new(),
            known_ports: None,
            asked: BTreeSet::new(),
            asks_for_floating: true,
            outstanding: 0,
            waiting: VecDeque::new(),
            planned: 0,
            repeated: 0,
            failed: false,
            spared: BTreeSet::new(),
            unread: BTreeSet::new(),
            found: BTreeSet::new(),
            users: BTreeMap::new(),
            secrets: SecretsLook::default(),
        }
    }

    /// Begins a look in these projects. What `known` has is not read again.
    pub(crate) fn begin(mark: &Mark, projects: &[Text], known: Option<OwnerRows>, life: u32) -> (Self, Vec<LookRead>) {
        let mut look = Self {
            cluster: Some(mark.cluster.clone()),
            is_alone: !is_group(&mark.owner),
            tags: vec![mark.cluster_tag(), mark.owner_tag()],
            descriptions: mark.descriptions().into(),
            ..Self::of_anybody(life)
        };
        let mut reads = Vec::new();
        let lists_balancers = known.is_none();
        if let Some(mut known) = known {
            if let Some(floating) = known.floating.take() {
                look.floating = floating;
                look.asks_for_floating = false;
            }
            look.known_ports = known.ports.take();
            look.rows = known;
            let balancers = std::mem::take(&mut look.rows.balancers);
            reads.extend(look.take_balancers(balancers, projects.first()));
        }
        if reads.is_empty() {
            // A look ends with the answer to its last read. A load balancer without pools has none but this.
            look.known_ports = None;
        }
        let tags = look.tags.join(",");
        for project in projects {
            if lists_balancers {
                let query = vec![("tags", tags.clone()), ("project_id", project.to_string())];
                let read = list(ApiService::Octavia, "loadbalancer", "loadbalancers", query);
                reads.push((LookPart::Balancers, project.clone(), read));
            }
            if look.known_ports.is_none() {
                let query = vec![("description", mark.description()), ("project_id", project.to_string())];
                let ports = list(ApiService::Neutron, "port", "ports", query);
                reads.push((LookPart::Ports, project.clone(), ports));
            }
            if look.asks_for_floating {
                let mut query: Vec<_> = look.descriptions.iter().map(|one| ("description", one.clone())).collect();
                query.push(("project_id", project.to_string()));
                let floating = list(ApiService::Neutron, "floatingip", "floatingips", query);
                reads.push((LookPart::Floating, project.clone(), floating));
            }
        }
        look.outstanding = reads.len();
        if !lists_balancers {
            look.packed = Some(PackedOwnerRows::pack(&mut look.rows));
        }
        (look, reads)
    }

    fn unpack(&mut self) {
        if let Some(packed) = self.packed.take() {
            packed.unpack(&mut self.rows);
        }
    }

    /// Lets reads in these projects fail. What could be read of such a project is then left out as well: half a load balancer
    /// would be repaired.
    pub(crate) fn spare(&mut self, projects: BTreeSet<Text>) {
        self.spared = projects;
    }

    /// Returns the projects that could not be read.
    pub(crate) fn unread(&self) -> &BTreeSet<Text> {
        &self.unread
    }

    /// Returns groups that something was found in, and their owners.
    pub(crate) fn take_groups(&mut self) -> BTreeMap<Text, BTreeSet<Text>> {
        std::mem::take(&mut self.groups)
    }

    /// Looks at these objects of Neutron too.
    pub(crate) fn add(&mut self, strays: &[Stray]) -> Vec<LookRead> {
        self.outstanding += strays.len();
        self.found.extend(strays.iter().map(|stray| stray.id.clone()));
        strays.iter().map(Stray::read).collect()
    }

    /// Begins a look at one load balancer, whoever's it is.
    pub(crate) fn at_balancer(id: &str, project: &Text) -> (Self, Vec<LookRead>) {
        let look = Self { outstanding: 1, ..Self::of_anybody(0) };
        let read = one(ApiService::Octavia, "loadbalancer", format!("loadbalancers/{id}"));
        (look, vec![(LookPart::Balancers, project.clone(), read)])
    }

    /// Takes the rows of a read; returns what is to be read because of them.
    pub(crate) fn rows(&mut self, part: &LookPart, project: &Text, rows: Vec<Value>) -> Vec<LookRead> {
        self.unpack();
        self.outstanding = self.outstanding.saturating_sub(1);
        let mut more = Vec::new();
        match part {
            LookPart::Balancers => more = self.take_balancers(rows, Some(project)),
            LookPart::Ports => rows.into_iter().for_each(|row| add_new(&mut self.ports, row)),
            LookPart::Floating | LookPart::FloatingOf(_) => {
                for row in rows {
                    // What does not know the search for descriptions answers with what is everybody's.
                    if *part != LookPart::Floating || self.is_marked(&row) {
                        add_new(&mut self.floating, row);
                    }
                }
            }
            LookPart::Listeners(balancer) => {
                for (id, row) in self.named_by(balancer, "listeners", rows) {
                    more.extend(self.policies_of(&id, &row, project));
                    self.rows.listeners.insert(id, row);
                }
            }
            LookPart::Pools(balancer) => {
                for (id, row) in self.named_by(balancer, "pools", rows) {
                    more.extend(self.monitor_of(&row, project));
                    self.rows.pools.insert(id, row);
                }
            }
            // What is gone meanwhile is gone.
            LookPart::Monitor(id) => self.monitors.extend(rows.into_iter().next().map(|row| (id.clone(), row))),
            LookPart::Members(pool) => drop(self.members.insert(pool.clone(), rows)),
            LookPart::Policies(listener) => more = self.take_policies(listener, rows, project),
            LookPart::Rules(policy) => drop(self.rules.insert(policy.clone(), rows)),
            LookPart::UserOf(port) => self.take_user(port, &rows),
            LookPart::Secrets => self.secrets.take(&rows, project),
        }
        self.outstanding += more.len();
        more.extend(self.ask_for_users());
        more
    }

    /// Takes note that a read in a project failed. Returns what is to be read nevertheless.
    pub(crate) fn read_failed(&mut self, project: &Text) -> Vec<LookRead> {
        self.unpack();
        self.outstanding = self.outstanding.saturating_sub(1);
        self.unread.insert(project.clone());
        self.failed |= !self.spared.contains(project);
        self.ask_for_users()
    }

    /// Returns, when everything else was read, the reads that tell who has those ports of the owner's that no load balancer of
    /// the owner's has. One whose mark somebody took off is not found by the mark, and keeps its port.
    fn ask_for_users(&mut self) -> Vec<LookRead> {
        if self.outstanding > 0 || self.failed {
            return Vec::new();
        }
        let known = self.known_ports.iter().flatten().map(|port| (port.id.clone(), port.project.clone()));
        let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let read = self.ports.iter().map(|row| (text(row, "id"), text(row, "project_id")));
        let is_used = |id: &str| self.rows.balancers.iter().any(|row| row["vip_port_id"] == id);
        // What is in a project that could not be read is taken for unknown.
        let is_read = |project: &str| !self.unread.contains(project);
        let ports = known.chain(read).filter(|(id, project)| !is_used(id) && is_read(project)).collect::<Vec<_>>();
        let reads = ports.into_iter().filter_map(|(id, project)| {
            let query = vec![("vip_port_id", id.clone())];
            let read = list(ApiService::Octavia, "loadbalancer", "loadbalancers", query);
            self.ask(LookPart::UserOf(id), &Text::from(project), read)
        });
        let reads: Vec<_> = reads.collect();
        self.outstanding += reads.len();
        reads
    }

    /// Whether a row is not the owner's in spite of its tags: it names another cluster, or a group.
    fn is_left_out(&self, row: &Value) -> bool {
        let names_group = || self.is_alone && tags_of(row).any(is_group);
        self.cluster.as_ref().is_some_and(|cluster| is_anothers(row, cluster)) || names_group()
    }

    /// Whether a row of Neutron has a description that is searched for, or is the owner's although somebody has added to its own.
    fn is_marked(&self, row: &Value) -> bool {
        let is_found = || row["id"].as_str().is_some_and(|id| self.found.contains(id));
        self.descriptions.iter().any(|one| row["description"] == *one) || is_found()
    }

    /// Whether a row has the tags that are searched for.
    fn is_tagged(&self, row: &Value) -> bool {
        self.tags.iter().all(|wanted| tags_of(row).any(|tag| tag == wanted))
    }

    fn take_user(&mut self, port: &str, rows: &[Value]) {
        for row in rows {
            // One of the owner's that the lists have not shown was made since: what they have shown is out of date. Others with
            // its tags are left out of what was listed.
            self.failed |= !self.is_left_out(row) && !self.tags.is_empty() && self.is_tagged(row);
            self.users.insert(port.to_owned(), row.clone());
        }
    }

    /// Whether everything was read, or the rest is of no use.
    pub(crate) fn is_over(&self) -> bool {
        self.outstanding == 0 || self.failed
    }

    /// Returns what was seen, and the rows for [`print_of`](crate::fingerprint::print_of); `None` if anything could not be
    /// read.
    pub(crate) fn end(mut self) -> Option<(Seen, OwnerRows)> {
        if self.failed {
            return None;
        }
        self.unpack();
        let unread = std::mem::take(&mut self.unread);
        let is_known = |row: &Value| row["project_id"].as_str().is_none_or(|project| !unread.contains(project));
        self.rows.balancers.retain(is_known);
        self.ports.retain(is_known);
        self.floating.retain(is_known);
        let balancers = self.rows.balancers.iter().map(|row| self.tree(row)).collect();
        let read = self.ports.iter().filter(|row| self.is_marked(row)).map(SeenPort::read);
        let mut ports: Vec<SeenPort> = self.known_ports.iter().flatten().cloned().chain(read).collect();
        ports.iter_mut().for_each(|port| port.has_user(self.users.get(&port.id).unwrap_or(&Value::Null)));
        let floating = self.floating.iter().map(SeenFloatingIp::read).collect();
        let (secrets, secrets_hidden) = self.secrets.end();
        let seen = Seen { balancers, ports, floating, secrets, secrets_hidden };
        Some((seen, OwnerRows { floating: Some(self.floating), ..self.rows }))
    }

    fn take_balancers(&mut self, rows: Vec<Value>, project: Option<&Text>) -> Vec<LookRead> {
        let mut more = Vec::new();
        for row in rows {
            // A service, or a proxy before it, that does not know the search for tags answers with what is everybody's.
            if self.cluster.as_ref().is_some_and(|cluster| is_anothers(&row, cluster)) || !self.is_tagged(&row) {
                continue;
            }
            if let Some(group) = tags_of(&row).find(|tag| self.is_alone && is_group(tag)) {
                self.groups.entry(group.into()).or_default().extend(owners_of_row(&row));
                continue;
            }
            let project = row["project_id"].as_str().map(Text::from).or_else(|| project.cloned()).unwrap_or_default();
            let balancer = row["id"].as_str().unwrap_or_default().to_owned();
            // One list each: with fifty ports a request for each listener and pool would be a hundred.
            let parts_of =
                |resource, path| list(ApiService::Octavia, resource, path, vec![("loadbalancer_id", balancer.clone())]);
            let listeners = ids(&row["listeners"]);
            if listeners.iter().any(|id| !self.rows.listeners.contains_key(id)) {
                let read = parts_of("listener", "listeners");
                more.extend(self.ask(LookPart::Listeners(balancer.clone()), &project, read));
            }
            for id in listeners {
                if let Some(known) = self.rows.listeners.get(&id).cloned() {
                    more.extend(self.policies_of(&id, &known, &project));
                }
            }
            let pools = ids(&row["pools"]);
            if pools.iter().any(|id| !self.rows.pools.contains_key(id)) {
                let read = parts_of("pool", "pools");
                more.extend(self.ask(LookPart::Pools(balancer.clone()), &project, read));
            }
            for id in pools {
                if let Some(known) = self.rows.pools.get(&id).cloned() {
                    more.extend(self.monitor_of(&known, &project));
                }
                let read = list(ApiService::Octavia, "member", &format!("pools/{id}/members"), Vec::new());
                more.extend(self.ask(LookPart::Members(id), &project, read));
            }
            if let Some(port) = row["vip_port_id"].as_str().filter(|_| self.asks_for_floating) {
                let query = vec![("port_id", port.to_owned())];
                let read = list(ApiService::Neutron, "floatingip", "floatingips", query);
                more.extend(self.ask(LookPart::FloatingOf(port.to_owned()), &project, read));
            }
            let known = self.rows.balancers.iter().any(|one| one["id"] == row["id"]);
            if !known {
                self.rows.balancers.push(row);
            }
        }
        more
    }

    /// Returns those rows that a load balancer names. A part that was made since is seen by the next look, with its children.
    fn named_by(&self, balancer: &str, kind: &str, rows: Vec<Value>) -> Vec<(String, Value)> {
        let of = self.rows.balancers.iter().find(|one| one["id"] == balancer);
        let named = of.map(|one| ids(&one[kind])).unwrap_or_default();
        let with_id = |row: Value| Some((row["id"].as_str()?.to_owned(), row));
        rows.into_iter().filter_map(with_id).filter(|(id, _)| named.contains(id)).collect()
    }

    fn monitor_of(&mut self, pool: &Value, project: &Text) -> Option<LookRead> {
        let id = pool["healthmonitor_id"].as_str()?.to_owned();
        let read = one(ApiService::Octavia, "healthmonitor", format!("healthmonitors/{id}"));
        self.ask(LookPart::Monitor(id), project, read)
    }

    fn ask(&mut self, part: LookPart, project: &Text, read: CloudRead) -> Option<LookRead> {
        self.asked.insert(part.clone()).then(|| (part, project.clone(), read))
    }

    fn tree(&self, row: &Value) -> SeenBalancer {
        let mut balancer = SeenBalancer::read(row);
        let listeners = ids(&row["listeners"]);
        balancer.listeners =
            listeners.iter().filter_map(|id| self.rows.listeners.get(id)).map(|row| self.listener(row)).collect();
        for id in ids(&row["pools"]) {
            let Some(row) = self.rows.pools.get(&id) else { continue };
            let mut pool = SeenPool::read(row);
            let members = self.members.get(&id).map(Vec::as_slice).unwrap_or_default();
            pool.members = members.iter().map(SeenMember::read).collect();
            let monitor = row["healthmonitor_id"].as_str();
            pool.monitor = monitor.and_then(|id| self.monitors.get(id)).map(SeenMonitor::read);
            balancer.pools.push(pool);
        }
        balancer
    }
}

/// Returns a read of a whole list; `path` ends with the list's name.
pub(crate) fn list(
    service: ApiService,
    resource: &'static str,
    path: &str,
    query: Vec<(&'static str, String)>,
) -> CloudRead {
    let key = match resource {
        "loadbalancer" => "loadbalancers",
        "listener" => "listeners",
        "pool" => "pools",
        "member" => "members",
        "l7policy" => "l7policies",
        "l7rule" => "rules",
        "port" => "ports",
        "secret" => "secrets",
        _ => "floatingips",
    };
    CloudRead { service, resource, path: path.to_owned(), query, key, list: true, is_long: false }
}

/// Returns a read of one object.
pub(crate) fn one(service: ApiService, resource: &'static str, path: String) -> CloudRead {
    CloudRead { service, resource, path, query: Vec::new(), key: resource, list: false, is_long: false }
}

pub(crate) fn ids(references: &Value) -> Vec<String> {
    let all = references.as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().filter_map(|one| one.as_str().or_else(|| one["id"].as_str()).map(str::to_owned)).collect()
}
