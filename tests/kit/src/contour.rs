//! Contour and Envoy, which lead requests to the Services of a cluster. They run where there is no network
//! (see [`crate::is_without_network`]), because Envoy sends to whatever address an endpoint has.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;

use crate::assets::{Asset, envoy, go_module};
use crate::{Process, TestCluster};

/// The Gateway that Contour serves: the one of that name among the conformance tests of Gateway API.
pub const GATEWAY: (&str, &str) = ("gateway-conformance-infra", "same-namespace");
/// The class of the Gateway.
const CLASS: &str = "contour";
/// The version of Gateway API whose definitions come with Contour.
const GATEWAY_API: &str = "1.3.0";
/// Where Contour has Envoy listen for the Gateway's port 80.
const HTTP: u16 = 8080;
/// Where Contour serves what Envoy is to do.
pub const DISCOVERY: u16 = 8001;
const READY: &str = "http://127.0.0.1:8002/ready";
const READY_WITHIN: Duration = Duration::from_secs(60);
/// The programs that are built: both clusters', and Contour.
const NEEDED: [Asset; 5] = [Asset::Etcd, Asset::ApiServer, Asset::ControllerManager, Asset::Kubectl, Asset::Contour];
/// What an answer may take.
const ANSWER: Duration = Duration::from_secs(5);
/// What an answer through Envoy may take: longer than the 15 s that Envoy waits for a server, so that Envoy says what was late, and a
/// machine that is busy with other tests fails no request.
const ANSWER_THROUGH: Duration = Duration::from_secs(20);

/// Contour and its Envoy. They end with this value.
pub struct Contour {
    contour: Process,
    envoy: Process,
    admin: reqwest::Client,
    // Removed last.
    _dir: tempfile::TempDir,
}

/// An answer that came through Envoy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvoyAnswer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: String,
}

impl Contour {
    /// Builds and downloads what is needed, where there is a network. Blocks, perhaps for minutes.
    ///
    /// # Errors
    /// Something is missing and cannot be had.
    pub fn prepare() -> anyhow::Result<()> {
        for asset in NEEDED {
            asset.path()?;
        }
        envoy()?;
        examples()?;
        conformance_tests().map(drop)
    }

    /// Installs the definitions and the Gateway in a cluster, and starts both for it.
    ///
    /// # Errors
    /// The cluster refuses something, or a program does not get ready; the message has the end of its log.
    pub async fn start(cluster: &TestCluster) -> anyhow::Result<Self> {
        Self::start_behind(cluster, DISCOVERY).await
    }

    /// As [`Contour::start`], with something between both: Envoy asks at this port what to do, which leads to [`DISCOVERY`].
    ///
    /// # Errors
    /// As [`Contour::start`].
    pub async fn start_behind(cluster: &TestCluster, asks_at: u16) -> anyhow::Result<Self> {
        // Envoy's socket is in it, whose path has to be short.
        let dir = tempfile::Builder::new().prefix("gimbal-contour-").tempdir().context("no temporary folder")?;
        let examples = examples()?;
        for file in ["contour/01-crds.yaml", "gateway/00-crds.yaml"] {
            kubectl(cluster, &["create", "--validate=false", "-f"], &examples.join(file))?;
        }
        run(kubectl_command(cluster)?.args(["wait", "crd", "--all", "--for=condition=Established", "--timeout=30s"]))?;
        for namespace in ["projectcontour", GATEWAY.0] {
            cluster.namespace(namespace).await?;
        }
        // Without its class, Contour leads HTTPProxies through the Gateway, and no route.
        let class = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": CLASS},
            "spec": {"controllerName": "projectcontour.io/gateway-controller"},
        });
        cluster.admin().post("/apis/gateway.networking.k8s.io/v1/gatewayclasses", &class).await?;
        let gateway = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": {"name": GATEWAY.1},
            "spec": {"gatewayClassName": CLASS, "listeners": [{
                "name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "Same"}},
            }]},
        });
        let gateways = format!("/apis/gateway.networking.k8s.io/v1/namespaces/{}/gateways", GATEWAY.0);
        cluster.admin().post(&gateways, &gateway).await?;

        let path = |name: &str| dir.path().join(name);
        let text = |path: PathBuf| path.display().to_string();
        let (config, socket, bootstrap) = (path("contour.yaml"), path("admin.sock"), path("envoy.json"));
        let of_gateway = format!("gateway: {{gatewayRef: {{namespace: {}, name: {}}}}}\n", GATEWAY.0, GATEWAY.1);
        std::fs::write(&config, format!("{of_gateway}accesslog-level: error\n"))?;
        let program = Asset::Contour.path()?;
        let discovery = |port: u16| ["--xds-address=127.0.0.1".to_owned(), format!("--xds-port={port}")];
        let mut make = Command::new(&program);
        make.arg("bootstrap").arg(&bootstrap).arg(format!("--admin-address={}", socket.display()));
        run(make.args(discovery(asks_at)))?;
        let mut args = ["serve", "--insecure", "--disable-leader-election", "--stats-address=127.0.0.1"]
            .map(str::to_owned)
            .to_vec();
        args.extend(discovery(DISCOVERY));
        args.extend([
            format!("--kubeconfig={}", cluster.kubeconfig().display()),
            format!("--config-path={}", config.display()),
            // Its statuses of many routes come at once.
            "--kubernetes-client-qps=1000".to_owned(),
            "--kubernetes-client-burst=1000".to_owned(),
        ]);
        let contour = Process::start("contour", &program, &args, &path("contour.log"))?;
        let args = ["--config-path", &text(bootstrap), "--service-cluster", "contour", "--service-node", "envoy"];
        let args = [&args[..], &["--log-level", "warn", "--concurrency", "2", "--disable-hot-restart"]].concat();
        let args: Vec<String> = args.into_iter().map(str::to_owned).collect();
        let envoy = Process::start("envoy", &envoy()?, &args, &path("envoy.log"))?;
        let admin = reqwest::Client::builder().no_proxy().unix_socket(socket).timeout(ANSWER).build()?;
        let mut started = Self { contour, envoy, admin, _dir: dir };
        let ready = started.envoy.answers(READY, READY_WITHIN).await;
        ready
            .map_err(|error| anyhow::anyhow!("{error:#}; the end of Contour's log:\n{}", started.contour.log_tail()))?;
        Ok(started)
    }

    /// Returns the process IDs of Contour and Envoy.
    #[must_use]
    pub fn ids(&self) -> [u32; 2] {
        [self.contour.id(), self.envoy.id()]
    }

    /// Returns the end of the logs.
    #[must_use]
    pub fn logs(&self) -> String {
        format!("Contour:\n{}\nEnvoy:\n{}", self.contour.log_tail(), self.envoy.log_tail())
    }

    /// Returns the addresses to which Envoy sends requests for a Service, as `address:port`.
    ///
    /// # Errors
    /// Envoy does not answer.
    pub async fn endpoints(&self, namespace: &str, service: &str) -> anyhow::Result<Vec<String>> {
        let mut found = hosts(&self.clusters().await?, namespace, service);
        found.sort();
        Ok(found)
    }

    /// Returns all addresses that Envoy knows, its own servers' among them.
    ///
    /// # Errors
    /// Envoy does not answer.
    pub async fn all_endpoints(&self) -> anyhow::Result<Vec<String>> {
        let clusters = self.clusters().await?;
        let hosts = clusters.lines().filter_map(|line| {
            let (_, host) = line.split_once("::cx_active::")?.0.split_once("::")?;
            Some(host.to_owned())
        });
        Ok(hosts.collect())
    }

    async fn clusters(&self) -> anyhow::Result<String> {
        Ok(self.admin.get("http://envoy/clusters").send().await?.error_for_status()?.text().await?)
    }
}

/// Returns the hosts of a Service in what Envoy says of its clusters. A cluster's own name may be cut, and has a hash.
fn hosts(clusters: &str, namespace: &str, service: &str) -> Vec<String> {
    let of = format!("{namespace}_{service}_");
    let names = clusters.lines().filter_map(|line| line.split_once("::observability_name::"));
    let names: Vec<&str> = names.filter(|(_, shown)| shown.starts_with(&of)).map(|(name, _)| name).collect();
    // An address of IPv6 has the separator in it.
    let host = |line: &str, name: &str| {
        let (host, _) = line.strip_prefix(name)?.strip_prefix("::")?.split_once("::cx_active::")?;
        Some(host.to_owned())
    };
    let lines = clusters.lines();
    lines.filter_map(|line| names.iter().find_map(|name| host(line, name))).collect()
}

/// Sends requests to Envoy. Clones share connections.
#[derive(Debug, Clone)]
pub struct EnvoyClient(reqwest::Client);

impl EnvoyClient {
    /// Creates a client.
    ///
    /// # Errors
    /// There is no TLS library.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self(reqwest::Client::builder().no_proxy().timeout(ANSWER_THROUGH).build()?))
    }

    /// Sends a request for a host and a path.
    ///
    /// # Errors
    /// No answer comes.
    pub async fn get(&self, host: &str, path: &str) -> Result<EnvoyAnswer, reqwest::Error> {
        let answer = self.0.get(format!("http://127.0.0.1:{HTTP}{path}")).header("host", host).send().await?;
        Ok(EnvoyAnswer { status: answer.status().as_u16(), body: answer.text().await? })
    }
}

/// Returns Contour's own examples.
fn examples() -> anyhow::Result<PathBuf> {
    Ok(go_module("github.com/projectcontour/contour", Asset::Contour.version())?.join("examples"))
}

/// Returns the folder with the conformance tests of Gateway API.
///
/// # Errors
/// As [`go_module`].
pub fn conformance_tests() -> anyhow::Result<PathBuf> {
    Ok(go_module("sigs.k8s.io/gateway-api", GATEWAY_API)?.join("conformance/tests"))
}

fn kubectl_command(cluster: &TestCluster) -> anyhow::Result<Command> {
    let mut command = Command::new(Asset::Kubectl.path()?);
    command.arg("--kubeconfig").arg(cluster.kubeconfig());
    Ok(command)
}

/// Runs kubectl with a file.
///
/// # Errors
/// It fails; the message has what it says.
pub fn kubectl(cluster: &TestCluster, args: &[&str], file: &Path) -> anyhow::Result<()> {
    run(kubectl_command(cluster)?.args(args).arg(file))
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let what = format!("{command:?}");
    let out = command.output().with_context(|| format!("cannot run {what}"))?;
    let said = [out.stdout, out.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    anyhow::ensure!(out.status.success(), "{what} failed: {}", said.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_both_families_are_found_by_the_name_that_is_shown() {
        let clusters = "\
            team1/web/80/da39a3ee5e::observability_name::team1_web_80\n\
            team1/web/80/da39a3ee5e::default_priority::max_connections::1024\n\
            team1/web/80/da39a3ee5e::10.77.1.1:8090::cx_active::0\n\
            team1/web/80/da39a3ee5e::10.77.1.1:8090::rq_active::0\n\
            team1/web/80/da39a3ee5e::[fd77::1]:8090::cx_active::2\n\
            team1/web-2/80/da39a3ee5e::observability_name::team1_web-2_80\n\
            team1/web-2/80/da39a3ee5e::10.77.1.2:8090::cx_active::0\n";
        assert_eq!(hosts(clusters, "team1", "web"), ["10.77.1.1:8090", "[fd77::1]:8090"]);
        assert_eq!(hosts(clusters, "team1", "we"), [""; 0]);
    }
}
