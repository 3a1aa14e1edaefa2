//! Servers that fail.

use gimbal_octavia_rows::{Existence, List, Unreadable};
use gimbal_openstack_source::{Answer, Ask, NoMembers};

use super::{World, failed, id, small};

/// Project `alpha` with one load balancer, and `beta` with two.
pub fn two_projects() -> World {
    let mut world = small();
    world.project("pb", "beta");
    world.tree(2, "pb", 1);
    world.tree(3, "pb", 1);
    world.seconds += 60;
    world
}

/// The answer that says that the list failed.
pub fn fail(ask: &Ask) -> Answer {
    match ask.clone() {
        Ask::Projects => Answer::Projects(Err(failed())),
        Ask::LoadBalancers(whose) => Answer::LoadBalancers(whose, Err(failed())),
        Ask::Listeners(whose) => Answer::Listeners(whose, Err(failed())),
        Ask::Pools(whose) => Answer::Pools(whose, Err(failed())),
        Ask::L7Policies(whose) => Answer::L7Policies(whose, Err(failed())),
        Ask::Members(whose, pool) => Answer::Members(whose, pool, Err(NoMembers::Failed(failed()))),
        Ask::LoadBalancer(whose, id) => Answer::LoadBalancer(whose, id, Err(failed())),
        Ask::Listener(whose, id) => Answer::Listener(whose, id, Err(failed())),
        Ask::Pool(whose, id) => Answer::Pool(whose, id, Err(failed())),
        Ask::Roles(whose) => Answer::Roles(whose, Err(failed())),
    }
}

/// What a server shows that lost the role on `pb`.
pub fn lost(ask: &Ask, world: &mut World) -> Option<Answer> {
    match ask {
        Ask::LoadBalancers(whose) => {
            let rows = world.load_balancers.values().filter(|row| row.project == id("pa")).cloned().collect::<Vec<_>>();
            Some(Answer::LoadBalancers(whose.clone(), Ok(rows.into())))
        }
        Ask::Listeners(whose) => {
            Some(Answer::Listeners(whose.clone(), Ok(vec![world.listeners[&id("l1")].clone()].into())))
        }
        Ask::Pools(whose) => Some(Answer::Pools(whose.clone(), Ok(vec![world.pools[&id("p1")].clone()].into()))),
        Ask::LoadBalancer(whose, id) => Some(Answer::LoadBalancer(whose.clone(), id.clone(), Ok(Existence::Forbidden))),
        _ => None,
    }
}

/// The rows of a list with one of them unreadable, by its ID or without.
pub fn spoil<T>(mut list: List<T>, which: impl Fn(&T) -> bool, says: Option<&str>) -> List<T> {
    list.rows.retain(|row| !which(row));
    list.unreadable.push(Unreadable { id: says.map(Into::into), project: None, problem: "invalid type".into() });
    list
}

/// Spoils the row of kind 0 (load balancer), 1 (listener), 2 (pool) or 3 (member) that belongs to `lb2`.
pub fn spoiled(ask: &Ask, world: &World, kind: u8, named: bool) -> Option<Answer> {
    let says = |id: &'static str| named.then_some(id);
    match (world.answer(ask), kind) {
        (Answer::LoadBalancers(whose, Ok(list)), 0) => {
            Some(Answer::LoadBalancers(whose, Ok(spoil(list, |row| row.id == id("lb2"), says("lb2")))))
        }
        (Answer::Listeners(whose, Ok(list)), 1) => {
            Some(Answer::Listeners(whose, Ok(spoil(list, |row| row.id == id("l2"), says("l2")))))
        }
        (Answer::Pools(whose, Ok(list)), 2) => {
            Some(Answer::Pools(whose, Ok(spoil(list, |row| row.id == id("p2"), says("p2")))))
        }
        (Answer::Members(whose, pool, Ok(list)), 3) if pool == id("p2") => {
            Some(Answer::Members(whose, pool, Ok(spoil(list, |row| row.id == id("m2-0"), says("m2-0")))))
        }
        _ => None,
    }
}
