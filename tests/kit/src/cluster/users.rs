//! Users whose rights a test grants and revokes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::{Api, Rights, TestCluster};

pub(super) const ADMIN_TOKEN: &str = "admin-token";

/// All users that the API server knows beside the administrator; it reads their file only when it starts.
const USERS: [&str; 12] = [
    "writer",
    "discoverer",
    "user-1",
    "user-2",
    "user-3",
    "user-4",
    "user-5",
    "user-6",
    "user-7",
    "user-8",
    "system:kube-scheduler",
    "system:kube-proxy",
];
/// Most nodes of a cluster.
const NODES: u8 = 4;

/// Rights take effect when the API server's own watch has seen them.
const EFFECTIVE_WITHIN: Duration = Duration::from_secs(20);

pub(super) fn token_file() -> String {
    let mut text = format!("{ADMIN_TOKEN},admin,admin,\"system:masters\"\n");
    for user in USERS {
        text.push_str(&format!("{},{user},{user}\n", token(user)));
    }
    for number in 1..=NODES {
        let (name, user) = (node(number), format!("system:node:{}", node(number)));
        text.push_str(&format!("{},{user},{name},\"system:nodes\"\n", token(&user)));
    }
    text
}

/// Returns the name of a node; nodes count from 1.
pub(super) fn node(number: u8) -> String {
    format!("n{number}")
}

pub(super) fn token(user: &str) -> String {
    format!("{user}-token")
}

/// A user, who has no rights until a test grants some.
#[derive(Debug, Clone)]
pub struct UserAccess {
    name: String,
    kubeconfig: PathBuf,
}

impl UserAccess {
    /// Returns the user's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the user's kubeconfig file.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

/// One rule of a role.
#[derive(Debug, Clone)]
pub struct Rule {
    group: String,
    resources: Vec<String>,
    verbs: Vec<String>,
}

impl Rule {
    /// Allows `verbs` on `resources` of one API group; the core group is the empty string.
    #[must_use]
    pub fn new(group: &str, resources: &[&str], verbs: &[&str]) -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Self { group: group.to_owned(), resources: owned(resources), verbs: owned(verbs) }
    }

    /// Allows get, list and watch.
    #[must_use]
    pub fn read(group: &str, resources: &[&str]) -> Self {
        Self::new(group, resources, &["get", "list", "watch"])
    }

    /// Allows reading, creating, changing and deleting.
    #[must_use]
    pub fn write(group: &str, resources: &[&str]) -> Self {
        Self::new(group, resources, &["get", "list", "watch", "create", "update", "patch", "delete"])
    }

    pub(super) fn json(&self) -> Value {
        json!({"apiGroups": [self.group], "resources": self.resources, "verbs": self.verbs})
    }
}

impl TestCluster {
    /// Returns one of the users `writer`, `discoverer` and `user-1` to `user-8`.
    ///
    /// # Errors
    /// The name is not one of them.
    pub fn user(&self, name: &str) -> anyhow::Result<UserAccess> {
        anyhow::ensure!(USERS.contains(&name), "there is no user {name:?}, only {}", USERS.join(", "));
        Ok(UserAccess { name: name.to_owned(), kubeconfig: self.write_kubeconfig(name, &token(name))? })
    }

    /// Returns the API as this user.
    ///
    /// # Errors
    /// The authority's certificate cannot be read.
    pub fn api(&self, user: &UserAccess) -> anyhow::Result<Api> {
        Api::connect(self.url(), &token(&user.name), &self.layout.ca)
    }

    /// Grants `rules` to `user` in all namespaces, instead of earlier grants, and waits until they are in effect.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn grant(&self, user: &UserAccess, rules: &[Rule]) -> anyhow::Result<()> {
        self.bind(user, &Rights::everywhere(rules)).await
    }

    /// Creates the roles of `rights` and binds them to `user`, instead of what was granted before, and waits until they
    /// are in effect.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn bind(&self, user: &UserAccess, rights: &Rights) -> anyhow::Result<()> {
        self.unbind(user).await?;
        for role in rights.roles() {
            let name = format!("{}:{}", role["metadata"]["name"].as_str().unwrap_or_default(), user.name);
            let namespace = role["metadata"]["namespace"].as_str();
            if let Some(namespace) = namespace {
                self.namespace(namespace).await?;
            }
            let kind = role["kind"].as_str().context("a role without a kind")?;
            let meta = json!({"name": name, "namespace": namespace, "labels": {OWNER: user.name}});
            let subject = json!({"kind": "User", "apiGroup": GROUP, "name": user.name});
            let role_ref = json!({"kind": kind, "apiGroup": GROUP, "name": name});
            let binding = json!({"metadata": meta, "roleRef": role_ref, "subjects": [subject]});
            let [roles, bindings] = paths(namespace);
            self.admin.post(&roles, &json!({"metadata": meta, "rules": role["rules"]})).await?;
            self.admin.post(&bindings, &binding).await?;
        }
        self.wait_for(user, rights, true).await
    }

    /// Revokes the rights of [`TestCluster::grant`] or [`TestCluster::bind`], and waits until that is in effect.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn revoke(&self, user: &UserAccess) -> anyhow::Result<()> {
        let old = self.unbind(user).await?;
        self.wait_for(user, &old, false).await
    }

    /// As [`TestCluster::revoke`], for every user that has rights.
    pub(super) async fn revoke_all(&self) -> anyhow::Result<()> {
        let mut names = BTreeSet::new();
        for (_, resource) in RESOURCES {
            for object in self.admin.items(&format!("{RBAC}/{resource}?labelSelector={OWNER}")).await? {
                names.extend(object["metadata"]["labels"][OWNER].as_str().map(str::to_owned));
            }
        }
        for name in names {
            self.revoke(&self.user(&name)?).await?;
        }
        Ok(())
    }

    /// Deletes the roles and bindings of a user, and returns the roles.
    async fn unbind(&self, user: &UserAccess) -> anyhow::Result<Rights> {
        let mut roles = Vec::new();
        for (kind, resource) in RESOURCES {
            let all = self.admin.items(&format!("{RBAC}/{resource}?labelSelector={OWNER}%3D{}", user.name)).await?;
            for mut object in all {
                let text = |field: &str| object["metadata"][field].as_str();
                let [of_roles, of_bindings] = paths(text("namespace"));
                let path = if kind.is_empty() { of_bindings } else { of_roles };
                self.admin.delete(&format!("{path}/{}", text("name").unwrap_or_default())).await?;
                if !kind.is_empty() {
                    // Objects in a list do not contain their kind.
                    object["kind"] = json!(kind);
                    roles.push(object);
                }
            }
        }
        Ok(Rights::of(roles))
    }

    async fn wait_for(&self, user: &UserAccess, rights: &Rights, wanted: bool) -> anyhow::Result<()> {
        let answers = rights.questions().into_iter().map(|question| async move {
            let body = json!({"spec": {"user": user.name, "resourceAttributes": question}});
            crate::eventually(&format!("{} may {question}: {wanted}", user.name), EFFECTIVE_WITHIN, async || {
                let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
                let answer = self.admin.post(path, &body).await?;
                let allowed = answer["status"]["allowed"].as_bool().context("no answer")?;
                anyhow::ensure!(allowed == wanted, "it is {allowed}");
                Ok(())
            })
            .await
        });
        futures::future::try_join_all(answers).await.map(drop)
    }
}

const GROUP: &str = "rbac.authorization.k8s.io";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
/// Labels roles and bindings with the user they are for.
const OWNER: &str = "testkit-user";
/// Bindings are deleted first, so that no bound role is missing. The kind is that of a role; empty for a binding.
const RESOURCES: [(&str, &str); 4] =
    [("", "clusterrolebindings"), ("", "rolebindings"), ("ClusterRole", "clusterroles"), ("Role", "roles")];

/// Returns the collections of roles and of bindings, of one namespace or of the cluster.
fn paths(namespace: Option<&str>) -> [String; 2] {
    match namespace {
        Some(namespace) => ["roles", "rolebindings"].map(|kind| format!("{RBAC}/namespaces/{namespace}/{kind}")),
        None => ["clusterroles", "clusterrolebindings"].map(|kind| format!("{RBAC}/{kind}")),
    }
}
