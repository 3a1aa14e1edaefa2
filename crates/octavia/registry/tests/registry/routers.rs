//! Routers: what is read of their policies and rules, what somebody does to them by hand, and what is reported.

use gimbal_kuryr_model::Phase;
use gimbal_octavia_registry::CloudRead;
use gimbal_octavia_sim::{Answered, Fate, SimRequest};
use serde_json::{Value, json};

use crate::wish::{Wish, key, router_key};
use crate::world::{SECOND, World};

const LB: &str = "/v2/lbaas";
const ROUTES: [(&str, &str, &str); 3] = [("a.test", "/api", "api"), ("a.test", "", "web"), ("b.test", "", "web")];
/// Requests, and the Service that answers them.
const ANSWERED: [(&str, &str, Option<&str>); 5] = [
    ("a.test", "/api/x", Some("api")),
    ("a.test", "/other", Some("web")),
    ("a.test", "/apix", Some("web")),
    ("b.test", "/api", Some("web")),
    ("c.test", "/", None),
];

/// A router that was made and reported, and has been looked at since.
fn at_rest() -> World {
    let mut world = World::usual();
    let wish = Wish { routes: ROUTES.to_vec(), ..Wish::new("r1", &world.subnet) };
    world.want("prod1", router_key(), wish);
    world.converge(120 * SECOND);
    world.status_written("prod1", &router_key());
    world.run(130 * SECOND);
    world.sent.clear();
    world.reads.clear();
    world
}

/// Returns the Service that answers each of the requests.
fn answered(world: &mut World) -> Vec<Option<String>> {
    let [balancer] = &world.balancers_of("r1")[..] else { panic!("not one") };
    let pools = world.rows("/v2/lbaas/pools", "pools");
    let service = |id: &str| {
        let name = pools.iter().find(|pool| pool["id"] == id)?["name"].as_str()?.strip_prefix("shop_")?;
        Some(name.to_owned())
    };
    let ask = |(host, path, _): &(&str, &str, _)| match world.cloud.ask(balancer, 80, Some(host), path)? {
        Answered::Pool { id, targets } if !targets.is_empty() => service(&id),
        Answered::Pool { .. } | Answered::Redirect { .. } | Answered::Status(_) => None,
    };
    ANSWERED.iter().map(ask).collect()
}

fn expected() -> Vec<Option<String>> {
    ANSWERED.iter().map(|(_, _, service)| service.map(str::to_owned)).collect()
}

fn is_of_rules(read: &CloudRead) -> bool {
    read.path.ends_with("/rules")
}

fn count(world: &World, is_it: impl Fn(&CloudRead) -> bool) -> usize {
    world.reads.iter().filter(|(_, read)| is_it(read)).count()
}

#[test]
fn a_router_is_made_and_its_policies_and_pools_are_reported() {
    let mut world = at_rest();
    assert_eq!(answered(&mut world), expected());
    let report = &world.reports[&("prod1".to_owned(), router_key())];
    assert_eq!(report.phase, Phase::Ready);
    let objects = report.objects.clone();
    let policies: Vec<_> = objects.policies.iter().map(|one| (one.position, &*one.name)).collect();
    let names: Vec<&str> = policies.iter().map(|(_, name)| *name).collect();
    assert_eq!(policies.iter().map(|(position, _)| *position).collect::<Vec<_>>(), [1, 2, 3], "{names:?}");
    assert!(names.iter().all(|name| name.contains("shop/front")), "{names:?}");
    let [listener] = &objects.listeners[..] else { panic!("{:?}", objects.listeners) };
    assert!(objects.policies.iter().all(|one| one.listener == listener.id));
    let mut pools: Vec<_> = objects.pools.iter().map(|one| (&*one.name, &*one.listener)).collect();
    pools.sort_unstable();
    assert_eq!(pools, [("shop_api", ""), ("shop_web", "")]);
    assert_eq!((objects.members.len(), objects.member_count), (6, 6));
}

/// A number that holds another one is another generation, also where a cluster's store went back.
#[test]
fn the_generation_that_is_served_is_reported_whatever_its_number_holds() {
    let mut world = at_rest();
    for (generation, routes) in [(12, 1), (123, 3), (1234, 2), (12, 3), (3, 1)] {
        world.change("prod1", &router_key(), |wish| {
            (wish.generation, wish.routes) = (generation - 1, ROUTES[..routes].to_vec());
        });
        world.converge(60 * SECOND);
        let objects = &world.reports[&("prod1".to_owned(), router_key())].objects;
        let made = objects.routes.as_ref().unwrap().generation;
        assert_eq!((made, objects.policies.len()), (generation, routes));
    }
}

/// Lists are made where there are routers, and show that nothing has changed.
#[test]
fn policies_are_listed_each_minute_and_nothing_else_is_read() {
    let mut world = at_rest();
    world.run(600 * SECOND);
    let lists = count(&world, |read| read.path == "l7policies");
    assert!((9..=11).contains(&lists), "{lists} lists");
    assert_eq!(count(&world, is_of_rules), 0);
    assert_eq!(world.sent.len(), 0, "{:#?}", world.last_sent());
    let mut plain = World::at_rest(2);
    plain.reads.clear();
    plain.run(600 * SECOND);
    assert_eq!(count(&plain, |read| read.path.starts_with("l7policies")), 0);
}

/// Answers have shown all of it but what other pools have, so that one look follows.
#[test]
fn after_a_change_of_ours_rules_are_read_once() {
    let mut world = at_rest();
    world.change("prod1", &router_key(), |wish| wish.routes.push(("c.test", "", "web")));
    world.converge(60 * SECOND);
    assert_ne!(world.sent.len(), 0);
    world.reads.clear();
    world.run(600 * SECOND);
    assert_eq!(count(&world, is_of_rules), 4, "one for each policy");
    assert_eq!(answered(&mut world)[4], Some("web".to_owned()));
}

/// Lists show what the answers have shown.
#[test]
fn after_members_of_the_only_pool_have_changed_nothing_is_read_again() {
    let mut world = World::usual();
    let wish = Wish { routes: ROUTES[1..].to_vec(), ..Wish::new("r1", &world.subnet) };
    world.want("prod1", router_key(), wish);
    world.converge(120 * SECOND);
    world.run(130 * SECOND);
    world.change("prod1", &router_key(), |wish| wish.members.push((4, 80)));
    world.converge(60 * SECOND);
    world.reads.clear();
    world.run(600 * SECOND);
    assert_eq!(count(&world, is_of_rules), 0);
}

#[test]
fn a_route_that_goes_takes_its_policy_and_the_pool_that_nothing_leads_to() {
    let mut world = at_rest();
    world.change("prod1", &router_key(), |wish| wish.routes = ROUTES[1..].to_vec());
    world.converge(120 * SECOND);
    world.run(30 * SECOND);
    assert_eq!(answered(&mut world)[0], Some("web".to_owned()));
    let objects = &world.reports[&("prod1".to_owned(), router_key())].objects;
    assert_eq!((objects.policies.len(), objects.pools.len(), objects.member_count), (2, 1, 3));
    world.change("prod1", &router_key(), |wish| wish.deleting = true);
    world.converge(120 * SECOND);
    assert_eq!(world.left_of("prod1"), Vec::<String>::new());
}

/// A policy, and its first rule.
struct Found {
    listener: String,
    policy: String,
    rule: String,
}

type ByHand = fn(&Found) -> SimRequest;

const BY_HAND: [(&str, ByHand); 7] = [
    ("policy deleted", |found| SimRequest::delete(&format!("{LB}/l7policies/{}", found.policy))),
    ("rule deleted", |found| SimRequest::delete(&format!("{LB}/l7policies/{}/rules/{}", found.policy, found.rule))),
    ("policy down", |found| {
        let body = json!({"l7policy": {"admin_state_up": false}});
        SimRequest::put(&format!("{LB}/l7policies/{}", found.policy), body)
    }),
    ("policy last", |found| {
        SimRequest::put(&format!("{LB}/l7policies/{}", found.policy), json!({"l7policy": {"position": 3}}))
    }),
    ("rule changed", |found| {
        let body = json!({"rule": {"value": "^mine$"}});
        SimRequest::put(&format!("{LB}/l7policies/{}/rules/{}", found.policy, found.rule), body)
    }),
    ("policy added", |found| {
        let policy = json!({"listener_id": found.listener, "action": "REJECT", "position": 1});
        SimRequest::post(&format!("{LB}/l7policies"), json!({"l7policy": policy}))
    }),
    ("rule added", |found| {
        let rule = json!({"type": "PATH", "compare_type": "STARTS_WITH", "value": "/mine"});
        SimRequest::post(&format!("{LB}/l7policies/{}/rules", found.policy), json!({"rule": rule}))
    }),
];

/// Returns every policy with its rules, without what differs when one is made again.
fn view(world: &mut World) -> Vec<String> {
    let mut policies = world.rows("/v2/lbaas/l7policies", "l7policies");
    policies.sort_by_key(|row| row["position"].as_u64());
    let show = |row: &Value| {
        let path = format!("{LB}/l7policies/{}/rules", row["id"].as_str().unwrap());
        let rules = world.rows(&path, "rules");
        let mut rules: Vec<String> = rules.iter().map(|rule| format!("{}{}", rule["type"], rule["value"])).collect();
        rules.sort();
        format!("{} {} {} {}", row["action"], row["admin_state_up"], row["name"], rules.join(" "))
    };
    policies.iter().map(show).collect()
}

#[test]
fn what_is_done_to_policies_and_rules_by_hand_is_undone() {
    for (what, by_hand) in BY_HAND {
        println!("{what}");
        let mut world = at_rest();
        let before = view(&mut world);
        let policies = world.rows("/v2/lbaas/l7policies", "l7policies");
        let policy = policies.iter().find(|row| row["position"] == 1).unwrap();
        let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
        let (policy, listener) = (text(policy, "id"), text(policy, "listener_id"));
        let rules = world.rows(&format!("{LB}/l7policies/{policy}/rules"), "rules");
        let found = Found { listener, policy, rule: text(&rules[0], "id") };
        world.by_hand(&by_hand(&found));
        world.cloud.advance(25 * SECOND);
        assert_ne!(view(&mut world), before, "{what}");
        // What was added goes at a second look.
        world.run(300 * SECOND);
        assert_eq!(view(&mut world), before, "{what}");
        assert_eq!(answered(&mut world), expected(), "{what}");
        let now = world.now();
        let missing = world.writers[0].registry.counts(now).drift_missing;
        assert_eq!(missing, u64::from(what.ends_with("deleted")), "{what}");
        world.sent.clear();
        world.run(700 * SECOND);
        assert_eq!(world.sent.len(), 0, "{what}: {:#?}", world.last_sent());
    }
}

/// Without its rules a policy looks as if it had none, and without its policies a listener.
#[test]
fn a_read_that_fails_proves_nothing() {
    let failing: [fn(&CloudRead) -> bool; 2] = [is_of_rules, |read| read.path == "l7policies"];
    for fails in failing {
        let mut world = at_rest();
        world.closed_lists = Some(fails);
        world.restart(0);
        world.run(120 * SECOND);
        assert_eq!(world.sent.len(), 0, "{:#?}", world.last_sent());
        assert_eq!(answered(&mut world), expected());
        world.closed_lists = None;
        world.run(180 * SECOND);
        assert_eq!(world.sent.len(), 0, "{:#?}", world.last_sent());
        world.converge(60 * SECOND);
    }
}

#[test]
fn members_of_a_router_that_vanish_everywhere_are_held() {
    let mut world = World::usual();
    let members = (1..=50).map(|host| (host, 80)).collect();
    let wish = Wish { routes: ROUTES.to_vec(), members, ..Wish::new("r1", &world.subnet) };
    world.want("prod1", router_key(), wish);
    world.converge(120 * SECOND);
    world.run(70 * SECOND);
    world.change("prod1", &router_key(), |wish| wish.members = vec![(1, 80), (99, 80)]);
    world.run(40 * SECOND);
    assert_eq!(world.phase("prod1", &router_key()), Some(Phase::Held));
    let objects = &world.reports[&("prod1".to_owned(), router_key())].objects;
    assert_eq!(objects.member_count, 2 * 51, "none has gone, and each pool has a new one");
    let now = world.now();
    let held = world.writers[0].registry.cluster("prod1", now).unwrap().held_members.unwrap();
    assert!(world.writers[0].registry.approve("prod1", &held.id, now));
    world.converge(60 * SECOND);
    assert_eq!(world.reports[&("prod1".to_owned(), router_key())].objects.member_count, 4);
}

/// The cluster's limit of load balancers has room for the one that takes another's place.
#[test]
fn many_routes_at_once_are_another_router_in_the_place_of_the_former() {
    let mut world = World::usual();
    let wish = Wish { routes: ROUTES.to_vec(), floating: true, ..Wish::new("r1", &world.subnet) };
    world.want("prod1", router_key(), wish);
    world.converge(120 * SECOND);
    world.status_written("prod1", &router_key());
    world.run(130 * SECOND);
    let [former] = &world.balancers_of("r1")[..] else { panic!("not one") };
    let former = former.clone();
    world.sent.clear();
    world.change("prod1", &router_key(), |wish| {
        let host = |number: usize| -> &'static str { format!("h{number}.test").leak() };
        wish.routes.extend((0..30).map(|number| (host(number), "", "web")));
    });
    world.converge(120 * SECOND);
    assert_ne!(world.balancers_of("r1"), [former]);
    assert_eq!(answered(&mut world), expected());
    assert!(world.sent.len() < 8, "{:#?}", world.last_sent());
    let report = &world.reports[&("prod1".to_owned(), router_key())];
    assert_eq!((report.phase, report.objects.policies.len()), (Phase::Ready, 33));
}

/// Amphorae take minutes to boot, and endpoints change all the while.
#[test]
fn members_follow_however_long_another_router_takes() {
    let mut world = World::usual();
    let wish = Wish { routes: ROUTES.to_vec(), floating: true, ..Wish::new("r1", &world.subnet) };
    world.want("prod1", router_key(), wish);
    world.converge(120 * SECOND);
    world.status_written("prod1", &router_key());
    world.run(130 * SECOND);
    let [former] = &world.balancers_of("r1")[..] else { panic!("not one") };
    let former = former.clone();
    world.cloud.expect(Fate::DoneAfter(300 * SECOND));
    world.change("prod1", &router_key(), |wish| {
        let host = |number: usize| -> &'static str { format!("h{number}.test").leak() };
        wish.routes.extend((0..30).map(|number| (host(number), "", "web")));
    });
    world.run(5 * SECOND);
    assert_eq!(world.balancers_of("r1").len(), 2);
    for host in [4, 5, 6] {
        world.change("prod1", &router_key(), |wish| wish.members.push((host, 80)));
        world.run(10 * SECOND);
        let Some(Answered::Pool { targets, .. }) = world.cloud.ask(&former, 80, Some("b.test"), "/") else { panic!() };
        let address = format!("10.1.0.{host}");
        assert!(targets.iter().any(|one| one.address == address), "{targets:?}");
    }
    world.converge(600 * SECOND);
    assert_eq!(answered(&mut world), expected());
}

/// Answers show parts in the order in which they are made, and rows in that of their IDs, which means nothing.
#[test]
fn nothing_is_reported_again_for_the_order_in_which_it_is_shown() {
    let mut world = World::new(0);
    world.facts.certificates = true;
    world.cloud.shuffle_ids();
    world.cloud.provider_mut().populated = false;
    world.add_cluster("prod1");
    world.add_writer();
    world.connect(0, "prod1");
    let ports = vec![80, 443];
    let router = Wish { ports, routes: ROUTES.to_vec(), certificates: vec![1, 2], ..Wish::new("r1", &world.subnet) };
    world.want("prod1", router_key(), router);
    let ports: Vec<u16> = (80..86).collect();
    let members = ports.iter().flat_map(|port| [(3, *port), (1, *port), (2, *port)]).collect();
    let web = key("shop", "web");
    world.want("prod1", web.clone(), Wish { ports, members, ..Wish::new("u1", &world.subnet) });
    world.converge(300 * SECOND);
    [router_key(), web].iter().for_each(|key| world.status_written("prod1", key));
    world.run(20 * SECOND);
    let (reports, count) = (world.reports.clone(), world.report_count);
    world.run(3700 * SECOND);
    assert_eq!(world.report_count, count);
    world.restart(0);
    world.run(130 * SECOND);
    assert_eq!((world.report_count, world.reports == reports), (count + 2, true), "{:#?}", world.reports);
}
