//! A controller, its API server, its users and its writer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_kubernetes_objects::{Ingress, IngressClass};
use gimbal_kuryr_crd::KuryrL7Router;
use gimbal_kuryr_model::{DesiredEntry, DesiredKey, DesiredKind};
use gimbal_kuryr_resource::{
    ChangedServices, ClusterWrite, KnownServices, KuryrKind, NamespacePatterns, ObjectNotice, Sighting, WriteBody,
    WriteOutcome,
};
use gimbal_kuryr_router_core::{RoutedObject, RouterController, RouterSettings};
use gimbal_kuryr_testkit::Writer;
use gimbal_kuryr_translate::{IngressSettings, KnownSecret, Nodes, ServiceIndex};
use gimbal_session::KeptEntry as _;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::{self, Api, Change, Kind, name_of, named, text};
use crate::objects::{facts, known_secret};

pub const KINDS: [Kind; 4] = [Kind::Class, Kind::Ingress, Kind::Router, Kind::Secret];
pub const SHARED: &str = "gimbal/kuryr-l7-router";

pub struct World {
    pub api: Api,
    pub controller: RouterController<u64>,
    pub writer: Writer,
    services: ServiceIndex,
    nodes: Nodes,
    pub services_are_current: bool,
    changed: ChangedServices,
    /// What the controller offers, as the session has it.
    pub offered: BTreeMap<DesiredKey, Arc<DesiredEntry>>,
    /// What the watches have shown of the log.
    shown: BTreeMap<Kind, usize>,
    /// The store went back, and no list has shown it.
    went_back: bool,
    /// Kinds that have to be listed before their watch goes on.
    unlisted: BTreeSet<Kind>,
    pub in_flight: Vec<ClusterWrite>,
    /// Writes that were decided on while the writer allowed no routers. They may be carried out after it allows them again.
    decided_without_leave: Vec<ClusterWrite>,
    /// Requests whose sender has given up, and which may still arrive.
    late: Vec<ClusterWrite>,
    pub now: Instant,
    seconds: i64,
    /// What the writer has said; unset before.
    pub enabled: Option<bool>,
    pub leads: bool,
    pub purposes: Vec<String>,
    pub notices: Vec<ObjectNotice>,
    /// What was offered, as words.
    pub heard: Vec<String>,
    /// Whether the writer works.
    pub works: bool,
    /// How long [`rest`](Self::rest) waits for pauses.
    pub patience: Duration,
}

impl World {
    #[allow(clippy::disallowed_methods)] // The only clock: every time is this one and some seconds.
    pub fn new(enabled: Option<bool>) -> Self {
        let settings = RouterSettings {
            ingresses: IngressSettings::in_namespace("gimbal"),
            namespaces: NamespacePatterns::default(),
        };
        let mut world = Self {
            api: Api::default(),
            controller: RouterController::new(settings),
            writer: Writer::default(),
            services: ServiceIndex::default(),
            nodes: Nodes::default(),
            services_are_current: true,
            changed: ChangedServices::default(),
            offered: BTreeMap::new(),
            shown: BTreeMap::new(),
            went_back: false,
            unlisted: BTreeSet::new(),
            in_flight: Vec::new(),
            decided_without_leave: Vec::new(),
            late: Vec::new(),
            now: Instant::now(),
            seconds: 1_700_000_000,
            enabled,
            leads: true,
            purposes: Vec::new(),
            notices: Vec::new(),
            heard: Vec::new(),
            works: true,
            patience: Duration::from_secs(600),
        };
        world.api.create(Kind::Class, "kuryr", json!({"spec": {"controller": "kuryr.openstack.org/ingress"}}));
        world.api.create(Kind::Class, "nginx", json!({"spec": {"controller": "k8s.io/ingress-nginx"}}));
        for list in [ServiceIndex::begin_services, ServiceIndex::begin_slices] {
            list(&mut world.services);
        }
        world.services.end_services();
        world.services.end_slices();
        world.pods("s1", 2);
        world.start(&KINDS);
        world
    }

    /// A Service with this number of endpoints.
    pub fn pods(&mut self, name: &str, pods: u8) {
        let service = json!({"metadata": {"name": name, "namespace": "team", "uid": format!("service-{name}")},
            "spec": {"type": "ClusterIP", "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}]}});
        let pod = |n| json!({"addresses": [format!("10.1.0.{n}")], "conditions": {"ready": true}});
        let endpoints: Vec<_> = (1..=pods).map(pod).collect();
        let slice = json!({
            "metadata": {"name": name, "namespace": "team", "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4", "endpoints": endpoints,
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        });
        self.services.apply_service(serde_json::from_value(service).unwrap());
        self.services.apply_slice(serde_json::from_value(slice).unwrap());
        self.changed.keys.extend(self.services.drain().into_iter().map(|(key, _)| key));
    }

    /// A new process, which reads everything in this order.
    pub fn restart(&mut self, order: &[Kind]) {
        self.controller = RouterController::new(self.controller.settings().clone());
        self.late.append(&mut self.in_flight);
        self.leads = true;
        self.start(order);
    }

    /// A new process whose list of Ingresses is an old one.
    pub fn restart_behind(&mut self) {
        self.controller = RouterController::new(self.controller.settings().clone());
        self.late.append(&mut self.in_flight);
        self.leads = true;
        self.shown.insert(Kind::Ingress, 0);
        listed::<Ingress>(&mut self.controller, Vec::new(), Sighting::ListDone, read);
        self.start(&[Kind::Class, Kind::Router, Kind::Secret]);
    }

    /// Somebody restores the store from the last backup. Every watch breaks.
    pub fn go_back(&mut self) {
        // What no watch has shown is not known to have been there.
        let behind = self.shown.get(&Kind::Ingress).copied().unwrap_or_default()
            < self.api.log.get(&Kind::Ingress).map_or(0, Vec::len);
        if behind || !self.api.go_back() {
            return;
        }
        self.went_back = true;
        self.unlisted = KINDS.into();
    }

    fn start(&mut self, order: &[Kind]) {
        // A new process does not know what was before.
        self.went_back = false;
        self.unlisted.clear();
        self.controller.set_leading(true);
        if let Some(enabled) = self.enabled {
            self.controller.set_facts(&facts(enabled));
        }
        for kind in order {
            self.list(*kind);
        }
        self.changed.all = true;
        self.restream();
    }

    /// A new stream, to which everything is offered.
    fn restream(&mut self) {
        self.offered.clear();
        self.drain();
        self.break_stream();
    }

    pub fn break_stream(&mut self) {
        self.writer.reconnect(&self.offered);
        self.controller.stream_opened();
    }

    pub fn learn_facts(&mut self, enabled: bool) {
        self.enabled = Some(enabled);
        self.controller.set_facts(&facts(enabled));
    }

    pub fn lead(&mut self, leads: bool) {
        self.controller.set_leading(leads);
        if std::mem::replace(&mut self.leads, leads) != leads {
            self.restream();
        }
    }

    pub fn list(&mut self, kind: Kind) {
        let objects = self.api.of(kind);
        self.shown.insert(kind, self.api.log.get(&kind).map_or(0, Vec::len));
        let went_back = std::mem::take(&mut self.went_back);
        if went_back {
            // A list shows it at its end, and then everything is listed anew.
            self.unlisted = KINDS.into();
        } else {
            self.unlisted.remove(&kind);
        }
        let controller = &mut self.controller;
        match kind {
            Kind::Ingress => listed::<Ingress>(controller, objects, end(went_back), read),
            Kind::Class => listed::<IngressClass>(controller, objects, end(went_back), read),
            Kind::Router => listed::<KuryrL7Router>(controller, objects, end(went_back), read),
            Kind::Secret => listed(controller, objects, end(went_back), |object| known_secret(&object)),
        }
    }

    pub fn unreadable(&mut self, kind: Kind) {
        let reason = "no rights".to_owned();
        match kind {
            Kind::Ingress => self.controller.saw::<Ingress>(Sighting::Unreadable(reason)),
            Kind::Class => self.controller.saw::<IngressClass>(Sighting::Unreadable(reason)),
            Kind::Router => self.controller.saw::<KuryrL7Router>(Sighting::Unreadable(reason)),
            Kind::Secret => self.controller.saw::<KnownSecret>(Sighting::Unreadable(reason)),
        }
    }

    /// Delivers the next event of a watch.
    pub fn watch(&mut self, kind: Kind) -> bool {
        if self.unlisted.contains(&kind) {
            self.list(kind);
            return true;
        }
        let shown = self.shown.entry(kind).or_default();
        let Some(change) = self.api.log.get(&kind).and_then(|log| log.get(*shown)).cloned() else { return false };
        *shown += 1;
        match kind {
            Kind::Ingress => self.controller.saw(sighting::<Ingress>(change, read)),
            Kind::Class => self.controller.saw(sighting::<IngressClass>(change, read)),
            Kind::Router => self.controller.saw(sighting::<KuryrL7Router>(change, read)),
            Kind::Secret => self.controller.saw(sighting(change, |object| known_secret(&object))),
        }
        true
    }

    pub fn decide(&mut self) {
        let known = KnownServices { index: &self.services, nodes: &self.nodes, are_current: self.services_are_current };
        self.controller.decide(known, std::mem::take(&mut self.changed));
    }

    /// Takes every write that the controller has now.
    pub fn plan(&mut self) -> bool {
        self.decide();
        let mut any = false;
        let wall = Timestamp::from_second(self.seconds).unwrap();
        while let Some(write) = self.controller.next_write(self.now, wall) {
            assert!(self.leads, "a write without leadership: {write:?}");
            let same = self.in_flight.iter().find(|other| other.object == write.object);
            assert!(same.is_none(), "two writes to one object: {write:?} beside {same:?}");
            if self.enabled == Some(false) {
                self.decided_without_leave.push(write.clone());
            }
            self.in_flight.push(write);
            any = true;
        }
        self.notices.extend(self.controller.drain_notices());
        any
    }

    /// Answers the write that is at this place, in one of several ways.
    pub fn answer(&mut self, at: usize, fate: u8) -> bool {
        if self.in_flight.is_empty() {
            return false;
        }
        let write = self.in_flight.remove(at % self.in_flight.len());
        let outcome = match fate {
            0..=6 => self.carry_out(&write),
            7 => {
                self.carry_out(&write);
                WriteOutcome::Unknown("the answer was lost".into())
            }
            8 => {
                self.late.push(write.clone());
                WriteOutcome::Unknown("timed out".into())
            }
            9 => WriteOutcome::Refused("a webhook".into()),
            10 => WriteOutcome::Throttled(Some(Duration::from_millis(300))),
            _ => WriteOutcome::Unknown("no connection".into()),
        };
        self.end(&write);
        self.controller.wrote(&write.object, outcome, self.now);
        true
    }

    /// A request arrives whose sender has given up.
    pub fn arrive_late(&mut self) {
        if !self.late.is_empty() {
            let write = self.late.remove(0);
            self.carry_out(&write);
            self.end(&write);
        }
    }

    /// A write that will not arrive any more.
    fn end(&mut self, write: &ClusterWrite) {
        if !self.late.contains(write) {
            self.decided_without_leave.retain(|one| one != write);
        }
    }

    fn carry_out(&mut self, write: &ClusterWrite) -> WriteOutcome {
        let (outcome, before) = self.api.carry_out(write);
        if matches!(outcome, WriteOutcome::Done(_)) && write.body != WriteBody::Read {
            self.purposes.push(format!("{}: {}", name(write), write.purpose));
        }
        if let (WriteOutcome::Done(_), Some(before)) = (&outcome, before) {
            self.check_release(write, &before);
            self.check_routes(write, &before);
        }
        outcome
    }

    /// No routes go for want of knowledge: an Ingress that has asked for them since before they were written keeps them.
    fn check_routes(&self, write: &ClusterWrite, before: &Value) {
        let is_without_leave = self.enabled == Some(false) || self.decided_without_leave.contains(write);
        let may_go = is_without_leave || self.is_unmade(before) || api::is_going(before);
        if write.object.kind != KuryrKind::Router || may_go {
            return;
        }
        let now = self.api.get(Kind::Router, &name_of(before)).map(named).unwrap_or_default();
        let written = before["metadata"]["specVersion"].as_u64().unwrap_or_default();
        for gone in named(before).difference(&now) {
            let Some(ingress) = self.api.get(Kind::Ingress, gone) else { continue };
            let since = self.api.asks_since.get(text(ingress, "/metadata/uid"));
            let has_asked = since.is_some_and(|(router, since)| *router == name_of(before) && *since < written);
            assert!(!has_asked, "{gone} loses its routes: {write:?}");
        }
    }

    pub fn drain(&mut self) -> bool {
        self.decide();
        let drained = self.controller.drain(self.now);
        let any = !drained.is_empty();
        for (key, entry) in drained {
            let is_alone = entry.as_ref().is_some_and(|entry| entry.is_alone());
            let entry = entry.map(|entry| entry.entry());
            assert_eq!(key.kind, DesiredKind::L7Router);
            assert!(self.leads && self.enabled.is_some(), "{key} is offered too early");
            match entry.as_deref() {
                Some(DesiredEntry::Deleting { owner }) => {
                    let is_undone = self.api.undone.contains(&**owner);
                    assert!(!is_undone, "{key} is deleted although {owner} was not deleted");
                    // What was deleted before the store went back is deleted until a list shows that it is there again.
                    let is_behind = self.went_back || self.unlisted.contains(&Kind::Router);
                    assert!(
                        is_behind || self.api.deleted.contains(&**owner),
                        "{key} is deleted although {owner} is not"
                    );
                }
                // Of what wants nothing nothing is made.
                Some(_) if is_alone => {}
                Some(entry) => {
                    let owner = entry.owner();
                    assert!(self.api.protected.contains(&**owner), "{key} is offered before its finalizer is set");
                }
                None => {}
            }
            self.heard.push(match entry.as_deref() {
                Some(_) if is_alone => format!("{} alone", key.name),
                Some(DesiredEntry::LoadBalancer(wanted)) => {
                    format!("{} {} {}", key.name, wanted.header.owner, wanted.generation)
                }
                Some(DesiredEntry::Deleting { owner }) => format!("{} deleting {owner}", key.name),
                None => format!("{} gone", key.name),
            });
            match &entry {
                Some(entry) => drop(self.offered.insert(key.clone(), entry.clone())),
                None => drop(self.offered.remove(&key)),
            }
            self.writer.to.push_back((key, entry));
        }
        any
    }

    pub fn report(&mut self) -> bool {
        if let Some((key, words)) = self.writer.said.pop_front() {
            match words {
                Some(words) => self.controller.rejected(&key, "ProjectNotAllowed", &words),
                None => self.controller.resolved(&key, self.now),
            }
            return true;
        }
        let Some((key, report, number)) = self.writer.back.pop_front() else { return false };
        self.writer.unhandled.retain(|_, of| *of != key);
        self.writer.unhandled.insert(number, key.clone());
        self.controller.reported(&key, &report, number, self.now);
        self.handled();
        true
    }

    pub fn handled(&mut self) {
        for number in self.controller.drain_handled() {
            self.writer.unhandled.remove(&number);
        }
    }

    pub fn pass(&mut self, time: Duration) {
        self.now += time;
        self.seconds += i64::try_from(time.as_secs()).unwrap();
    }

    /// Puts an end to all trouble, and lets everything come to rest.
    pub fn quiet(&mut self) {
        self.late.clear();
        self.services_are_current = true;
        if self.enabled.is_none() {
            self.learn_facts(true);
        }
        if !self.leads {
            self.lead(true);
        }
        for kind in KINDS {
            self.list(kind);
        }
        self.rest();
    }

    /// Lets everything come to rest.
    pub fn rest(&mut self) {
        self.rest_with(&KINDS);
    }

    /// As [`rest`](Self::rest), where nothing is seen of Secrets.
    pub fn rest_without_secrets(&mut self) {
        self.rest_with(&KINDS[..3]);
    }

    fn rest_with(&mut self, kinds: &[Kind]) {
        for turn in 0.. {
            let mut any = false;
            for kind in kinds.iter().copied() {
                while self.watch(kind) {
                    any = true;
                }
            }
            any |= self.plan();
            while self.answer(0, 0) {
                any = true;
            }
            any |= self.leads && self.drain();
            while self.works && (self.writer.receive() || self.writer.work() || self.report()) {
                any = true;
            }
            self.handled();
            let deadline = self.controller.deadline().map(|deadline| deadline.saturating_duration_since(self.now));
            match deadline.filter(|pause| *pause < self.patience) {
                _ if any => {}
                Some(pause) => self.pass(pause + Duration::from_millis(1)),
                None => return,
            }
            let last: Vec<_> = self.purposes.iter().rev().take(12).collect();
            assert!(turn < 300, "it does not come to rest: {last:?}");
        }
    }

    pub fn explain(&self, name: &str) -> Vec<String> {
        let (namespace, name) = name.split_once('/').unwrap();
        self.controller.explain(&DesiredKey::new(DesiredKind::L7Router, namespace, name))
    }

    pub fn reasons(&self, kind: KuryrKind) -> Vec<&'static str> {
        self.notices.iter().filter(|notice| notice.object.kind == kind).map(|notice| notice.told.reason).collect()
    }
}

fn name(write: &ClusterWrite) -> String {
    format!("{} {}/{}", write.object.kind.as_str(), write.object.namespace, write.object.name)
}

fn end<T>(went_back: bool) -> Sighting<T> {
    if went_back { Sighting::WentBack } else { Sighting::ListDone }
}

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn sighting<T>(change: Change, read: fn(Value) -> T) -> Sighting<T> {
    let object = read(change.object);
    if change.deleted { Sighting::Deleted(object) } else { Sighting::Set(object) }
}

fn listed<T: RoutedObject>(
    controller: &mut RouterController<u64>,
    objects: Vec<Value>,
    end: Sighting<T>,
    read: fn(Value) -> T,
) {
    controller.saw::<T>(Sighting::ListBegan);
    for object in objects {
        controller.saw::<T>(Sighting::Set(read(object)));
    }
    controller.saw::<T>(end);
}
