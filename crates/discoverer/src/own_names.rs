//! Decides who may inspect: any peer on loopback, otherwise a peer whose certificate has a name of our own.
//!
//! The CA signs the certificates of other backends too, and a backend's certificate sees its own backend only.

use std::collections::BTreeSet;

use gimbal_transport::{Certificate, Peer, Status};

/// The names of our own certificate, read at the start. A renewed certificate has the same names.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnNames(BTreeSet<String>);

impl OwnNames {
    pub(crate) fn of(certificate: &Certificate) -> Self {
        let (uris, hosts): (BTreeSet<_>, _) = certificate.sans.iter().cloned().partition(|name| name.contains(':'));
        // If the certificate has a URI, the URI is its identity and host names are ignored: they say only where a
        // process is reached, and many certificates name localhost.
        Self(if uris.is_empty() { hosts } else { uris })
    }

    /// Returns an error if the peer may not inspect.
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

    use gimbal_transport::PeerCertificate;

    use super::*;

    #[test]
    fn only_our_own_name_over_tls() {
        let peer = |name: &str| {
            Peer::Certificate(Arc::new(PeerCertificate {
                sans: vec![name.into()],
                fingerprint_sha256: String::new(),
                not_after: std::time::SystemTime::UNIX_EPOCH,
                address: ([127, 0, 0, 1], 1).into(),
            }))
        };
        let names = OwnNames(["spiffe://x/backend/a".to_owned()].into());
        assert!(names.admit(&peer("spiffe://x/backend/a")).is_ok());
        assert!(names.admit(&peer("spiffe://x/backend/b")).is_err());
        assert!(names.admit(&Peer::Loopback).is_ok());
        assert!(OwnNames::default().admit(&peer("")).is_err());
    }
}
