//! Checks that Rust files are not too long, that each belongs to a target, and that no merge was left half done.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;

use super::text;
use crate::shell;

const MOST_LINES: usize = 500;

const FOLDERS: [&str; 4] = ["crates", "services", "tests", "xtask"];

pub fn check() -> anyhow::Result<()> {
    let root = shell::root();
    let mut files = BTreeSet::new();
    for folder in FOLDERS {
        collect(&root.join(folder), &mut files)?;
    }
    let mut reached = BTreeSet::new();
    for target in targets()? {
        reach(&target, true, &mut reached)?;
    }
    let mut faults = Vec::new();
    for file in &files {
        let name = file.strip_prefix(&root).unwrap_or(file).display();
        let lines = read(file)?.lines().count();
        if lines > MOST_LINES {
            faults.push(format!("{name} has {lines} lines, more than {MOST_LINES}: split it"));
        }
        if !reached.contains(file) {
            faults.push(format!(
                "{name} belongs to no module tree, so it is neither built nor tested: declare or remove it"
            ));
        }
    }
    for file in text::files()? {
        if let Some(line) = unmerged(&file.text) {
            faults
                .push(format!("{}:{line} is half of a merge: take one side, or both, and remove the mark", file.path));
        }
    }
    anyhow::ensure!(faults.is_empty(), "{}", faults.join("\n"));
    eprintln!("{} files", files.len());
    Ok(())
}

/// The number of the line with git's mark of a conflict.
fn unmerged(text: &str) -> Option<usize> {
    let marks = ["<".repeat(7), ">".repeat(7)];
    let is_mark =
        |line: &str| marks.iter().any(|mark| line.strip_prefix(&**mark).is_some_and(|rest| rest.starts_with(' ')));
    text.lines().position(is_mark).map(|before| before + 1)
}

pub fn collect(dir: &Path, files: &mut BTreeSet<PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.insert(path);
        }
    }
    Ok(())
}

/// Returns the root file of every library, binary, test, benchmark and build script.
fn targets() -> anyhow::Result<Vec<PathBuf>> {
    let text = shell::output(shell::cargo(&["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&text).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let targets = packages.iter().filter_map(|package| package["targets"].as_array()).flatten();
    Ok(targets.filter_map(|target| target["src_path"].as_str().map(PathBuf::from)).collect())
}

/// Adds `file` and all modules below it. `flat`: its modules are beside it, as for a crate's root and for `mod.rs`.
fn reach(file: &Path, flat: bool, reached: &mut BTreeSet<PathBuf>) -> anyhow::Result<()> {
    if !reached.insert(file.to_owned()) {
        return Ok(());
    }
    let dir = file.parent().context("a file without a folder")?;
    let below = if flat { dir.to_owned() } else { dir.join(file.file_stem().unwrap_or_default()) };
    for module in modules(&read(file)?) {
        match module {
            Module::Path(path) => reach(&plain(&dir.join(path)), true, reached)?,
            Module::Name(name) => {
                let (leaf, folder) = (below.join(format!("{name}.rs")), below.join(&name).join("mod.rs"));
                if leaf.is_file() {
                    reach(&leaf, false, reached)?;
                } else if folder.is_file() {
                    reach(&folder, true, reached)?;
                }
            }
        }
    }
    Ok(())
}

/// Returns a path without `..`, as the list of all files has it.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

#[derive(Debug, PartialEq)]
enum Module {
    Name(String),
    Path(String),
}

/// Returns the modules that a file declares without a body.
fn modules(text: &str) -> Vec<Module> {
    let mut found = Vec::new();
    let mut path = None;
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("#[path = \"") {
            path = rest.split('"').next().map(str::to_owned);
        }
        let Some(declared) = line.strip_suffix(';') else { continue };
        let words: Vec<&str> = declared.split_whitespace().collect();
        let name = match words[..] {
            ["mod", name] => name,
            [visibility, "mod", name] if visibility.starts_with("pub") => name,
            _ => continue,
        };
        found.push(path.take().map_or_else(|| Module::Name(name.to_owned()), Module::Path));
    }
    found
}

pub fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_of_a_conflict_is_found_and_a_ruled_heading_is_not() {
        let open = "<".repeat(7);
        assert_eq!(unmerged(&format!("a\n{open} HEAD\nb\n")), Some(2));
        assert_eq!(unmerged(&format!("a\n=======\n  {open} HEAD\n{open}\n")), None);
    }

    #[test]
    fn declarations_are_found() {
        let text = "mod a;\npub mod b;\npub(crate) mod c;\nmod inline { }\n#[path = \"x/y.rs\"]\nmod d;\n// mod no;\nlet mod_e;\n";
        let name = |name: &str| Module::Name(name.to_owned());
        assert_eq!(modules(text), [name("a"), name("b"), name("c"), Module::Path("x/y.rs".to_owned())]);
    }

    #[test]
    fn only_what_is_declared_is_reached() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        };
        let root = write("lib.rs", "mod a;\nmod b;\n");
        let expected = BTreeSet::from([
            root.clone(),
            write("a.rs", "mod deep;\n"),
            write("a/deep.rs", ""),
            write("b/mod.rs", "mod beside;\n"),
            write("b/beside.rs", ""),
        ]);
        write("rotten.rs", "");
        let mut reached = BTreeSet::new();
        reach(&root, true, &mut reached).unwrap();
        assert_eq!(reached, expected);
    }

    #[test]
    fn a_path_to_another_folder_is_the_file_there() {
        assert_eq!(plain(Path::new("/a/tests/cloud/../running/mod.rs")), Path::new("/a/tests/running/mod.rs"));
    }
}
