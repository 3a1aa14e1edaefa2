//! The changes that would follow, for people who want to see them before they are made: a copy of the actor takes each as if the
//! services had accepted it.

use std::collections::HashMap;
use std::time::Duration;

use gimbal_kuryr_model::{CloudFacts, DesiredEntry};
use serde_json::{Map, Value, json};

use crate::accepted::{has_policy, settle};
use crate::actor::Actor;
use crate::change::CloudChange;
use crate::seen::{Provisioning, SeenBalancer, SeenFloatingIp, SeenListener, SeenMember, SeenPool, SeenPort};
use crate::seen_policy::SeenPolicy;
use crate::step::{BalancerStep, CloudLook, Wait};

/// Steps for each change: one waits until Octavia has finished, one reads what a batch of members has made, and one looks.
const STEPS: usize = 4;

/// A change that would follow.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedStep {
    /// The change. What does not exist yet has IDs that begin with `new-`.
    pub change: CloudChange,
    /// The name of the object that it changes or removes, or of the pool whose members it changes; empty for a new one.
    pub name: String,
    /// What a request with several members does, one line each: `+` comes, `-` goes, `~` changes.
    pub members: Vec<String>,
}

impl Actor {
    /// Returns the changes that would follow if nothing were in the way, in order, at most `most`; `None` before the first look.
    /// They end where something else has to be read, or waited for, before it is known what follows.
    #[must_use]
    pub fn planned(&self, facts: &CloudFacts, now: Duration, most: usize) -> Option<Vec<PlannedStep>> {
        if !self.memory.has_looked() {
            return None;
        }
        let mut actor = self.clone();
        actor.memory.clear_the_way(now);
        let mut planned: Vec<PlannedStep> = Vec::new();
        let mut looked_after = None;
        for _ in 0..most.saturating_mul(STEPS) {
            match actor.step(facts, now) {
                // What would follow itself is not done by being accepted.
                BalancerStep::Change(change)
                    if planned.len() < most && planned.last().is_none_or(|last| last.change != change) =>
                {
                    let (name, members) = (actor.name_of(&change), actor.member_lines(&change));
                    actor.foresee(&change, &format!("new-{}", planned.len() + 1), now);
                    planned.push(PlannedStep { change, name, members });
                }
                BalancerStep::Wait(Wait::Pending { balancer }) if actor.finishes(&balancer) => {}
                BalancerStep::Look(CloudLook::Members { pool }) => actor.number_members(&pool),
                BalancerStep::Look(CloudLook::Owner) if looked_after.replace(planned.len()) != Some(planned.len()) => {
                    actor.looks_again(now);
                }
                _ => break,
            }
        }
        Some(planned)
    }

    /// Returns the name of what a change is about, as it was seen.
    fn name_of(&self, change: &CloudChange) -> String {
        let path = change.request().path;
        let id = path.rsplit('/').find(|part| !["tags", "members", "failover"].contains(part)).unwrap_or_default();
        let seen = &*self.seen;
        let balancers = seen.balancers.iter().map(|one| (&one.id, one.name.clone()));
        let listeners = seen.balancers.iter().flat_map(|one| &one.listeners);
        let policies = listeners.clone().flat_map(|one| &one.policies).map(|one| (&one.id, one.name.clone()));
        let pools = seen.balancers.iter().flat_map(|one| &one.pools);
        let monitors = pools.clone().filter_map(|pool| Some((&pool.monitor.as_ref()?.id, pool.name.clone())));
        let members = pools.clone().flat_map(|pool| &pool.members).map(|one| (&one.id, place(&one.address, one.port)));
        let mut all = balancers
            .chain(listeners.map(|one| (&one.id, one.name.clone())))
            .chain(policies)
            .chain(pools.map(|one| (&one.id, one.name.clone())))
            .chain(monitors)
            .chain(members)
            .chain(seen.ports.iter().map(|one| (&one.id, one.name.clone())))
            .chain(seen.floating.iter().map(|one| (&one.id, one.address.clone())));
        all.find(|(one, _)| *one == id).map(|(_, name)| name).unwrap_or_default()
    }

    /// Says what a request with several members makes of those that were seen.
    fn member_lines(&self, change: &CloudChange) -> Vec<String> {
        let CloudChange::SetMembers { pool, members, additive } = change else { return Vec::new() };
        let mut pools = self.seen.balancers.iter().flat_map(|one| &one.pools);
        let seen = pools.find(|one| one.id == *pool).map(|one| one.members.as_slice()).unwrap_or_default();
        let wanted: Vec<SeenMember> = members.iter().map(SeenMember::read).collect();
        let (seen_places, wanted_places) = (by_place(seen), by_place(&wanted));
        let line =
            |sign: char, one: &SeenMember| format!("{sign} {}, weight {}", place(&one.address, one.port), one.weight);
        let set = wanted.iter().filter_map(|one| match seen_places.get(&place_of(one)) {
            None => Some(line('+', one)),
            Some(seen) if seen.weight == one.weight && seen.name == one.name => None,
            Some(_) => Some(line('~', one)),
        });
        let goes = |one: &&SeenMember| !additive && !wanted_places.contains_key(&place_of(one));
        set.chain(seen.iter().filter(goes).map(|one| line('-', one))).collect()
    }

    /// Octavia finishes what it does with a load balancer. Returns whether it did anything.
    fn finishes(&mut self, id: &str) -> bool {
        let all = &mut self.seen.balancers;
        let Some(at) = all.iter().position(|one| one.id == id && one.provisioning.is_pending()) else { return false };
        if all[at].provisioning == Provisioning::PendingDelete {
            all.remove(at);
        } else {
            all[at].provisioning = Provisioning::Active;
            settle(&mut all[at]);
        }
        true
    }

    /// A look finds what is foreseen.
    fn looks_again(&mut self, now: Duration) {
        let seen = (*self.seen).clone();
        // What providers lack is found by real looks.
        drop(self.looked(seen, now));
        self.memory.clear_the_way(now);
    }

    /// Gives the members of a pool the IDs that they would be read with.
    fn number_members(&mut self, id: &str) {
        self.memory.unread.remove(id);
        let members = self.pool_mut(id).into_iter().flat_map(|pool| &mut pool.members).zip(1..);
        for (member, number) in members.filter(|(member, _)| member.id.is_empty()) {
            member.id = format!("new-member-{number}");
        }
    }

    /// Makes of what was seen what the change will have made of it.
    fn foresee(&mut self, change: &CloudChange, id: &str, now: Duration) {
        let made = |kind: &str, body: &Value| json!({kind: with_id(body, id)});
        let answer = match change {
            CloudChange::CreatePort { body } => made("port", body),
            CloudChange::CreateBalancer { body } => made("loadbalancer", &self.whole_balancer(body, id)),
            CloudChange::CreateListener { body } => made("listener", body),
            CloudChange::CreatePolicy { body } => made("l7policy", body),
            CloudChange::CreateRule { body, .. } => made("rule", body),
            CloudChange::CreatePool { body } => made("pool", body),
            CloudChange::CreateMonitor { body, .. } => made("healthmonitor", body),
            CloudChange::CreateMember { body, .. } => made("member", body),
            CloudChange::CreateFloatingIp { body } => made("floatingip", body),
            CloudChange::CreateSecret { .. } => json!({"secret_ref": format!("/secrets/{id}")}),
            CloudChange::UpdatePort { id, fields, .. } => return self.foresee_port(id, fields),
            CloudChange::UpdateBalancer { id, fields } => return self.foresee_balancer(id, fields),
            CloudChange::UpdateListener { id, fields } => return self.foresee_listener(id, fields),
            CloudChange::UpdatePolicy { id, fields } => return self.foresee_policy(id, fields),
            CloudChange::UpdatePool { id, fields } => return self.foresee_pool(id, fields),
            CloudChange::UpdateMonitor { pool, fields, .. } => return self.foresee_monitor(pool, fields),
            CloudChange::UpdateMember { pool, id, fields } => return self.foresee_member(pool, id, fields),
            CloudChange::UpdateFloatingIp { id, fields, .. } => return self.foresee_floating(id, fields),
            CloudChange::TagPort { .. }
            | CloudChange::DeletePort { .. }
            | CloudChange::DeleteBalancer { .. }
            | CloudChange::FailoverBalancer { .. }
            | CloudChange::DeleteListener { .. }
            | CloudChange::DeletePolicy { .. }
            | CloudChange::DeletePool { .. }
            | CloudChange::DeleteMonitor { .. }
            | CloudChange::SetMembers { .. }
            | CloudChange::DeleteMember { .. }
            | CloudChange::TagFloatingIp { .. }
            | CloudChange::DeleteFloatingIp { .. }
            | CloudChange::DeleteSecret { .. } => Value::Null,
        };
        self.accepted(change, &answer, now);
    }

    /// Returns a load balancer as Octavia answers with it: what is below it has IDs, and refers to them.
    fn whole_balancer(&self, body: &Value, id: &str) -> Value {
        let mut row = body.clone();
        if let DesiredEntry::LoadBalancer(wanted) = &self.desired {
            let vip = &wanted.header.vip;
            default(&mut row, "vip_subnet_id", json!(vip.subnet.as_deref()));
            default(&mut row, "vip_address", json!(vip.address));
        }
        default(&mut row, "vip_port_id", json!(format!("{id}-port")));
        let mut pools = Map::new();
        for (pool, number) in all_in(&mut row, "pools").zip(1..) {
            let pool_id = format!("{id}-pool-{number}");
            pools.insert(pool["name"].as_str().unwrap_or_default().to_owned(), json!(pool_id));
            for (member, number) in all_in(pool, "members").zip(1..) {
                member["id"] = json!(format!("{pool_id}-member-{number}"));
            }
            if pool["healthmonitor"].is_object() {
                pool["healthmonitor"]["id"] = json!(format!("{pool_id}-monitor"));
            }
            pool["id"] = json!(pool_id);
        }
        let of = |named: &Value| named["name"].as_str().and_then(|name| pools.get(name)).cloned().unwrap_or_default();
        for (listener, number) in all_in(&mut row, "listeners").zip(1..) {
            let listener_id = format!("{id}-listener-{number}");
            listener["default_pool_id"] = of(&listener["default_pool"]);
            for (policy, number) in all_in(listener, "l7policies").zip(1..) {
                policy["id"] = json!(format!("{listener_id}-policy-{number}"));
                policy["redirect_pool_id"] = of(&policy["redirect_pool"]);
            }
            listener["id"] = json!(listener_id);
        }
        row
    }

    fn foresee_port(&mut self, id: &str, fields: &Value) {
        let read = SeenPort::read(fields);
        for port in self.seen.ports.iter_mut().filter(|one| one.id == id) {
            set(fields, "security_groups", &mut port.security_groups, &read.security_groups);
            set(fields, "description", &mut port.description, &read.description);
        }
        self.forget_released(fields, id);
    }

    fn foresee_balancer(&mut self, id: &str, fields: &Value) {
        let read = SeenBalancer::read(fields);
        self.with_balancer(id, |one| {
            set(fields, "name", &mut one.name, &read.name);
            set(fields, "description", &mut one.description, &read.description);
            set(fields, "tags", &mut one.tags, &read.tags);
            set(fields, "admin_state_up", &mut one.admin_state_up, &read.admin_state_up);
            set(fields, "vip_sg_ids", &mut one.security_groups, &read.security_groups);
        });
        self.told_groups(id, fields["vip_sg_ids"].as_array().map(Vec::as_slice).unwrap_or_default());
    }

    fn foresee_listener(&mut self, id: &str, fields: &Value) {
        let read = SeenListener::read(fields);
        let Some(listener) = self.listener_mut(|one| one.id == id) else { return };
        listener.provisioning = Provisioning::Active;
        set(fields, "name", &mut listener.name, &read.name);
        set(fields, "tags", &mut listener.tags, &read.tags);
        set(fields, "default_pool_id", &mut listener.default_pool, &read.default_pool);
        set(fields, "admin_state_up", &mut listener.admin_state_up, &read.admin_state_up);
        set(fields, "allowed_cidrs", &mut listener.allowed_cidrs, &read.allowed_cidrs);
        merge(&mut listener.row, &read.row);
    }

    fn foresee_policy(&mut self, id: &str, fields: &Value) {
        let (read, Some(mut policy)) = (SeenPolicy::read(fields), self.policy(id).cloned()) else { return };
        policy.provisioning = Provisioning::Active;
        set(fields, "name", &mut policy.name, &read.name);
        set(fields, "tags", &mut policy.tags, &read.tags);
        set(fields, "action", &mut policy.action, &read.action);
        set(fields, "redirect_pool_id", &mut policy.pool, &read.pool);
        set(fields, "redirect_prefix", &mut policy.prefix, &read.prefix);
        set(fields, "redirect_url", &mut policy.url, &read.url);
        set(fields, "admin_state_up", &mut policy.admin_state_up, &read.admin_state_up);
        let position = fields["position"].as_u64().and_then(|position| usize::try_from(position).ok());
        if let Some(listener) = self.listener_mut(|one| has_policy(one, id)) {
            listener.policy_changed(policy, position);
        }
    }

    fn foresee_pool(&mut self, id: &str, fields: &Value) {
        let read = SeenPool::read(fields);
        let Some(pool) = self.pool_mut(id) else { return };
        set(fields, "name", &mut pool.name, &read.name);
        set(fields, "tags", &mut pool.tags, &read.tags);
        set(fields, "lb_algorithm", &mut pool.algorithm, &read.algorithm);
        set(fields, "session_persistence", &mut pool.persistence, &read.persistence);
        set(fields, "admin_state_up", &mut pool.admin_state_up, &read.admin_state_up);
    }

    fn foresee_monitor(&mut self, pool: &str, fields: &Value) {
        if let Some(monitor) = self.pool_mut(pool).and_then(|pool| pool.monitor.as_mut()) {
            merge(&mut monitor.row, fields);
        }
    }

    fn foresee_member(&mut self, pool: &str, id: &str, fields: &Value) {
        let members = self.pool_mut(pool).into_iter().flat_map(|pool| &mut pool.members);
        for member in members.filter(|one| one.id == id) {
            let (address, port, subnet) = (std::mem::take(&mut member.address), member.port, member.subnet.take());
            // A change of a member has everything that can be changed of one.
            *member = SeenMember { id: id.to_owned(), address, port, subnet, ..SeenMember::read(fields) };
        }
    }

    fn foresee_floating(&mut self, id: &str, fields: &Value) {
        let read = SeenFloatingIp::read(fields);
        self.memory.asked_floating = None;
        for one in self.seen.floating.iter_mut().filter(|one| one.id == id) {
            set(fields, "port_id", &mut one.port, &read.port);
            set(fields, "description", &mut one.description, &read.description);
        }
        let mark = self.mark.clone();
        self.seen.floating.retain(|one| one.id != id || mark.is_in(&one.description) || one.port.is_some());
    }
}

/// Returns an address and a port as people write them.
fn place(address: &str, port: u16) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

fn with_id(body: &Value, id: &str) -> Value {
    let mut row = body.clone();
    row["id"] = json!(id);
    row
}

/// Sets what a request leaves to Octavia.
fn default(row: &mut Value, key: &str, value: Value) {
    if row[key].is_null() {
        row[key] = value;
    }
}

fn all_in<'a>(row: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    row.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Takes a field over if the change has it.
fn set<T: Clone>(fields: &Value, key: &str, place: &mut T, value: &T) {
    if fields.get(key).is_some() {
        place.clone_from(value);
    }
}

fn merge(row: &mut Value, fields: &Value) {
    for (key, value) in fields.as_object().into_iter().flatten() {
        row[key.as_str()] = value.clone();
    }
}

fn place_of(member: &SeenMember) -> (&str, u16) {
    (&member.address, member.port)
}

/// Returns members by where they are; of several at one place the first counts.
fn by_place(members: &[SeenMember]) -> HashMap<(&str, u16), &SeenMember> {
    members.iter().rev().map(|one| (place_of(one), one)).collect()
}
