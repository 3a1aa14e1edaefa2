//! Reports the state of the services through `grpc.health.v1`.

use std::convert::Infallible;

use gimbal_wire::pb;
use pb::admin_service_server::SERVICE_NAME as ADMIN;
use pb::discovery_service_server::SERVICE_NAME as DISCOVERY;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::Serving;

/// The health reporter, and the services that it reports. The empty name means the whole server.
pub(crate) struct Health {
    pub(crate) reporter: HealthReporter,
    pub(crate) names: Vec<&'static str>,
}

/// Returns the status of a service.
fn status(name: &str, serving: Serving, ending: bool) -> ServingStatus {
    let is = match name {
        DISCOVERY | ADMIN => serving.ready && serving.leading,
        _ => serving.ready,
    };
    if is && !ending { ServingStatus::Serving } else { ServingStatus::NotServing }
}

impl Health {
    /// Keeps the reported status up to date while it is polled.
    pub(crate) async fn follow(
        self,
        serving: Option<watch::Receiver<Serving>>,
        shutdown: CancellationToken,
    ) -> Infallible {
        // The sender is kept, because a receiver without one no longer waits for changes.
        let (_always, all) = watch::channel(Serving { ready: true, leading: true });
        let mut serving = serving.unwrap_or(all);
        loop {
            let (now, ending) = (*serving.borrow_and_update(), shutdown.is_cancelled());
            for name in std::iter::once("").chain(self.names.iter().copied()) {
                self.reporter.set_service_status(name, status(name, now, ending)).await;
            }
            tokio::select! {
                Ok(()) = serving.changed() => {}
                () = shutdown.cancelled(), if !ending => {}
                else => std::future::pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_and_decisions_are_for_the_leader_and_nothing_is_for_who_ends() {
        let serves = |name: &str, ready: bool, leading: bool, ending: bool| {
            status(name, Serving { ready, leading }, ending) == ServingStatus::Serving
        };
        let inspection = pb::inspection_service_server::SERVICE_NAME;
        for (name, standby) in [("", true), (inspection, true), (DISCOVERY, false), (ADMIN, false)] {
            assert!(serves(name, true, true, false), "{name} of a leader");
            assert_eq!(serves(name, true, false, false), standby, "{name} of a standby");
            assert!(!serves(name, false, true, false), "{name} of one that cannot see its cluster");
            assert!(!serves(name, true, true, true), "{name} at the end");
        }
    }
}
