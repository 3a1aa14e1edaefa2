//! Policies that another Ingress takes over, and are to go before they have its name.

use std::time::Duration;

use gimbal_kuryr_model::RouteState;
use gimbal_octavia_plan::{BalancerStep, ChangeOutcome, CloudChange, ServiceRefusal};

use crate::executor::{Way, World};
use crate::router_wish::{RouterWish, WantedRoute, answered, answered_at, router};

const ROUTES: [WantedRoute; 3] = [("a.test", "", "one"), ("b.test", "", "two"), ("c.other", "", "three")];

/// Wants something else.
fn wants(world: &mut World, wish: &mut RouterWish, change: impl FnOnce(&mut RouterWish)) {
    change(wish);
    (wish.base.generation, wish.base.known) = (wish.base.generation + 1, true);
    world.actor.want(wish.entry());
}

/// Returns the names of the routes that are there and not wanted.
fn left(world: &World) -> Vec<String> {
    let gaps = world.actor.route_gaps(&world.facts, world.cloud.now()).unwrap();
    gaps.into_iter().filter(|gap| gap.state == RouteState::Left).map(|gap| gap.name.to_string()).collect()
}

/// Both claim the same host, path and Service: the older one goes, and then the other one.
#[test]
fn a_route_is_left_for_whoever_has_taken_it_over() {
    let (mut wish, mut world) = router(&ROUTES[..1], |wish| wish.owner = Some("team/a"));
    assert_eq!(world.run(), BalancerStep::Done);
    wants(&mut world, &mut wish, |wish| wish.owner = Some("team/b"));
    assert_eq!(left(&world), [""; 0]);
    wants(&mut world, &mut wish, |wish| wish.routes.clear());
    assert_eq!(left(&world), ["team/a", "team/b"]);
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!(left(&world), [""; 0]);
    // Once it has been renamed it is the other one's alone.
    wants(&mut world, &mut wish, |wish| (wish.owner, wish.routes) = (Some("team/a"), ROUTES[..1].to_vec()));
    assert_eq!(world.run(), BalancerStep::Done);
    wants(&mut world, &mut wish, |wish| wish.owner = Some("team/b"));
    assert_eq!(world.run(), BalancerStep::Done);
    wants(&mut world, &mut wish, |wish| wish.routes.clear());
    assert_eq!(left(&world), ["team/b"]);
}

/// After a restart nothing but the name says whose a policy is.
#[test]
fn a_policy_has_its_new_name_before_others_go() {
    let (mut wish, mut world) = router(&ROUTES, |wish| wish.owner = Some("team/a"));
    assert_eq!(world.run(), BalancerStep::Done);
    world.sent.clear();
    wants(&mut world, &mut wish, |wish| (wish.owner, wish.routes) = (Some("team/b"), ROUTES[..1].to_vec()));
    assert_eq!(world.run(), BalancerStep::Done);
    let is_renamed =
        |change: &CloudChange| matches!(change, CloudChange::UpdatePolicy { fields, .. } if fields["name"] == "team/b");
    let goes = |change: &CloudChange| matches!(change, CloudChange::DeletePolicy { .. });
    let (renamed, gone) = (world.sent.iter().position(is_renamed), world.sent.iter().position(goes));
    assert!(renamed.is_some() && renamed < gone, "{:#?}", world.sent);
    assert_eq!(world.sent.iter().filter(|change| goes(change)).count(), 2);
}

/// The policy over HTTPS has its new name, and the redirect that sends clients there has not.
#[test]
fn a_redirect_leads_to_what_has_another_name_already() {
    let (mut wish, mut world) = router(&ROUTES[..1], |wish| {
        (wish.owner, wish.redirects, wish.certificates) = (Some("team/a"), true, vec![("team/tls", 1)]);
    });
    assert_eq!(world.run(), BalancerStep::Done);
    let before = answered_at(&mut world, 443);
    wants(&mut world, &mut wish, |wish| wish.owner = Some("team/b"));
    let renames = world.run_to_change();
    assert!(matches!(&renames, CloudChange::UpdatePolicy { .. }), "{renames:?}");
    world.take(&BalancerStep::Change(renames), Way::Arrives);
    wants(&mut world, &mut wish, |wish| wish.routes.clear());
    world.restart();
    let request = ("a.test", "/");
    while world.step() != BalancerStep::Done {
        let step = world.step();
        world.take(&step, Way::Arrives);
        if answered(&mut world)[&request].starts_with("https://") {
            assert_eq!(answered_at(&mut world, 443)[&request], before[&request], "after {step:?}");
        }
    }
    assert_eq!(answered(&mut world), wish.answers());
}

/// What takes its place has another path as well, and cannot be made for long.
#[test]
fn a_policy_under_the_name_of_the_one_before_serves_until_its_successor_does() {
    for refusal in [ServiceRefusal::ProviderFailed, ServiceRefusal::Quota("L7Policy".to_owned())] {
        let (mut wish, mut world) = router(&[("a.test", "/a", "one")], |wish| wish.owner = Some("team/a"));
        assert_eq!(world.run(), BalancerStep::Done);
        let before = answered(&mut world);
        wants(&mut world, &mut wish, |wish| wish.owner = Some("team/b"));
        wants(&mut world, &mut wish, |wish| wish.routes.push(("a.test", "/c", "one")));
        world.refuses = Some(match refusal {
            ServiceRefusal::Quota(_) => |change| refused(change, ServiceRefusal::Quota("L7Policy".to_owned())),
            _ => |change| refused(change, ServiceRefusal::ProviderFailed),
        });
        world.run_for(Duration::from_secs(300));
        let request = ("a.test", "/a");
        assert_eq!(answered(&mut world)[&request], before[&request], "{refusal:?}");
        world.refuses = None;
        world.run_for(Duration::from_secs(1200));
        assert_eq!((world.step(), answered(&mut world)), (BalancerStep::Done, wish.answers()), "{refusal:?}");
        assert_eq!(left(&world), [""; 0]);
    }
}

fn refused(change: &CloudChange, refusal: ServiceRefusal) -> Option<ChangeOutcome> {
    matches!(change, CloudChange::CreatePolicy { .. }).then_some(ChangeOutcome::Refused(refusal))
}
