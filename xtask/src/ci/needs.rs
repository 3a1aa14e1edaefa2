//! What must be installed before anything is built, asked for at once: a stranger learns of all of it in one go.

use std::process::Stdio;

use gimbal_assets::Asset;

use crate::shell;
use crate::tests::Which;

/// A program that the steps run.
struct Need {
    /// A call that succeeds if it is there.
    call: &'static [&'static str],
    why: &'static str,
    /// How to get it.
    hint: &'static str,
}

const ALWAYS: [Need; 5] = [
    Need { call: &["git", "--version"], why: "lists the repository's files", hint: "install git" },
    Need {
        call: &["cc", "--version"],
        why: "links programs and builds libraries that are written in C",
        hint: "install gcc or clang (Debian, Ubuntu: apt-get install build-essential)",
    },
    Need { call: &["make", "--version"], why: "builds jemalloc", hint: "install make" },
    Need { call: &["cargo", "fmt", "--version"], why: "checks the format", hint: "rustup component add rustfmt" },
    Need { call: &["cargo", "clippy", "--version"], why: "checks the lints", hint: "rustup component add clippy" },
];

const GO: Need = Need {
    call: &["go", "version"],
    why: "builds the servers and tools that are not there yet",
    hint: "install Go 1.26.7 or newer, or set KUBEBUILDER_ASSETS to a folder with kube-apiserver and etcd \
           (`cargo xtask test --fast` needs no others)",
};

/// Fails with a line for each program that is missing.
pub fn check(which: Which) -> anyhow::Result<()> {
    let used: &[Asset] = if which == Which::All { &Asset::ALL } else { &[Asset::Etcd, Asset::ApiServer] };
    let go = used.iter().any(|asset| !asset.is_there()).then_some(&GO);
    let lines: Vec<String> = ALWAYS.iter().chain(go).filter_map(missing).collect();
    anyhow::ensure!(lines.is_empty(), "not everything is installed:\n{}", lines.join("\n"));
    Ok(())
}

fn missing(need: &Need) -> Option<String> {
    let (program, args) = need.call.split_first()?;
    let mut command = if *program == "cargo" { shell::cargo(args) } else { shell::command(program) };
    if *program != "cargo" {
        command.args(args);
    }
    // A cargo without the component is no program that cannot be run, so its answer counts.
    let there = command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    // Of a component of cargo, the name is its first argument.
    let name = if *program == "cargo" { need.call[..2].join(" ") } else { (*program).to_owned() };
    (!there).then(|| format!("  {name} {}: {}", need.why, need.hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_remedy() {
        let need = Need { call: &["no-such-program", "--version"], why: "does things", hint: "install it" };
        assert_eq!(missing(&need).unwrap(), "  no-such-program does things: install it");
        let need = Need { call: &["cargo", "no-such-part"], why: "does things", hint: "add it" };
        assert_eq!(missing(&need).unwrap(), "  cargo no-such-part does things: add it");
        assert_eq!(missing(&Need { call: &["cargo", "--version"], ..need }), None);
    }
}
