//! Discoverers of OpenStack clouds in a scene, and load balancers in a line each.

use std::path::Path;

use gimbal_testkit::Process;
use gimbal_testkit::process::{binary, free_port};
use serde_json::{Value, json};

use crate::{Discoverer, Scene};

impl Scene {
    /// Starts a discoverer of an OpenStack cloud for a backend, over mTLS with that backend's certificate. `credentials` is
    /// a folder with the keys of seed 000. It is not awaited: the cloud may be down.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn openstack_discoverer(
        &self,
        backend: &str,
        credentials: &Path,
        writer_port: u16,
        args: &[&str],
    ) -> anyhow::Result<Discoverer> {
        let mut all = vec![format!("--writer=https://localhost:{writer_port}")];
        all.extend(self.tls(&self.pair(backend)?));
        all.extend(args.iter().map(ToString::to_string));
        start(&self.path(""), backend, credentials, all)
    }
}

/// Starts a discoverer of an OpenStack cloud that offers to nobody, with its log in `dir`. It is not awaited.
///
/// # Errors
/// It cannot be started.
pub fn dry_openstack_discoverer(dir: &Path, credentials: &Path, args: &[&str]) -> anyhow::Result<Discoverer> {
    start(dir, "osp1", credentials, args.iter().map(ToString::to_string).collect())
}

fn start(dir: &Path, backend: &str, credentials: &Path, args: Vec<String>) -> anyhow::Result<Discoverer> {
    let (port, admin_port) = (free_port()?, free_port()?);
    let mut all = vec![
        format!("--backend-name={backend}"),
        format!("--credentials={}", credentials.display()),
        format!("--listen=127.0.0.1:{port}"),
        format!("--admin-listen=127.0.0.1:{admin_port}"),
    ];
    all.extend(args);
    let log = dir.join(format!("discoverer-{backend}-{port}.log"));
    let name = "gimbal-openstack-discoverer";
    let process = Process::start(name, &binary(name)?, &all, &log)?;
    Ok(Discoverer { process, port, admin_port })
}

/// A member of a pool, as Octavia takes it.
#[must_use]
pub fn member(address: &str, port: u16) -> Value {
    json!({"address": address, "protocol_port": port})
}

/// A pool, as Octavia takes it in a tree.
#[must_use]
pub fn pool(protocol: &str, members: &[Value]) -> Value {
    json!({"name": protocol, "protocol": protocol, "lb_algorithm": "ROUND_ROBIN", "members": members})
}

/// A load balancer with one HTTP listener on port 80, whose pool has these addresses on port 8080.
#[must_use]
pub fn web(name: &str, addresses: &[&str]) -> Value {
    let members: Vec<Value> = addresses.iter().map(|address| member(address, 8080)).collect();
    let listener = json!({"protocol": "HTTP", "protocol_port": 80, "default_pool": pool("HTTP", &members)});
    json!({"name": name, "listeners": [listener]})
}
