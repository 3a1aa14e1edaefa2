//! Memory of load balancers that nothing happens to.

use std::sync::Arc;

use allocation_counter::measure;
use gimbal_kubernetes_objects::{BalancedService, BalancedSlice};
use gimbal_kuryr_controller_core::{KuryrController, KuryrSettings};
use gimbal_kuryr_crd::KuryrLoadBalancer;
use gimbal_kuryr_packed::PackedValue;
use gimbal_kuryr_translate::SlicePart;
use serde_json::{Value, json};

use crate::api::Kind;
use crate::world::{World, service};

const SERVICES: u32 = 50;
const PODS: u32 = 20;

fn slice(name: &str, nth: u32) -> Value {
    let pod = |pod: u32| {
        json!({
            "addresses": [format!("10.{nth}.0.{pod}")], "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": format!("node-{pod}.example"),
            "targetRef": {"kind": "Pod", "namespace": "team", "name": format!("{name}-7d4b9c6f5d-x{pod:04}"),
                "uid": format!("0d7c7f4a-5b0e-4a8e-9d41-{nth:06}{pod:06}")},
        })
    };
    json!({
        "metadata": {"labels": {"kubernetes.io/service-name": name}}, "addressType": "IPv4",
        "endpoints": (1..=PODS).map(pod).collect::<Vec<_>>(),
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    })
}

/// What the objects of one load balancer take as they are read, and packed.
fn parts(world: &World) -> Vec<(&'static str, i64)> {
    let name = "shop-7";
    let read = |kind| world.api.get(kind, name).unwrap().clone();
    let (service, slice, balancer) = (read(Kind::Service), read(Kind::Slice), read(Kind::Balancer));
    let mut kept: Vec<Box<dyn std::any::Any>> = Vec::new();
    let mut taken = |make: &mut dyn FnMut() -> Box<dyn std::any::Any>| measure(|| kept.push(make())).bytes_current;
    let service: Arc<BalancedService> = Arc::new(serde_json::from_value(service).unwrap());
    let slice: BalancedSlice = serde_json::from_value(slice).unwrap();
    let balancer: Arc<KuryrLoadBalancer> = Arc::new(serde_json::from_value(balancer).unwrap());
    vec![
        ("Service", taken(&mut || Box::new(Arc::new((*service).clone())))),
        ("Service, packed", taken(&mut || Box::new(PackedValue::<_>::new(service.clone())))),
        ("slice, packed", taken(&mut || Box::new(SlicePart::of(slice.clone())))),
        ("KuryrLoadBalancer, packed", taken(&mut || Box::new(PackedValue::<_>::new(balancer.clone())))),
    ]
}

#[test]
fn an_idle_load_balancer_costs_what_its_objects_do() {
    let mut world = World::new(true);
    for nth in 0..SERVICES {
        let name = format!("shop-{nth}");
        world.api.create(Kind::Slice, &name, slice(&name, nth));
        world.api.create(Kind::Service, &name, service("LoadBalancer", 80));
    }
    world.rest();
    world.check();
    // Of what the controller shares with the session it is the session's part that counts.
    let offered: usize = world.offered.values().map(|entry| entry.memory()).sum();
    world.forget_offered();
    let empty = KuryrController::new(KuryrSettings::default());
    let controller = std::mem::replace(&mut world.controller, empty);
    let freed = measure(|| drop(controller));
    let each = usize::try_from(-freed.bytes_current).unwrap() / SERVICES as usize;
    for (what, bytes) in parts(&world) {
        println!("{what}: {bytes} bytes");
    }
    println!(
        "an idle load balancer with {PODS} members: {each} bytes, {} of them offered",
        offered / SERVICES as usize
    );
    assert!(each < 23_000, "{each}");
}
