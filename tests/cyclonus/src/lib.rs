//! cyclonus, another program that reads NetworkPolicies: it says what they let through, without a cluster, and has cases of its own.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use gimbal_assets::Asset;
use serde_json::Value;

/// Returns whether each packet is let through, by policies with every default written out.
///
/// # Errors
/// cyclonus is missing and cannot be built, or cannot read what it is given.
pub fn verdicts(policies: &[Value], traffic: &[Value]) -> anyhow::Result<Vec<bool>> {
    let dir = tempfile::tempdir()?;
    let (policy_path, traffic_path) = (dir.path().join("policies.json"), dir.path().join("traffic.json"));
    let list =
        serde_json::json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicyList", "items": policies});
    std::fs::write(&policy_path, list.to_string())?;
    std::fs::write(&traffic_path, Value::from(traffic).to_string())?;
    let path = |path: &Path| path.display().to_string();
    let said = run(&[
        "analyze",
        "--mode=query-traffic",
        // As they are written: what it makes simpler would be its own.
        "--simplify-policies=false",
        &format!("--policy-path={}", path(&policy_path)),
        &format!("--traffic-path={}", path(&traffic_path)),
    ])?;
    let verdict = |line: &str| {
        let line = line.to_lowercase();
        let (_, verdict) = line.split_once("is allowed?")?;
        verdict.split('|').find_map(|part| part.trim().parse().ok())
    };
    let verdicts: Vec<bool> = said.lines().filter_map(verdict).collect();
    let (count, wanted) = (verdicts.len(), traffic.len());
    anyhow::ensure!(count == wanted, "cyclonus said {count} verdicts about {wanted} packets:\n{said}");
    Ok(verdicts)
}

/// Returns the policies of cyclonus' own cases: for each step of one, all policies that there are then, in YAML.
///
/// # Errors
/// As [`verdicts`].
pub fn cases() -> anyhow::Result<Vec<Vec<String>>> {
    // Without a cluster, it prints the policies all the same.
    let said = run(&["generate", "--mock", "--perturbation-wait-seconds=0", "--retries=0", "--exclude="])?;
    let mut cases = Vec::new();
    for step in said.split("Results for network policies:\n").skip(1) {
        let (policies, _) = step.split_once(" wrong, ").context("a step without a result")?;
        // The last policy is followed by how many verdicts were wrong.
        let texts = policies.split("Network policy:\n").skip(1).map(|text| {
            let lines =
                text.lines().filter(|line| line.starts_with(' ') || line.contains(':') || line.starts_with('-'));
            let lines = lines.filter(|line| !line.starts_with("Discrepancy"));
            lines.collect::<Vec<_>>().join("\n")
        });
        cases.push(texts.collect());
    }
    Ok(cases)
}

fn run(args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(Asset::Cyclonus.path()?).args(args).stdin(Stdio::null()).output()?;
    let (said, failed) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    anyhow::ensure!(output.status.success(), "cyclonus {args:?}: {}\n{failed}", output.status);
    Ok(said.into_owned())
}
