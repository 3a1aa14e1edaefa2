//! What an accepted change makes of what was seen.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::actor::Actor;
use crate::change::CloudChange;
use crate::secret::SeenSecret;
use crate::seen::{
    Provisioning, SeenBalancer, SeenFloatingIp, SeenListener, SeenMember, SeenMonitor, SeenPool, SeenPort,
};
use crate::seen_policy::{SeenPolicy, SeenRule};

impl Actor {
    /// Makes of what was seen what the change has made of it.
    pub(crate) fn accepted(&mut self, change: &CloudChange, answer: &Value, now: Duration) {
        let part = self.memory.has_failing().then(|| self.part_of(change));
        self.memory.succeeded(part.as_ref());
        if let Some(id) = change.about() {
            self.lock(id);
            // What is made by this change was not seen.
            self.memory.unfinished.forget_whole();
        }
        match change {
            CloudChange::CreatePort { .. } => self.seen.ports.push(SeenPort::read(&answer["port"])),
            CloudChange::UpdatePort { id, fields, .. } => {
                let read = SeenPort::read(&answer["port"]);
                let all = self.seen.ports.iter_mut();
                all.filter(|one| one.id == *id).for_each(|one| *one = read.clone());
                self.forget_released(fields, id);
            }
            CloudChange::TagPort { id, tags } => {
                let all = self.seen.ports.iter_mut();
                all.filter(|one| one.id == *id).for_each(|one| one.retag(tags));
            }
            CloudChange::DeletePort { id } => {
                self.seen.ports.retain(|one| one.id != *id);
                self.memory.suspect.take_if(|suspect| suspect.is_about(id));
            }
            CloudChange::CreateBalancer { .. } => {
                self.memory.suspect = None;
                self.seen.balancers.push(SeenBalancer::read_tree(&answer["loadbalancer"]));
            }
            CloudChange::UpdateBalancer { id, fields } => {
                self.tracked(id, Some(&answer["loadbalancer"]));
                let groups = fields["vip_sg_ids"].as_array().map(Vec::as_slice).unwrap_or_default();
                self.told_groups(id, groups);
            }
            CloudChange::FailoverBalancer { id } => self.memory.failed_over = Some(id.clone()),
            CloudChange::DeleteBalancer { id } => {
                self.memory.forget_ranges();
                self.with_balancer(id, |one| one.provisioning = Provisioning::PendingDelete);
            }
            CloudChange::CreateListener { .. } => {
                let read = SeenListener::read(&answer["listener"]);
                self.with_balancer(change.about().unwrap_or_default(), |one| one.listeners.push(read));
            }
            CloudChange::UpdateListener { id, .. } => {
                let read = SeenListener::read(&answer["listener"]);
                if let Some(listener) = self.listener_mut(|one| one.id == *id) {
                    let policies = std::mem::take(&mut listener.policies);
                    *listener = SeenListener { policies, ..read };
                }
            }
            CloudChange::DeleteListener { id } => {
                self.seen.balancers.iter_mut().for_each(|one| one.listeners.retain(|listener| listener.id != *id));
            }
            CloudChange::CreatePolicy { .. } => {
                let read = SeenPolicy::read_tree(&answer["l7policy"]);
                let id = change.about().unwrap_or_default();
                if let Some(listener) = self.listener_mut(|one| one.id == id) {
                    listener.policy_made(read);
                }
            }
            CloudChange::UpdatePolicy { id, fields } => {
                let read = SeenPolicy::read(&answer["l7policy"]);
                let position = fields["position"].as_u64().and_then(|position| usize::try_from(position).ok());
                if let Some(listener) = self.listener_mut(|one| has_policy(one, id)) {
                    listener.policy_changed(read, position);
                }
            }
            CloudChange::DeletePolicy { id } => {
                if let Some(listener) = self.listener_mut(|one| has_policy(one, id)) {
                    listener.policy_gone(id);
                }
                self.memory.quota_freed();
            }
            CloudChange::CreateRule { policy, .. } => {
                let read = SeenRule::read(&answer["rule"]);
                let listener = self.listener_mut(|one| has_policy(one, policy));
                let policy = listener.and_then(|one| one.policies.iter_mut().find(|one| one.id == *policy));
                if let Some(policy) = policy {
                    policy.rules.push(read);
                }
            }
            CloudChange::CreatePool { .. } => {
                let read = SeenPool::read(&answer["pool"]);
                self.with_balancer(change.about().unwrap_or_default(), |one| one.pools.push(read));
            }
            CloudChange::UpdatePool { id, .. } => {
                let read = SeenPool::read(&answer["pool"]);
                if let Some(pool) = self.pool_mut(id) {
                    let (members, monitor) = (std::mem::take(&mut pool.members), pool.monitor.take());
                    *pool = SeenPool { members, monitor, ..read };
                }
            }
            CloudChange::DeletePool { id } => {
                for balancer in &mut self.seen.balancers {
                    balancer.pools.retain(|pool| pool.id != *id);
                    for listener in &mut balancer.listeners {
                        listener.default_pool.take_if(|pool| pool == id);
                    }
                }
            }
            CloudChange::CreateMonitor { pool, .. } | CloudChange::UpdateMonitor { pool, .. } => {
                let read = SeenMonitor::read(&answer["healthmonitor"]);
                if let Some(pool) = self.pool_mut(pool) {
                    pool.monitor = Some(read);
                }
            }
            CloudChange::DeleteMonitor { pool, .. } => {
                if let Some(pool) = self.pool_mut(pool) {
                    pool.monitor = None;
                }
            }
            CloudChange::SetMembers { pool, members, additive } => self.set_members(pool, members, *additive),
            CloudChange::CreateMember { pool, .. } => {
                let read = SeenMember::read(&answer["member"]);
                if let Some(pool) = self.pool_mut(pool) {
                    pool.members.push(read);
                }
            }
            CloudChange::UpdateMember { pool, id, .. } => {
                let read = SeenMember::read(&answer["member"]);
                if let Some(member) =
                    self.pool_mut(pool).and_then(|pool| pool.members.iter_mut().find(|one| one.id == *id))
                {
                    *member = read;
                }
            }
            CloudChange::DeleteMember { pool, id } => {
                if let Some(pool) = self.pool_mut(pool) {
                    pool.members.retain(|one| one.id != *id);
                }
                self.memory.members_left();
            }
            CloudChange::CreateFloatingIp { .. } => {
                self.seen.floating.push(SeenFloatingIp::read(&answer["floatingip"]))
            }
            CloudChange::UpdateFloatingIp { id, fields, .. } => {
                let read = SeenFloatingIp::read(&answer["floatingip"]);
                let led = self.seen.floating.iter().find(|one| one.id == *id).and_then(|one| one.port.as_deref());
                if led.is_some() && fields["port_id"].is_string() && led != read.port.as_deref() {
                    self.memory.moved = Some(now);
                }
                self.memory.asked_floating = None;
                self.seen.floating.retain(|one| one.id != *id);
                // One that carries no mark and leads nowhere is not the owner's any more.
                if self.mark.is_in(&read.description) || read.port.is_some() {
                    self.seen.floating.push(read);
                }
            }
            CloudChange::TagFloatingIp { id, tags } => {
                let all = self.seen.floating.iter_mut();
                all.filter(|one| one.id == *id).for_each(|one| one.retag(tags));
            }
            CloudChange::DeleteFloatingIp { id } => {
                self.memory.asked_floating = None;
                self.seen.floating.retain(|one| one.id != *id);
            }
            CloudChange::CreateSecret { project, name, .. } => self.secret_made(project, name, answer),
            CloudChange::DeleteSecret { id } => self.seen.secrets.retain(|one| one.id != *id),
        }
    }

    fn secret_made(&mut self, project: &str, name: &str, answer: &Value) {
        let row = json!({"name": name, "secret_ref": answer["secret_ref"]});
        match SeenSecret::read(&row, project, &self.mark) {
            Some(secret) => self.seen.secrets.push(secret),
            None => self.memory.looked = false,
        }
    }

    fn set_members(&mut self, id: &str, members: &[Value], additive: bool) {
        let Some(pool) = self.pool_mut(id) else { return };
        let all = std::mem::take(&mut pool.members).into_iter();
        let mut before: BTreeMap<_, _> = all.map(|one| ((one.address.clone(), one.port), one)).collect();
        for body in members {
            let mut member = SeenMember::read(body);
            if let Some(known) = before.remove(&(member.address.clone(), member.port)) {
                member = SeenMember { id: known.id, subnet: member.subnet.or(known.subnet), ..member };
            }
            pool.members.push(member);
        }
        let frees = !additive && !before.is_empty();
        if additive {
            pool.members.extend(before.into_values());
        }
        if pool.members.iter().any(|member| member.id.is_empty()) {
            self.memory.unread.insert(id.to_owned());
        }
        if frees {
            self.memory.members_left();
        }
    }

    /// Octavia has locked the load balancer that has this ID, or a listener, policy or pool with it.
    fn lock(&mut self, id: &str) {
        let is_locked = |one: &&mut SeenBalancer| {
            let mut listeners = one.listeners.iter();
            one.id == id
                || listeners.any(|one| one.id == id || has_policy(one, id))
                || one.pools.iter().any(|one| one.id == id)
        };
        if let Some(balancer) = self.seen.balancers.iter_mut().find(is_locked) {
            balancer.provisioning = Provisioning::PendingUpdate;
        }
    }

    pub(crate) fn with_balancer(&mut self, id: &str, change: impl FnOnce(&mut SeenBalancer)) {
        if let Some(balancer) = self.seen.balancers.iter_mut().find(|one| one.id == id) {
            change(balancer);
        }
    }

    pub(crate) fn listener_mut(&mut self, is_it: impl Fn(&SeenListener) -> bool) -> Option<&mut SeenListener> {
        self.seen.balancers.iter_mut().flat_map(|one| &mut one.listeners).find(|one| is_it(one))
    }

    pub(crate) fn pool_mut(&mut self, id: &str) -> Option<&mut SeenPool> {
        self.seen.balancers.iter_mut().flat_map(|one| &mut one.pools).find(|pool| pool.id == id)
    }
}

pub(crate) fn has_policy(listener: &SeenListener, id: &str) -> bool {
    listener.policies.iter().any(|one| one.id == id)
}

/// What was pending below a load balancer has settled with it.
pub(crate) fn settle(balancer: &mut SeenBalancer) {
    let active = |one: &mut Provisioning| {
        if one.is_pending() {
            *one = Provisioning::Active;
        }
    };
    for listener in &mut balancer.listeners {
        active(&mut listener.provisioning);
        for policy in &mut listener.policies {
            active(&mut policy.provisioning);
            policy.rules.iter_mut().for_each(|one| active(&mut one.provisioning));
        }
    }
    for pool in &mut balancer.pools {
        active(&mut pool.provisioning);
        pool.monitor.iter_mut().for_each(|one| active(&mut one.provisioning));
        pool.members.iter_mut().for_each(|one| active(&mut one.provisioning));
    }
}
