//! Checks that no type name is declared in two crates: one name, one meaning.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::files;
use crate::shell;

const FOLDERS: [&str; 2] = ["crates", "services"];

/// Names that mean the same in each crate that declares them: objects of Kubernetes and OpenStack in two forms, and the
/// arguments of each program.
const SAME: [&str; 12] = [
    "Args",
    "Endpoint",
    "EndpointPort",
    "Endpoints",
    "Event",
    "LabelSelector",
    "NetworkPolicy",
    "Pool",
    "Protocol",
    "Service",
    "ServicePort",
    "Status",
];

pub fn check() -> anyhow::Result<()> {
    let root = shell::root();
    let mut declared = Vec::new();
    for folder in FOLDERS {
        let mut found = BTreeSet::new();
        files::collect(&root.join(folder), &mut found)?;
        for file in found {
            let path = file.strip_prefix(&root).unwrap_or(&file);
            if let Some(package) = package(path) {
                declared.extend(types(&files::read(&file)?).into_iter().map(|name| (name, package.clone())));
            }
        }
    }
    let packages = packages(&declared);
    let faults = faults(&packages);
    anyhow::ensure!(faults.is_empty(), "{}", faults.join("\n"));
    eprintln!("{} types", declared.len());
    Ok(())
}

/// Returns the folder of the package that a source file belongs to, or `None` for tests.
fn package(path: &Path) -> Option<String> {
    let (package, file) = path.to_str()?.split_once("/src/")?;
    let is_test = file.split(['/', '.']).any(|part| part == "tests" || part.ends_with("_tests"));
    (!is_test).then(|| package.to_owned())
}

/// Returns the names of the types that a file declares for others: with any form of `pub`.
fn types(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for line in text.lines().map(str::trim_start) {
        let Some(rest) = line.strip_prefix("pub") else { continue };
        let rest = match rest.strip_prefix('(') {
            Some(restricted) => restricted.split_once(')').map_or("", |(_, rest)| rest),
            None => rest,
        };
        let mut words = rest.split_whitespace();
        if matches!(words.next(), Some("struct" | "enum" | "trait" | "type")) {
            let name = words.next().unwrap_or_default();
            let name: String = name.chars().take_while(|c| c.is_alphanumeric()).collect();
            names.extend((!name.is_empty()).then_some(name));
        }
    }
    names
}

/// The packages that declare a name, for each name that more than one declares.
fn packages(declared: &[(String, String)]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut packages: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, package) in declared {
        packages.entry(name).or_default().insert(package);
    }
    packages.retain(|_, packages| packages.len() > 1);
    packages
}

fn faults(packages: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<String> {
    let fault = |(name, packages): (&&str, &BTreeSet<&str>)| {
        let packages: Vec<_> = packages.iter().copied().collect();
        format!("{name} is declared in {}: rename one of them", packages.join(" and "))
    };
    packages.iter().filter(|(name, _)| !SAME.contains(*name)).map(fault).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_any_visibility_are_found() {
        let text = "pub struct A;\n    pub(crate) enum B<T> {\npub(super) type C = A;\npub trait D: E {\nstruct F;\npub fn g() {}\n// pub struct H\n";
        assert_eq!(types(text), ["A", "B", "C", "D"]);
    }

    #[test]
    fn tests_are_left_out() {
        let of = |path: &str| package(Path::new(path));
        assert_eq!(of("crates/mirror/plan/src/a.rs").as_deref(), Some("crates/mirror/plan"));
        for test in ["crates/model/tests/a.rs", "services/writer/src/owner/tests.rs", "crates/a/src/queue_tests.rs"] {
            assert_eq!(of(test), None, "{test}");
        }
    }

    #[test]
    fn a_name_in_two_crates_is_a_fault_unless_it_means_the_same() {
        let declared = [("Zebra", "a"), ("Zebra", "b"), ("Pool", "a"), ("Pool", "b"), ("Once", "a"), ("Once", "a")];
        let declared = declared.map(|(name, package)| (name.to_owned(), package.to_owned()));
        assert_eq!(faults(&packages(&declared)), ["Zebra is declared in a and b: rename one of them"]);
    }
}
