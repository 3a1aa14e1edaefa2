//! What an API server is shown, for as long as the process runs: files are looked at again, plug-ins are run again, and calls
//! take what there is at that moment. No call waits for either.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use jiff::Timestamp;
use secrecy::ExposeSecret as _;
use tokio::sync::{Notify, watch};

use crate::access::{self, Access, ConnectError, Login, Read};
use crate::plugin::{self, Issued, PluginError};

/// How often files are looked at.
const LOOK: Duration = Duration::from_secs(5);
/// Files are replaced in pieces: what was read counts when the next look finds the same.
const SECOND_LOOK: Duration = Duration::from_millis(250);
/// How long before their end tokens and certificates of plug-ins are replaced; sooner for those that live shorter.
const EARLY: Duration = Duration::from_secs(60);
/// When a plug-in is run again that failed, or whose token is refused.
const PLUGIN_AGAIN: Duration = Duration::from_secs(10);

/// What is shown at a time.
pub(crate) struct Shown {
    /// Another number: connections that stand show what is not in force any more.
    pub(crate) generation: u64,
    /// Where and how to connect.
    pub(crate) config: kube::Config,
    pub(crate) authorization: Option<HeaderValue>,
}

/// The credentials of one API server, shared by all connections to it.
pub(crate) struct Credentials {
    shown: watch::Receiver<Arc<Shown>>,
    refused: Arc<Notify>,
    /// Since when every call fails.
    failing: Mutex<Option<Instant>>,
}

impl Credentials {
    /// Reads everything, runs the plug-in if there is one, and goes on looking for as long as anybody holds this.
    pub(crate) fn start(access: Access) -> Result<Arc<Self>, ConnectError> {
        let mut looking = Looking { access, taken: None, issued: None, rest: None, generation: 0, problem: None };
        let first = std::thread::scope(|scope| scope.spawn(|| looking.first()).join());
        let shown = first.map_err(|_| ConnectError::new("credentials", "reading them failed"))??;
        let (publish, shown) = watch::channel(Arc::new(shown));
        let refused = Arc::new(Notify::new());
        tokio::spawn(looking.run(publish, refused.clone()));
        Ok(Arc::new(Self { shown, refused, failing: Mutex::new(None) }))
    }

    /// Some that never change.
    #[cfg(test)]
    pub(crate) fn fixed() -> Arc<Self> {
        let config = kube::Config::new(http::Uri::from_static("http://peer"));
        let (_, shown) = watch::channel(Arc::new(Shown { generation: 0, config, authorization: None }));
        Arc::new(Self { shown, refused: Arc::default(), failing: Mutex::new(None) })
    }

    /// What is in force now.
    pub(crate) fn shown(&self) -> Arc<Shown> {
        self.shown.borrow().clone()
    }

    /// The API server does not accept what was shown.
    pub(crate) fn refused(&self) {
        self.refused.notify_one();
    }

    /// Notes whether a call was answered by an API server that works and knows us.
    pub(crate) fn called(&self, answered: bool) {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        if answered {
            *failing = None;
        } else {
            failing.get_or_insert_with(Instant::now);
        }
    }

    /// For how long no call was answered.
    pub(crate) fn failing_for(&self) -> Option<Duration> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner).map(|since| since.elapsed())
    }
}

struct Looking {
    access: Access,
    taken: Option<Read>,
    issued: Option<(Issued, Timestamp)>,
    /// The plug-in failed, or its token was refused when it was fresh: not run before this.
    rest: Option<Instant>,
    generation: u64,
    /// What was told to be wrong.
    problem: Option<String>,
}

impl Looking {
    fn first(&mut self) -> Result<Shown, ConnectError> {
        let read = self.access.read()?;
        if let Login::Exec(exec) = &read.login {
            let place = read.place.clone();
            let issued = plugin::run(exec).map_err(|error| ConnectError::new(&place, &error.to_string()))?;
            self.issued = Some((issued, Timestamp::now()));
            self.rest = Some(Instant::now() + PLUGIN_AGAIN);
        }
        self.show(read)
    }

    async fn run(mut self, publish: watch::Sender<Arc<Shown>>, refused: Arc<Notify>) {
        loop {
            let told = tokio::select! {
                () = publish.closed() => return,
                () = tokio::time::sleep(self.next_look()) => false,
                () = refused.notified() => true,
            };
            // Files may be far away, and a plug-in takes its time.
            let looked = tokio::task::spawn_blocking(move || {
                let shown = self.look(told);
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
                Err(problem) => self.tell(problem),
            }
        }
    }

    /// What is to be shown from now on, if that is something else than before. `refused`: what is shown is not accepted.
    fn look(&mut self, refused: bool) -> Result<Option<Shown>, String> {
        let mut read = self.access.read().map_err(|error| error.to_string())?;
        let mut changed = !self.taken.as_ref().is_some_and(|taken| taken.is_same(&read));
        if changed {
            std::thread::sleep(SECOND_LOOK);
            let again = self.access.read().map_err(|error| error.to_string())?;
            if !again.is_same(&read) {
                // Somebody is at it.
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

    /// Whether what the plug-in gave ends soon.
    fn is_due(&self) -> bool {
        self.due_in().is_some_and(|time| time.is_zero())
    }

    /// When the plug-in is to be run again, if what it gave has an end.
    fn due_in(&self) -> Option<Duration> {
        let (issued, at) = self.issued.as_ref()?;
        let until = issued.until?;
        let life = Duration::try_from(until.duration_since(*at)).unwrap_or_default();
        let left = Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default();
        Some(left.saturating_sub(EARLY.min(life / 2)))
    }

    fn next_look(&self) -> Duration {
        // What is due and was not replaced is tried at the next regular look.
        self.due_in().filter(|time| !time.is_zero()).map_or(LOOK, |time| time.min(LOOK))
    }

    fn show(&mut self, read: Read) -> Result<Shown, ConnectError> {
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
        // A plug-in that gives a certificate gives another each time.
        if !same || self.issued.as_ref().is_some_and(|(issued, _)| issued.certificate.is_some()) {
            self.generation += 1;
        }
        if self.taken.is_some() && !same {
            tracing::info!(place = read.place, "the credentials for the API server changed, and are in force");
        }
        self.taken = Some(read);
        Ok(Shown { generation: self.generation, config, authorization })
    }

    fn mended(&mut self) {
        // A plug-in that failed has not run again while it rests.
        let rests = self.rest.is_some_and(|until| Instant::now() < until);
        if !rests && self.problem.take().is_some() {
            tracing::info!("the credentials for the API server are in order again");
        }
    }

    /// Once for each thing that is wrong; what was read before stays in force.
    fn tell(&mut self, problem: String) {
        if self.problem.as_ref() != Some(&problem) {
            tracing::warn!(
                problem,
                "the credentials for the API server cannot be read anew; those before stay in force"
            );
            self.problem = Some(problem);
        }
    }
}
