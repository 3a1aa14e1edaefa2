//! One backend: its policy, its end of the stream, and what is counted for it.

mod removal;
mod trouble;
mod withheld;

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use gimbal_guard::{HoldRecord, WindowRecord};
use gimbal_model::{BackendName, SourceKey, TargetKey};
use gimbal_plan::{Count, EndpointsApi, Wanted, publishable};
use gimbal_session::{Hello, Outcome, WriterEnd, WriterLimits, WriterOutput, service_len};

use crate::budgets::Budgets;
use crate::guards::Guards;
use crate::routes::Routes;
use crate::stored::StoredVersions;
use crate::{
    Decommission, DecommissionOrder, Facts, Journey, JourneyEnd, Loss, LossRecord, Mode, Output, Policy, Stage, Usage,
    Withdrawal,
};

pub use trouble::{describe_hold, describe_unmatched};

/// The state of a backend that is stored in the Gimbal cluster, so that it survives a restart. It is stored when it
/// changes, not periodically.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BackendState {
    /// The incarnation of the source that the backend's name belongs to.
    pub incarnation: Option<String>,
    /// The removals that were granted within the guard's window.
    pub window: Option<WindowRecord>,
    /// The removal that the guard holds.
    pub hold: Option<HoldRecord>,
    /// Like `window`, for losses of readiness.
    pub ready_window: Option<WindowRecord>,
    /// Like `hold`, for losses of readiness.
    pub ready_hold: Option<HoldRecord>,
    /// The loss of the backend, if its policy reacts to a loss.
    pub loss: Option<LossRecord>,
    /// The order to remove it, if there is one. It is rare, and boxed because states are copied to be stored.
    pub decommission: Option<Box<DecommissionOrder>>,
}

/// The size of one Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Measured {
    /// Endpoints that the policy admits.
    pub(crate) count: Count,
    /// Bytes of its header and endpoints on the stream.
    pub(crate) bytes: u64,
    /// Whether the API server would accept it, as far as that is known.
    pub(crate) valid: bool,
}

/// One backend.
#[derive(Debug, Clone)]
pub struct Backend {
    name: BackendName,
    /// The policy. The last one, if the backend is no longer `listed`.
    policy: Policy,
    /// Whether the configuration names the backend.
    listed: bool,
    /// Whether that is a configuration that somebody wrote, and not the Hello of an agent where there is none.
    configured: bool,
    /// The targets that its Services lead to, and those that they leave.
    routes: Routes,
    /// The writer's end of its stream, with the Services that the agent sent.
    end: WriterEnd,
    budgets: Budgets,
    /// The size of each Service that its agent sent.
    measured: BTreeMap<SourceKey, Measured>,
    /// The changes that are not settled yet, one for each Service at most.
    journeys: BTreeMap<SourceKey, Journey>,
    /// The generation of the newest stream; 0 if there was none.
    generation: u64,
    /// Whether that stream is open.
    connected: bool,
    /// The state to be stored.
    state: BackendState,
    /// Why the stored state must not be used, if a newer writer stored it: nothing is removed until another one is stored.
    withheld: Option<Box<str>>,
    versions: StoredVersions,
    /// The incarnation with which an agent was refused last, until an admin confirms one.
    refused_incarnation: Option<String>,
    /// The removal of the backend, if it was ordered.
    decommission: Option<Decommission>,
    /// Why the last order to remove it was taken back, since this process leads.
    withdrawal: Option<Withdrawal>,
    /// It was lent out mutably since [`Desired::drain_changed`](crate::desired::Desired::drain_changed) visited it
    /// last.
    changed: bool,
}

/// What everybody may know.
impl Backend {
    /// Returns its name, which its certificate proves.
    #[must_use]
    pub fn name(&self) -> &BackendName {
        &self.name
    }

    /// Returns its policy: the last one, if the configuration no longer names the backend.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether the configuration names the backend. Otherwise it is known only by its objects or its stored state.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        self.listed
    }

    /// Whether a configuration that somebody wrote names the backend.
    pub(crate) fn is_configured(&self) -> bool {
        self.configured
    }

    /// Whether such a configuration wants it published, now and later.
    pub(crate) fn is_admitted_by_configuration(&self) -> bool {
        self.listed && self.configured && !self.policy.leaving && self.policy.mode == Mode::Admit
    }

    /// Returns the writer's end of its stream, with the Services that the agent sent.
    #[must_use]
    pub fn end(&self) -> &WriterEnd {
        &self.end
    }

    /// Returns what its Services take of its quota.
    #[must_use]
    pub fn usage(&self) -> &Usage {
        self.budgets.usage()
    }

    /// Returns the mass-change guards.
    #[must_use]
    pub fn guards(&self) -> &Guards {
        self.budgets.guards()
    }

    /// Returns whether and for how long the backend is lost, and the stage that its loss policy has reached.
    #[must_use]
    pub fn loss(&self) -> &Loss {
        self.budgets.loss()
    }

    /// Returns how many endpoints it has in the Gimbal cluster.
    #[must_use]
    pub fn endpoints(&self) -> u64 {
        self.budgets.endpoints()
    }

    /// Returns the total of the endpoints that were removed because the backend was lost.
    #[must_use]
    pub fn drained(&self) -> u64 {
        self.budgets.drained()
    }

    /// Returns the generation of the newest stream; 0 if there was none.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether the source said that a Service is gone: explicitly, or by a complete snapshot without it.
    pub(crate) fn is_absent(&self, key: &SourceKey) -> bool {
        // A Service that could not be read exists, in whatever state.
        let absent = self.end().knows(&key.namespace) && !self.end().is_unreadable(key);
        self.end().service(key).is_none() && (absent || self.end().removed_explicitly(key))
    }

    /// Whether the newest stream is open.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.connected
    }

    /// Returns the state to be stored.
    #[must_use]
    pub fn state(&self) -> &BackendState {
        &self.state
    }

    /// Returns the incarnation with which an agent was refused last, until an admin confirms one.
    #[must_use]
    pub fn refused_incarnation(&self) -> Option<&str> {
        self.refused_incarnation.as_deref()
    }

    /// Returns the removal of the backend, if it was ordered.
    #[must_use]
    pub fn decommission(&self) -> Option<Decommission> {
        self.decommission
    }

    /// Returns the stage that applies to its endpoints, because it is lost or because it is to be removed.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self.decommission {
            Some(Decommission::MakingNotReady { .. } | Decommission::NotReady { .. }) => Stage::NotReady,
            _ => self.loss().stage(),
        }
    }
}

impl Backend {
    /// Nothing is known of it yet.
    pub(crate) fn new(name: BackendName, policy: Policy, listed: bool, limits: &WriterLimits) -> Self {
        Self {
            name,
            budgets: Budgets::new(policy.guard),
            policy,
            listed,
            configured: false,
            routes: Routes::default(),
            end: WriterEnd::new(limits.clone()),
            measured: BTreeMap::new(),
            journeys: BTreeMap::new(),
            generation: 0,
            connected: false,
            state: BackendState::default(),
            withheld: None,
            versions: StoredVersions::default(),
            refused_incarnation: None,
            decommission: None,
            withdrawal: None,
            changed: false,
        }
    }

    pub(crate) fn end_mut(&mut self) -> &mut WriterEnd {
        &mut self.end
    }

    pub(crate) fn routes(&self) -> &Routes {
        &self.routes
    }

    pub(crate) fn routes_mut(&mut self) -> &mut Routes {
        &mut self.routes
    }

    pub(crate) fn budgets_mut(&mut self) -> &mut Budgets {
        &mut self.budgets
    }

    pub(crate) fn usage_mut(&mut self) -> &mut Usage {
        self.budgets.usage_mut()
    }

    pub(crate) fn guards_mut(&mut self) -> &mut Guards {
        self.budgets.guards_mut()
    }

    pub(crate) fn loss_mut(&mut self) -> &mut Loss {
        self.budgets.loss_mut()
    }

    /// Marks it as changed. Returns false if it was marked already.
    pub(crate) fn mark_changed(&mut self) -> bool {
        !std::mem::replace(&mut self.changed, true)
    }

    pub(crate) fn clear_changed(&mut self) {
        self.changed = false;
    }

    /// The configuration names the backend, with this policy.
    pub(crate) fn set_policy(&mut self, policy: Policy, now: Instant) {
        self.listed = true;
        if self.policy.guard != policy.guard {
            self.guards_mut().configure(policy.guard, now);
        }
        self.policy = policy;
    }

    /// The configuration is one that somebody wrote.
    pub(crate) fn set_configured(&mut self) {
        self.configured = true;
    }

    pub(crate) fn into_policy(self) -> Policy {
        self.policy
    }

    /// The configuration does not name the backend any more: what its agent said is forgotten.
    pub(crate) fn dismiss(&mut self, limits: &WriterLimits) {
        self.listed = false;
        self.configured = false;
        self.end = WriterEnd::new(limits.clone());
        self.routes.clear();
        self.budgets.forget_usage();
        self.measured.clear();
        self.journeys.clear();
    }

    /// The backend is being removed: what its agent said and what the guards counted is forgotten.
    pub(crate) fn forget_said(&mut self, limits: &WriterLimits) {
        self.end = WriterEnd::new(limits.clone());
        self.guards_mut().forget();
        self.measured.clear();
        self.journeys.clear();
    }

    /// Another process leads: everything is forgotten but the configuration, the stream's generation and the endpoints
    /// that exist.
    pub(crate) fn forget(&mut self, limits: &WriterLimits) {
        self.end = WriterEnd::new(limits.clone());
        self.routes.clear();
        self.budgets.forget();
        self.measured.clear();
        self.journeys.clear();
        self.state = BackendState::default();
        self.withheld = None;
        self.decommission = None;
        self.withdrawal = None;
    }

    /// Continues with a stored state. `settled` returns what a target of the backend has. Returns whether the state differs since, so
    /// that it has to be stored again.
    pub(crate) fn restore(
        &mut self,
        mut state: BackendState,
        settled: impl Fn(&TargetKey) -> Count,
        now: Instant,
        wall: SystemTime,
    ) -> bool {
        self.guards_mut().restore(&state, settled, now, wall);
        self.budgets.set_loss(Loss::restore(state.loss, now, wall));
        let differs = state.decommission.as_mut().is_some_and(|order| order.begins_by(wall));
        self.decommission = state.decommission.as_ref().map(|order| order.stage(now, wall));
        self.state = state;
        differs
    }

    /// A change of a Service came.
    pub(crate) fn begin_journey(&mut self, key: &SourceKey, journey: Journey) {
        let known = self.journeys.entry(key.clone()).or_insert(journey);
        *known = known.joined_by(journey);
    }

    /// A write for a Service is handed out.
    pub(crate) fn start_journey(&mut self, key: &SourceKey, now: Instant) {
        if let Some(journey) = self.journeys.get_mut(key) {
            journey.start(now);
        }
    }

    /// A write for a Service was answered: the API server failed, or refused it.
    pub(crate) fn set_journey_failed(&mut self, key: &SourceKey, failed: bool) {
        if let Some(journey) = self.journeys.get_mut(key) {
            journey.set_failed(failed);
        }
    }

    /// The newest state of a Service is settled. Returns its change, and as what it counts.
    pub(crate) fn settle_journey(&mut self, key: &SourceKey, outcome: &Outcome) -> Option<(Journey, JourneyEnd)> {
        let journey = self.journeys.remove(key)?;
        let (left, end) = journey.settle(outcome);
        if let Some(left) = left {
            self.journeys.insert(key.clone(), left);
        }
        Some((journey, end?))
    }

    /// Returns when the oldest of the changes came that are not settled for good.
    pub(crate) fn waits_since(&self) -> Option<Instant> {
        self.journeys.values().map(Journey::waits_since).min()
    }

    /// An agent opens a stream.
    pub(crate) fn open_stream(&mut self, hello: &Hello, generation: u64, now: Instant) -> Vec<WriterOutput> {
        self.generation = generation;
        self.connected = true;
        self.end.open(hello, self.name.as_str(), generation, now)
    }

    /// The stream is closed.
    pub(crate) fn close_stream(&mut self) {
        self.connected = false;
        self.end.closed();
    }

    /// The backend's name belongs to the source with this incarnation. Returns the one that it belonged to before.
    pub(crate) fn set_incarnation(&mut self, incarnation: &str) -> Option<String> {
        self.state.incarnation.replace(incarnation.to_owned())
    }

    /// An admin gives the backend's name to the source with this incarnation. Returns the one that it belonged to
    /// before.
    pub(crate) fn confirm_incarnation(&mut self, incarnation: &str) -> Option<String> {
        self.refused_incarnation = None;
        self.set_incarnation(incarnation)
    }

    /// An agent of another source was refused.
    pub(crate) fn refuse_incarnation(&mut self, incarnation: &str) {
        self.refused_incarnation = Some(incarnation.to_owned());
    }

    /// Updates its loss. Returns the stage that applies from now on.
    pub(crate) fn observe_loss(&mut self, grace: Duration, now: Instant, wall: SystemTime) -> Stage {
        let facts = Facts { connected: self.connected, silence: self.end.silence(now) };
        self.budgets.loss_mut().observe(facts, &self.policy.on_loss, grace, now, wall)
    }

    /// Puts its loss and its holds into the state. Returns whether that has to be stored.
    pub(crate) fn put_loss_and_holds(&mut self, now: Instant, wall: SystemTime) -> bool {
        let loss = self.loss().record();
        let news = std::mem::replace(&mut self.state.loss, loss) != loss;
        self.budgets.guards_mut().put_holds(&mut self.state, now, wall) || news
    }

    /// Removes holds that ended from the state.
    pub(crate) fn drop_ended_holds(&mut self) {
        self.budgets.guards().drop_ended_holds(&mut self.state);
    }

    /// Whether anything of it is stored, or was given to be stored.
    pub(crate) fn has_stored_state(&self) -> bool {
        self.versions.were_given() || self.state != BackendState::default()
    }

    /// Continues the versions of an earlier backend.
    pub(crate) fn continue_versions_after(&mut self, last: u64) {
        self.versions = StoredVersions::after(last);
    }

    /// Returns the version of the state that was given to be stored last.
    pub(crate) fn last_version(&self) -> u64 {
        self.versions.last()
    }

    /// A version of the state is stored.
    pub(crate) fn store_version(&mut self, version: u64) {
        self.versions.store(version);
    }

    pub(crate) fn is_version_stored(&self, version: u64) -> bool {
        self.versions.is_stored(version)
    }

    /// Gives the state to be stored, and returns its version.
    pub(crate) fn keep(&mut self, outputs: &mut Vec<Output>) -> u64 {
        let version = self.versions.give();
        outputs.push(Output::Keep { backend: self.name.clone(), version, state: self.state.clone() });
        version
    }

    /// Gives the records of granted removals to be stored, if the guards ask for it.
    pub(crate) fn keep_window(&mut self, wall: SystemTime, outputs: &mut Vec<Output>) {
        let asked = self.budgets.guards_mut().put_records(&mut self.state, wall);
        if asked.contains(&true) {
            let version = self.keep(outputs);
            self.guards_mut().await_version(asked, version);
        }
    }

    /// Returns the size of a Service that the agent sent, as the Gimbal cluster will hold it.
    pub(crate) fn measure(&self, key: &SourceKey, api: EndpointsApi) -> Option<Measured> {
        let service = self.end.service(key)?;
        let count = publishable(service, &self.policy.addresses, api);
        let rules = self.policy.rules(api);
        let target = self.policy.target(&self.name, key, Some(service)).ok();
        let valid = target.is_none_or(|target| Wanted::check(&self.name, key, &target, service, &rules).is_ok());
        Some(Measured { count, bytes: service_len(key, service) as u64, valid })
    }

    /// Returns the size of a Service as measured last.
    pub(crate) fn measured(&self, key: &SourceKey) -> Option<Measured> {
        self.measured.get(key).copied()
    }

    pub(crate) fn all_measured(&self) -> &BTreeMap<SourceKey, Measured> {
        &self.measured
    }

    /// Measures a Service again, because it or the policy changed.
    pub(crate) fn measure_again(&mut self, key: &SourceKey, api: EndpointsApi) {
        match self.measure(key, api) {
            Some(measured) => self.measured.insert(key.clone(), measured),
            None => self.measured.remove(key),
        };
    }
}
