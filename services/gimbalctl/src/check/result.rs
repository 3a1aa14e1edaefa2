//! One check: what was looked at, what was found, and what to do.

use std::fmt;

use serde_json::{Value, json};

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
    pub fn ok(id: &'static str, of: &str, found: impl Into<String>) -> Self {
        Self { id, of: of.into(), level: CheckLevel::Ok, found: found.into(), hint: String::new() }
    }

    pub fn warn(id: &'static str, of: &str, found: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { id, of: of.into(), level: CheckLevel::Warn, found: found.into(), hint: hint.into() }
    }

    pub fn fail(id: &'static str, of: &str, found: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { id, of: of.into(), level: CheckLevel::Fail, found: found.into(), hint: hint.into() }
    }

    pub fn skip(id: &'static str, of: &str, found: impl Into<String>) -> Self {
        Self { id, of: of.into(), level: CheckLevel::Skip, found: found.into(), hint: String::new() }
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
            CheckResult::skip("backend.synced", "node02", "no stream"),
        ];
        let expected = "RESULT  CHECK           OF           FOUND\n\
                        ok      server.reached  https://a:1\n\
                        FAIL    backend.held    node02       40 endpointsare held\n        \
                        gimbalctl approve 1 --backend node02\n\
                        skip    backend.synced  node02       no stream\n";
        assert_eq!(render(&results), expected);
    }
}
