//! Sets of numbers: of ports, and of the addresses of one family.

/// Numbers, as ranges that neither overlap nor touch, in ascending order. Both ends of a range belong to it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RangeSet(Vec<(u128, u128)>);

impl RangeSet {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u128, u128)> + '_ {
        self.0.iter().copied()
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        self.iter().chain(other.iter()).collect()
    }

    /// Whether every number of this range is in the set.
    pub(crate) fn contains(&self, (first, last): (u128, u128)) -> bool {
        let after = self.0.partition_point(|(begin, _)| *begin <= first);
        after.checked_sub(1).and_then(|at| self.0.get(at)).is_some_and(|(_, end)| last <= *end)
    }

    pub(crate) fn intersect(&self, other: &Self) -> Self {
        let (mut left, mut right) = (self.iter().peekable(), other.iter().peekable());
        let mut both = Vec::new();
        while let (Some(one), Some(two)) = (left.peek().copied(), right.peek().copied()) {
            let (first, last) = (one.0.max(two.0), one.1.min(two.1));
            if first <= last {
                both.push((first, last));
            }
            if one.1 <= two.1 {
                left.next();
            } else {
                right.next();
            }
        }
        Self(both)
    }

    pub(crate) fn subtract(&self, other: &Self) -> Self {
        self.intersect(&other.complement())
    }

    fn complement(&self) -> Self {
        let mut gaps = Vec::new();
        let mut next = Some(0);
        for (first, last) in self.iter() {
            if let Some(begin) = next.filter(|begin| *begin < first) {
                gaps.push((begin, first - 1));
            }
            next = last.checked_add(1);
        }
        gaps.extend(next.map(|begin| (begin, u128::MAX)));
        Self(gaps)
    }
}

impl FromIterator<(u128, u128)> for RangeSet {
    fn from_iter<I: IntoIterator<Item = (u128, u128)>>(ranges: I) -> Self {
        let mut all: Vec<_> = ranges.into_iter().collect();
        all.sort_unstable();
        let mut merged: Vec<(u128, u128)> = Vec::new();
        for (first, last) in all {
            match merged.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = (*end).max(last),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(ranges: &[(u128, u128)]) -> RangeSet {
        ranges.iter().copied().collect()
    }

    #[test]
    fn ranges_that_overlap_or_touch_are_one() {
        assert_eq!(set(&[(5, 6), (1, 2), (3, 4), (6, 9), (20, 30), (22, 24)]).0, [(1, 9), (20, 30)]);
        assert_eq!(set(&[(0, u128::MAX), (7, 7)]).0, [(0, u128::MAX)]);
    }

    #[test]
    fn the_complement_of_everything_is_nothing() {
        assert_eq!(set(&[(0, u128::MAX)]).complement().0, []);
        assert_eq!(set(&[]).complement().0, [(0, u128::MAX)]);
        assert_eq!(set(&[(0, 3), (5, 8)]).complement().0, [(4, 4), (9, u128::MAX)]);
    }

    #[test]
    fn a_range_is_contained_as_a_whole_or_not() {
        let some = set(&[(10, 20), (30, 40)]);
        assert!(some.contains((10, 20)) && some.contains((12, 12)) && some.contains((40, 40)));
        assert!(!some.contains((9, 10)) && !some.contains((20, 30)) && !some.contains((41, 41)));
    }

    proptest! {
        #[test]
        fn sets_are_what_their_numbers_are(
            left in prop::collection::vec((0_u128..24, 0_u128..6), 0..6),
            right in prop::collection::vec((0_u128..24, 0_u128..6), 0..6),
        ) {
            let of = |ranges: &[(u128, u128)]| ranges.iter().map(|(first, more)| (*first, first + more)).collect::<RangeSet>();
            let (left, right) = (of(&left), of(&right));
            for n in 0..32 {
                let (in_left, in_right) = (left.contains((n, n)), right.contains((n, n)));
                prop_assert_eq!(left.union(&right).contains((n, n)), in_left || in_right);
                prop_assert_eq!(left.intersect(&right).contains((n, n)), in_left && in_right);
                prop_assert_eq!(left.subtract(&right).contains((n, n)), in_left && !in_right);
            }
        }
    }
}
