//! A socket that fails after a period without data, even if TCP keeps the connection open.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Fails a read that has waited for `limit` since the last byte. Any byte counts, not only the answer to a ping, which
/// may be queued behind much other data.
pub(super) struct Heard<IO> {
    io: IO,
    limit: Duration,
    last: Instant,
    timer: Pin<Box<Sleep>>,
}

impl<IO> Heard<IO> {
    pub(super) fn new(io: IO, limit: Duration) -> Self {
        Self { io, limit, last: Instant::now(), timer: Box::pin(sleep(limit)) }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Heard<IO> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Poll::Ready(read) = Pin::new(&mut self.io).poll_read(cx, buf) {
            self.last = Instant::now();
            return Poll::Ready(read);
        }
        loop {
            ready!(self.timer.as_mut().poll(cx));
            // The timer is reset only when it fires, so that reads have no extra cost.
            let due = self.last + self.limit;
            if due <= Instant::now() {
                let message = format!("nothing was heard for {} s", self.limit.as_secs_f32());
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)));
            }
            self.timer.as_mut().reset(due);
        }
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Heard<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn breaks_after_silence_and_not_before() {
        let (near, mut far) = tokio::io::duplex(16);
        let mut near = Heard::new(near, Duration::from_secs(2));
        let start = Instant::now();
        for _ in 0..3 {
            let word = async {
                sleep(Duration::from_millis(1900)).await;
                far.write_all(b"x").await
            };
            let (read, written) = tokio::join!(near.read_u8(), word);
            assert_eq!((read.unwrap(), written.unwrap()), (b'x', ()));
        }
        let heard = start.elapsed();
        let error = near.read_u8().await.unwrap_err();
        assert_eq!(error.to_string(), "nothing was heard for 2 s");
        assert_eq!(start.elapsed() - heard, Duration::from_secs(2));
    }
}
