//! A proxy that loses a service's answers, as a broken network does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::{OpenStack, Service};

/// Passes everything on to a service, on a port of its own. On request it loses the answer to a call: the service has
/// answered, so what it did is committed, and the client's connection is closed instead.
pub struct AnswerCutter {
    url: String,
    left: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl AnswerCutter {
    /// Starts a proxy to a service that is served without TLS.
    ///
    /// # Errors
    /// No port is left, or the service is served with TLS.
    pub async fn start(cloud: &OpenStack, service: Service) -> anyhow::Result<Self> {
        let behind = cloud.url(service);
        let behind = behind.strip_prefix("http://").context("the proxy does not speak TLS")?.to_owned();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("the proxy cannot listen")?;
        let url = format!("http://{}", listener.local_addr()?);
        let left = Arc::new(AtomicUsize::new(0));
        let lost = left.clone();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (behind, lost) = (behind.clone(), lost.clone());
                // An error of either end closes both, which the client sees.
                tokio::spawn(async move { pass(client, &behind, &lost).await.ok() });
            }
        });
        Ok(Self { url, left, task })
    }

    /// Returns the proxy's URL, to be configured in place of the service's.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Loses the next answer.
    pub fn lose_one(&self) {
        self.left.fetch_add(1, SeqCst);
    }

    /// Returns whether every answer that was to be lost is lost.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.left.load(SeqCst) == 0
    }
}

impl Drop for AnswerCutter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(client: TcpStream, behind: &str, left: &AtomicUsize) -> anyhow::Result<()> {
    let service = TcpStream::connect(behind).await?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_service, mut to_service) = service.into_split();
    let requests = async {
        copy(&mut from_client, &mut to_service).await?;
        anyhow::Ok(())
    };
    let answers = async {
        let mut piece = vec![0; 16 << 10];
        loop {
            let count = from_service.read(&mut piece).await?;
            anyhow::ensure!(count > 0, "the service has closed the connection");
            let is_lost = left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
            anyhow::ensure!(!is_lost, "the answer is lost");
            to_client.write_all(&piece[..count]).await?;
        }
    };
    tokio::select! {
        ended = requests => ended,
        ended = answers => ended,
    }
}
