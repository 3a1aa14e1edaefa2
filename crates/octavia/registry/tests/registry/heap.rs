//! Memory of load balancers that nothing happens to.

use allocation_counter::measure;

use crate::wish::{Wish, key};
use crate::world::{SECOND, World};

const BALANCERS: usize = 200;

/// Returns the bytes that an idle load balancer with this many members takes in a registry, and those that its entry takes.
fn each(members: u8) -> (usize, usize) {
    let mut world = World::usual();
    for nth in 0..BALANCERS {
        let mut wish = Wish::new(&format!("0d7c7f4a-5b0e-4a8e-9d41-3f1c2b{nth:06}"), &world.subnet);
        wish.members = (1..=members).map(|host| (host, 80)).collect();
        world.want("prod1", key("shop", &format!("s{nth}")), wish);
    }
    world.converge(300 * SECOND);
    let keys: Vec<_> = world.wishes.keys().cloned().collect();
    keys.iter().for_each(|(cluster, key)| world.status_written(cluster, key));
    world.run(130 * SECOND);
    let wanted: usize = world.wishes.values().map(|wish| wish.entry().memory()).sum();
    let writer = world.writers.remove(0);
    let freed = measure(|| drop(writer));
    (usize::try_from(-freed.bytes_current).unwrap() / BALANCERS, wanted / BALANCERS)
}

#[test]
fn an_idle_load_balancer_costs_little_beside_what_is_wanted() {
    for (members, most) in [(3, 5_100), (20, 7_500)] {
        let (each, wanted) = each(members);
        println!("an idle load balancer with {members} members: {each} bytes, {wanted} of them for what is wanted");
        assert!(each < most, "{members} members: {each}");
    }
}
