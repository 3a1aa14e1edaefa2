//! The API server's audit log: which client sent which request.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use serde::Deserialize;

use super::TestCluster;

/// One request with its answer. A watch appears when it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// User name.
    pub user: String,
    /// Plural, with `/status` for that subresource; empty for a path that is not an object's.
    pub resource: String,
    /// Namespace; empty for none.
    pub namespace: String,
    /// Name; empty for lists, and for requests refused before the object had one.
    pub name: String,
    /// HTTP status.
    pub code: u16,
    /// The client's User-Agent.
    pub user_agent: String,
    /// Path and query.
    pub uri: String,
    /// When the API server received it.
    pub received: SystemTime,
}

impl AuditEntry {
    /// Whether the request is a write.
    #[must_use]
    pub fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    /// Whether the request is a write of an object that Gimbal publishes: a Service, its slices, or its Endpoints.
    #[must_use]
    pub fn is_publication(&self) -> bool {
        self.is_write() && matches!(self.resource.as_str(), "services" | "endpointslices" | "endpoints")
    }
}

impl TestCluster {
    /// Returns every request so far, in the order of their ends, except for the API server's own.
    ///
    /// # Errors
    /// The log cannot be read, or the API server does not run.
    pub async fn audit(&self) -> anyhow::Result<Vec<AuditEntry>> {
        self.audit_since(0).await
    }

    /// Returns every request but the first `seen`, a number that [`TestCluster::audit_mark`] returned.
    ///
    /// # Errors
    /// As [`TestCluster::audit`].
    pub async fn audit_since(&self, seen: usize) -> anyhow::Result<Vec<AuditEntry>> {
        let log = self.audit_log().await?;
        let all = log.lines().map(parse).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(all.into_iter().flatten().skip(seen).collect())
    }

    /// Leaves out of every later audit what is in the log now.
    pub(super) async fn begin_audit(&self) -> anyhow::Result<()> {
        let log = self.audit_log().await?;
        // The newline that ends the last line belongs to it.
        self.audit_from.fetch_add(log.len() as u64 + 1, Ordering::SeqCst);
        Ok(())
    }

    /// Returns the whole lines of the present audit, with every request that has been answered.
    async fn audit_log(&self) -> anyhow::Result<String> {
        // An answer may reach its client before its line reaches the log. The line of a later request follows it.
        let unique = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
        let marker = format!("/version?audit={unique}");
        self.admin.text(&marker).await?;
        crate::eventually("the audit log is written", Duration::from_secs(10), async || {
            let log = tokio::fs::read(&self.layout.audit_log).await?;
            let from = usize::try_from(self.audit_from.load(Ordering::SeqCst))?;
            let log = std::str::from_utf8(log.get(from..).context("the audit log has become shorter")?)?;
            // An incomplete last line is still being written.
            let whole = log.rfind('\n').map_or("", |end| &log[..end]);
            anyhow::ensure!(whole.contains(&marker), "the last request is not in it");
            Ok(whole.to_owned())
        })
        .await
    }

    /// Returns the number of requests so far, for [`TestCluster::audit_since`].
    ///
    /// # Errors
    /// As [`TestCluster::audit`].
    pub async fn audit_mark(&self) -> anyhow::Result<usize> {
        Ok(self.audit().await?.len())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    stage: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    user: User,
    request_received_timestamp: jiff::Timestamp,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

/// Parses a line. Returns `None` for a request without a complete answer, and for those that this module itself sends.
fn parse(line: &str) -> anyhow::Result<Option<AuditEntry>> {
    let line: Line = serde_json::from_str(line).with_context(|| format!("audit line {line:?}"))?;
    if line.stage != "ResponseComplete" || line.request_uri.starts_with("/version?audit=") {
        return Ok(None);
    }
    let object = line.object_ref;
    let resource = if object.subresource.is_empty() {
        object.resource
    } else {
        format!("{}/{}", object.resource, object.subresource)
    };
    Ok(Some(AuditEntry {
        verb: line.verb,
        user: line.user.username,
        resource,
        namespace: object.namespace,
        name: object.name,
        code: line.response_status.code,
        user_agent: line.user_agent,
        uri: line.request_uri,
        received: line.request_received_timestamp.into(),
    }))
}
