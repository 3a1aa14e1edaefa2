//! Prometheus' own judge of rules and alerts.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::assets::Asset;

/// Returns the files of alerts in `deploy/alerts`.
///
/// # Errors
/// The folder cannot be read.
pub fn rule_files() -> anyhow::Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/alerts").canonicalize()?;
    std::fs::read_dir(folder)?.map(|file| Ok(file?.path())).collect()
}

/// Returns a part of a test of rules: that exactly these alerts have fired by a minute.
#[must_use]
pub fn have_fired<'a>(alerts: impl IntoIterator<Item = &'a str>, minute: u32) -> Value {
    let named = |name: &str| json!({"labels": format!("{{alertname=\"{name}\"}}"), "value": 1});
    let samples: Vec<Value> = alerts.into_iter().map(named).collect();
    let all_fired = "group by (alertname) (last_over_time(ALERTS{alertstate=\"firing\"}[1d]))";
    json!({"expr": all_fired, "eval_time": format!("{minute}m"), "exp_samples": samples})
}

/// Writes `NAME.yaml` with tests of the alerts in `deploy/alerts`, which are evaluated each minute.
///
/// # Errors
/// The file cannot be written.
pub fn test_file(folder: &Path, name: &str, tests: &[Value]) -> anyhow::Result<PathBuf> {
    let content = json!({"rule_files": rule_files()?, "evaluation_interval": "1m", "tests": tests});
    let path = folder.join(format!("{name}.yaml"));
    std::fs::write(&path, content.to_string()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Lets promtool judge files.
///
/// # Errors
/// It is missing and cannot be built, or finds a fault; the message has what it says.
pub fn promtool(args: &[&str], files: &[PathBuf]) -> anyhow::Result<()> {
    let output = Command::new(Asset::Promtool.path()?).args(args).args(files).output();
    let output = output.context("cannot run promtool")?;
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    anyhow::ensure!(output.status.success(), "{said}");
    Ok(())
}
