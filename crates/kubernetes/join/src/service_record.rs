//! One Service and its parts.

use std::sync::Arc;

/// What is known of one Service. Parts may arrive before their Service.
#[derive(Debug)]
pub struct ServiceRecord<H, P> {
    header: Option<Listed<H>>,
    /// Sorted by name.
    parts: Vec<NamedPart<P>>,
    /// Whether the last drain returned an output for it.
    pub(crate) published: bool,
}

#[derive(Debug)]
struct Listed<H> {
    epoch: u32,
    header: H,
}

#[derive(Debug)]
struct NamedPart<P> {
    name: Arc<str>,
    epoch: u32,
    part: P,
}

/// What became of a value that was put in.
pub(crate) enum Put<T> {
    /// An equal value was there.
    Unchanged,
    Added,
    Replaced(T),
}

impl<H, P> Default for ServiceRecord<H, P> {
    fn default() -> Self {
        Self { header: None, parts: Vec::new(), published: false }
    }
}

impl<H, P> ServiceRecord<H, P> {
    /// The Service, if it has been seen.
    pub fn header(&self) -> Option<&H> {
        self.header.as_ref().map(|listed| &listed.header)
    }

    /// The parts with their objects' names, in the order of the names.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &P)> {
        self.parts.iter().map(|named| (&named.name, &named.part))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.header.is_none() && self.parts.is_empty()
    }

    pub(crate) fn remove_header(&mut self) -> Option<H> {
        self.header.take().map(|listed| listed.header)
    }

    pub(crate) fn remove_part(&mut self, name: &str) -> Option<P> {
        let at = self.parts.binary_search_by(|named| (*named.name).cmp(name)).ok()?;
        Some(self.parts.remove(at).part)
    }

    pub(crate) fn has_stale_header(&self, epoch: u32) -> bool {
        self.header.as_ref().is_some_and(|listed| listed.epoch != epoch)
    }

    pub(crate) fn stale_parts(&self, epoch: u32) -> impl Iterator<Item = &Arc<str>> {
        self.parts.iter().filter(move |named| named.epoch != epoch).map(|named| &named.name)
    }
}

impl<H: PartialEq, P: PartialEq> ServiceRecord<H, P> {
    /// Calls `added` unless an equal header was there.
    pub(crate) fn put_header(&mut self, header: H, epoch: u32, added: impl FnOnce(&H)) -> Put<H> {
        match &mut self.header {
            None => {
                added(&header);
                self.header = Some(Listed { epoch, header });
                Put::Added
            }
            Some(listed) => {
                listed.epoch = epoch;
                if listed.header == header {
                    return Put::Unchanged;
                }
                added(&header);
                Put::Replaced(std::mem::replace(&mut listed.header, header))
            }
        }
    }

    /// Calls `added` unless an equal part was there.
    pub(crate) fn put_part(&mut self, name: &Arc<str>, part: P, epoch: u32, added: impl FnOnce(&P)) -> Put<P> {
        match self.parts.binary_search_by(|named| named.name.cmp(name)) {
            Ok(at) => {
                let named = &mut self.parts[at];
                named.epoch = epoch;
                if named.part == part {
                    return Put::Unchanged;
                }
                added(&part);
                Put::Replaced(std::mem::replace(&mut named.part, part))
            }
            Err(at) => {
                added(&part);
                // Most Services have one slice, and a vector would make room for four.
                self.parts.reserve_exact(1);
                self.parts.insert(at, NamedPart { name: name.clone(), epoch, part });
                Put::Added
            }
        }
    }
}
