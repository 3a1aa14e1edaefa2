//! Violates each rule that the parser enforces once.

use std::sync::Arc;

use gimbal_model::{EndpointChange, SourceKey};
use gimbal_session::{AgentMessage, Data, Frame, PieceChange, Scope, Unreadable};
use gimbal_wire::{agent_message, pb, writer_message};
use pb::service_change::Change;
use pb::sync_request::Message;

fn key(namespace: &str, name: &str) -> pb::ServiceKey {
    pb::ServiceKey { namespace: namespace.into(), name: name.into() }
}

fn endpoint(address: &[u8]) -> pb::Endpoint {
    pb::Endpoint { address: address.to_vec().into(), zone: Some("z1".into()), ..Default::default() }
}

fn endpoint_port() -> pb::EndpointPort {
    pb::EndpointPort { name: "http".into(), port: Some(80), protocol: pb::Protocol::Tcp.into(), app_protocol: None }
}

fn service_port() -> pb::ServicePort {
    pb::ServicePort { name: "http".into(), port: 80, protocol: pb::Protocol::Tcp.into(), ..Default::default() }
}

fn good() -> pb::ServicePiece {
    let header = pb::Header { ports: vec![service_port()], ..Default::default() };
    let group = pb::PortGroup { ports: vec![endpoint_port()], endpoints: vec![endpoint(&[10, 0, 0, 1])] };
    pb::ServicePiece { key: Some(key("a", "good")), header: Some(header), groups: vec![group], more: false }
}

fn request(frame: pb::data::Frame) -> pb::SyncRequest {
    pb::SyncRequest { message: Some(Message::Data(pb::Data { seq: 1, frame: Some(frame), traceparent: None })) }
}

/// Sends a chunk with a valid piece, a modified one and another valid one. Returns the error of the modified one.
fn chunk(adjust: impl FnOnce(&mut pb::ServicePiece)) -> Unreadable {
    let mut bad = good();
    bad.key = Some(key("a", "bad"));
    adjust(&mut bad);
    let chunk = pb::SnapshotChunk { services: vec![good(), bad, good()], ..Default::default() };
    let message = agent_message(request(pb::data::Frame::SnapshotChunk(chunk)));
    let AgentMessage::Data(Data { frame: Frame::SnapshotChunk { mut pieces, .. }, .. }) = message else {
        panic!("{message:?}")
    };
    assert!(pieces.len() == 3 && pieces[0].is_ok() && pieces[2].is_ok(), "the others of the frame stand");
    pieces.swap_remove(1).err().unwrap_or_else(|| panic!("was taken"))
}

#[test]
fn a_bad_entry_is_alone_with_its_trouble() {
    let long = |length| "x".repeat(length);
    type Adjust = Box<dyn FnOnce(&mut pb::ServicePiece)>;
    fn port(adjust: impl FnOnce(&mut pb::ServicePort) + 'static) -> Adjust {
        Box::new(|piece| adjust(&mut piece.header.as_mut().unwrap().ports[0]))
    }
    fn group(adjust: impl FnOnce(&mut pb::PortGroup) + 'static) -> Adjust {
        Box::new(|piece| adjust(&mut piece.groups[0]))
    }
    use pb::service_port::TargetPort::{TargetName, TargetNumber};
    let (x64, x318) = (long(64), long(318));
    let cases: Vec<(Adjust, &str)> = vec![
        (group(|g| g.endpoints[0].address = vec![1, 2, 3].into()), "address has 3 bytes"),
        (group(|g| g.endpoints[0].address = Vec::new().into()), "address has 0 bytes"),
        (group(|g| g.endpoints[0].address = vec![0; 17].into()), "address has 17 bytes"),
        (group(|g| g.ports[0].port = Some(65_536)), "endpoint port is 65536"),
        (group(|g| g.ports[0].protocol = 0), "protocol is 0"),
        (group(|g| g.ports[0].protocol = 99), "protocol is 99"),
        (
            group({
                let x = x64.clone();
                |g| g.ports[0].name = x
            }),
            "name of an endpoint port has 64 bytes",
        ),
        (
            group({
                let x = x64.clone();
                |g| g.endpoints[0].hostname = Some(x)
            }),
            "hostname has 64 bytes",
        ),
        (
            group({
                let x = long(254);
                |g| g.endpoints[0].zone = Some(x)
            }),
            "zone has 254 bytes",
        ),
        (
            group({
                let x = long(254);
                |g| g.endpoints[0].for_zones = vec![x]
            }),
            "zone of a hint has 254 bytes",
        ),
        (port(|p| p.port = 0), "port is 0"),
        (port(|p| p.port = 65_536), "port is 65536"),
        (port(|p| p.protocol = 0), "protocol is 0"),
        (port(|p| p.target_port = Some(TargetNumber(0))), "target port is 0"),
        (
            port({
                let x = x64.clone();
                |p| p.target_port = Some(TargetName(x))
            }),
            "name of a target port has 64 bytes",
        ),
        (port(|p| p.name = x64), "name of a port has 64 bytes"),
        (
            port({
                let x = x318.clone();
                |p| p.app_protocol = Some(x)
            }),
            "appProtocol has 318 bytes",
        ),
        (
            Box::new(|piece| drop(piece.header.as_mut().unwrap().labels.insert(x318, String::new()))),
            "label has 318 bytes",
        ),
        (
            Box::new(|piece| drop(piece.header.as_mut().unwrap().annotations.insert(String::new(), String::new()))),
            "annotation has an empty key",
        ),
    ];
    for (adjust, reason) in cases {
        let unreadable = chunk(adjust);
        assert!(unreadable.reason.contains(reason), "{} for {reason}", unreadable.reason);
        assert_eq!(unreadable.key, Some(SourceKey::new("a", "bad")));
    }
}

#[test]
fn a_bad_key_is_nobodys() {
    for (bad, reason) in [
        (None, "key is missing"),
        (Some(key("", "b")), "namespace is empty"),
        (Some(key("a", "")), "name is empty"),
        (Some(key("a/b", "c")), "namespace contains '/'"),
        (Some(key("a", "b/c")), "name contains '/'"),
        (Some(key("a", "b\nERROR forged")), "control character"),
        (Some(key("a", &"x".repeat(254))), "name has 254 bytes"),
        (Some(key(&"x".repeat(254), "b")), "namespace has 254 bytes"),
    ] {
        let unreadable = chunk(|piece| piece.key = bad);
        assert!(unreadable.reason.contains(reason), "{}", unreadable.reason);
        assert_eq!(unreadable.key, None);
    }
}

/// An unreadable piece keeps its `more` flag, and the chunk its digest.
#[test]
fn a_chunk_tells_what_ends_in_it_beside_what_cannot_be_read() {
    let read = |digest: Option<Vec<u8>>| {
        let bad = pb::ServicePiece {
            header: Some(pb::Header { ports: vec![pb::ServicePort::default()], ..Default::default() }),
            more: true,
            ..good()
        };
        agent_message(request(pb::data::Frame::SnapshotChunk(pb::SnapshotChunk {
            services: vec![bad],
            digest,
            ..Default::default()
        })))
    };
    let AgentMessage::Data(Data { frame: Frame::SnapshotChunk { pieces, digest, .. }, .. }) = read(Some(vec![7; 16]))
    else {
        panic!()
    };
    assert!(pieces[0].as_ref().is_err_and(|unreadable| unreadable.more && unreadable.key.is_some()));
    assert_eq!(digest, Some(gimbal_model::Digest::from_bytes([7; 16])));
    let AgentMessage::Data(Data { frame: Frame::SnapshotChunk { digest, .. }, .. }) = read(None) else { panic!() };
    assert_eq!(digest, None, "an older agent");
    assert!(matches!(read(Some(vec![7; 15])), AgentMessage::Unreadable { .. }));
}

#[test]
fn limits_are_inclusive() {
    let message = agent_message(request(pb::data::Frame::SnapshotChunk(pb::SnapshotChunk {
        services: vec![pb::ServicePiece { key: Some(key(&"x".repeat(253), &"y".repeat(253))), ..good() }],
        ..Default::default()
    })));
    let AgentMessage::Data(Data { frame: Frame::SnapshotChunk { pieces, .. }, .. }) = message else { panic!() };
    assert!(pieces[0].is_ok());
}

#[test]
fn a_bad_change_is_alone_with_its_trouble() {
    let update = pb::ServiceUpdate {
        gone: vec![pb::GoneGroup { ports: vec![endpoint_port()], addresses: vec![vec![1].into()] }],
        ..Default::default()
    };
    let other = pb::ServicePiece { key: Some(key("a", "other")), ..good() };
    let changes = vec![
        pb::ServiceChange { key: Some(key("a", "x")), change: Some(Change::Removed(pb::service_change::Removed {})) },
        pb::ServiceChange { key: Some(key("a", "x")), change: None },
        pb::ServiceChange { key: Some(key("a", "x")), change: Some(Change::Update(update)) },
        pb::ServiceChange { key: Some(key("a", "x")), change: Some(Change::Replace(other)) },
        pb::ServiceChange { key: Some(key("a", "good")), change: Some(Change::Replace(good())) },
    ];
    let message = agent_message(request(pb::data::Frame::Delta(pb::Delta { changes, ..Default::default() })));
    let AgentMessage::Data(Data { frame: Frame::Delta { changes, .. }, .. }) = message else { panic!() };
    let mut errors = Vec::new();
    for change in &changes[1..4] {
        let error = change.as_ref().unwrap_err();
        assert_eq!(error.key, Some(SourceKey::new("a", "x")));
        errors.push(error.reason.as_str());
    }
    assert_eq!(changes[0], Ok(PieceChange::Remove(SourceKey::new("a", "x"))));
    assert!(matches!(&changes[4], Ok(PieceChange::Replace(piece)) if *piece.key.name == *"good"));
    assert_eq!(
        errors,
        [
            "change is missing",
            "address has 1 bytes, neither 4 nor 16",
            "key of the replacement is not the key of the change"
        ]
    );
}

#[test]
fn a_message_that_is_wrong_as_a_whole_is_unreadable() {
    let hello = |hello| Some(Message::Hello(hello));
    let digest = Some(pb::Summary { count: 1, digest: vec![0; 15] });
    let data = |frame| Some(Message::Data(pb::Data { seq: 1, frame, traceparent: None }));
    let begin = |scope| data(Some(pb::data::Frame::SnapshotBegin(pb::SnapshotBegin { scope })));
    for (message, reason) in [
        (None, "cannot be decoded"),
        (data(None), "content of a data frame is missing"),
        (begin(None), "scope is missing"),
        (begin(Some(pb::Scope { namespaces: vec!["a".into(), String::new()] })), "namespace is empty"),
        (data(Some(pb::data::Frame::SnapshotEnd(pb::SnapshotEnd { summary: None }))), "summary is missing"),
        (data(Some(pb::data::Frame::SnapshotEnd(pb::SnapshotEnd { summary: digest.clone() }))), "digest has 15 bytes"),
        (hello(pb::Hello { held: digest, ..Default::default() }), "digest has 15 bytes"),
        (hello(pb::Hello { agent_instance: "x".repeat(1025), ..Default::default() }), "agent_instance has 1025"),
        (hello(pb::Hello { capabilities: vec![String::new(); 65], ..Default::default() }), "capabilities has 65"),
        (Some(Message::ScopeUnknown(pb::ScopeUnknown::default())), "scope is missing"),
        (Some(Message::Goodbye(pb::Goodbye::default())), "reason is 0"),
        (
            Some(Message::Heartbeat(pb::Heartbeat {
                sources: vec![Default::default(); 65],
                backlog: 0,
                clock_ms: None,
            })),
            "sources has 65 entries",
        ),
    ] {
        let AgentMessage::Unreadable { reason: text } = agent_message(pb::SyncRequest { message }) else {
            panic!("{reason} was taken")
        };
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn a_writer_that_breaks_a_rule_is_told_apart() {
    use pb::sync_response::Message as W;
    for (message, reason) in [
        (None, "cannot be decoded"),
        (Some(W::Welcome(pb::Welcome::default())), "need is missing"),
        (
            Some(W::Welcome(pb::Welcome { capabilities: vec!["x".repeat(600)], ..Default::default() })),
            "capability has 600 bytes",
        ),
        (Some(W::Resolved(pb::Resolved { key: None })), "key is missing"),
        (Some(W::Reject(pb::Reject { key: None, reason: 99, ..Default::default() })), "reason is 99"),
        (Some(W::Resync(pb::Resync { need: Some(pb::Need { need: None }), ..Default::default() })), "need is missing"),
    ] {
        let error = writer_message(pb::SyncResponse { message }).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_scope_of_nothing_never_becomes_a_scope_of_everything() {
    let nothing = Frame::SnapshotBegin { scope: Scope::Namespaces(Vec::new()) };
    let message = agent_message(AgentMessage::Data(Data { seq: 1, frame: nothing, trace: None }).into());
    assert!(matches!(message, AgentMessage::Unreadable { .. }), "{message:?}");
}

#[test]
fn prose_is_cut_between_characters() {
    let unknown = pb::ScopeUnknown { scope: Some(pb::Scope::default()), reason: "é".repeat(5000) };
    let message = agent_message(pb::SyncRequest { message: Some(Message::ScopeUnknown(unknown)) });
    let AgentMessage::ScopeUnknown { scope: Scope::All, reason } = message else { panic!("{message:?}") };
    assert_eq!(reason, "é".repeat(512));
}

#[test]
fn equal_parts_of_a_frame_are_shared() {
    let mut many = good();
    many.groups[0].endpoints = (0..100).map(|n| endpoint(&[10, 0, 0, n])).collect();
    let update = pb::ServiceUpdate { set: many.groups.clone(), ..Default::default() };
    let changes = vec![
        pb::ServiceChange { key: Some(key("a", "x")), change: Some(Change::Update(update.clone())) },
        pb::ServiceChange { key: Some(key("a", "y")), change: Some(Change::Update(update)) },
    ];
    let message = agent_message(request(pb::data::Frame::Delta(pb::Delta { changes, ..Default::default() })));
    let AgentMessage::Data(Data { frame: Frame::Delta { changes, .. }, .. }) = message else { panic!() };
    let (mut sets, mut keys) = (Vec::new(), Vec::new());
    for change in changes {
        let Ok(PieceChange::Update { key, parts: endpoints, .. }) = change else { panic!() };
        keys.push(key);
        sets.extend(endpoints);
    }
    assert_eq!(sets.len(), 200);
    let EndpointChange::Set(first_ports, first) = &sets[0] else { panic!() };
    for set in &sets {
        let EndpointChange::Set(ports, endpoint) = set else { panic!() };
        assert!(std::ptr::eq(ports.ports(), first_ports.ports()));
        assert!(Arc::ptr_eq(endpoint.detail.as_ref().unwrap(), first.detail.as_ref().unwrap()));
    }
    assert!(Arc::ptr_eq(&keys[0].namespace, &keys[1].namespace));
}

#[test]
fn neighbours_with_equal_ports_share_a_group() {
    let message = agent_message(request(pb::data::Frame::SnapshotChunk(pb::SnapshotChunk {
        services: vec![{
            let mut piece = good();
            piece.groups = (0..3)
                .map(|n| pb::PortGroup { ports: vec![endpoint_port()], endpoints: vec![endpoint(&[10, 0, 0, n])] })
                .collect();
            piece
        }],
        ..Default::default()
    })));
    let Some(Message::Data(data)) = pb::SyncRequest::from(message).message else { panic!() };
    let Some(pb::data::Frame::SnapshotChunk(chunk)) = data.frame else { panic!() };
    assert_eq!(chunk.services[0].groups.len(), 1);
    assert_eq!(chunk.services[0].groups[0].endpoints.len(), 3);
}

#[test]
fn the_descriptors_are_complete() {
    let set = <prost_types::FileDescriptorSet as prost::Message>::decode(gimbal_wire::FILE_DESCRIPTOR_SET).unwrap();
    let services: Vec<_> = set.file.iter().flat_map(|file| &file.service).map(|service| service.name()).collect();
    assert_eq!(services, ["DiscoveryService", "InspectionService", "AdminService"]);
}

#[test]
fn a_trace_that_cannot_be_read_spoils_nothing() {
    let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let of = |traceparent: Option<&str>| {
        let frame = Some(pb::data::Frame::SnapshotBegin(pb::SnapshotBegin { scope: Some(pb::Scope::default()) }));
        let data = pb::Data { seq: 1, frame, traceparent: traceparent.map(str::to_owned) };
        let message = agent_message(pb::SyncRequest { message: Some(Message::Data(data)) });
        let AgentMessage::Data(data) = message else { panic!("{message:?}") };
        data.trace.map(|trace| trace.to_string())
    };
    assert_eq!(of(Some(text)).as_deref(), Some(text));
    let not_sampled = text.replace("-01", "-00");
    for traceparent in [None, Some(""), Some("x"), Some(&*not_sampled), Some(&*"x".repeat(1 << 20))] {
        assert_eq!(of(traceparent), None);
    }
}
