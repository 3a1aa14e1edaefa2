//! The certificate, private key and certificate authorities of one end, reloaded when their files change.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::certificate::Certificate;
use crate::reload::{Follow, Step};
use crate::tls::{Contents, Loaded, TlsError, TlsFiles};

/// Interval between reads of the files, plus or minus a quarter, so that pods that share a Secret do not read it in
/// step.
const LOOK: Duration = Duration::from_secs(2);
/// Time between a read that finds new content and the read that confirms it.
const SETTLE: Duration = Duration::from_millis(250);

/// The loaded TLS files. Cheap to clone; every clone sees the files that were loaded last.
#[derive(Debug, Clone)]
pub struct Credentials(watch::Receiver<Arc<Loaded>>);

/// The client's TLS configuration. Each dial uses the files that were loaded last.
#[derive(Debug, Clone)]
pub struct ClientTls(Credentials);

/// Reloads the files of a [`Credentials`]. If it is dropped or never run, the credentials do not change.
pub struct Reloader {
    files: TlsFiles,
    follow: Follow,
    taken: watch::Sender<Arc<Loaded>>,
}

/// The state of the files, reported when it changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reloaded {
    /// The last second in which the certificate in use is valid.
    pub not_after: Timestamp,
    /// Whether the files have just been loaded because their content changed.
    pub taken: bool,
    /// The error of the last read, if the files are unusable. The content loaded before stays in use.
    pub problem: Option<TlsError>,
}

impl Credentials {
    /// Loads the files, and returns the credentials with the reloader that keeps them up to date.
    ///
    /// # Errors
    /// Returns an error when a file is missing or unusable.
    pub fn load(files: TlsFiles) -> Result<(Self, Reloader), TlsError> {
        let contents = Contents::read(&files)?;
        let (taken, credentials) = watch::channel(Arc::new(contents.load(&files)?));
        let follow = Follow::new(contents.digest());
        Ok((Self(credentials), Reloader { files, follow, taken }))
    }

    /// Returns the configuration of a client with these credentials.
    #[must_use]
    pub fn client(&self) -> ClientTls {
        ClientTls(self.clone())
    }

    /// Returns our own certificate.
    #[must_use]
    pub fn own(&self) -> Certificate {
        self.now().own.clone()
    }

    pub(crate) fn now(&self) -> Arc<Loaded> {
        self.0.borrow().clone()
    }

    /// Waits until other files are loaded than at the last call. Pends forever if no reloader runs.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl ClientTls {
    pub(crate) fn config(&self) -> Arc<rustls::ClientConfig> {
        self.0.now().client.clone()
    }
}

/// Loads the files once, for a client that does not reload them.
///
/// # Errors
/// Returns an error when a file is missing or unusable.
pub fn client_tls(files: &TlsFiles) -> Result<ClientTls, TlsError> {
    Credentials::load(files.clone()).map(|(credentials, _)| credentials.client())
}

impl Reloader {
    /// Reloads the files until `shutdown`. Calls the callback with the state at the start and whenever it changes. Logs
    /// each change, and each problem once.
    pub async fn run(mut self, told: impl Fn(&Reloaded) + Send + Sync, shutdown: CancellationToken) {
        told(&self.state(None));
        let mut pause = jittered(LOOK);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            let (step, found) = self.look().await;
            pause = if step == Step::LookAgain { SETTLE } else { jittered(LOOK) };
            if let Some(state) = self.carry_out(step, found) {
                told(&state);
            }
        }
    }

    /// Reads the files on the blocking pool, because they may be on a network file system.
    async fn look(&mut self) -> (Step, Result<Contents, TlsError>) {
        let files = self.files.clone();
        let found = match tokio::task::spawn_blocking(move || Contents::read(&files)).await {
            Ok(found) => found,
            // The task fails only when the runtime shuts down.
            Err(_) => return (Step::Rest, Contents::read(&self.files)),
        };
        let look = found.as_ref().map(Contents::digest).map_err(ToString::to_string);
        (self.follow.look(look), found)
    }

    fn carry_out(&mut self, step: Step, found: Result<Contents, TlsError>) -> Option<Reloaded> {
        match (step, found) {
            (Step::Rest | Step::LookAgain, _) => None,
            (Step::Mended, _) => {
                tracing::info!("the TLS files are again what is in use");
                Some(self.state(None))
            }
            (Step::Take | Step::Tell, Err(problem)) => Some(self.failed(problem)),
            (Step::Take | Step::Tell, Ok(contents)) => Some(match contents.load(&self.files) {
                Ok(loaded) => {
                    self.follow.took(true);
                    tracing::info!(certificate = %loaded.own, not_after = %loaded.own.not_after, "the TLS files changed; new handshakes use them");
                    self.taken.send_replace(Arc::new(loaded));
                    Reloaded { taken: true, ..self.state(None) }
                }
                Err(problem) => {
                    self.follow.took(false);
                    self.failed(problem)
                }
            }),
        }
    }

    fn failed(&self, problem: TlsError) -> Reloaded {
        tracing::warn!(%problem, "the TLS files changed and cannot be used; what they held before stays in use");
        self.state(Some(problem))
    }

    fn state(&self, problem: Option<TlsError>) -> Reloaded {
        Reloaded { not_after: self.taken.borrow().own.not_after, taken: false, problem }
    }
}

/// Returns a random duration between 0.75 and 1.25 times `time`.
fn jittered(time: Duration) -> Duration {
    use std::hash::{BuildHasher as _, RandomState};
    let random = RandomState::new().hash_one(()) % 512;
    time.mul_f64(0.75 + random as f64 / 1024.0)
}
