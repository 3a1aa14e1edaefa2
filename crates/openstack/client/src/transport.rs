//! Sends one request over HTTP, counts it, and reads its answer to the end. Repeats it only where that is safe and
//! useful.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use gimbal_error_text::one_line;
use http::{HeaderMap, HeaderValue, Method, header};
use reqwest::{Body, Client, Url};
use tokio::sync::{Mutex, Semaphore};

use crate::answer::{Answer, refusal};
use crate::mutation_result::RawAnswer;
use crate::send_permit::{PermitRefused, PermittedBody, SendPermit};
use crate::service_fault::service_fault;
use crate::{
    CallKind, CallLabels, CallOutcome, Calls, ClientOptions, CloudCredentials, Error, MutationResult, NotSent,
};

/// The maximum size of an answer, in bytes: more than any page that makes sense, so that a server cannot fill the memory. A
/// list whose pages are larger is read in smaller ones.
const LARGEST: usize = 16 << 20;

/// An answer that is longer waits until fewer than [`LARGE_ANSWERS`] others are.
const LARGE: usize = 1 << 20;

/// The number of large answers that are read at a time, so that many calls side by side do not fill the memory either.
const LARGE_ANSWERS: usize = 2;

/// As much of a refusal is read, in bytes. Its words stand at the beginning.
const REFUSAL: usize = 64 << 10;

/// How long an idle connection is kept: less than the two seconds after which gunicorn closes it, because a POST on a
/// connection that was just closed is not repeated.
const IDLE: Duration = Duration::from_millis(1500);

/// The pause before a GET is repeated that a server, or a proxy without a server behind it, answered with 502 or 503.
const SECOND_TRY: Duration = Duration::from_secs(1);

/// The minimum wait, so that a server that always sends `Retry-After: 0` is not asked without end.
const SHORTEST_WAIT: Duration = Duration::from_millis(500);

/// One request.
pub(crate) struct ApiRequest {
    /// `None` for a mutation or a read of raw rows, which are counted by their labels.
    pub kind: Option<CallKind>,
    /// What a read of raw rows is counted as.
    pub labels: Option<CallLabels>,
    pub method: Method,
    pub url: Url,
    /// Additional headers; may be empty.
    pub headers: HeaderMap,
    /// The JSON body; empty for none. It may contain a password.
    pub body: Bytes,
    /// The time-out of the request; `None` for the time-out of `kind`.
    pub timeout: Option<Duration>,
    /// Asked before the request is written, if it is a mutation.
    pub permit: Option<SendPermit>,
}

impl fmt::Debug for ApiRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiRequest").field("kind", &self.kind).field("name", &self.name()).finish_non_exhaustive()
    }
}

impl ApiRequest {
    /// Returns a GET request, with a token if there is one.
    pub(crate) fn get(kind: CallKind, url: Url, token: Option<&HeaderValue>) -> Self {
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            headers.insert("x-auth-token", token.clone());
        }
        Self { kind: Some(kind), ..Self::get_as(None, url, headers) }
    }

    /// Returns a GET request that is counted by its labels.
    pub(crate) fn get_as(labels: Option<CallLabels>, url: Url, headers: HeaderMap) -> Self {
        Self { kind: None, labels, method: Method::GET, url, headers, body: Bytes::new(), timeout: None, permit: None }
    }

    /// Returns the name of the request in errors and logs: method and URL, without the long query.
    fn name(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        format!("{} {url}", self.method)
    }

    fn timeout(&self, options: &ClientOptions) -> Duration {
        if let Some(timeout) = self.timeout {
            return timeout;
        }
        match self.kind {
            Some(CallKind::LoadBalancers | CallKind::Listeners | CallKind::Pools | CallKind::L7Policies) => {
                options.list_timeout
            }
            _ => options.timeout,
        }
    }
}

/// A connection pool to one cloud's services.
#[derive(Debug)]
pub(crate) struct Transport {
    client: Client,
    options: ClientOptions,
    pub calls: Arc<Calls>,
    /// Allows one second try at a time, and holds when the last one found the server available again: of many calls
    /// that failed together, one finds out for all.
    second_try: Mutex<Option<Instant>>,
    /// Whether a second try has failed. Then no other call is tried twice, to spare a server in trouble.
    second_tries_suspended: AtomicBool,
    large_answers: Semaphore,
}

impl Transport {
    pub(crate) fn new(credentials: &CloudCredentials, options: ClientOptions) -> Result<Self, Error> {
        let setup = |error: reqwest::Error| Error::Setup {
            message: format!("cannot set up the HTTP client: {}", one_line(&error)),
        };
        let mut builder = Client::builder()
            .user_agent(options.user_agent.as_str())
            .connect_timeout(options.connect_timeout)
            .pool_idle_timeout(IDLE)
            .tcp_nodelay(true)
            // A redirect would carry the token to whatever host it names.
            .redirect(reqwest::redirect::Policy::none())
            // The permit of a change is asked when the body is read, which is right before the write in HTTP/1 alone.
            .http1_only()
            .no_proxy();
        if !credentials.authorities.is_empty() {
            let authorities = credentials.authorities.iter().map(|der| reqwest::Certificate::from_der(der));
            builder = builder.tls_certs_only(authorities.collect::<Result<Vec<_>, _>>().map_err(setup)?);
        }
        let client = builder.build().map_err(setup)?;
        Ok(Self {
            client,
            options,
            calls: Arc::default(),
            second_try: Mutex::default(),
            second_tries_suspended: false.into(),
            large_answers: Semaphore::new(LARGE_ANSWERS),
        })
    }

    /// Returns the number of rows of a page as it was configured.
    pub(crate) fn page(&self) -> u32 {
        self.options.page
    }

    /// Returns how long a page of a list may take.
    pub(crate) fn list_timeout(&self) -> Duration {
        self.options.list_timeout
    }

    /// Allows second tries again.
    pub(crate) fn allow_second_tries(&self) {
        self.second_tries_suspended.store(false, SeqCst);
    }

    /// Sends the request and returns a successful answer. A GET over a broken connection is repeated once, because
    /// servers close idle connections without notice. A GET that is answered with 502 or 503 without `Retry-After` is
    /// repeated once after a second, because the server may be restarting; after one of these fails again, no other is
    /// repeated until [`Transport::allow_second_tries`]. An answer with `Retry-After` (429, 5xx) is waited for, as long as all
    /// waits together stay within [`ClientOptions::longest_wait`].
    pub(crate) async fn ask(&self, question: &ApiRequest) -> Result<Answer, Error> {
        let mut wait_budget = self.options.longest_wait;
        let mut retry_when_broken = question.method == Method::GET;
        let mut retry_when_away = question.method == Method::GET;
        let mut result = self.once(question).await;
        loop {
            let error = match result {
                Ok(answer) => return Ok(answer),
                Err(Failed::Broken(_)) if retry_when_broken => {
                    retry_when_broken = false;
                    self.calls.add_retry();
                    result = self.once(question).await;
                    continue;
                }
                Err(Failed::Final(error)) if retry_when_away && error.is_away() => {
                    retry_when_away = false;
                    tracing::debug!(%error, "asking once more");
                    result = self.second_try(question, error).await;
                    continue;
                }
                Err(failed) => failed.into_error(),
            };
            match error.retry_after().map(|wait| wait.max(SHORTEST_WAIT)) {
                Some(wait) if wait <= wait_budget => {
                    wait_budget -= wait;
                    tracing::warn!(%error, ?wait, "asked to wait");
                    self.calls.add_wait(wait);
                    tokio::time::sleep(wait).await;
                    self.calls.add_retry();
                    result = self.once(question).await;
                }
                _ => return Err(error),
            }
        }
    }

    async fn second_try(&self, question: &ApiRequest, error: Error) -> Result<Answer, Failed> {
        let failed = Instant::now();
        let mut back = self.second_try.lock().await;
        if self.second_tries_suspended.load(SeqCst) {
            return Err(Failed::Final(error));
        }
        self.calls.add_retry();
        if back.is_some_and(|back| back > failed) {
            drop(back);
            return self.once(question).await;
        }
        tokio::time::sleep(SECOND_TRY).await;
        let result = self.once(question).await;
        match &result {
            Err(Failed::Final(error)) if error.is_away() => self.second_tries_suspended.store(true, SeqCst),
            _ => *back = Some(Instant::now()),
        }
        result
    }

    async fn once(&self, question: &ApiRequest) -> Result<Answer, Failed> {
        let started = Instant::now();
        let mut received = 0;
        let result = self.exchange(question, &mut received).await;
        let outcome = match &result {
            Ok(_) => CallOutcome::Ok,
            Err(failed) => failed.error().outcome(),
        };
        match (question.kind, question.labels) {
            (Some(kind), _) => self.calls.add(kind, outcome, received, started.elapsed()),
            (None, Some(labels)) => self.calls.add_labelled(labels, outcome, received, started.elapsed()),
            (None, None) => {}
        }
        result
    }

    /// Sends a mutation at most once: even if the request fails, the service may have accepted it. Does not wait for a
    /// `Retry-After`. A mutation whose permit refused is not counted, because no call was made.
    pub(crate) async fn mutate(&self, question: &ApiRequest, labels: CallLabels) -> MutationResult {
        let started = Instant::now();
        let mut received = 0;
        let result = match self.read(question, &mut received).await {
            Ok(answer) => MutationResult::of(&question.name(), labels.service, answer),
            Err(Failed::NotPermitted(_)) => return MutationResult::NotSent(NotSent::NotPermitted),
            Err(Failed::NotConnected(error)) => MutationResult::NotSent(NotSent::Failed(error)),
            Err(Failed::Broken(error) | Failed::Final(error)) => MutationResult::Unknown(error),
        };
        let outcome = result.error().map_or(CallOutcome::Ok, Error::outcome);
        self.calls.add_labelled(labels, outcome, received, started.elapsed());
        result
    }

    async fn exchange(&self, question: &ApiRequest, received: &mut usize) -> Result<Answer, Failed> {
        let RawAnswer { status, headers, body } = self.read(question, received).await?;
        if status.is_success() {
            return Ok(Answer { headers, body });
        }
        if let (404, Some(labels)) = (status.as_u16(), question.labels)
            && service_fault(labels.service, 404, &body).is_none()
        {
            // A gateway that has lost its route: what is behind it may well exist.
            let message = format!("{}: 404, which is not the answer of the service itself", question.name());
            return Err(Failed::Final(Error::Refused { message }));
        }
        // Keystone's error may repeat the request's body, which contains a secret.
        let words = if question.kind == Some(CallKind::Token) { &[][..] } else { &body[..] };
        Err(Failed::Final(refusal(&question.name(), status, &headers, words)))
    }

    /// Sends one request and reads its answer to the end, whatever its status.
    async fn read(&self, question: &ApiRequest, received: &mut usize) -> Result<RawAnswer, Failed> {
        let timeout = question.timeout(&self.options);
        let failed = |error: reqwest::Error| failed(question, timeout, error);
        let mut request = self
            .client
            .request(question.method.clone(), question.url.clone())
            .timeout(timeout)
            .header(header::ACCEPT, "application/json")
            .headers(question.headers.clone());
        if !question.body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(permit) = &question.permit {
            request = request.body(Body::wrap(PermittedBody::new(question.body.clone(), permit.clone())));
        } else if !question.body.is_empty() {
            request = request.body(question.body.clone());
        }
        let mut response = request.send().await.map_err(failed)?;
        let (status, headers) = (response.status(), response.headers().clone());
        let too_large = || {
            Failed::Final(Error::TooLarge {
                message: format!("{}: longer than {} MiB", question.name(), LARGEST >> 20),
            })
        };
        if status.is_success() && response.content_length().is_some_and(|length| length > LARGEST as u64) {
            return Err(too_large());
        }
        let (mut body, mut turn) = (BytesMut::new(), None);
        while let Some(mut piece) = response.chunk().await.map_err(failed)? {
            *received += piece.len();
            if !status.is_success() {
                piece.truncate(REFUSAL - body.len());
                body.extend_from_slice(&piece);
                if body.len() == REFUSAL {
                    // The connection is closed with the rest.
                    break;
                }
                continue;
            }
            if body.len() + piece.len() > LARGEST {
                return Err(too_large());
            }
            if body.len() + piece.len() > LARGE && turn.is_none() {
                turn = self.large_answers.acquire().await.ok();
            }
            body.extend_from_slice(&piece);
        }
        Ok(RawAnswer { status, headers, body: body.freeze() })
    }
}

/// How one attempt failed.
enum Failed {
    /// The permit refused when the request was about to be written.
    NotPermitted(Error),
    /// No connection could be made, so nothing was sent.
    NotConnected(Error),
    /// The connection broke after it was made.
    Broken(Error),
    /// A second attempt on a new connection would not help.
    Final(Error),
}

impl Failed {
    fn error(&self) -> &Error {
        match self {
            Self::NotPermitted(error) | Self::NotConnected(error) | Self::Broken(error) | Self::Final(error) => error,
        }
    }

    fn into_error(self) -> Error {
        match self {
            Self::NotPermitted(error) | Self::NotConnected(error) | Self::Broken(error) | Self::Final(error) => error,
        }
    }
}

fn failed(question: &ApiRequest, timeout: Duration, error: reqwest::Error) -> Failed {
    let connecting = error.is_connect();
    let timed_out = error.is_timeout();
    let error = error.without_url();
    let name = question.name();
    if PermitRefused::caused(&error) {
        return Failed::NotPermitted(Error::Refused { message: format!("{name}: {PermitRefused}") });
    }
    if let Some(tls) = tls_error(&error) {
        let unknown = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let error = Error::Tls { message: format!("{name}: {tls}"), unknown_authority: *tls == unknown };
        return if connecting { Failed::NotConnected(error) } else { Failed::Final(error) };
    }
    if timed_out && !connecting {
        return Failed::Final(Error::Timeout { message: format!("{name}: no answer in {timeout:?}") });
    }
    let unreachable = Error::Unreachable { message: format!("{name}: {}", one_line(&error)) };
    if connecting { Failed::NotConnected(unreachable) } else { Failed::Broken(unreachable) }
}

/// Finds rustls' error in the chain of causes, at any depth. `source` does not return the error that an I/O error
/// wraps, so that is looked at, too.
fn tls_error(error: &reqwest::Error) -> Option<&rustls::Error> {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        let within = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        cause = match within {
            Some(within) => Some(within),
            None => error.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_password() {
        let url = Url::parse("http://k/v3/auth/tokens").unwrap();
        let mut question = ApiRequest::get(CallKind::Token, url, Some(&HeaderValue::from_static("very-secret")));
        question.body = Bytes::from_static(b"{\"password\":\"very-secret\"}");
        let shown = format!("{question:?}");
        assert!(shown.contains("GET http://k/v3/auth/tokens") && !shown.contains("very-secret"), "{shown}");
    }
}
