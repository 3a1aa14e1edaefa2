//! Sends one request over HTTP, counts it, and reads its answer to the end. Repeats it only where that is safe and
//! useful.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use gimbal_error_text::one_line;
use http::{HeaderMap, HeaderValue, Method, header};
use reqwest::{Client, Url};
use tokio::sync::Mutex;

use crate::answer::{Answer, refusal};
use crate::mutation::{MutationKind, MutationResult, RawAnswer};
use crate::{CallKind, CallOutcome, Calls, Credentials, Error, Options, ServiceType};

/// The maximum size of an answer, in bytes: more than any requested page, so that a server cannot fill the memory.
const LARGEST: usize = 64 << 20;

/// How long an idle connection is kept: less than the two seconds after which gunicorn closes it, because a POST on a
/// connection that was just closed is not repeated.
const IDLE: Duration = Duration::from_millis(1500);

/// The pause before a GET is repeated that a server, or a proxy without a server behind it, answered with 502 or 503.
const SECOND_TRY: Duration = Duration::from_secs(1);

/// The minimum wait, so that a server that always sends `Retry-After: 0` is not asked without end.
const SHORTEST_WAIT: Duration = Duration::from_millis(500);

/// One request.
pub(crate) struct Question {
    /// `None` for a mutation, which is counted by its own kind.
    pub kind: Option<CallKind>,
    pub method: Method,
    pub url: Url,
    /// Additional headers; may be empty.
    pub headers: HeaderMap,
    /// The JSON body; empty for none. It may contain a password.
    pub body: Bytes,
    /// The time-out of the request; `None` for the time-out of `kind`.
    pub timeout: Option<Duration>,
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question").field("kind", &self.kind).field("name", &self.name()).finish_non_exhaustive()
    }
}

impl Question {
    /// Returns a GET request, with a token if there is one.
    pub(crate) fn get(kind: CallKind, url: Url, token: Option<&HeaderValue>) -> Self {
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            headers.insert("x-auth-token", token.clone());
        }
        Self { kind: Some(kind), method: Method::GET, url, headers, body: Bytes::new(), timeout: None }
    }

    /// Returns the name of the request in errors and logs: method and URL, without the long query.
    fn name(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        format!("{} {url}", self.method)
    }

    fn timeout(&self, options: &Options) -> Duration {
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
    options: Options,
    pub calls: Arc<Calls>,
    /// Allows one second try at a time, and holds when the last one found the server available again: of many calls
    /// that failed together, one finds out for all.
    second_try: Mutex<Option<Instant>>,
    /// Whether a second try has failed. Then no other call is tried twice, to spare a server in trouble.
    stays_away: AtomicBool,
}

impl Transport {
    pub(crate) fn new(credentials: &Credentials, options: Options) -> Result<Self, Error> {
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
            .no_proxy();
        if !credentials.authorities.is_empty() {
            let authorities = credentials.authorities.iter().map(|der| reqwest::Certificate::from_der(der));
            builder = builder.tls_certs_only(authorities.collect::<Result<Vec<_>, _>>().map_err(setup)?);
        }
        let client = builder.build().map_err(setup)?;
        Ok(Self { client, options, calls: Arc::default(), second_try: Mutex::default(), stays_away: false.into() })
    }

    /// Allows second tries again.
    pub(crate) fn hope_again(&self) {
        self.stays_away.store(false, SeqCst);
    }

    /// Sends the request and returns a successful answer. A GET over a broken connection is repeated once, because
    /// servers close idle connections without notice. A GET that is answered with 502 or 503 without `Retry-After` is
    /// repeated once after a second, because the server may be restarting; after one of these fails again, no other is
    /// repeated until [`Transport::hope_again`]. An answer with `Retry-After` (429, 5xx) is waited for, as long as all
    /// waits together stay within [`Options::longest_wait`].
    pub(crate) async fn ask(&self, question: &Question) -> Result<Answer, Error> {
        let mut patience = self.options.longest_wait;
        let mut again_when_broken = question.method == Method::GET;
        let mut again_when_away = question.method == Method::GET;
        let mut result = self.once(question).await;
        loop {
            let error = match result {
                Ok(answer) => return Ok(answer),
                Err(Failed::Broken(_)) if again_when_broken => {
                    again_when_broken = false;
                    self.calls.add_retry();
                    result = self.once(question).await;
                    continue;
                }
                Err(Failed::Final(error)) if again_when_away && error.is_away() => {
                    again_when_away = false;
                    tracing::debug!(%error, "asking once more");
                    result = self.second_try(question, error).await;
                    continue;
                }
                Err(Failed::Broken(error) | Failed::Final(error)) => error,
            };
            match error.retry_after().map(|wait| wait.max(SHORTEST_WAIT)) {
                Some(wait) if wait <= patience => {
                    patience -= wait;
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

    async fn second_try(&self, question: &Question, error: Error) -> Result<Answer, Failed> {
        let failed = Instant::now();
        let mut back = self.second_try.lock().await;
        if self.stays_away.load(SeqCst) {
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
            Err(Failed::Final(error)) if error.is_away() => self.stays_away.store(true, SeqCst),
            _ => *back = Some(Instant::now()),
        }
        result
    }

    async fn once(&self, question: &Question) -> Result<Answer, Failed> {
        let started = Instant::now();
        let mut received = 0;
        let result = self.exchange(question, &mut received).await;
        let outcome = match &result {
            Ok(_) => CallOutcome::Ok,
            Err(Failed::Broken(error) | Failed::Final(error)) => error.outcome(),
        };
        if let Some(kind) = question.kind {
            self.calls.add(kind, outcome, received, started.elapsed());
        }
        result
    }

    /// Sends a mutation exactly once: even if the request fails, the service may have accepted it. Does not wait for a
    /// `Retry-After`.
    pub(crate) async fn mutate(&self, question: &Question, kind: MutationKind) -> MutationResult {
        let started = Instant::now();
        let mut received = 0;
        // A key manager's error may repeat the secret of the request.
        let secret = kind.service == ServiceType::KeyManager;
        let result = match self.read(question, &mut received).await {
            Ok(answer) => MutationResult::of(&question.name(), answer, secret),
            Err(Failed::Broken(error) | Failed::Final(error)) => MutationResult::Unknown(error),
        };
        let outcome = result.error().map_or(CallOutcome::Ok, Error::outcome);
        self.calls.add_mutation(kind, outcome, received, started.elapsed());
        result
    }

    async fn exchange(&self, question: &Question, received: &mut usize) -> Result<Answer, Failed> {
        let RawAnswer { status, headers, body } = self.read(question, received).await?;
        if status.is_success() {
            return Ok(Answer { headers, body });
        }
        // Keystone's error may repeat the request's body, which contains a secret.
        let words = if question.kind == Some(CallKind::Token) { &[][..] } else { &body[..] };
        Err(Failed::Final(refusal(&question.name(), status, &headers, words)))
    }

    /// Sends one request and reads its answer to the end, whatever its status.
    async fn read(&self, question: &Question, received: &mut usize) -> Result<RawAnswer, Failed> {
        let timeout = question.timeout(&self.options);
        let failed = |error: reqwest::Error| failed(question, timeout, error);
        let mut request = self
            .client
            .request(question.method.clone(), question.url.clone())
            .timeout(timeout)
            .header(header::ACCEPT, "application/json")
            .headers(question.headers.clone());
        if !question.body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json").body(question.body.clone());
        }
        let mut response = request.send().await.map_err(failed)?;
        let mut body = BytesMut::new();
        while let Some(piece) = response.chunk().await.map_err(failed)? {
            *received += piece.len();
            if *received > LARGEST {
                let message = format!("{}: longer than {} MiB", question.name(), LARGEST >> 20);
                return Err(Failed::Final(Error::Undecodable { message }));
            }
            body.extend_from_slice(&piece);
        }
        Ok(RawAnswer { status: response.status(), headers: response.headers().clone(), body: body.freeze() })
    }
}

/// How one attempt failed.
enum Failed {
    /// The connection broke after it was made.
    Broken(Error),
    /// A second attempt on a new connection would not help.
    Final(Error),
}

fn failed(question: &Question, timeout: Duration, error: reqwest::Error) -> Failed {
    let connecting = error.is_connect();
    let timed_out = error.is_timeout();
    let error = error.without_url();
    let name = question.name();
    if let Some(tls) = tls_error(&error) {
        let unknown = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        return Failed::Final(Error::Tls { message: format!("{name}: {tls}"), unknown_authority: *tls == unknown });
    }
    if timed_out && !connecting {
        return Failed::Final(Error::Timeout { message: format!("{name}: no answer in {timeout:?}") });
    }
    let unreachable = Error::Unreachable { message: format!("{name}: {}", one_line(&error)) };
    if connecting { Failed::Final(unreachable) } else { Failed::Broken(unreachable) }
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
        let mut question = Question::get(CallKind::Token, url, Some(&HeaderValue::from_static("very-secret")));
        question.body = Bytes::from_static(b"{\"password\":\"very-secret\"}");
        let shown = format!("{question:?}");
        assert!(shown.contains("GET http://k/v3/auth/tokens") && !shown.contains("very-secret"), "{shown}");
    }
}
