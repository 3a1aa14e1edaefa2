//! Takes in what the watches show.

use gimbal_kubernetes_objects::{Ingress, IngressClass, Meta, Object as _};
use gimbal_kuryr_crd::KuryrL7Router;
use gimbal_kuryr_resource::{KindReading, KuryrKind, Shown, Sighting};
use gimbal_kuryr_translate::{KnownSecret, router_knowledge};
use gimbal_model::SourceKey;

use crate::RouterController;
use crate::item::{IngressPlace, IngressProof, has_ingress_finalizer};

/// An object of a kind that is watched, as far as it matters here.
pub trait RoutedObject: private::TakeRouted {
    /// Its kind.
    const WATCHED: KuryrKind;
}

mod private {
    use super::{Ingress, IngressClass, KnownSecret, KuryrL7Router};

    /// An object, whatever its kind is.
    pub enum AnyRouted {
        Ingress(Box<Ingress>),
        Class(Box<IngressClass>),
        Router(Box<KuryrL7Router>),
        Secret(KnownSecret),
    }

    pub trait TakeRouted {
        fn take(self) -> AnyRouted;
    }

    impl TakeRouted for Ingress {
        fn take(self) -> AnyRouted {
            AnyRouted::Ingress(Box::new(self))
        }
    }

    impl TakeRouted for IngressClass {
        fn take(self) -> AnyRouted {
            AnyRouted::Class(Box::new(self))
        }
    }

    impl TakeRouted for KuryrL7Router {
        fn take(self) -> AnyRouted {
            AnyRouted::Router(Box::new(self))
        }
    }

    impl TakeRouted for KnownSecret {
        fn take(self) -> AnyRouted {
            AnyRouted::Secret(self)
        }
    }
}

impl RoutedObject for KnownSecret {
    const WATCHED: KuryrKind = KuryrKind::Secret;
}

impl RoutedObject for Ingress {
    const WATCHED: KuryrKind = KuryrKind::Ingress;
}

impl RoutedObject for IngressClass {
    const WATCHED: KuryrKind = KuryrKind::IngressClass;
}

impl RoutedObject for KuryrL7Router {
    const WATCHED: KuryrKind = KuryrKind::Router;
}

/// The kinds that are read here, in the order of their readings. Without one of the first three nothing is done; without Secrets
/// everything is served that needs none of them.
const READ: [KuryrKind; 4] = [KuryrKind::Ingress, KuryrKind::IngressClass, KuryrKind::Router, KuryrKind::Secret];
const NEEDED: &[KuryrKind] = READ.split_at(3).0;

fn place(kind: KuryrKind) -> usize {
    READ.iter().position(|one| *one == kind).unwrap_or_default()
}

impl<T> RouterController<T> {
    pub(crate) fn take_sighting<O: RoutedObject>(&mut self, sighting: Sighting<O>) {
        match sighting {
            Sighting::ListBegan => self.list_began(O::WATCHED),
            Sighting::ListDone => self.list_done(O::WATCHED),
            Sighting::WentBack => self.store_went_back(),
            Sighting::Unreadable(reason) => self.unreadable_now(O::WATCHED, reason),
            Sighting::Set(object) => match object.take() {
                private::AnyRouted::Ingress(ingress) => self.ingress_set(*ingress),
                private::AnyRouted::Class(class) => self.index.apply_class(&class),
                private::AnyRouted::Router(router) => self.router_set(*router),
                private::AnyRouted::Secret(secret) => self.secret_set(secret),
            },
            Sighting::Deleted(object) => match object.take() {
                private::AnyRouted::Ingress(ingress) => self.ingress_deleted(ingress.meta()),
                private::AnyRouted::Class(class) => self.index.delete_class(&class.metadata.meta.name),
                private::AnyRouted::Router(router) => self.router_deleted(router.meta()),
                private::AnyRouted::Secret(secret) => self.secret_deleted(&secret.key),
            },
        }
    }

    pub(crate) fn reading(&self, kind: KuryrKind) -> &KindReading {
        &self.readings[place(kind)]
    }

    pub(crate) fn reading_mut(&mut self, kind: KuryrKind) -> &mut KindReading {
        &mut self.readings[place(kind)]
    }

    /// Which kind has not been listed yet.
    pub(crate) fn unread(&self) -> Option<String> {
        NEEDED.iter().find_map(|kind| self.reading(*kind).unread(*kind))
    }

    /// Which kind cannot be read now.
    pub(crate) fn unreadable(&self) -> Option<String> {
        NEEDED.iter().find_map(|kind| self.reading(*kind).unreadable(*kind))
    }

    /// Whether it is known which Ingresses there are, and whose they are.
    pub(crate) fn knows_ingresses(&self) -> bool {
        self.reading(KuryrKind::Ingress).is_current() && self.reading(KuryrKind::IngressClass).is_current()
    }

    fn list_began(&mut self, kind: KuryrKind) {
        self.reading_mut(kind).list_began();
        match kind {
            KuryrKind::Ingress => self.index.begin_ingresses(),
            KuryrKind::IngressClass => self.index.begin_classes(),
            KuryrKind::Secret => self.secrets.begin_list(),
            _ => {}
        }
    }

    fn list_done(&mut self, kind: KuryrKind) {
        let list = self.reading_mut(kind).list_done();
        match kind {
            KuryrKind::Ingress => {
                self.index.end_ingresses();
                for (key, item) in &mut self.ingresses {
                    if item.kept.end_list(list.number).is_some() {
                        self.dirty_ingresses.insert(key.clone());
                        self.dirty.extend(item.on.iter().cloned());
                    }
                }
            }
            KuryrKind::IngressClass => {
                self.index.end_classes();
                self.dirty_ingresses.extend(self.ingresses.keys().cloned());
            }
            KuryrKind::Secret => self.secrets_listed(),
            _ => {
                for (key, item) in &mut self.routers {
                    if let Some(router) = item.kept.end_list(list.number) {
                        item.note_lost(&router, list.went_back);
                        self.handled.extend(item.offer.forget_shown_report());
                        self.dirty.insert(key.clone());
                    }
                }
            }
        }
        if !list.was_current {
            self.mark_all();
        }
    }

    fn ingress_set(&mut self, ingress: Ingress) {
        let key = key_of(ingress.meta());
        let reading = self.reading(KuryrKind::Ingress);
        let (list, went_back, is_current) = (reading.lists(), reading.went_back(), reading.is_current());
        let item = self.ingresses.entry(key.clone()).or_default();
        item.pauses.seen();
        match item.kept.show(without_spec(&ingress), list, went_back) {
            // This keeps it in the list that may be running.
            Shown::Nothing => {
                if let Some(known) = self.index.ingress(&key).cloned() {
                    self.index.apply_ingress((*known).clone());
                }
            }
            Shown::Confirmed => {
                self.index.apply_ingress(ingress);
                self.ingress_changed(&key, true);
            }
            Shown::Changed(before) => {
                if is_current {
                    // What is left out of it is news.
                    item.told.get_or_insert_default();
                }
                let is_same = |before: &Ingress| {
                    let (one, other) = (&before.metadata, &ingress.metadata);
                    one.meta.uid == other.meta.uid
                        && has_ingress_finalizer(one) == has_ingress_finalizer(other)
                        && one.is_being_deleted() == other.is_being_deleted()
                };
                let says_other = before.is_none_or(|before| !is_same(&before));
                item.proof.take_if(|proof| *proof == IngressProof::Absent);
                self.index.apply_ingress(ingress);
                self.ingress_changed(&key, says_other);
            }
        }
    }

    /// An Ingress changed. What a router has of it is decided anew if it `says_other` than before about whether it is served.
    fn ingress_changed(&mut self, key: &SourceKey, says_other: bool) {
        if says_other {
            let on = self.ingresses.get(key).map(|item| &item.on);
            self.dirty.extend(on.into_iter().flatten().cloned());
            self.dirty.extend(self.index.router_of(key).cloned());
        }
        self.dirty_ingresses.insert(key.clone());
    }

    fn ingress_deleted(&mut self, meta: &Meta) {
        let key = key_of(meta);
        let list = self.reading(KuryrKind::Ingress).lists();
        let Some(item) = self.ingresses.get_mut(&key) else { return };
        item.pauses.seen();
        if item.kept.show_deleted(meta, list).is_some() {
            self.index.delete_ingress(&key.namespace, &key.name);
        }
        self.ingress_changed(&key, true);
    }

    /// Takes in the answer to a write, or to a read.
    pub(crate) fn ingress_answered(&mut self, ingress: Ingress) {
        let key = key_of(ingress.meta());
        let list = self.reading(KuryrKind::Ingress).lists();
        let item = self.ingresses.entry(key.clone()).or_default();
        item.proof = Some(IngressProof::Version(ingress.metadata.meta.resource_version.clone()));
        if item.kept.answered(without_spec(&ingress), list) {
            self.index.apply_ingress(ingress);
        }
        self.ingress_changed(&key, true);
    }

    fn router_set(&mut self, router: KuryrL7Router) {
        let key = key_of(router.meta());
        let reading = self.reading(KuryrKind::Router);
        let (list, went_back) = (reading.lists(), reading.went_back());
        let item = self.routers.entry(key.clone()).or_default();
        item.pauses.seen();
        item.lost.take_if(|lost| *lost == router.metadata.meta.uid);
        let known = !router_knowledge(&router).needs_discovery();
        let uid = router.metadata.meta.uid.clone();
        match item.kept.show(router, list, went_back) {
            Shown::Nothing => return,
            Shown::Confirmed | Shown::Changed(None) => {}
            Shown::Changed(Some(before)) if before.metadata.meta.uid != uid => item.note_lost(&before, went_back),
            // Somebody has wiped the status. What is known of it is asked for, and not written from memory; unless the writer
            // has heard already that nothing is known.
            Shown::Changed(Some(before)) => {
                let was_known = !router_knowledge(&before).needs_discovery();
                if was_known && !known && !item.offer.told_unknown() {
                    self.handled.extend(item.offer.forget_report());
                }
            }
        }
        self.dirty.insert(key);
    }

    fn router_deleted(&mut self, meta: &Meta) {
        let key = key_of(meta);
        let list = self.reading(KuryrKind::Router).lists();
        let Some(item) = self.routers.get_mut(&key) else { return };
        item.pauses.seen();
        if item.kept.show_deleted(meta, list).is_some() {
            self.handled.extend(item.offer.forget_shown_report());
        }
        self.dirty.insert(key);
    }

    /// Takes in the answer to a write.
    pub(crate) fn router_answered(&mut self, router: KuryrL7Router) {
        let list = self.reading(KuryrKind::Router).lists();
        let key = key_of(router.meta());
        self.routers.entry(key.clone()).or_default().kept.answered(router, list);
        self.dirty.insert(key);
    }

    /// What was made since a restored store's backup has vanished, and was not deleted: that is absence, and no wish
    /// (docs/way-back.md#rule-5). Versions, UIDs and generations of before may come again, so nothing is concluded from them.
    fn store_went_back(&mut self) {
        self.readings.iter_mut().for_each(KindReading::must_be_read_anew);
        self.secrets.cannot_be_read();
        for item in self.ingresses.values_mut() {
            item.kept.store_went_back();
            item.proof = None;
            item.pauses.void_in_flight();
        }
        for item in self.routers.values_mut() {
            item.kept.store_went_back();
            (item.ours, item.unmade) = (None, None);
            for place in item.ingresses.values_mut() {
                if let IngressPlace::Leaving(from) | IngressPlace::MayLeave(from) = place {
                    *from = None;
                }
            }
            // A deletion of which the writer has not heard is decided anew.
            item.offer.take_back_deletion();
            item.pauses.void_in_flight();
        }
    }
}

/// The index has the spec.
fn without_spec(ingress: &Ingress) -> Ingress {
    let mut metadata = ingress.metadata.clone();
    (metadata.meta.labels, metadata.meta.annotations) = Default::default();
    Ingress { metadata, spec: Default::default(), status: ingress.status.clone() }
}

fn key_of(meta: &Meta) -> SourceKey {
    SourceKey { namespace: meta.namespace.clone(), name: meta.name.clone() }
}
