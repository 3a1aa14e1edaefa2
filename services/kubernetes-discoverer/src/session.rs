//! One source, as long as it stays the same one: its watches' events in, its Services to the stream's end out. No I/O.
//!
//! Absence is believed only when it is proven: a whole list, of a source that is still the one it was when the list came
//! to its end. Another cluster behind the same address would otherwise look like one from which everything was deleted.

use std::sync::Arc;
use std::time::Instant;

use gimbal_kube_io::{ApiError, WatchEvent};
use gimbal_model::{Service, SourceKey};
use gimbal_objects::{self as objects, Object};
use gimbal_stream::{AgentConfig, AgentEnd, Freshness, Scope};
use gimbal_translate::{Flavour, KubernetesIndex, Selection};

#[cfg(test)]
mod tests;

use crate::health::{KindHealth, Watched};

/// What the watches tell.
#[derive(Debug)]
pub(crate) enum SourceEvent {
    Service(WatchEvent<objects::Service>),
    Slice(WatchEvent<objects::EndpointSlice>),
    Endpoints(WatchEvent<objects::Endpoints>),
}

/// Something that the owner logs and counts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    Failed(Watched, ApiError),
    Relisted(Watched),
}

/// A source and what is said of it on the stream.
pub(crate) struct Session {
    pub(crate) agent: AgentEnd,
    index: KubernetesIndex,
    flavour: Flavour,
    services: KindHealth,
    slices: KindHealth,
    incarnation: Option<String>,
    /// Lists that are whole, but count only once the source is known to be the same.
    unproven: Vec<Watched>,
    /// The number of the last question for the incarnation.
    asked: u64,
    slices_missing: bool,
    told: Told,
}

/// What the stream's end was last told of the source as a whole.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Complete,
    Unknown(String),
}

/// Services that changed, with their newest state.
pub(crate) type Changed = Vec<(SourceKey, Option<Arc<Service>>)>;

impl Session {
    /// `asked`: the last question for an incarnation that another session asked. Answers to it are none of ours.
    pub(crate) fn new(config: AgentConfig, selection: Selection, asked: u64) -> Self {
        Self {
            agent: AgentEnd::new(config),
            flavour: selection.flavour,
            index: KubernetesIndex::new(selection),
            services: KindHealth::default(),
            slices: KindHealth::default(),
            incarnation: None,
            unproven: Vec::new(),
            asked,
            slices_missing: false,
            told: Told::Nothing,
        }
    }

    /// Takes an event of a watch.
    pub(crate) fn event(&mut self, event: SourceEvent, now: Instant) -> Option<Notice> {
        use KubernetesIndex as Index;
        match event {
            SourceEvent::Service(event) => {
                self.take(Watched::Services, event, Index::apply_service, Index::delete_service, now)
            }
            SourceEvent::Slice(event) => {
                // Before anything was listed this is the whole API that is not there, not a right or a server.
                let missing = matches!(event, WatchEvent::Failed(ApiError::NotFound { .. }));
                self.slices_missing = missing && self.slices.age(now).is_none();
                self.take(Watched::Slices, event, Index::apply_slice, Index::delete_slice, now)
            }
            SourceEvent::Endpoints(event) => {
                self.take(Watched::Slices, event, Index::apply_endpoints, Index::delete_endpoints, now)
            }
        }
    }

    fn take<T: Object>(
        &mut self,
        kind: Watched,
        event: WatchEvent<T>,
        apply: fn(&mut KubernetesIndex, T),
        delete: fn(&mut KubernetesIndex, &str, &str),
        now: Instant,
    ) -> Option<Notice> {
        if !matches!(event, WatchEvent::Failed(_)) {
            self.health_mut(kind).heard(now);
        }
        match event {
            WatchEvent::Alive => {}
            WatchEvent::ListBegin => {
                self.unproven.retain(|other| *other != kind);
                match kind {
                    Watched::Services => self.index.begin_services(),
                    Watched::Slices => self.index.begin_slices(),
                }
            }
            WatchEvent::Listed(page) => page.into_iter().for_each(|object| apply(&mut self.index, object)),
            WatchEvent::ListDone => {
                if self.incarnation.is_some() {
                    self.asked += 1;
                    self.unproven.push(kind);
                    self.health_mut(kind)
                        .awaits("the source was listed, but not yet found to be the same as before", now);
                } else {
                    self.end(kind, now);
                }
                return Some(Notice::Relisted(kind));
            }
            WatchEvent::Applied(object) => apply(&mut self.index, object),
            WatchEvent::Deleted(object) => delete(&mut self.index, &object.meta().namespace, &object.meta().name),
            WatchEvent::Failed(error) => {
                self.health_mut(kind).failed(&error, now);
                return Some(Notice::Failed(kind, error));
            }
        }
        None
    }

    fn end(&mut self, kind: Watched, now: Instant) {
        match kind {
            Watched::Services => self.index.end_services(),
            Watched::Slices => self.index.end_slices(),
        }
        self.health_mut(kind).listed(now);
    }

    /// The source's incarnation, as found by a question that was asked after `asked` of them were wanted. False: this is
    /// another source, and nothing that this session holds is true of it.
    pub(crate) fn found_incarnation(&mut self, incarnation: &str, asked: u64, now: Instant) -> bool {
        match &self.incarnation {
            None => {
                self.incarnation = Some(incarnation.to_owned());
                self.agent.set_incarnation(incarnation.to_owned());
            }
            Some(known) if known != incarnation => return false,
            Some(_) => {}
        }
        if asked >= self.asked {
            for kind in std::mem::take(&mut self.unproven) {
                self.end(kind, now);
            }
        }
        true
    }

    /// Hands on what changed, once the events at hand are taken.
    pub(crate) fn settle(&mut self, now: Instant) -> Changed {
        self.services.tick(now);
        self.slices.tick(now);
        self.index.set_slices_current(self.slices.is_current());
        let changed = self.index.drain();
        for (key, service) in &changed {
            self.agent.set(key.clone(), service.clone(), now);
        }
        let told = match self.lost() {
            Some(reason) => Told::Unknown(reason),
            None if self.index.is_complete() => Told::Complete,
            None => Told::Nothing,
        };
        if told != self.told {
            match &told {
                Told::Unknown(reason) => self.agent.scope_unknown(Scope::All, reason.clone()),
                Told::Complete => self.agent.source_complete(now),
                Told::Nothing => {}
            }
            self.told = told;
        }
        changed
    }

    fn lost(&self) -> Option<String> {
        let lost: Vec<_> =
            self.kinds().filter_map(|(name, health)| Some(format!("{name}: {}", health.lost()?))).collect();
        (!lost.is_empty()).then(|| lost.join("; "))
    }

    fn health_mut(&mut self, kind: Watched) -> &mut KindHealth {
        match kind {
            Watched::Services => &mut self.services,
            Watched::Slices => &mut self.slices,
        }
    }

    fn kinds(&self) -> impl Iterator<Item = (&'static str, &KindHealth)> {
        [(self.name(Watched::Services), &self.services), (self.name(Watched::Slices), &self.slices)].into_iter()
    }

    /// What a kind is called towards people and the writer.
    pub(crate) fn name(&self, kind: Watched) -> &'static str {
        match (kind, self.flavour) {
            (Watched::Services, _) => "services",
            (Watched::Slices, Flavour::Slices) => "endpointslices",
            (Watched::Slices, Flavour::Endpoints) => "endpoints",
        }
    }

    /// When the source last said anything about each kind.
    pub(crate) fn freshness(&self, now: Instant) -> Vec<Freshness> {
        self.kinds().map(|(kind, health)| Freshness { kind: kind.to_owned(), age: health.age(now) }).collect()
    }

    /// What is wrong with the source now, in one line.
    pub(crate) fn trouble(&self) -> Option<String> {
        let trouble: Vec<_> =
            self.kinds().filter_map(|(name, health)| Some(format!("{name}: {}", health.trouble()?))).collect();
        (!trouble.is_empty()).then(|| trouble.join("; "))
    }

    /// When [`settle`](Self::settle) has something to say without an event.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.kinds().filter_map(|(_, health)| health.deadline()).min()
    }

    /// The cluster has no `EndpointSlices`: it answers for Services, and has no such API.
    pub(crate) fn lacks_slices(&self, now: Instant) -> bool {
        self.slices_missing && self.services.age(now).is_some()
    }

    /// How many times the incarnation was asked for. A watch on it wakes whoever finds it out.
    pub(crate) fn asked(&self) -> u64 {
        self.asked
    }

    /// What the source is, once that is known.
    pub(crate) fn incarnation(&self) -> Option<&str> {
        self.incarnation.as_deref()
    }

    /// Why the source is not fully known, as the writer was told.
    pub(crate) fn unknown(&self) -> Option<&str> {
        match &self.told {
            Told::Unknown(reason) => Some(reason),
            _ => None,
        }
    }

    /// Everything of the source is known now.
    pub(crate) fn is_complete(&self) -> bool {
        self.told == Told::Complete
    }

    /// What is left out, by reason, and why.
    pub(crate) fn index(&self) -> &KubernetesIndex {
        &self.index
    }
}
