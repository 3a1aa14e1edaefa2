//! Which of several controllers acts.

use std::net::SocketAddr;
use std::process::id;

use gimbal_discoverer::MaySpeak;
use gimbal_kubernetes_client::Cluster;
use gimbal_lease::{Candidate, Fitness, Leadership, Moment};
use gimbal_runtime::{Exit, Liveness};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::args::Args;
use crate::metrics::ControllerMetrics;

/// Name of the Lease.
const LEASE_NAME: &str = "gimbal-kuryr-controller";

/// The task that competes for the Lease. It ends last, so that the lease is released when nothing can be written any more.
pub(crate) struct LeaseTask {
    task: Option<(JoinHandle<()>, CancellationToken)>,
}

impl LeaseTask {
    /// Begins to compete, unless `--leader-election false`. The lease is renewed while `works` is alive.
    pub(crate) fn start(
        args: &Args,
        cluster: &Cluster,
        works: Liveness,
        metrics: &ControllerMetrics,
    ) -> Result<(Self, watch::Receiver<Leadership>), Exit> {
        let times = args.lease_times().map_err(Exit::Usage)?;
        if !args.leader_election {
            return Ok((Self { task: None }, Leadership::unopposed()));
        }
        let (release, metrics) = (CancellationToken::new(), metrics.clone());
        let candidate = Candidate {
            cluster: cluster.apart(),
            namespace: args.own_namespace(),
            name: LEASE_NAME.into(),
            identity: identity(&args.listen),
            times,
            fitness: Box::new(move || if works.is_alive() { Fitness::Working } else { Fitness::Hanging }),
            called: Box::new(move |verb, error| metrics.lease_called(verb, error)),
        };
        let (leadership, task) = candidate.start(release.clone());
        Ok((Self { task: Some((task, release)) }, leadership))
    }

    /// Runs `work`, which ends after `shutdown`, and then releases the lease. If the task of the lease fails, `work` is asked
    /// to end.
    pub(crate) async fn around(
        self,
        work: impl Future<Output = Result<(), Exit>>,
        shutdown: CancellationToken,
    ) -> Result<(), Exit> {
        let Some((mut task, release)) = self.task else { return work.await };
        let mut work = std::pin::pin!(work);
        let ended = tokio::select! {
            ended = &mut work => ended,
            failed = &mut task => {
                shutdown.cancel();
                work.await?;
                return Err(Exit::Failure(format!("the lease's task ended: {failed:?}")));
            }
        };
        release.cancel();
        let released = task.await.map_err(|error| Exit::Failure(format!("the lease's task failed: {error}")));
        ended.and(released)
    }
}

/// Returns what this process is called in the Lease.
fn identity(listen: &SocketAddr) -> String {
    let identity = gimbal_lease::identity(listen);
    // With any free port, the address is that of every such process.
    if listen.port() == 0 { format!("{identity}_{}", id()) } else { identity }
}

/// Returns whether a leader of this kind may speak to the writer.
pub(crate) fn may_speak(leadership: &Leadership, now: Moment) -> MaySpeak {
    match leadership {
        Leadership::Leader { .. } if leadership.may_write(now) => MaySpeak::Yes,
        Leadership::Leader { .. } => MaySpeak::NotNow,
        Leadership::Follower { .. } => MaySpeak::No,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_leader_speaks_until_its_deadline_and_a_follower_never() {
        let until = Moment::now() + Duration::from_secs(2);
        let leader = Leadership::Leader { epoch: 1, until };
        assert_eq!(may_speak(&leader, Moment::now()), MaySpeak::Yes);
        assert_eq!(may_speak(&leader, until), MaySpeak::NotNow);
        assert_eq!(may_speak(&Leadership::Follower { holder: "other".into() }, until), MaySpeak::No);
    }

    #[tokio::test]
    async fn a_lease_whose_task_fails_ends_the_process() {
        let (shutdown, asked) = (CancellationToken::new(), CancellationToken::new());
        let task = tokio::spawn(async { panic!("a defect") });
        let lease = LeaseTask { task: Some((task, CancellationToken::new())) };
        let work = async {
            shutdown.cancelled().await;
            asked.cancel();
            Ok(())
        };
        let exit = lease.around(work, shutdown.clone()).await.unwrap_err();
        assert!(exit.line().contains("the lease's task ended") && asked.is_cancelled());
    }
}
