//! The agents' streams: who is speaking, then frames to the owner and answers back.

use std::sync::Arc;
use std::time::Duration;

use gimbal_link::{AgentMessages, Discovery, Peer};
use gimbal_model::BackendName;
use gimbal_reconcile::Policy;
use gimbal_stream::{AgentMessage, Goodbye, GoodbyeReason, Hello, WriterMessage};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::mailbox::Handle;
use crate::metrics::Metrics;
use crate::owner::STREAM_QUEUE;
use crate::policy::policy;

/// How long an agent may take to say Hello.
const HELLO: Duration = Duration::from_secs(10);

/// See the module.
pub struct Streams {
    /// Who may speak.
    pub config: Arc<Config>,
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
        loop {
            tokio::select! {
                message = queued.recv() => match message {
                    Some(message) => {
                        if outgoing.send(message).await.is_err() {
                            break;
                        }
                    }
                    // The owner ended the stream.
                    None => break,
                },
                message = incoming.next(), if speaks => match message {
                    Some(Ok(message)) => {
                        if self.owner.message(&backend, generation, message).await.is_err() {
                            speaks = false;
                        }
                    }
                    Some(Err(error)) => {
                        self.metrics.broke(backend.as_str());
                        tracing::info!(%backend, generation, %peer, %error, "the stream broke");
                        break;
                    }
                    None if self.shutdown.is_cancelled() => speaks = false,
                    None => break,
                },
            }
        }
        self.owner.closed(&backend, generation).await;
    }
}

impl Streams {
    async fn identify(
        &self,
        peer: &Peer,
        incoming: &mut AgentMessages,
    ) -> Result<(BackendName, Option<Policy>, Hello), Goodbye> {
        let goodbye = |reason, message| Goodbye { reason, message, retry_after: None };
        let hello = match tokio::time::timeout(HELLO, incoming.next()).await {
            Ok(Some(Ok(AgentMessage::Hello(hello)))) => hello,
            Ok(_) => {
                return Err(goodbye(GoodbyeReason::ProtocolError, "the first message must be Hello".into()));
            }
            Err(_) => return Err(goodbye(GoodbyeReason::Timeout, "no Hello came in time".into())),
        };
        let known = match peer {
            Peer::Certificate(certificate) => {
                let known = self.config.backend_of(&certificate.sans);
                let refusal = || self.config.refusal(&certificate.sans).unwrap_or_default();
                known.ok_or_else(|| goodbye(GoodbyeReason::UnknownBackend, refusal()))?
            }
            // Plaintext on loopback: whoever is on this machine may be any backend.
            Peer::Loopback => {
                let unknown = |message| goodbye(GoodbyeReason::UnknownBackend, message);
                let name = BackendName::parse(&hello.backend).map_err(|error| unknown(error.to_string()))?;
                let known = self.config.backend_named(&name);
                let known = known.ok_or_else(|| unknown(format!("backend {name} is not configured")))?;
                // Without a configuration a backend is known from its first Hello on.
                return Ok((name, Some(policy(&known)), hello));
            }
        };
        Ok((known.name.clone(), None, hello))
    }

    async fn refuse(&self, peer: &Peer, outgoing: &mpsc::Sender<WriterMessage>, goodbye: Goodbye) {
        self.metrics.refused(goodbye.reason);
        tracing::warn!(%peer, reason = ?goodbye.reason, message = goodbye.message, "stream refused");
        if outgoing.send(WriterMessage::Goodbye(goodbye)).await.is_err() {
            tracing::debug!(%peer, "the agent did not wait for the goodbye");
        }
    }
}
