//! What the source is: looked at again and again, beside its watches.

use std::time::Duration;

use gimbal_agent::Backoff;
use gimbal_kube_io::{ApiError, Cluster};
use gimbal_objects::Namespace;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

/// How often the source's identity is looked at without a cause.
const CHECK: Duration = Duration::from_secs(60);

/// What was found out about the source's identity.
#[derive(Debug)]
pub(crate) struct Found {
    /// The UID of its namespace `kube-system`, which lasts exactly as long as the cluster does.
    pub(crate) incarnation: Result<String, ApiError>,
    /// The number of the last question that was asked before the look was taken.
    pub(crate) asked: u64,
}

/// Looks at once, whenever `asked` changes, and once a minute, until nobody asks any more.
pub(crate) async fn identify(cluster: Cluster, mut asked: watch::Receiver<u64>, found: mpsc::Sender<Found>) {
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(15));
    loop {
        let number = *asked.borrow_and_update();
        let incarnation = look(&cluster).await;
        let failed = incarnation.is_err();
        if found.send(Found { incarnation, asked: number }).await.is_err() {
            return;
        }
        if failed {
            sleep(backoff.pause()).await;
            continue;
        }
        backoff.reset();
        // A time-out is the minute passing; an error is the owner gone.
        if let Ok(Err(_)) = timeout(CHECK, asked.changed()).await {
            return;
        }
    }
}

async fn look(cluster: &Cluster) -> Result<String, ApiError> {
    let namespace: Namespace = cluster.get("", "kube-system").await?;
    let uid = namespace.metadata.uid.to_string();
    if uid.is_empty() {
        return Err(ApiError::Undecodable { message: "namespace kube-system has no uid".into() });
    }
    Ok(uid)
}
