//! Takes an actor's steps against the model, as openstack-writer does against the real services.

use std::collections::BTreeSet;
use std::time::Duration;

use gimbal_kuryr_model::{CertificateHash, CloudFacts, DesiredEntry, DesiredKey, DesiredKind, ListenerId, SubnetFacts};
use gimbal_octavia_plan::{
    Actor, AddressHolder, ApiService, ApiVerb, BalancerStep, ChangeOutcome, CloudChange, CloudLook, FoundContent,
    HiddenSecrets, Mark, MissingAbility, REBUILD_ABOVE, RepairBudget, SecretPayload, Seen, SeenBalancer,
    SeenFloatingIp, SeenListener, SeenMember, SeenMonitor, SeenPolicy, SeenPool, SeenPort, SeenRule, SeenSecret,
    ServiceCall, ServiceRefusal, Wait,
};
use gimbal_octavia_sim::{CloudModel, Fate, Method, SimRequest, SimResponse};
use gimbal_property::{WorldCounts, note};
use serde_json::Value;

use crate::wish::Wish;

/// What becomes of a request on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It arrives, and so does the answer.
    Arrives,
    /// It never arrives.
    Lost,
    /// It has its effect, and the answer is lost.
    AnswerLost,
    /// It is refused for a change of somebody else is in progress.
    Busy,
    /// It has its effect only after some time, and its sender has given up waiting.
    Late,
}

/// Says what becomes of a change; `None`: what the services make of it.
pub type Refuses = fn(&CloudChange) -> Option<ChangeOutcome>;

pub struct World {
    pub cloud: CloudModel,
    pub actor: Actor,
    pub facts: CloudFacts,
    /// Requests that arrive later.
    late: Vec<(Duration, SimRequest)>,
    /// Every change that was sent.
    pub sent: Vec<CloudChange>,
    /// How many reads were sent.
    pub reads: usize,
    /// How many steps were taken, and how often the actor was replaced.
    pub steps: u64,
    pub kills: u64,
    /// What the provider was shown to lack.
    pub missing: Vec<MissingAbility>,
    /// What becomes of some changes that do not reach the services.
    pub refuses: Option<Refuses>,
    /// What cannot be deleted, for something uses it.
    pub in_use: Option<String>,
    /// Certificates that the cluster does not have any more.
    pub lost_contents: BTreeSet<CertificateHash>,
    /// Whether the cluster answers nothing.
    pub is_silent: bool,
    /// The number of changes above which another router is made in the place of one.
    rebuild_above: usize,
}

pub fn key() -> DesiredKey {
    DesiredKey::new(DesiredKind::LoadBalancer, "shop", "web")
}

pub fn mark(owner: &str) -> Mark {
    Mark { cluster_uid: "c1".into(), cluster: "prod1".into(), owner: owner.into() }
}

pub fn actor(desired: DesiredEntry) -> Actor {
    let mark = mark(desired.owner());
    Actor::new(key(), mark, desired, RepairBudget::default())
}

impl World {
    pub fn new(cloud: CloudModel, facts: CloudFacts, desired: DesiredEntry) -> Self {
        let actor = actor(desired);
        let (late, sent, missing) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            cloud,
            actor,
            facts,
            late,
            sent,
            reads: 0,
            steps: 0,
            kills: 0,
            missing,
            refuses: None,
            in_use: None,
            lost_contents: BTreeSet::new(),
            is_silent: false,
            rebuild_above: REBUILD_ABOVE,
        }
    }

    pub fn rebuild_above(&mut self, changes: usize) {
        self.rebuild_above = changes;
        self.actor.set_rebuild_above(changes);
    }

    pub fn counts(&self) -> WorldCounts {
        WorldCounts { steps: self.steps, kills: self.kills }
    }

    pub fn wants(&mut self, wish: &Wish) {
        note(|| format!("{:?} {wish:?}", self.cloud.now()));
        self.actor.want(wish.entry());
    }

    /// Says how the next change ends that reaches the provider.
    pub fn expect(&mut self, fate: Fate) {
        note(|| format!("{:?} {fate:?}", self.cloud.now()));
        self.cloud.expect(fate);
    }

    /// Ends what would never end.
    pub fn end_stalled(&mut self, fate: Fate) {
        note(|| format!("{:?} what is stuck ends: {fate:?}", self.cloud.now()));
        self.cloud.end_stalled(fate);
    }

    /// Replaces the actor by a new one that knows nothing, as a restart does.
    pub fn restart(&mut self) {
        self.kills += 1;
        note(|| format!("{:?} is killed", self.cloud.now()));
        self.actor = actor(self.actor.desired().clone());
        self.actor.set_rebuild_above(self.rebuild_above);
    }

    pub fn step(&self) -> BalancerStep {
        self.actor.step(&self.facts, self.cloud.now())
    }

    /// Lets the cluster answer what it is asked for.
    fn answer_contents(&mut self) {
        let now = self.cloud.now();
        for hash in self.actor.wanted_contents(now).unwrap_or_default() {
            self.actor.content_asked(hash, now);
            if !self.is_silent {
                let found = match self.lost_contents.contains(&hash) {
                    true => FoundContent::Nowhere,
                    false => FoundContent::Usable(SecretPayload::new(b"MARKER".to_vec().into())),
                };
                self.actor.found_content(hash, found, now);
            }
        }
    }

    /// Takes steps until there is nothing to do or to wait for. Returns the last step.
    #[track_caller]
    pub fn run(&mut self) -> BalancerStep {
        for _ in 0..2_000 {
            let step = self.step();
            if matches!(step, BalancerStep::Done | BalancerStep::Blocked(_) | BalancerStep::Gone) {
                return step;
            }
            self.take(&step, Way::Arrives);
        }
        panic!("no end: {:?}\n{:#?}", self.step(), self.sent.iter().rev().take(10).collect::<Vec<_>>());
    }

    /// The same, and what is left alone for a while is tried again.
    pub fn run_on(&mut self) -> BalancerStep {
        for _ in 0..20 {
            let step = self.run();
            match self.actor.retry_at(self.cloud.now()) {
                Some(then) if matches!(step, BalancerStep::Blocked(_)) => {
                    self.advance(then.saturating_sub(self.cloud.now()));
                    self.actor.look_again();
                }
                _ => return step,
            }
        }
        self.run()
    }

    /// Takes steps up to the next change, which it returns.
    #[track_caller]
    pub fn run_to_change(&mut self) -> CloudChange {
        for _ in 0..200 {
            let step = self.step();
            if let BalancerStep::Change(change) = step {
                return change;
            }
            self.take(&step, Way::Arrives);
        }
        panic!("no change: {:?}", self.step());
    }

    /// Takes steps for some time, and what is left alone for a while is tried again as soon as it may be.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.cloud.now() + time;
        while self.cloud.now() < end {
            self.answer_contents();
            let (step, now) = (self.step(), self.cloud.now());
            let rests = match &step {
                BalancerStep::Done | BalancerStep::Blocked(_) => self.actor.retry_at(now).unwrap_or(end),
                BalancerStep::Wait(Wait::Until(then)) => *then,
                _ => {
                    // A request takes some time.
                    self.take(&step, Way::Arrives);
                    self.advance(Duration::from_millis(20));
                    continue;
                }
            };
            self.advance(rests.min(end).saturating_sub(now));
        }
    }

    /// Takes one step; `way` is that of a change.
    pub fn take(&mut self, step: &BalancerStep, way: Way) {
        self.steps += 1;
        note(|| format!("{:?} {} {way:?}", self.cloud.now(), brief(step)));
        match step {
            BalancerStep::Look(CloudLook::Owner) => {
                let seen = self.look();
                self.missing.extend(self.actor.looked(seen, self.cloud.now()));
            }
            BalancerStep::Look(CloudLook::Members { pool }) => {
                let rows = self.rows(&format!("/v2/lbaas/pools/{pool}/members"), "members", &[]);
                self.actor.read_members(pool, &rows);
            }
            BalancerStep::Look(CloudLook::FloatingIp { address, network }) => {
                let mut query = vec![("floating_ip_address", address.as_str())];
                query.extend(network.as_deref().map(|network| ("floating_network_id", network)));
                let rows = self.rows("/v2.0/floatingips", "floatingips", &query);
                self.actor.found_floating_ip(rows.first().map(SeenFloatingIp::read));
            }
            BalancerStep::Look(CloudLook::Balancer { id }) => {
                let is_there = self.read(&format!("/v2/lbaas/loadbalancers/{id}"), &[]).status != 404;
                self.actor.found_balancer(id, is_there, self.cloud.now());
            }
            BalancerStep::Look(CloudLook::AddressHolder { subnet, address }) => {
                let (subnet, address) = (format!("subnet_id={subnet}"), format!("ip_address={address}"));
                let rows = self.rows("/v2.0/ports", "ports", &[("fixed_ips", &subnet), ("fixed_ips", &address)]);
                let holder = rows.first().map(SeenPort::read).map(|port| {
                    let in_use = AddressHolder::balancer(&port).map(str::to_owned).is_some_and(|id| {
                        let path = "/v2/lbaas/loadbalancers";
                        let one = self.read(&format!("{path}/{id}"), &[]);
                        one.status != 404 || !self.rows(path, "loadbalancers", &[("vip_port_id", &port.id)]).is_empty()
                    });
                    AddressHolder { port, in_use }
                });
                self.actor.found_holder(holder, self.cloud.now());
            }
            BalancerStep::Change(change) => self.change(change, way),
            BalancerStep::Wait(wait) => {
                let left = match wait {
                    Wait::Pending { .. } => Duration::from_millis(500),
                    Wait::Until(then) => then.saturating_sub(self.cloud.now()),
                };
                self.advance(left);
                self.track_pending();
            }
            BalancerStep::Done | BalancerStep::Blocked(_) | BalancerStep::Gone => self.advance(Duration::from_secs(1)),
        }
        self.answer_contents();
    }

    /// Reads the rows of all that Octavia works on.
    fn track_pending(&mut self) {
        let pending = self.actor.seen().balancers.iter().filter(|one| one.provisioning.is_pending());
        for id in pending.map(|one| one.id.clone()).collect::<Vec<_>>() {
            let found = self.read(&format!("/v2/lbaas/loadbalancers/{id}"), &[]);
            let row = (found.status == 200).then(|| found.body["loadbalancer"].clone());
            self.actor.tracked(&id, row.as_ref());
        }
    }

    pub fn change(&mut self, change: &CloudChange, way: Way) {
        use CloudChange::{CreateRule, DeletePolicy, UpdatePolicy};
        if matches!(change, CreateRule { .. } | UpdatePolicy { .. } | DeletePolicy { .. }) {
            assert!(self.actor.project_of(change).is_some(), "the project is unknown: {change:?}");
        }
        self.sent.push(change.clone());
        if let Some(outcome) = self.refuses.and_then(|refuses| refuses(change)) {
            self.missing.extend(self.actor.answered(change, outcome, self.cloud.now()));
            return;
        }
        let request = request_of(&change.request());
        let is_in_use = |id: &String| change.request().verb == ApiVerb::Delete && request.path.ends_with(id.as_str());
        if self.in_use.as_ref().is_some_and(is_in_use) {
            let outcome = ChangeOutcome::Refused(ServiceRefusal::InUse);
            self.missing.extend(self.actor.answered(change, outcome, self.cloud.now()));
            return;
        }
        let outcome = match way {
            Way::Arrives => outcome(self.cloud.handle(&request)),
            Way::Lost => ChangeOutcome::Unknown(String::new()),
            Way::Busy => ChangeOutcome::Refused(ServiceRefusal::Pending),
            Way::AnswerLost => {
                self.cloud.handle(&request);
                ChangeOutcome::Unknown(String::new())
            }
            Way::Late => {
                self.late.push((self.cloud.now() + Duration::from_secs(4), request));
                ChangeOutcome::Unknown(String::new())
            }
        };
        self.missing.extend(self.actor.answered(change, outcome, self.cloud.now()));
    }

    /// Moves the clock in small steps, so that late requests arrive in time.
    pub fn advance(&mut self, by: Duration) {
        let end = self.cloud.now() + by;
        while let Some(at) = self.late.iter().map(|(at, _)| *at).min().filter(|at| *at <= end) {
            self.cloud.advance(at.saturating_sub(self.cloud.now()));
            let due: Vec<_> = self.late.extract_if(.., |(then, _)| *then <= at).collect();
            for (_, request) in due {
                self.cloud.handle(&request);
            }
        }
        self.cloud.advance(end.saturating_sub(self.cloud.now()));
    }

    pub fn has_late_requests(&self) -> bool {
        !self.late.is_empty()
    }

    /// Reads everything with the owner's mark.
    pub fn look(&mut self) -> Seen {
        let mark = mark(self.actor.desired().owner());
        let tags = format!("{},{}", mark.cluster_tag(), mark.owner_tag());
        let rows = self.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[("tags", &tags)]);
        let balancers: Vec<SeenBalancer> = rows.iter().map(|row| self.tree(row)).collect();
        let descriptions = mark.descriptions();
        let marked: Vec<_> = descriptions.iter().map(|one| ("description", one.as_str())).collect();
        // Also where a person has written something beside it.
        let mut ports: Vec<SeenPort> = self.rows("/v2.0/ports", "ports", &[]).iter().map(SeenPort::read).collect();
        ports.retain(|port| port.description.contains(&mark.description()));
        for port in ports.iter_mut().filter(|port| balancers.iter().all(|one| one.vip_port != port.id)) {
            let users = self.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[("vip_port_id", &port.id)]);
            users.first().into_iter().for_each(|row| port.has_user(row));
        }
        let mut floating = self.rows("/v2.0/floatingips", "floatingips", &marked);
        let vip_ports = balancers.iter().map(|one| one.vip_port.clone()).chain(ports.iter().map(|one| one.id.clone()));
        let vip_ports: std::collections::BTreeSet<String> = vip_ports.collect();
        for port in vip_ports {
            floating.extend(self.rows("/v2.0/floatingips", "floatingips", &[("port_id", &port)]));
        }
        floating.sort_by_key(|row| row["id"].to_string());
        floating.dedup();
        let floating = floating.iter().map(SeenFloatingIp::read).collect();
        let looks_for_secrets = match self.actor.desired() {
            DesiredEntry::LoadBalancer(wanted) => wanted.header.routing.is_some(),
            DesiredEntry::Deleting { .. } => true,
        };
        if !looks_for_secrets {
            return Seen { balancers, ports, floating, ..Seen::default() };
        }
        let secrets = self.read("/v1/secrets", &[("limit", "1000")]);
        let secrets_hidden = (secrets.status >= 400).then(|| HiddenSecrets {
            words: secrets.body["description"].to_string(),
            is_refused: secrets.status < 500,
        });
        let rows = secrets.body["secrets"].as_array().map(Vec::as_slice).unwrap_or_default();
        let secrets = rows.iter().filter_map(|row| SeenSecret::read(row, "p1", &mark)).collect();
        Seen { balancers, ports, floating, secrets, secrets_hidden }
    }

    fn tree(&mut self, row: &Value) -> SeenBalancer {
        let mut balancer = SeenBalancer::read(row);
        for id in ids(&row["listeners"]) {
            let found = self.read(&format!("/v2/lbaas/listeners/{id}"), &[]);
            let mut listener = SeenListener::read(&found.body["listener"]);
            for policy in ids(&found.body["listener"]["l7policies"]) {
                let path = format!("/v2/lbaas/l7policies/{policy}");
                let mut policy = SeenPolicy::read(&self.read(&path, &[]).body["l7policy"]);
                policy.rules = self.rows(&format!("{path}/rules"), "rules", &[]).iter().map(SeenRule::read).collect();
                listener.policies.push(policy);
            }
            balancer.listeners.push(listener);
        }
        for id in ids(&row["pools"]) {
            let found = self.read(&format!("/v2/lbaas/pools/{id}"), &[]).body["pool"].clone();
            let mut pool = SeenPool::read(&found);
            let members = self.rows(&format!("/v2/lbaas/pools/{id}/members"), "members", &[]);
            pool.members = members.iter().map(SeenMember::read).collect();
            if let Some(monitor) = found["healthmonitor_id"].as_str() {
                let found = self.read(&format!("/v2/lbaas/healthmonitors/{monitor}"), &[]);
                pool.monitor = Some(SeenMonitor::read(&found.body["healthmonitor"]));
            }
            balancer.pools.push(pool);
        }
        balancer
    }

    pub fn rows(&mut self, path: &str, key: &str, query: &[(&str, &str)]) -> Vec<Value> {
        self.read(path, query).body[key].as_array().cloned().unwrap_or_default()
    }

    fn read(&mut self, path: &str, query: &[(&str, &str)]) -> SimResponse {
        self.reads += 1;
        let request = query.iter().fold(SimRequest::get(path), |request, (key, value)| request.with_query(key, value));
        self.cloud.handle(&request)
    }

    /// Sends a request as somebody else.
    pub fn by_hand(&mut self, request: &SimRequest) -> Value {
        let SimResponse { status, body } = self.cloud.handle(request);
        assert!(status < 300, "{status} {body}");
        self.advance(Duration::from_secs(60));
        body
    }

    /// Adds a subnet of the VIPs' network to what is known about the cloud.
    pub fn know_subnet(&mut self, id: &str, cidr: &str) {
        let network = self.cloud.network_of(id).unwrap().into();
        let known = SubnetFacts { network, cidr: cidr.parse().unwrap(), name: "".into(), tags: [].into(), mtu: 1500 };
        self.facts.subnets.insert(id.into(), known);
    }

    pub fn unsupported(&self) -> Vec<(ListenerId, String)> {
        self.actor.unsupported(&self.facts, self.cloud.now())
    }

    /// Returns the ID of the only load balancer.
    pub fn balancer(&self) -> String {
        self.actor.balancer().unwrap().id.clone()
    }
}

/// Returns a step in few words, for a script.
fn brief(step: &BalancerStep) -> String {
    let BalancerStep::Change(change) = step else { return format!("{step:?}") };
    let ServiceCall { verb, path, query, revision, body, .. } = change.request();
    format!("{verb:?} {path} {query:?} {revision:?} {}", short(body))
}

/// Returns a body without what is always the same in it.
fn short(body: Value) -> Value {
    const LEFT_OUT: [&str; 7] =
        ["admin_state_up", "backup", "description", "monitor_address", "monitor_port", "name", "project_id"];
    match body {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(name, _)| !LEFT_OUT.contains(&name.as_str()));
            fields.map(|(name, value)| (name, short(value))).collect()
        }
        Value::Array(all) => {
            let is_mark = |one: &Value| {
                one.as_str().is_some_and(|text| text.starts_with("k8s-") || text.starts_with("gimbal-cluster"))
            };
            all.into_iter().filter(|one| !is_mark(one)).map(short).collect()
        }
        other => other,
    }
}

fn ids(references: &Value) -> Vec<String> {
    references.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

fn request_of(request: &ServiceCall) -> SimRequest {
    let ServiceCall { service, verb, resource: _, path, query, revision, body, payload: _ } = request;
    let base = match service {
        ApiService::Octavia => "/v2/lbaas",
        ApiService::Neutron => "/v2.0",
        ApiService::KeyManager => "/v1",
    };
    let method = match verb {
        ApiVerb::Create => Method::Post,
        ApiVerb::Update => Method::Put,
        ApiVerb::Delete => Method::Delete,
    };
    let request = SimRequest::new(method, &format!("{base}/{path}"), body.clone());
    let request = request.with_revision(*revision);
    query.iter().fold(request, |request, (key, value)| request.with_query(key, value))
}

fn outcome(response: SimResponse) -> ChangeOutcome {
    let SimResponse { status, body } = response;
    let words = body["faultstring"]
        .as_str()
        .or_else(|| body["NeutronError"]["message"].as_str())
        .or_else(|| body["description"].as_str())
        .unwrap_or_default()
        .to_owned();
    ChangeOutcome::Refused(match status {
        200..300 => return ChangeOutcome::Accepted(body),
        409 if words.contains("immutable") || words.contains("Invalid state") => ServiceRefusal::Pending,
        409 if words.contains("in use") => ServiceRefusal::InUse,
        409 => ServiceRefusal::Duplicate,
        403 if words.contains("Quota") => ServiceRefusal::Quota(words),
        403 => ServiceRefusal::Forbidden(words),
        404 => ServiceRefusal::NotFound(words),
        400 => ServiceRefusal::Invalid(words),
        412 => ServiceRefusal::Changed(words),
        // Neutron's conflict, which Octavia passes on as a fault of its own: it is not known how far it went.
        500 if words.contains("Error creating neutron port") => return ChangeOutcome::Unknown(String::new()),
        500 => ServiceRefusal::ProviderFailed,
        501 => ServiceRefusal::Unsupported(words),
        503 => ServiceRefusal::Busy(None),
        other => panic!("{other} {words}"),
    })
}
