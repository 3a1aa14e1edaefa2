//! Label selectors, in the syntax of `kubectl -l`.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

/// Requirements on labels. All of them must hold; the default has none and matches any labels.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    condition: Condition,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Condition {
    Present,
    Absent,
    In(Vec<String>),
    /// Also matches if the label is absent.
    NotIn(Vec<String>),
}

/// A label selector with a syntax error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("label selector {text:?}: {problem}")]
pub struct InvalidSelector {
    text: String,
    problem: String,
}

impl LabelSelector {
    /// Whether the labels meet all requirements.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<Arc<str>, Arc<str>>) -> bool {
        self.0.iter().all(|Requirement { key, condition }| {
            let value = labels.get(key.as_str());
            let is_one_of = |values: &[String]| value.is_some_and(|value| values.iter().any(|one| **one == **value));
            match condition {
                Condition::Present => value.is_some(),
                Condition::Absent => value.is_none(),
                Condition::In(values) => is_one_of(values),
                Condition::NotIn(values) => !is_one_of(values),
            }
        })
    }
}

impl FromStr for LabelSelector {
    type Err = InvalidSelector;

    /// Parses requirements separated by commas: `a=b`, `a==b`, `a!=b`, `a in (b, c)`, `a notin (b, c)`, `a`, `!a`.
    fn from_str(text: &str) -> Result<Self, InvalidSelector> {
        let wrong = |problem| InvalidSelector { text: text.to_owned(), problem };
        let requirements = split(text).into_iter().map(requirement).collect::<Result<_, _>>().map_err(wrong)?;
        Ok(Self(requirements))
    }
}

/// Splits at the commas outside of parentheses.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut from, mut inside) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => inside = true,
            ')' => inside = false,
            ',' if !inside => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

fn requirement(text: &str) -> Result<Requirement, String> {
    let text = text.trim();
    let one = |key: &str, values: &str, condition: fn(Vec<String>) -> Condition| {
        Ok(Requirement { key: checked_key(key)?, condition: condition(vec![checked_value(values)?]) })
    };
    if let Some(key) = text.strip_prefix('!') {
        return Ok(Requirement { key: checked_key(key)?, condition: Condition::Absent });
    }
    if let Some((head, values)) = text.split_once('(') {
        let list = values.strip_suffix(')').ok_or_else(|| format!("{text:?} has no closing parenthesis"))?;
        let values = list.split(',').map(checked_value).collect::<Result<Vec<_>, _>>()?;
        let mut words = head.split_whitespace();
        let (key, condition) = match (words.next(), words.next(), words.next()) {
            (Some(key), Some("in"), None) => (key, Condition::In(values)),
            (Some(key), Some("notin"), None) => (key, Condition::NotIn(values)),
            _ => return Err(format!("{text:?} is neither KEY in (VALUE, ...) nor KEY notin (VALUE, ...)")),
        };
        return Ok(Requirement { key: checked_key(key)?, condition });
    }
    if let Some((key, value)) = text.split_once("!=") {
        return one(key, value, Condition::NotIn);
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return one(key, value, Condition::In);
    }
    Ok(Requirement { key: checked_key(text)?, condition: Condition::Present })
}

fn checked_key(key: &str) -> Result<String, String> {
    let key = key.trim();
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let domain = |text: &str| {
        let allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'.');
        !text.is_empty() && text.len() <= 253 && text.bytes().all(allowed)
    };
    if prefix.is_none_or(domain) && !name.is_empty() && is_name(name) {
        Ok(key.to_owned())
    } else {
        Err(format!("{key:?} is no label key"))
    }
}

fn checked_value(value: &str) -> Result<String, String> {
    let value = value.trim();
    if value.is_empty() || is_name(value) { Ok(value.to_owned()) } else { Err(format!("{value:?} is no label value")) }
}

fn is_name(text: &str) -> bool {
    let allowed = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63 && text.bytes().all(allowed) && ends(text.chars().next()) && ends(text.chars().next_back())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> BTreeMap<Arc<str>, Arc<str>> {
        let pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
        pairs.map(|(key, value)| (key.into(), value.into())).collect()
    }

    #[test]
    fn as_kubernetes_reads_them() {
        for (selector, matching, other) in [
            ("app=web", "app=web", "app=api"),
            ("app == web ", "app=web", ""),
            ("app!=web", "", "app=web"),
            ("app in (web, api)", "app=api", ""),
            ("app in (web,),x", "app= x=1", "app=web"),
            ("app notin (web,api)", "", "app=web"),
            ("app", "app=", "ap=p"),
            ("!app", "ap=p", "app="),
            ("a=1,b in (2,3),!c", "a=1 b=3", "a=1 b=3 c=4"),
            ("example.com/tier=gold", "example.com/tier=gold", "tier=gold"),
            ("app=", "app=", "app=x"),
        ] {
            let parsed: LabelSelector = selector.parse().unwrap();
            assert!(parsed.matches(&labels(matching)), "{selector} and {matching}");
            assert!(!parsed.matches(&labels(other)), "{selector} and {other}");
        }
    }

    #[test]
    fn syntax_errors_name_the_problem() {
        for (text, problem) in [
            ("", "\"\" is no label key"),
            ("a=b,", "\"\" is no label key"),
            ("a b", "\"a b\" is no label key"),
            ("a=b=c", "\"b=c\" is no label value"),
            ("a in b", "\"a in b\" is no label key"),
            ("a in (b", "\"a in (b\" has no closing parenthesis"),
            ("a of (b)", "\"a of (b)\" is neither KEY in (VALUE, ...) nor KEY notin (VALUE, ...)"),
            ("/a", "\"/a\" is no label key"),
            ("a=-b", "\"-b\" is no label value"),
            ("a>1", "\"a>1\" is no label key"),
        ] {
            let error = text.parse::<LabelSelector>().unwrap_err();
            assert_eq!(error.to_string(), format!("label selector {text:?}: {problem}"));
        }
    }
}
