//! Which policies stay where they are: the longest run of those that are in the wanted order.

use std::collections::BTreeSet;

/// What is seen of a wanted policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    /// It is down, and has all of its rules or some.
    Down(usize),
    Up(usize),
}

impl Found {
    pub(crate) fn place(self) -> Option<usize> {
        match self {
            Self::Nothing => None,
            Self::Down(at) | Self::Up(at) => Some(at),
        }
    }
}

/// Which of the policies that are up stay where they are.
pub(crate) struct Order {
    /// By wish: the place of one that stays.
    stays: Vec<Option<usize>>,
    /// By wish: the place of one that moves.
    moves: Vec<Option<usize>>,
}

impl Order {
    pub(crate) fn of(found: &[Found]) -> Self {
        let up = |one: &Found| if let Found::Up(at) = one { Some(*at) } else { None };
        let places: Vec<Option<usize>> = found.iter().map(up).collect();
        let present: Vec<(usize, usize)> =
            places.iter().enumerate().filter_map(|(wish, at)| Some((wish, (*at)?))).collect();
        let longest: BTreeSet<usize> = longest_increasing(&present).into_iter().collect();
        let part = |stays: bool| {
            let all = places.iter().enumerate();
            all.map(|(wish, at)| at.filter(|_| longest.contains(&wish) == stays)).collect()
        };
        Self { stays: part(true), moves: part(false) }
    }

    /// Returns the place of the one that stays and that a policy is to follow.
    pub(crate) fn before(&self, wish: usize) -> Option<usize> {
        self.stays[..wish].iter().rev().find_map(|at| *at)
    }

    pub(crate) fn comes_forward(&self, wish: usize) -> bool {
        self.moves[wish].is_some_and(|at| self.before(wish).is_none_or(|before| before < at))
    }

    pub(crate) fn goes_back(&self, wish: usize) -> bool {
        self.moves[wish].is_some_and(|at| self.before(wish).is_some_and(|before| before > at))
    }
}

/// Returns the wishes of the longest run whose places increase, of pairs that are sorted by wish.
fn longest_increasing(pairs: &[(usize, usize)]) -> Vec<usize> {
    // By length: the pair with the least place that ends a run of it.
    let mut ends: Vec<usize> = Vec::new();
    let mut previous: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (index, (_, place)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].1 < *place);
        previous.push(length.checked_sub(1).map(|before| ends[before]));
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut run = Vec::with_capacity(ends.len());
    let mut at = ends.last().copied();
    while let Some(index) = at {
        run.push(pairs[index].0);
        at = previous[index];
    }
    run.reverse();
    run
}
