//! A small API server: versions, finalizers, merge patches, preconditions, and an event log for each kind.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kubernetes_objects::Meta;
use gimbal_kuryr_resource::{ClusterWrite, KuryrKind, NewObject, WriteBody, WriteOutcome, WrittenObject};
use gimbal_kuryr_testkit::merge;
pub use gimbal_kuryr_testkit::{has_finalizer as has, is_going, text};
use serde_json::{Value, json};

pub const INGRESS_FINALIZER: &str = "kuryr.openstack.org/ingress-finalizer";
pub const ROUTER_FINALIZER: &str = "kuryr.openstack.org/l7router-finalizer";
pub const ANNOTATION: &str = "kuryr.openstack.org/l7-router";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Ingress,
    Class,
    Router,
    Secret,
}

#[derive(Debug, Clone)]
pub struct Change {
    pub deleted: bool,
    pub object: Value,
}

/// What the store holds, by kind, namespace and name.
type Objects = BTreeMap<(Kind, String), Value>;

#[derive(Debug, Default)]
pub struct Api {
    version: u64,
    uids: u64,
    pub objects: Objects,
    pub log: BTreeMap<Kind, Vec<Change>>,
    /// Routers and Ingresses that have had their finalizer, by UID.
    pub protected: BTreeSet<String>,
    /// Owners of which a finalizer was removed by force.
    pub forced: BTreeSet<String>,
    /// Routers that were deleted.
    pub deleted: BTreeSet<String>,
    /// Since which version an Ingress asks for the router that it asks for, by UID.
    pub asks_since: BTreeMap<String, (String, u64)>,
    backup: Option<(u64, Objects)>,
    /// Owners that were there, and are not in the backup that the store went back to. They were not deleted.
    pub undone: BTreeSet<String>,
    /// The objects whose writes are refused.
    pub refuses: Option<(Kind, String)>,
    /// The object whose status is refused.
    pub refuses_status: Option<(Kind, String)>,
    /// What a webhook makes of objects.
    pub webhook: Option<fn(Kind, &mut Value)>,
}

/// The router that an Ingress asks for.
pub fn asks_for(ingress: &Value) -> Option<String> {
    let is_ours = !is_going(ingress) && text(ingress, "/spec/ingressClassName") == "kuryr";
    is_ours.then(|| annotated_router(ingress))
}

/// The router that it would ask for, were it ours.
pub fn annotated_router(ingress: &Value) -> String {
    let annotation = ingress["metadata"]["annotations"][ANNOTATION].as_str();
    match annotation.and_then(|it| it.strip_prefix("group:")) {
        Some(group) => format!("team/{group}"),
        None if annotation == Some("own") => format!("team/{}", text(ingress, "/metadata/name")),
        None => "gimbal/kuryr-l7-router".to_owned(),
    }
}

/// The Ingresses that a router's spec names.
pub fn named(router: &Value) -> BTreeSet<String> {
    let routes = router["spec"]["routes"].as_array().cloned().unwrap_or_default();
    let default = router["spec"]["defaultIngress"].as_str().map(str::to_owned);
    routes.iter().map(|route| text(route, "/ingress").to_owned()).chain(default).collect()
}

pub fn name_of(object: &Value) -> String {
    format!("{}/{}", text(object, "/metadata/namespace"), text(object, "/metadata/name"))
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
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if old.is_none_or(|old| old["spec"] != object["spec"] || is_going(old) != is_going(&object)) {
            object["metadata"]["generation"] = json!(object["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
            object["metadata"]["specVersion"] = json!(self.version);
        }
        let finalizers = object["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
        let deleted = is_going(&object) && !finalizers;
        if deleted {
            self.objects.remove(&(kind, name.to_owned()));
        } else {
            self.objects.insert((kind, name.to_owned()), object.clone());
        }
        self.log.entry(kind).or_default().push(Change { deleted, object: object.clone() });
        self.note(kind, &object);
        object
    }

    fn note(&mut self, kind: Kind, object: &Value) {
        let uid = text(object, "/metadata/uid").to_owned();
        if has(object, INGRESS_FINALIZER) || has(object, ROUTER_FINALIZER) {
            self.protected.insert(uid.clone());
        }
        if kind == Kind::Router && is_going(object) {
            self.deleted.insert(uid.clone());
        }
        if kind == Kind::Ingress {
            match asks_for(object) {
                Some(router) => match self.asks_since.get(&uid) {
                    Some((before, _)) if *before == router => {}
                    _ => drop(self.asks_since.insert(uid, (router, self.version))),
                },
                None => drop(self.asks_since.remove(&uid)),
            }
        }
    }

    pub fn create(&mut self, kind: Kind, name: &str, mut object: Value) -> Option<Value> {
        if self.get(kind, name).is_some() {
            return None;
        }
        self.uids += 1;
        let (namespace, short) = name.split_once('/').unwrap_or(("", name));
        object["metadata"]["name"] = json!(short);
        object["metadata"]["namespace"] = json!(namespace);
        object["metadata"]["uid"] = json!(format!("{kind:?}-{}", self.uids));
        object["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:{:02}Z", self.uids % 60));
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
        self.forced.contains(owner) || self.undone.contains(owner)
    }

    pub fn back_up(&mut self) {
        self.backup = Some((self.version, self.objects.clone()));
    }

    /// Restores the last backup. Its versions are given out once more.
    pub fn go_back(&mut self) -> bool {
        let Some((version, objects)) = self.backup.clone() else { return false };
        let uid = |object: &Value| text(object, "/metadata/uid").to_owned();
        let kept: BTreeSet<String> = objects.values().map(uid).collect();
        let protected: BTreeSet<String> = objects.values().filter(|it| has(it, ROUTER_FINALIZER)).map(uid).collect();
        let before = self.objects.values().filter(|object| !is_going(object)).map(uid);
        self.undone.extend(before.filter(|uid| !kept.contains(uid)));
        // What is not there any more is left to the search for orphans, also if somebody has deleted it. One that is there without its
        // finalizer can go without us until it has that again.
        self.forced.extend(self.objects.values().map(uid).filter(|uid| !protected.contains(uid)));
        // Who is back is no more undone, and was not deleted.
        self.undone.retain(|uid| !kept.contains(uid));
        let is_back = |uid: &str| objects.values().any(|it| text(it, "/metadata/uid") == uid && !is_going(it));
        self.deleted.retain(|uid| !is_back(uid));
        (self.version, self.objects) = (version, objects);
        self.asks_since.clear();
        for object in self.objects.clone().into_values() {
            if text(&object, "/metadata/uid").starts_with("Ingress") {
                self.note(Kind::Ingress, &object);
            }
        }
        true
    }

    fn checked(&self, kind: Kind, meta: &Meta) -> Result<Value, WriteOutcome> {
        let name = format!("{}/{}", meta.namespace, meta.name);
        let object = self.get(kind, &name).cloned().ok_or(WriteOutcome::NotFound)?;
        let same = text(&object, "/metadata/uid") == &*meta.uid
            && text(&object, "/metadata/resourceVersion") == &*meta.resource_version;
        if same { Ok(object) } else { Err(WriteOutcome::Conflict) }
    }

    /// Carries out a write. Returns the answer, and the object before it.
    pub fn carry_out(&mut self, write: &ClusterWrite) -> (WriteOutcome, Option<Value>) {
        let kind = if write.object.kind == KuryrKind::Router { Kind::Router } else { Kind::Ingress };
        let name = format!("{}/{}", write.object.namespace, write.object.name);
        let before = self.get(kind, &name).cloned();
        let is_it = |refused: &Option<(Kind, String)>| refused == &Some((kind, name.clone()));
        let is_status = matches!(write.body, WriteBody::PatchStatus { .. });
        let is_refused = is_it(&self.refuses) || (is_status && is_it(&self.refuses_status));
        if is_refused && write.body != WriteBody::Read {
            return (WriteOutcome::Refused("a policy".into()), before);
        }
        (self.try_write(kind, &name, &write.body).unwrap_or_else(|error| error), before)
    }

    fn try_write(&mut self, kind: Kind, name: &str, body: &WriteBody) -> Result<WriteOutcome, WriteOutcome> {
        let stored = match body {
            WriteBody::Read => self.get(kind, name).cloned().ok_or(WriteOutcome::NotFound)?,
            WriteBody::Create(NewObject::Router(object)) => {
                let mut object = serde_json::to_value(object).unwrap();
                object.as_object_mut().unwrap().remove("status");
                self.create(kind, name, object).ok_or(WriteOutcome::Conflict)?
            }
            WriteBody::Create(other) => panic!("{other:?}"),
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
                if is_going(&before) && (added(INGRESS_FINALIZER) || added(ROUTER_FINALIZER)) {
                    return Err(WriteOutcome::Refused("no finalizers may be added".into()));
                }
                self.store(kind, name, object)
            }
            WriteBody::PatchStatus { meta, status } => {
                let mut object = self.checked(kind, meta)?;
                merge(&mut object, &json!({ "status": status }));
                self.store(kind, name, object)
            }
        };
        Ok(WriteOutcome::Done(match kind {
            Kind::Router => WrittenObject::Router(Box::new(serde_json::from_value(stored).unwrap())),
            _ => WrittenObject::Ingress(Box::new(serde_json::from_value(stored).unwrap())),
        }))
    }
}
