//! The task that owns everything that is known, and brings about what Backends ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::stream::{BoxStream, select_all};
use futures::{Stream, StreamExt as _};
use gimbal_kubernetes_client::{Cluster, WatchEvent, WatchScope, watch};
use gimbal_kubernetes_objects::Object;
use gimbal_lease::{Leadership, Moment};
use gimbal_operator_core::{
    Deployment, MANAGER, ManagedKind, MarkedObject, NetworkPolicy, OWNER_LABEL, ObjectId, OperatorSettings, PairSecret,
    ReadyStatement, ServiceAccount, SourceProblem, SourcedBackend, WantedDiscoverer, discoverers, is_ours,
};
use gimbal_runtime::{Exit, Liveness, ReadinessGuard};
use gimbal_schedule::Retries;
use serde_json::Value;
use tokio::sync::watch::Receiver;
use tokio_util::sync::CancellationToken;

use crate::claim::ClusterClaim;
use crate::known::KnownObjects;
use crate::metrics::OperatorMetrics;
use crate::notices::DiscovererEvents;
use crate::pairs::Signer;
use crate::secrets::SecretWatches;

/// Interval of looks at whether there is something to do: changes that come together are decided together.
const LOOK: Duration = Duration::from_millis(200);
/// Interval of looks without a cause: certificates come to their time, and names that were taken may be free.
const WITHOUT_CAUSE: Duration = Duration::from_secs(20);

/// What the owner works with.
pub(crate) struct OperatorParts {
    /// Watches.
    pub(crate) cluster: Cluster,
    /// Writes, while the lease lasts.
    pub(crate) permitted: Cluster,
    pub(crate) leadership: Receiver<Leadership>,
    /// What this process is called in its Events.
    pub(crate) identity: String,
    pub(crate) settings: OperatorSettings,
    /// How long a certificate lasts.
    pub(crate) lifetime: Duration,
    pub(crate) metrics: OperatorMetrics,
    pub(crate) health: Liveness,
    /// Dropped once everything was listed.
    pub(crate) listing: ReadinessGuard,
}

/// The owner. What it knows of each kind is as the watches and its own writes have shown it.
pub(crate) struct Operator {
    pub(crate) permitted: Cluster,
    leadership: Receiver<Leadership>,
    pub(crate) settings: OperatorSettings,
    pub(crate) lifetime: Duration,
    pub(crate) metrics: OperatorMetrics,
    pub(crate) health: Liveness,
    listing: Option<ReadinessGuard>,
    events: BoxStream<'static, Event>,
    claim: ClusterClaim,
    pub(crate) notices: DiscovererEvents,
    pub(crate) secrets: SecretWatches,
    pub(crate) signer: Signer,
    pub(crate) backends: KnownObjects<SourcedBackend>,
    pub(crate) accounts: KnownObjects<ServiceAccount>,
    pub(crate) policies: KnownObjects<NetworkPolicy>,
    pub(crate) deployments: KnownObjects<Deployment>,
    pub(crate) pairs: KnownObjects<PairSecret>,
    /// UIDs of Backends that were deleted before its eyes.
    pub(crate) deleted: BTreeSet<String>,
    /// Names that somebody else's objects have.
    pub(crate) taken: BTreeSet<ObjectId>,
    /// What was applied, and what the API server made of it.
    pub(crate) accepted: BTreeMap<ObjectId, (Value, Value)>,
    /// Writes that failed, by backend, with what its condition says meanwhile.
    pub(crate) failures: Retries<String, Option<ReadyStatement>>,
    /// Statuses that could not be written, by backend.
    pub(crate) unsaid: Retries<String>,
    /// Objects without a Backend that could not be deleted.
    pub(crate) undeleted: Retries<ObjectId>,
    /// Kinds whose watch fails.
    failing: BTreeSet<&'static str>,
    /// Whether something may have to be done.
    pub(crate) changed: bool,
    leads: bool,
    last_look: Instant,
}

enum Event {
    Backend(WatchEvent<SourcedBackend>),
    Account(WatchEvent<ServiceAccount>),
    Policy(WatchEvent<NetworkPolicy>),
    Deployment(WatchEvent<Deployment>),
    Pair(WatchEvent<PairSecret>),
}

/// Watches Backends, and in the operator's namespace what carries its label.
fn events(cluster: &Cluster, namespace: &str) -> BoxStream<'static, Event> {
    fn all<T: Object>(cluster: &Cluster, scope: &WatchScope) -> impl Stream<Item = WatchEvent<T>> + Send + use<T> {
        watch::<T>(cluster.apart(), scope.clone())
    }
    let own = WatchScope {
        namespace: Some(namespace.to_owned()),
        label_selector: Some(format!("{OWNER_LABEL}={MANAGER}")),
        ..WatchScope::default()
    };
    let streams: [BoxStream<'static, Event>; 5] = [
        all(cluster, &WatchScope::default()).map(Event::Backend).boxed(),
        all(cluster, &own).map(Event::Account).boxed(),
        all(cluster, &own).map(Event::Policy).boxed(),
        all(cluster, &own).map(Event::Deployment).boxed(),
        all(cluster, &own).map(Event::Pair).boxed(),
    ];
    select_all(streams).boxed()
}

impl Operator {
    pub(crate) fn new(parts: OperatorParts) -> Self {
        let OperatorParts { cluster, permitted, leadership, identity, settings, lifetime, metrics, health, listing } =
            parts;
        Self {
            events: events(&cluster, &settings.namespace),
            claim: ClusterClaim::default(),
            notices: DiscovererEvents::new(&permitted.apart(), metrics.clone(), identity),
            secrets: SecretWatches::new(cluster, settings.namespace.clone(), metrics.clone()),
            permitted,
            leadership,
            settings,
            lifetime,
            metrics,
            health,
            listing: Some(listing),
            signer: Signer::default(),
            backends: KnownObjects::default(),
            accounts: KnownObjects::default(),
            policies: KnownObjects::default(),
            deployments: KnownObjects::default(),
            pairs: KnownObjects::default(),
            deleted: BTreeSet::new(),
            taken: BTreeSet::new(),
            accepted: BTreeMap::new(),
            failures: Retries::default(),
            unsaid: Retries::default(),
            undeleted: Retries::default(),
            failing: BTreeSet::new(),
            changed: false,
            leads: false,
            last_look: Instant::now(),
        }
    }

    /// Runs until `shutdown`.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) -> Result<(), Exit> {
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                _ = look.tick() => {
                    self.health.beat();
                    if self.is_due() && self.serves().await {
                        self.reconcile().await;
                    }
                    if self.leads {
                        self.notices.write_next(Instant::now());
                    }
                }
                result = self.notices.written() => self.notices.handle(result, Instant::now()),
                Some(event) = self.events.next() => self.take(event),
                name = self.secrets.changed() => self.secret_changed(&name),
            }
        }
    }

    fn take(&mut self, event: Event) {
        self.changed |= match event {
            Event::Backend(event) => {
                if let WatchEvent::Deleted(backend) = &event {
                    self.deleted.insert(backend.metadata.meta.uid.to_string());
                }
                self.note(&event);
                self.backends.take(event)
            }
            Event::Account(event) => {
                self.note(&event);
                self.accounts.take(event)
            }
            Event::Policy(event) => {
                self.note(&event);
                self.policies.take(event)
            }
            Event::Deployment(event) => {
                self.note(&event);
                self.deployments.take(event)
            }
            Event::Pair(event) => {
                self.note(&event);
                self.pairs.take(event)
            }
        };
    }

    /// Counts and logs a failure of a watch; logged once for each outage.
    fn note<T: Object>(&mut self, event: &WatchEvent<T>) {
        let kind = T::KIND.plural;
        match event {
            WatchEvent::Failed(error) => {
                self.metrics.watch_failed(kind, error);
                if self.failing.insert(kind) {
                    tracing::warn!(kind, %error, "a watch failed; it is tried again, and objects stay as they were known");
                }
            }
            WatchEvent::Alive if self.failing.remove(kind) => tracing::info!(kind, "the watch works again"),
            _ => {}
        }
    }

    fn secret_changed(&mut self, name: &str) {
        if *name == self.settings.authority_secret {
            self.signer.read(&self.settings, self.secrets.get(name).flatten());
            self.metrics.set_authority(self.signer.not_after());
        }
        self.changed = true;
    }

    /// Whether there may be something to do, and this process may do it.
    fn is_due(&mut self) -> bool {
        let named = self.backends.values().filter_map(|backend| backend.secret().map(str::to_owned));
        let named = named.chain([self.settings.authority_secret.clone()]).collect();
        self.secrets.follow(&named);
        let complete = self.backends.is_complete()
            && self.accounts.is_complete()
            && self.policies.is_complete()
            && self.deployments.is_complete()
            && self.pairs.is_complete();
        if complete {
            self.listing = None;
        }
        let (leads, now) = (self.leadership.borrow().may_write(Moment::now()), Instant::now());
        self.metrics.set_leading(leads && self.claim.is_held_by(&self.settings.namespace));
        if matches!(*self.leadership.borrow(), Leadership::Follower { .. }) {
            self.notices.forget();
        }
        if begins(&mut self.leads, leads) || now.duration_since(self.last_look) >= WITHOUT_CAUSE {
            // Whoever led before may have made what was in the way.
            self.taken.clear();
            self.last_look = now;
            self.changed = true;
        }
        self.changed |= self.failures.is_due(now) || self.unsaid.is_due(now) || self.undeleted.is_due(now);
        leads && complete && std::mem::take(&mut self.changed)
    }

    /// Whether the Backends of this cluster are served from this namespace. If they are not, it is asked again.
    async fn serves(&mut self) -> bool {
        let serves = self.claim.is_of(&self.settings.namespace, &self.permitted, Instant::now()).await;
        self.changed |= !serves;
        serves
    }

    /// Brings about what all Backends ask for.
    async fn reconcile(&mut self) {
        let backends: Vec<SourcedBackend> = self.backends.values().cloned().collect();
        let own = self.pairs.values().filter(|pair| is_ours(&pair.metadata));
        let own = own.map(|pair| pair.metadata.meta.name.to_string()).collect();
        let (mut wanted, mut problems) = (BTreeMap::new(), BTreeMap::new());
        for (uid, discoverer) in discoverers(&backends, &own, &self.settings) {
            if let Err(problem) = &discoverer {
                problems.insert(uid.clone(), stated(problem));
            }
            wanted.insert(uid, discoverer.ok());
        }
        self.remove_left_over(&wanted).await;
        let tried: BTreeSet<&str> = wanted.values().flatten().map(|discoverer| discoverer.name.as_str()).collect();
        self.failures.keep(|name| tried.contains(name.as_str()));
        self.unsaid.keep(|name| backends.iter().any(|backend| *backend.metadata.meta.name == **name));
        let (mut counts, mut all) = ([0, 0, 0], Vec::new());
        for backend in &backends {
            let uid = &*backend.metadata.meta.uid;
            let said = match wanted.get(uid) {
                Some(Some(discoverer)) => self.bring_about(discoverer).await,
                _ => problems.remove(uid),
            };
            let blocked = said.as_ref().is_some_and(ReadyStatement::is_problem);
            let ready = said.as_ref().is_some_and(|said| said.ready);
            let states = [backend.has_source(), ready, blocked];
            counts.iter_mut().zip(states).for_each(|(count, is)| *count += i64::from(is));
            all.push((backend, said));
        }
        self.metrics.show(counts);
        // After all that runs: a status that takes its time keeps no discoverer.
        for (backend, said) in all {
            self.say(backend, said.as_ref()).await;
        }
    }

    /// Returns the metadata of all objects with the operator's mark.
    pub(crate) fn marked(&self) -> BTreeMap<ObjectId, MarkedObject> {
        let accounts = self.accounts.values().map(|one| (ManagedKind::ServiceAccount, &one.metadata));
        let policies = self.policies.values().map(|one| (ManagedKind::NetworkPolicy, &one.metadata));
        let deployments = self.deployments.values().map(|one| (ManagedKind::Deployment, &one.metadata));
        let pairs = self.pairs.values().map(|one| (ManagedKind::Secret, &one.metadata));
        let all = accounts.chain(policies).chain(deployments).chain(pairs);
        let marked = all.filter(|(_, metadata)| is_ours(metadata)).map(|(kind, metadata)| {
            (ObjectId { kind, name: metadata.meta.name.to_string() }, MarkedObject::mark(metadata))
        });
        marked.collect()
    }

    /// Returns an object as it is compared with what is wanted, if it has the operator's mark.
    pub(crate) fn observe(&self, id: &ObjectId) -> Option<MarkedObject> {
        let observed = match id.kind {
            ManagedKind::ServiceAccount => self.accounts.get(&id.name).map(|one| MarkedObject::of(&one.metadata, one)),
            ManagedKind::NetworkPolicy => self.policies.get(&id.name).map(|one| MarkedObject::of(&one.metadata, one)),
            ManagedKind::Deployment => self.deployments.get(&id.name).map(|one| MarkedObject::of(&one.metadata, one)),
            ManagedKind::Secret => self.pairs.get(&id.name).map(|one| MarkedObject::mark(&one.metadata)),
        };
        observed.filter(|observed| is_ours(&observed.metadata))
    }

    /// Returns the pair of a discoverer, if its Secret is ours.
    pub(crate) fn pair(&self, discoverer: &WantedDiscoverer) -> Option<&PairSecret> {
        let pair = self.pairs.get(&gimbal_operator_core::pair_secret_name(discoverer))?;
        is_ours(&pair.metadata).then_some(pair)
    }
}

/// Whether this process begins to lead: at the last look it did not.
fn begins(led: &mut bool, leads: bool) -> bool {
    let led = std::mem::replace(led, leads);
    leads && !led
}

fn stated(problem: &SourceProblem) -> ReadyStatement {
    match problem {
        SourceProblem::Invalid(why) => ReadyStatement::not("InvalidSource", why.as_str()),
        SourceProblem::Identity(why) => ReadyStatement::not("IdentityRefused", why.as_str()),
    }
}

#[cfg(test)]
mod tests;
