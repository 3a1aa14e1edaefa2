//! Reports the state of the services through `grpc.health.v1`.

use std::convert::Infallible;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::{Availability, Serving};

/// The health reporter, and the services that it reports. The empty name means the whole server.
pub(crate) struct HealthStatus {
    pub(crate) reporter: HealthReporter,
    pub(crate) services: Vec<(&'static str, Availability)>,
}

/// Returns the status of a service.
fn status(availability: Availability, serving: Serving, ending: bool) -> ServingStatus {
    let is = match availability {
        Availability::Leading => serving.ready && serving.leading,
        Availability::Ready => serving.ready,
    };
    if is && !ending { ServingStatus::Serving } else { ServingStatus::NotServing }
}

impl HealthStatus {
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
            let whole = ("", Availability::Ready);
            for (name, availability) in std::iter::once(whole).chain(self.services.iter().copied()) {
                self.reporter.set_service_status(name, status(availability, now, ending)).await;
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
        let serves = |availability, ready: bool, leading: bool, ending: bool| {
            status(availability, Serving { ready, leading }, ending) == ServingStatus::Serving
        };
        for (availability, standby) in [(Availability::Ready, true), (Availability::Leading, false)] {
            assert!(serves(availability, true, true, false), "{availability:?} of a leader");
            assert_eq!(serves(availability, true, false, false), standby, "{availability:?} of a standby");
            assert!(!serves(availability, false, true, false), "{availability:?} of one that cannot see its cluster");
            assert!(!serves(availability, true, true, true), "{availability:?} at the end");
        }
    }
}
