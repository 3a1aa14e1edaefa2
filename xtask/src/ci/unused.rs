//! Finds dependencies that a crate declares and does not use.

use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use super::files;
use crate::shell;

/// Dependencies that are used without being named: package, dependency, reason.
const UNNAMED: [(&str, &str, &str); 6] = [
    ("gimbal-kubernetes-client", "k8s-openapi", "chooses the version of Kubernetes that kube is built for"),
    ("gimbal-kubernetes-discoverer", "reqwest", "its tests include crates/discoverer/tests/running"),
    ("gimbal-kubernetes-discoverer", "tokio-util", "its tests include crates/discoverer/tests/running"),
    ("gimbal-tests", "gimbal-traces", "its feature is that of the programs under test"),
    ("gimbal-kuryr-wire", "tonic", "named by generated code"),
    ("gimbal-kuryr-wire", "tonic-prost", "named by generated code"),
];

pub fn check() -> anyhow::Result<()> {
    let text = shell::output(shell::cargo(&["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let mut faults = Vec::new();
    for package in packages {
        faults.extend(unused(package)?);
    }
    anyhow::ensure!(faults.is_empty(), "{}", faults.join("\n"));
    eprintln!("{} packages", packages.len());
    Ok(())
}

fn unused(package: &Value) -> anyhow::Result<Vec<String>> {
    let name = package["name"].as_str().context("a package without a name")?;
    let manifest = package["manifest_path"].as_str().context("a package without a manifest")?;
    let folder = Path::new(manifest).parent().context("a manifest without a folder")?;
    let mut found = std::collections::BTreeSet::new();
    files::collect(folder, &mut found)?;
    let mut sources = Vec::new();
    for file in found {
        sources.push((file.strip_prefix(folder).unwrap_or(&file).to_owned(), files::read(&file)?));
    }
    let mut faults = Vec::new();
    for dependency in package["dependencies"].as_array().into_iter().flatten() {
        let (kind, known) = (dependency["kind"].as_str(), dependency["name"].as_str().unwrap_or_default());
        let called = dependency["rename"].as_str().unwrap_or(known);
        let mut readers = sources.iter().filter(|(path, _)| may_use(kind, path));
        let unnamed = UNNAMED.iter().any(|(package, dependency, _)| (*package, *dependency) == (name, known));
        if !unnamed && !readers.any(|(_, text)| names(text, &called.replace('-', "_"))) {
            faults.push(format!("{name} does not use {called} ({}): remove it", kind.unwrap_or("normal")));
        }
    }
    Ok(faults)
}

/// Whether a file is compiled with dependencies of this kind.
fn may_use(kind: Option<&str>, path: &Path) -> bool {
    match kind {
        Some("build") => path == Path::new("build.rs"),
        Some(_) => true,
        None => !["tests", "benches", "examples"].iter().any(|folder| path.starts_with(folder)),
    }
}

/// Whether a crate's name begins a path, or is imported by `use` or `extern crate`, outside of line comments.
fn names(text: &str, called: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let is_named = |line: &str| {
        line.match_indices(called).any(|(at, _)| {
            let (before, after) = (&line[..at], &line[at + called.len()..]);
            let begins = !before.ends_with(word) && !after.starts_with(word);
            let path =
                after.starts_with("::") || before.trim_end().ends_with("use") || before.ends_with("extern crate ");
            begins && path
        })
    };
    text.lines().filter(|line| !line.trim_start().starts_with("//")).any(is_named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_named_by_a_path_or_a_use() {
        for used in
            ["use bytes::Bytes;", "    bytes::Bytes::new()", "#[derive(bytes::X)]", "use bytes;", "use bytes as b;"]
        {
            assert!(names(used, "bytes"), "{used}");
        }
        for unused in ["// bytes::Bytes", "let bytes = 1;", "use http_bytes::x;", "bytes_mut::x()", "my::bytes()"] {
            assert!(!names(unused, "bytes"), "{unused}");
        }
    }

    #[test]
    fn tests_are_no_reason_for_a_normal_dependency() {
        assert!(!may_use(None, Path::new("tests/a.rs")) && may_use(Some("dev"), Path::new("tests/a.rs")));
        assert!(may_use(None, Path::new("src/tests.rs")) && !may_use(Some("build"), Path::new("src/a.rs")));
    }

    #[test]
    fn what_is_not_named_is_found() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("src")).unwrap();
        std::fs::write(folder.path().join("src/lib.rs"), "use used_one::X;\n").unwrap();
        let manifest = folder.path().join("Cargo.toml");
        let dependency = |name: &str| serde_json::json!({"name": name, "kind": null, "rename": null});
        let package = serde_json::json!({
            "name": "p", "manifest_path": manifest, "dependencies": [dependency("used-one"), dependency("idle")],
        });
        assert_eq!(unused(&package).unwrap(), ["p does not use idle (normal): remove it"]);
    }
}
