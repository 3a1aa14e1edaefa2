//! What a writer does with an agent's stream, whatever its payload: waits for Hello, passes messages to the owner of the state and
//! back until one end is over, and says why.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Fuse, FusedFuture as _, FutureExt as _};
use gimbal_session::{AgentMessage, Goodbye, GoodbyeReason, Hello, WriterMessage};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::unconstrained;
use tokio::time::timeout;
use tokio_stream::StreamExt as _;
use tokio_util::sync::CancellationToken;

use crate::parked::{Parked, entries};
use crate::{AgentMessages, LinkError, Peer, WirePayload};

/// How long an agent may take to send Hello.
const HELLO: Duration = Duration::from_secs(10);
/// The stream of an agent that does not take a pending message for this long ends, so that what is pending for it is
/// not kept for ever.
const READS: Duration = Duration::from_secs(10);
/// How long an agent may take to read its goodbye and what is queued before it.
const GOODBYE: Duration = Duration::from_secs(2);

/// Returns the Goodbye that ends a stream for this reason.
#[must_use]
pub fn goodbye(reason: GoodbyeReason, message: String) -> Goodbye {
    Goodbye { reason, message, retry_after: None }
}

/// Waits for the first message of an agent, which must be Hello.
///
/// # Errors
/// Returns what to say to an agent that sends anything else, or nothing in time.
pub async fn hello<P: WirePayload>(incoming: &mut AgentMessages<P>) -> Result<Hello, Goodbye> {
    let wrong = |message| Err(goodbye(GoodbyeReason::ProtocolError, message));
    match timeout(HELLO, incoming.next()).await {
        Ok(Some(Ok(AgentMessage::Hello(hello)))) => Ok(hello),
        Ok(Some(Err(LinkError::Refused(message)))) => Err(goodbye(GoodbyeReason::Certificate, message.into())),
        Ok(Some(Ok(AgentMessage::Unreadable { reason }))) => {
            wrong(format!("the first message must be Hello, and cannot be read: {reason}"))
        }
        Ok(_) => wrong("the first message must be Hello".into()),
        Err(_) => Err(goodbye(GoodbyeReason::Timeout, "no Hello came in time".into())),
    }
}

/// Sends a Goodbye. An agent that does not wait for it, or does not read it, misses it.
pub async fn say_goodbye<P: WirePayload>(peer: &Peer, outgoing: &mpsc::Sender<WriterMessage<P>>, goodbye: Goodbye) {
    match timeout(GOODBYE, outgoing.send(WriterMessage::Goodbye(goodbye))).await {
        Ok(Ok(())) => {}
        Ok(Err(_)) => tracing::debug!(%peer, "the agent did not wait for the goodbye"),
        Err(_) => tracing::debug!(%peer, "the agent did not take the goodbye"),
    }
}

/// Why a stream is over.
#[derive(Debug)]
pub enum StreamEnd {
    /// The agent is to be sent this.
    Dismissed(Goodbye),
    /// The connection failed.
    Broken(LinkError),
    /// The agent does not read what it is sent.
    Unread,
    /// One end has closed it.
    Closed,
}

/// What kind of end it was, for one line of the log a minute of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndKind {
    /// The agent is sent away for this reason.
    Dismissed(GoodbyeReason),
    /// As [`StreamEnd::Broken`].
    Broken,
    /// As [`StreamEnd::Unread`].
    Unread,
    /// As [`StreamEnd::Closed`].
    Closed,
}

impl From<&StreamEnd> for EndKind {
    fn from(end: &StreamEnd) -> Self {
        match end {
            StreamEnd::Dismissed(goodbye) => Self::Dismissed(goodbye.reason),
            StreamEnd::Broken(_) => Self::Broken,
            StreamEnd::Unread => Self::Unread,
            StreamEnd::Closed => Self::Closed,
        }
    }
}

/// A stream that is open.
pub struct Passing<'a, P: WirePayload> {
    /// What the agent sends.
    pub incoming: AgentMessages<P>,
    /// To the agent.
    pub outgoing: &'a mpsc::Sender<WriterMessage<P>>,
    /// What the owner says to the agent. Closed, it ends the stream.
    pub queued: mpsc::Receiver<WriterMessage<P>>,
    /// Cancelled when the process ends: then an agent that says no more does not end the stream, which has yet to get the
    /// owner's goodbye.
    pub shutdown: &'a CancellationToken,
}

impl<P: WirePayload> Passing<'_, P> {
    /// Messages of one stream that may be pending at the owner. An agent that floods delays itself, not others. Beside
    /// these, one that has overtaken data may be.
    pub const TURNS: usize = 4;

    /// Passes messages until the stream is over.
    ///
    /// `still_speaks` is asked at each change of `config`, and returns an error if the peer no longer stands for whom the
    /// stream was opened. `take` passes a message to the owner, which keeps the permit until it is dealt with; it returns
    /// false once the owner takes no more.
    ///
    /// Messages pass in their order, but for a heartbeat, a goodbye, and the word that a part of the source is unknown: these
    /// pass data of their own stream that waits for room.
    pub async fn until_end<C, T: Future<Output = bool>>(
        mut self,
        mut config: watch::Receiver<C>,
        still_speaks: impl Fn(&C) -> Result<(), String>,
        take: impl Fn(AgentMessage<P>, OwnedSemaphorePermit) -> T,
    ) -> StreamEnd {
        // At shutdown reading stops first, and the owner's goodbye is still sent.
        let mut speaks = true;
        // What the agent's side of the stream ended with. What came before that passes first.
        let mut over = None;
        let (turns, ahead) = (Arc::new(Semaphore::new(Self::TURNS)), Arc::new(Semaphore::new(1)));
        let take = &take;
        let pass = |message, turns: &Arc<Semaphore>| {
            let turns = turns.clone();
            async move {
                match turns.acquire_owned().await {
                    Ok(turn) => take(message, turn).await,
                    Err(_) => false,
                }
            }
            .fuse()
        };
        // The message that is pending at the owner, and how many entries it has if it is data. Messages to the agent do not
        // wait for it.
        let (mut passing, mut waiting) = (pin!(Fuse::terminated()), None);
        // The message that overtakes it.
        let mut overtaking = pin!(Fuse::terminated());
        let (mut parked, mut arrived) = (Parked::default(), None);
        loop {
            // What has room passes at once, so that only what really waits is overtaken.
            loop {
                if passing.is_terminated() {
                    let Some(message) = parked.pop().or_else(|| arrived.take()) else { break };
                    waiting = entries(&message);
                    passing.set(pass(message, &turns));
                }
                let Some(passed) = unconstrained(passing.as_mut()).now_or_never() else { break };
                speaks &= passed;
            }
            if let Some(message) = arrived.take() {
                let (early, at_its_place) = overtakes(message, waiting.unwrap_or_default() + parked.entries());
                at_its_place.into_iter().for_each(|message| parked.push(message));
                if let Some(early) = early {
                    overtaking.set(pass(early, &ahead));
                }
            }
            if passing.is_terminated()
                && overtaking.is_terminated()
                && let Some(end) = over
            {
                return end;
            }
            let behind_data = waiting.is_some() && parked.has_room();
            let reads = speaks && over.is_none() && overtaking.is_terminated();
            tokio::select! {
                Ok(()) = config.changed() => {
                    if let Err(message) = still_speaks(&config.borrow_and_update()) {
                        return StreamEnd::Dismissed(goodbye(GoodbyeReason::UnknownBackend, message));
                    }
                }
                message = self.queued.recv() => match message {
                    Some(message) => {
                        parked.granted(&message);
                        match timeout(READS, self.outgoing.send(message)).await {
                            Ok(Ok(())) => {}
                            Ok(Err(_)) => return StreamEnd::Closed,
                            Err(_) => return StreamEnd::Unread,
                        }
                    }
                    // The owner ended the stream.
                    None => return StreamEnd::Closed,
                },
                passed = &mut passing, if !passing.is_terminated() => speaks &= passed,
                passed = &mut overtaking, if !overtaking.is_terminated() => speaks &= passed,
                message = self.incoming.next(), if reads && (passing.is_terminated() || behind_data) => match message {
                    Some(Ok(message)) => arrived = Some(message),
                    // Nothing more of it counts.
                    Some(Err(LinkError::Refused(message))) => {
                        return StreamEnd::Dismissed(goodbye(GoodbyeReason::Certificate, message.into()));
                    }
                    Some(Err(error)) => over = Some(StreamEnd::Broken(error)),
                    None if self.shutdown.is_cancelled() => speaks = false,
                    None => over = Some(StreamEnd::Closed),
                },
            }
        }
    }
}

/// Returns what of a message passes the data that waits before it, with `entries` entries, and what waits behind that data.
fn overtakes<P: WirePayload>(
    message: AgentMessage<P>,
    entries: u64,
) -> (Option<AgentMessage<P>>, Option<AgentMessage<P>>) {
    match message {
        // What the agent has sent waits here now: as long as it does, the agent has not said everything.
        AgentMessage::Heartbeat { sources, backlog, clock_ms } => {
            let backlog = backlog.saturating_add(entries.max(1));
            (Some(AgentMessage::Heartbeat { sources, backlog, clock_ms }), None)
        }
        AgentMessage::Goodbye(_) => (Some(message), None),
        AgentMessage::ScopeUnknown { ref scope, ref reason } => {
            let early = AgentMessage::ScopeUnknownAhead { scope: scope.clone(), reason: reason.clone() };
            (Some(early), Some(message))
        }
        message => (None, Some(message)),
    }
}
