//! Reads the cloud for each cluster, at the start, when the configuration changes, and every few minutes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use gimbal_kuryr_model::Text;
use gimbal_openstack_client::Error;
use gimbal_runtime::ReadinessGuard;
use tokio::sync::watch;

use crate::args::Args;
use crate::cloud_access::CloudAccess;
use crate::clusters::SharedConfig;
use crate::config::ClusterConfig;
use crate::knowledge::{self, CloudReading};
use crate::mailbox::OwnerHandle;

/// How often subnets, quota and roles are read again.
const EVERY: Duration = Duration::from_secs(300);
/// How soon a reading that failed is repeated.
const AFTER_FAILURE: Duration = Duration::from_secs(5);
/// The same where the cloud has answered, and does not let this user in: somebody has to give a role first.
const AFTER_DENIAL: Duration = Duration::from_secs(60);
/// The number of clusters whose cloud is read side by side: one that gets no answers must not stop the others.
const SIDE_BY_SIDE: usize = 8;

/// The task that reads the cloud.
pub struct LookUps {
    /// How credentials are read again when Keystone refuses those in use.
    pub args: Args,
    /// The connection.
    pub cloud: CloudAccess,
    /// Receives what was read.
    pub owner: OwnerHandle,
    /// The clusters.
    pub config: watch::Receiver<SharedConfig>,
    /// Ends when the cloud was tried once for each cluster, and has answered for one.
    pub first: Option<ReadinessGuard>,
}

/// What came of the last reading for a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastReading {
    /// It has not ended yet.
    None,
    Read,
    /// This user may not do anything in the cluster's project.
    Denied,
    Failed,
}

/// The readings for one cluster.
#[derive(Debug)]
struct Turn {
    last: LastReading,
    /// When the next one is due; unset: it goes on.
    due: Option<Instant>,
}

/// The readings, by the cluster's name.
type Turns = BTreeMap<String, Turn>;

impl LookUps {
    /// Runs for ever.
    pub async fn run(mut self) {
        let mut turns = Turns::new();
        loop {
            let config = self.config.borrow_and_update().clone();
            turns.retain(|name, _| config.clusters.iter().any(|cluster| cluster.name.as_str() == name));
            for cluster in &config.clusters {
                let turn = Turn { last: LastReading::None, due: None };
                turns.entry(cluster.name.as_str().to_owned()).or_insert(turn).due = Some(Instant::now());
            }
            self.read(&config, &mut turns).await;
        }
    }

    /// Reads for every cluster when its turn has come, until the configuration changes.
    async fn read(&mut self, config: &SharedConfig, turns: &mut Turns) {
        let mut readings = FuturesUnordered::new();
        loop {
            if is_enough(turns) {
                self.first = None;
            }
            while readings.len() < SIDE_BY_SIDE
                && let Some(cluster) = next_of(config, turns)
            {
                let cloud = self.cloud.clone();
                readings.push(Box::pin(async move { (cluster, knowledge::read(&cloud, &cluster.policy).await) }));
            }
            let is_full = readings.len() >= SIDE_BY_SIDE;
            let next = turns.values().filter_map(|turn| turn.due).min().filter(|_| !is_full);
            tokio::select! {
                Ok(()) = self.config.changed() => return,
                Some((cluster, result)) = readings.next() => self.ended(cluster.name.as_str(), result, turns).await,
                () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now).into()), if next.is_some() => {}
                // Nothing is read, and the configuration changes no more: the process ends.
                else => return std::future::pending().await,
            }
        }
    }

    async fn ended(&self, name: &str, result: Result<CloudReading, Error>, turns: &mut Turns) {
        let error = match result {
            Ok(reading) => {
                let name: Text = name.into();
                if self.owner.ask(move |all| all.learned(&name, reading, Instant::now())).await.is_err() {
                    // The process ends.
                    return std::future::pending().await;
                }
                None
            }
            Err(error) => Some(error),
        };
        let (last, pause) = match &error {
            None => (LastReading::Read, EVERY),
            Some(Error::Forbidden { .. }) => (LastReading::Denied, AFTER_DENIAL),
            Some(_) => (LastReading::Failed, AFTER_FAILURE),
        };
        let fails = |turns: &Turns| turns.values().any(|turn| turn.last == LastReading::Failed);
        let failed = fails(turns);
        let Some(turn) = turns.get_mut(name) else { return };
        turn.due = Some(Instant::now() + pause);
        let before = std::mem::replace(&mut turn.last, last);
        // One line when it begins to fail, whoever it fails for, and one when it works again.
        match &error {
            Some(error) if last == LastReading::Denied && before != last => {
                tracing::warn!(cluster = name, %error, "the cloud cannot be read for this cluster; others go on");
            }
            Some(error) if last == LastReading::Failed && !failed => {
                tracing::warn!(cluster = name, %error, "the cloud cannot be read; it is tried again");
            }
            None if before == LastReading::Denied => tracing::info!(cluster = name, "the cloud can be read again"),
            _ if failed && !fails(turns) => tracing::info!("the cloud can be read again"),
            _ => {}
        }
        if let Some(Error::InvalidCredentials { .. }) = &error {
            self.read_credentials();
        }
    }

    /// Reads the credentials again: someone may have replaced what Keystone refuses.
    fn read_credentials(&self) {
        let replaced = self
            .args
            .read_credentials()
            .and_then(|credentials| self.cloud.replace(credentials).map_err(|error| error.to_string()));
        match replaced {
            Ok(true) => tracing::info!("the credentials have changed, and are used from now on"),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "the credentials cannot be read"),
        }
    }
}

/// Returns the cluster whose turn it is, and begins it.
fn next_of<'a>(config: &'a SharedConfig, turns: &mut Turns) -> Option<&'a ClusterConfig> {
    let now = Instant::now();
    let due = turns.iter().filter_map(|(name, turn)| Some((turn.due?, name))).filter(|(due, _)| *due <= now);
    let name = due.min()?.1.clone();
    turns.get_mut(&name)?.due = None;
    config.clusters.iter().find(|cluster| cluster.name.as_str() == name)
}

/// Whether controllers may come: each cluster had its turn, and the cloud has answered for one of them. The others wait for
/// theirs without standing in its way.
fn is_enough(turns: &Turns) -> bool {
    let is_answered = |turn: &Turn| matches!(turn.last, LastReading::Read | LastReading::Denied);
    turns.values().all(|turn| turn.last != LastReading::None) && (turns.is_empty() || turns.values().any(is_answered))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use clap::Parser as _;
    use gimbal_octavia_registry::{ClusterGuards, RegistrySettings};
    use gimbal_runtime::Readiness;
    use gimbal_testkit::fake_openstack::FakeOpenStack;

    use super::*;
    use crate::clusters::Clusters;
    use crate::config::{ClusterConfig, ClustersConfig};
    use crate::mailbox::ClusterMail;
    use crate::policy::ClusterPolicy;

    fn cluster(name: &str, project: &str) -> ClusterConfig {
        ClusterConfig {
            name: name.parse().unwrap(),
            identity: format!("spiffe://{name}"),
            uid: None,
            former_uids: BTreeSet::new(),
            policy: ClusterPolicy { project: project.into(), ..ClusterPolicy::default() },
            guards: ClusterGuards::default(),
            quarantine: false,
        }
    }

    /// Reads the cloud for these clusters until the process is ready. Returns the clusters whose cloud was read, and whether it
    /// is ready after all.
    async fn read(fake: &FakeOpenStack, clusters: Vec<ClusterConfig>) -> (Vec<String>, bool) {
        let config = ClustersConfig { clusters, ..ClustersConfig::default() };
        let mut all = Clusters::new(RegistrySettings::default(), &config, 0, Instant::now());
        let (owner, mut mail, _) = OwnerHandle::new();
        let readiness = Readiness::new();
        let (_config, now) = watch::channel::<SharedConfig>(Arc::new(config));
        let look_ups = LookUps {
            args: Args::try_parse_from(["x", "--config", "f"]).unwrap(),
            cloud: crate::cloud_access::tests::connected(fake),
            owner,
            config: now,
            first: Some(readiness.block("the cloud")),
        };
        let answers = async {
            while let Some(mail) = mail.recv().await {
                let ClusterMail::Ask(question) = mail else { panic!("not a question") };
                question(&mut all);
            }
        };
        let is_ready = tokio::select! {
            () = look_ups.run() => false,
            () = answers => false,
            () = readiness.ready() => true,
            () = tokio::time::sleep(Duration::from_secs(3)) => false,
        };
        let known = all.iter().filter(|(_, state)| state.reading.is_some());
        (known.map(|(name, _)| name.to_string()).collect(), is_ready)
    }

    #[tokio::test]
    async fn a_cluster_whose_project_is_closed_stops_no_other() {
        let fake = FakeOpenStack::start().await.unwrap();
        fake.set(|cloud| {
            cloud.project("p1", "alpha");
            cloud.project("p2", "beta");
            cloud.foreign.insert("p2".to_owned());
        });
        for order in [["p1", "p2"], ["p2", "p1"]] {
            let clusters = order.map(|project| cluster(&format!("of-{project}"), project)).into();
            assert_eq!(read(&fake, clusters).await, (vec!["of-p1".to_owned()], true), "{order:?}");
        }
    }

    #[tokio::test]
    async fn nobody_is_served_while_nothing_can_be_read() {
        let fake = FakeOpenStack::start().await.unwrap();
        fake.set(|cloud| cloud.project("p1", "alpha"));
        fake.fail(gimbal_testkit::fake_openstack::Fault::on("/auth/tokens"));
        assert_eq!(read(&fake, vec![cluster("of-p1", "p1")]).await, (Vec::new(), false));
        fake.heal();
        assert_eq!(read(&fake, Vec::new()).await, (Vec::new(), true), "without clusters there is nothing to read");
    }

    /// The configuration changes no more while the process ends.
    #[tokio::test]
    async fn without_clusters_and_configuration_nothing_is_read() {
        let fake = FakeOpenStack::start().await.unwrap();
        let (owner, _mail, _) = OwnerHandle::new();
        let look_ups = LookUps {
            args: Args::try_parse_from(["x", "--config", "f"]).unwrap(),
            cloud: crate::cloud_access::tests::connected(&fake),
            owner,
            config: watch::channel::<SharedConfig>(Arc::new(ClustersConfig::default())).1,
            first: None,
        };
        let ended = tokio::time::timeout(Duration::from_millis(100), look_ups.run()).await;
        assert!(ended.is_err(), "it goes on until it is dropped");
    }
}
