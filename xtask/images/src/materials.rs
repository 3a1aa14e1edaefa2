//! What is in an image, as a CycloneDX bill of materials: the crates that the program is built of, and the packages of the
//! libraries beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::{Source, output, root};

/// Returns the bill of materials of an image, in JSON. It has neither a serial number nor a time of its own, so that the same
/// materials make the same text.
pub fn list(
    program: &str,
    features: &[String],
    libraries: &BTreeSet<PathBuf>,
    source: &Source,
) -> anyhow::Result<String> {
    let mut tree = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    tree.current_dir(root()).args(["tree", "--locked", "--prefix", "none", "--edges", "normal"]);
    tree.args(["--format", "{p}|{l}", "--package", program]);
    // Those of other programs are unknown to this one's package.
    let own = features.iter().filter(|feature| feature.split_once('/').is_some_and(|(of, _)| of == program));
    tree.args(own.flat_map(|feature| ["--features", feature]));
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let mut components = crates(&output(tree)?, &checksums(&lock));
    components.extend(packages(libraries));
    let reference = format!("pkg:generic/{program}@{}", source.version);
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": source.created,
            "component": {
                "type": "application", "bom-ref": reference, "name": program, "version": source.version, "purl": reference,
                "licenses": [{"expression": "Apache-2.0"}],
            },
        },
        "components": components,
    });
    Ok(format!("{bill:#}\n"))
}

/// Returns the checksums in Cargo.lock by `name version`.
fn checksums(lock: &str) -> BTreeMap<String, String> {
    let value = |line: &str, key: &str| Some(line.strip_prefix(key)?.trim_matches([' ', '=', '"']).to_owned());
    let mut found = BTreeMap::new();
    for package in lock.split("[[package]]") {
        let of = |key: &str| package.lines().find_map(|line| value(line, key));
        if let (Some(name), Some(version), Some(checksum)) = (of("name "), of("version "), of("checksum ")) {
            found.insert(format!("{name} {version}"), checksum);
        }
    }
    found
}

/// Returns the components of what `cargo tree` says: `name vVERSION (what else)|licence`. Ours are the program itself.
fn crates(tree: &str, checksums: &BTreeMap<String, String>) -> Vec<Value> {
    let lines: BTreeSet<&str> = tree.lines().collect();
    let components = lines.into_iter().filter_map(|line| {
        let (package, licence) = line.split_once('|')?;
        let mut words = package.split(' ');
        let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
        let checksum = checksums.get(&format!("{name} {version}"))?;
        let reference = format!("pkg:cargo/{name}@{version}");
        // A crate that was listed before has a mark; and `/` is an older way to write OR.
        let licence = licence.trim_end_matches(" (*)").replace('/', " OR ");
        Some(json!({
            "type": "library", "bom-ref": reference, "name": name, "version": version, "purl": reference,
            "licenses": [{"expression": licence}],
            "hashes": [{"alg": "SHA-256", "content": checksum}],
        }))
    });
    let by_reference: BTreeMap<String, Value> =
        components.map(|component| (component["bom-ref"].as_str().unwrap_or_default().to_owned(), component)).collect();
    by_reference.into_values().collect()
}

/// Returns the Debian packages of libraries and authorities. Elsewhere they stay unknown.
fn packages(libraries: &BTreeSet<PathBuf>) -> Vec<Value> {
    let name = |library: &PathBuf| {
        let mut query = Command::new("dpkg-query");
        // Its database may have the path without /usr, which links to the same folder, or with it.
        query.args(["--search", &format!("*{}", library.to_string_lossy())]);
        Some(output(query).ok()?.split(':').next()?.to_owned())
    };
    let mut names: BTreeSet<String> = libraries.iter().filter_map(name).collect();
    names.insert("ca-certificates".to_owned());
    let component = |name: &String| {
        let mut query = Command::new("dpkg-query");
        query.args(["--show", "--showformat=${Version} ${Architecture}", name]);
        let said = output(query).ok()?;
        let (version, arch) = said.split_once(' ')?;
        let reference = format!("pkg:deb/debian/{name}@{version}?arch={arch}");
        Some(json!({"type": "library", "bom-ref": reference, "name": name, "version": version, "purl": reference}))
    };
    names.iter().filter_map(component).collect()
}

#[cfg(test)]
mod of_trees {
    use super::*;

    #[test]
    fn crates_of_the_registry_are_listed_once_with_their_checksum() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"12\"\n\n[[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n";
        let tree = "ours v0.1.0 (/somewhere)|Apache-2.0\na v1.0.0|MIT/Apache-2.0\na v1.0.0 (proc-macro)|MIT/Apache-2.0 (*)\n\n";
        let found = crates(tree, &checksums(lock));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0]["purl"], "pkg:cargo/a@1.0.0");
        assert_eq!(found[0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(found[0]["hashes"][0]["content"], "12");
    }
}
