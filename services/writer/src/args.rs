//! The command line: a stable interface (docs/design.md#command-lines). Every flag has an environment variable.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use gimbal_kubernetes_client::Access;
use gimbal_model::NamespaceName;
use gimbal_plan::EndpointsApi;
use gimbal_runtime::{Exit, at_least};

use gimbal_lease::Times;
use gimbal_schedule::LimiterSettings;

use crate::publish::{Advertised, PublishedService};

/// Reconciles what discovery agents stream to it into the Gimbal cluster. The only process with that cluster's
/// credentials.
#[derive(Debug, Clone, Parser)]
#[command(name = "gimbal-writer", version)]
pub struct Args {
    /// Configuration file: administrators, what is refused to all, and backends with their identities and policies.
    #[arg(long, env = "GIMBAL_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where backends are named: file (--config), or objects (of the kind Backend, in the Gimbal cluster).
    #[arg(long, env = "GIMBAL_BACKENDS", value_name = "WHERE", default_value = "file")]
    pub backends: BackendsIn,
    /// Kubeconfig of the Gimbal cluster; without it the pod's own service account.
    #[arg(long, alias = "gimbal-kubecfg-file", env = "GIMBAL_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Address for agents and inspection.
    #[arg(long, env = "GIMBAL_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:7443")]
    pub listen: SocketAddr,
    /// Address for metrics and health.
    #[arg(long, env = "GIMBAL_ADMIN_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:7480")]
    pub admin_listen: SocketAddr,
    /// The status page at /status of --admin-listen, where that is not on loopback, too: whoever reaches it sees every
    /// backend.
    #[arg(long, env = "GIMBAL_STATUS_PAGE")]
    pub status_page: bool,
    /// Names under which the status page is reached, beside localhost and addresses: those of a Service, or of a proxy.
    #[arg(long, env = "GIMBAL_STATUS_PAGE_HOSTS", value_name = "NAME,...", value_delimiter = ',')]
    pub status_page_hosts: Vec<String>,
    /// For agents and inspection.
    #[command(flatten)]
    pub tls: gimbal_runtime::TlsArgs,
    /// No TLS. On loopback only.
    #[arg(long, env = "GIMBAL_PLAINTEXT")]
    pub plaintext: bool,
    /// Which objects hold endpoints: endpointslices, endpoints (the older API) or both.
    #[arg(long, env = "GIMBAL_ENDPOINTS_API", value_name = "API", default_value = "endpointslices")]
    pub endpoints_api: EndpointsApi,
    /// Most writes a second; 0: as many as the API server takes.
    // A negative number is a wrong value of this flag, not an unknown flag of its own.
    #[arg(long, env = "GIMBAL_WRITE_QPS", value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub write_qps: u32,
    /// Most writes under way side by side.
    #[arg(long, alias = "num-threads", env = "GIMBAL_WRITE_CONCURRENCY", value_name = "N", default_value_t = 32,
          allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub write_concurrency: u32,
    /// What a write may take before fewer go side by side; 0s: any time.
    #[arg(long, env = "GIMBAL_WRITE_LATENCY_TARGET", value_name = "DURATION", default_value = "500ms")]
    pub write_latency_target: gimbal_runtime::HumanDuration,
    /// Most bytes a second that the API server has to send to those who watch what is written: the size of each object
    /// times --watchers; 0: any number.
    #[arg(long, env = "GIMBAL_WRITE_FANOUT", value_name = "BYTES", default_value_t = 0, allow_negative_numbers = true)]
    pub write_fanout: u64,
    /// How many watch the Services and EndpointSlices that are written; for --write-fanout.
    #[arg(long, env = "GIMBAL_WATCHERS", value_name = "N", default_value_t = 1, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub watchers: u32,
    /// How long a change of a Service's slices may wait to be written with later ones, counted from the last write of the Service; the
    /// first change after that time does not wait. 0s: none waits.
    #[arg(long, env = "GIMBAL_ENDPOINTSLICE_UPDATES_BATCH_PERIOD", value_name = "DURATION", default_value = "0s")]
    pub endpointslice_updates_batch_period: gimbal_runtime::HumanDuration,
    /// Namespace of the Lease and of what is kept for each backend; by default the pod's own, else kube-system.
    #[arg(long, env = "GIMBAL_NAMESPACE", value_name = "NS")]
    pub namespace: Option<NamespaceName>,
    /// Whether several writers agree on one by a Lease.
    #[arg(long, env = "GIMBAL_LEADER_ELECTION", value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub leader_election: bool,
    /// How long the Lease lasts without a renewal, in whole seconds: so long a leader that died is missed. Its holder
    /// writes for two thirds of it, and renews it after one; 3s suits an API server that answers within two seconds.
    #[arg(long, env = "GIMBAL_LEASE_DURATION", value_name = "DURATION", default_value = "3s")]
    pub lease_duration: gimbal_runtime::HumanDuration,
    /// Service without a selector, as namespace/name, whose only endpoint the leader is: one address in front of all replicas then
    /// leads to it. Needs --advertise.
    #[arg(long, env = "GIMBAL_PUBLISH", value_name = "NS/NAME", requires = "advertise")]
    pub publish: Option<PublishedService>,
    /// Where other machines reach this process, for --publish; without a port: that of --listen.
    #[arg(long, env = "GIMBAL_ADVERTISE", value_name = "IP[:PORT]")]
    pub advertise: Option<Advertised>,
    /// How long agents have to come back to a writer that begins to lead before anything new follows from their absence
    /// (onLoss).
    #[arg(long, env = "GIMBAL_LOSS_GRACE", value_name = "DURATION", default_value = "30s")]
    pub loss_grace: gimbal_runtime::HumanDuration,
    /// How often everything is compared, though no comparison should ever find anything; at least 1s.
    #[arg(long, env = "GIMBAL_COMPARISON_INTERVAL", value_name = "DURATION", default_value = "5m")]
    pub comparison_interval: gimbal_runtime::HumanDuration,
    /// Threads to work with: one takes the least time for the same work, and is enough for thousands of writes a
    /// second.
    #[arg(long, env = "GIMBAL_WORKER_THREADS", value_name = "N", default_value = "1")]
    pub worker_threads: NonZeroUsize,
    /// Form of the log on standard error.
    #[arg(long, env = "GIMBAL_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    pub log_format: gimbal_runtime::LogFormat,
    /// Of changes that agents trace.
    #[command(flatten)]
    pub otlp: gimbal_traces::OtlpArgs,
}

/// Where backends are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum BackendsIn {
    /// In the configuration file.
    File,
    /// Each is an object in the Gimbal cluster. The file has the rest, if there is one.
    Objects,
}

/// Shortest time between comparisons. Below it nothing else would be done.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time that a change may wait for others: so long requests may go to what is not there.
const LONGEST_BATCH: Duration = Duration::from_secs(10);

/// File in which a pod finds its own namespace.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

impl Args {
    /// Returns how to reach the Gimbal cluster.
    #[must_use]
    pub fn access(&self) -> Access {
        match &self.kubeconfig {
            Some(path) => Access::Kubeconfig(path.clone()),
            None => Access::InCluster,
        }
    }

    /// Returns the limits on writes.
    #[must_use]
    pub fn limits(&self) -> LimiterSettings {
        LimiterSettings {
            concurrency: self.write_concurrency,
            latency_target: self.write_latency_target.into(),
            qps: self.write_qps,
            fanout: self.write_fanout,
            watchers: self.watchers,
        }
    }

    /// Checks the flags beyond their syntax.
    ///
    /// # Errors
    /// Returns one line that names the flag if a duration is shorter than it may be.
    pub fn check(&self) -> Result<(), Exit> {
        at_least("comparison-interval", self.comparison_interval, SHORTEST_INTERVAL).map_err(Exit::Usage)?;
        let period = self.endpointslice_updates_batch_period;
        match Duration::from(period) <= LONGEST_BATCH {
            true => Ok(()),
            false => Err(Exit::Usage(format!("--endpointslice-updates-batch-period {period}: at most 10s"))),
        }
    }

    /// Returns the times of the Lease.
    ///
    /// # Errors
    /// Returns an error if no Lease can have the duration.
    pub fn lease_times(&self) -> Result<Times, Exit> {
        let duration: Duration = self.lease_duration.into();
        if (Times::SHORTEST..=Times::LONGEST).contains(&duration) && duration.subsec_nanos() == 0 {
            return Ok(Times::new(duration));
        }
        Err(Exit::Usage(format!("--lease-duration {}: whole seconds from 2s to 1h", self.lease_duration)))
    }

    /// Returns the namespace of the Lease and of the stored state.
    #[must_use]
    pub fn own_namespace(&self) -> String {
        let own = || match std::fs::read_to_string(POD_NAMESPACE) {
            Ok(namespace) if self.kubeconfig.is_none() && !namespace.trim().is_empty() => namespace.trim().to_owned(),
            _ => "kube-system".to_owned(),
        };
        self.namespace.as_ref().map_or_else(own, ToString::to_string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(flags: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from(["x"].iter().chain(flags))
    }

    #[test]
    fn what_is_refused_names_the_flag() {
        assert_eq!(args(&[]).unwrap().check(), Ok(()));
        assert_eq!(args(&["--namespace", "gimbal"]).unwrap().own_namespace(), "gimbal");
        let error = args(&["--namespace", "Bad_NS"]).unwrap_err().to_string();
        assert!(error.contains("--namespace") && error.contains("\"Bad_NS\" is no namespace"), "{error}");
        let error = args(&["--comparison-interval", "1ms"]).unwrap().check().unwrap_err().to_string();
        assert_eq!(error, "--comparison-interval 1ms: is too short, use at least 1s");
    }
}
