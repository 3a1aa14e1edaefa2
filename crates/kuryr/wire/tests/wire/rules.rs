//! What is refused: a bad entry alone, a bad message as a whole.

use std::sync::Arc;

use crate::routers::in_pool;
use gimbal_kuryr_model::{
    DesiredEntry, DesiredKey, DesiredKind, DesiredLoadBalancer, DesiredMember, DesiredMembers, FloatingWish,
    LoadBalancerHeader, Text,
};
use gimbal_kuryr_wire::{DesiredHeader, Kuryr, pb};
use gimbal_session::{AgentMessage, Data, Frame, Piece, PieceChange, Unreadable, WriterMessage};
use gimbal_wire::{WirePayload, pb as shared};
use pb::entry_change::Change;
use pb::entry_header::Header;
use pb::sync_request::Message;

pub fn key(namespace: &str, name: &str) -> pb::EntryKey {
    pb::EntryKey { kind: 1, namespace: namespace.into(), name: name.into() }
}

fn cidr(address: &[u8], prefix_len: u32) -> pb::Cidr {
    pb::Cidr { address: address.to_vec().into(), prefix_len }
}

fn listener(port: u32) -> pb::Listener {
    pb::Listener { protocol: 1, port, kind: 1, name: Some("http".into()) }
}

fn only(ranges: Vec<pb::Cidr>) -> Option<pb::Clients> {
    Some(pb::Clients { clients: Some(pb::clients::Clients::Only(pb::clients::Ranges { ranges })) })
}

pub fn load_balancer() -> pb::LoadBalancer {
    pb::LoadBalancer {
        generation: 3,
        owner: "0b8e-uid".into(),
        known: true,
        placement: Some(pb::Placement { project: "8f0c".into(), ..Default::default() }),
        vip: Some(pb::Vip { subnet: Some("2b1e".into()), ..Default::default() }),
        floating: Some(pb::FloatingIp::default()),
        listeners: vec![listener(80), listener(443)],
        clients: only(vec![cidr(&[10, 0, 0, 0], 8), cidr(&[11, 0, 0, 0], 8)]),
        balancing: Some(pb::Balancing { family: 1, members: 1, ..Default::default() }),
        timeouts: Some(pb::Timeouts::default()),
        monitor: Some(pb::HealthMonitor { kind: 1, ..Default::default() }),
        tls_containers: vec!["https://barbican/v1/containers/1".into()],
        shared_group: Some("team a".into()),
        adopt: Some("cafe".into()),
        owner_created: None,
        routing: None,
    }
}

fn member() -> pb::Member {
    pb::Member { address: vec![10, 0, 0, 1].into(), port: 8080, weight: 1, name: Some("ns/pod:8080".into()) }
}

fn group() -> pb::MemberGroup {
    pb::MemberGroup { protocol: 1, port: 80, subnet: Some("5ab".into()), members: vec![member()], pool: None }
}

pub fn with_header(header: Header) -> pb::EntryPiece {
    let header = Some(pb::EntryHeader { header: Some(header) });
    pb::EntryPiece { key: Some(key("a", "bad")), header, members: vec![group()], more: false }
}

pub fn good() -> pb::EntryPiece {
    with_header(Header::LoadBalancer(load_balancer()))
}

pub fn data(frame: pb::data::Frame) -> pb::SyncRequest {
    pb::SyncRequest { message: Some(Message::Data(pb::Data { seq: 1, frame: Some(frame), traceparent: None })) }
}

/// Sends a bad piece between two good ones, and returns what became of it.
pub fn chunk(bad: pb::EntryPiece) -> Result<Piece<Kuryr>, Unreadable<Kuryr>> {
    let other = pb::EntryPiece { key: Some(key("a", "good")), ..good() };
    let entries = vec![other.clone(), bad, other];
    let chunk = pb::SnapshotChunk { entries, digest: None };
    let message = Kuryr::parse_agent(data(pb::data::Frame::SnapshotChunk(chunk)));
    let AgentMessage::Data(Data { frame: Frame::SnapshotChunk { mut pieces, .. }, .. }) = message else {
        panic!("{message:?}")
    };
    assert!(pieces[0].is_ok() && pieces[2].is_ok(), "the others are not affected: {pieces:?}");
    pieces.swap_remove(1)
}

fn bad(name: &str, adjust: impl FnOnce(&mut pb::LoadBalancer)) -> String {
    let mut wanted = load_balancer();
    adjust(&mut wanted);
    let unreadable = chunk(with_header(Header::LoadBalancer(wanted))).expect_err(name);
    assert_eq!(unreadable.key, Some(DesiredKey::new(DesiredKind::LoadBalancer, "a", "bad")), "{name}");
    unreadable.reason
}

#[test]
fn a_good_piece_is_taken() {
    let piece = chunk(good()).unwrap();
    assert_eq!((piece.parts.len(), piece.more), (1, false));
}

#[test]
fn a_header_that_breaks_a_promise_is_refused_with_its_field() {
    type Adjust = fn(&mut pb::LoadBalancer);
    let cases: [(Adjust, &str); 33] = [
        (|w| w.owner = String::new(), "owner is empty"),
        (|w| w.owner = "a/b".into(), "owner is not an ID"),
        (|w| w.placement = None, "placement is missing"),
        (|w| w.placement.as_mut().unwrap().project = "../admin".into(), "project is not an ID"),
        (|w| w.placement.as_mut().unwrap().flavor = Some(String::new()), "flavor is empty"),
        (|w| w.placement.as_mut().unwrap().provider = Some("a\nb".into()), "provider contains a control character"),
        (
            |w| w.placement.as_mut().unwrap().availability_zone = Some("x".repeat(256)),
            "availability zone has 256 bytes",
        ),
        (|w| w.vip = None, "vip is missing"),
        (|w| w.vip.as_mut().unwrap().subnet = Some("a?b".into()), "subnet of the VIP is not an ID"),
        (|w| w.vip.as_mut().unwrap().network = Some("é".into()), "network of the VIP is not an ID"),
        (|w| w.vip.as_mut().unwrap().port = Some("x".repeat(256)), "port of the VIP has 256 bytes"),
        (|w| w.vip.as_mut().unwrap().address = Some(vec![1].into()), "address has 1 bytes"),
        (|w| w.vip.as_mut().unwrap().additional_subnets = vec!["..".into()], "additional subnet is not an ID"),
        (|w| w.vip.as_mut().unwrap().additional_addresses = vec![vec![0; 5].into()], "address has 5 bytes"),
        (
            |w| w.vip.as_mut().unwrap().security_groups = vec!["b".into(), "a".into()],
            "security groups are not sorted, or not each once",
        ),
        (|w| w.floating.as_mut().unwrap().network = Some("a b".into()), "network of the floating IP is not an ID"),
        (|w| w.floating.as_mut().unwrap().address = Some(vec![0; 17].into()), "address has 17 bytes"),
        (|w| w.listeners.swap(0, 1), "listeners are not sorted"),
        (|w| w.listeners[1] = w.listeners[0].clone(), "listeners are not sorted, or not each once"),
        (|w| w.listeners[0].port = 0, "port of a listener is 0"),
        (|w| w.listeners[0].protocol = 9, "protocol is 9"),
        (|w| w.listeners[0].kind = 0, "kind of a listener is 0"),
        (|w| w.clients = None, "clients is missing"),
        (|w| w.clients = Some(pb::Clients { clients: None }), "clients is missing"),
        (|w| w.clients = only(Vec::new()), "ranges of clients are empty"),
        (
            |w| w.clients = only(vec![cidr(&[11, 0, 0, 0], 8), cidr(&[10, 0, 0, 0], 8)]),
            "ranges of clients are not sorted",
        ),
        (|w| w.clients = only(vec![cidr(&[10, 0, 0, 0], 33)]), "prefix_len is 33"),
        (|w| w.balancing = None, "balancing is missing"),
        (|w| w.balancing.as_mut().unwrap().family = 0, "family is 0"),
        (|w| w.timeouts = None, "timeouts is missing"),
        (|w| w.monitor.as_mut().unwrap().rise = 256, "rise is 256"),
        (|w| w.tls_containers = vec!["x".repeat(2049)], "container of a certificate has 2049 bytes"),
        (|w| w.adopt = Some("cafe/failover".into()), "adopted load balancer is not an ID"),
    ];
    for (adjust, reason) in cases {
        let text = bad(reason, adjust);
        assert!(text.contains(reason), "{text} for {reason}");
    }
}

#[test]
fn a_member_that_breaks_a_promise_is_refused_with_its_entry() {
    type Adjust = fn(&mut pb::MemberGroup);
    let cases: [(Adjust, &str); 11] = [
        (|g| g.protocol = 0, "protocol is 0"),
        (|g| g.port = 0, "port of a listener is 0"),
        (|g| g.pool = Some("a/b/80".into()), "pool of a Service is not of a listener"),
        (|g| in_pool(g, "a/b"), "pool of a member is not a port of a Service"),
        (|g| in_pool(g, "a/b/80"), "there are members of the pool a/b/80, which is not among the pools"),
        (|g| g.subnet = Some("a/b".into()), "subnet of a member is not an ID"),
        (|g| g.members[0].address = vec![1, 2].into(), "address has 2 bytes"),
        (|g| g.members[0].port = 0, "port of a member is 0"),
        (|g| g.members[0].port = 65_536, "port of a member is 65536"),
        (|g| g.members[0].weight = 256, "weight is 256"),
        (|g| g.members[0].name = Some("x".repeat(256)), "name of a member has 256 bytes"),
    ];
    for (adjust, reason) in cases {
        let mut piece = good();
        adjust(&mut piece.members[0]);
        let text = chunk(piece).expect_err(reason).reason;
        assert!(text.contains(reason), "{text} for {reason}");
    }
    let going = chunk(with_header(Header::Deleting(pb::Deleting { owner: "uid".into() }))).unwrap_err();
    assert_eq!(going.reason, "members of what is going were sent");
    let empty = chunk(pb::EntryPiece { header: Some(pb::EntryHeader { header: None }), more: true, ..good() });
    let empty = empty.unwrap_err();
    assert_eq!((&*empty.reason, empty.more), ("content of a header is missing", true));
}

#[test]
fn a_bad_key_is_of_no_entry() {
    for (bad, reason) in [
        (None, "key is missing"),
        (Some(pb::EntryKey { kind: 0, ..key("a", "b") }), "kind is 0"),
        (Some(key("", "b")), "namespace is empty"),
        (Some(key("a", "b\nERROR forged")), "control character"),
        (Some(key("a", &"x".repeat(254))), "name has 254 bytes"),
    ] {
        let unreadable = chunk(pb::EntryPiece { key: bad, ..good() }).unwrap_err();
        assert!(unreadable.reason.contains(reason), "{}", unreadable.reason);
        assert_eq!(unreadable.key, None);
    }
}

#[test]
fn a_bad_change_is_alone_with_its_trouble() {
    let change = |change| pb::EntryChange { key: Some(key("a", "x")), change };
    let gone = |address: &[u8], port| {
        let members = vec![pb::GoneMember { address: address.to_vec().into(), port }];
        let gone = vec![pb::GoneMembers { protocol: 1, port: 80, members, pool: None }];
        change(Some(Change::Update(pb::EntryUpdate { gone, ..Default::default() })))
    };
    let changes = vec![
        change(Some(Change::Removed(pb::entry_change::Removed {}))),
        change(None),
        gone(&[1], 1),
        gone(&[10, 0, 0, 1], 0),
        change(Some(Change::Replace(good()))),
        gone(&[10, 0, 0, 1], 1),
    ];
    let message = Kuryr::parse_agent(data(pb::data::Frame::Delta(pb::Delta { changes, oldest_age_ms: 0 })));
    let AgentMessage::Data(Data { frame: Frame::Delta { changes, .. }, .. }) = message else { panic!() };
    let errors: Vec<_> = changes[1..5].iter().map(|change| change.as_ref().unwrap_err().reason.as_str()).collect();
    let expected = [
        "change is missing",
        "address has 1 bytes, neither 4 nor 16",
        "port of a member is 0",
        "key of the replacement is not the key of the change",
    ];
    assert_eq!(errors, expected);
    let x = DesiredKey::new(DesiredKind::LoadBalancer, "a", "x");
    assert!(changes[1..5].iter().all(|change| change.as_ref().unwrap_err().key.as_ref() == Some(&x)));
    assert_eq!(changes[0], Ok(PieceChange::Remove(x)));
    assert!(matches!(&changes[5], Ok(PieceChange::Update { parts, .. }) if parts.len() == 1));
}

#[test]
fn a_trace_goes_both_ways_and_one_that_cannot_be_read_spoils_nothing() {
    let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let of = |traceparent: Option<&str>| {
        let pb::SyncRequest { message: Some(Message::Data(data)) } = data(pb::data::Frame::Delta(pb::Delta::default()))
        else {
            unreachable!()
        };
        let data = pb::Data { traceparent: traceparent.map(str::to_owned), ..data };
        let message = Kuryr::parse_agent(pb::SyncRequest { message: Some(Message::Data(data)) });
        let AgentMessage::Data(data) = &message else { panic!("{message:?}") };
        let read = data.trace.map(|trace| trace.to_string());
        let Some(Message::Data(sent)) = Kuryr::encode_agent(message).message else { unreachable!() };
        assert_eq!(sent.traceparent, read);
        read
    };
    assert_eq!(of(Some(text)).as_deref(), Some(text));
    let not_sampled = text.replace("-01", "-00");
    for traceparent in [None, Some(""), Some("x"), Some(&*not_sampled), Some(&*"x".repeat(1 << 20))] {
        assert_eq!(of(traceparent), None);
    }
}

#[test]
fn a_message_that_is_wrong_as_a_whole_is_unreadable() {
    for (message, reason) in [
        (None, "cannot be decoded"),
        (
            Some(Message::Data(pb::Data { seq: 1, frame: None, traceparent: None })),
            "content of a data frame is missing",
        ),
        (
            Some(Message::Heartbeat(shared::Heartbeat {
                sources: vec![Default::default(); 65],
                backlog: 0,
                clock_ms: None,
            })),
            "sources has 65",
        ),
        (Some(Message::Hello(shared::Hello { backend: "x".repeat(1025), ..Default::default() })), "backend has 1025"),
        (Some(Message::ScopeUnknown(shared::ScopeUnknown::default())), "scope is missing"),
        (Some(Message::Goodbye(shared::Goodbye::default())), "reason is 0"),
    ] {
        let AgentMessage::Unreadable { reason: text } = Kuryr::parse_agent(pb::SyncRequest { message }) else {
            panic!("{reason} was taken")
        };
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn a_report_or_facts_that_cannot_be_read_do_not_end_the_stream() {
    use pb::sync_response::Message as W;
    let parse = |message| Kuryr::parse_writer(pb::SyncResponse { message: Some(message) });
    let report =
        pb::LoadBalancerReport { owner: "uid".into(), objects: Some(Default::default()), ..Default::default() };
    let report = pb::Report { seq: 7, key: Some(key("a", "b")), load_balancer: Some(report) };
    let unreadable = |report, reason: &str| Ok(WriterMessage::Unreadable { report, reason: reason.into() });
    assert_eq!(
        parse(W::Report(report.clone())),
        unreadable(Some(7), "phase is 0, which this version does not know"),
        "a phase of a later version"
    );
    assert_eq!(parse(W::Report(pb::Report { key: None, ..report.clone() })), unreadable(Some(7), "key is missing"));
    let mut report = report;
    report.load_balancer.as_mut().unwrap().phase = pb::Phase::Ready.into();
    let Ok(WriterMessage::Report { report, .. }) = parse(W::Report(report)) else { panic!("it was not read") };
    assert_eq!(report.missing, None, "an earlier version does not say what is missing");
    let facts = pb::CloudFacts::default();
    assert_eq!(parse(W::Facts(facts)), unreadable(None, "defaults is missing"));
    for (message, reason) in [
        (None, "cannot be decoded"),
        (Some(W::Welcome(shared::Welcome::default())), "need is missing"),
        (Some(W::Resolved(pb::Resolved { key: None })), "key is missing"),
        (Some(W::Reject(pb::Reject { reason: 99, ..Default::default() })), "reason is 99"),
    ] {
        let error = Kuryr::parse_writer(pb::SyncResponse { message }).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn the_descriptors_are_complete() {
    let set: prost_types::FileDescriptorSet = prost::Message::decode(gimbal_kuryr_wire::FILE_DESCRIPTOR_SET).unwrap();
    let own = set.file.iter().filter(|file| file.package() == "gimbal.kuryr.v1");
    let services: Vec<_> = own.flat_map(|file| &file.service).map(|service| service.name()).collect();
    assert_eq!(services, ["DesiredState", "InspectionService", "AdminService"]);
    assert!(set.file.iter().any(|file| file.package() == "gimbal.discovery.v1"), "what is imported is there too");
    assert_eq!(Kuryr::SERVICE, "gimbal.kuryr.v1.DesiredState");
}

/// The sender has the same rules: what it would not read itself it does not send.
#[test]
fn what_the_model_takes_is_read_and_nothing_else() {
    type Put = fn(&mut LoadBalancerHeader, Text);
    let fields: [Put; 18] = [
        |it, text| it.owner = text,
        |it, text| it.placement.project = text,
        |it, text| it.placement.provider = Some(text),
        |it, text| it.placement.flavor = Some(text),
        |it, text| it.placement.availability_zone = Some(text),
        |it, text| it.vip.subnet = Some(text),
        |it, text| it.vip.network = Some(text),
        |it, text| it.vip.port = Some(text),
        |it, text| it.vip.additional_subnets = [text].into(),
        |it, text| it.vip.security_groups = [text].into(),
        |it, text| it.floating = Some(Box::new(FloatingWish { network: Some(text), ..FloatingWish::default() })),
        |it, text| it.floating = Some(Box::new(FloatingWish { subnet: Some(text), ..FloatingWish::default() })),
        |it, text| it.listeners[0].name = Some(text),
        |it, text| it.monitor.as_mut().unwrap().path = Some(text),
        |it, text| it.monitor.as_mut().unwrap().codes = Some(text),
        |it, text| it.tls_containers = [text].into(),
        |it, text| it.shared_group.as_mut().unwrap().name = text,
        |it, text| it.adopt = Some(text),
    ];
    let piece = chunk(good()).unwrap();
    let Some(DesiredHeader::LoadBalancer { generation, header }) = piece.header.as_deref() else { panic!() };
    let is_read = |header: LoadBalancerHeader, members: Vec<DesiredMember>| {
        let members = DesiredMembers::new(members);
        let wanted = DesiredLoadBalancer { generation: *generation, header: Arc::new(header), members };
        let is_good = wanted.bad_text().is_none();
        let entry = DesiredEntry::LoadBalancer(wanted);
        let key = DesiredKey::new(DesiredKind::LoadBalancer, "a", "bad");
        let read = chunk(gimbal_kuryr_wire::shown_entry(&key, &entry));
        assert_eq!(read.is_ok(), is_good, "{entry:?}");
        is_good
    };
    let long = ["x".repeat(256), "x".repeat(2049)];
    let texts = ["", "a", "a/b", "a b", "a\nb", "\u{7f}", ".a", "é", "gimbal-group:a", &long[0], &long[1]];
    let mut good = 0;
    for text in texts {
        for put in fields {
            let mut header = (**header).clone();
            put(&mut header, text.into());
            good += usize::from(is_read(header, Vec::new()));
        }
        let put: [fn(&mut DesiredMember, Text); 2] =
            [|it, text| it.name = Some(text), |it, text| it.subnet = Some(text)];
        for put in put {
            let mut member = piece.parts[0].clone();
            put(&mut member, text.into());
            good += usize::from(is_read((**header).clone(), vec![member]));
        }
    }
    assert!((20..150).contains(&good), "{good}");
}
