//! Random wishes, lost answers, kills, failing providers, a second writer: in the end what is wanted is there once, and nothing
//! else is; and a port that had members all the time had one at every instant.
//!
//! `cargo xtask prove simulation` runs many worlds.

use std::time::Duration;

use gimbal_kuryr_model::ClientRanges;
use gimbal_model::Protocol;
use gimbal_octavia_plan::{Actor, BalancerStep, CloudChange};
use gimbal_octavia_sim::{Dice, Fate, Provider, SimRequest};
use gimbal_property::{note, worlds};
use serde_json::{Value, json};

use crate::executor::{Way, World, actor};
use crate::wish::{Wish, cloud, forwarded};

/// The floating IP that a user has made.
const USERS: &str = "203.0.113.99";
/// Whom the port of somebody else is for.
const STRANGERS: &str = "compute:nova";
const FLAVORS: [&str; 2] = ["f0000000-0000-4000-8000-000000000001", "f0000000-0000-4000-8000-000000000002"];

/// What happens to wishes, requests and changes.
struct Chance(Dice);

impl Chance {
    fn new(seed: u64) -> Self {
        Self(Dice::new(seed))
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.0.one_in(n)
    }

    fn wish(&mut self, wish: &mut Wish) {
        let ports = [(Protocol::Tcp, 80), (Protocol::Tcp, 443), (Protocol::Udp, 53), (Protocol::Sctp, 53)];
        match self.below(10) {
            0 => {
                wish.ports = ports.into_iter().filter(|_| self.one_in(2)).collect();
                if wish.ports.is_empty() {
                    wish.ports.push((Protocol::Tcp, 80));
                }
            }
            1 => {
                wish.clients = match self.below(3) {
                    0 => ClientRanges::NoOne,
                    1 => ClientRanges::Only(["192.0.2.0/24".parse().unwrap()].into()),
                    _ => ClientRanges::Everyone,
                }
            }
            2 => {
                let ask = self.one_in(3);
                (wish.floating, wish.keep) = (self.one_in(2), self.one_in(3));
                wish.floating_address = ask.then_some(USERS);
            }
            3 => wish.monitor = self.one_in(2),
            4 => wish.flavor = [None, Some(FLAVORS[0]), Some(FLAVORS[1])][usize::try_from(self.below(3)).unwrap()],
            _ => {
                wish.members = [80, 443, 53]
                    .into_iter()
                    .flat_map(|port| (1..=5).map(|host| (host, port, 1)).collect::<Vec<_>>())
                    .filter(|_| self.one_in(2))
                    .collect();
                for member in &mut wish.members {
                    if self.one_in(5) {
                        member.2 = 0;
                    }
                }
            }
        }
        wish.generation += 1;
        wish.known = self.one_in(2);
    }

    /// What the cloud can do, and a floating IP of a user.
    fn cloud(&mut self, world: &mut World, wish: &mut Wish) {
        let network = world.facts.external.as_ref().unwrap().network.to_string();
        let body = json!({"floatingip": {
            "floating_network_id": network, "floating_ip_address": USERS, "project_id": "p1", "description": "of a user",
        }});
        world.by_hand(&SimRequest::post("/v2.0/floatingips", body));
        let provider = world.cloud.provider_mut();
        provider.populated = !self.one_in(4);
        provider.batch = !self.one_in(4);
        provider.failover = self.one_in(2);
        provider.claims_ports = self.one_in(3);
        provider.finishes_children = !self.one_in(5);
        // A port with an address that Neutron chose looks like any other's, if Octavia leaves it behind.
        provider.own_port = !self.one_in(6) || wish.address.is_none();
    }

    /// Somebody else leads a floating IP elsewhere, takes it away, or frees it.
    fn somebody(&mut self, world: &mut World, wish: &Wish) {
        let stranger = stranger(world, &wish.subnet);
        let floating = world.rows("/v2.0/floatingips", "floatingips", &[]);
        let row = floating[usize::try_from(self.below(floating.len() as u64)).unwrap()].clone();
        let (id, is_users) = (row["id"].as_str().unwrap(), row["floating_ip_address"] == USERS);
        let path = format!("/v2.0/floatingips/{id}");
        // One port has one floating IP.
        let is_free = floating.iter().all(|one| one["port_id"] != stranger);
        let request = match self.below(3) {
            0 if is_free => SimRequest::put(&path, json!({"floatingip": {"port_id": stranger}})),
            1 if !is_users => SimRequest::delete(&path),
            _ => SimRequest::put(&path, json!({"floatingip": {"port_id": null}})),
        };
        note(|| format!("{:?} somebody: {:?} {} {}", world.cloud.now(), request.method, request.path, request.body));
        world.by_hand(&request);
    }

    fn way(&mut self) -> Way {
        match self.below(10) {
            0 => Way::Lost,
            1 => Way::AnswerLost,
            2 => Way::Late,
            _ => Way::Arrives,
        }
    }

    fn fate(&mut self) -> Option<Fate> {
        match self.below(20) {
            0 => Some(Fate::Raises),
            1 => Some(Fate::DoneAfter(Duration::from_secs(30))),
            2 => Some(Fate::Fails),
            3 => Some(Fate::Breaks),
            4 => Some(Fate::Stalls),
            _ => None,
        }
    }

    /// How somebody ends what would never end.
    fn end(&mut self) -> Fate {
        if self.one_in(2) { Fate::Done } else { Fate::Breaks }
    }
}

/// Returns the port of somebody else.
fn stranger(world: &mut World, subnet: &str) -> Value {
    if let Some(row) = world.rows("/v2.0/ports", "ports", &[("device_owner", STRANGERS)]).first() {
        return row["id"].clone();
    }
    let network = world.cloud.network_of(subnet).unwrap().to_owned();
    let body = json!({"port": {
        "network_id": network, "fixed_ips": [{"subnet_id": subnet}], "device_owner": STRANGERS, "project_id": "p1",
    }});
    world.by_hand(&SimRequest::post("/v2.0/ports", body))["port"]["id"].clone()
}

/// Returns the ports of load balancers.
fn ports(world: &mut World) -> Vec<Value> {
    let mut rows = world.rows("/v2.0/ports", "ports", &[]);
    rows.retain(|row| row["device_owner"] != STRANGERS);
    rows
}

/// Checks that what is wanted is there, once, and that nothing more is written.
fn assert_converged(world: &mut World, wish: &Wish, what: &str) {
    // Whoever has the floating IP that is wanted gives it up.
    let (stranger, users_one) = (stranger(world, &wish.subnet), users(world));
    if users_one["port_id"] == stranger {
        let path = format!("/v2.0/floatingips/{}", users_one["id"].as_str().unwrap());
        world.by_hand(&SimRequest::put(&path, json!({"floatingip": {"port_id": null}})));
    }
    // Late requests arrive first, and their effects are found by later looks.
    while world.has_late_requests() {
        world.advance(Duration::from_secs(5));
    }
    // What somebody else has added goes at the second look.
    world.actor.look_again();
    world.run_on();
    for _ in 0..3 {
        world.advance(Duration::from_secs(3700));
        world.actor.look_again();
        assert_eq!(world.run_on(), BalancerStep::Done, "{what}: {:#?}", world.actor);
    }
    world.sent.clear();
    world.actor.look_again();
    assert_eq!((world.run(), world.sent.len()), (BalancerStep::Done, 0), "{what}: {:?}", world.sent);
    let balancers = world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]);
    assert_eq!(balancers.len(), 1, "{what}: a twin");
    assert_eq!(forwarded(&world.cloud, &world.balancer()), wish.forwards(), "{what}");
    assert_eq!(world.rows("/v2/lbaas/pools", "pools", &[]).len(), wish.ports.len(), "{what}: pools");
    assert_eq!(ports(world).len(), 1, "{what}: ports");
    // Any will do where no address is asked for, also the one that the VIP has already.
    let vip_port = json!(world.actor.balancer().unwrap().vip_port);
    let (ours, users) = (floating_of_ours(world), users(world)["port_id"].clone());
    let ports: Vec<&Value> =
        ours.iter().map(|row| &row["port_id"]).chain([&users]).filter(|one| !one.is_null()).collect();
    assert_eq!(ports, vec![&vip_port; usize::from(wish.floating)], "{what}: floating IPs");
    assert!(ours.len() <= 1 && (users.is_null() || ours.is_empty()), "{what}: floating IPs");
    assert!(wish.floating_address.is_none() || ours.is_empty(), "{what}: the user's floating IP");
}

/// The floating IPs that were made for the owner, and not kept beyond it.
fn floating_of_ours(world: &mut World) -> Vec<Value> {
    let mut rows = world.rows("/v2.0/floatingips", "floatingips", &[]);
    rows.retain(|row| row["floating_ip_address"] != USERS && row["description"] != "gimbal:keep");
    rows
}

fn users(world: &mut World) -> Value {
    let rows = world.rows("/v2.0/floatingips", "floatingips", &[("floating_ip_address", USERS)]);
    assert_eq!((rows.len(), &rows[0]["description"]), (1, &json!("of a user")));
    rows[0].clone()
}

fn assert_gone(world: &mut World, wish: &Wish, forgotten: bool, what: &str) {
    while world.has_late_requests() {
        world.advance(Duration::from_secs(5));
    }
    world.actor.want(wish.deleting());
    for _ in 0..2 {
        world.advance(Duration::from_secs(3700));
        world.actor.look_again();
        assert_eq!(world.run(), BalancerStep::Gone, "{what}");
    }
    assert_eq!(world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]).len(), 0, "{what}: load balancers leak");
    // A restart forgets which address Octavia may have left in use; the next one who asks for it finds that out.
    let ports = ports(world);
    let leaks = ports.iter().filter(|row| !forgotten || row["device_owner"] != "Octavia");
    assert_eq!(leaks.count(), 0, "{what}: ports leak");
    assert_eq!(floating_of_ours(world).len(), 0, "{what}: floating IPs leak");
    assert_eq!(users(world)["port_id"], Value::Null, "{what}: the user's floating IP");
}

#[test]
fn any_order_of_trouble_ends_in_what_is_wanted() {
    worlds("any order of trouble", 100, |seed| {
        let what = format!("world {seed}");
        let mut chance = Chance::new(seed);
        let (cloud, facts, subnet) = cloud(Provider::default());
        let mut wish = Wish::new(&subnet);
        wish.from_outside = chance.one_in(2);
        wish.at_its_address();
        let mut world = World::new(cloud, facts, wish.entry());
        chance.cloud(&mut world, &mut wish);
        let meddles = chance.one_in(2);
        for _ in 0..150 {
            if chance.one_in(12) {
                chance.wish(&mut wish);
                world.wants(&wish);
            }
            if chance.one_in(25) {
                world.restart();
            }
            if let Some(fate) = chance.fate().filter(|_| chance.one_in(4)) {
                world.expect(fate);
            }
            if chance.one_in(20) {
                world.end_stalled(chance.end());
            }
            if meddles && chance.one_in(20) {
                chance.somebody(&mut world, &wish);
            }
            let step = world.step();
            let way = chance.way();
            world.take(&step, way);
        }
        // Fates that nothing has met yet would only be met later.
        world.cloud.forget_expectations();
        world.end_stalled(chance.end());
        assert_converged(&mut world, &wish, &what);
        world.counts()
    });
}

#[test]
fn two_writers_in_the_overlap_leave_one_load_balancer() {
    worlds("two writers", 100, |seed| {
        let what = format!("world {seed}");
        let mut chance = Chance::new(seed + 1_000_000);
        let (cloud, facts, subnet) = cloud(Provider::default());
        let mut wish = Wish::new(&subnet);
        wish.from_outside = chance.one_in(2);
        wish.at_its_address();
        let mut world = World::new(cloud, facts, wish.entry());
        chance.cloud(&mut world, &mut wish);
        let mut other: Actor = actor(wish.entry());
        for _ in 0..80 {
            if chance.one_in(15) {
                chance.wish(&mut wish);
                world.wants(&wish);
            }
            // The other one has an older wish now and then, and speaks to the same cloud. A port is deleted right after a look,
            // and Neutron has nothing that would close the milliseconds between.
            let deletes_port =
                |step: &BalancerStep| matches!(step, BalancerStep::Change(CloudChange::DeletePort { .. }));
            if chance.one_in(2) && !deletes_port(&world.step()) {
                std::mem::swap(&mut world.actor, &mut other);
            }
            let step = world.step();
            let way = if deletes_port(&step) { Way::Arrives } else { chance.way() };
            world.take(&step, way);
        }
        world.actor.want(wish.entry());
        assert_converged(&mut world, &wish, &what);
        assert_gone(&mut world, &wish, false, &what);
        world.counts()
    });
}

#[test]
fn whatever_was_made_is_removed() {
    worlds("removal", 100, |seed| {
        let what = format!("world {seed}");
        let mut chance = Chance::new(seed + 2_000_000);
        let (cloud, facts, subnet) = cloud(Provider::default());
        let mut wish = Wish::new(&subnet);
        (wish.from_outside, wish.floating) = (chance.one_in(2), chance.one_in(2));
        wish.at_its_address();
        let mut world = World::new(cloud, facts, wish.entry());
        chance.cloud(&mut world, &mut wish);
        let mut forgotten = false;
        for _ in 0..chance.below(40) {
            let step = world.step();
            let way = chance.way();
            world.take(&step, way);
            if chance.one_in(10) {
                world.restart();
                forgotten = true;
            }
        }
        assert_gone(&mut world, &wish, forgotten, &what);
        world.counts()
    });
}

/// A port that has had members all the time is never without one, whatever is lost, refused or killed. Only what fails inside
/// the provider, and what can't be changed in place, may interrupt it.
#[test]
fn a_port_that_has_members_is_never_without() {
    worlds("members at every instant", 100, |seed| {
        let mut chance = Chance::new(seed + 3_000_000);
        let (cloud, facts, subnet) = cloud(Provider::default());
        let mut wish = Wish::new(&subnet);
        wish.from_outside = chance.one_in(2);
        wish.at_its_address();
        let mut world = World::new(cloud, facts, wish.entry());
        assert_eq!(world.run(), BalancerStep::Done);
        for nth in 0..200 {
            if chance.one_in(6) {
                let members: Vec<_> = (1..=5).map(|host| (host, 80, 1)).filter(|_| chance.one_in(3)).collect();
                if !members.is_empty() {
                    wish.members = members;
                    wish.generation += 1;
                    wish.known = true;
                    world.wants(&wish);
                }
            }
            if chance.one_in(25) {
                world.restart();
            }
            // What is stuck for a while interrupts nothing either.
            if chance.one_in(40) {
                world.expect(Fate::Stalls);
            }
            if chance.one_in(20) {
                world.end_stalled(Fate::Done);
            }
            let step = world.step();
            let way = chance.way();
            world.take(&step, way);
            let id = balancer(&mut world);
            let served = forwarded(&world.cloud, &id);
            assert!(
                served.iter().any(|(port, members)| *port == 80 && !members.is_empty()),
                "world {seed}, step {nth}"
            );
        }
        world.counts()
    });
}

/// Whoever comes by the floating IP is served at every instant, also while another load balancer takes the place of the one
/// that serves, whatever is lost or killed.
#[test]
fn a_floating_ip_always_leads_to_members() {
    worlds("a floating IP at every instant", 100, |seed| {
        let mut chance = Chance::new(seed + 4_000_000);
        let (cloud, facts, subnet) = cloud(Provider::default());
        let mut wish = Wish::new(&subnet);
        (wish.from_outside, wish.floating) = (chance.one_in(2), true);
        let mut world = World::new(cloud, facts, wish.entry());
        world.cloud.provider_mut().populated = !chance.one_in(3);
        world.cloud.provider_mut().claims_ports = chance.one_in(3);
        let forgets = chance.one_in(4);
        assert_eq!(world.run(), BalancerStep::Done);
        let mut last = world.rows("/v2.0/floatingips", "floatingips", &[])[0]["port_id"].clone();
        let (mut led, mut before) = (Vec::<(Duration, Value)>::new(), world.cloud.now());
        world.cloud.provider_mut().finishes_children = !forgets;
        for nth in 0..250 {
            if chance.one_in(8) {
                let members: Vec<_> = (1..=5).map(|host| (host, 80, 1)).filter(|_| chance.one_in(3)).collect();
                if !members.is_empty() {
                    wish.members = members;
                }
                if chance.one_in(3) {
                    wish.flavor = [None, Some(FLAVORS[0]), Some(FLAVORS[1])][usize::try_from(chance.below(3)).unwrap()];
                }
                wish.generation += 1;
                wish.known = true;
                world.wants(&wish);
            }
            if chance.one_in(25) {
                world.restart();
            }
            if chance.one_in(50) {
                world.expect(Fate::Stalls);
            }
            if chance.one_in(20) {
                world.end_stalled(Fate::Done);
            }
            let step = world.step();
            let way = chance.way();
            world.take(&step, way);
            let floating = world.rows("/v2.0/floatingips", "floatingips", &[]);
            let balancers = world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]);
            // Routers follow one by one: for a while clients come by the former port too.
            let (now, port) = (world.cloud.now(), floating[0]["port_id"].clone());
            led.retain(|(until, former)| *until > now && *former != port);
            if last != port {
                led.push((before + Duration::from_secs(5), std::mem::replace(&mut last, port.clone())));
                led.retain(|(until, _)| *until > now);
            }
            before = now;
            for port in led.iter().map(|(_, former)| former).chain([&port]) {
                let serving = balancers.iter().find(|row| row["vip_port_id"] == *port);
                let served =
                    serving.map(|row| forwarded(&world.cloud, row["id"].as_str().unwrap())).unwrap_or_default();
                assert!(
                    served.iter().any(|(port, members)| *port == 80 && !members.is_empty()),
                    "world {seed}, step {nth}: {step:?}, {way:?}\n{port} {floating:#?}\n{balancers:#?}"
                );
            }
        }
        world.counts()
    });
}

fn balancer(world: &mut World) -> String {
    let rows = world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]);
    rows[0]["id"].as_str().unwrap().to_owned()
}
