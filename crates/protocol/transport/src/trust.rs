//! Verifies client certificates, at the handshake and for the life of the connection. Both use the same check, so no
//! connection stays open whose certificate would be refused now.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};
use tokio::sync::watch;

use crate::certificate::Certificate;
use crate::credentials::TlsCredentials;
use crate::denied::Denied;
use crate::refusal::Problem;

/// Longest interval between checks of an open connection. The clock may be set, and intermediate certificates expire
/// too.
const LOOK: Duration = Duration::from_secs(60);

/// The current authorities and deny list that client certificates are checked against.
#[derive(Debug, Clone)]
pub(crate) struct Trust {
    pub(crate) credentials: TlsCredentials,
    pub(crate) denied: Option<watch::Receiver<Denied>>,
}

/// The certificate chain that a client presented.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    leaf: CertificateDer<'static>,
    intermediates: Vec<CertificateDer<'static>>,
    pub(crate) certificate: Certificate,
}

/// Why a certificate is no longer accepted: the problem, and a message for our log.
pub(crate) type NoLongerAccepted = (Problem, String);

impl Trust {
    /// Checks a certificate at time `now`: the deny list first, then the chain.
    fn judge(&self, chain: &Chain, now: UnixTime) -> Result<ClientCertVerified, Error> {
        let denied = self.denied.as_ref().and_then(|denied| denied.borrow().find(&chain.certificate));
        if denied.is_some() {
            return Err(CertificateError::Revoked.into());
        }
        self.credentials.now().clients.verify_client_cert(&chain.leaf, &chain.intermediates, now)
    }

    /// Returns the TLS configuration for one handshake, and the verifier that records what the client presents in it.
    pub(crate) fn handshake(&self) -> Result<(ServerConfig, Arc<Examiner>), Error> {
        let (trust, current) = (self.clone(), self.credentials.now());
        let examiner = Arc::new(Examiner { trust, clients: current.clients.clone(), shown: OnceLock::new() });
        Ok((current.server(examiner.clone())?, examiner))
    }

    /// Waits until the certificate is no longer accepted, and returns why.
    pub(crate) async fn lost(mut self, chain: &Chain) -> NoLongerAccepted {
        loop {
            let now = Timestamp::now();
            if let Err(error) = self.judge(chain, unix_time(now)) {
                let problem = Problem::of(&error);
                return (problem, problem.words(&error));
            }
            tokio::select! {
                () = self.credentials.changed() => {}
                () = changed(self.denied.as_mut()) => {}
                () = tokio::time::sleep(next_look(chain.certificate.not_after, now)) => {}
            }
        }
    }
}

async fn changed(denied: Option<&mut watch::Receiver<Denied>>) {
    // A list whose sender is dropped no longer changes.
    let followed = match denied {
        Some(denied) => denied.changed().await.is_ok(),
        None => false,
    };
    if !followed {
        std::future::pending::<()>().await;
    }
}

/// Returns the time until the next check. The certificate is first invalid in the second after `not_after`.
fn next_look(not_after: Timestamp, now: Timestamp) -> Duration {
    let left = not_after.duration_since(now).as_millis().saturating_add(1000);
    u64::try_from(left).map_or(Duration::ZERO, Duration::from_millis).clamp(Duration::from_millis(100), LOOK)
}

fn unix_time(now: Timestamp) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(now.as_second().try_into().unwrap_or_default()))
}

/// Verifies the client of one handshake, and records what it presented.
#[derive(Debug)]
pub(crate) struct Examiner {
    trust: Trust,
    clients: Arc<dyn ClientCertVerifier>,
    shown: OnceLock<Chain>,
}

impl Examiner {
    /// Returns what the client presented, even if it was refused.
    pub(crate) fn shown(&self) -> Option<&Chain> {
        self.shown.get()
    }
}

impl ClientCertVerifier for Examiner {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.clients.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let certificate = Certificate::read(leaf).ok_or(CertificateError::BadEncoding)?;
        let chain = Chain {
            leaf: leaf.clone().into_owned(),
            intermediates: intermediates.iter().map(|certificate| certificate.clone().into_owned()).collect(),
            certificate,
        };
        self.trust.judge(self.shown.get_or_init(|| chain), now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.clients.verify_tls12_signature(message, cert, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.clients.verify_tls13_signature(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.clients.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_looked_at_when_it_ends_and_once_a_minute() {
        let at = |millis| Timestamp::from_millisecond(millis).unwrap();
        let not_after = at(1_000_000);
        for (now, expected) in [
            (0, 60_000),
            (900_000, 60_000),
            (990_000, 11_000),
            (999_999, 1_001),
            (1_000_000, 1_000),
            (1_000_999, 100),
            (1_001_000, 100),
            (9_999_999, 100),
        ] {
            assert_eq!(next_look(not_after, at(now)), Duration::from_millis(expected), "{now}");
        }
        assert_eq!(next_look(Timestamp::MAX, Timestamp::MIN), LOOK);
    }
}
