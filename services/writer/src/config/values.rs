//! The values in the file that are not a backend's. Each checks itself while it is parsed, so that an error has its line.

use gimbal_backend::CertificateName;
use gimbal_transport::{DeniedCertificate, InvalidDenial};
use serde::de::{Error, IntoDeserializer};
use serde::{Deserialize, Deserializer};

/// A certificate that is refused.
#[derive(Debug, Clone)]
pub(super) struct Denial(pub(super) DeniedCertificate);

impl<'de> Deserialize<'de> for Denial {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Self).map_err(|error: InvalidDenial| D::Error::custom(error))
    }
}

/// An administrator: a name that its certificates have, or the fingerprint of its only one, which no authority can sign again.
#[derive(Debug, Clone)]
pub(super) struct AdminPrincipal(pub(super) String);

impl<'de> Deserialize<'de> for AdminPrincipal {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        if text.starts_with("sha256:") {
            // In the form in which a peer's fingerprint is compared.
            return text
                .parse()
                .map(|certificate: DeniedCertificate| Self(certificate.to_string()))
                .map_err(|error: InvalidDenial| D::Error::custom(error));
        }
        CertificateName::deserialize(text.into_deserializer()).map(|name| Self(name.0))
    }
}
