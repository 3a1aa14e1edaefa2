//! Prometheus metrics of a process's certificate.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// Metrics of the certificate that a process presents. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct CertificateMetrics {
    not_after: Gauge,
    good: Gauge,
    reloads: Counter,
}

impl CertificateMetrics {
    /// Registers the metrics in `registry`, which has the process's prefix.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "tls_certificate_not_after",
            "When the certificate in use ends, since 1970",
            Unit::Seconds,
            self.not_after.clone(),
        );
        let help = "Whether certificate, key and authorities could be used when they were last read";
        registry.register("tls_files_good", help, self.good.clone());
        registry.register("tls_reloads", "Times that changed certificate files were taken", self.reloads.clone());
    }

    /// Records one read of the files: when the certificate in use ends (seconds since 1970), whether the files could be
    /// used, and whether a change was taken over by this read.
    pub fn show(&self, not_after: i64, good: bool, taken: bool) {
        self.not_after.set(not_after);
        self.good.set(good.into());
        if taken {
            self.reloads.inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_what_was_found() {
        let (mut registry, metrics) = (Registry::default(), CertificateMetrics::default());
        metrics.register(registry.sub_registry_with_prefix("x"));
        metrics.show(1_800_000_000, true, false);
        metrics.show(1_900_000_000, true, true);
        metrics.show(1_900_000_000, false, false);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in ["x_tls_certificate_not_after_seconds 1900000000", "x_tls_files_good 0", "x_tls_reloads_total 1"] {
            assert!(text.lines().any(|there| there == line), "{line} is not in\n{text}");
        }
    }
}
