//! Memory of load balancers that nothing happens to.

use allocation_counter::measure;
use gimbal_octavia_registry::ListedRow;

use crate::wish::{Wish, key};
use crate::world::{SECOND, World};

const BALANCERS: usize = 200;

/// Returns the bytes that an idle load balancer with this many members takes in a registry, and those that its entry takes.
fn each(members: u8, has_own_port: bool) -> (usize, usize) {
    let mut world = World::usual();
    for nth in 0..BALANCERS {
        let mut wish = Wish::new(&format!("0d7c7f4a-5b0e-4a8e-9d41-3f1c2b{nth:06}"), &world.subnet);
        wish.members = (1..=members).map(|host| (host, 80)).collect();
        wish.from_outside = has_own_port;
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
    for (members, has_own_port, most) in [(3, false, 5_200), (20, false, 7_700), (20, true, 8_000)] {
        let (each, wanted) = each(members, has_own_port);
        println!("an idle load balancer with {members} members: {each} bytes, {wanted} of them for what is wanted");
        assert!(each < most, "{members} members: {each}");
    }
}

/// All that a cluster has is in memory at once while its lists are compared.
#[test]
fn a_row_of_a_list_takes_little_until_it_is_looked_at() {
    let row = World::at_rest(1).balancers().remove(0);
    // What is there once.
    let again = ListedRow::from(row.clone());
    assert_eq!(*again.get(), row);
    let (mut listed, mut whole) = (None, None);
    let packed = measure(|| listed = Some(ListedRow::from(row.clone()))).bytes_current;
    let plain = measure(|| whole = Some(row.clone())).bytes_current;
    println!("a row of a list: {packed} bytes, {plain} as it is read");
    assert!(packed * 5 < plain && listed.is_some() && whole.is_some(), "{packed} of {plain}");
}
