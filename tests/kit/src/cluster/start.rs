//! Files and command lines of the two servers.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::{Api, Network, READY_WITHIN, users};
use crate::assets::Asset;
use crate::process::free_port;
use crate::{Pair, Pki, Process, San};

/// Limits the log to what a test may ask about: the API server sends many requests to itself.
const AUDIT_POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted, Panic]
rules:
- {level: None, users: ["system:apiserver"]}
- {level: Metadata}
"#;

/// The servers' programs.
pub(super) struct Tools {
    etcd: PathBuf,
    apiserver: PathBuf,
}

impl Tools {
    /// Finds or builds the programs.
    pub(super) fn find() -> anyhow::Result<Self> {
        Ok(Self { etcd: Asset::Etcd.path()?, apiserver: Asset::ApiServer.path()? })
    }
}

/// Where the servers listen.
pub(super) enum Place {
    /// On this machine's loopback address, without nodes.
    Loopback,
    /// Where nodes reach them.
    Network(Network),
}

impl Place {
    fn address(&self) -> String {
        match self {
            Self::Loopback => "127.0.0.1".to_owned(),
            Self::Network(network) => network.servers(),
        }
    }

    fn certificate(&self, pki: &Pki) -> anyhow::Result<Pair> {
        let Self::Network(network) = self else { return pki.server("apiserver") };
        let (own, service) = (network.servers(), network.api_service());
        pki.issue("apiserver", &[San::Ip(&own), San::Ip(&service), San::Dns("kubernetes.default.svc")])
    }

    /// Returns the options of the API server that depend on whether there are nodes.
    fn options(&self) -> Vec<String> {
        match self {
            Self::Loopback => options(&[
                ("authorization-mode", "RBAC"),
                // It would wait for default ServiceAccounts, and no controller creates them.
                ("disable-admission-plugins", "ServiceAccount"),
                ("service-cluster-ip-range", "10.96.0.0/16,fd00:96::/112"),
                // A loopback address is not valid as an endpoint.
                ("endpoint-reconciler-type", "none"),
            ]),
            Self::Network(network) => options(&[
                ("authorization-mode", "Node,RBAC"),
                ("enable-admission-plugins", "NodeRestriction"),
                ("allow-privileged", "true"),
                ("service-cluster-ip-range", &network.services()),
                ("kubelet-preferred-address-types", "InternalIP"),
            ]),
        }
    }
}

/// Files, ports and command lines of one cluster.
pub(super) struct Layout {
    dir: PathBuf,
    etcd: PathBuf,
    apiserver: PathBuf,
    etcd_args: Vec<String>,
    apiserver_args: Vec<String>,
    pub(super) url: String,
    pub(super) etcd_url: String,
    pub(super) ca: PathBuf,
    pub(super) authority: Pki,
    pub(super) next_authority: Pki,
    serving: Pair,
    pub(super) accounts: Pair,
    pub(super) audit_log: PathBuf,
}

impl Layout {
    /// Chooses ports and writes the files that the servers read.
    pub(super) fn write(dir: &Path, tools: &Tools, place: &Place) -> anyhow::Result<Self> {
        let file = |name: &str| dir.join(name);
        let write = |name: &str, text: &str| {
            std::fs::write(file(name), text).with_context(|| format!("cannot write {name}"))?;
            anyhow::Ok(file(name).display().to_string())
        };
        let pki = Pki::create(file("pki"))?;
        let next = Pki::create(file("pki-next"))?;
        let ca = [&pki, &next].map(|pki| std::fs::read_to_string(pki.ca())).into_iter().collect::<Result<String, _>>();
        let ca = write("authorities.pem", &ca.context("an authority's certificate cannot be read")?)?;
        let serving = place.certificate(&pki)?;
        let accounts = pki.issue("service-accounts", &[])?;
        let (address, port) = (place.address(), free_port()?);
        let etcd_url = format!("http://127.0.0.1:{}", free_port()?);
        let audit_log = file("audit.log");
        // A peer that does not exist needs no known port.
        let peer = "http://127.0.0.1:0";
        let etcd_args = options(&[
            ("data-dir", &file("etcd").display().to_string()),
            ("listen-client-urls", &etcd_url),
            ("advertise-client-urls", &etcd_url),
            ("listen-peer-urls", peer),
            ("initial-advertise-peer-urls", peer),
            ("initial-cluster", &format!("default={peer}")),
            // The data are deleted with the test, so they need not survive a power cut.
            ("unsafe-no-fsync", "true"),
            ("log-level", "warn"),
        ]);
        let mut apiserver_args = options(&[
            ("etcd-servers", &etcd_url),
            ("bind-address", &address),
            ("advertise-address", &address),
            ("secure-port", &port.to_string()),
            ("tls-cert-file", &serving.cert.display().to_string()),
            ("tls-private-key-file", &serving.key.display().to_string()),
            ("client-ca-file", &ca),
            ("token-auth-file", &write("tokens.csv", &users::token_file())?),
            ("service-account-key-file", &accounts.cert.display().to_string()),
            ("service-account-signing-key-file", &accounts.key.display().to_string()),
            ("service-account-issuer", "https://kubernetes.default.svc"),
            ("audit-policy-file", &write("audit-policy.yaml", AUDIT_POLICY)?),
            ("audit-log-path", &audit_log.display().to_string()),
            // In MB. A rotation of the log would lose requests that a test counts.
            ("audit-log-maxsize", "100000"),
        ]);
        apiserver_args.extend(place.options());
        Ok(Self {
            dir: dir.to_owned(),
            etcd: tools.etcd.clone(),
            apiserver: tools.apiserver.clone(),
            etcd_args,
            apiserver_args,
            url: format!("https://{address}:{port}"),
            etcd_url,
            ca: ca.into(),
            authority: pki,
            next_authority: next,
            serving,
            accounts,
            audit_log,
        })
    }

    pub(super) fn start_etcd(&self) -> anyhow::Result<Process> {
        Process::start("etcd", &self.etcd, &self.etcd_args, &self.dir.join("etcd.log"))
    }

    /// Returns the options of etcd that say where its data are, and of which members they are.
    pub(super) fn etcd_member(&self) -> impl Iterator<Item = &String> {
        self.etcd_args.iter().filter(|option| ["--data-dir=", "--initial-"].iter().any(|of| option.starts_with(of)))
    }

    /// Has the API server present a certificate of the next authority: it reloads the files itself.
    pub(super) fn serve_by_next_authority(&self) -> anyhow::Result<()> {
        let Pair { cert, key } = self.next_authority.server("apiserver")?;
        for (new, old) in [(key, &self.serving.key), (cert, &self.serving.cert)] {
            std::fs::copy(new, old).with_context(|| format!("cannot write {}", old.display()))?;
        }
        Ok(())
    }

    pub(super) fn start_apiserver(&self) -> anyhow::Result<Process> {
        let log = self.dir.join("apiserver.log");
        Process::start("kube-apiserver", &self.apiserver, &self.apiserver_args, &log)
    }
}

fn options(pairs: &[(&str, &str)]) -> Vec<String> {
    pairs.iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

/// Waits for `/readyz`; fails at once if the server ends.
pub(super) async fn wait_ready(admin: &Api, apiserver: &mut Process) -> anyhow::Result<()> {
    let wait = crate::eventually("kube-apiserver is ready", READY_WITHIN, async || {
        if let Some(status) = apiserver.exited()? {
            return Ok(Err(anyhow::anyhow!("kube-apiserver ended with {status}")));
        }
        admin.text("/readyz").await?;
        anyhow::Ok(Ok(()))
    });
    let result = wait.await.and_then(|ready| ready);
    result.map_err(|error| anyhow::anyhow!("{error:#}; the end of its log:\n{}", apiserver.log_tail()))
}
