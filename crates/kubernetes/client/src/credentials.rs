//! Credentials that are reloaded while the process runs: files are read again, plug-ins are run again, and each call
//! uses what is active at that moment. No call waits for a reload.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use jiff::Timestamp;
use secrecy::ExposeSecret as _;
use tokio::sync::{Notify, watch};

use crate::access::{self, Access, AccessFiles, ConnectError, Login};
use crate::plugin::{self, Issued, PluginError};

/// How often files are read.
const LOOK: Duration = Duration::from_secs(5);
/// A change counts when a second read after this time finds the same, since files are replaced one by one.
const SECOND_LOOK: Duration = Duration::from_millis(250);
/// How long before they expire tokens and certificates of plug-ins are replaced, but after half of their lifetime at
/// the earliest.
const EARLY: Duration = Duration::from_secs(60);
/// The pause before a plug-in that failed, or whose token was refused, runs again.
const PLUGIN_AGAIN: Duration = Duration::from_secs(10);

/// The credentials that are in use.
pub(crate) struct ActiveCredentials {
    /// Changes when existing connections must not be used any more.
    pub(crate) generation: u64,
    /// The address of the server, its authorities, and the client certificate.
    pub(crate) config: kube::Config,
    pub(crate) authorization: Option<HeaderValue>,
}

/// The credentials of one API server, shared by all connections to it.
pub(crate) struct ClusterLogin {
    shown: watch::Receiver<Arc<ActiveCredentials>>,
    refused: Arc<Notify>,
    /// When the first of the current series of failed calls failed; `None` after an answer.
    failing: Mutex<Option<Instant>>,
}

impl ClusterLogin {
    /// Reads everything, runs the plug-in if there is one, and reloads until the result is dropped.
    pub(crate) fn start(access: Access) -> Result<Arc<Self>, ConnectError> {
        let mut looking = Refresher { access, taken: None, issued: None, rest: None, generation: 0, problem: None };
        let first = std::thread::scope(|scope| scope.spawn(|| looking.first()).join());
        let shown = first.map_err(|_| ConnectError::new("credentials", "reading them failed"))??;
        let (publish, shown) = watch::channel(Arc::new(shown));
        let refused = Arc::new(Notify::new());
        tokio::spawn(looking.run(publish, refused.clone()));
        Ok(Arc::new(Self { shown, refused, failing: Mutex::new(None) }))
    }

    /// Returns credentials that never change.
    #[cfg(test)]
    pub(crate) fn fixed() -> Arc<Self> {
        let config = kube::Config::new(http::Uri::from_static("http://peer"));
        let (_, shown) = watch::channel(Arc::new(ActiveCredentials { generation: 0, config, authorization: None }));
        Arc::new(Self { shown, refused: Arc::default(), failing: Mutex::new(None) })
    }

    /// Returns the active credentials.
    pub(crate) fn shown(&self) -> Arc<ActiveCredentials> {
        self.shown.borrow().clone()
    }

    /// Called when the API server does not accept the credentials; the plug-in runs again.
    pub(crate) fn refused(&self) {
        self.refused.notify_one();
    }

    /// Called after each call. `answered` is false for an outage (see `ApiError::is_outage`).
    pub(crate) fn called(&self, answered: bool) {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        if answered {
            *failing = None;
        } else {
            failing.get_or_insert_with(Instant::now);
        }
    }

    /// Returns for how long no call was answered.
    pub(crate) fn failing_for(&self) -> Option<Duration> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner).map(|since| since.elapsed())
    }
}

struct Refresher {
    access: Access,
    taken: Option<AccessFiles>,
    issued: Option<(Issued, Timestamp)>,
    /// The plug-in does not run before this time.
    rest: Option<Instant>,
    generation: u64,
    /// The last problem that was logged, until it is solved.
    problem: Option<String>,
}

impl Refresher {
    fn first(&mut self) -> Result<ActiveCredentials, ConnectError> {
        let read = self.access.read()?;
        if let Login::Exec(exec) = &read.login {
            let place = read.place.clone();
            let issued = plugin::run(exec).map_err(|error| ConnectError::new(&place, &error.to_string()))?;
            self.issued = Some((issued, Timestamp::now()));
            self.rest = Some(Instant::now() + PLUGIN_AGAIN);
        }
        self.show(read)
    }

    async fn run(mut self, publish: watch::Sender<Arc<ActiveCredentials>>, rejections: Arc<Notify>) {
        loop {
            let refused = tokio::select! {
                () = publish.closed() => return,
                () = tokio::time::sleep(self.next_look()) => false,
                () = rejections.notified() => true,
            };
            // Files may be on a network file system, and a plug-in may take a minute.
            let looked = tokio::task::spawn_blocking(move || {
                let shown = self.look(refused);
                (self, shown)
            });
            let Ok((same, shown)) = looked.await else {
                tracing::error!("the task that looks at the credentials failed; what is in force stays");
                return;
            };
            self = same;
            match shown {
                Ok(Some(shown)) => {
                    publish.send_replace(Arc::new(shown));
                    self.problem = None;
                }
                Ok(None) => self.mended(),
                Err(problem) => self.warn(problem),
            }
        }
    }

    /// Returns new credentials if they changed. `refused` says that the active ones are not accepted.
    fn look(&mut self, refused: bool) -> Result<Option<ActiveCredentials>, String> {
        let mut read = self.access.read().map_err(|error| error.to_string())?;
        let mut changed = !self.taken.as_ref().is_some_and(|taken| taken.is_same(&read));
        if changed {
            std::thread::sleep(SECOND_LOOK);
            let again = self.access.read().map_err(|error| error.to_string())?;
            if !again.is_same(&read) {
                // The files are being replaced: the next look finds the result.
                return Ok(None);
            }
            read = again;
        }
        if let Login::Exec(exec) = &read.login {
            let another = self.taken.as_ref().is_none_or(|taken| !taken.has_same_login(&read));
            let rests = self.rest.is_some_and(|until| Instant::now() < until);
            let due = self.is_due() && (self.problem.is_none() || !rests);
            if another || due || (refused && !rests) {
                let issued = plugin::run(exec);
                self.rest = Some(Instant::now() + PLUGIN_AGAIN);
                self.issued = Some((issued.map_err(|error: PluginError| error.to_string())?, Timestamp::now()));
                changed = true;
            }
        }
        if !changed {
            return Ok(None);
        }
        self.show(read).map(Some).map_err(|error| error.to_string())
    }

    /// Whether the plug-in's credentials expire soon.
    fn is_due(&self) -> bool {
        self.due_in().is_some_and(|time| time.is_zero())
    }

    /// Returns when the plug-in runs again, if its credentials expire.
    fn due_in(&self) -> Option<Duration> {
        let (issued, at) = self.issued.as_ref()?;
        let until = issued.until?;
        let life = Duration::try_from(until.duration_since(*at)).unwrap_or_default();
        let left = Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default();
        Some(left.saturating_sub(EARLY.min(life / 2)))
    }

    fn next_look(&self) -> Duration {
        // A plug-in that is due and failed runs again at the next regular look.
        self.due_in().filter(|time| !time.is_zero()).map_or(LOOK, |time| time.min(LOOK))
    }

    fn show(&mut self, read: AccessFiles) -> Result<ActiveCredentials, ConnectError> {
        let mut config = read.config.clone();
        let mut authorization = read.login.authorization();
        if let (Login::Exec(_), Some((issued, _))) = (&read.login, &self.issued) {
            if let Some((certificate, key)) = &issued.certificate {
                config.auth_info.client_certificate_data = Some(STANDARD.encode(certificate));
                config.auth_info.client_key_data = Some(STANDARD.encode(key.expose_secret()).into());
            }
            authorization = issued.token.as_ref().and_then(access::bearer);
        }
        access::check(&config, &read.place)?;
        let same = self.taken.as_ref().is_some_and(|taken| taken.has_same_transport(&read));
        // A plug-in that issues certificates issues another one each time.
        if !same || self.issued.as_ref().is_some_and(|(issued, _)| issued.certificate.is_some()) {
            self.generation += 1;
        }
        if self.taken.is_some() && !same {
            tracing::info!(place = read.place, "the credentials for the API server changed, and are in force");
        }
        self.taken = Some(read);
        Ok(ActiveCredentials { generation: self.generation, config, authorization })
    }

    fn mended(&mut self) {
        // A plug-in that failed has not run again during its pause.
        let rests = self.rest.is_some_and(|until| Instant::now() < until);
        if !rests && self.problem.take().is_some() {
            tracing::info!("the credentials for the API server are in order again");
        }
    }

    /// Logs a problem once. The active credentials stay.
    fn warn(&mut self, problem: String) {
        if self.problem.as_ref() != Some(&problem) {
            tracing::warn!(
                problem,
                "the credentials for the API server cannot be read anew; those before stay in force"
            );
            self.problem = Some(problem);
        }
    }
}
