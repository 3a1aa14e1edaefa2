//! Makes a plan's calls against the model, as openstack-writer will against the real service, and checks each of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gimbal_kuryr_model::Text;
use gimbal_neutron_plan::{
    Plugged, PodPort, PortAnswer, PortCall, PortChange, PortPlan, PortPoolKey, PortReport, PortSettings, PortWork,
};
use gimbal_neutron_sim::NeutronModel;
use gimbal_octavia_plan::{ApiVerb, ChangeOutcome, ServiceCall, ServiceRefusal};
use gimbal_octavia_sim::{Method, SimRequest, SimResponse};
use gimbal_property::{WorldCounts, note};
use serde_json::{Value, json};

use crate::kubernetes::Kubernetes;

pub const PROJECT: &str = "p1";

/// What becomes of a call on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It arrives, and so does the answer.
    Arrives,
    /// It never arrives.
    Lost,
    /// It has its effect, and the answer is lost.
    AnswerLost,
    /// It has its effect only after some time, and its sender has given up waiting.
    Late,
    /// It is not sent.
    NotSent,
    /// Neutron is busy.
    Busy,
}

/// One openstack-writer.
pub struct Writer {
    pub plan: PortPlan,
    known: Vec<Text>,
    nodes: Vec<Text>,
    pub flights: Vec<PortCall>,
}

pub struct World {
    pub neutron: NeutronModel,
    pub kubernetes: Kubernetes,
    pub settings: PortSettings,
    /// The last one is the one that the controller speaks to.
    pub writers: Vec<Writer>,
    pub now: Instant,
    pub began: Instant,
    late: Vec<(Instant, SimRequest)>,
    /// Changes that were sent, and when.
    pub sent: Vec<(Instant, PortChange)>,
    pub reads: usize,
    /// The last report about each Pod.
    pub reports: BTreeMap<Text, PortReport>,
    /// Every set of groups that a Pod was to have.
    pub groups: BTreeMap<Text, BTreeSet<BTreeSet<Text>>>,
    /// Whether nodes plug and unplug at once.
    pub plugs: bool,
    steps: u64,
    kills: u64,
}

impl World {
    pub fn new(neutron: NeutronModel, settings: PortSettings) -> Self {
        let began = Instant::now();
        let mut world = Self {
            neutron,
            kubernetes: Kubernetes::default(),
            settings,
            writers: Vec::new(),
            now: began,
            began,
            late: Vec::new(),
            sent: Vec::new(),
            reads: 0,
            reports: BTreeMap::new(),
            groups: BTreeMap::new(),
            plugs: true,
            steps: 0,
            kills: 0,
        };
        world.start_writer();
        world
    }

    /// Returns a world with one node, and a place there.
    pub fn simple(change: impl FnOnce(&mut PortSettings)) -> (Self, PortPoolKey) {
        let mut neutron = NeutronModel::new();
        let network = neutron.add_network(PROJECT, "10.0.0.0/16");
        let group = neutron.add_group();
        let mut settings = PortSettings::new("c1", "prod1", PROJECT);
        change(&mut settings);
        let mut world = Self::new(neutron, settings);
        world.kubernetes.add_node("node-1");
        let place = place(&network, "node-1", &[&group]);
        (world, place)
    }

    /// Returns a world in which a Pod has two ports, and a request is under way that removes the one that it does not use; the Pod,
    /// and the port that it uses.
    pub fn with_a_port_being_removed() -> (Self, Text, Text) {
        let (mut world, place) = Self::simple(|settings| {
            (settings.pool_min, settings.list_interval) = (0, Duration::from_secs(7));
        });
        let pod = world.add_pod(&place);
        world.run_for(Duration::from_secs(60));
        let used = world.port_of(&pod);
        let late = json!({"port": {
            "network_id": &*place.network, "project_id": PROJECT, "device_owner": "compute:kuryr",
            "binding:host_id": &*place.node, "description": &*used.description, "security_groups": used.groups.iter().map(|group| &**group).collect::<Vec<_>>(),
        }});
        world.neutron.handle(&SimRequest::post("/v2.0/ports", late));
        world.start_writer();
        world.kill(|| unreachable!("nothing is under way"));
        world.tell();
        world.run_for(Duration::from_secs(59));
        assert_eq!(world.ports_of(&pod).len(), 2);
        world.advance(Duration::from_secs(1));
        assert!(world.begin(0));
        let what = brief(&world.writers[0].flights[0]);
        assert!(what.contains("gimbal:going") && !what.contains(&*used.id), "{what}");
        (world, pod, used.id)
    }

    pub fn start_writer(&mut self) {
        let plan = PortPlan::new(self.settings.clone());
        self.writers.push(Writer { plan, known: Vec::new(), nodes: Vec::new(), flights: Vec::new() });
    }

    pub fn plan(&mut self) -> &mut PortPlan {
        &mut self.writers.last_mut().unwrap().plan
    }

    pub fn counts(&self) -> WorldCounts {
        WorldCounts { steps: self.steps, kills: self.kills }
    }

    /// Adds a Pod, and tells the writers.
    pub fn add_pod(&mut self, place: &PortPoolKey) -> Text {
        let pod = self.kubernetes.add_pod(place);
        self.groups.entry(pod.clone()).or_default().insert(place.groups.clone());
        self.tell();
        pod
    }

    /// A Pod is over.
    pub fn end_pod(&mut self, pod: &Text) {
        if let Some(pod) = self.kubernetes.pods.get_mut(pod) {
            pod.is_over = true;
        }
        self.tell();
    }

    /// Tells every writer what Kubernetes has.
    pub fn tell(&mut self) {
        for writer in &mut self.writers {
            self.kubernetes.tell(&mut writer.plan, &mut writer.known, &mut writer.nodes, self.now);
        }
    }

    /// Kills the first writer: what it has sent may arrive, or not.
    pub fn kill(&mut self, mut arrives: impl FnMut() -> Way) {
        self.kills += 1;
        note(|| format!("{:?} a writer is killed", self.now - self.began));
        let writer = self.writers.remove(0);
        for call in writer.flights {
            if let (PortWork::Change(change), way) = (&call.what, arrives()) {
                self.send(change, way);
            }
        }
    }

    /// Lets a writer begin a call, if it wants to.
    pub fn begin(&mut self, writer: usize) -> bool {
        let now = self.now;
        let Some(call) = self.writers[writer].plan.next(now) else { return false };
        note(|| format!("{:?} writer {writer} of {}: {}", now - self.began, self.writers.len(), brief(&call)));
        self.writers[writer].flights.push(call);
        true
    }

    /// Lets a call of a writer come to its end.
    pub fn end(&mut self, writer: usize, flight: usize, way: Way) {
        self.steps += 1;
        let call = self.writers[writer].flights.remove(flight);
        note(|| format!("{:?} {way:?}: answer to {:?}", self.now - self.began, call.id));
        let answer = match &call.what {
            PortWork::Read(_) if way != Way::Arrives => PortAnswer::ReadFailed { words: "no route".into() },
            PortWork::Read(read) => {
                self.reads += 1;
                let query = read.query(&call.project);
                let request = SimRequest::get("/v2.0/ports");
                let request = query.iter().fold(request, |request, (key, value)| request.with_query(key, value));
                PortAnswer::Rows(self.neutron.handle(&request).body["ports"].as_array().unwrap().clone())
            }
            PortWork::Change(change) => match way {
                Way::NotSent => PortAnswer::NotSent,
                Way::Busy => PortAnswer::Changed(ChangeOutcome::Refused(ServiceRefusal::Busy(None))),
                way => PortAnswer::Changed(self.send(change, way)),
            },
        };
        self.writers[writer].plan.answered(call.id, answer, self.now);
        self.take_reports();
    }

    fn send(&mut self, change: &PortChange, way: Way) -> ChangeOutcome {
        self.sent.push((self.now, change.clone()));
        let request = request_of(&change.request());
        match way {
            Way::Arrives => return outcome(self.apply(&request)),
            Way::AnswerLost => _ = self.apply(&request),
            Way::Late => self.late.push((self.now + Duration::from_secs(20), request)),
            Way::Lost | Way::NotSent | Way::Busy => {}
        }
        ChangeOutcome::Unknown("broken pipe".into())
    }

    /// Lets a request have its effect, and checks that it is one that may be.
    fn apply(&mut self, request: &SimRequest) -> SimResponse {
        let id = request.path.strip_prefix("/v2.0/ports/").map(|rest| rest.trim_end_matches("/tags").to_owned());
        let before = id.as_deref().and_then(|id| self.neutron.row("ports", id));
        let answer = self.neutron.handle(request);
        let after = id.as_deref().and_then(|id| self.neutron.row("ports", id));
        if answer.status < 300
            && let Some(before) = before
        {
            self.check_change(&before, after.as_ref());
        }
        answer
    }

    /// No port goes from one Pod to another, or away from one that uses it; and back to a pool only if the node has said so.
    fn check_change(&self, before: &Value, after: Option<&Value>) {
        let (was, is) = (owner(before), after.and_then(owner));
        if was.is_some() && after.is_none() {
            assert!(before["description"].as_str().unwrap().contains("gimbal:going"), "removed at once: {before}");
        }
        let lives = |pod: &str| self.kubernetes.pods.get(pod).filter(|pod| !pod.is_over);
        if let Some(pod) = was.as_deref().and_then(lives) {
            let uses = pod.status.as_ref().is_some_and(|port| before["id"] == *port.id);
            let is_going = after.is_none_or(|row| row["description"].as_str().unwrap().contains("gimbal:going"));
            let is_broken = before["binding:vif_type"] == "binding_failed";
            assert!(!uses || !is_going || is_broken, "a port that is used is removed: {before}");
            assert!(after.is_none() || was == is, "a port that a Pod has goes to {is:?}: {before}");
        }
        if let (Some(was), Some(is)) = (&was, &is)
            && was != is
        {
            assert!(!(was.starts_with("pod") && is.starts_with("pod")), "a port goes from {was} to {is}");
            if was.starts_with("pod") {
                let plugged = self.kubernetes.pods.get(&**was).map(|pod| pod.wish.plugged);
                assert!(plugged.is_none_or(|plugged| plugged == Plugged::No), "{was} may still use {before}");
            } else {
                let groups: BTreeSet<Text> = PodPort::read(after.unwrap()).unwrap().groups;
                assert!(self.groups[&**is].contains(&groups), "{is} gets groups that it never wanted: {groups:?}");
            }
        }
    }

    /// The controller writes statuses and removes finalizers as the last writer says.
    fn take_reports(&mut self) {
        let last = self.writers.len() - 1;
        for writer in 0..self.writers.len() {
            while let Some(report) = self.writers[writer].plan.take_report() {
                if writer == last {
                    note(|| format!("{:?} {report:?}", self.now - self.began));
                    self.take_report(report);
                }
            }
        }
    }

    fn take_report(&mut self, report: PortReport) {
        let pod = report.pod().clone();
        match &report {
            PortReport::Ready { port, .. } => {
                let mut others = self.kubernetes.pods.iter().filter(|(uid, one)| **uid != pod && !one.is_over);
                let has = |status: &Option<PodPort>| status.as_ref().is_some_and(|status| status.id == port.id);
                assert!(others.all(|(_, other)| !has(&other.status)), "{} is given to two Pods", port.id);
                if let Some(pod) = self.kubernetes.pods.get_mut(&pod) {
                    pod.wish.port = Some(port.id.clone());
                    pod.status = Some((**port).clone());
                }
            }
            PortReport::Gone { .. } => {
                let gone = self.kubernetes.pods.remove(&pod);
                assert!(gone.is_none_or(|gone| gone.is_over), "{pod} is not over");
            }
            PortReport::Waiting { .. } | PortReport::Leaving { .. } => {}
        }
        self.reports.insert(pod, report);
    }

    /// Does everything that can be done now, each call by itself, until there is nothing more.
    pub fn run(&mut self) {
        for _ in 0..10_000 {
            let mut is_quiet = true;
            for writer in 0..self.writers.len() {
                while self.begin(writer) {
                    is_quiet = false;
                    let last = self.writers[writer].flights.len() - 1;
                    self.end(writer, last, Way::Arrives);
                }
                while !self.writers[writer].flights.is_empty() {
                    is_quiet = false;
                    self.end(writer, 0, Way::Arrives);
                }
            }
            self.take_reports();
            if self.plugs {
                self.kubernetes.plug_all(&mut self.neutron);
            }
            self.tell();
            if is_quiet
                && self.writers.iter_mut().all(|writer| writer.plan.wake_at(self.now).is_none_or(|at| at > self.now))
            {
                return;
            }
        }
        panic!("no end of calls: {:?}", self.sent.iter().rev().take(5).collect::<Vec<_>>());
    }

    /// Lets time go by, and does what is due.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.run();
            let next = self.writers.iter().filter_map(|writer| writer.plan.wake_at(self.now));
            let next = next.chain(self.late.iter().map(|(at, _)| *at)).min().filter(|at| *at <= end);
            let Some(next) = next else { break };
            self.advance_to(next);
        }
        self.advance_to(end);
        self.run();
    }

    pub fn advance(&mut self, by: Duration) {
        self.advance_to(self.now + by);
    }

    fn advance_to(&mut self, at: Instant) {
        self.now = self.now.max(at);
        let (due, later) = std::mem::take(&mut self.late).into_iter().partition(|(at, _)| *at <= self.now);
        self.late = later;
        let due: Vec<(Instant, SimRequest)> = due;
        for (_, request) in due {
            note(|| format!("{:?} arrives late: {:?} {}", self.now - self.began, request.method, request.path));
            self.apply(&request);
        }
    }

    /// The ports that carry the mark of an owner.
    pub fn ports_of(&self, wanted: &str) -> Vec<Value> {
        self.neutron.rows("ports").filter(|row| owner(row).as_deref() == Some(wanted)).collect()
    }

    /// The port of a Pod, which has one.
    #[track_caller]
    pub fn port_of(&self, pod: &Text) -> PodPort {
        let ports = self.ports_of(pod);
        assert_eq!(ports.len(), 1, "{pod}: {ports:?}");
        PodPort::read(&ports[0]).unwrap()
    }

    /// The ports that are ready on a node.
    pub fn ready_on(&self, node: &str) -> Vec<Value> {
        let uid = self.kubernetes.nodes.get(node).cloned().unwrap_or_default();
        self.ports_of(&uid)
    }

    /// Every port that carries the mark of the cluster.
    pub fn ours(&self) -> Vec<Value> {
        self.neutron.rows("ports").filter(|row| owner(row).is_some()).collect()
    }
}

pub fn place(network: &str, node: &str, groups: &[&str]) -> PortPoolKey {
    PortPoolKey {
        project: PROJECT.into(),
        network: network.into(),
        node: node.into(),
        groups: groups.iter().map(|group| Text::from(*group)).collect(),
    }
}

/// The owner that a description of cluster `c1` names.
pub fn owner(row: &Value) -> Option<String> {
    let words = row["description"].as_str()?;
    let is_ours = words.split(' ').any(|word| word == "k8s-cluster:c1");
    let owner = words.split(' ').find_map(|word| word.strip_prefix("k8s-svc-uid:"));
    owner.filter(|_| is_ours).map(str::to_owned)
}

fn brief(call: &PortCall) -> String {
    match &call.what {
        PortWork::Read(read) => format!("{:?} {read:?}", call.id),
        PortWork::Change(PortChange::Create { bodies }) => {
            let whose: Vec<_> = bodies.iter().map(|body| owner(body).unwrap()).collect();
            format!("{:?} create {whose:?} on {}", call.id, bodies[0]["binding:host_id"])
        }
        PortWork::Change(change) => format!("{:?} {change:?}", call.id),
    }
}

fn request_of(call: &ServiceCall) -> SimRequest {
    let method = match call.verb {
        ApiVerb::Create => Method::Post,
        ApiVerb::Update => Method::Put,
        ApiVerb::Delete => Method::Delete,
    };
    SimRequest::new(method, &format!("/v2.0/{}", call.path), call.body.clone()).with_revision(call.revision)
}

fn outcome(response: SimResponse) -> ChangeOutcome {
    let SimResponse { status, body } = response;
    let words = body["NeutronError"]["message"].as_str().unwrap_or_default().to_owned();
    ChangeOutcome::Refused(match status {
        200..300 => return ChangeOutcome::Accepted(body),
        409 if words.contains("Quota exceeded") => ServiceRefusal::Quota(words),
        409 if words.contains("No more IP addresses") => ServiceRefusal::Exhausted(words),
        409 => ServiceRefusal::InUse,
        412 => ServiceRefusal::Changed(words),
        404 => ServiceRefusal::NotFound(words),
        400 => ServiceRefusal::Invalid(words),
        other => panic!("{other} {words}"),
    })
}
