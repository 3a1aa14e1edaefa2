//! An accepted connection, plaintext or TLS, with its peer. The server can end it without tonic's help.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

use crate::Peer;
use crate::standing::Standing;

/// A connection that fails all reads and writes after `abort`. tonic spawns connections in tasks that cannot be aborted
/// from outside, so the socket itself ends them.
pub(crate) struct Connection {
    stream: Stream,
    known: Known,
    aborted: Pin<Box<WaitForCancellationFutureOwned>>,
}

/// The peer and the state of its certificate, attached to every call on the connection.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) peer: Peer,
    pub(crate) standing: Standing,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection {
    pub(crate) fn plain(stream: TcpStream, abort: CancellationToken) -> Self {
        let known = Known { peer: Peer::Loopback, standing: Standing::without_certificate() };
        Self { stream: Stream::Plain(stream), known, aborted: Box::pin(abort.cancelled_owned()) }
    }

    pub(crate) fn tls(stream: TlsStream<TcpStream>, known: Known, abort: CancellationToken) -> Self {
        Self { stream: Stream::Tls(Box::new(stream)), known, aborted: Box::pin(abort.cancelled_owned()) }
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
    type ConnectInfo = Known;

    fn connect_info(&self) -> Known {
        self.known.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.socket(cx)?.poll_read(cx, buf)
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
