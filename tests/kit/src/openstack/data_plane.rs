//! haproxy, members and clients in a network namespace without a route to anywhere else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use super::environment::{Environment, source};
use crate::Process;

const READY_WITHIN: Duration = Duration::from_secs(60);

/// What answers at the addresses of a cloud's load balancers; see [`super::Options::data_plane`].
///
/// haproxy runs with the configuration that Octavia's own template makes of Octavia's own rows, as an amphora would.
/// Everything is in one network namespace: haproxy, the members, which tests start here at any private address, and the
/// clients. UDP and SCTP have no data plane.
pub struct DataPlane {
    control: PathBuf,
    _process: Process,
}

/// What came of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Got {
    /// The status and the body, which is the member's name.
    Answer(u16, String),
    /// Why there was none.
    Nothing(String),
}

/// A request of one client; see [`DataPlane::send`].
#[derive(Debug, Clone, Copy)]
pub struct ClientRequest<'a> {
    /// `GET` and others.
    pub method: &'a str,
    /// The `Host` header; `None`: without one, in HTTP/1.0.
    pub host: Option<&'a str>,
    /// The path, as it is written.
    pub path: &'a str,
    /// Over TLS: the name of the server (SNI); empty: none.
    pub tls: Option<&'a str>,
    /// Over TLS: the authority that has to have issued the certificate, for that name; `None`: any certificate will do.
    pub authority: Option<&'a Path>,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The body: of a member its name, followed by the path of the request as it arrived there, unless that is `/`.
    pub body: String,
    /// Where a redirect leads to.
    pub location: Option<String>,
    /// Of a member: the method and the `Host` header of the request as it arrived there, with a space between them.
    pub arrived: Option<String>,
    /// Over TLS: which certificate it was, by its SHA-256 in hexadecimal digits.
    pub certificate: Option<String>,
}

/// What a client got that sends requests at a steady pace.
#[derive(Debug, Clone, Deserialize)]
pub struct Traffic {
    /// Number of requests.
    pub sent: u64,
    /// Number of requests that a member answered.
    pub answered: u64,
    /// Why the others failed.
    pub failed: Vec<String>,
    /// Number of answers by member.
    pub by: BTreeMap<String, u64>,
    /// The longest time without an answer, in seconds.
    pub gap: f64,
}

impl DataPlane {
    /// Returns the socket by which the data plane in `dir` is controlled. Short, for a socket's path is limited.
    pub(super) fn socket(dir: &Path) -> PathBuf {
        dir.join("plane/control")
    }

    /// Starts it in `dir`, without load balancers.
    pub(super) async fn start(dir: &Path, environment: &Environment) -> anyhow::Result<Self> {
        let haproxy = tokio::task::spawn_blocking(crate::assets::haproxy).await??;
        let control = Self::socket(dir);
        let folder = control.parent().context("the socket is in no folder")?;
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let mut args =
            ["--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child=KILL"].map(str::to_owned).to_vec();
        for path in [&environment.venv.join("bin/python"), &source().join("data_plane.py"), folder, &haproxy] {
            args.push(path.display().to_string());
        }
        let log = dir.join("data-plane.log");
        let mut process = Process::start("the data plane", Path::new("unshare"), &args, &log)?;
        let ready = crate::eventually("the data plane answers", READY_WITHIN, async || {
            if let Some(status) = process.exited()? {
                return Ok(Err(anyhow::anyhow!("the data plane, which needs network namespaces, ended with {status}")));
            }
            ask(&control, &json!({"do": "version"})).await.map(|_| Ok(()))
        });
        let ready = ready.await.and_then(|ready| ready);
        ready.map_err(|error| anyhow::anyhow!("{error:#}; the end of its log:\n{}", process.log_tail()))?;
        Ok(Self { control, _process: process })
    }

    /// Starts a member: an HTTP server that answers with `name`, followed by the path unless that is `/`.
    ///
    /// # Errors
    /// The address is taken, or is not private.
    pub async fn member(&self, address: &str, port: u16, name: &str) -> anyhow::Result<()> {
        self.ask(&json!({"do": "member", "address": address, "port": port, "name": name})).await.map(drop)
    }

    /// Ends a member, with its connections.
    ///
    /// # Errors
    /// There is none.
    pub async fn stop_member(&self, address: &str, port: u16) -> anyhow::Result<()> {
        self.ask(&json!({"do": "no-member", "address": address, "port": port})).await.map(drop)
    }

    /// Sends one request, from `source` if that is given.
    ///
    /// # Errors
    /// The data plane does not run.
    pub async fn get(&self, address: &str, port: u16, source: Option<&str>) -> anyhow::Result<Got> {
        let answer = self.ask(&json!({"do": "get", "address": address, "port": port, "source": source})).await?;
        if let Some(why) = answer["failed"].as_str() {
            return Ok(Got::Nothing(why.to_owned()));
        }
        let status = answer["status"].as_u64().and_then(|status| u16::try_from(status).ok());
        let body = answer["body"].as_str().unwrap_or_default().to_owned();
        Ok(Got::Answer(status.with_context(|| format!("an answer without a status: {answer}"))?, body))
    }

    /// Sends one request from `source`, and returns the address that the member takes for the client's: the one that the
    /// PROXY protocol or `X-Forwarded-For` names, else the one that the connection comes from.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub async fn client_seen(&self, address: &str, port: u16, source: &str) -> anyhow::Result<String> {
        let question = json!({"do": "get", "address": address, "port": port, "source": source, "path": "/client"});
        Ok(self.reply(question).await?.body)
    }

    /// Sends one request with this `Host` header (`None`: without one, in HTTP/1.0) for this path, as it is written.
    ///
    /// # Errors
    /// Nothing answers, or the data plane does not run.
    pub async fn request(&self, address: &str, port: u16, host: Option<&str>, path: &str) -> anyhow::Result<Reply> {
        self.reply(json!({"do": "get", "address": address, "port": port, "path": path, "headers": {"Host": host}}))
            .await
    }

    /// Sends one request over TLS to this host: its name is that of the server (SNI) and of the request. Any certificate will do.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub async fn request_tls(&self, address: &str, port: u16, host: &str, path: &str) -> anyhow::Result<Reply> {
        self.reply(json!({"do": "get", "address": address, "port": port, "path": path, "tls": host})).await
    }

    /// Sends one request.
    ///
    /// # Errors
    /// Nothing answers, the certificate is not as asked for, or the data plane does not run.
    pub async fn send(&self, address: &str, port: u16, request: &ClientRequest<'_>) -> anyhow::Result<Reply> {
        let ClientRequest { method, host, path, tls, authority } = *request;
        self.reply(json!({
            "do": "get", "address": address, "port": port, "method": method, "path": path, "headers": {"Host": host},
            "tls": tls, "ca": authority,
        }))
        .await
    }

    async fn reply(&self, question: Value) -> anyhow::Result<Reply> {
        let answer = self.ask(&question).await?;
        if let Some(why) = answer["failed"].as_str() {
            anyhow::bail!("{why}");
        }
        let status = answer["status"].as_u64().and_then(|status| u16::try_from(status).ok());
        Ok(Reply {
            status: status.with_context(|| format!("an answer without a status: {answer}"))?,
            body: answer["body"].as_str().unwrap_or_default().to_owned(),
            location: answer["location"].as_str().map(str::to_owned),
            arrived: answer["arrived"].as_str().map(str::to_owned),
            certificate: answer["certificate"].as_str().map(str::to_owned),
        })
    }

    /// Starts a client, under a name, that sends a request each `every`, each on a connection of its own, whether or not
    /// those before are answered. It waits while there are 25 of these.
    ///
    /// # Errors
    /// The data plane does not run.
    pub async fn client(&self, name: &str, address: &str, port: u16, every: Duration) -> anyhow::Result<()> {
        let every = every.as_secs_f64();
        let question = json!({"do": "client", "name": name, "address": address, "port": port, "every": every});
        self.ask(&question).await.map(drop)
    }

    /// The same from `source`.
    ///
    /// # Errors
    /// The data plane does not run.
    pub async fn client_from(
        &self,
        source: &str,
        name: &str,
        (address, port): (&str, u16),
        every: Duration,
    ) -> anyhow::Result<()> {
        let every = every.as_secs_f64();
        let question =
            json!({"do": "client", "name": name, "address": address, "port": port, "every": every, "source": source});
        self.ask(&question).await.map(drop)
    }

    /// Starts a client, under a name, that keeps its connection, and sends the next request on it `every` after the one
    /// before, or when that is answered. Where the connection ends, that is a request that fails, and the next one begins another.
    ///
    /// # Errors
    /// The data plane does not run.
    pub async fn kept_client(&self, name: &str, address: &str, port: u16, every: Duration) -> anyhow::Result<()> {
        let every = every.as_secs_f64();
        let question =
            json!({"do": "client", "name": name, "address": address, "port": port, "every": every, "kept": true});
        self.ask(&question).await.map(drop)
    }

    /// As [`Self::client`] over TLS, to this host.
    ///
    /// # Errors
    /// The data plane does not run.
    pub async fn tls_client(
        &self,
        name: &str,
        (address, port): (&str, u16),
        host: &str,
        every: Duration,
    ) -> anyhow::Result<()> {
        let every = every.as_secs_f64();
        let question =
            json!({"do": "client", "name": name, "address": address, "port": port, "every": every, "tls": host});
        self.ask(&question).await.map(drop)
    }

    /// Returns what a client has got so far.
    ///
    /// # Errors
    /// There is none.
    pub async fn traffic(&self, client: &str) -> anyhow::Result<Traffic> {
        Ok(serde_json::from_value(self.ask(&json!({"do": "tally", "name": client, "end": false})).await?)?)
    }

    /// Ends a client, waits for the answers that it expects, and returns what it got.
    ///
    /// # Errors
    /// There is none.
    pub async fn stop_client(&self, client: &str) -> anyhow::Result<Traffic> {
        Ok(serde_json::from_value(self.ask(&json!({"do": "tally", "name": client, "end": true})).await?)?)
    }

    /// Returns the configuration that a load balancer's haproxy serves, given the ID; `None` if it serves nothing.
    ///
    /// # Errors
    /// The data plane does not run.
    pub async fn config(&self, balancer: &str) -> anyhow::Result<Option<String>> {
        let answer = self.ask(&json!({"do": "config", "id": balancer})).await?;
        Ok(answer["config"].as_str().map(str::to_owned))
    }

    async fn ask(&self, question: &Value) -> anyhow::Result<Value> {
        ask(&self.control, question).await
    }
}

async fn ask(control: &Path, question: &Value) -> anyhow::Result<Value> {
    let mut stream = UnixStream::connect(control).await.context("the data plane does not listen")?;
    stream.write_all(format!("{question}\n").as_bytes()).await?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).await?;
    let answer: Value = serde_json::from_str(&line).with_context(|| format!("the data plane says {line:?}"))?;
    match answer["error"].as_str() {
        Some(error) => anyhow::bail!("the data plane says {error}"),
        None => Ok(answer),
    }
}
