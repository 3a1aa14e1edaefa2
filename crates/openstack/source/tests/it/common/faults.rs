//! Answers of failing servers.

use gimbal_octavia_rows::{CompleteList, Existence, UnreadableRow};
use gimbal_openstack_source::{MembersError, Query, Reply};

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

/// Returns the reply that the query failed.
pub fn fail(ask: &Query) -> Reply {
    match ask.clone() {
        Query::Projects => Reply::Projects(Err(failed())),
        Query::LoadBalancers(whose) => Reply::LoadBalancers(whose, Err(failed())),
        Query::Listeners(whose) => Reply::Listeners(whose, Err(failed())),
        Query::Pools(whose) => Reply::Pools(whose, Err(failed())),
        Query::L7Policies(whose) => Reply::L7Policies(whose, Err(failed())),
        Query::Members(whose, pool) => Reply::Members(whose, pool, Err(MembersError::Failed(failed()))),
        Query::LoadBalancer(whose, id) => Reply::LoadBalancer(whose, id, Err(failed())),
        Query::Listener(whose, id) => Reply::Listener(whose, id, Err(failed())),
        Query::Pool(whose, id) => Reply::Pool(whose, id, Err(failed())),
        Query::Roles(whose) => Reply::Roles(whose, Err(failed())),
    }
}

/// Returns a server's answer after the role on `pb` was lost.
pub fn lost(ask: &Query, world: &mut World) -> Option<Reply> {
    match ask {
        Query::LoadBalancers(whose) => {
            let rows = world.load_balancers.values().filter(|row| row.project == id("pa")).cloned().collect::<Vec<_>>();
            Some(Reply::LoadBalancers(whose.clone(), Ok(rows.into())))
        }
        Query::Listeners(whose) => {
            Some(Reply::Listeners(whose.clone(), Ok(vec![world.listeners[&id("l1")].clone()].into())))
        }
        Query::Pools(whose) => Some(Reply::Pools(whose.clone(), Ok(vec![world.pools[&id("p1")].clone()].into()))),
        Query::LoadBalancer(whose, id) => {
            Some(Reply::LoadBalancer(whose.clone(), id.clone(), Ok(Existence::Forbidden)))
        }
        _ => None,
    }
}

/// Makes one row of a list unreadable, with or without its ID.
pub fn spoil<T>(mut list: CompleteList<T>, which: impl Fn(&T) -> bool, says: Option<&str>) -> CompleteList<T> {
    list.rows.retain(|row| !which(row));
    list.unreadable.push(UnreadableRow { id: says.map(Into::into), project: None, problem: "invalid type".into() });
    list
}

/// Spoils the row of kind 0 (load balancer), 1 (listener), 2 (pool) or 3 (member) that belongs to `lb2`.
pub fn spoiled(ask: &Query, world: &World, kind: u8, named: bool) -> Option<Reply> {
    let says = |id: &'static str| named.then_some(id);
    match (world.answer(ask), kind) {
        (Reply::LoadBalancers(whose, Ok(list)), 0) => {
            Some(Reply::LoadBalancers(whose, Ok(spoil(list, |row| row.id == id("lb2"), says("lb2")))))
        }
        (Reply::Listeners(whose, Ok(list)), 1) => {
            Some(Reply::Listeners(whose, Ok(spoil(list, |row| row.id == id("l2"), says("l2")))))
        }
        (Reply::Pools(whose, Ok(list)), 2) => {
            Some(Reply::Pools(whose, Ok(spoil(list, |row| row.id == id("p2"), says("p2")))))
        }
        (Reply::Members(whose, pool, Ok(list)), 3) if pool == id("p2") => {
            Some(Reply::Members(whose, pool, Ok(spoil(list, |row| row.id == id("m2-0"), says("m2-0")))))
        }
        _ => None,
    }
}
