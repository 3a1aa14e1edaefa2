//! A controller, its API server, its users and its writer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_kubernetes_objects::{BalancedService, BalancedSlice, Node};
use gimbal_kuryr_controller_core::{KuryrController, KuryrSettings};
use gimbal_kuryr_crd::KuryrLoadBalancer;
use gimbal_kuryr_model::{
    ApiVersion, CloudFacts, DesiredEntry, DesiredKey, ExternalNetwork, LoadBalancerReport, SubnetFacts, VipWish,
};
use gimbal_kuryr_resource::{ClusterWrite, KuryrKind, ObjectNotice, Sighting, WriteBody, WriteOutcome};
use gimbal_session::KeptEntry as _;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::{self, Api, BALANCER_FINALIZER, Change, Kind, SERVICE_FINALIZER, text};
use crate::writer::Writer;

pub struct World {
    pub api: Api,
    pub controller: KuryrController<u64>,
    pub writer: Writer,
    /// What the controller offers, as the session has it.
    pub offered: BTreeMap<DesiredKey, Arc<DesiredEntry>>,
    /// What the watches have shown of the log.
    shown: BTreeMap<Kind, usize>,
    /// The store went back, and no list has shown it.
    went_back: bool,
    /// Kinds that have to be listed before their watch goes on.
    unlisted: BTreeSet<Kind>,
    pub in_flight: Vec<ClusterWrite>,
    /// Requests whose sender has given up, and which may still arrive.
    late: Vec<ClusterWrite>,
    pub now: Instant,
    seconds: i64,
    pub knows_facts: bool,
    pub leads: bool,
    pub writes: usize,
    pub purposes: Vec<String>,
    pub notices: Vec<ObjectNotice>,
    /// Whether the writer works.
    pub works: bool,
    /// Whether there is a garbage collector.
    pub collects: bool,
    /// What was offered, as words.
    pub heard: Vec<String>,
    /// How long [`quiet`](Self::quiet) waits for pauses.
    pub patience: Duration,
}

pub fn facts() -> CloudFacts {
    let subnet = |network: &str, cidr: &str| SubnetFacts {
        network: network.into(),
        cidr: cidr.parse().unwrap(),
        name: "".into(),
        tags: Default::default(),
        mtu: 1450,
    };
    CloudFacts {
        api_version: ApiVersion { major: 2, minor: 27 },
        provider: Some("amphora".into()),
        project: "project".into(),
        subnets: [
            ("services".into(), subnet("services-net", "10.96.0.0/16")),
            ("public".into(), subnet("public-net", "172.24.4.0/24")),
        ]
        .into(),
        service_subnets: vec!["services".into()],
        external: Some(ExternalNetwork {
            network: "public-net".into(),
            subnet: None,
            allowed: Default::default(),
            user_addresses: true,
        }),
        ..CloudFacts::default()
    }
}

pub fn service(type_: &str, port: u16) -> Value {
    json!({"spec": {
        "type": type_, "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"], "ipFamilies": ["IPv4"],
        "ports": [{"name": "http", "port": port, "protocol": "TCP", "targetPort": 8080}],
    }})
}

pub fn slice(service: &str, pods: u8) -> Value {
    let pod = |n| json!({"addresses": [format!("10.1.0.{n}")], "conditions": {"ready": true}});
    let endpoints: Vec<_> = (1..=pods).map(pod).collect();
    json!({
        "metadata": {"labels": {"kubernetes.io/service-name": service}}, "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    })
}

impl World {
    pub fn new(knows_facts: bool) -> Self {
        Self::with(knows_facts, KuryrSettings::default())
    }

    #[allow(clippy::disallowed_methods)] // The only clock: every time is this one and some seconds.
    pub fn with(knows_facts: bool, settings: KuryrSettings) -> Self {
        let mut world = Self {
            api: Api::default(),
            controller: KuryrController::new(settings),
            writer: Writer::default(),
            offered: BTreeMap::new(),
            shown: BTreeMap::new(),
            went_back: false,
            unlisted: BTreeSet::new(),
            in_flight: Vec::new(),
            late: Vec::new(),
            now: Instant::now(),
            seconds: 1_700_000_000,
            knows_facts,
            leads: true,
            writes: 0,
            purposes: Vec::new(),
            notices: Vec::new(),
            works: true,
            collects: true,
            heard: Vec::new(),
            patience: Duration::from_secs(600),
        };
        world.start(&[Kind::Service, Kind::Slice, Kind::Balancer]);
        world
    }

    /// A new process, which reads everything in this order.
    pub fn restart(&mut self, order: &[Kind]) {
        self.controller = KuryrController::new(self.controller.settings().clone());
        self.late.append(&mut self.in_flight);
        self.leads = true;
        self.start(order);
    }

    /// A new process whose list of Services is an old one: it knows KuryrLoadBalancers of Services that it has not seen.
    pub fn restart_behind(&mut self) {
        self.controller = KuryrController::new(self.controller.settings().clone());
        self.late.append(&mut self.in_flight);
        self.leads = true;
        self.shown.insert(Kind::Service, 0);
        listed::<BalancedService>(&mut self.controller, Vec::new(), Sighting::ListDone);
        self.start(&[Kind::Slice, Kind::Balancer]);
    }

    /// Somebody restores the store from the last backup. Every watch breaks.
    pub fn go_back(&mut self) {
        // What no watch has shown is not known to have been there.
        let behind = self.shown.get(&Kind::Service).copied().unwrap_or_default()
            < self.api.log.get(&Kind::Service).map_or(0, Vec::len);
        if behind || !self.api.go_back() {
            return;
        }
        self.went_back = true;
        self.unlisted = [Kind::Service, Kind::Slice, Kind::Balancer].into();
    }

    /// The same, and no version tells: every kind is listed once.
    pub fn go_back_unnoticed(&mut self) {
        assert!(self.api.go_back_with_newer_versions());
        self.unlisted = [Kind::Service, Kind::Slice, Kind::Balancer].into();
    }

    fn start(&mut self, order: &[Kind]) {
        // A new process does not know what was before.
        self.went_back = false;
        self.unlisted.clear();
        self.controller.set_leading(true);
        if self.knows_facts {
            self.controller.set_facts(&facts());
        }
        for kind in order {
            self.list(*kind);
        }
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

    /// Lets no one but the controller keep what it offers.
    pub fn forget_offered(&mut self) {
        self.offered.clear();
        self.shown.clear();
        self.writer = Writer::default();
    }

    pub fn learn_facts(&mut self) {
        self.knows_facts = true;
        self.controller.set_facts(&facts());
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
        if std::mem::take(&mut self.went_back) {
            // A list shows it at its end, and then everything is listed anew.
            self.unlisted = [Kind::Service, Kind::Slice, Kind::Balancer].into();
            let controller = &mut self.controller;
            return match kind {
                Kind::Service => listed::<BalancedService>(controller, objects, Sighting::WentBack),
                Kind::Slice => listed::<BalancedSlice>(controller, objects, Sighting::WentBack),
                Kind::Balancer => listed::<KuryrLoadBalancer>(controller, objects, Sighting::WentBack),
            };
        }
        self.unlisted.remove(&kind);
        let controller = &mut self.controller;
        match kind {
            Kind::Service => listed::<BalancedService>(controller, objects, Sighting::ListDone),
            Kind::Slice => listed::<BalancedSlice>(controller, objects, Sighting::ListDone),
            Kind::Balancer => listed::<KuryrLoadBalancer>(controller, objects, Sighting::ListDone),
        }
    }

    pub fn unreadable(&mut self, kind: Kind) {
        let reason = "no rights".to_owned();
        match kind {
            Kind::Service => self.controller.saw::<BalancedService>(Sighting::Unreadable(reason)),
            Kind::Slice => self.controller.saw::<BalancedSlice>(Sighting::Unreadable(reason)),
            Kind::Balancer => self.controller.saw::<KuryrLoadBalancer>(Sighting::Unreadable(reason)),
        }
        self.controller.saw::<Node>(Sighting::Unreadable("not asked for".into()));
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
            Kind::Service => self.controller.saw(sighting::<BalancedService>(change)),
            Kind::Slice => self.controller.saw(sighting::<BalancedSlice>(change)),
            Kind::Balancer => self.controller.saw(sighting::<KuryrLoadBalancer>(change)),
        }
        true
    }

    /// Takes every write that the controller has now.
    pub fn plan(&mut self) -> bool {
        let mut any = false;
        let wall = Timestamp::from_second(self.seconds).unwrap();
        while let Some(write) = self.controller.next_write(self.now, wall) {
            assert!(self.leads, "a write without leadership: {write:?}");
            let same = self.in_flight.iter().find(|other| other.object == write.object);
            assert!(same.is_none(), "two writes to one object: {write:?} beside {same:?}");
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
        self.controller.wrote(&write.object, outcome, self.now);
        true
    }

    /// A request arrives whose sender has given up.
    pub fn arrive_late(&mut self) {
        if !self.late.is_empty() {
            let write = self.late.remove(0);
            self.carry_out(&write);
        }
    }

    pub fn drop_late(&mut self) {
        self.late.clear();
    }

    fn carry_out(&mut self, write: &ClusterWrite) -> WriteOutcome {
        let (outcome, before) = self.api.carry_out(write);
        if matches!(outcome, WriteOutcome::Done(_)) && write.body != WriteBody::Read {
            self.writes += 1;
            self.purposes.push(format!("{} {}", write.purpose, (write.object.kind == KuryrKind::LoadBalancer)));
        }
        if let (WriteOutcome::Done(_), Some(before)) = (&outcome, before) {
            self.check_release(write, &before);
        }
        outcome
    }

    /// No finalizer goes while anything of its owner is left, unless the other one of its pair stays.
    fn check_release(&self, write: &ClusterWrite, before: &Value) {
        let (kind, finalizer) = if write.object.kind == KuryrKind::LoadBalancer {
            (Kind::Balancer, BALANCER_FINALIZER)
        } else {
            (Kind::Service, SERVICE_FINALIZER)
        };
        let after = self.api.get(kind, &write.object.name);
        let stays = after.is_some_and(|after| api::has(after, finalizer));
        if !api::has(before, finalizer) || stays {
            return;
        }
        let owner = match kind {
            Kind::Balancer => api::owner_of(before),
            _ => text(before, "/metadata/uid").to_owned(),
        };
        // Of another name, if it is a copy that loses its finalizer.
        let services = self.api.of(Kind::Service);
        let guards = |it: &Value| text(it, "/metadata/uid") == owner && api::has(it, SERVICE_FINALIZER);
        let guarded = kind == Kind::Balancer && services.iter().any(guards);
        let is_left = self.writer.made.contains(&owner) && !self.api.leaves(&owner);
        assert!(guarded || !is_left, "{owner} loses its finalizer before it is gone: {write:?}");
    }

    pub fn drain(&mut self) -> bool {
        let drained = self.controller.drain(self.now);
        let any = !drained.is_empty();
        for (key, entry) in drained {
            let entry = entry.map(|entry| entry.entry());
            assert!(self.leads && self.knows_facts, "{key} is offered too early");
            match entry.as_deref() {
                Some(DesiredEntry::Deleting { owner }) => self.check_deleting(&key, owner),
                // Of what wants nothing nothing is made.
                Some(DesiredEntry::LoadBalancer(wanted)) if wanted.header.vip == VipWish::default() => {}
                Some(entry) => {
                    let owner = entry.owner().to_string();
                    assert!(self.api.protected.contains(&owner), "{key} is offered before its finalizers are set");
                }
                None => {}
            }
            self.heard.push(match entry.as_deref() {
                Some(DesiredEntry::LoadBalancer(wanted)) => {
                    let header = &wanted.header;
                    format!("{} {} known={}", key.name, header.owner, header.known)
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

    /// A load balancer goes only when its owner does: not because a watch is behind.
    fn check_deleting(&self, key: &DesiredKey, owner: &str) {
        // To a new process, one whose KuryrLoadBalancer outlives it is one that was deleted.
        let undone = self.api.undone.contains(owner) && !self.api.created_late.contains(owner);
        assert!(!undone, "{key} is deleted although {owner} was not deleted");
        let since = self.api.wanted_since.get(owner);
        let balancer = self.api.get(Kind::Balancer, &key.name).filter(|balancer| api::owner_of(balancer) == owner);
        let created = balancer.and_then(|balancer| balancer["metadata"]["createdAt"].as_u64());
        if let (Some(since), Some(created)) = (since, created) {
            assert!(*since > created, "{key} is deleted although {owner} has wanted it all the time");
        }
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
        self.deliver(&key, &report, number);
        true
    }

    pub fn deliver(&mut self, key: &DesiredKey, report: &LoadBalancerReport, number: u64) {
        self.writer.unhandled.retain(|_, of| of != key);
        self.writer.unhandled.insert(number, key.clone());
        self.controller.reported(key, report, number, self.now);
        self.handled();
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
        self.drop_late();
        if !self.knows_facts {
            self.learn_facts();
        }
        if !self.leads {
            self.lead(true);
        }
        for kind in [Kind::Service, Kind::Slice, Kind::Balancer] {
            self.list(kind);
        }
        self.rest();
    }

    /// Lets everything come to rest.
    pub fn rest(&mut self) {
        let mut turns = 0;
        loop {
            let mut any = false;
            if self.collects {
                self.api.collect();
            }
            for kind in [Kind::Service, Kind::Slice, Kind::Balancer] {
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
            if !any {
                match self.controller.deadline() {
                    Some(deadline) if deadline.saturating_duration_since(self.now) > self.patience => return,
                    Some(deadline) => {
                        let pause = deadline.saturating_duration_since(self.now);
                        self.pass(pause + Duration::from_millis(1));
                    }
                    None => return,
                }
            }
            turns += 1;
            assert!(
                turns < 300,
                "it does not come to rest: {:?}",
                self.purposes.iter().rev().take(12).collect::<Vec<_>>()
            );
        }
    }

    pub fn explain(&self, name: &str) -> Vec<String> {
        let key = DesiredKey::new(gimbal_kuryr_model::DesiredKind::LoadBalancer, "team", name);
        self.controller.explain(&key)
    }
}

fn sighting<T: serde::de::DeserializeOwned>(change: Change) -> Sighting<T> {
    let object = serde_json::from_value(change.object).unwrap();
    if change.deleted { Sighting::Deleted(object) } else { Sighting::Set(object) }
}

fn listed<T>(controller: &mut KuryrController<u64>, objects: Vec<Value>, end: Sighting<T>)
where
    T: serde::de::DeserializeOwned + gimbal_kuryr_controller_core::WatchedObject,
{
    controller.saw::<T>(Sighting::ListBegan);
    for object in objects {
        controller.saw::<T>(Sighting::Set(serde_json::from_value(object).unwrap()));
    }
    controller.saw::<T>(end);
}
