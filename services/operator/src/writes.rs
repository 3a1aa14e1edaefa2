//! Carries out what was decided.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use gimbal_certificates::SignError;
use gimbal_kubernetes_client::ApiError;
use gimbal_kubernetes_objects::{LifecycleMeta, Object};
use gimbal_operator_core::{
    DiscovererFacts, MANAGER, ManagedKind, NextSteps, ObjectId, PairSecret, ReadyStatement, Step, WantedDiscoverer,
    WantedObject, decide, left_over, made_notice, object_ids, removed_notice,
};
use jiff::Timestamp;

use crate::known::KnownObjects;
use crate::metrics::OperatorMetrics;
use crate::owner::Operator;
use crate::pairs::salt;

/// Most rounds of writes for one discoverer before others have their turn.
const ROUNDS: usize = 4;

/// Why a step was not carried out.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error("{0}: {1}")]
    Api(String, ApiError),
    #[error("no certificate could be signed: {0}")]
    Sign(#[from] SignError),
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    /// An object of somebody else has the name.
    Taken,
    /// The object is another one than was read: the watch shows it.
    Moved,
}

impl Operator {
    /// Removes what no Backend has any more.
    pub(crate) async fn remove_left_over(&mut self, discoverers: &BTreeMap<String, Option<WantedDiscoverer>>) {
        let marked = self.marked();
        let owners: BTreeSet<&str> =
            marked.values().flat_map(|one| &one.metadata.owner_references).map(|owner| &*owner.uid).collect();
        self.deleted.retain(|uid| owners.contains(uid.as_str()));
        let steps = left_over(&marked, discoverers, &self.settings);
        let is_left = |id: &ObjectId| steps.iter().any(|step| matches!(step, Step::Delete(left, _) if left == id));
        self.undeleted.keep(is_left);
        for step in steps {
            let Step::Delete(id, metadata) = step else { continue };
            // That all Backends were deleted at once, unseen, is the least likely of what an empty list can mean. Kubernetes removes
            // what has no owner any more.
            let seen = metadata.owner_references.iter().any(|owner| self.deleted.contains(&*owner.uid));
            if self.backends.is_empty() && !seen {
                self.undeleted.done(&id);
                continue;
            }
            if self.undeleted.waits(&id, Instant::now()).is_some() {
                continue;
            }
            self.health.beat();
            match self.delete(&id, &metadata).await {
                Ok(()) => {
                    self.undeleted.done(&id);
                }
                // This process does not lead any more.
                Err(ApiError::Withheld) => return,
                Err(error) => {
                    if self.undeleted.failed(id.clone(), Instant::now(), ()) {
                        tracing::warn!(object = %id, %error, "an object that no Backend has any more could not be deleted");
                    }
                    // A refusal is about one object, and silence about all.
                    if error.nobody_answered() {
                        return;
                    }
                }
            }
        }
    }

    /// Writes what a discoverer lacks. Returns what is said of it, if enough is known.
    pub(crate) async fn bring_about(&mut self, discoverer: &WantedDiscoverer) -> Option<ReadyStatement> {
        let name = discoverer.name.as_str();
        if let Some(stated) = self.failures.waits(name, Instant::now()) {
            return stated.clone();
        }
        for _ in 0..ROUNDS {
            let decision = self.decide(discoverer);
            if decision.steps.is_empty() {
                self.failures.done(name);
                return decision.stated;
            }
            for step in decision.steps {
                self.health.beat();
                match self.carry_out(step, discoverer).await {
                    Ok(Outcome::Done) => {}
                    // What follows from that is decided anew.
                    Ok(Outcome::Taken) => break,
                    // What is known is not what there is: the watch has to show it first.
                    Ok(Outcome::Moved) => return self.later(name, decision.stated),
                    Err(error) => return self.failed(name, &error),
                }
            }
        }
        // Somebody changes it each time.
        let stated = self.decide(discoverer).stated;
        self.later(name, stated)
    }

    /// Ends the round of a discoverer until the watches have shown more.
    fn later(&mut self, name: &str, stated: Option<ReadyStatement>) -> Option<ReadyStatement> {
        self.failures.failed(name.to_owned(), Instant::now(), stated.clone());
        stated
    }

    fn decide(&self, discoverer: &WantedDiscoverer) -> NextSteps {
        // Without a pair there is no pod, whose annotation the digest is in.
        let salt = self.pair(discoverer).map(salt).unwrap_or_default();
        let ids = object_ids(discoverer, &self.settings);
        let observed = ids.into_iter().filter_map(|id| self.observe(&id).map(|observed| (id, observed))).collect();
        let facts = DiscovererFacts {
            observed: &observed,
            deployment: self.deployments.get(&discoverer.object_name()),
            credentials: &self.secrets.state(discoverer.secret(), salt.as_bytes()),
            authority: self.signer.state(),
            pair: &self.signer.judge(discoverer, self.pair(discoverer), Timestamp::now()),
            taken: &self.taken,
            accepted: &self.accepted,
        };
        decide(discoverer, &self.settings, &facts)
    }

    fn failed(&mut self, name: &str, error: &StepError) -> Option<ReadyStatement> {
        // Not sent: this process does not lead any more.
        if matches!(error, StepError::Api(_, ApiError::Withheld)) {
            return None;
        }
        let unanswered = matches!(error, StepError::Api(_, api) if api.nobody_answered());
        let stated = (!unanswered).then(|| ReadyStatement::not("WriteRefused", error.to_string()));
        if self.failures.failed(name.to_owned(), Instant::now(), stated.clone()) {
            tracing::warn!(backend = name, %error, "a write for its discoverer failed; it is tried again");
        }
        stated
    }

    async fn carry_out(&mut self, step: Step, discoverer: &WantedDiscoverer) -> Result<Outcome, StepError> {
        match step {
            Step::Create(wanted) => self.write(wanted, discoverer, false).await,
            Step::Apply(wanted) => self.write(wanted, discoverer, true).await,
            Step::Sign(there) => self.sign(discoverer, there).await,
            Step::Delete(id, metadata) => match self.delete(&id, &metadata).await {
                Ok(()) => Ok(Outcome::Done),
                Err(error) => Err(StepError::Api(format!("delete {id}"), error)),
            },
        }
    }

    async fn write(
        &mut self,
        wanted: WantedObject,
        discoverer: &WantedDiscoverer,
        exists: bool,
    ) -> Result<Outcome, StepError> {
        let (id, sent) = (wanted.id(), wanted.body());
        let there = self.observe(&id);
        let (cluster, metrics) = (&self.permitted, &self.metrics);
        let outcome = match &wanted {
            WantedObject::ServiceAccount(one) => send(cluster, metrics, &mut self.accounts, one, exists).await,
            WantedObject::NetworkPolicy(one) => send(cluster, metrics, &mut self.policies, one, exists).await,
            WantedObject::Deployment(one) => send(cluster, metrics, &mut self.deployments, one, exists).await,
        };
        let outcome = self.settle(&id, outcome, exists)?;
        // What the API server made of it may be something else.
        if let Some(made) = self.observe(&id).filter(|_| outcome == Outcome::Done) {
            // A webhook may undo each change: that is no news.
            let is_other = there.is_none_or(|there| there.body != made.body);
            if id.kind == ManagedKind::Deployment && is_other {
                self.notices.push(&made_notice(discoverer, &self.settings, &id, exists));
            }
            self.accepted.insert(id, (sent, made.body));
        }
        Ok(outcome)
    }

    async fn sign(
        &mut self,
        discoverer: &WantedDiscoverer,
        there: Option<LifecycleMeta>,
    ) -> Result<Outcome, StepError> {
        let signed = self.signer.sign(discoverer, &self.settings, self.lifetime, self.pair(discoverer))?;
        let Some(mut secret) = signed else { return Ok(Outcome::Done) };
        let (exists, name) = (there.is_some(), secret.metadata.meta.name.to_string());
        if let Some(there) = there {
            secret.metadata.meta.uid = there.meta.uid;
        }
        let outcome = send::<PairSecret>(&self.permitted, &self.metrics, &mut self.pairs, &secret, exists).await;
        let outcome = self.settle(&ObjectId { kind: ManagedKind::Secret, name }, outcome, exists)?;
        if outcome == Outcome::Done {
            self.metrics.signed();
            tracing::info!(backend = %discoverer.name, "a certificate was signed");
        }
        Ok(outcome)
    }

    fn settle(
        &mut self,
        id: &ObjectId,
        outcome: Result<Outcome, ApiError>,
        exists: bool,
    ) -> Result<Outcome, StepError> {
        let verb = if exists { "change" } else { "create" };
        match &outcome {
            Ok(Outcome::Done) => {
                self.taken.remove(id);
                tracing::info!(object = %id, "{verb}d");
            }
            Ok(Outcome::Taken) => {
                tracing::warn!(object = %id, "somebody else's object has the name; it stays as it is");
                self.taken.insert(id.clone());
            }
            Ok(Outcome::Moved) => tracing::debug!(object = %id, "it is another one by now"),
            Err(_) => {}
        }
        outcome.map_err(|error| StepError::Api(format!("{verb} {id}"), error))
    }

    pub(crate) async fn delete(&mut self, id: &ObjectId, metadata: &LifecycleMeta) -> Result<(), ApiError> {
        let (kind, meta) = (id.kind.kind(), &metadata.meta);
        let answer = self.permitted.delete(kind, &meta.namespace, &id.name, &meta.uid, "").await;
        self.metrics.written(kind.kind, "delete", answer.as_ref().err());
        let notice = removed_notice(id, metadata).filter(|_| id.kind == ManagedKind::Deployment && answer.is_ok());
        notice.iter().for_each(|notice| self.notices.push(notice));
        match answer {
            // Gone, or another one of its name: the watch shows it.
            Ok(()) | Err(ApiError::NotFound { .. } | ApiError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
        tracing::info!(object = %id, "deleted");
        self.accepted.remove(id);
        match id.kind {
            ManagedKind::ServiceAccount => self.accounts.remove(&id.name, &meta.uid),
            ManagedKind::NetworkPolicy => self.policies.remove(&id.name, &meta.uid),
            ManagedKind::Deployment => self.deployments.remove(&id.name, &meta.uid),
            ManagedKind::Secret => self.pairs.remove(&id.name, &meta.uid),
        };
        Ok(())
    }
}

/// Creates an object, or changes the one that has its UID, and takes the answer as what is known.
async fn send<T: Object>(
    cluster: &gimbal_kubernetes_client::Cluster,
    metrics: &OperatorMetrics,
    known: &mut KnownObjects<T>,
    object: &T,
    exists: bool,
) -> Result<Outcome, ApiError> {
    let answer = match exists {
        true => cluster.apply(object, MANAGER).await,
        false => cluster.create(object).await,
    };
    metrics.written(T::KIND.kind, if exists { "apply" } else { "create" }, answer.as_ref().err());
    match answer {
        Ok(made) => {
            known.put(made);
            Ok(Outcome::Done)
        }
        Err(ApiError::AlreadyExists { .. }) => Ok(Outcome::Taken),
        Err(ApiError::NotFound { namespace: false, .. } | ApiError::Conflict { .. }) if exists => Ok(Outcome::Moved),
        Err(error) => Err(error),
    }
}
