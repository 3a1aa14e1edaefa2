//! The Gimbal cluster, with the credentials of whoever runs the command.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use gimbal_kubernetes_client::{Access, ApiError, Cluster, WatchScope};
use gimbal_kubernetes_objects::{EndpointSlice, Endpoints, Object, Service, keys};
use gimbal_model::BackendName;
use gimbal_runtime::Exit;
use serde_json::json;

use super::decide::{Decided, FoundObjects, Taking, selectors};

/// The Gimbal cluster.
pub struct GimbalCluster(Cluster);

impl GimbalCluster {
    /// Reads the kubeconfig; without one, that of kubectl.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn of(kubeconfig: Option<&Path>) -> Result<Self, Exit> {
        let access = kubeconfig.map_or(Access::Default, |file| Access::Kubeconfig(file.to_owned()));
        let cluster = Cluster::connect(&access, "gimbalctl");
        cluster.map(Self).map_err(|error| Exit::Usage(format!("--kubeconfig: {error}")))
    }

    /// Returns what there is of a backend.
    ///
    /// # Errors
    /// The API server's refusal, or no answer.
    pub async fn find(&self, backend: &BackendName) -> Result<FoundObjects, Exit> {
        let mut found = FoundObjects {
            services: self.labelled::<Service>(backend).await?,
            endpoints: self.labelled::<Endpoints>(backend).await?,
            ..FoundObjects::default()
        };
        let ours = format!("{}={},{}={backend}", keys::SLICE_MANAGED_BY, keys::MANAGER, keys::BACKEND);
        for slice in self.list::<EndpointSlice>(ours).await? {
            let Some(service) = slice.metadata.labels.get(keys::SERVICE_NAME) else { continue };
            let place = (slice.metadata.namespace.to_string(), service.to_string());
            found.published.entry(place).or_default().add(&slice);
        }
        Ok(found)
    }

    /// Sets the mark on an object, if it is still as it was read. With it goes whose the object is: where several claims lead to
    /// its name, the writer would else give it to any of them.
    ///
    /// # Errors
    /// Why this object is not changed.
    pub async fn mark(&self, decided: &Decided, backend: &BackendName, taking: &Taking) -> Result<(), String> {
        let change = json!({"metadata": {
            "labels": {keys::MANAGED_BY: keys::MANAGER, keys::BACKEND: backend.as_str()},
            "annotations": {keys::SOURCE: taking.source},
        }});
        let meta = &decided.meta;
        let marked = match decided.kind {
            Service::KIND => self.0.merge_patch::<Service>(meta, &change).await.map(drop),
            _ => self.0.merge_patch::<Endpoints>(meta, &change).await.map(drop),
        };
        marked.map_err(|error| match error {
            ApiError::Conflict { .. } | ApiError::NotFound { .. } => "somebody changed it meanwhile".to_owned(),
            error => format!("cannot change it: {error}"),
        })
    }

    /// Lists the objects that name the backend by any of the labels, each of them once.
    async fn labelled<T: Object>(&self, backend: &BackendName) -> Result<Vec<T>, Exit> {
        let mut by_uid: BTreeMap<Arc<str>, T> = BTreeMap::new();
        for selector in selectors(backend) {
            let listed = self.list::<T>(selector).await?;
            by_uid.extend(listed.into_iter().map(|object| (object.meta().uid.clone(), object)));
        }
        let mut objects: Vec<T> = by_uid.into_values().collect();
        objects.sort_by(|a, b| (&a.meta().namespace, &a.meta().name).cmp(&(&b.meta().namespace, &b.meta().name)));
        Ok(objects)
    }

    async fn list<T: Object>(&self, selector: String) -> Result<Vec<T>, Exit> {
        let scope = WatchScope { label_selector: Some(selector), ..WatchScope::default() };
        let listed = self.0.list::<T>(&scope).await;
        listed.map_err(|error| Exit::Failure(format!("cannot list {} at {}: {error}", T::KIND.plural, self.0.url())))
    }
}
