//! Queries that tests send to Gimbal's processes.

use anyhow::Context as _;
use gimbal_testkit::{Pair, Process, San, eventually};
use serde_json::{Value, json};

use crate::{Grpcurl, Programs, SOON, Writer};

/// Sends GET to an admin port. Returns status and body.
///
/// # Errors
/// There is no answer.
pub async fn get(admin_port: u16, path: &str) -> anyhow::Result<(u16, String)> {
    let url = format!("http://127.0.0.1:{admin_port}{path}");
    let client = reqwest::Client::builder().no_proxy().build()?;
    let answer = client.get(&url).send().await.with_context(|| url.clone())?;
    Ok((answer.status().as_u16(), answer.text().await?))
}

/// Returns the sum of all samples of a metric whose labels contain `labels`, for instance `reason="Held"`; empty: all.
///
/// # Errors
/// There is no answer.
pub async fn metric(admin_port: u16, name: &str, labels: &str) -> anyhow::Result<f64> {
    let (_, text) = get(admin_port, "/metrics").await?;
    let samples = text.lines().filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let series_name = series.split('{').next()?;
        (series_name == name && series.contains(labels)).then(|| value.parse::<f64>().ok())?
    });
    Ok(samples.sum())
}

/// Waits until a metric, summed as [`metric`] does, has this value.
///
/// # Errors
/// It does not in time.
pub async fn expect_metric(admin_port: u16, name: &str, labels: &str, wanted: f64) -> anyhow::Result<()> {
    eventually(&format!("{name}{{{labels}}} is {wanted}"), SOON, async || {
        let value = metric(admin_port, name, labels).await?;
        anyhow::ensure!((value - wanted).abs() < 0.5, "it is {value}");
        Ok::<_, anyhow::Error>(())
    })
    .await
}

/// Waits until a process's log has a line with all these parts.
///
/// # Errors
/// It does not in time.
pub async fn expect_log(process: &Process, parts: &[&str]) -> anyhow::Result<String> {
    eventually(&format!("a log line with {parts:?}"), SOON, async || {
        let log = process.log();
        let line = log.lines().find(|line| parts.iter().all(|part| line.contains(part)));
        line.map(str::to_owned).context("there is none")
    })
    .await
}

impl Programs {
    /// Issues an admin's certificate; see [`Programs::config`].
    ///
    /// # Errors
    /// It cannot be written.
    pub fn admin(&self) -> anyhow::Result<Pair> {
        self.pki.issue("admin", &[San::Uri("spiffe://gimbal.example/admin")])
    }

    /// Returns a client that calls a writer as an admin.
    ///
    /// # Errors
    /// As [`Programs::admin`].
    pub fn ask(&self, writer: &Writer) -> anyhow::Result<Grpcurl> {
        Ok(Grpcurl::tls(&self.pki, &self.admin()?, writer.port))
    }
}

impl Grpcurl {
    /// Returns one backend of the answer to ListBackends.
    ///
    /// # Errors
    /// The error that grpcurl prints, or the backend is not in the answer.
    pub fn backend(&self, name: &str) -> anyhow::Result<Value> {
        let answer = self.call("InspectionService/ListBackends", &json!({}))?;
        let found = answer["backends"].as_array().into_iter().flatten().find(|backend| backend["name"] == name);
        found.cloned().with_context(|| format!("backend {name} is not in {answer}"))
    }

    /// Waits until ListBackends reports a backend as expected.
    ///
    /// # Errors
    /// It does not in time; the message has the last answer.
    pub async fn expect_backend(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        eventually(&format!("backend {name}: {what}"), SOON, async || {
            let backend = self.backend(name)?;
            anyhow::ensure!(holds(&backend), "{backend}");
            Ok::<_, anyhow::Error>(backend)
        })
        .await
    }
}
