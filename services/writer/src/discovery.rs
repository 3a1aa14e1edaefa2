//! The agents' streams: who is speaking, then frames to the owner and answers back.

use std::sync::Arc;
use std::time::Duration;

use gimbal_link::{AgentMessages, Discovery, LinkError, Peer};
use gimbal_model::BackendName;
use gimbal_reconcile::Policy;
use gimbal_stream::{AgentMessage, Goodbye, GoodbyeReason, Hello, WriterMessage};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Identity};
use crate::mailbox::Handle;
use crate::metrics::Metrics;
use crate::owner::STREAM_QUEUE;

/// How long an agent may take to say Hello.
const HELLO: Duration = Duration::from_secs(10);

/// Messages of one stream that may wait for the owner: who floods waits for itself, not others for it.
const TURNS: usize = 4;

/// An agent that takes no message for so long is gone; what waits for it must not be kept as long as it likes.
const READS: Duration = Duration::from_secs(10);

/// How long an agent may take to read what it was told before goodbye.
const GOODBYE: Duration = Duration::from_secs(2);

/// See the module.
pub struct Streams {
    /// Who may speak, as it is now.
    pub config: watch::Receiver<Arc<Config>>,
    /// Where frames go.
    pub owner: Handle,
    /// Where refusals are counted.
    pub metrics: Metrics,
    /// The end of the process.
    pub shutdown: CancellationToken,
}

#[tonic::async_trait]
impl Discovery for Streams {
    async fn sync(&self, peer: Peer, mut incoming: AgentMessages, outgoing: mpsc::Sender<WriterMessage>) {
        let (backend, policy, hello) = match self.identify(&peer, &mut incoming).await {
            Ok(known) => known,
            Err(goodbye) => return self.refuse(&peer, &outgoing, goodbye).await,
        };
        let (queue, mut queued) = mpsc::channel(STREAM_QUEUE);
        let generation = match self.owner.open(backend.clone(), policy, hello, queue).await {
            Ok(generation) => generation,
            Err(goodbye) => return self.refuse(&peer, &outgoing, goodbye).await,
        };
        // When the process ends, what is read stops first, and the owner's goodbye is still to come.
        let mut speaks = true;
        let mut config = self.config.clone();
        let turns = Arc::new(Semaphore::new(TURNS));
        let farewell = loop {
            tokio::select! {
                Ok(()) = config.changed() => {
                    if let Err(message) = still_speaks(&config.borrow_and_update(), &peer, &backend) {
                        break Some(goodbye(GoodbyeReason::UnknownBackend, message));
                    }
                }
                message = queued.recv() => match message {
                    Some(message) => match tokio::time::timeout(READS, outgoing.send(message)).await {
                        Ok(Ok(())) => {}
                        Ok(Err(_)) => break None,
                        Err(_) => {
                            tracing::warn!(%backend, generation, %peer, "the agent does not read; its stream ends and it may resume");
                            break None;
                        }
                    },
                    // The owner ended the stream.
                    None => break None,
                },
                message = incoming.next(), if speaks => match message {
                    Some(Ok(message)) => {
                        let Ok(turn) = turns.clone().acquire_owned().await else { break None };
                        if self.owner.message(&backend, generation, message, turn).await.is_err() {
                            speaks = false;
                        }
                    }
                    Some(Err(LinkError::Refused(message))) => {
                        break Some(goodbye(GoodbyeReason::Certificate, message.into()));
                    }
                    Some(Err(error)) => {
                        self.metrics.broke(backend.as_str());
                        tracing::info!(%backend, generation, %peer, %error, "the stream broke");
                        break None;
                    }
                    None if self.shutdown.is_cancelled() => speaks = false,
                    None => break None,
                },
            }
        };
        if let Some(goodbye) = farewell {
            self.metrics.dismissed(backend.as_str(), goodbye.reason);
            tracing::info!(%backend, generation, reason = ?goodbye.reason, message = goodbye.message, "goodbye");
            // First, so that nothing more of it counts; an agent that does not read is not waited for.
            self.owner.closed(&backend, generation).await;
            if tokio::time::timeout(GOODBYE, say(&peer, &outgoing, goodbye)).await.is_err() {
                tracing::debug!(%peer, "the agent did not take the goodbye");
            }
            return;
        }
        self.owner.closed(&backend, generation).await;
    }
}

fn goodbye(reason: GoodbyeReason, message: String) -> Goodbye {
    Goodbye { reason, message, retry_after: None }
}

/// Whether a peer still stands for the backend that its stream was opened for.
fn still_speaks(config: &Config, peer: &Peer, backend: &BackendName) -> Result<(), String> {
    match config.identify(peer) {
        Identity::Certified { backend: Ok(now), .. } if now.name == *backend => Ok(()),
        Identity::Certified { backend: Ok(now), .. } => Err(format!("the certificate is backend {}'s now", now.name)),
        Identity::Certified { backend: Err(message), .. } => Err(message),
        Identity::Anyone if config.backend_named(backend).is_some() => Ok(()),
        Identity::Anyone => Err(format!("backend {backend} is not configured")),
    }
}

async fn say(peer: &Peer, outgoing: &mpsc::Sender<WriterMessage>, goodbye: Goodbye) {
    if outgoing.send(WriterMessage::Goodbye(goodbye)).await.is_err() {
        tracing::debug!(%peer, "the agent did not wait for the goodbye");
    }
}

impl Streams {
    async fn identify(
        &self,
        peer: &Peer,
        incoming: &mut AgentMessages,
    ) -> Result<(BackendName, Option<Policy>, Hello), Goodbye> {
        let hello = match tokio::time::timeout(HELLO, incoming.next()).await {
            Ok(Some(Ok(AgentMessage::Hello(hello)))) => hello,
            Ok(Some(Err(LinkError::Refused(message)))) => {
                return Err(goodbye(GoodbyeReason::Certificate, message.into()));
            }
            Ok(_) => {
                return Err(goodbye(GoodbyeReason::ProtocolError, "the first message must be Hello".into()));
            }
            Err(_) => return Err(goodbye(GoodbyeReason::Timeout, "no Hello came in time".into())),
        };
        let unknown = |message| goodbye(GoodbyeReason::UnknownBackend, message);
        let config = self.config.borrow().clone();
        match config.identify(peer) {
            Identity::Certified { backend, .. } => Ok((backend.map_err(unknown)?.name.clone(), None, hello)),
            // Plaintext on loopback: whoever is on this machine may be any backend.
            Identity::Anyone => {
                let name = BackendName::parse(&hello.backend).map_err(|error| unknown(error.to_string()))?;
                let known = config.backend_named(&name);
                let known = known.ok_or_else(|| unknown(format!("backend {name} is not configured")))?;
                // Without a configuration a backend is known from its first Hello on.
                Ok((name, Some(known.policy.clone()), hello))
            }
        }
    }

    async fn refuse(&self, peer: &Peer, outgoing: &mpsc::Sender<WriterMessage>, goodbye: Goodbye) {
        self.metrics.refused(goodbye.reason);
        tracing::warn!(%peer, reason = ?goodbye.reason, message = goodbye.message, "stream refused");
        say(peer, outgoing, goodbye).await;
    }
}
