//! One large backend stays small: what is held is bounded by the objects, compactly. Alone in its process, for it looks
//! at the whole of it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // A panic is the report.

#[path = "source/common/mod.rs"]
mod common;

use common::{at, list_nothing, service, slice};
use gimbal_kubernetes_source::{KubernetesIndex, Selection};

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn half_a_million_endpoints_under_30_mb() {
    let before = resident_bytes();
    let mut index = KubernetesIndex::new(Selection::default());
    list_nothing(&mut index);
    let mut held = Vec::new();
    let mut host = 0u32;
    for n in 0..10_000u32 {
        let (namespace, name) = (format!("team-{}", n % 100), format!("service-{n}"));
        let mut object = service(&namespace, &name);
        object.metadata.labels =
            [("app", &*name), ("tier", "web"), ("release", "one")].map(|(k, v)| (k.into(), v.into())).into();
        index.apply_service(object);
        let count = if n < 20 { 2_100 } else { 46 };
        for first in (0..count).step_by(100) {
            let endpoints: Vec<_> = (first..count.min(first + 100))
                .map(|_| {
                    host += 1;
                    at(&std::net::Ipv4Addr::from(0x0a00_0000 + host).to_string())
                })
                .collect();
            index.apply_slice(slice(&namespace, &format!("{name}-{first}"), &name, endpoints.into()));
        }
        held.extend(index.drain());
    }
    // The last state of each, as the stream's end holds it.
    let endpoints: usize = {
        let newest: std::collections::BTreeMap<_, _> = held.iter().cloned().collect();
        newest.values().flatten().map(|service| service.endpoint_count()).sum()
    };
    assert!(endpoints > 500_000, "{endpoints}");
    let grown = resident_bytes() - before;
    assert!(grown < 30_000_000, "{endpoints} endpoints take {grown} bytes");
}
