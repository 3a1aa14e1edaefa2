//! Octavia's objects, who belongs to whom, and the lock of a load balancer.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use serde_json::Value;

use crate::http::ApiRefusal;
use crate::schema::{ApiKind, Fields};

/// The progress of the last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    PendingCreate,
    PendingUpdate,
    PendingDelete,
    Active,
    Error,
}

impl Progress {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::PendingCreate => "PENDING_CREATE",
            Self::PendingUpdate => "PENDING_UPDATE",
            Self::PendingDelete => "PENDING_DELETE",
            Self::Active => "ACTIVE",
            Self::Error => "ERROR",
        }
    }
}

/// One object.
#[derive(Debug, Clone)]
pub(crate) struct ApiObject {
    pub(crate) kind: ApiKind,
    /// The load balancer of a listener or pool, the pool of a member or monitor, the listener of a policy, the policy of a rule.
    pub(crate) parent: Option<String>,
    pub(crate) project: String,
    pub(crate) fields: Fields,
    pub(crate) provisioning: Progress,
    pub(crate) operating: &'static str,
    pub(crate) created: Duration,
    pub(crate) updated: Option<Duration>,
}

impl ApiObject {
    pub(crate) fn new(kind: ApiKind, parent: Option<&str>, project: &str, fields: Fields, now: Duration) -> Self {
        Self {
            kind,
            parent: parent.map(str::to_owned),
            project: project.to_owned(),
            fields,
            provisioning: Progress::PendingCreate,
            operating: if kind == ApiKind::Member { "NO_MONITOR" } else { "OFFLINE" },
            created: now,
            updated: None,
        }
    }

    pub(crate) fn text(&self, field: &str) -> &str {
        self.fields.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn number(&self, field: &str) -> i64 {
        self.fields.get(field).and_then(Value::as_i64).unwrap_or_default()
    }

    pub(crate) fn is_on(&self, field: &str) -> bool {
        self.fields.get(field).and_then(Value::as_bool).unwrap_or_default()
    }
}

/// All objects. IDs count up, so that the order of IDs is that of creation, unless they are to be in none.
#[derive(Debug, Clone, Default)]
pub(crate) struct ObjectTree {
    objects: BTreeMap<String, ApiObject>,
    /// The IDs of each kind: a list of load balancers does not look at a hundred thousand members.
    kinds: BTreeMap<ApiKind, BTreeSet<String>>,
    children: BTreeMap<String, Vec<String>>,
    made: u64,
    /// Whether IDs are in no order.
    pub(crate) shuffles_ids: bool,
}

impl ObjectTree {
    /// Returns an ID that nothing has had before.
    pub(crate) fn new_id(&mut self) -> String {
        self.made += 1;
        // An odd factor leads each number of 48 bits to another one.
        let n = if self.shuffles_ids { self.made.wrapping_mul(0x9e37_79b9_7f4b) & 0xffff_ffff_ffff } else { self.made };
        uuid(0, n)
    }

    pub(crate) fn insert(&mut self, id: &str, object: ApiObject) {
        if let Some(parent) = &object.parent {
            let siblings = self.children.entry(parent.clone()).or_default();
            let at = siblings.partition_point(|one| one.as_str() < id);
            siblings.insert(at, id.to_owned());
        }
        self.kinds.entry(object.kind).or_default().insert(id.to_owned());
        self.objects.insert(id.to_owned(), object);
    }

    /// Removes an object and everything below it.
    pub(crate) fn remove(&mut self, id: &str) {
        for child in self.children.remove(id).unwrap_or_default() {
            self.remove(&child);
        }
        let Some(gone) = self.objects.remove(id) else { return };
        if let Some(ids) = self.kinds.get_mut(&gone.kind) {
            ids.remove(id);
        }
        let Some(parent) = gone.parent else { return };
        if let Some(siblings) = self.children.get_mut(&parent) {
            siblings.retain(|one| one != id);
        }
        if gone.kind == ApiKind::Pool {
            // A listener whose pool goes has none: the foreign key is set to null.
            for listener in self.ids_below(&parent, ApiKind::Listener) {
                if let Some(listener) = self.objects.get_mut(&listener)
                    && listener.text("default_pool_id") == id
                {
                    listener.fields.insert("default_pool_id", Value::Null);
                }
            }
        }
    }

    pub(crate) fn find(&self, id: &str) -> Option<&ApiObject> {
        self.objects.get(id)
    }

    pub(crate) fn get(&self, kind: ApiKind, id: &str) -> Result<&ApiObject, ApiRefusal> {
        self.objects.get(id).filter(|object| object.kind == kind).ok_or_else(|| ApiRefusal::not_found(kind.name(), id))
    }

    pub(crate) fn get_mut(&mut self, id: &str) -> Option<&mut ApiObject> {
        self.objects.get_mut(id)
    }

    pub(crate) fn all(&self, kind: ApiKind) -> impl Iterator<Item = (&str, &ApiObject)> {
        self.all_after(kind, None)
    }

    /// Returns the objects of a kind whose IDs come after `marker`.
    pub(crate) fn all_after(&self, kind: ApiKind, marker: Option<&str>) -> impl Iterator<Item = (&str, &ApiObject)> {
        let after = (marker.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let ids = self.kinds.get(&kind).into_iter().flat_map(move |ids| ids.range::<str, _>(after));
        ids.filter_map(|id| Some((id.as_str(), self.objects.get(id)?)))
    }

    pub(crate) fn below(&self, parent: &str, kind: ApiKind) -> impl Iterator<Item = (&str, &ApiObject)> {
        let children = self.children.get(parent).map(Vec::as_slice).unwrap_or_default();
        let known = children.iter().filter_map(|id| Some((id.as_str(), self.objects.get(id)?)));
        known.filter(move |(_, object)| object.kind == kind)
    }

    pub(crate) fn ids_below(&self, parent: &str, kind: ApiKind) -> Vec<String> {
        self.below(parent, kind).map(|(id, _)| id.to_owned()).collect()
    }

    /// Returns an object and everything below it.
    pub(crate) fn tree(&self, root: &str) -> Vec<String> {
        let mut found = vec![root.to_owned()];
        let mut at = 0;
        while let Some(id) = found.get(at) {
            let children = self.children.get(id).cloned().unwrap_or_default();
            found.extend(children);
            at += 1;
        }
        found
    }

    /// Returns the load balancer that an object belongs to.
    pub(crate) fn balancer_of(&self, id: &str) -> String {
        let mut id = id;
        while let Some(parent) = self.objects.get(id).and_then(|object| object.parent.as_deref()) {
            id = parent;
        }
        id.to_owned()
    }

    /// Returns the listeners that use a pool: whose default pool it is, or which have a policy that leads there, is up and has
    /// a rule.
    pub(crate) fn listeners_of(&self, pool: &str) -> Vec<String> {
        let balancer = self.balancer_of(pool);
        let leads = |(id, policy): (&str, &ApiObject)| {
            policy.text("redirect_pool_id") == pool
                && policy.is_on("admin_state_up")
                && self.below(id, ApiKind::Rule).next().is_some()
        };
        let uses = |(id, listener): &(&str, &ApiObject)| {
            listener.text("default_pool_id") == pool || self.below(id, ApiKind::Policy).any(leads)
        };
        self.below(&balancer, ApiKind::Listener).filter(uses).map(|(id, _)| id.to_owned()).collect()
    }

    /// Returns the policies that lead to a pool.
    pub(crate) fn policies_to(&self, pool: &str) -> Vec<String> {
        let listeners = self.ids_below(&self.balancer_of(pool), ApiKind::Listener);
        let policies = listeners.iter().flat_map(|listener| self.below(listener, ApiKind::Policy));
        policies.filter(|(_, one)| one.text("redirect_pool_id") == pool).map(|(id, _)| id.to_owned()).collect()
    }

    /// Returns the policies of a listener in their order.
    pub(crate) fn policies_of(&self, listener: &str) -> Vec<String> {
        let mut policies: Vec<_> = self.below(listener, ApiKind::Policy).collect();
        policies.sort_by_key(|(_, policy)| policy.number("position"));
        policies.into_iter().map(|(id, _)| id.to_owned()).collect()
    }

    /// Locks a load balancer for a change of its own: `_test_lb_status`.
    pub(crate) fn lock_for_itself(&mut self, balancer: &str, status: Progress) -> Result<(), ApiRefusal> {
        let was = self.get(ApiKind::LoadBalancer, balancer)?.provisioning.as_str();
        let words = || format!("Invalid state {was} of loadbalancer resource {balancer}");
        self.lock(balancer, status).map_err(|_| ApiRefusal::new(409, words()))
    }

    /// Locks a load balancer for its failover, which one in `ERROR` may have too.
    pub(crate) fn lock_for_failover(&mut self, balancer: &str) -> Result<(), ApiRefusal> {
        if self.get(ApiKind::LoadBalancer, balancer)?.provisioning == Progress::Error {
            self.mark(balancer, Progress::PendingUpdate);
            return Ok(());
        }
        self.lock_for_itself(balancer, Progress::PendingUpdate)
    }

    /// Locks a load balancer for a change of something below it: `test_and_set_provisioning_status`.
    pub(crate) fn lock(&mut self, balancer: &str, status: Progress) -> Result<(), ApiRefusal> {
        let object = self.objects.get_mut(balancer).ok_or_else(|| ApiRefusal::not_found("Load Balancer", balancer))?;
        let free = match object.provisioning {
            Progress::Active => true,
            Progress::Error => status == Progress::PendingDelete,
            _ => false,
        };
        if !free {
            return Err(ApiRefusal::immutable("Load Balancer", balancer));
        }
        object.provisioning = status;
        Ok(())
    }

    /// Marks an object as changing.
    pub(crate) fn mark(&mut self, id: &str, status: Progress) {
        if let Some(object) = self.objects.get_mut(id) {
            object.provisioning = status;
        }
    }
}

/// Returns the `n`th ID of a series.
pub(crate) fn uuid(series: u16, n: u64) -> String {
    format!("00000000-{series:04x}-4000-8000-{n:012x}")
}
