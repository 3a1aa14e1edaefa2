//! What becomes of a backend whose object is deleted, as its status shows it.

use std::sync::Arc;
use std::time::SystemTime;

use gimbal_model::{BackendName, TargetKey};
use gimbal_reconcile::{Inventory, RemovalState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::BackendOrder;

/// The finalizer that keeps a deleted Backend until nothing of it is left in the Gimbal cluster.
pub const FINALIZER: &str = "gimbal.projectcontour.io/backend";
/// How many Services a status names at most.
pub const NAMED_SERVICES: usize = 20;

/// What would be removed, or is left to remove, of a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackendRemoval {
    /// AwaitsApproval, Ordered, NotReady, Removing, Removed, or OfAnotherWriter.
    #[schemars(with = "String")]
    pub phase: RemovalPhase,
    /// What an approval has to name, until one is stored; empty where none is awaited.
    pub id: String,
    /// Services.
    pub services: u64,
    /// EndpointSlices.
    pub endpoint_slices: u64,
    /// Endpoints objects.
    pub endpoints_objects: u64,
    /// Endpoints in these objects.
    pub endpoints: u64,
    /// The first of the Services, each as namespace/name.
    pub first: Vec<String>,
    /// While none of its endpoints is ready: when its objects go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub until: Option<String>,
}

/// How far a removal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RemovalPhase {
    /// Nothing is removed before somebody approves it.
    AwaitsApproval,
    /// It was approved, and that is not stored yet: it stays as it is.
    Ordered,
    /// It was approved: its endpoints are not ready for a while, and nothing is removed yet.
    NotReady,
    /// Its objects are being removed.
    Removing,
    /// Nothing is left.
    Removed,
    /// Its objects were written by another writer, and are not removed by this one.
    OfAnotherWriter,
}

impl RemovalPhase {
    /// Whether an approved removal takes its course, so that its agent is refused and its source is not waited for.
    pub(crate) fn is_under_way(self) -> bool {
        matches!(self, Self::NotReady | Self::Removing | Self::Removed)
    }
}

impl BackendRemoval {
    /// Returns what a status says of a removal. `said` is what it said last: an id that an approval may name stays for as long as it
    /// names what would go, because a backend lives on until then, and its endpoints change all the time. `wall` writes a time in RFC
    /// 3339.
    #[must_use]
    pub fn of(
        name: &BackendName,
        state: &RemovalState,
        said: Option<&Self>,
        wall: impl Fn(SystemTime) -> String,
    ) -> Self {
        match state {
            RemovalState::Awaited { inventory, first } => {
                let first = first.iter().map(TargetKey::to_string).collect();
                let id = Self::id_of(name, inventory, said);
                Self { id, first, ..Self::with(RemovalPhase::AwaitsApproval, inventory) }
            }
            // Where the order is lost with this writer, the approval counts for the next one.
            RemovalState::Ordered { inventory } => {
                Self { id: Self::id_of(name, inventory, said), ..Self::with(RemovalPhase::Ordered, inventory) }
            }
            RemovalState::NotReady { inventory, until } => {
                Self { until: until.map(wall), ..Self::with(RemovalPhase::NotReady, inventory) }
            }
            RemovalState::UnderWay { left } => Self::with(RemovalPhase::Removing, left),
            RemovalState::Over => Self::with(RemovalPhase::Removed, &Inventory::default()),
            RemovalState::OfAnotherWriter { inventory } => Self::with(RemovalPhase::OfAnotherWriter, inventory),
        }
    }

    fn id_of(name: &BackendName, inventory: &Inventory, said: Option<&Self>) -> String {
        let shown = said.filter(|said| said.is_about(name, inventory));
        shown.map_or_else(|| inventory.id(name), |said| said.id.clone())
    }

    fn with(phase: RemovalPhase, inventory: &Inventory) -> Self {
        let Inventory { services, slices, endpoints_objects, endpoints, .. } = *inventory;
        Self {
            phase,
            id: String::new(),
            services,
            endpoint_slices: slices,
            endpoints_objects,
            endpoints,
            first: Vec::new(),
            until: None,
        }
    }

    /// Whether an approval is awaited, or was given and may be lost yet, and its id names what would go now.
    #[must_use]
    pub fn is_about(&self, name: &BackendName, inventory: &Inventory) -> bool {
        let is_awaited = matches!(self.phase, RemovalPhase::AwaitsApproval | RemovalPhase::Ordered);
        is_awaited && inventory.is_named_by(name, &self.id)
    }

    /// Whether this says something else than `said`, apart from figures.
    pub(crate) fn is_news(&self, said: Option<&Self>) -> bool {
        said.is_none_or(|said| (said.phase, &said.id, &said.until) != (self.phase, &self.id, &self.until))
    }

    /// Returns the figures in words.
    pub(crate) fn figures(&self) -> String {
        let Self { services, endpoint_slices, endpoints_objects, endpoints, .. } = self;
        let objects = match endpoints_objects {
            0 => String::new(),
            count => format!(", {count} Endpoints objects"),
        };
        format!("{services} Services, {endpoint_slices} EndpointSlices{objects} and {endpoints} endpoints")
    }

    /// Returns reason and message of the condition, and whether the removal is complete.
    pub(crate) fn stated(&self) -> (bool, &'static str, String) {
        match self.phase {
            // Without figures, which change all the time.
            RemovalPhase::AwaitsApproval => {
                let (key, id) = (BackendOrder::Decommission.annotation(), &self.id);
                let why = format!(
                    "the object is deleted, and the backend stays in force until its removal is approved by the annotation {key}={id}; \
                     status.removal says what would go"
                );
                (false, "AwaitsApproval", why)
            }
            RemovalPhase::Ordered => (
                false,
                "Ordered",
                "its removal is approved, and begins once the writer has stored that (its log says why it cannot); until then the backend \
                 stays in force"
                    .into(),
            ),
            RemovalPhase::NotReady => {
                let how = match &self.until {
                    Some(until) => format!("are not ready until {until}, and its objects go then (onRemoval.notReadyFor)"),
                    None => "are being made not ready, and its objects go onRemoval.notReadyFor after none is ready".into(),
                };
                let why = format!(
                    "its removal is approved: its endpoints {how}; to keep it, take the finalizer {FINALIZER} out of the object and make the \
                     object again"
                );
                (false, "NotReady", why)
            }
            RemovalPhase::Removing => {
                (false, "Removing", "it is being removed; status.removal says what is left".into())
            }
            RemovalPhase::Removed => (true, "Removed", "nothing of it is left in the Gimbal cluster".into()),
            RemovalPhase::OfAnotherWriter => (
                false,
                "OfAnotherWriter",
                format!(
                    "this writer keeps no record of the backend, so its {} belong to another writer: remove them there",
                    self.figures()
                ),
            ),
        }
    }
}

/// Returns the finalizers that an object is to have, if it has others now: ours from when it is in force until it is being deleted and
/// nothing of it is left. The server refuses to add one to an object that is being deleted.
#[must_use]
pub fn wanted_finalizers(
    has: &[Arc<str>],
    in_force: bool,
    is_leaving: bool,
    is_removed: bool,
) -> Option<Vec<Arc<str>>> {
    let is_ours = |name: &&Arc<str>| &***name == FINALIZER;
    let others = has.iter().filter(|name| !is_ours(name)).cloned();
    match has.iter().any(|name| is_ours(&name)) {
        false if in_force && !is_leaving => Some(others.chain([FINALIZER.into()]).collect()),
        true if is_leaving && is_removed => Some(others.collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gimbal_model::Digest;

    use super::*;

    #[test]
    fn the_finalizer_comes_with_force_and_goes_when_nothing_is_left() {
        let names = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect::<Vec<Arc<str>>>();
        let (other, both) = (names(&["other"]), names(&["other", FINALIZER]));
        // In force, being deleted, nothing left.
        for (has, in_force, is_leaving, is_removed, wanted) in [
            (&other, false, false, false, None),
            (&other, true, false, false, Some(&both)),
            (&both, true, false, false, None),
            (&both, true, false, true, None),
            (&both, true, true, false, None),
            (&both, true, true, true, Some(&other)),
            (&both, false, true, true, Some(&other)),
            (&other, true, true, false, None),
            (&other, true, true, true, None),
        ] {
            let found = wanted_finalizers(has, in_force, is_leaving, is_removed);
            assert_eq!(found.as_ref(), wanted, "{has:?} {in_force} {is_leaving} {is_removed}");
        }
    }

    fn awaited(prefix: &str, services: u64, endpoints: u64) -> RemovalState {
        let targets: Vec<_> = (0..services).map(|n| TargetKey::new("team1", format!("node02-{prefix}{n}"))).collect();
        let names = targets.iter().fold(Digest::default(), |sum, key| sum + key.digest());
        let inventory = Inventory { services, slices: services, endpoints_objects: 0, endpoints, names };
        RemovalState::Awaited { inventory, first: targets.into_iter().take(2).collect() }
    }

    fn of(state: &RemovalState, said: Option<&BackendRemoval>) -> BackendRemoval {
        let wall = |at: SystemTime| format!("{}s", at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs());
        BackendRemoval::of(&BackendName::parse("node02").unwrap(), state, said, wall)
    }

    #[test]
    fn what_is_not_ready_says_until_when_and_how_to_keep_it() {
        let RemovalState::Awaited { inventory, .. } = awaited("web", 3, 40) else { panic!("not awaited") };
        let until = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let waits = |seconds| RemovalState::NotReady { inventory, until: Some(until(seconds)) };
        let said = of(&waits(90), None);
        assert_eq!((said.phase, said.services, said.until.as_deref()), (RemovalPhase::NotReady, 3, Some("90s")));
        let (is_over, reason, message) = said.stated();
        assert_eq!((is_over, reason), (false, "NotReady"));
        assert!(
            message.contains("are not ready until 90s, and its objects go then") && message.contains(FINALIZER),
            "{message}"
        );
        assert!(!of(&waits(90), Some(&said)).is_news(Some(&said)));
        assert!(of(&waits(30), Some(&said)).is_news(Some(&said)), "somebody made it shorter");
        let begins = of(&RemovalState::NotReady { inventory, until: None }, None);
        let (_, reason, message) = begins.stated();
        assert_eq!((reason, begins.until.as_deref()), ("NotReady", None));
        assert!(message.contains("are being made not ready") && message.contains(FINALIZER), "{message}");
        assert!(said.is_news(Some(&begins)), "it is known by now");
        assert!(of(&RemovalState::UnderWay { left: inventory }, Some(&said)).is_news(Some(&said)));
    }

    /// A writer that ends before it has stored the order leaves the approval to the next one.
    #[test]
    fn what_is_ordered_keeps_its_id_until_that_is_stored() {
        let shown = of(&awaited("web", 8, 80), None);
        let RemovalState::Awaited { inventory, .. } = awaited("web", 8, 85) else { panic!("not awaited") };
        let ordered = of(&RemovalState::Ordered { inventory }, Some(&shown));
        assert_eq!((ordered.phase, &ordered.id, ordered.endpoints), (RemovalPhase::Ordered, &shown.id, 85));
        assert!(ordered.is_news(Some(&shown)) && ordered.is_about(&BackendName::parse("node02").unwrap(), &inventory));
        let (is_over, reason, message) = ordered.stated();
        assert_eq!((is_over, reason), (false, "Ordered"));
        assert!(message.contains("stays in force") && !message.contains("not ready"), "{message}");
        assert_eq!(of(&awaited("web", 8, 90), Some(&ordered)).id, shown.id);
        let begun = of(&RemovalState::NotReady { inventory, until: None }, Some(&ordered));
        assert!(begun.id.is_empty() && !begun.is_about(&BackendName::parse("node02").unwrap(), &inventory));
    }

    #[test]
    fn what_is_awaited_names_figures_and_services_and_its_id() {
        let removal = of(&awaited("web", 3, 40), None);
        let mark = removal.id.strip_prefix("node02-3-3-0-40-").unwrap();
        assert_eq!((mark.len(), &*removal.first.join(" ")), (8, "team1/node02-web0 team1/node02-web1"));
        let (is_over, reason, message) = removal.stated();
        assert_eq!((is_over, reason), (false, "AwaitsApproval"));
        assert!(message.ends_with(&format!("={}; status.removal says what would go", removal.id)), "{message}");
    }

    #[test]
    fn an_id_stays_while_its_endpoints_are_about_as_many() {
        let said = of(&awaited("web", 8, 80), None);
        for (endpoints, stays) in [(100, true), (101, false), (60, true), (59, false)] {
            let next = of(&awaited("web", 8, endpoints), Some(&said));
            assert_eq!((next.id == said.id, next.endpoints), (stays, endpoints), "the figures are those of now");
            assert_eq!(next.is_news(Some(&said)), !stays);
        }
        // Figures that were shown meanwhile move no limit.
        let next = of(&awaited("web", 8, 100), Some(&said));
        assert_ne!(of(&awaited("web", 8, 101), Some(&next)).id, said.id);
        // A small one may go up and down.
        let said = of(&awaited("web", 1, 3), None);
        assert_eq!(of(&awaited("web", 1, 13), Some(&said)).id, said.id);
        assert_ne!(of(&awaited("web", 1, 14), Some(&said)).id, said.id);
        let removing = of(&RemovalState::UnderWay { left: Inventory::default() }, Some(&said));
        assert_eq!((removing.phase, &*removing.id), (RemovalPhase::Removing, ""));
        assert!(removing.is_news(Some(&said)));
    }

    #[test]
    fn other_services_have_another_id_however_many_they_are() {
        let said = of(&awaited("web", 8, 40), None);
        let other = of(&awaited("pay", 8, 40), Some(&said));
        assert_ne!(other.id, said.id);
        assert!(other.is_news(Some(&said)));
        assert_eq!(other.first, ["team1/node02-pay0", "team1/node02-pay1"]);
        for services in [7, 9] {
            assert_ne!(of(&awaited("web", services, 40), Some(&said)).id, said.id, "{services}");
        }
        // Who has nothing is asked anew once it has something.
        let nothing = of(&awaited("web", 0, 0), None);
        assert_eq!(of(&awaited("web", 0, 0), Some(&nothing)), nothing);
        assert!(of(&awaited("web", 1, 1), Some(&nothing)).is_news(Some(&nothing)));
        // An id that a release before gave out names no Services.
        let before = BackendRemoval { id: "node02-8-8-0-40".into(), ..said.clone() };
        assert_eq!(of(&awaited("web", 8, 40), Some(&before)).id, said.id);
    }
}
