//! A model of openstack-writer and of the session with it: what it holds, what it has made, what it reports.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use gimbal_kuryr_model::{
    DesiredEntry, DesiredKey, DesiredLoadBalancer, ListenerKind, LoadBalancerReport, Phase, ReportedCondition,
    ReportedListener, ReportedLoadBalancer, ReportedMember, ReportedObjects, ReportedRoutes, RouteDifference,
    RouteState,
};

type Entry = Option<Arc<DesiredEntry>>;

/// A model of openstack-writer, which reports as it does.
#[derive(Debug, Default)]
pub struct Writer {
    /// What is on its way to it.
    pub to: VecDeque<(DesiredKey, Entry)>,
    /// What it holds.
    pub holds: BTreeMap<DesiredKey, Arc<DesiredEntry>>,
    /// Entries that it has not worked on yet.
    work: VecDeque<DesiredKey>,
    /// Owners of which something exists in OpenStack.
    pub made: BTreeSet<String>,
    /// Routes of each owner, by the names of their Ingresses.
    routes: BTreeMap<String, BTreeSet<String>>,
    latest: BTreeMap<DesiredKey, LoadBalancerReport>,
    /// What is on its way back, with its number.
    pub back: VecDeque<(DesiredKey, LoadBalancerReport, u64)>,
    /// Names that it does not try, with the words that it says about them.
    pub refuses: BTreeMap<String, String>,
    /// What holds of that.
    rejects: BTreeMap<DesiredKey, String>,
    /// What it said about them, in order; `None` where it took something back. It comes before reports.
    pub said: VecDeque<(DesiredKey, Option<String>)>,
    /// Whether nothing can be done about what was made: its load balancer is pending for ever, for instance.
    pub is_stuck: bool,
    /// Whether Octavia says of what was made that it does not serve.
    is_down: bool,
    /// Names of routes that Octavia refuses.
    pub refused_routes: BTreeSet<String>,
    /// Names of routes that Octavia has and no one wants, for what is to come in their place has no room.
    pub left_routes: BTreeSet<String>,
    numbers: u64,
    /// Numbers that were handed out and not handled.
    pub unhandled: BTreeMap<u64, DesiredKey>,
}

impl Writer {
    /// A new stream: everything on its way is lost, the whole of what is offered comes, and each latest report is sent again
    /// once its entry was heard of.
    pub fn reconnect(&mut self, offered: &BTreeMap<DesiredKey, Arc<DesiredEntry>>) {
        self.to.clear();
        self.back.clear();
        self.unhandled.clear();
        self.rejects.retain(|key, _| offered.contains_key(key));
        self.said = self.rejects.iter().map(|(key, words)| (key.clone(), Some(words.clone()))).collect();
        self.holds = offered.clone();
        self.latest.retain(|key, _| offered.contains_key(key));
        self.work = offered.keys().cloned().collect();
    }

    /// Owners whose load balancer leads requests of an Ingress, which is named as its routes are.
    pub fn routed<'a>(&'a self, ingress: &'a str) -> impl Iterator<Item = &'a String> {
        self.routes.iter().filter(move |(_, routes)| routes.contains(ingress)).map(|(owner, _)| owner)
    }

    /// Tries or does not try the entries of this name from now on.
    pub fn refuse(&mut self, name: &str, words: Option<&str>) {
        match words {
            Some(words) => drop(self.refuses.insert(name.to_owned(), words.to_owned())),
            None => drop(self.refuses.remove(name)),
        }
        self.work.extend(self.holds.keys().filter(|key| &*key.name == name).cloned());
    }

    /// Finds in Octavia that everything serves, or that nothing does.
    pub fn finds(&mut self, serves: bool) {
        self.is_down = !serves;
        self.work.extend(self.holds.keys().cloned());
    }

    /// Says what has changed of what it does not try.
    fn say(&mut self, key: &DesiredKey, words: Option<String>) {
        if self.rejects.get(key) == words.as_ref() {
            return;
        }
        match &words {
            Some(words) => drop(self.rejects.insert(key.clone(), words.clone())),
            None => drop(self.rejects.remove(key)),
        }
        self.said.push_back((key.clone(), words));
    }

    /// The load balancer of the last report.
    #[must_use]
    pub fn latest_balancer(&self, key: &DesiredKey) -> Option<ReportedLoadBalancer> {
        self.latest.get(key)?.objects.load_balancer.clone()
    }

    /// The listeners of the last report.
    #[must_use]
    pub fn latest_listeners(&self, key: &DesiredKey) -> Vec<ReportedListener> {
        self.latest.get(key).map(|report| report.objects.listeners.clone()).unwrap_or_default()
    }

    /// Receives the next change.
    pub fn receive(&mut self) -> bool {
        let Some((key, entry)) = self.to.pop_front() else { return false };
        match entry {
            Some(entry) => {
                self.holds.insert(key.clone(), entry);
                self.work.push_back(key);
            }
            None => {
                self.holds.remove(&key);
                self.latest.remove(&key);
                self.say(&key, None);
            }
        }
        true
    }

    /// Works on an entry: the first time it says that it is at it, the second time it is done.
    ///
    /// # Panics
    /// Never: what it has said once it knows.
    pub fn work(&mut self) -> bool {
        let Some(key) = self.work.pop_front() else { return false };
        let Some(entry) = self.holds.get(&key).cloned() else { return true };
        let refusal = self.refuses.get(&*key.name).filter(|_| !entry.is_deleting()).cloned();
        // It wants nothing.
        let is_alone = matches!(&*entry, DesiredEntry::LoadBalancer(wanted) if wanted.header.vip == Default::default());
        let refusal = if is_alone { Some("no subnet for the VIP".to_owned()) } else { refusal };
        self.say(&key, refusal.clone());
        if refusal.is_some() {
            // What was made stays, and was reported before.
            if let Some(said) = self.latest.get(&key).cloned() {
                self.report(&key, said);
            }
            return true;
        }
        match &*entry {
            DesiredEntry::Deleting { owner } => {
                let said = self.latest.get(&key);
                if said.is_some_and(|said| said.owner == *owner && said.phase == Phase::Removing) {
                    self.made.remove(&**owner);
                    self.routes.remove(&**owner);
                    self.report(&key, report(owner, 0, Phase::Gone, ReportedObjects::default()));
                } else if said.is_none_or(|said| said.owner != *owner || said.phase != Phase::Gone) {
                    self.report(&key, report(owner, 0, Phase::Removing, ReportedObjects::default()));
                    self.work.push_back(key);
                } else {
                    let said = said.cloned().unwrap();
                    self.report(&key, said);
                }
            }
            DesiredEntry::LoadBalancer(wanted) => {
                let owner = &wanted.header.owner;
                if self.is_stuck && self.made.contains(&**owner) {
                    let objects = self.latest.get(&key).map(|said| said.objects.clone()).unwrap_or_default();
                    self.report(&key, report(owner, wanted.generation, Phase::Degraded, objects));
                    return true;
                }
                let routes = wanted.header.routing.iter().flat_map(|routing| &routing.routes);
                self.routes.insert(owner.to_string(), routes.map(|route| route.name.to_string()).collect());
                let is_new = self.made.insert(owner.to_string());
                if is_new {
                    self.report(&key, report(owner, wanted.generation, Phase::Making, ReportedObjects::default()));
                    self.work.push_back(key);
                } else {
                    let mut objects = objects(wanted);
                    let refused = self.routes[&**owner].intersection(&self.refused_routes).map(|name| missing(name));
                    let differences: Vec<_> = refused.chain(self.left_routes.iter().map(|name| left(name))).collect();
                    let phase = if differences.is_empty() { Phase::Ready } else { Phase::Blocked };
                    objects.routes.iter_mut().for_each(|routes| routes.differences.clone_from(&differences));
                    let mut said = report(owner, wanted.generation, phase, objects);
                    if self.is_down {
                        (said.phase, said.conditions) = (Phase::Degraded, vec![not_serving()]);
                    }
                    self.report(&key, said);
                }
            }
        }
        true
    }

    fn report(&mut self, key: &DesiredKey, report: LoadBalancerReport) {
        self.back.retain(|(of, ..)| of != key);
        self.latest.insert(key.clone(), report.clone());
        self.numbers += 1;
        self.back.push_back((key.clone(), report, self.numbers));
    }
}

/// Returns a report.
#[must_use]
pub fn report(owner: &Arc<str>, generation: i64, phase: Phase, objects: ReportedObjects) -> LoadBalancerReport {
    LoadBalancerReport {
        owner: owner.clone(),
        generation,
        phase,
        conditions: Vec::new(),
        refused_ports: Vec::new(),
        objects,
        last_error: None,
        missing: None,
    }
}

/// Everything that is wanted in this generation is there, and nothing else.
fn routes(generation: i64) -> ReportedRoutes {
    ReportedRoutes { generation, differences: Vec::new() }
}

fn missing(route: &str) -> RouteDifference {
    let why = ReportedCondition { kind: "QuotaExceeded".into(), reason: "Quota".into(), message: "no room".into() };
    RouteDifference { route: route.into(), state: RouteState::Missing, why: Some(why) }
}

fn left(route: &str) -> RouteDifference {
    RouteDifference { route: route.into(), state: RouteState::Left, why: None }
}

fn not_serving() -> ReportedCondition {
    let reason = ReportedCondition::NOT_SERVING.into();
    ReportedCondition { kind: "Degraded".into(), reason, message: "the operating status is ERROR".into() }
}

fn objects(wanted: &DesiredLoadBalancer) -> ReportedObjects {
    let id: Arc<str> = format!("lb-{}", wanted.header.owner).into();
    let member = |member: &gimbal_kuryr_model::DesiredMember| ReportedMember {
        id: format!("member-{}", member.id.address).into(),
        pool: "pool".into(),
        name: member.name.as_deref().unwrap_or("member").into(),
        address: member.id.address,
        port: member.id.port,
        subnet: "pods".into(),
    };
    let members: Vec<_> = wanted.members.as_slice().iter().map(member).collect();
    let listener = |wish: &gimbal_kuryr_model::ListenerWish| ReportedListener {
        id: format!("listener-{}", wish.id.port).into(),
        name: "listener".into(),
        protocol: if wish.kind == ListenerKind::TerminatedHttps { "TERMINATED_HTTPS" } else { "TCP" }.into(),
        port: wish.id.port,
        timeout_client_data: None,
        timeout_member_data: None,
    };
    ReportedObjects {
        load_balancer: Some(ReportedLoadBalancer {
            id,
            name: "lb".into(),
            address: wanted.header.vip.address.unwrap_or_else(|| "10.96.0.99".parse().unwrap()),
            port: "port".into(),
            subnet: "services".into(),
            project: "project".into(),
            provider: "amphora".into(),
            security_groups: Vec::new(),
        }),
        listeners: wanted.header.listeners.iter().map(listener).collect(),
        member_count: u32::try_from(members.len()).unwrap(),
        members,
        routes: wanted.header.routing.is_some().then(|| routes(wanted.generation)),
        ..ReportedObjects::default()
    }
}
