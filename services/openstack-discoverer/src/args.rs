//! The command line: a stable interface, others script against it (docs/design.md#command-lines).

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Parser, ValueEnum};
use gimbal_discoverer::original_flags::{OriginalFlags, ignored};
use gimbal_discoverer::{AgentArgs, TraceArgs};
use gimbal_openstack_source::{PollOptions, ProjectPattern, ServiceName};
use gimbal_runtime::{HumanDuration, at_least};

/// Shortest time between polls. Below it the cloud would be asked without a pause.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
/// Shortest time for a call or a poll. Below it none would end in time.
const SHORTEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Offers the load balancers of an OpenStack cloud to a Gimbal writer. Reads its source, and changes nothing anywhere.
#[derive(Debug, Clone, Parser)]
#[command(name = "gimbal-openstack-discoverer", version)]
pub struct Args {
    /// What all discoverers have.
    #[command(flatten)]
    pub agent: AgentArgs,
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
    /// Time from the beginning of one poll to that of the next, give or take a tenth; at least 100ms
    #[arg(
        long,
        alias = "reconciliation-period",
        env = "GIMBAL_POLL_INTERVAL",
        value_name = "DURATION",
        default_value = "30s"
    )]
    pub poll_interval: HumanDuration,
    /// When a poll that is not done is given up
    #[arg(long, env = "GIMBAL_POLL_TIMEOUT", value_name = "DURATION", default_value = "10m")]
    pub poll_timeout: HumanDuration,
    /// Time in which the members of every pool are read once, for their health and weights; 0s: only when they changed
    #[arg(long, env = "GIMBAL_SWEEP", value_name = "DURATION", default_value = "5m")]
    pub sweep: HumanDuration,
    /// How old the list of projects may become where one token sees all; else each poll begins with it
    #[arg(long, env = "GIMBAL_PROJECTS_INTERVAL", value_name = "DURATION", default_value = "5m")]
    pub projects_interval: HumanDuration,
    /// Calls that run at the same time
    #[arg(long, env = "GIMBAL_CONCURRENCY", value_name = "N", default_value_t = 16,
        value_parser = clap::value_parser!(u16).range(1..=256))]
    pub concurrency: u16,
    /// How long a page of a list may take; one that is too slow is asked for in smaller pieces
    #[arg(long, env = "GIMBAL_LIST_TIMEOUT", value_name = "DURATION", default_value = "60s")]
    pub list_timeout: HumanDuration,
    /// How long any other call may take
    #[arg(long, env = "GIMBAL_CALL_TIMEOUT", value_name = "DURATION", default_value = "30s")]
    pub call_timeout: HumanDuration,
    /// Projects to offer, by name or ID; '*' matches any run of characters [default: all]
    #[arg(
        long,
        alias = "openstack-project-watchlist",
        env = "GIMBAL_PROJECTS",
        value_name = "PATTERN,...",
        value_delimiter = ','
    )]
    pub projects: Vec<ProjectPattern>,
    /// Projects not to offer, by name or ID, although --projects matches them
    #[arg(long, env = "GIMBAL_EXCLUDE_PROJECTS", value_name = "PATTERN,...", value_delimiter = ',')]
    pub exclude_projects: Vec<ProjectPattern>,
    /// How lists are asked for; with 'bulk' a token that is not shown to see all projects is trouble, whatever it shows
    #[arg(long, env = "GIMBAL_MODE", value_enum, default_value_t = ModeWanted::Auto)]
    pub mode: ModeWanted,
    /// How long a project is kept that has left the list of projects in per-project mode: Keystone does not show there whether
    /// it was deleted
    #[arg(long, env = "GIMBAL_PROJECT_HOLD", value_name = "DURATION", default_value = "10m")]
    pub project_hold: HumanDuration,
    /// How long a project must be missing in neutron-lbaas's lists before that is believed; no less than the cloud's
    /// services remember what a token may do (token_cache_time)
    #[arg(long, env = "GIMBAL_SECOND_LOOK", value_name = "DURATION", default_value = "5m")]
    pub second_look: HumanDuration,
    /// What Services are named by; the original Gimbal named them by the load balancer's ID
    #[arg(long, env = "GIMBAL_SERVICE_NAME", value_enum, default_value_t = Naming::NameAndId)]
    pub service_name: Naming,
    /// Offer pools that L7 policies redirect to, as Services of their own
    #[arg(long, env = "GIMBAL_L7_POOLS", action = ArgAction::SetTrue)]
    pub l7_pools: bool,
    /// Which changes are traced.
    #[command(flatten)]
    pub traces: TraceArgs,
    #[command(flatten)]
    original: OriginalFlags,
    #[arg(long, hide = true, env = "GIMBAL_HTTP_CLIENT_TIMEOUT")]
    http_client_timeout: Option<String>,
}

/// How lists are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModeWanted {
    /// As the token is found to see.
    Auto,
    /// With one token for all projects, or not at all.
    Bulk,
    /// With a token for each project, whatever it may see.
    PerProject,
}

/// What a Service is named by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Naming {
    /// `<name>-<id>`, or the ID alone where there is no name.
    NameAndId,
    /// The ID.
    Id,
}

impl Args {
    /// Checks the flags that only this discoverer has, and those of the original Gimbal, beyond their syntax. The error
    /// is one line that names the flag.
    ///
    /// # Errors
    /// Fails if a duration is shorter than it may be, or a flag of the original Gimbal cannot be honored.
    pub fn check(&self) -> Result<(), String> {
        self.original.check()?;
        for (flag, duration) in [
            ("poll-timeout", self.poll_timeout),
            ("list-timeout", self.list_timeout),
            ("call-timeout", self.call_timeout),
        ] {
            at_least(flag, duration, SHORTEST_TIMEOUT)?;
        }
        at_least("poll-interval", self.poll_interval, SHORTEST_INTERVAL)
    }

    /// Returns a sentence for each flag of the original Gimbal that has no effect any more.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let bulk = "a list of all projects takes longer than one of one project did; see --list-timeout";
        let timeout = self.http_client_timeout.iter().map(|_| ignored("http-client-timeout", bulk));
        let threads = "see --concurrency for calls to the cloud";
        timeout.chain(self.original.warnings(self.agent.admin_listen, threads)).collect()
    }

    /// Returns the poller's options: what is published, and how the cloud is polled.
    #[must_use]
    pub fn options(&self) -> PollOptions {
        PollOptions {
            own: None,
            projects: self.projects.clone(),
            service_name: match self.service_name {
                Naming::NameAndId => ServiceName::NameAndId,
                Naming::Id => ServiceName::Id,
            },
            l7_pools: self.l7_pools,
            sweep: Some(self.sweep.0).filter(|sweep| *sweep > Duration::ZERO),
            projects_for: self.projects_interval.0,
            exclude: self.exclude_projects.clone(),
            project_hold: self.project_hold.0,
            second_look: Some(self.second_look.0),
            by_role: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use gimbal_discoverer::original_flags::flags_without_variable;

    use super::*;

    fn args(flags: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from(["x", "--backend-name", "b"].iter().chain(flags))
    }

    #[test]
    fn flags_of_the_original_and_ours_mean_the_same() {
        let ours = args(&["--poll-interval", "7s", "--projects", "a,b-*"]).unwrap();
        let old = args(&["--reconciliation-period", "7s", "--openstack-project-watchlist", "a,b-*"]).unwrap();
        for args in [ours, old] {
            assert_eq!(args.poll_interval.0, Duration::from_secs(7));
            assert_eq!(args.projects.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a", "b-*"]);
            assert_eq!((args.check(), args.warnings()), (Ok(()), Vec::new()));
        }
    }

    #[test]
    fn options_follow_the_flags() {
        let options = args(&["--service-name", "id", "--l7-pools", "--sweep", "0s"]).unwrap().options();
        assert_eq!((options.service_name, options.l7_pools, options.sweep), (ServiceName::Id, true, None));
        let options = args(&["--exclude-projects", "a,b", "--project-hold", "7s"]).unwrap().options();
        assert_eq!((options.exclude.len(), options.project_hold), (2, Duration::from_secs(7)));
        assert_eq!(args(&["--mode", "per-project"]).unwrap().mode, ModeWanted::PerProject);
        let options = args(&[]).unwrap().options();
        assert_eq!((options.service_name, options.l7_pools), (ServiceName::NameAndId, false));
        assert_eq!(options.sweep, Some(Duration::from_secs(300)));
    }

    #[test]
    fn bad() {
        for (flags, start) in [
            (vec!["--gimbal-kubecfg-file", "f"], "--gimbal-kubecfg-file: a discoverer holds no credentials"),
            (vec!["--poll-interval", "0s"], "--poll-interval 0s: is too short, use at least 100ms"),
            (vec!["--poll-interval", "1ms"], "--poll-interval 1ms: is too short, use at least 100ms"),
            (vec!["--poll-timeout", "1ms"], "--poll-timeout 1ms: is too short, use at least 1s"),
            (vec!["--list-timeout", "0s"], "--list-timeout 0s: is too short, use at least 1s"),
        ] {
            let error = args(&flags).unwrap().check().unwrap_err();
            assert!(error.starts_with(start), "{error}");
        }
        for flags in [
            vec!["--poll-interval", "30"],
            vec!["--concurrency", "0"],
            vec!["--service-name", "name"],
            vec!["--projects", "a,,b"],
            vec!["--exclude-projects", ""],
            vec!["--mode", "both"],
            vec!["--credentials", "d", "--os-cloud", "c"],
        ] {
            let error = args(&flags).unwrap_err().to_string();
            assert!(error.contains(flags[0]), "{error}");
        }
    }

    #[test]
    fn flags_of_the_original_are_told_about() {
        let args = args(&["--num-threads", "2", "--debug", "--http-client-timeout", "5s"]).unwrap();
        assert_eq!(args.check(), Ok(()));
        let warnings = args.warnings();
        assert_eq!(warnings.len(), 3);
        assert!(warnings[0].starts_with("--http-client-timeout means nothing any more"));
    }

    #[test]
    fn every_flag_has_a_variable() {
        assert_eq!(flags_without_variable::<Args>(), Vec::<String>::new());
    }
}
