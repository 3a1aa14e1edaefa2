//! Certificates, and when they end.

use std::path::PathBuf;
use std::time::Duration;

use jiff::{Span, Timestamp};

use super::limits::{Limits, blocking};
use super::result::CheckResult;
use crate::Args;
use crate::certs::ShownCertificate;

/// A certificate that ends sooner than this is to be renewed.
pub const SOON_HOURS: i64 = 14 * 24;
/// What to do about a certificate that ends.
pub const RENEW: &str = "gimbalctl certs issue --replace, or the cert-manager that made it";

/// Checks the certificate and the authorities that the command line names.
pub async fn results(args: &Args, limits: Limits) -> Vec<CheckResult> {
    // Plaintext needs none, even where certificates for other servers are in the environment.
    if args.server().starts_with("http:") {
        return Vec::new();
    }
    let mut results = Vec::new();
    for (id, file) in [("client.certificate", &args.tls_cert), ("client.authorities", &args.tls_ca)] {
        if let Some(file) = file {
            results.push(of_file(id, file.clone(), limits.files()).await);
        }
    }
    results
}

async fn of_file(id: &'static str, file: PathBuf, limit: Duration) -> CheckResult {
    let of = file.display().to_string();
    let read = move || ShownCertificate::of_pem(&std::fs::read(file).map_err(|error| error.to_string())?);
    match blocking(limit, read).await.and_then(|read| read) {
        Ok(certificates) => of_certificates(id, &of, &certificates, Timestamp::now()),
        Err(error) => CheckResult::fail(id, &of, error, "give a PEM file with a certificate"),
    }
}

/// Checks when certificates end. Of several authorities one may have ended while another one takes its place; of those that a
/// server shows each is needed; of a client's file the first is its own.
pub fn of_certificates(id: &'static str, of: &str, certificates: &[ShownCertificate], now: Timestamp) -> CheckResult {
    let renew = RENEW;
    let last = match id {
        "client.authorities" => certificates.iter().max_by_key(|one| one.not_after),
        "server.certificate" => certificates.iter().min_by_key(|one| one.not_after),
        _ => certificates.first(),
    };
    let Some(last) = last else { return CheckResult::fail(id, of, "it has no certificate", "") };
    let soon = now + Span::new().hours(SOON_HOURS);
    match () {
        () if last.not_after < now => CheckResult::fail(id, of, format!("it ended on {}", last.not_after), renew),
        () if last.not_before > now => CheckResult::fail(
            id,
            of,
            format!("it begins on {}", last.not_before),
            "is the clock of this machine right?",
        ),
        () if last.not_after < soon => CheckResult::warn(id, of, format!("it ends on {}", last.not_after), renew),
        () => CheckResult::ok(id, of, format!("until {}", last.not_after)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::result::CheckLevel;
    use super::*;

    fn certificate(not_before: &str, not_after: &str) -> ShownCertificate {
        ShownCertificate {
            names: Vec::new(),
            subject: String::new(),
            issuer: String::new(),
            is_authority: false,
            fingerprint: String::new(),
            not_before: not_before.parse().unwrap(),
            not_after: not_after.parse().unwrap(),
        }
    }

    #[test]
    fn one_that_ends_soon_is_told_before_it_fails() {
        let now: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
        for (from, until, level) in [
            ("2026-01-01T00:00:00Z", "2026-12-31T00:00:00Z", CheckLevel::Ok),
            ("2026-01-01T00:00:00Z", "2026-06-14T00:00:00Z", CheckLevel::Warn),
            ("2026-01-01T00:00:00Z", "2026-05-31T00:00:00Z", CheckLevel::Fail),
            ("2026-06-02T00:00:00Z", "2026-12-31T00:00:00Z", CheckLevel::Fail),
        ] {
            let found = of_certificates("client.certificate", "tls.crt", &[certificate(from, until)], now);
            assert_eq!(found.level, level, "{found:?}");
        }
        let ended = certificate("2026-01-01T00:00:00Z", "2026-05-31T00:00:00Z");
        let other = certificate("2026-01-01T00:00:00Z", "2026-12-31T00:00:00Z");
        let both = [ended, other];
        for (id, level) in [
            ("client.authorities", CheckLevel::Ok),
            ("server.certificate", CheckLevel::Fail),
            ("client.certificate", CheckLevel::Fail),
        ] {
            assert_eq!(of_certificates(id, "ca.crt", &both, now).level, level, "{id}");
        }
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_read_is_a_failure_of_its_check() {
        let dir = tempfile::tempdir().unwrap();
        let limit = Limits::new(Duration::from_secs(9)).files();
        let found = of_file("client.certificate", dir.path().join("none"), limit).await;
        assert!(found.level == CheckLevel::Fail && found.found.contains("No such file"), "{found:?}");
    }
}
