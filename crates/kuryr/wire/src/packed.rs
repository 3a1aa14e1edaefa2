//! Entries and reports that rest, as messages.

use gimbal_kuryr_model::{DesiredEntry, LoadBalancerReport};
use gimbal_kuryr_packed::PackedForm;
use gimbal_session::Entry;
use gimbal_wire::Interner;
use prost::Message as _;

use crate::{Kuryr, encode, entry, header, pb, report};

/// The form of a value as the part of a message that it is sent in. A value that the other end would not read has none.
#[derive(Debug, Clone, Copy)]
pub struct MessageForm;

impl PackedForm<LoadBalancerReport> for MessageForm {
    fn write(value: &LoadBalancerReport) -> Option<Vec<u8>> {
        Some(report::encode(value).encode_to_vec())
    }

    fn read(bytes: &[u8]) -> Option<LoadBalancerReport> {
        report::parse_report(pb::LoadBalancerReport::decode(bytes).ok()?, &mut Interner::default()).ok()
    }
}

impl PackedForm<DesiredEntry> for MessageForm {
    fn write(value: &DesiredEntry) -> Option<Vec<u8>> {
        let parts: Vec<_> = Entry::<Kuryr>::parts(value).collect();
        let header = Some(header::encode(&value.header()));
        let piece = pb::EntryPiece { key: None, header, members: encode::set(parts.iter()), more: false };
        Some(piece.encode_to_vec())
    }

    fn read(bytes: &[u8]) -> Option<DesiredEntry> {
        let mut intern = Interner::default();
        let pb::EntryPiece { header, members, .. } = pb::EntryPiece::decode(bytes).ok()?;
        let header = header::parse(header?, &mut intern).ok()?;
        Some(DesiredEntry::new(header, entry::parse_set(members, &mut intern).ok()?))
    }
}
