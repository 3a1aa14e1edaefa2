//! What the writer said last of an entry.

use std::sync::Arc;

use gimbal_kuryr_model::{LoadBalancerReport, Phase, Text};
use gimbal_kuryr_packed::PackedValue;
use gimbal_kuryr_wire::MessageForm;

/// The latest report of an entry. Once it shows everywhere it is packed: it is looked at again only when something else changes.
#[derive(Debug)]
pub struct KeptReport {
    /// UID of the owner that it is about.
    pub owner: Text,
    /// How far the writer is.
    pub phase: Phase,
    form: ReportAs,
}

#[derive(Debug)]
enum ReportAs {
    Plain(Arc<LoadBalancerReport>),
    Packed(PackedValue<LoadBalancerReport, MessageForm>),
}

impl KeptReport {
    /// Keeps a report as it is.
    #[must_use]
    pub fn new(report: LoadBalancerReport) -> Self {
        Self { owner: report.owner.clone(), phase: report.phase, form: ReportAs::Plain(Arc::new(report)) }
    }

    /// Packs it.
    pub fn rest(&mut self) {
        if let ReportAs::Plain(report) = &self.form {
            self.form = ReportAs::Packed(PackedValue::new(report.clone()));
        }
    }

    /// Returns the report.
    #[must_use]
    pub fn get(&self) -> Arc<LoadBalancerReport> {
        match &self.form {
            ReportAs::Plain(report) => report.clone(),
            ReportAs::Packed(report) => report.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use gimbal_kuryr_model::{ReportedMember, ReportedObjects};

    use super::*;

    #[test]
    fn a_report_that_rests_says_the_same() {
        let member = |n: u8| ReportedMember {
            id: format!("00000000-0000-4000-8000-{n:012}").into(),
            pool: "pool".into(),
            name: format!("team/shop-{n}:80").into(),
            address: [10, 1, 0, n].into(),
            port: 80,
            subnet: "subnet".into(),
        };
        let report = LoadBalancerReport {
            owner: "uid".into(),
            generation: 1,
            phase: Phase::Ready,
            conditions: Vec::new(),
            refused_ports: Vec::new(),
            objects: ReportedObjects { members: (0..20).map(member).collect(), ..ReportedObjects::default() },
            last_error: None,
            missing: None,
        };
        let mut kept = KeptReport::new(report.clone());
        for _ in 0..2 {
            kept.rest();
            assert!(matches!(&kept.form, ReportAs::Packed(packed) if packed.is_packed()));
            assert_eq!(((*kept.get()).clone(), &*kept.owner, kept.phase), (report.clone(), "uid", Phase::Ready));
        }
    }
}
