//! The join itself.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;
use std::sync::Arc;

use gimbal_model::SourceKey;

use crate::ServiceRecord;
use crate::listing::Listing;
use crate::service_record::Put;

/// What a [`Join`] keeps of the objects, and what it makes of them.
pub trait JoinOutput {
    /// What is kept of a Service. Two equal headers count as no change.
    type Header: PartialEq + Debug;
    /// What is kept of a slice, or whatever else belongs to a Service. Two equal parts count as no change.
    type Part: PartialEq + Debug;
    /// What a Service and its parts are turned into.
    type Value;

    /// Returns the value for a Service, or `None` if it has none, for instance because it is filtered out. The result must
    /// depend on the arguments alone. Parts come in the order of their objects' names.
    fn join<'a>(header: &Self::Header, parts: impl Iterator<Item = &'a Self::Part>) -> Option<Self::Value>
    where
        Self::Part: 'a;

    /// Called when a header enters the join.
    fn header_added(&mut self, _header: &Self::Header) {}

    /// Called when a header leaves the join.
    fn header_removed(&mut self, _header: &Self::Header) {}

    /// Called when a part enters the join, whether or not its Service has been seen.
    fn part_added(&mut self, _part: &Self::Part) {}

    /// Called when a part leaves the join.
    fn part_removed(&mut self, _part: &Self::Part) {}
}

/// Services joined with their parts, kept up to date event by event.
///
/// Events may arrive in any order and more than once; the outcome depends only on the last state of each object. An event
/// costs no more than the size of the Service it belongs to.
#[derive(Debug)]
pub struct Join<O: JoinOutput> {
    output: O,
    entries: HashMap<SourceKey, ServiceRecord<O::Header, O::Part>>,
    /// The Service of each part: a delete names the part alone, and a part can move to another Service.
    owners: HashMap<SourceKey, SourceKey>,
    services: Listing,
    parts: Listing,
    /// Services that changed since the last drain.
    dirty: BTreeSet<SourceKey>,
    parts_current: bool,
}

impl<O: JoinOutput> Join<O> {
    /// Returns a join that has seen nothing.
    #[must_use]
    pub fn new(output: O) -> Self {
        Self {
            output,
            entries: HashMap::new(),
            owners: HashMap::new(),
            services: Listing::default(),
            parts: Listing::default(),
            dirty: BTreeSet::new(),
            parts_current: true,
        }
    }

    /// The output, with whatever it counts.
    #[must_use]
    pub fn output(&self) -> &O {
        &self.output
    }

    /// What is known of a Service, if anything is.
    #[must_use]
    pub fn entry(&self, key: &SourceKey) -> Option<&ServiceRecord<O::Header, O::Part>> {
        self.entries.get(key)
    }

    /// The Services that are known, in no order.
    pub fn services(&self) -> impl Iterator<Item = &SourceKey> {
        self.entries.iter().filter(|(_, entry)| entry.header().is_some()).map(|(key, _)| key)
    }

    /// Adds a Service or replaces it. A Service that is being deleted counts until it is gone.
    pub fn apply_service(&mut self, key: SourceKey, header: O::Header) {
        let epoch = self.services.epoch();
        // An unchanged Service costs one lookup and no copy of its key.
        let put = match self.entries.get_mut(&key) {
            Some(entry) => put_header(&mut self.output, entry, header, epoch),
            None => put_header(&mut self.output, self.entries.entry(key.clone()).or_default(), header, epoch),
        };
        if put {
            self.dirty.insert(key);
        }
    }

    /// Removes a Service.
    pub fn delete_service(&mut self, key: &SourceKey) {
        let Some(header) = self.entries.get_mut(key).and_then(ServiceRecord::remove_header) else { return };
        self.output.header_removed(&header);
        self.remove_if_empty(key);
        self.dirty.insert(key.clone());
    }

    /// Adds a part or replaces it. `key` names the part's own object, `service` the Service that it belongs to.
    pub fn apply_part(&mut self, key: SourceKey, service: SourceKey, part: O::Part) {
        if self.owners.get(&key).is_some_and(|owner| *owner != service) {
            self.delete_part(&key);
        }
        // Keeps one copy of the key's text, whichever of Service and part came first.
        let service = self.entries.get_key_value(&service).map_or(service, |(held, _)| held.clone());
        let entry = self.entries.entry(service.clone()).or_default();
        match entry.put_part(&key.name, part, self.parts.epoch(), |part| self.output.part_added(part)) {
            Put::Unchanged => return,
            Put::Added => drop(self.owners.insert(key, service.clone())),
            Put::Replaced(old) => self.output.part_removed(&old),
        }
        self.dirty.insert(service);
    }

    /// Removes a part.
    pub fn delete_part(&mut self, key: &SourceKey) {
        let Some(service) = self.owners.remove(key) else { return };
        if let Some(part) = self.entries.get_mut(&service).and_then(|entry| entry.remove_part(&key.name)) {
            self.output.part_removed(&part);
        }
        self.remove_if_empty(&service);
        self.dirty.insert(service);
    }

    /// Begins a list of Services. Apply its objects as any others. To start over after a failure, call this again.
    pub fn begin_services(&mut self) {
        self.services.begin();
    }

    /// Ends a complete list: removes the Services that were not applied since [`begin_services`](Self::begin_services).
    pub fn end_services(&mut self) {
        let epoch = self.services.end();
        let stale =
            |(key, entry): (&SourceKey, &ServiceRecord<_, _>)| entry.has_stale_header(epoch).then(|| key.clone());
        let gone: Vec<SourceKey> = self.entries.iter().filter_map(stale).collect();
        for key in gone {
            self.delete_service(&key);
        }
        // A table never shrinks by itself, and a source may have been much larger once.
        self.entries.shrink_to_fit();
    }

    /// Begins a list of parts.
    pub fn begin_parts(&mut self) {
        self.parts.begin();
    }

    /// Ends a complete list: removes the parts that were not applied since [`begin_parts`](Self::begin_parts).
    pub fn end_parts(&mut self) {
        let epoch = self.parts.end();
        let mut gone = Vec::new();
        for (service, entry) in &self.entries {
            let key = |name: &Arc<str>| SourceKey { namespace: service.namespace.clone(), name: name.clone() };
            gone.extend(entry.stale_parts(epoch).map(key));
        }
        for key in gone {
            self.delete_part(&key);
        }
        self.owners.shrink_to_fit();
    }

    /// Sets whether parts are being watched. While they are not, a Service that has no parts and was never published is
    /// held back: whether it really has none is unknown. Published Services stay.
    pub fn set_parts_current(&mut self, current: bool) {
        self.parts_current = current;
    }

    /// Whether Services and parts have each been listed completely at least once.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.services.is_complete() && self.parts.is_complete()
    }

    /// Returns the Services that changed since the last call, in the order of their keys, each with its newest value;
    /// `None` for one that is gone or has none. Returns nothing until the join [is complete](Self::is_complete).
    pub fn drain(&mut self) -> Vec<(SourceKey, Option<O::Value>)> {
        if !self.is_complete() {
            return Vec::new();
        }
        let mut drained = Vec::new();
        for key in std::mem::take(&mut self.dirty) {
            let Some(entry) = self.entries.get_mut(&key) else {
                drained.push((key, None));
                continue;
            };
            let value = entry.header().and_then(|header| O::join(header, entry.parts().map(|(_, part)| part)));
            if value.is_some() && !self.parts_current && !entry.published && entry.parts().len() == 0 {
                self.dirty.insert(key);
                continue;
            }
            entry.published = value.is_some();
            drained.push((key, value));
        }
        drained
    }

    fn remove_if_empty(&mut self, key: &SourceKey) {
        if self.entries.get(key).is_some_and(ServiceRecord::is_empty) {
            self.entries.remove(key);
        }
    }
}

/// Returns whether anything changed.
fn put_header<O: JoinOutput>(
    output: &mut O,
    entry: &mut ServiceRecord<O::Header, O::Part>,
    header: O::Header,
    epoch: u32,
) -> bool {
    match entry.put_header(header, epoch, |header| output.header_added(header)) {
        Put::Unchanged => return false,
        Put::Added => {}
        Put::Replaced(old) => output.header_removed(&old),
    }
    true
}
