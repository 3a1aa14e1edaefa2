//! Pods that come and go on nodes that come and go, lost answers, kills, a second writer, quotas, somebody who removes ports: in the
//! end each Pod has one port of its own, and nothing else is left but what is to be ready.
//!
//! `cargo xtask prove simulation` runs many worlds.

use std::collections::BTreeSet;
use std::time::Duration;

use gimbal_kuryr_model::Text;
use gimbal_neutron_plan::PortPoolKey;
use gimbal_neutron_sim::NeutronModel;
use gimbal_octavia_sim::{Dice, SimRequest};
use gimbal_property::{note, worlds};
use serde_json::{Value, json};

use crate::world::{PROJECT, Way, World, owner, place};

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];
const MINUTE: Duration = Duration::from_secs(60);

struct Chance {
    dice: Dice,
    networks: Vec<String>,
    groups: Vec<String>,
}

fn way(dice: &mut Dice) -> Way {
    match dice.below(14) {
        0 => Way::Lost,
        1 => Way::AnswerLost,
        2 => Way::Late,
        3 => Way::NotSent,
        4 => Way::Busy,
        _ => Way::Arrives,
    }
}

impl Chance {
    fn place(&mut self) -> PortPoolKey {
        let (network, node) = (self.dice.pick(&self.networks), self.dice.pick(&NODES));
        place(&network, node, &[]).with_groups(self.some_groups())
    }

    fn some_groups(&mut self) -> BTreeSet<Text> {
        let all = self.groups.clone();
        all.iter().filter(|_| self.dice.one_in(2)).map(|group| Text::from(group.as_str())).collect()
    }

    fn pod(&mut self, world: &World, which: impl Fn(&crate::kubernetes::Pod) -> bool) -> Option<Text> {
        let fitting: Vec<Text> =
            world.kubernetes.pods.iter().filter(|(_, pod)| which(pod)).map(|(uid, _)| uid.clone()).collect();
        (!fitting.is_empty()).then(|| self.dice.pick(&fitting))
    }

    /// Something happens in the cluster, or to Neutron.
    fn event(&mut self, world: &mut World) {
        match self.dice.below(16) {
            0..=3 if world.kubernetes.pods.len() < 25 => {
                let place = self.place();
                let pod = world.kubernetes.add_pod(&place);
                note(|| format!("{pod} comes to {place:?}"));
                world.groups.entry(pod).or_default().insert(place.groups);
            }
            4..=6 => {
                if let Some(pod) = self.pod(world, |pod| !pod.is_over) {
                    note(|| format!("{pod} is over"));
                    world.kubernetes.pods.get_mut(&pod).unwrap().is_over = true;
                }
            }
            7 | 8 => {
                if let Some(pod) = self.pod(world, |pod| pod.is_over) {
                    note(|| format!("{pod} is unplugged"));
                    world.kubernetes.unplug(&pod, &mut world.neutron);
                }
            }
            9 => {
                if let Some(pod) = self.pod(world, |pod| !pod.is_over) {
                    let groups = self.some_groups();
                    note(|| format!("{pod} is to have {groups:?}"));
                    world.groups.get_mut(&pod).unwrap().insert(groups.clone());
                    world.kubernetes.pods.get_mut(&pod).unwrap().wish.place.groups = groups;
                }
            }
            10 if self.dice.one_in(3) => self.node(world),
            11 if self.dice.one_in(2) => {
                let quota = [None, Some(5), Some(15), Some(30)][usize::try_from(self.dice.below(4)).unwrap()];
                note(|| format!("quota {quota:?}"));
                world.neutron.set_port_quota(PROJECT, quota);
            }
            12 if self.dice.one_in(2) => {
                let (node, is_dead) = (self.dice.pick(&NODES), self.dice.one_in(2));
                note(|| format!("{node} is dead: {is_dead}"));
                world.neutron.set_dead(node, is_dead);
            }
            13 if self.dice.one_in(2) => {
                let ours = world.ours();
                if !ours.is_empty() {
                    let port = self.dice.pick(&ours)["id"].as_str().unwrap().to_owned();
                    note(|| format!("somebody removes {port}"));
                    world.neutron.handle(&SimRequest::delete(&format!("/v2.0/ports/{port}")));
                }
            }
            14 if self.dice.one_in(3) => {
                if let Some(pod) = self.pod(world, |pod| pod.is_over) {
                    note(|| format!("somebody takes the finalizer off {pod}"));
                    world.kubernetes.pods.remove(&pod);
                }
            }
            _ => world.kubernetes.plug_all(&mut world.neutron),
        }
        if self.dice.one_in(3) {
            world.tell();
        }
    }

    /// A node goes with its Pods, or comes again.
    fn node(&mut self, world: &mut World) {
        let name = self.dice.pick(&NODES);
        note(|| format!("{name} goes or comes"));
        if world.kubernetes.nodes.remove(name).is_none() {
            return world.kubernetes.add_node(name);
        }
        for pod in world.kubernetes.pods.values_mut().filter(|pod| &*pod.wish.place.node == name) {
            pod.is_over = true;
        }
    }

    fn step(&mut self, world: &mut World) {
        let writer = usize::try_from(self.dice.below(world.writers.len() as u64)).unwrap();
        if self.dice.one_in(2) && world.begin(writer) {
            return;
        }
        let flights = world.writers[writer].flights.len() as u64;
        if flights > 0 {
            let way = way(&mut self.dice);
            return world.end(writer, usize::try_from(self.dice.below(flights)).unwrap(), way);
        }
        let time = if self.dice.one_in(40) { 700_000 } else { 1 + self.dice.below(3_000) };
        world.advance(Duration::from_millis(time));
        world.tell();
    }
}

trait WithGroups {
    fn with_groups(self, groups: BTreeSet<Text>) -> Self;
}

impl WithGroups for PortPoolKey {
    fn with_groups(self, groups: BTreeSet<Text>) -> Self {
        Self { groups, ..self }
    }
}

fn start(seed: u64) -> (World, Chance, Value) {
    let mut dice = Dice::new(seed);
    let mut neutron = NeutronModel::new();
    let networks = ["10.0.0.0/24", "10.1.0.0/26"].map(|cidr| neutron.add_network(PROJECT, cidr)).to_vec();
    let groups = (0..2).map(|_| neutron.add_group()).collect();
    let mut settings = gimbal_neutron_plan::PortSettings::new("c1", "prod1", PROJECT);
    settings.pool_min = u32::try_from(dice.below(4)).unwrap();
    settings.pool_batch = 1 + u32::try_from(dice.below(10)).unwrap();
    settings.ports_per_second = 50;
    settings.most_ports = dice.one_in(4).then_some(20);
    settings.most_calls = 1 + usize::try_from(dice.below(8)).unwrap();
    let stranger = json!({"port": {
        "network_id": networks[0], "project_id": PROJECT, "device_owner": "compute:kuryr",
        "description": "gimbal-cluster:prod2 k8s-cluster:c2 k8s-svc-uid:pod-uid-0004",
    }});
    let stranger = neutron.handle(&SimRequest::post("/v2.0/ports", stranger)).body["port"].clone();
    let mut world = World::new(neutron, settings);
    world.plugs = false;
    NODES.iter().for_each(|node| world.kubernetes.add_node(node));
    world.tell();
    (world, Chance { dice, networks, groups }, stranger)
}

/// What is wanted is there, once, and nothing else is; and nothing more is written.
fn assert_converged(world: &mut World, stranger: &Value) {
    world.neutron.set_port_quota(PROJECT, None);
    for node in NODES {
        world.neutron.set_dead(node, false);
        if !world.kubernetes.nodes.contains_key(node) {
            world.kubernetes.add_node(node);
        }
    }
    world.plugs = true;
    while world.writers.len() > 1 {
        world.kill(|| Way::Lost);
    }
    for flight in (0..world.writers[0].flights.len()).rev() {
        world.end(0, flight, Way::Arrives);
    }
    let over: Vec<Text> =
        world.kubernetes.pods.iter().filter(|(_, pod)| pod.is_over).map(|(uid, _)| uid.clone()).collect();
    over.iter().step_by(2).for_each(|pod| world.kubernetes.unplug(pod, &mut world.neutron));
    world.tell();
    world.run_for(120 * MINUTE);
    assert!(world.kubernetes.pods.values().all(|pod| !pod.is_over), "{:?}", world.kubernetes.pods);
    let pods = world.kubernetes.pods.clone();
    let limit = world.settings.most_ports.map_or(usize::MAX, |most| most as usize);
    assert!(world.ours().len() <= limit.max(pods.len()), "more than the policy allows: {}", world.ours().len());
    let mut places = BTreeSet::new();
    for (uid, pod) in &pods {
        places.insert(pod.wish.place.clone());
        if pods.len() > limit && world.ports_of(uid).is_empty() {
            continue;
        }
        let port = world.port_of(uid);
        assert_eq!(port.groups, pod.wish.place.groups, "groups of {uid}");
        assert_eq!(pod.status.as_ref().map(|status| &status.id), Some(&port.id), "the status of {uid}");
        assert!(port.active && port.tags.iter().any(|tag| tag.ends_with(&**uid)), "{port:?}");
        assert!(!port.description.contains("gimbal:going"));
    }
    for row in world.ours() {
        let owner = owner(&row).unwrap();
        let is_ready = world.kubernetes.nodes.values().any(|uid| **uid == *owner);
        assert!(is_ready || pods.contains_key(&*owner), "a leak: {row}");
        assert!(!row["description"].as_str().unwrap().contains("gimbal:going"), "{row}");
    }
    let min = world.settings.pool_min as usize;
    for place in &places {
        let ready = world.plan().ready(place);
        assert!(ready == min || (ready < min && limit < usize::MAX), "{ready} ready in {place:?}");
    }
    let ready: usize = world.kubernetes.nodes.keys().map(|node| world.ready_on(node).len()).sum();
    assert!(ready <= places.len() * min, "{ready} ready, in {} pools of {min}", places.len());
    assert_eq!(world.neutron.row("ports", stranger["id"].as_str().unwrap()), Some(stranger.clone()));
    world.sent.clear();
    world.run_for(60 * MINUTE);
    assert_eq!(world.sent.len(), 0, "what is as it is wanted is changed: {:?}", world.sent);
}

fn assert_all_goes(world: &mut World) {
    let pods: Vec<Text> = world.kubernetes.pods.keys().cloned().collect();
    for pod in &pods {
        world.kubernetes.pods.get_mut(pod).unwrap().is_over = true;
    }
    world.tell();
    world.run_for(60 * MINUTE);
    assert!(world.ours().is_empty() && world.kubernetes.pods.is_empty(), "a leak: {:?}", world.ours());
}

#[test]
fn any_order_of_trouble_ends_in_one_port_for_each_pod() {
    worlds("ports in any trouble", 60, |seed| {
        let (mut world, mut chance, stranger) = start(seed);
        for _ in 0..600 {
            if chance.dice.one_in(4) {
                chance.event(&mut world);
            }
            if chance.dice.one_in(60) {
                world.start_writer();
                let dice = &mut chance.dice;
                world.kill(|| way(dice));
                if chance.dice.one_in(2) {
                    world.tell();
                }
            }
            chance.step(&mut world);
        }
        assert_converged(&mut world, &stranger);
        assert_all_goes(&mut world);
        world.counts()
    });
}

#[test]
fn two_writers_in_the_overlap_give_no_port_to_two_pods() {
    worlds("ports of two writers", 60, |seed| {
        let (mut world, mut chance, stranger) = start(seed + 1_000_000);
        for _ in 0..10 {
            for _ in 0..30 {
                if chance.dice.one_in(4) {
                    chance.event(&mut world);
                }
                chance.step(&mut world);
            }
            // Both work for some seconds, and then the former one goes.
            world.start_writer();
            world.tell();
            let end = world.now + Duration::from_secs(10);
            for _ in 0..40 {
                if chance.dice.one_in(4) {
                    chance.event(&mut world);
                }
                if world.now < end {
                    chance.step(&mut world);
                }
            }
            let dice = &mut chance.dice;
            world.kill(|| way(dice));
        }
        assert_converged(&mut world, &stranger);
        assert_all_goes(&mut world);
        world.counts()
    });
}
