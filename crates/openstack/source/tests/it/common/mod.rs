//! A cloud to poll, and a caller that polls it.
#![allow(dead_code, clippy::unwrap_used)] // Each test file uses its share, and a panic is its report.

pub mod faults;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_model::{Service, SourceKey};
use gimbal_octavia_rows::{CompleteList, Existence, Id};
use gimbal_octavia_rows::{L7Policy, Listener, LoadBalancer, Member, Pool, Project};
use gimbal_openstack_source::{CloudPoller, ListMode, ListScope, MembersError, PollOptions, PollOutcome, Query, Reply};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub const INTERVAL: Duration = Duration::from_secs(10);

pub fn id(text: &str) -> Id {
    Id::try_from(text).unwrap()
}

pub fn row<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).unwrap()
}

/// The real state of the cloud.
#[derive(Debug, Clone, Default)]
pub struct World {
    pub projects: BTreeMap<Id, Project>,
    pub load_balancers: BTreeMap<Id, LoadBalancer>,
    pub listeners: BTreeMap<Id, Listener>,
    pub pools: BTreeMap<Id, Pool>,
    pub members: BTreeMap<Id, BTreeMap<Id, Member>>,
    pub policies: BTreeMap<Id, L7Policy>,
    /// The server's clock, in seconds.
    pub seconds: i64,
    /// Whether rows have no timestamps, as with neutron-lbaas.
    pub timeless: bool,
    /// Whether a proxy strips the server's clock (`Date`).
    pub undated: bool,
}

impl World {
    pub fn time(&self) -> Option<Timestamp> {
        Some(Timestamp::from_second(1_800_000_000 + self.seconds).unwrap())
    }

    pub fn project(&mut self, project: &str, name: &str) {
        self.projects.insert(id(project), Project { id: id(project), name: name.into() });
    }

    pub fn load_balancer(&mut self, balancer: &str, project: &str, name: &str) -> &mut LoadBalancer {
        let new = row(json!({"id": balancer, "project_id": project, "name": name}));
        self.load_balancers.insert(id(balancer), new);
        self.load_balancers.get_mut(&id(balancer)).unwrap()
    }

    pub fn listener(&mut self, listener: &str, balancer: &str, port: u16, protocol: &str, pool: &str) -> &mut Listener {
        let pool = (!pool.is_empty()).then_some(pool);
        let new = row(json!({"id": listener, "protocol": protocol, "protocol_port": port, "default_pool_id": pool,
            "loadbalancers": [{"id": balancer}], "l7policies": []}));
        self.listeners.insert(id(listener), new);
        self.load_balancers.get_mut(&id(balancer)).unwrap().listeners.push(id(listener));
        self.listeners.get_mut(&id(listener)).unwrap()
    }

    pub fn pool(&mut self, pool: &str, balancer: &str, protocol: &str) -> &mut Pool {
        let new = row(json!({"id": pool, "protocol": protocol, "loadbalancers": [{"id": balancer}]}));
        self.pools.insert(id(pool), new);
        self.load_balancers.get_mut(&id(balancer)).unwrap().pools.push(id(pool));
        self.pools.get_mut(&id(pool)).unwrap()
    }

    pub fn member(&mut self, pool: &str, member: &str, address: &str, port: u16) -> &mut Member {
        let new = row(json!({"id": member, "address": address, "protocol_port": port}));
        self.pools.get_mut(&id(pool)).unwrap().members.push(id(member));
        self.touch(pool);
        let members = self.members.entry(id(pool)).or_default();
        members.insert(id(member), new);
        members.get_mut(&id(member)).unwrap()
    }

    /// Returns a member to be changed through the API, which updates its pool's `updated_at`.
    pub fn change_member(&mut self, pool: &str, member: &str) -> &mut Member {
        self.touch(pool);
        self.health(pool, member)
    }

    /// Returns a member whose health is to be changed, which does not update `updated_at`.
    pub fn health(&mut self, pool: &str, member: &str) -> &mut Member {
        self.members.get_mut(&id(pool)).unwrap().get_mut(&id(member)).unwrap()
    }

    pub fn delete_member(&mut self, pool: &str, member: &str) {
        self.members.get_mut(&id(pool)).unwrap().remove(&id(member));
        self.pools.get_mut(&id(pool)).unwrap().members.retain(|held| *held != id(member));
        self.touch(pool);
    }

    pub fn touch(&mut self, pool: &str) {
        let time = self.time().filter(|_| !self.timeless);
        self.pools.get_mut(&id(pool)).unwrap().updated_at = time;
    }

    /// Deletes a load balancer with everything below it, like `cascade=true`.
    pub fn delete_load_balancer(&mut self, balancer: &str) {
        let balancer = id(balancer);
        self.load_balancers.remove(&balancer);
        self.listeners.retain(|_, row| !row.load_balancers.contains(&balancer));
        self.pools.retain(|_, row| !row.load_balancers.contains(&balancer));
        let World { members, pools, .. } = self;
        members.retain(|pool, _| pools.contains_key(pool));
    }

    /// Adds a load balancer with one listener, one pool and `members` members to `project`.
    pub fn tree(&mut self, n: usize, project: &str, members: usize) {
        let (balancer, pool) = (format!("lb{n}"), format!("p{n}"));
        self.load_balancer(&balancer, project, "web");
        self.pool(&pool, &balancer, "HTTP");
        self.listener(&format!("l{n}"), &balancer, 80, "HTTP", &pool);
        for m in 0..members {
            self.member(&pool, &format!("m{n}-{m}"), &format!("10.{}.{}.{}", n / 250, n % 250, m + 1), 8080);
        }
    }

    fn list<T>(&self, rows: Vec<T>) -> CompleteList<T> {
        CompleteList { rows, unreadable: Vec::new(), server_time: self.time().filter(|_| !self.undated) }
    }

    /// Returns the answer of a server without faults.
    pub fn answer(&self, ask: &Query) -> Reply {
        let of = |whose: &ListScope, project: &Id| match whose {
            ListScope::AllProjects => true,
            ListScope::Project(id) => id == project,
        };
        let owner = |balancers: &[Id]| {
            balancers
                .first()
                .and_then(|id| self.load_balancers.get(id))
                .map(|row| row.project.clone())
                .unwrap_or_else(|| id("no-owner"))
        };
        match ask.clone() {
            Query::Projects => Reply::Projects(Ok(self.list(self.projects.values().cloned().collect()))),
            Query::LoadBalancers(whose) => {
                let rows = self.load_balancers.values().filter(|row| of(&whose, &row.project)).cloned().collect();
                Reply::LoadBalancers(whose, Ok(self.list(rows)))
            }
            Query::Listeners(whose) => {
                let rows =
                    self.listeners.values().filter(|row| of(&whose, &owner(&row.load_balancers))).cloned().collect();
                Reply::Listeners(whose, Ok(self.list(rows)))
            }
            Query::Pools(whose) => {
                let rows = self.pools.values().filter(|row| of(&whose, &owner(&row.load_balancers))).cloned().collect();
                Reply::Pools(whose, Ok(self.list(rows)))
            }
            Query::L7Policies(whose) => {
                Reply::L7Policies(whose, Ok(self.list(self.policies.values().cloned().collect())))
            }
            Query::Members(whose, pool) => {
                let members =
                    match self.pools.contains_key(&pool) {
                        false => Err(MembersError::PoolGone),
                        true => Ok(self
                            .list(self.members.get(&pool).into_iter().flatten().map(|(_, row)| row.clone()).collect())),
                    };
                Reply::Members(whose, pool, members)
            }
            Query::LoadBalancer(whose, id) => {
                let found = existence(self.load_balancers.contains_key(&id));
                Reply::LoadBalancer(whose, id, Ok(found))
            }
            Query::Listener(whose, id) => {
                let found = existence(self.listeners.contains_key(&id));
                Reply::Listener(whose, id, Ok(found))
            }
            Query::Pool(whose, id) => {
                let found = existence(self.pools.contains_key(&id));
                Reply::Pool(whose, id, Ok(found))
            }
            Query::Roles(whose) => Reply::Roles(whose, Ok(Vec::new())),
        }
    }
}

fn existence(there: bool) -> Existence {
    if there { Existence::Found } else { Existence::Gone }
}

/// Polls a world, and holds the published Services.
pub struct Caller {
    pub cloud: CloudPoller,
    pub world: World,
    pub now: Instant,
    pub view: BTreeMap<SourceKey, Arc<Service>>,
    /// The queries of the last poll.
    pub asked: Vec<Query>,
}

impl Caller {
    pub fn new(mode: ListMode, options: PollOptions, world: World) -> Self {
        let now = Instant::now();
        Self { cloud: CloudPoller::new(mode, options), world, now, view: BTreeMap::new(), asked: Vec::new() }
    }

    /// Bulk mode without a sweep.
    pub fn bulk(world: World) -> Self {
        Self::new(ListMode::Bulk, quiet(), world)
    }

    pub fn per_project(world: World) -> Self {
        Self::new(ListMode::PerProject, quiet(), world)
    }

    /// Polls a server without faults once.
    pub fn poll(&mut self) -> PollOutcome {
        self.poll_with(|_, _| None)
    }

    /// Polls once. `fault` may answer instead of the world, or change the world before it answers.
    pub fn poll_with(&mut self, mut fault: impl FnMut(&Query, &mut World) -> Option<Reply>) -> PollOutcome {
        self.now += INTERVAL;
        self.world.seconds += i64::try_from(INTERVAL.as_secs()).unwrap();
        self.asked.clear();
        self.cloud.begin(self.now);
        while let Some(ask) = self.cloud.next_query() {
            let answer = fault(&ask, &mut self.world).unwrap_or_else(|| self.world.answer(&ask));
            self.asked.push(ask);
            self.cloud.answer(answer, self.now);
        }
        assert!(self.cloud.is_done());
        let outcome = self.cloud.finish(self.now);
        self.apply(&outcome.changes);
        outcome
    }

    pub fn apply(&mut self, changes: &[(SourceKey, Option<Arc<Service>>)]) {
        for (key, service) in changes.iter().cloned() {
            match service {
                Some(service) => drop(self.view.insert(key, service)),
                None => drop(self.view.remove(&key)),
            }
        }
    }

    /// Polls until nothing changes. Recent changes are read twice, because their second may not be over.
    pub fn poll_until_stable(&mut self) -> PollOutcome {
        self.poll();
        self.poll();
        self.poll()
    }

    pub fn names(&self) -> Vec<String> {
        self.view.keys().map(ToString::to_string).collect()
    }

    /// Returns each Service with the project that its annotation names, if any.
    pub fn owners(&self) -> Vec<String> {
        let owner = |service: &Service| {
            let annotations = &service.header.annotations;
            assert!(
                annotations.keys().all(|key| **key == *gimbal_kubernetes_objects::keys::PROJECT),
                "{annotations:?}"
            );
            annotations.values().map(|id| format!(" of {id}")).collect::<String>()
        };
        self.view.iter().map(|(key, service)| format!("{key}{}", owner(service))).collect()
    }

    pub fn show(&self) -> String {
        self.view.iter().map(|(key, service)| show(key, service)).collect()
    }

    /// Returns all addresses with their conditions.
    pub fn addresses(&self) -> Vec<String> {
        self.view
            .values()
            .flat_map(|service| service.endpoints().map(|(_, e)| format!("{} {}", e.address, letters(e.conditions))))
            .collect()
    }

    pub fn member_reads(&self) -> Vec<&str> {
        let pool = |ask: &'_ Query| matches!(ask, Query::Members(..));
        self.asked
            .iter()
            .filter(|ask| pool(ask))
            .map(|ask| match ask {
                Query::Members(_, pool) => pool.as_str(),
                _ => "",
            })
            .collect()
    }
}

fn letters(conditions: gimbal_model::Conditions) -> String {
    [(conditions.ready, 'r'), (conditions.serving, 's'), (conditions.terminating, 't')]
        .into_iter()
        .map(|(set, letter)| if set { letter } else { '-' })
        .collect()
}

/// Formats a Service in lines: key, ports, endpoints.
pub fn show(key: &SourceKey, service: &Service) -> String {
    let mut lines = vec![format!("{key}")];
    for port in &service.header.ports {
        let app = port.app_protocol.as_deref().map(|app| format!(" {app}")).unwrap_or_default();
        lines.push(format!("  {} {}/{}{app}", port.name, port.port, port.protocol.as_str()));
    }
    for (ports, endpoint) in service.endpoints() {
        let ports: Vec<String> = ports
            .ports()
            .iter()
            .map(|p| {
                format!(
                    "{}={}/{}{}",
                    p.name,
                    p.port.unwrap(),
                    p.protocol.as_str(),
                    p.app_protocol.as_deref().map(|a| format!(" {a}")).unwrap_or_default()
                )
            })
            .collect();
        lines.push(format!("    {} {} {}", letters(endpoint.conditions), endpoint.address, ports.join(",")));
    }
    lines.join("\n") + "\n"
}

/// Returns the number of cases of a property test: `GIMBAL_PROVE` if set, for a longer run, else 120.
pub fn cases() -> u32 {
    std::env::var("GIMBAL_PROVE").ok().and_then(|cases| cases.parse().ok()).unwrap_or(120)
}

/// Options without a sweep and without a hold for projects.
pub fn quiet() -> PollOptions {
    PollOptions { sweep: None, project_hold: Duration::ZERO, ..PollOptions::default() }
}

/// A world with project `alpha` and one load balancer with two members.
pub fn small() -> World {
    let mut world = World::default();
    world.project("pa", "alpha");
    world.tree(1, "pa", 2);
    world.seconds += 60;
    world
}

pub fn failed() -> String {
    "500 Internal Server Error".into()
}
