//! One end's certificate, key and authorities, as its files hold them now.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::certificate::Certificate;
use crate::reload::{Follow, Step};
use crate::tls::{Contents, Loaded, TlsError, TlsFiles};

/// How often the files are looked at, give or take a quarter: pods that share a Secret need not do it in step.
const LOOK: Duration = Duration::from_secs(2);
/// Between a look that found something new and the one that confirms it.
const SETTLE: Duration = Duration::from_millis(250);

/// Cheap to clone; every clone sees what was taken last.
#[derive(Debug, Clone)]
pub struct Credentials(watch::Receiver<Arc<Loaded>>);

/// What a client needs to be known and to know the server. Each dial uses what was taken last.
#[derive(Debug, Clone)]
pub struct ClientTls(Credentials);

/// Looks at the files. Dropped, or never run, it leaves its [`Credentials`] as they are.
pub struct Reloader {
    files: TlsFiles,
    follow: Follow,
    taken: watch::Sender<Arc<Loaded>>,
}

/// How it stands with the files, told when it changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reloaded {
    /// The last second in which the certificate in use is valid.
    pub not_after: Timestamp,
    /// Whether what the files hold now was taken just now.
    pub taken: bool,
    /// What is wrong with the files now. What they held before stays in use.
    pub problem: Option<TlsError>,
}

impl Credentials {
    /// Reads the files, and gives what follows them.
    ///
    /// # Errors
    /// When a file is missing or unusable.
    pub fn load(files: TlsFiles) -> Result<(Self, Reloader), TlsError> {
        let contents = Contents::read(&files)?;
        let (taken, credentials) = watch::channel(Arc::new(contents.load(&files)?));
        let follow = Follow::new(contents.digest());
        Ok((Self(credentials), Reloader { files, follow, taken }))
    }

    /// For dialling.
    #[must_use]
    pub fn client(&self) -> ClientTls {
        ClientTls(self.clone())
    }

    /// Our own certificate.
    #[must_use]
    pub fn own(&self) -> Certificate {
        self.now().own.clone()
    }

    pub(crate) fn now(&self) -> Arc<Loaded> {
        self.0.borrow().clone()
    }

    /// Until something else was taken than [`Credentials::now`] gave at the time of the last call. For ever, if nothing
    /// follows the files.
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

/// A client whose files are read once.
///
/// # Errors
/// When a file is missing or unusable.
pub fn client_tls(files: &TlsFiles) -> Result<ClientTls, TlsError> {
    Credentials::load(files.clone()).map(|(credentials, _)| credentials.client())
}

impl Reloader {
    /// Follows the files until `shutdown`. `told` hears how it stands: now, and whenever that changes. Each change is
    /// logged, and each trouble once.
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

    /// Files are read where blocking harms nobody: they may lie on a network.
    async fn look(&mut self) -> (Step, Result<Contents, TlsError>) {
        let files = self.files.clone();
        let found = match tokio::task::spawn_blocking(move || Contents::read(&files)).await {
            Ok(found) => found,
            // The runtime ends.
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

/// Between three and five quarters of it.
fn jittered(time: Duration) -> Duration {
    use std::hash::{BuildHasher as _, RandomState};
    let random = RandomState::new().hash_one(()) % 512;
    time.mul_f64(0.75 + random as f64 / 1024.0)
}
