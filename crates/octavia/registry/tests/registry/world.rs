//! A cloud, openstack-writers, and clusters that stream to them.

mod contents;
mod kept;
mod left;
mod reported;
mod shared;
mod streams;
mod way;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gimbal_kuryr_model::CertificateHash;
use gimbal_kuryr_model::{CloudFacts, DesiredKey, LoadBalancerReport, Phase};
use gimbal_octavia_plan::{ApiService, ChangeOutcome, CloudChange, ServiceRefusal};
use gimbal_octavia_registry::{
    CallAnswer, CallId, CallToMake, CloudCall, CloudRead, ClusterSettings, ListedRow, Registry, RegistryEvent,
    RegistrySettings,
};
use gimbal_octavia_sim::{CloudModel, Dice, Provider, SimRequest};
use gimbal_property::{WorldCounts, note};
use serde_json::Value;

use self::kept::Kept;
use self::streams::Former;
pub use self::way::Way;
use crate::requests::{outcome, request_of};
use crate::wish::{Wish, cloud, forwarded, key};

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);
/// The time that a request takes.
const LATENCY: Duration = Duration::from_millis(20);
/// The time after which an answer is no longer waited for.
const PATIENCE: Duration = Duration::from_secs(5);
const HEARTBEAT: Duration = Duration::from_secs(3);

/// What a change was.
#[derive(Debug, Clone)]
pub struct SentChange {
    #[expect(dead_code, reason = "for whoever reads a failure")]
    pub at: Duration,
    #[expect(dead_code, reason = "for whoever reads a failure")]
    pub cluster: String,
    pub change: CloudChange,
}

/// A process with a registry.
pub struct Writer {
    pub registry: Registry,
    /// Clusters that stream to it.
    pub streams: Vec<String>,
    /// What the session holds.
    holds: BTreeSet<(String, DesiredKey)>,
    heartbeat: Duration,
    last_heartbeat: BTreeMap<String, Duration>,
    answers: Vec<(Duration, CallId, CallAnswer)>,
    /// The number of the last stream of each cluster.
    began: BTreeMap<String, u64>,
}

pub struct World {
    pub cloud: CloudModel,
    pub facts: CloudFacts,
    pub subnet: String,
    start: Instant,
    pub settings: RegistrySettings,
    pub clusters: BTreeMap<String, ClusterSettings>,
    pub wishes: BTreeMap<(String, DesiredKey), Wish>,
    pub writers: Vec<Writer>,
    late: Vec<(Duration, SimRequest)>,
    pub sent: Vec<SentChange>,
    pub reads: Vec<(Duration, CloudRead)>,
    pub reports: BTreeMap<(String, DesiredKey), LoadBalancerReport>,
    pub report_count: usize,
    pub events: Vec<RegistryEvent>,
    pub dice: Dice,
    /// One in this many changes meets some trouble; 0: none.
    pub trouble: u64,
    /// Whether controllers answer no request of a content.
    pub is_silent: bool,
    /// The contents that were asked for.
    pub asked: Vec<CertificateHash>,
    unanswered: BTreeSet<(String, CertificateHash)>,
    /// A project that cannot be read.
    pub closed_project: Option<String>,
    /// A project that nothing can be sent to.
    pub unsendable_project: Option<String>,
    /// Reads that fail.
    pub closed_lists: Option<fn(&CloudRead) -> bool>,
    /// Reads that find nothing, as those of a gateway that does not know the way.
    pub lost_reads: Option<fn(&CloudRead) -> bool>,
    /// How much longer some reads take.
    pub slow_reads: Option<fn(&CloudRead) -> Option<Duration>>,
    /// What becomes of some changes.
    pub way_of: Option<fn(&CloudChange) -> Option<Way>>,
    /// Called after everything that happens.
    pub check: Option<fn(&mut World)>,
    /// Load balancers that must always forward port 80 to somebody.
    pub watched: Vec<String>,
    /// The most creations of load balancers that were under way at a time in one project.
    pub most_creating: usize,
    creating: Vec<(CallId, String)>,
    /// The number of the newest stream of each cluster.
    newest: BTreeMap<String, u64>,
    counts: WorldCounts,
    kept: Kept,
    /// What was wanted before each change, the newest last.
    history: Vec<Former>,
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self::with_provider(seed, Provider::default())
    }

    pub fn with_provider(seed: u64, provider: Provider) -> Self {
        let (cloud, facts, subnet) = cloud(provider);
        Self {
            cloud,
            facts,
            subnet,
            start: Instant::now(),
            settings: RegistrySettings::default(),
            clusters: BTreeMap::new(),
            wishes: BTreeMap::new(),
            writers: Vec::new(),
            late: Vec::new(),
            sent: Vec::new(),
            reads: Vec::new(),
            reports: BTreeMap::new(),
            report_count: 0,
            events: Vec::new(),
            dice: Dice::new(seed),
            trouble: 0,
            is_silent: false,
            asked: Vec::new(),
            unanswered: BTreeSet::new(),
            closed_project: None,
            unsendable_project: None,
            closed_lists: None,
            lost_reads: None,
            slow_reads: None,
            way_of: None,
            check: None,
            watched: Vec::new(),
            most_creating: 0,
            creating: Vec::new(),
            newest: BTreeMap::new(),
            counts: WorldCounts::default(),
            kept: Kept::default(),
            history: Vec::new(),
        }
    }

    /// Returns a world with one cluster, `prod1`, that streams to one writer.
    pub fn usual() -> Self {
        let mut world = Self::new(0);
        world.add_cluster("prod1");
        world.add_writer();
        world.connect(0, "prod1");
        world
    }

    /// Returns a usual world with `count` load balancers that were made and reported, and have been looked at since.
    pub fn at_rest(count: usize) -> Self {
        let mut world = Self::usual();
        world.want_many("prod1", "shop", count);
        world.converge(300 * SECOND);
        let keys: Vec<_> = world.wishes.keys().cloned().collect();
        keys.iter().for_each(|(cluster, key)| world.status_written(cluster, key));
        world.run(130 * SECOND);
        world
    }

    pub fn add_cluster(&mut self, name: &str) -> &mut ClusterSettings {
        let mut settings = ClusterSettings::new(name, format!("uid-{name}"), "p1");
        settings.mutations_per_second = 0;
        self.clusters.entry(name.to_owned()).or_insert(settings)
    }

    pub fn add_writer(&mut self) {
        let registry = Registry::new(self.settings.clone(), self.now());
        let heartbeat = self.cloud.now();
        self.writers.push(Writer {
            registry,
            streams: Vec::new(),
            holds: BTreeSet::new(),
            heartbeat,
            last_heartbeat: BTreeMap::new(),
            answers: Vec::new(),
            began: BTreeMap::new(),
        });
    }

    pub fn counts(&self) -> WorldCounts {
        self.counts
    }

    /// Kills a writer's process; its answers are lost. A new one takes its place and its streams.
    pub fn restart(&mut self, nth: usize) {
        for cluster in self.kill(nth) {
            self.connect(nth, &cluster);
        }
    }

    /// As [`Self::restart`], and the entries come only after the lists, as they do where it depends on those who may have what.
    pub fn restart_before_entries(&mut self, nth: usize) {
        let clusters = self.kill(nth);
        clusters.iter().for_each(|cluster| self.open(nth, cluster));
        self.run(SECOND / 2);
        clusters.iter().for_each(|cluster| self.connect(nth, cluster));
    }

    /// Kills a writer's process. Returns the clusters that streamed to it.
    pub fn kill(&mut self, nth: usize) -> Vec<String> {
        self.counts.kills += 1;
        self.kept.may_release();
        note(|| format!("{:?} writer {nth} is killed", self.cloud.now()));
        let streams = std::mem::take(&mut self.writers[nth].streams);
        self.add_writer();
        self.writers.swap_remove(nth);
        streams
    }

    pub fn now(&self) -> Instant {
        self.start + self.cloud.now()
    }

    /// Makes `count` wishes in a namespace.
    pub fn want_many(&mut self, cluster: &str, namespace: &str, count: usize) {
        for nth in 0..count {
            let wish = Wish::new(&format!("{cluster}-{namespace}-{nth}"), &self.subnet);
            self.want(cluster, key(namespace, &format!("s{nth}")), wish);
        }
    }

    /// Lets time pass.
    pub fn run(&mut self, time: Duration) {
        let end = self.cloud.now() + time;
        loop {
            self.work();
            let mut next = end;
            let now = self.now();
            for writer in &mut self.writers {
                let wake = writer.registry.next_wake(now).map(|at| at.saturating_duration_since(self.start));
                let answers = writer.answers.iter().map(|(at, ..)| *at);
                next = answers.chain(wake).chain([writer.heartbeat]).fold(next, Duration::min);
            }
            next = self.late.iter().map(|(at, _)| *at).fold(next, Duration::min);
            let step = next.saturating_sub(self.cloud.now());
            // Never stand still, and see the data plane often.
            self.cloud.advance(step.max(MS).min(end.saturating_sub(self.cloud.now())));
            self.deliver();
            if let Some(check) = self.check {
                check(self);
            }
            if self.cloud.now() >= end {
                return self.work();
            }
        }
    }

    /// Runs until a condition holds.
    pub fn run_until(&mut self, most: Duration, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let end = self.cloud.now() + most;
        while !holds(self) {
            assert!(self.cloud.now() < end, "not in {most:?}: {what}; {:#?}", self.why());
            self.run(50 * MS);
        }
    }

    /// Says why each wish is as it is that is not ready.
    fn why(&mut self) -> Vec<String> {
        let now = self.now();
        let mut all = Vec::new();
        for (key, wish) in self.wishes.clone() {
            let found = self.balancers_of(&wish.owner);
            let served = found.first().map(|id| forwarded(&self.cloud, id));
            let report = self.reports.get(&key).map(|one| (one.phase, one.generation, one.owner.clone()));
            let is_told = |(phase, told, _): &(Phase, i64, _)| {
                *told == wish.generation && matches!(phase, Phase::Ready | Phase::Gone)
            };
            if served != Some(wish.forwards()) || !report.as_ref().is_some_and(is_told) {
                all.push(format!("{key:?} {wish:?}: {found:?} {served:?} {report:?}"));
            }
        }
        for (cluster, key) in self.wishes.keys() {
            for (nth, writer) in self.writers.iter().enumerate() {
                let Some(explained) = writer.registry.explain(cluster, key, now) else { continue };
                let report = &explained.report;
                if !matches!(report.phase, Phase::Ready | Phase::Gone) {
                    let steps = explained.steps.iter().rev().take(6).collect::<Vec<_>>();
                    let conditions = (&report.conditions, &report.last_error);
                    all.push(format!(
                        "{nth} {cluster} {key} {:?} {}: {steps:?} {conditions:?}",
                        report.phase, explained.next
                    ));
                }
            }
        }
        all
    }

    pub fn last_sent(&self) -> Vec<&SentChange> {
        self.sent.iter().rev().take(6).collect()
    }

    /// Makes all calls that are to be made now.
    fn work(&mut self) {
        if !self.is_silent {
            self.answer_contents();
        }
        for nth in 0..self.writers.len() {
            let now = self.now();
            let at = self.cloud.now();
            if self.writers[nth].heartbeat <= at {
                let writer = &mut self.writers[nth];
                writer.heartbeat = at + HEARTBEAT;
                for cluster in &writer.streams {
                    writer.registry.heard(cluster, now);
                    writer.last_heartbeat.insert(cluster.clone(), at);
                }
            }
            while let Some(call) = self.writers[nth].registry.next_call(now) {
                self.make(nth, call);
            }
            let writer = &mut self.writers[nth];
            for (cluster, key, report) in writer.registry.take_reports(now) {
                // Only the writer that the cluster streams to can tell it anything. Of two streams the newer one is that of the
                // controller that stays.
                if writer.streams.contains(&cluster.to_string())
                    && writer.began.get(&*cluster) == self.newest.get(&*cluster)
                {
                    self.report_count += 1;
                    self.reports.insert((cluster.to_string(), key), report);
                }
            }
            for event in writer.registry.take_events() {
                if let RegistryEvent::ContentWanted { cluster, hash } = &event {
                    self.asked.push(*hash);
                    self.unanswered.insert((cluster.to_string(), *hash));
                }
                self.events.push(event);
            }
        }
    }

    fn make(&mut self, nth: usize, call: CallToMake) {
        let at = self.cloud.now();
        self.counts.steps += 1;
        let CallToMake { id, cluster, project, lane: _, what, not_after } = call;
        note(|| format!("{at:?} writer {nth}, {cluster}: {what:?}"));
        if let CloudCall::Change(CloudChange::CreateBalancer { .. }) = &what {
            self.creating.push((id, project.to_string()));
            let now = self.creating.iter().filter(|(_, one)| **one == *project).count();
            self.most_creating = self.most_creating.max(now);
        }
        let (due, answer) = match what {
            CloudCall::Read(read)
                if self.closed_project.as_deref() == Some(&*project)
                    || self.closed_lists.is_some_and(|is_closed| is_closed(&read)) =>
            {
                self.reads.push((at, read));
                (at + LATENCY, CallAnswer::ReadFailed { words: "403".to_owned(), retry_after: None })
            }
            CloudCall::Read(read) if read.service == ApiService::KeyManager => {
                self.reads.push((at, read));
                (at + LATENCY, self.read_secrets())
            }
            CloudCall::Read(read) => {
                let is_lost = self.lost_reads.is_some_and(|is_lost| is_lost(&read));
                let rows = if is_lost { Vec::new() } else { self.read(&read) };
                let longer = self.slow_reads.and_then(|slow| slow(&read)).unwrap_or_default();
                let answer = match read.is_long {
                    true => CallAnswer::Listed(rows.into_iter().map(ListedRow::from).collect()),
                    false => CallAnswer::Rows(rows),
                };
                self.reads.push((at, read));
                (at + LATENCY + longer, answer)
            }
            CloudCall::Change(change) => {
                assert!(not_after.is_some_and(|not_after| not_after > self.now()), "a change without an end");
                let last = self.writers[nth].last_heartbeat[&*cluster];
                assert!(
                    at < last + 10 * SECOND,
                    "{cluster} was heard of last at {last:?}, and {at:?} changes {change:?}"
                );
                self.sent.push(SentChange { at, cluster: cluster.to_string(), change: change.clone() });
                let (request, elsewhere) =
                    (request_of(&change.request()), self.is_elsewhere(&change.request(), &project));
                let is_unsendable = self.unsendable_project.as_deref() == Some(&*project);
                match self.way_of.and_then(|way_of| way_of(&change)).unwrap_or_else(|| self.way()) {
                    _ if is_unsendable => (at + LATENCY, CallAnswer::Unsendable { words: "no role".to_owned() }),
                    _ if elsewhere.is_some() => (at + LATENCY, refused(elsewhere.unwrap())),
                    Way::Arrives => (at + LATENCY, CallAnswer::Changed(outcome(self.cloud.handle(&request)))),
                    Way::Slow => (at + SECOND, CallAnswer::Changed(outcome(self.cloud.handle(&request)))),
                    Way::Lost => (at + PATIENCE, CallAnswer::Changed(ChangeOutcome::Unknown(String::new()))),
                    Way::AnswerLost => {
                        self.cloud.handle(&request);
                        (at + PATIENCE, CallAnswer::Changed(ChangeOutcome::Unknown(String::new())))
                    }
                    Way::Late => {
                        self.late.push((at + PATIENCE + 4 * SECOND, request));
                        (at + PATIENCE, CallAnswer::Changed(ChangeOutcome::Unknown(String::new())))
                    }
                    way => (at + LATENCY, refused(way.refusal())),
                }
            }
        };
        self.writers[nth].answers.push((due, id, answer));
    }

    fn way(&mut self) -> Way {
        if self.trouble == 0 || !self.dice.one_in(self.trouble) {
            return Way::Arrives;
        }
        self.dice.pick(&[Way::Lost, Way::AnswerLost, Way::Late, Way::Throttled])
    }

    fn deliver(&mut self) {
        let (at, now) = (self.cloud.now(), self.now());
        for (_, request) in self.late.extract_if(.., |(due, _)| *due <= at).collect::<Vec<_>>() {
            self.cloud.handle(&request);
        }
        for writer in &mut self.writers {
            let due: Vec<_> = writer.answers.extract_if(.., |(due, ..)| *due <= at).collect();
            for (_, id, answer) in due {
                self.creating.retain(|(creating, _)| *creating != id);
                writer.registry.answered(id, answer, now);
            }
        }
    }

    pub fn has_late_requests(&self) -> bool {
        !self.late.is_empty()
    }

    pub fn balancers(&mut self) -> Vec<Value> {
        self.rows("/v2/lbaas/loadbalancers", "loadbalancers")
    }

    /// Returns the load balancers that carry an owner's mark.
    pub fn balancers_of(&mut self, owner: &str) -> Vec<String> {
        let tag = format!("k8s-svc-uid:{owner}");
        let has = |row: &Value| row["tags"].as_array().unwrap().iter().any(|one| *one == tag);
        self.balancers().iter().filter(|row| has(row)).map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    }

    /// Whether everything that is wanted is there, once, and reported.
    pub fn is_converged(&mut self) -> bool {
        // Lists are dear to make, and say nothing before everything is reported.
        let is_reported = |(key, wish): (&(String, DesiredKey), &Wish)| {
            self.reports.get(key).is_some_and(|report| match report.phase {
                Phase::Gone => wish.deleting,
                Phase::Ready | Phase::Blocked => {
                    !wish.deleting && report.generation == wish.generation && *report.owner == *wish.owner
                }
                _ => false,
            })
        };
        if !self.wishes.iter().all(is_reported) {
            return false;
        }
        let mut by_owner: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for row in self.balancers() {
            let tags = row["tags"].as_array().unwrap().iter();
            for owner in tags.filter_map(|tag| tag.as_str()?.strip_prefix("k8s-svc-uid:")) {
                by_owner.entry(owner.to_owned()).or_default().push(row["id"].as_str().unwrap().to_owned());
            }
        }
        let none = Vec::new();
        self.wishes.iter().all(|(key, wish)| {
            let found = by_owner.get(&wish.owner).unwrap_or(&none);
            if wish.deleting {
                return found.is_empty();
            }
            let (expected, phase) = shared::forwards(&self.wishes, key);
            found.len() == 1 && forwarded(&self.cloud, &found[0]) == expected && self.reports[key].phase == phase
        })
    }

    pub fn converge(&mut self, most: Duration) {
        self.run_until(most, "everything is as it is wanted", Self::is_converged);
    }
}

fn refused(refusal: ServiceRefusal) -> CallAnswer {
    CallAnswer::Changed(ChangeOutcome::Refused(refusal))
}
