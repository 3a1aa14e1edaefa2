//! Flags of the original Gimbal's discoverers, so that its manifests start ours.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, CommandFactory};

/// The flags that both of the original's discoverers had and ours do not need. Put into a service's own arguments with
/// `#[command(flatten)]`; they are hidden from `--help`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct OriginalFlags {
    #[arg(long, hide = true, env = "GIMBAL_NUM_THREADS")]
    num_threads: Option<String>,
    #[arg(long, hide = true, env = "GIMBAL_GIMBAL_CLIENT_QPS")]
    gimbal_client_qps: Option<String>,
    #[arg(long, hide = true, env = "GIMBAL_GIMBAL_CLIENT_BURST")]
    gimbal_client_burst: Option<String>,
    #[arg(long, hide = true, env = "GIMBAL_PROMETHEUS_LISTEN_ADDRESS")]
    prometheus_listen_address: Option<String>,
    #[arg(long, hide = true, env = "GIMBAL_DEBUG", action = ArgAction::SetTrue)]
    debug: bool,
    #[arg(long, hide = true, env = "GIMBAL_GIMBAL_KUBECFG_FILE")]
    gimbal_kubecfg_file: Option<PathBuf>,
}

impl OriginalFlags {
    /// Refuses the flag that cannot be ignored: credentials of the Gimbal cluster. The error is one line that names it.
    ///
    /// # Errors
    /// Returns an error when `--gimbal-kubecfg-file` is given.
    pub fn check(&self) -> Result<(), String> {
        if self.gimbal_kubecfg_file.is_some() {
            return Err(
                "--gimbal-kubecfg-file: a discoverer holds no credentials of the Gimbal cluster, only the writer \
                        does; remove the flag and name the writer with --writer"
                    .into(),
            );
        }
        Ok(())
    }

    /// Returns a sentence for each given flag that has no effect. `admin_listen` is where metrics are served now;
    /// `instead_of_threads` says what replaces `--num-threads` in this discoverer.
    #[must_use]
    pub fn warnings(&self, admin_listen: SocketAddr, instead_of_threads: &str) -> Vec<String> {
        let Self {
            num_threads,
            gimbal_client_qps,
            gimbal_client_burst,
            prometheus_listen_address,
            debug,
            gimbal_kubecfg_file: _, // Refused by `check`.
        } = self;
        let listening = format!("metrics are served on --admin-listen {admin_listen}");
        [
            ("num-threads", num_threads.is_some(), instead_of_threads),
            ("gimbal-client-qps", gimbal_client_qps.is_some(), "the writer has --write-qps"),
            ("gimbal-client-burst", gimbal_client_burst.is_some(), "the writer has --write-qps"),
            ("prometheus-listen-address", prometheus_listen_address.is_some(), &listening),
            ("debug", *debug, "set GIMBAL_LOG=debug"),
        ]
        .into_iter()
        .filter(|(_, given, _)| *given)
        .map(|(flag, _, instead)| ignored(flag, instead))
        .collect()
    }
}

/// Returns the warning for a flag of the original that has no effect. `instead` says what replaces it.
#[must_use]
pub fn ignored(flag: &str, instead: &str) -> String {
    format!("--{flag} means nothing any more and is ignored: {instead}")
}

/// Returns the long flags of a command that cannot be set by the environment variable of their name, `GIMBAL_` and the
/// flag in upper case. For tests: every service promises that there are none.
#[must_use]
pub fn flags_without_variable<A: CommandFactory>() -> Vec<String> {
    let command = A::command();
    let longs = command.get_arguments().filter_map(|arg| Some((arg.get_long()?, arg.get_env())));
    longs
        .filter(|(long, env)| {
            let expected = format!("GIMBAL_{}", long.to_uppercase().replace('-', "_"));
            env.and_then(|env| env.to_str()) != Some(&*expected)
        })
        .map(|(long, _)| format!("--{long}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Args {
        #[command(flatten)]
        original: OriginalFlags,
    }

    fn args(flags: &[&str]) -> OriginalFlags {
        Args::try_parse_from(["x"].iter().chain(flags)).unwrap().original
    }

    #[test]
    fn no_credentials_of_the_gimbal_cluster() {
        assert_eq!(args(&["--num-threads", "2"]).check(), Ok(()));
        let error = args(&["--gimbal-kubecfg-file", "f"]).check().unwrap_err();
        assert!(error.starts_with("--gimbal-kubecfg-file: a discoverer holds no credentials"), "{error}");
        assert!(!error.contains('\n'));
    }

    #[test]
    fn given_flags_are_warned_about() {
        let warnings = |flags: &[&str]| args(flags).warnings(([127, 0, 0, 1], 7481).into(), "nothing");
        assert!(warnings(&[]).is_empty());
        assert_eq!(
            warnings(&["--prometheus-listen-address", "x", "--num-threads", "2"]),
            [
                "--num-threads means nothing any more and is ignored: nothing",
                "--prometheus-listen-address means nothing any more and is ignored: metrics are served on --admin-listen \
                 127.0.0.1:7481",
            ]
        );
    }

    #[test]
    fn a_flag_without_its_variable_is_found() {
        #[derive(Debug, Parser)]
        struct Wrong {
            #[arg(long = "one-flag", env = "GIMBAL_SOMETHING_ELSE")]
            _one: Option<String>,
            #[arg(long = "two")]
            _two: bool,
            #[arg(long = "three-flags", env = "GIMBAL_THREE_FLAGS")]
            _three: Option<String>,
        }
        assert_eq!(flags_without_variable::<Args>(), Vec::<String>::new());
        assert_eq!(flags_without_variable::<Wrong>(), ["--one-flag", "--two"]);
    }
}
