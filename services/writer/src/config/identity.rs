//! Who a peer is: the names of its certificate against the configuration. The one place where that is decided, for
//! agents, viewers and admins alike (DESIGN 2, rule 2).

use gimbal_transport::Peer;

use super::{BackendConfig, Config};

/// What a peer may call itself.
#[derive(Debug)]
pub enum Identity<'a> {
    /// Came without TLS over loopback: whatever it says.
    Anyone,
    /// Has shown a certificate of our authorities.
    Certified {
        /// Whether it is an administrator's.
        admin: bool,
        /// The backend that it speaks for, or why it speaks for none.
        backend: Result<&'a BackendConfig, String>,
    },
}

impl Config {
    /// Who a peer is under this configuration.
    #[must_use]
    pub fn identify(&self, peer: &Peer) -> Identity<'_> {
        match peer {
            Peer::Loopback => Identity::Anyone,
            Peer::Certificate(certificate) => Identity::Certified {
                admin: self.admins.iter().any(|admin| is_in(admin, &certificate.sans)),
                backend: self.speaker(&certificate.sans),
            },
        }
    }

    fn speaker(&self, sans: &[String]) -> Result<&BackendConfig, String> {
        if sans.is_empty() {
            return Err("the certificate has no URI or DNS name (subject alternative name)".to_owned());
        }
        let has = |backend: &&BackendConfig| backend.identity.as_deref().is_some_and(|identity| is_in(identity, sans));
        let mut found = self.backends.iter().filter(has);
        match (found.next(), found.next()) {
            (None, _) => Err(format!("no backend has the identity {}", sans.join(" or "))),
            // Whichever were taken, its certificate could write as the other.
            (Some(one), Some(other)) => {
                Err(format!("the certificate has the identities of two backends, {} and {}", one.name, other.name))
            }
            (Some(backend), None) => Ok(backend),
        }
    }
}

impl Identity<'_> {
    /// Whether it may do what an administrator may.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        matches!(self, Self::Anyone | Self::Certified { admin: true, .. })
    }
}

/// URIs are compared as they are; DNS names know no case.
fn is_in(configured: &str, sans: &[String]) -> bool {
    let uri = configured.contains("://");
    sans.iter().any(|san| if uri { configured == san } else { configured.eq_ignore_ascii_case(san) })
}
