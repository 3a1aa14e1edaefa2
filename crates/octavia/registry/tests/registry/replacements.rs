//! Load balancers of many owners that are to be made again at once.

use gimbal_kuryr_model::ClientRanges;
use gimbal_octavia_plan::CloudChange;
use gimbal_octavia_sim::{Fate, ProjectQuota, SimRequest};
use serde_json::json;

use crate::wish::{Wish, forwarded, key};
use crate::world::{SECOND, Way, World};

const FLAVOR: &str = "f0000000-0000-4000-8000-000000000000";

const OWNERS: usize = 12;
/// How many of a project may be missing at a time.
const MOST: usize = 2;

fn lacking(world: &mut World) -> usize {
    let owners: Vec<String> = world.wishes.values().map(|wish| wish.owner.clone()).collect();
    let is_served = |world: &mut World, owner: &str| {
        let found = world.balancers_of(owner);
        found.iter().any(|id| !forwarded(&world.cloud, id).is_empty())
    };
    owners.iter().filter(|owner| !is_served(world, owner)).count()
}

/// Runs, and checks at each second that the others are served. Returns how many were missing at most.
fn most_lacking(world: &mut World, seconds: u32) -> usize {
    let mut most = 0;
    for _ in 0..seconds {
        world.run(SECOND);
        most = most.max(lacking(world));
    }
    most
}

/// Octavia's trouble ends changes of all of them in ERROR; they serve all the same.
fn break_all(world: &mut World) {
    world.cloud.provider_mut().failover = false;
    let ids: Vec<String> = world.balancers().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), OWNERS);
    for id in ids {
        world.cloud.expect(Fate::Breaks);
        let body = json!({"loadbalancer": {"name": "theirs"}});
        world.by_hand(&SimRequest::put(&format!("/v2/lbaas/loadbalancers/{id}"), body));
        world.cloud.advance(2 * SECOND);
    }
    assert_eq!(lacking(world), 0);
}

/// Each of them is to have another address, for which it has to be made again, and what `more` changes.
fn change_all(world: &mut World, more: fn(&mut Wish)) {
    let keys: Vec<_> = world.wishes.keys().cloned().collect();
    for (nth, (cluster, key)) in keys.iter().enumerate() {
        world.change(cluster, key, |wish| {
            wish.address = Some(format!("10.0.0.{}", 100 + nth));
            more(wish);
        });
    }
}

#[test]
fn those_in_error_that_serve_do_not_all_go_at_once() {
    let mut world = World::at_rest(OWNERS);
    break_all(&mut world);
    let most = most_lacking(&mut world, 600);
    assert!((1..=MOST).contains(&most), "{most} were missing at once");
    world.converge(60 * SECOND);
}

/// Where Octavia has no health manager each of them is `OFFLINE` all the time.
#[test]
fn those_that_are_never_heard_of_do_not_all_go_at_once() {
    let mut world = World::at_rest(OWNERS);
    world.cloud.provider_mut().reports_health = false;
    break_all(&mut world);
    assert!(world.balancers().iter().all(|row| row["operating_status"] == "OFFLINE"));
    let most = most_lacking(&mut world, 600);
    assert!((1..=MOST).contains(&most), "{most} were missing at once");
    assert!(world.balancers().iter().all(|row| row["provisioning_status"] == "ACTIVE"));
    assert_eq!(lacking(&mut world), 0);
}

/// A mistake in the configuration changes what all of them are to be, and Octavia makes none of it.
#[test]
fn where_the_first_of_a_change_are_refused_the_others_stay_for_good() {
    let mut world = World::at_rest(OWNERS);
    world.cloud.set_quota("p1", ProjectQuota { load_balancers: Some(0), ..ProjectQuota::default() });
    change_all(&mut world, |_| {});
    assert_eq!(most_lacking(&mut world, 3600), MOST);
    world.cloud.set_quota("p1", ProjectQuota::default());
    world.converge(3000 * SECOND);
}

/// Another project is no way around it: what goes is in this one.
#[test]
fn where_another_project_refuses_the_first_the_others_stay_for_good() {
    let mut world = World::at_rest(OWNERS);
    world.clusters.get_mut("prod1").unwrap().projects.push("p2".into());
    world.connect(0, "prod1");
    world.cloud.set_quota("p2", ProjectQuota { load_balancers: Some(0), ..ProjectQuota::default() });
    let keys: Vec<_> = world.wishes.keys().cloned().collect();
    for (cluster, key) in &keys {
        world.change(cluster, key, |wish| wish.project = "p2".to_owned());
    }
    assert_eq!(most_lacking(&mut world, 900), MOST);
    world.cloud.set_quota("p2", ProjectQuota::default());
    world.converge(3000 * SECOND);
}

/// It may be an attack that somebody keeps out.
#[test]
fn who_may_not_connect_any_more_does_not_wait_for_a_replacement() {
    let mut world = World::at_rest(OWNERS);
    world.cloud.set_quota("p1", ProjectQuota { load_balancers: Some(0), ..ProjectQuota::default() });
    change_all(&mut world, |_| {});
    assert_eq!(most_lacking(&mut world, 60), MOST);
    let ids: Vec<String> = world.balancers().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), OWNERS - MOST);
    let keys: Vec<_> = world.wishes.keys().cloned().collect();
    for (cluster, key) in &keys {
        world.change(cluster, key, |wish| wish.clients = ClientRanges::Only(["192.0.2.0/24".parse().unwrap()].into()));
    }
    world.run(30 * SECOND);
    let listeners = world.rows("/v2/lbaas/listeners", "listeners");
    assert_eq!(listeners.len(), OWNERS - MOST);
    assert!(listeners.iter().all(|row| row["allowed_cidrs"] == json!(["192.0.2.0/24"])), "{listeners:?}");
    assert_eq!(lacking(&mut world), MOST);
}

/// What two owners ask for is not what the others have: a subnet that is not there.
#[test]
fn what_is_refused_to_some_keeps_nobody_else_waiting() {
    let mut world = World::at_rest(OWNERS);
    let keys: Vec<_> = world.wishes.keys().cloned().collect();
    for (cluster, key) in &keys[..MOST] {
        world.change(cluster, key, |wish| wish.subnet = "nowhere".to_owned());
    }
    assert_eq!(most_lacking(&mut world, 60), MOST);
    let (cluster, key) = &keys[MOST];
    world.change(cluster, key, |wish| wish.address = Some("10.0.0.100".to_owned()));
    world.run(60 * SECOND);
    assert_eq!(world.conditions(cluster, key), ["Held/Replacements"]);
    world.run(640 * SECOND);
    assert_eq!(world.conditions(cluster, key), [""; 0]);
    assert!(world.balancers().iter().any(|row| row["vip_address"] == "10.0.0.100"));
    assert_eq!(lacking(&mut world), MOST);
}

/// Those that are refused are made at last, and Octavia never finishes.
#[test]
fn one_that_is_made_after_all_is_awaited_no_longer_than_others() {
    let mut world = World::at_rest(OWNERS);
    world.cloud.set_quota("p1", ProjectQuota { load_balancers: Some(0), ..ProjectQuota::default() });
    change_all(&mut world, |_| {});
    assert_eq!(most_lacking(&mut world, 900), MOST);
    (0..MOST).for_each(|_| world.cloud.expect(Fate::Stalls));
    world.cloud.set_quota("p1", ProjectQuota::default());
    let is_stuck = |world: &mut World| {
        world.balancers().iter().filter(|row| row["provisioning_status"] == "PENDING_CREATE").count() == MOST
    };
    world.run_until(400 * SECOND, "two are pending", is_stuck);
    world.run(700 * SECOND);
    assert_eq!(lacking(&mut world), MOST);
    let moved = |row: &serde_json::Value| row["vip_address"].as_str().is_some_and(|address| address.len() == 10);
    assert_eq!(world.balancers().iter().filter(|row| moved(row)).count(), OWNERS);
}

/// It serves no worse than others that are in ERROR.
#[test]
fn one_in_error_that_differs_waits_no_longer_than_others_in_error() {
    let mut world = World::at_rest(OWNERS);
    break_all(&mut world);
    world.cloud.set_quota("p1", ProjectQuota { load_balancers: Some(0), ..ProjectQuota::default() });
    change_all(&mut world, |_| {});
    assert_eq!(most_lacking(&mut world, 1000), 2 * MOST);
    world.cloud.set_quota("p1", ProjectQuota::default());
    world.converge(3000 * SECOND);
}

/// It leaves no gap.
#[test]
fn one_that_never_served_and_differs_waits_for_nobody() {
    let mut world = World::at_rest(MOST);
    let keys: Vec<_> = world.wishes.keys().cloned().collect();
    for (cluster, key) in &keys {
        world.change(cluster, key, |wish| wish.subnet = "nowhere".to_owned());
    }
    assert_eq!(most_lacking(&mut world, 60), MOST);
    let ((cluster, _), fresh) = (&keys[0], key("shop", "fresh"));
    let wish = Wish { owner: "uid-fresh".to_owned(), subnet: world.subnet.clone(), ..world.wishes[&keys[0]].clone() };
    world.cloud.expect(Fate::Fails);
    world.want(cluster, fresh.clone(), wish);
    let has_failed = |world: &mut World| world.balancers().iter().any(|row| row["provisioning_status"] == "ERROR");
    world.run_until(60 * SECOND, "its creation has failed", has_failed);
    world.change(cluster, &fresh, |wish| wish.subnet = "nowhere".to_owned());
    world.run(60 * SECOND);
    assert!(world.balancers().is_empty());
}

#[test]
fn where_the_first_do_not_come_back_the_others_stay() {
    let mut world = World::at_rest(OWNERS);
    break_all(&mut world);
    world.cloud.set_quota("p1", ProjectQuota { load_balancers: Some(0), ..ProjectQuota::default() });
    assert_eq!(most_lacking(&mut world, 500), MOST);
    // They do not wait for ever for some that have trouble of their own.
    assert_eq!(most_lacking(&mut world, 400), 2 * MOST);
    world.cloud.set_quota("p1", ProjectQuota::default());
    world.converge(3000 * SECOND);
}

/// An address is for life, so that another one means another load balancer.
#[test]
fn a_change_of_all_takes_them_away_some_at_a_time_and_members_follow_meanwhile() {
    let mut world = World::at_rest(OWNERS);
    change_all(&mut world, |wish| wish.members.push((9, 80)));
    world.run(20 * SECOND);
    let owners: Vec<String> = world.wishes.values().map(|wish| wish.owner.clone()).collect();
    let has_new = |owner: &&String| {
        let served = world.balancers_of(owner).first().map(|id| forwarded(&world.cloud, id)).unwrap_or_default();
        served.iter().any(|(_, members)| members.iter().any(|one| one == "10.1.0.9"))
    };
    let with_new = owners.iter().filter(has_new);
    assert!(with_new.count() >= OWNERS - MOST, "members wait for the replacement");
    let most = most_lacking(&mut world, 600);
    assert!((1..=MOST).contains(&most), "{most} were missing at once");
    world.converge(60 * SECOND);
}

/// While none of the first comes back.
#[test]
fn members_of_those_that_stay_follow_however_often_they_change() {
    let mut world = World::at_rest(OWNERS);
    world.cloud.set_quota("p1", ProjectQuota { load_balancers: Some(0), ..ProjectQuota::default() });
    change_all(&mut world, |_| {});
    assert_eq!(most_lacking(&mut world, 20), MOST);
    let keys: Vec<_> = world.wishes.keys().cloned().collect();
    for host in [7, 8, 9] {
        for (cluster, key) in &keys {
            world.change(cluster, key, |wish| wish.members.push((host, 80)));
        }
        world.run(10 * SECOND);
        assert_eq!(with_member(&mut world, host), [true; OWNERS - MOST]);
    }
}

/// Returns whether each load balancer has this member.
fn with_member(world: &mut World, host: u8) -> Vec<bool> {
    let ids: Vec<String> = world.balancers().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    let address = format!("10.1.0.{host}");
    let has_it = |id: &String| forwarded(&world.cloud, id).iter().any(|(_, members)| members.contains(&address));
    ids.iter().map(has_it).collect()
}

/// Another one of each is made first, and those of a project are made one after the other. Octavia has locked its quota for somebody
/// else all the time.
#[test]
fn members_follow_however_long_the_line_is_in_which_their_load_balancers_wait_to_be_made_again() {
    // Two of them are tried each second.
    const MANY: usize = 60;
    let mut world = World::usual();
    for nth in 0..MANY {
        let wish = Wish { floating: true, ..Wish::new(&format!("uid-{nth}"), &world.subnet) };
        world.want("prod1", key("shop", &format!("s{nth}")), wish);
    }
    world.converge(900 * SECOND);
    let keys: Vec<_> = world.wishes.keys().cloned().collect();
    keys.iter().for_each(|(cluster, key)| world.status_written(cluster, key));
    world.run(130 * SECOND);
    world.way_of = Some(|change| matches!(change, CloudChange::CreateBalancer { .. }).then_some(Way::ProjectBusy));
    for (cluster, key) in &keys {
        world.change(cluster, key, |wish| wish.flavor = Some(FLAVOR));
    }
    world.run(20 * SECOND);
    for host in [7, 8, 9] {
        for (cluster, key) in &keys {
            world.change(cluster, key, |wish| wish.members.push((host, 80)));
        }
        // While the first change is under way.
        world.run(SECOND / 2);
        for (cluster, key) in &keys {
            world.change(cluster, key, |wish| wish.members.push((host + 10, 80)));
        }
        world.run(10 * SECOND);
        assert_eq!(with_member(&mut world, host), [true; MANY], "{host}");
        assert_eq!(with_member(&mut world, host + 10), [true; MANY], "{host} and ten");
    }
    world.way_of = None;
    world.converge(3000 * SECOND);
}
