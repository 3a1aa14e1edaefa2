//! Follows the configuration: the file, and the Backends of the Gimbal cluster where these are objects.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use gimbal_admission::FollowedFile;
use gimbal_backend::{BackendSpec, KnownObject};
use gimbal_model::BackendName;
use gimbal_reconcile::Reconciler;
use tokio::sync::watch;

use crate::backend_status::{StatusTargets, status_targets};
use crate::backend_watch::BackendWatch;
use crate::config::{BackendConfig, Config, ConfigError, Current};
use crate::mailbox::{Ended, Handle};
use crate::metrics::Metrics;

/// Where the configuration comes from.
pub(crate) struct ConfigSources {
    /// What the file says, without the Backends that are objects.
    pub(crate) base: Config,
    /// The file; `None` if there is none.
    pub(crate) file: Option<FollowedFile>,
    /// The Backends; `None` if the file names them.
    pub(crate) watch: Option<BackendWatch>,
}

/// News of one source.
enum News {
    File(Box<Result<Config, ConfigError>>),
    Objects,
}

impl ConfigSources {
    /// Returns the configuration that the sources give now.
    pub(crate) fn config(&self) -> Config {
        let Some(watch) = &self.watch else { return self.base.clone() };
        let refused = &self.base.refused_addresses;
        let backend = |(name, known): (&BackendName, KnownObject<'_>)| {
            let spec: BackendSpec = known.in_force?.clone();
            let mut backend = BackendConfig::new(name.clone(), spec, refused);
            backend.policy.leaving = known.is_leaving;
            Some(backend)
        };
        self.base.with_backends(watch.objects().known().filter_map(backend).collect())
    }

    /// Returns the UIDs of the objects that are there or stay in force, whether or not anything of them is.
    pub(crate) fn objects(&self) -> BTreeMap<BackendName, Arc<str>> {
        let known = self.watch.iter().flat_map(|watch| watch.objects().known());
        known.map(|(name, known)| (name.clone(), known.uid.into())).collect()
    }

    /// Waits for news. Cancel safe.
    async fn news(&mut self) -> News {
        let objects = self.watch.is_some();
        let file = async {
            match &mut self.file {
                Some(file) => file.changed::<Config>().await,
                None => std::future::pending().await,
            }
        };
        let watch = async {
            match &mut self.watch {
                Some(watch) => watch.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            read = file => News::File(Box::new(read.and_then(|config| if objects { config.without_backends() } else { Ok(config) }))),
            () = watch => News::Objects,
        }
    }
}

/// Puts each new configuration in force.
pub(crate) struct Following {
    pub(crate) sources: ConfigSources,
    pub(crate) owner: Handle,
    pub(crate) current: Arc<Current>,
    pub(crate) metrics: Metrics,
    /// The objects that get a status.
    pub(crate) targets: watch::Sender<StatusTargets>,
    /// The objects as the state knows them.
    pub(crate) objects: BTreeMap<BackendName, Arc<str>>,
    /// What was logged.
    pub(crate) logged: Logged,
}

/// What was logged of the configuration, so that it is logged once.
#[derive(Debug, Default)]
pub(crate) struct Logged {
    warnings: Vec<String>,
    objects: BTreeMap<BackendName, String>,
}

impl Following {
    /// Runs for ever. What is not valid is logged, and what was before stays in force.
    pub(crate) async fn run(mut self) {
        loop {
            let put = match self.sources.news().await {
                News::Objects => self.put().await,
                News::File(read) => match *read {
                    Ok(config) => {
                        self.sources.base = config;
                        let put = self.put().await;
                        self.metrics.config_read(true);
                        tracing::info!(
                            backends = self.current.config().borrow().backends.len(),
                            "the configuration file changed, and is in force"
                        );
                        put
                    }
                    Err(error) => {
                        self.metrics.config_read(false);
                        tracing::error!(%error, "the configuration file changed and is wrong; the one before stays in force");
                        Ok(())
                    }
                },
            };
            if put.is_err() {
                // The process ends.
                return std::future::pending().await;
            }
        }
    }

    /// Puts what the sources give in force.
    async fn put(&mut self) -> Result<(), Ended> {
        let config = self.sources.config();
        self.logged.log(&config, self.sources.watch.as_ref());
        self.metrics.backend_objects(self.sources.watch.as_ref().map(BackendWatch::objects));
        if let Some(watch) = &self.sources.watch {
            self.targets.send_replace(status_targets(watch.objects()));
        }
        let objects = self.sources.objects();
        let is_known = config == **self.current.config().borrow();
        if is_known && objects == self.objects {
            return Ok(());
        }
        let (policies, known) = (config.policies(), objects.clone());
        // The state first: an agent of a new backend that is admitted must find its backend known.
        let follow = move |state: &mut Reconciler| {
            let now = Instant::now();
            state.configure(policies, now);
            state.set_objects(known, now);
        };
        self.owner.ask(follow).await?;
        self.objects = objects;
        if !is_known {
            self.current.replace(config);
        }
        Ok(())
    }
}

impl Logged {
    /// Logs what is new of warnings and of objects that are not in force as they are.
    pub(crate) fn log(&mut self, config: &Config, watch: Option<&BackendWatch>) {
        let warnings = config.warnings();
        for warning in warnings.iter().filter(|warning| !self.warnings.contains(warning)) {
            tracing::warn!("{warning}");
        }
        self.warnings = warnings;
        let Some(watch) = watch else { return };
        let mut now = BTreeMap::new();
        for (name, known) in watch.objects().known() {
            now.extend(trouble(&known).map(|trouble| (name.clone(), trouble)));
        }
        for (name, trouble) in now.iter().filter(|(name, trouble)| self.objects.get(*name) != Some(*trouble)) {
            tracing::error!(backend = %name, "Backend {name}: {trouble}");
        }
        for name in self.objects.keys().filter(|name| !now.contains_key(*name)) {
            tracing::info!(backend = %name, "Backend {name} is in force as it is, or gone");
        }
        self.objects = now;
    }
}

/// Returns why an object and what is in force of it differ.
fn trouble(known: &KnownObject<'_>) -> Option<String> {
    match (&known.problem, known.in_force) {
        (Some(problem), Some(_)) => Some(format!("{problem}; what it was before stays in force")),
        (Some(problem), None) => Some(format!("{problem}; no agent of it is accepted")),
        (None, _) if known.is_kept => Some(
            "it is gone, and was not deleted: the definition went, or all Backends at once. It stays in force".into(),
        ),
        (None, _) => None,
    }
}
