//! Flame graphs of where a process spends its time, sampled by `perf`.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use gimbal_testkit::Process;
use inferno::collapse::Collapse as _;
use inferno::collapse::perf::{Folder, Options};
use inferno::flamegraph;

/// Samples per second.
const RATE: &str = "499";
/// Bytes of stack in each sample: builds have no frame pointers, so stacks are unwound afterwards.
const STACK: &str = "dwarf,16384";

/// A running `perf record`.
pub struct Sampling {
    perf: Process,
    data: PathBuf,
}

/// Sampled stacks, and how often each was seen.
#[derive(Debug, Clone)]
pub struct Flame {
    /// Part of the file's name.
    pub name: &'static str,
    /// Title of the graph.
    pub title: String,
    folded: String,
}

impl Sampling {
    /// Starts sampling processes.
    ///
    /// # Errors
    /// `perf` is missing, or lacks the rights.
    pub fn start(processes: &[u32], dir: &Path) -> anyhow::Result<Self> {
        let data = dir.join("perf.data");
        let perf = find("perf")?;
        let ids = processes.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let output = data.display().to_string();
        let args = ["record", "-e", "cpu-clock", "-F", RATE, "--call-graph", STACK, "-p", &ids, "-o", &output];
        let args = args.map(str::to_owned);
        Ok(Self { perf: Process::start("perf", &perf, &args, &dir.join("perf.log"))?, data })
    }

    /// Ends the sampling, and reads its result.
    ///
    /// # Errors
    /// `perf` failed; the message has its output.
    pub async fn end(mut self, name: &'static str, title: String) -> anyhow::Result<Flame> {
        self.perf.signal("INT")?;
        self.perf.wait_exit(Duration::from_secs(60)).await?;
        let mut command = Command::new(find("perf")?);
        command.args(["script", "--no-inline", "--fields", "comm,pid,tid,time,event,ip,sym,dso", "-i"]);
        command.arg(&self.data).stdin(Stdio::null());
        let output = tokio::task::block_in_place(|| command.output()).context("cannot run perf script")?;
        anyhow::ensure!(output.status.success(), "perf script failed:\n{}", self.perf.log_tail());
        let mut folded = Vec::new();
        Folder::from(Options::default()).collapse(Cursor::new(output.stdout), &mut folded)?;
        let folded = String::from_utf8_lossy(&folded).into_owned();
        anyhow::ensure!(!folded.is_empty(), "perf saw nothing:\n{}", self.perf.log_tail());
        Ok(Flame { name, title, folded })
    }
}

impl Flame {
    /// Writes the graph as SVG.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn draw(&self, path: &Path) -> anyhow::Result<()> {
        let file = std::fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut options = flamegraph::Options::default();
        options.title = self.title.clone();
        options.count_name = "samples".into();
        // Narrower frames are invisible, and are most of the file.
        options.min_width = 0.2;
        flamegraph::from_lines(&mut options, self.folded.lines(), file)
            .with_context(|| format!("cannot draw {}", path.display()))
    }

    /// Returns the share of samples whose stack contains each of `parts`, compared as substrings.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn shares(&self, parts: &[&'static str]) -> BTreeMap<&'static str, f64> {
        let mut seen: BTreeMap<&'static str, u64> = BTreeMap::new();
        let mut all = 0;
        for (stack, count) in self.folded.lines().filter_map(|line| line.rsplit_once(' ')) {
            let count: u64 = count.parse().unwrap_or_default();
            all += count;
            for part in parts.iter().filter(|part| stack.contains(**part)) {
                *seen.entry(part).or_default() += count;
            }
        }
        seen.into_iter().map(|(part, count)| (part, count as f64 / all.max(1) as f64)).collect()
    }
}

fn find(program: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file());
    found.with_context(|| format!("there is no {program} on this machine: Debian has it in linux-perf"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_count_a_stack_once() {
        let folded = "w;tokio;json;json 3\nw;tokio;tls 1\n".to_owned();
        let flame = Flame { name: "x", title: String::new(), folded };
        assert_eq!(flame.shares(&["json", "tokio", "none"]), [("json", 0.75), ("tokio", 1.0)].into());
    }
}
