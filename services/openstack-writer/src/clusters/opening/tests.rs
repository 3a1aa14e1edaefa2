//! Streams that end and come again.

use std::time::Duration;

use gimbal_guard::GuardEvent;
use gimbal_kuryr_model::{DesiredEntry, DesiredKey, DesiredKind, LoadBalancerReport, Phase};
use gimbal_octavia_registry::{ClusterGuards, RegistryEvent, RegistrySettings};
use gimbal_session::{AgentConfig, AgentEnd, ChangeAge, Data, Frame, Need, Unreadable, WriterMessage};

use super::*;
use crate::config::{ClusterConfig, ClustersConfig};
use crate::policy::ClusterPolicy;

fn key(name: &str) -> DesiredKey {
    DesiredKey::new(DesiredKind::LoadBalancer, "shop", name)
}

fn config(uid: Option<&str>) -> ClustersConfig {
    let cluster = ClusterConfig {
        name: "prod1".parse().unwrap(),
        identity: "spiffe://prod1".to_owned(),
        uid: uid.map(Text::from),
        former_uids: std::collections::BTreeSet::new(),
        policy: ClusterPolicy { project: "own".into(), ..ClusterPolicy::default() },
        guards: ClusterGuards::default(),
        quarantine: false,
    };
    ClustersConfig { clusters: vec![cluster], ..ClustersConfig::default() }
}

/// A controller that deletes everything that it has.
fn controller(names: &[&str], now: Instant) -> AgentEnd<Kuryr> {
    let mut agent = AgentEnd::new(AgentConfig { backend: "prod1".into(), instance: "i".into(), version: "v".into() });
    agent.set_incarnation("uid-of-kube-system".into());
    for name in names {
        let entry = DesiredEntry::Deleting { owner: format!("uid-{name}").into() };
        agent.set(key(name), Some(entry.into()), now);
    }
    agent
}

struct Writer {
    all: Clusters,
    name: Text,
    now: Instant,
    generation: u64,
    messages: mpsc::Receiver<ToController>,
}

impl Writer {
    #[allow(clippy::disallowed_methods)]
    fn new() -> Self {
        let now = Instant::now();
        let mut all = Clusters::new(RegistrySettings::default(), &config(None), 0, now);
        // Its calls are not answered, so it would wait for lists.
        all.clusters.get_mut("prod1").unwrap().ranking.is_done = true;
        Self { all, name: "prod1".into(), now, generation: 0, messages: mpsc::channel(1).1 }
    }

    /// Opens a stream. Returns whether what is held is what it wants.
    fn open(&mut self, agent: &mut AgentEnd<Kuryr>) -> bool {
        agent.connected(self.now);
        let Some(AgentMessage::Hello(hello)) = agent.next(self.now) else { panic!("hello") };
        let (outgoing, messages) = mpsc::channel(1_000);
        self.generation = self.all.open(&self.name, &hello, outgoing, self.now).unwrap();
        self.messages = messages;
        self.all.get("prod1").unwrap().is_current
    }

    /// Opens a stream of a cluster with this UID, which is refused. Returns its controller, and the refusal.
    fn refuses(&mut self, uid: &str) -> (AgentEnd<Kuryr>, Goodbye) {
        let mut agent = controller(&["a"], self.now);
        agent.set_incarnation(uid.into());
        agent.source_complete();
        agent.connected(self.now);
        let Some(AgentMessage::Hello(hello)) = agent.next(self.now) else { panic!("hello") };
        let refusal = self.all.open(&self.name, &hello, mpsc::channel(1).0, self.now).unwrap_err();
        (agent, refusal)
    }

    fn talk(&mut self, agent: &mut AgentEnd<Kuryr>) {
        for _ in 0..10 {
            self.all.send(self.now);
            while let Ok(message) = self.messages.try_recv() {
                drop(agent.receive(message, self.now));
            }
            while let Some(message) = agent.next(self.now) {
                self.all.receive(&self.name, self.generation, message, self.now);
            }
        }
    }

    fn state(&mut self) -> &mut super::super::ClusterState {
        self.all.clusters.get_mut("prod1").unwrap()
    }
}

#[test]
fn what_a_former_stream_wanted_counts_once_this_one_wants_the_same() {
    let mut writer = Writer::new();
    let mut agent = controller(&["a"], writer.now);
    agent.source_complete();
    assert!(!writer.open(&mut agent));
    writer.talk(&mut agent);
    assert!(writer.state().is_current && writer.state().is_complete());
    // One that has not read its cluster yet wants nothing so far.
    assert!(!writer.open(&mut controller(&[], writer.now)));
    let mut same = controller(&["a"], writer.now);
    same.source_complete();
    assert!(writer.open(&mut same), "equal digests");
    writer.all.closed(&"prod1".into(), writer.generation, Instant::now());
    assert!(!writer.state().is_current);
    let mut other = controller(&["a", "b"], writer.now);
    other.source_complete();
    assert!(!writer.open(&mut other));
    writer.talk(&mut other);
    assert!(writer.state().is_current);
}

#[test]
fn that_nothing_is_left_is_not_said_again_on_another_stream() {
    let mut writer = Writer::new();
    let mut agent = controller(&["a"], writer.now);
    agent.source_complete();
    writer.open(&mut agent);
    writer.talk(&mut agent);
    let report = LoadBalancerReport {
        owner: "uid-a".into(),
        generation: 0,
        phase: Phase::Gone,
        conditions: Vec::new(),
        refused_ports: Vec::new(),
        objects: gimbal_kuryr_model::ReportedObjects::default(),
        last_error: None,
        missing: None,
    };
    writer.state().end.report(key("a"), report).unwrap();
    writer.open(&mut agent);
    assert!(writer.state().end.latest_report(&key("a")).is_none());
}

#[test]
fn nothing_is_an_orphan_while_an_entry_cannot_be_read() {
    let mut writer = Writer::new();
    let mut agent = controller(&["a"], writer.now);
    agent.source_complete();
    writer.open(&mut agent);
    writer.talk(&mut agent);
    let seq = 4;
    let broken = Unreadable { key: Some(key("b")), reason: "new".to_owned(), more: false };
    let frame = Frame::Delta { changes: vec![Err(broken)], age: ChangeAge::default() };
    writer.all.receive(
        &"prod1".into(),
        writer.generation,
        AgentMessage::Data(Data { seq, frame, trace: None }),
        writer.now,
    );
    assert!(writer.state().end.is_unreadable(&key("b")) && !writer.state().is_complete());
}

#[test]
fn the_guards_snapshot_is_asked_for() {
    let mut writer = Writer::new();
    let mut agent = controller(&["a"], writer.now);
    agent.source_complete();
    writer.open(&mut agent);
    writer.talk(&mut agent);
    let event = GuardEvent::SnapshotWanted { id: "1".into() };
    writer.all.tell(&RegistryEvent::MemberGuard { cluster: "prod1".into(), event }, Instant::now());
    let messages = writer.state().end.take_messages();
    assert!(messages.iter().any(|message| matches!(message, WriterMessage::Resync { need: Need::All, .. })));
}

#[test]
fn a_uid_that_the_configuration_gets_counts_at_once() {
    let mut writer = Writer::new();
    writer.all.configure(&config(Some("one")), writer.now + Duration::from_secs(1));
    assert_eq!(writer.state().uid.as_deref(), Some("one"));
}

#[test]
fn what_was_listed_for_a_stream_that_has_ended_is_not_decided_by() {
    let mut writer = Writer::new();
    writer.state().ranking.is_done = false;
    let (name, now) = (writer.name.clone(), writer.now);
    writer.all.listed(&name, &[], true, now);
    assert_eq!(writer.state().ranking.found, None);
    writer.open(&mut controller(&["a"], now));
    writer.all.listed(&name, &[], true, now);
    assert_eq!(writer.state().ranking.found, Some(Vec::new()));
}

#[test]
fn snapshots_that_end_while_a_list_fails_do_not_pile_up() {
    let mut writer = Writer::new();
    writer.state().ranking.is_done = false;
    let (name, now) = (writer.name.clone(), writer.now);
    let of = |namespace: &str| Some(vec![Text::from(namespace)]);
    for namespaces in [of("a"), None, of("a"), of("b"), of("a"), of("b")] {
        writer.all.snapshot_ended(&name, namespaces, now, now);
    }
    assert_eq!(writer.state().ranking.snapshots, [(None, now), (of("a"), now), (of("b"), now)]);
}

/// Returns a writer that has found objects of a cluster with its cluster's name and the UID `former`, and the controller whose stream
/// that ended.
fn with_namesake() -> (Writer, AgentEnd<Kuryr>) {
    let mut writer = Writer::new();
    let mut agent = controller(&["a"], writer.now);
    agent.source_complete();
    writer.open(&mut agent);
    let (cluster, uid, balancer) = ("prod1".into(), "former".into(), "theirs".into());
    writer.all.tell(&RegistryEvent::OtherCluster { cluster, uid, balancer }, Instant::now());
    (writer, agent)
}

/// What an admin confirmed is forgotten with the process; what the configuration says is not.
#[test]
fn a_cluster_that_had_the_name_before_does_not_get_it_again_and_blocks_nothing() {
    let (mut writer, mut agent) = with_namesake();
    assert!(writer.state().namesake.is_some() && !writer.state().is_connected());
    let mut config = config(None);
    config.clusters[0].former_uids = [Text::from("former")].into();
    writer.all.configure(&config, writer.now);
    writer.open(&mut agent);
    assert!(writer.state().is_connected());
    let (_, refused) = writer.refuses("former");
    assert!(refused.message.contains("had the name prod1 before"), "{}", refused.message);
    assert_eq!(writer.state().refused_uid, None, "no admin is asked to confirm it");
}

/// Another one came first, and was refused as well.
#[test]
fn whoever_is_refused_because_of_a_namesake_can_be_confirmed() {
    let (mut writer, _) = with_namesake();
    let (mut next, refused) = writer.refuses("next");
    assert!(refused.message.contains("ConfirmCluster"), "{}", refused.message);
    assert_eq!(writer.all.confirm(&"prod1".into(), "next", writer.now), Ok("uid-of-kube-system".to_owned()));
    writer.open(&mut next);
    assert!(writer.state().is_connected() && writer.state().namesake.is_none());
    assert_eq!(writer.state().uid.as_deref(), Some("next"));
}

#[test]
fn a_learned_uid_that_becomes_a_former_one_makes_room_for_the_next() {
    let mut writer = Writer::new();
    writer.open(&mut controller(&["a"], writer.now));
    let mut config = config(None);
    config.clusters[0].former_uids = [Text::from("uid-of-kube-system")].into();
    writer.all.configure(&config, writer.now);
    assert!(writer.state().uid.is_none() && !writer.state().is_connected());
    let mut next = controller(&["a"], writer.now);
    next.set_incarnation("next".into());
    writer.open(&mut next);
    assert_eq!(writer.state().uid.as_deref(), Some("next"));
}
