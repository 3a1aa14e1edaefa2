//! Measures the size of messages and written objects: the figures of docs/scale.md. `--nocapture` prints them.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use gimbal_model::{
    BackendName, Conditions, Endpoint, EndpointChange, EndpointPort, Header, PortSet, Protocol, Service, ServicePort,
    SourceKey, TargetKey,
};
use gimbal_plan::{Body, EndpointsApi, Observed, Removals, Wanted, plan};
use gimbal_session::{AgentMessage, ChangeAge, Data, Frame, Freshness, Piece, PieceChange};
use gimbal_wire::{encoded_len, pb};

fn key() -> SourceKey {
    SourceKey::new("team-payments", "checkout-service")
}

fn ports() -> PortSet {
    let port = EndpointPort { name: "http".into(), port: Some(8080), protocol: Protocol::Tcp, app_protocol: None };
    PortSet::new(vec![port])
}

fn endpoint(number: u8) -> Endpoint {
    Endpoint::ready(Ipv4Addr::new(10, 128, 200, number + 100).into())
}

/// A Service with a port, a label and 100 endpoints.
fn service() -> Service {
    let port =
        ServicePort { name: "http".into(), port: 80, protocol: Protocol::Tcp, app_protocol: None, target_port: None };
    let labels = [("app".into(), "checkout".into())].into();
    let header = Header { labels, ports: vec![port], ..Header::default() };
    Service::new(Arc::new(header), (0..100).map(|number| (ports(), endpoint(number))))
}

fn on_the_wire(message: AgentMessage) -> usize {
    encoded_len(&pb::SyncRequest::from(message))
}

#[test]
fn what_is_written() {
    let policy = gimbal_reconcile::Policy::default();
    let rules = policy.rules(EndpointsApi::EndpointSlices);
    let (backend, target) =
        (BackendName::parse("node02").unwrap(), TargetKey::new("team-payments", "node02-checkout-service"));
    let wanted = Wanted::new(&backend, &key(), &target, &service(), &rules).unwrap();
    let made = plan(&target, Some(&wanted), &Observed::default(), Removals::Allowed, &BTreeSet::new());
    let mut sizes = Vec::new();
    for action in made.actions() {
        let gimbal_plan::Action::Create(body) = action else { panic!("{action:?}") };
        let json = match body {
            Body::Service(object) => serde_json::to_vec(object),
            Body::Slice(object) => serde_json::to_vec(object),
            Body::Endpoints(object) => serde_json::to_vec(object),
        };
        sizes.push((body.kind().kind, json.unwrap().len()));
    }
    println!("as JSON, as it is sent: {sizes:?}");
    assert_eq!(sizes.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), ["Service", "EndpointSlice"]);
    assert!(sizes[0].1 < 1 << 10 && sizes[1].1 < 11 << 10, "an object grew: {sizes:?}");
}

#[test]
fn what_travels() {
    let data = |frame| on_the_wire(AgentMessage::Data(Data { seq: 1000, frame, trace: None }));
    let not_ready = Endpoint { conditions: Conditions::NOT_READY, ..endpoint(0) };
    let change = PieceChange::Update {
        key: key(),
        header: None,
        parts: vec![EndpointChange::Set(ports(), not_ready)],
        more: false,
    };
    let delta = data(Frame::Delta {
        changes: vec![Ok(change)],
        age: ChangeAge { waited: Duration::from_millis(20), caused: None },
    });
    let endpoints = service().endpoints().map(|(ports, endpoint)| (ports.clone(), endpoint)).collect();
    let piece = Piece { key: key(), header: Some(service().header), parts: endpoints, more: false };
    let chunk = data(Frame::SnapshotChunk { pieces: vec![Ok(piece)], digest: None, age: None });
    let kind = |kind: &str| Freshness { kind: kind.into(), age: Some(Duration::from_millis(1500)) };
    let sources = vec![kind("services"), kind("endpointslices")];
    let heartbeat = on_the_wire(AgentMessage::Heartbeat { sources, backlog: 0, clock_ms: Some(1_800_000_000_000) });
    println!("one endpoint of a Service changed: {delta}, a Service of 100 endpoints: {chunk}, heartbeat: {heartbeat}");
    assert!(delta < 150 && chunk < 2 << 10 && heartbeat < 100, "a message grew: {delta}, {chunk}, {heartbeat}");
}
