//! The way to the owner: messages of agents, questions of people.

use std::sync::Arc;

use gimbal_model::BackendName;
use gimbal_reconcile::{Claim, Policy, Reconciler};
use gimbal_stream::{AgentMessage, Data, Frame, Goodbye, GoodbyeReason, Hello, WriterMessage};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, mpsc, oneshot};

/// Messages of agents that wait for the owner. Short, so that a flood stays in the agents.
const MAILBOX: usize = 256;
/// Parts of snapshots that may wait for the owner, of all streams together: when every agent comes back at once, the others
/// stay where they are, and nothing else waits behind them.
pub(crate) const BULK: usize = 16;
/// Changes of status that a reader of Watch may lag behind.
const TOUCHED: usize = 4096;

pub(crate) type Question = Box<dyn FnOnce(&mut Reconciler) + Send>;

/// What comes in.
pub(crate) enum Mail {
    /// An agent said Hello under a certificate that names this backend.
    Open {
        backend: BackendName,
        /// Adds the backend, if it is to be known from here on only.
        policy: Option<Box<Policy>>,
        hello: Hello,
        outgoing: mpsc::Sender<WriterMessage>,
        reply: oneshot::Sender<Result<u64, Goodbye>>,
    },
    Message {
        backend: BackendName,
        generation: u64,
        message: AgentMessage,
        /// Given back once the message is dealt with: what may wait here of one stream, and of snapshots.
        turns: Vec<OwnedSemaphorePermit>,
    },
    Closed {
        backend: BackendName,
        generation: u64,
    },
    Ask(Question),
}

/// A way to the owner. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    mail: mpsc::Sender<Mail>,
    bulk: Arc<Semaphore>,
    touched: broadcast::Sender<Claim>,
}

/// The owner is gone: the process ends.
#[derive(Debug, thiserror::Error)]
#[error("the writer is shutting down")]
pub struct Ended;

impl Handle {
    /// A handle, and the owner's end of it.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Mail>, broadcast::Sender<Claim>) {
        let (sender, mail) = mpsc::channel(MAILBOX);
        let (touched, _) = broadcast::channel(TOUCHED);
        let bulk = Arc::new(Semaphore::new(BULK));
        (Self { mail: sender, bulk, touched: touched.clone() }, mail, touched)
    }

    /// Opens a stream. Messages for the agent go to `outgoing`; it is closed when the stream must end.
    ///
    /// # Errors
    /// The goodbye to answer with.
    pub async fn open(
        &self,
        backend: BackendName,
        policy: Option<Policy>,
        hello: Hello,
        outgoing: mpsc::Sender<WriterMessage>,
    ) -> Result<u64, Goodbye> {
        let ending = || Goodbye { reason: GoodbyeReason::Shutdown, message: Ended.to_string(), retry_after: None };
        let (reply, answer) = oneshot::channel();
        let policy = policy.map(Box::new);
        let mail = Mail::Open { backend, policy, hello, outgoing, reply };
        self.mail.send(mail).await.map_err(|_| ending())?;
        answer.await.map_err(|_| ending())?
    }

    /// Passes a message of a stream on. Waits while the owner is busy: that is the back-pressure. `turn` is one of the
    /// stream's, so that no stream fills the mailbox before others; and snapshots have so many between them that they never fill
    /// it, a part of each in turn.
    ///
    /// # Errors
    /// When the process ends.
    pub async fn message(
        &self,
        backend: &BackendName,
        generation: u64,
        message: AgentMessage,
        turn: OwnedSemaphorePermit,
    ) -> Result<(), Ended> {
        let mut turns = vec![turn];
        if matches!(&message, AgentMessage::Data(Data { frame: Frame::SnapshotChunk { .. }, .. })) {
            turns.push(self.bulk.clone().acquire_owned().await.map_err(|_| Ended)?);
        }
        let mail = Mail::Message { backend: backend.clone(), generation, message, turns };
        self.mail.send(mail).await.map_err(|_| Ended)
    }

    /// A stream ended. That the owner is gone already needs no telling.
    pub async fn closed(&self, backend: &BackendName, generation: u64) {
        let mail = Mail::Closed { backend: backend.clone(), generation };
        if self.mail.send(mail).await.is_err() {
            tracing::debug!(%backend, generation, "a stream ended after the owner");
        }
    }

    /// Asks the state something, or tells it something.
    ///
    /// # Errors
    /// When the process ends.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Reconciler) -> T + Send + 'static,
    ) -> Result<T, Ended> {
        let (reply, answer) = oneshot::channel();
        let question: Question = Box::new(move |state| {
            if reply.send(question(state)).is_err() {
                tracing::debug!("whoever asked did not wait for the answer");
            }
        });
        self.mail.send(Mail::Ask(question)).await.map_err(|_| Ended)?;
        answer.await.map_err(|_| Ended)
    }

    /// Source Services whose status may have changed, from now on.
    #[must_use]
    pub fn touched(&self) -> broadcast::Receiver<Claim> {
        self.touched.subscribe()
    }
}
