//! Both ends of a session with this payload, over its bytes. Whatever is set, goes or breaks, they agree in the end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_kuryr_model::{CloudFacts, DesiredEntry, DesiredKey, LoadBalancerReport, Phase, ReportedObjects};
use gimbal_kuryr_wire::{Kuryr, pb};
use gimbal_session::{
    AgentConfig, AgentEnd, AgentMessage, Credit, Entry as _, Outcome, WriterEnd, WriterLimits, WriterOutput,
};
use gimbal_wire::WirePayload;
use proptest::prelude::*;
use prost::Message as _;

use crate::values::{entry, fitting_key, key};

pub struct Ends {
    pub now: Instant,
    pub agent: AgentEnd<Kuryr>,
    pub writer: WriterEnd<Kuryr>,
    pub source: BTreeMap<DesiredKey, Arc<DesiredEntry>>,
    pub reported: BTreeMap<DesiredKey, LoadBalancerReport>,
    generation: u64,
    /// Called with each message that is sent.
    pub heard: Box<dyn FnMut(Sent<'_>)>,
}

/// A message on its way.
pub enum Sent<'a> {
    Agent(&'a AgentMessage<Kuryr>, &'a [u8]),
    Writer(&'a [u8]),
}

pub fn facts() -> CloudFacts {
    CloudFacts { project: "project".into(), ..CloudFacts::default() }
}

/// The start of a test's time, which only the test advances.
#[allow(clippy::disallowed_methods)]
fn start() -> Instant {
    Instant::now()
}

impl Ends {
    pub fn new() -> Self {
        let config = AgentConfig { backend: "prod1".into(), instance: "i".into(), version: "controller 1".into() };
        let credit = Credit { changes: 8, bytes: 16 << 10 };
        let limits = WriterLimits { credit, heartbeat_timeout: Duration::from_secs(10) };
        let mut ends = Self {
            now: start(),
            agent: AgentEnd::new(config),
            writer: WriterEnd::new(limits),
            source: BTreeMap::new(),
            reported: BTreeMap::new(),
            generation: 0,
            heard: Box::new(|_| ()),
        };
        ends.writer.set_facts(facts()).unwrap();
        ends.agent.set_incarnation("uid of kube-system".into());
        ends.agent.grant_reports(Credit { changes: 4, bytes: 64 << 10 });
        ends.agent.source_complete();
        ends
    }

    pub fn set(&mut self, key: DesiredKey, entry: Option<DesiredEntry>) {
        let entry = entry.map(Arc::new);
        match &entry {
            Some(entry) => self.source.insert(key.clone(), entry.clone()),
            None => self.source.remove(&key),
        };
        self.reported.remove(&key);
        self.agent.set(key, entry.map(Into::into), self.now);
    }

    pub fn connect(&mut self) {
        self.agent.disconnected();
        self.writer.closed();
        self.agent.connected(self.now);
    }

    /// One message of the agent, through its bytes.
    pub fn agent_sends(&mut self) -> bool {
        let Some(message) = self.agent.next(self.now) else { return false };
        let bytes = Kuryr::encode_agent(message.clone()).encode_to_vec();
        (self.heard)(Sent::Agent(&message, &bytes));
        let came = Kuryr::parse_agent(pb::SyncRequest::decode(&*bytes).unwrap());
        // The members of an update come in another order: first those that are set.
        if !matches!(message, AgentMessage::Data(_)) {
            assert_eq!(came, message);
        }
        let outputs = match came {
            AgentMessage::Hello(hello) => {
                self.generation += 1;
                self.writer.open(&hello, "prod1", self.generation, self.now)
            }
            came => self.writer.receive(came, self.now),
        };
        for output in outputs {
            match output {
                WriterOutput::Changed(key) | WriterOutput::Removed(key) => self.act(&key),
                WriterOutput::Unreadable { key, reason } => panic!("{key:?}: {reason}"),
                _ => {}
            }
        }
        true
    }

    fn act(&mut self, key: &DesiredKey) {
        if let Some(entry) = self.writer.entry(key).cloned() {
            let (generation, phase) = match &*entry {
                DesiredEntry::LoadBalancer(wanted) => (wanted.generation, Phase::Ready),
                DesiredEntry::Deleting { .. } => (0, Phase::Gone),
            };
            let report = LoadBalancerReport {
                owner: entry.owner().clone(),
                generation,
                phase,
                conditions: Vec::new(),
                refused_ports: Vec::new(),
                objects: ReportedObjects::default(),
                last_error: None,
                missing: None,
            };
            self.writer.report(key.clone(), report).unwrap();
        }
        self.writer.settle(key, Outcome::Applied);
    }

    pub fn writer_sends(&mut self) -> bool {
        let messages = self.writer.take_messages();
        let any = !messages.is_empty();
        for message in messages {
            let bytes = Kuryr::encode_writer(message.clone()).encode_to_vec();
            (self.heard)(Sent::Writer(&bytes));
            let came = Kuryr::parse_writer(pb::SyncResponse::decode(&*bytes).unwrap()).unwrap();
            assert_eq!(came, message);
            let _verdict = self.agent.receive(came, self.now);
        }
        any
    }

    /// The agent writes what was reported. What is gone is removed.
    pub fn writes_statuses(&mut self) -> bool {
        let mut any = false;
        while let Some(received) = self.agent.take_report() {
            any = true;
            let owner = self.source.get(&received.key).map(|entry| entry.owner().clone());
            if owner.as_ref() == Some(&received.report.owner) {
                if received.report.phase == Phase::Gone {
                    self.set(received.key.clone(), None);
                } else {
                    self.reported.insert(received.key.clone(), received.report.clone());
                }
            }
            self.agent.report_done(&received);
        }
        any
    }

    pub fn pump(&mut self) {
        while self.agent_sends() | self.writer_sends() | self.writes_statuses() {}
    }
}

#[test]
fn heartbeats_come_often_enough_for_the_writer_to_go_on() {
    let mut ends = Ends::new();
    ends.connect();
    ends.pump();
    for seconds in [2, 3] {
        let next = ends.agent.next(ends.now + Duration::from_secs(seconds));
        assert_eq!(matches!(next, Some(AgentMessage::Heartbeat { .. })), seconds == 3, "after {seconds} s: {next:?}");
    }
}

#[derive(Debug, Clone)]
enum Op {
    Set(DesiredKey, Box<DesiredEntry>),
    Vanish(DesiredKey),
    AgentSends,
    WriterSends,
    Connect,
    Pump,
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (key(), entry()).prop_map(|(key, entry)| Op::Set(fitting_key(key, &entry.header()), Box::new(entry))),
        1 => key().prop_map(Op::Vanish),
        6 => Just(Op::AgentSends),
        4 => Just(Op::WriterSends),
        1 => Just(Op::Connect),
        1 => Just(Op::Pump),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn both_ends_agree_whatever_happens(ops in proptest::collection::vec(ops(), 1..60)) {
        let mut ends = Ends::new();
        ends.connect();
        for op in ops {
            match op {
                Op::Set(key, entry) => ends.set(key, Some(*entry)),
                Op::Vanish(key) => ends.set(key, None),
                Op::AgentSends => drop(ends.agent_sends()),
                Op::WriterSends => drop(ends.writer_sends()),
                Op::Connect => ends.connect(),
                Op::Pump => ends.pump(),
            }
        }
        ends.pump();
        ends.connect();
        ends.pump();
        prop_assert!(ends.writer.entries().eq(ends.source.iter()), "both ends hold the same");
        prop_assert!(!ends.source.values().any(|entry| entry.is_deleting()), "what was going is gone");
        prop_assert_eq!(ends.agent.facts(), Some(&facts()));
        for (key, entry) in &ends.source {
            let DesiredEntry::LoadBalancer(wanted) = &**entry else { panic!() };
            let report = ends.reported.get(key).expect("it was reported");
            prop_assert_eq!((&report.owner, report.generation), (&wanted.header.owner, wanted.generation));
            prop_assert!(!ends.writer.is_report_pending(key));
        }
    }
}
