//! Versions of programs that talk to each other.

use super::result::CheckResult;

/// Returns the version in "program/1.2.3", or in "1.2.3".
pub fn number(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Returns the first two numbers of a version.
fn minor(version: &str) -> Option<(u64, u64)> {
    let mut numbers = version.split(['.', '-', '+']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Whether no release lies between two, the older one first. What the last minor version before another major one is, is not known:
/// any will do.
fn are_neighbours(older: (u64, u64), newer: (u64, u64)) -> bool {
    newer == (older.0, older.1 + 1) || newer == (older.0 + 1, 0)
}

/// Checks a program against the version of another one, `than`. Each minor version is a release, and one end may be a release older
/// (docs/operations.md#upgrade).
pub fn result(id: &'static str, of: &str, version: &str, than: &str, program: &str) -> CheckResult {
    let theirs = number(program);
    let (Some(one), Some(other)) = (minor(version), minor(theirs)) else {
        return CheckResult::skip(id, of, format!("{theirs:?} is no version that can be compared"));
    };
    if one == other {
        return CheckResult::ok(id, of, program);
    }
    let older = if other < one { "it" } else { than };
    let (found, hint) = (format!("{program}, while {than} is {version}"), format!("upgrade {older}, which is older"));
    match are_neighbours(one.min(other), one.max(other)) {
        true => CheckResult::warn(id, of, found, hint),
        false => CheckResult::fail(id, of, found, hint),
    }
}

#[cfg(test)]
mod tests {
    use super::super::result::CheckLevel;
    use super::*;

    #[test]
    fn one_end_may_be_a_release_older() {
        for (version, program, level, hint) in [
            ("0.1.0", "gimbal-writer/0.1.0", CheckLevel::Ok, ""),
            ("0.1.0", "gimbal-writer/0.1.7-rc.1", CheckLevel::Ok, ""),
            ("0.1.0", "0.1", CheckLevel::Ok, ""),
            ("0.2.0", "gimbal-writer/0.1.9", CheckLevel::Warn, "upgrade it, which is older"),
            ("0.9.0", "gimbal-writer/0.10.0", CheckLevel::Warn, "upgrade gimbalctl, which is older"),
            ("0.9.0", "gimbal-writer/0.11.0", CheckLevel::Fail, "upgrade gimbalctl, which is older"),
            ("1.0.0", "gimbal-writer/0.7.0", CheckLevel::Warn, "upgrade it, which is older"),
            ("1.1.0", "gimbal-writer/0.7.0", CheckLevel::Fail, "upgrade it, which is older"),
            ("2.0.0", "gimbal-writer/0.1.0", CheckLevel::Fail, "upgrade it, which is older"),
            ("0.1.0", "", CheckLevel::Skip, ""),
            ("0.1.0", "notes/one", CheckLevel::Skip, ""),
        ] {
            let found = result("server.version", "a", version, "gimbalctl", program);
            assert_eq!((found.level, found.hint.as_str()), (level, hint), "{version} {program}");
        }
    }
}
