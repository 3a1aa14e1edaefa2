//! Two openstack-writers that work for one cluster at a time, for some seconds.

use gimbal_octavia_plan::{BalancerStep, CloudChange};

use crate::executor::{Way, World, actor};
use crate::services::{made, world};

/// Takes steps up to and with a change of this kind.
fn until(world: &mut World, is: impl Fn(&CloudChange) -> bool) {
    loop {
        let step = world.step();
        world.take(&step, Way::Arrives);
        if matches!(&step, BalancerStep::Change(change) if is(change)) {
            return;
        }
    }
}

/// Each has made a port, and the second one has seen both before the first one has used its own.
#[test]
fn a_port_that_the_other_writer_has_used_meanwhile_stays() {
    for looks_first in [true, false] {
        let (wish, mut world) = world(|wish| wish.from_outside = true);
        let mut other = actor(wish.entry());
        let makes_port = |change: &CloudChange| matches!(change, CloudChange::CreatePort { .. });
        let makes_balancer = |change: &CloudChange| matches!(change, CloudChange::CreateBalancer { .. });
        for _ in 0..2 {
            world.actor.look_again();
            let step = world.step();
            world.take(&step, Way::Arrives);
            std::mem::swap(&mut world.actor, &mut other);
        }
        until(&mut world, makes_port);
        std::mem::swap(&mut world.actor, &mut other);
        until(&mut world, makes_port);
        if looks_first {
            std::mem::swap(&mut world.actor, &mut other);
        }
        world.actor.look_again();
        let step = world.step();
        world.take(&step, Way::Arrives);
        std::mem::swap(&mut world.actor, &mut other);
        until(&mut world, makes_balancer);
        std::mem::swap(&mut world.actor, &mut other);
        until(&mut world, makes_balancer);
        for _ in 0..200 {
            std::mem::swap(&mut world.actor, &mut other);
            let step = world.step();
            world.take(&step, Way::Arrives);
        }
        world.actor.look_again();
        made(&wish, &mut world);
        let port = world.actor.balancer().unwrap().vip_port.clone();
        let ports = world.rows("/v2.0/ports", "ports", &[]);
        assert_eq!(ports.iter().map(|row| row["id"].as_str().unwrap()).collect::<Vec<_>>(), [port]);
    }
}
