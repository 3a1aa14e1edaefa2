//! Process metrics that the kernel provides, under the names that Prometheus clients commonly use.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::MetricDoc;

/// Name, unit and help of each metric.
type Described = (&'static str, Option<Unit>, &'static str);

const RESIDENT: Described = ("process_resident_memory", Some(Unit::Bytes), "Memory that the process holds");
const OPEN_FILES: Described = ("process_open_fds", None, "Files and connections that are open");
const STARTED: Described = ("process_start_time", Some(Unit::Seconds), "When the process started, since 1970");

/// Describes the metrics that every process has.
#[must_use]
pub fn process_metrics_reference() -> Vec<MetricDoc> {
    let describe = |(name, unit, help): Described| {
        let unit = unit.map_or_else(String::new, |unit| format!("_{}", unit.as_str()));
        MetricDoc { name: format!("{name}{unit}"), kind: "gauge", labels: &[], help }
    };
    [RESIDENT, OPEN_FILES, STARTED].map(describe).into()
}

/// Reads the metrics at each scrape. A value that the kernel does not provide is left out.
#[derive(Debug)]
struct Process {
    /// Seconds since 1970.
    started: f64,
}

/// Adds `process_resident_memory_bytes`, `process_open_fds` and `process_start_time_seconds`. Call it when the process
/// starts: the time of the call is the start time.
pub fn register_process_metrics(registry: &mut Registry) {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    registry.register_collector(Box::new(Process { started }));
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut gauge = |(name, unit, help): Described, value: f64| {
            let metric = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
            ConstGauge::new(value).encode(metric)
        };
        if let Some(bytes) = resident() {
            gauge(RESIDENT, bytes)?;
        }
        if let Some(open) = open_files() {
            gauge(OPEN_FILES, open)?;
        }
        gauge(STARTED, self.started)
    }
}

fn resident() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    kibibytes.trim().strip_suffix("kB")?.trim().parse::<f64>().ok().map(|kibibytes| kibibytes * 1024.0)
}

fn open_files() -> Option<f64> {
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count();
    // One of them is the directory that is being read.
    u32::try_from(open.saturating_sub(1)).ok().map(f64::from)
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    fn sample(registry: &Registry, name: &str) -> f64 {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        let line = text.lines().find(|line| line.starts_with(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).rsplit(' ').next().unwrap().parse().unwrap()
    }

    #[test]
    fn the_process_is_seen_as_it_is() {
        let mut registry = Registry::default();
        register_process_metrics(&mut registry);
        let bytes = sample(&registry, "process_resident_memory_bytes");
        assert!((1e6..1e11).contains(&bytes), "{bytes}");
        for MetricDoc { name, .. } in process_metrics_reference() {
            assert!(sample(&registry, &name) > 0.0, "{name}");
        }
        // The other tests of this process open and close files, too, but fewer than this.
        let before = sample(&registry, "process_open_fds");
        let files: Vec<_> = (0..200).map(|_| std::fs::File::open("/proc/self/status").unwrap()).collect();
        let after = sample(&registry, "process_open_fds");
        assert!(before > 0.0 && after >= before + 100.0, "{before}, with {} more {after}", files.len());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let started = sample(&registry, "process_start_time_seconds");
        assert!((now - 60.0..=now).contains(&started), "{started}");
    }
}
