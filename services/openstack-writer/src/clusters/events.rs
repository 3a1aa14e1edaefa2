//! What the registry has to say: reports and facts for controllers, news for operators.

use std::time::Instant;

use gimbal_guard::GuardEvent;
use gimbal_kuryr_model::{DesiredEntry, LoadBalancerReport, ReportedCondition, Text};
use gimbal_kuryr_wire::KuryrReason;
use gimbal_octavia_registry::RegistryEvent;
use gimbal_session::{GoodbyeReason, ReportError};

use super::{Clusters, Namesake, PendingAdoption};

/// The type of the condition that something asked for cannot be had.
const UNSUPPORTED: &str = "Unsupported";

impl Clusters {
    /// Passes reports and facts to their streams, and returns what operators want to know.
    pub fn take_news(&mut self, now: Instant) -> Vec<RegistryEvent> {
        let events = self.registry.take_events();
        for event in &events {
            self.note_hold(event, now);
            self.trace_event(event, now);
            self.tell(event, now);
            if let RegistryEvent::Listed { cluster, found, is_complete } = event {
                self.listed(cluster, found, *is_complete, now);
            }
        }
        for (name, key, mut report) in self.registry.take_reports(now) {
            let Some(state) = self.clusters.get_mut(&name) else { continue };
            for (reason, words) in state.left_out.get(&key).into_iter().flatten() {
                add_left_out(&mut report, *reason, words);
            }
            if let Some(DesiredEntry::LoadBalancer(wanted)) = state.end.entry(&key).map(|entry| &**entry) {
                state.waiting.reported(&key, wanted.generation, &report);
            }
            match state.end.report(key.clone(), report) {
                // The entry has left meanwhile, and no one waits for its report.
                Ok(()) | Err(ReportError::NoEntry) => {}
                Err(ReportError::TooLarge(error)) => {
                    if let Some(untold) = self.lines.tell((name.clone(), "ReportTooLarge"), now) {
                        tracing::warn!(cluster = %name, %key, %error, untold, "a report is too large");
                    }
                }
            }
            self.touched(&name, key);
        }
        events
    }

    /// Tells the controller of a cluster what is known about the cloud.
    pub(super) fn facts_changed(&mut self, name: &Text) {
        let Some(facts) = self.registry.facts(name) else { return };
        let Some(state) = self.clusters.get_mut(name) else { return };
        // Before the cloud was read there is nothing to tell.
        if state.reading.is_none() {
            return;
        }
        if let Err(error) = state.end.set_facts(facts) {
            tracing::error!(cluster = %name, %error, "the facts are too large to be sent");
        }
    }

    pub(super) fn tell(&mut self, event: &RegistryEvent, now: Instant) {
        match event {
            RegistryEvent::FactsChanged { cluster } => self.facts_changed(cluster),
            RegistryEvent::OtherCluster { cluster, uid, balancer } => self.has_namesake(cluster, uid, balancer, now),
            // For the entries that wait for it, and for metrics.
            RegistryEvent::Listed { .. } | RegistryEvent::Served { .. } | RegistryEvent::Removed { .. } => {}
            RegistryEvent::Left { cluster, project, owners: Some(owners), .. } => {
                tracing::warn!(%cluster, %project, owners, "something is left in a project that the policy does not allow any more; it is removed when its owner goes");
            }
            // The cluster can name any, and as many as it likes.
            RegistryEvent::Left { cluster, project, owners: None, is_named: true } => {
                if let Some(untold) = self.lines.tell((cluster.clone(), "Left"), now) {
                    tracing::warn!(%cluster, %project, untold, "an entry names a project that the policy does not allow, and it cannot be read; if something of the cluster is left there, name it in formerProjects");
                }
            }
            RegistryEvent::Left { cluster, project, owners: None, is_named: false } => {
                tracing::error!(%cluster, %project, "a project that the policy does not allow any more cannot be read; what is left there stays when its owner goes");
            }
            RegistryEvent::Unreadable { cluster, project, words } => {
                tracing::error!(%cluster, %project, error = %words, "a project cannot be read; what is wanted there waits, and orphans stay");
            }
            RegistryEvent::BalancerGuard { cluster, event } => self.guarded(cluster, "load balancers", event),
            RegistryEvent::MemberGuard { cluster, event } => self.guarded(cluster, "members", event),
            RegistryEvent::Stuck { cluster, owner, balancer } => {
                tracing::error!(%cluster, %owner, %balancer, "the load balancer is PENDING for too long; only an operator of Octavia can help");
            }
            RegistryEvent::OrphanRemoved { cluster, owner } => {
                tracing::info!(%cluster, %owner, "what was made for an owner that is gone is removed");
            }
            RegistryEvent::ContentWanted { cluster, hash } => {
                if let Some(state) = self.clusters.get_mut(cluster) {
                    state.end.want_content(*hash);
                }
            }
            RegistryEvent::ContentUnwanted { cluster, hash } => {
                if let Some(state) = self.clusters.get_mut(cluster) {
                    state.end.forget_content(hash);
                }
            }
            RegistryEvent::SecretsLeft { cluster, owner, words } => {
                tracing::warn!(%cluster, %owner, error = %words, "certificates of an owner that is gone may be left in the key manager; they are looked for again");
            }
            RegistryEvent::Adopted { cluster, key, balancer, outcome } => {
                tracing::info!(%cluster, %key, %balancer, ?outcome, "an adoption came to its end");
                let is_it = |one: &mut PendingAdoption| one.cluster == *cluster && one.balancer == *balancer;
                for waiting in self.adoptions.extract_if(.., is_it) {
                    if waiting.reply.send(outcome.clone()).is_err() {
                        tracing::debug!("the admin did not wait for the adoption");
                    }
                }
            }
        }
    }
}

/// Says in a report that something is left out. A type of condition is there once.
pub(super) fn add_left_out(report: &mut LoadBalancerReport, reason: KuryrReason, words: &str) {
    match report.conditions.iter_mut().find(|condition| &*condition.kind == UNSUPPORTED) {
        Some(condition) => condition.message = format!("{}; {words}", condition.message).into(),
        None => {
            let (kind, reason) = (UNSUPPORTED.into(), reason.as_str().into());
            report.conditions.push(ReportedCondition { kind, reason, message: words.into() });
        }
    }
}

impl Clusters {
    /// Notes since when a guard holds something.
    fn note_hold(&mut self, event: &RegistryEvent, now: Instant) {
        let (cluster, event, place) = match event {
            RegistryEvent::BalancerGuard { cluster, event } => (cluster, event, 0),
            RegistryEvent::MemberGuard { cluster, event } => (cluster, event, 1),
            _ => return,
        };
        let Some(state) = self.clusters.get_mut(cluster) else { return };
        let held = &mut state.held[place];
        match event {
            // A removal that grows has another ID, and waits since it began.
            GuardEvent::Held(_) => *held = held.or(Some(now)),
            GuardEvent::Ended { .. } | GuardEvent::Released { .. } => *held = None,
            GuardEvent::SnapshotWanted { .. } => {}
        }
    }

    /// Objects in OpenStack carry the name of a cluster and the UID of another one. Whoever may write tags in the project can make
    /// such an object, so it stops nothing where the configuration says which cluster it is.
    fn has_namesake(&mut self, cluster: &Text, uid: &Text, balancer: &Text, now: Instant) {
        let Some(state) = self.clusters.get_mut(cluster) else { return };
        if state.config.uid.is_some() {
            tracing::warn!(%cluster, %uid, %balancer, "a load balancer carries the cluster's name and another UID than clusterUid of the configuration; it is left alone");
            self.registry.confirm(cluster, uid, now);
            return;
        }
        tracing::error!(%cluster, %uid, %balancer, "a load balancer carries the cluster's name and the UID of another cluster; nothing is changed until an admin confirms (AdminService.ConfirmCluster)");
        state.namesake = Some(Namesake { uid: uid.clone(), balancer: balancer.clone() });
        let text = format!("load balancer {balancer} carries this name and the UID {uid} of another cluster");
        self.say_goodbye(cluster, GoodbyeReason::Incarnation, &text);
    }

    fn guarded(&mut self, cluster: &Text, what: &'static str, event: &GuardEvent) {
        log_guard(cluster, what, event);
        if let GuardEvent::SnapshotWanted { .. } = event
            && let Some(state) = self.clusters.get_mut(cluster)
        {
            state.end.request_snapshot([], "the mass-change guard waits for a complete snapshot");
        }
    }
}

fn log_guard(cluster: &Text, what: &'static str, event: &GuardEvent) {
    match event {
        GuardEvent::Held(held) => tracing::warn!(
            %cluster, what, id = held.id, removed = held.endpoints_removed, before = held.endpoints_before,
            "the mass-change guard holds a removal; AdminService.Approve with this id releases it"
        ),
        GuardEvent::Ended { id } => {
            tracing::info!(%cluster, what, id, "the held removal ended: little is missing by now")
        }
        GuardEvent::Released { id, endpoints, by } => {
            tracing::warn!(%cluster, what, id, removed = endpoints, ?by, "the held removal is released");
        }
        GuardEvent::SnapshotWanted { id } => tracing::info!(%cluster, what, id, "a complete snapshot is asked for"),
    }
}
