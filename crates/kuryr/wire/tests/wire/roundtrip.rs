//! Every message can be encoded and parsed again, takes no more bytes than estimated, and arbitrary bytes cause no
//! panic.

use std::sync::Arc;
use std::time::Duration;

use gimbal_kuryr_model::{CertificateContent, DesiredEntry, MemberChange, VipWish};
use gimbal_kuryr_packed::PackedValue;
use gimbal_kuryr_wire::{DesiredHeader, Kuryr, KuryrReason, MessageForm, PackedEntry, PackedReport, pb, shown_entry};
use gimbal_model::Digest;
use gimbal_session::{
    AgentMessage, ChangeAge, Content as _, Credit, Data, Entry, Frame, Freshness, Goodbye, GoodbyeReason, Hello,
    KeptEntry as _, Key as _, Need, Payload as _, Piece, PieceChange, Reject, Scope, StoredReport as _, Summary,
    Welcome, WriterMessage, estimated_len,
};
use gimbal_wire::{WirePayload, encoded_len};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use prost::Message as _;

use crate::values::{desired_header, entry, facts, fitting, fitting_key, hash, key, member, member_id, report};

fn words() -> impl Strategy<Value = String> {
    "[a-z é]{0,12}"
}

fn digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 16]>().prop_map(Digest::from_bytes)
}

fn summary() -> impl Strategy<Value = Summary> {
    (any::<u64>(), digest()).prop_map(|(count, digest)| Summary { count, digest })
}

fn scope() -> impl Strategy<Value = Scope> {
    prop_oneof![Just(Scope::All), vec("[a-z]{1,5}".prop_map(Into::into), 1..3).prop_map(Scope::Namespaces)]
}

fn credit() -> impl Strategy<Value = Credit> {
    any::<(u32, u64)>().prop_map(|(changes, bytes)| Credit { changes, bytes })
}

fn goodbye() -> BoxedStrategy<Goodbye> {
    use GoodbyeReason as R;
    let reason = select(vec![R::Shutdown, R::Incarnation, R::NotLeader, R::Certificate]);
    (reason, words(), option::of(1..=u32::MAX))
        .prop_map(|(reason, message, after)| Goodbye {
            reason,
            message,
            retry_after: after.map(|after| Duration::from_millis(after.into())),
        })
        .boxed()
}

fn need() -> BoxedStrategy<Need> {
    let held = vec(("[a-z]{1,5}".prop_map(Into::into), summary()), 0..3);
    prop_oneof![Just(Need::Nothing), Just(Need::All), held.prop_map(Need::Namespaces)].boxed()
}

fn piece() -> BoxedStrategy<Piece<Kuryr>> {
    (key(), option::of(desired_header()), vec(member(), 0..8), any::<bool>())
        .prop_map(|(key, header, parts, more)| {
            let (key, parts) = match header.as_deref() {
                Some(header) => (fitting_key(key, header), fitting(header, parts)),
                None => (key, parts),
            };
            Piece { key, header, parts, more }
        })
        .boxed()
}

/// A change in wire order: members that are set come before those that are gone.
fn change() -> BoxedStrategy<PieceChange<Kuryr>> {
    let update = (key(), option::of(desired_header()), vec(member(), 0..8), vec(member_id(), 0..8), any::<bool>());
    let update = update.prop_map(|(key, header, set, gone, more)| {
        let (key, set) = match header.as_deref() {
            Some(header @ DesiredHeader::LoadBalancer { .. }) => (fitting_key(key, header), fitting(header, set)),
            Some(DesiredHeader::Deleting { .. }) | None => (key, set),
        };
        let parts = set.into_iter().map(MemberChange::Set).chain(gone.into_iter().map(MemberChange::Gone));
        PieceChange::Update { key, header, parts: parts.collect(), more }
    });
    prop_oneof![piece().prop_map(PieceChange::Replace), update, key().prop_map(PieceChange::Remove)].boxed()
}

fn age(waited: u32) -> ChangeAge {
    ChangeAge { waited: Duration::from_millis(waited.into()), caused: None }
}

fn frame() -> BoxedStrategy<Frame<Kuryr>> {
    prop_oneof![
        1 => scope().prop_map(|scope| Frame::SnapshotBegin { scope }),
        1 => (vec(piece().prop_map(Ok), 0..3), option::of(digest()))
            .prop_map(|(pieces, digest)| Frame::SnapshotChunk { pieces, digest, age: None }),
        1 => summary().prop_map(|summary| Frame::SnapshotEnd { summary }),
        1 => (vec(change().prop_map(Ok), 0..3), any::<u32>())
            .prop_map(|(changes, waited)| Frame::Delta { changes, age: age(waited) }),
    ]
    .boxed()
}

fn content() -> impl Strategy<Value = CertificateContent> {
    any::<(Vec<u8>, Vec<u8>)>().prop_map(|(chain, key)| CertificateContent::new(&chain, &key))
}

fn agent_messages() -> impl Strategy<Value = AgentMessage<Kuryr>> {
    let hello = (any::<(u32, u32)>(), vec(words(), 5), option::of(summary())).prop_map(|(protocol, t, held)| Hello {
        protocol,
        capabilities: vec![t[0].clone().into()].into(),
        backend: t[1].clone(),
        agent_instance: t[2].clone(),
        source_incarnation: t[3].clone(),
        held,
        agent_version: t[4].clone(),
    });
    let freshness = (words(), any::<Option<u32>>())
        .prop_map(|(kind, age)| Freshness { kind, age: age.map(|age| Duration::from_millis(age.into())) });
    prop_oneof![
        1 => hello.prop_map(AgentMessage::Hello),
        8 => (any::<u64>(), frame()).prop_map(|(seq, frame)| AgentMessage::Data(Data { seq, frame, trace: None })),
        1 => (vec(freshness, 0..3), any::<u64>(), any::<Option<i64>>())
            .prop_map(|(sources, backlog, clock_ms)| AgentMessage::Heartbeat { sources, backlog, clock_ms }),
        1 => (scope(), words()).prop_map(|(scope, reason)| AgentMessage::ScopeUnknown { scope, reason }),
        1 => credit().prop_map(AgentMessage::ReportCredit),
        1 => any::<u64>().prop_map(AgentMessage::ReportAck),
        1 => vec(any::<u64>(), 0..5).prop_map(AgentMessage::ReportsDone),
        1 => (any::<u64>(), words()).prop_map(|(seq, reason)| AgentMessage::ReportUnreadable { seq, reason }),
        1 => (hash(), option::of(content())).prop_map(|(hash, content)| AgentMessage::Content { hash, content }),
        1 => goodbye().prop_map(AgentMessage::Goodbye),
    ]
}

fn writer_messages() -> impl Strategy<Value = WriterMessage<Kuryr>> {
    let welcome = (any::<(u32, u64, u32)>(), need(), credit(), words(), vec(words(), 0..3)).prop_map(
        |((protocol, generation, timeout), need, credit, backend, capabilities)| Welcome {
            protocol,
            generation,
            need,
            credit,
            backend,
            heartbeat_timeout: Duration::from_millis(timeout.into()),
            capabilities: capabilities.into_iter().map(Into::into).collect(),
        },
    );
    let reject = (option::of(key()), select(KuryrReason::ALL.to_vec()), any::<bool>(), words());
    let reject = reject.prop_map(|(key, reason, retryable, message)| Reject { key, reason, retryable, message });
    prop_oneof![
        1 => welcome.prop_map(WriterMessage::Welcome),
        1 => any::<u64>().prop_map(WriterMessage::Ack),
        1 => reject.prop_map(WriterMessage::Reject),
        1 => key().prop_map(WriterMessage::Resolved),
        1 => credit().prop_map(WriterMessage::Credit),
        1 => (need(), words()).prop_map(|(need, reason)| WriterMessage::Resync { need, reason }),
        3 => (any::<u64>(), key(), report()).prop_map(|(seq, key, report)| WriterMessage::Report { seq, key, report }),
        3 => facts().prop_map(WriterMessage::Facts),
        1 => hash().prop_map(WriterMessage::ContentRequest),
        1 => goodbye().prop_map(WriterMessage::Goodbye),
    ]
}

/// What a session adds to the size of a report: a frame's overhead, and a key's.
const REPORT: usize = 128 + 40;

proptest! {
    #[test]
    fn agent_messages_survive(message in agent_messages()) {
        let request = Kuryr::encode_agent(message.clone());
        if let AgentMessage::Content { content: Some(content), .. } = &message {
            prop_assert!(encoded_len(&request) <= content.wire_len(), "{} > {}", encoded_len(&request), content.wire_len());
        }
        if let AgentMessage::Data(data) = &message {
            prop_assert!(encoded_len(&request) <= estimated_len(data), "{} > {}", encoded_len(&request), estimated_len(data));
        }
        let again = pb::SyncRequest::decode(&*request.encode_to_vec()).unwrap();
        prop_assert_eq!(Kuryr::parse_agent(again), message);
    }

    #[test]
    fn writer_messages_survive(message in writer_messages()) {
        let response = Kuryr::encode_writer(message.clone());
        let estimated = match &message {
            WriterMessage::Report { key, report, .. } => REPORT + key.text_len() + Kuryr::report_len(report),
            WriterMessage::Facts(facts) => Kuryr::facts_len(facts),
            _ => usize::MAX,
        };
        prop_assert!(encoded_len(&response) <= estimated, "{} > {estimated}", encoded_len(&response));
        let again = pb::SyncResponse::decode(&*response.encode_to_vec()).unwrap();
        prop_assert_eq!(Kuryr::parse_writer(again).unwrap(), message);
    }

    #[test]
    fn what_inspection_shows_is_the_whole_entry(key in key(), entry in entry()) {
        let key = fitting_key(key, &entry.header());
        let chunk = pb::SnapshotChunk { entries: vec![shown_entry(&key, &entry)], digest: None };
        let data = pb::Data { seq: 1, frame: Some(pb::data::Frame::SnapshotChunk(chunk)), traceparent: None };
        let request = pb::SyncRequest { message: Some(pb::sync_request::Message::Data(data)) };
        let AgentMessage::Data(Data { frame: Frame::SnapshotChunk { mut pieces, .. }, .. }) = Kuryr::parse_agent(request)
        else { panic!() };
        let piece = pieces.pop().unwrap().unwrap();
        prop_assert_eq!((piece.key, piece.more), (key, false));
        prop_assert_eq!(<DesiredEntry as Entry<Kuryr>>::new(piece.header.unwrap(), piece.parts), entry);
    }

    #[test]
    fn what_rests_takes_few_bytes_and_comes_back(entry in entry(), report in report()) {
        let packed = PackedValue::<_, MessageForm>::new(Arc::new(report.clone()));
        prop_assert!(packed.is_packed());
        prop_assert_eq!(&*packed.get(), &report);
        let kept = PackedReport::keep(report.clone());
        prop_assert_eq!((kept.owner(), kept.generation(), kept.phase()), (&report.owner, report.generation, report.phase));
        prop_assert_eq!(&*kept.report(), &report);
        let packed = PackedValue::<_, MessageForm>::new(Arc::new(entry.clone()));
        prop_assert!(packed.is_packed());
        prop_assert_eq!(&*packed.get(), &entry);
    }

    /// Nothing is unpacked for what is asked of all entries.
    #[test]
    fn a_packed_entry_says_what_the_entry_does(one in entry(), other in entry()) {
        let (packed, another) = (PackedEntry::from(one.clone()), PackedEntry::from(other.clone()));
        prop_assert_eq!(&*packed.entry(), &one);
        prop_assert_eq!((packed.owner(), packed.is_deleting()), (one.owner(), one.is_deleting()));
        prop_assert_eq!(packed.part_count(), Entry::<Kuryr>::part_count(&one));
        if let DesiredEntry::LoadBalancer(wanted) = &one {
            let header = &wanted.header;
            prop_assert_eq!((packed.generation(), packed.known()), (Some(wanted.generation), Some(header.known)));
            prop_assert_eq!(packed.is_alone(), header.vip == VipWish::default());
        } else {
            prop_assert_eq!((packed.generation(), packed.known(), packed.is_alone()), (None, None, false));
        }
        prop_assert!(packed.is(&one) && packed == PackedEntry::from(one.clone()));
        prop_assert_eq!(packed.is(&other), one == other);
        prop_assert_eq!(packed == another, one == other);
    }

    #[test]
    fn arbitrary_bytes_cause_no_panic(bytes in vec(any::<u8>(), 0..200)) {
        let request = pb::SyncRequest::decode(&*bytes).unwrap_or_default();
        let _message = Kuryr::parse_agent(request);
        let response = pb::SyncResponse::decode(&*bytes).unwrap_or_default();
        let _message = Kuryr::parse_writer(response);
    }
}

#[test]
fn what_is_never_sent_is_an_empty_message() {
    let unreadable = AgentMessage::Unreadable { reason: String::new() };
    assert_eq!(Kuryr::encode_agent(unreadable), pb::SyncRequest { message: None });
    let unreadable = WriterMessage::Unreadable { report: None, reason: String::new() };
    assert_eq!(Kuryr::encode_writer(unreadable), pb::SyncResponse { message: None });
}
