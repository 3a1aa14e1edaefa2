//! The watch on the objects of the kind Backend (`--backends objects`).

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use gimbal_backend::{BackendObjects, BackendResource};
use gimbal_kubernetes_client::{ApiError, Cluster, WatchEvent, WatchScope, watch};
use gimbal_kubernetes_definition::{ServedDefinition, definition_name, missing_fields};
use gimbal_kubernetes_objects::Object as _;
use gimbal_runtime::Exit;

use crate::apply::code;
use crate::metrics::Metrics;

/// Pause before the definition is asked for again.
const PAUSE: Duration = Duration::from_secs(1);

/// Follows the Backends of the Gimbal cluster.
pub(crate) struct BackendWatch {
    cluster: Cluster,
    events: BoxStream<'static, WatchEvent<BackendResource>>,
    objects: BackendObjects,
    asks: Option<Ask>,
    failing: bool,
    metrics: Metrics,
}

/// Why the definition has to be asked for before the next event is taken.
#[derive(Debug, Clone, Copy)]
enum Ask {
    /// A list begins.
    List,
    /// An object is missing.
    Missing,
}

impl BackendWatch {
    /// Checks that the Gimbal cluster serves every field of the kind, and lists the objects once. Waits for an API server that
    /// does not answer.
    ///
    /// # Errors
    /// Returns which fields, or that the whole kind is missing.
    pub(crate) async fn start(cluster: &Cluster, metrics: Metrics) -> Result<Self, Exit> {
        let events = watch::<BackendResource>(cluster.apart(), WatchScope::default()).boxed();
        let (cluster, objects) = (cluster.clone(), BackendObjects::default());
        let mut started = Self { cluster, events, objects, asks: None, failing: false, metrics };
        let name = definition_name::<BackendResource>();
        let chart = "install the chart gimbal-crds of this release first";
        match started.definition().await {
            None => {
                let problem = format!("--backends objects: the Gimbal cluster has no definition {name}: {chart}");
                return Err(Exit::Usage(problem));
            }
            Some(served) => {
                let missing = missing_fields::<BackendResource>(&served);
                let missing = missing.map_err(|error| Exit::Failure(error.to_string()))?;
                if !missing.is_empty() {
                    let missing = missing.join(", ");
                    let problem = format!("--backends objects: the definition {name} lacks {missing}: {chart}");
                    return Err(Exit::Usage(problem));
                }
            }
        }
        while !started.step().await {}
        Ok(started)
    }

    /// Returns the Backends as they are known.
    pub(crate) fn objects(&self) -> &BackendObjects {
        &self.objects
    }

    /// Waits until a Backend may have changed. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        while !self.step().await {}
    }

    /// Takes an event, or finds out what has to be known before the next one. Returns whether a Backend may have changed. Cancel
    /// safe: what is to be found out is asked for again.
    async fn step(&mut self) -> bool {
        if let Some(ask) = self.asks {
            let served = self.definition().await;
            let lasting = served.as_ref().filter(|served| served.metadata.deletion_timestamp.is_none());
            let uid = lasting.map(|served| &*served.metadata.uid);
            match ask {
                Ask::List => self.objects.list_begin(uid.unwrap_or_default()),
                Ask::Missing => self.objects.definition_is(uid),
            }
            self.asks = None;
            return matches!(ask, Ask::Missing);
        }
        let Some(event) = self.events.next().await else { return std::future::pending().await };
        match event {
            WatchEvent::ListBegin => self.asks = Some(Ask::List),
            WatchEvent::Listed(page) => page.iter().for_each(|object| self.apply(object)),
            WatchEvent::ListDone => {
                self.objects.list_end();
                return !self.is_missing_one();
            }
            WatchEvent::Applied(object) => {
                self.apply(&object);
                return true;
            }
            WatchEvent::Deleted(object) => {
                self.objects.gone(&object);
                return !self.is_missing_one();
            }
            WatchEvent::WentBack { seen, listed } => {
                self.objects.went_back();
                tracing::warn!(
                    seen,
                    listed,
                    "the Gimbal cluster's store was restored to an older state: Backends are as it has them"
                );
            }
            WatchEvent::Alive => self.works(),
            WatchEvent::Failed(error) => self.failed("the watch on Backends", &error),
        }
        false
    }

    /// Whether an object is missing. What that means is found out next.
    fn is_missing_one(&mut self) -> bool {
        let missing = self.objects.awaits_definition();
        self.asks = missing.then_some(Ask::Missing);
        missing
    }

    fn apply(&mut self, object: &BackendResource) {
        if let Err(error) = self.objects.apply(object) {
            tracing::error!(object = %object.metadata.meta.name, %error, "this Backend is no backend");
        }
    }

    /// Returns the definition that the Gimbal cluster has, once it answers; `None` if it has none.
    async fn definition(&mut self) -> Option<ServedDefinition> {
        loop {
            match self.cluster.get("", &definition_name::<BackendResource>()).await {
                Ok(served) => return Some(served),
                Err(ApiError::NotFound { .. }) => return None,
                Err(error) => self.failed("reading the definition of Backends", &error),
            }
            self.cluster.pause(PAUSE).await;
        }
    }

    fn works(&mut self) {
        if std::mem::take(&mut self.failing) {
            tracing::info!("the watch on Backends works again");
        }
    }

    fn failed(&mut self, what: &str, error: &ApiError) {
        self.metrics.watch_failed(BackendResource::KIND.plural, code(error));
        // Logged once for each outage.
        if !std::mem::replace(&mut self.failing, true) {
            tracing::warn!(%error, "{what} failed; it is tried again, and Backends stay as they were known");
        }
    }
}
