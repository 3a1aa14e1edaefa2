//! The shared libraries that a program needs, of the system that built it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::output;

/// Returns the paths of a program's libraries and of their loader, as the program looks for them.
pub fn of(binary: &Path) -> anyhow::Result<BTreeSet<PathBuf>> {
    anyhow::ensure!(binary.is_file(), "there is no {}: build it first", binary.display());
    let mut ldd = Command::new("ldd");
    ldd.arg(binary);
    parsed(&output(ldd)?)
}

/// Reads what `ldd` says: `name => path (address)`, the loader as `path (address)`, and what the kernel maps without a path.
fn parsed(text: &str) -> anyhow::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for line in text.lines().map(str::trim) {
        anyhow::ensure!(!line.ends_with("not found"), "a library is missing: {line}");
        let path = line.split("=> ").last().unwrap_or_default().split(" (").next().unwrap_or_default();
        found.extend(path.starts_with('/').then(|| PathBuf::from(path)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_the_loader_are_found() {
        let text =
            "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x2)\n\t/lib64/ld-linux-x86-64.so.2 (0x3)\n";
        let expected = ["/lib/x/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(parsed(text).unwrap(), BTreeSet::from(expected));
        assert!(parsed("\tstatically linked\n").unwrap().is_empty());
        assert!(parsed("\tlibz.so.1 => not found\n").is_err());
    }
}
