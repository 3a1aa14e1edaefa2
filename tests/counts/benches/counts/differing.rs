//! Differences and digests.

use std::hint::black_box;

use gimbal_model::{Change, Digest, EndpointChange, Service};
use gungraun::{library_benchmark, library_benchmark_group};

use crate::source::{key, ports, service, unready, with_one_changed};

fn before_and_after(endpoints: u32) -> (Service, Service) {
    let before = service(endpoints);
    let after = with_one_changed(&before);
    (before, after)
}

#[library_benchmark(setup = before_and_after)]
#[bench::of_100(100)]
#[bench::of_5000(5000)]
fn one_endpoint_differs((before, after): (Service, Service)) -> (Option<Change>, Service, Service) {
    (Change::between(Some(&before), Some(&after)), before, after)
}

fn held(endpoints: u32) -> (Service, Digest, Vec<EndpointChange>) {
    let service = service(endpoints);
    let digest = service.digest(&key(0));
    (service, digest, vec![EndpointChange::Set(ports(), unready(endpoints / 2))])
}

#[library_benchmark(setup = held)]
#[bench::of_100(100)]
#[bench::of_5000(5000)]
fn one_endpoint_updated(
    (mut service, mut digest, changes): (Service, Digest, Vec<EndpointChange>),
) -> (Service, Digest) {
    let key = key(0);
    service.update(black_box(&key), &mut digest, None, changes);
    (service, digest)
}

#[library_benchmark(setup = service)]
#[bench::of_100(100)]
fn digest_of_all(service: Service) -> (Digest, Service) {
    (service.digest(black_box(&key(0))), service)
}

library_benchmark_group!(name = model; benchmarks = one_endpoint_differs, one_endpoint_updated, digest_of_all);
