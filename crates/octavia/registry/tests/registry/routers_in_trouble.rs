//! What is said of the routes of a router about which nothing can be done, or not everything.

use std::time::Duration;

use gimbal_kuryr_model::{Phase, RouteState};
use gimbal_octavia_plan::{CloudChange, RepairBudget};
use gimbal_octavia_sim::Fate;

use crate::wish::{Wish, router_key};
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
