//! The way to the writer: dialled, lost, and dialled again for as long as the process lives.

use std::time::Duration;

use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt, pending};
use gimbal_session::{AgentMessage, GoodbyeReason, WriterMessage};
use gimbal_transport::{AgentSender, WriterMessages};
use tokio::time::{Instant, sleep_until};

use crate::backoff::{Pauses, Trouble};
use crate::places::{Address, Dialled, WriterAddress, open};
use crate::route::Route;

/// How long the first dial waits for the source to be read: a stream that opens earlier carries no data.
const HEAD_START: Duration = Duration::from_secs(2);
/// How long a writer may take to answer Hello: one that is alone, and one of several.
const ANSWER: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(2));
/// A writer may ask for a pause, but not that we never come back.
const LONGEST_ASKED: Duration = Duration::from_secs(600);

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
    pauses: Pauses,
    route: Route<Address>,
    /// What the writer's names stood for when they were last looked up.
    found: Vec<Address>,
}

enum State {
    Off,
    /// Before the first dial.
    HeadStart(Instant),
    Waiting(Instant),
    Dialling(BoxFuture<'static, Dialled>),
    Open(Open),
}

struct Open {
    sender: AgentSender,
    messages: WriterMessages,
    at: Address,
    /// Until when the writer has to answer Hello; `None`: it has.
    answer: Option<Instant>,
}

impl Link {
    /// Without a writer the link is silent for ever.
    pub(crate) fn new(writer: Option<WriterAddress>) -> Self {
        let state = if writer.is_some() { State::HeadStart(Instant::now() + HEAD_START) } else { State::Off };
        Self { writer, state, pauses: Pauses::new(), route: Route::default(), found: Vec::new() }
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
                    let dialled = dial.await;
                    return self.dialled(dialled);
                }
                State::Open(open) => {
                    // None: it has not answered in time.
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
                        Some(Some(Err(error))) => self.down(Trouble::Lost, error.to_string()),
                        Some(None) => self.down(Trouble::Lost, "the writer ended the stream".into()),
                        None => self.down(Trouble::Lost, "the writer did not answer Hello".into()),
                    };
                }
            }
        }
    }

    /// Sends one message, after [`LinkEvent::Room`]. False: there was none after all.
    pub(crate) fn send(&mut self, message: AgentMessage) -> bool {
        match &self.state {
            State::Open(open) => open.sender.try_send(message).is_ok(),
            _ => false,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// The writer took us in: the next trouble is a new one.
    pub(crate) fn worked(&mut self) {
        self.pauses.reset();
        if let State::Open(open) = &mut self.state {
            open.answer = None;
            self.route.worked(&open.at);
        }
    }

    /// Ends the stream, and dials again at once, the same address first.
    pub(crate) fn reopen(&mut self) {
        self.wait(Duration::ZERO);
    }

    /// Ends the stream, if there is one, because of what the writer said, and dials again: another address at once, if there
    /// is one that may do better; else after the pause that was asked for, or that of the back-off.
    pub(crate) fn close(&mut self, trouble: Trouble, asked: Option<Duration>) {
        if let State::Open(open) = &self.state {
            self.route.avoid(&open.at);
        }
        let elsewhere = trouble != Trouble::Refused && self.route.has_more(&self.found);
        let pause = match asked {
            _ if elsewhere => Duration::ZERO,
            Some(asked) => asked.min(LONGEST_ASKED),
            None => self.pauses.after(trouble, Instant::now().into_std()),
        };
        if !elsewhere {
            self.route.pause(&self.found);
        }
        self.wait(pause);
    }

    /// The source is read: ends the first dial's wait. A back-off is not cut short.
    pub(crate) fn hurry(&mut self) {
        if let State::HeadStart(until) = &mut self.state {
            *until = Instant::now();
        }
    }

    /// Says no more, and waits until the writer has ended the stream.
    pub(crate) async fn finish(&mut self) {
        if let State::Open(open) = std::mem::replace(&mut self.state, State::Off) {
            let Open { sender, mut messages, .. } = open;
            drop(sender);
            while messages.next().await.is_some() {}
        }
    }

    fn wait(&mut self, pause: Duration) {
        if !matches!(self.state, State::Off) {
            self.state = State::Waiting(Instant::now() + pause);
        }
    }

    fn down(&mut self, trouble: Trouble, reason: String) -> LinkEvent {
        self.close(trouble, None);
        LinkEvent::Down(reason)
    }

    fn dial(&mut self) {
        self.state = match &self.writer {
            Some(writer) => {
                let route = self.route.clone();
                State::Dialling(open(writer.clone(), move |found| route.order(found)).boxed())
            }
            None => State::Off,
        };
    }

    fn dialled(&mut self, dialled: Dialled) -> LinkEvent {
        self.found = dialled.found;
        for address in &dialled.passed_over {
            self.route.avoid(address);
        }
        match dialled.stream {
            Ok((at, sender, messages)) => {
                let answer = if dialled.is_one_of_several { ANSWER.1 } else { ANSWER.0 };
                let answer = Some(Instant::now() + answer);
                self.state = State::Open(Open { sender, messages, at, answer });
                LinkEvent::Opened
            }
            Err((trouble, reason)) => self.down(trouble, reason),
        }
    }
}

impl Trouble {
    /// What a goodbye of the writer means for the next dial.
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
