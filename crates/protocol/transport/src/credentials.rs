//! The certificate, private key and certificate authorities of one end, reloaded when their files change.

use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gimbal_schedule::Backoff;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::certificate::Certificate;
use crate::plaintext_allowed;
use crate::reload::{Follow, ReloadStep};
use crate::tls::{FileContents, Loaded, TlsError, TlsFiles};

/// Shortest interval between reads of the files.
const LOOK: Duration = Duration::from_millis(1500);
/// Random addition to the interval, so that pods that share a Secret do not read it in step.
const SPREAD: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(1) };
/// Time between a read that finds new content and the read that confirms it.
const SETTLE: Duration = Duration::from_millis(250);

/// The loaded TLS files. Cheap to clone; every clone sees the files that were loaded last.
#[derive(Debug, Clone)]
pub struct TlsCredentials(watch::Receiver<Arc<Loaded>>);

/// The client's TLS configuration. Each dial uses the files that were loaded last.
#[derive(Debug, Clone)]
pub struct ClientTls(TlsCredentials);

/// Reloads the files of a [`TlsCredentials`]. If it is dropped or never run, the credentials do not change.
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

impl TlsCredentials {
    /// Loads the files, and returns the credentials with the reloader that keeps them up to date.
    ///
    /// # Errors
    /// Returns an error when a file is missing or unusable.
    pub fn load(files: TlsFiles) -> Result<(Self, Reloader), TlsError> {
        let contents = FileContents::read(&files)?;
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
    TlsCredentials::load(files.clone()).map(|(credentials, _)| credentials.client())
}

impl Reloader {
    /// Reloads the files until `shutdown`. Calls the callback with the state at the start and whenever it changes. Logs
    /// each change, and each problem once.
    pub async fn run(mut self, report: impl Fn(&Reloaded) + Send + Sync, shutdown: CancellationToken) {
        let state = self.state(None);
        report(&state);
        if state.not_after < Timestamp::now() {
            let cert = self.files.cert.display();
            tracing::warn!(%cert, not_after = %state.not_after, "the certificate has expired: no peer accepts it");
        }
        let mut wait = pause();
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            let (step, found) = self.look().await;
            wait = if step == ReloadStep::LookAgain { SETTLE } else { pause() };
            if let Some(state) = self.carry_out(step, found) {
                report(&state);
            }
        }
    }

    /// Reads the files on the blocking pool, because they may be on a network file system.
    async fn look(&mut self) -> (ReloadStep, Result<FileContents, TlsError>) {
        let files = self.files.clone();
        let found = match tokio::task::spawn_blocking(move || FileContents::read(&files)).await {
            Ok(found) => found,
            // The task fails only when the runtime shuts down.
            Err(_) => return (ReloadStep::Rest, FileContents::read(&self.files)),
        };
        let look = found.as_ref().map(FileContents::digest).map_err(ToString::to_string);
        (self.follow.look(look), found)
    }

    fn carry_out(&mut self, step: ReloadStep, found: Result<FileContents, TlsError>) -> Option<Reloaded> {
        match (step, found) {
            (ReloadStep::Rest | ReloadStep::LookAgain, _) => None,
            (ReloadStep::Mended, _) => {
                tracing::info!("the TLS files are again what is in use");
                Some(self.state(None))
            }
            (ReloadStep::Take | ReloadStep::Tell, Err(problem)) => Some(self.failed(problem)),
            (ReloadStep::Take | ReloadStep::Tell, Ok(contents)) => Some(match self.usable(&contents) {
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

    /// Loads files, unless their certificate has expired and that in use has not: no peer would accept it.
    fn usable(&self, contents: &FileContents) -> Result<Loaded, TlsError> {
        let (loaded, now) = (contents.load(&self.files)?, Timestamp::now());
        let not_after = loaded.own.not_after;
        if not_after < now && self.taken.borrow().own.not_after >= now {
            return Err(TlsError::Expired { cert: self.files.cert.clone(), not_after });
        }
        Ok(loaded)
    }

    fn failed(&self, problem: TlsError) -> Reloaded {
        tracing::warn!(%problem, "the TLS files changed and cannot be used; what they held before stays in use");
        self.state(Some(problem))
    }

    fn state(&self, problem: Option<TlsError>) -> Reloaded {
        Reloaded { not_after: self.taken.borrow().own.not_after, taken: false, problem }
    }
}

/// Returns the time until the next read.
fn pause() -> Duration {
    LOOK + SPREAD.jittered(0, RandomState::new().hash_one(()))
}

/// Returns what a listener serves with: TLS, or none on a loopback address with `--plaintext`. `files` are those of the flags
/// `--tls-cert`, `--tls-key` and `--tls-ca`.
///
/// # Errors
/// Returns one line that names the flags, or the file.
pub fn listener_tls(
    files: Result<Option<(PathBuf, PathBuf, PathBuf)>, String>,
    plaintext: bool,
    listen: &SocketAddr,
) -> Result<Option<(TlsCredentials, Reloader)>, String> {
    match (files, plaintext) {
        (Ok(Some((cert, key, ca))), false) => {
            TlsCredentials::load(TlsFiles { cert, key, ca }).map(Some).map_err(|error| error.to_string())
        }
        (Ok(None), true) if plaintext_allowed(listen) => Ok(None),
        (Ok(None), true) => Err(format!("--plaintext: --listen {listen} is not a loopback address; use TLS there")),
        (Ok(None), false) => {
            Err("--tls-cert, --tls-key and --tls-ca are required (or --plaintext on a loopback address)".into())
        }
        (_, true) => Err("--plaintext and --tls-cert, --tls-key, --tls-ca exclude each other".into()),
        (Err(missing), false) => Err(missing),
    }
}
