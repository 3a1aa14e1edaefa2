//! One API server behind one connection pool.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use gimbal_error_text::one_line;
use gimbal_kubernetes_objects::{Kind, Meta, Object};
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tower::{BoxError, ServiceExt};

use crate::access::{self, Access, ConnectError, Pool, ResponseBody};
use crate::credentials::ClusterLogin;
use crate::list_page::ListPage;
use crate::page_bytes::{self, PageBytes};
use crate::page_tokens::PageTokens;
use crate::permit::{NotPermitted, Permit};
use crate::reach::Reach;
use crate::request::{self, Call, Subresource};
use crate::shallow::shallow;
use crate::{ApiError, WatchScope};

/// The default time-out of a call.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How many time-outs a page of a list may take. A server that sends a byte now and then is not waited for.
const SLOW_PAGE: u32 = 10;

/// A client of one API server. Clones share one connection pool; [`Cluster::apart`] returns a client with a pool of its own,
/// so that a burst of writes cannot delay a lease's renewal. No call is retried.
///
/// Credentials are reloaded while the process runs: the kubeconfig, the files that it names, and the output of its exec
/// plug-in, which runs in the background.
#[derive(Clone)]
pub struct Cluster {
    credentials: Arc<ClusterLogin>,
    /// The pool with the generation of the credentials that it connects with.
    pool: Arc<Mutex<Option<(u64, Pool)>>>,
    url: Arc<str>,
    user_agent: HeaderValue,
    timeout: Duration,
    reach: Arc<Reach>,
    permit: Option<Permit>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Reads the credentials, and runs the exec plug-in if there is one. The first call connects. Must be called within a
    /// tokio runtime.
    ///
    /// # Errors
    /// When the credentials cannot be read or are invalid.
    pub fn connect(access: &Access, user_agent: &str) -> Result<Self, ConnectError> {
        let credentials = ClusterLogin::start(access.clone())?;
        let url = access::without_user(&credentials.shown().config.cluster_url.to_string());
        let user_agent = HeaderValue::from_str(user_agent).unwrap_or_else(|_| HeaderValue::from_static("gimbal"));
        let url = url.trim_end_matches('/').into();
        Ok(Self {
            credentials,
            pool: Arc::default(),
            url,
            user_agent,
            timeout: TIMEOUT,
            reach: Arc::default(),
            permit: None,
        })
    }

    /// Returns a client that sends its requests to `pool`.
    #[cfg(test)]
    pub(crate) fn new(pool: Pool, url: &str, user_agent: &'static str) -> Self {
        let credentials = ClusterLogin::fixed();
        let pool = Arc::new(Mutex::new(Some((credentials.shown().generation, pool))));
        let user_agent = HeaderValue::from_static(user_agent);
        Self { credentials, pool, url: url.into(), user_agent, timeout: TIMEOUT, reach: Arc::default(), permit: None }
    }

    /// Returns a client of the same API server with the same credentials and a connection pool of its own.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self { pool: Arc::default(), ..self.clone() }
    }

    /// Returns a client that sends writes only while `permit` returns true. It is called when a connection is ready and the
    /// request is about to be written. A call without a permit fails with [`ApiError::Withheld`].
    #[must_use]
    pub fn only_while(mut self, permit: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.permit = Some(Permit::new(permit));
        self
    }

    /// Returns for how long every call to this API server has failed, on all connections: without an answer, with a server
    /// error (5xx), or because the credentials are not accepted (401).
    #[must_use]
    pub fn failing_for(&self) -> Option<Duration> {
        self.credentials.failing_for()
    }

    /// Sets the time-out of each call. The default is 10 seconds.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Returns the URL of the API server, without credentials.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.to_string()
    }

    /// Waits before a retry of a call without an answer ([`ApiError::nobody_answered`]): for `pause`, or until another
    /// call has a complete answer.
    pub async fn pause(&self, pause: Duration) {
        self.reach.pause(pause).await;
    }

    /// Reads one object. The namespace of a cluster-scoped object is empty.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn get<T: Object>(&self, namespace: &str, name: &str) -> Result<T, ApiError> {
        self.object(request::get(T::KIND, namespace, name)?).await
    }

    /// Creates an object and returns it as the server stored it.
    ///
    /// # Errors
    /// See [`ApiError`]; [`ApiError::namespace_missing`] is true if the namespace does not exist.
    pub async fn create<T: Object>(&self, object: &T) -> Result<T, ApiError> {
        self.object(request::create(object)?).await
    }

    /// Replaces an object, if it still has the version and the UID in its metadata; fails with [`ApiError::Conflict`]
    /// otherwise. If the kind has a status subresource, the status stays as it is.
    ///
    /// A replacement is whole: fields of the stored object that `T` does not have are **removed**, for instance finalizers
    /// and owner references, which [`Meta`] does not have. Use it only on objects that no other client adds fields to, and
    /// [`merge_patch`](Self::merge_patch) on all others.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn replace<T: Object>(&self, object: &T) -> Result<T, ApiError> {
        self.object(request::replace(object, Subresource::Main)?).await
    }

    /// Replaces the status of an object, if it still has the version and the UID in its metadata; fails with
    /// [`ApiError::Conflict`] otherwise, and with [`ApiError::NotServed`] if the kind has no status subresource (for custom resources with
    /// [`ApiError::NotFound`]). The server ignores every other field. Status fields that `T` does not have are removed.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn replace_status<T: Object>(&self, object: &T) -> Result<T, ApiError> {
        self.object(request::replace(object, Subresource::Status)?).await
    }

    /// Sends the whole object as a merge patch, if it still has the version and the UID in its metadata: labels and
    /// annotations that it does not name stay, lists are replaced.
    ///
    /// # Errors
    /// See [`ApiError`]; those of [`merge_patch`](Self::merge_patch) where the object has moved.
    pub async fn patch<T: Object>(&self, object: &T) -> Result<T, ApiError> {
        self.object(request::patch(object)?).await
    }

    /// Changes the fields that `change` names, and no others: an RFC 7386 merge patch, so `null` removes a field and a list
    /// replaces the whole list. `meta` names the object; its UID and its version become part of the patch, so the change is
    /// made to the object that was read or not at all. An empty UID or version is not compared.
    ///
    /// This is the way to set finalizers: `json!({"metadata": {"finalizers": [..]}})` with the whole list.
    ///
    /// # Errors
    /// See [`ApiError`]:
    /// - [`ApiError::Conflict`] if the object has another version, as it always has after it was made anew.
    /// - [`ApiError::Conflict`] if `meta` has no version and the object has another UID.
    /// - [`ApiError::NotFound`] if there is no such object.
    /// - [`ApiError::Invalid`] if `change` is not a JSON object, or the server refuses the result.
    pub async fn merge_patch<T: Object>(&self, meta: &Meta, change: &impl Serialize) -> Result<T, ApiError> {
        self.object(request::merge_patch(T::KIND, meta, Subresource::Main, change)?).await
    }

    /// Changes the fields of the status that `status` names, in the way of [`merge_patch`](Self::merge_patch).
    ///
    /// # Errors
    /// Those of [`merge_patch`](Self::merge_patch); and as [`replace_status`](Self::replace_status) if the kind has no status
    /// subresource.
    pub async fn patch_status<T: Object>(&self, meta: &Meta, status: &impl Serialize) -> Result<T, ApiError> {
        let change = serde_json::to_value(status).map(|status| serde_json::json!({ "status": status }));
        let change = change.map_err(|error| ApiError::Invalid {
            message: format!("cannot write the status: {error}"),
            status: None,
        })?;
        self.object(request::merge_patch(T::KIND, meta, Subresource::Status, &change)?).await
    }

    /// Applies an object on the server's side as the wish of `manager`: it gets the fields that the object has, whoever had set
    /// them, and loses those that this manager applied before and does not any more. The UID in its metadata must be that of an
    /// object that was read; another object of the name stays as it is.
    ///
    /// # Errors
    /// See [`ApiError`]: [`ApiError::Conflict`] if the object has another UID or, if one is in its metadata, another version, and
    /// [`ApiError::Invalid`] without a UID.
    pub async fn apply<T: Object>(&self, object: &T, manager: &str) -> Result<T, ApiError> {
        self.object(request::apply(object, manager)?).await
    }

    /// Applies the fields of a status, in the way of [`apply`](Self::apply): what other managers have there stays. The object must
    /// have the UID in `meta` and, if one is there, the version.
    ///
    /// # Errors
    /// Those of [`apply`](Self::apply); and as [`replace_status`](Self::replace_status) if the kind has no status subresource.
    pub async fn apply_status<T: Object>(
        &self,
        meta: &Meta,
        status: &impl Serialize,
        manager: &str,
    ) -> Result<T, ApiError> {
        self.object(request::apply_status(T::KIND, meta, status, manager)?).await
    }

    /// Deletes an object, if it still has this UID and this version. An empty UID or version is not compared.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn delete(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        uid: &str,
        resource_version: &str,
    ) -> Result<(), ApiError> {
        self.answer(request::delete(kind, namespace, name, uid, resource_version)?).await.map(drop)
    }

    /// Lists all objects of a scope, page by page. If one of them cannot be decoded the list fails, so the result is always
    /// complete.
    ///
    /// # Errors
    /// See [`ApiError`]. [`ApiError::Gone`] when the list took longer than the server keeps its version: list again.
    pub async fn list<T: Object>(&self, scope: &WatchScope) -> Result<Vec<T>, ApiError> {
        let mut objects = Vec::new();
        let mut next: Option<String> = None;
        let mut size = PageBytes::new();
        let mut tokens = PageTokens::default();
        loop {
            let page = self.page::<T>(scope, &mut size, next.as_deref()).await?;
            if let Some(error) = page.unreadable {
                return Err(error);
            }
            objects.extend(page.items);
            let Some(token) = page.next else { return Ok(objects) };
            tokens.check::<T>(&token, page.objects)?;
            next = Some(token);
        }
    }

    /// Reads one page of a list and adjusts `size` for the next one. A page that is too large is asked for again with fewer
    /// objects. The time-out starts again with each piece received, since a large page can take long on a slow line, up to
    /// `SLOW_PAGE` time-outs.
    pub(crate) async fn page<T: Object>(
        &self,
        scope: &WatchScope,
        size: &mut PageBytes,
        next: Option<&str>,
    ) -> Result<ListPage<T>, ApiError> {
        loop {
            let mut body = self.open(request::list(T::KIND, scope, size.limit(), next)?).await?;
            // Half of the pages are larger than the target size, and a growing buffer exists twice for a moment.
            let mut bytes = BytesMut::with_capacity(2 * page_bytes::BYTES);
            let read = async {
                while let Some(piece) = self.limited(piece(&mut body)).await? {
                    if bytes.len() + piece.len() > page_bytes::MOST_BYTES {
                        return Ok(false);
                    }
                    bytes.extend_from_slice(&piece);
                }
                Ok(true)
            };
            let whole = self.timeout * SLOW_PAGE;
            let fits = timeout(whole, read).await.unwrap_or_else(|_| {
                let message = format!("no whole page of {} from {} in {whole:?}", T::KIND.plural, self.url);
                let error = ApiError::Timeout { message };
                self.failed(&error);
                Err(error)
            })?;
            if fits {
                self.answered();
                let page = ListPage::read(&bytes)?;
                size.learn(page.objects, bytes.len());
                return Ok(page);
            }
            if !size.shrink() {
                let what = T::KIND.plural;
                let message = format!("a page of one of the {what} is larger than {} bytes", page_bytes::MOST_BYTES);
                return Err(ApiError::Undecodable { message });
            }
        }
    }

    /// Opens a watch that starts after `version`. Returns once the server has accepted it.
    pub(crate) async fn watch(
        &self,
        kind: Kind,
        scope: &WatchScope,
        version: &str,
        seconds: u64,
    ) -> Result<ResponseBody, ApiError> {
        let body = self.open(request::watch(kind, scope, version, seconds)?).await?;
        self.answered();
        Ok(body)
    }

    async fn object<T: DeserializeOwned>(&self, call: Call) -> Result<T, ApiError> {
        let bytes = self.answer(call).await?;
        let read = serde_json::from_slice(&bytes).or_else(|error| {
            let kept = std::str::from_utf8(&bytes).ok().and_then(shallow);
            kept.map_or(Err(error), |kept| serde_json::from_str(&kept))
        });
        read.map_err(|error| ApiError::undecodable("an object", &error))
    }

    async fn answer(&self, call: Call) -> Result<Bytes, ApiError> {
        let bytes = self.limited(async { collect(self.send(call).await?.into_body()).await }).await?;
        self.answered();
        Ok(bytes)
    }

    async fn open(&self, call: Call) -> Result<ResponseBody, ApiError> {
        self.limited(async { Ok(self.send(call).await?.into_body()) }).await
    }

    /// Makes a call, or a part of one, within the time-out. Notes a failure; the caller notes a success.
    async fn limited<T>(&self, call: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
        let answer = timeout(self.timeout, call).await.unwrap_or_else(|_| {
            Err(ApiError::Timeout { message: format!("no answer from {} in {:?}", self.url, self.timeout) })
        });
        if let Err(error) = &answer {
            self.failed(error);
        }
        answer
    }

    /// Notes a complete answer, or a watch that was accepted.
    fn answered(&self) {
        self.credentials.called(true);
        self.reach.answered();
    }

    fn failed(&self, error: &ApiError) {
        match error {
            ApiError::Withheld => return,
            // The server can be reached, but did not answer.
            ApiError::Truncated { .. } => {}
            error if error.nobody_answered() => self.reach.nobody_answered(),
            _ => self.reach.answered(),
        }
        self.credentials.called(!error.is_outage());
    }

    async fn send(&self, mut call: Call) -> Result<Response<ResponseBody>, ApiError> {
        let shown = self.credentials.shown();
        let headers = call.headers_mut();
        headers.insert(header::USER_AGENT, self.user_agent.clone());
        headers.extend(shown.authorization.clone().map(|value| (header::AUTHORIZATION, value)));
        let pool = self.pool(shown.generation, &shown.config)?;
        if let Some(permit) = &self.permit {
            call.extensions_mut().insert(permit.clone());
        }
        let answer = pool.oneshot(call.map(Full::new)).await.map_err(|error| self.unreachable(&error))?;
        let code = answer.status();
        if code.is_success() {
            return Ok(answer);
        }
        if code == StatusCode::UNAUTHORIZED {
            self.credentials.refused();
        }
        let seconds = answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = collect(answer.into_body()).await?;
        Err(ApiError::from_answer(code, seconds.map(Duration::from_secs), &body))
    }

    /// Returns the pool. If the credentials have changed, returns a new one; calls under way finish in the old one.
    fn pool(&self, generation: u64, config: &kube::Config) -> Result<Pool, ApiError> {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made_by, pool)) = &*pool
            && *made_by == generation
        {
            return Ok(pool.clone());
        }
        let made = access::pool(config).map_err(|error| ApiError::Transport { message: one_line(&error) })?;
        *pool = Some((generation, made.clone()));
        Ok(made)
    }

    fn unreachable(&self, error: &BoxError) -> ApiError {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&**error);
        while let Some(error) = cause {
            if error.is::<NotPermitted>() {
                return ApiError::Withheld;
            }
            cause = error.source();
        }
        ApiError::Transport { message: format!("{}: {}", self.url, one_line(&**error)) }
    }
}

async fn collect(mut body: ResponseBody) -> Result<Bytes, ApiError> {
    let mut bytes = BytesMut::new();
    while let Some(piece) = piece(&mut body).await? {
        if bytes.len() + piece.len() > page_bytes::LONGEST_OBJECT {
            return Err(ApiError::Undecodable { message: "it is longer than any object".to_owned() });
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes.freeze())
}

/// Returns the next piece of a body, or `None` at its end.
pub(crate) async fn piece(body: &mut ResponseBody) -> Result<Option<Bytes>, ApiError> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Err(error)) => return Err(truncated(&error)),
            // Trailers are ignored.
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => return Ok(Some(data)),
                Err(_) => continue,
            },
        }
    }
}

fn truncated(error: &BoxError) -> ApiError {
    ApiError::Truncated { message: one_line(&**error) }
}
