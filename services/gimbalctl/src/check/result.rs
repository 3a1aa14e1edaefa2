//! One check: what was looked at, what was found, and what to do.

use std::fmt;

use serde_json::{Value, json};

use super::ids;
use crate::table::columns;

/// How it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckLevel {
    /// As it should be.
    Ok,
    /// It works, and a person should know.
    Warn,
    /// A person must do something.
    Fail,
    /// It could not be looked at, for something before it failed.
    Skip,
}

impl CheckLevel {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "FAIL",
            Self::Skip => "skip",
        }
    }
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckResult {
    /// What is checked. It stays the same from version to version.
    pub id: &'static str,
    /// What it is checked of: a file, a server, a backend, a cluster.
    pub of: String,
    pub level: CheckLevel,
    /// What was found; empty: as expected.
    pub found: String,
    /// What to do; empty: nothing.
    pub hint: String,
}

impl CheckResult {
    fn new(id: &'static str, of: &str, level: CheckLevel, found: impl Into<String>, hint: impl Into<String>) -> Self {
        debug_assert!(ids::is_known(id), "{id} is missing in the list of checks");
        Self { id, of: of.into(), level, found: found.into(), hint: hint.into() }
    }

    pub fn ok(id: &'static str, of: &str, found: impl Into<String>) -> Self {
        Self::new(id, of, CheckLevel::Ok, found, "")
    }

    pub fn warn(id: &'static str, of: &str, found: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(id, of, CheckLevel::Warn, found, hint)
    }

    pub fn fail(id: &'static str, of: &str, found: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(id, of, CheckLevel::Fail, found, hint)
    }

    pub fn skip(id: &'static str, of: &str, found: impl Into<String>) -> Self {
        Self::new(id, of, CheckLevel::Skip, found, "")
    }

    /// Whether it is something on its way, which passes by itself.
    pub fn passes(&self) -> bool {
        matches!(self.id, "backend.complete" | "cluster.complete" | "cluster.served")
    }

    pub fn json(&self) -> Value {
        let Self { id, of, level, found, hint } = self;
        json!({"check": id, "of": of, "result": level.as_str().to_lowercase(), "found": found, "hint": hint})
    }
}

impl fmt::Display for CheckResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.id, self.of)
    }
}

/// Returns the checks as a table, each hint below its check.
pub fn render(results: &[CheckResult]) -> String {
    let heads = ["RESULT", "CHECK", "OF", "FOUND"].map(str::to_owned).to_vec();
    let row =
        |one: &CheckResult| vec![one.level.as_str().to_owned(), one.id.to_owned(), one.of.clone(), one.found.clone()];
    let table = columns(&std::iter::once(heads).chain(results.iter().map(row)).collect::<Vec<_>>());
    let mut text = String::new();
    // The heads have no result.
    for (line, result) in table.lines().zip(std::iter::once(None).chain(results.iter().map(Some))) {
        text.push_str(line);
        text.push('\n');
        if let Some(result) = result.filter(|result| !result.hint.is_empty()) {
            text.push_str(&columns(&[vec![format!("        {}", result.hint)]]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hint_is_below_its_check() {
        let results = [
            CheckResult::ok("server.reached", "https://a:1", ""),
            CheckResult::fail(
                "backend.held",
                "node02",
                "40 endpoints\nare held",
                "gimbalctl approve 1 --backend node02",
            ),
            CheckResult::skip("backend.source", "node02", "no stream"),
        ];
        let expected = "RESULT  CHECK           OF           FOUND\n\
                        ok      server.reached  https://a:1\n\
                        FAIL    backend.held    node02       40 endpointsare held\n        \
                        gimbalctl approve 1 --backend node02\n\
                        skip    backend.source  node02       no stream\n";
        assert_eq!(render(&results), expected);
    }
}
