//! Sends the writes of a job to the API server. Carries and converts; decides nothing.

use std::time::{Duration, Instant};

use futures::StreamExt;
use gimbal_kube_io::{ApiError, Cluster};
use gimbal_model::BackendName;
use gimbal_objects::{EndpointSlice, Endpoints, Meta, Namespace, Object, Service, keys};
use gimbal_plan::{Action, Body};
use gimbal_reconcile::{Job, WriteFailure, Written};
use tokio::sync::watch;

use crate::lease::Leadership;
use crate::metrics::Metrics;
use crate::pace::{Answer, Sign};
use crate::pause::Pause;

/// Everything a write needs. Cheap to clone.
#[derive(Clone)]
pub struct Writes {
    /// Own connections: a burst of writes must not stand before a watch or the lease.
    pub cluster: Cluster,
    /// No write is sent after its deadline.
    pub leadership: watch::Receiver<Leadership>,
    /// No write is sent before it ends.
    pub pause: Pause,
    /// Counts and times.
    pub metrics: Metrics,
}

/// How a write ended, and what that tells of the API server, if it was sent.
pub struct Sent {
    /// How it ended.
    pub written: Written,
    /// What that tells.
    pub answer: Option<Answer>,
}

impl Writes {
    /// Carries a job out, so many writes side by side; one answer for each action, in order.
    pub async fn carry_out(&self, job: &Job, side_by_side: usize) -> Vec<Sent> {
        let (first, rest) = job.stages();
        let mut sent = self.write_all(first, side_by_side).await;
        if sent.iter().all(|sent| sent.written.is_there()) {
            sent.extend(self.write_all(rest, side_by_side).await);
        } else {
            sent.extend(rest.iter().map(|_| Sent { written: Written::NotSent, answer: None }));
        }
        sent
    }

    async fn write_all(&self, actions: &[Action], side_by_side: usize) -> Vec<Sent> {
        // Most are alone, and then nobody has to watch over them.
        if let [action] = actions {
            return vec![self.write(action).await];
        }
        // Collected first: a stream that borrows closures over references is not Send as far as the compiler can see.
        let writes: Vec<_> = actions.iter().map(|action| self.write(action)).collect();
        futures::stream::iter(writes).buffered(side_by_side).collect().await
    }

    async fn write(&self, action: &Action) -> Sent {
        let sent = Instant::now();
        if !self.leadership.borrow().may_write(sent) || self.pause.until(sent).is_some() {
            return Sent { written: Written::NotSent, answer: None };
        }
        let (verb, result) = match action {
            Action::Create(body) => ("create", self.create(body).await),
            Action::Replace(body) => ("replace", self.replace(body).await),
            Action::Patch(body) => ("patch", self.patch(body).await),
            Action::Delete { kind, namespace, name, uid, resource_version } => {
                let deleted = self.cluster.delete(*kind, namespace, name, uid, resource_version).await;
                ("delete", deleted.map(|()| Written::Gone))
            }
        };
        let (kind, took) = (action.kind().kind, sent.elapsed());
        self.metrics.written(verb, kind, result.as_ref().err().map_or("ok", code), took);
        let sign = result.as_ref().err().map_or(Sign::Answered, |error| self.sign(error));
        let written = match result {
            Ok(written) => written,
            // A create reports a missing namespace as not found; to the others it means that the object is gone.
            Err(error @ ApiError::NotFound { .. }) if !matches!(action, Action::Create(_)) => {
                tracing::debug!(kind, name = %action.name(), %error, "the object was gone already");
                Written::Gone
            }
            Err(error) => Written::Failed(failure(error)),
        };
        Sent { written, answer: Some(Answer { sent, took, sign }) }
    }

    /// What an error tells of the API server. One that asks for patience gets it from here on.
    fn sign(&self, error: &ApiError) -> Sign {
        let throttled = matches!(error, ApiError::Throttled { .. });
        if throttled || error.retry_after().is_some() {
            self.metrics.paused();
            self.pause.begin(error.retry_after(), Instant::now());
        }
        match error {
            ApiError::Throttled { .. } => Sign::Throttled,
            ApiError::Server { .. } | ApiError::Timeout { .. } | ApiError::Transport { .. } => Sign::Trouble,
            _ => Sign::Answered,
        }
    }

    /// Creates a namespace for a backend whose policy says so. It bears no mark of ownership: it is never changed nor
    /// deleted by us.
    ///
    /// # Errors
    /// Why it could not be created, in words.
    pub async fn create_namespace(&self, name: &str, backend: &BackendName) -> Result<(), String> {
        if !self.leadership.borrow().may_write(Instant::now()) {
            return Err("this writer does not lead".into());
        }
        if self.pause.until(Instant::now()).is_some() {
            return Err("the API server asked for patience".into());
        }
        let labels = [(keys::CREATED_BY.into(), keys::MANAGER.into()), (keys::BACKEND.into(), backend.as_str().into())];
        let metadata = Meta { name: name.into(), labels: labels.into(), ..Meta::default() };
        let start = Instant::now();
        let result = self.cluster.create(&Namespace { metadata }).await;
        self.metrics.written("create", "Namespace", result.as_ref().err().map_or("ok", code), start.elapsed());
        if let Err(error) = &result {
            self.sign(error);
        }
        self.metrics.namespace_created(result.is_ok());
        match result {
            Ok(_) => Ok(()),
            Err(ApiError::AlreadyExists { .. }) => Err("it exists, and is being deleted or not seen yet".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn create(&self, body: &Body) -> Result<Written, ApiError> {
        match body {
            Body::Service(object) => self.create_or_find(object, keys::MANAGED_BY, Body::Service).await,
            Body::Slice(object) => self.create_or_find(object, keys::SLICE_MANAGED_BY, Body::Slice).await,
            Body::Endpoints(object) => self.create_or_find(object, keys::MANAGED_BY, Body::Endpoints).await,
        }
    }

    /// A create that meets an object looks whose it is: one of ours comes from a create whose answer was lost.
    async fn create_or_find<T: Object>(
        &self,
        object: &T,
        mark: &str,
        body: fn(T) -> Body,
    ) -> Result<Written, ApiError> {
        match self.cluster.create(object).await {
            Ok(answer) => Ok(Written::Answered(body(answer))),
            Err(ApiError::AlreadyExists { .. }) => {
                let meta = object.meta();
                let there: T = self.cluster.get(&meta.namespace, &meta.name).await?;
                if bears(there.meta(), mark) {
                    Ok(Written::Found(body(there)))
                } else {
                    Ok(Written::Failed(WriteFailure::Foreign))
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn replace(&self, body: &Body) -> Result<Written, ApiError> {
        let answer = match body {
            Body::Service(object) => Body::Service(self.cluster.replace::<Service>(object).await?),
            Body::Slice(object) => Body::Slice(self.cluster.replace::<EndpointSlice>(object).await?),
            Body::Endpoints(object) => Body::Endpoints(self.cluster.replace::<Endpoints>(object).await?),
        };
        Ok(Written::Answered(answer))
    }

    async fn patch(&self, body: &Body) -> Result<Written, ApiError> {
        let answer = match body {
            Body::Service(object) => Body::Service(self.cluster.patch::<Service>(object).await?),
            Body::Slice(object) => Body::Slice(self.cluster.patch::<EndpointSlice>(object).await?),
            Body::Endpoints(object) => Body::Endpoints(self.cluster.patch::<Endpoints>(object).await?),
        };
        Ok(Written::Answered(answer))
    }
}

fn bears(meta: &Meta, mark: &str) -> bool {
    meta.labels.get(mark).is_some_and(|manager| **manager == *keys::MANAGER)
}

fn failure(error: ApiError) -> WriteFailure {
    match error {
        error if error.namespace_missing() => WriteFailure::NamespaceMissing,
        ApiError::NamespaceTerminating { .. } => WriteFailure::NamespaceMissing,
        ApiError::Conflict { .. } => WriteFailure::Conflict,
        ApiError::Throttled { retry_after, .. } => WriteFailure::Throttled(retry_after),
        ApiError::Invalid { message } => WriteFailure::Invalid(message),
        ApiError::TooLarge { message } => WriteFailure::TooLarge(message),
        error => WriteFailure::Api(error.to_string()),
    }
}

fn code(error: &ApiError) -> &'static str {
    match error {
        ApiError::NotFound { .. } => "not_found",
        ApiError::AlreadyExists { .. } => "already_exists",
        ApiError::Conflict { .. } => "conflict",
        ApiError::Forbidden { .. } => "forbidden",
        ApiError::NamespaceTerminating { .. } => "namespace_terminating",
        ApiError::Invalid { .. } => "invalid",
        ApiError::TooLarge { .. } => "too_large",
        ApiError::Throttled { .. } => "throttled",
        ApiError::Gone { .. } => "gone",
        ApiError::Unauthorized { .. } => "unauthorized",
        ApiError::Server { .. } => "server_error",
        ApiError::Timeout { .. } => "timeout",
        ApiError::Transport { .. } => "transport",
        _ => "other",
    }
}

/// How long one write may take. An answer that takes longer tells nothing any more.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
