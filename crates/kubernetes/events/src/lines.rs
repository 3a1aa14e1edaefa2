//! Events that wait to be written. Pure.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use gimbal_kubernetes_objects::Event;

/// The largest number of Events that wait. Further ones take the place of the newest of the namespace that has most.
const MOST: usize = 10_000;

/// Namespace and name of an Event: one object has one for each reason.
type EventKey = (Arc<str>, Arc<str>);

/// An Event, and how often it was tried.
type Tried = (Event, u32);

/// Events that wait: of each object and reason the newest. Namespaces take turns, so that one in which much happens keeps
/// those of others neither waiting nor out.
#[derive(Debug, Default)]
pub(crate) struct EventLines {
    events: HashMap<EventKey, Tried>,
    /// What waits in each namespace, in order.
    lines: BTreeMap<Arc<str>, VecDeque<EventKey>>,
    /// The namespaces that have something, the next one first.
    turns: VecDeque<Arc<str>>,
}

impl EventLines {
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Adds an Event. It takes the place of one that waits and has its name. Returns whether one was dropped, because there
    /// are too many.
    pub(crate) fn push(&mut self, event: Event) -> bool {
        let key = key(&event);
        let namespace = key.0.clone();
        if let Some(waiting) = self.events.get_mut(&key) {
            *waiting = (event, 0);
            return false;
        }
        self.line(&namespace).push_back(key.clone());
        self.events.insert(key, (event, 0));
        let is_full = self.events.len() > MOST;
        if is_full {
            self.drop_one(&namespace);
        }
        is_full
    }

    /// Takes the next Event, with how often it was tried.
    pub(crate) fn pop(&mut self) -> Option<Tried> {
        let namespace = self.turns.pop_front()?;
        let line = self.lines.get_mut(&namespace)?;
        let key = line.pop_front();
        if line.is_empty() {
            self.lines.remove(&namespace);
        } else {
            self.turns.push_back(namespace);
        }
        self.events.remove(&key?)
    }

    /// Takes back one that is to be tried again. A newer one that came meanwhile counts instead.
    pub(crate) fn give_back(&mut self, event: Event, tries: u32) {
        let key = key(&event);
        if !self.events.contains_key(&key) {
            self.line(&key.0).push_front(key.clone());
            self.events.insert(key, (event, tries));
        }
    }

    fn line(&mut self, namespace: &Arc<str>) -> &mut VecDeque<EventKey> {
        if !self.lines.contains_key(namespace) {
            self.turns.push_back(namespace.clone());
        }
        self.lines.entry(namespace.clone()).or_default()
    }

    /// Drops the newest one of the longest line; of several, of the line of `namespace` if it is among them.
    fn drop_one(&mut self, namespace: &Arc<str>) {
        let length = |(of, line): &(&Arc<str>, &VecDeque<EventKey>)| (line.len(), *of == namespace);
        let Some(longest) = self.lines.iter().max_by_key(length).map(|(of, _)| of.clone()) else { return };
        let Some(line) = self.lines.get_mut(&longest) else { return };
        if let Some(key) = line.pop_back() {
            self.events.remove(&key);
        }
        if line.is_empty() {
            self.lines.remove(&longest);
            self.turns.retain(|of| *of != longest);
        }
    }
}

fn key(event: &Event) -> EventKey {
    (event.metadata.namespace.clone(), event.metadata.name.clone())
}

#[cfg(test)]
mod tests {
    use gimbal_kubernetes_objects::Meta;

    use super::*;

    fn event(namespace: &str, name: &str, message: &str) -> Event {
        let metadata = Meta { namespace: namespace.into(), name: name.into(), ..Meta::default() };
        Event { metadata, message: Some(message.into()), ..Event::default() }
    }

    /// Returns namespace, name and message of everything in turn.
    fn all(lines: &mut EventLines) -> Vec<[String; 3]> {
        let next = || lines.pop().map(|(event, _)| event);
        let shown = |event: Event| {
            let message = event.message.unwrap_or_default();
            [event.metadata.namespace.to_string(), event.metadata.name.to_string(), message.to_string()]
        };
        std::iter::from_fn(next).map(shown).collect()
    }

    #[test]
    fn namespaces_take_turns() {
        let mut lines = EventLines::default();
        for (namespace, name) in [("a", "1"), ("a", "2"), ("a", "3"), ("b", "1"), ("c", "1"), ("b", "2")] {
            assert!(!lines.push(event(namespace, name, "")));
        }
        let order: Vec<String> =
            all(&mut lines).iter().map(|[namespace, name, _]| format!("{namespace}{name}")).collect();
        assert_eq!(order, ["a1", "b1", "c1", "a2", "b2", "a3"]);
        assert!(lines.is_empty() && lines.lines.is_empty() && lines.turns.is_empty());
    }

    #[test]
    fn of_one_object_and_reason_the_newest_waits() {
        let mut lines = EventLines::default();
        for message in ["first", "second", "third"] {
            lines.push(event("a", "web.failed.u-1", message));
        }
        lines.push(event("a", "web.made.u-1", ""));
        assert_eq!(lines.len(), 2);
        let found = all(&mut lines);
        assert_eq!((&*found[0][1], &*found[0][2], &*found[1][1]), ("web.failed.u-1", "third", "web.made.u-1"));
    }

    #[test]
    fn a_flood_of_one_namespace_drops_its_own() {
        let mut lines = EventLines::default();
        for number in 0..MOST {
            assert!(!lines.push(event("a", &number.to_string(), "")));
        }
        assert!(lines.push(event("a", "one more", "")), "one is dropped");
        assert!(lines.push(event("b", "1", "")), "one of the other namespace is dropped");
        assert_eq!(lines.len(), MOST);
        let found = all(&mut lines);
        assert_eq!((&*found[0][1], &*found[1][0]), ("0", "b"), "the others wait no longer for it");
        assert!(!found.iter().any(|[_, name, _]| name == "one more"));
    }

    #[test]
    fn one_that_failed_is_next_unless_a_newer_one_came() {
        let mut lines = EventLines::default();
        lines.push(event("a", "1", "old"));
        lines.push(event("a", "2", ""));
        let (first, tries) = lines.pop().unwrap();
        lines.give_back(first, tries + 1);
        let (first, tries) = lines.pop().unwrap();
        assert_eq!((&*first.metadata.name, tries), ("1", 1));
        lines.push(event("a", "1", "new"));
        lines.give_back(first, tries + 1);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines.pop().map(|(event, _)| event.metadata.name.to_string()), Some("2".to_owned()));
        let (first, tries) = lines.pop().unwrap();
        assert_eq!((first.message.as_deref(), tries), (Some("new"), 0));
    }
}
