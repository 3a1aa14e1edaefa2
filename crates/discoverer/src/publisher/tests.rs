//! What the session takes for unknown, after any sequence of states of the source.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gimbal_model::SourceKey;
use gimbal_session::{AgentMessage, AgentVerdict, Credit, Frame, Freshness, Need, Welcome, WriterMessage};
use proptest::prelude::*;

use super::*;

pub(crate) struct Fake {
    pub(crate) incarnation: Option<&'static str>,
    pub(crate) coverage: Coverage,
    pub(crate) rest_is_known: bool,
}

impl SourceStatus for Fake {
    fn incarnation(&self) -> Option<&str> {
        self.incarnation
    }
    fn identified_by(&self) -> &'static str {
        "its name"
    }
    fn coverage(&self) -> Coverage {
        self.coverage.clone()
    }
    fn rest_is_known(&self) -> bool {
        self.rest_is_known
    }
    fn freshness(&self, _: Instant) -> Vec<Freshness> {
        Vec::new()
    }
    fn trouble(&self) -> Option<String> {
        None
    }
    fn skipped(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
    fn explain(&self, _: &SourceKey) -> Vec<String> {
        Vec::new()
    }
}

fn publisher() -> Publisher {
    Publisher::new(AgentConfig { backend: "b".into(), instance: "i".into(), version: "v".into() }, None)
}

fn publish(publisher: &mut Publisher, coverage: &Coverage) -> Published {
    let source = Fake { incarnation: Some("one"), coverage: coverage.clone(), rest_is_known: true };
    publisher.publish(&source, &Vec::new(), Instant::now())
}

fn namespaces(names: &[&str]) -> Coverage {
    let part = |name: &&str| (Scope::Namespaces(vec![Arc::from(*name)]), format!("{name} cannot be listed"));
    Coverage::Unknown(names.iter().map(part).collect())
}

fn everything() -> Coverage {
    Coverage::Unknown(vec![(Scope::All, "down".into())])
}

#[test]
fn a_source_that_is_known_but_for_a_namespace_is_read() {
    let mut publisher = publisher();
    assert_eq!(publish(&mut publisher, &everything()), Published { coverage: true, unknown: true });
    assert!(!publisher.is_read() && !publisher.agent.is_complete());
    assert_eq!(publish(&mut publisher, &namespaces(&["a"])), Published { coverage: true, unknown: true });
    assert!(publisher.is_read() && publisher.agent.is_complete() && !publisher.is_complete());
    assert_eq!(publisher.unknown_namespace("a"), Some("a cannot be listed"));
    assert_eq!(publisher.unknown_namespace("b"), None);
    assert_eq!(publish(&mut publisher, &namespaces(&["a"])), Published { coverage: false, unknown: false });
}

/// Returns the first data that is sent to a writer that needs everything.
fn first_data(publisher: &mut Publisher) -> Option<Frame> {
    let now = Instant::now();
    publisher.agent.connected(now);
    assert!(matches!(publisher.agent.next(now), Some(AgentMessage::Hello(_))));
    let credit = Credit { changes: 100, bytes: 1 << 20 };
    let welcome = Welcome {
        protocol: 1,
        generation: 1,
        need: Need::All,
        credit,
        backend: "b".into(),
        heartbeat_timeout: std::time::Duration::from_secs(15),
        capabilities: Default::default(),
    };
    assert_eq!(publisher.agent.receive(WriterMessage::Welcome(welcome), now), AgentVerdict::Continue);
    std::iter::from_fn(|| publisher.agent.next(now)).find_map(|message| match message {
        AgentMessage::Data(data) => Some(data.frame),
        _ => None,
    })
}

#[test]
fn what_is_not_named_is_gone_only_where_the_rest_is_known() {
    for rest_is_known in [true, false] {
        let mut publisher = publisher();
        publisher.publish(
            &Fake { incarnation: Some("one"), coverage: Coverage::Complete, rest_is_known },
            &Vec::new(),
            Instant::now(),
        );
        assert!(publisher.is_complete());
        assert_eq!(first_data(&mut publisher).is_some(), rest_is_known);
    }
}

#[test]
fn another_reason_is_told_but_unknown_is_the_same() {
    let mut publisher = publisher();
    publish(&mut publisher, &everything());
    let other = Coverage::Unknown(vec![(Scope::All, "still down".into())]);
    assert_eq!(publish(&mut publisher, &other), Published { coverage: true, unknown: false });
    assert_eq!(publisher.agent.unknown().all(), Some("still down"));
}

fn coverage() -> impl Strategy<Value = Coverage> {
    let names = proptest::sample::subsequence(vec!["a", "b", "c"], 1..=3);
    prop_oneof![
        Just(Coverage::Nothing),
        Just(Coverage::Complete),
        Just(everything()),
        names.prop_map(|names| namespaces(&names)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The session takes for unknown exactly what the source reported last, whatever it reported before. A source that
    /// was read stays read, so [`Coverage::Nothing`] changes nothing.
    #[test]
    fn unknown_is_what_the_source_said_last(said in proptest::collection::vec(coverage(), 1..12)) {
        let mut publisher = publisher();
        let mut believed: Option<BTreeMap<String, String>> = Some(BTreeMap::new());
        let mut read = false;
        for coverage in &said {
            publish(&mut publisher, coverage);
            match coverage {
                Coverage::Nothing => {}
                Coverage::Complete => (believed, read) = (Some(BTreeMap::new()), true),
                Coverage::Unknown(parts) if *coverage == everything() => {
                    prop_assert_eq!(parts.len(), 1);
                    believed = None;
                }
                Coverage::Unknown(parts) => {
                    read = true;
                    let named = parts.iter().flat_map(|(scope, reason)| match scope {
                        Scope::All => Vec::new(),
                        Scope::Namespaces(names) => names.iter().map(|name| (name.to_string(), reason.clone())).collect(),
                    });
                    believed = Some(named.collect());
                }
            }
            let unknown = publisher.agent.unknown();
            prop_assert_eq!(unknown.all().is_some(), believed.is_none(), "{:?}", said);
            if let Some(believed) = &believed {
                let told: BTreeSet<_> = unknown.namespaces().map(|(name, _)| name.to_string()).collect();
                prop_assert_eq!(told, believed.keys().cloned().collect::<BTreeSet<_>>(), "{:?}", said);
            }
            prop_assert_eq!(publisher.agent.is_complete(), read);
        }
    }
}
