//! Quotas: members that there is no room for, and a place that is kept for who had it.

use gimbal_kuryr_model::DesiredEntry;
use gimbal_octavia_plan::CloudChange;
use gimbal_octavia_registry::{CloudRead, RegistryEvent};
use gimbal_octavia_sim::{Fate, ProjectQuota};

use crate::wish::{Wish, key, router_key};
use crate::world::{SECOND, World};

/// A batch that was refused has made no room.
#[test]
fn members_that_a_quota_has_no_room_for_are_not_sent_again_and_again() {
    for count in [1, 2] {
        let mut world = World::usual();
        world.want_many("prod1", "many", count);
        world.converge(60 * SECOND);
        let keys: Vec<_> = world.wishes.keys().cloned().collect();
        let change = |world: &mut World, members: Vec<(u8, u16)>| {
            for (cluster, key) in &keys {
                world.change(cluster, key, |wish| wish.members.clone_from(&members));
            }
        };
        change(&mut world, vec![(1, 80)]);
        world.converge(60 * SECOND);
        world
            .cloud
            .set_quota("p1", ProjectQuota { members: Some(count.try_into().unwrap()), ..ProjectQuota::default() });
        world.sent.clear();
        for last in [3, 4, 5] {
            change(&mut world, vec![(2, 80), (last, 80)]);
            world.run(40 * SECOND);
        }
        let sent = world.sent.iter().filter(|sent| matches!(sent.change, CloudChange::SetMembers { .. })).count();
        assert!((1..=count * 6).contains(&sent), "{count}: {sent}");
    }
}

/// A first answer that says nothing about the quota takes its place from no one.
#[test]
fn who_is_made_anew_keeps_its_place_while_octavia_is_busy() {
    let mut world = World::usual();
    world.want_many("prod1", "many", 1);
    world.converge(60 * SECOND);
    world.cloud.set_quota("p1", ProjectQuota { load_balancers: Some(1), ..ProjectQuota::default() });
    let waits = key("aaa", "waits");
    world.want("prod1", waits.clone(), Wish::new("waits", &world.subnet));
    world.run(10 * SECOND);
    let (cluster, made) = world.wishes.keys().find(|(_, one)| *one != waits).cloned().unwrap();
    let owner = world.wishes[&(cluster.clone(), made.clone())].owner.clone();
    world.change(&cluster, &made, |wish| wish.address = Some("10.0.0.100".to_owned()));
    for _ in 0..2 {
        world.cloud.expect(Fate::Done);
    }
    world.cloud.expect(Fate::Raises);
    world.run(60 * SECOND);
    assert_eq!((world.balancers_of(&owner).len(), world.balancers_of("waits").len()), (1, 0));
}

/// After a restart nothing else says who had how much of a quota.
#[test]
fn the_members_of_each_owner_are_counted_where_they_can_be_listed() {
    let mut world = World::at_rest(1);
    let routes = vec![("a.test", "/api", "api"), ("a.test", "", "web")];
    world.want("prod1", router_key(), Wish { routes, ..Wish::new("r1", &world.subnet) });
    world.converge(60 * SECOND);
    let listed = |world: &mut World| -> Vec<(String, Option<u64>)> {
        world.restart(0);
        world.events.clear();
        world.run(120 * SECOND);
        let found = world.events.iter().find_map(|event| match event {
            RegistryEvent::Listed { found, .. } => Some(found),
            _ => None,
        });
        found.unwrap().iter().map(|one| (one.owner.to_string(), one.members)).collect()
    };
    let owners = ["prod1-shop-0", "r1"].map(str::to_owned);
    assert_eq!(listed(&mut world), owners.clone().into_iter().zip([Some(3), Some(6)]).collect::<Vec<_>>());
    world.closed_lists = Some(|read: &CloudRead| read.path == "pools");
    assert_eq!(listed(&mut world), owners.map(|owner| (owner, None)));
}

/// One that serves does not give way to one that is new, whatever their addresses.
#[test]
fn members_that_wait_for_room_take_no_place_after_a_restart() {
    let mut world = World::usual();
    let routes = vec![("a.test", "/api", "api"), ("a.test", "", "web")];
    let wish = Wish { routes, members: vec![(5, 80), (6, 80)], ..Wish::new("r1", &world.subnet) };
    world.want("prod1", router_key(), wish.clone());
    world.converge(120 * SECOND);
    world.status_written("prod1", &router_key());
    world.run(130 * SECOND);
    world.sent.clear();
    // Of three there is room for two, and the writer that was started anew does not know which serve.
    let members = |wish: &Wish| match wish.entry() {
        DesiredEntry::LoadBalancer(wanted) => wanted.members,
        DesiredEntry::Deleting { .. } => panic!(),
    };
    world.kill(0);
    let cut = Wish { members: vec![(1, 80), (5, 80)], known: true, ..wish.clone() };
    world.wishes.insert(("prod1".to_owned(), router_key()), cut);
    world.connect(0, "prod1");
    let waiting = members(&Wish { members: vec![(6, 80)], ..wish.clone() });
    world.writers[0].registry.members_wait("prod1", &router_key(), waiting);
    world.run(130 * SECOND);
    assert_eq!(world.sent.len(), 0, "{:#?}", world.last_sent());
    let wanted = world.writers[0].registry.wanted("prod1", &router_key()).unwrap();
    assert_eq!(wanted.members, members(&wish));
}
