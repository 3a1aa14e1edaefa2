//! A server's URL and addresses, and a single connection to one of them.

use std::future::{Ready, ready};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gimbal_error_text::one_line;
use hyper_util::rt::TokioIo;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint, Uri};

use super::Patience;
use super::error::{DialError, certificate_problem, is_about_certificates};
use super::heard::Heard;
use crate::{CONNECTION_WINDOW, ClientTls, KEEPALIVE, KEEPALIVE_TIMEOUT, STREAM_WINDOW, plaintext_allowed};

/// Time limits of [`Patience::Short`]: the longest silence, and the interval of pings.
const SHORT: (Duration, Duration) = (Duration::from_secs(2), Duration::from_millis(500));

/// A server, named by its URL.
#[derive(Debug, Clone)]
pub struct DialTarget(Arc<Url>);

/// One resolved address of a server.
#[derive(Debug, Clone)]
pub struct Way {
    pub(super) target: DialTarget,
    address: SocketAddr,
}

#[derive(Debug)]
struct Url {
    uri: Uri,
    tls: bool,
    /// The host, without the brackets of an IPv6 address.
    host: String,
    port: u16,
    authority: String,
}

impl PartialEq for Way {
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address && self.target.0.uri == other.target.0.uri
    }
}

impl DialTarget {
    /// Parses `http://host:port` or `https://host:port`. `with_tls` says whether certificates are configured, which
    /// https requires and http refuses.
    ///
    /// # Errors
    /// Returns [`DialError::Url`].
    pub fn parse(url: &str, with_tls: bool) -> Result<Self, DialError> {
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
        // The parser drops a port that is not a number, and the default port of the scheme would be dialled.
        let ported = uri.authority().and_then(|authority| authority.as_str().rsplit_once(':'));
        if uri.port_u16().is_none() && ported.is_some_and(|(_, after)| !after.contains(']')) {
            return Err(wrong("has no port that there is: write https://host:port"));
        }
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(default_port);
        let authority = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        Ok(Self(Arc::new(Url { uri, tls: with_tls, host, port, authority })))
    }

    /// Resolves the host, and returns its addresses in the resolver's order.
    pub(super) async fn ways(&self) -> Result<Vec<Way>, DialError> {
        let addresses = tokio::net::lookup_host((self.0.host.as_str(), self.0.port)).await;
        let addresses = addresses.map_err(|error| self.unreachable(error))?;
        let ways: Vec<_> = addresses.map(|address| Way { target: self.clone(), address }).collect();
        if ways.is_empty() {
            return Err(self.unreachable(io::Error::new(io::ErrorKind::NotFound, "the name has no address")));
        }
        Ok(ways)
    }

    fn unreachable(&self, source: io::Error) -> DialError {
        DialError::Unreachable { authority: self.0.authority.clone(), source }
    }

    pub(super) fn timeout(&self, after: Duration) -> DialError {
        DialError::Timeout { authority: self.0.authority.clone(), after }
    }

    /// Completes the TLS handshake and reads the server's first bytes. In TLS 1.3 the client finishes before the server
    /// has verified its certificate, and a refusal arrives with the first read. An HTTP/2 server sends its SETTINGS
    /// first, so the read is done here, where a refusal can be reported as such.
    async fn handshake<IO>(&self, socket: IO, tls: &ClientTls) -> Result<TlsStream<IO>, DialError>
    where
        IO: AsyncRead + AsyncWrite + Unpin,
    {
        let name = ServerName::try_from(self.0.host.clone()).map_err(|_| DialError::Url {
            url: self.0.uri.to_string(),
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
        let authority = self.0.authority.clone();
        match error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>()) {
            Some(rustls::Error::InvalidCertificate(reason)) => {
                DialError::ServerCertificate { authority, reason: certificate_problem(reason) }
            }
            Some(rustls::Error::AlertReceived(alert)) if is_about_certificates(*alert) => {
                DialError::ClientCertificate { authority, reason: format!("alert {alert:?}") }
            }
            _ => self.handshake_error(one_line(error)),
        }
    }

    fn handshake_error(&self, reason: impl Into<String>) -> DialError {
        DialError::Handshake { authority: self.0.authority.clone(), reason: reason.into() }
    }

    async fn channel<IO>(&self, io: IO, ask: Duration) -> Result<Channel, DialError>
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // tonic would add TLS to an https URL again, so the endpoint is http. The origin sets `:scheme` and
        // `:authority` to their real values.
        let endpoint = Endpoint::from_shared(format!("http://{}", self.0.authority))
            .map_err(|error| self.handshake_error(one_line(&error)))?
            .origin(self.0.uri.clone())
            .http2_keep_alive_interval(ask)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        let connect = endpoint.connect_with_connector(tower::service_fn(once(io)));
        connect.await.map_err(|error| self.handshake_error(one_line(&error)))
    }
}

impl Way {
    /// Returns whether both addresses belong to the same URL.
    #[must_use]
    pub fn has_name_of(&self, other: &Self) -> bool {
        self.target.0.uri == other.target.0.uri
    }

    /// Returns whether both addresses belong to the same URL and are of the same family, so that they are probably two
    /// processes. The IPv4 and the IPv6 address of a name usually lead to the same process.
    #[must_use]
    pub fn is_beside(&self, other: &Self) -> bool {
        self.has_name_of(other) && self.address.is_ipv4() == other.address.is_ipv4()
    }

    /// Connects to this address. `reach` limits the TCP connection.
    pub(super) async fn connect(
        &self,
        tls: Option<&ClientTls>,
        patience: Patience,
        reach: Duration,
    ) -> Result<Channel, DialError> {
        if !self.target.0.tls && !plaintext_allowed(&self.address) {
            return Err(DialError::Plaintext(self.address));
        }
        let socket = self.socket(reach).await?;
        match patience {
            Patience::Long => self.talk(socket, tls, KEEPALIVE).await,
            Patience::Short => self.talk(Heard::new(socket, SHORT.0), tls, SHORT.1).await,
        }
    }

    async fn socket(&self, reach: Duration) -> Result<TcpStream, DialError> {
        let unreachable = |source| self.target.unreachable(source);
        let connected = timeout(reach, TcpStream::connect(self.address)).await;
        let socket = connected.map_err(|_| self.target.timeout(reach))?.map_err(unreachable)?;
        socket.set_nodelay(true).map_err(unreachable)?;
        Ok(socket)
    }

    /// Returns the certificates that the server shows in a handshake, and ends the connection.
    pub(super) async fn certificate_chain(
        &self,
        tls: &ClientTls,
        reach: Duration,
    ) -> Result<Vec<CertificateDer<'static>>, DialError> {
        let stream = self.target.handshake(self.socket(reach).await?, tls).await?;
        Ok(stream.get_ref().1.peer_certificates().unwrap_or_default().to_vec())
    }

    async fn talk<IO>(&self, socket: IO, tls: Option<&ClientTls>, ask: Duration) -> Result<Channel, DialError>
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match tls.filter(|_| self.target.0.tls) {
            None => self.target.channel(socket, ask).await,
            Some(tls) => {
                let stream = self.target.handshake(socket, tls).await?;
                self.target.channel(stream, ask).await
            }
        }
    }
}

/// Creates a connector that returns `io` once and then fails. tonic would reconnect by itself, but the caller has to
/// know that the connection broke.
fn once<IO>(io: IO) -> impl FnMut(Uri) -> Ready<io::Result<TokioIo<IO>>> {
    let mut io = Some(TokioIo::new(io));
    move |_| {
        let closed = || io::Error::new(io::ErrorKind::NotConnected, "the connection is closed");
        ready(io.take().ok_or_else(closed))
    }
}
