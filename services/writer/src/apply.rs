//! Sends the writes of a job to the API server. It only sends and converts; all decisions are made elsewhere.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use gimbal_kubernetes_client::{ApiError, Cluster};
use gimbal_kubernetes_objects::{EndpointSlice, Endpoints, Meta, Namespace, Object, Service, keys};
use gimbal_model::BackendName;
use gimbal_plan::{Action, Body};
use gimbal_reconcile::{Job, WriteAnswer, WriteFailure, Written};
use gimbal_schedule::{WriteResult, WriteSample};
use gimbal_transport::Quiet;
use tokio::sync::watch;

use crate::metrics::Metrics;
use crate::throttle::Throttle;
use gimbal_lease::{Leadership, Moment};

/// Used when a create is answered with a conflict and no object of ours exists. The server's own message may name other
/// tenants' objects.
const NOT_CREATED: &str =
    "the API server answers 409 to its creation; a quota of the namespace, a webhook or a proxy may be why";

/// What is needed to send writes. Cheap to clone.
#[derive(Clone)]
pub struct Writes {
    /// A client with connections of its own, because a burst of writes must not delay a watch or the lease. It should
    /// check once more, when a connection is open, that a write is still permitted.
    pub cluster: Cluster,
    /// No write is sent after the leadership's deadline.
    pub leadership: watch::Receiver<Leadership>,
    /// No write is sent while a pause lasts.
    pub throttle: Throttle,
    /// Counts and times the writes.
    pub metrics: Metrics,
    /// Failures by kind and code that were logged recently: an outage fails every write.
    pub failures: Arc<Quiet<(&'static str, &'static str)>>,
}

/// How a write ended.
pub struct Sent {
    /// The result for the reconciler.
    pub written: Written,
    /// What the API server answered, for explanations; `None` if nothing was sent.
    pub answer: Option<WriteAnswer>,
    /// Measurement for the limiter; `None` if nothing was sent.
    pub sample: Option<WriteSample>,
}

/// How the creation of a namespace ended.
pub struct Created {
    /// `Err` holds the reason of a failure, as text for people.
    pub result: Result<(), String>,
    /// Measurement for the limiter; `None` if nothing was sent.
    pub sample: Option<WriteSample>,
}

impl Writes {
    /// Sends the writes of a job, at most `side_by_side` at a time. Returns one result for each action, in order. The
    /// second stage is sent only if every write of the first succeeded.
    pub async fn carry_out(&self, job: &Job, side_by_side: usize) -> Vec<Sent> {
        let (first, rest) = job.stages();
        let mut sent = self.write_all(first, side_by_side).await;
        if sent.iter().all(|sent| sent.written.is_there()) {
            sent.extend(self.write_all(rest, side_by_side).await);
        } else {
            sent.extend(rest.iter().map(|_| Sent::nothing()));
        }
        sent
    }

    async fn write_all(&self, actions: &[Action], side_by_side: usize) -> Vec<Sent> {
        // Most stages have one write, and need no stream.
        if let [action] = actions {
            return vec![self.write(action).await];
        }
        // Collected first: the compiler cannot prove that a stream of closures over references is Send.
        let writes: Vec<_> = actions.iter().map(|action| self.write(action)).collect();
        futures::stream::iter(writes).buffered(side_by_side).collect().await
    }

    /// Returns whether a write may be sent now.
    #[must_use]
    pub fn may_write(&self) -> bool {
        self.leadership.borrow().may_write(Moment::now())
    }

    async fn write(&self, action: &Action) -> Sent {
        let sent = Instant::now();
        if !self.may_write() || self.throttle.until(sent).is_some() {
            return Sent::nothing();
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
        if matches!(result, Err(ApiError::Withheld)) {
            return Sent::nothing();
        }
        let (kind, took) = (action.kind().kind, sent.elapsed());
        let answer = answer(action, verb, &result, sent + took);
        self.metrics.written(verb, kind, result.as_ref().err().map_or("ok", code), took);
        let write_result = result.as_ref().err().map_or(WriteResult::Answered, |error| self.write_result(error));
        let written = match result {
            Ok(written) => written,
            // A create reports a missing namespace as not found; for other writes not found means that the object is
            // gone.
            Err(error @ ApiError::NotFound { .. }) if !matches!(action, Action::Create(_)) => {
                tracing::debug!(kind, name = %action.name(), %error, "the object was gone already");
                Written::Gone
            }
            Err(error @ ApiError::Conflict { .. }) => {
                self.log(kind, action.name(), &error);
                self.after_conflict(action).await
            }
            Err(error) => {
                let failure = failure(&error);
                if matches!(failure, WriteFailure::Api(_) | WriteFailure::Forbidden(_)) {
                    self.log(kind, action.name(), &error);
                }
                Written::Failed(failure)
            }
        };
        Sent { written, answer: Some(answer), sample: Some(WriteSample { sent, took, result: write_result }) }
    }

    /// Logs the API server's own message. It is not sent to agents; they get [`ApiError::public_reason`].
    fn log(&self, kind: &'static str, name: &str, error: &ApiError) {
        if let Some(untold) = self.failures.tell((kind, code(error)), Instant::now()) {
            tracing::warn!(kind, name, %error, untold, "a write failed");
        } else {
            tracing::debug!(kind, name, %error, "a write failed");
        }
    }

    /// Returns what an error says about the API server. Begins a pause if the server asks for one.
    fn write_result(&self, error: &ApiError) -> WriteResult {
        let throttled = matches!(error, ApiError::Throttled { .. });
        if throttled || error.retry_after().is_some() {
            self.metrics.paused();
            self.throttle.begin(error.retry_after(), Instant::now());
        }
        match error {
            ApiError::Throttled { .. } => WriteResult::Throttled,
            ApiError::Server { .. }
            | ApiError::Timeout { .. }
            | ApiError::Transport { .. }
            | ApiError::Truncated { .. } => WriteResult::Trouble,
            _ => WriteResult::Answered,
        }
    }

    /// Creates a namespace for a backend whose policy asks for it. It gets no mark of ownership: the writer never
    /// changes or deletes it.
    pub async fn create_namespace(&self, name: &str, backend: &BackendName) -> Created {
        let unsent = |why: &str| Created { result: Err(why.into()), sample: None };
        let sent = Instant::now();
        if !self.may_write() {
            return unsent("this writer does not lead");
        }
        if self.throttle.until(sent).is_some() {
            return unsent("the API server asked for patience");
        }
        let labels = [(keys::CREATED_BY.into(), keys::MANAGER.into()), (keys::BACKEND.into(), backend.as_str().into())];
        let metadata = Meta { name: name.into(), labels: labels.into(), ..Meta::default() };
        let result = self.cluster.create(&Namespace { metadata }).await;
        if matches!(result, Err(ApiError::Withheld)) {
            return unsent("this writer does not lead");
        }
        let took = sent.elapsed();
        self.metrics.written("create", "Namespace", result.as_ref().err().map_or("ok", code), took);
        let write_result = result.as_ref().err().map_or(WriteResult::Answered, |error| self.write_result(error));
        self.metrics.namespace_created(result.is_ok());
        let result = match result {
            Ok(_) => Ok(()),
            Err(ApiError::AlreadyExists { .. }) => Err("it exists, and is being deleted or not seen yet".into()),
            Err(error) => {
                tracing::warn!(namespace = name, %backend, %error, "cannot create a namespace; it is tried again");
                Err(error.public_reason().to_owned())
            }
        };
        Created { result, sample: Some(WriteSample { sent, took, result: write_result }) }
    }

    async fn create(&self, body: &Body) -> Result<Written, ApiError> {
        match body {
            Body::Service(object) => self.create_or_find(object, keys::MANAGED_BY, Body::Service).await,
            Body::Slice(object) => self.create_or_find(object, keys::SLICE_MANAGED_BY, Body::Slice).await,
            Body::Endpoints(object) => self.create_or_find(object, keys::MANAGED_BY, Body::Endpoints).await,
        }
    }

    /// Creates an object. If one exists already and has our mark, returns that one: probably an earlier create
    /// succeeded and its answer was lost.
    async fn create_or_find<T: Object>(
        &self,
        object: &T,
        mark: &str,
        body: fn(T) -> Body,
    ) -> Result<Written, ApiError> {
        let created = |answer| Written::Answered(body(answer));
        match self.cluster.create(object).await {
            Ok(answer) => Ok(created(answer)),
            Err(ApiError::AlreadyExists { .. }) => {
                let meta = object.meta();
                match self.find(&meta.namespace, &meta.name, mark, body).await {
                    Ok(there) => Ok(there.map_or(Written::Failed(WriteFailure::Foreign), Written::Found)),
                    // Somebody deleted it in between, so the name is free.
                    Err(ApiError::NotFound { .. }) => self.cluster.create(object).await.map(created),
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the result of a write that was answered with 409 (conflict). Looks up the object, because the watch may
    /// never report it.
    async fn after_conflict(&self, action: &Action) -> Written {
        let (kind, namespace, name) = (action.kind(), action.namespace(), action.name());
        let there = match kind {
            Service::KIND => self.find(namespace, name, keys::MANAGED_BY, Body::Service).await,
            Endpoints::KIND => self.find(namespace, name, keys::MANAGED_BY, Body::Endpoints).await,
            _ => self.find(namespace, name, keys::SLICE_MANAGED_BY, Body::Slice).await,
        };
        match there {
            Ok(Some(there)) => Written::Conflict { there },
            // The object is no longer ours. A create of the name will find its owner.
            Ok(None) if !matches!(action, Action::Create(_)) => Written::Gone,
            Err(ApiError::NotFound { .. }) if !matches!(action, Action::Create(_)) => Written::Gone,
            Ok(None) | Err(ApiError::NotFound { .. }) => Written::Failed(WriteFailure::Contested(NOT_CREATED.into())),
            Err(error) => Written::Failed(failure(&error)),
        }
    }

    /// Returns the object of this name if it has our mark.
    async fn find<T: Object>(
        &self,
        namespace: &str,
        name: &str,
        mark: &str,
        body: fn(T) -> Body,
    ) -> Result<Option<Body>, ApiError> {
        let there: T = self.cluster.get(namespace, name).await?;
        Ok(bears(there.meta(), mark).then(|| body(there)))
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

impl Sent {
    fn nothing() -> Self {
        Self { written: Written::NotSent, answer: None, sample: None }
    }
}

/// Returns what the API server answered to a write.
fn answer(action: &Action, verb: &'static str, result: &Result<Written, ApiError>, at: Instant) -> WriteAnswer {
    let (status, answer) = match result {
        // A create that finds the name taken looks who has it.
        Ok(Written::Found(_) | Written::Failed(_)) => (Some(409), "already_exists"),
        Ok(_) if matches!(action, Action::Create(_)) => (Some(201), WriteAnswer::OK),
        Ok(_) => (Some(200), WriteAnswer::OK),
        Err(error) => (error.status(), code(error)),
    };
    WriteAnswer { verb, kind: action.kind().kind, name: action.name().clone(), status, answer, at }
}

fn bears(meta: &Meta, mark: &str) -> bool {
    meta.labels.get(mark).is_some_and(|manager| **manager == *keys::MANAGER)
}

fn failure(error: &ApiError) -> WriteFailure {
    match error {
        error if error.namespace_missing() => WriteFailure::NamespaceMissing,
        ApiError::NamespaceTerminating { .. } => WriteFailure::NamespaceMissing,
        ApiError::Throttled { retry_after, .. } => WriteFailure::Throttled(*retry_after),
        ApiError::Invalid { message, .. } => WriteFailure::Invalid(message.clone()),
        ApiError::TooLarge { message } => WriteFailure::TooLarge(message.clone()),
        ApiError::Forbidden { .. } => WriteFailure::Forbidden(error.public_reason().to_owned()),
        error => WriteFailure::Api(error.public_reason().to_owned()),
    }
}

/// Returns the error's kind as metrics spell it.
pub(crate) fn code(error: &ApiError) -> &'static str {
    match error {
        ApiError::NotFound { .. } | ApiError::NotServed { .. } => "not_found",
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
        ApiError::Transport { .. } | ApiError::Truncated { .. } => "transport",
        _ => "other",
    }
}

/// How long one write may take. Whether a write without an answer by then took effect is unknown.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use gimbal_kubernetes_client::Access;
    use gimbal_kubernetes_objects::{ServicePort, ServiceSpec};
    use gimbal_testkit::api_proxy::{Calls, Trouble};
    use gimbal_testkit::{ApiProxy, Rights, Rule, TestCluster, eventually};
    use prometheus_client::registry::Registry;

    use super::*;

    fn writes_through(proxy: &ApiProxy) -> Writes {
        let access = Access::Kubeconfig(proxy.kubeconfig().to_owned());
        Writes {
            cluster: Cluster::connect(&access, "test").unwrap(),
            leadership: Leadership::unopposed(),
            throttle: Throttle::default(),
            metrics: Metrics::register(&mut Registry::default()),
            failures: Arc::default(),
        }
    }

    /// The 409 of a create may have another cause than the object: a quota, a webhook, or a proxy with a message of its
    /// own.
    #[tokio::test]
    async fn the_answer_409_to_a_create_is_not_quoted() {
        let server = TestCluster::start().await.unwrap();
        let user = server.user("writer").unwrap();
        server.grant(&user, &[Rule::read("", &["services"])]).await.unwrap();
        let proxy = ApiProxy::start(&server, &user).await.unwrap();
        proxy.trouble(&[Calls::Writes], Trouble::Answer(409, None));
        let writes = writes_through(&proxy);
        let metadata = Meta { namespace: "default".into(), name: "web".into(), ..Meta::default() };
        let body = Body::Service(Service { metadata, spec: ServiceSpec::default() });
        let Written::Failed(WriteFailure::Contested(message)) = writes.write(&Action::Create(body)).await.written
        else {
            panic!("it cannot be written")
        };
        assert!(message.contains("409") && !message.contains("in trouble"), "{message}");
    }

    /// The owner of a taken name may delete it between our create and our look at it.
    #[tokio::test]
    async fn a_name_that_becomes_free_during_a_create_is_taken() {
        let server = TestCluster::start().await.unwrap();
        let user = server.user("writer").unwrap();
        server.bind(&user, &Rights::deployed(&["gimbal-writer"]).unwrap()).await.unwrap();
        let proxy = ApiProxy::start(&server, &user).await.unwrap();
        let metadata = Meta { namespace: "default".into(), name: "web".into(), ..Meta::default() };
        let port = ServicePort { port: 80, ..ServicePort::default() };
        let spec = ServiceSpec { ports: vec![port], ..ServiceSpec::default() };
        let body = Body::Service(Service { metadata, spec });
        let path = "/api/v1/namespaces/default/services";
        let foreign = serde_json::json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
        server.admin().post(path, &foreign).await.unwrap();

        let mark = server.audit_mark().await.unwrap();
        proxy.trouble(&[Calls::Reads], Trouble::Silence);
        let delete = async {
            eventually("the create is refused", Duration::from_secs(30), async || {
                let entries = server.audit_since(mark).await.unwrap();
                let refused = entries.iter().any(|entry| entry.user == "writer" && entry.code == 409);
                refused.then_some(()).ok_or("it is not")
            })
            .await
            .unwrap();
            server.admin().delete(&format!("{path}/web")).await.unwrap();
            proxy.recover();
        };
        let writes = writes_through(&proxy);
        let create = Action::Create(body);
        let (sent, ()) = tokio::join!(writes.write(&create), delete);
        assert!(matches!(sent.written, Written::Answered(_)), "{:?}", sent.written);
    }

    /// Agents must not learn what a credential plug-in printed, its environment, or the address of the API server.
    #[test]
    fn agents_get_no_text_of_third_parties() {
        let message =
            || "https://user:hunter2@10.0.0.1:6443: auth exec command 'T=\"hunter2\" plugin' failed".to_owned();
        for error in [
            ApiError::Transport { message: message() },
            ApiError::Timeout { message: message() },
            ApiError::Server { message: message(), status: 500, retry_after: None },
            ApiError::Unauthorized { message: message() },
            ApiError::Forbidden { message: message() },
            ApiError::Undecodable { message: message() },
            ApiError::Conflict { message: message() },
        ] {
            let (WriteFailure::Api(message) | WriteFailure::Forbidden(message)) = failure(&error) else {
                panic!("{error:?}")
            };
            assert!(!["hunter2", "://", "10.0.0.1"].iter().any(|word| message.contains(word)), "{message}");
        }
        // What is wrong with an object of the backend itself is reported in full.
        let verdict = "Service \"web\" is invalid: spec.ports[0].name: too long";
        let refused = failure(&ApiError::Invalid { message: verdict.into(), status: Some(422) });
        assert_eq!(refused, WriteFailure::Invalid(verdict.into()));
    }
}
