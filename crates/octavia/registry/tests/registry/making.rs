//! Load balancers that are made, changed and removed, without trouble.

use gimbal_kuryr_model::{ApiVersion, ClientRanges, Phase};
use gimbal_octavia_plan::CloudChange;
use gimbal_octavia_sim::{Fate, SimRequest};
use serde_json::json;

use crate::wish::{Wish, key};
use crate::world::{MS, SECOND, Way, World};

#[test]
fn a_service_is_one_request_and_one_report() {
    let mut world = World::usual();
    let web = key("shop", "web");
    world.want("prod1", web.clone(), Wish::new("u1", &world.subnet));
    world.converge(30 * SECOND);
    assert_eq!(world.sent.len(), 1, "{:#?}", world.sent);
    // On the way only that it takes long is reported.
    let report = &world.reports[&("prod1".to_owned(), web.clone())];
    assert_eq!((report.objects.members.len(), report.objects.member_count, report.conditions.len()), (3, 3, 0));
    assert!(world.report_count <= 2, "{}", world.report_count);

    // The status is written: nothing comes of that.
    world.status_written("prod1", &web);
    let (sent, reports) = (world.sent.len(), world.report_count);
    world.run(200 * SECOND);
    assert_eq!((world.sent.len(), world.report_count), (sent, reports));
}

#[test]
fn a_service_of_which_no_port_could_be_made_is_not_ready() {
    let mut world = World::usual();
    world.cloud.provider_mut().protocols.retain(|protocol| protocol != "TCP");
    let web = key("shop", "web");
    let mut wish = Wish::new("u1", &world.subnet);
    wish.ports = vec![80, 443];
    world.want("prod1", web.clone(), wish);
    world.run(60 * SECOND);
    let report = world.reports[&("prod1".to_owned(), web.clone())].clone();
    assert_eq!((report.refused_ports.len(), report.objects.listeners.len()), (2, 0), "{report:?}");
    assert_eq!(report.phase, Phase::Blocked);
    // The provider can do one of them.
    world.cloud.provider_mut().protocols.push("TCP".into());
    world.change("prod1", &web, |wish| wish.ports = vec![80]);
    world.converge(60 * SECOND);
    assert_eq!(world.phase("prod1", &web), Some(Phase::Ready));
}

/// No list shows that a provider was upgraded.
#[test]
fn what_a_provider_lacked_is_tried_again_after_a_day() {
    let mut world = World::usual();
    world.cloud.provider_mut().allowed_cidrs = false;
    let web = key("shop", "web");
    let mut wish = Wish::new("u1", &world.subnet);
    wish.clients = ClientRanges::Only(["192.0.2.0/24".parse().unwrap()].into());
    world.want("prod1", web.clone(), wish);
    world.run(60 * SECOND);
    assert_eq!(world.phase("prod1", &web), Some(Phase::Blocked));
    world.cloud.provider_mut().allowed_cidrs = true;
    world.sent.clear();
    world.run(23 * 3600 * SECOND);
    assert_eq!(world.sent.len(), 0, "{:#?}", world.last_sent());
    world.run(3600 * SECOND + 180 * SECOND);
    assert!(world.is_converged(), "{:?}", world.phase("prod1", &web));
}

/// A driver comes with Octavia.
#[test]
fn what_a_provider_lacked_is_tried_again_once_octavia_has_another_version() {
    let (mut world, web) = (World::new(0), key("shop", "web"));
    world.facts.api_version = ApiVersion::VIP_GROUPS;
    world.add_cluster("prod1");
    world.add_writer();
    world.connect(0, "prod1");
    world.cloud.provider_mut().allowed_cidrs = false;
    let mut wish = Wish::new("u1", &world.subnet);
    wish.clients = ClientRanges::Only(["192.0.2.0/24".parse().unwrap()].into());
    world.want("prod1", web.clone(), wish);
    world.run(60 * SECOND);
    world.cloud.provider_mut().allowed_cidrs = true;
    let mut facts = world.facts.clone();
    for (minor, phase) in [(facts.api_version.minor, Phase::Blocked), (facts.api_version.minor + 1, Phase::Ready)] {
        facts.api_version.minor = minor;
        let now = world.now();
        world.writers[0].registry.set_facts("prod1", facts.clone(), now);
        world.run(180 * SECOND);
        assert_eq!(world.phase("prod1", &web), Some(phase));
    }
    assert!(world.is_converged());
}

/// As the provider of OVN: the first Service finds it out for all, whether or not the configuration names the provider.
#[test]
fn a_provider_with_one_way_to_choose_members_is_found_out_once() {
    for named in [false, true] {
        let mut world = World::new(0);
        world.facts.provider = world.facts.provider.filter(|_| named);
        world.cloud.provider_mut().algorithms = vec!["SOURCE_IP_PORT".into()];
        world.add_cluster("prod1");
        world.add_writer();
        world.connect(0, "prod1");
        for name in ["a", "b", "c"] {
            let wish = Wish::new(&format!("u-{name}"), &world.subnet);
            world.want("prod1", key("shop", name), wish);
            world.converge(60 * SECOND);
        }
        let is_creation = |change: &CloudChange| matches!(change, CloudChange::CreateBalancer { .. });
        let creations = world.sent.iter().filter(|sent| is_creation(&sent.change)).count();
        assert_eq!((creations, world.sent.len()), (4, 4), "{named}: {:#?}", world.last_sent());
    }
}

#[test]
fn that_the_role_may_not_fail_over_is_found_out_once() {
    let mut world = World::at_rest(2);
    world.cloud.provider_mut().failover = false;
    for owner in ["prod1-shop-0", "prod1-shop-1"] {
        let broken = world.balancers_of(owner);
        world.cloud.expect(Fate::Breaks);
        let fields = json!({"loadbalancer": {"name": "broken"}});
        world.by_hand(&SimRequest::put(&format!("/v2/lbaas/loadbalancers/{}", broken[0]), fields));
        world.run(90 * SECOND);
        world.converge(60 * SECOND);
        assert_ne!(world.balancers_of(owner), broken);
    }
    let tries = world.sent.iter().filter(|sent| matches!(sent.change, CloudChange::FailoverBalancer { .. })).count();
    assert_eq!(tries, 1);
}

#[test]
fn an_idle_minute_is_three_lists() {
    let mut world = World::at_rest(20);
    let begun = world.reads.len();
    world.run(300 * SECOND);
    let lists: Vec<&str> = world.reads[begun..].iter().map(|(_, read)| read.path.as_str()).collect();
    assert_eq!(lists.len(), 15, "{lists:?}");
}

#[test]
fn members_that_come_are_one_request() {
    let mut world = World::usual();
    let web = key("shop", "web");
    world.want("prod1", web.clone(), Wish::new("u1", &world.subnet));
    world.converge(30 * SECOND);
    world.sent.clear();
    for host in 4..14 {
        world.change("prod1", &web, |wish| wish.members.push((host, 80)));
        world.run(20 * MS);
    }
    world.converge(10 * SECOND);
    assert!(world.sent.len() <= 2, "{:#?}", world.sent);
    assert!(world.sent.iter().all(|sent| matches!(sent.change, CloudChange::SetMembers { additive: true, .. })));
}

#[test]
fn what_is_deleted_is_gone_and_told_again_to_a_new_stream() {
    let mut world = World::usual();
    let web = key("shop", "web");
    let mut wish = Wish::new("u1", &world.subnet);
    (wish.from_outside, wish.floating) = (true, true);
    world.want("prod1", web.clone(), wish);
    world.converge(60 * SECOND);
    world.change("prod1", &web, |wish| wish.deleting = true);
    world.converge(60 * SECOND);
    let now = world.now();
    let told = world.writers[0].registry.reports("prod1", now);
    assert_eq!(told.iter().map(|(_, report)| report.phase).collect::<Vec<_>>(), [Phase::Gone]);
    for (path, rows) in [("/v2.0/ports", "ports"), ("/v2.0/floatingips", "floatingips")] {
        assert_eq!(world.rows(path, rows).len(), 0, "{rows}");
    }
    world.forget("prod1", &web);
    assert_eq!(world.writers[0].registry.counts(now).owners, 0);
}

#[test]
fn a_new_owner_of_a_name_comes_after_the_former_one() {
    let mut world = World::usual();
    let web = key("shop", "web");
    world.want("prod1", web.clone(), Wish::new("u1", &world.subnet));
    world.converge(30 * SECOND);
    world.want("prod1", web, Wish::new("u2", &world.subnet));
    world.converge(90 * SECOND);
    assert_eq!((world.balancers_of("u1").len(), world.balancers_of("u2").len()), (0, 1));
    let created = world.sent.iter().rposition(|sent| matches!(sent.change, CloudChange::CreateBalancer { .. }));
    let deleted = world.sent.iter().rposition(|sent| matches!(sent.change, CloudChange::DeleteBalancer { .. }));
    assert!(deleted < created);
    let now = world.now();
    assert_eq!(world.writers[0].registry.counts(now).owners, 1, "the former one is forgotten");
}

#[test]
fn a_status_that_was_wiped_is_told_again_and_nothing_is_written() {
    let mut world = World::usual();
    let web = key("shop", "web");
    world.want("prod1", web.clone(), Wish::new("u1", &world.subnet));
    world.converge(30 * SECOND);
    world.status_written("prod1", &web);
    world.run(SECOND);
    world.sent.clear();
    world.reports.clear();
    let mut wish = world.wishes[&("prod1".to_owned(), web.clone())].clone();
    wish.known = false;
    world.want("prod1", web.clone(), wish);
    world.run(SECOND);
    assert_eq!(world.reports[&("prod1".to_owned(), web)].phase, Phase::Ready);
    assert_eq!(world.sent.len(), 0);
}

/// One in another project, that is not wanted and cannot be deleted just now.
#[test]
fn the_floating_ip_that_is_told_is_the_one_that_leads_to_the_load_balancer() {
    let mut world = World::usual();
    world.clusters.get_mut("prod1").unwrap().projects.push("p2".into());
    world.connect(0, "prod1");
    world.way_of = Some(|change| matches!(change, CloudChange::DeleteFloatingIp { .. }).then_some(Way::Lost));
    let outside = world.facts.external.as_ref().unwrap().network.to_string();
    let body = json!({"floating_network_id": outside, "project_id": "p1",
        "description": "gimbal-cluster:prod1 k8s-cluster:uid-prod1 k8s-svc-uid:u1"});
    world.by_hand(&SimRequest::post("/v2.0/floatingips", json!({"floatingip": body})));
    let web = key("shop", "web");
    let mut wish = Wish::new("u1", &world.subnet);
    (wish.project, wish.floating) = ("p2".to_owned(), true);
    world.want("prod1", web.clone(), wish);
    world.run(120 * SECOND);
    let rows = world.rows("/v2.0/floatingips", "floatingips");
    let leads: Vec<_> = rows.iter().filter(|row| row["port_id"].is_string()).map(|row| row["id"].clone()).collect();
    let told = world.reports[&("prod1".to_owned(), web)].objects.floating_ip.as_ref().unwrap();
    assert_eq!((rows.len(), leads), (2, vec![json!(*told.id)]));
}

#[test]
fn a_restart_with_nothing_changed_changes_nothing() {
    let mut world = World::usual();
    world.want_many("prod1", "shop", 30);
    world.converge(300 * SECOND);
    for wish in world.wishes.values_mut() {
        wish.known = true;
    }
    world.run(130 * SECOND);
    world.sent.clear();
    world.reads.clear();
    world.reports.clear();
    world.restart(0);
    world.converge(5 * SECOND);
    assert_eq!(world.sent.len(), 0, "{:#?}", world.last_sent());
    let of = |path: &str| world.reads.iter().filter(|(_, read)| read.path == path).count();
    // Members are in no list of Octavia's. Of ports those that nothing uses are listed, and those of VIPs.
    assert_eq!((of("loadbalancers"), of("listeners"), of("pools"), of("floatingips"), of("ports")), (1, 1, 1, 1, 2));
    assert_eq!(world.reads.len(), 6 + 30);
    assert!(world.reads.iter().all(|(_, read)| read.list), "nothing is read by its ID");
}

/// Lists tell that what the answers said is still so.
#[test]
fn nothing_is_read_again_after_members_were_changed() {
    let mut world = World::at_rest(20);
    let keys: Vec<_> = world.wishes.keys().cloned().collect();
    (world.reads, world.sent) = Default::default();
    keys.iter().for_each(|(cluster, key)| world.change(cluster, key, |wish| wish.members.push((9, 80))));
    world.converge(60 * SECOND);
    keys.iter().for_each(|(cluster, key)| world.status_written(cluster, key));
    let of = |world: &World, path: &str| world.reads.iter().filter(|(_, read)| read.path.contains(path)).count();
    assert_eq!(world.sent.len(), 20, "{:#?}", world.last_sent());
    // Members have IDs, which their status names.
    assert_eq!(of(&world, "/members"), 20);
    let rest: Vec<_> = world.reads.iter().filter(|(_, read)| !read.path.contains("/members")).collect();
    assert!(rest.len() < 12, "{rest:#?}");
    world.reads.clear();
    world.run(300 * SECOND);
    assert_eq!(world.reads.len(), 15, "{:#?}", world.reads);
}

/// A port with the mark that something else uses is in no list.
#[test]
fn what_is_removed_after_a_restart_is_searched_for_by_its_mark() {
    for (deletes_early, formerly) in [(false, false), (true, false), (false, true)] {
        let mut world = World::usual();
        let web = key("shop", "web");
        let mut wish = Wish::new("u1", &world.subnet);
        wish.from_outside = true;
        world.want("prod1", web.clone(), wish);
        world.converge(60 * SECOND);
        world.wishes.values_mut().for_each(|wish| wish.known = true);
        // Another one of the owner, which somebody uses.
        let mut port = world.rows("/v2.0/ports", "ports").remove(0);
        let body = serde_json::json!({"network_id": port["network_id"], "project_id": "p1",
            "description": port["description"].take(), "device_id": "server"});
        world.by_hand(&gimbal_octavia_sim::SimRequest::post("/v2.0/ports", serde_json::json!({"port": body})));
        world.restart(0);
        if !deletes_early {
            world.run(5 * SECOND);
        }
        if formerly {
            world.want("prod1", web.clone(), Wish::new("u2", &world.subnet));
        } else {
            world.change("prod1", &web, |wish| wish.deleting = true);
        }
        world.converge(60 * SECOND);
        let marked = |world: &mut World| {
            let rows = world.rows("/v2.0/ports", "ports");
            rows.iter().filter(|row| row["description"].to_string().contains("k8s-svc-uid:u1")).count()
        };
        assert_eq!(marked(&mut world), 0, "{deletes_early} {formerly}");
    }
}

/// That lists agree with answers must not hide what somebody did since.
#[test]
fn what_somebody_changes_right_after_us_is_set_back_within_a_minute() {
    for (kind, key_of) in [("member", "weight"), ("listener", "name"), ("pool", "name")] {
        let mut world = World::usual();
        let web = key("shop", "web");
        world.want("prod1", web.clone(), Wish::new("u1", &world.subnet));
        world.converge(60 * SECOND);
        world.status_written("prod1", &web);
        world.run(130 * SECOND);
        world.change("prod1", &web, |wish| wish.members.push((9, 80)));
        world.converge(60 * SECOND);
        let pool = world.rows("/v2/lbaas/pools", "pools")[0]["id"].as_str().unwrap().to_owned();
        let path = match kind {
            "member" => format!("/v2/lbaas/pools/{pool}/members"),
            other => format!("/v2/lbaas/{other}s"),
        };
        let value = |world: &mut World| world.rows(&path, &format!("{kind}s"))[0][key_of].clone();
        let before = value(&mut world);
        let id = world.rows(&path, &format!("{kind}s"))[0]["id"].as_str().unwrap().to_owned();
        let other: serde_json::Value = if kind == "member" { 77.into() } else { "mine".into() };
        let body = serde_json::json!({kind: {key_of: other}});
        world.by_hand(&gimbal_octavia_sim::SimRequest::put(&format!("{path}/{id}"), body));
        world.cloud.advance(5 * SECOND);
        assert_eq!(value(&mut world), other, "{kind}");
        world.run(75 * SECOND);
        assert_eq!(value(&mut world), before, "{kind}");
    }
}

#[test]
fn that_a_subnet_has_no_address_left_is_said_in_neutrons_words_and_is_nothing_to_others() {
    let mut world = World::usual();
    let subnet = world.subnet.clone();
    world.cloud.set_exhausted(&subnet, true);
    let (web, other) = (key("shop", "web"), key("shop", "other"));
    let wish = |owner: &str, address: Option<&str>| {
        let address = address.map(str::to_owned);
        Wish { from_outside: true, address, ..Wish::new(owner, &subnet) }
    };
    world.want("prod1", web.clone(), wish("u1", None));
    world.run(10 * SECOND);
    world.want("prod1", other.clone(), wish("u2", Some("10.0.0.77")));
    world.run(30 * SECOND);
    assert_eq!(world.phase("prod1", &other), Some(Phase::Ready));
    let report = &world.reports[&("prod1".to_owned(), web)];
    let [one] = &report.conditions[..] else { panic!("{report:?}") };
    assert_eq!((report.phase, &*one.kind, &*one.reason), (Phase::Blocked, "QuotaExceeded", "Quota"));
    assert!(one.message.starts_with("No more IP addresses available on network "), "{one:?}");
    let tries = world.sent.iter().filter(|sent| matches!(sent.change, CloudChange::CreatePort { .. })).count();
    assert_eq!(tries, 2, "{:#?}", world.last_sent());
    world.cloud.set_exhausted(&subnet, false);
    world.converge(320 * SECOND);
}

/// Its subnet is gone, for instance.
#[test]
fn what_a_creation_lacks_is_said_in_the_words_of_the_service() {
    let mut world = World::usual();
    world.way_of = Some(|change| matches!(change, CloudChange::CreatePort { .. }).then_some(Way::NotFound));
    let web = key("shop", "web");
    world.want("prod1", web.clone(), Wish { from_outside: true, ..Wish::new("u1", &world.subnet) });
    world.run(60 * SECOND);
    let report = &world.reports[&("prod1".to_owned(), web)];
    assert_eq!(report.last_error.as_deref(), Some("Subnet s1 could not be found."), "{report:?}");
    world.way_of = None;
    world.converge(320 * SECOND);
}
