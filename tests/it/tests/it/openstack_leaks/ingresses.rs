//! Random changes of Ingresses, and of what the router has for them.

use std::collections::BTreeSet;

use gimbal_octavia_sim::Dice;
use gimbal_testkit::cluster::Refused;
use gimbal_tests::{INGRESSES, WayBack, ingress_path};
use serde_json::{Value, json};

use super::picked;

const MOST: usize = 4;
const HOSTS: [&str; 4] = ["a.test", "*.a.test", "b.test", ""];
/// Secrets with certificates, and the names in them.
const SECRETS: [(&str, &[&str]); 2] = [("tls-a", &["a.test", "*.a.test"]), ("tls-b", &["b.test"])];
const PATHS: [&str; 4] = ["/", "/x", "/x/y", "/z"];
/// Asks for a router of the Ingress' own, or for that of a group.
const OWN_OR_GROUP: (&str, [&str; 2]) = ("kuryr.openstack.org/l7-router", ["own", "group:few"]);

/// A kind of object that somebody deletes in Octavia, and how that is counted.
pub type ByHand = (&'static str, &'static str);

pub const BALANCERS: ByHand = ("loadbalancers", "load balancer deleted by hand");
pub const LISTENERS: ByHand = ("listeners", "listener deleted by hand");
pub const POOLS: ByHand = ("pools", "pool deleted by hand");
pub const POLICIES: ByHand = ("l7policies", "policy deleted by hand");

/// The Ingresses that exist.
#[derive(Default)]
pub struct Ingresses {
    names: BTreeSet<String>,
    /// The number in the latest name.
    named: u64,
}

impl Ingresses {
    /// Makes, changes or removes one of them, or something in Octavia. Routes lead to these Services, or to one that is absent.
    pub async fn operate(&mut self, stage: &WayBack, dice: &mut Dice, services: &[&str]) -> &'static str {
        let names: Vec<String> = self.names.iter().cloned().collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        match dice.below(12) {
            0 => removed_by_hand(stage, dice, POLICIES).await,
            1 => renew(stage, dice).await,
            2..=5 if names.len() < MOST => self.make(stage, dice, services).await,
            _ if names.is_empty() => self.make(stage, dice, services).await,
            6..=8 => {
                let name = dice.pick(&names).to_owned();
                let patch = json!({"spec": {"rules": rules(dice, services), "tls": tls(dice)}});
                stage.cluster.admin().patch(&format!("{INGRESSES}/{name}"), &patch).await.unwrap();
                "other routes"
            }
            _ => {
                let name = dice.pick(&names).to_owned();
                self.remove(stage, &name).await
            }
        }
    }

    async fn make(&mut self, stage: &WayBack, dice: &mut Dice, services: &[&str]) -> &'static str {
        self.named += 1;
        let name = format!("ingress-{}", self.named);
        let spec = json!({"ingressClassName": "kuryr", "rules": rules(dice, services), "tls": tls(dice)});
        let mut ingress = json!({"metadata": {"name": name}, "spec": spec});
        if dice.one_in(3) {
            let (key, routers) = OWN_OR_GROUP;
            ingress["metadata"]["annotations"] = json!({key: dice.pick(&routers)});
        }
        stage.cluster.admin().post(INGRESSES, &ingress).await.unwrap();
        self.names.insert(name);
        "Ingress made"
    }

    async fn remove(&mut self, stage: &WayBack, name: &str) -> &'static str {
        self.names.remove(name);
        match stage.cluster.admin().delete(&format!("{INGRESSES}/{name}")).await {
            Ok(_) => "Ingress deleted",
            Err(Refused { code: 404, .. }) => "the Ingress is gone already",
            Err(refused) => panic!("{refused}"),
        }
    }

    /// Deletes all of them.
    pub async fn remove_all(&mut self, stage: &WayBack) {
        for name in self.names.clone() {
            self.remove(stage, &name).await;
        }
    }
}

/// Makes the Secrets that Ingresses may name.
pub async fn make_secrets(stage: &WayBack) {
    for (name, hosts) in SECRETS {
        stage.make_certificate(name, hosts).await.unwrap();
    }
}

/// Puts another certificate into a Secret.
async fn renew(stage: &WayBack, dice: &mut Dice) -> &'static str {
    let (secret, names) = dice.pick(&SECRETS);
    stage.renew_certificate(secret, names).await.unwrap();
    "certificate renewed"
}

/// Which Secrets an Ingress names, of which one may be absent.
fn tls(dice: &mut Dice) -> Value {
    match dice.below(4) {
        0 => json!([]),
        1 => json!([{"hosts": ["c.test"], "secretName": "absent"}]),
        _ => {
            let (secret, hosts) = dice.pick(&SECRETS);
            json!([{"hosts": hosts, "secretName": secret}])
        }
    }
}

fn rules(dice: &mut Dice, services: &[&str]) -> Value {
    let services: Vec<&str> = services.iter().copied().chain(["absent"]).collect();
    let rules = (0..=dice.below(2)).map(|_| {
        let paths: Vec<Value> = (0..=dice.below(2))
            .map(|_| {
                let service = dice.pick(&services);
                ingress_path(dice.pick(&PATHS), dice.pick(&["Prefix", "Exact"]), service)
            })
            .collect();
        let host = dice.pick(&HOSTS);
        let mut rule = json!({"http": {"paths": paths}});
        if !host.is_empty() {
            rule["host"] = json!(host);
        }
        rule
    });
    rules.collect()
}

/// Deletes something in Octavia, unless Octavia refuses because something else is being done, or it has gone meanwhile.
pub async fn removed_by_hand(stage: &WayBack, dice: &mut Dice, (kind, deleted): ByHand) -> &'static str {
    let octavia = stage.cloud.octavia();
    let list = octavia.get(&format!("/{kind}")).await.unwrap();
    let Some(id) = picked(dice, &list[kind]) else { return "nothing to delete by hand" };
    // With its parts, which keep a load balancer from being deleted alone. Octavia takes no such argument for other kinds.
    let query = if kind == BALANCERS.0 { "?cascade=true" } else { "" };
    match octavia.delete(&format!("/{kind}/{id}{query}")).await {
        Ok(_) => deleted,
        Err(Refused { code: 404 | 409, .. }) => "refused by hand",
        Err(refused) => panic!("{kind} {id}: {refused}"),
    }
}
