//! What a pair says of itself.

use jiff::Timestamp;
use rcgen::{KeyPair, PublicKeyData as _};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// What a pair says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairFacts {
    /// Its identities: URIs and DNS names.
    pub names: Vec<String>,
    /// The first second in which it is valid.
    pub not_before: Timestamp,
    /// The last one.
    pub not_after: Timestamp,
}

/// A pair that no program could use. The text shows nothing of the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// The certificate cannot be read.
    #[error("its certificate cannot be read")]
    Certificate,
    /// The key cannot be read, or is that of another certificate.
    #[error("its key is not that of its certificate")]
    Key,
}

impl PairFacts {
    /// Reads a pair in PEM.
    ///
    /// # Errors
    /// One of the two cannot be read, or they do not belong together.
    pub fn read(certificate: &str, key: &str) -> Result<Self, PairError> {
        let der = CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|_| PairError::Certificate)?;
        let (_, read) = X509Certificate::from_der(&der).map_err(|_| PairError::Certificate)?;
        let key = KeyPair::from_pem(key).map_err(|_| PairError::Key)?;
        if read.public_key().raw != key.subject_public_key_info() {
            return Err(PairError::Key);
        }
        let names = read.subject_alternative_name().map_err(|_| PairError::Certificate)?;
        let names = names.map(|names| names.value.general_names.as_slice()).unwrap_or_default();
        let text = |name: &GeneralName<'_>| match name {
            GeneralName::URI(name) | GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        };
        let moment = |seconds| Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
        let validity = read.validity();
        Ok(Self {
            names: names.iter().filter_map(text).collect(),
            not_before: moment(validity.not_before.timestamp()),
            not_after: moment(validity.not_after.timestamp()),
        })
    }

    /// Returns when it is time for the next pair: when a third of its time is left.
    #[must_use]
    pub fn renewal(&self) -> Timestamp {
        let (first, last) = (self.not_before.as_second(), self.not_after.as_second());
        Timestamp::from_second(last - (last - first) / 3).unwrap_or(self.not_after)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Authority, AuthorityError, KeyedCertificate, PairRequest, make_authority};

    const DAY: Duration = Duration::from_secs(86_400);

    fn authority(days: u32) -> Authority {
        let KeyedCertificate { certificate, key } = make_authority(None, DAY * days).unwrap();
        Authority::read(&certificate, &key).unwrap()
    }

    fn signed(authority: &Authority, days: u32) -> KeyedCertificate {
        let uris = ["spiffe://gimbal.example/backend/node02".to_owned()];
        let request = PairRequest { name: "node02", uris: &uris, dns: &[], addresses: &[], lifetime: DAY * days };
        authority.sign(&request).unwrap().pair
    }

    #[test]
    fn a_pair_has_its_identity_and_is_renewed_when_a_third_is_left() {
        let pair = signed(&authority(365), 90);
        let facts = PairFacts::read(&pair.certificate, &pair.key).unwrap();
        assert_eq!(facts.names, ["spiffe://gimbal.example/backend/node02"]);
        let days = |from: Timestamp, to: Timestamp| (to.as_second() - from.as_second()) / 86_400;
        assert_eq!(days(facts.not_before, facts.not_after), 90);
        assert_eq!(days(facts.not_before, facts.renewal()), 60);
    }

    #[test]
    fn a_pair_never_outlives_its_authority() {
        let authority = authority(30);
        let pair = signed(&authority, 90);
        let facts = PairFacts::read(&pair.certificate, &pair.key).unwrap();
        assert_eq!(facts.not_after, authority.not_after());
    }

    #[test]
    fn what_does_not_belong_together_is_no_pair_and_no_authority() {
        let authority = authority(30);
        let (one, other) = (signed(&authority, 1), signed(&authority, 1));
        assert_eq!(PairFacts::read(&one.certificate, &other.key), Err(PairError::Key));
        assert_eq!(PairFacts::read(&one.certificate, "nothing"), Err(PairError::Key));
        assert_eq!(PairFacts::read("nothing", &one.key), Err(PairError::Certificate));
        let error = Authority::read(authority.trusted(), &one.key).unwrap_err();
        assert!(
            matches!(&error, AuthorityError::Certificate(text) if text.contains("none of its certificates is that of its key"))
        );
        let error = Authority::read(&one.certificate, &one.key).unwrap_err();
        assert!(matches!(&error, AuthorityError::Certificate(text) if text.contains("no authority")));
    }
}
