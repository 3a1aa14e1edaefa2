//! Streams of controllers that do not know all of their cluster.

use gimbal_session::Scope;

use super::*;

/// A controller that has these entries and no stream yet.
pub(super) fn controller(entries: &[(DesiredKey, DesiredEntry)], now: Instant) -> AgentEnd<Kuryr> {
    let config = AgentConfig { backend: "prod1".into(), instance: "i".into(), version: "v".into() };
    let mut agent = AgentEnd::new(config);
    agent.set_incarnation("uid-of-kube-system".into());
    for (key, entry) in entries {
        agent.set(key.clone(), Some(entry.clone().into()), now);
    }
    agent.source_complete();
    agent
}

fn one(namespace: &str) -> Scope {
    Scope::Namespaces(vec![namespace.into()])
}

impl Ends {
    /// The controller restarts. It has these entries, and cannot say everything about a part of its cluster.
    fn come_back(&mut self, entries: &[(DesiredKey, DesiredEntry)], unknown: Scope) {
        self.agent = controller(entries, self.now);
        self.agent.scope_unknown(unknown, "one cannot be offered".to_owned());
        self.agent.connected(self.now);
        self.changes.clear();
        self.exchange();
    }

    /// The writer restarts, and has no stream.
    fn restart_writer(&mut self) {
        let config = self.all.get("prod1").unwrap().config.clone();
        let config = ClustersConfig { clusters: vec![config], ..ClustersConfig::default() };
        self.all = Clusters::new(RegistrySettings::default(), &config, 0, self.now);
        let reading = CloudReading { known: CloudKnowledge::default(), missing: Vec::new() };
        self.all.learned(&"prod1".into(), reading, self.now);
    }

    fn makes_a_load_balancer(&self) -> bool {
        self.changes.iter().any(|change| change == "Create loadbalancers")
    }
}

/// The controller has spoken to another writer for days, and comes back.
#[test]
fn what_a_former_stream_brought_is_left_alone_where_the_new_one_does_not_know_everything() {
    for unknown in [one("team-b"), Scope::All] {
        what_a_former_stream_brought_is_left_alone(&unknown);
    }
}

fn what_a_former_stream_brought_is_left_alone(unknown: &Scope) {
    let [web, kept] = [key("team-a", "web"), key("team-b", "web")];
    // Of the last one the controller knows nothing, for it has nothing in its namespace any more.
    let gone = [key("team-b", "gone"), key("team-c", "gone")];
    let entries = [(web.clone(), present("u1", "services")), (kept.clone(), present("u2", "services"))];
    let stale = [(gone[0].clone(), present("u3", "services")), (gone[1].clone(), deleting("u4"))];
    let mut ends = Ends::with(
        &[entries.clone(), stale].concat(),
        &[("u1", "team-a/web"), ("u2", "team-b/web"), ("u4", "team-c/gone")],
        ClusterQuota::default(),
    );
    ends.run(5);
    ends.come_back(&entries, unknown.clone());
    ends.run(130);
    assert!(!ends.makes_a_load_balancer(), "{:?}", ends.changes);
    assert!(!ends.changes.iter().any(|change| change.contains("lb-u4")), "{:?}", ends.changes);
    assert!(ends.changes.iter().any(|change| change == "Create pools"), "{:?}", ends.changes);
    // What it has sent of that namespace is served.
    ends.balancers.retain(|row| row["id"] != "lb-u2");
    ends.run(130);
    assert!(ends.makes_a_load_balancer(), "{:?}", ends.changes);
    ends.agent.source_complete();
    ends.exchange();
    assert!(ends.is_served(&web) && ends.is_served(&kept) && gone.iter().all(|key| !ends.is_served(key)));
}

/// The controller forgets what is said of an entry that names its owner alone, and hears nothing twice.
#[test]
fn what_is_said_of_an_owner_alone_is_said_of_nothing_else() {
    let (web, copy) = (key("team-a", "web"), key("team-b", "x"));
    let mut ends = Ends::new(&[(web, present("u1", "services"))]);
    let DesiredEntry::LoadBalancer(mut alone) = present("u1", "services") else { panic!("present") };
    Arc::make_mut(&mut alone.header).vip = VipWish::default();
    ends.set(&copy, Some(DesiredEntry::LoadBalancer(alone)));
    assert!(ends.agent.rejects()[&copy].message.contains("names the owner alone"), "{:?}", ends.agent.rejects());
    ends.set(&copy, Some(present("u1", "services")));
    assert_eq!(ends.rejects(), [("KuryrLoadBalancer team-b/x".to_owned(), KuryrReason::OwnerConflict)]);
}

/// No snapshot can end: what is unknown has everything.
#[test]
fn a_writer_that_is_new_serves_what_it_hears_of_what_is_unknown() {
    for unknown in [one("team-b"), Scope::All] {
        let web = key("team-b", "web");
        let mut ends = Ends::new(&[]);
        ends.restart_writer();
        ends.come_back(&[(web.clone(), present("u1", "services"))], unknown.clone());
        ends.run(20);
        assert!(ends.is_served(&web) && ends.makes_a_load_balancer(), "{unknown:?}: {:?}", ends.changes);
    }
}

/// Another writer has served the cluster meanwhile: what this one knows is from before.
#[test]
fn what_a_former_stream_wanted_has_no_place_in_the_quota_of_the_next_one() {
    let entry = |name: &str| (key("team-a", name), present(&format!("u-{name}"), "services"));
    let quota = ClusterQuota { load_balancers: 2, ..ClusterQuota::default() };
    let mut ends = Ends::with(&[entry("y"), entry("z")], &[], quota);
    assert_eq!(ends.rejects(), []);
    ends.agent = controller(&[entry("a"), entry("b")], ends.now);
    ends.agent.connected(ends.now);
    for _ in 0..10 {
        while let Some(message) = ends.agent.next(ends.now) {
            ends.hear(message);
            assert!(ends.all.get("prod1").unwrap().refused.is_empty(), "refused for what is not wanted any more");
        }
        ends.all.send(ends.now);
        while let Ok(message) = ends.messages.try_recv() {
            assert_eq!(ends.agent.receive(message, ends.now), gimbal_session::AgentVerdict::Continue);
        }
    }
    ends.exchange();
    for name in ["a", "b"] {
        assert!(ends.is_served(&key("team-a", name)), "{name}");
    }
    assert!(ends.all.get("prod1").unwrap().is_complete());
    // One more than there is room for is refused as ever.
    ends.set(&key("team-a", "c"), Some(entry("c").1));
    assert_eq!(ends.rejects(), [("KuryrLoadBalancer team-a/c".to_owned(), KuryrReason::Quota)]);
}
