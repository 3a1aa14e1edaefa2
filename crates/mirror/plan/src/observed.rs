//! The observed objects of one target, in a compact form: there may be half a million endpoints.

mod held;
mod version;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use gimbal_kubernetes_objects::{self as objects, Kind, Object as _, keys};
use gimbal_model::{Conditions, Endpoints, Family, PortGroup, PortSet, SourceKey};

use crate::print::{self, Fingerprint};
use crate::{Count, shape};
pub(crate) use held::{Common, Packed, Slice};
use version::Graves;

/// The owner of an object: the value of its backend label, and the source Service that its annotation names.
pub type Owner = (Arc<str>, SourceKey);

/// An object that is held, for one who must compare a whole listing with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held<'a> {
    /// Kind.
    pub kind: Kind,
    /// Name; `None` where it is the target's own.
    pub name: Option<&'a str>,
    /// UID.
    pub uid: &'a str,
    /// Version.
    pub resource_version: &'a str,
    /// Neither the list that began last nor an event since then has shown it.
    pub unlisted: bool,
}

/// How it is known whether an object that is told of is newer than the one that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// By its version: it may have been on its way for longer than what came since.
    InAnyOrder,
    /// It was asked for when all that is held was known already, and nothing came since: it is newer, whatever its version.
    /// A store that was put back to an older state gives versions out again.
    Last,
}

/// The owned objects of one target. Answers to writes and events of watches may come in any order: an object replaces
/// the one that is held only if it is not older, and what is gone does not come back with an old version. Versions tell
/// that only among what came side by side; of what was known before a list began, the list is the truth.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    service: Option<held::Service>,
    slices: Vec<Slice>,
    packed: Option<Box<Packed>>,
    graves: Graves,
    went_back: bool,
}

impl Observed {
    /// Applies a Service. Returns false if it is outdated, or is the version that is held.
    pub fn set_service(&mut self, object: &objects::Service, told: Told) -> bool {
        let held = self.service.as_mut().map(|held| &mut held.common);
        let print = || print::service(object);
        let news = News::of(objects::Service::KIND, "", &object.metadata, told, held, &mut self.graves, print);
        self.went_back |= news == News::Older;
        if news == News::None {
            return false;
        }
        let owner = self.owner_of(&object.metadata);
        let common =
            Common::new(&object.metadata, print::service(object), owner, self.service.take().map(|old| old.common));
        self.service = Some(held::Service { common, fixed_address: held::has_fixed_address(&object.spec) });
        true
    }

    /// Applies a slice, like [`Observed::set_service`].
    pub fn set_slice(&mut self, object: &objects::EndpointSlice, told: Told) -> bool {
        let (name, at) = (&object.metadata.name, self.slice_at(&object.metadata.name));
        let held = at.ok().map(|at| &mut self.slices[at].common);
        let print = || print::slice(object);
        let news = News::of(objects::EndpointSlice::KIND, name, &object.metadata, told, held, &mut self.graves, print);
        self.went_back |= news == News::Older;
        if news == News::None {
            return false;
        }
        let owner = self.owner_of(&object.metadata);
        let family = match &*object.address_type {
            "IPv4" => Some(Family::V4),
            "IPv6" => Some(Family::V6),
            _ => None,
        };
        let (ports, ports_regular) = shape::read_ports(&object.ports);
        let ports = self.slices.iter().find(|slice| slice.ports == ports).map_or(ports, |slice| slice.ports.clone());
        let (endpoints, regular) = shape::read_endpoints(&object.endpoints, family);
        let old = at.ok().map(|at| self.slices[at].common.clone());
        let slice = Slice {
            common: Common::new(&object.metadata, print::slice(object), owner, old),
            name: object.metadata.name.clone(),
            meta: print::meta(&object.metadata.labels, &object.metadata.annotations),
            family,
            ports,
            endpoints,
            regular: regular && ports_regular,
        };
        match at {
            Ok(at) => self.slices[at] = slice,
            Err(at) => {
                // Most Services have one slice; doubling would give room for four.
                if self.slices.len() == self.slices.capacity() {
                    self.slices.reserve_exact(1 + self.slices.len() / 4);
                }
                self.slices.insert(at, slice);
            }
        }
        true
    }

    /// Applies the Endpoints object, like [`Observed::set_service`].
    pub fn set_endpoints(&mut self, object: &objects::Endpoints, told: Told) -> bool {
        let held = self.packed.as_mut().map(|held| &mut held.common);
        let print = || print::endpoints(object);
        let news = News::of(objects::Endpoints::KIND, "", &object.metadata, told, held, &mut self.graves, print);
        self.went_back |= news == News::Older;
        if news == News::None {
            return false;
        }
        let owner = self.owner_of(&object.metadata);
        let groups = shape::group(&shape::flatten(object).0);
        let common =
            Common::new(&object.metadata, print::endpoints(object), owner, self.packed.take().map(|old| old.common));
        self.packed = Some(Box::new(Packed { common, groups }));
        true
    }

    /// The Service is gone: a watch's last version of it, or the UID and version that a delete of ours named. False if
    /// that was another, older one than what is held.
    pub fn remove_service(&mut self, uid: &str, resource_version: &str) -> bool {
        let held = self.service.as_ref().map(|held| &held.common);
        let gone = held.is_none_or(|held| held.ends_with(uid, resource_version));
        if gone {
            let known = self.service.take().map(|held| held.common.resource_version);
            self.graves.dig(objects::Service::KIND, "", resource_version, known.as_deref());
        }
        gone
    }

    /// Removes a slice, like [`Observed::remove_service`].
    pub fn remove_slice(&mut self, name: &str, uid: &str, resource_version: &str) -> bool {
        let at = self.slice_at(name).ok();
        let gone = at.is_none_or(|at| self.slices[at].common.ends_with(uid, resource_version));
        if gone {
            let known = at.map(|at| self.slices.remove(at).common.resource_version);
            self.graves.dig(objects::EndpointSlice::KIND, name, resource_version, known.as_deref());
        }
        gone
    }

    /// Removes the Endpoints object, like [`Observed::remove_service`].
    pub fn remove_endpoints(&mut self, uid: &str, resource_version: &str) -> bool {
        let held = self.packed.as_ref().map(|held| &held.common);
        let gone = held.is_none_or(|held| held.ends_with(uid, resource_version));
        if gone {
            let known = self.packed.take().map(|held| held.common.resource_version);
            self.graves.dig(objects::Endpoints::KIND, "", resource_version, known.as_deref());
        }
        gone
    }

    /// Returns whether an object older than the one it replaced was applied since the last call. Then the cluster's store was restored
    /// to an older state, and everything else that is held may be outdated.
    pub fn take_went_back(&mut self) -> bool {
        std::mem::take(&mut self.went_back)
    }

    /// A list of a kind begins. What it shows of what is held, and was not written since, counts whatever its version.
    pub fn list_begins(&mut self, kind: Kind) {
        self.graves.open_all(kind);
        if kind == objects::Service::KIND {
            self.service.iter_mut().for_each(|held| held.common.unlisted = true);
        } else if kind == objects::Endpoints::KIND {
            self.packed.iter_mut().for_each(|held| held.common.unlisted = true);
        } else {
            self.slices.iter_mut().for_each(|held| held.common.unlisted = true);
        }
    }

    /// The list is complete: what of a kind came neither by it nor since is gone. False if there is no such thing.
    pub fn list_ended(&mut self, kind: Kind) -> bool {
        let before = self.held().count();
        if kind == objects::Service::KIND {
            self.service.take_if(|held| held.common.unlisted);
        } else if kind == objects::Endpoints::KIND {
            self.packed.take_if(|held| held.common.unlisted);
        } else {
            self.slices.retain(|held| !held.common.unlisted);
        }
        self.held().count() < before
    }

    /// Whether nothing is held. With no write in flight an empty one may be thrown away; before, it still knows which
    /// answers are too old.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.service.is_none() && self.slices.is_empty() && self.packed.is_none()
    }

    /// Whether the Service exists.
    #[must_use]
    pub fn has_service(&self) -> bool {
        self.service.is_some()
    }

    /// Distinct endpoints (family, address, ports) over the slices, or of the Endpoints object if that has more.
    #[must_use]
    pub fn endpoint_count(&self) -> usize {
        self.slice_count().max(self.packed_count())
    }

    /// The same, and how many of them are ready.
    #[must_use]
    pub fn count(&self) -> Count {
        self.count_as(|_, ready| Some(ready))
    }

    /// Those whose address is one of `wanted`, counted as [`Observed::count`] counts them. One that is not wanted as ready
    /// counts as not ready.
    #[must_use]
    pub fn count_at(&self, wanted: &BTreeMap<IpAddr, bool>) -> Count {
        self.count_as(|address, ready| wanted.get(&address).map(|wanted| ready && *wanted))
    }

    /// `as_ready`: whether an endpoint counts as ready; `None` where it does not count.
    fn count_as(&self, as_ready: impl Fn(IpAddr, bool) -> Option<bool>) -> Count {
        let of = |endpoints: &Endpoints| -> Vec<(IpAddr, bool)> {
            let each = endpoints.addresses().zip(endpoints.conditions());
            each.filter_map(|(address, conditions)| Some((address, as_ready(address, conditions.ready)?))).collect()
        };
        let packed = self.packed.iter().flat_map(|held| &held.groups);
        let packed = packed.flat_map(|group: &PortGroup| of(&group.endpoints));
        let packed = Count::of(packed.map(|(_, ready)| ready));
        let slices = match self.slices.as_slice() {
            [one] => Count::of(of(&one.endpoints).into_iter().map(|(_, ready)| ready)),
            _ => {
                let mut distinct = BTreeMap::new();
                for slice in &self.slices {
                    for (address, ready) in of(&slice.endpoints) {
                        *distinct.entry((&slice.ports, address)).or_default() |= ready;
                    }
                }
                Count::of(distinct.into_values())
            }
        };
        slices.max(packed)
    }

    /// The conditions of an endpoint that is held as ready; of one that only an Endpoints object has, that it is.
    pub(crate) fn ready(&self, ports: &PortSet, address: IpAddr) -> Option<Conditions> {
        let slices = self.slices.iter().filter(|slice| slice.ports == *ports);
        let in_slices = slices.filter_map(|slice| slice.endpoints.get(address)).map(|endpoint| endpoint.conditions);
        if let Some(conditions) = in_slices.into_iter().find(|conditions| conditions.ready) {
            return Some(conditions);
        }
        let groups = self.packed.iter().flat_map(|packed| &packed.groups);
        let numbered = || ports.ports().iter().filter(|port| port.port.is_some());
        let mut with_ports = groups.filter(|group| numbered().all(|port| group.ports.ports().contains(port)));
        let ready = |group: &PortGroup| group.endpoints.get(address).is_some_and(|endpoint| endpoint.conditions.ready);
        with_ports.any(ready).then_some(Conditions::READY)
    }

    /// Whose all this is, by the Service, else a slice, else the Endpoints object. `None` where label or annotation is
    /// missing.
    #[must_use]
    pub fn owner(&self) -> Option<&Owner> {
        self.owners().next()
    }

    /// Whose each object is, in the same order: after an edit by hand they may differ.
    pub fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.commons().filter_map(|common| common.owner.as_deref())
    }

    /// Backend labels of objects that do not tell of which Service they are.
    pub fn strays(&self) -> impl Iterator<Item = &str> {
        self.commons().filter_map(|common| common.stray.as_deref())
    }

    /// Everything that is held. Of this, what neither a whole listing names nor came since it began is gone.
    pub fn held(&self) -> impl Iterator<Item = Held<'_>> {
        let service = self.service.iter().map(|held| (objects::Service::KIND, None, &held.common));
        let slices = self.slices.iter().map(|held| (objects::EndpointSlice::KIND, Some(&*held.name), &held.common));
        let packed = self.packed.iter().map(|held| (objects::Endpoints::KIND, None, &held.common));
        service.chain(slices).chain(packed).map(|(kind, name, common)| {
            let Common { uid, resource_version, unlisted, .. } = common;
            Held { kind, name, uid, resource_version, unlisted: *unlisted }
        })
    }

    /// The server's answer to a write differs from what was sent, because something of its own changes such objects:
    /// the answer is accepted until either side changes (`docs/design.md#rule-6`). To be called after the answer was taken by
    /// `set_*`. True if this form was not accepted before, and should be logged and counted.
    pub fn accept(&mut self, kind: Kind, name: &str, sent: Fingerprint, answer: Fingerprint) -> bool {
        let common = if kind == objects::Service::KIND {
            self.service.as_mut().map(|held| &mut held.common)
        } else if kind == objects::Endpoints::KIND {
            self.packed.as_mut().map(|held| &mut held.common)
        } else {
            self.slice_at(name).ok().map(|at| &mut self.slices[at].common)
        };
        common.is_some_and(|common| common.accept(sent, answer))
    }

    pub(crate) fn service(&self) -> Option<&held::Service> {
        self.service.as_ref()
    }

    /// Sorted by name.
    pub(crate) fn slices(&self) -> &[Slice] {
        &self.slices
    }

    pub(crate) fn packed(&self) -> Option<&Packed> {
        self.packed.as_deref()
    }

    pub(crate) fn packed_count(&self) -> usize {
        self.packed.iter().flat_map(|held| &held.groups).map(|group: &PortGroup| group.endpoints.len()).sum()
    }

    pub(crate) fn slice_count(&self) -> usize {
        match self.slices.as_slice() {
            // No duplicates within one slice, and there is mostly one.
            [one] => one.endpoints.len(),
            _ => self.identities().collect::<BTreeSet<_>>().len(),
        }
    }

    /// Port set and address of every endpoint in a slice, with duplicates; an address has its family with it.
    pub(crate) fn identities(&self) -> impl Iterator<Item = (&PortSet, IpAddr)> {
        self.slices.iter().flat_map(|slice| slice.endpoints.addresses().map(|address| (&slice.ports, address)))
    }

    fn slice_at(&self, name: &str) -> Result<usize, usize> {
        self.slices.binary_search_by(|slice| (*slice.name).cmp(name))
    }

    fn commons(&self) -> impl Iterator<Item = &Common> {
        let service = self.service.iter().map(|held| &held.common);
        let slices = self.slices.iter().map(|held| &held.common);
        service.chain(slices).chain(self.packed.iter().map(|held| &held.common))
    }

    /// Shared with an object that is held already: most have the same.
    fn owner_of(&self, meta: &objects::Meta) -> Option<Arc<Owner>> {
        let backend = meta.labels.get(keys::BACKEND)?;
        let source = SourceKey::from_annotation(meta.annotations.get(keys::SOURCE)?)?;
        let owner = (backend.clone(), source);
        let known = self.commons().filter_map(|common| common.owner.as_ref()).take(1).find(|known| ***known == owner);
        Some(known.cloned().unwrap_or_else(|| Arc::new(owner)))
    }
}

/// Whether an object says something new.
#[derive(Clone, Copy, PartialEq, Eq)]
enum News {
    /// It is what is held already, or older than that, or gone since.
    None,
    /// It is newer.
    Newer,
    /// It is what there is, though its version is older, or was seen of something else.
    Older,
}

impl News {
    fn of(
        kind: Kind,
        name: &str,
        meta: &objects::Meta,
        told: Told,
        held: Option<&mut Common>,
        graves: &mut Graves,
        print: impl FnOnce() -> Fingerprint,
    ) -> Self {
        let (believed, older) = match held {
            Some(held) => {
                let unlisted = std::mem::take(&mut held.unlisted);
                if *held.resource_version == *meta.resource_version && *held.uid == *meta.uid {
                    // A store that was put back gives a version out again, to something else.
                    return if unlisted && held.print != print() { Self::Older } else { Self::None };
                }
                (unlisted, version::is_older(&meta.resource_version, &held.resource_version))
            }
            None => {
                let gone = graves.cover(kind, name, &meta.resource_version);
                if told == Told::Last {
                    graves.open(kind, name);
                }
                (false, gone)
            }
        };
        match (older, believed || told == Told::Last) {
            (false, _) => Self::Newer,
            (true, true) => Self::Older,
            (true, false) => Self::None,
        }
    }
}
