//! The values in the file that are not a backend's. Each checks itself while it is parsed, so that an error has its line.

use gimbal_transport::{DeniedCertificate, InvalidDenial};
use serde::de::Error;
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
