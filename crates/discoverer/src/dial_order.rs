//! The order in which a writer's addresses are tried. Pure.

/// The results of earlier dials.
#[derive(Debug, Clone)]
pub(crate) struct DialOrder<W> {
    /// Addresses that led to no working writer, the latest last. They are tried after all others.
    avoided: Vec<W>,
    /// Number of the last ones of `avoided` that were tried since the last pause.
    round: usize,
}

impl<W> Default for DialOrder<W> {
    fn default() -> Self {
        Self { avoided: Vec::new(), round: 0 }
    }
}

impl<W: PartialEq + Clone> DialOrder<W> {
    /// Returns the order for the next dial: as found, but avoided addresses last.
    pub(crate) fn order(&self, mut found: Vec<W>) -> Vec<W> {
        found.sort_by_key(|way| self.avoided.iter().position(|avoided| avoided == way).map_or(0, |place| place + 1));
        found
    }

    /// Called when an address led to no working writer.
    pub(crate) fn avoid(&mut self, way: &W) {
        if let Some(place) = self.avoided.iter().position(|avoided| avoided == way) {
            let was_in_round = place >= self.avoided.len() - self.round;
            self.avoided.remove(place);
            self.round -= usize::from(was_in_round);
        }
        self.avoided.push(way.clone());
        self.round += 1;
    }

    /// Returns whether one of these was not tried since the last pause, so that no pause is needed.
    pub(crate) fn has_more(&self, found: &[W]) -> bool {
        let round = &self.avoided[self.avoided.len() - self.round..];
        found.iter().any(|way| !round.contains(way))
    }

    /// Called before a pause, after which all addresses are tried again. Forgets the ones that are no longer found.
    pub(crate) fn pause(&mut self, found: &[W]) {
        self.round = 0;
        self.avoided.retain(|way| found.contains(way));
    }

    /// Called when the writer at this address accepted a stream. The others stay avoided.
    pub(crate) fn worked(&mut self, way: &W) {
        self.avoided.retain(|avoided| avoided != way);
        self.round = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standby_that_comes_first_costs_one_dial_and_no_pause() {
        let found = vec!["standby", "leader"];
        let mut order = DialOrder::default();
        assert_eq!(order.order(found.clone()), ["standby", "leader"]);
        order.avoid(&"standby");
        assert!(order.has_more(&found), "the other one at once");
        assert_eq!(order.order(found.clone()), ["leader", "standby"]);
        order.worked(&"leader");
        // The leader fails: the other address is tried first, in any order of the resolver, and then the one that
        // failed.
        order.avoid(&"leader");
        assert!(order.has_more(&found));
        assert_eq!(order.order(found.clone()), ["standby", "leader"]);
        // A dead address stays behind working ones, however often those accept a stream.
        let mut order = DialOrder::default();
        for _ in 0..3 {
            order.avoid(&"dead");
            order.worked(&"leader");
            assert_eq!(order.order(vec!["dead", "leader"]), ["leader", "dead"]);
        }
    }

    #[test]
    fn all_are_tried_in_turn_and_then_there_is_a_pause() {
        let found = vec![1, 2, 3];
        let mut order = DialOrder::default();
        for round in 0..3 {
            for next in 1..=3 {
                assert!(order.has_more(&found), "round {round}");
                assert_eq!(order.order(found.clone())[0], next);
                order.avoid(&next);
            }
            assert!(!order.has_more(&found));
            order.pause(&found);
        }
        // An address that is avoided twice is listed once.
        order.avoid(&1);
        order.avoid(&1);
        assert!(order.has_more(&found));
        // A new address of the name comes first; an address that the name no longer has is forgotten.
        let found = vec![3, 1, 4];
        assert_eq!(order.order(found.clone()), [4, 3, 1]);
        order.pause(&found);
        assert_eq!(order.avoided.len(), 2);
    }
}
