//! Identifies a peer ([rule 2](../../../docs/design.md#rule-2)): the names of its certificate, compared with the
//! configuration. This is the only place where that is decided, for sources, viewers and admins alike.

use std::fmt::Display;

use gimbal_transport::Peer;

use crate::admin::AdminPrincipal;

/// A configured tenant, for example a backend of the writer.
pub trait Tenant {
    /// Noun for a tenant in errors, for example `backend`. The plural is formed with `s`.
    const NOUN: &str;

    /// Returns the tenant's name.
    fn name(&self) -> &dyn Display;

    /// Returns the URI or DNS name that the tenant's certificate must have, or `None` if it has no certificate.
    fn identity(&self) -> Option<&str>;
}

/// The identity of a peer, which decides what it may do.
#[derive(Debug)]
pub enum Identity<'a, T> {
    /// The peer is connected over loopback without TLS and may claim any identity.
    Anyone,
    /// The peer has shown a certificate of a trusted authority.
    Certified {
        /// Whether the certificate is an administrator's.
        admin: bool,
        /// The tenant that the peer speaks for, or why it speaks for none.
        tenant: Result<&'a T, String>,
    },
}

/// Returns who a peer is, given the administrators and the tenants.
pub fn identify<'a, T: Tenant>(peer: &Peer, admins: &[AdminPrincipal], tenants: &'a [T]) -> Identity<'a, T> {
    match peer {
        Peer::Loopback => Identity::Anyone,
        Peer::Certificate(certificate) => Identity::Certified {
            admin: admins.iter().any(|admin| admin.has(certificate)),
            tenant: find(&certificate.sans, tenants),
        },
    }
}

fn find<'a, T: Tenant>(sans: &[String], tenants: &'a [T]) -> Result<&'a T, String> {
    if sans.is_empty() {
        return Err("the certificate has no URI or DNS name (subject alternative name)".to_owned());
    }
    let has = |tenant: &&T| tenant.identity().is_some_and(|identity| is_in(identity, sans));
    let mut found = tenants.iter().filter(has);
    match (found.next(), found.next()) {
        (None, _) => Err(format!("no {} has the identity {}", T::NOUN, sans.join(" or "))),
        // Whichever was chosen, a certificate that belongs to one of them could act as the other.
        (Some(one), Some(other)) => {
            let (noun, one, other) = (T::NOUN, one.name(), other.name());
            Err(format!("the certificate has the identities of two {noun}s, {one} and {other}"))
        }
        (Some(tenant), None) => Ok(tenant),
    }
}

/// What a peer may see by inspection calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visible<'a, T> {
    /// Every tenant.
    Everything,
    /// One tenant: its own.
    Tenant(&'a T),
}

impl<'a, T: Tenant> Identity<'a, T> {
    /// Returns whether the peer may do what an administrator may.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        matches!(self, Self::Anyone | Self::Certified { admin: true, .. })
    }

    /// Returns what the peer may see.
    ///
    /// # Errors
    /// Returns an error if the peer is neither an administrator nor a tenant.
    pub fn visible(&self) -> Result<Visible<'a, T>, String> {
        match self {
            Self::Anyone | Self::Certified { admin: true, .. } => Ok(Visible::Everything),
            Self::Certified { tenant: Ok(tenant), .. } => Ok(Visible::Tenant(tenant)),
            Self::Certified { tenant: Err(_), .. } => {
                Err(format!("the certificate is neither an admin's nor a {}'s", T::NOUN))
            }
        }
    }
}

/// Compares URIs byte by byte and DNS names without case.
pub(crate) fn is_in(configured: &str, sans: &[String]) -> bool {
    let uri = configured.contains("://");
    sans.iter().any(|san| if uri { configured == san } else { configured.eq_ignore_ascii_case(san) })
}
