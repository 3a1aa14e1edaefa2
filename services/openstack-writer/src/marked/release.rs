//! Takes the mark off one load balancer and what belongs to it, so that it is left to people.

use std::time::Duration;

use gimbal_kuryr_model::{ApiVersion, Text};
use gimbal_octavia_plan::ApiService::{self, Neutron, Octavia};
use gimbal_octavia_plan::{ApiVerb, ChangeOutcome, CloudChange, ServiceCall, ServiceRefusal};
use gimbal_octavia_registry::CallAnswer;
use serde_json::{Map, Value, json};

use super::{MarkScope, ProjectReader, description, ids, tags, text};
use crate::cloud_access::CloudAccess;

/// The pause before a change is repeated: Octavia is still busy with the one before.
const PAUSE: Duration = Duration::from_millis(500);

/// Taking the mark off one load balancer.
#[derive(Debug)]
pub(crate) struct MarkRelease {
    pub owner: Text,
    project: Text,
    /// The load balancer comes last: until then it is found by its mark, and the work can be repeated.
    parts: Vec<MarkedPart>,
    /// What is to be changed, as far as is known now.
    pub changes: Vec<ServiceCall>,
}

/// Something that may carry the mark.
#[derive(Debug, Clone, PartialEq, Eq)]
enum MarkedPart {
    /// An object of a service, by its resource and ID.
    One(ApiService, &'static str, String),
    /// The members of a pool.
    Members(String),
}

/// What came of a change.
enum Sent {
    Done,
    /// It may have been made, or may be made later.
    Again,
}

/// Why a load balancer is not released.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReleaseRefusal {
    #[error("there is no load balancer {0} in the projects of the cluster's policy (projects, formerProjects)")]
    NotFound(String),
    #[error("load balancer {0} does not carry the mark of cluster {1}: there is nothing to take off")]
    NotMarked(String, Text),
    #[error("load balancer {0} is {1}, and Octavia refuses every change of it until that ends; order it again then")]
    Status(String, String),
    #[error(
        "load balancer {0} serves TLS with certificates that carry the mark in their names, which Barbican cannot change, so they would \
         be removed; store them under other names, and let its listeners refer to those"
    )]
    Certificates(String),
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Unavailable(String),
}

impl MarkRelease {
    /// Reads a load balancer, and returns what is to be changed.
    ///
    /// # Errors
    /// It is not the cluster's, or could not be read.
    pub(crate) async fn read(cloud: &CloudAccess, scope: &MarkScope, id: &str) -> Result<Self, ReleaseRefusal> {
        let mut unread = None;
        for project in &scope.settings.projects {
            let reader = ProjectReader { cloud, project };
            let row = reader.one(Octavia, "loadbalancer", format!("loadbalancers/{id}")).await;
            let row = match row {
                Ok(Some(row)) => row,
                Ok(None) => continue,
                // That of another project is forbidden.
                Err(words) => {
                    unread = Some(words);
                    continue;
                }
            };
            let owner = scope
                .owner_of_tags(&row)
                .ok_or_else(|| ReleaseRefusal::NotMarked(id.to_owned(), scope.cluster().clone()))?;
            let status = text(&row, "provisioning_status");
            if matches!(status, "ERROR" | "PENDING_DELETE" | "DELETED") {
                return Err(ReleaseRefusal::Status(id.to_owned(), status.to_owned()));
            }
            if has_certificates(&reader, scope, &row).await.map_err(ReleaseRefusal::Unavailable)? {
                return Err(ReleaseRefusal::Certificates(id.to_owned()));
            }
            let parts = parts(&reader, scope, &owner, &row).await.map_err(ReleaseRefusal::Unavailable)?;
            let mut changes = Vec::new();
            for part in &parts {
                let of_part = part.changes(&reader, scope, &owner).await;
                changes.extend(of_part.map_err(ReleaseRefusal::Unavailable)?);
            }
            return Ok(Self { owner, project: project.clone(), parts, changes });
        }
        Err(unread.map_or_else(|| ReleaseRefusal::NotFound(id.to_owned()), ReleaseRefusal::Unavailable))
    }

    /// Makes the changes, one after the other, each only while `permit` returns true. Each object is read just before it is
    /// changed: what somebody has done to it since the preview stays.
    ///
    /// # Errors
    /// One was refused. What was done stays done, and the rest can be asked for again.
    pub(crate) async fn carry_out(
        self,
        cloud: &CloudAccess,
        scope: &MarkScope,
        permit: impl Fn() -> bool + Clone + Send + Sync + 'static,
    ) -> Result<(), ReleaseRefusal> {
        let reader = ProjectReader { cloud, project: &self.project };
        for part in &self.parts {
            let mut done = Vec::new();
            loop {
                let changes = part.changes(&reader, scope, &self.owner).await.map_err(ReleaseRefusal::Unavailable)?;
                let Some(change) = changes.into_iter().find(|change| !done.contains(&change.path)) else { break };
                match self.send(cloud, &change, permit.clone()).await? {
                    Sent::Done => done.push(change.path),
                    Sent::Again => tokio::time::sleep(PAUSE).await,
                }
            }
        }
        Ok(())
    }

    async fn send(
        &self,
        cloud: &CloudAccess,
        change: &ServiceCall,
        permit: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Sent, ReleaseRefusal> {
        let refusal = match cloud.change(&self.project, change, permit).await {
            CallAnswer::Changed(ChangeOutcome::Accepted(_)) => return Ok(Sent::Done),
            // The next read tells.
            CallAnswer::Changed(ChangeOutcome::Unknown(_)) => return Ok(Sent::Again),
            CallAnswer::Changed(ChangeOutcome::Refused(refusal)) => refusal,
            CallAnswer::NotSent
            | CallAnswer::Unsendable { .. }
            | CallAnswer::Rows(_)
            | CallAnswer::Listed(_)
            | CallAnswer::ReadFailed { .. }
            | CallAnswer::ReadRefused { .. } => {
                let words = format!(
                    "the change of {} was not sent: OpenStack is not reached, the cluster's controller was not heard of lately, \
                     or its quarantine has ended; order it again, what is done stays done",
                    change.path
                );
                return Err(ReleaseRefusal::Unavailable(words));
            }
        };
        match refusal {
            ServiceRefusal::Pending
            | ServiceRefusal::Busy(_)
            | ServiceRefusal::ProjectBusy(_)
            | ServiceRefusal::Changed(_) => Ok(Sent::Again),
            // It is gone, and the load balancer's own change is the one that counts.
            ServiceRefusal::NotFound(_) if change.resource != "loadbalancer" => Ok(Sent::Done),
            // A provider without batches: tags of members find nothing.
            ServiceRefusal::Unsupported(_) if change.resource == "members" => Ok(Sent::Done),
            other => {
                let words = format!(
                    "OpenStack refuses the change of {}: {other}; what is done stays done, and the rest can be ordered again",
                    change.path
                );
                Err(ReleaseRefusal::Refused(words))
            }
        }
    }
}

impl MarkedPart {
    /// Reads it, and returns what takes the mark off.
    async fn changes(
        &self,
        reader: &ProjectReader<'_>,
        scope: &MarkScope,
        owner: &Text,
    ) -> Result<Vec<ServiceCall>, String> {
        match self {
            Self::Members(pool) => {
                let path = format!("pools/{pool}/members");
                let members = reader.list(Octavia, "member", &path, "members", Vec::new()).await?;
                Ok(without_marked_members(scope, pool, &members).into_iter().collect())
            }
            Self::One(service, resource, id) => {
                let path = format!("{}/{id}", collection(resource));
                let row = reader.one(*service, resource, path).await?;
                Ok(row.map(|row| without_mark(scope, owner, *service, resource, &row)).unwrap_or_default())
            }
        }
    }
}

/// Whether listeners refer to secrets that carry the mark.
async fn has_certificates(reader: &ProjectReader<'_>, scope: &MarkScope, balancer: &Value) -> Result<bool, String> {
    let of_balancer = vec![("loadbalancer_id", text(balancer, "id").to_owned())];
    let listeners = reader.list(Octavia, "listener", "listeners", "listeners", of_balancer).await?;
    let references = |row: &Value| {
        let others = row["sni_container_refs"].as_array().cloned().unwrap_or_default();
        others
            .into_iter()
            .chain([row["default_tls_container_ref"].clone()])
            .filter(Value::is_string)
            .collect::<Vec<_>>()
    };
    let references: Vec<Value> = listeners.iter().flat_map(references).collect();
    if references.is_empty() {
        return Ok(false);
    }
    let secrets = reader.secrets(scope).await?;
    Ok(secrets.iter().any(|row| scope.owner_of_secret(row).is_some() && references.contains(&row["secret_ref"])))
}

/// Returns the parts of a load balancer, in the order in which they lose the mark.
async fn parts(
    reader: &ProjectReader<'_>,
    scope: &MarkScope,
    owner: &Text,
    balancer: &Value,
) -> Result<Vec<MarkedPart>, String> {
    let octavia = |resource, id: &str| MarkedPart::One(Octavia, resource, id.to_owned());
    let mut parts = Vec::new();
    // What is Neutron's first: without its load balancer it would be taken for an orphan.
    let of_project = vec![("project_id", reader.project.to_string())];
    let floating = reader.list(Neutron, "floatingip", "floatingips", "floatingips", of_project).await?;
    let ours = floating.iter().filter(|row| scope.owner_in_description(row).as_ref() == Some(owner));
    parts.extend(ours.map(|row| MarkedPart::One(Neutron, "floatingip", text(row, "id").to_owned())));
    let vip = text(balancer, "vip_port_id");
    parts.extend((!vip.is_empty()).then(|| MarkedPart::One(Neutron, "port", vip.to_owned())));
    for id in ids(&balancer["pools"]) {
        let Some(pool) = reader.one(Octavia, "pool", format!("pools/{id}")).await? else { continue };
        parts.push(MarkedPart::Members(id.to_owned()));
        parts.extend(pool["healthmonitor_id"].as_str().map(|id| octavia("healthmonitor", id)));
        parts.push(octavia("pool", id));
    }
    for id in ids(&balancer["listeners"]) {
        let Some(listener) = reader.one(Octavia, "listener", format!("listeners/{id}")).await? else { continue };
        // Rules carry none.
        parts.extend(ids(&listener["l7policies"]).map(|policy| octavia("l7policy", policy)));
        parts.push(octavia("listener", id));
    }
    parts.push(octavia("loadbalancer", text(balancer, "id")));
    Ok(parts)
}

fn collection(resource: &str) -> &'static str {
    match resource {
        "floatingip" => "floatingips",
        "port" => "ports",
        "pool" => "pools",
        "listener" => "listeners",
        "healthmonitor" => "healthmonitors",
        "l7policy" => "l7policies",
        _ => "loadbalancers",
    }
}

fn update(service: ApiService, resource: &'static str, row: &Value, fields: Value) -> ServiceCall {
    let mut body = Map::new();
    body.insert(resource.to_owned(), fields);
    ServiceCall {
        service,
        verb: ApiVerb::Update,
        resource,
        path: format!("{}/{}", collection(resource), text(row, "id")),
        query: None,
        // Only Neutron's objects have one.
        revision: row["revision_number"].as_u64(),
        body: Value::Object(body),
        payload: None,
    }
}

/// Returns the changes that take the mark off an object, if it carries it.
fn without_mark(
    scope: &MarkScope,
    owner: &Text,
    service: ApiService,
    resource: &'static str,
    row: &Value,
) -> Vec<ServiceCall> {
    match service {
        // Secrets are found by their names, which stay.
        ApiService::KeyManager => Vec::new(),
        Octavia => without_tags(scope, resource, row).into_iter().collect(),
        Neutron => without_words_and_tags(scope, owner, resource, row),
    }
}

/// Returns the changes that take the mark off a floating IP or a port, if it is the owner's. It is found by its description,
/// which goes last.
fn without_words_and_tags(scope: &MarkScope, owner: &Text, resource: &'static str, row: &Value) -> Vec<ServiceCall> {
    if scope.owner_in_description(row).as_ref() != Some(owner) {
        return Vec::new();
    }
    let mut changes = Vec::new();
    let left = scope.without_mark(tags(row));
    if left.len() < tags(row).count() {
        let path = format!("{}/{}/tags", collection(resource), text(row, "id"));
        let body = json!({"tags": left});
        changes.push(ServiceCall { path, body, revision: None, ..update(Neutron, resource, row, Value::Null) });
    }
    let words = json!({"description": scope.without_mark(description(row).split_whitespace()).join(" ")});
    changes.push(update(Neutron, resource, row, words));
    changes
}

/// Returns the change that takes the mark off an object of Octavia, if it carries it.
fn without_tags(scope: &MarkScope, resource: &'static str, row: &Value) -> Option<ServiceCall> {
    let left = scope.without_mark(tags(row));
    let words = scope.without_mark(description(row).split_whitespace()).join(" ");
    let mut fields = Map::new();
    if left.len() < tags(row).count() {
        fields.insert("tags".to_owned(), json!(left));
    }
    if scope.owner_in_description(row).is_some() {
        fields.insert("description".to_owned(), json!(words));
    }
    (!fields.is_empty()).then(|| update(Octavia, resource, row, Value::Object(fields)))
}

/// Returns the change that takes the mark off members, if any carries it.
fn without_marked_members(scope: &MarkScope, pool: &str, rows: &[Value]) -> Option<ServiceCall> {
    let is_marked = |row: &&Value| scope.without_mark(tags(row)).len() < tags(row).count();
    if !rows.iter().any(|row| is_marked(&row)) {
        return None;
    }
    // An older Octavia removes what is not named.
    let additive = scope.facts.api_version >= ApiVersion::ADDITIVE_MEMBERS;
    let named = rows.iter().filter(|row| !additive || is_marked(row));
    let members = named.map(|row| unmarked_member(scope, row)).collect();
    Some(CloudChange::SetMembers { pool: pool.to_owned(), members, additive }.request())
}

/// Returns a member as it is, without the mark. A batch resets what it does not name.
fn unmarked_member(scope: &MarkScope, row: &Value) -> Value {
    let left = scope.without_mark(tags(row));
    let keys =
        ["address", "protocol_port", "weight", "name", "backup", "admin_state_up", "monitor_port", "monitor_address"];
    let mut body: Map<String, Value> = keys.into_iter().map(|key| (key.to_owned(), row[key].clone())).collect();
    body.insert("tags".to_owned(), json!(left));
    if let Some(subnet) = row["subnet_id"].as_str() {
        body.insert("subnet_id".to_owned(), json!(subnet));
    }
    Value::Object(body)
}

#[cfg(test)]
mod tests {
    use gimbal_testkit::fake_openstack::{FakeOpenStack, Fault};

    use super::super::tests::scope;
    use super::*;
    use crate::cloud_access::tests::connected;

    /// A project answers 403 to the ID of a load balancer of another one.
    #[tokio::test]
    async fn it_is_found_in_whichever_project_it_is() {
        let fake = FakeOpenStack::start().await.unwrap();
        fake.set(|cloud| ["p1", "p2"].map(|project| cloud.project(project, project)));
        let row = json!({"id": "lb", "tags": ["gimbal-cluster:prod1", "k8s-cluster:c-1", "k8s-svc-uid:s-1"]});
        fake.fail(Fault::on("/loadbalancers/lb").text(200, &json!({"loadbalancer": row}).to_string()));
        fake.fail(Fault::on("/loadbalancers/lb").times(1).text(403, "{}"));
        let mut scope = scope();
        scope.settings.projects = vec!["p1".into(), "p2".into()];
        let found = MarkRelease::read(&connected(&fake), &scope, "lb").await.unwrap();
        assert_eq!((&*found.project, &*found.owner, found.changes.len()), ("p2", "s-1", 1));
        fake.heal();
        fake.fail(Fault::on("/loadbalancers/lb").times(1).text(403, "{}"));
        fake.fail(Fault::on("/loadbalancers/lb").after(1).text(404, "{}"));
        let unread = MarkRelease::read(&connected(&fake), &scope, "lb").await.unwrap_err();
        assert!(matches!(unread, ReleaseRefusal::Unavailable(_)), "it may be where nothing could be read: {unread}");
    }

    /// What somebody did since it was read stays: each object is read again just before it is changed.
    #[tokio::test]
    async fn what_was_changed_since_the_preview_stays() {
        let fake = FakeOpenStack::start().await.unwrap();
        fake.set(|cloud| cloud.project("p1", "p1"));
        let row = |more: &str| {
            let tags = ["gimbal-cluster:prod1", "k8s-cluster:c-1", "k8s-svc-uid:s-1", more];
            json!({"loadbalancer": {"id": "lb", "tags": tags}}).to_string()
        };
        fake.fail(Fault::on("/loadbalancers/lb").text(200, &row("new")));
        fake.fail(Fault::on("/loadbalancers/lb").times(2).text(200, &row("old")));
        let (cloud, mut scope) = (connected(&fake), scope());
        scope.settings.projects = vec!["p1".into()];
        let release = MarkRelease::read(&cloud, &scope, "lb").await.unwrap();
        assert_eq!(release.changes[0].body, json!({"loadbalancer": {"tags": ["old"]}}));
        release.carry_out(&cloud, &scope, || true).await.unwrap();
        let bodies = fake.bodies();
        assert_eq!(bodies.last().unwrap(), &json!({"loadbalancer": {"tags": ["new"]}}));
    }

    #[test]
    fn a_floating_ip_loses_its_tags_and_then_the_words_that_it_is_found_by() {
        let mark = ["gimbal-cluster:prod1", "k8s-cluster:c-1", "k8s-svc-uid:s-1"];
        let tags = [&mark[..], &["extra"]].concat();
        let words = mark.join(" ") + " mine";
        let row = json!({"id": "f", "revision_number": 7, "tags": tags, "description": words});
        let changes = without_mark(&scope(), &"s-1".into(), Neutron, "floatingip", &row);
        let shown: Vec<_> = changes.iter().map(|one| (one.path.as_str(), one.revision, one.body.clone())).collect();
        let description = json!({"floatingip": {"description": "mine"}});
        assert_eq!(
            shown,
            [("floatingips/f/tags", None, json!({"tags": ["extra"]})), ("floatingips/f", Some(7), description)]
        );
        assert_eq!(without_mark(&scope(), &"s-2".into(), Neutron, "floatingip", &row), []);
    }

    /// Nothing of it is found by the mark afterwards.
    #[tokio::test]
    async fn policies_lose_it_before_their_listener() {
        let fake = FakeOpenStack::start().await.unwrap();
        fake.set(|cloud| cloud.project("p1", "p1"));
        let tags = json!(["gimbal-cluster:prod1", "k8s-cluster:c-1", "k8s-svc-uid:s-1"]);
        let answer = |path: &'static str, body: Value| fake.fail(Fault::on(path).text(200, &body.to_string()));
        answer("/loadbalancers/lb", json!({"loadbalancer": {"id": "lb", "tags": tags, "listeners": [{"id": "l"}]}}));
        answer("/listeners/l", json!({"listener": {"id": "l", "tags": tags, "l7policies": [{"id": "p"}]}}));
        answer("/l7policies/p", json!({"l7policy": {"id": "p", "tags": tags}}));
        let mut scope = scope();
        scope.settings.projects = vec!["p1".into()];
        let release = MarkRelease::read(&connected(&fake), &scope, "lb").await.unwrap();
        let paths: Vec<&str> = release.changes.iter().map(|change| change.path.as_str()).collect();
        assert_eq!(paths, ["l7policies/p", "listeners/l", "loadbalancers/lb"]);
    }

    #[test]
    fn only_the_mark_goes() {
        let mark = ["gimbal-cluster:prod1", "k8s-cluster:c-1", "k8s-svc-uid:s-1"];
        let (tags, words) = ([&mark[..], &["mine"]].concat(), mark.join(" ") + " words");
        let row = json!({"id": "lb", "tags": tags, "description": words});
        let change = without_tags(&scope(), "loadbalancer", &row).unwrap();
        assert_eq!((change.path.as_str(), change.verb), ("loadbalancers/lb", ApiVerb::Update));
        assert_eq!(change.body, json!({"loadbalancer": {"tags": ["mine"], "description": "words"}}));
        let people = json!({"id": "lb", "tags": ["mine"], "description": "theirs"});
        assert_eq!(without_tags(&scope(), "pool", &people), None);
    }

    #[test]
    fn an_octavia_without_additive_batches_gets_all_members() {
        let row = |id: &str, tags: Value| json!({"id": id, "address": id, "protocol_port": 80, "tags": tags});
        let rows = [row("10.0.0.1", json!(["k8s-svc-uid:s-1"])), row("10.0.0.2", json!(["theirs"]))];
        let named = |version| {
            let mut scope = scope();
            scope.facts.api_version = version;
            let change = without_marked_members(&scope, "p", &rows).unwrap();
            (change.body["members"].as_array().unwrap().len(), change.query.is_some())
        };
        assert_eq!(named(ApiVersion { major: 2, minor: 10 }), (2, false));
        assert_eq!(named(ApiVersion::ADDITIVE_MEMBERS), (1, true));
        assert_eq!(without_marked_members(&scope(), "p", &rows[1..]), None);
    }

    #[test]
    fn a_member_keeps_everything_else() {
        let row = json!({"id": "m", "address": "10.0.0.1", "protocol_port": 80, "weight": 3, "name": "a", "backup": false,
            "admin_state_up": true, "monitor_port": 1, "monitor_address": null, "subnet_id": "s", "tags": ["k8s-svc-uid:s-1"]});
        let body = unmarked_member(&scope(), &row);
        for (key, value) in body.as_object().unwrap() {
            let expected = if key == "tags" { &json!([]) } else { &row[key] };
            assert_eq!(value, expected, "{key}");
        }
        assert_eq!(body.as_object().unwrap().len(), 10);
    }
}
