//! The next write to a KuryrL7Router.

use std::time::Instant;

use gimbal_kubernetes_objects::{LifecycleMeta, Meta};
use gimbal_kuryr_crd::KuryrL7Router;
use gimbal_kuryr_crd::names::{finalizers, labels};
use gimbal_kuryr_model::Text;
use gimbal_kuryr_resource::{
    ClusterObject, ClusterWrite, InFlightWrite, KuryrKind, NewObject, PlannedWrite, Purpose, WriteBody, difference,
    fingerprint, release, target, with_finalizer,
};
use gimbal_model::SourceKey;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::RouterController;
use crate::item::is_made_for_ingresses;
use crate::item::{WantedSpec, has_finalizer};

impl<T> RouterController<T> {
    /// Returns the next write to an object, if there is one and no pause is in its way.
    pub(crate) fn plan(&mut self, object: &ClusterObject, now: Instant, wall: Timestamp) -> Option<ClusterWrite> {
        let key = object.key();
        let planned = if object.kind == KuryrKind::Router {
            self.plan_router(&key, now, wall)
        } else {
            self.plan_ingress(&key, now)
        };
        let Some((body, mut in_flight)) = planned else {
            self.note_unplanned(object, now);
            return None;
        };
        in_flight.version = self.version_of(object);
        let purpose = in_flight.purpose.as_str();
        self.pauses_mut(object)?.in_flight = Some(in_flight);
        Some(ClusterWrite { object: object.clone(), body, purpose })
    }

    fn version_of(&self, object: &ClusterObject) -> Option<Text> {
        let key = object.key();
        let metadata = match object.kind {
            KuryrKind::Ingress => &self.ingresses.get(&key)?.kept.object()?.metadata,
            _ => &self.routers.get(&key)?.kept.object()?.metadata,
        };
        Some(metadata.meta.resource_version.clone())
    }

    /// Ends the trouble of an object to which nothing is to be written. While a write waits, that is not known: the object is asked
    /// again when it could go.
    fn note_unplanned(&mut self, object: &ClusterObject, now: Instant) {
        let is_current = self.reading(object.kind).is_current();
        let Some(pauses) = self.pauses_mut(object) else { return };
        if !is_current || !pauses.is_failing() {
            return;
        }
        match pauses.longest(now) {
            Some(until) => self.queue.push_later(object, &object.namespace, until),
            None => pauses.nothing_to_write(),
        }
    }

    pub(crate) fn pauses_mut(&mut self, object: &ClusterObject) -> Option<&mut gimbal_kuryr_resource::ObjectPauses> {
        let key = object.key();
        match object.kind {
            KuryrKind::Ingress => self.ingresses.get_mut(&key).map(|item| &mut item.pauses),
            _ => self.routers.get_mut(&key).map(|item| &mut item.pauses),
        }
    }

    /// Whether a write may go now. If it has to wait, the object is asked again then.
    pub(crate) fn may_go(&mut self, key: &SourceKey, kind: KuryrKind, purpose: Purpose, now: Instant) -> bool {
        let object = ClusterObject::new(key, kind);
        let until = self.pauses_mut(&object).and_then(|pauses| pauses.until(purpose, now));
        if let Some(until) = until {
            self.queue.push_later(&object, &key.namespace, until);
        }
        until.is_none()
    }

    fn plan_router(&mut self, key: &SourceKey, now: Instant, wall: Timestamp) -> Option<PlannedWrite> {
        if !self.reading(KuryrKind::Router).is_current() {
            return None;
        }
        let item = self.routers.get(key)?;
        let Some(router) = item.kept.object().cloned() else {
            return self.create(key).filter(|_| self.may_go(key, KuryrKind::Router, Purpose::Create, now));
        };
        let owner = &router.metadata.meta.uid;
        let is_deleting = router.metadata.is_being_deleted();
        if is_deleting && has_finalizer(&router) && item.offer.is_gone(owner) {
            let may_go = self.may_go(key, KuryrKind::Router, Purpose::Release, now);
            return may_go.then(|| release(&router.metadata, finalizers::L7_ROUTER));
        }
        if !is_deleting && self.is_to_go(key, &router) && self.may_go(key, KuryrKind::Router, Purpose::Delete, now) {
            let meta = target(&router.metadata);
            return Some((WriteBody::Delete { meta }, InFlightWrite::new(Purpose::Delete)));
        }
        let conform = if is_deleting { None } else { self.conform(key, &router, now) };
        conform
            .filter(|(_, write)| self.may_go(key, KuryrKind::Router, write.purpose, now))
            .or_else(|| self.router_status(key, &router, now, wall))
    }

    /// Whether one that was made for Ingresses is not wanted any more. That is certain only when everything is known that could want
    /// it.
    fn is_to_go(&mut self, key: &SourceKey, router: &KuryrL7Router) -> bool {
        if !is_made_for_ingresses(router) || self.is_wanted(key) {
            return false;
        }
        match &self.facts {
            // A person's word.
            Some(facts) if !facts.enable_ingress => return true,
            // It was made with facts: what they said still holds, and will be heard again.
            None if has_finalizer(router) || router.spec.project_id.is_some() => return false,
            Some(_) | None => {}
        }
        !self.is_anothers(key, router) && self.knows_ingresses() && !self.doubts(key)
    }

    /// Whether a router is the shared one of a controller elsewhere, or of this one before it was moved, by what its label says. It is
    /// neither removed nor set back.
    pub(crate) fn is_anothers(&self, key: &SourceKey, router: &KuryrL7Router) -> bool {
        *key != self.settings.ingresses.shared && kind_of(router) == Some(SHARED)
    }

    fn create(&self, key: &SourceKey) -> Option<PlannedWrite> {
        let item = self.routers.get(key)?;
        let WantedSpec::Other(spec) = &item.wanted else { return None };
        if item.stale {
            return None;
        }
        // Without the writer nothing would take a finalizer away.
        let is_protected = self.facts.is_some();
        let meta = Meta {
            name: key.name.clone(),
            namespace: key.namespace.clone(),
            labels: [(labels::ROUTER_OF.into(), self.kind_for(key).into())].into(),
            ..Meta::default()
        };
        let metadata = LifecycleMeta {
            meta,
            finalizers: if is_protected { vec![finalizers::L7_ROUTER.into()] } else { Vec::new() },
            ..LifecycleMeta::default()
        };
        let in_flight = InFlightWrite { wanted: fingerprint(spec), ..InFlightWrite::new(Purpose::Create) };
        let object = KuryrL7Router { metadata, spec: (**spec).clone(), status: None };
        Some((WriteBody::Create(NewObject::Router(Box::new(object))), in_flight))
    }

    /// Sets what differs: spec, finalizer, label. All of it in one write.
    fn conform(&self, key: &SourceKey, router: &KuryrL7Router, now: Instant) -> Option<PlannedWrite> {
        let item = self.routers.get(key)?;
        let mut metadata = Map::new();
        let is_wanted = self.is_wanted(key);
        if self.facts.is_some() {
            if !has_finalizer(router) && self.is_enabled() {
                metadata.insert("finalizers".into(), json!(with_finalizer(&router.metadata, finalizers::L7_ROUTER)));
            }
        } else if has_finalizer(router) || router.spec.project_id.is_some() {
            // Without facts, less would be known of it than it says.
            return None;
        }
        // One that is not wanted any more goes when its label names its owner again.
        if (is_wanted && !is_made_for_ingresses(router)) || self.lost_its_label(key, router) {
            metadata.insert("labels".into(), json!({ labels::ROUTER_OF: self.kind_for(key) }));
        }
        if item.pauses.refused_until(Purpose::Protect, now).is_some() {
            // The spec does not wait for it.
            metadata.clear();
        }
        let spec = match &item.wanted {
            WantedSpec::Other(spec) if is_wanted && !item.stale && !item.is_as_wanted(router) => Some(spec),
            _ => None,
        };
        let wanted = spec.map_or(0, fingerprint);
        let spec = spec.and_then(|spec| difference(&router.spec, spec));
        if metadata.is_empty() && spec.is_none() {
            return None;
        }
        let finalizer = metadata.contains_key("finalizers").then_some(finalizers::L7_ROUTER);
        let mut change = Map::new();
        if !metadata.is_empty() {
            change.insert("metadata".into(), Value::Object(metadata));
        }
        let purpose = if spec.is_some() { Purpose::Conform } else { Purpose::Protect };
        change.extend(spec.map(|spec| ("spec".to_owned(), spec)));
        let in_flight = InFlightWrite { wanted, finalizer, ..InFlightWrite::new(purpose) };
        Some((WriteBody::Patch { meta: target(&router.metadata), change: Value::Object(change) }, in_flight))
    }

    /// Whether a router is made for an Ingress when that asks for it, or was once. That of a controller elsewhere is not. `asked` is the
    /// one that the Ingress asks for now.
    pub(crate) fn may_have_served(
        &self,
        key: &SourceKey,
        router: &KuryrL7Router,
        ingress: &SourceKey,
        asked: Option<&SourceKey>,
    ) -> bool {
        let is_shared = *key == self.settings.ingresses.shared;
        (is_made_for_ingresses(router) || self.lost_its_label(key, router))
            && match kind_of(router) {
                _ if is_shared => true,
                Some(SHARED) => false,
                // The label stays, and a group may have the name.
                Some(OWN) => key == ingress || asked == Some(key),
                _ => key.namespace == ingress.namespace,
            }
    }

    /// What kind of router is made under a key.
    fn kind_for(&self, key: &SourceKey) -> &'static str {
        if *key == self.settings.ingresses.shared {
            return SHARED;
        }
        if self.index.is_own(key) { OWN } else { "group" }
    }
}

/// The value of the label of a shared router.
const SHARED: &str = "shared";

/// That of a router that was made for one Ingress.
const OWN: &str = "own";

fn kind_of(router: &KuryrL7Router) -> Option<&str> {
    router.metadata.meta.labels.get(labels::ROUTER_OF).map(|kind| &**kind)
}
