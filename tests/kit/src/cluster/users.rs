//! Users whose rights a test grants and takes away.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::{Api, TestCluster};

pub(super) const ADMIN_TOKEN: &str = "admin-token";

/// Everybody that the API server knows; the file is read only when it starts.
const USERS: [&str; 10] =
    ["writer", "discoverer", "user-1", "user-2", "user-3", "user-4", "user-5", "user-6", "user-7", "user-8"];

/// Rights take effect when the API server's own watch has seen them.
const EFFECTIVE_WITHIN: Duration = Duration::from_secs(20);

pub(super) fn token_file() -> String {
    let mut text = format!("{ADMIN_TOKEN},admin,admin,\"system:masters\"\n");
    for user in USERS {
        text.push_str(&format!("{},{user},{user}\n", token(user)));
    }
    text
}

fn token(user: &str) -> String {
    format!("{user}-token")
}

/// A user without any rights of its own.
#[derive(Debug, Clone)]
pub struct UserAccess {
    name: String,
    kubeconfig: PathBuf,
}

impl UserAccess {
    /// Name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A kubeconfig file.
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
    /// `verbs` on `resources` of one API group; the core group is the empty string.
    #[must_use]
    pub fn new(group: &str, resources: &[&str], verbs: &[&str]) -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Self { group: group.to_owned(), resources: owned(resources), verbs: owned(verbs) }
    }

    /// get, list and watch.
    #[must_use]
    pub fn read(group: &str, resources: &[&str]) -> Self {
        Self::new(group, resources, &["get", "list", "watch"])
    }

    /// Reading and changing.
    #[must_use]
    pub fn write(group: &str, resources: &[&str]) -> Self {
        Self::new(group, resources, &["get", "list", "watch", "create", "update", "patch", "delete"])
    }

    fn json(&self) -> Value {
        json!({"apiGroups": [self.group], "resources": self.resources, "verbs": self.verbs})
    }

    fn questions(&self) -> impl Iterator<Item = Value> {
        self.resources.iter().flat_map(move |resource| {
            let ask = move |verb| json!({"group": self.group, "resource": resource, "verb": verb});
            self.verbs.iter().map(ask)
        })
    }
}

impl TestCluster {
    /// One of the users `writer`, `discoverer` and `user-1` to `user-8`.
    ///
    /// # Errors
    /// Another name.
    pub fn user(&self, name: &str) -> anyhow::Result<UserAccess> {
        anyhow::ensure!(USERS.contains(&name), "there is no user {name:?}, only {}", USERS.join(", "));
        Ok(UserAccess { name: name.to_owned(), kubeconfig: self.write_kubeconfig(name, &token(name))? })
    }

    /// The API as this user.
    ///
    /// # Errors
    /// The authority's certificate cannot be read.
    pub fn api(&self, user: &UserAccess) -> anyhow::Result<Api> {
        Api::connect(self.url(), &token(&user.name), &self.layout.ca)
    }

    /// Lets `user` do what `rules` say, everywhere, instead of what was granted before, and waits until that is so.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn grant(&self, user: &UserAccess, rules: &[Rule]) -> anyhow::Result<()> {
        self.unbind(user).await?;
        let (roles, bindings) = paths();
        let meta = json!({"name": role(user)});
        let role_rules: Vec<Value> = rules.iter().map(Rule::json).collect();
        self.admin.post(roles, &json!({"metadata": meta, "rules": role_rules})).await?;
        let subject = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user.name});
        let role_ref = json!({"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": role(user)});
        self.admin.post(bindings, &json!({"metadata": meta, "roleRef": role_ref, "subjects": [subject]})).await?;
        self.wait_for(user, rules, true).await
    }

    /// Takes away what [`TestCluster::grant`] gave, and waits until that is so.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn revoke(&self, user: &UserAccess) -> anyhow::Result<()> {
        let (roles, _) = paths();
        let old = self.admin.get(&format!("{roles}/{}", role(user))).await?;
        self.unbind(user).await?;
        let rules: Vec<Rule> = old["rules"].as_array().into_iter().flatten().filter_map(parse).collect();
        self.wait_for(user, &rules, false).await
    }

    async fn unbind(&self, user: &UserAccess) -> anyhow::Result<()> {
        let (roles, bindings) = paths();
        for path in [bindings, roles] {
            match self.admin.delete(&format!("{path}/{}", role(user))).await {
                Err(error) if error.code != 404 => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    async fn wait_for(&self, user: &UserAccess, rules: &[Rule], wanted: bool) -> anyhow::Result<()> {
        for question in rules.iter().flat_map(Rule::questions) {
            let body = json!({"spec": {"user": user.name, "resourceAttributes": question}});
            crate::eventually(&format!("{} may {question}: {wanted}", user.name), EFFECTIVE_WITHIN, async || {
                let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
                let answer = self.admin.post(path, &body).await?;
                let allowed = answer["status"]["allowed"].as_bool().context("no answer")?;
                anyhow::ensure!(allowed == wanted, "it is {allowed}");
                Ok(())
            })
            .await?;
        }
        Ok(())
    }
}

fn paths() -> (&'static str, &'static str) {
    ("/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings")
}

fn role(user: &UserAccess) -> String {
    format!("testkit:{}", user.name)
}

fn parse(rule: &Value) -> Option<Rule> {
    let texts = |name: &str| -> Option<Vec<String>> {
        rule[name].as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
    };
    Some(Rule { group: texts("apiGroups")?.pop()?, resources: texts("resources")?, verbs: texts("verbs")? })
}
