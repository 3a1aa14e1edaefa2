//! A report that is kept for the next stream.

use std::fmt;
use std::sync::Arc;

use gimbal_kuryr_model::{LoadBalancerReport, Phase, Text};
use gimbal_kuryr_packed::PackedValue;
use gimbal_session::StoredReport;

use crate::{Kuryr, MessageForm};

/// A report in few bytes, with what of it is looked at often.
#[derive(Clone)]
pub struct PackedReport {
    owner: Text,
    generation: i64,
    phase: Phase,
    report: PackedValue<LoadBalancerReport, MessageForm>,
}

impl PackedReport {
    /// Returns the owner that it is about.
    #[must_use]
    pub fn owner(&self) -> &Text {
        &self.owner
    }

    /// Returns the generation that it is about.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.generation
    }

    /// Returns its phase.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }
}

impl StoredReport<Kuryr> for PackedReport {
    fn keep(report: LoadBalancerReport) -> Self {
        let LoadBalancerReport { ref owner, generation, phase, .. } = report;
        Self { owner: owner.clone(), generation, phase, report: PackedValue::new(Arc::new(report)) }
    }

    fn report(&self) -> Arc<LoadBalancerReport> {
        self.report.get()
    }
}

/// Shows the report.
impl fmt::Debug for PackedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.report, f)
    }
}
