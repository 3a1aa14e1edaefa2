//! What users install from deploy/, as Helm renders it and as the files say it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use gimbal_assets::Asset;
use serde_json::Value;

/// The charts of programs. A chart is called like its program.
pub const PROGRAMS: [&str; 6] = [
    "gimbal-writer",
    "gimbal-kubernetes-discoverer",
    "gimbal-openstack-discoverer",
    "gimbal-kuryr-controller",
    "gimbal-openstack-writer",
    "gimbal-operator",
];

/// Returns a path below deploy/.
#[must_use]
pub fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(path)
}

/// A chart with values, as it would be installed.
#[derive(Debug, Clone)]
pub struct Chart {
    /// The folder in deploy/charts.
    pub name: &'static str,
    /// The release; by default called like the chart.
    pub release: &'static str,
    /// The namespace of the release.
    pub namespace: &'static str,
    /// Files of values below `examples/` of the chart.
    pub values: Vec<String>,
    /// Values as `key=JSON`.
    pub set: Vec<String>,
}

impl Chart {
    /// A chart with a file of values below its `examples/`.
    #[must_use]
    pub fn example(name: &'static str, file: &str) -> Self {
        Self { name, release: name, namespace: "gimbal", values: vec![file.to_owned()], set: Vec::new() }
    }

    /// Returns a program's chart with each of its examples.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn examples(name: &'static str) -> anyhow::Result<Vec<Self>> {
        let folder = deploy("charts").join(name).join("examples");
        let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        entries.map(|entry| Ok(Self::example(name, &entry?.file_name().to_string_lossy()))).collect()
    }

    /// Sets a value further, as `key=JSON`.
    #[must_use]
    pub fn set(mut self, value: impl Into<String>) -> Self {
        self.set.push(value.into());
        self
    }

    /// Returns the objects of the chart.
    ///
    /// # Errors
    /// What Helm says of the values.
    pub fn render(&self) -> anyhow::Result<Vec<Value>> {
        let folder = deploy("charts").join(self.name);
        let mut helm = Command::new(Asset::Helm.path()?);
        helm.args(["template", self.release]).arg(&folder).args(["--namespace", self.namespace]);
        for file in &self.values {
            helm.arg("--values").arg(folder.join("examples").join(file));
        }
        helm.args(self.set.iter().flat_map(|value| ["--set-json", value]));
        let output = helm.output().context("cannot run helm")?;
        anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        documents(&String::from_utf8_lossy(&output.stdout))
    }
}

/// Returns the objects in YAML documents.
///
/// # Errors
/// The text is not YAML.
pub fn documents(text: &str) -> anyhow::Result<Vec<Value>> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text)?;
    Ok(all.into_iter().filter(|object| !object.is_null()).collect())
}

/// Returns the objects in the YAML files of a folder of deploy/, with the names of the files.
///
/// # Errors
/// A file cannot be read, or is not YAML.
pub fn objects(folder: &str) -> anyhow::Result<Vec<(String, Value)>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(deploy(folder)).with_context(|| format!("cannot list deploy/{folder}"))? {
        let path = entry?.path();
        let name = format!("{folder}/{}", path.file_name().unwrap_or_default().to_string_lossy());
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read deploy/{name}"))?;
        let found = documents(&text).with_context(|| format!("cannot parse deploy/{name}"))?;
        all.extend(found.into_iter().map(|object| (name.clone(), object)));
    }
    Ok(all)
}

/// Returns a text, or an empty one.
#[must_use]
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the items of a list, if it is one.
pub fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns the objects of a kind.
pub fn of_kind<'a>(objects: &'a [Value], kind: &str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["kind"] == kind)
}

/// Returns the arguments of the only container of a deployment.
#[must_use]
pub fn arguments(deployment: &Value) -> Vec<&str> {
    list(&deployment["spec"]["template"]["spec"]["containers"][0]["args"]).map(text).collect()
}
