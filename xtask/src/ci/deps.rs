//! Allowed dependencies between crates.

use crate::{assets, shell};

/// Crates with pure logic. They must not depend on a runtime, client or server, so that they cannot do I/O.
const PURE: &[&str] = &[
    "gimbal-backend",
    "gimbal-backend-summary",
    "gimbal-duration",
    "gimbal-error-text",
    "gimbal-model",
    "gimbal-kubernetes-definition",
    "gimbal-kubernetes-join",
    "gimbal-kubernetes-objects",
    "gimbal-kubernetes-source",
    "gimbal-kuryr-controller-core",
    "gimbal-kuryr-crd",
    "gimbal-kuryr-isolation",
    "gimbal-kuryr-model",
    "gimbal-kuryr-packed",
    "gimbal-kuryr-resource",
    "gimbal-kuryr-router-core",
    "gimbal-kuryr-translate",
    "gimbal-kuryr-wire",
    "gimbal-neutron-plan",
    "gimbal-neutron-sim",
    "gimbal-octavia-plan",
    "gimbal-octavia-registry",
    "gimbal-octavia-rows",
    "gimbal-octavia-sim",
    "gimbal-openstack-source",
    "gimbal-operator-core",
    "gimbal-session",
    "gimbal-plan",
    "gimbal-reconcile",
    "gimbal-guard",
    "gimbal-schedule",
];

/// Crates that do I/O.
const EDGES: [&str; 7] = ["tokio", "kube", "tonic", "hyper", "axum", "reqwest", "rustls"];

pub fn check() -> anyhow::Result<()> {
    for &package in PURE {
        let tree =
            shell::output(shell::cargo(&["tree", "--package", package, "--edges", "normal", "--prefix", "none"]))?;
        let found = forbidden(&tree);
        anyhow::ensure!(found.is_empty(), "{package} is to be pure and depends on {}", found.join(", "));
    }
    // With two crypto providers in one process, the one in use would depend on the order of calls.
    let tree = shell::output(shell::cargo(&["tree", "--workspace", "--edges", "normal", "--prefix", "none"]))?;
    let ring = tree.lines().any(|line| name_of(line) == "ring");
    anyhow::ensure!(!ring, "ring is a normal dependency beside aws-lc-rs: `cargo tree -i ring -e normal` tells whose");
    Ok(())
}

pub fn deny(advisories: bool) -> anyhow::Result<()> {
    let mut command = shell::command(assets::cargo_deny()?);
    command.args(["check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
    if advisories {
        command.arg("advisories");
    }
    shell::run(command)
}

fn forbidden(tree: &str) -> Vec<&str> {
    let mut found: Vec<&str> = tree.lines().map(name_of).filter(|name| EDGES.contains(name)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn name_of(line: &str) -> &str {
    line.split_whitespace().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_found_by_their_whole_name() {
        let tree = "gimbal-model v0.1.0\nserde v1.0.1 (*)\ntokio-less v1.0.0\n\ntonic v0.14.0\ntokio v1.2.3 (*)\n";
        assert_eq!(forbidden(tree), ["tokio", "tonic"]);
    }
}
