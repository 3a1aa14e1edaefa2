//! What is refused of routers.

use std::sync::Arc;

use gimbal_kuryr_model::{
    DesiredEntry, DesiredKey, DesiredKind, DesiredLoadBalancer, DesiredMember, DesiredMembers, HostMatch, MemberId,
    PathMatch, PoolId, RouteTarget, Routing, Text,
};
use gimbal_kuryr_wire::{DesiredHeader, Kuryr, pb};
use gimbal_session::{AgentMessage, Data, Frame};
use gimbal_wire::WirePayload;
use pb::entry_change::Change;
use pb::entry_header::Header;

use crate::rules::{chunk, data, good, key, load_balancer, with_header};

/// Moves members into the pool of a Service.
pub fn in_pool(group: &mut pb::MemberGroup, pool: &str) {
    (group.protocol, group.port, group.pool) = (0, 0, Some(pool.into()));
}

fn router_key() -> pb::EntryKey {
    pb::EntryKey { kind: 2, ..key("a", "bad") }
}

fn router() -> pb::EntryPiece {
    use pb::route::{Every, Host, Path, To};
    let route = pb::Route {
        protocol: 1,
        port: 80,
        name: "a/front".into(),
        host: Some(Host::ExactHost("example.com".into())),
        path: Some(Path::EveryPath(Every {})),
        to: Some(To::Pool("a/b/80".into())),
    };
    let pool = |id: &str| pb::RoutedPool { id: id.into(), name: "a_b".into() };
    let routing = pb::Routing {
        pools: vec![pool("a/b/80"), pool("a/c/80")],
        default_pool: Some("a/c/80".into()),
        routes: vec![route.clone(), pb::Route { port: 443, ..route }],
        certificates: vec![certificate(1), certificate(2)],
    };
    let wanted = pb::LoadBalancer { routing: Some(routing), shared_group: None, ..load_balancer() };
    let mut piece = pb::EntryPiece { key: Some(router_key()), ..with_header(Header::LoadBalancer(wanted)) };
    in_pool(&mut piece.members[0], "a/b/80");
    piece
}

fn certificate(hash: u8) -> pb::Certificate {
    pb::Certificate { secret: "a/cert".into(), hash: vec![hash; 32].into() }
}

fn routing(piece: &mut pb::EntryPiece) -> &mut pb::Routing {
    let Some(Header::LoadBalancer(wanted)) = &mut piece.header.as_mut().unwrap().header else { panic!() };
    wanted.routing.as_mut().unwrap()
}

#[test]
fn routing_that_leads_nowhere_is_refused_with_what_it_names() {
    use pb::route::{Host, Path, To};
    type Adjust = fn(&mut pb::Routing);
    let cases: [(Adjust, &str); 18] = [
        (|r| r.pools[0].id = "a/b/0".into(), "ID of a pool is not a port of a Service"),
        (|r| r.pools[0].id = "a/b,c/80".into(), "ID of a pool is not a port of a Service"),
        (|r| r.pools[0].name = "a\nb".into(), "name of a pool contains a control character"),
        (|r| r.pools.swap(0, 1), "pools are not sorted"),
        (|r| r.default_pool = Some("a/x/80".into()), "led by default to the pool a/x/80, which is not among"),
        (|r| r.default_pool = Some("a/x".into()), "default pool is not a port of a Service"),
        (|r| r.routes.swap(0, 1), "routes are not sorted by their listeners"),
        (|r| r.routes[1].port = 8080, "a route of a/front belongs to the listener TCP:8080, which is not among"),
        (|r| r.routes[0].to = Some(To::Pool("a/x/80".into())), "a route of a/front leads to the pool a/x/80"),
        (|r| r.routes[0].to = Some(To::Redirect(String::new())), "redirection of a route is empty"),
        (|r| r.routes[0].to = None, "target of a route is missing"),
        (|r| r.routes[0].host = None, "host of a route is missing"),
        (|r| r.routes[0].host = Some(Host::WildcardHost(String::new())), "host of a route is empty"),
        (|r| r.routes[0].path = None, "path of a route is missing"),
        (|r| r.routes[0].path = Some(Path::ExactPath("/a\n".into())), "path of a route contains a control character"),
        (|r| r.routes[0].path = Some(Path::PathPrefix("/a/".into())), "path of a route ends with a slash"),
        (|r| r.routes[0].path = Some(Path::PathPrefix(String::new())), "path of a route is empty"),
        (|r| r.routes[0].name = "x".repeat(256), "name of a route has 256 bytes"),
    ];
    assert_eq!(chunk(router()).unwrap().parts.len(), 1);
    for (adjust, reason) in cases {
        let mut piece = router();
        adjust(routing(&mut piece));
        let text = chunk(piece).expect_err(reason).reason;
        assert!(text.contains(reason), "{text} for {reason}");
    }
}

#[test]
fn routing_is_of_routers_alone() {
    let of_a_service = pb::EntryPiece { key: Some(key("a", "bad")), ..router() };
    assert_eq!(chunk(of_a_service).unwrap_err().reason, "a load balancer of a Service has routing");
    let without = pb::EntryPiece { key: Some(router_key()), ..good() };
    assert_eq!(chunk(without).unwrap_err().reason, "a router has no routing");
    let going = with_header(Header::Deleting(pb::Deleting { owner: "uid".into() }));
    chunk(pb::EntryPiece { key: Some(router_key()), members: Vec::new(), ..going }).unwrap();
}

#[test]
fn members_of_an_update_fit_the_header_that_comes_with_them() {
    let pb::EntryPiece { header, members, .. } = router();
    let mut lost = members.clone();
    in_pool(&mut lost[0], "a/x/80");
    let update = |header: &Option<pb::EntryHeader>, set: &Vec<pb::MemberGroup>| {
        let (header, set) = (header.clone(), set.clone());
        let update = pb::EntryUpdate { header, set, ..Default::default() };
        pb::EntryChange { key: Some(router_key()), change: Some(Change::Update(update)) }
    };
    let changes = vec![update(&header, &members), update(&header, &lost), update(&None, &lost)];
    let message = Kuryr::parse_agent(data(pb::data::Frame::Delta(pb::Delta { changes, oldest_age_ms: 0 })));
    let AgentMessage::Data(Data { frame: Frame::Delta { changes, .. }, .. }) = message else { panic!() };
    assert!(changes[0].is_ok() && changes[2].is_ok(), "what was sent before is not known here: {changes:?}");
    let reason = &changes[1].as_ref().unwrap_err().reason;
    assert_eq!(reason, "there are members of the pool a/x/80, which is not among the pools");
}

/// The sender has the same rules: what it would not read itself it does not send.
#[test]
fn what_the_model_takes_of_a_router_is_read_and_nothing_else() {
    type Put = fn(&mut Routing, Text);
    let fields: [Put; 9] = [
        |it, text| it.pools[0].id = text,
        |it, text| it.pools[0].name = text,
        |it, text| it.default = Some(text),
        |it, text| it.routes[0].name = text,
        |it, text| it.routes[0].host = HostMatch::Exact(text),
        |it, text| it.routes[0].host = HostMatch::Wildcard(text),
        |it, text| it.routes[0].path = PathMatch::Exact(text),
        |it, text| it.routes[0].path = PathMatch::Prefix(text),
        |it, text| it.routes[0].to = RouteTarget::Redirect(text),
    ];
    let piece = chunk(router()).unwrap();
    let Some(DesiredHeader::LoadBalancer { generation, header }) = piece.header.as_deref() else { panic!() };
    let is_read = |routing: Option<Routing>, members: Vec<DesiredMember>| {
        let mut header = (**header).clone();
        header.routing = routing.map(Box::new).or(header.routing);
        let members = DesiredMembers::new(members);
        let wanted = DesiredLoadBalancer { generation: *generation, header: Arc::new(header), members };
        let is_good = wanted.bad_text().is_none() && wanted.contradiction(DesiredKind::L7Router).is_none();
        let entry = DesiredEntry::LoadBalancer(wanted);
        let key = DesiredKey::new(DesiredKind::L7Router, "a", "bad");
        let read = chunk(gimbal_kuryr_wire::shown_entry(&key, &entry));
        assert_eq!(read.is_ok(), is_good, "{entry:?}");
        is_good
    };
    let long = ["x".repeat(256), "x".repeat(2049), format!("a/{}/80", "x".repeat(250))];
    let texts = [
        "", "a", "/", "/a/", "a b", "a\nb", "é", "a/b/80", "a/b/x", "a/b/80/c", "a/c/80", &long[0], &long[1], &long[2],
    ];
    let mut good = 0;
    for text in texts {
        for put in fields {
            let mut routing = header.routing.as_deref().unwrap().clone();
            put(&mut routing, text.into());
            good += usize::from(is_read(Some(routing), Vec::new()));
        }
        let member = piece.parts[0].clone();
        let id = MemberId { pool: PoolId::Service(text.into()), ..member.id };
        good += usize::from(is_read(None, vec![DesiredMember { id, ..member }]));
    }
    assert!((30..90).contains(&good), "{good}");
}
