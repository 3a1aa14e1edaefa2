//! How pools choose members, with providers that do not know every way.

use gimbal_kuryr_model::Algorithm;
use gimbal_model::Protocol;
use gimbal_octavia_plan::{BalancerStep, CloudAbility, CloudChange};

use crate::executor::World;
use crate::services::{change, made, world};
use crate::wish::Wish;

/// A provider with one way, as that of OVN.
fn with_one_way(change: impl FnOnce(&mut Wish)) -> (Wish, World) {
    let (wish, mut world) = world(change);
    world.cloud.provider_mut().algorithms = vec!["SOURCE_IP_PORT".into()];
    (wish, world)
}

fn algorithms(world: &mut World) -> Vec<String> {
    let rows = world.rows("/v2/lbaas/pools", "pools", &[]);
    rows.iter().map(|row| row["lb_algorithm"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_provider_with_one_way_to_choose_members_serves_every_port() {
    for populated in [true, false] {
        let (mut wish, mut world) = with_one_way(|wish| {
            wish.ports = vec![(Protocol::Tcp, 80), (Protocol::Udp, 53)];
            wish.members = vec![(1, 80, 1), (1, 53, 1)];
        });
        world.cloud.provider_mut().populated = populated;
        made(&wish, &mut world);
        assert_eq!(world.unsupported(), []);
        assert_eq!(algorithms(&mut world), ["SOURCE_IP_PORT"; 2]);
        // Others that use the provider are spared the refusals, and what it can do is not taken for missing.
        let learned: Vec<_> = world.missing.iter().map(|one| one.ability).collect();
        let expected = [CloudAbility::Weights, CloudAbility::PopulatedCreate];
        assert_eq!(learned, expected[..if populated { 1 } else { 2 }]);
        // A restart forgets it, and leaves what works alone.
        world.sent.clear();
        world.restart();
        made(&wish, &mut world);
        assert_eq!(world.sent, []);
        let changes = change(&mut world, &mut wish, |wish| wish.members = vec![(7, 80, 1), (7, 53, 1)]);
        assert!(changes.iter().all(|one| matches!(one, CloudChange::SetMembers { .. })), "{changes:#?}");
    }
}

#[test]
fn a_way_that_is_asked_for_and_that_the_provider_lacks_is_refused() {
    let (_, mut world) = with_one_way(|wish| wish.algorithm = Some(Algorithm::RoundRobin));
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!((world.unsupported().len(), world.missing.len()), (1, 0), "{:?}", world.missing);
}

#[test]
fn a_provider_that_refuses_something_else_has_weights() {
    let (_, mut world) = world(|wish| wish.ports = vec![(Protocol::Tcp, 80), (Protocol::Sctp, 90)]);
    world.cloud.provider_mut().protocols.retain(|protocol| protocol != "SCTP");
    assert_eq!(world.run(), BalancerStep::Done);
    assert_eq!((world.missing.as_slice(), world.unsupported().len()), (&[][..], 1));
    assert_eq!(algorithms(&mut world), ["ROUND_ROBIN"]);
}
