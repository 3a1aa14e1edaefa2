//! An object as the watch and the answers to writes have shown it.

use std::sync::Arc;

use gimbal_kubernetes_objects::{Meta, Object};
use gimbal_kuryr_model::Text;

/// An object as it is known.
#[derive(Debug)]
struct Held<O> {
    object: Arc<O>,
    /// Whether it is known from an answer that the watch has not shown yet.
    ahead: bool,
    /// The list that contained it last.
    listed: u32,
}

/// An object under one key, as the watch and the answers to writes have shown it.
#[derive(Debug)]
pub struct KeptObject<O> {
    held: Option<Held<O>>,
    /// UID of the one that the watch has shown to be deleted last. UIDs do not come back.
    dead: Option<Text>,
    /// The list that was the latest then.
    dead_in: u32,
}

impl<O> Default for KeptObject<O> {
    fn default() -> Self {
        Self { held: None, dead: None, dead_in: 0 }
    }
}

/// What the watch has shown.
#[derive(Debug, PartialEq, Eq)]
pub enum Shown<O> {
    /// Nothing that is not known, or something that is out of date.
    Nothing,
    /// The object is as an answer has said.
    Confirmed,
    /// It is another one than before, or there was none.
    Changed(Option<Arc<O>>),
}

impl<O: Object> KeptObject<O> {
    /// The object.
    #[must_use]
    pub fn object(&self) -> Option<&Arc<O>> {
        self.held.as_ref().map(|held| &held.object)
    }

    /// The object, if the watch has shown it like this.
    #[must_use]
    pub fn shown(&self) -> Option<&Arc<O>> {
        self.held.as_ref().filter(|held| !held.ahead).map(|held| &held.object)
    }

    /// Whether the watch has shown one of this UID to be deleted.
    #[must_use]
    pub fn has_died(&self, uid: &Text) -> bool {
        self.dead.as_ref() == Some(uid)
    }

    /// Takes in what the watch shows. `list` is the number of the latest list; after the store `went_back`, versions tell nothing.
    pub fn show(&mut self, object: O, list: u32, went_back: bool) -> Shown<O> {
        // One that a later list has is back.
        self.dead.take_if(|_| self.dead_in < list);
        let new = object.meta();
        if self.has_died(&new.uid) {
            return Shown::Nothing;
        }
        if let Some(held) = &mut self.held {
            held.listed = list;
            let old = held.object.meta();
            if new.resource_version == old.resource_version && new.uid == old.uid && !went_back {
                return if std::mem::take(&mut held.ahead) { Shown::Confirmed } else { Shown::Nothing };
            }
            if held.ahead && is_newer(old, new) {
                return Shown::Nothing;
            }
        }
        self.dead = None;
        let held = Held { object: Arc::new(object), ahead: false, listed: list };
        Shown::Changed(self.held.replace(held).map(|held| held.object))
    }

    /// Takes in that the watch shows it to be deleted. Returns what was known of it, if it is not known any more.
    pub fn show_deleted(&mut self, meta: &Meta, list: u32) -> Option<Arc<O>> {
        (self.dead, self.dead_in) = (Some(meta.uid.clone()), list);
        // The answer to a write has shown the one that was made after this one.
        self.held.take_if(|held| !(held.ahead && is_newer(held.object.meta(), meta))).map(|held| held.object)
    }

    /// Takes in the answer to a write, or to a read. Returns whether it says something new.
    pub fn answered(&mut self, object: O, list: u32) -> bool {
        let new = object.meta();
        // The watch was faster.
        if self.has_died(&new.uid) || self.held.as_ref().is_some_and(|held| !is_newer(new, held.object.meta())) {
            return false;
        }
        self.held = Some(Held { object: Arc::new(object), ahead: true, listed: list });
        true
    }

    /// Takes in that the API server has none of this name. Returns whether one was known from an answer alone.
    pub fn answered_absent(&mut self) -> bool {
        self.held.take_if(|held| held.ahead).is_some()
    }

    /// Called when a list is complete. Returns the object if it is not in that list, and forgets it.
    pub fn end_list(&mut self, list: u32) -> Option<Arc<O>> {
        self.held.take_if(|held| held.listed != list).map(|held| held.object)
    }

    /// The store went back: versions and UIDs of before may come again.
    pub fn store_went_back(&mut self) {
        self.dead = None;
        if let Some(held) = &mut self.held {
            held.ahead = false;
        }
    }
}

/// Whether the first object has a [newer version](is_newer_version).
#[must_use]
pub fn is_newer(one: &Meta, other: &Meta) -> bool {
    is_newer_version(&one.resource_version, &other.resource_version)
}

/// Whether the first version is newer. One that is no number counts as newer: what comes later counts.
#[must_use]
pub fn is_newer_version(one: &str, other: &str) -> bool {
    match (one.parse::<u64>(), other.parse::<u64>()) {
        (Ok(one), Ok(other)) => one > other,
        _ => true,
    }
}
