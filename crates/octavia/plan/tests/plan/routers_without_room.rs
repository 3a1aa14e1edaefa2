//! Routers of which a part is refused, by a quota or because it is invalid: the rest is served.

use gimbal_octavia_plan::{BalancerStep, Block, CloudChange};
use gimbal_octavia_sim::ProjectQuota;

use crate::executor::World;
use crate::router_wish::{RouterWish, WantedRoute, answered, blocked, router};

const FOUR: [WantedRoute; 4] =
    [("a.test", "/a", "one"), ("a.test", "", "two"), ("b.test", "", "three"), ("c.other", "", "four")];

fn pools(world: &mut World, pools: Option<u64>) {
    world.cloud.set_quota("p1", ProjectQuota { pools, ..ProjectQuota::default() });
}

/// Returns how many of the requests go where they are to go.
fn served(world: &mut World, wish: &RouterWish) -> usize {
    let wanted = wish.answers();
    answered(world).iter().filter(|(request, led)| wanted[*request] == **led && *led != "503").count()
}

#[test]
fn one_route_too_many_leaves_the_others() {
    let (wish, mut world) = router(&FOUR, |_| {});
    pools(&mut world, Some(3));
    assert!(matches!(world.run(), BalancerStep::Blocked(Block::Quota(_))));
    assert_eq!(blocked(&world).len(), 1, "{:#?}", world.sent);
    assert!(served(&mut world, &wish) >= 10, "{:?}", answered(&mut world));
    let tried = world.sent.iter().filter(|change| matches!(change, CloudChange::CreateBalancer { .. })).count();
    assert_eq!(tried, 2, "with everything, and alone");
    pools(&mut world, None);
    assert_eq!(world.run_on(), BalancerStep::Done);
    assert_eq!(answered(&mut world), wish.answers());
}
