//! Runs the cases under valgrind.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use super::kept::{Counts, Heap, Kept, With};
use crate::shell;

/// Returns the output of `valgrind --version`, after installing it if necessary and possible.
pub fn valgrind() -> anyhow::Result<String> {
    let version = || {
        let mut command = shell::command("valgrind");
        command.arg("--version");
        shell::output(command)
    };
    let found = version().or_else(|_| {
        gimbal_assets::debian(&["valgrind"]).context(
            "instructions are counted by valgrind, which is not here: install it (Debian, Ubuntu: apt-get install \
             valgrind; Fedora: dnf install valgrind)",
        )?;
        version()
    });
    found.map(|version| version.trim().to_owned())
}

/// Builds the cases and counts those whose name contains `only`.
pub fn measure(valgrind: &str, only: Option<&str>) -> anyhow::Result<Kept> {
    let path = path_with(&super::runner()?)?;
    let bench = |more: &[&str]| {
        let mut command = shell::cargo(&["bench", "--profile", "counts", "--package", "gimbal-counts"]);
        command.args(["--bench", "counts"]).args(more).env("PATH", &path);
        // Variables that a user has set would change the counts, and a runner's path would be compiled in.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GUNGRAUN_")) {
            command.env_remove(name);
        }
        command
    };
    shell::run(bench(&["--no-run"]))?;
    let filter = only.map(|only| format!("*{only}*"));
    let mut args = vec!["--", "--output-format=json", "--parallel=auto", "--nosummary=yes"];
    args.extend(filter.as_deref());
    let said = shell::output(bench(&args))?;
    let counts =
        said.lines().filter(|line| line.starts_with('{')).map(read).collect::<anyhow::Result<BTreeMap<_, _>>>()?;
    Ok(Kept { with: with(valgrind)?, counts })
}

/// Returns PATH with the runner's folder, because the cases look for it there.
fn path_with(runner: &Path) -> anyhow::Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = runner.parent().map(Path::to_owned).into_iter().chain(std::env::split_paths(&path));
    std::env::join_paths(dirs).context("the cache's path has a colon, so PATH cannot name it")
}

fn with(valgrind: &str) -> anyhow::Result<With> {
    let mut rustc = shell::command("rustc");
    rustc.arg("-vV");
    let said = shell::output(rustc)?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    let mut libc = shell::command("getconf");
    libc.arg("GNU_LIBC_VERSION");
    Ok(With {
        rustc: said.lines().next().unwrap_or_default().to_owned(),
        target: host.unwrap_or_default().to_owned(),
        valgrind: valgrind.to_owned(),
        libc: shell::output(libc).map_or_else(|_| "another C library".to_owned(), |text| text.trim().to_owned()),
    })
}

/// Reads one line of gungraun, which has the whole result of one case.
fn read(line: &str) -> anyhow::Result<(String, Counts)> {
    let summary: Value = serde_json::from_str(line).context("gungraun says something that is no JSON")?;
    let text = |field: &str| summary[field].as_str().unwrap_or_default();
    let id = text("id");
    let case = format!("{}::{}{}{id}", text("group"), text("function_name"), if id.is_empty() { "" } else { " " });
    let instructions =
        find(&summary, "Callgrind", "Ir").with_context(|| format!("{case}: it reports no instructions"))?;
    let heap = find(&summary, "DHAT", "TotalBlocks").zip(find(&summary, "DHAT", "TotalBytes"));
    let heap = heap.map(|(allocations, bytes)| Heap { allocations, bytes });
    let counts = Counts { instructions, heap };
    Ok((case, counts))
}

/// Returns the sum over all threads; the sum of an earlier run may be beside it.
fn find(summary: &Value, tool: &str, metric: &str) -> Option<u64> {
    let profile = summary["profiles"].as_array()?.iter().find(|profile| profile["tool"] == tool)?;
    profile["data"]["total"]["metrics"][metric]["values"]["new"].as_u64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_of_gungraun_is_read() {
        let profile = |tool: &str, metrics: Value| json!({"tool": tool, "data": {"total": {"metrics": metrics}}});
        let callgrind = profile("Callgrind", json!({"Ir": {"values": {"new": 7, "old": 8}}}));
        let dhat =
            profile("DHAT", json!({"TotalBlocks": {"values": {"new": 1}}, "TotalBytes": {"values": {"new": 24}}}));
        let line = |profiles: &[&Value]| {
            json!({"group": "plan", "function_name": "first", "id": "of_20", "profiles": profiles}).to_string()
        };
        let name = "plan::first of_20".to_owned();
        let heap = Some(Heap { allocations: 1, bytes: 24 });
        assert_eq!(read(&line(&[&callgrind, &dhat])).unwrap(), (name.clone(), Counts { instructions: 7, heap }));
        assert_eq!(read(&line(&[&callgrind])).unwrap(), (name, Counts { instructions: 7, heap: None }));
        let error = read(&line(&[&dhat])).unwrap_err().to_string();
        assert_eq!(error, "plan::first of_20: it reports no instructions");
    }
}
