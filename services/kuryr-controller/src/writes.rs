//! Carries out the controller's writes. It only sends and converts; all decisions are made by the core.

use gimbal_kubernetes_agent::failure_label;
use gimbal_kubernetes_client::{ApiError, Cluster};
use gimbal_kubernetes_objects::{BalancedService, Meta, Object};
use gimbal_kuryr_controller_core::{ClusterObject, ClusterWrite, WriteBody, WriteOutcome, WrittenObject};
use gimbal_kuryr_crd::KuryrLoadBalancer;
use serde_json::Value;

use crate::metrics::ControllerMetrics;

/// Sends a write. Each write is one call, and none is repeated here.
pub(crate) async fn carry_out(cluster: Cluster, write: ClusterWrite, metrics: ControllerMetrics) -> EndedWrite {
    let ClusterWrite { object, body, purpose } = write;
    let (what, result) = send(&cluster, &object, body).await;
    let kind = if object.is_load_balancer { KuryrLoadBalancer::KIND.kind } else { BalancedService::KIND.kind };
    if !matches!(result, Err(ApiError::Withheld)) {
        metrics.written(kind, what, result.as_ref().err());
    }
    if let Err(error) = &result {
        let ClusterObject { namespace, name, .. } = &object;
        let code = failure_label(error);
        // The object changed meanwhile, which is as usual as a busy cluster.
        if matches!(error, ApiError::Conflict { .. } | ApiError::AlreadyExists { .. } | ApiError::NotFound { .. }) {
            tracing::debug!(kind, %namespace, %name, purpose, code, %error, "a write was outrun");
        } else {
            tracing::warn!(kind, %namespace, %name, purpose, code, %error, "a write failed");
        }
    }
    EndedWrite { object, outcome: outcome(result) }
}

/// A write that has ended.
#[derive(Debug)]
pub(crate) struct EndedWrite {
    pub(crate) object: ClusterObject,
    pub(crate) outcome: WriteOutcome,
}

async fn send(
    cluster: &Cluster,
    object: &ClusterObject,
    body: WriteBody,
) -> (&'static str, Result<WrittenObject, ApiError>) {
    match body {
        WriteBody::Create(new) => {
            let created = cluster.create(&*new).await;
            ("create", created.map(|object| WrittenObject::LoadBalancer(Box::new(object))))
        }
        WriteBody::Patch { meta, change } => ("patch", patch(cluster, object, &meta, &change).await),
        WriteBody::PatchStatus { meta, status } => ("status", patch_status(cluster, object, &meta, &status).await),
        WriteBody::Delete { meta } => {
            let Meta { namespace, name, uid, resource_version, .. } = &meta;
            let kind = if object.is_load_balancer { KuryrLoadBalancer::KIND } else { BalancedService::KIND };
            let deleted = cluster.delete(kind, namespace, name, uid, resource_version).await;
            ("delete", deleted.map(|()| WrittenObject::Deleted))
        }
        WriteBody::Read => ("read", read(cluster, object).await),
    }
}

async fn patch(
    cluster: &Cluster,
    object: &ClusterObject,
    meta: &Meta,
    change: &Value,
) -> Result<WrittenObject, ApiError> {
    if object.is_load_balancer {
        cluster.merge_patch(meta, change).await.map(|object| WrittenObject::LoadBalancer(Box::new(object)))
    } else {
        cluster.merge_patch(meta, change).await.map(|object| WrittenObject::Service(Box::new(object)))
    }
}

async fn patch_status(
    cluster: &Cluster,
    object: &ClusterObject,
    meta: &Meta,
    status: &Value,
) -> Result<WrittenObject, ApiError> {
    if object.is_load_balancer {
        cluster.patch_status(meta, status).await.map(|object| WrittenObject::LoadBalancer(Box::new(object)))
    } else {
        cluster.patch_status(meta, status).await.map(|object| WrittenObject::Service(Box::new(object)))
    }
}

async fn read(
    cluster: &Cluster,
    ClusterObject { namespace, name, is_load_balancer }: &ClusterObject,
) -> Result<WrittenObject, ApiError> {
    if *is_load_balancer {
        cluster.get(namespace, name).await.map(|object| WrittenObject::LoadBalancer(Box::new(object)))
    } else {
        cluster.get(namespace, name).await.map(|object| WrittenObject::Service(Box::new(object)))
    }
}

fn outcome(result: Result<WrittenObject, ApiError>) -> WriteOutcome {
    let error = match result {
        Ok(written) => return WriteOutcome::Done(written),
        Err(error) => error,
    };
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
        ApiError::Invalid { message } | ApiError::TooLarge { message } => WriteOutcome::Refused(message),
        error => WriteOutcome::Refused(error.public_reason().to_owned()),
    }
}
