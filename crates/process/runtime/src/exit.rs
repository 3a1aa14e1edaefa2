//! How a process ends: one line on stderr, and an exit code that scripts can distinguish.

use std::future::Future;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::OnceLock;

/// Why a process ends without having been asked to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Exit {
    /// Wrong input: a flag, a file, credentials. A restart does not help. Exit code 2.
    #[error("{0}")]
    Usage(String),
    /// Any other failure. Exit code 1.
    #[error("{0}")]
    Failure(String),
}

impl Exit {
    /// Returns the exit code.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Failure(_) => 1,
        }
    }

    /// Returns the message for stderr, always one line. Control characters, which may come from others, are left out.
    #[must_use]
    pub fn line(&self) -> String {
        let message = self.to_string();
        let line = format!("error: {}", message.split_whitespace().collect::<Vec<_>>().join(" "));
        line.chars().filter(|c| !c.is_control()).collect()
    }

    pub(crate) fn report(&self) -> ExitCode {
        crate::logging::last_line(&self.line());
        ExitCode::from(self.code())
    }
}

/// Runs a process to its end: TLS provider, runtime, `work`, exit code. `name` is the name of its threads. With one
/// thread, all asynchronous work runs on the main thread.
pub fn run<F>(name: &str, threads: NonZeroUsize, work: F) -> ExitCode
where
    F: Future<Output = Result<(), Exit>>,
{
    let ended = try_run(name, threads, work);
    crate::logging::flush();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => exit.report(),
    }
}

/// Bound on the worker threads: more than any machine has cores. The runtime fails with far more.
const MOST_THREADS: usize = 1024;

fn try_run<F>(name: &str, threads: NonZeroUsize, work: F) -> Result<(), Exit>
where
    F: Future<Output = Result<(), Exit>>,
{
    // Libraries install a provider silently if none is installed; with two, each would serve some of the connections.
    static PROVIDER: OnceLock<bool> = OnceLock::new();
    let ours = || rustls::crypto::aws_lc_rs::default_provider().install_default().is_ok();
    if !PROVIDER.get_or_init(ours) {
        return Err(Exit::Failure("a TLS provider was already installed when the process began".to_owned()));
    }
    if threads.get() > MOST_THREADS {
        return Err(Exit::Usage(format!(
            "--worker-threads {threads}: use at most {MOST_THREADS}; one is mostly enough"
        )));
    }
    let mut builder = match threads.get() {
        1 => tokio::runtime::Builder::new_current_thread(),
        more => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(more);
            builder
        }
    };
    let runtime = builder
        .enable_all()
        .thread_name(name)
        .build()
        .map_err(|error| Exit::Failure(format!("cannot start the runtime: {error}")))?;
    let result = runtime.block_on(work);
    // A blocking call that hangs (name resolution) must not delay the end of the process.
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_and_two_codes() {
        let usage = Exit::Usage("--config x.yaml:\n  line 3: unknown key".to_owned());
        assert_eq!((usage.line().as_str(), usage.code()), ("error: --config x.yaml: line 3: unknown key", 2));
        assert_eq!(Exit::Failure("gone".to_owned()).code(), 1);
        assert_eq!(Exit::Failure("a server said \u{1b}[2J".to_owned()).line(), "error: a server said [2J");
    }

    #[test]
    fn runs_with_a_runtime_and_a_tls_provider() {
        let one = NonZeroUsize::MIN;
        let work = async {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            assert!(rustls::crypto::CryptoProvider::get_default().is_some());
            Err(Exit::Usage("on purpose".to_owned()))
        };
        assert_eq!(try_run("test", one, work), Err(Exit::Usage("on purpose".to_owned())));
        // Twice in a process is allowed: tests do it.
        assert_eq!(try_run("test", one.saturating_add(1), async { Ok(()) }), Ok(()));
    }
}
