//! A simulated source: this process decides what its discoverer offers.

use std::time::{Duration, Instant};

use gimbal_discoverer::{Changed, Coverage, EventEffect, Source, SourceStatus};
use gimbal_model::SourceKey;
use gimbal_session::Freshness;
use tokio::sync::mpsc;

/// A source whose changes come from this process.
pub struct Simulated {
    known: Simulation,
    changes: mpsc::UnboundedReceiver<Changed>,
    changed: Changed,
}

/// The known state of a simulated source.
pub struct Simulation {
    incarnation: String,
    told: bool,
}

impl Simulated {
    /// The first message has the whole content, each later one the changes.
    #[must_use]
    pub fn new(incarnation: String, changes: mpsc::UnboundedReceiver<Changed>) -> Self {
        Self { known: Simulation { incarnation, told: false }, changes, changed: Vec::new() }
    }
}

impl SourceStatus for Simulation {
    fn incarnation(&self) -> Option<&str> {
        Some(&self.incarnation)
    }

    fn identified_by(&self) -> &'static str {
        "its number"
    }

    fn coverage(&self) -> Coverage {
        if self.told { Coverage::Complete } else { Coverage::Nothing }
    }

    fn freshness(&self, _: Instant) -> Vec<Freshness> {
        vec![Freshness { kind: "services".to_owned(), age: Some(Duration::ZERO) }]
    }

    fn trouble(&self) -> Option<String> {
        None
    }

    fn skipped(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    fn explain(&self, _: &SourceKey) -> Vec<String> {
        Vec::new()
    }
}

impl Source for Simulated {
    type Event = Changed;
    type Status = Simulation;

    async fn event(&mut self) -> Changed {
        match self.changes.recv().await {
            Some(changed) => changed,
            None => std::future::pending().await,
        }
    }

    fn apply(&mut self, event: Changed, _: Instant) -> EventEffect {
        self.known.told = true;
        self.changed.extend(event);
        EventEffect::Continues
    }

    fn drain(&mut self, _: Instant) -> Changed {
        std::mem::take(&mut self.changed)
    }

    fn status(&self) -> &Simulation {
        &self.known
    }
}
