//! The way to the writer: dialled, lost, and dialled again for as long as the process lives.

use std::time::Duration;

use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt, pending};
use gimbal_link::{AgentSender, ClientTls, WriterMessages};
use gimbal_stream::{AgentMessage, WriterMessage};
use tokio::time::{Instant, sleep_until};

use crate::backoff::Backoff;

/// Connecting and opening the stream, each.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Limits of the first pause and of any later one. The first is short, so that a change that comes as a connection breaks
/// hardly waits for it, and still spreads the handshakes of many agents that lose a writer at once.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(15));
/// How long the first dial waits for the source to be read: a stream that opens earlier carries no data.
const HEAD_START: Duration = Duration::from_secs(2);

/// Where the writer is.
#[derive(Debug, Clone)]
pub(crate) struct WriterAddress {
    pub(crate) url: String,
    pub(crate) tls: Option<ClientTls>,
}

/// What happens on the way.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    /// A stream is open: Hello is due.
    Opened,
    /// The writer said something.
    Message(WriterMessage),
    /// The writer said something that cannot be read. The stream goes on.
    Unreadable(String),
    /// A message can be sent now.
    Room,
    /// There is no stream: it broke, or none could be opened.
    Down(String),
}

/// The stream, or the wait for one.
pub(crate) struct Link {
    writer: Option<WriterAddress>,
    state: State,
    backoff: Backoff,
}

enum State {
    Off,
    /// Before the first dial.
    HeadStart(Instant),
    Waiting(Instant),
    Dialling(BoxFuture<'static, Result<(AgentSender, WriterMessages), String>>),
    Open(AgentSender, WriterMessages),
}

impl Link {
    /// Without a writer the link is silent for ever.
    pub(crate) fn new(writer: Option<WriterAddress>) -> Self {
        let state = if writer.is_some() { State::HeadStart(Instant::now() + HEAD_START) } else { State::Off };
        Self { writer, state, backoff: Backoff::new(PAUSES.0, PAUSES.1) }
    }

    /// The next event. `wants_room`: there may be something to say. Nothing is lost when this future is dropped.
    pub(crate) async fn event(&mut self, wants_room: bool) -> LinkEvent {
        loop {
            match &mut self.state {
                State::Off => pending::<()>().await,
                State::HeadStart(until) | State::Waiting(until) => {
                    sleep_until(*until).await;
                    self.dial();
                }
                State::Dialling(dial) => {
                    return match dial.await {
                        Ok((sender, messages)) => {
                            self.state = State::Open(sender, messages);
                            LinkEvent::Opened
                        }
                        Err(reason) => self.down(reason),
                    };
                }
                State::Open(sender, messages) => {
                    let message = tokio::select! {
                        biased;
                        message = messages.next() => message,
                        permit = sender.reserve(), if wants_room => match permit {
                            Ok(_) => return LinkEvent::Room,
                            Err(_) => None,
                        },
                    };
                    return match message {
                        Some(Ok(message)) => LinkEvent::Message(message),
                        Some(Err(error)) if !error.is_final() => LinkEvent::Unreadable(error.to_string()),
                        Some(Err(error)) => self.down(error.to_string()),
                        None => self.down("the writer ended the stream".into()),
                    };
                }
            }
        }
    }

    /// Sends one message, after [`LinkEvent::Room`]. False: there was none after all.
    pub(crate) fn send(&mut self, message: AgentMessage) -> bool {
        match &self.state {
            State::Open(sender, _) => sender.try_send(message).is_ok(),
            _ => false,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(..))
    }

    /// The writer took us in: the next trouble is a new one.
    pub(crate) fn worked(&mut self) {
        self.backoff.reset();
    }

    /// Ends the stream, if there is one, and dials again after `pause`; without one, after the back-off's.
    pub(crate) fn close(&mut self, pause: Option<Duration>) {
        if !matches!(self.state, State::Off) {
            let pause = pause.unwrap_or_else(|| self.backoff.pause());
            self.state = State::Waiting(Instant::now() + pause);
        }
    }

    /// The source is read: ends the first dial's wait. A back-off is not cut short.
    pub(crate) fn hurry(&mut self) {
        if let State::HeadStart(until) = &mut self.state {
            *until = Instant::now();
        }
    }

    /// Says no more, and waits until the writer has ended the stream.
    pub(crate) async fn finish(&mut self) {
        if let State::Open(sender, mut messages) = std::mem::replace(&mut self.state, State::Off) {
            drop(sender);
            while messages.next().await.is_some() {}
        }
    }

    fn down(&mut self, reason: String) -> LinkEvent {
        self.close(None);
        LinkEvent::Down(reason)
    }

    fn dial(&mut self) {
        self.state = match &self.writer {
            Some(writer) => State::Dialling(open(writer.clone()).boxed()),
            None => State::Off,
        };
    }
}

async fn open(writer: WriterAddress) -> Result<(AgentSender, WriterMessages), String> {
    let channel = gimbal_link::dial(&writer.url, writer.tls, TIMEOUT).await.map_err(|error| error.to_string())?;
    match tokio::time::timeout(TIMEOUT, gimbal_link::open(channel)).await {
        Ok(opened) => opened.map_err(|error| error.to_string()),
        Err(_) => Err(format!("the writer did not open the stream within {} s", TIMEOUT.as_secs())),
    }
}
