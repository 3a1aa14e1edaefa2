//! The mailbox of the owner: messages of controllers, and questions of inspection calls.

use std::sync::Arc;

use gimbal_kuryr_model::{DesiredKey, Text};
use gimbal_kuryr_wire::Kuryr;
use gimbal_session::{AgentMessage, Data, Frame, Goodbye, GoodbyeReason, Hello, WriterMessage};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, mpsc, oneshot};

use crate::clusters::Clusters;

/// Messages that may be pending at the owner. Few, so that a flood stays at the controllers.
const MAILBOX: usize = 256;
/// Parts of snapshots that may be pending at the owner, of all streams together.
const BULK: usize = 16;
/// Changes of status that a reader of Watch may lag behind.
const CHANGED: usize = 4096;

/// A question to the owner.
pub type ClustersQuestion = Box<dyn FnOnce(&mut Clusters) + Send>;

/// A message to the owner.
pub enum ClusterMail {
    /// Opens a stream of the controller of this cluster.
    Open {
        /// The cluster.
        cluster: Text,
        /// Its first message.
        hello: Hello,
        /// Where messages for it go. It is closed when the stream must end.
        outgoing: mpsc::Sender<WriterMessage<Kuryr>>,
        /// The stream's number, or why it is refused.
        reply: oneshot::Sender<Result<u64, Goodbye>>,
    },
    /// A message of an open stream.
    Message {
        /// The cluster.
        cluster: Text,
        /// The stream.
        generation: u64,
        /// The message.
        message: AgentMessage<Kuryr>,
        /// Permits that are released once the message is processed.
        turns: Vec<OwnedSemaphorePermit>,
    },
    /// A stream has ended.
    Closed {
        /// The cluster.
        cluster: Text,
        /// The stream.
        generation: u64,
    },
    /// Asks or changes something.
    Ask(ClustersQuestion),
}

/// An entry whose status may have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedEntry {
    /// The cluster.
    pub cluster: Text,
    /// The entry.
    pub key: DesiredKey,
}

/// Sends messages to the owner. Cheap to clone.
#[derive(Clone)]
pub struct OwnerHandle {
    mail: mpsc::Sender<ClusterMail>,
    bulk: Arc<Semaphore>,
    changed: broadcast::Sender<ChangedEntry>,
}

/// The owner has ended, because the process ends.
#[derive(Debug, thiserror::Error)]
#[error("the writer is shutting down")]
pub struct OwnerEnded;

impl OwnerHandle {
    /// Creates a handle, the owner's end of it, and where the owner sends changes of status.
    pub(crate) fn new() -> (Self, mpsc::Receiver<ClusterMail>, broadcast::Sender<ChangedEntry>) {
        let (mail, receiver) = mpsc::channel(MAILBOX);
        let (changed, _) = broadcast::channel(CHANGED);
        (Self { mail, bulk: Arc::new(Semaphore::new(BULK)), changed: changed.clone() }, receiver, changed)
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// Returns the goodbye to answer with.
    pub async fn open(
        &self,
        cluster: Text,
        hello: Hello,
        outgoing: mpsc::Sender<WriterMessage<Kuryr>>,
    ) -> Result<u64, Goodbye> {
        let ending = || Goodbye { reason: GoodbyeReason::Shutdown, message: OwnerEnded.to_string(), retry_after: None };
        let (reply, answer) = oneshot::channel();
        let mail = ClusterMail::Open { cluster, hello, outgoing, reply };
        self.mail.send(mail).await.map_err(|_| ending())?;
        answer.await.map_err(|_| ending())?
    }

    /// Passes on a message of a stream. Waits while the owner is busy, which is the back-pressure. `turn` is one of the
    /// stream's permits, so that no stream fills the mailbox alone; a part of a snapshot also takes one that all streams
    /// share.
    ///
    /// # Errors
    /// Returns an error if the process ends.
    pub async fn message(
        &self,
        cluster: &Text,
        generation: u64,
        message: AgentMessage<Kuryr>,
        turn: OwnedSemaphorePermit,
    ) -> Result<(), OwnerEnded> {
        let mut turns = vec![turn];
        if matches!(&message, AgentMessage::Data(Data { frame: Frame::SnapshotChunk { .. }, .. })) {
            turns.push(self.bulk.clone().acquire_owned().await.map_err(|_| OwnerEnded)?);
        }
        let mail = ClusterMail::Message { cluster: cluster.clone(), generation, message, turns };
        self.mail.send(mail).await.map_err(|_| OwnerEnded)
    }

    /// Reports that a stream ended. If the owner has ended already, nothing is to be done.
    pub async fn closed(&self, cluster: &Text, generation: u64) {
        if self.mail.send(ClusterMail::Closed { cluster: cluster.clone(), generation }).await.is_err() {
            tracing::debug!(%cluster, generation, "a stream ended after the owner");
        }
    }

    /// Runs `question` on the state, and returns its answer.
    ///
    /// # Errors
    /// Returns an error if the process ends.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Clusters) -> T + Send + 'static,
    ) -> Result<T, OwnerEnded> {
        let (reply, answer) = oneshot::channel();
        let question: ClustersQuestion = Box::new(move |clusters| {
            if reply.send(question(clusters)).is_err() {
                tracing::debug!("whoever asked did not wait for the answer");
            }
        });
        self.mail.send(ClusterMail::Ask(question)).await.map_err(|_| OwnerEnded)?;
        answer.await.map_err(|_| OwnerEnded)
    }

    /// Subscribes to the entries whose status may have changed, from now on.
    #[must_use]
    pub fn changed(&self) -> broadcast::Receiver<ChangedEntry> {
        self.changed.subscribe()
    }
}
