//! Memory of load balancers that nothing happens to.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use allocation_counter::measure;
use gimbal_kubernetes_objects::{BalancedService, BalancedSlice};
use gimbal_kuryr_controller_core::{KuryrController, KuryrSettings};
use gimbal_kuryr_crd::KuryrLoadBalancer;
use gimbal_kuryr_model::{DesiredEntry, LoadBalancerReport, ReportedObjects, Text};
use gimbal_kuryr_packed::PackedValue;
use gimbal_kuryr_translate::SlicePart;
use gimbal_kuryr_wire::{MessageForm, PackedEntry};
use serde_json::{Value, json};

use crate::api::Kind;
use crate::world::{World, service};

const SERVICES: u32 = 50;
const PODS: u32 = 20;

/// A UUID. Those of a cluster and of OpenStack have nothing in common with each other.
fn uuid(of: &str) -> String {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, of).hash(&mut hasher);
        hasher.finish()
    };
    let all = format!("{:016x}{:016x}", half(0), half(1));
    [&all[..8], &all[8..12], &all[12..16], &all[16..20], &all[20..]].join("-")
}

fn slice(name: &str, nth: u32) -> Value {
    let pod = |pod: u32| {
        let uid = uuid(&format!("{name} {pod}"));
        json!({
            "addresses": [format!("10.{nth}.0.{pod}")], "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": format!("node-{}.example", uid.as_bytes()[3] % 40),
            "targetRef": {"kind": "Pod", "namespace": "team", "name": format!("{name}-7d4b9c6f5d-{}", &uid[..5]), "uid": uid},
        })
    };
    json!({
        "metadata": {"labels": {"kubernetes.io/service-name": name}}, "addressType": "IPv4",
        "endpoints": (1..=PODS).map(pod).collect::<Vec<_>>(),
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    })
}

/// A report with IDs as OpenStack has them.
fn with_ids(mut report: LoadBalancerReport) -> LoadBalancerReport {
    let owner = report.owner.to_string();
    let change = |id: &mut Text| *id = uuid(&format!("{owner} {id}")).into();
    let ReportedObjects { load_balancer, listeners, pools, members, .. } = &mut report.objects;
    if let Some(balancer) = load_balancer {
        let ids = [&mut balancer.id, &mut balancer.port, &mut balancer.subnet, &mut balancer.project];
        ids.into_iter().for_each(change);
    }
    listeners.iter_mut().for_each(|listener| change(&mut listener.id));
    pools.iter_mut().for_each(|pool| [&mut pool.id, &mut pool.listener].into_iter().for_each(change));
    members
        .iter_mut()
        .for_each(|member| [&mut member.id, &mut member.pool, &mut member.subnet].into_iter().for_each(change));
    report
}

/// What the objects of one load balancer take as they are read, and packed.
fn parts(world: &World, entry: &DesiredEntry, report: &LoadBalancerReport) -> Vec<(&'static str, i64)> {
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
        (
            "KuryrLoadBalancer",
            taken(&mut || {
                Box::new(Arc::new(serde_json::from_value::<KuryrLoadBalancer>(read(Kind::Balancer)).unwrap()))
            }),
        ),
        ("KuryrLoadBalancer, packed", taken(&mut || Box::new(PackedValue::<_>::new(balancer.clone())))),
        ("entry", i64::try_from(entry.memory()).unwrap()),
        ("entry, packed", taken(&mut || Box::new(PackedEntry::from(entry.clone())))),
        ("report, packed", taken(&mut || Box::new(PackedValue::<_, MessageForm>::new(Arc::new(report.clone()))))),
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
    for (key, number) in world.offered.keys().cloned().collect::<Vec<_>>().iter().zip(1_000_000..) {
        let report = with_ids((*world.controller.report(key).unwrap()).clone());
        world.deliver(key, &report, number);
    }
    world.rest();
    world.check();
    let (key, entry) = world.offered.iter().nth(7).map(|(key, entry)| (key.clone(), entry.clone())).unwrap();
    let report = world.controller.report(&key).unwrap();
    world.forget_offered();
    let empty = KuryrController::new(KuryrSettings::default());
    let controller = std::mem::replace(&mut world.controller, empty);
    let freed = measure(|| drop(controller));
    let each = usize::try_from(-freed.bytes_current).unwrap() / SERVICES as usize;
    for (what, bytes) in parts(&world, &entry, &report) {
        println!("{what}: {bytes} bytes");
    }
    println!("an idle load balancer with {PODS} members: {each} bytes");
    assert!(each < 5_500, "{each}");
}
