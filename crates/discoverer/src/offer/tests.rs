//! What the session takes for unknown, after any sequence of states of the source.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gimbal_model::SourceKey;
use gimbal_session::{AgentMessage, AgentVerdict, Credit, Frame, Freshness, Need, Welcome, WriterMessage};
use proptest::prelude::*;

use super::*;

struct Fake {
    incarnation: Option<&'static str>,
    standing: Standing,
    rest_is_known: bool,
}

impl Known for Fake {
    fn incarnation(&self) -> Option<&str> {
        self.incarnation
    }
    fn identified_by(&self) -> &'static str {
        "its name"
    }
    fn standing(&self) -> Standing {
        self.standing.clone()
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

fn offer() -> Offer {
    Offer::new(AgentConfig { backend: "b".into(), instance: "i".into(), version: "v".into() })
}

fn settle(offer: &mut Offer, standing: &Standing) -> Settled {
    let source = Fake { incarnation: Some("one"), standing: standing.clone(), rest_is_known: true };
    offer.publish(&source, &Vec::new(), Instant::now())
}

fn namespaces(names: &[&str]) -> Standing {
    let part = |name: &&str| (Scope::Namespaces(vec![Arc::from(*name)]), format!("{name} cannot be listed"));
    Standing::Unknown(names.iter().map(part).collect())
}

fn everything() -> Standing {
    Standing::Unknown(vec![(Scope::All, "down".into())])
}

#[test]
fn a_source_that_is_known_but_for_a_namespace_is_read() {
    let mut offer = offer();
    assert_eq!(settle(&mut offer, &everything()), Settled { standing: true, unknown: true });
    assert!(!offer.is_read() && !offer.agent.is_complete());
    assert_eq!(settle(&mut offer, &namespaces(&["a"])), Settled { standing: true, unknown: true });
    assert!(offer.is_read() && offer.agent.is_complete() && !offer.is_complete());
    assert_eq!(offer.unknown_namespace("a"), Some("a cannot be listed"));
    assert_eq!(offer.unknown_namespace("b"), None);
    assert_eq!(settle(&mut offer, &namespaces(&["a"])), Settled { standing: false, unknown: false });
}

/// Returns the first data that is sent to a writer that needs everything.
fn first_data(offer: &mut Offer) -> Option<Frame> {
    let now = Instant::now();
    offer.agent.connected(now);
    assert!(matches!(offer.agent.next(now), Some(AgentMessage::Hello(_))));
    let credit = Credit { changes: 100, bytes: 1 << 20 };
    let welcome = Welcome {
        protocol: 1,
        generation: 1,
        need: Need::All,
        credit,
        backend: "b".into(),
        heartbeat_timeout: std::time::Duration::from_secs(15),
    };
    assert_eq!(offer.agent.receive(WriterMessage::Welcome(welcome), now), AgentVerdict::Continue);
    std::iter::from_fn(|| offer.agent.next(now)).find_map(|message| match message {
        AgentMessage::Data(data) => Some(data.frame),
        _ => None,
    })
}

#[test]
fn what_is_not_named_is_gone_only_where_the_rest_is_known() {
    for rest_is_known in [true, false] {
        let mut offer = offer();
        offer.publish(
            &Fake { incarnation: Some("one"), standing: Standing::Complete, rest_is_known },
            &Vec::new(),
            Instant::now(),
        );
        assert!(offer.is_complete());
        assert_eq!(first_data(&mut offer).is_some(), rest_is_known);
    }
}

#[test]
fn another_reason_is_told_but_unknown_is_the_same() {
    let mut offer = offer();
    settle(&mut offer, &everything());
    let other = Standing::Unknown(vec![(Scope::All, "still down".into())]);
    assert_eq!(settle(&mut offer, &other), Settled { standing: true, unknown: false });
    assert_eq!(offer.agent.unknown().all(), Some("still down"));
}

fn standing() -> impl Strategy<Value = Standing> {
    let names = proptest::sample::subsequence(vec!["a", "b", "c"], 1..=3);
    prop_oneof![
        Just(Standing::Nothing),
        Just(Standing::Complete),
        Just(everything()),
        names.prop_map(|names| namespaces(&names)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The session takes for unknown exactly what the source reported last, whatever it reported before. A source that
    /// was read stays read, so [`Standing::Nothing`] changes nothing.
    #[test]
    fn unknown_is_what_the_source_said_last(said in proptest::collection::vec(standing(), 1..12)) {
        let mut offer = offer();
        let mut believed: Option<BTreeMap<String, String>> = Some(BTreeMap::new());
        let mut read = false;
        for standing in &said {
            settle(&mut offer, standing);
            match standing {
                Standing::Nothing => {}
                Standing::Complete => (believed, read) = (Some(BTreeMap::new()), true),
                Standing::Unknown(parts) if *standing == everything() => {
                    prop_assert_eq!(parts.len(), 1);
                    believed = None;
                }
                Standing::Unknown(parts) => {
                    read = true;
                    let named = parts.iter().flat_map(|(scope, reason)| match scope {
                        Scope::All => Vec::new(),
                        Scope::Namespaces(names) => names.iter().map(|name| (name.to_string(), reason.clone())).collect(),
                    });
                    believed = Some(named.collect());
                }
            }
            let unknown = offer.agent.unknown();
            prop_assert_eq!(unknown.all().is_some(), believed.is_none(), "{:?}", said);
            if let Some(believed) = &believed {
                let told: BTreeSet<_> = unknown.namespaces().map(|(name, _)| name.to_string()).collect();
                prop_assert_eq!(told, believed.keys().cloned().collect::<BTreeSet<_>>(), "{:?}", said);
            }
            prop_assert_eq!(offer.agent.is_complete(), read);
        }
    }
}
