//! The floor of the figures: the same objects written without Gimbal.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use gimbal_kubernetes_client::{Access, Cluster, WatchScope};
use gimbal_kubernetes_objects::{EndpointSlice, Meta, Service, keys};
use gimbal_testkit::TestCluster;
use gimbal_testkit::cluster::USER_AGENT;
use gimbal_tests::writer_rights;

/// A Service and its slices, to be created.
pub type Target = (Service, Vec<EndpointSlice>);

/// Returns a client with a writer's rights under another name. An administrator would be exempt from the API server's
/// priority and fairness, and the writer is not.
///
/// # Errors
/// The API server's error.
pub async fn hands(cluster: &TestCluster) -> anyhow::Result<Cluster> {
    let user = cluster.user("user-1")?;
    cluster.bind(&user, &writer_rights()?).await?;
    Ok(Cluster::connect(&Access::Kubeconfig(user.kubeconfig().to_owned()), USER_AGENT)?)
}

/// Returns the objects that the writer published, without UIDs and versions, so that they can be created anew.
///
/// # Errors
/// The API server's error.
pub async fn copy(cluster: &Cluster) -> anyhow::Result<Vec<Target>> {
    let scope =
        |mark: &str| WatchScope { label_selector: Some(format!("{mark}={}", keys::MANAGER)), ..WatchScope::default() };
    let services = cluster.list::<Service>(&scope(keys::MANAGED_BY)).await?;
    let slices = cluster.list::<EndpointSlice>(&scope(keys::SLICE_MANAGED_BY)).await?;
    let mut targets: std::collections::BTreeMap<_, Target> = services
        .into_iter()
        .map(|mut service| {
            anew(&mut service.metadata);
            ((service.metadata.namespace.clone(), service.metadata.name.clone()), (service, Vec::new()))
        })
        .collect();
    for mut slice in slices {
        anew(&mut slice.metadata);
        let service = slice.metadata.labels.get(keys::SERVICE_NAME).cloned().unwrap_or_default();
        if let Some((_, slices)) = targets.get_mut(&(slice.metadata.namespace.clone(), service)) {
            slices.push(slice);
        }
    }
    Ok(targets.into_values().collect())
}

/// Removes what an object to be created must not have.
pub fn anew(meta: &mut Meta) {
    meta.uid = "".into();
    meta.resource_version = "".into();
}

/// Creates the targets with `workers` concurrent requests, each Service before its slices.
///
/// # Errors
/// The API server's error.
pub async fn create(cluster: &Cluster, targets: &[Target], workers: usize) -> anyhow::Result<()> {
    let creates = targets.iter().map(|(service, slices)| async move {
        cluster.create(service).await?;
        for slice in slices {
            cluster.create(slice).await?;
        }
        anyhow::Ok(())
    });
    stream::iter(creates).buffer_unordered(workers).try_collect::<Vec<()>>().await?;
    Ok(())
}
