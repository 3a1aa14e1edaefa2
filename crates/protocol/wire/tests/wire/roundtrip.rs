//! Every message can be encoded and parsed again, and arbitrary bytes cause no panic.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use gimbal_model::{
    Conditions, Detail, Digest, Endpoint, EndpointChange, EndpointPort, Header, PortSet, Protocol, ServicePort,
    SourceKey, TargetPort,
};
use gimbal_session::capability::Capabilities;
use gimbal_session::{
    AgentMessage, ChangeAge, Credit, Data, Frame, Freshness, Goodbye, GoodbyeReason, Hello, Need, Piece, PieceChange,
    Reject, RejectReason, Scope, Summary, TraceContext, Welcome, WriterMessage, estimated_len,
};
use gimbal_wire::{agent_message, encoded_len, pb, writer_message};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use prost::Message as _;

fn name() -> impl Strategy<Value = Arc<str>> {
    "[a-z0-9.é-]{1,12}".prop_map(Into::into)
}

fn text() -> impl Strategy<Value = Arc<str>> {
    ".{0,12}".prop_map(Into::into)
}

fn key() -> impl Strategy<Value = SourceKey> {
    (name(), name()).prop_map(|(namespace, name)| SourceKey { namespace, name })
}

fn digest() -> impl Strategy<Value = Digest> {
    any::<[u8; 16]>().prop_map(Digest::from_bytes)
}

fn summary() -> impl Strategy<Value = Summary> {
    (any::<u64>(), digest()).prop_map(|(count, digest)| Summary { count, digest })
}

fn millis(most: u64) -> impl Strategy<Value = Duration> {
    (0..=most).prop_map(Duration::from_millis)
}

fn scope() -> impl Strategy<Value = Scope> {
    prop_oneof![Just(Scope::All), vec(name(), 1..5).prop_map(Scope::Namespaces)]
}

fn protocol() -> impl Strategy<Value = Protocol> {
    prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp), Just(Protocol::Sctp)]
}

fn header() -> impl Strategy<Value = Arc<Header>> {
    let map = || btree_map(name(), text(), 0..4);
    let target = prop_oneof![(1..=u16::MAX).prop_map(TargetPort::Number), text().prop_map(TargetPort::Name)];
    let port = (text(), 1..=u16::MAX, protocol(), option::of(text()), option::of(target));
    let port = port.prop_map(|(name, port, protocol, app_protocol, target_port)| ServicePort {
        name,
        port,
        protocol,
        app_protocol,
        target_port,
    });
    let header = (map(), map(), vec(port, 0..3));
    header.prop_map(|(labels, annotations, ports)| Arc::new(Header { labels, annotations, ports }))
}

fn ports() -> impl Strategy<Value = PortSet> {
    let port = (text(), option::of(any::<u16>()), protocol(), option::of(text()));
    let port =
        port.prop_map(|(name, port, protocol, app_protocol)| EndpointPort { name, port, protocol, app_protocol });
    vec(port, 0..3).prop_map(PortSet::new)
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    let detail = (option::of(text()), option::of(text()), vec(text(), 0..3));
    let parts = (any::<IpAddr>(), any::<(bool, bool, bool)>(), detail);
    parts.prop_map(|(address, (ready, serving, terminating), (hostname, zone, mut for_zones))| {
        for_zones.sort();
        let detail = Detail { hostname, zone, for_zones };
        let detail = (detail != Detail::default()).then(|| Arc::new(detail));
        Endpoint { address, conditions: Conditions { ready, serving, terminating }, detail }
    })
}

/// Endpoints that each have one of a few port sets.
fn endpoints() -> impl Strategy<Value = Vec<(PortSet, Endpoint)>> {
    (vec(ports(), 1..3), vec((any::<prop::sample::Index>(), endpoint()), 0..6))
        .prop_map(|(ports, endpoints)| endpoints.into_iter().map(|(at, e)| (at.get(&ports).clone(), e)).collect())
}

fn piece() -> impl Strategy<Value = Piece> {
    (key(), option::of(header()), endpoints(), any::<bool>()).prop_map(|(key, header, endpoints, more)| Piece {
        key,
        header,
        parts: endpoints,
        more,
    })
}

/// A change in wire order: endpoints that are set come before those that are gone.
fn change() -> impl Strategy<Value = PieceChange> {
    let update = (key(), option::of(header()), endpoints(), endpoints(), any::<bool>());
    let update = update.prop_map(|(key, header, set, gone, more)| {
        let set = set.into_iter().map(|(ports, endpoint)| EndpointChange::Set(ports, endpoint));
        let gone = gone.into_iter().map(|(ports, endpoint)| EndpointChange::Gone(ports, endpoint.address));
        PieceChange::Update { key, header, parts: set.chain(gone).collect(), more }
    });
    prop_oneof![piece().prop_map(PieceChange::Replace), update, key().prop_map(PieceChange::Remove)]
}

fn frame() -> impl Strategy<Value = Frame> {
    prop_oneof![
        scope().prop_map(|scope| Frame::SnapshotBegin { scope }),
        (vec(piece().prop_map(Ok), 0..4), option::of(digest()), option::of(age()))
            .prop_map(|(pieces, digest, age)| Frame::SnapshotChunk { pieces, digest, age }),
        summary().prop_map(|summary| Frame::SnapshotEnd { summary }),
        (vec(change().prop_map(Ok), 0..4), age()).prop_map(|(changes, age)| Frame::Delta { changes, age }),
    ]
}

fn age() -> impl Strategy<Value = ChangeAge> {
    let time = || millis(u32::MAX.into());
    (time(), option::of(time())).prop_map(|(waited, caused)| ChangeAge { waited, caused })
}

/// Returns a context, or none where a number is 0.
fn trace() -> impl Strategy<Value = Option<TraceContext>> {
    any::<([u8; 16], [u8; 8])>().prop_map(|(trace_id, span_id)| TraceContext::new(trace_id, span_id))
}

fn goodbye() -> impl Strategy<Value = Goodbye> {
    use GoodbyeReason as R;
    let reason = prop::sample::select(vec![
        R::Shutdown,
        R::Superseded,
        R::UnknownBackend,
        R::Incarnation,
        R::Protocol,
        R::ProtocolError,
        R::NotLeader,
        R::Timeout,
        R::Certificate,
    ]);
    let after = option::of((1..=u64::from(u32::MAX)).prop_map(Duration::from_millis));
    (reason, ".{0,20}", after).prop_map(|(reason, message, retry_after)| Goodbye { reason, message, retry_after })
}

fn capabilities() -> impl Strategy<Value = Capabilities> {
    vec("[a-z]{0,9}".prop_map(Into::into), 0..3).prop_map(Into::into)
}

fn agent() -> impl Strategy<Value = AgentMessage> {
    let hello = (any::<(u32, u32)>(), capabilities(), [".{0,9}", ".{0,9}", ".{0,9}", ".{0,9}"]);
    let hello = (hello, option::of(summary())).prop_map(|((protocol, capabilities, words), held)| {
        let [backend, agent_instance, source_incarnation, agent_version] = words;
        Hello { protocol, capabilities, backend, agent_instance, source_incarnation, held, agent_version }
    });
    let source = ("[a-z]{0,20}", option::of(millis(u64::MAX))).prop_map(|(kind, age)| Freshness { kind, age });
    prop_oneof![
        1 => hello.prop_map(AgentMessage::Hello),
        4 => (any::<u64>(), frame(), trace()).prop_map(|(seq, frame, trace)| AgentMessage::Data(Data { seq, frame, trace })),
        1 => (vec(source, 0..4), any::<u64>(), any::<Option<i64>>())
            .prop_map(|(sources, backlog, clock_ms)| AgentMessage::Heartbeat { sources, backlog, clock_ms }),
        1 => (scope(), ".{0,20}").prop_map(|(scope, reason)| AgentMessage::ScopeUnknown { scope, reason }),
        1 => goodbye().prop_map(AgentMessage::Goodbye),
    ]
}

fn need() -> impl Strategy<Value = Need> {
    let namespaces = vec((name(), summary()), 0..4).prop_map(Need::Namespaces);
    prop_oneof![Just(Need::Nothing), Just(Need::All), namespaces]
}

fn writer() -> impl Strategy<Value = WriterMessage> {
    use RejectReason as R;
    let credit = || any::<(u32, u64)>().prop_map(|(changes, bytes)| Credit { changes, bytes });
    let names = (".{0,9}", capabilities());
    let welcome = (any::<(u32, u64)>(), need(), credit(), names, millis(u32::MAX.into()));
    let welcome = welcome.prop_map(|((protocol, generation), need, credit, names, heartbeat_timeout)| {
        let (backend, capabilities) = names;
        Welcome { protocol, generation, need, credit, backend, heartbeat_timeout, capabilities }
    });
    let reason = prop::sample::select(vec![
        R::NameConflict,
        R::NamespaceMissing,
        R::NamespaceForbidden,
        R::AddressRefused,
        R::Invalid,
        R::Unsupported,
        R::TooLarge,
        R::Quota,
        R::ApiError,
        R::Held,
        R::Quarantined,
    ]);
    let reject = (option::of(key()), reason, any::<bool>(), ".{0,20}")
        .prop_map(|(key, reason, retryable, message)| Reject { key, reason, retryable, message });
    prop_oneof![
        welcome.prop_map(WriterMessage::Welcome),
        any::<u64>().prop_map(WriterMessage::Ack),
        reject.prop_map(WriterMessage::Reject),
        key().prop_map(WriterMessage::Resolved),
        credit().prop_map(WriterMessage::Credit),
        (need(), ".{0,20}").prop_map(|(need, reason)| WriterMessage::Resync { need, reason }),
        goodbye().prop_map(WriterMessage::Goodbye),
    ]
}

proptest! {
    #[test]
    fn agent_messages(message in agent()) {
        let wire = pb::SyncRequest::from(message.clone());
        let bytes = wire.encode_to_vec();
        prop_assert_eq!(encoded_len(&wire), bytes.len());
        // The sender relies on this estimate to keep within the largest frame.
        if let AgentMessage::Data(data) = &message {
            prop_assert!(bytes.len() <= estimated_len(data), "{} is more than {}", bytes.len(), estimated_len(data));
        }
        prop_assert_eq!(agent_message(pb::SyncRequest::decode(&bytes[..]).unwrap()), message);
    }

    #[test]
    fn writer_messages(message in writer()) {
        let bytes = pb::SyncResponse::from(message.clone()).encode_to_vec();
        prop_assert_eq!(writer_message(pb::SyncResponse::decode(&bytes[..]).unwrap()), Ok(message));
    }

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..200)) {
        survive(&bytes);
    }

    /// Damage to a valid message reaches deeper into the parser than random bytes.
    #[test]
    fn damaged_messages(message in agent(), at in any::<prop::sample::Index>(), with in any::<u8>(), cut in any::<bool>()) {
        let mut bytes = pb::SyncRequest::from(message).encode_to_vec();
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = with;
            if cut {
                bytes.truncate(at);
            }
        }
        survive(&bytes);
    }
}

/// A message parsed from arbitrary bytes is either unreadable or survives another round trip.
fn survive(bytes: &[u8]) {
    let request = pb::SyncRequest::decode(bytes).unwrap_or_default();
    let message = agent_message(request);
    if !has_unreadable(&message) {
        let again = pb::SyncRequest::from(message.clone());
        assert_eq!(agent_message(again), message);
    }
    if let Ok(message) = writer_message(pb::SyncResponse::decode(bytes).unwrap_or_default()) {
        assert_eq!(writer_message(message.clone().into()), Ok(message));
    }
}

fn has_unreadable(message: &AgentMessage) -> bool {
    match message {
        AgentMessage::Unreadable { .. } => true,
        AgentMessage::Data(Data { frame: Frame::SnapshotChunk { pieces, .. }, .. }) => {
            pieces.iter().any(Result::is_err)
        }
        AgentMessage::Data(Data { frame: Frame::Delta { changes, .. }, .. }) => changes.iter().any(Result::is_err),
        _ => false,
    }
}

#[test]
fn equal_headers_are_equal_bytes() {
    let labels: BTreeMap<Arc<str>, Arc<str>> = (0..50).map(|n| (format!("k{n}").into(), "v".into())).collect();
    let message = || {
        let header = Header { labels: labels.clone(), ..Default::default() };
        let piece =
            Piece { key: SourceKey::new("a", "b"), header: Some(Arc::new(header)), parts: Vec::new(), more: false };
        AgentMessage::Data(Data {
            seq: 1,
            frame: Frame::SnapshotChunk { pieces: vec![Ok(piece)], digest: None, age: None },
            trace: None,
        })
    };
    assert_eq!(pb::SyncRequest::from(message()).encode_to_vec(), pb::SyncRequest::from(message()).encode_to_vec());
}
