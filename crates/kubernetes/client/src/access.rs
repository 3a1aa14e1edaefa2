//! Where an API server is found and how it is spoken to.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use gimbal_error_text::{first_line, one_line};
use http::{HeaderValue, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Config;
use kube::client::ConfigExt;
use kube::config::{AuthInfo, ExecConfig, Kubeconfig, KubeconfigError};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Layer, ServiceExt};

use crate::permit::{Guarded, guarded};

/// Where the credentials come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// This file, and its current context.
    Kubeconfig(PathBuf),
    /// The pod's service account.
    InCluster,
    /// `$KUBECONFIG`, else the pod's service account, else `~/.kube/config`.
    Default,
}

/// An API server cannot even be asked: one line that names the file and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ConnectError {
    /// The file, or where else the credentials were looked for.
    place: String,
    /// What is wrong.
    problem: String,
}

impl ConnectError {
    pub(crate) fn new(place: &str, problem: &str) -> Self {
        Self { place: place.to_owned(), problem: problem.to_owned() }
    }
}

/// What the files say at one moment. Nothing in it names a file: it stays as it is.
pub(crate) struct Read {
    /// How to connect; of the user only what belongs to the connection, and whom to act as.
    pub(crate) config: Config,
    pub(crate) login: Login,
    pub(crate) place: String,
}

/// What goes into the Authorization header, or where that comes from.
pub(crate) enum Login {
    None,
    Basic(String, SecretString),
    Token(SecretString),
    Exec(Box<ExecConfig>),
}

impl Login {
    pub(crate) fn authorization(&self) -> Option<HeaderValue> {
        match self {
            Self::None | Self::Exec(_) => None,
            Self::Basic(user, password) => {
                header(&format!("Basic {}", STANDARD.encode(format!("{user}:{}", password.expose_secret()))))
            }
            Self::Token(token) => bearer(token),
        }
    }

    fn value(&self) -> Value {
        match self {
            Self::None => Value::Null,
            Self::Basic(user, password) => json!([user, password.expose_secret()]),
            Self::Token(token) => json!(token.expose_secret()),
            Self::Exec(exec) => json!(exec),
        }
    }
}

/// The header of a token; nothing for one that no header can hold.
pub(crate) fn bearer(token: &SecretString) -> Option<HeaderValue> {
    header(&format!("Bearer {}", token.expose_secret().trim()))
}

fn header(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

impl Read {
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.has_same_transport(other) && self.has_same_login(other)
    }

    pub(crate) fn has_same_login(&self, other: &Self) -> bool {
        self.login.value() == other.login.value()
    }

    /// Whether connections that were made by the one are good for the other.
    pub(crate) fn has_same_transport(&self, other: &Self) -> bool {
        let of = |config: &Config| {
            let Config { cluster_url, root_cert, accept_invalid_certs, auth_info, tls_server_name, .. } = config;
            json!([cluster_url.to_string(), root_cert, accept_invalid_certs, auth_info, tls_server_name])
        };
        of(&self.config) == of(&other.config)
    }
}

impl Access {
    /// Reads the files. Nothing is dialled, and no plug-in is run.
    pub(crate) fn read(&self) -> Result<Read, ConnectError> {
        let (mut config, place) = self.config()?;
        let login = take_login(&mut config.auth_info).map_err(|problem| ConnectError::new(&place, &problem))?;
        take_certificate(&mut config.auth_info).map_err(|problem| ConnectError::new(&place, &problem))?;
        // It is among what is looked at again.
        config.root_cert_file = None;
        Ok(Read { config, login, place })
    }

    /// The client's configuration. Files are read, nothing is dialled.
    fn config(&self) -> Result<(Config, String), ConnectError> {
        match self {
            Self::Kubeconfig(path) => {
                let place = format!("kubeconfig {}", path.display());
                from_kubeconfig(Kubeconfig::read_from(path), place)
            }
            Self::InCluster => {
                let place = "in-cluster service account".to_owned();
                match Config::incluster() {
                    Ok(config) => Ok((config, place)),
                    Err(error) => Err(ConnectError { place, problem: one_line(&error) }),
                }
            }
            Self::Default if std::env::var_os("KUBECONFIG").is_some_and(|paths| !paths.is_empty()) => {
                from_kubeconfig(Kubeconfig::read(), "kubeconfig from $KUBECONFIG".to_owned())
            }
            Self::Default if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => Self::InCluster.config(),
            Self::Default => from_kubeconfig(Kubeconfig::read(), "default kubeconfig".to_owned()),
        }
    }
}

/// Takes out what goes into the Authorization header, in the order in which client-go looks.
fn take_login(auth: &mut AuthInfo) -> Result<Login, String> {
    let (user, password) = (auth.username.take(), auth.password.take());
    let (token, file, exec) = (auth.token.take(), auth.token_file.take(), auth.exec.take());
    if let Some(provider) = auth.auth_provider.take() {
        return match provider.config.get("id-token") {
            Some(token) => Ok(Login::Token(token.clone().into())),
            None => Err(format!("auth-provider {:?} is not supported; use an exec plug-in", provider.name)),
        };
    }
    if let (Some(user), Some(password)) = (user, password) {
        return Ok(Login::Basic(user, password));
    }
    if let Some(token) = token {
        return Ok(Login::Token(token));
    }
    if let Some(file) = file {
        let token = std::fs::read_to_string(&file);
        let token = token.map_err(|error| format!("failed to read token file {file:?}: {error}"))?;
        return Ok(Login::Token(token.into()));
    }
    Ok(exec.map_or(Login::None, |exec| Login::Exec(Box::new(exec))))
}

/// Puts what the files of the client's certificate hold in the place of their names.
fn take_certificate(auth: &mut AuthInfo) -> Result<(), String> {
    let read = |what: &str, file: &str| match std::fs::read(file) {
        Ok(content) => Ok(STANDARD.encode(content)),
        Err(error) => Err(format!("failed to load client {what}: failed to read file {file:?}: {error}")),
    };
    if let (Some(file), None) = (auth.client_certificate.take(), &auth.client_certificate_data) {
        auth.client_certificate_data = Some(read("certificate", &file)?);
    }
    if let (Some(file), None) = (auth.client_key.take(), &auth.client_key_data) {
        auth.client_key_data = Some(read("key", &file)?.into());
    }
    Ok(())
}

fn from_kubeconfig(read: Result<Kubeconfig, KubeconfigError>, place: String) -> Result<(Config, String), ConnectError> {
    let config = read.map_err(|error| problem(&error)).and_then(|kubeconfig| {
        if let Some(proxy) = proxy(&kubeconfig) {
            let proxy = without_user(proxy);
            return Err(format!("proxy-url {proxy} is not supported; name a server that is reached directly"));
        }
        Config::try_from(kubeconfig).map_err(|error| problem(&error))
    });
    match config {
        Ok(config) => Ok((config, place)),
        Err(problem) => Err(ConnectError { place, problem }),
    }
}

/// A URL without the name and the password that it may hold.
pub(crate) fn without_user(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find('/').map_or(url.len(), |at| start + at);
    match url[start..end].rfind('@') {
        Some(at) => format!("{}{}", &url[..start], &url[start + at + 1..]),
        None => url.to_owned(),
    }
}

/// The proxy that the current context's cluster asks for.
fn proxy(kubeconfig: &Kubeconfig) -> Option<&str> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|named| &named.name == current)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|named| named.name == context.cluster)?.cluster.as_ref()?;
    cluster.proxy_url.as_deref().filter(|url| !url.is_empty())
}

/// kube's messages, without the file's name where the place already tells it, and with advice where they have none.
fn problem(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(error, _) => format!("cannot be read: {error}"),
        KubeconfigError::CurrentContextNotSet => "has no current-context; set one".to_owned(),
        KubeconfigError::LoadContext(name) => format!("has no context {name:?}, which is its current-context"),
        KubeconfigError::LoadClusterOfContext(name) => format!("has no cluster {name:?}, which its context names"),
        KubeconfigError::FindPath => "there is no home directory to look in; name a kubeconfig".to_owned(),
        KubeconfigError::Parse(error) => first_line(&error.to_string()).trim_start_matches("error: ").to_owned(),
        other => tidy(other),
    }
}

/// kube prints the name of a file within two pairs of quotes.
fn tidy(error: &(dyn std::error::Error + 'static)) -> String {
    one_line(error).replace("'\"", "\"").replace("\"'", "\"")
}

/// Sends a request over one pool of connections. kube's own client is not used: it hands each request to a task of its own
/// and back, which every write would pay for with two more wake-ups.
pub(crate) type Pool = BoxCloneSyncService<Request<Full<Bytes>>, Response<Answer>, BoxError>;

/// What an API server answers.
pub(crate) type Answer = UnsyncBoxBody<Bytes, BoxError>;

/// Whether connections can be made by this configuration.
pub(crate) fn check(config: &Config, place: &str) -> Result<(), ConnectError> {
    install_crypto();
    if config.root_cert.as_ref().is_some_and(Vec::is_empty) {
        // Without this, every handshake would fail and say nothing of the reason.
        return Err(ConnectError::new(place, "its certificate authority holds no certificate in PEM form"));
    }
    pool(config).map(drop).map_err(|error| match &error {
        kube::Error::InferKubeconfig(error) => ConnectError::new(place, &problem(error)),
        other => ConnectError::new(place, &tidy(other)),
    })
}

/// One connection pool. Unlike kube's default client it never retries a request that was sent, ignores proxies of the
/// environment, and sends small requests at once.
pub(crate) fn pool(config: &Config) -> kube::Result<Pool> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(Duration::from_secs(5)));
    // A peer that vanished without a word is noticed by the kernel too, not only by our own time-outs.
    tcp.set_keepalive(Some(Duration::from_secs(15)));
    tcp.set_keepalive_interval(Some(Duration::from_secs(5)));
    tcp.set_keepalive_retries(Some(3));
    let https = config.rustls_https_connector_with_connector(tcp)?;
    let pool = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(60))
        .build::<_, Guarded>(https);
    let headers = config.extra_headers_layer()?;
    let pool = pool
        .map_response(|answer| answer.map(|body| body.map_err(BoxError::from).boxed_unsync()))
        .map_err(BoxError::from)
        .map_request(guarded);
    Ok(Pool::new(config.base_uri_layer().layer(headers.layer(pool))))
}

/// rustls wants one provider a process; whoever comes first decides, and all of ours decide the same.
fn install_crypto() {
    if rustls::crypto::CryptoProvider::get_default().is_none()
        && rustls::crypto::aws_lc_rs::default_provider().install_default().is_err()
    {
        tracing::debug!("another thread has installed the crypto provider");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_tells_nobody_its_password() {
        for (url, told) in [
            ("http://user:secret@proxy:3128", "http://proxy:3128"),
            ("https://a:b@c@host/path@x", "https://host/path@x"),
            ("user:secret@proxy", "proxy"),
            ("https://host:6443", "https://host:6443"),
        ] {
            assert_eq!(without_user(url), told);
        }
    }
}
