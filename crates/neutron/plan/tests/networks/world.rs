//! Takes an actor's steps against the model.

use std::time::{Duration, Instant};

use gimbal_kuryr_model::Text;
use gimbal_neutron_plan::network::{NetworkActor, NetworkChange, NetworkEntry, NetworkStep, NetworkWish};
use gimbal_neutron_sim::NeutronModel;
use gimbal_octavia_plan::{ApiVerb, ChangeOutcome, ServiceRefusal};
use gimbal_octavia_sim::{Method, SimRequest};
use gimbal_property::{WorldCounts, note};
use serde_json::{Value, json};

/// What becomes of a change on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Arrives,
    Lost,
    AnswerLost,
    Late,
}

pub struct World {
    pub neutron: NeutronModel,
    pub actor: NetworkActor,
    pub wish: NetworkWish,
    pub now: Instant,
    pub sent: Vec<NetworkChange>,
    pub looks: usize,
    pub late: Vec<(Instant, NetworkChange)>,
    pub counts: WorldCounts,
}

impl World {
    pub fn new() -> Self {
        let mut neutron = NeutronModel::new();
        let wish = NetworkWish {
            owner: "ns-uid-1".into(),
            name: "ns/shop".into(),
            project: "p1".into(),
            subnet_pool: neutron.add_subnet_pool("10.32.0.0/16", 24).into(),
            router: Some(neutron.add_router().into()),
            network: None,
            subnet: None,
        };
        let actor = NetworkActor::new("c1", "prod1", NetworkEntry::Wanted(wish.clone()));
        let now = Instant::now();
        let (sent, late) = (Vec::new(), Vec::new());
        Self { neutron, actor, wish, now, sent, looks: 0, late, counts: WorldCounts::default() }
    }

    pub fn leaving(&self) -> NetworkEntry {
        let NetworkWish { owner, project, router, .. } = self.wish.clone();
        NetworkEntry::Leaving { owner, project, router }
    }

    /// Replaces the actor by one that knows nothing.
    pub fn restart(&mut self) {
        self.counts.kills += 1;
        self.actor = NetworkActor::new("c1", "prod1", self.actor.entry().clone());
    }

    pub fn take(&mut self, step: &NetworkStep, way: Way) {
        self.counts.steps += 1;
        note(|| format!("{step:?} {way:?}"));
        match step {
            NetworkStep::Look => {
                self.looks += 1;
                let mark = self.actor.description();
                let networks = self.list("networks", &[("description", &mark)]);
                let ids: Vec<&str> = networks.iter().map(|row| row["id"].as_str().unwrap()).collect();
                let query: Vec<(&str, &str)> = ids.iter().map(|id| ("network_id", *id)).collect();
                let (subnets, ports) = match query.as_slice() {
                    [] => (Vec::new(), Vec::new()),
                    query => (self.list("subnets", query), self.list("ports", query)),
                };
                self.actor.looked(&networks, &subnets, &ports, self.now);
            }
            NetworkStep::Change(change) => {
                self.sent.push(change.clone());
                let unknown = ChangeOutcome::Unknown("broken pipe".into());
                let outcome = match way {
                    Way::Arrives => self.apply(change),
                    Way::AnswerLost => {
                        self.apply(change);
                        unknown
                    }
                    Way::Lost => unknown,
                    Way::Late => {
                        self.late.push((self.now + Duration::from_secs(20), change.clone()));
                        unknown
                    }
                };
                self.actor.answered(change, outcome, self.now);
            }
            NetworkStep::Wait(until) | NetworkStep::Blocked(_, until) => self.advance_to(*until),
            NetworkStep::Done | NetworkStep::Gone => self.advance_to(self.now + Duration::from_secs(1)),
        }
    }

    pub fn advance_to(&mut self, at: Instant) {
        self.now = self.now.max(at);
        let late = std::mem::take(&mut self.late);
        for (at, change) in late {
            if at <= self.now {
                self.apply(&change);
            } else {
                self.late.push((at, change));
            }
        }
    }

    /// Takes steps until there is nothing to do.
    #[track_caller]
    pub fn run(&mut self) -> NetworkStep {
        for _ in 0..1_000 {
            let step = self.actor.step(self.now);
            if matches!(step, NetworkStep::Done | NetworkStep::Gone) {
                return step;
            }
            self.take(&step, Way::Arrives);
        }
        panic!("no end: {:?}", self.actor.step(self.now));
    }

    /// Takes steps until there is nothing to do, or something is in the way.
    pub fn run_or_block(&mut self) -> NetworkStep {
        for _ in 0..1_000 {
            let step = self.actor.step(self.now);
            if matches!(step, NetworkStep::Done | NetworkStep::Gone | NetworkStep::Blocked(..)) {
                return step;
            }
            self.take(&step, Way::Arrives);
        }
        panic!("no end: {:?}", self.actor.step(self.now));
    }

    /// The controller writes what there is into the status.
    pub fn write_status(&mut self) {
        self.wish.network = self.actor.network().map(|network| network.id.clone());
        self.wish.subnet = self.actor.subnet().map(|subnet| subnet.id.clone());
        self.actor.want(NetworkEntry::Wanted(self.wish.clone()));
    }

    fn list(&mut self, of: &str, query: &[(&str, &str)]) -> Vec<Value> {
        let request = SimRequest::get(&format!("/v2.0/{of}"));
        let request = query.iter().fold(request, |request, (key, value)| request.with_query(key, value));
        self.neutron.handle(&request).body[of].as_array().unwrap().clone()
    }

    fn apply(&mut self, change: &NetworkChange) -> ChangeOutcome {
        let call = change.request();
        let method = match call.verb {
            ApiVerb::Create => Method::Post,
            ApiVerb::Update => Method::Put,
            ApiVerb::Delete => Method::Delete,
        };
        let answer = self.neutron.handle(&SimRequest::new(method, &format!("/v2.0/{}", call.path), call.body));
        let words = answer.body["NeutronError"]["message"].as_str().unwrap_or_default().to_owned();
        ChangeOutcome::Refused(match answer.status {
            200..300 => return ChangeOutcome::Accepted(answer.body),
            409 if words.contains("Unable to complete operation on") => ServiceRefusal::InUse,
            500 => return ChangeOutcome::Unknown(words),
            409 => ServiceRefusal::Changed(words),
            404 => ServiceRefusal::NotFound(words),
            400 => ServiceRefusal::Invalid(words),
            other => panic!("{other} {words}"),
        })
    }

    /// Adds a port to the only network, and returns its ID.
    pub fn add_port(&mut self, name: &str, owner: &str) -> Text {
        let network = self.actor.network().unwrap().id.clone();
        let body = json!({"port": {"network_id": &*network, "name": name, "device_owner": owner}});
        let made = self.neutron.handle(&SimRequest::post("/v2.0/ports", body));
        made.body["port"]["id"].as_str().unwrap().into()
    }

    pub fn remove_port(&mut self, id: &str) {
        assert_eq!(self.neutron.handle(&SimRequest::delete(&format!("/v2.0/ports/{id}"))).status, 204);
    }

    /// How many networks, subnets and interfaces there are.
    pub fn parts(&self) -> [usize; 3] {
        let interfaces = self.neutron.rows("ports").filter(|row| row["device_owner"] == "network:router_interface");
        [self.neutron.rows("networks").count(), self.neutron.rows("subnets").count(), interfaces.count()]
    }
}
