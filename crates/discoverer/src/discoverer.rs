//! The tasks of a discoverer.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use gimbal_runtime::{CertificateMetrics, Exit, Liveness, Readiness, serve_admin_with};
use gimbal_session::Services;
use gimbal_status_page::StatusPage;
use gimbal_traces::Traces;
use gimbal_transport::{Reloaded, Reloader, ServeOptions, Serving, serve};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::inspection_service::Inspector;
use crate::owner_task::OwnerTask;
use crate::payload::OfferedPayload;
use crate::source::Source;

/// A discoverer that is ready to run, with its listeners bound.
pub struct Discoverer<S: Source<P>, P: OfferedPayload = Services> {
    pub(crate) owner: OwnerTask<S, P>,
    pub(crate) inspector: Inspector,
    /// Whether the status page is served on any address.
    pub(crate) status_page: bool,
    /// The names under which it is served.
    pub(crate) status_page_hosts: Vec<String>,
    pub(crate) options: ServeOptions,
    pub(crate) registry: Registry,
    pub(crate) health: Liveness,
    pub(crate) readiness: Readiness,
    pub(crate) listener: TcpListener,
    pub(crate) admin: TcpListener,
    pub(crate) certificate: Option<(Reloader, CertificateMetrics)>,
    pub(crate) traces: Traces,
}

impl<S: Source<P>, P: OfferedPayload> Discoverer<S, P> {
    /// Returns the address where inspection is served.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn listen_address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns the address where metrics, liveness and readiness are served.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn admin_address(&self) -> std::io::Result<SocketAddr> {
        self.admin.local_addr()
    }

    /// Runs until `shutdown`, then ends within five seconds.
    ///
    /// # Errors
    /// Returns an error when a server or the owner's task fails, but not when the source or the writer does.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Exit> {
        let inspector = Arc::new(self.inspector);
        let page = StatusPage::default();
        page.show(inspector.clone());
        let services = gimbal_transport::ServedServices { discovery: None, inspection: inspector, admin: None };
        let (serving, served) = watch::channel(Serving { ready: false, leading: false });
        let options = ServeOptions { serving: Some(served), ..self.options };
        let readiness = self.readiness.clone();
        // Until the source is read, inspection has almost no data, so it is reported as not serving.
        let shows = async {
            let mut ready = false;
            loop {
                readiness.becomes(!ready).await;
                ready = !ready;
                serving.send_replace(Serving { ready, leading: ready });
            }
        };
        let shows = shutdown.run_until_cancelled(shows);
        // The first part that ends shuts down all the others.
        let ends = shutdown.clone();
        let inspection = async {
            let served = serve(self.listener, services, options, shutdown.clone()).await;
            ends.cancel();
            served.map_err(|error| Exit::Failure(format!("--listen: {error}")))
        };
        let admin = async {
            let registry = Arc::new(self.registry);
            let here = self.admin.local_addr().is_ok_and(|address| address.ip().is_loopback());
            let routes = if here || self.status_page { page.router(&self.status_page_hosts) } else { Router::new() };
            let ends_with = shutdown.clone();
            let served = serve_admin_with(routes, self.admin, registry, self.readiness, self.health, ends_with).await;
            ends.cancel();
            served
        };
        let certificate = async {
            if let Some((reloader, metrics)) = self.certificate {
                let show = move |files: &Reloaded| {
                    metrics.show(files.not_after.as_second(), files.problem.is_none(), files.taken);
                };
                reloader.run(show, shutdown.clone()).await;
                ends.cancel();
            }
        };
        // The owner has a task of its own, so that no server's work delays it.
        let owner = tokio::spawn(self.owner.run(shutdown.clone()));
        let owner = async {
            let ended = owner.await;
            ends.cancel();
            ended.map_err(|error| Exit::Failure(format!("the main task failed: {error}")))
        };
        let (inspection, admin, owner, (), _) = tokio::join!(inspection, admin, owner, certificate, shows);
        self.traces.end().await;
        owner.and(inspection).and(admin)
    }
}
