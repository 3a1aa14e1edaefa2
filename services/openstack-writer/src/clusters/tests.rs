//! What becomes of the entries that a controller sends.

mod quota;
mod refusals;
mod routers;
mod streams;
mod traces;
mod waiting;

use gimbal_kuryr_model::{
    Balancing, ClientRanges, DesiredEntry, DesiredKind, DesiredLoadBalancer, DesiredMembers, ListenerId, ListenerKind,
    ListenerWish, LoadBalancerHeader, LoadBalancerPlacement, LoadBalancerReport, MemberMode, ReportedCondition,
    Timeouts, VipWish,
};
use gimbal_kuryr_wire::{KuryrReason, PackedReport};
use gimbal_model::{Family, Protocol};
use gimbal_octavia_registry::{CallAnswer, CloudCall, CloudRead};
use gimbal_session::{AgentConfig, AgentEnd, AgentMessage, StoredReport as _};
use serde_json::{Value, json};

use self::streams::controller;
use super::waiting::WaitingEntries;
use super::*;
use crate::policy::{CloudKnowledge, ClusterPolicy, ClusterQuota};

const SECOND: Duration = Duration::from_secs(1);

/// A controller, its writer, and a cloud that has load balancers and nothing else.
struct Ends {
    now: Instant,
    agent: AgentEnd<Kuryr>,
    all: Clusters,
    generation: u64,
    messages: mpsc::Receiver<ToController>,
    balancers: Vec<Value>,
    /// The number of members that the pool of an owner has.
    members: BTreeMap<&'static str, u64>,
    /// The last bytes of the addresses of those of a router's pool.
    addresses: &'static [u8],
    changes: Vec<String>,
}

fn key(namespace: &str, name: &str) -> DesiredKey {
    DesiredKey::new(DesiredKind::LoadBalancer, namespace, name)
}

fn present(owner: &str, subnet: &str) -> DesiredEntry {
    let id = ListenerId::new(Protocol::Tcp, 80);
    let header = LoadBalancerHeader {
        owner: owner.into(),
        known: false,
        placement: LoadBalancerPlacement::default(),
        vip: VipWish { subnet: Some(subnet.into()), ..VipWish::default() },
        floating: None,
        listeners: [ListenerWish { id, kind: ListenerKind::Plain, name: None }].into(),
        clients: ClientRanges::Everyone,
        balancing: Balancing {
            family: Family::V4,
            members: MemberMode::Pod,
            algorithm: None,
            affinity_seconds: None,
            proxy: None,
        },
        timeouts: Timeouts::default(),
        monitor: None,
        tls_containers: Box::default(),
        shared_group: None,
        adopt: None,
        routing: None,
    };
    let members = DesiredMembers::new(Vec::new());
    DesiredEntry::LoadBalancer(DesiredLoadBalancer { generation: 1, header: Arc::new(header), members })
}

fn balancer(owner: &str, name: &str, nth: u32) -> Value {
    let tags = ["gimbal-cluster:prod1", "k8s-cluster:uid-of-kube-system", &format!("k8s-svc-uid:{owner}")];
    json!({"id": format!("lb-{owner}"), "name": name, "project_id": "own", "tags": tags,
        "provisioning_status": "ACTIVE", "operating_status": "ONLINE", "vip_address": "10.0.0.9",
        "vip_port_id": "port", "vip_subnet_id": "services", "provider": "amphora", "admin_state_up": true,
        "listeners": [], "pools": [], "created_at": format!("2026-01-01T00:00:0{nth}")})
}

fn deleting(owner: &str) -> DesiredEntry {
    DesiredEntry::Deleting { owner: owner.into() }
}

impl Ends {
    fn new(entries: &[(DesiredKey, DesiredEntry)]) -> Self {
        Self::with(entries, &[], ClusterQuota::default())
    }

    /// The same where load balancers exist, each with an owner and a name, the oldest first.
    fn with(entries: &[(DesiredKey, DesiredEntry)], made: &[(&str, &str)], quota: ClusterQuota) -> Self {
        Self::with_policy(entries, made, ClusterPolicy { quota, ..ClusterPolicy::default() })
    }

    /// The same with a policy, whatever its project and subnet.
    fn with_policy(entries: &[(DesiredKey, DesiredEntry)], made: &[(&str, &str)], policy: ClusterPolicy) -> Self {
        Self::with_members(entries, made, policy, (&[], &[]))
    }

    /// The same where the pools of owners have these numbers of members, and that of a router these.
    fn with_members(
        entries: &[(DesiredKey, DesiredEntry)],
        made: &[(&str, &str)],
        policy: ClusterPolicy,
        (members, addresses): (&[(&'static str, u64)], &'static [u8]),
    ) -> Self {
        let now = Instant::now();
        let config = ClusterConfig {
            name: "prod1".parse().unwrap(),
            identity: "spiffe://prod1".to_owned(),
            uid: None,
            former_uids: BTreeSet::new(),
            policy: ClusterPolicy { project: "own".into(), service_subnet: Some("services".into()), ..policy },
            guards: gimbal_octavia_registry::ClusterGuards::default(),
            quarantine: false,
        };
        let config = ClustersConfig { clusters: vec![config], ..ClustersConfig::default() };
        let mut all = Clusters::new(RegistrySettings::default(), &config, 0, now);
        let reading = CloudReading { known: CloudKnowledge::default(), missing: Vec::new() };
        all.learned(&"prod1".into(), reading, now);
        let mut agent = controller(entries, now);
        agent.connected(now);
        let (generation, messages) = (0, mpsc::channel(1).1);
        let (balancers, members) = (Vec::new(), members.iter().copied().collect());
        let changes = Vec::new();
        let mut ends = Self { now, agent, all, generation, messages, balancers, members, addresses, changes };
        ends.balancers = made.iter().zip(0..).map(|((owner, name), nth)| balancer(owner, name, nth)).collect();
        for (row, (owner, _)) in ends.balancers.iter_mut().zip(made) {
            row["pools"] =
                ends.members.get(*owner).map(|_| json!({"id": format!("pool-{owner}")})).into_iter().collect();
        }
        ends.exchange();
        ends
    }

    fn set(&mut self, key: &DesiredKey, entry: Option<DesiredEntry>) {
        self.agent.set(key.clone(), entry.map(Into::into), self.now);
        self.exchange();
    }

    /// Lets the writer take a message.
    fn hear(&mut self, message: AgentMessage<Kuryr>) {
        match message {
            AgentMessage::Hello(hello) => {
                let (outgoing, messages) = mpsc::channel(1_000);
                self.generation = self.all.open(&"prod1".into(), &hello, outgoing, self.now).unwrap();
                self.messages = messages;
            }
            message => self.all.receive(&"prod1".into(), self.generation, message, self.now),
        }
    }

    /// Lets both sides say what they have to say, and the writer make its calls.
    fn exchange(&mut self) {
        loop {
            let mut is_over = true;
            while let Some(message) = self.agent.next(self.now) {
                is_over = false;
                self.hear(message);
            }
            while let Some(call) = self.all.next_call(self.now) {
                let answer = match call.what {
                    CloudCall::Read(read) => CallAnswer::Rows(self.rows(&read)),
                    CloudCall::Change(change) => {
                        let request = change.request();
                        self.changes.push(format!("{:?} {}", request.verb, request.path));
                        CallAnswer::NotSent
                    }
                };
                self.all.answered(call.id, answer, self.now);
            }
            self.all.take_news(self.now);
            self.all.send(self.now);
            while let Ok(message) = self.messages.try_recv() {
                is_over = false;
                assert_eq!(self.agent.receive(message, self.now), gimbal_session::AgentVerdict::Continue);
            }
            if is_over {
                return;
            }
        }
    }

    fn rows(&self, read: &CloudRead) -> Vec<Value> {
        let is_listed = |row: &Value| {
            let mut tags = read.query.iter().filter(|(key, _)| *key == "tags").flat_map(|(_, tags)| tags.split(','));
            tags.all(|tag| row["tags"].as_array().is_some_and(|all| all.iter().any(|one| one == tag)))
        };
        let pool = |(owner, members): (&&str, &u64)| {
            let members: Vec<Value> = (0..*members).map(|nth| json!({"id": format!("{owner}-{nth}")})).collect();
            let tags = ["k8s-cluster:uid-of-kube-system", "gimbal-pool:shop/web/80"];
            json!({"id": format!("pool-{owner}"), "project_id": "own", "members": members, "tags": tags})
        };
        let member = |last: &u8| {
            let tags = ["k8s-svc-uid:r1"];
            json!({"id": format!("r1-{last}"), "address": format!("10.1.0.{last}"), "protocol_port": 8080, "weight": 1,
                "tags": tags, "provisioning_status": "ACTIVE"})
        };
        match &*read.path {
            "loadbalancers" => self.balancers.iter().filter(|row| is_listed(row)).cloned().collect(),
            "pools" => self.members.iter().map(pool).collect(),
            "pools/pool-r1/members" => self.addresses.iter().map(member).collect(),
            _ => Vec::new(),
        }
    }

    fn run(&mut self, seconds: u32) {
        for _ in 0..seconds {
            self.now += SECOND;
            self.exchange();
        }
    }

    fn rejects(&self) -> Vec<(String, KuryrReason)> {
        self.agent.rejects().iter().map(|(key, reject)| (key.to_string(), reject.reason)).collect()
    }

    /// What the registry serves.
    fn is_served(&mut self, key: &DesiredKey) -> bool {
        self.all.registry.explain("prod1", key, self.now).is_some()
    }
}

/// While something is made whose status was not reported yet, and once that is.
#[test]
fn what_is_explained_has_the_phase_that_is_listed() {
    let web = key("team-a", "web");
    let mut ends = Ends::new(&[(web.clone(), present("u1", "services"))]);
    let mut phases = Vec::new();
    for _ in 0..10 {
        let listed = crate::listing::status("prod1", ends.all.get("prod1").unwrap(), &web).unwrap();
        let explained = crate::inspection::explain(&ends.all, &"prod1".into(), &web);
        let word = crate::listing::phase_word(listed.phase());
        let said = explained.reasons.iter().filter_map(|reason| reason.strip_prefix("It is "));
        assert_eq!(said.map(str::to_lowercase).collect::<Vec<_>>(), [format!("{word}.")]);
        assert_eq!(explained.load_balancer, Some(listed));
        assert!(explained.reasons.iter().any(|reason| reason.starts_with("Work on it has been under way for ")));
        phases.push(word);
        ends.run(1);
    }
    phases.dedup();
    assert_eq!(phases, ["waiting", "making"]);
}

#[test]
fn an_owner_is_one_entrys_whatever_a_copy_says() {
    for copied in [present("u1", "services"), deleting("u1")] {
        let (web, copy) = (key("team-a", "web"), key("team-b", "x"));
        let mut ends = Ends::new(&[(web.clone(), present("u1", "services"))]);
        ends.set(&copy, Some(copied));
        let refused = [("KuryrLoadBalancer team-b/x".to_owned(), KuryrReason::OwnerConflict)];
        assert_eq!(ends.rejects(), refused);
        assert!(ends.is_served(&web) && !ends.is_served(&copy));
        // The first one is refused from now on for another reason, and the owner stays its own.
        ends.set(&web, Some(present("u1", "elsewhere")));
        assert_eq!(ends.rejects().len(), 2);
        // It has another owner, which frees this one.
        ends.set(&web, Some(present("u2", "services")));
        assert_eq!(ends.rejects(), []);
        assert!(ends.is_served(&web) && ends.is_served(&copy));
        // And it wants it back, which the copy has now, until that goes.
        ends.set(&web, Some(present("u1", "services")));
        assert_eq!(ends.rejects(), [("KuryrLoadBalancer team-a/web".to_owned(), KuryrReason::OwnerConflict)]);
        ends.set(&copy, None);
        assert_eq!(ends.rejects(), []);
    }
}

#[test]
fn an_entry_that_is_refused_from_the_start_has_its_owner_too() {
    let (web, copy) = (key("team-a", "web"), key("team-b", "x"));
    let mut ends = Ends::new(&[(web.clone(), present("u1", "elsewhere")), (copy.clone(), deleting("u1"))]);
    let reasons: Vec<KuryrReason> = ends.rejects().into_iter().map(|(_, reason)| reason).collect();
    assert_eq!(reasons, [KuryrReason::NetworkNotAllowed, KuryrReason::OwnerConflict]);
    ends.set(&web, None);
    assert_eq!(ends.rejects(), []);
    assert!(ends.is_served(&copy));
}

/// Another writer may have its stream then, and count it too.
#[test]
fn what_the_policy_refuses_is_counted_while_the_stream_is_open() {
    let mut ends = Ends::new(&[(key("team-a", "web"), present("u1", "elsewhere"))]);
    let mut registry = prometheus_client::registry::Registry::default();
    let metrics = crate::metrics::CloudWriterMetrics::register(&mut registry);
    let rejected = |all: &Clusters| {
        metrics.show_clusters(all);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text.lines().filter(|line| line.starts_with("gimbal_openstack_writer_cluster_rejected{")).count()
    };
    assert_eq!(rejected(&ends.all), 1);
    ends.all.closed(&"prod1".into(), ends.generation, Instant::now());
    assert_eq!(rejected(&ends.all), 0);
}

#[test]
fn a_refused_entry_keeps_its_owners_objects_and_not_those_of_orphans() {
    let mut ends = Ends::new(&[(key("team-a", "web"), present("u1", "elsewhere"))]);
    assert_eq!(ends.rejects().len(), 1);
    ends.balancers = vec![balancer("u1", "x", 0), balancer("u3", "x", 1)];
    ends.run(900);
    ends.changes.dedup();
    assert!(ends.changes.iter().any(|change| change.contains("lb-u3")), "{:?}", ends.changes);
    assert!(!ends.changes.iter().any(|change| change.contains("lb-u1")), "{:?}", ends.changes);
}

#[test]
fn what_exists_has_its_place_in_the_quota_whatever_sorts_before_it() {
    let names = ["a", "b", "c", "d"].map(|name| key("team", name));
    let entries: Vec<_> = names.iter().map(|key| (key.clone(), present(&key.name, "services"))).collect();
    let quota = ClusterQuota { load_balancers: 2, ..ClusterQuota::default() };
    // Two exist; then three do, for the quota was lowered.
    let two = [("d", "team/d"), ("b", "team/b")];
    let three = ["d", "c", "b"].map(|owner| (owner, "x"));
    for (made, served) in [(&two[..], ["b", "d"]), (&three[..], ["c", "d"])] {
        let mut ends = Ends::with(&entries, made, quota);
        let found: Vec<_> = names.iter().filter(|key| ends.is_served(key)).map(|key| key.name.to_string()).collect();
        assert_eq!(found, served);
        // The room goes to what exists, then to what comes first.
        ends.set(&key("team", "d"), None);
        let found: Vec<_> = names.iter().filter(|key| ends.is_served(key)).map(|key| key.name.to_string()).collect();
        assert_eq!(found, if made.len() == 2 { ["a", "b"] } else { ["b", "c"] });
    }
}

/// It was not deleted: its entry is no longer there.
#[test]
fn what_has_left_the_stream_has_its_place_in_the_quota_as_long_as_it_exists() {
    let quota = ClusterQuota { load_balancers: 1, ..ClusterQuota::default() };
    let (a, b) = (key("team-a", "a"), key("team-a", "b"));
    let mut ends = Ends::with(&[(a.clone(), present("u1", "services"))], &[("u1", "team-a/a")], quota);
    ends.run(5);
    ends.changes.clear();
    ends.set(&a, None);
    ends.set(&b, Some(present("u2", "services")));
    ends.run(130);
    assert_eq!((ends.is_served(&b), std::mem::take(&mut ends.changes)), (true, Vec::new()));
    ends.balancers.clear();
    ends.run(130);
    assert!(ends.changes.contains(&"Create loadbalancers".to_owned()), "{:?}", ends.changes);
}

#[test]
fn after_a_restart_an_owner_is_the_entrys_whose_name_its_load_balancer_has() {
    for copied in [present("u1", "services"), deleting("u1")] {
        let (web, copy) = (key("team-b", "web"), key("team-a", "x"));
        let is_removal = copied.is_deleting();
        let entries = [(web.clone(), present("u1", "services")), (copy.clone(), copied)];
        let with = |made: &[(&str, &str)]| Ends::with(&entries, made, ClusterQuota::default());
        let mut ends = with(&[("u1", "team-b/web")]);
        assert!(ends.is_served(&web) && !ends.is_served(&copy));
        assert_eq!(ends.rejects(), [("KuryrLoadBalancer team-a/x".to_owned(), KuryrReason::OwnerConflict)]);
        // Nothing says which of them is right, so it stays as it is.
        let mut ends = with(&[("u1", "renamed")]);
        assert_eq!(ends.rejects().len(), 2);
        ends.run(1_000);
        assert_eq!(ends.changes, [""; 0]);
        assert!(!ends.is_served(&web) && !ends.is_served(&copy));
        // One that changes keeps both waiting, until one is gone.
        ends.set(&web, Some(present("u1", "elsewhere")));
        ends.set(&web, Some(present("u1", "services")));
        assert_eq!(ends.rejects().len(), 2);
        ends.set(&copy, None);
        assert!(ends.is_served(&web) && ends.rejects().is_empty());
        // Where nothing exists, a removal has nothing to remove.
        let mut ends = with(&[]);
        assert_eq!(ends.rejects().len(), 1);
        assert_eq!((ends.is_served(&web), ends.is_served(&copy)), (is_removal, !is_removal));
    }
}

#[test]
fn what_is_being_removed_is_not_released() {
    let web = key("team-a", "web");
    let mut ends =
        Ends::with(&[(web.clone(), present("u1", "services"))], &[("u1", "team-a/web")], ClusterQuota::default());
    let release = |ends: &mut Ends| ends.all.begin_release(&"prod1".into(), &"u1".into(), ends.now);
    assert!(matches!(release(&mut ends), Err(OrderRefusal::Wanted(..))));
    ends.set(&web, Some(deleting("u1")));
    ends.set(&web, None);
    assert!(matches!(release(&mut ends), Err(OrderRefusal::Removing(..))));
}

/// Its Service may come back, and must not mark it again while the mark is taken off.
#[test]
fn what_is_wanted_during_a_release_waits_for_its_end() {
    let (web, name) = (key("team-a", "web"), Text::from("prod1"));
    let mut ends = Ends::with(&[], &[("u1", "team-a/web")], ClusterQuota::default());
    let (u1, now) = (Text::from("u1"), ends.now);
    drop(ends.all.begin_release(&name, &u1, now).unwrap());
    assert_eq!(ends.all.begin_release(&name, &u1, now).unwrap_err(), OrderRefusal::Releasing(name.clone(), u1.clone()));
    assert_eq!(ends.all.may_release(&name, &u1), Err(OrderRefusal::Releasing(name.clone(), u1.clone())));
    ends.set(&web, Some(present("u1", "services")));
    ends.run(120);
    assert!(!ends.is_served(&web) && ends.changes.is_empty(), "{:?}", ends.changes);
    ends.all.end_release(&name, &u1, ends.now);
    ends.exchange();
    assert!(ends.is_served(&web));
}

#[test]
fn a_cluster_that_changes_its_mind_does_not_fill_the_log() {
    let log = gimbal_testkit::CapturedLog::default();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(log.clone()).finish();
    // For all threads: where another one meets a log line first without a subscriber, a scoped one may not hear of it.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let mut ends = Ends::new(&[]);
    let web = key("team-flood", "web");
    for turn in 0..40 {
        let subnet = if turn % 2 == 0 { "elsewhere" } else { "services" };
        ends.set(&web, Some(present("u1", subnet)));
    }
    let lines = |words: &str| {
        let text = log.text();
        text.lines().filter(|line| line.contains("team-flood/web") && line.contains(words)).count()
    };
    assert_eq!((lines(": refused "), lines("no longer refused")), (1, 1), "{}", log.text());
    ends.now += 61 * SECOND;
    ends.set(&web, Some(present("u1", "elsewhere")));
    assert_eq!(lines("untold=19"), 1, "{}", log.text());
    // It may as well dial again and again, and say goodbye each time or never.
    for turn in 0..80 {
        if turn % 2 == 0 {
            ends.agent.goodbye(gimbal_session::GoodbyeReason::Shutdown, "flood of goodbyes");
            ends.exchange();
        }
        ends.agent.connected(ends.now);
        ends.exchange();
    }
    let count = |words: &str| log.text().lines().filter(|line| line.contains(words)).count();
    assert_eq!(count("flood of goodbyes"), 1, "{}", log.text());
    // Other tests have their own.
    assert!((1..30).contains(&count("a newer stream of this cluster has begun")), "{}", log.text());
}

#[test]
fn members_that_are_left_out_are_a_condition_of_the_report() {
    let report = |conditions: Vec<ReportedCondition>| LoadBalancerReport {
        owner: "u1".into(),
        generation: 1,
        phase: gimbal_kuryr_model::Phase::Ready,
        conditions,
        refused_ports: Vec::new(),
        objects: gimbal_kuryr_model::ReportedObjects::default(),
        last_error: None,
        missing: None,
    };
    let mut plain = report(Vec::new());
    super::events::add_left_out(&mut plain, KuryrReason::MemberNotAllowed, "1 of 2");
    let [one] = &plain.conditions[..] else { panic!("not one") };
    assert_eq!((&*one.kind, &*one.reason, &*one.message), ("Unsupported", "MemberNotAllowed", "1 of 2"));
    let known = ReportedCondition { kind: "Unsupported".into(), reason: "Provider".into(), message: "no UDP".into() };
    let mut both = report(vec![known]);
    super::events::add_left_out(&mut both, KuryrReason::MemberNotAllowed, "1 of 2");
    let [one] = &both.conditions[..] else { panic!("each type is there once") };
    assert_eq!((&*one.reason, &*one.message), ("Provider", "no UDP; 1 of 2"));
}

/// Lists would show everything in it twice.
#[test]
fn a_project_that_is_named_twice_is_listed_once() {
    let ends = Ends::new(&[]);
    let mut state = ClusterState::new(ends.all.get("prod1").unwrap().config.clone());
    state.uid = Some("uid".into());
    state.config.policy.projects = ["other".into(), "own".into()].into();
    assert_eq!(state.settings().unwrap().projects, ["own", "other"].map(Text::from));
}
