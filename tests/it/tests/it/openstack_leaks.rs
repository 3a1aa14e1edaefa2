//! Random changes of Services and Ingresses, with kills of both programs, deletions by hand and lost answers, on real servers:
//! when all of them are deleted, nothing is left of them. `GIMBAL_PROVE` sets the number of operations, `GIMBAL_WORLD` the seed.

mod ingresses;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gimbal_octavia_sim::Dice;
use gimbal_testkit::cluster::Refused;
use gimbal_testkit::eventually;
use gimbal_testkit::openstack::{Options, Service, Steer};
use gimbal_tests::{INGRESSES, NAMESPACE, ROUTERS, WayBack};
use serde_json::{Value, json};

use ingresses::{BALANCERS, Ingresses, LISTENERS, POLICIES, POOLS, removed_by_hand};

const OPERATIONS: u64 = 24;
const MOST_SERVICES: usize = 6;
const WRITER: [&str; 2] = ["--drift-interval=2s", "--orphan-grace=5s"];
const CONTROLLER: [&str; 2] = ["--cluster-ip-services=false", "--ingress"];
/// A router is rebuilt for a handful of routes, which random Ingresses have: for as many as by default, none ever is.
const POLICY: &str = "vip: {mode: allocate}\n  rebuildAbove: 4";
/// The KuryrL7Router that all Ingresses share that ask for no other.
const SHARED: &str = "kuryr-l7-router";
/// How long the removal of everything may take: what fails is repeated after pauses that grow.
const WITHIN: Duration = Duration::from_secs(240);
/// The longest pause between two operations, in milliseconds.
const PAUSE: u64 = 300;
const TARGET: u16 = 8080;
/// What a load balancer is made of, in OpenStack.
const OCTAVIA: [&str; 4] = ["loadbalancers", "listeners", "pools", "l7policies"];
const NEUTRON: [&str; 3] = ["ports", "floatingips", "security-groups"];

struct World {
    stage: WayBack,
    dice: Dice,
    /// Services that exist, and how many ports they have.
    services: BTreeMap<String, u16>,
    ingresses: Ingresses,
    /// The number in the latest name.
    named: u64,
    made: u64,
    done: BTreeMap<&'static str, u64>,
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_after_random_operations() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let (whole, seed) = (number("GIMBAL_PROVE"), number("GIMBAL_WORLD").unwrap_or(1));
    let operations = whole.unwrap_or(OPERATIONS);
    // Changes are PENDING long enough for something to come between.
    let options =
        Options { settle_delay: Duration::from_millis(50), key_manager: true, ..Options::with_checked_tokens() };
    let stage = WayBack::build_for_ingresses_on(options).await.unwrap();
    stage.configure(&format!("{POLICY}\n  kubernetes: {{enable_ingress: true}}")).unwrap();
    stage.make_ingress_class().await.unwrap();
    ingresses::make_secrets(&stage).await;
    let before = everything(&stage).await.unwrap();
    let dice = Dice::new(seed);
    let (services, ingresses, done) = (BTreeMap::new(), Ingresses::default(), BTreeMap::new());
    let mut world = World { stage, dice, services, ingresses, named: 0, made: 0, done };
    world.stage.start_writer(&WRITER).await.unwrap();
    world.stage.start_controller(&CONTROLLER).await.unwrap();
    // There is something from the first operation on.
    world.create("web-0").await;
    world.stage.until_address("web-0").await.unwrap();
    let begin = Instant::now();
    for _ in 0..operations {
        world.operate().await;
        let pause = Duration::from_millis(world.dice.below(PAUSE));
        tokio::time::sleep(pause).await;
    }
    let (made, done, took) = (world.made, world.done.clone(), begin.elapsed());
    println!("seed {seed}: {operations} operations in {took:?}, {made} Services made: {done:?}");
    assert!(made > 0, "no Service was made");
    if whole.is_some() {
        let missing: Vec<_> =
            [BALANCERS, LISTENERS, POOLS, POLICIES].into_iter().filter(|kind| !done.contains_key(kind.1)).collect();
        assert!(missing.is_empty(), "none of them was ever deleted by hand: {missing:?}");
    }
    let begin = Instant::now();
    world.end(&before).await;
    println!("all is gone after {:?}", begin.elapsed());
}

impl World {
    async fn operate(&mut self) {
        let what = match self.dice.below(64) {
            // A kill costs a second or two in which nothing is made or removed: more of them leave nothing to kill.
            0 => self.kill_writer().await,
            1 => self.kill_controller().await,
            2 => {
                self.stage.controller.take().unwrap().process.kill().unwrap();
                self.kill_writer().await;
                self.stage.start_controller(&CONTROLLER).await.unwrap();
                "both killed"
            }
            3..=4 => removed_by_hand(&self.stage, &mut self.dice, BALANCERS).await,
            5 => removed_by_hand(&self.stage, &mut self.dice, LISTENERS).await,
            6 => removed_by_hand(&self.stage, &mut self.dice, POOLS).await,
            7 => self.floating_ip_by_hand().await,
            8..=10 => self.lose(Service::Octavia).await,
            11..=12 => self.lose(Service::Neutron).await,
            13..=14 => self.refuse().await,
            48.. => {
                let services: Vec<&str> = self.services.keys().map(String::as_str).collect();
                self.ingresses.operate(&self.stage, &mut self.dice, &services).await
            }
            other => self.operate_on_service(other).await,
        };
        *self.done.entry(what).or_default() += 1;
    }

    async fn operate_on_service(&mut self, number: u64) -> &'static str {
        let names: Vec<String> = self.services.keys().cloned().collect();
        // Each has a name of its own: what is being removed keeps no other one from being made.
        if names.is_empty() || (number < 26 && names.len() < MOST_SERVICES) {
            self.named += 1;
            return self.create(&format!("web-{}", self.named)).await;
        }
        let name = self.dice.pick(&names.iter().map(String::as_str).collect::<Vec<_>>()).to_owned();
        match number {
            15..=31 => self.members(&name).await,
            32..=35 => self.ports(&name).await,
            36..=38 => self.inside_or_outside(&name).await,
            39..=41 => self.resource_by_hand(&name).await,
            42 => {
                self.delete(&name).await;
                match self.create(&name).await {
                    "made" => "deleted and made again",
                    what => what,
                }
            }
            _ => self.delete(&name).await,
        }
    }

    async fn create(&mut self, name: &str) -> &'static str {
        let count = 1 + u16::try_from(self.dice.below(3)).unwrap();
        let ports = ports(count);
        let ports: Vec<(&str, u16, u16)> = ports.iter().map(|(name, port)| (&**name, *port, TARGET)).collect();
        let made = if self.dice.one_in(3) {
            self.stage.make_internal_service(name, &ports).await
        } else {
            self.stage.make_service(name, &ports).await
        };
        match made {
            Err(error) if error.downcast_ref::<Refused>().is_some_and(|refused| refused.code == 409) => {
                "the one of this name is still being removed"
            }
            Err(error) => panic!("{error:#}"),
            Ok(()) => {
                self.made += 1;
                self.services.insert(name.to_owned(), count);
                self.members(name).await;
                "made"
            }
        }
    }

    async fn members(&mut self, name: &str) -> &'static str {
        let count = self.dice.below(6);
        let addresses: BTreeSet<String> = (0..count).map(|_| format!("10.1.0.{}", 1 + self.dice.below(20))).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let ports = ports(self.services[name]);
        let ports: Vec<(&str, u16)> = ports.iter().map(|(name, _)| (&**name, TARGET)).collect();
        self.stage.set_members(name, &addresses, &ports).await.unwrap();
        "other members"
    }

    async fn ports(&mut self, name: &str) -> &'static str {
        let count = 1 + u16::try_from(self.dice.below(3)).unwrap();
        self.services.insert(name.to_owned(), count);
        let ports: Vec<Value> = ports(count)
            .iter()
            .map(|(name, port)| json!({"name": name, "port": port, "targetPort": TARGET, "protocol": "TCP"}))
            .collect();
        self.patch(name, &json!({"spec": {"ports": ports}})).await;
        "other ports"
    }

    async fn inside_or_outside(&mut self, name: &str) -> &'static str {
        let internal = if self.dice.one_in(2) { json!("true") } else { Value::Null };
        let key = "service.beta.kubernetes.io/openstack-internal-load-balancer";
        self.patch(name, &json!({"metadata": {"annotations": {key: internal}}})).await;
        "internal or not"
    }

    async fn patch(&self, name: &str, patch: &Value) {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/services/{name}");
        self.stage.cluster.admin().patch(&path, patch).await.unwrap();
    }

    async fn delete(&mut self, name: &str) -> &'static str {
        self.stage.delete_service(name).await.unwrap();
        self.services.remove(name);
        "deleted"
    }

    async fn kill_writer(&mut self) -> &'static str {
        self.stage.writer.take().unwrap().process.kill().unwrap();
        self.stage.start_writer(&WRITER).await.unwrap();
        "writer killed"
    }

    async fn kill_controller(&mut self) -> &'static str {
        self.stage.controller.take().unwrap().process.kill().unwrap();
        self.stage.start_controller(&CONTROLLER).await.unwrap();
        "controller killed"
    }

    async fn floating_ip_by_hand(&mut self) -> &'static str {
        let neutron = self.stage.cloud.neutron(Service::Neutron).unwrap();
        let list = neutron.get("/floatingips").await.unwrap();
        let Some(id) = picked(&mut self.dice, &list["floatingips"]) else { return "nothing to delete by hand" };
        match neutron.delete(&format!("/floatingips/{id}")).await {
            Ok(_) => "floating IP deleted by hand",
            Err(_) => "refused by hand",
        }
    }

    /// Deletes the KuryrLoadBalancer, or empties its status.
    async fn resource_by_hand(&mut self, name: &str) -> &'static str {
        let api = self.stage.cluster.admin();
        let path = format!("/apis/openstack.org/v1/namespaces/{NAMESPACE}/kuryrloadbalancers/{name}");
        let (what, result) = if self.dice.one_in(2) {
            ("KuryrLoadBalancer deleted", api.delete(&path).await)
        } else {
            ("status emptied", api.patch(&format!("{path}/status"), &json!({"status": null})).await)
        };
        match result {
            Ok(_) => what,
            Err(refused) if [404, 409].contains(&refused.code) => "no KuryrLoadBalancer yet",
            Err(refused) => panic!("{refused}"),
        }
    }

    /// Loses the answer to the next change of one kind.
    async fn lose(&mut self, service: Service) -> &'static str {
        let method = self.dice.pick(&["POST", "PUT", "DELETE"]);
        self.steer(service, Steer::calls(method, "").once().lose_the_answer()).await;
        "an answer lost"
    }

    async fn refuse(&mut self) -> &'static str {
        let method = self.dice.pick(&["POST", "PUT", "DELETE", "GET"]);
        let service = self.dice.pick(&[Service::Octavia, Service::Neutron]);
        let rule = Steer::calls(method, "").once();
        let rule = match self.dice.below(3) {
            0 => rule.unavailable(),
            1 => rule.too_many(1),
            _ => rule.cut_the_answer(),
        };
        self.steer(service, rule).await;
        "a call refused or cut"
    }

    /// Puts a rule into force that does not apply to the cloud's services among themselves.
    async fn steer(&self, service: Service, rule: Steer) {
        let rule = rule.of_client("^gimbal-openstack-writer");
        self.stage.cloud.steer(service, &rule).await.unwrap();
    }

    /// Waits until the shared router is there and served. Returns its UID.
    async fn until_router(&self) -> Value {
        let result = eventually("the shared router has its floating IP", WITHIN, async || router(&self.stage).await);
        result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", self.stage.logs()))
    }

    /// Deletes everything, and waits until it is gone.
    async fn end(&mut self, before: &BTreeSet<String>) {
        for service in [Service::Octavia, Service::Neutron] {
            self.stage.cloud.stop_all_steering(service).await.unwrap();
        }
        // Some are whole when they go, and one of them has a floating IP.
        self.stage.make_service("last", &[("p80", 80, TARGET)]).await.unwrap();
        self.services.insert("last".to_owned(), 1);
        self.members("last").await;
        for name in self.services.keys() {
            self.stage.until_address(name).await.unwrap();
        }
        let router = self.until_router().await;
        self.ingresses.remove_all(&self.stage).await;
        for name in self.services.keys() {
            self.stage.delete_service(name).await.unwrap();
        }
        let result = eventually("no Ingress is left", WITHIN, async || {
            let left = self.stage.cluster.admin().items(INGRESSES).await?;
            anyhow::ensure!(left.is_empty(), "{left:?}");
            Ok::<_, anyhow::Error>(())
        });
        result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", self.stage.logs()));
        // The router stays, and is served, until a person says that it may go.
        assert_eq!(self.until_router().await, router, "it went with the last Ingress");
        self.stage.configure(POLICY).unwrap();
        let result = eventually("nothing is left", WITHIN, async || {
            let mut left = Vec::new();
            let balancers = "/apis/openstack.org/v1/namespaces/shop/kuryrloadbalancers";
            for path in ["/api/v1/namespaces/shop/services", balancers, ROUTERS] {
                left.extend(self.stage.cluster.admin().items(path).await?.iter().map(Value::to_string));
            }
            left.extend(everything(&self.stage).await?.difference(before).cloned());
            anyhow::ensure!(left.is_empty(), "{}", left.join("\n"));
            Ok::<_, anyhow::Error>(())
        });
        result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", self.stage.logs()));
    }
}

/// Returns the UID of the shared router whose load balancer is there with its floating IP.
async fn router(stage: &WayBack) -> anyhow::Result<Value> {
    let routers = stage.cluster.admin().items(ROUTERS).await?;
    let shared = routers.iter().find(|one| one["metadata"]["name"] == SHARED);
    let router = shared.ok_or_else(|| anyhow::anyhow!("no shared router: {routers:?}"))?;
    anyhow::ensure!(router["metadata"]["deletionTimestamp"].is_null(), "{router}");
    let uid = &router["metadata"]["uid"];
    let list = stage.cloud.octavia().get("/loadbalancers").await?;
    let mark = json!(format!("k8s-svc-uid:{}", uid.as_str().unwrap_or_default()));
    let is_its = |row: &&Value| row["tags"].as_array().is_some_and(|tags| tags.contains(&mark));
    let mut its = list["loadbalancers"].as_array().into_iter().flatten().filter(is_its);
    let balancer = its.next().ok_or_else(|| anyhow::anyhow!("no load balancer of {uid}: {list}"))?;
    let neutron = stage.cloud.neutron(Service::Neutron)?;
    let floating = neutron.get("/floatingips").await?;
    let mut all = floating["floatingips"].as_array().into_iter().flatten();
    anyhow::ensure!(all.any(|one| one["port_id"] == balancer["vip_port_id"]), "none of {balancer}: {floating}");
    Ok(uid.clone())
}

/// Everything in the cloud that a load balancer may have left, whoever made it.
async fn everything(stage: &WayBack) -> anyhow::Result<BTreeSet<String>> {
    let neutron = stage.cloud.neutron(Service::Neutron)?;
    let mut all = BTreeSet::new();
    for (api, kinds) in [(stage.cloud.octavia(), &OCTAVIA[..]), (&neutron, &NEUTRON[..])] {
        for kind in kinds {
            let list = api.get(&format!("/{kind}")).await?;
            let rows = list[kind.replace('-', "_")].as_array().cloned().unwrap_or_default();
            // Neutron makes the group `default` of a project when it is first asked for its groups.
            let rows = rows.iter().filter(|row| row["name"] != "default");
            all.extend(rows.map(|row| format!("{kind} {} {} {}", row["id"], row["name"], row["description"])));
        }
    }
    let secrets = stage.cloud.sql("select id, name from barbican.secrets where deleted = 0").await?;
    all.extend(secrets.lines().map(|line| format!("secret {line}")));
    Ok(all)
}

fn ports(count: u16) -> Vec<(String, u16)> {
    (80..80 + count).map(|port| (format!("p{port}"), port)).collect()
}

fn picked(dice: &mut Dice, rows: &Value) -> Option<String> {
    let ids: Vec<&str> = rows.as_array()?.iter().filter_map(|row| row["id"].as_str()).collect();
    (!ids.is_empty()).then(|| dice.pick(&ids).to_owned())
}
