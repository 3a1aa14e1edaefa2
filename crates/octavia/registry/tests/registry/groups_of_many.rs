//! Load balancers that very many owners share.

use gimbal_kuryr_model::Phase;
use gimbal_octavia_plan::CloudChange;

use crate::wish::{Wish, key};
use crate::world::{SECOND, World};

/// Far more than share one usually.
const MANY: u16 = 250;
/// The longest body that Octavia takes.
const LARGEST: usize = 114_688;

/// A world in which a snapshot brings `count` owners of one group, each with a port and a member.
fn sharing(count: u16) -> World {
    let mut world = World::usual();
    for nth in 0..count {
        let owner = format!("00000000-0000-4000-8000-{nth:012}");
        let port = 1_000 + nth;
        let mut wish = Wish::new(&owner, &world.subnet);
        (wish.ports, wish.members) = (vec![port], vec![(1, port)]);
        (wish.from_outside, wish.group) = (true, Some(("shop/web".to_owned(), nth.into())));
        world.wishes.insert(("prod1".to_owned(), key("shop", &format!("s{nth}"))), wish);
    }
    world.connect(0, "prod1");
    world
}

fn group_wishes(world: &World) -> u64 {
    world.writers[0].registry.counts(world.now()).group_wishes
}

#[test]
fn what_they_want_together_is_put_together_once_for_a_snapshot() {
    let mut world = sharing(MANY);
    assert!(group_wishes(&world) <= 2, "{}", group_wishes(&world));
    // It is complete before anything is done about it.
    world.run(SECOND / 10);
    assert!(group_wishes(&world) <= 40, "{}", group_wishes(&world));
    let told = world.writers[0].registry.explain("prod1", &key("shop", "s249"), world.now());
    assert!(told.is_some());
}

#[test]
fn hundreds_fit_into_the_requests_and_are_served() {
    let mut world = sharing(MANY);
    let is_told =
        |world: &World, nth: u16| world.phase("prod1", &key("shop", &format!("s{nth}"))) == Some(Phase::Ready);
    let mut rounds = 0;
    while !(0..MANY).all(|nth| is_told(&world, nth)) {
        world.run(20 * SECOND);
        rounds += 1;
        assert!(rounds < 200, "{:#?}", world.last_sent());
    }
    let size = |change: &CloudChange| change.request().body.to_string().len();
    let largest = world.sent.iter().map(|sent| size(&sent.change)).max();
    assert!(largest.is_some_and(|size| size < LARGEST), "{largest:?}");
    assert_eq!(world.balancers().len(), 1);
    let row = world.balancers().remove(0);
    assert_eq!(row["listeners"].as_array().map(Vec::len), Some(MANY.into()));
    // The mark in words does not grow with them.
    assert!(row["description"].as_str().is_some_and(|words| words.len() < 255), "{}", row["description"]);
    world.sent.clear();
    world.run(120 * SECOND);
    assert_eq!(world.sent.len(), 0, "{:#?}", world.last_sent());
    // One more member of one of them is one request.
    world.change("prod1", &key("shop", "s7"), |wish| wish.members.push((2, 1_007)));
    world.run(30 * SECOND);
    assert_eq!(world.sent.len(), 1, "{:#?}", world.last_sent());
}

/// Each costs what it is, and not what all of its group are.
#[test]
fn what_is_refused_takes_little_memory() {
    let mut world = sharing(MANY);
    world.run(SECOND / 10);
    let now = world.now();
    let group = Some(("shop/web".to_owned(), 9_999));
    let wishes: Vec<_> =
        (0..2_000).map(|nth| Wish { group: group.clone(), ..Wish::new(&format!("r{nth}"), &world.subnet) }).collect();
    let entries: Vec<_> = wishes.iter().map(|wish| (key("shop", &wish.owner), wish.entry())).collect();
    let registry = &mut world.writers[0].registry;
    let heap = allocation_counter::measure(|| {
        entries.iter().for_each(|(key, entry)| registry.refuse("prod1", key, entry, now));
    });
    let each = heap.bytes_current / 2_000;
    assert!(each < 1_000, "{each} bytes each");
}
