//! Fills sources with Services and slices.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use gimbal_testkit::TestCluster;
use gimbal_tests::{slice_of, svc};
use serde_json::Value;

/// Number of concurrent requests.
const WORKERS: usize = 64;
/// Number of endpoints in a full EndpointSlice, as Kubernetes' own controller fills them.
pub const SLICE: u32 = 100;

/// Services of one size.
#[derive(Debug, Clone, Copy)]
pub struct Lot {
    /// Prefix of the Services' names.
    pub prefix: &'static str,
    /// How many Services to create.
    pub services: usize,
    /// Endpoints of each Service.
    pub endpoints: u32,
}

/// Number of namespaces; few compared with Services, as in a real cluster.
pub const NAMESPACES: usize = 20;

/// Returns the namespace of a Service by its number.
#[must_use]
pub fn namespace(number: usize) -> String {
    format!("team-{:02}", number % NAMESPACES)
}

/// Returns the name of a Service by its number.
#[must_use]
pub fn name(lot: Lot, number: usize) -> String {
    format!("{}-{number:05}", lot.prefix)
}

/// Creates the namespaces of the Services, in a source or in the Gimbal cluster.
///
/// # Errors
/// The API server's error.
pub async fn namespaces(cluster: &TestCluster) -> anyhow::Result<()> {
    for number in 0..NAMESPACES {
        cluster.namespace(&namespace(number)).await?;
    }
    Ok(())
}

/// Objects and the collections they are posted to, in the order of creation.
pub type Objects = Vec<(String, Value)>;

/// Returns a headless Service: allocating a cluster IP gets slower the more of them are taken. With 20,000 Services an
/// API server allocated 14 a second.
#[must_use]
pub fn headless(namespace: &str, name: &str) -> Value {
    let mut service = svc(namespace, name, &[("http", 80)]);
    service["spec"]["clusterIP"] = "None".into();
    service
}

/// Returns a Service and its slices.
#[must_use]
pub fn objects(lot: Lot, number: usize) -> Objects {
    objects_in(&namespace(number), lot, number)
}

#[allow(clippy::cast_possible_truncation)]
fn objects_in(namespace: &str, lot: Lot, number: usize) -> Objects {
    let name = name(lot, number);
    let service = headless(namespace, &name);
    let mut objects = vec![(format!("/api/v1/namespaces/{namespace}/services"), service)];
    let path = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
    for first in (0..lot.endpoints).step_by(SLICE as usize) {
        let count = SLICE.min(lot.endpoints - first);
        // Services may share addresses: they are addresses of Pods in one network, and the sums stay in 10.0.0.0/8.
        let address = (number as u32 * 251 + first) % (1 << 23);
        let slice = slice_of(namespace, &name, &format!("{:05}", first / SLICE), address + 1, count);
        objects.push((path.clone(), slice));
    }
    objects
}

/// Creates all Services of these lots.
///
/// # Errors
/// The API server's error.
pub async fn fill(cluster: &TestCluster, lots: &[Lot]) -> anyhow::Result<()> {
    namespaces(cluster).await?;
    for lot in lots {
        create(cluster, (0..lot.services).map(|number| objects(*lot, number))).await?;
    }
    Ok(())
}

/// Creates all Services of a lot in a namespace of their own.
///
/// # Errors
/// The API server's error.
pub async fn fill_namespace(cluster: &TestCluster, namespace: &str, lot: Lot) -> anyhow::Result<()> {
    cluster.namespace(namespace).await?;
    create(cluster, (0..lot.services).map(|number| objects_in(namespace, lot, number))).await
}

/// Creates these Services; the objects of one Service one after the other.
///
/// # Errors
/// The API server's error.
pub async fn create(cluster: &TestCluster, services: impl Iterator<Item = Objects>) -> anyhow::Result<()> {
    let creates = services.map(|objects| async move {
        for (path, object) in objects {
            cluster.admin().post(&path, &object).await?;
        }
        anyhow::Ok(())
    });
    stream::iter(creates).buffer_unordered(WORKERS).try_collect::<Vec<()>>().await?;
    Ok(())
}
