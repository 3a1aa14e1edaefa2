//! The programs of the release before this one.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::shell;

/// What stands for the release before this one as long as there is no tag.
pub const COMMIT: &str = "64e453ac4a74717a04b1642fa367c19ecbc83acc";
const DISCOVERERS: [&str; 2] = ["gimbal-kubernetes-discoverer", "gimbal-openstack-discoverer"];
const WRITER: &str = "gimbal-writer";

/// Returns the folder of its programs, which are built once into the cache.
pub fn programs() -> anyhow::Result<PathBuf> {
    let there = gimbal_assets::cache()?.join("former").join(COMMIT);
    // The writer comes last: where it is, all are.
    gimbal_assets::once(&there.join(WRITER), |work| {
        eprintln!("building the programs of {COMMIT} (takes minutes)");
        let (source, target) = (work.join("source"), work.join("target"));
        extract(work, &source)?;
        let packages = DISCOVERERS.into_iter().chain([WRITER]).flat_map(|name| ["--package", name]);
        let mut build = shell::cargo(&["build", "--locked", "--bins"]);
        build.args(packages).current_dir(&source).env("CARGO_TARGET_DIR", &target);
        shell::run(build)?;
        for (name, to) in DISCOVERERS.into_iter().map(|name| (name, &*there)).chain([(WRITER, work)]) {
            let program = target.join("debug").join(name);
            std::fs::rename(&program, to.join(name)).with_context(|| format!("cannot move {}", program.display()))?;
        }
        Ok(())
    })?;
    Ok(there)
}

/// Writes the files of the commit into `source`.
fn extract(work: &Path, source: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(source).with_context(|| format!("cannot make {}", source.display()))?;
    let archive = work.join("source.tar");
    let mut git = shell::command("git");
    git.args(["archive", "--format=tar", "--output"]).arg(&archive).arg(COMMIT);
    shell::run(git).context("this checkout has no history: `git fetch --unshallow`")?;
    let mut tar = shell::command("tar");
    tar.arg("--extract").arg("--file").arg(&archive).arg("--directory").arg(source);
    shell::run(tar)?;
    std::fs::remove_file(&archive).with_context(|| format!("cannot remove {}", archive.display()))
}
