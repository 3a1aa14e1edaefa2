use super::*;

fn status(digest: u8, published: Option<u64>) -> pb::ServiceStatus {
    pb::ServiceStatus {
        backend: "node02".into(),
        source: Some(pb::ServiceKey { namespace: "team1".into(), name: "web".into() }),
        state: pb::ServiceState::Synced.into(),
        endpoints: 3,
        ready_endpoints: 3,
        digest: vec![digest; 16],
        published_endpoints: published,
        ..Default::default()
    }
}

fn backend(instance: &str) -> pb::Backend {
    let (name, agent_instance) = ("node02".to_owned(), instance.to_owned());
    pb::Backend { name, agent_instance, connected: true, complete: true, ..Default::default() }
}

fn end(service: Option<pb::ServiceStatus>) -> End {
    let answer = pb::ExplainResponse { service, ..Default::default() };
    End { backend: Some(backend("a")), answer }
}

fn both(source: End, writer: End) -> BothEnds {
    BothEnds { address: None, writer: Some(writer), leading: true, discoverer: Some(source) }
}

#[test]
fn a_service_differs_first_where_it_did_not_arrive() {
    let there = || end(Some(status(1, Some(3))));
    let at_source = || end(Some(pb::ServiceStatus { message: "on its way to the writer".into(), ..status(1, None) }));
    let refused = pb::ServiceStatus {
        state: pb::ServiceState::Rejected.into(),
        reject_reason: pb::RejectReason::NamespaceMissing.into(),
        message: "why".into(),
        ..status(1, None)
    };
    for (ends, expected) in [
        (both(at_source(), there()), "the source, the writer and the Gimbal cluster agree"),
        (both(at_source(), end(None)), "first difference: missing at the writer: on its way to the writer"),
        (
            both(at_source(), end(Some(status(2, Some(3))))),
            "first difference: different at the writer: labels, annotations, or details of endpoints; on its way to the writer",
        ),
        (both(end(None), there()), "first difference: extra at the writer: the source does not offer it"),
        (
            both(at_source(), end(Some(refused.clone()))),
            "first difference: missing at the cluster: rejected (namespace missing): why",
        ),
        (
            BothEnds { discoverer: None, ..both(end(None), end(Some(refused))) },
            "first difference: missing at the cluster: rejected (namespace missing): why",
        ),
        (BothEnds { discoverer: None, ..both(end(None), there()) }, "the writer and the Gimbal cluster agree"),
        (BothEnds { leading: false, ..both(at_source(), end(None)) }, "nothing is compared: this writer does not lead"),
        (BothEnds { writer: None, ..both(at_source(), end(None)) }, "the writer was not asked"),
    ] {
        assert_eq!(ends.conclusion(), expected, "{ends:?}");
    }
    // What the discoverer cannot read it cannot deny.
    let unread = End { backend: Some(pb::Backend { complete: false, ..backend("a") }), ..end(None) };
    assert_eq!(both(unread, there()).first_difference(), None);
}

/// What an end says of the address: its endpoint, whether that is ready in an object, and why.
fn of_address(endpoint: Option<bool>, object: Option<bool>, why: &str) -> End {
    let conditions = |ready| pb::EndpointConditions { ready, serving: ready, terminating: false };
    let object = object.map(|ready| pb::AddressObject {
        kind: "EndpointSlice".into(),
        name: "s".into(),
        conditions: Some(conditions(ready)),
    });
    let address = pb::AddressStatus {
        address: "10.0.0.1".into(),
        endpoint: endpoint.map(conditions),
        objects: object.into_iter().collect(),
        reasons: vec![why.to_owned()],
    };
    let answer =
        pb::ExplainResponse { address: Some(address), service: Some(status(1, Some(3))), ..Default::default() };
    End { backend: Some(backend("a")), answer }
}

#[test]
fn an_address_differs_first_where_it_did_not_arrive() {
    let address = || Some("10.0.0.1".parse().unwrap());
    let source = |ready| of_address(ready, ready, "of the source");
    let writer = |sent, published| of_address(sent, published, "of the writer");
    for (at_source, sent, published, expected) in [
        (Some(true), Some(true), Some(true), "the source, the writer and the Gimbal cluster agree"),
        (None, None, None, "the source, the writer and the Gimbal cluster agree"),
        (Some(false), Some(false), Some(false), "the source, the writer and the Gimbal cluster agree"),
        (Some(true), None, None, "first difference: missing at the writer: of the writer"),
        (None, Some(true), Some(true), "first difference: extra at the writer: of the writer"),
        (Some(false), Some(true), Some(true), "first difference: different at the writer: of the writer"),
        (Some(true), Some(true), None, "first difference: missing at the cluster: of the writer"),
        (None, None, Some(true), "first difference: extra at the cluster: of the writer"),
        (Some(true), Some(true), Some(false), "first difference: different at the cluster: of the writer"),
    ] {
        let ends = BothEnds { address: address(), ..both(source(at_source), writer(sent, published)) };
        assert_eq!(ends.conclusion(), expected, "{at_source:?} {sent:?} {published:?}");
        assert_eq!(ends.lacks_address(), (at_source, sent, published) == (None, None, None));
        assert!(!BothEnds { address: None, ..ends }.lacks_address(), "none was asked about");
    }
    // What the discoverer cannot read it cannot deny, and what it has read it can.
    let unread = |ready| End { backend: Some(pb::Backend { complete: false, ..backend("a") }), ..source(ready) };
    let ends = |ready, sent| BothEnds { address: address(), ..both(unread(ready), writer(sent, Some(true))) };
    assert_eq!(ends(None, Some(true)).first_difference(), None);
    assert_eq!(ends(Some(false), Some(true)).first_difference().unwrap().place, DiffPlace::Writer);
    // What the agent says of its Service says more than that the writer has nothing.
    let mut waits = source(Some(true));
    waits.answer.service = Some(pb::ServiceStatus { message: "on its way to the writer".into(), ..status(1, None) });
    let ends = BothEnds { address: address(), ..both(waits, writer(None, None)) };
    assert_eq!(ends.conclusion(), "first difference: missing at the writer: on its way to the writer");
    // An older server says nothing of an address.
    let silent = || end(Some(status(1, Some(3))));
    let ends = BothEnds { address: address(), ..both(silent(), writer(Some(true), None)) };
    assert_eq!(ends.first_difference().unwrap().place, DiffPlace::Cluster);
    assert_eq!(BothEnds { address: address(), ..both(source(Some(true)), silent()) }.first_difference(), None);
}

#[test]
fn a_stream_of_another_agent_is_named() {
    let of =
        |instance: &str, connected| End { backend: Some(pb::Backend { connected, ..backend(instance) }), ..end(None) };
    assert_eq!(both(of("a", true), of("a", true)).other_agent(), None);
    assert_eq!(both(of("a", true), of("b", false)).other_agent(), None, "an old one");
    let shown = both(of("a", false), of("b", true)).other_agent().unwrap();
    assert!(shown.contains("instance b") && shown.ends_with("asked is a"), "{shown}");
    assert_eq!(BothEnds { discoverer: None, ..both(of("a", true), of("b", true)) }.other_agent(), None);
}

#[test]
fn of_many_backends_the_one_that_is_asked_about_is_kept() {
    let all = || vec![pb::Backend { name: "node03".into(), ..backend("b") }, backend("a")];
    let name = |end: End| end.backend.map(|backend| backend.name);
    assert_eq!(name(End::of(all(), "", pb::ExplainResponse::default())), None);
    assert_eq!(name(End::of(all(), "node03", pb::ExplainResponse::default())).as_deref(), Some("node03"));
    let answer = pb::ExplainResponse { service: Some(status(1, None)), ..Default::default() };
    assert_eq!(name(End::of(all(), "", answer)).as_deref(), Some("node02"));
}
