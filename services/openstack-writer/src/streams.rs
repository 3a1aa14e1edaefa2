//! The controllers' streams: identifies the peer, then passes messages to the owner and back.

use std::sync::Arc;
use std::time::Instant;

use gimbal_admission::Identity;
use gimbal_kuryr_model::Text;
use gimbal_kuryr_wire::Kuryr;
use gimbal_session::{Goodbye, GoodbyeReason, Hello, WriterMessage};
use gimbal_transport::{
    AgentMessages, Discovery, EndKind, Passing, Peer, Quiet, StreamEnd, goodbye, hello, say_goodbye,
};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::config::ClustersConfig;
use crate::mailbox::OwnerHandle;
use crate::metrics::CloudWriterMetrics;
use crate::owner::STREAM_QUEUE;

/// Serves the streams of controllers.
pub struct ControllerStreams {
    /// The configuration in force: which certificates stand for which clusters.
    pub config: watch::Receiver<Arc<ClustersConfig>>,
    /// The owner, which receives the messages.
    pub owner: OwnerHandle,
    /// Counts streams that are refused or broken.
    pub metrics: CloudWriterMetrics,
    /// Cancelled when the process ends.
    pub shutdown: CancellationToken,
    /// Refusals by peer and reason that were logged recently.
    pub refusals: Quiet<(String, GoodbyeReason)>,
    /// Ends of streams by cluster and kind that were logged recently: a controller may come again and again.
    pub ends: Quiet<(Text, EndKind)>,
}

#[tonic::async_trait]
impl Discovery<Kuryr> for ControllerStreams {
    async fn sync(&self, peer: Peer, mut incoming: AgentMessages<Kuryr>, outgoing: mpsc::Sender<WriterMessage<Kuryr>>) {
        let (cluster, hello) = match self.identify(&peer, &mut incoming).await {
            Ok(known) => known,
            Err(goodbye) => return self.refuse(&peer, &outgoing, goodbye).await,
        };
        let (queue, queued) = mpsc::channel(STREAM_QUEUE);
        let generation = match self.owner.open(cluster.clone(), hello, queue).await {
            Ok(generation) => generation,
            Err(goodbye) => return self.refuse(&peer, &outgoing, goodbye).await,
        };
        let stream = Passing { incoming, outgoing: &outgoing, queued, shutdown: &self.shutdown };
        let still = |config: &Arc<ClustersConfig>| still_speaks(config, &peer, &cluster);
        let (owner, of) = (&self.owner, &cluster);
        let take = |message, turn| async move { owner.message(of, generation, message, turn).await.is_ok() };
        let end = stream.until_end(self.config.clone(), still, take).await;
        if matches!(end, StreamEnd::Broken(_)) {
            self.metrics.stream_broke(&cluster);
        }
        self.log_end(&cluster, generation, &peer, &end, Instant::now());
        // Before its goodbye, so that nothing more of it counts; a controller that does not read does not delay this.
        self.owner.closed(&cluster, generation).await;
        if let StreamEnd::Dismissed(goodbye) = end {
            say_goodbye(&peer, &outgoing, goodbye).await;
        }
    }
}

/// Returns an error if the peer no longer stands for the cluster that its stream was opened for.
fn still_speaks(config: &ClustersConfig, peer: &Peer, cluster: &str) -> Result<(), String> {
    match config.identify(peer) {
        Identity::Certified { tenant: Ok(now), .. } if now.name.as_str() == cluster => Ok(()),
        Identity::Certified { tenant: Ok(now), .. } => Err(format!("the certificate is cluster {}'s now", now.name)),
        Identity::Certified { tenant: Err(message), .. } => Err(message),
        Identity::Anyone if config.cluster(cluster).is_some() => Ok(()),
        Identity::Anyone => Err(format!("cluster {cluster} is not configured")),
    }
}

impl ControllerStreams {
    fn log_end(&self, cluster: &Text, generation: u64, peer: &Peer, end: &StreamEnd, now: Instant) {
        if matches!(end, StreamEnd::Closed) {
            return;
        }
        let Some(untold) = self.ends.tell((cluster.clone(), end.into()), now) else { return };
        match end {
            StreamEnd::Dismissed(goodbye) => {
                let (reason, text) = (goodbye.reason, &goodbye.message);
                tracing::info!(%cluster, generation, ?reason, text, untold, "goodbye");
            }
            StreamEnd::Broken(error) => {
                tracing::info!(%cluster, generation, %peer, %error, untold, "the stream broke");
            }
            StreamEnd::Unread => {
                tracing::warn!(%cluster, generation, %peer, untold, "the controller does not read; its stream ends and it may resume");
            }
            StreamEnd::Closed => {}
        }
    }

    async fn identify(&self, peer: &Peer, incoming: &mut AgentMessages<Kuryr>) -> Result<(Text, Hello), Goodbye> {
        let hello = hello(incoming).await?;
        let unknown = |message| goodbye(GoodbyeReason::UnknownBackend, message);
        let config = self.config.borrow().clone();
        match config.identify(peer) {
            Identity::Certified { tenant, .. } => {
                let name = &tenant.map_err(unknown)?.name;
                if hello.backend != name.as_str() {
                    let called = &hello.backend;
                    return Err(unknown(format!(
                        "the certificate is cluster {name}'s, but the controller calls itself {called:?}"
                    )));
                }
                Ok((name.as_str().into(), hello))
            }
            // Plaintext on loopback: any local process may be any cluster.
            Identity::Anyone => match config.cluster(&hello.backend) {
                Some(known) => Ok((known.name.as_str().into(), hello)),
                None => Err(unknown(format!("cluster {:?} is not configured", hello.backend))),
            },
        }
    }

    async fn refuse(&self, peer: &Peer, outgoing: &mpsc::Sender<WriterMessage<Kuryr>>, goodbye: Goodbye) {
        self.metrics.stream_refused(goodbye.reason);
        if let Some(untold) = self.refusals.tell((peer.key().to_owned(), goodbye.reason), Instant::now()) {
            tracing::warn!(%peer, reason = ?goodbye.reason, text = goodbye.message, untold, "stream refused");
        }
        say_goodbye(peer, outgoing, goodbye).await;
    }
}
