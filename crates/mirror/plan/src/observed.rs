//! The observed objects of one target, in a compact form: there may be half a million endpoints.

mod address;
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

/// An observed object, for a caller that compares it with a complete listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObservedObject<'a> {
    /// Kind of the object.
    pub kind: Kind,
    /// Name of the object; `None` if it is the target's own name.
    pub name: Option<&'a str>,
    /// UID of the object.
    pub uid: &'a str,
    /// `resourceVersion` of the object.
    pub resource_version: &'a str,
    /// Neither the list that began last nor an event since then has shown the object.
    pub unlisted: bool,
}

/// How to decide whether a reported object is newer than the observed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportOrder {
    /// By its version, because the report may have been delayed longer than later ones.
    Unordered,
    /// It is newer, whatever its version: it was requested when everything that is observed was known already, and
    /// nothing was reported since. Versions alone are not enough, because a restored store issues them again.
    Latest,
}

/// The owned objects of one target. Answers to writes and events of watches may come in any order: an object replaces
/// the observed one only if it is not older, and a deleted object does not come back with an old version. A list that
/// begins later overrides what was known before, whatever the versions are.
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
    pub fn set_service(&mut self, object: &objects::Service, told: ReportOrder) -> bool {
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
    pub fn set_slice(&mut self, object: &objects::EndpointSlice, told: ReportOrder) -> bool {
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
    pub fn set_endpoints(&mut self, object: &objects::Endpoints, told: ReportOrder) -> bool {
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

    /// Removes the Service. The arguments are those of a watch's last version of it, or those that our delete named.
    /// Returns false if they belong to an older Service than the observed one.
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

    /// Returns whether an object older than the one that it replaced, or than the deletion of its name, was applied
    /// since the last call. Then the cluster's store was restored to an older state, and everything else that is
    /// observed may be outdated.
    pub fn take_went_back(&mut self) -> bool {
        std::mem::take(&mut self.went_back)
    }

    /// Called when a list of `kind` begins. Objects that it shows replace those observed before it began, whatever
    /// their versions are.
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

    /// Called when the list is complete. Removes the objects of `kind` that neither the list nor a report since it
    /// began has shown. Returns whether there were any.
    pub fn list_ended(&mut self, kind: Kind) -> bool {
        let before = self.objects().count();
        if kind == objects::Service::KIND {
            self.service.take_if(|held| held.common.unlisted);
        } else if kind == objects::Endpoints::KIND {
            self.packed.take_if(|held| held.common.unlisted);
        } else {
            self.slices.retain(|held| !held.common.unlisted);
        }
        self.objects().count() < before
    }

    /// Whether no object is observed. While a write is in flight an empty value must be kept, because it remembers
    /// which answers are outdated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.service.is_none() && self.slices.is_empty() && self.packed.is_none()
    }

    /// Whether the Service exists.
    #[must_use]
    pub fn has_service(&self) -> bool {
        self.service.is_some()
    }

    /// Returns the number of distinct endpoints (family, address, ports) in the slices, or in the Endpoints object if
    /// that has more.
    #[must_use]
    pub fn endpoint_count(&self) -> usize {
        self.slice_count().max(self.packed_count())
    }

    /// Returns the same number, and how many of these endpoints are ready.
    #[must_use]
    pub fn count(&self) -> Count {
        self.count_as(|_, ready| Some(ready))
    }

    /// Returns the count of the endpoints whose addresses are in `wanted`, like [`Observed::count`]. An endpoint that
    /// is wanted as not ready (`false`) counts as not ready.
    #[must_use]
    pub fn count_at(&self, wanted: &BTreeMap<IpAddr, bool>) -> Count {
        self.count_as(|address, ready| wanted.get(&address).map(|wanted| ready && *wanted))
    }

    /// Counts endpoints. `as_ready` returns whether an endpoint counts as ready, or `None` if it does not count.
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

    /// Returns the conditions of an endpoint that is observed as ready, and `None` if it is not ready or does not
    /// exist. An endpoint that only an Endpoints object has gets the default conditions of a ready one.
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

    /// Returns the owner that the Service names, or else the first slice that names one, or else the Endpoints
    /// object. `None` if no object has both the label and the annotation.
    #[must_use]
    pub fn owner(&self) -> Option<&Owner> {
        self.owners().next()
    }

    /// Returns the owner of each object, in the same order. They may differ after an edit by hand.
    pub fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.commons().filter_map(|common| common.owner.as_deref())
    }

    /// Returns the backend labels of objects that do not name their source Service.
    pub fn strays(&self) -> impl Iterator<Item = &str> {
        self.commons().filter_map(|common| common.stray.as_deref())
    }

    /// Returns all observed objects. After a complete listing, those that are `unlisted` and not in the listing are
    /// gone.
    pub fn objects(&self) -> impl Iterator<Item = ObservedObject<'_>> {
        let service = self.service.iter().map(|held| (objects::Service::KIND, None, &held.common));
        let slices = self.slices.iter().map(|held| (objects::EndpointSlice::KIND, Some(&*held.name), &held.common));
        let packed = self.packed.iter().map(|held| (objects::Endpoints::KIND, None, &held.common));
        service.chain(slices).chain(packed).map(|(kind, name, common)| {
            let Common { uid, resource_version, unlisted, .. } = common;
            ObservedObject { kind, name, uid, resource_version, unlisted: *unlisted }
        })
    }

    /// Accepts the form that the server answered if it differs from what was sent, for example because of a mutating
    /// webhook. It stays accepted until either side changes (`docs/design.md#rule-6`). Call this after `set_*` has
    /// applied the answer. Returns whether the form was not accepted before; the caller then logs and counts it.
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

    /// Returns the slices, sorted by name.
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
            // Usually there is one slice, and a slice holds no duplicates.
            [one] => one.endpoints.len(),
            _ => self.identities().collect::<BTreeSet<_>>().len(),
        }
    }

    /// Returns port set and address of every endpoint in the slices, with duplicates. The family follows from the
    /// address.
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

    /// Returns the owner that the metadata names. Shares it with an observed object where possible, because most have
    /// the same.
    fn owner_of(&self, meta: &objects::Meta) -> Option<Arc<Owner>> {
        let backend = meta.labels.get(keys::BACKEND)?;
        let source = SourceKey::from_annotation(meta.annotations.get(keys::SOURCE)?)?;
        let owner = (backend.clone(), source);
        let known = self.commons().filter_map(|common| common.owner.as_ref()).take(1).find(|known| ***known == owner);
        Some(known.cloned().unwrap_or_else(|| Arc::new(owner)))
    }
}

/// How a reported object compares with the observed state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum News {
    /// It is the observed version or an older one, or the object has been deleted since.
    None,
    /// It is newer.
    Newer,
    /// It is current although its version is older, or is the observed one with other content: the store was
    /// restored.
    Older,
}

impl News {
    fn of(
        kind: Kind,
        name: &str,
        meta: &objects::Meta,
        told: ReportOrder,
        held: Option<&mut Common>,
        graves: &mut Graves,
        print: impl FnOnce() -> Fingerprint,
    ) -> Self {
        let (believed, older) = match held {
            Some(held) => {
                let unlisted = std::mem::take(&mut held.unlisted);
                if *held.resource_version == *meta.resource_version && *held.uid == *meta.uid {
                    // A restored store issues a version again for other content.
                    return if unlisted && held.print != print() { Self::Older } else { Self::None };
                }
                (unlisted, version::is_older(&meta.resource_version, &held.resource_version))
            }
            None => {
                let gone = graves.cover(kind, name, &meta.resource_version);
                if told == ReportOrder::Latest {
                    graves.open(kind, name);
                }
                (false, gone)
            }
        };
        match (older, believed || told == ReportOrder::Latest) {
            (false, _) => Self::Newer,
            (true, true) => Self::Older,
            (true, false) => Self::None,
        }
    }
}
