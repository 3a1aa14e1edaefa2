//! Ports for servers under test.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Below the ports that Linux uses for outgoing connections (from 32768): such a connection may take a port between the
/// moment it was found free and the moment the server binds it.
const PORTS: Range<u16> = 11_000..32_000;

/// Returns a free TCP port on 127.0.0.1. No other call in this process returns the same port until all have been used.
///
/// # Errors
/// No port is left.
pub fn free_port() -> anyhow::Result<u16> {
    static NEXT: OnceLock<AtomicU32> = OnceLock::new();
    let next = NEXT.get_or_init(|| AtomicU32::new(start()));
    for _ in PORTS {
        let offset = next.fetch_add(1, Ordering::Relaxed) % u32::from(PORTS.end - PORTS.start);
        let port = PORTS.start + u16::try_from(offset).unwrap_or_default();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    anyhow::bail!("no free port on 127.0.0.1")
}

/// Returns a random offset, so that processes that run in parallel begin at different ports.
fn start() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map(|time| time.subsec_nanos()).unwrap_or_default();
    std::process::id().wrapping_mul(7919).wrapping_add(now) % (u32::MAX / 2)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn threads_that_ask_at_once_get_different_ports() {
        let ask = || (0..50).map(|_| free_port().unwrap()).collect::<Vec<_>>();
        let ports: Vec<u16> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), 200);
        assert!(ports.iter().all(|port| PORTS.contains(port)));
    }
}
