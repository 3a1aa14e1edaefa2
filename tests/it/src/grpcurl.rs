//! grpcurl, a client that is independent of Gimbal's code.

use std::process::{Command, Stdio};

use anyhow::Context as _;
use gimbal_testkit::assets::Asset;
use gimbal_testkit::{Pair, Pki};
use serde_json::Value;

use crate::Watching;

const PACKAGE: &str = "gimbal.discovery.v1";

/// Returns the full name of a method.
fn full(method: &str) -> String {
    if method.starts_with("gimbal.") { method.to_owned() } else { format!("{PACKAGE}.{method}") }
}

/// Calls the services of one server.
pub struct Grpcurl {
    address: String,
    options: Vec<String>,
}

impl Grpcurl {
    /// Connects over mTLS.
    #[must_use]
    pub fn tls(pki: &Pki, pair: &Pair, port: u16) -> Self {
        let text = |path: &std::path::Path| path.display().to_string();
        let options = vec![
            "-cacert".to_owned(),
            text(pki.ca()),
            "-cert".to_owned(),
            text(&pair.cert),
            "-key".to_owned(),
            text(&pair.key),
        ];
        Self { address: format!("localhost:{port}"), options }
    }

    /// Connects without TLS.
    #[must_use]
    pub fn plaintext(port: u16) -> Self {
        Self { address: format!("127.0.0.1:{port}"), options: vec!["-plaintext".to_owned()] }
    }

    /// Calls a method, `Service/Method` of the discovery's package or with another package before it, and returns its one
    /// answer.
    ///
    /// # Errors
    /// The error that grpcurl prints.
    pub fn call(&self, method: &str, request: &Value) -> anyhow::Result<Value> {
        let text = self.run(&["-d", &request.to_string()], &[&full(method)])?;
        serde_json::from_str(&text).with_context(|| format!("grpcurl printed no JSON: {text}"))
    }

    /// Calls a method that streams, named as for [`Self::call`].
    ///
    /// # Errors
    /// grpcurl is missing and cannot be built.
    pub fn watch(&self, method: &str, request: &Value) -> anyhow::Result<Watching> {
        Watching::start(self.command(&["-d", &request.to_string()], &[&full(method)])?)
    }

    /// Returns the command line of a method without a request, for a person to repeat.
    ///
    /// # Errors
    /// grpcurl is missing and cannot be built.
    pub fn line(&self, method: &str) -> anyhow::Result<String> {
        let command = self.command(&[], &[&full(method)])?;
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        Ok(words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" "))
    }

    /// Runs any call: options before the address, words after it.
    ///
    /// # Errors
    /// The error that grpcurl prints.
    pub fn run(&self, options: &[&str], words: &[&str]) -> anyhow::Result<String> {
        let out = self.command(options, words)?.output().context("cannot run grpcurl")?;
        let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        anyhow::ensure!(out.status.success(), "{}", stderr.trim());
        Ok(stdout.into_owned())
    }

    /// Returns the command itself, for calls that stream.
    ///
    /// # Errors
    /// grpcurl is missing and cannot be built.
    pub fn command(&self, options: &[&str], words: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(Asset::Grpcurl.path()?);
        command.args(&self.options).args(options).arg(&self.address).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }
}
