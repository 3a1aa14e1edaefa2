//! Who may inspect: over loopback anybody, else whoever shows a certificate with a name of our own.
//!
//! The CA signs the certificates of other backends too, and a backend's certificate sees its own backend only.

use std::collections::BTreeSet;
use std::path::Path;

use gimbal_link::{Peer, Status};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The names of our own certificate.
#[derive(Debug, Clone, Default)]
pub(crate) struct Identity(BTreeSet<String>);

impl Identity {
    /// Those in the first certificate of a PEM file. Without a readable one nobody is admitted.
    pub(crate) fn of_file(cert: &Path) -> Self {
        CertificateDer::from_pem_file(cert).map_or_else(|_| Self::default(), |certificate| Self::of(&certificate))
    }

    fn of(certificate: &CertificateDer<'_>) -> Self {
        let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return Self::default() };
        let Ok(Some(names)) = certificate.subject_alternative_name() else { return Self::default() };
        let (mut uris, mut hosts) = (BTreeSet::new(), BTreeSet::new());
        for name in &names.value.general_names {
            match name {
                GeneralName::URI(name) => uris.insert((*name).to_owned()),
                GeneralName::DNSName(name) => hosts.insert((*name).to_owned()),
                _ => false,
            };
        }
        // Where a URI tells who it is, host names only tell where it may be found, and many are called localhost.
        Self(if uris.is_empty() { hosts } else { uris })
    }

    /// Whether the peer may inspect.
    pub(crate) fn admit(&self, peer: &Peer) -> Result<(), Status> {
        match peer {
            Peer::Loopback => Ok(()),
            Peer::Certificate(_) if self.0.iter().any(|name| peer.has_san(name)) => Ok(()),
            Peer::Certificate(_) => {
                Err(Status::permission_denied("the certificate is not this backend's own: it shares no name with it"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gimbal_link::PeerCertificate;

    use super::*;

    #[test]
    fn only_our_own_name_over_tls() {
        let peer = |name: &str| {
            Peer::Certificate(Arc::new(PeerCertificate {
                sans: vec![name.into()],
                fingerprint_sha256: String::new(),
                address: ([127, 0, 0, 1], 1).into(),
            }))
        };
        let identity = Identity(["spiffe://x/backend/a".to_owned()].into());
        assert!(identity.admit(&peer("spiffe://x/backend/a")).is_ok());
        assert!(identity.admit(&peer("spiffe://x/backend/b")).is_err());
        assert!(identity.admit(&Peer::Loopback).is_ok());
        assert!(Identity::default().admit(&peer("")).is_err());
    }
}
