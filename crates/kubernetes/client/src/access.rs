//! Reads kubeconfigs and builds connection pools.

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

/// Where credentials are read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// The current context of this file.
    Kubeconfig(PathBuf),
    /// The pod's service account.
    InCluster,
    /// `$KUBECONFIG`, else the pod's service account, else `~/.kube/config`.
    Default,
}

/// Credentials that cannot be used. One line that names the file and the problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ConnectError {
    /// The file, or another description of the source.
    place: String,
    /// The problem.
    problem: String,
}

impl ConnectError {
    pub(crate) fn new(place: &str, problem: &str) -> Self {
        Self { place: place.to_owned(), problem: problem.to_owned() }
    }
}

/// The content of the files at one moment. Files that they name are already read in.
pub(crate) struct AccessFiles {
    /// How to connect. Of the user only the client certificate and impersonation are left in it.
    pub(crate) config: Config,
    pub(crate) login: Login,
    pub(crate) place: String,
}

/// The content of the Authorization header, or the plug-in that issues it.
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

/// Returns the header for a token, or `None` if the token has characters that a header cannot have.
pub(crate) fn bearer(token: &SecretString) -> Option<HeaderValue> {
    header(&format!("Bearer {}", token.expose_secret().trim()))
}

fn header(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

impl AccessFiles {
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.has_same_transport(other) && self.has_same_login(other)
    }

    pub(crate) fn has_same_login(&self, other: &Self) -> bool {
        self.login.value() == other.login.value()
    }

    /// Whether connections made with one configuration can be used with the other.
    pub(crate) fn has_same_transport(&self, other: &Self) -> bool {
        let of = |config: &Config| {
            let Config { cluster_url, root_cert, accept_invalid_certs, auth_info, tls_server_name, .. } = config;
            json!([cluster_url.to_string(), root_cert, accept_invalid_certs, auth_info, tls_server_name])
        };
        of(&self.config) == of(&other.config)
    }
}

impl Access {
    /// Reads the files. Does not connect and does not run a plug-in.
    pub(crate) fn read(&self) -> Result<AccessFiles, ConnectError> {
        let (mut config, place) = self.config()?;
        let login = take_login(&mut config.auth_info).map_err(|problem| ConnectError::new(&place, &problem))?;
        take_certificate(&mut config.auth_info).map_err(|problem| ConnectError::new(&place, &problem))?;
        // Otherwise kube would read this file again by itself.
        config.root_cert_file = None;
        Ok(AccessFiles { config, login, place })
    }

    /// Reads kube's configuration. Does not connect.
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

/// Removes and returns the login, with the precedence of client-go.
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

/// Replaces the names of certificate files by their content.
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

/// Returns a URL without its user name and password.
pub(crate) fn without_user(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find('/').map_or(url.len(), |at| start + at);
    match url[start..end].rfind('@') {
        Some(at) => format!("{}{}", &url[..start], &url[start + at + 1..]),
        None => url.to_owned(),
    }
}

/// Returns the proxy of the current context's cluster.
fn proxy(kubeconfig: &Kubeconfig) -> Option<&str> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|named| &named.name == current)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|named| named.name == context.cluster)?.cluster.as_ref()?;
    cluster.proxy_url.as_deref().filter(|url| !url.is_empty())
}

/// Returns kube's message without the name of the file, which `place` already has, and with advice where kube has none.
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

/// Removes the second pair of quotes around file names in messages of kube.
fn tidy(error: &(dyn std::error::Error + 'static)) -> String {
    one_line(error).replace("'\"", "\"").replace("\"'", "\"")
}

/// Sends requests over one pool of connections. kube's own client is not used: it passes each request through a task of
/// its own, which would cost every write two more wake-ups.
pub(crate) type Pool = BoxCloneSyncService<Request<Full<Bytes>>, Response<ResponseBody>, BoxError>;

/// The body of an answer.
pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// Checks that connections can be made with this configuration.
pub(crate) fn check(config: &Config, place: &str) -> Result<(), ConnectError> {
    install_crypto();
    if config.root_cert.as_ref().is_some_and(Vec::is_empty) {
        // Otherwise every handshake would fail without naming the reason.
        return Err(ConnectError::new(place, "its certificate authority holds no certificate in PEM form"));
    }
    pool(config).map(drop).map_err(|error| match &error {
        kube::Error::InferKubeconfig(error) => ConnectError::new(place, &problem(error)),
        other => ConnectError::new(place, &tidy(other)),
    })
}

/// Builds a connection pool. Unlike kube's default client it never retries a request, ignores proxies of the
/// environment, and sends small requests without delay.
pub(crate) fn pool(config: &Config) -> kube::Result<Pool> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(Duration::from_secs(5)));
    // Lets the kernel notice a dead peer, in addition to the time-outs of calls.
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

/// Installs the crypto provider that rustls needs once per process.
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
    fn urls_are_shown_without_passwords() {
        for (url, shown) in [
            ("http://user:secret@proxy:3128", "http://proxy:3128"),
            ("https://a:b@c@host/path@x", "https://host/path@x"),
            ("user:secret@proxy", "proxy"),
            ("https://host:6443", "https://host:6443"),
        ] {
            assert_eq!(without_user(url), shown);
        }
    }
}
