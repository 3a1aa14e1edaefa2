//! The protocol: style, and that older agents and writers still understand it.

use std::path::Path;

use anyhow::Context as _;
use gimbal_assets::Asset;

use crate::prove::former;
use crate::shell;

/// Branches with the last accepted version. A clone may have only a local or only a remote one.
const BASES: [&str; 2] = ["refs/heads/main", "refs/remotes/origin/main"];

pub fn check() -> anyhow::Result<()> {
    let buf = Asset::Buf.path()?;
    let run = |args: &[&str]| {
        let mut command = shell::command(&buf);
        command.args(args);
        shell::run(command)
    };
    run(&["lint"])?;
    run(&["format", "--diff", "--exit-code"])?;
    if !exists("HEAD") {
        eprintln!("git reads no repository here: nothing to compare proto/ with");
        return Ok(());
    }
    let Some(base) = base() else {
        eprintln!("no release, branch main or earlier commit here: nothing to compare proto/ with");
        return Ok(());
    };
    let base = base.as_str();
    if !exists(&format!("{base}:proto")) {
        eprintln!("{base} has no proto/ yet: nothing to compare with");
        return Ok(());
    }
    let earlier = tempfile::tempdir().context("no temporary folder")?;
    extract(base, earlier.path())?;
    eprintln!("comparing proto/ with {base}");
    let mut command = shell::command(&buf);
    command.arg("breaking").arg("--against").arg(earlier.path());
    shell::run(command).context("proto/ breaks agents or writers that are in use")
}

/// Returns the base of the comparison: the last release; before the first one, what stands for it; in a clone without that,
/// main; and on main itself, its previous commit.
fn base() -> Option<String> {
    let git = |args: &[&str]| {
        let mut command = shell::command("git");
        command.args(args);
        shell::output(command).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    if let Some(release) = git(&["describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD"]) {
        return Some(release);
    }
    let is_in_history = |commit: &str| {
        let mut command = shell::command("git");
        command.args(["merge-base", "--is-ancestor", commit, "HEAD"]);
        shell::output(command).is_ok()
    };
    if is_in_history(former::COMMIT) {
        return Some(former::COMMIT.to_owned());
    }
    let head = git(&["rev-parse", "HEAD"]);
    let main = BASES.into_iter().find(|base| exists(base) && git(&["rev-parse", base]) != head);
    main.map(str::to_owned).or_else(|| exists("HEAD~1").then(|| "HEAD~1".to_owned()))
}

/// Whether git has this object.
fn exists(object: &str) -> bool {
    let mut command = shell::command("git");
    command.args(["rev-parse", "--quiet", "--verify", object]);
    shell::output(command).is_ok()
}

/// Uses `git archive`, because buf cannot clone a shallow clone or a linked work tree.
fn extract(base: &str, dir: &Path) -> anyhow::Result<()> {
    let archive = dir.join("proto.tar");
    let mut git = shell::command("git");
    git.args(["archive", "--format=tar", "--output"]).arg(&archive).args([base, "proto", "buf.yaml"]);
    shell::run(git)?;
    let mut tar = shell::command("tar");
    tar.arg("-xf").arg(&archive).arg("-C").arg(dir);
    shell::run(tar)
}
