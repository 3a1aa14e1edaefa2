//! Ingresses by their routers, in whatever order they and their classes arrive.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gimbal_kubernetes_join::ListProgress;
use gimbal_kubernetes_objects::{Ingress, IngressClass};
use gimbal_kuryr_crd::names::{annotations, finalizers};
use gimbal_kuryr_model::Text;
use gimbal_model::SourceKey;

use super::backend::services;
use super::class::{Classes, Whose, class_name};
use super::placement::{RouterPlacement, placement};
use super::tls::secrets;

/// The annotations that have a meaning here.
const KEPT_ANNOTATIONS: [&str; 3] = [annotations::L7_ROUTER, annotations::REDIRECT_HTTP, annotations::INGRESS_CLASS];

/// How the controller was started, as far as it matters for routers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngressSettings {
    /// Namespace and name of the router of Ingresses that ask for no other.
    pub shared: SourceKey,
}

impl IngressSettings {
    /// Name of the router of Ingresses that ask for no other.
    pub const SHARED_ROUTER: &str = "kuryr-l7-router";

    /// Returns the settings of a controller that keeps its own objects in this namespace.
    #[must_use]
    pub fn in_namespace(namespace: impl Into<Text>) -> Self {
        Self { shared: SourceKey { namespace: namespace.into(), name: Self::SHARED_ROUTER.into() } }
    }
}

/// The Ingresses of a cluster with their classes. Events may arrive in any order and more than once; the outcome depends only on
/// the last state of each object, and on the routers that [keep](Self::keep_at) Ingresses.
#[derive(Debug)]
pub struct IngressIndex {
    settings: IngressSettings,
    classes: Classes,
    ingresses: BTreeMap<SourceKey, Placed>,
    /// Ingresses that are routed, by router.
    routers: BTreeMap<SourceKey, BTreeSet<SourceKey>>,
    /// Ingresses that are routed, by the Services that they name.
    services: BTreeMap<SourceKey, BTreeSet<SourceKey>>,
    /// Ingresses that are routed, by the Secrets that they name.
    secrets: BTreeMap<SourceKey, BTreeSet<SourceKey>>,
    /// Ingresses that are routed, and whose annotation does not say by which router.
    unclear: BTreeSet<SourceKey>,
    /// The routers that keep some of them.
    kept: BTreeMap<SourceKey, SourceKey>,
    /// Routers that may have changed since the last drain.
    dirty: BTreeSet<SourceKey>,
    ingress_list: ListProgress<SourceKey>,
    class_list: ListProgress<Text>,
}

/// An Ingress, and its router if it is ours.
#[derive(Debug)]
struct Placed {
    ingress: Arc<Ingress>,
    whose: Whose,
    placement: Option<RouterPlacement>,
}

/// An Ingress that is routed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Routed<'a> {
    pub(crate) key: &'a SourceKey,
    pub(crate) ingress: &'a Arc<Ingress>,
    pub(crate) placement: &'a RouterPlacement,
    /// Whether its class is gone.
    pub(crate) lacks_class: bool,
}

impl IngressIndex {
    /// Returns an index that has seen nothing.
    #[must_use]
    pub fn new(settings: IngressSettings) -> Self {
        Self {
            settings,
            classes: Classes::default(),
            ingresses: BTreeMap::new(),
            routers: BTreeMap::new(),
            services: BTreeMap::new(),
            secrets: BTreeMap::new(),
            unclear: BTreeSet::new(),
            kept: BTreeMap::new(),
            dirty: BTreeSet::new(),
            ingress_list: ListProgress::default(),
            class_list: ListProgress::default(),
        }
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &IngressSettings {
        &self.settings
    }

    /// Adds an Ingress or replaces it. Labels, and annotations that have no meaning here, are not kept.
    pub fn apply_ingress(&mut self, mut ingress: Ingress) {
        let meta = &mut ingress.metadata.meta;
        meta.labels.clear();
        meta.annotations.retain(|name, _| KEPT_ANNOTATIONS.contains(&&**name));
        let key = SourceKey { namespace: meta.namespace.clone(), name: meta.name.clone() };
        self.ingress_list.saw(&key);
        self.place(key, Arc::new(ingress));
    }

    /// Removes an Ingress.
    pub fn delete_ingress(&mut self, namespace: &str, name: &str) {
        self.forget(&SourceKey::new(namespace, name));
    }

    /// Adds a class or replaces it.
    pub fn apply_class(&mut self, class: &IngressClass) {
        self.class_list.saw(&class.metadata.meta.name);
        if self.classes.apply(class) {
            self.place_all();
        }
    }

    /// Removes a class.
    pub fn delete_class(&mut self, name: &str) {
        if self.classes.delete(name) {
            self.place_all();
        }
    }

    /// Begins a list of Ingresses. Apply its objects as any others. To start over after a failure, call this again.
    pub fn begin_ingresses(&mut self) {
        self.ingress_list.begin();
    }

    /// Ends a complete list: removes the Ingresses that were not applied since [`begin_ingresses`](Self::begin_ingresses), and
    /// returns their keys.
    pub fn end_ingresses(&mut self) -> Vec<SourceKey> {
        let listed = self.ingress_list.end();
        let gone: Vec<SourceKey> = self.ingresses.keys().filter(|key| !listed.contains(key)).cloned().collect();
        gone.iter().for_each(|key| self.forget(key));
        gone
    }

    /// Begins a list of classes.
    pub fn begin_classes(&mut self) {
        self.class_list.begin();
    }

    /// Ends a complete list: removes the classes that were not applied since [`begin_classes`](Self::begin_classes).
    pub fn end_classes(&mut self) {
        let listed = self.class_list.end();
        if self.classes.retain(|name| listed.contains(name)) {
            self.place_all();
        }
    }

    /// Whether Ingresses and classes have each been listed completely at least once.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.ingress_list.is_complete() && self.class_list.is_complete()
    }

    /// Whether an annotation of an Ingress that is routed does not say by which router.
    #[must_use]
    pub fn has_unclear(&self) -> bool {
        !self.unclear.is_empty()
    }

    /// Keeps Ingresses at a router that has their routes, until their annotations say something that can be read: a slip of the pen
    /// moves nothing, and lets no address go. Of those that were served, and that no other router keeps.
    pub fn keep_at(&mut self, router: &SourceKey, ingresses: &BTreeSet<SourceKey>) {
        let is_free = |key: &&SourceKey| self.unclear.contains(*key) && !self.kept.contains_key(*key);
        let was_served = |key: &SourceKey| {
            let ingress = self.ingress(key).filter(|ingress| ingress.metadata.has_finalizer(finalizers::INGRESS))?;
            Some((key.clone(), Arc::clone(ingress)))
        };
        let found: Vec<_> = ingresses.iter().filter(is_free).filter_map(was_served).collect();
        for (key, ingress) in found {
            self.kept.insert(key.clone(), router.clone());
            self.place(key, ingress);
        }
    }

    /// Returns an Ingress as it is known now, whosever it is.
    #[must_use]
    pub fn ingress(&self, key: &SourceKey) -> Option<&Arc<Ingress>> {
        self.ingresses.get(key).map(|placed| &placed.ingress)
    }

    /// The Ingresses that are known, whosever they are.
    pub fn ingresses(&self) -> impl Iterator<Item = (&SourceKey, &Arc<Ingress>)> {
        self.ingresses.iter().map(|(key, placed)| (key, &placed.ingress))
    }

    /// Returns the router of an Ingress; `None` if it is not ours, or going.
    #[must_use]
    pub fn router_of(&self, ingress: &SourceKey) -> Option<&SourceKey> {
        self.ingresses.get(ingress)?.placement.as_ref().map(|placement| &placement.router)
    }

    /// Returns the router that the annotation of an Ingress names, or has it served by without saying so, whosever the Ingress is;
    /// `None` where that cannot be read.
    #[must_use]
    pub fn asked_router(&self, ingress: &SourceKey) -> Option<SourceKey> {
        let asked = placement(self.ingress(ingress)?, &self.settings.shared);
        asked.problem.is_none().then_some(asked.router)
    }

    /// Whether a router is for one Ingress: each that asks for it wants it for itself.
    #[must_use]
    pub fn is_own(&self, router: &SourceKey) -> bool {
        let mut alone = self.routed(router).map(|routed| routed.placement.alone);
        alone.next() == Some(true) && alone.all(|alone| alone)
    }

    /// The routers that have an Ingress.
    pub fn routers(&self) -> impl Iterator<Item = &SourceKey> {
        self.routers.keys()
    }

    /// The Ingresses of a router, by key.
    pub fn ingresses_of(&self, router: &SourceKey) -> impl Iterator<Item = (&SourceKey, &Arc<Ingress>)> {
        self.routed(router).map(|routed| (routed.key, routed.ingress))
    }

    /// The routers that lead to a Service.
    pub fn routers_to(&self, service: &SourceKey) -> impl Iterator<Item = &SourceKey> {
        self.services.get(service).into_iter().flatten().filter_map(|ingress| self.router_of(ingress))
    }

    /// Tells that a Service or its slices changed: its routers will be [drained](Self::drain).
    pub fn service_changed(&mut self, service: &SourceKey) {
        let routers: Vec<SourceKey> = self.routers_to(service).cloned().collect();
        self.dirty.extend(routers);
    }

    /// Tells that a Secret changed: its routers will be [drained](Self::drain).
    pub fn secret_changed(&mut self, secret: &SourceKey) {
        let ingresses = self.secrets.get(secret).into_iter().flatten();
        let routers: Vec<SourceKey> = ingresses.filter_map(|ingress| self.router_of(ingress)).cloned().collect();
        self.dirty.extend(routers);
    }

    /// Whether an Ingress that is routed names a Secret.
    #[must_use]
    pub fn names_secret(&self, secret: &SourceKey) -> bool {
        self.secrets.contains_key(secret)
    }

    /// Returns the routers that may have changed since the last call, those that have no Ingress any more among them. Returns
    /// nothing until the index [is complete](Self::is_complete).
    pub fn drain(&mut self) -> Vec<SourceKey> {
        if self.is_complete() { std::mem::take(&mut self.dirty).into_iter().collect() } else { Vec::new() }
    }

    pub(crate) fn routed(&self, router: &SourceKey) -> impl Iterator<Item = Routed<'_>> {
        self.routers.get(router).into_iter().flatten().filter_map(|key| self.routed_one(key))
    }

    pub(crate) fn routed_one(&self, ingress: &SourceKey) -> Option<Routed<'_>> {
        let (key, Placed { ingress, whose, placement }) = self.ingresses.get_key_value(ingress)?;
        let placement = placement.as_ref()?;
        Some(Routed { key, ingress, placement, lacks_class: *whose == Whose::OursWithoutClass })
    }

    fn place_all(&mut self) {
        let all: Vec<_> = self.ingresses.iter().map(|(key, placed)| (key.clone(), placed.ingress.clone())).collect();
        for (key, ingress) in all {
            self.place(key, ingress);
        }
    }

    fn place(&mut self, key: SourceKey, ingress: Arc<Ingress>) {
        let whose = self.classes.whose(&ingress);
        let mut placement = (whose != Whose::NotOurs).then(|| placement(&ingress, &self.settings.shared));
        match placement.as_mut().filter(|found| found.problem.is_some()) {
            Some(found) => {
                self.unclear.insert(key.clone());
                if let Some(router) = self.kept.get(&key) {
                    found.router.clone_from(router);
                }
            }
            None => self.forget_unclear(&key),
        }
        if let Some(before) = self.ingresses.get_mut(&key)
            && before.whose == whose
            && before.placement == placement
            && routes_the_same(&before.ingress, &ingress)
        {
            before.ingress = ingress;
            return;
        }
        self.remove(&key);
        if let Some(placement) = &placement {
            self.dirty.insert(placement.router.clone());
            self.routers.entry(placement.router.clone()).or_default().insert(key.clone());
            for service in services(&ingress) {
                self.services.entry(service).or_default().insert(key.clone());
            }
            for secret in secrets(&ingress) {
                self.secrets.entry(secret).or_default().insert(key.clone());
            }
        }
        self.ingresses.insert(key, Placed { ingress, whose, placement });
    }

    fn forget_unclear(&mut self, key: &SourceKey) {
        self.unclear.remove(key);
        self.kept.remove(key);
    }

    fn forget(&mut self, key: &SourceKey) {
        self.forget_unclear(key);
        self.remove(key);
    }

    fn remove(&mut self, key: &SourceKey) {
        let Some(Placed { ingress, placement: Some(placement), .. }) = self.ingresses.remove(key) else { return };
        for service in services(&ingress) {
            take(&mut self.services, &service, key);
        }
        for secret in secrets(&ingress) {
            take(&mut self.secrets, &secret, key);
        }
        take(&mut self.routers, &placement.router, key);
        self.dirty.insert(placement.router);
    }
}

fn take(map: &mut BTreeMap<SourceKey, BTreeSet<SourceKey>>, from: &SourceKey, key: &SourceKey) {
    if let Some(keys) = map.get_mut(from) {
        keys.remove(key);
        if keys.is_empty() {
            map.remove(from);
        }
    }
}

/// Whether nothing changed that routes are made from. Most changes are of the status.
fn routes_the_same(before: &Ingress, now: &Ingress) -> bool {
    let (meta, other) = (&before.metadata, &now.metadata);
    before.spec == now.spec
        && meta.meta.uid == other.meta.uid
        && meta.creation_timestamp == other.creation_timestamp
        && class_name(before) == class_name(now)
        && before.annotations().get(annotations::REDIRECT_HTTP) == now.annotations().get(annotations::REDIRECT_HTTP)
}
