//! What somebody deletes, changes or adds by hand, kind by kind.

use gimbal_kuryr_model::ReportedMissing;
use gimbal_octavia_plan::CloudChange;
use gimbal_octavia_sim::SimRequest;
use serde_json::{Value, json};

use crate::wish::{Wish, key};
use crate::world::{MS, SECOND, Way, World};

/// IDs of what a load balancer consists of.
struct Made {
    balancer: String,
    listener: String,
    pool: String,
    member: String,
    monitor: String,
    floating: String,
    port: String,
}

const LB: &str = "/v2/lbaas";

fn made() -> (World, Made) {
    let mut world = World::usual();
    let mut wish = Wish::new("u1", &world.subnet);
    (wish.from_outside, wish.floating, wish.monitored) = (true, true, true);
    world.want("prod1", key("shop", "web"), wish);
    world.converge(90 * SECOND);
    world.status_written("prod1", &key("shop", "web"));
    world.run(130 * SECOND);
    let mut id = |path: &str, list: &str| world.rows(path, list)[0]["id"].as_str().unwrap().to_owned();
    let pool = id("/v2/lbaas/pools", "pools");
    let made = Made {
        balancer: id("/v2/lbaas/loadbalancers", "loadbalancers"),
        listener: id("/v2/lbaas/listeners", "listeners"),
        member: id(&format!("/v2/lbaas/pools/{pool}/members"), "members"),
        monitor: id("/v2/lbaas/healthmonitors", "healthmonitors"),
        floating: id("/v2.0/floatingips", "floatingips"),
        port: id("/v2.0/ports", "ports"),
        pool,
    };
    world.sent.clear();
    (world, made)
}

/// Returns everything, without what differs when it is made again.
fn view(world: &mut World) -> Vec<String> {
    let mut all = Vec::new();
    let mut take = |kind: &str, rows: &[Value], keys: &[&str]| {
        for row in rows {
            let mut tags: Vec<String> = row["tags"].as_array().into_iter().flatten().map(Value::to_string).collect();
            tags.sort();
            let fields: Vec<String> = keys.iter().map(|key| format!("{key}={}", row[*key])).collect();
            all.push(format!("{kind} {} {tags:?}", fields.join(" ")));
        }
    };
    let pools = world.rows("/v2/lbaas/pools", "pools");
    take(
        "load balancer",
        &world.rows("/v2/lbaas/loadbalancers", "loadbalancers"),
        &["name", "description", "admin_state_up"],
    );
    let listener = ["name", "protocol_port", "admin_state_up"];
    take("listener", &world.rows("/v2/lbaas/listeners", "listeners"), &listener);
    take("pool", &pools, &["name", "lb_algorithm", "admin_state_up"]);
    for pool in &pools {
        let path = format!("/v2/lbaas/pools/{}/members", pool["id"].as_str().unwrap());
        take("member", &world.rows(&path, "members"), &["address", "protocol_port", "weight", "admin_state_up"]);
    }
    take("monitor", &world.rows("/v2/lbaas/healthmonitors", "healthmonitors"), &["type", "delay"]);
    take("policy", &world.rows("/v2/lbaas/l7policies", "l7policies"), &["action"]);
    for row in world.rows("/v2.0/floatingips", "floatingips") {
        take(
            "floating IP",
            &[json!({"description": row["description"], "leads": row["port_id"].is_string()})],
            &["description", "leads"],
        );
    }
    let ports = world.rows("/v2.0/ports", "ports");
    let is_used = |row: &&Value| row["device_owner"] != "network:floatingip";
    take("port", &ports.iter().filter(is_used).cloned().collect::<Vec<_>>(), &["description"]);
    all.sort();
    all
}

/// Returns what the last report says is missing.
fn missing(world: &World) -> Option<ReportedMissing> {
    world.reports[&("prod1".to_owned(), key("shop", "web"))].missing.as_deref().cloned()
}

/// Returns what is to be reported when something of a kind is deleted that has an Event of its own.
fn expected(kind: &str, made: &Made) -> Option<ReportedMissing> {
    let ids = |id: &String| vec![id.as_str().into()];
    let none = ReportedMissing::default;
    match kind {
        "load balancer" => Some(ReportedMissing { load_balancers: ids(&made.balancer), ..none() }),
        "listener" => Some(ReportedMissing { listeners: ids(&made.listener), ..none() }),
        "pool" => Some(ReportedMissing { pools: ids(&made.pool), ..none() }),
        "member" => Some(ReportedMissing { members: ids(&made.member), ..none() }),
        _ => None,
    }
}

type ByHand = fn(&Made, &Value) -> SimRequest;

const DELETED: [(&str, ByHand); 6] = [
    ("load balancer", |made, _| {
        SimRequest::delete(&format!("{LB}/loadbalancers/{}", made.balancer)).with_query("cascade", "true")
    }),
    ("listener", |made, _| SimRequest::delete(&format!("{LB}/listeners/{}", made.listener))),
    ("pool", |made, _| SimRequest::delete(&format!("{LB}/pools/{}", made.pool))),
    ("member", |made, _| SimRequest::delete(&format!("{LB}/pools/{}/members/{}", made.pool, made.member))),
    ("monitor", |made, _| SimRequest::delete(&format!("{LB}/healthmonitors/{}", made.monitor))),
    ("floating IP", |made, _| SimRequest::delete(&format!("/v2.0/floatingips/{}", made.floating))),
];

const CHANGED: [(&str, ByHand); 8] = [
    ("load balancer", |made, _| {
        SimRequest::put(
            &format!("{LB}/loadbalancers/{}", made.balancer),
            json!({"loadbalancer": {"name": "mine", "admin_state_up": false}}),
        )
    }),
    ("listener", |made, _| {
        SimRequest::put(
            &format!("{LB}/listeners/{}", made.listener),
            json!({"listener": {"name": "mine", "admin_state_up": false}}),
        )
    }),
    ("pool", |made, _| {
        SimRequest::put(
            &format!("{LB}/pools/{}", made.pool),
            json!({"pool": {"name": "mine", "admin_state_up": false}}),
        )
    }),
    ("member", |made, _| {
        SimRequest::put(&format!("{LB}/pools/{}/members/{}", made.pool, made.member), json!({"member": {"weight": 77}}))
    }),
    ("monitor", |made, _| {
        SimRequest::put(&format!("{LB}/healthmonitors/{}", made.monitor), json!({"healthmonitor": {"delay": 33}}))
    }),
    ("floating IP", |made, _| {
        SimRequest::put(&format!("/v2.0/floatingips/{}", made.floating), json!({"floatingip": {"port_id": null}}))
    }),
    ("description of the load balancer", |made, _| {
        SimRequest::put(
            &format!("{LB}/loadbalancers/{}", made.balancer),
            json!({"loadbalancer": {"description": "mine"}}),
        )
    }),
    ("description of the floating IP", |made, _| {
        SimRequest::put(&format!("/v2.0/floatingips/{}", made.floating), json!({"floatingip": {"description": "mine"}}))
    }),
];

/// The second argument is the tags.
const ADDED: [(&str, ByHand); 5] = [
    ("listener", |made, tags| {
        let listener =
            json!({"loadbalancer_id": made.balancer, "protocol": "TCP", "protocol_port": 8443, "tags": tags});
        SimRequest::post(&format!("{LB}/listeners"), json!({"listener": listener}))
    }),
    ("pool", |made, tags| {
        let pool =
            json!({"loadbalancer_id": made.balancer, "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "tags": tags});
        SimRequest::post(&format!("{LB}/pools"), json!({"pool": pool}))
    }),
    ("member", |made, tags| {
        let member = json!({"address": "10.9.9.9", "protocol_port": 80, "tags": tags});
        SimRequest::post(&format!("{LB}/pools/{}/members", made.pool), json!({"member": member}))
    }),
    ("monitor", |made, tags| {
        let monitor =
            json!({"pool_id": made.pool, "type": "TCP", "delay": 7, "timeout": 3, "max_retries": 2, "tags": tags});
        SimRequest::post(&format!("{LB}/healthmonitors"), json!({"healthmonitor": monitor}))
    }),
    ("policy", |made, tags| {
        let policy = json!({"listener_id": made.listener, "action": "REJECT", "tags": tags});
        SimRequest::post(&format!("{LB}/l7policies"), json!({"l7policy": policy}))
    }),
];

/// Whether the listener forwards at once is another test's question.
#[test]
fn what_is_deleted_or_changed_is_set_back_at_the_next_look() {
    for (is_deleted, (kind, by_hand)) in
        DELETED.into_iter().map(|row| (true, row)).chain(CHANGED.into_iter().map(|row| (false, row)))
    {
        println!("{kind}, deleted: {is_deleted}");
        let (mut world, made) = made();
        let before = view(&mut world);
        world.by_hand(&by_hand(&made, &Value::Null));
        world.cloud.advance(25 * SECOND);
        assert_ne!(view(&mut world), before, "{kind}");
        // A minute until the next lists, and what Octavia takes for each change.
        world.run(150 * SECOND);
        assert_eq!(view(&mut world), before, "{kind}");
        let now = world.now();
        let counts = world.writers[0].registry.counts(now);
        let found = (counts.drift, counts.drift_missing, counts.drift_added);
        assert_eq!(found, (1, u64::from(is_deleted), 0), "{kind}");
        world.sent.clear();
        world.run(700 * SECOND);
        assert_eq!(world.sent.len(), 0, "{kind}: {:#?}", world.last_sent());
    }
}

/// At rest, and before a list has shown what was made.
#[test]
fn what_is_deleted_is_reported_as_missing() {
    for is_at_rest in [true, false] {
        for (kind, by_hand) in DELETED {
            let (mut world, mut made) = made();
            if !is_at_rest {
                world.change("prod1", &key("shop", "web"), |wish| wish.members = vec![(7, 80)]);
                world.converge(60 * SECOND);
                let members = format!("/v2/lbaas/pools/{}/members", made.pool);
                made.member = world.rows(&members, "members")[0]["id"].as_str().unwrap().to_owned();
            }
            world.by_hand(&by_hand(&made, &Value::Null));
            world.run(150 * SECOND);
            assert_eq!(missing(&world), expected(kind, &made), "{kind}, at rest: {is_at_rest}");
        }
    }
    for (kind, by_hand) in CHANGED {
        let (mut world, made) = made();
        world.by_hand(&by_hand(&made, &Value::Null));
        world.run(150 * SECOND);
        assert_eq!(missing(&world), None, "{kind}, changed");
    }
}

/// Lists show it while Octavia works on its deletion, or when that is over.
#[test]
fn a_load_balancer_that_goes_slowly_is_reported_as_missing() {
    for since_lists in [SECOND, 59 * SECOND + 500 * MS] {
        let (mut world, made) = made();
        world.reads.clear();
        world.run_until(70 * SECOND, "there are lists", |world| !world.reads.is_empty());
        world.run(since_lists);
        world.by_hand(&DELETED[0].1(&made, &Value::Null));
        world.run(150 * SECOND);
        assert!(world.is_converged());
        assert_eq!(missing(&world), expected("load balancer", &made), "{since_lists:?}");
    }
}

#[test]
fn what_goes_on_purpose_is_not_reported_as_missing() {
    let (mut world, _) = made();
    let serve = |world: &mut World, ports: &[u16]| {
        world.change("prod1", &key("shop", "web"), |wish| {
            (wish.ports, wish.members) = (ports.to_vec(), ports.iter().map(|port| (1, *port)).collect());
        });
        world.converge(90 * SECOND);
        world.run(130 * SECOND);
    };
    serve(&mut world, &[80, 81]);
    let lost = |change: &CloudChange| matches!(change, CloudChange::DeleteListener { .. }).then_some(Way::AnswerLost);
    world.way_of = Some(lost);
    serve(&mut world, &[81]);
    assert_eq!(missing(&world), None, "the answer was lost");
    world.way_of = None;
    serve(&mut world, &[80, 81]);
    world.add_writer();
    world.disconnect(0, "prod1");
    world.connect(1, "prod1");
    serve(&mut world, &[81]);
    world.disconnect(1, "prod1");
    world.connect(0, "prod1");
    world.run(130 * SECOND);
    assert_eq!(missing(&world), None, "another writer has removed it");
    // Whatever went while the writer did not run.
    let clusters = world.kill(0);
    let id = world.balancers_of("u1").remove(0);
    world.by_hand(&SimRequest::delete(&format!("{LB}/loadbalancers/{id}")).with_query("cascade", "true"));
    world.cloud.advance(60 * SECOND);
    clusters.iter().for_each(|cluster| world.connect(0, cluster));
    world.run(150 * SECOND);
    assert!(world.is_converged());
    assert_eq!(missing(&world), None);
}

/// Octavia shows its load balancer as before. Only a floating IP is seen to lead nowhere, and there is nothing to lead it to. When
/// the load balancer is deleted, too, another one is made with another port.
#[test]
fn a_vip_port_that_somebody_deletes_comes_with_another_load_balancer() {
    for floating in [true, false] {
        let mut world = World::usual();
        let (web, mut wish) = (key("shop", "web"), Wish::new("u1", &world.subnet));
        (wish.from_outside, wish.floating) = (true, floating);
        world.want("prod1", web.clone(), wish);
        world.converge(90 * SECOND);
        world.status_written("prod1", &web);
        world.run(130 * SECOND);
        let balancer = world.balancers()[0].clone();
        let (id, port) = (balancer["id"].as_str().unwrap(), balancer["vip_port_id"].as_str().unwrap());
        world.by_hand(&SimRequest::delete(&format!("/v2.0/ports/{port}")));
        world.run(1_500 * SECOND);
        let told: &[&str] = if floating { &["Degraded/Failing"] } else { &[] };
        assert_eq!(world.conditions("prod1", &web), told);
        assert_eq!(world.balancers(), std::slice::from_ref(&balancer));
        world.by_hand(&SimRequest::delete(&format!("{LB}/loadbalancers/{id}")).with_query("cascade", "true"));
        world.run(400 * SECOND);
        assert_eq!(world.conditions("prod1", &web), [""; 0], "{:#?}", world.last_sent());
        let (balancers, ports) = (world.balancers(), world.rows("/v2.0/ports", "ports"));
        assert!(ports.iter().any(|one| one["id"] == balancers[0]["vip_port_id"]), "{ports:#?}");
        assert_eq!(world.rows("/v2.0/floatingips", "floatingips").len(), usize::from(floating));
    }
}

#[test]
fn what_is_added_goes_at_the_second_look_unless_it_is_to_be_kept() {
    for (kind, by_hand) in ADDED {
        for keep in [false, true] {
            println!("{kind}, kept: {keep}");
            let (mut world, mut made) = made();
            if kind == "monitor" {
                // There is one already.
                world.change("prod1", &key("shop", "web"), |wish| wish.monitored = false);
                world.converge(60 * SECOND);
                world.run(130 * SECOND);
                made.monitor.clear();
            }
            let before = view(&mut world);
            let tags = if keep { json!(["gimbal:keep"]) } else { json!([]) };
            world.by_hand(&by_hand(&made, &tags));
            world.cloud.advance(5 * SECOND);
            let with = view(&mut world);
            assert_ne!(with, before, "{kind}");
            world.run(55 * SECOND);
            assert_eq!(view(&mut world), with, "{kind}: too early");
            world.run(160 * SECOND);
            assert_eq!(view(&mut world), if keep { with } else { before }, "{kind}, kept: {keep}");
            world.sent.clear();
            world.run(700 * SECOND);
            assert_eq!(world.sent.len(), 0, "{kind}: {:#?}", world.last_sent());
        }
    }
}

/// Neutron's objects, and a second load balancer, are ours only by their mark; who copies that gets them removed.
#[test]
fn what_is_added_with_our_mark_goes() {
    let (mut world, made) = made();
    let before = view(&mut world);
    let rows = world.rows("/v2.0/ports", "ports");
    let port = rows.iter().find(|row| row["id"] == *made.port).unwrap();
    let (description, network) = (port["description"].clone(), port["network_id"].clone());
    world.by_hand(&SimRequest::post(
        "/v2.0/ports",
        json!({"port": {"network_id": network, "project_id": "p1", "description": description}}),
    ));
    let tags = world.row(&made.balancer)["tags"].clone();
    let twin = json!({"name": "twin", "project_id": "p1", "vip_subnet_id": world.subnet, "tags": tags});
    world.cloud.advance(2 * SECOND);
    world.by_hand(&SimRequest::post("/v2/lbaas/loadbalancers", json!({"loadbalancer": twin})));
    world.cloud.advance(25 * SECOND);
    assert_ne!(view(&mut world), before);
    // Unused ports are listed every ten minutes.
    world.run(800 * SECOND);
    assert_eq!(view(&mut world), before);
}

/// A load balancer that one read does not find while Octavia works on it is looked for by its mark before another one is made.
#[test]
fn one_that_a_gateway_does_not_find_is_not_made_twice() {
    let mut world = World::at_rest(1);
    let web = key("shop", "s0");
    world.lost_reads = Some(|read| !read.list && read.path.starts_with("loadbalancers/"));
    world.sent.clear();
    world.change("prod1", &web, |wish| wish.members = vec![(9, 80)]);
    world.run(60 * SECOND);
    let creates = |change: &CloudChange| matches!(change, CloudChange::CreateBalancer { .. });
    assert!(!world.sent.iter().any(|sent| creates(&sent.change)), "{:#?}", world.last_sent());
    world.lost_reads = None;
    world.converge(60 * SECOND);
    assert_eq!(world.balancers().len(), 1);
}
