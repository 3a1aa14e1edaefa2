//! How much of a cluster is known.

use gimbal_kuryr_model::Text;

/// How much of the cluster is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterKnowledge {
    /// Nothing can be offered yet, for this reason: something has not been read, the writer has not said anything about the
    /// cloud, or another process leads. A stream carries no data then, and facts come nevertheless.
    Waiting(String),
    /// Everything is known.
    Complete,
    /// Something cannot be read, or not any more. What is offered stays; what is absent means nothing.
    Unreadable(String),
    /// Everything is known but what may exist for owners in these namespaces, of which nothing can be offered now: they live, and
    /// have their finalizers. What is offered stays; what is absent from these namespaces means nothing.
    Partial(Vec<Text>),
}

impl ClusterKnowledge {
    /// Returns how much is known of two parts that are offered together. Both are awaited. Where one of them cannot be read, the
    /// other one is offered, and what is absent means nothing.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Waiting(reason), _) | (_, Self::Waiting(reason)) => Self::Waiting(reason),
            (Self::Unreadable(one), Self::Unreadable(other)) => Self::Unreadable(format!("{one}; {other}")),
            (Self::Unreadable(reason), _) | (_, Self::Unreadable(reason)) => Self::Unreadable(reason),
            (Self::Complete, known) | (known, Self::Complete) => known,
            (Self::Partial(mut namespaces), Self::Partial(others)) => {
                namespaces.extend(others);
                namespaces.sort();
                namespaces.dedup();
                Self::Partial(namespaces)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_both_counts() {
        let waiting = |reason: &str| ClusterKnowledge::Waiting(reason.into());
        let unreadable = |reason: &str| ClusterKnowledge::Unreadable(reason.into());
        let partial = |namespaces: &[&str]| {
            ClusterKnowledge::Partial(namespaces.iter().map(|namespace| (*namespace).into()).collect())
        };
        for (one, other, both) in [
            (ClusterKnowledge::Complete, ClusterKnowledge::Complete, ClusterKnowledge::Complete),
            (waiting("a"), ClusterKnowledge::Complete, waiting("a")),
            (ClusterKnowledge::Complete, waiting("b"), waiting("b")),
            (unreadable("a"), waiting("b"), waiting("b")),
            // The Services are served although routers are not known.
            (ClusterKnowledge::Complete, unreadable("b"), unreadable("b")),
            (partial(&["n"]), unreadable("b"), unreadable("b")),
            (unreadable("a"), unreadable("b"), unreadable("a; b")),
            (unreadable("a"), partial(&["n"]), unreadable("a")),
            (ClusterKnowledge::Complete, partial(&["n"]), partial(&["n"])),
            (partial(&["o", "n"]), partial(&["m", "n"]), partial(&["m", "n", "o"])),
        ] {
            assert_eq!(one.clone().with(other.clone()), both, "{one:?} {other:?}");
        }
    }
}
