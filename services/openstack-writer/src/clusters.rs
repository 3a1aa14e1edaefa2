//! The clusters: what their controllers want, checked against their policy, and the registry that makes it true. Does no
//! I/O; [`crate::owner`] carries out what it asks for.

mod claims;
mod entries;
mod events;
mod opening;
mod orders;
mod ranking;
mod refusals;
#[cfg(test)]
mod tests;
mod traces;
mod uids;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimbal_kuryr_model::{DesiredKey, LoadBalancerHeader, Text};
use gimbal_kuryr_wire::{Kuryr, KuryrReason};
use gimbal_octavia_registry::{
    AdoptionOutcome, CallAnswer, CallId, CallToMake, ClusterSettings, Registry, RegistrySettings,
};
use gimbal_session::{Credit, Goodbye, GoodbyeReason, WriterEnd, WriterLimits, WriterMessage, WriterOutput};
use gimbal_transport::Quiet;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use self::claims::OwnerClaims;
pub(crate) use self::orders::OrderRefusal;
use self::ranking::Ranking;
use self::traces::OpenTraces;
pub(crate) use self::traces::SettledTrace;
pub use self::waiting::AGES;
use self::waiting::WaitingEntries;
use crate::config::{ClusterConfig, ClustersConfig};
use crate::knowledge::CloudReading;
use crate::mailbox::ChangedEntry;
use crate::marked::RemovalProgress;
use crate::policy::ClusterUse;
use crate::stream_life::StreamLife;

/// Changes and bytes that a controller may have unacknowledged.
const CREDIT: Credit = Credit { changes: 4000, bytes: 8 << 20 };
/// A stream on which the controller is silent for this long is closed.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(15);
/// Places of a stream's queue that are kept for the messages that end it.
const LAST_WORDS: usize = 8;

/// An open stream.
#[derive(Debug)]
struct OpenStream {
    generation: u64,
    outgoing: mpsc::Sender<WriterMessage<Kuryr>>,
}

/// Another cluster that objects in OpenStack tell of, under the name of one that is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Namesake {
    pub(crate) uid: Text,
    /// A load balancer that carries the name and that UID.
    pub(crate) balancer: Text,
}

/// One cluster of the configuration. It outlives its streams.
pub struct ClusterState {
    pub(crate) config: ClusterConfig,
    /// The UID of its namespace `kube-system`: configured, or that of the first controller.
    pub(crate) uid: Option<Text>,
    /// Another cluster whose objects carry this one's name. Until an admin confirms, no stream is taken.
    pub(crate) namesake: Option<Namesake>,
    /// The UID of the last controller that was refused for it.
    pub(crate) refused_uid: Option<Text>,
    pub(crate) end: WriterEnd<Kuryr>,
    /// Whether what `end` holds is what the controller of the open stream wants. A former stream may have brought it, and
    /// another writer may have heard more since. Where a part of the cluster is unknown, the registry knows which of it is not.
    is_current: bool,
    /// Whether the controller has said on the open stream, before that was so, that a part of its cluster is unknown.
    has_doubts: bool,
    stream: Option<OpenStream>,
    pub(crate) life: StreamLife,
    pub(crate) reading: Option<CloudReading>,
    used: ClusterUse,
    owners: OwnerClaims,
    ranking: Ranking,
    /// Entries that no policy was applied to yet, because the cloud was not read, or what exists was not listed.
    unchecked: BTreeSet<DesiredKey>,
    /// Entries that are refused, with what was allowed of them before and goes on, except for members and ranges of clients.
    refused: BTreeMap<DesiredKey, Option<Arc<LoadBalancerHeader>>>,
    /// Entries of which something is left out, and what and why, in words.
    left_out: BTreeMap<DesiredKey, Vec<(KuryrReason, String)>>,
    waiting: WaitingEntries,
    /// Owners whose mark an admin takes off just now: nothing is made or removed for them.
    released: BTreeSet<Text>,
    /// Since when the guards of load balancers and of members hold something.
    held: [Option<Instant>; 2],
    traces: OpenTraces,
}

/// All clusters.
pub struct Clusters {
    pub(crate) registry: Registry,
    clusters: BTreeMap<Text, ClusterState>,
    generation: u64,
    adoptions: Vec<PendingAdoption>,
    changed: Vec<ChangedEntry>,
    /// Lines about entries that were logged lately, by cluster and kind: a cluster may change its mind as often as it likes.
    lines: Quiet<(Text, &'static str)>,
    /// Cancelled when the cluster is admitted again.
    quarantines: BTreeMap<Text, CancellationToken>,
    /// Clusters of which everything is being removed.
    removals: BTreeMap<Text, RemovalProgress>,
    /// Traced changes that are settled.
    settled: Vec<SettledTrace>,
}

/// An admin who waits for the end of an adoption.
struct PendingAdoption {
    cluster: Text,
    balancer: Text,
    reply: oneshot::Sender<AdoptionOutcome>,
}

impl Clusters {
    /// Returns the clusters of a configuration. Generations of streams begin after `generation`.
    #[must_use]
    pub fn new(settings: RegistrySettings, config: &ClustersConfig, generation: u64, now: Instant) -> Self {
        let registry = Registry::new(settings, now);
        let mut all = Self {
            registry,
            clusters: BTreeMap::new(),
            generation,
            adoptions: Vec::new(),
            changed: Vec::new(),
            lines: Quiet::default(),
            quarantines: BTreeMap::new(),
            removals: BTreeMap::new(),
            settled: Vec::new(),
        };
        all.configure(config, now);
        all
    }

    /// Applies a configuration. A cluster that it no longer has is forgotten, and nothing of it in OpenStack is touched.
    pub fn configure(&mut self, config: &ClustersConfig, now: Instant) {
        let listed: BTreeSet<&str> = config.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
        let gone: Vec<Text> = self.clusters.keys().filter(|name| !listed.contains(&***name)).cloned().collect();
        for name in gone {
            self.say_goodbye(&name, GoodbyeReason::UnknownBackend, "the cluster is not configured any more");
            self.clusters.remove(&name);
            self.registry.remove_cluster(&name);
            self.adoptions.retain(|one| one.cluster != name);
        }
        for cluster in &config.clusters {
            let name: Text = cluster.name.as_str().into();
            if !cluster.quarantine {
                self.quarantine_ended(&name);
            }
            match self.clusters.get_mut(&name) {
                None => {
                    self.clusters.insert(name, ClusterState::new(cluster.clone()));
                }
                Some(state) => {
                    state.config = cluster.clone();
                    if state.namesake.as_ref().is_some_and(|other| cluster.former_uids.contains(&other.uid)) {
                        state.namesake = None;
                    }
                    if let Some(other) = state.namesake.take_if(|_| cluster.uid.is_some()) {
                        self.registry.confirm(&name, &other.uid, now);
                    }
                    if state.uid.is_none() {
                        state.uid.clone_from(&cluster.uid);
                    }
                    if state.uid.as_ref().is_some_and(|uid| cluster.former_uids.contains(uid)) {
                        let text = "the configuration says that this cluster has the name no longer (formerUids)";
                        self.say_goodbye(&name, GoodbyeReason::Incarnation, text);
                        self.begin_anew(&name);
                        continue;
                    }
                    if cluster.uid.is_some() && state.uid.is_some() && cluster.uid != state.uid {
                        let text = "the configuration gives the cluster another UID (clusterUid)";
                        self.say_goodbye(&name, GoodbyeReason::Incarnation, text);
                        self.begin_anew(&name);
                    }
                    self.settings_changed(&name, now);
                    self.check_all(&name, now);
                }
            }
        }
    }

    /// Takes what was read about the cloud for a cluster.
    pub fn learned(&mut self, name: &Text, reading: CloudReading, now: Instant) {
        let Some(state) = self.clusters.get_mut(name) else { return };
        let before = state.reading.as_ref();
        let fresh: Vec<&String> = reading
            .missing
            .iter()
            .filter(|missing| before.is_none_or(|before| !before.missing.contains(missing)))
            .collect();
        for missing in fresh {
            tracing::warn!(cluster = %name, "{missing}");
        }
        if before == Some(&reading) {
            return;
        }
        state.reading = Some(reading);
        self.settings_changed(name, now);
        self.check_all(name, now);
    }

    /// Tells the registry what the configuration and the cloud say now.
    fn settings_changed(&mut self, name: &Text, now: Instant) {
        let Some(state) = self.clusters.get(name) else { return };
        let Some(settings) = state.settings() else { return };
        self.registry.set_cluster(settings, now);
        for former in &state.config.former_uids {
            self.registry.confirm(name, former, now);
        }
        if let Some(reading) = &state.reading {
            self.registry.set_facts(name, state.config.policy.facts(&reading.known), now);
        }
        self.facts_changed(name);
    }

    /// Forgets everything that the controller of a cluster said, because it is another cluster. If it turns out to be the same one
    /// after all, what it wants is what it says then.
    fn begin_anew(&mut self, name: &Text) {
        let Some(state) = self.clusters.get_mut(name) else { return };
        self.registry.remove_cluster(name);
        let (config, reading) = (state.config.clone(), state.reading.take());
        *state = ClusterState { reading, ..ClusterState::new(config) };
        self.adoptions.retain(|one| one.cluster != *name);
    }

    /// Returns a cluster.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ClusterState> {
        self.clusters.get(name)
    }

    /// Returns all clusters, in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&Text, &ClusterState)> {
        self.clusters.iter()
    }

    /// Returns the next call to make.
    pub fn next_call(&mut self, now: Instant) -> Option<CallToMake> {
        self.registry.next_call(now)
    }

    /// Takes the answer to a call.
    pub fn answered(&mut self, id: CallId, answer: CallAnswer, now: Instant) {
        self.registry.answered(id, answer, now);
    }

    /// Ends silent streams.
    pub fn tick(&mut self, now: Instant) {
        let names: Vec<Text> = self.clusters.keys().cloned().collect();
        for name in names {
            let outputs = self.clusters.get_mut(&name).map(|state| state.end.tick(now)).unwrap_or_default();
            self.carry_out(&name, outputs, now);
        }
    }

    /// Returns when something is to be done even if nothing comes in.
    pub fn next_wake(&mut self, now: Instant) -> Option<Instant> {
        let streams = self.clusters.values().filter_map(|state| state.end.next_deadline()).min();
        self.registry.next_wake(now).into_iter().chain(streams).min()
    }

    /// Returns the entries whose status may have changed since the last call.
    pub fn take_changed(&mut self) -> Vec<ChangedEntry> {
        std::mem::take(&mut self.changed)
    }

    /// Begins an adoption, or joins the same one that is under way. Its end is sent to `reply`. Returns `false`, and does
    /// nothing, if another adoption by this entry, or of this load balancer, is under way.
    pub fn adopt(
        &mut self,
        cluster: &Text,
        key: DesiredKey,
        balancer: &str,
        dry_run: bool,
        reply: oneshot::Sender<AdoptionOutcome>,
        now: Instant,
    ) -> bool {
        let begins = self.registry.adopt(cluster, &key, balancer, dry_run, now);
        if begins {
            self.adoptions.retain(|one| !one.reply.is_closed());
            self.adoptions.push(PendingAdoption { cluster: cluster.clone(), balancer: balancer.into(), reply });
        }
        begins
    }
}

impl ClusterState {
    fn new(config: ClusterConfig) -> Self {
        let limits = WriterLimits { credit: CREDIT, heartbeat_timeout: HEARTBEAT_TIMEOUT };
        Self {
            uid: config.uid.clone(),
            config,
            namesake: None,
            refused_uid: None,
            end: WriterEnd::new(limits),
            is_current: false,
            has_doubts: false,
            stream: None,
            life: StreamLife::default(),
            reading: None,
            used: ClusterUse::default(),
            owners: OwnerClaims::default(),
            ranking: Ranking::default(),
            unchecked: BTreeSet::new(),
            refused: BTreeMap::new(),
            left_out: BTreeMap::new(),
            waiting: WaitingEntries::default(),
            released: BTreeSet::new(),
            held: [None, None],
            traces: OpenTraces::default(),
        }
    }

    /// Returns what the registry is to know; `None` before the UID is known.
    fn settings(&self) -> Option<ClusterSettings> {
        let policy = &self.config.policy;
        let mut projects = vec![policy.project.clone()];
        // The configuration may name it in both places. Lists would show all of it twice.
        projects.extend(policy.projects.iter().filter(|one| **one != policy.project).cloned());
        let settings = ClusterSettings::new(self.config.name.as_str(), self.uid.clone()?, policy.project.clone());
        let rebuild_above = policy.rebuild_above.and_then(|changes| usize::try_from(changes).ok());
        Some(ClusterSettings {
            rebuild_above: rebuild_above.unwrap_or(settings.rebuild_above),
            projects,
            former_projects: policy.former_projects.iter().cloned().collect(),
            resource_tags: policy.resource_tags.as_slice().into(),
            own_port: policy.own_port,
            limits: policy.quota.limits(),
            mutations_per_second: policy.quota.mutations_per_second,
            guards: self.config.guards,
            quarantine: self.config.quarantine,
            ..settings
        })
    }

    /// Returns the number of entries that are not as they are wanted yet, by age as in [`AGES`].
    #[must_use]
    pub fn waiting_by_age(&self, now: Instant) -> [u64; AGES.len()] {
        self.waiting.by_age(now)
    }

    /// Returns how long the guard of load balancers, or else that of members, has held something.
    #[must_use]
    pub fn held_for(&self, balancers: bool, now: Instant) -> Duration {
        let since = self.held[usize::from(!balancers)];
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Returns whether a stream is open.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.stream.is_some()
    }
}

/// Sends a goodbye on a stream. One that is full or closed needs none: the controller sees it end.
fn send_goodbye(stream: &OpenStream, reason: GoodbyeReason, text: &str) {
    let goodbye = Goodbye { reason, message: text.to_owned(), retry_after: None };
    if stream.outgoing.try_send(WriterMessage::Goodbye(goodbye)).is_err() {
        tracing::debug!(generation = stream.generation, "no room for a goodbye");
    }
}

/// What a cluster's end of the session asks for.
type Outputs = Vec<WriterOutput<Kuryr>>;
/// A message for a controller.
type ToController = WriterMessage<Kuryr>;
/// Shared configuration.
pub type SharedConfig = Arc<ClustersConfig>;

impl Clusters {
    /// Gives a name to the cluster with another UID. Returns the UID that had it, empty if none had.
    ///
    /// # Errors
    /// Returns an error if no controller with this UID was refused, and no objects of another cluster are in the way.
    pub fn confirm(&mut self, name: &Text, uid: &str, now: Instant) -> Result<String, String> {
        let Some(state) = self.clusters.get_mut(name) else {
            return Err(format!("cluster {name:?} is not configured"));
        };
        let previous = state.uid.as_deref().unwrap_or_default().to_owned();
        if state.uid.as_deref() == Some(uid)
            && let Some(other) = state.namesake.take()
        {
            self.registry.confirm(name, &other.uid, now);
            return Ok(other.uid.to_string());
        }
        if state.refused_uid.as_deref() != Some(uid) {
            let message = format!("no controller of a cluster with UID {uid:?} was refused for the name {name}");
            return Err(message);
        }
        if state.config.uid.as_deref().is_some_and(|configured| configured != uid) {
            return Err("the configuration gives the cluster another UID (clusterUid)".to_owned());
        }
        if let Some(holder) = self.holder(name, uid) {
            if self.is_configured(&holder, uid) {
                return Err(format!("the configuration gives this UID to cluster {holder} (clusterUid)"));
            }
            self.lose_uid(&holder);
        }
        self.say_goodbye(name, GoodbyeReason::Incarnation, "an admin gave the name to another cluster");
        let namesake = self.clusters.get_mut(name).and_then(|state| state.namesake.take());
        self.begin_anew(name);
        if let Some(state) = self.clusters.get_mut(name) {
            state.uid = Some(uid.into());
        }
        self.settings_changed(name, now);
        // Objects of the cluster that had the name so far stay where they are.
        let others = namesake.iter().map(|other| &*other.uid).filter(|other| *other != uid);
        for other in others.chain([&*previous]) {
            self.registry.confirm(name, other, now);
        }
        Ok(previous)
    }
}
