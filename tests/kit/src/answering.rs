//! HTTP servers that say where a request arrived, at addresses that lead nowhere else.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Networks whose every address is this machine's, once [`make_room`] was called.
pub const NETWORKS: [&str; 2] = ["10.77.0.0/16", "fd77::/64"];

/// Makes every address of [`NETWORKS`] one of this machine's. Only where there is no network (see [`crate::is_without_network`]),
/// because a machine may have routes to them.
///
/// # Errors
/// `ip` is missing, or the user may not do it.
pub fn make_room() -> anyhow::Result<()> {
    for network in NETWORKS {
        let out = Command::new("ip").args(["route", "add", "local", network, "dev", "lo"]).output();
        let out = out.context("cannot run ip (iproute2)")?;
        let said = String::from_utf8_lossy(&out.stderr);
        anyhow::ensure!(out.status.success(), "no addresses of {network}: {}", said.trim());
    }
    // Of such a network, IPv6 lets a server have only addresses that a device has.
    std::fs::write("/proc/sys/net/ipv6/ip_nonlocal_bind", "1").context("servers cannot have any IPv6 address")
}

/// How long a server that ends waits for its clients to close their connections.
const LEAVE: Duration = Duration::from_secs(2);

/// An HTTP server at one address, in HTTP/1.1 and HTTP/2 without TLS. It answers with its address, a space, and the version of
/// HTTP in which it was asked.
pub struct Answering {
    ending: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Answering {
    /// Starts one.
    ///
    /// # Errors
    /// The address is taken, or is not this machine's.
    pub async fn start(address: IpAddr, port: u16) -> anyhow::Result<Self> {
        let at = SocketAddr::new(address, port);
        let listener = TcpListener::bind(at).await.with_context(|| format!("cannot listen on {at}"))?;
        let ending = watch::Sender::new(false);
        let mut ended = ending.subscribe();
        let task = tokio::spawn(async move {
            let closing = watch::Sender::new(false);
            let mut connections = JoinSet::new();
            let serve = |connection| serve(connection, address, closing.subscribe());
            tokio::select! {
                _ = ended.wait_for(|ended| *ended) => {}
                () = accept(&listener, &mut connections, serve, false) => return,
            }
            // A proxy that has just heard of the end may have sent a request before it did, which closing would cut.
            let left = accept(&listener, &mut connections, serve, true);
            if tokio::time::timeout(LEAVE, left).await.is_err() {
                closing.send_replace(true);
            }
            // No client is refused while the others are sent elsewhere.
            while connections.join_next().await.is_some() {}
        });
        Ok(Self { ending, task })
    }

    /// Ends it as a server does that is asked to: it answers until its clients have closed their connections, or have had some time
    /// to do so, and then closes those that are left when their requests are answered.
    ///
    /// # Errors
    /// It has failed.
    pub async fn end(mut self) -> anyhow::Result<()> {
        self.ending.send_replace(true);
        Ok((&mut self.task).await?)
    }
}

impl Drop for Answering {
    /// Cuts its connections.
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves connections until it cannot accept any, or, if asked for, until none is left.
async fn accept<S>(
    listener: &TcpListener,
    connections: &mut JoinSet<()>,
    serve: impl Fn(TcpStream) -> S,
    until_none_is_left: bool,
) where
    S: Future<Output = ()> + Send + 'static,
{
    while !(until_none_is_left && connections.is_empty()) {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((connection, _)) => drop(connections.spawn(serve(connection))),
                Err(_) => return,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(connection: TcpStream, address: IpAddr, mut closing: watch::Receiver<bool>) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let text = format!("{address} {:?}", request.version());
        async move { Ok::<_, Infallible>(Response::new(text)) }
    });
    let builder = Builder::new(TokioExecutor::new());
    let connection = builder.serve_connection(TokioIo::new(connection), answer);
    let mut connection = std::pin::pin!(connection);
    // A connection that fails is the other end's.
    tokio::select! {
        ended = connection.as_mut() => return drop(ended),
        _ = closing.wait_for(|closing| *closing) => connection.as_mut().graceful_shutdown(),
    }
    drop(connection.await);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_says_where_and_how_it_was_asked_and_ends_when_asked_to() {
        let port = crate::process::free_port().unwrap();
        let address: IpAddr = [127, 0, 0, 77].into();
        let answering = Answering::start(address, port).await.unwrap();
        let url = format!("http://127.0.0.77:{port}/any");
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        for _ in 0..2 {
            assert_eq!(client.get(&url).send().await.unwrap().text().await.unwrap(), "127.0.0.77 HTTP/1.1");
        }
        answering.end().await.unwrap();
        client.get(&url).send().await.unwrap_err();
    }
}
