//! Resource usage of a process, read from `/proc`.

use std::time::Duration;

use anyhow::Context as _;

/// USER_HZ, the kernel's unit of CPU times, is 100 on every supported Linux.
const TICKS: u64 = 100;

/// CPU time used so far, and memory held now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// User and system time of all threads.
    pub cpu: Duration,
    /// Resident, in MB (10^6 bytes).
    pub resident: f64,
    /// Peak of the resident memory, in MB, since [`forget_peak`].
    pub peak: f64,
}

impl Usage {
    /// Returns the usage of the process with this ID.
    ///
    /// # Errors
    /// The process has ended.
    pub fn of(id: u32) -> anyhow::Result<Self> {
        let read = |file: &str| {
            std::fs::read_to_string(format!("/proc/{id}/{file}")).with_context(|| format!("process {id} has ended"))
        };
        let stat = read("stat")?;
        // The name may contain anything, including spaces and brackets.
        let fields: Vec<&str> =
            stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
        let ticks = |field: usize| fields.get(field).and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
        let status = read("status")?;
        let megabytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let kib = line.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
            kib.unwrap_or_default() * 1024.0 / 1e6
        };
        let cpu = Duration::from_millis((ticks(11) + ticks(12)) * 1000 / TICKS);
        Ok(Self { cpu, resident: megabytes("VmRSS"), peak: megabytes("VmHWM") })
    }
}

/// Resets the peak to the memory that is resident now.
///
/// # Errors
/// The process has ended, or belongs to another user.
pub fn forget_peak(id: u32) -> anyhow::Result<()> {
    std::fs::write(format!("/proc/{id}/clear_refs"), "5").with_context(|| format!("process {id}: no new peak"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something() {
        let usage = Usage::of(std::process::id()).unwrap();
        assert!(usage.resident > 1.0 && usage.peak >= usage.resident, "{usage:?}");
        assert!(Usage::of(u32::MAX).is_err());
    }
}
