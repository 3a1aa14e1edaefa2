//! Label selectors.

use std::collections::{BTreeMap, BTreeSet};

use gimbal_kubernetes_objects::LabelSelector;
use gimbal_kuryr_model::Text;

use crate::finding::{FindingList, PolicyProblem};

/// A label selector. What was written in another order, or as labels instead of expressions, is equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Selector(BTreeSet<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Requirement {
    In(Text, BTreeSet<Text>),
    NotIn(Text, BTreeSet<Text>),
    Exists(Text),
    DoesNotExist(Text),
}

/// A selector as far as it could be read.
#[derive(Debug)]
pub(crate) struct ReadSelector {
    pub(crate) selector: Selector,
    /// Whether all of it was read. Otherwise the real one selects the same or less.
    pub(crate) is_whole: bool,
}

impl ReadSelector {
    pub(crate) fn read(from: &LabelSelector, field: &str, findings: &mut FindingList) -> Self {
        let labels = from.match_labels.iter();
        let mut all: BTreeSet<_> =
            labels.map(|(key, value)| Requirement::In(key.clone(), [value.clone()].into())).collect();
        let mut is_whole = true;
        for (at, expression) in from.match_expressions.iter().enumerate() {
            let (key, values) = (expression.key.clone(), &expression.values);
            let some = || values.iter().cloned().collect();
            let read = match &*expression.operator {
                "In" | "NotIn" if values.is_empty() => Err(PolicyProblem::NoValues),
                "Exists" | "DoesNotExist" if !values.is_empty() => Err(PolicyProblem::ValuesOfNoUse),
                "In" => Ok(Requirement::In(key, some())),
                "NotIn" => Ok(Requirement::NotIn(key, some())),
                "Exists" => Ok(Requirement::Exists(key)),
                "DoesNotExist" => Ok(Requirement::DoesNotExist(key)),
                _ => Err(PolicyProblem::Operator(expression.operator.clone())),
            };
            match read {
                Ok(requirement) => drop(all.insert(requirement)),
                Err(problem) => {
                    is_whole = false;
                    findings.add(format!("{field}.matchExpressions[{at}]"), problem);
                }
            }
        }
        Self { selector: Selector(all), is_whole }
    }
}

impl Selector {
    /// The selector of a Service: labels that must be there.
    pub(crate) fn of_labels(labels: &BTreeMap<Text, Text>) -> Self {
        Self(labels.iter().map(|(key, value)| Requirement::In(key.clone(), [value.clone()].into())).collect())
    }

    pub(crate) fn matches(&self, labels: &BTreeMap<Text, Text>) -> bool {
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            // Also where there is no such label.
            Requirement::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Requirement::Exists(key) => labels.contains_key(key),
            Requirement::DoesNotExist(key) => !labels.contains_key(key),
        })
    }
}

#[cfg(test)]
mod tests {
    use gimbal_kubernetes_objects::LabelSelectorRequirement;

    use super::*;

    fn expression(key: &str, operator: &str, values: &[&str]) -> LabelSelectorRequirement {
        let values = values.iter().map(|value| Text::from(*value)).collect();
        LabelSelectorRequirement { key: key.into(), operator: operator.into(), values }
    }

    fn read(expressions: Vec<LabelSelectorRequirement>) -> (ReadSelector, FindingList) {
        let mut findings = FindingList::default();
        let from = LabelSelector { match_expressions: expressions, ..LabelSelector::default() };
        (ReadSelector::read(&from, "spec.podSelector", &mut findings), findings)
    }

    fn labels(labels: &[(&str, &str)]) -> BTreeMap<Text, Text> {
        labels.iter().map(|(key, value)| (Text::from(*key), Text::from(*value))).collect()
    }

    #[test]
    fn expressions_against_labels() {
        for (operator, values, with, other, without) in [
            ("In", &["a", "b"][..], true, false, false),
            ("NotIn", &["a", "b"], false, true, true),
            ("Exists", &[], true, true, false),
            ("DoesNotExist", &[], false, false, true),
        ] {
            let (read, _) = read(vec![expression("app", operator, values)]);
            let matches = |of: &[(&str, &str)]| read.selector.matches(&labels(of));
            assert_eq!(matches(&[("app", "a")]), with, "{operator}");
            assert_eq!(matches(&[("app", "c")]), other, "{operator}");
            assert_eq!(matches(&[("apps", "a")]), without, "{operator}");
        }
        assert!(Selector::default().matches(&labels(&[])));
    }

    #[test]
    fn labels_are_expressions_with_one_value() {
        let (read, _) = read(vec![expression("b", "In", &["2"]), expression("a", "In", &["1", "1"])]);
        assert_eq!(read.selector, Selector::of_labels(&labels(&[("a", "1"), ("b", "2")])));
    }

    #[test]
    fn what_cannot_be_read_is_named_and_the_rest_holds() {
        for (operator, values) in [("Like", &["a"][..]), ("In", &[]), ("NotIn", &[]), ("Exists", &["a"]), ("", &[])] {
            let (read, findings) = read(vec![expression("b", "Exists", &[]), expression("a", operator, values)]);
            assert!(!read.is_whole, "{operator}");
            assert!(!read.selector.matches(&labels(&[("a", "1")])) && read.selector.matches(&labels(&[("b", "1")])));
            let fields: Vec<_> = findings.fields().collect();
            assert_eq!(fields, ["spec.podSelector.matchExpressions[1]"], "{operator}");
        }
    }
}
