//! Reads the cloud for each cluster, at the start, when the configuration changes, and every few minutes.

use std::time::{Duration, Instant};

use gimbal_kuryr_model::Text;
use gimbal_openstack_client::Error;
use gimbal_runtime::ReadinessGuard;
use tokio::sync::watch;

use crate::args::Args;
use crate::cloud_access::CloudAccess;
use crate::clusters::SharedConfig;
use crate::knowledge;
use crate::mailbox::OwnerHandle;

/// How often subnets, quota and roles are read again.
const EVERY: Duration = Duration::from_secs(300);
/// How soon a reading that failed is repeated.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// The task that reads the cloud.
pub struct LookUps {
    /// How credentials are read again when Keystone refuses those in use.
    pub args: Args,
    /// The connection.
    pub cloud: CloudAccess,
    /// Receives what was read.
    pub owner: OwnerHandle,
    /// The clusters.
    pub config: watch::Receiver<SharedConfig>,
    /// Ends when the cloud was read once for each cluster.
    pub first: Option<ReadinessGuard>,
}

impl LookUps {
    /// Runs for ever.
    pub async fn run(mut self) {
        let mut failing = false;
        loop {
            let config = self.config.borrow_and_update().clone();
            let mut failed = None;
            for cluster in &config.clusters {
                match knowledge::read(&self.cloud, &cluster.policy).await {
                    Ok(reading) => {
                        let name: Text = cluster.name.as_str().into();
                        let learned = self.owner.ask(move |all| all.learned(&name, reading, Instant::now())).await;
                        if learned.is_err() {
                            // The process ends.
                            return std::future::pending().await;
                        }
                    }
                    Err(error) => failed = Some((cluster.name.as_str(), error)),
                }
            }
            // One line when it begins to fail, and one when it works again.
            match &failed {
                Some((cluster, error)) if !failing => {
                    tracing::warn!(cluster, %error, "the cloud cannot be read; it is tried again");
                }
                None if failing => tracing::info!("the cloud can be read again"),
                _ => {}
            }
            failing = failed.is_some();
            if let Some((_, Error::InvalidCredentials { .. })) = &failed {
                self.read_credentials();
            }
            if !failing {
                self.first = None;
            }
            let pause = if failing { AFTER_FAILURE } else { EVERY };
            tokio::select! {
                Ok(()) = self.config.changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Reads the credentials again: someone may have replaced what Keystone refuses.
    fn read_credentials(&self) {
        let replaced = self
            .args
            .read_credentials()
            .and_then(|credentials| self.cloud.replace(credentials).map_err(|error| error.to_string()));
        match replaced {
            Ok(true) => tracing::info!("the credentials have changed, and are used from now on"),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "the credentials cannot be read"),
        }
    }
}
