//! A quota that new members have no room in.

use gimbal_octavia_plan::CloudChange;
use gimbal_octavia_sim::ProjectQuota;

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
