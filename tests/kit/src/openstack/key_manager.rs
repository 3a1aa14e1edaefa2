//! Certificates that a user stores in the key manager.

use std::process::Command;

use anyhow::Context as _;
use serde_json::json;

use super::api::Api;
use super::{OpenStack, User};
use crate::Pair;

/// Prints a certificate and its key, which are read from two files, as Octavia wants them: one bundle of PKCS#12 without a
/// password, in base64.
const BUNDLE: &str = "
import base64, sys
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

certificate, key = (open(path, 'rb').read() for path in sys.argv[1:])
key = serialization.load_pem_private_key(key, None)
certificate = x509.load_pem_x509_certificate(certificate)
bundle = pkcs12.serialize_key_and_certificates(None, key, certificate, None, serialization.NoEncryption())
print(base64.b64encode(bundle).decode())
";

impl OpenStack {
    /// Stores a certificate in the project of this name, as the discoverer. Returns the reference of the secret.
    ///
    /// # Errors
    /// The certificate cannot be read, or Barbican's error.
    pub async fn store_certificate(&self, project: &str, name: &str, pair: &Pair) -> anyhow::Result<String> {
        let mut python = Command::new(self.layout.environment.venv.join("bin/python"));
        python.args(["-c", BUNDLE]).args([&pair.cert, &pair.key]);
        let made = tokio::task::spawn_blocking(move || python.output()).await?.context("cannot run Python")?;
        anyhow::ensure!(made.status.success(), "no bundle: {}", String::from_utf8_lossy(&made.stderr));
        let body = json!({
            "name": name,
            "secret_type": "opaque",
            "payload_content_type": "application/octet-stream",
            "payload_content_encoding": "base64",
            "payload": String::from_utf8(made.stdout)?.trim(),
        });
        let user = User::Discoverer.log_in_to(&self.project(project).await?);
        let keys = Api::key_manager(&self.layout)?.as_user(&user).await?;
        let stored = keys.post("/secrets", &body).await?;
        stored["secret_ref"].as_str().map(str::to_owned).with_context(|| format!("no reference: {stored}"))
    }
}
