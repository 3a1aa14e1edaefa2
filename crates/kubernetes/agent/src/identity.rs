//! Checks again and again which cluster the source is, concurrently with its watches.

use std::time::Duration;

use futures::{Stream, stream};
use gimbal_discoverer::JitteredBackoff;
use gimbal_kubernetes_client::{ApiError, Cluster};
use gimbal_kubernetes_objects::Namespace;
use tokio::sync::watch;
use tokio::time::timeout;

/// How often the source's identity is checked without a cause.
const CHECK: Duration = Duration::from_secs(60);
/// The longest first pause after a failure.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// The result of a check of the source's identity.
#[derive(Debug)]
pub struct FoundIdentity {
    /// The UID of its namespace `kube-system`, which lasts exactly as long as the cluster does.
    pub incarnation: Result<String, ApiError>,
    /// The number of the last check that was requested before this one started.
    pub asked: u64,
}

/// Checks at once, whenever `asked` changes, and once a minute, until the sender of `asked` is dropped. Does nothing while
/// the stream is not polled; no request is lost.
pub fn identify(cluster: Cluster, asked: watch::Receiver<u64>) -> impl Stream<Item = FoundIdentity> + Send {
    let finder = Finder {
        cluster,
        asked,
        refused: JitteredBackoff::new(FIRST_PAUSE, Duration::from_secs(15)),
        // As short as that of the watches, so that a source that is back is found soon.
        away: JitteredBackoff::new(FIRST_PAUSE, Duration::from_secs(1)),
        wait: Wait::Nothing,
    };
    stream::unfold(finder, |mut finder| async move {
        if !finder.wait().await {
            return None;
        }
        let found = finder.find().await;
        Some((found, finder))
    })
}

struct Finder {
    cluster: Cluster,
    asked: watch::Receiver<u64>,
    refused: JitteredBackoff,
    away: JitteredBackoff,
    wait: Wait,
}

/// What the next check waits for, unless one is requested.
enum Wait {
    Nothing,
    /// The pause after a failure.
    Pause(Duration),
    Minute,
}

impl Finder {
    /// Returns false if the sender of `asked` was dropped.
    async fn wait(&mut self) -> bool {
        match self.wait {
            Wait::Nothing => true,
            Wait::Pause(pause) => tokio::select! {
                () = self.cluster.pause(pause) => true,
                // A check is requested after a complete list: the source answers.
                asked = self.asked.changed() => asked.is_ok(),
            },
            // The time-out means that the minute has passed.
            Wait::Minute => !matches!(timeout(CHECK, self.asked.changed()).await, Ok(Err(_))),
        }
    }

    async fn find(&mut self) -> FoundIdentity {
        let asked = *self.asked.borrow_and_update();
        let incarnation = self.look().await;
        self.wait = match &incarnation {
            Err(error) if error.nobody_answered() => Wait::Pause(self.away.pause()),
            Err(_) => Wait::Pause(self.refused.pause()),
            Ok(_) => {
                self.refused.reset();
                self.away.reset();
                Wait::Minute
            }
        };
        FoundIdentity { incarnation, asked }
    }

    async fn look(&self) -> Result<String, ApiError> {
        let namespace: Namespace = self.cluster.get("", "kube-system").await?;
        let uid = namespace.metadata.uid.to_string();
        if uid.is_empty() {
            return Err(ApiError::Undecodable { message: "namespace kube-system has no uid".into() });
        }
        Ok(uid)
    }
}
