//! An accepted connection, plaintext or TLS, with its peer. The server can end it without tonic's help.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

use crate::Peer;
use crate::certificate_state::CertificateState;

/// Length of the text with which a client begins HTTP/2 (RFC 9113, section 3.4).
const PREFACE: usize = 24;
/// Time limit for that text. HTTP/2 pings find a silent client only after it.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection that fails all reads and writes after `abort`. tonic spawns connections in tasks that cannot be aborted
/// from outside, so the socket itself ends them.
pub(crate) struct Connection {
    stream: Stream,
    known: ConnectionInfo,
    aborted: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Until the client has begun HTTP/2.
    preface: Option<Preface>,
}

/// What is still to come before the client has begun HTTP/2, and until when.
struct Preface {
    missing: usize,
    timeout: Pin<Box<Sleep>>,
}

/// The peer and the state of its certificate, attached to every call on the connection.
#[derive(Clone)]
pub(crate) struct ConnectionInfo {
    pub(crate) peer: Peer,
    pub(crate) certificate_state: CertificateState,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection {
    pub(crate) fn plain(stream: TcpStream, abort: CancellationToken) -> Self {
        let known = ConnectionInfo { peer: Peer::Loopback, certificate_state: CertificateState::without_certificate() };
        Self::new(Stream::Plain(stream), known, abort)
    }

    pub(crate) fn tls(stream: TlsStream<TcpStream>, known: ConnectionInfo, abort: CancellationToken) -> Self {
        Self::new(Stream::Tls(Box::new(stream)), known, abort)
    }

    fn new(stream: Stream, known: ConnectionInfo, abort: CancellationToken) -> Self {
        let preface = Preface { missing: PREFACE, timeout: Box::pin(sleep(PREFACE_TIMEOUT)) };
        Self { stream, known, aborted: Box::pin(abort.cancelled_owned()), preface: Some(preface) }
    }

    /// Returns the socket, or an error if the server has ended the connection.
    fn socket(&mut self, cx: &mut Context<'_>) -> io::Result<Pin<&mut dyn Socket>> {
        if self.aborted.as_mut().poll(cx).is_ready() {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the server has ended the connection"));
        }
        Ok(match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream),
            Stream::Tls(stream) => Pin::new(&mut **stream),
        })
    }
}

trait Socket: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Socket for T {}

impl Connected for Connection {
    type ConnectInfo = ConnectionInfo;

    fn connect_info(&self) -> ConnectionInfo {
        self.known.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(preface) = &mut self.preface
            && preface.timeout.as_mut().poll(cx).is_ready()
        {
            tracing::debug!(peer = %self.known.peer, "a connection on which HTTP/2 did not begin in time");
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "HTTP/2 did not begin in time")));
        }
        let before = buf.filled().len();
        ready!(self.socket(cx)?.poll_read(cx, buf))?;
        let came = buf.filled().len() - before;
        if let Some(preface) = &mut self.preface {
            preface.missing = preface.missing.saturating_sub(came);
        }
        self.preface.take_if(|preface| preface.missing == 0);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.socket(cx)?.poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket(cx)?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket(cx)?.poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.socket(cx)?.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
