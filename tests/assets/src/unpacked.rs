//! Programs from Debian, unpacked into the cache: nothing is installed, no service starts, and no root is needed.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use super::{cache, debian, once, say};

/// Returns the path of the program that a package has in `file`: the installed one, or one in the cache that starts with the
/// libraries of its package. The unpacked packages are in `root` beside it.
pub(super) fn program(package: &str, file: &str) -> anyhow::Result<PathBuf> {
    let name = file.rsplit('/').next().unwrap_or(file);
    match installed(name) {
        Some(path) => Ok(path),
        None => cached(package, file, name),
    }
}

/// As [`program`], but not the installed one.
pub(super) fn cached(package: &str, file: &str, name: &str) -> anyhow::Result<PathBuf> {
    let path = cache()?.join(format!("{package}-{}", release())).join(name);
    if !path.is_file() {
        once(&path, |work| {
            say(&format!("downloading {package} once"));
            unpack(work, package, file, name).with_context(|| {
                format!("there is no {package}: install it, or the package lists of a Debian from which apt-get can download it")
            })
        })?;
    }
    Ok(path)
}

/// Returns the script that starts an unpacked program with its libraries.
fn start(file: &str) -> String {
    format!(
        "#!/bin/sh
here=$(dirname \"$(readlink -f \"$0\")\")
LD_LIBRARY_PATH=$(echo \"$here\"/root/usr/lib/*-linux-gnu)
export LD_LIBRARY_PATH
exec \"$here/root/{file}\" \"$@\"
"
    )
}

fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    dirs.map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// Returns the system's name and release, for libraries of another release may not fit.
fn release() -> String {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or("unknown").trim_matches('"').to_owned()
    };
    format!("{}-{}", value("ID"), value("VERSION_ID"))
}

/// Downloads the packages that this system lacks, whose checksums apt-get verifies, and unpacks them beside `work`.
fn unpack(work: &Path, package: &str, file: &str, name: &str) -> anyhow::Result<()> {
    let list = ["install", "--print-uris", "-qq", "--no-install-recommends", package];
    let listed = apt(work, &list).or_else(|_| debian::update().and_then(|()| apt(work, &list)))?;
    let names = packages(&listed);
    anyhow::ensure!(!names.is_empty(), "apt-get names no package to download: {listed}");
    apt(work, &[&["download", "-qq"], &names[..]].concat())?;
    let root = work.join("root");
    for entry in std::fs::read_dir(work).context("cannot list the downloads")? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "deb") {
            run(Command::new("dpkg-deb").arg("-x").arg(&file).arg(&root))?;
        }
    }
    let dir = work.parent().context("the work folder is in no folder")?;
    let place = dir.join("root");
    if place.exists() {
        std::fs::remove_dir_all(&place).with_context(|| format!("cannot remove {}", place.display()))?;
    }
    std::fs::rename(&root, &place).with_context(|| format!("cannot make {}", place.display()))?;
    // It finds its libraries from where it is going to be.
    anyhow::ensure!(place.join(file).is_file(), "the package has no {file}");
    let script = work.join(name);
    std::fs::write(&script, start(file)).with_context(|| format!("cannot write {name}"))?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {name} a program"))?;
    // A library that is missing is noticed now, and not in a test.
    let trial = dir.join("trial");
    std::fs::copy(&script, &trial).with_context(|| format!("cannot copy {name}"))?;
    let version = run(Command::new(&trial).arg("-v"));
    std::fs::remove_file(&trial).with_context(|| format!("cannot remove the copy of {name}"))?;
    say(version?.lines().next().unwrap_or(name));
    Ok(())
}

/// Returns the names of the packages that `apt-get install --print-uris` lists, one a line:
/// `'http://…/haproxy_2.6.12-1_amd64.deb' haproxy_2.6.12-1_amd64.deb 2042596 SHA256:…`.
fn packages(listed: &str) -> Vec<&str> {
    let files = listed.lines().filter(|line| line.starts_with('\'')).filter_map(|line| line.split(' ').nth(1));
    files.filter_map(|file| file.split('_').next()).collect()
}

fn apt(work: &Path, args: &[&str]) -> anyhow::Result<String> {
    run(Command::new("apt-get").current_dir(work).args(args))
}

fn run(command: &mut Command) -> anyhow::Result<String> {
    let what = format!("{command:?}");
    let out = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {what}"))?;
    let said = String::from_utf8_lossy(&out.stderr);
    anyhow::ensure!(out.status.success(), "{what} failed: {}", said.trim());
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_from_the_files_names() {
        let listed = "W: a warning\n\
            'http://deb.debian.org/l/liblua5.3-0_5.3.6-2_amd64.deb' liblua5.3-0_5.3.6-2_amd64.deb 122984 SHA256:57\n\
            'http://deb.debian.org/h/haproxy_2.6.12-1%2bdeb12u4_amd64.deb' haproxy_2.6.12-1+deb12u4_amd64.deb 2042596 \n";
        assert_eq!(packages(listed), ["liblua5.3-0", "haproxy"]);
    }
}
