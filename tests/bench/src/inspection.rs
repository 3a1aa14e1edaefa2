//! What a writer reports about its backends, asked over its inspection service: its metrics are refreshed once a
//! second, which is too coarse to measure times with.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gimbal_testkit::eventually;
use gimbal_tests::{Scene, Writer};
use gimbal_transport::pb::inspection_service_client::InspectionServiceClient;
use gimbal_transport::pb::{Backend, ListBackendsRequest};
use gimbal_transport::{Channel, TlsFiles, client_tls, dial};

const TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to a writer, as an admin.
pub struct Inspection {
    client: InspectionServiceClient<Channel>,
}

/// The generation of each backend's stream.
pub type Generations = BTreeMap<String, u64>;

impl Inspection {
    /// Connects to this writer.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn of(scene: &Scene, writer: &Writer) -> anyhow::Result<Self> {
        let pair = scene.admin()?;
        let tls = client_tls(&TlsFiles { cert: pair.cert, key: pair.key, ca: scene.pki.ca().to_owned() })?;
        let channel = dial(&format!("https://localhost:{}", writer.port), Some(tls), TIMEOUT).await?;
        Ok(Self { client: InspectionServiceClient::new(channel) })
    }

    /// Returns the current state of every backend.
    ///
    /// # Errors
    /// The writer does not answer.
    pub async fn backends(&self) -> anyhow::Result<Vec<Backend>> {
        let answer = self.client.clone().list_backends(ListBackendsRequest::default()).await?;
        Ok(answer.into_inner().backends)
    }

    /// Returns the generations of the open streams.
    ///
    /// # Errors
    /// The writer does not answer.
    pub async fn generations(&self) -> anyhow::Result<Generations> {
        let backends = self.backends().await?.into_iter();
        Ok(backends.map(|backend| (backend.name, backend.generation)).collect())
    }

    /// Waits until `count` backends are completely known over streams other than those in `before`. Returns the time at
    /// which that was observed.
    ///
    /// # Errors
    /// It takes longer than `patience`, or the writer does not answer.
    pub async fn complete(&self, count: usize, before: &Generations, patience: Duration) -> anyhow::Result<Instant> {
        self.wait(&format!("{count} backends are complete"), count, patience, |backend| {
            backend.connected && backend.complete && before.get(&backend.name) != Some(&backend.generation)
        })
        .await
    }

    /// Waits until `count` backends are completely known and none of them has a pending write.
    ///
    /// # Errors
    /// As [`Inspection::complete`].
    pub async fn settled(&self, count: usize, patience: Duration) -> anyhow::Result<Instant> {
        self.wait(&format!("{count} backends are settled"), count, patience, |backend| {
            backend.connected && backend.complete && backend.pending == 0
        })
        .await
    }

    async fn wait(
        &self,
        what: &str,
        count: usize,
        patience: Duration,
        holds: impl Fn(&Backend) -> bool,
    ) -> anyhow::Result<Instant> {
        eventually(what, patience, async || {
            let backends = self.backends().await?;
            let so = backends.iter().filter(|backend| holds(backend)).count();
            anyhow::ensure!(so == count, "{so} of {} are", backends.len());
            anyhow::Ok(Instant::now())
        })
        .await
    }
}
