//! Tests both ends with Services that are too large for a frame.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use gimbal_model::{Detail, Endpoint, EndpointPort, Header, PortSet, Protocol, Service};
use gimbal_session::{
    AgentEnd, AgentMessage, AgentVerdict, MAX_FRAME, Outcome, PieceChange, RejectReason, WriterEnd, WriterOutput,
    estimated_len,
};

use crate::common::{agent, connect, endpoint, header, key, piece, ports, service, start, writer};

/// Connects both ends, with a reconciler that applies everything. Returns the estimated frame sizes.
fn run(agent: &mut AgentEnd, writer: &mut WriterEnd, now: Instant) -> Vec<usize> {
    let mut sizes = Vec::new();
    loop {
        let mut idle = true;
        while let Some(message) = agent.next(now) {
            idle = false;
            if let AgentMessage::Data(data) = &message {
                sizes.push(estimated_len(data));
            }
            let out = match message {
                AgentMessage::Hello(hello) => writer.open(&hello, "b", 1, now),
                message => writer.receive(message, now),
            };
            for output in out {
                if let WriterOutput::Changed(key) | WriterOutput::Removed(key) = output {
                    writer.settle(&key, Outcome::Applied);
                }
            }
        }
        for message in writer.take_messages() {
            idle = false;
            assert_eq!(agent.receive(message, now), AgentVerdict::Continue);
        }
        if idle {
            return sizes;
        }
    }
}

fn wide_header(bytes: usize) -> Arc<Header> {
    Arc::new(Header { annotations: [("a".into(), "v".repeat(bytes).into())].into(), ..Header::default() })
}

fn assert_same(agent: &AgentEnd, writer: &WriterEnd) {
    assert!(agent.services().eq(writer.services()));
    assert_eq!(agent.tree(), writer.tree());
    assert_eq!(agent.pending(), 0);
}

#[test]
fn a_large_service_travels_in_pieces() {
    let now = start();
    let large = service("1", 0..40_000);
    let (mut agent, mut writer) = (agent(&[("a", large.clone()), ("b", service("1", [1]))]), writer());
    agent.connected(now);
    let sizes = run(&mut agent, &mut writer, now);
    assert!(sizes.len() > 5 && sizes.iter().all(|size| *size <= 132 << 10), "{sizes:?}");
    assert!(sizes.iter().any(|size| *size > 100 << 10), "{sizes:?}");
    assert_same(&agent, &writer);

    // Half of its endpoints are removed and its header changes; then a large Service is added.
    agent.set(key("a"), Some(service("2", 10_000..50_000)), now);
    agent.set(key("c"), Some(large), now);
    agent.set(key("d"), Some(service("1", [1])), now);
    let sizes = run(&mut agent, &mut writer, now);
    assert!(sizes.len() > 6 && sizes.iter().all(|size| *size <= 132 << 10), "{sizes:?}");
    assert_same(&agent, &writer);
}

#[test]
fn a_change_in_parts_is_sent_as_it_was_when_it_began() {
    let now = start();
    let (mut agent, mut writer) = (agent(&[("a", service("1", 0..10))]), writer());
    agent.connected(now);
    run(&mut agent, &mut writer, now);
    agent.set(key("a"), Some(service("1", 0..30_000)), now);
    let Some(first) = agent.next(now) else { panic!("a first part") };
    agent.set(key("a"), Some(service("2", 5..30_005)), now);
    writer.receive(first, now);
    assert_eq!(writer.service(&key("a")), Some(&service("1", 0..10)), "not before its last part");
    run(&mut agent, &mut writer, now);
    assert_same(&agent, &writer);
}

#[test]
fn a_header_that_fits_in_no_frame_is_rejected_at_home() {
    let now = start();
    let huge = Arc::new(Service::new(wide_header(920 << 10), []));
    let fits = Arc::new(Service::new(wide_header(850 << 10), [(ports(80), endpoint(1, true))]));
    let (mut agent, mut writer) =
        (agent(&[("fits", fits), ("huge", huge.clone()), ("other", service("1", [1]))]), writer());
    agent.connected(now);
    let sizes = run(&mut agent, &mut writer, now);
    assert!(sizes.iter().all(|size| *size <= MAX_FRAME), "{sizes:?}");
    assert_same(&agent, &writer);
    assert_eq!(writer.services().count(), 2);
    let rejected: BTreeMap<_, _> =
        agent.rejects().iter().map(|(key, r)| (key.clone(), (r.reason, r.retryable))).collect();
    assert_eq!(rejected, [(key("huge"), (RejectReason::TooLarge, false))].into(), "Welcome did not clear it");

    agent.set(key("huge"), Some(service("1", [1])), now);
    assert!(agent.rejects().is_empty());
    agent.set(key("other"), Some(huge), now);
    run(&mut agent, &mut writer, now);
    assert_same(&agent, &writer);
    assert!(agent.rejects().keys().eq([&key("other")]));
    agent.set(key("other"), None, now);
    assert!(agent.rejects().is_empty());
    connect(&mut agent, now);
}

#[test]
fn an_endpoint_that_fits_in_no_frame_is_rejected_too() {
    let port = |n: u16| EndpointPort {
        name: "n".repeat(300).into(),
        port: Some(n),
        protocol: Protocol::Tcp,
        app_protocol: None,
    };
    let wide = PortSet::new((0..4000).map(port).collect());
    let mut agent = agent(&[("a", Arc::new(Service::new(header("1"), [(wide, endpoint(1, true))])))]);
    assert_eq!(agent.services().count(), 0);
    assert_eq!(agent.rejects()[&key("a")].reason, RejectReason::TooLarge);
    let detail = Detail { hostname: Some("h".repeat(950 << 10).into()), ..Detail::default() };
    let long = Endpoint { detail: Some(Arc::new(detail)), ..endpoint(1, true) };
    agent.set(key("b"), Some(Arc::new(Service::new(header("1"), [(ports(80), long)]))), start());
    assert_eq!(agent.services().count(), 0);
}

#[test]
fn pieces_of_one_service_are_put_together_only_in_order() {
    let now = start();
    let mut writer = crate::common::holding(&[], now);
    let whole = service("1", [1, 2]);
    let mut first = piece("a", &service("1", [1]));
    first.more = true;
    let second = gimbal_session::Piece { header: None, ..piece("a", &service("1", [2])) };
    let out = writer.receive(crate::common::delta(4, [PieceChange::Replace(first)]), now);
    assert!(out.is_empty() && writer.service(&key("a")).is_none());
    assert!(writer.take_messages().contains(&gimbal_session::WriterMessage::Ack(4)), "a piece frees its credit");
    let out = writer.receive(crate::common::delta(5, [PieceChange::Replace(second.clone())]), now);
    assert_eq!(out, [WriterOutput::Changed(key("a"))]);
    assert_eq!(writer.service(&key("a")), Some(&whole));
    let out = writer.receive(crate::common::delta(6, [PieceChange::Replace(second)]), now);
    assert!(matches!(&out[..], [WriterOutput::Unreadable { key: Some(_), .. }]), "{out:?}");
    assert_eq!(writer.service(&key("a")), Some(&whole), "what is held stays");
}
