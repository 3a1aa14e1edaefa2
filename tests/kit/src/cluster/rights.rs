//! The roles that users of Gimbal install, from `deploy/rbac`.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context as _;
use gimbal_kubernetes_client::Right;
use serde_json::{Value, json};

use super::Rule;

/// Roles that are in one namespace wherever the program runs: Events about objects without a namespace, and whose the Backends are.
const OF_THE_CLUSTER: [&str; 3] = ["gimbal-operator-backends", "gimbal-operator-place", "gimbal-writer-backends"];

/// Roles and ClusterRoles for one user. A Role is bound in its own namespace only, as it would be in production.
#[derive(Debug, Clone)]
pub struct Rights(Vec<Value>);

impl Rights {
    /// Returns the roles and ClusterRoles in `deploy/rbac` that have one of these names.
    ///
    /// # Errors
    /// A file cannot be read or parsed, or a name is not found.
    pub fn deployed(names: &[&str]) -> anyhow::Result<Self> {
        let all = documents(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/rbac"))?;
        let mut roles = Vec::new();
        for name in names {
            let named = |role: &&Value| {
                role["metadata"]["name"] == *name && matches!(role["kind"].as_str(), Some("Role" | "ClusterRole"))
            };
            let before = roles.len();
            roles.extend(all.iter().filter(named).cloned());
            anyhow::ensure!(roles.len() > before, "deploy/rbac has no role {name}");
        }
        Ok(Self(roles))
    }

    /// A ClusterRole with these rules.
    #[must_use]
    pub fn everywhere(rules: &[Rule]) -> Self {
        let rules: Vec<Value> = rules.iter().map(Rule::json).collect();
        Self(vec![json!({"kind": "ClusterRole", "metadata": {"name": "testkit"}, "rules": rules})])
    }

    /// Puts the Roles into another namespace, as for a program that runs there, but for those about what belongs to the whole cluster.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        let moves = |role: &&mut Value| {
            role["kind"] == "Role" && !OF_THE_CLUSTER.iter().any(|name| role["metadata"]["name"] == *name)
        };
        for role in self.0.iter_mut().filter(moves) {
            role["metadata"]["namespace"] = json!(namespace);
        }
        self
    }

    /// Leaves out the rules that name this resource.
    #[must_use]
    pub fn without(mut self, resource: &str) -> Self {
        for rules in self.0.iter_mut().filter_map(|role| role["rules"].as_array_mut()) {
            rules.retain(|rule| !texts(&rule["resources"]).any(|name| name == resource));
        }
        self
    }

    /// Returns each thing that is allowed, as a program asks for it.
    #[must_use]
    pub fn each(&self) -> BTreeSet<Right> {
        let right = |question: &Value| {
            let text = |key: &str| question[key].as_str().unwrap_or_default().to_owned();
            Right {
                verb: text("verb"),
                group: text("group"),
                resource: text("resource"),
                name: text("name"),
                namespace: text("namespace"),
            }
        };
        self.questions().iter().map(right).collect()
    }

    pub(super) fn of(roles: Vec<Value>) -> Self {
        Self(roles)
    }

    pub(super) fn roles(&self) -> &[Value] {
        &self.0
    }

    /// Returns the attributes of an access review for each thing that is allowed.
    pub(super) fn questions(&self) -> Vec<Value> {
        let rules = self.0.iter().flat_map(|role| {
            let namespace = role["metadata"]["namespace"].as_str();
            role["rules"].as_array().into_iter().flatten().map(move |rule| (namespace, rule))
        });
        rules.flat_map(|(namespace, rule)| questions_of(namespace, rule)).collect()
    }
}

fn questions_of(namespace: Option<&str>, rule: &Value) -> Vec<Value> {
    let names: Vec<Option<&str>> = match rule["resourceNames"].as_array() {
        Some(_) => texts(&rule["resourceNames"]).map(Some).collect(),
        None => vec![None],
    };
    let mut all = Vec::new();
    for group in texts(&rule["apiGroups"]) {
        for resource in texts(&rule["resources"]) {
            for verb in texts(&rule["verbs"]) {
                let ask = |name: &Option<&str>| json!({"group": group, "resource": resource, "verb": verb, "name": name, "namespace": namespace});
                all.extend(names.iter().map(ask));
            }
        }
    }
    all
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn documents(dir: &Path) -> anyhow::Result<Vec<Value>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let path = entry?.path();
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&text).with_context(|| format!("cannot parse {}", path.display()))?;
        all.extend(documents);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_stays_in_its_namespace_and_a_name_in_its_rule() {
        let writer = Rights::deployed(&["gimbal-writer"]).unwrap().in_namespace("elsewhere").questions();
        let of = |resource: &str| writer.iter().filter(|ask| ask["resource"] == resource).collect::<Vec<_>>();
        assert_eq!(of("leases").len(), 3);
        assert!(of("leases").iter().all(|ask| ask["namespace"] == "elsewhere"));
        assert!(of("services").iter().all(|ask| ask["namespace"].is_null()));
        let discoverer = Rights::deployed(&["gimbal-kubernetes-discoverer"]).unwrap();
        let names: Vec<Value> =
            discoverer.questions().into_iter().filter(|ask| ask["resource"] == "namespaces").collect();
        assert_eq!(names.len(), 1);
        assert_eq!(names[0]["name"], "kube-system");
        assert!(!discoverer.without("services").questions().iter().any(|ask| ask["resource"] == "endpoints"));
    }

    #[test]
    fn a_role_that_is_not_there_is_an_error() {
        assert_eq!(Rights::deployed(&["absent"]).unwrap_err().to_string(), "deploy/rbac has no role absent");
    }
}
