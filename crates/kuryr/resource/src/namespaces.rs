//! Names of namespaces.

use gimbal_kuryr_model::Text;
use gimbal_model::wildcard_matches;

/// Names of namespaces, with `*` for anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamespacePatterns {
    /// These; if it is empty, all.
    pub only: Vec<Text>,
    /// But not these.
    pub except: Vec<Text>,
}

impl NamespacePatterns {
    /// Whether a namespace is one of them.
    #[must_use]
    pub fn contains(&self, namespace: &str) -> bool {
        let any = |patterns: &[Text]| patterns.iter().any(|pattern| wildcard_matches(pattern, namespace));
        (self.only.is_empty() || any(&self.only)) && !any(&self.except)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_win() {
        let of = |only: &[&str], except: &[&str]| {
            let texts = |texts: &[&str]| texts.iter().map(|text| (*text).into()).collect();
            let patterns = NamespacePatterns { only: texts(only), except: texts(except) };
            ["team-a", "team-b", "other"].map(|namespace| patterns.contains(namespace))
        };
        assert_eq!(of(&[], &[]), [true, true, true]);
        assert_eq!(of(&["team-*"], &[]), [true, true, false]);
        assert_eq!(of(&["team-*"], &["*-b"]), [true, false, false]);
        assert_eq!(of(&[], &["other"]), [true, true, false]);
    }
}
