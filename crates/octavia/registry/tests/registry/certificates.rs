//! Certificates of routers: asked for, stored, reported, removed with their owner, and found again where something has gone wrong.

use gimbal_kuryr_model::Phase;
use gimbal_octavia_plan::CloudChange;
use gimbal_octavia_registry::RegistryEvent;
use gimbal_octavia_sim::{Dice, KeyManagerMode, SimRequest};
use gimbal_property::worlds;
use serde_json::{Value, json};

use crate::wish::{Wish, certificate, router_key};
use crate::world::{MS, SECOND, World};

const ROUTES: [(&str, &str, &str); 2] = [("a.test", "/api", "api"), ("a.test", "", "web")];

fn wish(world: &World, certificates: &[u8]) -> Wish {
    let ports = if certificates.is_empty() { vec![80] } else { vec![80, 443] };
    let members = vec![(1, 80), (2, 80)];
    Wish {
        routes: ROUTES.to_vec(),
        ports,
        members,
        certificates: certificates.to_vec(),
        ..Wish::new("r1", &world.subnet)
    }
}

fn set(world: &mut World, certificates: &[u8]) {
    world.change("prod1", &router_key(), |wish| {
        wish.certificates = certificates.to_vec();
        wish.ports = if certificates.is_empty() { vec![80] } else { vec![80, 443] };
    });
}

/// A cluster in whose cloud there is a key manager, with a router.
fn world(seed: u64, certificates: &[u8]) -> World {
    let mut world = World::new(seed);
    world.facts.certificates = true;
    world.add_cluster("prod1");
    world.add_writer();
    world.connect(0, "prod1");
    let wish = wish(&world, certificates);
    world.want("prod1", router_key(), wish);
    world
}

fn at_rest(certificates: &[u8]) -> World {
    let mut world = world(0, certificates);
    world.converge(120 * SECOND);
    world.status_written("prod1", &router_key());
    world.run(130 * SECOND);
    (world.sent, world.reads) = (Vec::new(), Vec::new());
    world
}

fn name(content: u8) -> String {
    let wish = certificate(content);
    format!("gimbal/prod1/uid-prod1/r1/{}/{}", wish.hash, wish.secret)
}

fn names(contents: &[u8]) -> Vec<String> {
    let mut names: Vec<String> = contents.iter().map(|one| name(*one)).collect();
    names.sort();
    names
}

fn stored(world: &World) -> Vec<String> {
    let mut names: Vec<String> = world.cloud.secrets().into_values().collect();
    names.sort();
    names
}

fn served(world: &mut World) -> Vec<String> {
    let Some(balancer) = world.balancers_of("r1").first().cloned() else { return Vec::new() };
    let mut names = world.cloud.certificates(&balancer, 443).unwrap_or_default().to_vec();
    names.sort();
    names
}

/// Every reference of a listener leads to a secret, and no TLS is served without a certificate.
fn is_sound(world: &mut World) {
    let secrets = world.cloud.secrets();
    let leads = |one: &Value| one.as_str().is_none_or(|one| secrets.contains_key(one));
    for row in world.rows("/v2/lbaas/listeners", "listeners") {
        let others = row["sni_container_refs"].as_array().unwrap();
        let is_sound = leads(&row["default_tls_container_ref"]) && others.iter().all(leads);
        assert!(is_sound, "at {:?}: dangling {row}; {:#?}", world.cloud.now(), world.last_sent());
    }
    for balancer in world.balancers() {
        let served = world.cloud.certificates(balancer["id"].as_str().unwrap(), 443);
        assert_ne!(served, Some(&[][..]), "at {:?}: TLS without a certificate", world.cloud.now());
    }
}

#[test]
fn each_content_is_asked_for_once_and_what_is_stored_is_reported() {
    let mut world = at_rest(&[1, 2]);
    assert_eq!((world.asked.len(), stored(&world), served(&mut world)), (2, names(&[1, 2]), names(&[1, 2])));
    let report = &world.reports[&("prod1".to_owned(), router_key())];
    assert_eq!((report.phase, report.conditions.len()), (Phase::Ready, 0));
    let secrets = world.cloud.secrets();
    let mut reported: Vec<_> =
        report.objects.certificates.iter().map(|one| (&secrets[&*one.reference], one.hash)).collect();
    reported.sort();
    assert_eq!(reported, [(&name(1), certificate(1).hash), (&name(2), certificate(2).hash)]);
    world.run(3700 * SECOND);
    assert_eq!((world.sent.len(), world.asked.len()), (0, 2), "{:#?}", world.last_sent());
    world.change("prod1", &router_key(), |wish| wish.deleting = true);
    world.converge(120 * SECOND);
    assert_eq!(world.left_of("prod1"), [""; 0]);
    let kinds: Vec<_> = world.sent.iter().map(|sent| sent.change.request().resource).collect();
    assert_eq!(kinds, ["loadbalancer", "secret", "secret"]);
    let shown = format!("{:?}{:?}", world.events, world.reports);
    assert!(!shown.contains("MARKER"), "{shown}");
}

#[test]
fn the_key_manager_is_asked_rarely_and_for_services_never() {
    let mut world = at_rest(&[1]);
    world.run(1800 * SECOND);
    let count = |world: &World| world.reads.iter().filter(|(_, read)| read.resource == "secret").count();
    assert!((2..=4).contains(&count(&world)), "{}", count(&world));
    let mut plain = World::at_rest(3);
    plain.run(1800 * SECOND);
    assert_eq!(count(&plain), 0);
}

#[test]
fn what_has_no_owner_goes_after_the_grace_and_what_is_anothers_stays() {
    let mut world = at_rest(&[1]);
    let hash = certificate(9).hash;
    let name = |cluster: &str, uid: &str| format!("gimbal/{cluster}/{uid}/r9/{hash}/shop/tls");
    let (ours, others) =
        (name("prod1", "uid-prod1"), [name("prod1", "uid-2"), name("prod2", "uid-prod1"), "mine".to_owned()]);
    for name in others.iter().chain([&ours]) {
        world.by_hand(&SimRequest::post("/v1/secrets", json!({"name": name})));
    }
    world.run(600 * SECOND);
    assert!(stored(&world).contains(&ours));
    world.run(2400 * SECOND);
    let mut expected = names(&[1]);
    expected.extend(others);
    expected.sort();
    assert_eq!(stored(&world), expected);
    let removed =
        |event: &RegistryEvent| matches!(event, RegistryEvent::OrphanRemoved { owner, .. } if **owner == *"r9");
    assert_eq!(world.events.iter().filter(|event| removed(event)).count(), 1);
}

#[test]
fn a_secret_that_somebody_removes_is_found_by_the_rare_list_and_stored_again() {
    let mut world = at_rest(&[1, 2]);
    let (reference, _) = world.cloud.secrets().into_iter().next().unwrap();
    let id = reference.rsplit('/').next().unwrap().to_owned();
    world.by_hand(&SimRequest::delete(&format!("/v1/secrets/{id}")));
    world.run(700 * SECOND);
    assert_eq!((stored(&world), served(&mut world)), (names(&[1, 2]), names(&[1, 2])));
    is_sound(&mut world);
}

#[test]
fn where_the_key_manager_refuses_everything_http_is_served_and_the_removal_ends() {
    let mut world = world(0, &[1, 2]);
    world.cloud.set_key_manager(KeyManagerMode::Forbidden);
    world.run(30 * SECOND);
    let report = world.reports[&("prod1".to_owned(), router_key())].clone();
    let [condition] = &report.conditions[..] else { panic!("{:?}", report.conditions) };
    assert_eq!((report.phase, &*condition.kind, &*condition.reason), (Phase::Blocked, "Degraded", "Certificate"));
    assert!(condition.message.contains("privileges"), "{condition:?}");
    assert_eq!(report.objects.listeners.len(), 1);
    world.cloud.set_key_manager(KeyManagerMode::Open);
    world.run(400 * SECOND);
    assert_eq!((stored(&world), served(&mut world)), (names(&[1, 2]), names(&[1, 2])));

    world.cloud.set_key_manager(KeyManagerMode::Forbidden);
    world.change("prod1", &router_key(), |wish| wish.deleting = true);
    world.converge(120 * SECOND);
    assert!(world.events.iter().any(|event| matches!(event, RegistryEvent::SecretsLeft { .. })), "{:?}", world.events);
    assert_eq!(stored(&world).len(), 2);
    world.forget("prod1", &router_key());
    world.cloud.set_key_manager(KeyManagerMode::Open);
    world.run(3000 * SECOND);
    assert_eq!(world.left_of("prod1"), [""; 0], "an orphan's");
}

#[test]
fn a_project_that_cannot_be_read_is_no_matter_to_those_of_others() {
    let mut world = World::new(0);
    world.facts.certificates = true;
    world.add_cluster("prod1").projects.push("p2".into());
    world.add_writer();
    world.connect(0, "prod1");
    world.closed_project = Some("p2".to_owned());
    let wish = wish(&world, &[1, 2]);
    world.want("prod1", router_key(), wish);
    world.run(120 * SECOND);
    assert_eq!((stored(&world), served(&mut world)), (names(&[1, 2]), names(&[1, 2])));
    set(&mut world, &[3]);
    world.run(700 * SECOND);
    assert_eq!((stored(&world), served(&mut world)), (names(&[3]), names(&[3])));
    is_sound(&mut world);
    // Of one that goes, there may be something.
    world.change("prod1", &router_key(), |wish| wish.deleting = true);
    world.run(300 * SECOND);
    assert_ne!(world.phase("prod1", &router_key()), Some(Phase::Gone));
    world.closed_project = None;
    world.converge(600 * SECOND);
    assert_eq!(world.left_of("prod1"), [""; 0]);
}

/// What may be there is not forgotten because it cannot be seen for a while.
#[test]
fn a_removal_waits_for_a_key_manager_that_does_not_answer() {
    let mut world = at_rest(&[1, 2]);
    world.cloud.set_key_manager(KeyManagerMode::Broken);
    world.restart(0);
    world.change("prod1", &router_key(), |wish| wish.deleting = true);
    world.run(300 * SECOND);
    assert_eq!((world.balancers().len(), stored(&world).len()), (0, 2));
    assert_eq!(world.reports[&("prod1".to_owned(), router_key())].phase, Phase::Removing);
    world.cloud.set_key_manager(KeyManagerMode::Open);
    world.converge(600 * SECOND);
    assert_eq!(world.left_of("prod1"), [""; 0]);
}

#[test]
fn a_kill_after_each_change_leaves_nothing_behind_and_breaks_no_reference() {
    for nth in 1.. {
        let mut world = world(0, &[1, 2]);
        world.check = Some(is_sound);
        let mut is_killed = false;
        let mut kill = |world: &mut World| {
            if !is_killed && world.sent.len() >= nth {
                is_killed = true;
                world.restart(0);
            }
            let wanted = world.wishes.values().next().unwrap().certificates.clone();
            let is_deleting = world.wishes.values().next().unwrap().deleting;
            world.is_converged()
                && (is_deleting || (stored(world) == names(&wanted) && served(world) == names(&wanted)))
        };
        world.run_until(300 * SECOND, "made", &mut kill);
        set(&mut world, &[3, 2]);
        world.run_until(300 * SECOND, "turned", &mut kill);
        set(&mut world, &[]);
        world.run_until(300 * SECOND, "without TLS", &mut kill);
        set(&mut world, &[3]);
        world.run_until(300 * SECOND, "with TLS again", &mut kill);
        world.change("prod1", &router_key(), |wish| wish.deleting = true);
        world.run_until(300 * SECOND, "gone", &mut kill);
        assert_eq!(world.left_of("prod1"), [""; 0], "after {nth}");
        if !is_killed {
            assert!(nth > 10, "{nth}");
            break;
        }
    }
}

#[test]
fn any_trouble_ends_with_the_certificates_that_are_wanted() {
    worlds("writers and certificates at every instant", 12, |seed| {
        let mut dice = Dice::new(seed + 5);
        let mut world = world(seed, &[1, 2]);
        world.add_writer();
        world.check = Some(is_sound);
        // A deletion that arrives late finds a listener that refers to what another writer has taken for stored.
        world.way_of =
            Some(|change| matches!(change, CloudChange::DeleteSecret { .. }).then_some(crate::world::Way::Arrives));
        world.trouble = 6;
        for _ in 0..80 {
            match dice.below(8) {
                0 => world.restart(0),
                1 => {
                    // Two that want different things at a time break what the other one makes.
                    world.silence(0, "prod1");
                    world.run(2 * SECOND);
                    world.connect(1, "prod1");
                    world.writers.swap(0, 1);
                }
                2 => {
                    let modes =
                        [KeyManagerMode::Open, KeyManagerMode::Open, KeyManagerMode::Broken, KeyManagerMode::Forbidden];
                    world.cloud.set_key_manager(dice.pick(&modes));
                }
                3 => world.is_silent = dice.one_in(2),
                _ => {
                    let certificates: Vec<u8> = (1..=4).filter(|_| dice.one_in(2)).collect();
                    set(&mut world, &certificates);
                }
            }
            let time = dice.pick(&[10 * MS, 300 * MS, 2 * SECOND, 8 * SECOND]);
            world.run(time);
        }
        world.trouble = 0;
        world.is_silent = false;
        world.cloud.set_key_manager(KeyManagerMode::Open);
        world.run(4500 * SECOND);
        world.converge(300 * SECOND);
        let wanted = world.wishes.values().next().unwrap().certificates.clone();
        assert_eq!((stored(&world), served(&mut world)), (names(&wanted), names(&wanted)), "world {seed}");
        world.change("prod1", &router_key(), |wish| wish.deleting = true);
        world.converge(900 * SECOND);
        world.run(3000 * SECOND);
        assert_eq!(world.left_of("prod1"), [""; 0], "world {seed}");
        world.counts()
    });
}
