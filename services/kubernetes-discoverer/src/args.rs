//! The command line: a stable interface, others script against it.

use std::path::PathBuf;

use clap::{ArgAction, Parser};
use gimbal_discoverer::original_flags::{OriginalFlags, ignored};
use gimbal_discoverer::{AgentArgs, TraceArgs};
use gimbal_kubernetes_source::{Export, Flavour, LabelSelector, Selection};
use gimbal_model::NamespacePattern;

/// Offers the Services of a Kubernetes cluster to a Gimbal writer. Reads its source, and changes nothing anywhere; see --write-events
/// for the one exception.
#[derive(Debug, Clone, Parser)]
#[command(name = "gimbal-kubernetes-discoverer", version)]
pub struct Args {
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
    /// Credentials of the source cluster [default: $KUBECONFIG, else the pod's service account, else ~/.kube/config]
    #[arg(long, alias = "discover-kubecfg-file", env = "GIMBAL_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Namespaces to offer, '*' stands for any run of characters [default: all]
    #[arg(long, env = "GIMBAL_NAMESPACES", value_name = "PATTERN,...", value_delimiter = ',')]
    pub(crate) namespaces: Vec<NamespacePattern>,
    /// Namespaces not to offer; outranks --namespaces
    #[arg(long, env = "GIMBAL_EXCLUDE_NAMESPACES", value_name = "PATTERN,...", value_delimiter = ',')]
    pub(crate) exclude_namespaces: Vec<NamespacePattern>,
    /// Services to offer, by their labels, as in kubectl -l: app=web, tier in (a,b), !internal [default: all]
    #[arg(long, env = "GIMBAL_SERVICE_SELECTOR", value_name = "SELECTOR")]
    pub(crate) service_selector: Option<LabelSelector>,
    /// Whether a Service is offered unless its annotation gimbal.projectcontour.io/export is "false", or only where it is "true"
    #[arg(
        long,
        env = "GIMBAL_EXPORT",
        value_name = "opt-out|opt-in",
        value_enum,
        default_value = "opt-out",
        hide_possible_values = true
    )]
    pub(crate) export: ExportMode,
    /// Tell the owners of Services that the writer rejects, by Events on the source's Services (kubectl describe shows them).
    /// Needs the rights of gimbal-kubernetes-discoverer-events [default: nothing is written]
    #[arg(long, env = "GIMBAL_WRITE_EVENTS", action = ArgAction::SetTrue)]
    pub(crate) write_events: bool,
    #[command(flatten)]
    pub(crate) traces: TraceArgs,
    #[command(flatten)]
    original: OriginalFlags,
    #[arg(long, hide = true, env = "GIMBAL_RESYNC_INTERVAL")]
    resync_interval: Option<String>,
}

/// Who decides what is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ExportMode {
    OptOut,
    OptIn,
}

impl Args {
    /// Form of the log.
    #[must_use]
    pub fn log_format(&self) -> gimbal_runtime::LogFormat {
        self.agent.log_format
    }

    /// Threads to work with.
    #[must_use]
    pub fn worker_threads(&self) -> std::num::NonZeroUsize {
        self.agent.worker_threads
    }

    /// What is to be offered.
    pub(crate) fn selection(&self) -> Selection {
        Selection {
            namespaces: self.namespaces.clone(),
            exclude: self.exclude_namespaces.clone(),
            services: self.service_selector.clone().unwrap_or_default(),
            export: match self.export {
                ExportMode::OptOut => Export::OptOut,
                ExportMode::OptIn => Export::OptIn,
            },
            flavour: Flavour::Slices,
        }
    }

    /// Checks the flags that only this discoverer has. The error is one line that names the flag.
    ///
    /// # Errors
    /// When a flag is given that cannot be obeyed.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.original.check()
    }

    /// Returns a sentence for each given flag of the original Gimbal's discoverer that has no effect.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.original.warnings(self.agent.admin_listen, "one task keeps up with any source");
        if self.resync_interval.is_some() {
            warnings.push(ignored("resync-interval", "the writer compares digests instead of resyncing"));
        }
        warnings
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
    fn good() {
        for flags in
            [vec![], vec!["--discover-kubecfg-file", "f", "--namespaces", "a,b-*", "--exclude-namespaces", "*-test"]]
        {
            let args = args(&flags).unwrap();
            assert_eq!(args.check(), Ok(()), "{flags:?}");
            assert!(args.warnings().is_empty());
        }
    }

    #[test]
    fn nothing_is_written_unless_asked_for() {
        assert!(!args(&[]).unwrap().write_events);
        assert!(args(&["--write-events"]).unwrap().write_events);
    }

    #[test]
    fn no_credentials_of_the_gimbal_cluster() {
        let error = args(&["--gimbal-kubecfg-file", "f"]).unwrap().check().unwrap_err();
        assert!(error.starts_with("--gimbal-kubecfg-file: a discoverer holds no credentials"), "{error}");
        assert!(!error.contains('\n'));
    }

    #[test]
    fn what_clap_refuses_names_the_flag() {
        for flags in [
            ["--service-selector", "a in b"],
            ["--export", "always"],
            ["--namespaces", "A"],
            ["--listen", "x"],
            ["--log-format", "xml"],
            ["--backend-name", "B"],
        ] {
            let error = args(&flags).unwrap_err().to_string();
            assert!(error.contains(flags[0]), "{error}");
        }
        assert!(Args::try_parse_from(["x"]).unwrap_err().to_string().contains("--backend-name"));
    }

    #[test]
    fn flags_of_the_original_are_told_about() {
        let args = args(&["--num-threads", "2", "--debug", "--resync-interval", "30m"]).unwrap();
        assert_eq!(args.check(), Ok(()));
        let warnings = args.warnings();
        assert_eq!(warnings.len(), 3);
        assert!(warnings[0].starts_with("--num-threads means nothing any more"));
    }

    #[test]
    fn every_flag_has_a_variable() {
        assert_eq!(flags_without_variable::<Args>(), Vec::<String>::new());
    }
}
