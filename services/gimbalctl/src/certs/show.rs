//! What certificates say.

use std::path::{Path, PathBuf};

use gimbal_runtime::Exit;
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::output::{OutputForm, age, print};
use crate::table::{columns, visible};

/// What a certificate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownCertificate {
    /// Its names.
    pub names: Vec<String>,
    /// Who it is for.
    pub subject: String,
    /// Who signed it.
    pub issuer: String,
    /// Whether it may sign others.
    pub is_authority: bool,
    /// SHA-256 of the whole, as `denyCertificates` has it.
    pub fingerprint: String,
    /// The first second in which it is valid.
    pub not_before: Timestamp,
    /// The last one.
    pub not_after: Timestamp,
}

impl ShownCertificate {
    /// Reads each certificate of a text.
    ///
    /// # Errors
    /// There is no certificate, or one cannot be read; in words.
    pub fn of_pem(text: &[u8]) -> Result<Vec<Self>, String> {
        let all = CertificateDer::pem_slice_iter(text).collect::<Result<Vec<_>, _>>();
        let all = all.map_err(|error| format!("it is not PEM: {error}"))?;
        if all.is_empty() {
            return Err("it has no certificate".into());
        }
        all.iter().map(Self::of).collect()
    }

    /// Reads one certificate.
    ///
    /// # Errors
    /// It cannot be read; in words.
    pub fn of(der: &CertificateDer<'_>) -> Result<Self, String> {
        let (_, certificate) =
            X509Certificate::from_der(der).map_err(|error| format!("a certificate in it: {error}"))?;
        let names = certificate.subject_alternative_name().map_err(|error| format!("a certificate in it: {error}"))?;
        let names = names.map(|names| names.value.general_names.as_slice()).unwrap_or_default();
        let validity = certificate.validity();
        let moment = |seconds| Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
        Ok(Self {
            names: names.iter().map(|one| visible(&name(one))).collect(),
            subject: visible(&certificate.subject().to_string()),
            issuer: visible(&certificate.issuer().to_string()),
            is_authority: certificate.is_ca(),
            fingerprint: Sha256::digest(der).iter().map(|byte| format!("{byte:02x}")).collect(),
            not_before: moment(validity.not_before.timestamp()),
            not_after: moment(validity.not_after.timestamp()),
        })
    }

    fn left(&self, now: Timestamp) -> String {
        if now < self.not_before {
            return "not yet valid".into();
        }
        match u64::try_from(self.not_after.as_millisecond() - now.as_millisecond()) {
            Ok(left) if left > 0 => age(Some(left)),
            _ => "ended".into(),
        }
    }

    fn row(&self, file: &Path, now: Timestamp) -> Vec<String> {
        let kind = if self.is_authority { "authority" } else { "pair" };
        let names = if self.names.is_empty() { self.subject.clone() } else { self.names.join(",") };
        let file = file.display().to_string();
        vec![
            file,
            kind.into(),
            names,
            self.left(now),
            self.not_after.to_string(),
            format!("sha256:{}", self.fingerprint),
        ]
    }

    fn json(&self, file: &Path, now: Timestamp) -> Value {
        json!({
            "file": file.display().to_string(),
            "names": self.names,
            "subject": self.subject,
            "issuer": self.issuer,
            "authority": self.is_authority,
            "notBefore": self.not_before.to_string(),
            "notAfter": self.not_after.to_string(),
            "valid": self.not_before <= now && now <= self.not_after,
            "sha256": self.fingerprint,
        })
    }
}

fn name(name: &GeneralName<'_>) -> String {
    match name {
        GeneralName::DNSName(name) | GeneralName::URI(name) => (*name).to_owned(),
        GeneralName::IPAddress(bytes) => match **bytes {
            [a, b, c, d] => std::net::Ipv4Addr::new(a, b, c, d).to_string(),
            _ => <[u8; 16]>::try_from(*bytes)
                .map_or_else(|_| name.to_string(), |v6| std::net::Ipv6Addr::from(v6).to_string()),
        },
        other => other.to_string(),
    }
}

/// Prints what certificates say.
///
/// # Errors
/// A file cannot be read.
pub fn show(files: &[PathBuf], output: OutputForm) -> Result<(), Exit> {
    let now = Timestamp::now();
    let mut all = Vec::new();
    for file in files {
        let unreadable =
            |error: &dyn std::fmt::Display| Exit::Failure(format!("cannot read {}: {error}", file.display()));
        let text = std::fs::read(file).map_err(|error| unreadable(&error))?;
        all.extend(
            ShownCertificate::of_pem(&text).map_err(|error| unreadable(&error))?.into_iter().map(|one| (file, one)),
        );
    }
    match output {
        OutputForm::Table => {
            let heads = ["FILE", "KIND", "NAMES", "LEFT", "UNTIL", "FINGERPRINT"].map(str::to_owned).to_vec();
            let rows = all.iter().map(|(file, one)| one.row(file, now));
            print(&columns(&std::iter::once(heads).chain(rows).collect::<Vec<_>>()))
        }
        OutputForm::Json => all.iter().try_for_each(|(file, one)| print(&format!("{}\n", one.json(file, now)))),
    }
}
