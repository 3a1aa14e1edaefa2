//! The machine that a scenario was measured on.

use serde::{Deserialize, Serialize};

/// A machine, and how busy it was when a scenario began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name, as the kernel reports it.
    pub processor: String,
    /// Number of cores that this process may use.
    pub cores: usize,
    /// Load average of the last minute before the scenario.
    pub load_before: String,
    /// The kernel's version.
    pub kernel: String,
}

impl Machine {
    /// Describes this machine. What cannot be read is left empty.
    #[must_use]
    pub fn read() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        Self {
            processor: model.map(|(_, name)| name.trim().to_owned()).unwrap_or_default(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            load_before: read("/proc/loadavg").split_whitespace().next().unwrap_or_default().to_owned(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}
