//! Which cluster has the UID of a kube-system.
//!
//! Unless the configuration says it (`clusterUid`), a controller says it of its own cluster, and may say that of another one.

use gimbal_kuryr_model::Text;
use gimbal_session::GoodbyeReason;

use super::Clusters;

impl Clusters {
    /// Takes note that the controller of a cluster says this UID. Another cluster that has it loses it, if the configuration or
    /// what is in OpenStack says that it never was its own.
    ///
    /// # Errors
    /// Returns why the cluster cannot have it.
    pub(super) fn claim_uid(&mut self, name: &Text, uid: &str) -> Result<(), String> {
        if let Some(holder) = self.holder(name, uid) {
            let is_holders = self.is_configured(&holder, uid);
            let is_refuted = self.clusters.get(&holder).is_some_and(|state| state.namesake.is_some());
            if is_holders || !(is_refuted || self.is_configured(name, uid)) {
                let message =
                    format!("the UID {uid} of kube-system is that of cluster {holder}; each cluster has its own");
                if is_holders {
                    return Err(message);
                }
                if let Some(state) = self.clusters.get_mut(name) {
                    state.refused_uid = Some(uid.into());
                }
                return Err(format!(
                    "{message}; an admin can give it to {name} (AdminService.ConfirmCluster), and clusterUid in the configuration can"
                ));
            }
            self.lose_uid(&holder);
        }
        let Some(state) = self.clusters.get(name) else { return Ok(()) };
        let is_configured = state.config.uid.is_some();
        if !uid.is_empty() && !is_configured && state.namesake.as_ref().is_some_and(|other| *other.uid == *uid) {
            // What it said before was wrong, and what it says now is in OpenStack.
            self.lose_uid(name);
        }
        Ok(())
    }

    /// Returns the other cluster that has this UID.
    pub(super) fn holder(&self, name: &Text, uid: &str) -> Option<Text> {
        let mut others = self.clusters.iter().filter(|(other, _)| *other != name);
        others.find(|(_, state)| state.uid.as_deref() == Some(uid)).map(|(other, _)| other.clone())
    }

    /// Whether the configuration gives the cluster this UID.
    pub(super) fn is_configured(&self, name: &Text, uid: &str) -> bool {
        self.clusters.get(name).is_some_and(|state| state.config.uid.as_deref() == Some(uid))
    }

    /// Forgets the UID that the controller of a cluster has said, and everything else that it said.
    pub(super) fn lose_uid(&mut self, name: &Text) {
        self.say_goodbye(name, GoodbyeReason::Incarnation, "the UID of kube-system that was said is another cluster's");
        self.begin_anew(name);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use gimbal_octavia_registry::{ClusterGuards, RegistryEvent, RegistrySettings};
    use gimbal_session::Hello;
    use tokio::sync::mpsc;

    use super::*;
    use crate::config::{ClusterConfig, ClustersConfig};
    use crate::policy::ClusterPolicy;

    const TRUE: &str = "uid-of-prod1";

    fn config(uids: [Option<&str>; 2]) -> ClustersConfig {
        let cluster = |(name, uid): (&str, Option<&str>)| ClusterConfig {
            name: name.parse().unwrap(),
            identity: format!("spiffe://{name}"),
            uid: uid.map(Text::from),
            former_uids: std::collections::BTreeSet::new(),
            policy: ClusterPolicy { project: "own".into(), ..ClusterPolicy::default() },
            guards: ClusterGuards::default(),
            quarantine: false,
        };
        let clusters = ["prod1", "prod2"].into_iter().zip(uids).map(cluster).collect();
        ClustersConfig { clusters, ..ClustersConfig::default() }
    }

    fn other_cluster(name: &str, uid: &str) -> RegistryEvent {
        RegistryEvent::OtherCluster { cluster: name.into(), uid: uid.into(), balancer: "theirs".into() }
    }

    struct World {
        all: Clusters,
        now: Instant,
        /// Streams end when their receivers are dropped.
        streams: Vec<mpsc::Receiver<super::super::ToController>>,
    }

    impl World {
        #[allow(clippy::disallowed_methods)]
        fn new(uids: [Option<&str>; 2]) -> Self {
            let now = Instant::now();
            let all = Clusters::new(RegistrySettings::default(), &config(uids), 0, now);
            Self { all, now, streams: Vec::new() }
        }

        fn says(&mut self, name: &str, uid: &str) -> Result<(), String> {
            let hello = Hello {
                protocol: (1, 1),
                capabilities: Default::default(),
                backend: name.into(),
                agent_instance: "i".into(),
                source_incarnation: uid.into(),
                held: None,
                agent_version: "v".into(),
            };
            let (outgoing, stream) = mpsc::channel(100);
            self.streams.push(stream);
            self.all.open(&name.into(), &hello, outgoing, self.now).map(drop).map_err(|goodbye| goodbye.message)
        }

        fn is_connected(&self, name: &str) -> bool {
            self.all.get(name).unwrap().is_connected()
        }
    }

    #[test]
    fn who_comes_first_with_the_uid_of_another_cluster_does_not_keep_it_out() {
        let mut world = World::new([None, None]);
        world.says("prod2", TRUE).unwrap();
        let refused = world.says("prod1", TRUE).unwrap_err();
        assert!(refused.contains("is that of cluster prod2") && refused.contains("ConfirmCluster"), "{refused}");
        assert_eq!(world.all.confirm(&"prod1".into(), TRUE, world.now), Ok(String::new()));
        assert!(!world.is_connected("prod2"));
        world.says("prod1", TRUE).unwrap();
        assert!(world.says("prod2", TRUE).unwrap_err().contains("is that of cluster prod1"));
        world.says("prod2", "uid-of-prod2").unwrap();
        assert!(world.is_connected("prod1") && world.is_connected("prod2"));
    }

    /// What it wanted before may not be wanted any more when it comes back.
    #[test]
    fn a_cluster_that_gets_its_uid_back_wants_what_it_says_then() {
        let mut world = World::new([None, None]);
        world.says("prod2", TRUE).unwrap();
        assert!(world.all.registry.facts("prod2").is_some());
        world.says("prod1", TRUE).unwrap_err();
        world.all.confirm(&"prod1".into(), TRUE, world.now).unwrap();
        assert!(world.all.registry.facts("prod2").is_none(), "what it said is forgotten");
        world.says("prod2", TRUE).unwrap_err();
        world.all.confirm(&"prod2".into(), TRUE, world.now).unwrap();
        world.says("prod2", TRUE).unwrap();
        assert!(world.all.registry.facts("prod2").is_some());
    }

    #[test]
    fn the_configuration_knows_better_than_a_controller() {
        let mut world = World::new([None, None]);
        world.says("prod2", TRUE).unwrap();
        world.all.configure(&config([Some(TRUE), None]), world.now);
        world.says("prod1", TRUE).unwrap();
        assert!(!world.is_connected("prod2"));
        let refused = world.says("prod2", TRUE).unwrap_err();
        assert!(!refused.contains("ConfirmCluster"), "an admin cannot give it away: {refused}");
        assert!(world.all.confirm(&"prod2".into(), TRUE, world.now).is_err());
        assert!(world.is_connected("prod1"));
    }

    #[test]
    fn what_somebody_tags_stops_no_cluster_that_the_configuration_knows() {
        let mut world = World::new([Some(TRUE), None]);
        for name in ["prod1", "prod2"] {
            world.says(name, &format!("uid-of-{name}")).unwrap();
            world.all.tell(&other_cluster(name, "another"), world.now);
        }
        assert!(world.is_connected("prod1") && !world.is_connected("prod2"));
        let refused = world.says("prod2", "uid-of-prod2").unwrap_err();
        assert!(refused.contains("load balancer theirs") && refused.contains("clusterUid"), "{refused}");
        world.all.configure(&config([Some(TRUE), Some("uid-of-prod2")]), world.now);
        world.says("prod2", "uid-of-prod2").unwrap();
        assert!(world.is_connected("prod2"));
    }

    #[test]
    fn what_is_in_openstack_refutes_a_uid() {
        let mut world = World::new([None, None]);
        world.says("prod2", TRUE).unwrap();
        let event = other_cluster("prod2", "uid-of-prod2");
        world.all.tell(&event, world.now);
        world.says("prod1", TRUE).unwrap();
        world.says("prod2", "uid-of-prod2").unwrap();
        assert!(world.is_connected("prod1") && world.is_connected("prod2"));
        // The same where no other cluster has claimed what it said first.
        let mut world = World::new([None, None]);
        world.says("prod2", "invented").unwrap();
        world.all.tell(&event, world.now);
        assert!(world.says("prod2", "invented").is_err());
        world.says("prod2", "uid-of-prod2").unwrap();
    }
}
