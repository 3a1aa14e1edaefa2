//! Prometheus metrics of a process's certificate.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use crate::metrics_table;

metrics_table! {
    /// Metrics of the certificate that a process presents. Registered in a registry with the process's prefix.
    pub struct CertificateMetrics("tls") {
        not_after: Gauge, "certificate_not_after" [] seconds,
            "When the certificate in use ends, since 1970";
        good: Gauge, "files_good" [],
            "Whether certificate, key and authorities could be used when they were last read";
        reloads: Counter, "reloads" [],
            "Times that changed certificate files were taken";
    }
}

impl CertificateMetrics {
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
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn what_is_shown_is_what_was_found() {
        let mut registry = Registry::default();
        let metrics = CertificateMetrics::register(registry.sub_registry_with_prefix("x"));
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
