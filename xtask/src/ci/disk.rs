//! Whether the disk has room for what a run writes. A linker without room dies of a bus error that names no disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::shell;
use crate::tests::{self, Which};

const MB: u64 = 1 << 20;

/// What `target/` holds after a run that began without one, in megabytes, rounded up: of everything, and of
/// [`Which::Fast`].
const TARGET: [u64; 2] = [5_000, 3_200];
/// What the servers that tests start keep in the folder for temporary files while they run, in megabytes.
const TEMPORARY: [u64; 2] = [2_000, 300];

/// A folder that a run writes to.
struct Place {
    path: PathBuf,
    /// What is written to it, in bytes.
    needed: u64,
    /// How to put it elsewhere.
    variable: &'static str,
}

/// Fails if a file system has less room than is needed on it.
pub fn check(which: Which) -> anyhow::Result<()> {
    let of = |sizes: [u64; 2]| sizes[usize::from(which == Which::Fast)] * MB;
    let target = tests::bin_dir()?.parent().context("the programs are in no target folder")?.to_owned();
    let needed = of(TARGET).saturating_sub(size(&target)?);
    let places = [
        Place { path: target, needed, variable: "CARGO_TARGET_DIR" },
        Place { path: std::env::temp_dir(), needed: of(TEMPORARY), variable: "TMPDIR" },
    ];
    let mut disks: BTreeMap<String, (u64, Vec<&Place>)> = BTreeMap::new();
    for place in &places {
        let (disk, free) = free(&place.path)?;
        disks.entry(disk).or_insert((free, Vec::new())).1.push(place);
    }
    let faults: Vec<String> = disks.iter().filter_map(|(disk, (free, places))| fault(disk, *free, places)).collect();
    anyhow::ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}

/// Says what is missing on a disk, if it has too little room for these places.
fn fault(disk: &str, free: u64, places: &[&Place]) -> Option<String> {
    let needed: u64 = places.iter().map(|place| place.needed).sum();
    let name = |place: &&Place| {
        let (path, needed) = (place.path.display(), place.needed / MB);
        format!("{needed} MB in {path} ({} names another folder)", place.variable)
    };
    let names: Vec<String> = places.iter().map(name).collect();
    (free < needed).then(|| {
        let free = free / MB;
        format!("the disk {disk} has {free} MB left, and a run writes about {}: make room", names.join(" and "))
    })
}

/// Returns what the files below a folder occupy. Another cargo may remove some meanwhile, which count nothing.
fn size(dir: &Path) -> anyhow::Result<u64> {
    let mut command = shell::command("du");
    command.args(["--summarize", "--block-size=1"]).arg(dir);
    let output = command.output().context("cannot run du")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let bytes = said.split_whitespace().next().and_then(|bytes| bytes.parse().ok());
    bytes.with_context(|| format!("du says nothing of {}", dir.display()))
}

/// Returns where the file system of a folder is mounted, and how much of it is free for this user.
fn free(dir: &Path) -> anyhow::Result<(String, u64)> {
    let mut command = shell::command("df");
    command.args(["--block-size=1", "--output=avail,target"]).arg(dir);
    parse(&shell::output(command)?).with_context(|| format!("df says nothing of {}", dir.display()))
}

/// Reads the line below the header of df.
fn parse(table: &str) -> Option<(String, u64)> {
    let (free, disk) = table.lines().nth(1)?.trim().split_once(' ')?;
    Some((disk.trim().to_owned(), free.parse().ok()?))
}

#[cfg(test)]
mod tests_of_disks {
    use super::*;

    #[test]
    fn a_full_disk_is_named_with_what_goes_where() {
        let place = |path: &str, needed, variable| Place { path: path.into(), needed: needed * MB, variable };
        let (target, temporary) = (place("/a/target", 5_000, "CARGO_TARGET_DIR"), place("/tmp", 2_000, "TMPDIR"));
        let both = [&target, &temporary];
        assert_eq!(fault("/", 7_000 * MB, &both), None);
        assert_eq!(fault("/tmp", 2_000 * MB, &both[1..]), None);
        let expected = "the disk / has 6999 MB left, and a run writes about 5000 MB in /a/target (CARGO_TARGET_DIR names \
            another folder) and 2000 MB in /tmp (TMPDIR names another folder): make room";
        assert_eq!(fault("/", 6_999 * MB, &both).unwrap(), expected);
    }

    #[test]
    fn the_table_of_df_is_read() {
        let table = "     Avail Mounted on\n46080770048 /mnt/a disk\n";
        assert_eq!(parse(table), Some(("/mnt/a disk".to_owned(), 46_080_770_048)));
        assert_eq!(parse("     Avail Mounted on\n"), None);
        assert!(free(&std::env::temp_dir()).unwrap().1 > 0);
        assert!(size(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap() > 100_000);
    }
}
