//! A TCP proxy between an agent and its writer that simulates network failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use anyhow::Context as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::io::InspectReader;

/// Listens on a port of its own and passes each new connection to the next of its targets, in turn.
pub struct Proxy {
    /// The port to connect to.
    pub port: u16,
    frozen: watch::Sender<bool>,
    cut: watch::Sender<()>,
    accepted: Arc<AtomicUsize>,
    passed: Arc<[AtomicU64; 2]>,
    task: JoinHandle<()>,
}

/// TCP payload passed on, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// From clients to targets.
    pub to: u64,
    /// From targets to clients.
    pub from: u64,
}

impl Passed {
    /// Returns the sum of both directions.
    #[must_use]
    pub fn sum(self) -> u64 {
        self.to + self.from
    }

    /// Returns the bytes passed on after `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self { to: self.to - before.to, from: self.from - before.from }
    }
}

impl Proxy {
    /// Starts a proxy to these ports of 127.0.0.1. A target that refuses the connection is skipped.
    ///
    /// # Errors
    /// No port is left.
    pub async fn start(targets: &[u16]) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("the proxy cannot listen")?;
        let port = listener.local_addr()?.port();
        let (frozen, state) = watch::channel(false);
        let cut = watch::Sender::new(());
        let accepted = Arc::new(AtomicUsize::new(0));
        let passed = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let (targets, count, cuts, bytes) = (targets.to_vec(), accepted.clone(), cut.clone(), passed.clone());
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let first = count.fetch_add(1, Ordering::Relaxed);
                let passing = pass(client, targets.clone(), first, state.clone(), bytes.clone());
                let mut cut = cuts.subscribe();
                tokio::spawn(async move {
                    tokio::select! {
                        _ = cut.changed() => {}
                        () = passing => {}
                    }
                });
            }
        });
        Ok(Self { port, frozen, cut, accepted, passed, task })
    }

    /// Passes on nothing from now on, and closes nothing, as when a cable is cut.
    pub fn freeze(&self) {
        self.frozen.send_replace(true);
    }

    /// Closes all connections.
    pub fn cut(&self) {
        self.cut.send_replace(());
    }

    /// Returns the numbers of bytes so far.
    #[must_use]
    pub fn passed(&self) -> Passed {
        let [to, from] = &*self.passed;
        Passed { to: to.load(Ordering::Relaxed), from: from.load(Ordering::Relaxed) }
    }

    /// Returns the number of connections accepted so far.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(
    client: TcpStream,
    targets: Vec<u16>,
    first: usize,
    mut frozen: watch::Receiver<bool>,
    passed: Arc<[AtomicU64; 2]>,
) {
    let counted = |socket, direction: usize| {
        let passed = passed.clone();
        InspectReader::new(socket, move |bytes: &[u8]| {
            passed[direction].fetch_add(bytes.len() as u64, Ordering::Relaxed);
        })
    };
    let mut client = counted(client, 0);
    for offset in 0..targets.len() {
        let port = targets[(first + offset) % targets.len()];
        let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
        // Small messages are passed on without delay; without this option they are only slower.
        client.get_ref().set_nodelay(true).ok();
        server.set_nodelay(true).ok();
        let mut server = counted(server, 1);
        // False if the proxy was dropped, which ends its connections.
        let stopped = async { frozen.wait_for(|frozen| *frozen).await.is_ok() };
        let stopped = tokio::select! {
            biased;
            stopped = stopped => stopped,
            // The result matters only to the two ends.
            _ = tokio::io::copy_bidirectional(&mut client, &mut server) => false,
        };
        // Both sockets stay open.
        while stopped && frozen.changed().await.is_ok() {}
        return;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn what_passes_is_counted_and_a_cut_ends_what_is_connected() {
        let server = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let proxy = Proxy::start(&[server.local_addr().unwrap().port()]).await.unwrap();
        for connection in 1..=2 {
            let mut client = TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
            let (mut other, _) = server.accept().await.unwrap();
            client.write_all(b"hello").await.unwrap();
            other.read_exact(&mut [0; 5]).await.unwrap();
            other.write_all(b"you").await.unwrap();
            client.read_exact(&mut [0; 3]).await.unwrap();
            assert_eq!(proxy.passed(), Passed { to: 5 * connection, from: 3 * connection });
            proxy.cut();
            for end in [&mut client, &mut other] {
                let read = tokio::time::timeout(crate::SOON, end.read(&mut [0])).await;
                assert!(matches!(read, Ok(Ok(0) | Err(_))), "{read:?}");
            }
        }
        assert_eq!(proxy.accepted(), 2);
    }
}
