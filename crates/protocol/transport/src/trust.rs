//! Whether a client's certificate is accepted: at the handshake, and for as long as its connection lives. One judge for
//! both, so that nothing outlives what would be refused today.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};
use tokio::sync::watch;

use crate::certificate::Certificate;
use crate::credentials::Credentials;
use crate::denied::Denied;
use crate::refusal::Problem;

/// A connection is looked at again at least so often: clocks are set, and intermediate certificates end too.
const LOOK: Duration = Duration::from_secs(60);

/// What clients are held against, as it is now.
#[derive(Debug, Clone)]
pub(crate) struct Trust {
    pub(crate) credentials: Credentials,
    pub(crate) denied: Option<watch::Receiver<Denied>>,
}

/// The certificates that a client showed.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    leaf: CertificateDer<'static>,
    intermediates: Vec<CertificateDer<'static>>,
    pub(crate) certificate: Certificate,
}

/// Why a certificate is not accepted any more: the problem, and our own words for it.
pub(crate) type Lost = (Problem, String);

impl Trust {
    /// Judges a certificate as of `now`.
    fn judge(&self, chain: &Chain, now: UnixTime) -> Result<ClientCertVerified, Error> {
        let denied = self.denied.as_ref().and_then(|denied| denied.borrow().find(&chain.certificate));
        if denied.is_some() {
            return Err(CertificateError::Revoked.into());
        }
        self.credentials.now().clients.verify_client_cert(&chain.leaf, &chain.intermediates, now)
    }

    /// The settings for one handshake, and who will know what the client showed in it.
    pub(crate) fn handshake(&self) -> Result<(ServerConfig, Arc<Examiner>), Error> {
        let (trust, current) = (self.clone(), self.credentials.now());
        let examiner = Arc::new(Examiner { trust, clients: current.clients.clone(), shown: OnceLock::new() });
        Ok((current.server(examiner.clone())?, examiner))
    }

    /// Until the certificate is not accepted any more.
    pub(crate) async fn lost(mut self, chain: &Chain) -> Lost {
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
    // A list that nobody can change any more stays as it is.
    let followed = match denied {
        Some(denied) => denied.changed().await.is_ok(),
        None => false,
    };
    if !followed {
        std::future::pending::<()>().await;
    }
}

/// The second after `not_after` is the first in which the certificate is not valid.
fn next_look(not_after: Timestamp, now: Timestamp) -> Duration {
    let left = not_after.duration_since(now).as_millis().saturating_add(1000);
    u64::try_from(left).map_or(Duration::ZERO, Duration::from_millis).clamp(Duration::from_millis(100), LOOK)
}

fn unix_time(now: Timestamp) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(now.as_second().try_into().unwrap_or_default()))
}

/// Judges the client of one handshake, and remembers what it showed.
#[derive(Debug)]
pub(crate) struct Examiner {
    trust: Trust,
    clients: Arc<dyn ClientCertVerifier>,
    shown: OnceLock<Chain>,
}

impl Examiner {
    /// What the client showed, whether it was accepted or not.
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
