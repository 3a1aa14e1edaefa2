//! As much of an API server as the writer meets: versions, preconditions, namespaces, a watch, and answers that get lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use gimbal_objects::{Kind, Meta, Namespace, keys};
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
#[derive(Debug, Default)]
pub struct Server {
    /// What it holds, whosever it is.
    pub objects: BTreeMap<Id, Body>,
    /// Which namespaces there are.
    pub namespaces: BTreeSet<String>,
    /// What its watches have yet to tell.
    pub events: VecDeque<Event>,
    /// Writes that changed something.
    pub writes: usize,
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

    /// Stores an object, whoever sends it, and tells the watch.
    pub fn put(&mut self, mut body: Body) -> Body {
        let id = id(body.kind(), body.meta());
        let old = self.objects.get(&id).cloned();
        let version = self.next_version();
        let meta = meta_mut(&mut body);
        meta.uid = old.as_ref().map_or_else(|| format!("uid-{version}").into(), |old| old.meta().uid.clone());
        meta.resource_version = version;
        match (old.as_ref().is_some_and(is_marked), is_marked(&body)) {
            (_, true) => self.events.push_back(Event::Is(body.clone())),
            (true, false) => self.events.push_back(Event::Gone(body.clone())),
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
            self.events.push_back(Event::Gone(body));
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
        self.events.push_back(Event::Namespace(name.to_owned(), there));
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
                    Some(_) => Written::Failed(WriteFailure::Conflict),
                }
            }
        };
        if luck == Luck::AnswerLost { Written::Failed(WriteFailure::Api("no answer".into())) } else { written }
    }

    fn create(&mut self, body: &Body) -> Written {
        if !self.namespaces.contains(&*body.meta().namespace) {
            return Written::Failed(WriteFailure::NamespaceMissing);
        }
        match self.objects.get(&id(body.kind(), body.meta())) {
            Some(there) if is_marked(there) => Written::Found(there.clone()),
            Some(_) => Written::Failed(WriteFailure::Foreign),
            None => {
                self.writes += 1;
                Written::Answered(self.put(body.clone()))
            }
        }
    }

    fn replace(&mut self, body: &Body) -> Written {
        match self.objects.get(&id(body.kind(), body.meta())) {
            None => Written::Gone,
            Some(there)
                if there.meta().uid == body.meta().uid
                    && there.meta().resource_version == body.meta().resource_version =>
            {
                self.writes += 1;
                Written::Answered(self.put(body.clone()))
            }
            Some(_) => Written::Failed(WriteFailure::Conflict),
        }
    }

    /// A namespace as a watch shows it.
    #[must_use]
    pub fn namespace(name: &str) -> Namespace {
        Namespace { metadata: Meta { name: name.into(), ..Meta::default() } }
    }
}
