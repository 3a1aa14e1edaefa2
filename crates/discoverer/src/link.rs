//! The stream to the writer: dialled, lost, and dialled again for as long as the process runs.

use std::time::Duration;

use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt, pending};
use gimbal_session::{AgentMessage, GoodbyeReason, Services, WriterMessage};
use gimbal_transport::{AgentSender, Way, WirePayload, WriterMessages};
use tokio::time::{Instant, sleep_until};

use crate::dial_order::DialOrder;
use crate::dial_pauses::{DialFailure, DialPauses};
use crate::dialling::{Dialled, WriterAddress, open};

/// How long the first dial waits for the source. A stream that opens before the source was read carries no data.
const HEAD_START: Duration = Duration::from_secs(2);
/// How long a writer may take to answer Hello: the only one, and one of several.
const ANSWER: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(2));
/// Longest pause that a writer can ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(600);

/// An event of the stream.
#[derive(Debug)]
pub(crate) enum LinkEvent<P: WirePayload = Services> {
    /// A stream is open, and Hello has to be sent.
    Opened,
    /// A message of the writer.
    Message(WriterMessage<P>),
    /// A message of the writer that could not be parsed. The stream continues.
    Unreadable(String),
    /// A message can be sent now.
    Room,
    /// The stream broke, or none could be opened.
    Down(String),
}

/// The stream to the writer, or the wait for one.
pub(crate) struct Link<P: WirePayload = Services> {
    writer: Option<WriterAddress>,
    state: LinkState<P>,
    pauses: DialPauses,
    order: DialOrder<Way>,
    /// The addresses that the writer's names resolved to last.
    found: Vec<Way>,
}

enum LinkState<P: WirePayload> {
    Off,
    /// Another process speaks to the writer.
    Held,
    /// Before the first dial.
    HeadStart(Instant),
    Waiting(Instant),
    Dialling(BoxFuture<'static, Dialled<P>>),
    Open(OpenStream<P>),
}

struct OpenStream<P: WirePayload> {
    sender: AgentSender<P>,
    messages: WriterMessages<P>,
    at: Way,
    /// When the writer must have answered Hello; `None` if it has.
    answer: Option<Instant>,
}

impl<P: WirePayload> Link<P> {
    /// Creates a link. Without a writer it never has an event.
    pub(crate) fn new(writer: Option<WriterAddress>) -> Self {
        let state = if writer.is_some() { LinkState::HeadStart(Instant::now() + HEAD_START) } else { LinkState::Off };
        Self { writer, state, pauses: DialPauses::new(), order: DialOrder::default(), found: Vec::new() }
    }

    /// Waits for the next event. `wants_room` says that there may be a message to send. No event is lost when this
    /// future is dropped.
    pub(crate) async fn event(&mut self, wants_room: bool) -> LinkEvent<P> {
        loop {
            match &mut self.state {
                LinkState::Off | LinkState::Held => pending::<()>().await,
                LinkState::HeadStart(until) | LinkState::Waiting(until) => {
                    sleep_until(*until).await;
                    self.dial();
                }
                LinkState::Dialling(dial) => {
                    let dialled = dial.await;
                    return self.dialled(dialled);
                }
                LinkState::Open(open) => {
                    // `None` if the writer has not answered Hello in time.
                    let heard = tokio::select! {
                        biased;
                        message = open.messages.next() => Some(message),
                        permit = open.sender.reserve(), if wants_room => match permit {
                            Ok(_) => return LinkEvent::Room,
                            Err(_) => Some(None),
                        },
                        () = until(open.answer) => None,
                    };
                    return match heard {
                        Some(Some(Ok(message))) => LinkEvent::Message(message),
                        Some(Some(Err(error))) if !error.is_final() => LinkEvent::Unreadable(error.to_string()),
                        Some(Some(Err(error))) => self.down(DialFailure::Lost, error.to_string()),
                        Some(None) => self.down(DialFailure::Lost, "the writer ended the stream".into()),
                        None => self.down(DialFailure::Lost, "the writer did not answer Hello".into()),
                    };
                }
            }
        }
    }

    /// Sends a message after [`LinkEvent::Room`]. Returns false if the stream has ended meanwhile.
    pub(crate) fn send(&mut self, message: AgentMessage<P>) -> bool {
        match &self.state {
            LinkState::Open(open) => open.sender.try_send(message).is_ok(),
            _ => false,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, LinkState::Open(_))
    }

    /// Called when the writer accepted the stream. Resets the back-off.
    pub(crate) fn worked(&mut self) {
        self.pauses.reset();
        if let LinkState::Open(open) = &mut self.state {
            open.answer = None;
            self.order.worked(&open.at);
        }
    }

    /// Ends the stream and dials again at once. Unlike `close`, this does not count against its address.
    pub(crate) fn reopen(&mut self) {
        self.wait(Duration::ZERO);
    }

    /// Ends the stream, if there is one, and dials again: at once if another address is worth trying, else after the
    /// pause that the writer asked for, or that of the back-off.
    pub(crate) fn close(&mut self, failure: DialFailure, asked: Option<Duration>) {
        if let LinkState::Open(open) = &self.state {
            self.order.avoid(&open.at);
        }
        let elsewhere = failure != DialFailure::Refused && self.order.has_more(&self.found);
        let pause = match asked {
            _ if elsewhere => Duration::ZERO,
            Some(asked) => asked.min(LONGEST_ASKED),
            None => self.pauses.after(failure, Instant::now().into_std()),
        };
        if !elsewhere {
            self.order.pause(&self.found);
        }
        self.wait(pause);
    }

    /// Ends the stream, or the attempt to open one, until [`Link::resume`]. Returns whether a stream was open.
    pub(crate) fn hold(&mut self) -> bool {
        let open = self.is_open();
        if !matches!(self.state, LinkState::Off) {
            self.state = LinkState::Held;
        }
        open
    }

    /// Ends [`Link::hold`]. Dials as a new link does.
    pub(crate) fn resume(&mut self) {
        if matches!(self.state, LinkState::Held) {
            self.state = LinkState::HeadStart(Instant::now() + HEAD_START);
        }
    }

    /// Called when the source was read. Ends the wait before the first dial, but not a back-off.
    pub(crate) fn skip_head_start(&mut self) {
        if let LinkState::HeadStart(until) = &mut self.state {
            *until = Instant::now();
        }
    }

    /// Closes our side and waits until the writer has ended the stream.
    pub(crate) async fn finish(&mut self) {
        if let LinkState::Open(open) = std::mem::replace(&mut self.state, LinkState::Off) {
            let OpenStream { sender, mut messages, .. } = open;
            drop(sender);
            while messages.next().await.is_some() {}
        }
    }

    fn wait(&mut self, pause: Duration) {
        if !matches!(self.state, LinkState::Off) {
            self.state = LinkState::Waiting(Instant::now() + pause);
        }
    }

    fn down(&mut self, failure: DialFailure, reason: String) -> LinkEvent<P> {
        self.close(failure, None);
        LinkEvent::Down(reason)
    }

    fn dial(&mut self) {
        self.state = match &self.writer {
            Some(writer) => {
                let order = self.order.clone();
                LinkState::Dialling(open(writer.clone(), move |found| order.order(found)).boxed())
            }
            None => LinkState::Off,
        };
    }

    fn dialled(&mut self, dialled: Dialled<P>) -> LinkEvent<P> {
        self.found = dialled.found;
        for address in &dialled.passed_over {
            self.order.avoid(address);
        }
        match dialled.stream {
            Ok((at, sender, messages)) => {
                let answer = if dialled.is_one_of_several { ANSWER.1 } else { ANSWER.0 };
                let answer = Some(Instant::now() + answer);
                self.state = LinkState::Open(OpenStream { sender, messages, at, answer });
                LinkEvent::Opened
            }
            Err((failure, reason)) => self.down(failure, reason),
        }
    }
}

impl DialFailure {
    /// Returns what a Goodbye of the writer means for the next dial.
    pub(crate) fn of(reason: GoodbyeReason) -> Self {
        match reason {
            GoodbyeReason::NotLeader => Self::NoLeader,
            GoodbyeReason::Shutdown | GoodbyeReason::Timeout => Self::Lost,
            _ => Self::Refused,
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}
