//! A TCP proxy between an agent and its writer, for what networks do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Listens on a port of its own and passes each new connection to the next of its targets, in turn.
pub struct Proxy {
    /// Where to dial.
    pub port: u16,
    frozen: watch::Sender<bool>,
    accepted: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy to these ports of 127.0.0.1. A target that refuses is passed over.
    ///
    /// # Errors
    /// No port is left.
    pub async fn start(targets: &[u16]) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("the proxy cannot listen")?;
        let port = listener.local_addr()?.port();
        let (frozen, state) = watch::channel(false);
        let accepted = Arc::new(AtomicUsize::new(0));
        let (targets, count) = (targets.to_vec(), accepted.clone());
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let first = count.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(pass(client, targets.clone(), first, state.clone()));
            }
        });
        Ok(Self { port, frozen, accepted, task })
    }

    /// From now on nothing is passed on, and nothing is closed: a cable is cut.
    pub fn freeze(&self) {
        self.frozen.send_replace(true);
    }

    /// Connections taken so far.
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

async fn pass(mut client: TcpStream, targets: Vec<u16>, first: usize, mut frozen: watch::Receiver<bool>) {
    for offset in 0..targets.len() {
        let port = targets[(first + offset) % targets.len()];
        let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
        // False: the proxy is gone, and its connections with it.
        let stopped = async { frozen.wait_for(|frozen| *frozen).await.is_ok() };
        let stopped = tokio::select! {
            biased;
            stopped = stopped => stopped,
            // How it ended is the business of the two ends.
            _ = tokio::io::copy_bidirectional(&mut client, &mut server) => false,
        };
        // Both sockets stay open.
        while stopped && frozen.changed().await.is_ok() {}
        return;
    }
}
