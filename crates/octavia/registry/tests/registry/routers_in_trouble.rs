//! What is said of the routes of a router about which nothing can be done, or not everything, and of load balancers that do not serve.

use std::time::Duration;

use gimbal_kuryr_model::{LoadBalancerReport, Phase, RouteState};
use gimbal_octavia_plan::{CloudChange, RepairBudget};
use gimbal_octavia_sim::Fate;
use serde_json::Value;

use crate::wish::{Wish, key, router_key};
use crate::world::{SECOND, Way, World};

const ROUTES: [(&str, &str, &str); 3] = [("a.test", "/api", "api"), ("a.test", "", "web"), ("b.test", "", "web")];

/// A router that was made and reported.
fn made(change: impl FnOnce(&mut World)) -> World {
    let mut world = World::new(0);
    change(&mut world);
    world.add_cluster("prod1");
    world.add_writer();
    world.connect(0, "prod1");
    let wish = Wish { routes: ROUTES.to_vec(), ..Wish::new("r1", &world.subnet) };
    world.want("prod1", router_key(), wish);
    world.converge(120 * SECOND);
    world.status_written("prod1", &router_key());
    world.run(10 * SECOND);
    world
}

/// Whether the Ingress may go whose routes are not wanted any more.
fn has_left(world: &World, ingress: &str) -> bool {
    let key = ("prod1".to_owned(), router_key());
    let routes = world.reports[&key].objects.routes.as_ref();
    routes.is_some_and(|routes| routes.have_left(ingress, world.wishes[&key].generation))
}

/// What is reported is about the newest generation, and the router is degraded: that says nothing of what was done.
#[track_caller]
fn assert_nothing_was_done(world: &World) {
    let key = ("prod1".to_owned(), router_key());
    let report = &world.reports[&key];
    assert_eq!((report.phase, report.generation), (Phase::Degraded, world.wishes[&key].generation));
    assert_eq!(report.objects.policies.len(), 3);
    assert!(!has_left(world, "shop/front-a"), "{:?}", report.objects.routes);
}

#[test]
fn a_route_is_there_while_its_router_is_pending_for_ever() {
    let mut world = made(|_| {});
    assert!(has_left(&world, "shop/another"), "it has no route there");
    world.cloud.expect(Fate::Stalls);
    world.change("prod1", &router_key(), |wish| wish.members.push((4, 80)));
    world.run(1_000 * SECOND);
    world.change("prod1", &router_key(), |wish| wish.routes = ROUTES[2..].to_vec());
    world.run(120 * SECOND);
    assert_nothing_was_done(&world);
}

#[test]
fn a_route_is_there_while_its_router_is_in_error_and_not_repaired() {
    let mut world = made(|world| {
        world.settings.repair = RepairBudget { repairs: 0, within: Duration::from_secs(3600) };
    });
    world.cloud.expect(Fate::Breaks);
    world.change("prod1", &router_key(), |wish| wish.members.push((4, 80)));
    world.run(120 * SECOND);
    world.change("prod1", &router_key(), |wish| wish.routes = ROUTES[2..].to_vec());
    world.run(120 * SECOND);
    assert_nothing_was_done(&world);
    assert!(has_left(&world, "shop/another"), "it has no route there");
}

/// The others come and go.
#[test]
fn only_the_ingress_of_a_policy_that_is_refused_is_not_served() {
    let mut world = made(|_| {});
    world.way_of = Some(|change| {
        let CloudChange::CreatePolicy { body } = change else { return None };
        body["name"].as_str().unwrap_or_default().contains("front-c").then_some(Way::Refused)
    });
    world.change("prod1", &router_key(), |wish| {
        wish.routes = vec![("b.test", "", "web"), ("c.test", "", "web"), ("d.test", "", "web")];
    });
    world.run(60 * SECOND);
    let key = ("prod1".to_owned(), router_key());
    let (report, generation) = (&world.reports[&key], world.wishes[&key].generation);
    assert_eq!((report.phase, report.generation), (Phase::Blocked, generation));
    let routes = report.objects.routes.as_ref().unwrap();
    let serve = ["b", "c", "d"].map(|host| routes.serve(&format!("shop/front-{host}"), generation));
    assert_eq!((serve, has_left(&world, "shop/front-a")), ([true, false, true], true), "{routes:?}");
    let why = routes.differences[0].why.as_ref().unwrap();
    assert_eq!((&*why.kind, &*why.reason, &*why.message), ("Degraded", "Invalid", "it is not valid"));
    // Where all of that ends, so does what is said of it.
    world.way_of = None;
    world.change("prod1", &router_key(), |wish| {
        wish.routes.remove(1);
    });
    world.converge(60 * SECOND);
    assert_eq!(world.reports[&key].objects.routes.as_ref().unwrap().differences, []);
}

/// Nothing is asked of Octavia for it, so nothing is refused.
#[test]
fn a_route_that_no_policy_can_express_is_said_by_name() {
    let mut world = made(|_| {});
    world.change("prod1", &router_key(), |wish| wish.routes.push(("c.test", "/\"", "web")));
    world.run(60 * SECOND);
    let report = &world.reports[&("prod1".to_owned(), router_key())];
    assert_eq!(report.phase, Phase::Ready);
    let [refused] = &report.objects.routes.as_ref().unwrap().differences[..] else { panic!("{report:#?}") };
    let why = refused.why.as_ref().unwrap();
    assert_eq!((&*refused.route, refused.state, &*why.kind), ("shop/front-c", RouteState::Missing, "Unsupported"));
    assert_eq!(&*why.message, r#"its path has a character that no rule can hold: '"'"#);
}

#[test]
fn an_ingress_has_left_when_its_policies_are_gone() {
    let mut world = made(|_| {});
    world.change("prod1", &router_key(), |wish| wish.routes = ROUTES[2..].to_vec());
    assert!(!has_left(&world, "shop/front-a"));
    world.converge(60 * SECOND);
    assert!(has_left(&world, "shop/front-a"));
}

fn report(world: &World) -> &LoadBalancerReport {
    &world.reports[&("prod1".to_owned(), router_key())]
}

/// Phase, and the reasons of the conditions.
fn said(world: &World) -> (Phase, Vec<&str>) {
    let report = report(world);
    (report.phase, report.conditions.iter().map(|one| &*one.reason).collect())
}

fn serves() -> (Phase, Vec<&'static str>) {
    (Phase::Ready, Vec::new())
}

fn does_not_serve() -> (Phase, Vec<&'static str>) {
    (Phase::Degraded, vec!["NotServing"])
}

/// Octavia's health manager says this of the router's load balancer.
fn says(world: &mut World, status: &'static str) {
    let [balancer] = &world.balancers_of("r1")[..] else { panic!("not one") };
    world.cloud.report_operating(balancer, status);
}

/// Returns the reads that are not of lists of everything.
fn looks(world: &World) -> Vec<&str> {
    let lists = ["loadbalancers", "listeners", "pools", "l7policies", "floatingips", "ports"];
    let paths = world.reads.iter().map(|(_, read)| &*read.path);
    paths.filter(|path| !lists.contains(path)).collect()
}

/// At once, and until it is repaired: what takes only seconds is an interruption, too.
#[test]
fn a_router_in_error_is_degraded_until_it_is_repaired() {
    let mut world = made(|_| {});
    world.cloud.expect(Fate::Breaks);
    world.change("prod1", &router_key(), |wish| wish.members.push((4, 80)));
    world.run_until(30 * SECOND, "it is said", |world| said(world) == does_not_serve());
    assert_eq!(&*report(&world).conditions[0].kind, "Degraded");
    let mut is_well = false;
    world.run_until(120 * SECOND, "everything is as it is wanted", |world| {
        is_well |= world.balancers().iter().any(|row| row["provisioning_status"] == "ACTIVE");
        assert!(is_well || said(world) == does_not_serve(), "{:?}", said(world));
        world.is_converged()
    });
    assert_eq!(said(&world), serves());
}

#[test]
fn a_router_whose_repairs_are_spent_says_so_and_nothing_else() {
    let mut world = made(|world| {
        world.settings.repair = RepairBudget { repairs: 0, within: Duration::from_secs(3600) };
    });
    world.cloud.expect(Fate::Breaks);
    world.change("prod1", &router_key(), |wish| wish.members.push((4, 80)));
    world.run(60 * SECOND);
    assert_eq!(said(&world), (Phase::Degraded, vec!["RepairBudget"]));
}

/// Nothing else of the load balancer changes, and nothing is read for it but the usual lists.
#[test]
fn what_octavia_says_of_a_router_that_is_active_is_reported_when_it_changes() {
    let mut world = made(|_| {});
    world.run(130 * SECOND);
    let (reports, changes) = (world.report_count, world.sent.len());
    for round in 0..3 {
        world.reads.clear();
        says(&mut world, "ERROR");
        world.run(70 * SECOND);
        assert_eq!(said(&world), does_not_serve(), "{round}");
        world.run(130 * SECOND);
        says(&mut world, "ONLINE");
        world.run(70 * SECOND);
        assert_eq!(said(&world), serves(), "{round}");
        assert_eq!(looks(&world), [""; 0]);
    }
    assert_eq!((world.report_count - reports, world.sent.len()), (6, changes), "one report for each change");
}

/// A new one is OFFLINE until its first heartbeat.
#[test]
fn a_router_is_offline_for_a_while_before_that_is_a_fault() {
    let mut world = made(|world| world.settings.drift_interval = 10 * SECOND);
    let mut after = |status, seconds: u32| {
        says(&mut world, status);
        world.run(seconds * SECOND);
        said(&world).0
    };
    assert_eq!(after("OFFLINE", 50), Phase::Ready);
    assert_eq!(after("ONLINE", 15), Phase::Ready);
    assert_eq!(after("OFFLINE", 50), Phase::Ready, "it was heard of in between");
    assert_eq!(after("OFFLINE", 30), Phase::Degraded);
    assert_eq!(after("DEGRADED", 15), Phase::Ready, "some members are down, and it serves");
}

#[test]
fn a_router_without_members_may_be_offline() {
    let mut world = made(|_| {});
    world.change("prod1", &router_key(), |wish| wish.members.clear());
    world.converge(60 * SECOND);
    says(&mut world, "OFFLINE");
    world.run(300 * SECOND);
    assert_eq!(said(&world), serves());
}

/// Octavia says ERROR of a load balancer when all members of one pool are down.
#[test]
fn one_service_that_is_down_is_not_the_router() {
    let mut world = made(|_| {});
    world.run(70 * SECOND);
    let pools: Vec<String> = ids(world.rows("/v2/lbaas/pools", "pools"));
    assert_eq!(pools.len(), 2);
    world.cloud.report_operating(&pools[0], "ERROR");
    says(&mut world, "ERROR");
    world.run(130 * SECOND);
    assert_eq!(said(&world), serves());
    world.cloud.report_operating(&pools[1], "ERROR");
    world.run(70 * SECOND);
    assert_eq!(said(&world), does_not_serve());
}

#[test]
fn what_octavia_says_of_a_services_load_balancer_is_reported_when_it_changes() {
    let mut world = World::at_rest(1);
    let balancer = world.balancers_of("prod1-shop-0").remove(0);
    let web = key("shop", "s0");
    let (reports, changes) = (world.report_count, world.sent.len());
    for (status, phase, conditions) in
        [("ERROR", Phase::Degraded, &["Degraded/NotServing"][..]), ("ONLINE", Phase::Ready, &[])]
    {
        world.cloud.report_operating(&balancer, status);
        world.run(300 * SECOND);
        assert_eq!(world.phase("prod1", &web), Some(phase));
        assert_eq!(world.conditions("prod1", &web), conditions);
    }
    assert_eq!((world.report_count - reports, world.sent.len()), (2, changes), "one report for each change");
}

fn ids(rows: Vec<Value>) -> Vec<String> {
    rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}
