//! What a watch has shown of a kind.

use std::collections::BTreeMap;

use gimbal_kubernetes_client::WatchEvent;
use gimbal_kubernetes_join::ListProgress;
use gimbal_kubernetes_objects::Object;

/// The objects of a kind, by name.
#[derive(Debug)]
pub(crate) struct KnownObjects<T> {
    objects: BTreeMap<String, T>,
    list: ListProgress<String>,
}

impl<T> Default for KnownObjects<T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), list: ListProgress::default() }
    }
}

impl<T: Object> KnownObjects<T> {
    /// Takes an event. Returns whether what is known may have changed.
    pub(crate) fn take(&mut self, event: WatchEvent<T>) -> bool {
        match event {
            WatchEvent::ListBegin => self.list.begin(),
            WatchEvent::Listed(page) => page.into_iter().for_each(|object| self.put(object)),
            WatchEvent::ListDone => {
                let listed = self.list.end();
                self.objects.retain(|name, _| listed.contains(name));
                return true;
            }
            WatchEvent::Applied(object) => {
                // The answer to a write may be newer than an event that was on its way.
                let known = self.objects.get(&*object.meta().name);
                if known.is_none_or(|known| !is_newer(known, &object)) {
                    self.put(object);
                    return true;
                }
            }
            WatchEvent::Deleted(object) => return self.remove(&object.meta().name, &object.meta().uid),
            WatchEvent::WentBack { .. } | WatchEvent::Alive | WatchEvent::Failed(_) => {}
        }
        false
    }

    /// Takes an object that was listed, or the answer to a write.
    pub(crate) fn put(&mut self, object: T) {
        let name = object.meta().name.to_string();
        self.list.saw(&name);
        self.objects.insert(name, object);
    }

    /// Forgets an object that is gone. Returns whether it was known.
    pub(crate) fn remove(&mut self, name: &str, uid: &str) -> bool {
        let is_it = self.objects.get(name).is_some_and(|object| &*object.meta().uid == uid);
        if is_it {
            self.objects.remove(name);
        }
        is_it
    }

    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        self.objects.get(name)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.objects.values()
    }

    /// Whether everything was listed once.
    pub(crate) fn is_complete(&self) -> bool {
        self.list.is_complete()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

/// Whether `known` is a later state of the same object.
fn is_newer<T: Object>(known: &T, object: &T) -> bool {
    let number = |object: &T| object.meta().resource_version.parse::<u128>().unwrap_or_default();
    known.meta().uid == object.meta().uid && number(known) > number(object)
}

#[cfg(test)]
mod tests {
    use gimbal_kubernetes_objects::{Meta, Namespace};

    use super::*;

    fn object(name: &str, uid: &str, version: &str) -> Namespace {
        let meta = Meta { name: name.into(), uid: uid.into(), resource_version: version.into(), ..Meta::default() };
        Namespace { metadata: meta }
    }

    fn names(known: &KnownObjects<Namespace>) -> Vec<String> {
        known.values().map(|object| object.metadata.name.to_string()).collect()
    }

    #[test]
    fn a_list_removes_what_it_lacks_but_not_what_was_made_meanwhile() {
        let mut known = KnownObjects::default();
        known.take(WatchEvent::ListBegin);
        known.take(WatchEvent::Listed(vec![object("a", "1", "1"), object("b", "2", "2")]));
        assert!(!known.is_complete());
        assert!(known.take(WatchEvent::ListDone) && known.is_complete());
        known.take(WatchEvent::ListBegin);
        known.put(object("c", "3", "3"));
        known.take(WatchEvent::Listed(vec![object("b", "2", "2")]));
        assert_eq!(names(&known), ["a", "b", "c"]);
        known.take(WatchEvent::ListDone);
        assert_eq!(names(&known), ["b", "c"]);
    }

    #[test]
    fn an_event_that_is_older_than_an_answer_changes_nothing() {
        let mut known = KnownObjects::default();
        known.put(object("a", "1", "10"));
        assert!(!known.take(WatchEvent::Applied(object("a", "1", "9"))));
        assert_eq!(&*known.get("a").unwrap().metadata.resource_version, "10");
        assert!(known.take(WatchEvent::Applied(object("a", "2", "9"))), "it was made anew");
        assert!(!known.take(WatchEvent::Deleted(object("a", "1", "11"))), "that was the former one");
        assert!(known.take(WatchEvent::Deleted(object("a", "2", "12"))) && known.is_empty());
    }
}
