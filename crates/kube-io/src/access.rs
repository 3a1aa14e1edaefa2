//! Where an API server is found and how it is spoken to.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Config;
use kube::client::ConfigExt;
use kube::config::{Kubeconfig, KubeconfigError};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Layer, ServiceExt};

use crate::error::{first_line, one_line};

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

impl Access {
    /// The client's configuration. Files are read, nothing is dialled.
    pub(crate) fn config(&self) -> Result<(Config, String), ConnectError> {
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

fn from_kubeconfig(read: Result<Kubeconfig, KubeconfigError>, place: String) -> Result<(Config, String), ConnectError> {
    let config = read.map_err(|error| problem(&error)).and_then(|kubeconfig| {
        if let Some(proxy) = proxy(&kubeconfig) {
            return Err(format!("proxy-url {proxy} is not supported; name a server that is reached directly"));
        }
        Config::try_from(kubeconfig).map_err(|error| problem(&error))
    });
    match config {
        Ok(config) => Ok((config, place)),
        Err(problem) => Err(ConnectError { place, problem }),
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

/// One connection pool. Unlike kube's default client it never retries by itself (it would send a body that is no longer
/// wanted), ignores proxies of the environment, and sends small requests at once.
pub(crate) fn pool(config: &Config, place: &str) -> Result<Pool, ConnectError> {
    install_crypto();
    let wrong = |problem| ConnectError { place: place.to_owned(), problem };
    let refuse = |error: &kube::Error| match error {
        kube::Error::InferKubeconfig(error) => wrong(problem(error)),
        other => wrong(tidy(other)),
    };
    if config.root_cert.as_ref().is_some_and(Vec::is_empty) {
        // Without this, every handshake would fail and say nothing of the reason.
        return Err(wrong("its certificate authority holds no certificate in PEM form".to_owned()));
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(Duration::from_secs(5)));
    // A peer that vanished without a word is noticed by the kernel too, not only by our own time-outs.
    tcp.set_keepalive(Some(Duration::from_secs(15)));
    tcp.set_keepalive_interval(Some(Duration::from_secs(5)));
    tcp.set_keepalive_retries(Some(3));
    let https = config.rustls_https_connector_with_connector(tcp).map_err(|error| refuse(&error))?;
    let pool = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(60))
        .build::<_, Full<Bytes>>(https);
    let headers = config.extra_headers_layer().map_err(|error| refuse(&error))?;
    let pool = pool
        .map_response(|answer| answer.map(|body| body.map_err(BoxError::from).boxed_unsync()))
        .map_err(BoxError::from);
    let service = config.base_uri_layer().layer(headers.layer(pool));
    Ok(match config.auth_layer().map_err(|error| refuse(&error))? {
        Some(auth) => Pool::new(auth.layer(service)),
        None => Pool::new(service),
    })
}

/// rustls wants one provider a process; whoever comes first decides, and all of ours decide the same.
fn install_crypto() {
    if rustls::crypto::CryptoProvider::get_default().is_none()
        && rustls::crypto::aws_lc_rs::default_provider().install_default().is_err()
    {
        tracing::debug!("another thread has installed the crypto provider");
    }
}
