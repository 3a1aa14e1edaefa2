//! Owners that have nothing, as far as is known, and would have something made.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use gimbal_kuryr_model::Text;

/// Those of them that wait for a look, by project.
#[derive(Debug, Default)]
pub(crate) struct Newcomers {
    pub(crate) waiting: BTreeMap<Text, NewcomerLine>,
    /// Whether the next look is one of theirs: others have every second one.
    pub(crate) are_next: bool,
}

/// Those of one project. Namespaces take turns.
#[derive(Debug, Default)]
pub(crate) struct NewcomerLine {
    namespaces: BTreeMap<Text, VecDeque<Text>>,
    /// The namespace that had the last turn.
    last: Option<Text>,
}

impl Newcomers {
    pub(crate) fn push(&mut self, project: &Text, namespace: &Text, owner: &Text) {
        let line = self.waiting.entry(project.clone()).or_default();
        line.namespaces.entry(namespace.clone()).or_default().push_back(owner.clone());
    }
}

impl NewcomerLine {
    /// Returns the first owner of the next namespace that may have its turn.
    pub(crate) fn pop(&mut self, may: impl Fn(&Text) -> bool) -> Option<Text> {
        let after = self.last.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let later = self.namespaces.range((after, Bound::Unbounded));
        let next = later.chain(&self.namespaces).map(|(namespace, _)| namespace).find(|namespace| may(namespace));
        let namespace = next?.clone();
        let line = self.namespaces.get_mut(&namespace)?;
        let owner = line.pop_front();
        if line.is_empty() {
            self.namespaces.remove(&namespace);
        }
        self.last = Some(namespace);
        owner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_take_turns_and_one_that_may_not_is_passed_over() {
        let mut all = Newcomers::default();
        let text = |text: &str| Text::from(text);
        for (namespace, owner) in [("a", "a1"), ("a", "a2"), ("b", "b1"), ("c", "c1"), ("c", "c2")] {
            all.push(&text("p"), &text(namespace), &text(owner));
        }
        let line = all.waiting.get_mut("p").unwrap();
        let mut next = |closed: &str| line.pop(|namespace| **namespace != *closed).map(|owner| owner.to_string());
        let order = [next(""), next("b"), next(""), next(""), next("c"), next(""), next("")];
        let expected = [Some("a1"), Some("c1"), Some("a2"), Some("b1"), None, Some("c2"), None];
        assert_eq!(order, expected.map(|owner| owner.map(str::to_owned)));
    }
}
