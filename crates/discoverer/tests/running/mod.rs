//! A discoverer in this process: how a test asks it and ends it. The tests of discoverers include this file, too.
#![allow(dead_code)] // Each test uses its share.

use std::net::SocketAddr;
use std::time::Duration;

use gimbal_discoverer::{Discoverer, OfferedPayload, Source};
use gimbal_runtime::Exit;
use gimbal_testkit::eventually;
use gimbal_transport::pb::inspection_service_client::InspectionServiceClient;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub const SOON: Duration = Duration::from_secs(30);

/// The arguments that every test gives a discoverer: it listens on free ports.
pub const PORTS: [&str; 4] = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];

pub struct RunningDiscoverer {
    pub listen: SocketAddr,
    pub admin: SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), Exit>>,
}

impl RunningDiscoverer {
    pub fn start<S: Source<P>, P: OfferedPayload>(discoverer: Discoverer<S, P>) -> Self {
        let (listen, admin) = (discoverer.listen_address().unwrap(), discoverer.admin_address().unwrap());
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(discoverer.run(shutdown.clone()));
        Self { listen, admin, shutdown, task }
    }

    pub async fn get(&self, path: &str) -> (u16, String) {
        let answer = reqwest::Client::new().get(format!("http://{}{path}", self.admin)).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    pub async fn ready(&self) {
        eventually("ready", SOON, async || match self.get("/readyz").await {
            (200, _) => Ok(()),
            (code, text) => Err(format!("{code} {text}")),
        })
        .await
        .unwrap();
    }

    pub async fn channel(&self) -> gimbal_transport::Channel {
        gimbal_transport::dial(&format!("http://{}", self.listen), None, SOON).await.unwrap()
    }

    pub async fn inspection(&self) -> InspectionServiceClient<gimbal_transport::Channel> {
        InspectionServiceClient::new(self.channel().await)
    }

    pub async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }
}
