//! Orphans, and what is not ours.

use gimbal_kuryr_model::Phase;
use gimbal_octavia_plan::CloudChange;
use gimbal_octavia_registry::RegistryEvent;
use gimbal_octavia_sim::SimRequest;
use serde_json::json;

use crate::wish::{Wish, going, key};
use crate::world::{SECOND, Way, World};

/// A world with load balancers, each with a port and a floating IP of its own.
fn made(count: usize) -> World {
    let mut world = World::usual();
    for nth in 0..count {
        let mut wish = Wish::new(&format!("u{nth}"), &world.subnet);
        (wish.from_outside, wish.floating) = (true, true);
        world.want("prod1", key("shop", &format!("s{nth}")), wish);
    }
    world.converge(300 * SECOND);
    for wish in world.wishes.values_mut() {
        wish.known = true;
    }
    world
}

#[test]
fn what_has_left_the_stream_is_removed_only_when_that_is_proven() {
    let mut world = made(4);
    world.forget("prod1", &key("shop", "s0"));
    world.run(595 * SECOND);
    assert_eq!(world.balancers_of("u0").len(), 1, "within the grace");
    // A restart, of either side, begins the time anew.
    world.restart(0);
    world.run(595 * SECOND);
    assert_eq!(world.balancers_of("u0").len(), 1, "within the grace after a restart");
    world.run_until(180 * SECOND, "the orphan is gone", |world| world.balancers_of("u0").is_empty());
    world.run(60 * SECOND);
    let is_left = |world: &mut World, path: &str, rows: &str| {
        world.rows(path, rows).iter().any(|row| row["description"].to_string().contains("k8s-svc-uid:u0"))
    };
    assert!(!is_left(&mut world, "/v2.0/ports", "ports") && !is_left(&mut world, "/v2.0/floatingips", "floatingips"));
    assert!(world.events.iter().any(|event| matches!(event, RegistryEvent::OrphanRemoved { .. })));
    assert_eq!(world.balancers().len(), 3);
}

/// Its store was restored meanwhile: the new stream has the owner, in a namespace of which it cannot say anything yet.
#[test]
fn who_is_being_removed_as_an_orphan_when_the_stream_ends_is_not_on_the_next() {
    let refused: fn(&CloudChange) -> Option<Way> = |_| Some(Way::Refused);
    let under_way: fn(&CloudChange) -> Option<Way> = |_| Some(Way::Lost);
    for (what, way_of) in [("it is refused", refused), ("it is under way", under_way)] {
        let mut world = made(2);
        world.forget("prod1", &key("shop", "s0"));
        (world.way_of, world.sent) = (Some(way_of), Vec::new());
        world.run_until(1_500 * SECOND, what, |world| !world.sent.is_empty());
        world.disconnect(0, "prod1");
        world.open(0, "prod1");
        let former = world.wishes.keys().map(|(_, key)| key.clone()).collect::<Vec<_>>();
        let registry = &mut world.writers[0].registry;
        registry.doubt("prod1", former);
        registry.set_current("prod1", true, false);
        (world.way_of, world.sent) = (None, Vec::new());
        world.run(3_000 * SECOND);
        assert_eq!(world.sent.len(), 0, "{what}: {:#?}", world.last_sent());
        // It is proven anew.
        world.connect(0, "prod1");
        world.run(500 * SECOND);
        assert_eq!(world.balancers_of("u0").len(), 1, "{what}");
        world.run_until(300 * SECOND, what, |world| world.balancers_of("u0").is_empty());
    }
}

#[test]
fn a_port_and_a_floating_ip_alone_are_orphans_too() {
    let mut world = made(4);
    let id = world.balancers_of("u0").remove(0);
    world.silence(0, "prod1");
    world.run(11 * SECOND);
    world.by_hand(&SimRequest::delete(&format!("/v2/lbaas/loadbalancers/{id}")).with_query("cascade", "true"));
    world.cloud.advance(60 * SECOND);
    world.wishes.remove(&("prod1".to_owned(), key("shop", "s0")));
    world.restart(0);
    world.connect(0, "prod1");
    world.run(1_500 * SECOND);
    let left = world.left_of("prod1");
    let of = |kind: &str| left.iter().filter(|one| one.starts_with(kind)).count();
    assert_eq!((of("ports"), of("floatingips")), (3, 3));
}

#[test]
fn a_port_and_a_floating_ip_are_orphans_too_if_somebody_added_to_their_description() {
    let mut world = made(4);
    let id = world.balancers_of("u0").remove(0);
    world.silence(0, "prod1");
    world.run(11 * SECOND);
    world.by_hand(&SimRequest::delete(&format!("/v2/lbaas/loadbalancers/{id}")).with_query("cascade", "true"));
    world.cloud.advance(60 * SECOND);
    for (path, rows, row) in [("/v2.0/ports", "ports", "port"), ("/v2.0/floatingips", "floatingips", "floatingip")] {
        let all = world.rows(path, rows);
        let one = all.iter().find(|one| one["description"].to_string().contains("k8s-svc-uid:u0")).unwrap();
        let (id, words) = (one["id"].as_str().unwrap(), one["description"].as_str().unwrap());
        let change = json!({row: {"description": format!("{words} of the shop")}});
        world.by_hand(&SimRequest::put(&format!("{path}/{id}"), change));
    }
    world.wishes.remove(&("prod1".to_owned(), key("shop", "s0")));
    world.restart(0);
    world.connect(0, "prod1");
    world.run(1_500 * SECOND);
    assert_eq!(world.writers[0].registry.counts(world.now()).orphans, 0);
    let left = world.left_of("prod1");
    let of = |kind: &str| left.iter().filter(|one| one.starts_with(kind)).count();
    assert_eq!((of("ports"), of("floatingips")), (3, 3));
}

/// Its port is ours, and is left to it.
#[test]
fn a_load_balancer_whose_mark_is_taken_off_keeps_its_port() {
    let mut world = made(2);
    let id = world.balancers_of("u0").remove(0);
    let port = world.balancers().into_iter().find(|row| row["id"] == *id).unwrap()["vip_port_id"].clone();
    let fields = json!({"loadbalancer": {"tags": [], "description": "", "name": "theirs"}});
    world.by_hand(&SimRequest::put(&format!("/v2/lbaas/loadbalancers/{id}"), fields));
    world.run(400 * SECOND);
    let with_port = |world: &mut World| {
        let all = world.balancers().into_iter().filter(|row| row["vip_port_id"] == port);
        all.map(|row| row["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(with_port(&mut world), vec![id.clone()], "no second one on its port");
    world.change("prod1", &key("shop", "s0"), |wish| wish.deleting = true);
    world.run(400 * SECOND);
    assert_eq!(with_port(&mut world), vec![id]);
    let ports = world.rows("/v2.0/ports", "ports");
    let left = ports.iter().find(|row| row["id"] == port).unwrap();
    assert_eq!(left["description"], "");
    assert_eq!(ports.len(), 2);
}

/// Makes a port with an owner's mark, and returns its ID.
fn a_port_of(world: &mut World, owner: &str) -> String {
    let network = world.cloud.network_of(&world.subnet).unwrap().to_owned();
    let mark = format!("gimbal-cluster:prod1 k8s-cluster:uid-prod1 k8s-svc-uid:{owner}");
    let body = json!({"port": {"network_id": network, "project_id": "p1", "description": mark,
        "fixed_ips": [{"subnet_id": world.subnet}]}});
    world.by_hand(&SimRequest::post("/v2.0/ports", body))["port"]["id"].as_str().unwrap().to_owned()
}

fn removal_of(owner: &str) -> Wish {
    Wish { deleting: true, ..Wish::new(owner, "") }
}

/// Its deletion was decided before that, and waits in line.
#[test]
fn a_port_on_which_somebody_builds_while_its_deletion_waits_stays() {
    let mut world = World::usual();
    let port = a_port_of(&mut world, "u0");
    world.clusters.get_mut("prod1").unwrap().quarantine = true;
    world.connect(0, "prod1");
    let s0 = key("shop", "s0");
    world.want("prod1", s0.clone(), removal_of("u0"));
    world.run(30 * SECOND);
    assert_eq!(world.phase("prod1", &s0), Some(Phase::Held));
    let theirs = json!({"loadbalancer": {"name": "mine", "project_id": "p1", "vip_port_id": port}});
    world.by_hand(&SimRequest::post("/v2/lbaas/loadbalancers", theirs));
    world.clusters.get_mut("prod1").unwrap().quarantine = false;
    let (settings, now) = (world.clusters["prod1"].clone(), world.now());
    world.writers[0].registry.set_cluster(settings, now);
    world.run_until(60 * SECOND, "gone", |world| world.phase("prod1", &s0) == Some(Phase::Gone));
    let ports = world.rows("/v2.0/ports", "ports");
    assert_eq!((ports.len(), &ports[0]["id"], &ports[0]["description"]), (1, &json!(port), &json!("")));
}

/// One a second: whoever is at the end of the line has looked a minute ago.
#[test]
fn many_ports_go_one_after_another_and_each_is_looked_at_a_few_times() {
    const PORTS: usize = 60;
    let mut world = World::usual();
    world.clusters.get_mut("prod1").unwrap().mutations_per_second = 1;
    world.connect(0, "prod1");
    for nth in 0..PORTS {
        a_port_of(&mut world, &format!("u{nth}"));
        world.want("prod1", key("shop", &format!("s{nth}")), removal_of(&format!("u{nth}")));
    }
    world.reads.clear();
    world.converge(3 * 60 * SECOND);
    assert_eq!(world.left_of("prod1"), [""; 0]);
    let is_look = |read: &gimbal_octavia_registry::CloudRead| {
        read.path == "ports" && read.query.iter().any(|(key, _)| *key == "description")
    };
    let looks = world.reads.iter().filter(|(_, read)| is_look(read)).count();
    assert!(looks < 4 * PORTS, "{looks}");
}

/// It is free then, for the next one who asks for its address.
#[test]
fn a_kept_floating_ip_whose_owner_has_vanished_loses_the_mark() {
    let mut world = World::usual();
    let tags = ["gimbal-cluster:prod1", "k8s-cluster:uid-prod1", "k8s-svc-uid:u9"];
    let outside = world.facts.external.as_ref().unwrap().network.to_string();
    let body = json!({"floating_network_id": outside, "project_id": "p1", "tags": tags,
        "description": format!("{} gimbal:keep", tags.join(" "))});
    world.by_hand(&SimRequest::post("/v2.0/floatingips", json!({"floatingip": body})));
    world.run(3_000 * SECOND);
    let left = world.rows("/v2.0/floatingips", "floatingips");
    assert_eq!((left.len(), &left[0]["tags"], &left[0]["description"]), (1, &json!([]), &json!("gimbal:keep")));
}

/// It has all tags of the owner, and is left out of what the owner has; looks do not fail for that.
#[test]
fn an_owner_goes_though_its_load_balancer_names_a_group_or_another_cluster() {
    for tag in ["gimbal-group:shop:edge", "gimbal-cluster:prod9"] {
        let mut world = made(2);
        let id = world.balancers_of("u0").remove(0);
        let row = world.balancers().into_iter().find(|row| row["id"] == *id).unwrap();
        let port = row["vip_port_id"].clone();
        let mut tags = row["tags"].as_array().unwrap().clone();
        tags.push(json!(tag));
        let fields = json!({"loadbalancer": {"tags": tags}});
        world.by_hand(&SimRequest::put(&format!("/v2/lbaas/loadbalancers/{id}"), fields));
        world.run(200 * SECOND);
        world.change("prod1", &key("shop", "s0"), |wish| wish.deleting = true);
        world.run_until(400 * SECOND, tag, |world| world.phase("prod1", &key("shop", "s0")) == Some(Phase::Gone));
        // What a group has left goes as the group's.
        let is_left = world.balancers().iter().any(|row| row["id"] == *id && row["vip_port_id"] == port);
        assert_eq!(is_left, tag.contains("cluster"), "{tag}");
    }
}

/// As an admin orders it, or a Service that is deleted.
#[test]
fn what_is_being_removed_is_found_though_somebody_added_to_its_description() {
    let mut world = made(1);
    world.change("prod1", &key("shop", "s0"), |wish| wish.deleting = true);
    for (path, rows, row) in [("/v2.0/ports", "ports", "port"), ("/v2.0/floatingips", "floatingips", "floatingip")] {
        let all = world.rows(path, rows);
        let one = all.iter().find(|one| one["description"].to_string().contains("k8s-svc-uid:u0")).unwrap();
        let (id, words) = (one["id"].as_str().unwrap(), one["description"].as_str().unwrap());
        world
            .by_hand(&SimRequest::put(&format!("{path}/{id}"), json!({row: {"description": format!("{words} mine")}})));
    }
    // A writer that begins with it.
    world.restart(0);
    world.run(300 * SECOND);
    assert_eq!(world.left_of("prod1"), [""; 0]);
}

#[test]
fn an_incomplete_snapshot_proves_nothing() {
    let mut world = made(3);
    world.silence(0, "prod1");
    world.wishes.remove(&("prod1".to_owned(), key("shop", "s0")));
    world.restart(0);
    let now = world.now();
    let (settings, facts) = (world.clusters["prod1"].clone(), world.facts.clone());
    world.connect(0, "prod1");
    // The same without its end.
    let registry = &mut world.writers[0].registry;
    registry.stream_ended("prod1");
    registry.set_cluster(settings, now);
    registry.set_facts("prod1", facts, now);
    registry.heard("prod1", now);
    world.run(3_600 * SECOND);
    assert_eq!(world.balancers_of("u0").len(), 1);
    world.connect(0, "prod1");
    world.run(800 * SECOND);
    assert_eq!(world.balancers_of("u0").len(), 0);
}

#[test]
fn an_owner_stays_with_the_key_that_wants_it() {
    let mut world = made(3);
    world.sent.clear();
    let copy = key("copies", "x");
    let usual = world.wishes[&("prod1".to_owned(), key("shop", "s0"))].clone();
    for wish in [Wish { deleting: true, ..usual.clone() }, Wish { members: vec![(9, 80)], ..usual.clone() }] {
        let now = world.now();
        let is_taken = world.writers[0].registry.want("prod1", copy.clone(), wish.entry(), now);
        world.run(120 * SECOND);
        assert_eq!((world.sent.len(), is_taken), (0, false), "{:#?}", world.last_sent());
    }
    // Somebody else's entry that turns into a copy leaves what it was as it is.
    let now = world.now();
    assert!(!world.writers[0].registry.want("prod1", key("shop", "s1"), usual.entry(), now));
    world.run(120 * SECOND);
    assert_eq!((world.sent.len(), world.balancers().len()), (0, 3));
    // The wanted one leaves, and the copy is the only one that names the owner.
    world.forget("prod1", &key("shop", "s0"));
    world.want("prod1", copy, Wish { deleting: true, ..usual });
    world.converge(120 * SECOND);
    assert_eq!((world.balancers_of("u0").len(), world.balancers().len()), (0, 2));
}

#[test]
fn the_owner_of_a_refused_entry_is_no_orphan_and_keeps_no_other_from_being_one() {
    let mut world = made(4);
    let refused = key("shop", "s0");
    let refuse = |world: &mut World| {
        let now = world.now();
        world.writers[0].registry.refuse("prod1", &refused, &going("u0"), now);
    };
    for nth in [0, 1] {
        world.forget("prod1", &key("shop", &format!("s{nth}")));
    }
    world.restart(0);
    refuse(&mut world);
    world.run(900 * SECOND);
    assert_eq!((world.balancers_of("u0").len(), world.balancers_of("u1").len()), (1, 0));
    let left = world.left_of("prod1");
    let of = |kind: &str| left.iter().filter(|one| one.starts_with(kind)).count();
    assert_eq!((of("ports"), of("floatingips")), (3, 3));
    // It is refused when it was missing for long, and the search was about to remove it.
    world.forget("prod1", &refused);
    world.run(595 * SECOND);
    refuse(&mut world);
    world.run(900 * SECOND);
    assert_eq!(world.balancers_of("u0").len(), 1);
    world.forget("prod1", &refused);
    world.run(900 * SECOND);
    assert_eq!(world.balancers_of("u0").len(), 0);
}

#[test]
fn many_orphans_at_once_are_held_until_somebody_approves() {
    let mut world = made(12);
    for nth in 0..10 {
        world.forget("prod1", &key("shop", &format!("s{nth}")));
    }
    world.run(3_000 * SECOND);
    assert_eq!(world.balancers().len(), 12);
    let now = world.now();
    let held = world.writers[0].registry.cluster("prod1", now).unwrap().held_balancers.unwrap();
    assert_eq!((held.endpoints_removed, held.endpoints_before), (10, 12));
    assert!(world.writers[0].registry.approve("prod1", &held.id, now));
    world.run(300 * SECOND);
    assert_eq!(world.balancers().len(), 2);
}

#[test]
fn what_an_operator_is_asked_to_act_on_counts_only_while_the_stream_lives() {
    for ended in [false, true] {
        let mut world = made(12);
        for nth in 0..10 {
            world.forget("prod1", &key("shop", &format!("s{nth}")));
        }
        world.run(3_000 * SECOND);
        let asked = |world: &World| {
            let counts = world.writers[0].registry.counts(world.now());
            (counts.owners, counts.orphans)
        };
        assert_eq!(asked(&world), (2, 10));
        if ended {
            world.disconnect(0, "prod1");
        } else {
            world.silence(0, "prod1");
        }
        world.run(11 * SECOND);
        assert_eq!(asked(&world), (2, 0), "ended: {ended}");
    }
}

#[test]
fn a_deletion_that_a_person_asked_for_passes_the_guard() {
    let mut world = made(12);
    for nth in 0..12 {
        world.change("prod1", &key("shop", &format!("s{nth}")), |wish| wish.deleting = true);
    }
    world.converge(300 * SECOND);
    assert_eq!(world.left_of("prod1"), [""; 0]);
}

#[test]
fn unless_the_policy_limits_that_as_well() {
    let mut world = World::new(0);
    world.add_cluster("prod1").guards.explicit = true;
    world.add_writer();
    world.connect(0, "prod1");
    world.want_many("prod1", "shop", 12);
    world.converge(300 * SECOND);
    world.run(130 * SECOND);
    for nth in 0..12 {
        world.change("prod1", &key("shop", &format!("s{nth}")), |wish| wish.deleting = true);
    }
    world.run(600 * SECOND);
    assert_eq!(world.balancers().len(), 12);
    assert_eq!(world.conditions("prod1", &key("shop", "s0")), ["Held/Guard"]);
    let now = world.now();
    let held = world.writers[0].registry.cluster("prod1", now).unwrap().held_balancers.unwrap();
    assert!(world.writers[0].registry.approve("prod1", &held.id, now));
    world.converge(300 * SECOND);
}

#[test]
fn another_cluster_of_the_name_blocks_until_somebody_confirms() {
    let mut world = World::new(0);
    let theirs = world.made_by_hand(&["gimbal-cluster:prod1", "k8s-cluster:other", "k8s-svc-uid:x"], None);
    let before = world.row(&theirs);
    world.add_cluster("prod1");
    world.add_writer();
    world.connect(0, "prod1");
    world.want("prod1", key("shop", "web"), Wish::new("u1", &world.subnet));
    world.run(300 * SECOND);
    assert_eq!(world.sent.len(), 0);
    let now = world.now();
    let other = world.writers[0].registry.cluster("prod1", now).unwrap().other_uid;
    assert_eq!(other.as_deref(), Some("other"));
    assert!(!world.writers[0].registry.confirm("prod1", "somebody", now));
    assert!(world.writers[0].registry.confirm("prod1", "other", now));
    world.converge(60 * SECOND);
    world.run(2_000 * SECOND);
    assert_eq!(world.row(&theirs), before);
}

/// The UID is what a controller says of its cluster; the name is what its certificate stands for.
#[test]
fn a_cluster_that_claims_the_uid_of_another_gets_nothing_of_it() {
    let mut world = World::usual();
    let web = key("shop", "web");
    world.want("prod1", web.clone(), Wish::new("u1", &world.subnet));
    world.converge(60 * SECOND);
    let before = world.balancers();
    world.add_cluster("liar").uid = "uid-prod1".into();
    world.add_writer();
    world.connect(1, "liar");
    world.want("liar", web.clone(), Wish { deleting: true, ..Wish::new("u1", &world.subnet) });
    world.run(60 * SECOND);
    world.forget("liar", &web);
    world.run(2_000 * SECOND);
    assert_eq!(world.balancers(), before);
}
