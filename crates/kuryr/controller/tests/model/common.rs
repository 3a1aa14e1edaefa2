//! A Service that is served, and what is read of it.

use serde_json::{Value, json};

use crate::api::{BALANCER_FINALIZER, Kind, text};
use crate::world::{World, service, slice};

pub const ORDER: [Kind; 3] = [Kind::Service, Kind::Slice, Kind::Balancer];

/// A world with one Service that is served.
pub fn served() -> World {
    let mut world = World::new(true);
    world.api.create(Kind::Slice, "a", slice("a", 2));
    world.api.create(Kind::Service, "a", service("LoadBalancer", 80));
    world.rest();
    world.check();
    world.purposes.clear();
    world.heard.clear();
    world.notices.clear();
    world
}

/// A KuryrLoadBalancer that names an owner, and is protected.
pub fn of_owner(owner: &str) -> Value {
    let spec = json!({
        "ip": "10.97.0.10", "project_id": "project", "subnet_id": "services", "type": "LoadBalancer",
        "service_uid": owner, "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "8080"}],
    });
    json!({"metadata": {"finalizers": [BALANCER_FINALIZER]}, "spec": spec})
}

pub fn get(world: &World, kind: Kind) -> Value {
    world.api.get(kind, "a").cloned().unwrap_or(Value::Null)
}

pub fn conditions(world: &World) -> Vec<String> {
    let balancer = get(world, Kind::Balancer);
    let all = balancer["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.iter().map(|one| format!("{}={} {}", text(one, "/type"), text(one, "/status"), text(one, "/reason"))).collect()
}

pub fn reasons(world: &World) -> Vec<&'static str> {
    world.notices.iter().map(|notice| notice.told.reason).collect()
}
