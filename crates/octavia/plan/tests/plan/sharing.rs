//! What several owners want of one load balancer, merged.

use std::collections::BTreeMap;
use std::sync::Arc;

use gimbal_kuryr_model::{
    ClientRanges, DesiredEntry, DesiredKey, DesiredKind, DesiredLoadBalancer, FloatingWish, ListenerId,
    LoadBalancerHeader, PoolId, SharedGroup, Text,
};
use gimbal_model::Protocol;
use gimbal_octavia_plan::{SharedWish, SharingLoss, merged};

use crate::wish::Wish;

const OLD: Option<&str> = Some("2026-01-01T00:00:00Z");
const YOUNG: Option<&str> = Some("2026-01-01T00:00:01Z");

/// What an owner wants: a Service of its name, with a member for each port.
struct Asks {
    owner: &'static str,
    created: Option<&'static str>,
    ports: &'static [u16],
}

fn asks(owner: &'static str, created: Option<&'static str>, ports: &'static [u16]) -> Asks {
    Asks { owner, created, ports }
}

impl Asks {
    fn with(self, change: impl FnOnce(&mut LoadBalancerHeader)) -> (DesiredKey, DesiredLoadBalancer) {
        let mut wish = Wish::new("50b00000-0000-4000-8000-000000000000");
        wish.owner = self.owner;
        wish.known = true;
        wish.ports = self.ports.iter().map(|port| (Protocol::Tcp, *port)).collect();
        wish.members = self.ports.iter().map(|port| (self.owner.as_bytes()[0], *port, 1)).collect();
        let DesiredEntry::LoadBalancer(mut wanted) = wish.entry() else { unreachable!() };
        let mut header = LoadBalancerHeader::clone(&wanted.header);
        header.shared_group =
            Some(Box::new(SharedGroup { name: "shop/edge".into(), created: self.created.map(Into::into) }));
        change(&mut header);
        wanted.header = Arc::new(header);
        (key(self.owner), wanted)
    }

    fn plain(self) -> (DesiredKey, DesiredLoadBalancer) {
        self.with(|_| {})
    }
}

fn key(owner: &str) -> DesiredKey {
    DesiredKey::new(DesiredKind::LoadBalancer, "shop", owner)
}

fn tcp(port: u16) -> ListenerId {
    ListenerId::new(Protocol::Tcp, port)
}

fn merge<const N: usize>(all: [(DesiredKey, DesiredLoadBalancer); N]) -> SharedWish {
    merge_beside(all, &[])
}

fn merge_beside<const N: usize>(all: [(DesiredKey, DesiredLoadBalancer); N], occupied: &[(u16, &str)]) -> SharedWish {
    let occupied = occupied.iter().map(|(port, owner)| (tcp(*port), Text::from(*owner))).collect();
    merged(&"shop/edge".into(), &BTreeMap::from(all), &occupied).unwrap()
}

/// Whom each port serves.
fn served(wish: &SharedWish) -> Vec<(u16, &str)> {
    wish.parts.iter().map(|(id, part)| (id.port, &*part.owner)).collect()
}

/// An owner, and what it does not get: ports and who has them, and settings.
type Lost<'a> = (&'a str, Vec<(u16, &'a str)>, Vec<&'a str>);
/// Ports, and who has them.
type Held = &'static [(u16, &'static str)];
/// Who does not get which port, and who has it.
type Missed = &'static [(&'static str, u16, &'static str)];

fn lost(wish: &SharedWish) -> Vec<Lost<'_>> {
    let mut all = Vec::new();
    for (key, SharingLoss { ports, settings, .. }) in &wish.losses {
        all.push((&*key.name, ports.iter().map(|(id, holder)| (id.port, &**holder)).collect(), settings.clone()));
    }
    all
}

#[test]
fn without_an_owner_there_is_nothing_to_want() {
    assert_eq!(merged(&"shop/edge".into(), &BTreeMap::new(), &BTreeMap::new()), None);
}

#[test]
fn the_older_one_has_the_port_that_both_want_and_decides_for_both() {
    for (a, b, older) in [
        (OLD, YOUNG, "a"),
        (YOUNG, OLD, "b"),
        // Who does not say is younger.
        (None, YOUNG, "b"),
        (YOUNG, None, "a"),
        // Of the same age: by owner.
        (OLD, OLD, "a"),
        (None, None, "a"),
    ] {
        let younger = if older == "a" { "b" } else { "a" };
        let flavored = |one: Asks| {
            let flavor = one.owner;
            one.with(|header| header.placement.flavor = Some(flavor.into()))
        };
        let wish = merge([flavored(asks("a", a, &[80, 81])), flavored(asks("b", b, &[80, 82]))]);
        assert_eq!(served(&wish), [(80, older), (81, "a"), (82, "b")], "{a:?} {b:?}");
        assert_eq!(wish.wanted.header.placement.flavor.as_deref(), Some(older), "{a:?} {b:?}");
        let holder = format!("shop/{older}");
        assert_eq!(lost(&wish), [(younger, vec![(80, &*holder)], vec!["flavor"])], "{a:?} {b:?}");
        assert_eq!(&*wish.losses[&key(younger)].oldest, holder);
    }
}

#[test]
fn a_port_that_is_occupied_stays_with_whoever_has_it() {
    let cases: [(Held, Held, Missed); 4] = [
        // No owner has anything yet.
        (&[], &[(80, "a")], &[("b", 80, "shop/a")]),
        // The younger one has had it before.
        (&[(80, "b")], &[(80, "b")], &[("a", 80, "b")]),
        // One who was not heard yet has it.
        (&[(80, "c")], &[], &[("a", 80, "c"), ("b", 80, "c")]),
        // Another port does not matter.
        (&[(81, "c")], &[(80, "a")], &[("b", 80, "shop/a")]),
    ];
    for (occupied, serves, loses) in cases {
        let wish = merge_beside([asks("a", OLD, &[80]).plain(), asks("b", YOUNG, &[80]).plain()], occupied);
        assert_eq!(served(&wish), serves, "{occupied:?}");
        let lost: Vec<_> = lost(&wish)
            .into_iter()
            .flat_map(|(who, ports, settings)| {
                assert_eq!(settings, Vec::<&str>::new());
                ports.into_iter().map(move |(port, holder)| (who, port, holder))
            })
            .collect();
        assert_eq!(lost, loses, "{occupied:?}");
    }
}

#[test]
fn each_setting_that_there_is_once_is_told_to_whoever_does_not_get_it() {
    type Change = fn(&mut LoadBalancerHeader);
    let cases: [(&str, Change); 12] = [
        ("project", |header| header.placement.project = "p2".into()),
        ("provider", |header| header.placement.provider = Some("ovn".into())),
        ("flavor", |header| header.placement.flavor = Some("large".into())),
        ("availability zone", |header| header.placement.availability_zone = Some("z2".into())),
        ("subnet", |header| header.vip.subnet = Some("other".into())),
        ("subnet", |header| header.vip.additional_subnets = ["more".into()].into()),
        ("network", |header| header.vip.network = Some("n".into())),
        ("port of the VIP", |header| header.vip.port = Some("p".into())),
        ("address", |header| header.vip.address = Some("10.0.0.9".parse().unwrap())),
        ("address", |header| header.vip.additional_addresses = ["2001:db8::9".parse().unwrap()].into()),
        ("security groups", |header| header.vip.security_groups = ["g".into()].into()),
        ("floating IP", |header| header.floating = Some(Box::default())),
    ];
    for (setting, change) in cases {
        let (first, second) = (asks("a", OLD, &[80]), asks("b", YOUNG, &[81]));
        let wish = merge([first.plain(), second.with(change)]);
        assert_eq!(lost(&wish), [("b", vec![], vec![setting])]);
        let (_, alone) = asks("a", OLD, &[80]).plain();
        let (has, header) = (&wish.wanted.header, &alone.header);
        assert_eq!((&has.placement, &has.vip, &has.floating), (&header.placement, &header.vip, &header.floating));
        // No owner loses what all want.
        let wish = merge([asks("a", OLD, &[80]).with(change), asks("b", YOUNG, &[81]).with(change)]);
        assert!(lost(&wish).is_empty(), "{setting}");
    }
}

/// What a port has by itself is not lost, whatever the others want of theirs.
#[test]
fn settings_of_a_port_stay_with_the_port() {
    let wish = merge([
        asks("a", OLD, &[80]).plain(),
        asks("b", YOUNG, &[81]).with(|header| {
            header.timeouts.client_data = Some(7);
            header.balancing.affinity_seconds = Some(60);
            header.clients = ClientRanges::NoOne;
        }),
    ]);
    assert!(lost(&wish).is_empty());
    let of = |port: u16| &wish.parts[&tcp(port)].header;
    assert_eq!((of(80).timeouts.client_data, of(81).timeouts.client_data), (None, Some(7)));
    assert_eq!((&of(80).clients, &of(81).clients), (&ClientRanges::Everyone, &ClientRanges::NoOne));
    assert_eq!(wish.wanted.header.clients, ClientRanges::Everyone);
}

#[test]
fn the_port_of_the_vip_is_treated_as_restricted_where_any_part_is() {
    let only = |range: &str| ClientRanges::Only([range.parse().unwrap()].into());
    let (some, others) = (only("192.0.2.0/24"), only("198.51.100.0/24"));
    let cases = [
        (ClientRanges::Everyone, ClientRanges::Everyone, ClientRanges::Everyone),
        (ClientRanges::Everyone, some.clone(), some.clone()),
        (ClientRanges::NoOne, some.clone(), some.clone()),
        (some.clone(), ClientRanges::Everyone, some.clone()),
        (some.clone(), others, some),
        (ClientRanges::NoOne, ClientRanges::Everyone, ClientRanges::NoOne),
    ];
    for (first, second, expected) in cases {
        let wish = merge([
            asks("a", OLD, &[80]).with(|header| header.clients = first.clone()),
            asks("b", YOUNG, &[81]).with(|header| header.clients = second.clone()),
        ]);
        assert_eq!(wish.wanted.header.clients, expected, "{first:?} {second:?}");
    }
    // The ranges of a port that its owner does not get restrict nothing.
    let wish = merge([
        asks("a", OLD, &[80]).plain(),
        asks("b", YOUNG, &[80]).with(|header| header.clients = only("192.0.2.0/24")),
    ]);
    assert_eq!(wish.wanted.header.clients, ClientRanges::Everyone);
}

#[test]
fn the_whole_is_known_where_all_of_it_is() {
    for (first, second) in [(true, true), (true, false), (false, true)] {
        let wish = merge([
            asks("a", OLD, &[80]).with(|header| header.known = first),
            asks("b", YOUNG, &[81]).with(|header| header.known = second),
        ]);
        assert_eq!(wish.wanted.header.known, first && second);
        assert_eq!(&*wish.wanted.header.owner, "shop/edge");
    }
}

#[test]
fn of_what_is_to_be_adopted_the_oldest_wish_counts() {
    let adopts = |one: Asks, adopt: Option<&'static str>| one.with(|header| header.adopt = adopt.map(Into::into));
    for (first, second, expected) in [(None, None, None), (Some("x"), Some("y"), Some("x")), (None, Some("y"), None)] {
        // The names are the other way round than the age.
        let wish = merge([adopts(asks("b", OLD, &[80]), first), adopts(asks("a", YOUNG, &[81]), second)]);
        assert_eq!(wish.wanted.header.adopt.as_deref(), expected);
    }
}

/// A port has the members of its owner alone, and one listener.
#[test]
fn members_of_a_port_that_somebody_else_has_are_left_out() {
    let wish = merge([asks("b", YOUNG, &[80, 82]).plain(), asks("a", OLD, &[81, 80]).plain()]);
    let listeners: Vec<u16> = wish.wanted.header.listeners.iter().map(|one| one.id.port).collect();
    assert_eq!(listeners, [80, 81, 82], "sorted");
    let port = |pool: &PoolId| pool.listener().unwrap().port;
    let members: Vec<(u16, String)> =
        wish.wanted.members.as_slice().iter().map(|one| (port(&one.id.pool), one.id.address.to_string())).collect();
    let at = |owner: u8| format!("10.1.0.{owner}");
    assert_eq!(members, [(80, at(b'a')), (81, at(b'a')), (82, at(b'b'))]);
}

#[test]
fn a_floating_ip_with_an_address_is_another_one() {
    let with_address = |header: &mut LoadBalancerHeader| {
        let address = Some("203.0.113.7".parse().unwrap());
        header.floating = Some(Box::new(FloatingWish { address, ..FloatingWish::default() }));
    };
    let any = |header: &mut LoadBalancerHeader| header.floating = Some(Box::default());
    let wish = merge([asks("a", OLD, &[80]).with(any), asks("b", YOUNG, &[81]).with(with_address)]);
    assert_eq!(lost(&wish), [("b", vec![], vec!["floating IP"])]);
}
