//! A small API server: versions, finalizers, merge patches, preconditions, and an event log for each kind.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kubernetes_objects::Meta;
use gimbal_kuryr_resource::{ClusterWrite, KuryrKind, NewObject, WriteBody, WriteOutcome, WrittenObject};
use gimbal_kuryr_testkit::merge;
pub use gimbal_kuryr_testkit::{has_finalizer as has, is_going, text};
use serde_json::{Value, json};

pub const SERVICE_FINALIZER: &str = "kuryr.openstack.org/service-finalizer";
pub const BALANCER_FINALIZER: &str = "kuryr.openstack.org/kuryrloadbalancer-finalizers";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Service,
    Slice,
    Balancer,
}

#[derive(Debug, Clone)]
pub struct Change {
    pub deleted: bool,
    pub object: Value,
}

/// What the store holds, by kind and name.
type Objects = BTreeMap<(Kind, String), Value>;

#[derive(Debug, Default)]
pub struct Api {
    version: u64,
    uids: u64,
    pub objects: Objects,
    pub log: BTreeMap<Kind, Vec<Change>>,
    /// Services that have had their finalizer.
    had_finalizer: BTreeSet<String>,
    /// Owners with whose finalizer there was a KuryrLoadBalancer with its own.
    pub protected: BTreeSet<String>,
    /// The version since which a Service has wanted a load balancer, by UID.
    pub wanted_since: BTreeMap<String, u64>,
    /// Owners of which a finalizer was removed by force.
    pub forced: BTreeSet<String>,
    /// A backup of the store: its version, and its objects.
    backup: Option<(u64, Objects)>,
    /// Owners that were there, and are not in the backup that the store went back to. They were not deleted.
    pub undone: BTreeSet<String>,
    /// Those of them whose KuryrLoadBalancer was created, by a write that was on its way, after the store went back.
    pub created_late: BTreeSet<String>,
    /// Owners that the store went back to without the finalizer that they had: they can go without us until they have it again.
    pub unprotected: BTreeSet<String>,
    /// What a webhook makes of objects.
    pub webhook: Option<fn(Kind, &mut Value)>,
    /// The objects whose writes are refused.
    pub refuses: Option<(Kind, String)>,
    /// Which of their writes; all of them if it is unset.
    pub refuses_only: Option<fn(&WriteBody) -> bool>,
}

pub fn wants(service: &Value) -> bool {
    let is_of_others = text(service, "/spec/loadBalancerClass") == "of-others";
    matches!(text(service, "/spec/type"), "LoadBalancer" | "ClusterIP") && !is_of_others && !is_going(service)
}

/// The owner of a KuryrLoadBalancer.
pub fn owner_of(balancer: &Value) -> String {
    let named = text(balancer, "/spec/service_uid");
    if named.is_empty() { text(balancer, "/metadata/uid").to_owned() } else { named.to_owned() }
}

/// The owner that cannot go, for this object has our finalizer.
fn protected_by(kind: Kind, object: &Value) -> Option<String> {
    match kind {
        Kind::Service => has(object, SERVICE_FINALIZER).then(|| text(object, "/metadata/uid").to_owned()),
        Kind::Balancer => has(object, BALANCER_FINALIZER).then(|| owner_of(object)),
        Kind::Slice => None,
    }
}

impl Api {
    pub fn get(&self, kind: Kind, name: &str) -> Option<&Value> {
        self.objects.get(&(kind, name.to_owned()))
    }

    pub fn of(&self, kind: Kind) -> Vec<Value> {
        self.objects.iter().filter(|((of, _), _)| *of == kind).map(|(_, object)| object.clone()).collect()
    }

    /// Stores an object, or removes it if it is going and has no finalizer left. What changes nothing makes no version.
    pub fn store(&mut self, kind: Kind, name: &str, mut object: Value) -> Value {
        if let Some(webhook) = self.webhook {
            webhook(kind, &mut object);
        }
        let old = self.objects.get(&(kind, name.to_owned()));
        if old == Some(&object) {
            return object;
        }
        let before = old.map(|old| old["metadata"]["resourceVersion"].clone());
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let changed = old.is_none_or(|old| old["spec"] != object["spec"] || is_going(old) != is_going(&object));
        if changed && kind == Kind::Balancer {
            object["metadata"]["generation"] = json!(object["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
        }
        let finalizers = object["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
        let deleted = is_going(&object) && !finalizers;
        if deleted {
            self.objects.remove(&(kind, name.to_owned()));
        } else {
            self.objects.insert((kind, name.to_owned()), object.clone());
        }
        self.log.entry(kind).or_default().push(Change { deleted, object: object.clone() });
        self.note(kind, name, &object, deleted);
        if let Some(before) = before.filter(|_| deleted) {
            // Nothing was stored, so the answer has no version of its own.
            object["metadata"]["resourceVersion"] = before;
        }
        object
    }

    fn note(&mut self, kind: Kind, name: &str, object: &Value, deleted: bool) {
        if let Some(owner) = protected_by(kind, object) {
            self.unprotected.remove(&owner);
        }
        let uid = text(object, "/metadata/uid").to_owned();
        if kind == Kind::Service {
            if wants(object) && !deleted {
                self.wanted_since.entry(uid).or_insert(self.version);
            } else {
                self.wanted_since.remove(&uid);
            }
        }
        if kind == Kind::Service && has(object, SERVICE_FINALIZER) {
            self.had_finalizer.insert(text(object, "/metadata/uid").to_owned());
        }
        let balancer = self.get(Kind::Balancer, name);
        if let Some(balancer) = balancer.filter(|balancer| has(balancer, BALANCER_FINALIZER)) {
            let owner = owner_of(balancer);
            let by_itself = owner == text(balancer, "/metadata/uid");
            if by_itself || self.had_finalizer.contains(&owner) {
                self.protected.insert(owner);
            }
        }
    }

    pub fn create(&mut self, kind: Kind, name: &str, mut object: Value) -> Option<Value> {
        if self.get(kind, name).is_some() {
            return None;
        }
        self.uids += 1;
        object["metadata"]["name"] = json!(name);
        object["metadata"]["namespace"] = json!("team");
        object["metadata"]["uid"] = json!(format!("{kind:?}-{}", self.uids));
        object["metadata"]["createdAt"] = json!(self.version + 1);
        if kind == Kind::Balancer && self.undone.contains(&owner_of(&object)) {
            self.created_late.insert(owner_of(&object));
        }
        Some(self.store(kind, name, object))
    }

    pub fn edit(&mut self, kind: Kind, name: &str, edit: impl FnOnce(&mut Value)) -> bool {
        let Some(mut object) = self.get(kind, name).cloned() else { return false };
        edit(&mut object);
        self.store(kind, name, object);
        true
    }

    pub fn delete(&mut self, kind: Kind, name: &str) {
        if self.get(kind, name).is_some_and(|object| !is_going(object)) {
            self.edit(kind, name, |object| object["metadata"]["deletionTimestamp"] = json!("T"));
        }
    }

    /// Whether something may be left of an owner: for the search for orphans.
    pub fn leaves(&self, owner: &str) -> bool {
        [&self.forced, &self.undone, &self.unprotected].iter().any(|owners| owners.contains(owner))
    }

    pub fn back_up(&mut self) {
        self.backup = Some((self.version, self.objects.clone()));
    }

    /// Restores the last backup. Its versions are given out once more.
    pub fn go_back(&mut self) -> bool {
        let Some((version, objects)) = self.backup.clone() else { return false };
        let uids = |objects: &Objects| -> BTreeSet<String> {
            let living = objects.values().filter(|object| !is_going(object));
            living.map(|object| text(object, "/metadata/uid").to_owned()).collect()
        };
        let kept: BTreeSet<String> = objects.values().map(|object| text(object, "/metadata/uid").to_owned()).collect();
        self.undone.extend(uids(&self.objects).difference(&kept).cloned());
        let owners = |objects: &Objects| objects.iter().filter_map(|((kind, _), it)| protected_by(*kind, it)).collect();
        let [now, then]: [BTreeSet<String>; 2] = [owners(&self.objects), owners(&objects)];
        self.unprotected.extend(now.difference(&then).cloned());
        // Who is back is no more undone.
        self.undone.retain(|uid| !kept.contains(uid));
        self.wanted_since.retain(|uid, since| {
            *since = (*since).min(version);
            kept.contains(uid)
        });
        (self.version, self.objects) = (version, objects);
        for (_, service) in self.objects.iter().filter(|((kind, _), _)| *kind == Kind::Service) {
            if wants(service) {
                self.wanted_since.entry(text(service, "/metadata/uid").to_owned()).or_insert(version);
            } else {
                self.wanted_since.remove(text(service, "/metadata/uid"));
            }
        }
        true
    }

    /// Restores the last backup. Versions keep growing and tell nothing.
    pub fn go_back_with_newer_versions(&mut self) -> bool {
        let version = self.version;
        let went = self.go_back();
        self.version = version + 1_000;
        went
    }

    /// What the garbage collector does.
    pub fn collect(&mut self) {
        for balancer in self.of(Kind::Balancer) {
            let name = text(&balancer, "/metadata/name").to_owned();
            let Some(owners) = balancer["metadata"]["ownerReferences"].as_array() else { continue };
            let uid = self.get(Kind::Service, &name).map(|it| text(it, "/metadata/uid").to_owned());
            if !owners.is_empty() && owners.iter().all(|owner| Some(text(owner, "/uid").to_owned()) != uid) {
                self.delete(Kind::Balancer, &name);
            }
        }
    }

    fn checked(&self, kind: Kind, meta: &Meta) -> Result<Value, WriteOutcome> {
        let object = self.get(kind, &meta.name).cloned().ok_or(WriteOutcome::NotFound)?;
        let same = text(&object, "/metadata/uid") == &*meta.uid
            && text(&object, "/metadata/resourceVersion") == &*meta.resource_version;
        if same { Ok(object) } else { Err(WriteOutcome::Conflict) }
    }

    /// Carries out a write. Returns the answer, and the object before it.
    pub fn carry_out(&mut self, write: &ClusterWrite) -> (WriteOutcome, Option<Value>) {
        let kind = if write.object.kind == KuryrKind::LoadBalancer { Kind::Balancer } else { Kind::Service };
        let name = write.object.name.to_string();
        let before = self.get(kind, &name).cloned();
        let is_refused = self.refuses.as_ref().is_some_and(|(of, which)| (*of, which) == (kind, &name));
        if is_refused && write.body != WriteBody::Read && self.refuses_only.is_none_or(|only| only(&write.body)) {
            return (WriteOutcome::Refused("a policy".into()), before);
        }
        let outcome = self.try_write(kind, &name, &write.body).unwrap_or_else(|error| error);
        (outcome, before)
    }

    fn try_write(&mut self, kind: Kind, name: &str, body: &WriteBody) -> Result<WriteOutcome, WriteOutcome> {
        let stored = match body {
            WriteBody::Read => self.get(kind, name).cloned().ok_or(WriteOutcome::NotFound)?,
            WriteBody::Create(NewObject::LoadBalancer(object)) => {
                let mut object = serde_json::to_value(object).unwrap();
                object.as_object_mut().unwrap().remove("status");
                self.create(kind, name, object).ok_or(WriteOutcome::Conflict)?
            }
            WriteBody::Create(NewObject::Router(_)) => return Err(WriteOutcome::NotSent),
            WriteBody::Delete { meta } => {
                self.checked(kind, meta)?;
                self.delete(kind, name);
                return Ok(WriteOutcome::Done(WrittenObject::Deleted));
            }
            WriteBody::Patch { meta, change } => {
                let mut object = self.checked(kind, meta)?;
                let before = object.clone();
                merge(&mut object, change);
                let added = |finalizer| has(&object, finalizer) && !has(&before, finalizer);
                if is_going(&before) && (added(SERVICE_FINALIZER) || added(BALANCER_FINALIZER)) {
                    return Err(WriteOutcome::Refused("no finalizers may be added".into()));
                }
                self.store(kind, name, object)
            }
            WriteBody::PatchStatus { meta, status } => {
                let mut object = self.checked(kind, meta)?;
                merge(&mut object, &json!({ "status": status }));
                let ingress = object.pointer("/status/loadBalancer/ingress").and_then(Value::as_array);
                let outside = kind == Kind::Balancer || text(&object, "/spec/type") == "LoadBalancer";
                if !outside && ingress.is_some_and(|ingress| !ingress.is_empty()) {
                    return Err(WriteOutcome::Refused("only type LoadBalancer has an ingress".into()));
                }
                self.store(kind, name, object)
            }
        };
        Ok(WriteOutcome::Done(match kind {
            Kind::Balancer => WrittenObject::LoadBalancer(Box::new(serde_json::from_value(stored).unwrap())),
            _ => WrittenObject::Service(Box::new(serde_json::from_value(stored).unwrap())),
        }))
    }
}
