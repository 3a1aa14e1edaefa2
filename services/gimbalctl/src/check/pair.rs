//! The client's own certificate.

use jiff::{Span, Timestamp};

use super::result::CheckResult;
use crate::Args;
use crate::certs::ShownCertificate;

/// A certificate that ends sooner than this is to be renewed.
const SOON_HOURS: i64 = 14 * 24;

/// Checks the certificate and the authorities that the command line names.
pub fn results(args: &Args, now: Timestamp) -> Vec<CheckResult> {
    // Plaintext needs none, even where certificates for other servers are in the environment.
    if args.server().starts_with("http:") {
        return Vec::new();
    }
    let files = [("client.certificate", &args.tls_cert), ("client.authorities", &args.tls_ca)];
    let named = files.into_iter().filter_map(|(id, file)| Some((id, file.as_ref()?)));
    named
        .map(|(id, file)| {
            let of = file.display().to_string();
            let text = std::fs::read(file).map_err(|error| error.to_string());
            match text.and_then(|text| ShownCertificate::of_pem(&text)) {
                Ok(certificates) => of_certificates(id, &of, &certificates, now),
                Err(error) => CheckResult::fail(id, &of, error, "give a PEM file with a certificate"),
            }
        })
        .collect()
}

/// Of several authorities one may have ended while another one takes its place.
fn of_certificates(id: &'static str, of: &str, certificates: &[ShownCertificate], now: Timestamp) -> CheckResult {
    let renew = "gimbalctl certs issue --replace, or the cert-manager that made it";
    let last = match id {
        "client.authorities" => certificates.iter().max_by_key(|one| one.not_after),
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
        let both = of_certificates("client.authorities", "ca.crt", &[ended, other], now);
        assert_eq!(both.level, CheckLevel::Ok);
    }
}
