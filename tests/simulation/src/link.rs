//! Connections between agents and writers: ordered, delayed, and half open when one side ends silently.

use std::collections::VecDeque;
use std::time::Duration;

use gimbal_session::{AgentMessage, WriterMessage};

/// An item that a pipe delivers.
#[derive(Debug)]
pub(crate) enum Packet<T> {
    Says(T),
    /// The end of the stream.
    End,
}

/// One direction of a connection.
#[derive(Debug)]
pub(crate) struct Pipe<T> {
    queue: VecDeque<(Duration, Packet<T>)>,
    /// The arrival of the first packet is on the agenda.
    armed: bool,
}

impl<T> Default for Pipe<T> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), armed: false }
    }
}

impl<T> Pipe<T> {
    /// Queues a packet that arrives at `when`, or after the packets before it. Returns the time of the next arrival,
    /// if it is not on the agenda yet.
    pub(crate) fn send(&mut self, when: Duration, packet: Packet<T>) -> Option<Duration> {
        let when = self.queue.back().map_or(when, |(last, _)| when.max(*last));
        self.queue.push_back((when, packet));
        self.rearm()
    }

    /// Returns the time of the next arrival, if there is one and it is not on the agenda yet.
    pub(crate) fn rearm(&mut self) -> Option<Duration> {
        let (when, _) = self.queue.front()?;
        (!std::mem::replace(&mut self.armed, true)).then_some(*when)
    }

    /// Returns the packet that arrives now.
    pub(crate) fn arrive(&mut self) -> Option<Packet<T>> {
        self.armed = false;
        self.queue.pop_front().map(|(_, packet)| packet)
    }

    /// Drops the packets that are on their way. Returns their messages.
    pub(crate) fn lose(&mut self) -> Vec<T> {
        let lost = std::mem::take(&mut self.queue).into_iter();
        lost.filter_map(|(_, packet)| if let Packet::Says(message) = packet { Some(message) } else { None }).collect()
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// A connection, as seen from both ends.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) agent: usize,
    pub(crate) writer: usize,
    /// Set when the writer has accepted the stream.
    pub(crate) generation: Option<u64>,
    pub(crate) up: Pipe<AgentMessage>,
    pub(crate) down: Pipe<WriterMessage>,
    pub(crate) agent_open: bool,
    /// The agent is in the middle of a snapshot.
    pub(crate) amid_snapshot: bool,
    pub(crate) writer_open: bool,
}

impl Link {
    pub(crate) fn new(agent: usize, writer: usize) -> Self {
        Self {
            agent,
            writer,
            generation: None,
            up: Pipe::default(),
            down: Pipe::default(),
            agent_open: true,
            amid_snapshot: false,
            writer_open: true,
        }
    }

    /// Whether both ends are closed and nothing is on its way.
    pub(crate) fn is_over(&self) -> bool {
        !self.agent_open && !self.writer_open && self.up.is_empty() && self.down.is_empty()
    }
}
