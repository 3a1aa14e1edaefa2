//! As many members as a load balancer may have. Where each is compared with each, these tests take minutes instead of seconds.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use gimbal_kuryr_model::{DesiredEntry, DesiredLoadBalancer, DesiredMember, DesiredMembers, MemberId, PoolId};
use gimbal_octavia_plan::{BalancerStep, ChangeOutcome, CloudChange, CloudLook, ServiceRefusal, Wait};
use serde_json::{Value, json};

use crate::executor::World;
use crate::router_wish::router;
use crate::services::world;

/// The most members that the controller streams of one load balancer.
const MOST: u32 = 20_000;

/// A load balancer as the model has it, in which the test itself answers for the members: the model is not made for such a number.
struct Crowded {
    world: World,
    row: Value,
    /// The members of each pool, by address.
    members: BTreeMap<String, BTreeMap<String, Value>>,
}

impl Crowded {
    fn new(mut world: World) -> Self {
        assert_eq!(world.run(), BalancerStep::Done);
        let row = world.rows("/v2/lbaas/loadbalancers", "loadbalancers", &[]).remove(0);
        Self { world, row, members: BTreeMap::new() }
    }

    /// Takes steps until everything is done. Returns how many members each change of them named; 0: one goes.
    fn run(&mut self) -> Vec<usize> {
        let mut sizes = Vec::new();
        for _ in 0..1_000 {
            let now = self.world.cloud.now();
            let step = self.world.step();
            let actor = &mut self.world.actor;
            match step {
                BalancerStep::Done => return sizes,
                BalancerStep::Wait(Wait::Pending { balancer }) => actor.tracked(&balancer, Some(&self.row)),
                BalancerStep::Look(CloudLook::Members { pool }) => {
                    let rows: Vec<Value> =
                        self.members.get(&pool).into_iter().flat_map(BTreeMap::values).cloned().collect();
                    actor.read_members(&pool, &rows);
                }
                BalancerStep::Change(change) => {
                    sizes.push(self.accept(&change));
                    self.world.actor.answered(&change, ChangeOutcome::Accepted(Value::Null), now);
                }
                step => panic!("{step:?}"),
            }
        }
        panic!("no end: {:?}", self.world.step());
    }

    fn accept(&mut self, change: &CloudChange) -> usize {
        match change {
            CloudChange::SetMembers { pool, members, additive: true } => {
                let all = self.members.entry(pool.clone()).or_default();
                for member in members {
                    let address = member["address"].as_str().unwrap();
                    let mut row = member.clone();
                    row["id"] = json!(format!("id-{address}"));
                    row["provisioning_status"] = json!("ACTIVE");
                    all.insert(address.to_owned(), row);
                }
                members.len()
            }
            CloudChange::DeleteMember { pool, id } => {
                assert!(self.members.get_mut(pool).unwrap().remove(id.trim_start_matches("id-")).is_some(), "{id}");
                0
            }
            change => panic!("{:?}", change.request().path),
        }
    }

    fn wants(&mut self, members: Vec<DesiredMember>) {
        let DesiredEntry::LoadBalancer(wanted) = self.world.actor.desired().clone() else { panic!() };
        let generation = wanted.generation + 1;
        let members = DesiredMembers::new(members);
        self.world.actor.want(DesiredEntry::LoadBalancer(DesiredLoadBalancer { generation, members, ..wanted }));
    }

    fn count(&self) -> usize {
        self.members.values().map(BTreeMap::len).sum()
    }
}

fn member(pool: PoolId, number: u32) -> DesiredMember {
    let address = Ipv4Addr::from_bits(Ipv4Addr::new(10, 8, 0, 0).to_bits() + number).into();
    DesiredMember { id: MemberId { pool, address, port: 8080 }, weight: 1, name: Some("shop/web".into()), subnet: None }
}

/// Members that come, one that changes, one that goes, and more that a quota has no room for.
fn comes_and_goes(mut crowded: Crowded, pools: &[PoolId]) {
    let mut members: Vec<DesiredMember> =
        (0..MOST).map(|number| member(pools[number as usize % pools.len()].clone(), number)).collect();
    crowded.wants(members.clone());
    let sizes = crowded.run();
    assert_eq!((sizes.iter().sum::<usize>(), crowded.count()), (members.len(), members.len()), "each once");
    assert!(sizes.len() < 80, "{sizes:?}");
    assert!(crowded.run().is_empty(), "nothing is left to do");

    members[7].weight = 0;
    crowded.wants(members.clone());
    let planned = crowded.world.actor.planned(&crowded.world.facts, crowded.world.cloud.now(), 3).unwrap();
    assert_eq!(planned.iter().map(|one| one.members.len()).collect::<Vec<_>>(), [1]);
    assert_eq!(crowded.run(), [1]);
    members.pop();
    crowded.wants(members.clone());
    assert_eq!(crowded.run(), [0]);
    assert_eq!(crowded.count(), members.len());

    members.push(member(pools[0].clone(), MOST + 1));
    crowded.wants(members.clone());
    let BalancerStep::Change(change) = crowded.world.step() else { panic!("{:?}", crowded.world.step()) };
    let full = ChangeOutcome::Refused(ServiceRefusal::Quota("Quota has been met for resources: Member".to_owned()));
    crowded.world.actor.answered(&change, full, crowded.world.cloud.now());
    assert!(matches!(crowded.world.step(), BalancerStep::Blocked(_)));
    members.pop();
    members[9].weight = 0;
    crowded.wants(members);
    assert_eq!(crowded.run(), [1], "the others change all the same");
}

#[test]
fn a_pool_has_as_many_members_as_there_may_be() {
    let (wish, world) = world(|wish| (wish.known, wish.members) = (true, Vec::new()));
    let DesiredEntry::LoadBalancer(wanted) = wish.entry() else { panic!() };
    comes_and_goes(Crowded::new(world), &[wanted.header.listeners[0].id.into()]);
}

#[test]
fn the_pools_of_a_router_have_as_many_members_as_there_may_be() {
    let services = ["one", "two", "three", "four"];
    let routes = [("a.test", "/1", "one"), ("a.test", "/2", "two"), ("b.test", "", "three"), ("", "", "four")];
    let (_, world) = router(&routes, |wish| {
        wish.base.known = true;
        wish.members = services.map(|service| (service, Vec::new())).into();
    });
    let pools = services.map(|service| PoolId::Service(format!("shop/{service}/80").into()));
    comes_and_goes(Crowded::new(world), &pools);
}
