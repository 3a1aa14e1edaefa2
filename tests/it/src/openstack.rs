//! A discoverer of an OpenStack cloud without a writer, and short constructors of load balancers.

use std::path::Path;

use gimbal_testkit::Process;
use gimbal_testkit::process::{binary, free_port};
use serde_json::{Value, json};

use crate::Discoverer;

/// Starts a discoverer of an OpenStack cloud without a writer, with its log in `dir`. Does not wait until it is ready.
///
/// # Errors
/// It cannot be started.
pub fn dry_openstack_discoverer(dir: &Path, credentials: &Path, args: &[&str]) -> anyhow::Result<Discoverer> {
    let (port, admin_port) = (free_port()?, free_port()?);
    let mut all = vec![
        "--backend-name=osp1".to_owned(),
        format!("--credentials={}", credentials.display()),
        format!("--listen=127.0.0.1:{port}"),
        format!("--admin-listen=127.0.0.1:{admin_port}"),
    ];
    all.extend(args.iter().map(ToString::to_string));
    let name = "gimbal-openstack-discoverer";
    let process = Process::start(name, &binary(name)?, &all, &dir.join(format!("discoverer-osp1-{port}.log")))?;
    Ok(Discoverer { process, port, admin_port })
}

/// Returns a member of a pool, in Octavia's request form.
#[must_use]
pub fn member(address: &str, port: u16) -> Value {
    json!({"address": address, "protocol_port": port})
}

/// Returns a pool, in the form of a part of Octavia's tree request.
#[must_use]
pub fn pool(protocol: &str, members: &[Value]) -> Value {
    json!({"name": protocol, "protocol": protocol, "lb_algorithm": "ROUND_ROBIN", "members": members})
}

/// Returns a load balancer with one HTTP listener on port 80, whose pool has these addresses on port 8080.
#[must_use]
pub fn web(name: &str, addresses: &[&str]) -> Value {
    let members: Vec<Value> = addresses.iter().map(|address| member(address, 8080)).collect();
    let listener = json!({"protocol": "HTTP", "protocol_port": 80, "default_pool": pool("HTTP", &members)});
    json!({"name": name, "listeners": [listener]})
}
