//! What agents say, and how it changes the desired state.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use gimbal_model::{BackendName, SourceKey, TargetKey};
use gimbal_session::{
    AgentMessage, Data, Frame, Goodbye, GoodbyeReason, Hello, Outcome, PROTOCOL, Scope, WriterMessage, WriterOutput,
};

use crate::{BackendState, Claim, Journey, Output, Reconciler, Urgency};

/// The goodbye to agents of a leader that stands aside.
const ASIDE: &str = "this writer cannot renew its lease: another may lead";

impl Reconciler {
    /// Stands aside, or leads on, after the lease could not be renewed for long.
    ///
    /// No other leader is known, but there may be one, so agents are sent to look for it: while this process is
    /// aside it has no streams and accepts none. It forgets nothing of what agents said, because if it leads on most
    /// of them have nothing new to send. Their absence is its own doing: no loss policy applies meanwhile, and once
    /// it leads on they have as long to come back as to a new leader.
    pub fn stand_aside(&mut self, aside: bool) {
        if !self.leadership.set_aside(aside) {
            return;
        }
        if aside {
            self.end_all_streams(ASIDE);
        } else {
            self.desired.values_mut().for_each(|backend| backend.loss_mut().begin_grace());
        }
    }

    /// Opens a stream for an agent whose certificate names the backend `name`. Returns the stream's generation, which
    /// fences every older stream of the backend.
    ///
    /// # Errors
    /// Returns the goodbye to answer with. A refused stream fences no other.
    pub fn open(&mut self, name: &BackendName, hello: &Hello, now: Instant) -> Result<u64, Goodbye> {
        self.admit(name, hello)?;
        self.supersede(name);
        let generation = self.leadership.next_generation();
        if let Some(backend) = self.desired.get_mut(name) {
            let outputs = backend.open_stream(hello, generation, now);
            self.carry_out(name, outputs, Urgency::Bulk, now);
            // An equal digest may have completed the view.
            self.enqueue_moves(name, now);
        }
        Ok(generation)
    }

    /// Checks leadership, then identity, then protocol, then incarnation.
    fn admit(&mut self, name: &BackendName, hello: &Hello) -> Result<(), Goodbye> {
        let refuse = |reason, message| Err(Goodbye { reason, message, retry_after: None });
        if !self.leadership.holds_lease() {
            return refuse(GoodbyeReason::NotLeader, "this writer does not lead".into());
        }
        if self.leadership.is_aside() {
            return refuse(GoodbyeReason::NotLeader, ASIDE.into());
        }
        let Some(backend) = self.desired.get_mut(name).filter(|backend| backend.is_listed()) else {
            return refuse(GoodbyeReason::UnknownBackend, format!("backend {name} is not configured"));
        };
        if backend.is_being_decommissioned() {
            let message = format!("backend {name} is being decommissioned");
            return refuse(GoodbyeReason::UnknownBackend, message);
        }
        if backend.policy().leaving && *backend.state() == BackendState::default() {
            // What it published could only be removed by a record, and its object may go at any moment.
            let message = format!("backend {name} is to leave, and nothing of it is recorded");
            return refuse(GoodbyeReason::UnknownBackend, message);
        }
        if hello.backend != name.as_str() {
            let message =
                format!("the certificate is backend {name}'s, but the agent calls itself {:?}", hello.backend);
            return refuse(GoodbyeReason::UnknownBackend, message);
        }
        if !(hello.protocol.0..=hello.protocol.1).contains(&PROTOCOL) {
            let message = format!(
                "the agent speaks protocol {} to {}, this writer {PROTOCOL}",
                hello.protocol.0, hello.protocol.1
            );
            return refuse(GoodbyeReason::Protocol, message);
        }
        if hello.source_incarnation.is_empty() {
            if hello.held.is_some() {
                let message = format!(
                    "the agent of backend {name} offers data and does not say of which source; it must say that in its Hello"
                );
                return refuse(GoodbyeReason::Incarnation, message);
            }
        } else {
            match &backend.state().incarnation {
                Some(known) if *known != hello.source_incarnation => {
                    let message = format!(
                        "backend {name} belongs to source {known}, not {}; an admin must confirm the change (AdminService.ConfirmIncarnation)",
                        hello.source_incarnation
                    );
                    backend.refuse_incarnation(&hello.source_incarnation);
                    return refuse(GoodbyeReason::Incarnation, message);
                }
                Some(_) => {}
                None => {
                    backend.set_incarnation(&hello.source_incarnation);
                    backend.keep(&mut self.outputs);
                }
            }
        }
        Ok(())
    }

    fn supersede(&mut self, name: &BackendName) {
        let Some(backend) = self.desired.get_mut(name).filter(|backend| backend.is_connected()) else { return };
        let goodbye = Goodbye {
            reason: GoodbyeReason::Superseded,
            message: format!("a newer stream of backend {name} took over"),
            retry_after: None,
        };
        let generation = backend.generation();
        let message = WriterMessage::Goodbye(goodbye);
        self.outputs.push(Output::Send { backend: name.clone(), generation, message });
        self.outputs.push(Output::Close { backend: name.clone(), generation });
    }

    /// Takes a message of a stream. Messages of older streams are dropped.
    pub fn receive(&mut self, name: &BackendName, generation: u64, message: AgentMessage, now: Instant) {
        let Some(backend) = self.desired.get_mut(name).filter(|b| b.is_connected() && b.generation() == generation)
        else {
            return;
        };
        let urgency = match &message {
            AgentMessage::Data(Data { frame: Frame::Delta { .. }, .. }) => Urgency::Fresh,
            _ => Urgency::Bulk,
        };
        let measured = match &message {
            AgentMessage::Data(data) => data.frame.age().map(|age| Journey::begin(age, data.trace, now)),
            _ => None,
        };
        let was_scarce = backend.end().is_credit_scarce();
        let outputs = backend.end_mut().receive(message, now);
        if !was_scarce && backend.end().is_credit_scarce() {
            self.end_waits_of(name);
        }
        if let Some(journey) = measured {
            self.begin_journeys(name, &outputs, journey);
        }
        self.carry_out(name, outputs, urgency, now);
    }

    /// Measures each change of a frame from the age of the oldest on.
    fn begin_journeys(&mut self, name: &BackendName, outputs: &[WriterOutput], journey: Journey) {
        let Some(backend) = self.desired.get_mut(name) else { return };
        for output in outputs {
            if let WriterOutput::Changed(key) | WriterOutput::Removed(key) = output {
                backend.begin_journey(key, journey);
            }
        }
    }

    /// A stream was closed. Nothing else changes: the last known state stays.
    pub fn closed(&mut self, name: &BackendName, generation: u64) {
        if let Some(backend) = self.desired.get_mut(name).filter(|b| b.generation() == generation) {
            backend.close_stream();
        }
    }

    pub(super) fn end_all_streams(&mut self, why: &str) {
        for backend in self.desired.values_mut().filter(|backend| backend.is_connected()) {
            let goodbye = Goodbye { reason: GoodbyeReason::NotLeader, message: why.into(), retry_after: None };
            let (name, generation) = (backend.name().clone(), backend.generation());
            let message = WriterMessage::Goodbye(goodbye);
            self.outputs.push(Output::Send { backend: name.clone(), generation, message });
            self.outputs.push(Output::Close { backend: name, generation });
            backend.close_stream();
        }
    }

    pub(super) fn carry_out(&mut self, name: &BackendName, outputs: Vec<WriterOutput>, urgency: Urgency, now: Instant) {
        for output in outputs {
            match output {
                WriterOutput::Changed(key) => self.changed(name, &key, urgency, now),
                WriterOutput::Removed(key) => self.removed(name, key, urgency, now),
                WriterOutput::ScopeComplete { scope, seq, begun } => self.scope_complete(name, &scope, seq, begun, now),
                // Unknown scopes matter only when something would be deleted, and are looked up then.
                WriterOutput::ScopeUnknown => {}
                WriterOutput::Unreadable { key, .. } => self.unreadable(name, key, now),
                WriterOutput::Close => {
                    if let Some(backend) = self.desired.get_mut(name) {
                        let generation = backend.generation();
                        for message in backend.end_mut().take_messages() {
                            self.outputs.push(Output::Send { backend: name.clone(), generation, message });
                        }
                        backend.close_stream();
                        self.outputs.push(Output::Close { backend: name.clone(), generation });
                    }
                }
            }
        }
    }

    fn changed(&mut self, name: &BackendName, key: &SourceKey, urgency: Urgency, now: Instant) {
        let claim = Claim { backend: name.clone(), key: key.clone() };
        let before = self.desired.get(name).and_then(|backend| backend.routes().current(key).cloned());
        self.desired.measure(&claim);
        let target = self.route(&claim);
        // A changed header may lead the Service to another target; the one that it leaves is decided again too.
        let left = before.filter(|before| Some(before) != target.as_ref());
        for concerned in target.into_iter().chain(left) {
            self.update_guard(&concerned, now);
            self.enqueue(&concerned, name, urgency);
        }
    }

    fn removed(&mut self, name: &BackendName, key: SourceKey, urgency: Urgency, now: Instant) {
        let claim = Claim { backend: name.clone(), key };
        self.desired.measure(&claim);
        let targets = self.leave(&claim);
        if targets.is_empty() {
            self.left(&claim);
        }
        for target in targets {
            self.update_guard(&target, now);
            self.enqueue(&target, name, urgency);
        }
    }

    /// A Service that cannot be read is not gone: the targets that it was leaving are decided again.
    fn unreadable(&mut self, name: &BackendName, key: Option<SourceKey>, now: Instant) {
        self.counters.unreadable += 1;
        let Some(key) = key else { return };
        let claim = Claim { backend: name.clone(), key };
        let places: Vec<TargetKey> = self.desired.old_places(&claim).cloned().collect();
        for place in places {
            self.update_guard(&place, now);
            self.enqueue(&place, name, Urgency::Fresh);
        }
    }

    /// None of the objects of a removed Service is left.
    pub(super) fn left(&mut self, claim: &Claim) {
        self.report(claim, Outcome::Applied);
        if let Some(backend) = self.desired.get_mut(&claim.backend) {
            backend.end_mut().forget_removed(&claim.key);
        }
    }

    /// A complete snapshot proves absence: objects of this backend in its scope go if the snapshot does not contain
    /// their Service. The stream's end reports the Services that it held itself; this finds those that only the
    /// Gimbal cluster knows.
    fn scope_complete(&mut self, name: &BackendName, scope: &Scope, seq: u64, begun: Instant, now: Instant) {
        let orphans: Vec<(TargetKey, Claim)> = self
            .targets
            .of(name.as_str())
            .filter_map(|(key, target)| {
                let claim = target.belongs_to(key)?;
                let theirs = claim.backend == *name && scope.contains(&claim.key.namespace);
                (theirs && !target.claims().contains(&claim)).then(|| (key.clone(), claim))
            })
            .collect();
        for (target, claim) in orphans {
            if let Some(backend) = self.desired.get_mut(name).filter(|b| b.end().service(&claim.key).is_none()) {
                backend.end_mut().expect(&claim.key, seq);
                self.leave_place(&claim, &target);
            }
            self.update_guard(&target, now);
            self.enqueue(&target, name, Urgency::Bulk);
        }
        self.enqueue_moves(name, now);
        if self.release_covered(name, scope, begun, now) {
            self.enqueue_backend(name);
        }
    }

    /// Lets a complete snapshot confirm the held removals that it covers, now that all it says has been applied.
    /// Returns whether any is released.
    fn release_covered(&mut self, name: &BackendName, scope: &Scope, begun: Instant, now: Instant) -> bool {
        if !self.cluster.is_listed() {
            return false;
        }
        let held = self.held_claims(name).filter(|(_, claim)| scope.contains(&claim.key.namespace));
        let covered: BTreeSet<TargetKey> = held.map(|(key, _)| key.clone()).collect();
        let Some(backend) = self.desired.get_mut(name) else { return false };
        let all = backend.end().is_complete();
        let covers = |key: &TargetKey| covered.contains(key);
        backend.guards_mut().snapshot_complete(begun, all, covers, now)
    }

    /// Requests a snapshot that covers all held removals, including those of source namespaces that are empty now.
    pub(super) fn ask_for_held(&mut self, name: &BackendName) {
        let namespaces: BTreeSet<Arc<str>> = self.held_claims(name).map(|(_, claim)| claim.key.namespace).collect();
        if let Some(backend) = self.desired.get_mut(name) {
            backend.end_mut().request_snapshot(namespaces, "a complete snapshot confirms a held removal, or ends it");
        }
    }

    /// Returns the targets of a backend whose removal is held, each with the claim that its objects belong to.
    fn held_claims(&self, name: &BackendName) -> impl Iterator<Item = (&TargetKey, Claim)> {
        let held = self.desired.get(name).into_iter().flat_map(|backend| backend.guards().held_targets());
        held.filter_map(|key| {
            let target = self.targets.get(key)?;
            Some((key, target.belongs_to(key)?))
        })
    }

    /// Enqueues all targets of a backend, including those that hold its endpoints and wait in another backend's turn.
    pub(super) fn enqueue_backend(&mut self, name: &BackendName) {
        let theirs: Vec<TargetKey> = self
            .targets
            .of(name.as_str())
            .filter(|(_, target)| self.backend_of(target).as_ref() == Some(name) || target.counted_for() == Some(name))
            .map(|(key, _)| key.clone())
            .collect();
        for target in theirs {
            self.enqueue(&target, name, Urgency::Bulk);
        }
    }
}
