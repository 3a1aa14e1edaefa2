//! `cargo xtask prove simulation`: the way back in random worlds, for as long as is wanted.

use crate::shell;

pub const NAME: &str = "simulation";
pub const WHAT: &str = "load balancers and ports end as they are wanted, and load balancers serve all the time, whatever is lost, \
                        killed, refused or held, 2,000 worlds of each kind";

/// The packages, and the file of the tests in each.
const TESTS: [(&str, &str); 4] = [
    ("gimbal-neutron-plan", "networks"),
    ("gimbal-neutron-plan", "ports"),
    ("gimbal-octavia-plan", "plan"),
    ("gimbal-octavia-registry", "registry"),
];
/// The modules with properties of worlds.
const MODULES: [&str; 5] = ["any_trouble::", "certificates::", "gap::", "routers_in_trouble::", "sharing::"];
const WORLDS: u64 = 2_000;

#[derive(clap::Args)]
// Groups are named after their types, and the arguments around these have the same name.
#[group(skip)]
pub struct Args {
    /// simulation: the number of worlds of each kind.
    #[arg(long)]
    worlds: Option<u64>,
    /// simulation: how long each kind takes at least, in seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// simulation: the first seed.
    #[arg(long)]
    first: Option<u64>,
    /// simulation: only the properties whose name contains this.
    #[arg(long)]
    only: Option<String>,
}

impl Args {
    pub fn is_unset(&self) -> bool {
        let Self { worlds, seconds, first, only } = self;
        worlds.is_none() && seconds.is_none() && first.is_none() && only.is_none()
    }
}

/// Runs the worlds on one thread, behind everything else that the machine does.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let Args { worlds, seconds, first, only } = args;
    let mut command = shell::command("nice");
    command.args(["-n", "19"]).arg(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["test", "--profile", "quick", "--no-fail-fast"]);
    for (package, file) in TESTS {
        command.args(["--package", package, "--test", file]);
    }
    command.args(["--", "--nocapture", "--test-threads", "1"]);
    match only {
        Some(only) => command.arg(only),
        None => command.args(MODULES),
    };
    let usual = if seconds.is_some() { 1 } else { WORLDS };
    command.env("GIMBAL_PROVE", worlds.unwrap_or(usual).to_string());
    if let Some(seconds) = seconds {
        command.env("GIMBAL_PROVE_SECONDS", seconds.to_string());
    }
    if let Some(first) = first {
        command.env("GIMBAL_PROVE_FIRST", first.to_string());
    }
    shell::run(command)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::ci::files;

    #[test]
    fn every_module_with_worlds_is_run() {
        let mut all = BTreeSet::new();
        for folder in ["crates/neutron", "crates/octavia"] {
            files::collect(&shell::root().join(folder), &mut all).unwrap();
        }
        let mut modules = BTreeSet::new();
        for file in all.iter().filter(|file| file.components().any(|one| one.as_os_str() == "tests")) {
            let text = files::read(file).unwrap();
            if text.contains("worlds(\"") {
                let parent = file.parent().unwrap();
                let known = TESTS.iter().any(|(_, name)| parent.ends_with(format!("tests/{name}")));
                assert!(known, "{}: its package, or the file of its tests, is not in TESTS", file.display());
                modules.insert(format!("{}::", file.file_stem().unwrap().to_str().unwrap()));
            }
        }
        assert_eq!(modules.iter().map(String::as_str).collect::<Vec<_>>(), MODULES);
    }
}
