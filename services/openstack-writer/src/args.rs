//! The command line: a stable interface, others script against it.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use gimbal_openstack_client::{CloudCredentials, CredentialsError};
use gimbal_runtime::{HumanDuration, TlsArgs, at_least};

/// Shortest time that a flag takes. Below it OpenStack would be asked without a pause, and no call would end in time.
const SHORTEST: Duration = Duration::from_secs(1);

/// Makes the load balancers that Kubernetes clusters want in OpenStack. The only process with credentials that change
/// OpenStack; it has none of Kubernetes, and keeps nothing on disk.
#[derive(Debug, Clone, Parser)]
#[command(name = "gimbal-openstack-writer", version)]
pub struct Args {
    /// Configuration file: clusters, their identities and what they may have
    #[arg(long, env = "GIMBAL_CONFIG", value_name = "FILE")]
    pub config: PathBuf,
    /// Folder with the keys keystoneUrl, username, password, ... as files, as a mounted Secret is [default: the
    /// variables OS_*]
    #[arg(long, env = "GIMBAL_CREDENTIALS", value_name = "DIR", conflicts_with = "os_cloud")]
    pub credentials: Option<PathBuf>,
    /// Entry of clouds.yaml [default: the variables OS_*, OS_CLOUD among them]
    #[arg(long, env = "GIMBAL_OS_CLOUD", value_name = "NAME")]
    pub os_cloud: Option<String>,
    /// Authorities that sign the cloud's certificates (PEM), instead of those in the credentials
    #[arg(long, env = "GIMBAL_OPENSTACK_CERTIFICATE_AUTHORITY", value_name = "FILE")]
    pub openstack_certificate_authority: Option<PathBuf>,
    /// Address for controllers and inspection
    #[arg(long, env = "GIMBAL_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:7445")]
    pub listen: SocketAddr,
    /// Address for metrics and health
    #[arg(long, env = "GIMBAL_ADMIN_LISTEN", value_name = "ADDR", default_value = "127.0.0.1:7482")]
    pub admin_listen: SocketAddr,
    /// For controllers and inspection
    #[command(flatten)]
    pub tls: TlsArgs,
    /// No TLS, on loopback only: a controller may then say any cluster's name
    #[arg(long, env = "GIMBAL_PLAINTEXT")]
    pub plaintext: bool,
    /// Most changes of OpenStack under way side by side
    #[arg(long, env = "GIMBAL_WRITE_CONCURRENCY", value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=256))]
    pub write_concurrency: u32,
    /// How often what exists is compared with what is wanted; at least 1s
    #[arg(long, env = "GIMBAL_DRIFT_INTERVAL", value_name = "DURATION", default_value = "60s")]
    pub drift_interval: HumanDuration,
    /// How long the owner of a load balancer must be missing before that is removed; at least 1s
    #[arg(long, env = "GIMBAL_ORPHAN_GRACE", value_name = "DURATION", default_value = "10m")]
    pub orphan_grace: HumanDuration,
    /// Plan and show; change nothing in OpenStack
    #[arg(long, env = "GIMBAL_DRY_RUN")]
    pub dry_run: bool,
    /// How long a page of a list may take
    #[arg(long, env = "GIMBAL_LIST_TIMEOUT", value_name = "DURATION", default_value = "60s")]
    pub list_timeout: HumanDuration,
    /// How long any other call may take
    #[arg(long, env = "GIMBAL_CALL_TIMEOUT", value_name = "DURATION", default_value = "60s")]
    pub call_timeout: HumanDuration,
    /// Threads to work with
    #[arg(long, env = "GIMBAL_WORKER_THREADS", value_name = "N", default_value = "1")]
    pub worker_threads: NonZeroUsize,
    /// Form of the log on standard error
    #[arg(long, env = "GIMBAL_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    pub log_format: gimbal_runtime::LogFormat,
    /// Where traces go.
    #[command(flatten)]
    pub otlp: gimbal_traces::OtlpArgs,
}

impl Args {
    /// Checks the flags beyond their syntax. The error is one line that names the flag.
    ///
    /// # Errors
    /// Fails if a duration is shorter than it may be.
    pub fn check(&self) -> Result<(), String> {
        for (flag, duration) in [
            ("drift-interval", self.drift_interval),
            ("orphan-grace", self.orphan_grace),
            ("list-timeout", self.list_timeout),
            ("call-timeout", self.call_timeout),
        ] {
            at_least(flag, duration, SHORTEST)?;
        }
        Ok(())
    }

    /// Reads the credentials from the files or variables as they are now.
    ///
    /// # Errors
    /// Names the flag, and the file or variable.
    pub fn read_credentials(&self) -> Result<CloudCredentials, String> {
        let (flag, read) = self.credentials_of();
        let read = match &self.openstack_certificate_authority {
            Some(file) => read.and_then(|credentials| credentials.with_authority(file)),
            None => read,
        };
        read.map_err(|error| format!("{flag}: {error}"))
    }

    fn credentials_of(&self) -> (&'static str, Result<CloudCredentials, CredentialsError>) {
        let variable = |name: &str| std::env::var(name).ok();
        match (&self.credentials, &self.os_cloud) {
            (Some(folder), _) => ("--credentials", CloudCredentials::from_dir(folder)),
            (None, Some(name)) => ("--os-cloud", CloudCredentials::from_cloud(name, variable)),
            (None, None) => ("no --credentials and no --os-cloud", CloudCredentials::from_env(variable)),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn args(flags: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from(["x", "--config", "f"].iter().chain(flags))
    }

    #[test]
    fn the_defaults() {
        let args = args(&[]).unwrap();
        assert_eq!(
            (args.listen.to_string(), args.admin_listen.to_string()),
            ("127.0.0.1:7445".into(), "127.0.0.1:7482".into())
        );
        assert_eq!((args.drift_interval.0.as_secs(), args.orphan_grace.0.as_secs(), args.dry_run), (60, 600, false));
        assert_eq!(args.check(), Ok(()));
    }

    #[test]
    fn bad() {
        for (flags, start) in [
            (vec!["--drift-interval", "0s"], "--drift-interval 0s: is too short, use at least 1s"),
            (vec!["--drift-interval", "1ms"], "--drift-interval 1ms: is too short, use at least 1s"),
            (vec!["--orphan-grace", "999ms"], "--orphan-grace 999ms: is too short, use at least 1s"),
            (vec!["--list-timeout", "1ms"], "--list-timeout 1ms: is too short, use at least 1s"),
            (vec!["--call-timeout", "1ms"], "--call-timeout 1ms: is too short, use at least 1s"),
        ] {
            let error = args(&flags).unwrap().check().unwrap_err();
            assert!(error.starts_with(start), "{error}");
        }
        for flags in [
            vec!["--orphan-grace", "10"],
            vec!["--write-concurrency", "0"],
            vec!["--credentials", "d", "--os-cloud", "c"],
        ] {
            let error = args(&flags).unwrap_err().to_string();
            assert!(error.contains(flags[0]), "{error}");
        }
        let error = args(&["--credentials", "/nowhere"]).unwrap().read_credentials().unwrap_err();
        assert!(error.starts_with("--credentials: "), "{error}");
    }

    #[test]
    fn every_flag_has_a_variable() {
        for arg in Args::command().get_arguments() {
            let known = ["help", "version"].contains(&arg.get_id().as_str());
            assert!(known || arg.get_env().is_some(), "{}", arg.get_id());
        }
    }
}
