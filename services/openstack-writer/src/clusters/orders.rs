//! What administrators order about a cluster's marks, beside what its controller wants.

use std::collections::BTreeSet;
use std::time::Instant;

use gimbal_kuryr_model::{DesiredEntry, DesiredKey, DesiredKind, Text};
use gimbal_octavia_registry::sharing_owner;
use tokio_util::sync::CancellationToken;

use super::Clusters;
use crate::marked::{MarkScope, RemovalProgress};
use crate::stream_life::StreamLife;

/// Why an order is not carried out.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderRefusal {
    /// The configuration does not say where its objects are.
    #[error(
        "cluster {0} is not configured: list it with mode: quarantine and its clusterUid, so that its projects and its mark \
         are known"
    )]
    NotConfigured(Text),
    /// Its controller would make again what is removed.
    #[error(
        "cluster {0} is not in quarantine, so its controller would make again what is removed: set its mode to quarantine first \
         (mode: quarantine in the configuration of openstack-writer, which is read again within seconds), and order this again"
    )]
    Admitted(Text),
    /// Its objects cannot be distinguished from those of others.
    #[error("the UID of cluster {0} is not known: set clusterUid in the configuration")]
    NoUid(Text),
    /// It is being removed already.
    #[error(
        "the removal {id} is under way, and something of {left} owners is left: order this again when it has ended; to stop it, set \
         the cluster's mode to admit"
    )]
    UnderWay {
        /// As it was ordered.
        id: String,
        /// Owners of which something is left.
        left: u64,
    },
    /// Somebody wants it.
    #[error(
        "cluster {0} wants the load balancer for {1}; to keep it without its Service, set the cluster's mode to quarantine, \
         delete the Service, order this again, and set the mode back"
    )]
    Wanted(Text, DesiredKey),
    /// Its removal has begun.
    #[error("what was made for {1} in cluster {0} is being removed, and cannot be handed over any more")]
    Removing(Text, Text),
    /// A change of it is under way.
    #[error("a change of what was made for {1} in cluster {0} is under way; order it again in a moment")]
    Changing(Text, Text),
    /// The same was ordered before.
    #[error(
        "the mark of {1} in cluster {0} is being taken off already; order it again in a moment to see what is left"
    )]
    Releasing(Text, Text),
    /// It is not known whether the cluster wants it.
    #[error(
        "what cluster {0} wants is not known: its controller is not connected, or has not said everything; set the cluster's \
         mode to quarantine first if it does not come back"
    )]
    Unknown(Text),
}

impl OrderRefusal {
    fn under_way(progress: &RemovalProgress) -> Self {
        Self::UnderWay { id: progress.id.clone(), left: progress.left() }
    }
}

/// While this is so, changes of an order may be sent.
#[derive(Debug, Clone)]
pub(crate) enum OrderPermit {
    /// The cluster is in quarantine, so that its controller changes nothing.
    Quarantine(CancellationToken),
    /// The controller is heard, as for every change.
    Stream(StreamLife, std::time::Duration),
}

impl OrderPermit {
    pub(crate) fn holds(&self) -> bool {
        match self {
            Self::Quarantine(ended) => !ended.is_cancelled(),
            Self::Stream(life, age) => life.is_younger(*age, Instant::now()),
        }
    }
}

/// Whether an entry is an owner's, or shares the load balancer of this group.
fn is_of(entry: &DesiredEntry, owner: &Text) -> bool {
    entry.owner() == owner || sharing_owner(entry).as_ref() == Some(owner)
}

fn release_key(owner: &Text) -> DesiredKey {
    DesiredKey::new(DesiredKind::LoadBalancer, "", owner.clone())
}

impl Clusters {
    /// Returns where the marked objects of a cluster may be.
    pub(crate) fn mark_scope(&self, name: &Text) -> Result<MarkScope, OrderRefusal> {
        let state = self.clusters.get(name).ok_or_else(|| OrderRefusal::NotConfigured(name.clone()))?;
        let mut settings = state.settings().ok_or_else(|| OrderRefusal::NoUid(name.clone()))?;
        // What was made in a project that the policy named before is marked as well. The usual project stays first.
        let mut known = BTreeSet::new();
        let former = std::mem::take(&mut settings.former_projects);
        settings.projects.extend(former);
        settings.projects.retain(|project| known.insert(project.clone()));
        let facts = state.reading.as_ref().map(|reading| state.config.policy.facts(&reading.known));
        Ok(MarkScope { settings, facts: facts.unwrap_or_default() })
    }

    /// Returns where the objects of a cluster are that may be removed altogether.
    pub(crate) fn removable(&self, name: &Text) -> Result<MarkScope, OrderRefusal> {
        let scope = self.mark_scope(name)?;
        if !scope.settings.quarantine {
            return Err(OrderRefusal::Admitted(name.clone()));
        }
        match self.removals.get(name).filter(|progress| progress.left() > 0) {
            Some(progress) => Err(OrderRefusal::under_way(progress)),
            None => Ok(scope),
        }
    }

    /// Takes note that everything of a cluster is being removed. The removal ends when the token is cancelled: the cluster is
    /// admitted again.
    pub(crate) fn begin_removal(
        &mut self,
        name: &Text,
        progress: RemovalProgress,
    ) -> Result<CancellationToken, OrderRefusal> {
        self.removable(name)?;
        if let Some(owner) = self.clusters.get(name).and_then(|state| state.released.first()) {
            return Err(OrderRefusal::Releasing(name.clone(), owner.clone()));
        }
        self.removals.insert(name.clone(), progress);
        Ok(self.quarantine_token(name))
    }

    /// Takes note that a removal has ended.
    pub(crate) fn end_removal(&mut self, name: &Text, id: &str) {
        self.removals.retain(|other, progress| other != name || progress.id != id);
    }

    /// Returns the removal of a cluster that is under way.
    pub(crate) fn removal(&self, name: &str) -> Option<&RemovalProgress> {
        self.removals.get(name)
    }

    /// Returns whether an owner may be released.
    pub(crate) fn may_release(&self, name: &Text, owner: &Text) -> Result<(), OrderRefusal> {
        let state = self.clusters.get(name).ok_or_else(|| OrderRefusal::NotConfigured(name.clone()))?;
        let quarantine = state.config.quarantine;
        let knows = state.is_connected() && state.is_current && state.is_complete();
        if state.released.contains(owner) {
            return Err(OrderRefusal::Releasing(name.clone(), owner.clone()));
        }
        if let Some(progress) = self.removals.get(name).filter(|progress| progress.left() > 0) {
            return Err(OrderRefusal::under_way(progress));
        }
        if !quarantine && !knows {
            return Err(OrderRefusal::Unknown(name.clone()));
        }
        // In quarantine nothing is removed for an owner that goes, so people may have it.
        let is_wanted = |entry: &DesiredEntry| is_of(entry, owner) && !(quarantine && entry.is_deleting());
        let wanted = state.end.entries().find(|(_, entry)| is_wanted(entry)).map(|(key, _)| key.clone());
        if let Some(key) = wanted {
            return Err(OrderRefusal::Wanted(name.clone(), key));
        }
        // Half of it would be gone, and the rest without a mark.
        if !quarantine && self.registry.is_removing(name, owner) {
            return Err(OrderRefusal::Removing(name.clone(), owner.clone()));
        }
        match self.registry.is_changing(name, owner) {
            true => Err(OrderRefusal::Changing(name.clone(), owner.clone())),
            false => Ok(()),
        }
    }

    /// Lets go an owner that is to be released: until [`Self::end_release`] nothing is made or removed for it.
    pub(crate) fn begin_release(
        &mut self,
        name: &Text,
        owner: &Text,
        now: Instant,
    ) -> Result<OrderPermit, OrderRefusal> {
        self.may_release(name, owner)?;
        let age = self.registry.settings().heartbeat_age;
        let state = self.clusters.get_mut(name).ok_or_else(|| OrderRefusal::NotConfigured(name.clone()))?;
        state.released.insert(owner.clone());
        let (quarantine, life) = (state.config.quarantine, state.life.clone());
        self.registry.refuse(name, &release_key(owner), &DesiredEntry::Deleting { owner: owner.clone() }, now);
        Ok(match quarantine {
            true => OrderPermit::Quarantine(self.quarantine_token(name)),
            false => OrderPermit::Stream(life, age),
        })
    }

    /// Takes note that a release has ended, whatever came of it.
    pub(crate) fn end_release(&mut self, name: &Text, owner: &Text, now: Instant) {
        self.registry.forget(name, &release_key(owner), now);
        // What was seen before carries a mark that is gone.
        self.registry.look_anew(name, owner, now);
        let Some(state) = self.clusters.get_mut(name) else { return };
        state.released.remove(owner);
        let wanted = state.end.entries().filter(|(_, entry)| is_of(entry, owner));
        let waiting: Vec<DesiredKey> = wanted.map(|(key, _)| key.clone()).collect();
        for key in waiting {
            self.check(name, &key, now);
        }
        self.prove(name);
    }

    fn quarantine_token(&mut self, name: &Text) -> CancellationToken {
        self.quarantines.entry(name.clone()).or_default().clone()
    }

    /// Ends what was ordered for a cluster in quarantine: its controller is followed again.
    pub(super) fn quarantine_ended(&mut self, name: &Text) {
        if let Some(token) = self.quarantines.remove(name) {
            token.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use gimbal_octavia_registry::{ClusterGuards, RegistrySettings};

    use super::*;
    use crate::config::{ClusterConfig, ClustersConfig};
    use crate::policy::ClusterPolicy;

    fn prod1(quarantine: bool, policy: ClusterPolicy) -> ClustersConfig {
        let cluster = ClusterConfig {
            name: "prod1".parse().unwrap(),
            identity: "spiffe://prod1".to_owned(),
            uid: Some("uid".into()),
            former_uids: BTreeSet::new(),
            policy,
            guards: ClusterGuards::default(),
            quarantine,
        };
        ClustersConfig { clusters: vec![cluster], ..ClustersConfig::default() }
    }

    /// Whoever reads it knows what to do.
    #[test]
    #[allow(clippy::disallowed_methods)]
    fn a_removal_that_is_refused_says_what_to_do() {
        let now = Instant::now();
        let all = |quarantine| {
            let config = prod1(quarantine, ClusterPolicy { project: "own".into(), ..ClusterPolicy::default() });
            Clusters::new(RegistrySettings::default(), &config, 0, now)
        };
        let name = "prod1".into();
        let refused = all(false).removable(&name).unwrap_err().to_string();
        assert!(
            refused.starts_with("cluster prod1 is not in quarantine, so its controller would make again"),
            "{refused}"
        );
        assert!(refused.contains("(mode: quarantine in the configuration of openstack-writer"), "{refused}");
        let mut all = all(true);
        all.begin_removal(&name, RemovalProgress::new("prod1-3-0a".to_owned(), 2)).unwrap();
        let refused = all.removable(&name).unwrap_err().to_string();
        assert!(
            refused.starts_with("the removal prod1-3-0a is under way, and something of 2 owners is left: "),
            "{refused}"
        );
        assert!(refused.ends_with("to stop it, set the cluster's mode to admit"), "{refused}");
    }

    /// What was made in a project that was taken out of the policy is forgotten, or removed, like the rest.
    #[test]
    #[allow(clippy::disallowed_methods)]
    fn projects_that_the_policy_named_before_are_looked_into() {
        let set = |names: &[&str]| names.iter().map(|name| Text::from(*name)).collect();
        let policy = ClusterPolicy {
            project: "own".into(),
            projects: set(&["second"]),
            former_projects: set(&["old", "second"]),
            ..ClusterPolicy::default()
        };
        let all = Clusters::new(RegistrySettings::default(), &prod1(true, policy), 0, Instant::now());
        let name = "prod1".into();
        for scope in [all.mark_scope(&name).unwrap(), all.removable(&name).unwrap()] {
            // Each once, and all of them are projects to be read, not such as may be unreadable.
            let projects: Vec<&str> = scope.settings.projects.iter().map(|project| &**project).collect();
            assert_eq!((projects, scope.settings.former_projects.len()), (vec!["own", "second", "old"], 0));
        }
    }
}
