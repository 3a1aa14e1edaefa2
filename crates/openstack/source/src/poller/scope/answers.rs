//! Applies answers to a scope.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use gimbal_octavia_rows::{
    CompleteList, Existence, Id, L7Policy, Listener, LoadBalancer, Member, ObjectKind, Pool, Reading,
};

use super::{ScopePoller, Stage};
use crate::lists::merge;
use crate::members::PoolMembers;
use crate::options::PollOptions;
use crate::outcome::PollTrouble;
use crate::poller::poll::Poll;
use crate::query::{ListScope, MembersError, Query};

impl ScopePoller {
    fn project(&self) -> Option<&Id> {
        match &self.list_scope {
            ListScope::AllProjects => None,
            ListScope::Project(id) => Some(id),
        }
    }

    /// Called when a list failed: this poll shows nothing of the scope.
    pub(in crate::poller) fn list_failed(&mut self, kind: ObjectKind, reason: String, poll: &mut Poll) {
        self.run.waiting -= 1;
        let trouble = PollTrouble::List { kind, project: self.project().cloned(), reason };
        self.run.failed.get_or_insert_with(|| trouble.to_string());
        poll.outcome.troubles.push(trouble);
    }

    pub(in crate::poller) fn load_balancers(&mut self, mut list: CompleteList<LoadBalancer>) {
        self.run.waiting -= 1;
        if let ListScope::Project(id) = &self.list_scope {
            // The list is not filtered by project, and the token may see other projects.
            list.rows.retain(|row| row.project == *id);
        }
        self.run.load_balancers = Some(list);
    }

    pub(in crate::poller) fn listeners(&mut self, list: CompleteList<Listener>) {
        self.run.waiting -= 1;
        self.run.listeners = Some(list);
    }

    pub(in crate::poller) fn pools(&mut self, list: CompleteList<Pool>) {
        self.run.waiting -= 1;
        self.run.pools = Some(list);
    }

    pub(in crate::poller) fn policies(&mut self, list: CompleteList<L7Policy>, poll: &mut Poll) {
        self.run.waiting -= 1;
        let Some(lists) = &mut self.run.lists else { return };
        let (at, whole) = (list.server_time, list.unreadable.is_empty());
        lists.policies = merge(list, Some(&self.lists.policies), &mut poll.outcome.troubles);
        let of = lists.listeners.iter().filter_map(|listener| {
            // If a row could not be read, this reading is not recorded, and the next poll lists the policies again.
            let policies = listener.l7_policies.clone().filter(|policies| whole && !policies.is_empty())?;
            let before = self.policies_of.get(&listener.id).map(|(_, reading)| reading);
            Some((listener.id.clone(), (policies, Reading::new(listener.updated_at, at, before))))
        });
        self.run.policies_of = Some(of.collect());
    }

    /// Applies the lookup of one load balancer of a project that vanished from the list.
    pub(in crate::poller) fn existence(&mut self, id: &Id, existence: Result<Existence, String>, poll: &mut Poll) {
        if self.run.stage == Stage::Proving {
            return self.proof(id.clone(), existence);
        }
        self.run.waiting -= 1;
        let Some(project) = self.standings.get(id).map(|standing| standing.project.clone()) else { return };
        let forbidden = existence == Ok(Existence::Forbidden);
        let why = match existence {
            Ok(Existence::Gone) => return,
            Ok(Existence::Found) => "is there".to_owned(),
            Ok(Existence::Forbidden) => "is forbidden: a role was lost".to_owned(),
            Err(reason) => format!("could not be asked for: {reason}"),
        };
        let trouble = PollTrouble::ProjectUnseen { project: project.clone(), load_balancer: id.clone(), why };
        if forbidden {
            // The lost role makes the other lists incomplete, too.
            self.run.failed.get_or_insert_with(|| trouble.to_string());
            self.run.waiting -= poll.forget(|ask| matches!(ask, Query::LoadBalancer(..) | Query::Roles(_)));
        }
        self.run.unseen.insert(project, trouble.to_string());
        poll.outcome.troubles.push(trouble);
    }

    /// Applies the token's present roles. With a role lost, vanished projects may only be hidden, and other objects
    /// too, so the scope fails. It does not if each list still shows other projects' objects: then the role was not
    /// needed to see them.
    pub(in crate::poller) fn roles(
        &mut self,
        missing: Result<Vec<String>, String>,
        options: &PollOptions,
        poll: &mut Poll,
    ) {
        self.run.waiting -= 1;
        let trouble = match missing {
            Ok(roles) if roles.is_empty() => return,
            Ok(roles) => PollTrouble::RoleLost { roles },
            Err(reason) => PollTrouble::RolesUnknown { reason },
        };
        let lost = matches!(trouble, PollTrouble::RoleLost { .. });
        let sees_others = options.own.as_ref().is_some_and(|own| self.sees_others(own));
        if lost && !sees_others {
            self.run.failed.get_or_insert_with(|| trouble.to_string());
        } else if !lost || options.second_look.is_some() {
            self.run.roles_doubted = true;
            let vanished = self.run.vanished.iter();
            self.run.unseen.extend(vanished.map(|project| (project.clone(), trouble.to_string())));
        }
        poll.outcome.troubles.push(trouble);
    }

    /// Returns whether each list of this poll shows objects of other projects.
    fn sees_others(&self, own: &Id) -> bool {
        let Some(lists) = &self.run.lists else { return false };
        let is_others = |row: &&Arc<LoadBalancer>| row.project != *own && !row.project.is_no_owner();
        let others: HashMap<&Id, &Arc<LoadBalancer>> =
            lists.load_balancers.listed().filter(is_others).map(|row| (&row.id, row)).collect();
        let names = |ids: &[Id]| ids.iter().any(|id| others.contains_key(id));
        let listeners = others.values().all(|row| row.listeners.is_empty())
            || lists.listeners.listed().any(|row| names(&row.load_balancers));
        let pools = others.values().all(|row| row.pools.is_empty())
            || lists.pools.listed().any(|row| names(&row.load_balancers));
        !others.is_empty() && listeners && pools
    }

    /// Records the lookup of an object that one list names and another lacks.
    pub(in crate::poller) fn proof(&mut self, id: Id, existence: Result<Existence, String>) {
        self.run.waiting -= 1;
        self.run.proofs.insert(id, existence);
    }

    pub(in crate::poller) fn members(
        &mut self,
        pool: Id,
        members: Result<CompleteList<Member>, MembersError>,
        now: Instant,
        poll: &mut Poll,
    ) {
        self.run.waiting -= 1;
        let reason = match members {
            Ok(list) => {
                let row = self.run.lists.as_ref().and_then(|lists| lists.pools.get(&pool));
                let seen = row.and_then(|row| row.updated_at);
                let read = PoolMembers::new(list, seen, now, self.members.get(&pool), &mut poll.outcome.troubles);
                self.members.insert(pool, read);
                return;
            }
            Err(MembersError::PoolGone) => {
                self.run.gone.insert(pool.clone());
                "the pool is listed, and gone".to_owned()
            }
            Err(MembersError::Failed(reason)) => reason,
        };
        self.run.unread.insert(pool.clone());
        poll.outcome.troubles.push(PollTrouble::Members { pool, reason });
    }
}
