//! What carries the mark of a cluster, found without its controller: administrators remove it, or hand it over to people.

mod inventory;
mod release;
mod removal;

use gimbal_kuryr_model::{CloudFacts, Text};
use gimbal_octavia_plan::{ApiService, cluster_tag, is_word_of_mark, marked_owner, owner_of_secret};
use gimbal_octavia_registry::{CallAnswer, CloudCall, CloudRead, ClusterSettings, ListedRow};
use serde_json::Value;

use crate::cloud_access::CloudAccess;

pub(crate) use inventory::MarkedInventory;
pub(crate) use release::{MarkRelease, ReleaseRefusal};
pub(crate) use removal::{RemovalProgress, remove};

/// Where the objects of a cluster may be, and how they are marked.
#[derive(Debug, Clone)]
pub(crate) struct MarkScope {
    pub settings: ClusterSettings,
    pub facts: CloudFacts,
}

impl MarkScope {
    pub(crate) fn cluster(&self) -> &Text {
        &self.settings.name
    }

    fn cluster_tag(&self) -> String {
        cluster_tag(&self.settings.uid)
    }

    /// Returns the owner that these tags, or words of a description, name; `None` if it is not one of this cluster.
    fn owner<'a>(&self, words: impl Iterator<Item = &'a str> + Clone) -> Option<Text> {
        marked_owner(words, &self.cluster_tag(), self.cluster()).map(Text::from)
    }

    fn owner_of_tags(&self, row: &Value) -> Option<Text> {
        self.owner(tags(row))
    }

    fn owner_in_description(&self, row: &Value) -> Option<Text> {
        self.owner(description(row).split_whitespace())
    }

    /// Returns the owner that the name of a secret names; `None` if it is not one of this cluster.
    fn owner_of_secret(&self, row: &Value) -> Option<Text> {
        owner_of_secret(text(row, "name"), &self.settings.uid, self.cluster()).map(Text::from)
    }

    /// Returns the words that are not a part of the cluster's mark.
    fn without_mark<'a>(&self, words: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
        words.filter(|word| !is_word_of_mark(word, &self.settings.uid, self.cluster())).collect()
    }
}

fn tags(row: &Value) -> impl Iterator<Item = &str> + Clone {
    row["tags"].as_array().map(Vec::as_slice).unwrap_or_default().iter().filter_map(Value::as_str)
}

fn description(row: &Value) -> &str {
    row["description"].as_str().unwrap_or_default()
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_default()
}

fn ids(references: &Value) -> impl Iterator<Item = &str> {
    let all = references.as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().filter_map(|one| one["id"].as_str())
}

/// What is read with a project's token.
struct ProjectReader<'a> {
    cloud: &'a CloudAccess,
    project: &'a Text,
}

impl ProjectReader<'_> {
    async fn list(
        &self,
        service: ApiService,
        resource: &'static str,
        path: &str,
        key: &'static str,
        query: Vec<(&'static str, String)>,
    ) -> Result<Vec<Value>, String> {
        self.rows(CloudRead { service, resource, path: path.to_owned(), query, key, list: true, is_long: false }).await
    }

    /// Returns one object; `None` if it is not there.
    async fn one(&self, service: ApiService, key: &'static str, path: String) -> Result<Option<Value>, String> {
        let read = CloudRead { service, resource: key, path, query: Vec::new(), key, list: false, is_long: false };
        Ok(self.rows(read).await?.into_iter().next())
    }

    /// Returns the secrets of the project. Where a key manager lets no one see them, and no certificates are served, there are none.
    async fn secrets(&self, scope: &MarkScope) -> Result<Vec<Value>, String> {
        let (service, path, key) = (ApiService::KeyManager, "secrets".to_owned(), "secrets");
        let read = CloudRead { service, resource: "secret", path, query: Vec::new(), key, list: true, is_long: false };
        match self.cloud.call(self.project, &CloudCall::Read(read), || false).await {
            CallAnswer::ReadRefused { .. } if !scope.facts.certificates => Ok(Vec::new()),
            answer => rows_of(answer),
        }
    }

    async fn rows(&self, read: CloudRead) -> Result<Vec<Value>, String> {
        rows_of(self.cloud.call(self.project, &CloudCall::Read(read), || false).await)
    }
}

fn rows_of(answer: CallAnswer) -> Result<Vec<Value>, String> {
    match answer {
        CallAnswer::Rows(rows) => Ok(rows),
        CallAnswer::ReadFailed { words, .. } | CallAnswer::ReadRefused { words } => Err(words),
        // None of these reads is a long list.
        CallAnswer::Listed(rows) => Ok(rows.into_iter().map(ListedRow::into_row).collect()),
        CallAnswer::Changed(_) | CallAnswer::NotSent | CallAnswer::Unsendable { .. } => {
            Err("a read was answered like a change".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    pub(super) fn scope() -> MarkScope {
        MarkScope { settings: ClusterSettings::new("prod1", "c-1", "p"), facts: CloudFacts::default() }
    }

    #[test]
    fn whose_an_object_is() {
        for (tags, owner) in [
            (json!(["gimbal-cluster:prod1", "k8s-cluster:c-1", "k8s-svc-uid:s-1"]), Some("s-1")),
            (json!(["k8s-cluster:c-1", "k8s-svc-uid:s-1"]), Some("s-1")),
            (json!(["gimbal-cluster:prod2", "k8s-cluster:c-1", "k8s-svc-uid:s-1"]), None),
            (json!(["gimbal-cluster:prod1", "k8s-cluster:c-2", "k8s-svc-uid:s-1"]), None),
            (json!(["gimbal-cluster:prod1", "k8s-cluster:c-1"]), None),
            (
                json!(["gimbal-cluster:prod1", "gimbal-group:team1:web", "k8s-cluster:c-1", "k8s-svc-uid:s-1"]),
                Some("gimbal-group:team1:web"),
            ),
            (json!(null), None),
        ] {
            assert_eq!(scope().owner_of_tags(&json!({"tags": tags})).as_deref(), owner, "{tags}");
        }
        let row = json!({"description": "gimbal-cluster:prod1 k8s-cluster:c-1 k8s-svc-uid:s-1 gimbal:keep"});
        assert_eq!(scope().owner_in_description(&row).as_deref(), Some("s-1"));
    }

    #[test]
    fn what_is_left_when_the_mark_is_taken_off() {
        let words = "gimbal-cluster:prod1 k8s-cluster:c-1 k8s-svc-uid:s-1 k8s-svc-uid:s-2 gimbal-group:team1:web \
                     gimbal-port:TCP:80 mine gimbal-cluster:prod2";
        assert_eq!(scope().without_mark(words.split(' ')), ["mine", "gimbal-cluster:prod2"]);
    }
}
