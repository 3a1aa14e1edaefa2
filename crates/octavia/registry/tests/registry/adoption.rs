//! Taking over what Kuryr or cloud-provider-openstack made.

use gimbal_octavia_plan::CloudChange;
use gimbal_octavia_registry::{AdoptionOutcome, AdoptionRefusal, CloudRead, RegistryEvent};
use gimbal_octavia_sim::SimRequest;

use crate::wish::{Wish, key};
use crate::world::{MS, SECOND, Way, World};

const ADDRESS: &str = "10.0.0.77";

fn adopt(world: &mut World, balancer: &str, dry_run: bool) -> AdoptionOutcome {
    assert!(begin(world, balancer, dry_run));
    world.run(SECOND);
    end(world).unwrap()
}

fn begin(world: &mut World, balancer: &str, dry_run: bool) -> bool {
    let now = world.now();
    world.events.clear();
    world.writers[0].registry.adopt("prod1", &key("shop", "web"), balancer, dry_run, now)
}

fn end(world: &World) -> Option<AdoptionOutcome> {
    world.events.iter().find_map(|event| match event {
        RegistryEvent::Adopted { outcome, .. } => Some(outcome.clone()),
        _ => None,
    })
}

/// A load balancer of somebody, and an entry that wants its address.
fn in_the_way(tags: &[&str]) -> (World, String) {
    let mut world = World::new(0);
    let theirs = world.made_by_hand(tags, Some(ADDRESS));
    world.add_cluster("prod1");
    world.add_writer();
    world.connect(0, "prod1");
    let mut wish = Wish::new("u1", &world.subnet);
    wish.address = Some(ADDRESS.to_owned());
    world.want("prod1", key("shop", "web"), wish);
    world.run(60 * SECOND);
    (world, theirs)
}

#[test]
fn it_is_shown_first_and_then_it_is_the_same_load_balancer() {
    let (mut world, theirs) = in_the_way(&["kuryr"]);
    let before = world.row(&theirs);
    let AdoptionOutcome::WouldChange(changes) = adopt(&mut world, &theirs, true) else { panic!() };
    use CloudChange::{UpdateBalancer, UpdateListener, UpdatePool};
    let [UpdateBalancer { .. }, UpdateListener { .. }, UpdatePool { .. }] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!(world.row(&theirs), before);

    assert_eq!(adopt(&mut world, &theirs, false), AdoptionOutcome::Done);
    // The address is not looked for any longer.
    world.converge(30 * SECOND);
    assert_eq!(world.balancers_of("u1"), std::slice::from_ref(&theirs));
    let row = world.row(&theirs);
    assert!(row["tags"].to_string().contains("kuryr") && row["vip_address"] == ADDRESS, "{row}");
    assert_eq!(adopt(&mut world, &theirs, false), AdoptionOutcome::Done);
}

#[test]
fn what_is_another_ones_is_refused() {
    let other = "k8s-cluster:other";
    let (mut world, theirs) = in_the_way(&[other]);
    let outcome = adopt(&mut world, &theirs, false);
    let is_refused =
        matches!(&outcome, AdoptionOutcome::Refused(AdoptionRefusal::OwnedBy(words)) if words.contains(other));
    assert!(is_refused, "{outcome:?}");
    world.change("prod1", &key("shop", "web"), |wish| wish.address = Some("10.0.0.78".to_owned()));
    world.converge(400 * SECOND);
    let nothing = AdoptionOutcome::Refused(AdoptionRefusal::HasOne(world.balancers_of("u1").remove(0).as_str().into()));
    assert_eq!(adopt(&mut world, &theirs, false), nothing);
}

#[test]
fn what_would_have_to_be_replaced_is_refused() {
    let (mut world, theirs) = in_the_way(&[]);
    let missing = AdoptionOutcome::Refused(AdoptionRefusal::NotFound);
    assert_eq!(adopt(&mut world, "00000000-0000-0000-0000-000000000000", true), missing);
    world.change("prod1", &key("shop", "web"), |wish| wish.address = Some("10.0.0.79".to_owned()));
    let outcome = adopt(&mut world, &theirs, true);
    let is_refused =
        matches!(&outcome, AdoptionOutcome::Refused(AdoptionRefusal::Differs(what)) if what.contains(ADDRESS));
    assert!(is_refused, "{outcome:?}");
}

/// Whether it was changed or not, the answer says what is so.
#[test]
fn what_became_of_a_lost_answer_is_looked_up() {
    for way in [|_: &CloudChange| Some(Way::AnswerLost), |_: &CloudChange| Some(Way::Lost)] {
        let (mut world, theirs) = in_the_way(&["kuryr"]);
        world.sent.clear();
        world.way_of = Some(way);
        assert!(begin(&mut world, &theirs, false));
        world.run(2 * SECOND);
        world.way_of = None;
        let was_made = world.balancers_of("u1").len();
        world.run(20 * SECOND);
        assert_eq!(end(&world), Some(AdoptionOutcome::Done), "the first request had its effect: {was_made}");
        let marks = world.sent.iter().filter(|sent| match &sent.change {
            CloudChange::UpdateBalancer { fields, .. } => fields["tags"].to_string().contains("k8s-svc-uid:u1"),
            _ => false,
        });
        assert_eq!(marks.count(), 2 - was_made, "made again only where it had none");
        world.converge(900 * SECOND);
        assert_eq!(world.balancers_of("u1"), std::slice::from_ref(&theirs));
    }
}

#[test]
fn an_adoption_whose_answers_are_always_lost_comes_to_an_end() {
    let (mut world, theirs) = in_the_way(&["kuryr"]);
    world.way_of = Some(|_| Some(Way::Lost));
    assert!(begin(&mut world, &theirs, false));
    world.run(60 * SECOND);
    let outcome = end(&world);
    let is_unknown = matches!(&outcome, Some(AdoptionOutcome::Refused(AdoptionRefusal::Failed(words))) if words.contains("looked up"));
    assert!(is_unknown, "{outcome:?}");
    world.way_of = None;
    assert_eq!(adopt(&mut world, &theirs, false), AdoptionOutcome::Done);
}

/// Of two, the younger would be removed as a twin.
#[test]
fn an_entry_adopts_one_load_balancer_at_a_time() {
    let (mut world, theirs) = in_the_way(&["kuryr"]);
    let other = world.made_by_hand(&["kuryr"], Some("10.0.0.78"));
    world.way_of = Some(|_| Some(Way::AnswerLost));
    assert!(begin(&mut world, &theirs, false));
    assert!(begin(&mut world, &theirs, false), "whoever orders it again waits for the same end");
    assert!(!begin(&mut world, &theirs, true));
    assert!(!begin(&mut world, &other, false));
    world.run(SECOND);
    assert!(!begin(&mut world, &other, false), "its answer is not there yet");
    // It is done, and the entry has not seen it.
    world.run_until(30 * SECOND, "the end", |world| end(world).is_some());
    assert_eq!(end(&world), Some(AdoptionOutcome::Done));
    let one = AdoptionOutcome::Refused(AdoptionRefusal::HasOne(theirs.as_str().into()));
    assert_eq!(adopt(&mut world, &other, false), one);
}

#[test]
fn an_adoption_does_not_wait_for_a_stream_that_is_gone() {
    let (mut world, theirs) = in_the_way(&["kuryr"]);
    assert!(begin(&mut world, &theirs, false));
    world.disconnect(0, "prod1");
    world.run(SECOND);
    assert!(matches!(end(&world), Some(AdoptionOutcome::Refused(AdoptionRefusal::Failed(_)))));
    world.connect(0, "prod1");
    world.run(60 * SECOND);
    assert_eq!(world.balancers_of("u1"), [""; 0]);
}

/// An admin has taken the mark off meanwhile, of something that was to be removed.
#[test]
fn what_people_have_got_back_is_not_removed_because_of_an_earlier_look() {
    for in_a_look in [false, true] {
        let mut world = World::new(0);
        world.add_cluster("prod1");
        world.add_writer();
        world.connect(0, "prod1");
        world.want("prod1", key("shop", "web"), Wish::new("u1", &world.subnet));
        world.converge(60 * SECOND);
        let [id] = &world.balancers_of("u1")[..] else { panic!("not one") };
        world.clusters.get_mut("prod1").unwrap().quarantine = true;
        world.connect(0, "prod1");
        world.change("prod1", &key("shop", "web"), |wish| wish.deleting = true);
        world.run(10 * SECOND);
        if in_a_look {
            world.restart(0);
            world.reads.clear();
            // It has the row of the load balancer by then, and more reads whose answers are not there yet.
            while !world.reads.iter().any(|(_, read)| read.path.ends_with("members")) {
                world.run(MS);
            }
        }
        let body = serde_json::json!({"loadbalancer": {"tags": [], "description": ""}});
        world.by_hand(&SimRequest::put(&format!("/v2/lbaas/loadbalancers/{id}"), body));
        let at = world.now();
        world.writers[0].registry.look_anew("prod1", &"u1".into(), at);
        world.clusters.get_mut("prod1").unwrap().quarantine = false;
        let (settings, at) = (world.clusters["prod1"].clone(), world.now());
        world.writers[0].registry.set_cluster(settings, at);
        world.sent.clear();
        world.run(120 * SECOND);
        assert!(world.sent.is_empty(), "in a look: {in_a_look}: {:?}", world.sent);
        let left: Vec<String> = world.balancers().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
        assert_eq!(left, std::slice::from_ref(id));
    }
}

/// One read that finds nothing proves nothing: some gateway may not know the way. What a list names is nothing that was left over.
#[test]
fn the_port_of_a_load_balancer_that_a_gateway_does_not_find_stays() {
    let (mut world, theirs) = in_the_way(&["kuryr"]);
    let before = world.row(&theirs);
    world.lost_reads = Some(|read| !read.list && read.path.starts_with("loadbalancers/"));
    world.run(1_200 * SECOND);
    let deletes = |change: &CloudChange| matches!(change, CloudChange::DeletePort { .. });
    assert!(!world.sent.iter().any(|sent| deletes(&sent.change)), "{:#?}", world.last_sent());
    assert_eq!(world.row(&theirs), before);
    // What cannot be read counts as in use.
    world.closed_lists = Some(|read| read.query.iter().any(|(key, _)| *key == "vip_port_id"));
    world.run(1_200 * SECOND);
    assert!(!world.sent.iter().any(|sent| deletes(&sent.change)), "{:#?}", world.last_sent());
}

#[test]
fn an_adopted_load_balancer_that_somebody_deletes_is_made_again() {
    let web = key("shop", "web");
    for restarts in [false, true] {
        let (mut world, theirs) = in_the_way(&["kuryr"]);
        world.change("prod1", &web, |wish| wish.adopt = Some(theirs.clone()));
        world.run(60 * SECOND);
        assert_eq!(world.conditions("prod1", &web), ["Conflict/InUse"]);
        assert_eq!(adopt(&mut world, &theirs, false), AdoptionOutcome::Done);
        world.converge(30 * SECOND);
        let path = format!("/v2/lbaas/loadbalancers/{theirs}");
        world.by_hand(&SimRequest::delete(&path).with_query("cascade", "true"));
        if restarts {
            world.restart(0);
        }
        // It is seen to be missing in the next lists.
        world.run(90 * SECOND);
        world.converge(300 * SECOND);
        let all = world.balancers_of("u1");
        assert!(all.len() == 1 && all[0] != theirs, "{all:?}");
        assert_eq!(world.conditions("prod1", &web), [""; 0]);
    }
}

/// The ID of a load balancer that cannot be read, or that a gateway does not find, may be that of one which is there.
#[test]
fn one_that_cannot_be_read_is_waited_for() {
    let web = key("shop", "web");
    let is_one = |read: &CloudRead| !read.list && read.path.starts_with("loadbalancers/");
    for (closed, lost) in
        [(Some(is_one as fn(&CloudRead) -> bool), None), (None, Some(is_one as fn(&CloudRead) -> bool))]
    {
        let (mut world, theirs) = in_the_way(&["kuryr"]);
        (world.closed_lists, world.lost_reads) = (closed, lost);
        world.change("prod1", &web, |wish| (wish.adopt, wish.address) = (Some(theirs.clone()), None));
        world.run(600 * SECOND);
        assert_eq!(world.balancers_of("u1"), [""; 0]);
        assert_eq!(world.conditions("prod1", &web), ["Conflict/InUse"]);
        (world.closed_lists, world.lost_reads) = (None, None);
        let path = format!("/v2/lbaas/loadbalancers/{theirs}");
        world.by_hand(&SimRequest::delete(&path).with_query("cascade", "true"));
        world.converge(120 * SECOND);
        assert_eq!(world.balancers_of("u1").len(), 1);
    }
}
