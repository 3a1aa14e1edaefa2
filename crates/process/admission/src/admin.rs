//! Who may decide: approve, confirm and remove.

use std::str::FromStr;

use gimbal_model::is_certificate_name;
use gimbal_transport::{DeniedCertificate, PeerCertificate};
use serde::Deserialize;

use crate::identity::is_in;

/// An administrator: a name that its certificates have, or `sha256:` and the fingerprint of its only certificate, which no authority can
/// sign again.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct AdminPrincipal(String);

/// An entry of `admins` that has neither form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidAdmin(String);

impl AdminPrincipal {
    /// Returns it as it is compared: a fingerprint in lower case without colons.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a certificate is this administrator's.
    pub(crate) fn has(&self, certificate: &PeerCertificate) -> bool {
        match self.0.strip_prefix("sha256:") {
            Some(fingerprint) => *fingerprint == *certificate.fingerprint_sha256,
            None => is_in(&self.0, &certificate.sans),
        }
    }
}

impl FromStr for AdminPrincipal {
    type Err = InvalidAdmin;

    fn from_str(text: &str) -> Result<Self, InvalidAdmin> {
        if text.starts_with("sha256:") {
            let certificate: Result<DeniedCertificate, _> = text.parse();
            return certificate.map(|one| Self(one.to_string())).map_err(|error| InvalidAdmin(error.to_string()));
        }
        if is_certificate_name(text) {
            return Ok(Self(text.to_owned()));
        }
        let message = format!("{text:?} is no identity: use one URI or DNS name of its certificate, without wildcards");
        Err(InvalidAdmin(message))
    }
}

impl TryFrom<String> for AdminPrincipal {
    type Error = InvalidAdmin;

    fn try_from(text: String) -> Result<Self, InvalidAdmin> {
        text.parse()
    }
}
