//! Estimates of encoded sizes. Credit and the frame limit are counted in these before anything is encoded, so an
//! estimate is never less than the real size.

use crate::{AgentMessage, Content, Data, Entry, Frame, Key, Payload, Piece, PieceChange, Scope, Unreadable};

/// Overhead of a frame: request, data, number, frame, and the fields beside its list.
pub(crate) const FRAME: usize = 128;
/// Overhead of a string, list or message: tag and length.
pub(crate) const FIELD: usize = 8;

/// Returns the estimated size of an encoded data frame, in bytes.
#[must_use]
pub fn estimated_len<P: Payload>(data: &Data<P>) -> usize {
    let content = match &data.frame {
        Frame::SnapshotBegin { scope } => scope_len(scope),
        Frame::SnapshotEnd { .. } => 0,
        Frame::SnapshotChunk { pieces, .. } => pieces.iter().map(|piece| readable(piece, piece_len)).sum(),
        Frame::Delta { changes, .. } => changes.iter().map(|change| readable(change, change_len)).sum(),
    };
    FRAME + content
}

/// Returns the estimated size of an agent's message, in bytes.
#[must_use]
pub fn estimated_message_len<P: Payload>(message: &AgentMessage<P>) -> usize {
    let content = match message {
        AgentMessage::Data(data) => return estimated_len(data),
        AgentMessage::ScopeUnknown { scope, reason } | AgentMessage::ScopeUnknownAhead { scope, reason } => {
            scope_len(scope) + reason.len()
        }
        AgentMessage::Content { content, .. } => content.as_ref().map_or(0, Content::wire_len),
        AgentMessage::ReportsDone(numbers) => numbers.len() * size_of::<u64>(),
        AgentMessage::ReportUnreadable { reason, .. } | AgentMessage::Unreadable { reason } => reason.len(),
        AgentMessage::Goodbye(goodbye) => goodbye.message.len(),
        AgentMessage::Heartbeat { sources, .. } => sources.iter().map(|source| FIELD + source.kind.len()).sum(),
        AgentMessage::Hello(_) | AgentMessage::ReportCredit(_) | AgentMessage::ReportAck(_) => 0,
    };
    FRAME + content
}

fn readable<P: Payload, T>(entry: &Result<T, Unreadable<P>>, len: impl Fn(&T) -> usize) -> usize {
    entry.as_ref().map_or(0, len)
}

pub(crate) fn scope_len(scope: &Scope) -> usize {
    match scope {
        Scope::All => 0,
        Scope::Namespaces(namespaces) => namespaces.iter().map(|namespace| FIELD + namespace.len()).sum(),
    }
}

pub(crate) fn piece_len<P: Payload>(piece: &Piece<P>) -> usize {
    let Piece { key, header, parts, more: _ } = piece;
    let mut before = None;
    let parts: usize = parts.iter().map(|part| P::Entry::part_len(before.replace(part), part)).sum();
    entry_len(key) + header.as_deref().map_or(0, P::Entry::header_len) + parts
}

pub(crate) fn change_len<P: Payload>(change: &PieceChange<P>) -> usize {
    match change {
        // The piece is a message of its own within the change.
        PieceChange::Replace(piece) => FIELD + entry_len(&piece.key) + piece_len(piece),
        PieceChange::Remove(key) => entry_len(key),
        PieceChange::Update { key, header, parts, more: _ } => {
            let mut before = <P::Entry as Entry<P>>::Changes::default();
            let parts: usize = parts.iter().map(|change| P::Entry::change_len(&mut before, change)).sum();
            entry_len(key) + FIELD + header.as_deref().map_or(0, P::Entry::header_len) + parts
        }
    }
}

/// Size of an entry's key and its overhead within a frame.
pub(crate) fn entry_len(key: &impl Key) -> usize {
    5 * FIELD + key.text_len()
}

/// Size of the largest piece of an entry that cannot be divided, with its overhead.
pub(crate) fn largest_part<P: Payload>(key: &P::Key, entry: &P::Entry) -> usize {
    2 * entry_len(key) + FIELD + entry.largest_len()
}
