//! Carries out the controller's writes. It only sends and converts; all decisions are made by the cores.

use gimbal_kubernetes_agent::failure_label;
use gimbal_kubernetes_client::{ApiError, Cluster};
use gimbal_kubernetes_objects::{BalancedService, Ingress, Meta, Object};
use gimbal_kuryr_crd::{KuryrL7Router, KuryrLoadBalancer};
use gimbal_kuryr_resource::{
    ClusterObject, ClusterWrite, KuryrKind, NewObject, WriteBody, WriteOutcome, WrittenObject,
};

use crate::metrics::ControllerMetrics;

/// Sends a write. Each write is one call, and none is repeated here.
pub(crate) async fn carry_out(cluster: Cluster, write: ClusterWrite, metrics: ControllerMetrics) -> EndedWrite {
    let ClusterWrite { object, body, purpose } = write;
    let (what, result) = match body {
        WriteBody::Create(new) => ("create", create(&cluster, new).await),
        body => send(&cluster, &object, body).await,
    };
    let kind = object.kind.as_str();
    if !matches!(result, Err(ApiError::Withheld)) {
        metrics.written(kind, what, result.as_ref().err());
    }
    if let Err(error) = &result {
        let ClusterObject { namespace, name, .. } = &object;
        let code = failure_label(error);
        // The object changed meanwhile, which is as usual as a busy cluster.
        let is_outrun =
            matches!(error, ApiError::Conflict { .. } | ApiError::AlreadyExists { .. } | ApiError::NotFound { .. });
        if is_outrun && denial(error).is_none() {
            tracing::debug!(kind, %namespace, %name, purpose, code, %error, "a write was outrun");
        } else {
            tracing::warn!(kind, %namespace, %name, purpose, code, %error, "a write failed");
        }
    }
    let asks_all_to_wait = result.as_ref().is_err_and(asks_all_to_wait);
    EndedWrite { object, outcome: outcome(result), asks_all_to_wait }
}

/// A write that has ended.
#[derive(Debug)]
pub(crate) struct EndedWrite {
    pub(crate) object: ClusterObject,
    pub(crate) outcome: WriteOutcome,
    /// Whether the API server asks to wait with every write, and not with this one alone.
    pub(crate) asks_all_to_wait: bool,
}

async fn create(cluster: &Cluster, new: NewObject) -> Result<WrittenObject, ApiError> {
    match new {
        NewObject::LoadBalancer(new) => cluster.create(&*new).await.map(Written::written),
        NewObject::Router(new) => cluster.create(&*new).await.map(Written::written),
    }
}

async fn send(
    cluster: &Cluster,
    object: &ClusterObject,
    body: WriteBody,
) -> (&'static str, Result<WrittenObject, ApiError>) {
    match object.kind {
        KuryrKind::LoadBalancer => send_as::<KuryrLoadBalancer>(cluster, object, body).await,
        KuryrKind::Router => send_as::<KuryrL7Router>(cluster, object, body).await,
        KuryrKind::Ingress => send_as::<Ingress>(cluster, object, body).await,
        // Nothing else is written to.
        KuryrKind::Service | KuryrKind::Slice | KuryrKind::Node | KuryrKind::IngressClass | KuryrKind::Secret => {
            send_as::<BalancedService>(cluster, object, body).await
        }
    }
}

/// Sends a write to an object that exists.
async fn send_as<O: Written>(
    cluster: &Cluster,
    ClusterObject { namespace, name, .. }: &ClusterObject,
    body: WriteBody,
) -> (&'static str, Result<WrittenObject, ApiError>) {
    match body {
        WriteBody::Patch { meta, change } => {
            ("patch", cluster.merge_patch::<O>(&meta, &change).await.map(Written::written))
        }
        WriteBody::PatchStatus { meta, status } => {
            ("status", cluster.patch_status::<O>(&meta, &status).await.map(Written::written))
        }
        WriteBody::Delete { meta } => {
            let Meta { namespace, name, uid, resource_version, .. } = &meta;
            let deleted = cluster.delete(O::KIND, namespace, name, uid, resource_version).await;
            ("delete", deleted.map(|()| WrittenObject::Deleted))
        }
        WriteBody::Read | WriteBody::Create(_) => {
            ("read", cluster.get::<O>(namespace, name).await.map(Written::written))
        }
    }
}

/// A kind that is written to.
trait Written: Object {
    /// Returns the answer that has the object.
    fn written(self) -> WrittenObject;
}

impl Written for BalancedService {
    fn written(self) -> WrittenObject {
        WrittenObject::Service(Box::new(self))
    }
}

impl Written for KuryrLoadBalancer {
    fn written(self) -> WrittenObject {
        WrittenObject::LoadBalancer(Box::new(self))
    }
}

impl Written for Ingress {
    fn written(self) -> WrittenObject {
        WrittenObject::Ingress(Box::new(self))
    }
}

impl Written for KuryrL7Router {
    fn written(self) -> WrittenObject {
        WrittenObject::Router(Box::new(self))
    }
}

/// How the words of those begin who do not let a write pass, and what they say.
const DENIALS: [(&str, &str); 2] =
    [("admission webhook \"", "\" denied the request"), ("ValidatingAdmissionPolicy '", "' denied request")];

/// Returns the words of an admission webhook, or of a policy, that does not let a write pass. A webhook may choose any code, such as
/// that of a conflict, which would be tried again for ever without a word.
fn denial(error: &ApiError) -> Option<String> {
    let message = error.to_string();
    DENIALS.into_iter().find_map(|(begins, says)| {
        let words = &message[message.find(begins)?..];
        words.contains(says).then(|| words.to_owned())
    })
}

fn asks_all_to_wait(error: &ApiError) -> bool {
    matches!(error, ApiError::Throttled { .. }) && denial(error).is_none()
}

fn outcome(result: Result<WrittenObject, ApiError>) -> WriteOutcome {
    let error = match result {
        Ok(written) => return WriteOutcome::Done(written),
        Err(error) => error,
    };
    if let Some(words) = denial(&error)
        && !matches!(error, ApiError::Throttled { .. })
    {
        return WriteOutcome::Refused(words);
    }
    match error {
        ApiError::Conflict { .. } | ApiError::AlreadyExists { .. } => WriteOutcome::Conflict,
        ApiError::NotFound { namespace: false, .. } => WriteOutcome::NotFound,
        ApiError::Throttled { retry_after, .. } => WriteOutcome::Throttled(retry_after),
        ApiError::Withheld => WriteOutcome::NotSent,
        ApiError::Server { message, .. }
        | ApiError::Timeout { message }
        | ApiError::Transport { message }
        | ApiError::Truncated { message }
        | ApiError::Undecodable { message } => WriteOutcome::Unknown(message),
        // What the server says of an object of the user's own is said in full; the rest is not for conditions and Events.
        ApiError::Invalid { message, .. } | ApiError::TooLarge { message } => WriteOutcome::Refused(message),
        error => WriteOutcome::Refused(error.public_reason().to_owned()),
    }
}

#[cfg(test)]
mod tests;
