//! As much of an API server as the writer meets: versions, preconditions, namespaces, a watch, and answers that get lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use gimbal_kubernetes_objects::{Kind, Meta, Namespace, keys};
use gimbal_plan::{Action, Body};
use gimbal_reconcile::{WriteFailure, Written};

/// Kind, namespace, name.
pub type Id = (&'static str, String, String);

/// What a watch tells.
#[derive(Debug, Clone)]
pub enum Event {
    /// An object with our mark is there, as it is now.
    Is(Body),
    /// It is gone, or bears the mark no more.
    Gone(Body),
    /// A namespace is there, or gone.
    Namespace(String, bool),
}

/// How the next write goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Luck {
    /// It is done.
    Good,
    /// It is done, but nobody hears so.
    AnswerLost,
    /// It is not done.
    Refused,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Server {
    /// What it holds, whosever it is.
    pub objects: BTreeMap<Id, Body>,
    /// Which namespaces there are.
    pub namespaces: BTreeSet<String>,
    /// What its watches have yet to tell.
    pub events: VecDeque<Event>,
    /// What its watches never tell.
    pub unheard: VecDeque<Event>,
    /// Writes that changed something.
    pub writes: usize,
    /// An admission policy: kinds, and the value of the label `label` that no object of that kind may be written with.
    pub refuses: BTreeSet<(&'static str, String)>,
    /// A quota that is used up: of these kinds nothing is created.
    pub full: BTreeSet<&'static str>,
    /// It says 500 instead, as where a webhook that it has to ask is down.
    pub webhook_is_down: bool,
    version: u64,
    /// Objects that were ever made: a UID never comes back.
    made: u64,
    /// Watches that went on over a restoration tell nothing up to this version, for they were there before.
    deaf: u64,
}

/// What the server held at a moment.
#[derive(Debug, Clone)]
pub struct Backup {
    objects: BTreeMap<Id, Body>,
    namespaces: BTreeSet<String>,
    version: u64,
}

/// The metadata of an object, to be edited as a hand would.
pub fn meta_mut(body: &mut Body) -> &mut Meta {
    match body {
        Body::Service(object) => &mut object.metadata,
        Body::Slice(object) => &mut object.metadata,
        Body::Endpoints(object) => &mut object.metadata,
    }
}

/// The key of an object.
#[must_use]
pub fn id(kind: Kind, meta: &Meta) -> Id {
    (kind.kind, meta.namespace.to_string(), meta.name.to_string())
}

/// Whether the writer's watch selects it.
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

    /// What it holds now.
    #[must_use]
    pub fn back_up(&self) -> Backup {
        Backup { objects: self.objects.clone(), namespaces: self.namespaces.clone(), version: self.version }
    }

    /// Its store is put back to what it was: versions are given out again. Watches that go on where they were hear of nothing
    /// until the versions that they saw are behind; the others list.
    pub fn restore(&mut self, backup: &Backup, watches_go_on: bool) {
        if watches_go_on {
            self.deaf = self.deaf.max(self.version);
        }
        let Backup { objects, namespaces, version } = backup.clone();
        (self.objects, self.namespaces, self.version) = (objects, namespaces, version);
        self.events.clear();
    }

    /// Its watches begin anew, with a list.
    pub fn listed(&mut self) {
        self.events.clear();
        self.unheard.clear();
        self.deaf = 0;
    }

    /// Whether its watches went on over a restoration: what they missed is told by no event.
    #[must_use]
    pub fn is_deaf(&self) -> bool {
        self.deaf > 0
    }

    fn tell(&mut self, event: Event) {
        match self.version > self.deaf {
            true => self.events.push_back(event),
            false => self.unheard.push_back(event),
        }
    }

    /// Stores an object, whoever sends it, and tells the watch.
    pub fn put(&mut self, mut body: Body) -> Body {
        let id = id(body.kind(), body.meta());
        let old = self.objects.get(&id).cloned();
        let version = self.next_version();
        self.made += u64::from(old.is_none());
        let meta = meta_mut(&mut body);
        meta.uid = old.as_ref().map_or_else(|| format!("uid-{}", self.made).into(), |old| old.meta().uid.clone());
        meta.resource_version = version;
        match (old.as_ref().is_some_and(is_marked), is_marked(&body)) {
            (_, true) => self.tell(Event::Is(body.clone())),
            (true, false) => self.tell(Event::Gone(body.clone())),
            (false, false) => {}
        }
        self.objects.insert(id, body.clone());
        body
    }

    /// Removes an object, whoever asks.
    pub fn remove(&mut self, id: &Id) {
        let Some(mut body) = self.objects.remove(id) else { return };
        meta_mut(&mut body).resource_version = self.next_version();
        if is_marked(&body) {
            self.tell(Event::Gone(body));
        }
    }

    /// Makes a namespace be there, or takes it away with all that is in it.
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
        self.tell(Event::Namespace(name.to_owned(), there));
    }

    /// Becomes what it was, with the versions that it had then. Its watches hear nothing of that.
    pub fn put_back(&mut self, older: &Self) {
        self.objects.clone_from(&older.objects);
        self.namespaces.clone_from(&older.namespaces);
        self.version = older.version;
        self.events.clear();
    }

    /// Takes a write of the writer.
    pub fn write(&mut self, action: &Action, luck: Luck) -> Written {
        if luck == Luck::Refused {
            return Written::Failed(WriteFailure::Api("refused".into()));
        }
        let written = match action {
            Action::Create(body) => self.create(body),
            Action::Replace(body) => self.replace(body),
            Action::Patch(body) => {
                // A merge patch: labels and annotations stay.
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

    /// A namespace as a watch shows it.
    #[must_use]
    pub fn namespace(name: &str) -> Namespace {
        Namespace { metadata: Meta { name: name.into(), ..Meta::default() } }
    }
}

/// What whoever sent the write tells of it, once it has looked what is there: what bears no mark is not ours any more.
fn conflict(there: &Body) -> Written {
    match is_marked(there) {
        true => Written::Conflict { there: there.clone() },
        false => Written::Gone,
    }
}
