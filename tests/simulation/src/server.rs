//! A model of the API server with the behaviour that the writer meets: versions, preconditions, namespaces, a watch,
//! and lost answers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use gimbal_kubernetes_objects::{Kind, Meta, Namespace, keys};
use gimbal_plan::{Action, Body};
use gimbal_reconcile::{Reconciler, Watched, WriteFailure, Written};

/// Identifies an object: kind, namespace, name.
pub type Id = (&'static str, String, String);

/// A watch event.
#[derive(Debug, Clone)]
pub enum Event {
    /// An object with our mark was created or changed.
    Is(Body),
    /// An object was deleted, or lost our mark.
    Gone(Body),
    /// A namespace was created (true) or deleted (false).
    Namespace(String, bool),
}

impl Event {
    /// Returns the kind whose watch delivers the event.
    #[must_use]
    pub fn kind(&self) -> Watched {
        match self {
            Self::Is(body) | Self::Gone(body) => match body {
                Body::Service(_) => Watched::Services,
                Body::Slice(_) => Watched::Slices,
                Body::Endpoints(_) => Watched::Endpoints,
            },
            Self::Namespace(..) => Watched::Namespaces,
        }
    }

    /// Delivers the event to a writer.
    pub fn deliver(self, writer: &mut Reconciler, now: Instant) {
        match self {
            Self::Is(Body::Service(object)) => writer.apply_service(&object, now),
            Self::Is(Body::Slice(object)) => writer.apply_slice(&object, now),
            Self::Is(Body::Endpoints(object)) => writer.apply_endpoints(&object, now),
            Self::Gone(Body::Service(object)) => writer.delete_service(&object, now),
            Self::Gone(Body::Slice(object)) => writer.delete_slice(&object, now),
            Self::Gone(Body::Endpoints(object)) => writer.delete_endpoints(&object, now),
            Self::Namespace(name, true) => writer.apply_namespace(&Server::namespace(&name)),
            Self::Namespace(name, false) => writer.delete_namespace(&name),
        }
    }
}

/// The outcome of the next write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Luck {
    /// It is carried out and answered.
    Good,
    /// It is carried out, but the answer is lost.
    AnswerLost,
    /// It is not carried out.
    Refused,
}

/// The state of the server.
#[derive(Debug, Clone, Default)]
pub struct Server {
    /// All stored objects, with or without our mark.
    pub objects: BTreeMap<Id, Body>,
    /// The existing namespaces.
    pub namespaces: BTreeSet<String>,
    /// Events that the watches have yet to deliver.
    pub events: VecDeque<Event>,
    /// Events that the watches never deliver, because of a restoration.
    pub unheard: VecDeque<Event>,
    /// Number of writes that changed something.
    pub writes: usize,
    /// An admission policy: pairs of a kind and a value of the label `label` with which no object of that kind may be
    /// written.
    pub refuses: BTreeSet<(&'static str, String)>,
    /// Kinds of which no object can be created, because a quota is used up.
    pub full: BTreeSet<&'static str>,
    /// The server answers 500 instead of the refusal, as if a webhook that it has to call were down.
    pub webhook_is_down: bool,
    version: u64,
    /// Number of objects ever created. A UID is never used again.
    made: u64,
    /// Watches that continued over a restoration deliver no events up to this version, because they have seen these
    /// versions before.
    deaf: u64,
}

/// A backup of the server's store.
#[derive(Debug, Clone)]
pub struct Backup {
    objects: BTreeMap<Id, Body>,
    namespaces: BTreeSet<String>,
    version: u64,
}

/// Returns the metadata of an object, to edit it as if by hand.
pub fn meta_mut(body: &mut Body) -> &mut Meta {
    match body {
        Body::Service(object) => &mut object.metadata,
        Body::Slice(object) => &mut object.metadata,
        Body::Endpoints(object) => &mut object.metadata,
    }
}

/// Returns the key of an object.
#[must_use]
pub fn id(kind: Kind, meta: &Meta) -> Id {
    (kind.kind, meta.namespace.to_string(), meta.name.to_string())
}

/// Whether the object carries our mark, so that the writer's watch selects it.
#[must_use]
pub fn is_marked(body: &Body) -> bool {
    let mark = if matches!(body, Body::Slice(_)) { keys::SLICE_MANAGED_BY } else { keys::MANAGED_BY };
    body.meta().labels.get(mark).is_some_and(|value| &**value == keys::MANAGER)
}

impl Server {
    fn next_version(&mut self) -> Arc<str> {
        self.version += 1;
        self.version.to_string().into()
    }

    /// Returns what a list of a kind shows now, as events. Of objects it shows those with our mark.
    #[must_use]
    pub fn list(&self, kind: Watched) -> Vec<Event> {
        if kind == Watched::Namespaces {
            return self.namespaces.iter().map(|name| Event::Namespace(name.clone(), true)).collect();
        }
        let ours = self.objects.values().filter(|body| is_marked(body));
        ours.map(|body| Event::Is(body.clone())).filter(|event| event.kind() == kind).collect()
    }

    /// Returns a backup of the present state.
    #[must_use]
    pub fn back_up(&self) -> Backup {
        Backup { objects: self.objects.clone(), namespaces: self.namespaces.clone(), version: self.version }
    }

    /// Restores the store from a backup, so that versions are issued again. Watches that go on deliver nothing until
    /// the version is larger than those they saw; the others list.
    pub fn restore(&mut self, backup: &Backup, watches_go_on: bool) {
        if watches_go_on {
            self.deaf = self.deaf.max(self.version);
        }
        let Backup { objects, namespaces, version } = backup.clone();
        (self.objects, self.namespaces, self.version) = (objects, namespaces, version);
        self.events.clear();
    }

    /// Called when all watches start again with a list.
    pub fn listed(&mut self) {
        self.events.clear();
        self.unheard.clear();
        self.deaf = 0;
    }

    /// Whether watches continued over a restoration. No event reports what they missed.
    #[must_use]
    pub fn is_deaf(&self) -> bool {
        self.deaf > 0
    }

    fn emit(&mut self, event: Event) {
        match self.version > self.deaf {
            true => self.events.push_back(event),
            false => self.unheard.push_back(event),
        }
    }

    /// Stores an object from any sender, and queues a watch event.
    pub fn put(&mut self, mut body: Body) -> Body {
        let id = id(body.kind(), body.meta());
        let old = self.objects.get(&id).cloned();
        let version = self.next_version();
        self.made += u64::from(old.is_none());
        let meta = meta_mut(&mut body);
        meta.uid = old.as_ref().map_or_else(|| format!("uid-{}", self.made).into(), |old| old.meta().uid.clone());
        meta.resource_version = version;
        match (old.as_ref().is_some_and(is_marked), is_marked(&body)) {
            (_, true) => self.emit(Event::Is(body.clone())),
            (true, false) => self.emit(Event::Gone(body.clone())),
            (false, false) => {}
        }
        self.objects.insert(id, body.clone());
        body
    }

    /// Removes an object on anybody's request.
    pub fn remove(&mut self, id: &Id) {
        let Some(mut body) = self.objects.remove(id) else { return };
        meta_mut(&mut body).resource_version = self.next_version();
        if is_marked(&body) {
            self.emit(Event::Gone(body));
        }
    }

    /// Creates a namespace, or removes it with everything in it.
    pub fn set_namespace(&mut self, name: &str, there: bool) {
        if there {
            self.namespaces.insert(name.to_owned());
        } else {
            self.namespaces.remove(name);
            let inside: Vec<Id> = self.objects.keys().filter(|(_, ns, _)| ns == name).cloned().collect();
            for id in inside {
                self.remove(&id);
            }
        }
        self.version += 1;
        self.emit(Event::Namespace(name.to_owned(), there));
    }

    /// Restores the state of `older`, with its versions. Pending events are dropped; the watches have to list.
    pub fn put_back(&mut self, older: &Self) {
        self.objects.clone_from(&older.objects);
        self.namespaces.clone_from(&older.namespaces);
        self.version = older.version;
        self.events.clear();
    }

    /// Handles a write of the writer.
    pub fn write(&mut self, action: &Action, luck: Luck) -> Written {
        if luck == Luck::Refused {
            return Written::Failed(WriteFailure::Api("refused".into()));
        }
        let written = match action {
            Action::Create(body) => self.create(body),
            Action::Replace(body) => self.replace(body),
            Action::Patch(body) => {
                // This is a merge patch: labels and annotations that it does not name stay.
                let mut body = body.clone();
                if let Some(there) = self.objects.get(&id(body.kind(), body.meta())) {
                    let (labels, annotations) = (there.meta().labels.clone(), there.meta().annotations.clone());
                    (meta_mut(&mut body).labels, meta_mut(&mut body).annotations) = (labels, annotations);
                }
                self.replace(&body)
            }
            Action::Delete { kind, namespace, name, uid, resource_version } => {
                let id = (kind.kind, namespace.to_string(), name.to_string());
                match self.objects.get(&id) {
                    None => Written::Gone,
                    Some(there) if there.meta().uid == *uid && there.meta().resource_version == *resource_version => {
                        self.writes += 1;
                        self.remove(&id);
                        Written::Gone
                    }
                    Some(there) => conflict(there),
                }
            }
        };
        if luck == Luck::AnswerLost { Written::Failed(WriteFailure::Api("no answer".into())) } else { written }
    }

    fn admit(&self, body: &Body) -> Result<(), WriteFailure> {
        let label = body.meta().labels.get("label").map(ToString::to_string).unwrap_or_default();
        match self.refuses.contains(&(body.kind().kind, label)) {
            true => Err(WriteFailure::Invalid("an admission policy denies the label".into())),
            false => Ok(()),
        }
    }

    fn create(&mut self, body: &Body) -> Written {
        if !self.namespaces.contains(&*body.meta().namespace) {
            return Written::Failed(WriteFailure::NamespaceMissing);
        }
        match self.objects.get(&id(body.kind(), body.meta())) {
            Some(there) if is_marked(there) => Written::Found(there.clone()),
            Some(_) => Written::Failed(WriteFailure::Foreign),
            None if self.full.contains(body.kind().kind) && self.webhook_is_down => {
                Written::Failed(WriteFailure::Api("the webhook does not answer".into()))
            }
            None if self.full.contains(body.kind().kind) => {
                Written::Failed(WriteFailure::Forbidden("the quota of the namespace is used up".into()))
            }
            None => match self.admit(body) {
                Err(refused) => Written::Failed(refused),
                Ok(()) => {
                    self.writes += 1;
                    Written::Answered(self.put(body.clone()))
                }
            },
        }
    }

    fn replace(&mut self, body: &Body) -> Written {
        match self.objects.get(&id(body.kind(), body.meta())) {
            None => Written::Gone,
            Some(there)
                if there.meta().uid == body.meta().uid
                    && there.meta().resource_version == body.meta().resource_version =>
            {
                if let Err(refused) = self.admit(body) {
                    return Written::Failed(refused);
                }
                self.writes += 1;
                Written::Answered(self.put(body.clone()))
            }
            Some(there) => conflict(there),
        }
    }

    /// Returns a namespace in the form that a watch delivers.
    #[must_use]
    pub fn namespace(name: &str) -> Namespace {
        Namespace { metadata: Meta { name: name.into(), ..Meta::default() } }
    }
}

/// Returns the outcome that the sender reports after a conflict, once it has read the object. An object without the
/// mark is no longer ours.
fn conflict(there: &Body) -> Written {
    match is_marked(there) {
        true => Written::Conflict { there: there.clone() },
        false => Written::Gone,
    }
}
