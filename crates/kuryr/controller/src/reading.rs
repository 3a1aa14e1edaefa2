//! Takes in what the watches show.

use std::sync::Arc;

use gimbal_kubernetes_objects::{BalancedService, Meta, Node};
use gimbal_kuryr_crd::KuryrLoadBalancer;
use gimbal_kuryr_resource::{EndedList, KindReading, KuryrKind, Sighting, is_newer_version};
use gimbal_kuryr_translate::{KeptService, NodeChange, Nodes, status_knowledge};
use gimbal_model::SourceKey;

use crate::held::HeldBalancer;
use crate::item::ServiceProof;
use crate::sighting::private::AnyObject;
use crate::{KuryrController, WatchedObject};

impl<T> KuryrController<T> {
    pub(crate) fn take_sighting<O: WatchedObject>(&mut self, sighting: Sighting<O>) {
        match sighting {
            Sighting::ListBegan => self.list_began(O::WATCHED),
            Sighting::ListDone => self.list_done(O::WATCHED),
            Sighting::WentBack => self.store_went_back(),
            Sighting::Unreadable(reason) => self.reading_mut(O::WATCHED).cannot_be_read(reason),
            Sighting::Set(object) => match object.take() {
                AnyObject::Service(service) => self.service_set(*service),
                AnyObject::Slice(slice) => self.index.apply_slice(slice),
                AnyObject::Node(node) => self.node_set(&node),
                AnyObject::LoadBalancer(balancer) => self.balancer_set(*balancer),
            },
            Sighting::Deleted(object) => match object.take() {
                AnyObject::Service(service) => self.service_deleted(&service),
                AnyObject::Slice(slice) => self.index.delete_slice(&slice.metadata.namespace, &slice.metadata.name),
                AnyObject::Node(node) => self.node_deleted(&node.metadata.name),
                AnyObject::LoadBalancer(balancer) => self.balancer_deleted(&balancer),
            },
        }
    }

    pub(crate) fn reading(&self, kind: KuryrKind) -> &KindReading {
        &self.readings[kind as usize]
    }

    pub(crate) fn reading_mut(&mut self, kind: KuryrKind) -> &mut KindReading {
        &mut self.readings[kind as usize]
    }

    /// Why a kind cannot be read now.
    pub(crate) fn unreadable(&self, kind: KuryrKind) -> Option<String> {
        self.reading(kind).unreadable(kind)
    }

    /// Whether what is known of a kind may be acted upon.
    pub(crate) fn is_current(&self, kind: KuryrKind) -> bool {
        self.reading(kind).is_current()
    }

    /// Which kind has not been listed yet.
    pub(crate) fn unread(&self) -> Option<String> {
        let needed = [KuryrKind::Service, KuryrKind::Slice, KuryrKind::LoadBalancer];
        needed.into_iter().find_map(|kind| self.reading(kind).unread(kind))
    }

    fn list_began(&mut self, kind: KuryrKind) {
        self.reading_mut(kind).list_began();
        match kind {
            KuryrKind::Service => self.index.begin_services(),
            KuryrKind::Slice => self.index.begin_slices(),
            KuryrKind::Node => self.listed_nodes.clear(),
            KuryrKind::LoadBalancer
            | KuryrKind::Ingress
            | KuryrKind::IngressClass
            | KuryrKind::Router
            | KuryrKind::Secret => {}
        }
    }

    fn list_done(&mut self, kind: KuryrKind) {
        let EndedList { number: list, was_current, went_back } = self.reading_mut(kind).list_done();
        match kind {
            KuryrKind::Service => {
                let before = self.protected_services();
                self.index.end_services();
                let is_listed = |key: &SourceKey| self.index.service(key).is_some();
                let vanished = before.into_iter().filter(|(key, _)| !is_listed(key)).map(|(_, uid)| uid).collect();
                self.note_lost_services(went_back, &vanished);
                for (key, item) in &mut self.items {
                    item.service_ahead &= self.index.service(key).is_some();
                }
            }
            KuryrKind::Slice => self.index.end_slices(),
            KuryrKind::Node => {
                let listed = std::mem::take(&mut self.listed_nodes);
                self.nodes.retain(|name| listed.contains(name));
            }
            KuryrKind::LoadBalancer => {
                let unlisted = |held: &mut HeldBalancer| held.listed != list;
                for (key, item) in &mut self.items {
                    if let Some(held) = item.held.take_if(unlisted) {
                        item.note_lost_balancer(&held, went_back);
                        self.handled.extend(item.offer.forget_shown_report());
                        self.dirty.insert(key.clone());
                        self.shared_owner_news = true;
                    }
                }
            }
            KuryrKind::Ingress | KuryrKind::IngressClass | KuryrKind::Router | KuryrKind::Secret => {}
        }
        if !was_current || kind == KuryrKind::Node {
            self.mark_all();
        }
    }

    pub(crate) fn forget_nodes(&mut self) {
        *self.reading_mut(KuryrKind::Node) = KindReading::default();
        self.nodes = Nodes::default();
        self.listed_nodes.clear();
    }

    fn node_set(&mut self, node: &Node) {
        self.listed_nodes.insert(node.metadata.name.clone());
        match self.nodes.apply(node) {
            _ if !self.needs_nodes() => {}
            NodeChange::Nothing => {}
            // Every node has some that change with time, and translating everything takes long.
            NodeChange::Labels => {
                self.note_changed_nodes();
                let selects = |key: &&SourceKey| self.index.service(key).is_some_and(|service| service.selects_nodes);
                self.dirty.extend(self.index.services().filter(selects).cloned());
            }
            NodeChange::Members => self.mark_all(),
        }
    }

    fn node_deleted(&mut self, name: &str) {
        self.listed_nodes.remove(name);
        if self.nodes.delete(name) && self.needs_nodes() {
            self.mark_all();
        }
    }

    fn service_set(&mut self, service: BalancedService) {
        let key = key_of(&service.metadata.meta);
        if self.is_current(KuryrKind::Service) {
            self.fresh.insert(key.clone());
        }
        let lists = self.reading(KuryrKind::Service).lists();
        let held = self.index.service(&key).cloned();
        let item = self.items.get_mut(&key);
        if let Some(item) = item {
            item.pauses[0].seen();
            // One that a later list has is back.
            item.dead.take_if(|_| item.dead_in < lists);
            let meta = &service.metadata.meta;
            item.lost.take_if(|lost| *lost == meta.uid);
            // The watch is behind what the API server has said.
            if item.dead.as_ref() == Some(&meta.uid) {
                return;
            }
            let is_older = |held: &&KeptService| is_newer_version(&held.version, &meta.resource_version);
            if item.service_ahead
                && let Some(held) = held.as_ref().filter(is_older)
            {
                // The watch is behind the answer. This keeps the Service in the list that may be running.
                self.index.apply_service(Arc::unwrap_or_clone(held.service()));
                return;
            }
            let was_ahead = std::mem::take(&mut item.service_ahead);
            item.proof.take_if(|proof| *proof == ServiceProof::Absent);
            self.dirty.insert(key);
            let other = held.filter(|held| held.uid != service.metadata.meta.uid && !was_ahead);
            let vanished = other.filter(|held| held.is_protected).map(|held| held.uid);
            self.index.apply_service(service);
            return self.note_lost_services(false, &vanished.into_iter().collect());
        }
        self.index.apply_service(service);
    }

    fn service_deleted(&mut self, service: &BalancedService) {
        let meta = &service.metadata.meta;
        let key = key_of(meta);
        let lists = self.reading(KuryrKind::Service).lists();
        let held = self.index.service(&key).cloned();
        if let Some(item) = self.items.get_mut(&key) {
            item.pauses[0].seen();
            (item.dead, item.dead_in) = (Some(meta.uid.clone()), lists);
            self.dirty.insert(key.clone());
            // The answer to a write has shown the Service that was made after this one.
            let is_newer = |held: KeptService| is_newer_version(&held.version, &meta.resource_version);
            if item.service_ahead && held.is_some_and(is_newer) {
                return;
            }
            item.service_ahead = false;
        }
        self.index.delete_service(&key.namespace, &key.name);
    }

    fn balancer_set(&mut self, balancer: KuryrLoadBalancer) {
        let key = key_of(&balancer.metadata.meta);
        let reading = self.reading(KuryrKind::LoadBalancer);
        let (listed, went_back) = (reading.lists(), reading.went_back());
        let item = self.items.entry(key.clone()).or_default();
        item.pauses[1].seen();
        item.lost.take_if(|lost| *lost == balancer.metadata.meta.uid);
        let known = !status_knowledge(&balancer).needs_discovery();
        if let Some(held) = &mut item.held {
            let new = &balancer.metadata.meta;
            held.listed = listed;
            if new.resource_version == held.version && !went_back {
                if std::mem::take(&mut held.ahead) {
                    self.dirty.insert(key);
                }
                return;
            }
            if held.ahead && is_newer_version(&held.version, &new.resource_version) {
                return;
            }
            // Somebody has wiped the status. What is known of it is asked for, and not written from memory; unless the writer
            // has heard already that nothing is known.
            if held.known && !known && new.uid == held.uid && !item.offer.told_unknown() {
                self.handled.extend(item.offer.forget_report());
            }
        }
        let own = &balancer.metadata.meta.uid;
        if let Some(other) = item.held.take_if(|held| held.uid != *own) {
            item.note_lost_balancer(&other, went_back);
        }
        item.held = Some(self.recent.hold(balancer, false, listed, self.leads));
        self.dirty.insert(key);
    }

    fn balancer_deleted(&mut self, balancer: &KuryrLoadBalancer) {
        let meta = &balancer.metadata.meta;
        let key = key_of(meta);
        let Some(item) = self.items.get_mut(&key) else { return };
        item.pauses[1].seen();
        let is_stale = |held: &HeldBalancer| held.ahead && is_newer_version(&held.version, &meta.resource_version);
        if !item.held.as_ref().is_some_and(is_stale) {
            item.held = None;
            self.handled.extend(item.offer.forget_shown_report());
        }
        item.dead_balancer = Some(meta.uid.clone());
        self.dirty.insert(key);
        self.shared_owner_news = true;
    }

    /// Takes in the answer to a write, or to a read.
    pub(crate) fn service_answered(&mut self, service: BalancedService) {
        let key = key_of(&service.metadata.meta);
        let held = self.index.service(&key);
        let version = &service.metadata.meta.resource_version;
        if held.is_some_and(|held| !is_newer_version(version, &held.version)) {
            return;
        }
        let item = self.items.entry(key).or_default();
        // The watch was faster.
        if item.dead.as_ref() == Some(&service.metadata.meta.uid) {
            return;
        }
        item.service_ahead = true;
        self.index.apply_service(service);
    }

    /// Takes in the answer to a write.
    pub(crate) fn balancer_answered(&mut self, balancer: KuryrLoadBalancer) {
        let listed = self.reading(KuryrKind::LoadBalancer).lists();
        let item = self.items.entry(key_of(&balancer.metadata.meta)).or_default();
        let held = item.held.as_ref();
        if item.dead_balancer.as_ref() == Some(&balancer.metadata.meta.uid) {
            return;
        }
        let version = &balancer.metadata.meta.resource_version;
        if held.is_some_and(|held| !is_newer_version(version, &held.version)) {
            return;
        }
        item.held = Some(self.recent.hold(balancer, true, listed, self.leads));
    }
}

fn key_of(meta: &Meta) -> SourceKey {
    SourceKey { namespace: meta.namespace.clone(), name: meta.name.clone() }
}
