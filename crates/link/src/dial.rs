//! One connection to a server, made by ourselves so that each way to fail has its own words.

use std::future::{Ready, ready};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::{AlertDescription, CertificateError};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint, Uri};

use crate::error::chain;
use crate::{CONNECTION_WINDOW, ClientTls, KEEPALIVE, KEEPALIVE_TIMEOUT, STREAM_WINDOW, plaintext_allowed};

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The URL cannot be used; no retry helps.
    #[error("writer URL {url:?} {problem}")]
    Url {
        /// As given.
        url: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Without TLS only loopback is dialled.
    #[error("refused to dial {0} without TLS: use https with --tls-cert, --tls-key and --tls-ca")]
    Plaintext(SocketAddr),
    /// Nobody answers there.
    #[error("cannot reach {authority}: {source}")]
    Unreachable {
        /// Host and port.
        authority: String,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// It took too long.
    #[error("{authority} did not answer within {} s", after.as_secs_f32())]
    Timeout {
        /// Host and port.
        authority: String,
        /// The limit.
        after: Duration,
    },
    /// We do not trust the server.
    #[error("the certificate of {authority} is not accepted (--tls-ca): {reason}")]
    ServerCertificate {
        /// Host and port.
        authority: String,
        /// Why.
        reason: String,
    },
    /// The server does not trust us.
    #[error("{authority} refused our client certificate (--tls-cert): {reason}")]
    ClientCertificate {
        /// Host and port.
        authority: String,
        /// The TLS alert it sent.
        reason: String,
    },
    /// Any other trouble between TLS and HTTP/2.
    #[error("no connection to {authority}: {reason}")]
    Handshake {
        /// Host and port.
        authority: String,
        /// The whole chain of causes.
        reason: String,
    },
}

/// Connects to `http://host:port` (loopback only) or `https://host:port`, whose certificate must be for that host. Name
/// resolution, TCP, TLS and the server's first words count towards `timeout`. The channel is this one connection: when
/// it breaks, calls fail, and one dials again.
///
/// # Errors
/// See [`DialError`].
pub async fn dial(url: &str, tls: Option<ClientTls>, timeout: Duration) -> Result<Channel, DialError> {
    let target = Target::parse(url, tls.is_some())?;
    let authority = target.authority.clone();
    let limit = || DialError::Timeout { authority: authority.clone(), after: timeout };
    let connect = Box::pin(async {
        let socket = target.connect(tls.is_none()).await?;
        match tls {
            None => target.channel(socket).await,
            Some(tls) => {
                let stream = target.handshake(socket, &tls).await?;
                target.channel(stream).await
            }
        }
    });
    tokio::time::timeout(timeout, connect).await.map_err(|_| limit())?
}

struct Target {
    uri: Uri,
    /// Without the brackets of an IPv6 address.
    host: String,
    port: u16,
    authority: String,
}

impl Target {
    fn parse(url: &str, with_tls: bool) -> Result<Self, DialError> {
        let wrong = |problem| DialError::Url { url: url.to_owned(), problem };
        let uri: Uri = url.parse().map_err(|_| wrong("is no URL: write https://host:port"))?;
        let default_port = match (uri.scheme_str(), with_tls) {
            (Some("https"), true) => 443,
            (Some("http"), false) => 80,
            (Some("https"), false) => return Err(wrong("is https: give --tls-cert, --tls-key and --tls-ca")),
            (Some("http"), true) => return Err(wrong("is http, but certificates are given: write https")),
            _ => return Err(wrong("has no scheme: write https://host:port")),
        };
        if !matches!(uri.path_and_query().map(|path| path.as_str()), None | Some("" | "/")) {
            return Err(wrong("has a path: write https://host:port"));
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong("has no host"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(default_port);
        let authority = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        Ok(Self { uri, host, port, authority })
    }

    async fn connect(&self, plaintext: bool) -> Result<TcpStream, DialError> {
        let unreachable = |source| DialError::Unreachable { authority: self.authority.clone(), source };
        let addresses = tokio::net::lookup_host((self.host.as_str(), self.port)).await.map_err(unreachable)?;
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in addresses {
            if plaintext && !plaintext_allowed(&address) {
                return Err(DialError::Plaintext(address));
            }
            match TcpStream::connect(address).await {
                Ok(socket) => {
                    socket.set_nodelay(true).map_err(unreachable)?;
                    return Ok(socket);
                }
                Err(error) => last = error,
            }
        }
        Err(unreachable(last))
    }

    /// In TLS 1.3 a client has finished before the server has looked at its certificate; the refusal comes with the
    /// first read. A gRPC server speaks first (its SETTINGS), so that read is done here, where it can be told.
    async fn handshake(&self, socket: TcpStream, tls: &ClientTls) -> Result<TlsStream<TcpStream>, DialError> {
        let name = ServerName::try_from(self.host.clone()).map_err(|_| DialError::Url {
            url: self.uri.to_string(),
            problem: "has a host that no certificate can name",
        })?;
        let connector = TlsConnector::from(tls.config());
        let mut stream = connector.connect(name, socket).await.map_err(|error| self.tls_error(&error))?;
        let ended = stream.fill_buf().await.map_err(|error| self.tls_error(&error))?.is_empty();
        if ended {
            return Err(self.handshake_error("the server closed the connection after the TLS handshake"));
        }
        Ok(stream)
    }

    fn tls_error(&self, error: &io::Error) -> DialError {
        let authority = self.authority.clone();
        match error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>()) {
            Some(rustls::Error::InvalidCertificate(reason)) => {
                DialError::ServerCertificate { authority, reason: certificate_problem(reason) }
            }
            Some(rustls::Error::AlertReceived(alert)) if is_about_certificates(*alert) => {
                DialError::ClientCertificate { authority, reason: format!("alert {alert:?}") }
            }
            _ => self.handshake_error(chain(error)),
        }
    }

    fn handshake_error(&self, reason: impl Into<String>) -> DialError {
        DialError::Handshake { authority: self.authority.clone(), reason: reason.into() }
    }

    async fn channel<IO>(&self, io: IO) -> Result<Channel, DialError>
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // tonic would wrap an https URL in TLS once more; the origin keeps `:scheme` and `:authority` true.
        let endpoint = Endpoint::from_shared(format!("http://{}", self.authority))
            .map_err(|error| self.handshake_error(chain(&error)))?
            .origin(self.uri.clone())
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        let connect = endpoint.connect_with_connector(tower::service_fn(once(io)));
        connect.await.map_err(|error| self.handshake_error(chain(&error)))
    }
}

/// A connector that hands over the one connection there is. tonic reconnects by itself; who dialled wants to know.
fn once<IO>(io: IO) -> impl FnMut(Uri) -> Ready<io::Result<TokioIo<IO>>> {
    let mut io = Some(TokioIo::new(io));
    move |_| {
        let closed = || io::Error::new(io::ErrorKind::NotConnected, "the connection is closed");
        ready(io.take().ok_or_else(closed))
    }
}

fn certificate_problem(reason: &CertificateError) -> String {
    match reason {
        // A new CA with the old one's name shows as a bad signature.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => "it is not signed by this CA".to_owned(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired".to_owned(),
        reason => reason.to_string(),
    }
}

/// Whether this alert says that the other end does not accept our certificate.
pub(crate) fn is_about_certificates(alert: AlertDescription) -> bool {
    use AlertDescription as Alert;
    matches!(
        alert,
        Alert::AccessDenied
            | Alert::BadCertificate
            | Alert::CertificateExpired
            | Alert::CertificateRequired
            | Alert::CertificateRevoked
            | Alert::CertificateUnknown
            | Alert::DecryptError
            | Alert::NoCertificate
            | Alert::UnknownCA
            | Alert::UnsupportedCertificate
    )
}
