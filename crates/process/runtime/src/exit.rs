//! How a process ends: one line on stderr, and a code that scripts can tell apart.

use std::future::Future;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::OnceLock;

/// Why a process ends, other than because it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Exit {
    /// Wrong input: a flag, a file, credentials. Starting again changes nothing. Code 2.
    #[error("{0}")]
    Usage(String),
    /// Anything else. Code 1.
    #[error("{0}")]
    Failure(String),
}

impl Exit {
    /// The code that the process ends with.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Failure(_) => 1,
        }
    }

    /// What is written to stderr: always one line.
    #[must_use]
    pub fn line(&self) -> String {
        let message = self.to_string();
        format!("error: {}", message.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    pub(crate) fn report(&self) -> ExitCode {
        crate::logging::last_line(&self.line());
        ExitCode::from(self.code())
    }
}

/// Runs a process to its end: TLS provider, runtime, `work`, exit code. `name` is what its threads are called; with one,
/// everything runs on the first.
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

/// More than any machine has cores; a runtime with far more ends badly.
const MOST_THREADS: usize = 1024;

fn try_run<F>(name: &str, threads: NonZeroUsize, work: F) -> Result<(), Exit>
where
    F: Future<Output = Result<(), Exit>>,
{
    // Libraries install one silently if there is none; two providers in a process would each serve some connections.
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
    // A blocking call that hangs (name resolution) must not keep an ended process.
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
    }

    #[test]
    fn runs_with_a_runtime_and_a_tls_provider() {
        let one = NonZeroUsize::MIN;
        let work = async {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            assert!(rustls::crypto::CryptoProvider::get_default().is_some());
            Err(Exit::Usage("as told".to_owned()))
        };
        assert_eq!(try_run("test", one, work), Err(Exit::Usage("as told".to_owned())));
        // Twice in a process is no accident: tests do it.
        assert_eq!(try_run("test", one.saturating_add(1), async { Ok(()) }), Ok(()));
    }
}
