//! What an agent said that waits at the writer behind a data frame.

use std::collections::VecDeque;

use gimbal_session::{AgentMessage, Credit, Frame, Payload, WriterMessage, estimated_message_len};

/// Messages in the order in which they came. An agent that keeps to its credit never has more here than that, so what comes
/// after its data can always be read.
pub(crate) struct Parked<P: Payload> {
    /// With what each counts.
    messages: VecDeque<(AgentMessage<P>, (u64, u64))>,
    entries: u64,
    bytes: u64,
    credit: Credit,
}

impl<P: Payload> Default for Parked<P> {
    fn default() -> Self {
        // Before Welcome there is no data.
        Self { messages: VecDeque::new(), entries: 0, bytes: 0, credit: Credit { changes: 0, bytes: 0 } }
    }
}

/// Returns what a message counts: entries, at least one, and bytes.
fn weight<P: Payload>(message: &AgentMessage<P>) -> (u64, u64) {
    (entries(message).unwrap_or_default().max(1), estimated_message_len(message) as u64)
}

/// Returns the entries that a data frame has; `None` for another message.
pub(crate) fn entries<P: Payload>(message: &AgentMessage<P>) -> Option<u64> {
    match message {
        AgentMessage::Data(data) => Some(Frame::entries(&data.frame) as u64),
        _ => None,
    }
}

impl<P: Payload> Parked<P> {
    /// Follows the credit that the writer grants.
    pub(crate) fn granted(&mut self, message: &WriterMessage<P>) {
        match message {
            WriterMessage::Welcome(welcome) => self.credit = welcome.credit,
            WriterMessage::Credit(credit) => self.credit = *credit,
            _ => {}
        }
    }

    /// Returns whether another message may be read. The last one may be larger than the room that was left.
    pub(crate) fn has_room(&self) -> bool {
        self.entries < self.credit.changes.into() && self.bytes < self.credit.bytes
    }

    /// Returns how many entries wait; a message without any counts as one.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    pub(crate) fn push(&mut self, message: AgentMessage<P>) {
        let (entries, bytes) = weight(&message);
        self.entries += entries;
        self.bytes += bytes;
        self.messages.push_back((message, (entries, bytes)));
    }

    pub(crate) fn pop(&mut self) -> Option<AgentMessage<P>> {
        let (message, (entries, bytes)) = self.messages.pop_front()?;
        self.entries -= entries;
        self.bytes -= bytes;
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gimbal_session::{ChangeAge, Data, Need, PieceChange, Services, Welcome};

    use super::*;

    fn delta(seq: u64, changes: usize) -> AgentMessage {
        let change = || Ok(PieceChange::Remove(gimbal_model::SourceKey::new("ns", "name")));
        let changes = std::iter::repeat_with(change).take(changes).collect();
        AgentMessage::Data(Data { seq, frame: Frame::Delta { changes, age: ChangeAge::default() }, trace: None })
    }

    #[test]
    fn as_much_is_kept_as_the_agent_was_granted() {
        let mut parked = Parked::<Services>::default();
        assert!(!parked.has_room(), "nothing is granted before Welcome");
        let credit = Credit { changes: 4, bytes: 1 << 20 };
        let heartbeat_timeout = Duration::from_secs(15);
        let welcome = Welcome {
            protocol: 1,
            generation: 1,
            need: Need::Nothing,
            credit,
            backend: "b".into(),
            heartbeat_timeout,
            capabilities: Default::default(),
        };
        parked.granted(&WriterMessage::Welcome(welcome));
        for (seq, changes, room) in [(1, 2, true), (2, 0, true), (3, 3, false)] {
            assert!(parked.has_room());
            parked.push(delta(seq, changes));
            assert_eq!(parked.has_room(), room, "{seq}");
        }
        assert_eq!(parked.entries(), 6, "one without entries counts as one");
        parked.granted(&WriterMessage::Credit(Credit { changes: 100, bytes: 1 }));
        assert!(!parked.has_room(), "bytes count, too");
        parked.granted(&WriterMessage::Credit(Credit { changes: 100, ..credit }));
        assert!(parked.has_room());
        let order: Vec<_> = std::iter::from_fn(|| parked.pop()).collect();
        assert_eq!(order, [delta(1, 2), delta(2, 0), delta(3, 3)]);
        assert_eq!((parked.entries, parked.bytes), (0, 0));
    }

    #[test]
    fn a_flood_without_data_is_bounded_as_well() {
        let mut parked = Parked::<Services>::default();
        parked.granted(&WriterMessage::Credit(Credit { changes: 4000, bytes: 8 << 20 }));
        let mut pushed = 0;
        while parked.has_room() {
            parked.push(AgentMessage::Unreadable { reason: "x".repeat(1 << 20) });
            pushed += 1;
        }
        assert_eq!(pushed, 8);
    }
}
