//! The content of the Gimbal cluster, as a watch reports it: a list would answer up to 100 ms late, because the API
//! server first makes sure that its cache is as new as etcd.

use std::collections::BTreeMap;
use std::time::Instant;

use futures::{Stream, StreamExt as _, stream};
use gimbal_kubernetes_client::{Cluster, WatchEvent, watch};
use gimbal_kubernetes_objects::{EndpointSlice, Object, Service, keys};
use tokio::sync::watch::{Receiver, channel};
use tokio::task::JoinHandle;

use crate::view::{self, View};

/// A watch that runs until this is dropped.
pub struct Sight {
    pictures: Receiver<Picture>,
    task: JoinHandle<()>,
}

/// The content, and when it last changed.
#[derive(Clone)]
struct Picture {
    services: Objects<Service>,
    slices: Objects<EndpointSlice>,
    at: Instant,
}

/// Objects by namespace and name.
#[derive(Clone)]
struct Objects<T>(BTreeMap<String, T>);

enum Event {
    Service(WatchEvent<Service>),
    Slice(WatchEvent<EndpointSlice>),
}

impl Sight {
    pub fn open(cluster: &Cluster) -> Self {
        let begin =
            Picture { services: Objects(BTreeMap::new()), slices: Objects(BTreeMap::new()), at: Instant::now() };
        let (sender, pictures) = channel(begin);
        let mut events = Box::pin(events(cluster));
        let task = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                sender.send_if_modified(|picture| {
                    let changed = match event {
                        Event::Service(event) => picture.services.apply(event),
                        Event::Slice(event) => picture.slices.apply(event),
                    };
                    if changed {
                        picture.at = Instant::now();
                    }
                    changed
                });
            }
        });
        Self { pictures, task }
    }

    /// Waits until `right` accepts the content. Returns since when it does.
    pub async fn until(&mut self, right: impl Fn(&View) -> bool) -> anyhow::Result<Instant> {
        let seen = |picture: &Picture| right(&view::written(picture.services.0.values(), picture.slices.0.values()));
        Ok(self.pictures.wait_for(seen).await?.at)
    }
}

impl Drop for Sight {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn events(cluster: &Cluster) -> impl Stream<Item = Event> + use<> {
    let services = watch::<Service>(cluster.clone(), view::scope(keys::MANAGED_BY)).map(Event::Service);
    let slices = watch::<EndpointSlice>(cluster.clone(), view::scope(keys::SLICE_MANAGED_BY)).map(Event::Slice);
    stream::select(services, slices)
}

impl<T: Object> Objects<T> {
    /// Applies an event. Returns whether the objects may have changed. A list that begins anew drops what was known and
    /// fills it again page by page; `until` compares everything, so it accepts only the whole list.
    fn apply(&mut self, event: WatchEvent<T>) -> bool {
        let key = |object: &T| format!("{}/{}", object.meta().namespace, object.meta().name);
        match event {
            WatchEvent::ListBegin => self.0.clear(),
            WatchEvent::Listed(objects) => self.0.extend(objects.into_iter().map(|object| (key(&object), object))),
            WatchEvent::Applied(object) => drop(self.0.insert(key(&object), object)),
            WatchEvent::Deleted(object) => drop(self.0.remove(&key(&object))),
            WatchEvent::WentBack { .. } | WatchEvent::ListDone | WatchEvent::Alive | WatchEvent::Failed(_) => {
                return false;
            }
        }
        true
    }
}
