//! The Secret with the pair of a discoverer.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::objects::{PairSecret, SecretData};
use crate::wanted::metadata;
use crate::{OperatorSettings, WantedDiscoverer};

/// Annotation of the Secret: the SHA-256 of the certificate of the authority that signed, as `gimbalctl certs show` prints it.
const SIGNED_BY: &str = "gimbal.projectcontour.io/signed-by";

/// How the pair of a discoverer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PairState {
    /// There is none, or none that can be used on: it is to be signed.
    ToBeSigned,
    /// It is as it is to be. Programs read their files again, so that another pair needs no other pod.
    Good,
}

/// Returns the name of the Secret.
#[must_use]
pub fn pair_secret_name(discoverer: &WantedDiscoverer) -> String {
    format!("{}-tls", discoverer.object_name())
}

/// Returns the Secret with a pair.
#[must_use]
pub fn pair_object(
    discoverer: &WantedDiscoverer,
    settings: &OperatorSettings,
    signed_by: &str,
    data: SecretData,
) -> PairSecret {
    let mut metadata = metadata(discoverer, settings, &pair_secret_name(discoverer));
    metadata.meta.annotations.insert(SIGNED_BY.into(), Arc::from(signed_by));
    PairSecret { metadata, type_: "kubernetes.io/tls".into(), data }
}

impl PairSecret {
    /// Returns the SHA-256 of the authority's certificate that it says.
    #[must_use]
    pub fn signed_by(&self) -> Option<&str> {
        self.metadata.meta.annotations.get(SIGNED_BY).map(|value| &**value)
    }
}

/// Returns the first half of a SHA-256, as hexadecimal digits.
pub(crate) fn short_digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
