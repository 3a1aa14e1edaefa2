//! Translation of a watch's event into the Service that is offered.

use std::sync::Arc;

use gimbal_kubernetes_objects::{EndpointSlice, Service};
use gimbal_kubernetes_source::{KubernetesIndex, Selection};
use gimbal_model::SourceKey;
use gungraun::{library_benchmark, library_benchmark_group};

use crate::object::{service, slice, slices};

type Drained = Vec<(SourceKey, Option<Arc<gimbal_model::Service>>)>;

fn listed() -> KubernetesIndex {
    let mut index = KubernetesIndex::new(Selection::default());
    index.begin_services();
    index.end_services();
    index.begin_slices();
    index.end_slices();
    index
}

/// Returns an index, and its second or only slice with one endpoint not ready.
fn offered(endpoints: u32) -> (KubernetesIndex, EndpointSlice) {
    let mut index = listed();
    index.apply_service(service());
    slices(endpoints).into_iter().for_each(|slice| index.apply_slice(slice));
    assert_eq!(index.drain().len(), 1);
    let mut changed = slices(endpoints).into_iter().take(2).last().unwrap();
    changed.endpoints[50].conditions.ready = Some(false);
    (index, changed)
}

#[library_benchmark(setup = offered)]
#[bench::of_100(100)]
#[bench::of_5000(5000)]
fn one_endpoint_changed((mut index, event): (KubernetesIndex, EndpointSlice)) -> (Drained, KubernetesIndex) {
    index.apply_slice(event);
    (index.drain(), index)
}

fn unseen(endpoints: u32) -> (KubernetesIndex, Service, EndpointSlice) {
    (listed(), service(), slice(0, endpoints))
}

#[library_benchmark(setup = unseen)]
#[bench::of_20(20)]
fn service_first_seen(
    (mut index, service, slice): (KubernetesIndex, Service, EndpointSlice),
) -> (Drained, KubernetesIndex) {
    index.apply_service(service);
    index.apply_slice(slice);
    (index.drain(), index)
}

library_benchmark_group!(name = translate; benchmarks = one_endpoint_changed, service_first_seen);
