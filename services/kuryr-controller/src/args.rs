//! The command line: a stable interface, others script against it.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Parser};
use gimbal_discoverer::{AgentArgs, TraceArgs};
use gimbal_kubernetes_client::Access;
use gimbal_kuryr_controller_core::KuryrSettings;
use gimbal_kuryr_resource::NamespacePatterns;
use gimbal_kuryr_router_core::RouterSettings;
use gimbal_kuryr_translate::{ControllerSettings, IngressSettings};
use gimbal_lease::Times;
use gimbal_model::{BackendName, LoadBalancerClass, NamespaceName, NamespacePattern};
use gimbal_runtime::{HumanDuration, LogFormat, TlsArgs};

/// Makes a KuryrLoadBalancer for each Service of its cluster and streams it to gimbal-openstack-writer, which makes the load
/// balancer. Holds no OpenStack credentials.
#[derive(Debug, Clone, Parser)]
#[command(name = "gimbal-kuryr-controller", version)]
pub struct Args {
    /// Name of the cluster: lower-case letters, digits and '-'
    #[arg(long, env = "GIMBAL_CLUSTER_NAME")]
    pub(crate) cluster_name: BackendName,
    /// Credentials of the cluster [default: $KUBECONFIG, else the pod's service account, else ~/.kube/config]
    #[arg(long, env = "GIMBAL_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// gimbal-openstack-writer, as https://host:port; plain http only on loopback. Without it nothing is streamed and no
    /// finalizer is set: a dry run to inspect
    #[arg(long, env = "GIMBAL_WRITER", value_name = "URL,...", value_delimiter = ',')]
    pub(crate) writer: Vec<String>,
    /// For the writer, and for --listen.
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    /// Where InspectionService is served: without TLS on loopback, elsewhere with client certificates
    #[arg(long, env = "GIMBAL_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:7446")]
    pub(crate) listen: SocketAddr,
    /// Where /metrics, /healthz, /livez and /readyz are served
    #[arg(long, env = "GIMBAL_ADMIN_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:7483")]
    pub(crate) admin_listen: SocketAddr,
    /// The loadBalancerClass that is served beside Services without one
    #[arg(long, env = "GIMBAL_LOAD_BALANCER_CLASS", value_name = "CLASS")]
    pub(crate) load_balancer_class: Option<LoadBalancerClass>,
    /// Whether Services of type ClusterIP get load balancers: not where kube-proxy or another one serves cluster IPs
    #[arg(long, env = "GIMBAL_CLUSTER_IP_SERVICES", value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    pub(crate) cluster_ip_services: bool,
    /// Make a load balancer only once there are endpoints for it
    #[arg(long, env = "GIMBAL_REQUIRE_ENDPOINTS", action = ArgAction::SetTrue)]
    pub(crate) require_endpoints: bool,
    /// Serve Ingresses, where openstack-writer has leave for that (enable_ingress)
    #[arg(long, env = "GIMBAL_INGRESS", action = ArgAction::SetTrue)]
    pub(crate) ingress: bool,
    /// Namespaces in which load balancers are made, '*' stands for any run of characters [default: all]. One that exists is
    /// served until its Service goes, wherever it is
    #[arg(long, env = "GIMBAL_NAMESPACES", value_name = "PATTERN,...", value_delimiter = ',')]
    pub(crate) namespaces: Vec<NamespacePattern>,
    /// Namespaces in which none are made; outranks --namespaces
    #[arg(long, env = "GIMBAL_EXCLUDE_NAMESPACES", value_name = "PATTERN,...", value_delimiter = ',')]
    pub(crate) exclude_namespaces: Vec<NamespacePattern>,
    /// Namespace of the Lease; by default the pod's own, else kube-system
    #[arg(long, env = "GIMBAL_NAMESPACE", value_name = "NS")]
    pub(crate) namespace: Option<NamespaceName>,
    /// Whether several controllers agree on one by a Lease
    #[arg(long, env = "GIMBAL_LEADER_ELECTION", value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    pub(crate) leader_election: bool,
    /// How long the Lease lasts without a renewal, in whole seconds: so long a leader that died is missed
    #[arg(long, env = "GIMBAL_LEASE_DURATION", value_name = "DURATION", default_value = "3s")]
    pub(crate) lease_duration: HumanDuration,
    /// Writes to the cluster under way side by side
    #[arg(long, env = "GIMBAL_WRITE_CONCURRENCY", value_name = "N", default_value_t = 16,
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) write_concurrency: u16,
    /// The status page at /status of --admin-listen, where that is not on loopback, too
    #[arg(long, env = "GIMBAL_STATUS_PAGE")]
    pub(crate) status_page: bool,
    /// Names under which the status page is reached, beside localhost and addresses: those of a Service, or of a proxy
    #[arg(long, env = "GIMBAL_STATUS_PAGE_HOSTS", value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) status_page_hosts: Vec<String>,
    /// Threads to work with
    #[arg(long, env = "GIMBAL_WORKER_THREADS", value_name = "N", default_value = "1")]
    pub(crate) worker_threads: NonZeroUsize,
    /// Form of the log
    #[arg(long, env = "GIMBAL_LOG_FORMAT", value_name = "text|json", default_value = "text")]
    pub(crate) log_format: LogFormat,
    #[command(flatten)]
    pub(crate) traces: TraceArgs,
}

/// File in which a pod finds its own namespace.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

impl Args {
    /// Form of the log.
    #[must_use]
    pub fn log_format(&self) -> LogFormat {
        self.log_format
    }

    /// Threads to work with.
    #[must_use]
    pub fn worker_threads(&self) -> NonZeroUsize {
        self.worker_threads
    }

    /// Returns the flags that every agent has.
    pub(crate) fn agent(&self) -> AgentArgs {
        AgentArgs {
            backend_name: self.cluster_name.clone(),
            writer: self.writer.clone(),
            tls: self.tls.clone(),
            listen: self.listen,
            admin_listen: self.admin_listen,
            status_page: self.status_page,
            status_page_hosts: self.status_page_hosts.clone(),
            worker_threads: self.worker_threads,
            log_format: self.log_format,
        }
    }

    /// Returns which Services get a load balancer.
    pub(crate) fn settings(&self) -> KuryrSettings {
        KuryrSettings {
            services: ControllerSettings {
                load_balancer_class: self.load_balancer_class.as_ref().map(|class| class.as_str().into()),
                cluster_ip_services: self.cluster_ip_services,
                require_endpoints: self.require_endpoints,
            },
            namespaces: self.patterns(),
            has_writer: !self.writer.is_empty(),
        }
    }

    /// Returns where routers for Ingresses are, if Ingresses are served. The shared one is in the namespace of the controller.
    pub(crate) fn router_settings(&self) -> Option<RouterSettings> {
        let ingresses = || IngressSettings::in_namespace(self.own_namespace());
        self.ingress.then(|| RouterSettings { ingresses: ingresses(), namespaces: self.patterns() })
    }

    fn patterns(&self) -> NamespacePatterns {
        let texts = |patterns: &[NamespacePattern]| patterns.iter().map(|pattern| pattern.as_str().into()).collect();
        NamespacePatterns { only: texts(&self.namespaces), except: texts(&self.exclude_namespaces) }
    }

    /// Returns how to reach the cluster.
    pub(crate) fn access(&self) -> Access {
        self.kubeconfig.clone().map_or(Access::Default, Access::Kubeconfig)
    }

    /// Returns the times of the Lease. The error is one line that names the flag.
    ///
    /// # Errors
    /// When no Lease can have the duration.
    pub(crate) fn lease_times(&self) -> Result<Times, String> {
        let duration: Duration = self.lease_duration.into();
        if (Times::SHORTEST..=Times::LONGEST).contains(&duration) && duration.subsec_nanos() == 0 {
            return Ok(Times::new(duration));
        }
        Err(format!("--lease-duration {}: whole seconds from 2s to 1h", self.lease_duration))
    }

    /// Returns the namespace of the Lease.
    pub(crate) fn own_namespace(&self) -> String {
        let own = || match std::fs::read_to_string(POD_NAMESPACE) {
            Ok(namespace) if self.kubeconfig.is_none() && !namespace.trim().is_empty() => namespace.trim().to_owned(),
            _ => "kube-system".to_owned(),
        };
        self.namespace.as_ref().map_or_else(own, ToString::to_string)
    }
}

#[cfg(test)]
mod tests {
    use gimbal_discoverer::original_flags::flags_without_variable;

    use super::*;

    fn args(flags: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from(["x", "--cluster-name", "prod1"].iter().chain(flags))
    }

    #[test]
    fn defaults_are_those_that_are_documented() {
        let args = args(&[]).unwrap();
        assert_eq!(
            (args.listen.to_string(), args.admin_listen.to_string()),
            ("127.0.0.1:7446".into(), "127.0.0.1:7483".into())
        );
        assert_eq!((args.settings(), args.router_settings()), (KuryrSettings::default(), None));
        assert!(args.leader_election && args.writer.is_empty());
        assert_eq!(args.lease_times(), Ok(Times::new(Duration::from_secs(3))));
    }

    #[test]
    fn flags_say_which_services_are_served() {
        let flags = [
            "--load-balancer-class",
            "c",
            "--cluster-ip-services",
            "false",
            "--require-endpoints",
            "--namespaces",
            "a,b-*",
            "--exclude-namespaces",
            "b-c",
            "--ingress",
            "--namespace",
            "gimbal",
        ];
        let args = args(&flags).unwrap();
        let routers = args.router_settings().unwrap();
        assert_eq!(routers.ingresses.shared.to_string(), "gimbal/kuryr-l7-router");
        let settings = args.settings();
        assert_eq!(routers.namespaces, settings.namespaces);
        assert_eq!(settings.services.load_balancer_class.as_deref(), Some("c"));
        assert!(!settings.services.cluster_ip_services && settings.services.require_endpoints);
        assert_eq!(["a", "b-x", "b-c", "d"].map(|name| settings.namespaces.contains(name)), [true, true, false, false]);
    }

    #[test]
    fn what_is_refused_names_the_flag() {
        for flags in [
            ["--cluster-name", "B"],
            ["--listen", "x"],
            ["--cluster-ip-services", "maybe"],
            ["--log-format", "xml"],
            ["--load-balancer-class", "bad class!"],
            ["--namespace", "Bad_NS"],
            ["--namespaces", "team-"],
            ["--write-concurrency", "0"],
            ["--write-concurrency", "18446744073709551615"],
        ] {
            let error = Args::try_parse_from(["x"].iter().chain(&flags)).unwrap_err().to_string();
            assert!(error.contains(flags[0]) && error.contains(flags[1]), "{error}");
        }
        let error = args(&["--lease-duration", "1500ms"]).unwrap().lease_times().unwrap_err();
        assert!(error.starts_with("--lease-duration 1s500ms"), "{error}");
    }

    #[test]
    fn every_flag_has_a_variable() {
        assert_eq!(flags_without_variable::<Args>(), Vec::<String>::new());
    }
}
