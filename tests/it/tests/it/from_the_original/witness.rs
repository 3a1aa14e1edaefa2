//! A consumer of the Gimbal cluster that looks at every event.

use std::collections::{BTreeMap, BTreeSet};

use futures::{Stream, StreamExt as _};
use gimbal_kubernetes_client::{WatchEvent, WatchScope, watch};
use gimbal_kubernetes_objects::{EndpointSlice, Endpoints, Object, Service, keys};
use gimbal_testkit::TestCluster;
use gimbal_tests::{SOON, put};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Watches namespace `team1`, until it is ended.
pub struct Witness {
    /// The name of the objects that it ends with.
    last: String,
    tasks: Vec<JoinHandle<Seen>>,
}

/// What a witness has seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// Services that lacked a ready endpoint that they had at the start, in their slices or in Endpoints that are there, after
    /// which event.
    pub fewer: Vec<String>,
    /// What was deleted: kind and name, for a slice its manager and the Service.
    pub deleted: BTreeSet<String>,
    /// How many events of slices there were.
    pub events: usize,
}

/// The ready endpoints of each Service.
type Ready = BTreeMap<String, BTreeSet<String>>;

impl Witness {
    /// Begins, and returns when it knows what there is.
    pub async fn start(cluster: &TestCluster, last: &str) -> Self {
        let (sliced, slices) = oneshot::channel();
        let (serviced, services) = oneshot::channel();
        let (packed, endpoints) = oneshot::channel();
        let client = cluster.client().unwrap();
        let scope = WatchScope { namespace: Some("team1".to_owned()), ..WatchScope::default() };
        let tasks = vec![
            tokio::spawn(of_slices(watch::<EndpointSlice>(client.clone(), scope.clone()), sliced, last.to_owned())),
            tokio::spawn(of_others(watch(client.clone(), scope.clone()), serviced, last.to_owned(), |_: &Service| {
                BTreeSet::new()
            })),
            tokio::spawn(of_others(watch(client, scope), packed, last.to_owned(), packed_addresses)),
        ];
        for begun in [slices, services, endpoints] {
            tokio::time::timeout(SOON, begun).await.unwrap().unwrap();
        }
        Self { last: last.to_owned(), tasks }
    }

    /// Waits until every event so far was seen.
    pub async fn end(self, cluster: &TestCluster) -> Seen {
        let metadata = json!({"namespace": "team1", "name": self.last});
        for object in [
            json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata,
                "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}),
            json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata}),
            json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata, "addressType": "IPv4",
                "endpoints": []}),
        ] {
            put(cluster, &object).await.unwrap();
        }
        let mut all = Seen::default();
        for task in self.tasks {
            let seen = tokio::time::timeout(SOON, task).await.unwrap().unwrap();
            all.fewer.extend(seen.fewer);
            all.deleted.extend(seen.deleted);
            all.events += seen.events;
        }
        all
    }
}

async fn of_slices(
    mut events: impl Stream<Item = WatchEvent<EndpointSlice>> + Unpin,
    begun: oneshot::Sender<()>,
    last: String,
) -> Seen {
    let (mut seen, mut there, mut begun) = (Seen::default(), BTreeMap::new(), Some(begun));
    let mut first = Ready::new();
    while let Some(event) = events.next().await {
        let what = match event {
            WatchEvent::Listed(page) => {
                there.extend(page.into_iter().map(|slice| (slice.metadata.name.clone(), slice)));
                continue;
            }
            WatchEvent::ListDone => {
                if let Some(begun) = begun.take() {
                    first = ready(there.values());
                    begun.send(()).ok();
                }
                continue;
            }
            WatchEvent::Applied(slice) if *slice.metadata.name == *last => return seen,
            WatchEvent::Applied(slice) => {
                let what = format!("{} is {:?}", slice.metadata.name, slice.metadata.resource_version);
                there.insert(slice.metadata.name.clone(), slice);
                what
            }
            WatchEvent::Deleted(slice) => {
                there.remove(&slice.metadata.name);
                let label = |key| slice.metadata.labels.get(key).map_or("", |value| &**value);
                let (manager, service) = (label(keys::SLICE_MANAGED_BY), label(keys::SERVICE_NAME));
                seen.deleted.insert(format!("EndpointSlice {manager} {service}"));
                format!("{} is deleted", slice.metadata.name)
            }
            _ => continue,
        };
        seen.events += 1;
        let now = ready(there.values());
        for (service, wanted) in &first {
            let has = now.get(service).cloned().unwrap_or_default();
            if !wanted.is_subset(&has) {
                let lacking: Vec<_> = wanted.difference(&has).take(3).collect();
                seen.fewer.push(format!("{service} has {} of {}, not {lacking:?}, as {what}", has.len(), wanted.len()));
            }
        }
    }
    seen
}

/// Returns the ready endpoints that a consumer of slices sees, however many slices of a Service have them.
fn ready<'a>(slices: impl Iterator<Item = &'a EndpointSlice>) -> Ready {
    let mut all = Ready::new();
    for slice in slices {
        let service = slice.metadata.labels.get(keys::SERVICE_NAME).map_or("", |name| &**name);
        let found = all.entry(service.to_owned()).or_default();
        for endpoint in slice.endpoints.iter().filter(|endpoint| endpoint.conditions.ready != Some(false)) {
            for port in &slice.ports {
                found.insert(format!("{}:{:?} {:?}", endpoint.addresses[0], port.port, port.name));
            }
        }
    }
    all
}

/// Returns the ready addresses of Endpoints, for consumers that read these.
fn packed_addresses(endpoints: &Endpoints) -> BTreeSet<String> {
    let all = endpoints.subsets.iter().flat_map(|subset| &subset.addresses);
    all.map(|address| address.ip.to_string()).collect()
}

async fn of_others<T: Object>(
    mut events: impl Stream<Item = WatchEvent<T>> + Unpin,
    begun: oneshot::Sender<()>,
    last: String,
    ready: impl Fn(&T) -> BTreeSet<String>,
) -> Seen {
    let (mut seen, mut begun) = (Seen::default(), Some(begun));
    let mut first = Ready::new();
    while let Some(event) = events.next().await {
        match event {
            WatchEvent::Listed(page) => {
                first.extend(page.iter().map(|object| (object.meta().name.to_string(), ready(object))));
            }
            WatchEvent::ListDone => {
                if let Some(begun) = begun.take() {
                    begun.send(()).ok();
                }
            }
            WatchEvent::Applied(object) if *object.meta().name == *last => return seen,
            WatchEvent::Applied(object) => {
                let (name, now) = (&object.meta().name, ready(&object));
                let lacking: Vec<_> =
                    first.get(&**name).into_iter().flatten().filter(|one| !now.contains(*one)).collect();
                if !lacking.is_empty() {
                    seen.fewer.push(format!("{} {name} has {} and not {lacking:?}", T::KIND.kind, now.len()));
                }
            }
            WatchEvent::Deleted(object) => {
                seen.deleted.insert(format!("{} {}", T::KIND.kind, object.meta().name));
            }
            _ => {}
        }
    }
    seen
}
