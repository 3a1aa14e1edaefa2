//! `cargo xtask manifests`: what is rendered from the charts for those who do not use Helm, and the copies that charts have of
//! other files, so that each chart is complete.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use gimbal_assets::Asset;

use crate::shell;

const CHARTS: &str = "deploy/charts";
const COMMAND: &str = "cargo xtask manifests";

/// A file that is rendered.
struct Rendered {
    file: &'static str,
    namespace: &'static str,
    charts: &'static [&'static str],
    /// Below `examples/` of the chart.
    values: &'static str,
    set: &'static [&'static str],
    /// The only templates to render; all, if empty.
    only: &'static [&'static str],
    /// Whether the namespace is made, too.
    makes_namespace: bool,
    /// A comment at its top.
    head: &'static str,
}

const ALL: Rendered = Rendered {
    file: "",
    namespace: "gimbal",
    charts: &[],
    values: "minimal.yaml",
    set: &[],
    only: &[],
    makes_namespace: true,
    head: "",
};

const RENDERED: [Rendered; 13] = [
    Rendered {
        file: "deploy/manifests/writer.yaml",
        charts: &["gimbal-writer"],
        values: "existing-config.yaml",
        head: "gimbal-writer in the Gimbal cluster. Apply it, then make in its namespace the Secret gimbal-writer-tls with tls.crt, tls.key \
               and\nca.crt, and the Secret gimbal-writer-config with writer.yaml, of which deploy/examples/writer.yaml has every key.",
        ..ALL
    },
    Rendered {
        file: "deploy/manifests/kubernetes-discoverer.yaml",
        namespace: "gimbal-discovery",
        charts: &["gimbal-kubernetes-discoverer"],
        head: "gimbal-kubernetes-discoverer in the cluster whose Services it offers. Apply it, then make in its namespace the Secret\n\
               gimbal-kubernetes-discoverer-tls with tls.crt, tls.key and ca.crt, by whose certificate the writer knows the backend.",
        ..ALL
    },
    Rendered {
        file: "deploy/manifests/openstack-discoverer.yaml",
        namespace: "gimbal-discovery",
        charts: &["gimbal-openstack-discoverer"],
        head: "gimbal-openstack-discoverer, without rights in any Kubernetes cluster (docs/openstack.md). Apply it, then make in its \
               namespace\nthe Secret openstack-osp1 as in deploy/examples/openstack-discoverer-credentials.yaml, and the Secret\n\
               gimbal-openstack-discoverer-tls with tls.crt, tls.key and ca.crt, by whose certificate the writer knows the backend.",
        ..ALL
    },
    Rendered {
        file: "deploy/manifests/kuryr-controller.yaml",
        charts: &["gimbal-kuryr-controller"],
        head: "gimbal-kuryr-controller in the cluster whose Services it balances (docs/way-back.md#install). Apply deploy/crds before, \
               then make in\nits namespace the Secret gimbal-kuryr-controller-tls with tls.crt, tls.key and ca.crt, by whose certificate \
               openstack-writer knows the\ncluster.",
        ..ALL
    },
    Rendered {
        file: "deploy/manifests/openstack-writer.yaml",
        charts: &["gimbal-openstack-writer"],
        values: "existing-config.yaml",
        head: "gimbal-openstack-writer beside the cloud, with the only credentials that change it; it has no rights in any Kubernetes \
               cluster\n(docs/way-back.md#install). Apply it, then make in its namespace the Secret gimbal-openstack-writer-tls with \
               tls.crt, tls.key and\nca.crt, where ca.crt signs the certificates of the controllers, the Secret \
               gimbal-openstack-writer-credentials as in\ndeploy/examples/openstack-writer-credentials.yaml, and the ConfigMap \
               gimbal-openstack-writer with clusters.yaml, of which\ndeploy/examples/openstack-writer.yaml has every key.",
        ..ALL
    },
    Rendered {
        file: "deploy/manifests/operator.yaml",
        namespace: "gimbal-discovery",
        charts: &["gimbal-operator"],
        head: "gimbal-operator in the Gimbal cluster, in a namespace of its own (docs/operations.md#operator). Apply deploy/crds before, then \
               make in\nits namespace the Secret gimbal-authority with ca.crt and ca.key, which signs the certificates of discoverers.",
        ..ALL
    },
    Rendered {
        file: "deploy/rbac/writer.yaml",
        charts: &["gimbal-writer"],
        only: &["templates/roles.yaml"],
        head: "The rights of gimbal-writer, and its namespace.",
        ..ALL
    },
    Rendered {
        file: "deploy/rbac/writer-namespaces.yaml",
        charts: &["gimbal-writer"],
        set: &["rights.createNamespaces=true"],
        only: &["templates/roles-namespaces.yaml"],
        makes_namespace: false,
        head: "A further right of gimbal-writer.",
        ..ALL
    },
    Rendered {
        file: "deploy/rbac/writer-backends.yaml",
        charts: &["gimbal-writer"],
        set: &["backends=objects"],
        only: &["templates/roles-backends.yaml"],
        makes_namespace: false,
        head: "Further rights of gimbal-writer with --backends objects.",
        ..ALL
    },
    Rendered {
        file: "deploy/rbac/kubernetes-discoverer.yaml",
        namespace: "gimbal-discovery",
        charts: &["gimbal-kubernetes-discoverer"],
        set: &["writeEvents=true"],
        only: &["templates/roles.yaml"],
        makes_namespace: false,
        head: "The rights of gimbal-kubernetes-discoverer.",
        ..ALL
    },
    Rendered {
        file: "deploy/rbac/kuryr-controller.yaml",
        charts: &["gimbal-kuryr-controller"],
        set: &["rights.nodes=true", "ingress.enabled=true"],
        only: &["templates/roles.yaml"],
        head: "The rights of gimbal-kuryr-controller, and its namespace.",
        ..ALL
    },
    Rendered {
        file: "deploy/rbac/operator.yaml",
        namespace: "gimbal-discovery",
        charts: &["gimbal-operator"],
        only: &["templates/roles.yaml"],
        head: "The rights of gimbal-operator, and its namespace.",
        ..ALL
    },
    Rendered {
        file: "deploy/rbac/flowschema.yaml",
        charts: &["gimbal-writer", "gimbal-kuryr-controller"],
        only: &["templates/flowschema.yaml"],
        makes_namespace: false,
        head: "The priority of Leases, each in the cluster of its program.",
        ..ALL
    },
];

/// What the label `managed-by` and the chart's say is true of what Helm installs only.
const ONLY_WITH_HELM: [&str; 3] = ["# Source: ", "app.kubernetes.io/managed-by: ", "helm.sh/chart: "];

pub fn run() -> anyhow::Result<()> {
    // Templates need their copies before they are rendered.
    write(&copies()?)?;
    write(&rendered()?)
}

/// Compares everything that is generated with what is there, and lints the charts.
pub fn check() -> anyhow::Result<()> {
    let copies = differing(&copies()?);
    anyhow::ensure!(copies.is_empty(), "`{COMMAND}` writes again {}", copies.join(", "));
    let rendered = rendered()?;
    let mut faults = differing(&rendered);
    for folder in ["deploy/manifests", "deploy/rbac"] {
        let generated = |path: &Path| rendered.keys().any(|file| shell::root().join(file) == path);
        faults.extend(list(folder)?.iter().filter(|path| !generated(path)).map(|path| path.display().to_string()));
    }
    anyhow::ensure!(faults.is_empty(), "`{COMMAND}` writes again or does not know {}", faults.join(", "));
    for chart in charts()? {
        let mut lint = shell::command(Asset::Helm.path()?);
        lint.args(["lint", "--quiet", "--strict"]).arg(&chart);
        let least = chart.join("examples/minimal.yaml");
        if least.is_file() {
            lint.arg("--values").arg(least);
        }
        shell::output(lint)?;
    }
    eprintln!("{} files", rendered.len());
    Ok(())
}

type Files = BTreeMap<String, String>;

/// Returns the names of the files that are not as they should be.
fn differing(files: &Files) -> Vec<String> {
    let differs =
        |file: &str, text: &str| !std::fs::read_to_string(shell::root().join(file)).is_ok_and(|now| now == text);
    files.iter().filter(|(file, text)| differs(file, text)).map(|(file, _)| file.clone()).collect()
}

fn write(files: &Files) -> anyhow::Result<()> {
    for (file, text) in files {
        let path = shell::root().join(file);
        std::fs::create_dir_all(path.parent().context("a file without a folder")?)?;
        std::fs::write(&path, text).with_context(|| format!("cannot write {file}"))?;
    }
    Ok(())
}

/// Returns the charts' folders.
fn charts() -> anyhow::Result<Vec<PathBuf>> {
    Ok(list(CHARTS)?.into_iter().filter(|path| path.join("Chart.yaml").is_file()).collect())
}

fn list(folder: &str) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(shell::root().join(folder)).with_context(|| format!("cannot list {folder}"))?;
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns what charts have of other files: helpers of templates, definitions, alerts, and the version of the programs.
fn copies() -> anyhow::Result<Files> {
    let helpers = read(&shell::root().join(CHARTS).join("shared/_gimbal.tpl"))?;
    let (definitions, alerts) = (list("deploy/crds")?, list("deploy/alerts")?);
    let mut files = Files::new();
    for chart in charts()? {
        let chart_name = name(&chart);
        let mut copy = |path: String, text: String| drop(files.insert(format!("{CHARTS}/{chart_name}/{path}"), text));
        copy("Chart.yaml".to_owned(), with_version(&read(&chart.join("Chart.yaml"))?));
        if chart_name == "gimbal-crds" {
            for file in &definitions {
                copy(format!("definitions/{}", name(file)), read(file)?);
            }
            continue;
        }
        copy("templates/_gimbal.tpl".to_owned(), helpers.clone());
        for file in &alerts {
            let text = read(file)?;
            if text.lines().any(|line| line == format!("- name: {chart_name}")) {
                copy(format!("alerts/{}", name(file)), text);
            }
        }
    }
    Ok(files)
}

/// Returns a Chart.yaml with the version of the programs.
fn with_version(text: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let line = |line: &str| match line.split_once(": ") {
        Some((key @ ("version" | "appVersion"), _)) => format!("{key}: {version}\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

fn rendered() -> anyhow::Result<Files> {
    let helm = Asset::Helm.path()?;
    RENDERED.iter().map(|one| Ok((one.file.to_owned(), one.render(&helm)?))).collect()
}

impl Rendered {
    fn render(&self, helm: &Path) -> anyhow::Result<String> {
        let mut text: String = self.head.lines().map(|line| format!("# {line}\n")).collect();
        text += &format!("#\n# Generated by `{COMMAND}`");
        if self.only.is_empty() {
            text += &format!(
                " from {CHARTS}/{} with its examples/{}; render your own with `helm template`.\n",
                self.charts.concat(),
                self.values
            );
        } else {
            text += &format!(" from {CHARTS}.\n");
        }
        let namespace = Some(namespace(self.namespace)).filter(|_| self.makes_namespace);
        let mut documents: Vec<String> = namespace.into_iter().collect();
        for chart in self.charts {
            let folder = shell::root().join(CHARTS).join(chart);
            let mut template = shell::command(helm);
            template.args(["template", chart]).arg(&folder).args(["--namespace", self.namespace, "--values"]);
            template.arg(folder.join("examples").join(self.values));
            template.args(self.set.iter().flat_map(|set| ["--set", *set]));
            template.args(self.only.iter().flat_map(|only| ["--show-only", *only]));
            documents.extend(documents_of(&shell::output(template)?));
        }
        Ok(text + &documents.join("---\n"))
    }
}

/// The strictest level of Pod Security, which all programs keep to.
fn namespace(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n  labels: {{pod-security.kubernetes.io/enforce: restricted}}\n"
    )
}

/// Returns the documents that Helm rendered, without what is about Helm.
fn documents_of(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        let is_left_out = ONLY_WITH_HELM.iter().any(|start| line.trim_start().starts_with(start));
        match documents.last_mut() {
            _ if line == "---" => documents.push(String::new()),
            Some(last) if !is_left_out && (!line.is_empty() || !last.is_empty()) => last.push_str(&format!("{line}\n")),
            _ => {}
        }
    }
    let trimmed = documents.iter().map(|document| format!("{}\n", document.trim_end()));
    trimmed.filter(|document| !document.trim().is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_about_helm_goes() {
        let text = "---\n# Source: a/b.yaml\n# Why.\nkind: A\nmetadata:\n  labels:\n    helm.sh/chart: a-1\n    a: b\n\n---\n\n---\nkind: B\n";
        assert_eq!(documents_of(text), ["# Why.\nkind: A\nmetadata:\n  labels:\n    a: b\n", "kind: B\n"]);
    }

    #[test]
    fn a_chart_has_the_version_of_the_programs() {
        let version = env!("CARGO_PKG_VERSION");
        let text = "name: a\n# Both.\nversion: 0.0.0\nappVersion: 0.0.0\nkubeVersion: \">=1\"\n";
        let expected = format!("name: a\n# Both.\nversion: {version}\nappVersion: {version}\nkubeVersion: \">=1\"\n");
        assert_eq!(with_version(text), expected);
    }
}
