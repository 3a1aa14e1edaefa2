//! The command line: a stable interface, others script against it.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Parser};
use gimbal_kubernetes_client::Access;
use gimbal_lease::Times;
use gimbal_model::NamespaceName;
use gimbal_operator_core::{DiscovererTraces, OperatorSettings, PullPolicy};
use gimbal_runtime::{Exit, HumanDuration, LogFormat, at_least};

/// Runs a discoverer in the Gimbal cluster for each Backend that names a source: its pod, its account, its network policy and its
/// certificate.
#[derive(Debug, Clone, Parser)]
#[command(name = "gimbal-operator", version)]
pub struct Args {
    /// Credentials of the Gimbal cluster [default: $KUBECONFIG, else the pod's service account, else ~/.kube/config]
    #[arg(long, env = "GIMBAL_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Namespace of discoverers, of the Secrets that their sources name, and of the Lease; by default the pod's own, else
    /// gimbal-discovery
    #[arg(long, env = "GIMBAL_NAMESPACE", value_name = "NS")]
    pub(crate) namespace: Option<NamespaceName>,
    /// The writer that discoverers dial, as https://host:port
    #[arg(long, env = "GIMBAL_WRITER", value_name = "URL,...", value_delimiter = ',', required = true,
        value_parser = writer_url)]
    pub(crate) writer: Vec<String>,
    /// Image of gimbal-kubernetes-discoverer
    #[arg(long, env = "GIMBAL_KUBERNETES_DISCOVERER_IMAGE", value_name = "IMAGE", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) kubernetes_discoverer_image: String,
    /// Image of gimbal-openstack-discoverer
    #[arg(long, env = "GIMBAL_OPENSTACK_DISCOVERER_IMAGE", value_name = "IMAGE", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) openstack_discoverer_image: String,
    /// When nodes ask the registry for these: IfNotPresent, Always or Never
    #[arg(long, env = "GIMBAL_IMAGE_PULL_POLICY", value_name = "POLICY", default_value = "IfNotPresent",
        value_parser = pull_policy)]
    pub(crate) image_pull_policy: PullPolicy,
    /// Secrets with credentials of the registry
    #[arg(long, env = "GIMBAL_IMAGE_PULL_SECRETS", value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) image_pull_secrets: Vec<String>,
    /// What identities begin with: a Backend gets a certificate if its identity is this and its name, for instance
    /// spiffe://gimbal.example/backend/
    #[arg(long, env = "GIMBAL_IDENTITY_PREFIX", value_name = "URI", value_parser = identity_prefix)]
    pub(crate) identity_prefix: String,
    /// Secret of the authority that signs certificates, with ca.crt and ca.key
    #[arg(long, env = "GIMBAL_AUTHORITY_SECRET", value_name = "NAME", default_value = "gimbal-authority",
        value_parser = NonEmptyStringValueParser::new())]
    pub(crate) authority_secret: String,
    /// How long a certificate lasts; the next one is signed when a third is left
    #[arg(long, env = "GIMBAL_CERTIFICATE_DURATION", value_name = "DURATION", default_value = "90d")]
    pub(crate) certificate_duration: HumanDuration,
    /// Whether each discoverer gets a network policy
    #[arg(long, env = "GIMBAL_NETWORK_POLICIES", value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    pub(crate) network_policies: bool,
    /// Namespace whose pods may ask discoverers for metrics
    #[arg(long, env = "GIMBAL_MONITORING_NAMESPACE", value_name = "NS", default_value = "monitoring")]
    pub(crate) monitoring_namespace: NamespaceName,
    /// Ports of the API servers of sources
    #[arg(
        long,
        env = "GIMBAL_API_SERVER_PORTS",
        value_name = "PORT,...",
        value_delimiter = ',',
        default_value = "443,6443"
    )]
    pub(crate) api_server_ports: Vec<u16>,
    /// Ports of Keystone, Octavia and Neutron
    #[arg(
        long,
        env = "GIMBAL_OPENSTACK_PORTS",
        value_name = "PORT,...",
        value_delimiter = ',',
        default_value = "443,5000,9876,9696"
    )]
    pub(crate) openstack_ports: Vec<u16>,
    /// OpenTelemetry collector to which discoverers send traces of sampled changes, by OTLP over gRPC: http://host:port or
    /// https://host:port [default: no traces]
    #[arg(long, env = "GIMBAL_OTLP_ENDPOINT", value_name = "URL", value_parser = collector_url)]
    pub(crate) otlp_endpoint: Option<String>,
    /// Share of the changes that discoverers trace, from 0 to 1; for --otlp-endpoint
    #[arg(long, env = "GIMBAL_TRACE_RATIO", value_name = "RATIO", default_value = "0.01", value_parser = ratio,
          allow_negative_numbers = true)]
    pub(crate) trace_ratio: f64,
    /// Where /metrics, /healthz, /livez and /readyz are served
    #[arg(long, env = "GIMBAL_ADMIN_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:7484")]
    pub(crate) admin_listen: SocketAddr,
    /// Whether several operators agree on one by a Lease
    #[arg(long, env = "GIMBAL_LEADER_ELECTION", value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    pub(crate) leader_election: bool,
    /// How long the Lease lasts without a renewal, in whole seconds: so long a leader that died is missed
    #[arg(long, env = "GIMBAL_LEASE_DURATION", value_name = "DURATION", default_value = "15s")]
    pub(crate) lease_duration: HumanDuration,
    /// Threads to work with
    #[arg(long, env = "GIMBAL_WORKER_THREADS", value_name = "N", default_value = "1")]
    pub worker_threads: NonZeroUsize,
    /// Form of the log
    #[arg(long, env = "GIMBAL_LOG_FORMAT", value_name = "text|json", default_value = "text")]
    pub(crate) log_format: LogFormat,
}

/// File in which a pod finds its own namespace.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// The shortest time of a certificate: kubelets take a minute to bring the next one into a pod.
const SHORTEST_CERTIFICATE: Duration = Duration::from_secs(3600);

fn writer_url(text: &str) -> Result<String, String> {
    match text.strip_prefix("https://").is_some_and(is_host_and_port) {
        true => Ok(text.to_owned()),
        false => Err("write it as https://host:port".into()),
    }
}

fn collector_url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match rest.is_some_and(is_host_and_port) {
        true => Ok(text.to_owned()),
        false => Err("write it as http://host:port or https://host:port".into()),
    }
}

/// The port must be there, for network policies name it.
fn is_host_and_port(text: &str) -> bool {
    let parts = text.rsplit_once(':');
    parts.is_some_and(|(host, port)| !host.is_empty() && !host.contains(['@', '/']) && port.parse::<u16>().is_ok())
}

fn ratio(text: &str) -> Result<f64, &'static str> {
    let ratio: f64 = text.parse().map_err(|_| "it is no number")?;
    if (0.0..=1.0).contains(&ratio) { Ok(ratio) } else { Err("it is not between 0 and 1") }
}

fn identity_prefix(text: &str) -> Result<String, String> {
    // With a name alone after the domain, a Backend named admin could have the identity of an administrator.
    let has_path = |rest: &str| {
        rest.split_once('/').is_some_and(|(domain, path)| !domain.is_empty() && !path.trim_matches('/').is_empty())
    };
    let is_uri = text.split_once("://").is_some_and(|(scheme, rest)| !scheme.is_empty() && has_path(rest));
    // Else the identity of one backend could be that of another one.
    if is_uri && text.ends_with('/') && text.chars().all(|c| c.is_ascii_graphic()) {
        return Ok(text.to_owned());
    }
    Err("write a URI with a path that ends with '/', for instance spiffe://gimbal.example/backend/".into())
}

fn pull_policy(text: &str) -> Result<PullPolicy, String> {
    let all = [PullPolicy::IfNotPresent, PullPolicy::Always, PullPolicy::Never];
    let found = all.into_iter().find(|policy| policy.as_str() == text);
    found.ok_or_else(|| "use IfNotPresent, Always or Never".into())
}

impl Args {
    /// Returns what is the same for all discoverers.
    pub(crate) fn settings(&self) -> OperatorSettings {
        OperatorSettings {
            namespace: self.own_namespace(),
            writer: self.writer.clone(),
            kubernetes_image: self.kubernetes_discoverer_image.clone(),
            openstack_image: self.openstack_discoverer_image.clone(),
            pull_policy: self.image_pull_policy,
            pull_secrets: self.image_pull_secrets.clone(),
            identity_prefix: self.identity_prefix.clone(),
            authority_secret: self.authority_secret.clone(),
            network_policies: self.network_policies,
            monitoring_namespace: self.monitoring_namespace.to_string(),
            api_server_ports: self.api_server_ports.clone(),
            openstack_ports: self.openstack_ports.clone(),
            traces: self.otlp_endpoint.clone().map(|endpoint| DiscovererTraces { endpoint, ratio: self.trace_ratio }),
        }
    }

    /// Checks what one flag alone does not show, and returns the times of the Lease.
    ///
    /// # Errors
    /// One line that names the flag.
    pub(crate) fn check(&self) -> Result<Times, Exit> {
        at_least("certificate-duration", self.certificate_duration, SHORTEST_CERTIFICATE).map_err(Exit::Usage)?;
        let duration: Duration = self.lease_duration.into();
        if (Times::SHORTEST..=Times::LONGEST).contains(&duration) && duration.subsec_nanos() == 0 {
            return Ok(Times::new(duration));
        }
        Err(Exit::Usage(format!("--lease-duration {}: whole seconds from 2s to 1h", self.lease_duration)))
    }

    /// Returns how to reach the Gimbal cluster.
    pub(crate) fn access(&self) -> Access {
        self.kubeconfig.clone().map_or(Access::Default, Access::Kubeconfig)
    }

    /// Returns the namespace of discoverers.
    pub(crate) fn own_namespace(&self) -> String {
        let own = || match std::fs::read_to_string(POD_NAMESPACE) {
            Ok(namespace) if self.kubeconfig.is_none() && !namespace.trim().is_empty() => namespace.trim().to_owned(),
            _ => "gimbal-discovery".to_owned(),
        };
        self.namespace.as_ref().map_or_else(own, ToString::to_string)
    }
}

#[cfg(test)]
mod tests {
    use gimbal_discoverer::original_flags::flags_without_variable;

    use super::*;

    const LEAST: [&str; 5] = [
        "x",
        "--writer=https://writer.example:7443",
        "--kubernetes-discoverer-image=k:1",
        "--openstack-discoverer-image=o:1",
        "--identity-prefix=spiffe://gimbal.example/backend/",
    ];

    fn args(flags: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from(LEAST.iter().chain(flags))
    }

    #[test]
    fn every_flag_has_a_variable() {
        assert_eq!(flags_without_variable::<Args>(), Vec::<String>::new());
    }

    #[test]
    fn flags_become_settings() {
        let args = args(&["--namespace", "here", "--image-pull-policy", "Always", "--openstack-ports", "1,2"]).unwrap();
        args.check().unwrap();
        let settings = args.settings();
        assert_eq!((settings.namespace.as_str(), settings.pull_policy), ("here", PullPolicy::Always));
        assert_eq!((settings.openstack_ports, settings.api_server_ports), (vec![1, 2], vec![443, 6443]));
        assert_eq!(args.certificate_duration.0, Duration::from_secs(90 * 86_400));
        assert_eq!(settings.traces, None);
    }

    #[test]
    fn discoverers_send_traces_where_a_collector_is_named() {
        let of = |flags: &[&str]| args(flags).unwrap().settings().traces;
        let traces = |ratio| Some(DiscovererTraces { endpoint: "http://collector:4317".into(), ratio });
        assert_eq!(of(&["--otlp-endpoint=http://collector:4317"]), traces(0.01));
        assert_eq!(of(&["--otlp-endpoint=http://collector:4317", "--trace-ratio=1"]), traces(1.0));
        assert_eq!(of(&["--trace-ratio=1"]), None);
    }

    #[test]
    fn what_is_refused_names_the_flag() {
        for flags in [
            ["--writer", "http://writer:1"],
            ["--writer", "https://writer"],
            ["--identity-prefix", "spiffe://gimbal.example/backend"],
            ["--identity-prefix", "backend/"],
            ["--identity-prefix", "spiffe://gimbal.example/"],
            ["--identity-prefix", "spiffe://gimbal.example//"],
            ["--image-pull-policy", "Sometimes"],
            ["--namespace", "Bad_NS"],
            ["--openstack-ports", "0x1"],
            ["--otlp-endpoint", "collector:4317"],
            ["--otlp-endpoint", "http://collector"],
            ["--trace-ratio", "1.5"],
        ] {
            let least = LEAST.iter().filter(|flag| !flag.starts_with(flags[0]));
            let error = Args::try_parse_from(least.chain(&flags)).unwrap_err().to_string();
            assert!(error.contains(flags[0]), "{error}");
        }
        for flags in [["--lease-duration", "1500ms"], ["--certificate-duration", "59m"]] {
            let error = args(&flags).unwrap().check().unwrap_err().line();
            assert!(error.contains(flags[0]), "{error}");
        }
    }
}
