//! What is kept of a KuryrLoadBalancer.

use std::collections::VecDeque;
use std::sync::Arc;

use gimbal_kuryr_crd::KuryrLoadBalancer;
use gimbal_kuryr_model::Text;
use gimbal_kuryr_packed::PackedValue;
use gimbal_kuryr_resource::ready_generation;
use gimbal_kuryr_translate::status_knowledge;

use crate::item::{has_finalizer, named_owners};

/// A KuryrLoadBalancer, packed, and beside that what is asked of all of them.
#[derive(Debug)]
pub(crate) struct HeldBalancer {
    object: PackedValue<KuryrLoadBalancer>,
    /// No other one has it, of whatever version.
    number: u64,
    pub(crate) uid: Text,
    pub(crate) version: Text,
    pub(crate) generation: i64,
    /// The Services that it names as its owner, see [`named_owners`].
    pub(crate) owners: [Option<Text>; 2],
    pub(crate) has_finalizer: bool,
    pub(crate) is_being_deleted: bool,
    /// The generation that its status shows to be there.
    pub(crate) ready: Option<i64>,
    /// Whether it is known from an answer that the watch has not shown yet.
    pub(crate) ahead: bool,
    /// The list that contained it last.
    pub(crate) listed: u32,
    /// Whether its status names what exists.
    pub(crate) known: bool,
}

impl HeldBalancer {
    /// Returns it, unpacked.
    pub(crate) fn object(&self) -> Arc<KuryrLoadBalancer> {
        self.object.get()
    }

    /// The Service that it names first.
    pub(crate) fn named_owner(&self) -> Option<&Text> {
        self.owners.iter().flatten().next()
    }
}

/// KuryrLoadBalancers that were looked at last, unpacked: whatever changes is looked at several times. Nothing is left of them when
/// nothing is left to do.
#[derive(Debug, Default)]
pub(crate) struct RecentBalancers {
    /// How many were made.
    made: u64,
    /// By their numbers.
    recent: VecDeque<(u64, Arc<KuryrLoadBalancer>)>,
}

impl RecentBalancers {
    const MOST: usize = 16;

    /// Keeps one that was shown. It is looked at next if this process `leads`.
    pub(crate) fn hold(&mut self, object: KuryrLoadBalancer, ahead: bool, listed: u32, leads: bool) -> HeldBalancer {
        self.made += 1;
        let [reference, spec] = named_owners(&object).map(Option::<&Text>::cloned);
        // Mostly they are one Service, and then the text is kept once.
        let spec = if spec == reference { reference.clone() } else { spec };
        let conditions = object.status.as_ref().map(|status| &*status.conditions).unwrap_or_default();
        let ready = ready_generation(conditions);
        let (has_finalizer, known) = (has_finalizer(&object), !status_knowledge(&object).needs_discovery());
        let (meta, object) = (object.metadata.clone(), Arc::new(object));
        if leads {
            self.put(self.made, object.clone());
        }
        HeldBalancer {
            object: PackedValue::new(object),
            number: self.made,
            is_being_deleted: meta.is_being_deleted(),
            uid: meta.meta.uid,
            version: meta.meta.resource_version,
            generation: meta.generation,
            owners: [reference, spec],
            has_finalizer,
            ready,
            ahead,
            listed,
            known,
        }
    }

    /// Returns one, unpacked.
    pub(crate) fn open(&mut self, held: &HeldBalancer) -> Arc<KuryrLoadBalancer> {
        if let Some((_, object)) = self.recent.iter().find(|(number, _)| *number == held.number) {
            return object.clone();
        }
        let object = held.object();
        self.put(held.number, object.clone());
        object
    }

    pub(crate) fn clear(&mut self) {
        self.recent = VecDeque::new();
    }

    fn put(&mut self, number: u64, object: Arc<KuryrLoadBalancer>) {
        if self.recent.len() == Self::MOST {
            self.recent.pop_front();
        }
        self.recent.push_back((number, object));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn balancer(version: usize) -> KuryrLoadBalancer {
        let balancer = json!({
            "metadata": {"name": "a", "uid": "own", "resourceVersion": version.to_string(), "generation": 3,
                "finalizers": ["kuryr.openstack.org/kuryrloadbalancer-finalizers"], "deletionTimestamp": "now",
                "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "a", "uid": "owner"}]},
            "spec": {"service_uid": "owner"},
            // Of Kuryr's time, and kept: the least that differs from it is a difference.
            "status": {"old": {"number": 0.1, "large": 18_446_744_073_709_551_615_u64, "none": null},
                "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
                    "lastTransitionTime": "then", "observedGeneration": 2}]},
        });
        serde_json::from_value(balancer).unwrap()
    }

    #[test]
    fn what_is_asked_of_all_is_known_without_unpacking() {
        let mut recent = RecentBalancers::default();
        let held = recent.hold(balancer(1), true, 7, false);
        assert!(held.object.is_packed() && recent.recent.is_empty(), "a standby looks at nothing");
        assert_eq!((&*held.uid, &*held.version, held.generation), ("own", "1", 3));
        assert_eq!(
            (held.named_owner().map(|owner| &**owner), held.owners[1].as_deref()),
            (Some("owner"), Some("owner"))
        );
        assert!(held.has_finalizer && held.is_being_deleted && held.ahead && !held.known);
        assert_eq!((held.ready, held.listed), (Some(2), 7));
        assert_eq!(*held.object(), balancer(1));
    }

    #[test]
    fn those_that_were_looked_at_last_are_unpacked() {
        let mut recent = RecentBalancers::default();
        let all: Vec<_> = (0..=RecentBalancers::MOST).map(|n| recent.hold(balancer(n), false, 1, true)).collect();
        assert_eq!(recent.recent.len(), RecentBalancers::MOST);
        let numbers = |recent: &RecentBalancers| recent.recent.iter().map(|(number, _)| *number).collect::<Vec<_>>();
        let before = numbers(&recent);
        assert_eq!(*recent.open(&all[1]), balancer(1));
        assert_eq!(numbers(&recent), before, "it was there");
        assert_eq!(*recent.open(&all[0]), balancer(0));
        assert_eq!(numbers(&recent).last(), Some(&all[0].number), "it was not");
        recent.clear();
        assert_eq!(*recent.open(&all[1]), balancer(1));
    }
}
