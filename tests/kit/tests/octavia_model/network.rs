//! Neutron's part of the model beside the real Neutron, with a real Octavia that makes its ports there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gimbal_octavia_sim::{CloudModel, Dice, Fate, Method, SimRequest};
use gimbal_testkit::eventually;
use gimbal_testkit::openstack::{Api, OpenStack, Service};
use serde_json::{Value, json};

const PORT_FIELDS: [&str; 5] = ["name", "description", "device_id", "device_owner", "project_id"];
const FLOATING_FIELDS: [&str; 5] = ["description", "port_id", "fixed_ip_address", "floating_ip_address", "project_id"];
const BALANCER_FIELDS: [&str; 4] = ["name", "vip_port_id", "vip_address", "vip_subnet_id"];

pub struct NetworkPair<'a> {
    cloud: &'a OpenStack,
    neutron: Api,
    sim: CloudModel,
    dice: Dice,
    project: String,
    /// The model's ID for each real one.
    ids: BTreeMap<String, String>,
    /// The subnets of VIPs, in one network, and the external network: the model's IDs.
    subnets: [String; 2],
    external: String,
    /// The kinds of request that both accepted.
    pub accepted: BTreeSet<String>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl<'a> NetworkPair<'a> {
    pub async fn new(cloud: &'a OpenStack) -> Self {
        let neutron = cloud.neutron(Service::Neutron).unwrap();
        let project = cloud.project("alpha").await.unwrap();
        let first = cloud.create_subnet("alpha", "10.60.0.0/24").await.unwrap();
        let row = neutron.get(&format!("/subnets/{first}")).await.unwrap()["subnet"].clone();
        let beside = json!({"subnet": {
            "network_id": row["network_id"], "ip_version": 4, "cidr": "10.61.0.0/24", "project_id": project,
        }});
        let second = text(&neutron.post("/subnets", &beside).await.unwrap()["subnet"]["id"]);
        let external = cloud.create_external_network("203.0.113.0/24").await.unwrap();
        for subnet in [&first, &second] {
            cloud.create_router("alpha", &external, subnet).await.unwrap();
        }
        let mut sim = CloudModel::new();
        let subnets = ["10.60.0.0/24", "10.61.0.0/24"];
        let one = sim.add_subnet(subnets[0]);
        let two = sim.add_subnet_beside(&one, subnets[1]);
        let outside = sim.add_subnet("203.0.113.0/24");
        let outside = sim.network_of(&outside).unwrap().to_owned();
        let network = sim.network_of(&one).unwrap().to_owned();
        let known = [(first, &one), (second, &two), (external, &outside), (text(&row["network_id"]), &network)];
        let ids = known.into_iter().map(|(real, model)| (real, model.clone())).collect();
        Self {
            cloud,
            neutron,
            sim,
            dice: Dice::new(0),
            project,
            ids,
            subnets: [one, two],
            external: outside,
            accepted: BTreeSet::new(),
        }
    }

    /// Sends one request to both. `revision`: whether the object's own, or another one. Returns the status code.
    async fn send(&mut self, method: Method, path: &str, body: &Value, revision: Option<bool>, what: &str) -> u16 {
        let octavia = path.starts_with("/loadbalancers");
        let (bare, query) = path.split_once('?').unwrap_or((path, ""));
        let base = if octavia { "/v2/lbaas" } else { "/v2.0" };
        let mut request = SimRequest::new(method, &format!("{base}{bare}"), body.clone());
        if query == "cascade=true" {
            request = request.with_query("cascade", "true");
        }
        let real_path = self.to_real(path);
        let sent: Value = serde_json::from_str(&self.to_real(&body.to_string())).unwrap();
        let mut at = None;
        if let Some(right) = revision {
            let of = |row: &Value| row.as_object().and_then(|one| one.values().next()?["revision_number"].as_u64());
            let off = if right { 0 } else { 7 };
            let ours = self.sim.handle(&SimRequest::get(&format!("{base}{bare}"))).body;
            request = request.with_revision(of(&ours).map(|revision| revision + off));
            let theirs = self.neutron.get(&real_path).await.unwrap_or_default();
            at = of(&theirs).map(|revision| revision + off);
        }
        let ours = self.sim.handle(&request);
        // A request that was refused before the driver has not met it.
        self.sim.forget_expectations();
        let api = if octavia { self.cloud.octavia() } else { &self.neutron };
        let theirs = match (method, at) {
            (Method::Get, _) => api.get(&real_path).await,
            (Method::Post, _) => api.post(&real_path, &sent).await,
            (Method::Put, Some(revision)) => api.put_at(&real_path, &sent, revision).await,
            (Method::Put, None) => api.put(&real_path, &sent).await,
            (Method::Delete, _) => api.delete(&real_path).await,
        };
        match theirs {
            Err(refused) => assert_eq!(ours.status, refused.code, "{what}\nreal: {refused}\nmodel: {}", ours.body),
            Ok(answer) => {
                assert!(ours.status < 300, "{what}\naccepted, but the model: {} {}", ours.status, ours.body);
                let kind = bare.split('/').nth(1).unwrap_or_default();
                self.accepted.insert(format!("{method:?} {kind}"));
                for (theirs, ours) in answer
                    .as_object()
                    .iter()
                    .flat_map(|one| one.values())
                    .zip(ours.body.as_object().iter().flat_map(|one| one.values()))
                {
                    for key in ["id", "vip_port_id"] {
                        if let (Some(theirs), Some(ours)) = (theirs[key].as_str(), ours[key].as_str()) {
                            self.ids.insert(theirs.to_owned(), ours.to_owned());
                        }
                    }
                }
            }
        }
        self.settle().await;
        self.learn_leftovers().await;
        self.compare(what).await;
        ours.status
    }

    async fn settle(&mut self) {
        self.sim.advance(Duration::from_secs(60));
        let path = format!("/loadbalancers?project_id={}&fields=provisioning_status", self.project);
        eventually("every load balancer has settled", Duration::from_secs(60), async || {
            let listed = self.cloud.octavia().get(&path).await.map_err(|refused| refused.to_string())?;
            if listed.to_string().contains("PENDING_") { Err(listed.to_string()) } else { Ok(()) }
        })
        .await
        .unwrap();
    }

    /// Ports that a refused creation left behind are in no answer: the only new ones on both sides belong together.
    async fn learn_leftovers(&mut self) {
        let [theirs, ours] = self.rows("ports").await;
        let unknown = |rows: &[Value], known: &dyn Fn(&str) -> bool| -> Vec<Value> {
            rows.iter().filter(|row| !known(&text(&row["id"]))).cloned().collect()
        };
        let theirs = unknown(&theirs, &|id| self.ids.contains_key(id));
        let ours = unknown(&ours, &|id| self.ids.values().any(|known| known == id));
        if let ([theirs], [ours]) = (&theirs[..], &ours[..]) {
            for key in ["id", "device_id"] {
                let strip = |row: &Value| text(&row[key]).trim_start_matches("lb-").to_owned();
                self.ids.insert(strip(theirs), strip(ours));
            }
        }
    }

    /// Returns Neutron's rows, real and of the model, without the routers' ports.
    async fn rows(&mut self, kind: &str) -> [Vec<Value>; 2] {
        let theirs = self.neutron.get(&format!("/{kind}?project_id={}", self.project)).await.unwrap();
        let ours = self.sim.handle(&SimRequest::get(&format!("/v2.0/{kind}"))).body;
        [theirs, ours].map(|rows| {
            let mut rows = rows[kind].as_array().cloned().unwrap_or_default();
            rows.retain(|row| !text(&row["device_owner"]).starts_with("network:"));
            rows
        })
    }

    async fn compare(&mut self, what: &str) {
        let [theirs, ours] = self.rows("ports").await;
        let fixed = |row: &Value| {
            let all = row["fixed_ips"].as_array().cloned().unwrap_or_default();
            let mut all: Vec<_> = all.iter().map(|one| (text(&one["subnet_id"]), text(&one["ip_address"]))).collect();
            // Not by the subnet, whose ID is still that of either side.
            all.sort_by(|one, other| one.1.cmp(&other.1));
            json!(all)
        };
        let with_fixed = |rows: Vec<Value>| -> Vec<Value> {
            let shown = |row: Value| json!({"row": chosen(&row, &PORT_FIELDS), "id": row["id"], "fixed": fixed(&row)});
            rows.into_iter().map(shown).collect()
        };
        self.assert_same(with_fixed(theirs), with_fixed(ours), &format!("{what}: ports"));
        let [theirs, ours] = self.rows("floatingips").await;
        self.assert_same(all_chosen(&theirs, &FLOATING_FIELDS), all_chosen(&ours, &FLOATING_FIELDS), what);
        let theirs = self.cloud.octavia().get(&format!("/loadbalancers?project_id={}", self.project)).await.unwrap();
        let ours = self.sim.handle(&SimRequest::get("/v2/lbaas/loadbalancers")).body;
        let [theirs, ours] = [theirs, ours].map(|rows| rows["loadbalancers"].as_array().cloned().unwrap_or_default());
        let vips = |rows: &[Value]| -> Vec<Value> {
            let more = |row: &Value| {
                let all = row["additional_vips"].as_array().cloned().unwrap_or_default();
                all.iter().map(|one| chosen(one, &["subnet_id", "ip_address"])).collect::<Vec<_>>()
            };
            rows.iter().map(|row| json!({"row": chosen(row, &BALANCER_FIELDS), "more": more(row)})).collect()
        };
        self.assert_same(vips(&theirs), vips(&ours), &format!("{what}: load balancers"));
    }

    fn assert_same(&self, theirs: Vec<Value>, ours: Vec<Value>, what: &str) {
        let sorted = |rows: Vec<Value>| {
            let mut rows: Vec<String> = rows.iter().map(Value::to_string).collect();
            rows.sort();
            rows
        };
        let theirs: Vec<Value> =
            theirs.iter().map(|row| serde_json::from_str(&self.to_model(&row.to_string())).unwrap()).collect();
        assert_eq!(sorted(theirs), sorted(ours), "{what}: the real ones (left) and the model's");
    }

    fn to_model(&self, text: &str) -> String {
        self.ids.iter().fold(text.to_owned(), |text, (real, model)| text.replace(real, model))
    }

    fn to_real(&self, text: &str) -> String {
        self.ids.iter().fold(text.to_owned(), |text, (real, model)| text.replace(model, real))
    }

    fn balancer(&self, name: &str, vip: &Value) -> Value {
        let mut body = json!({"project_id": self.project, "name": name});
        for (key, value) in vip.as_object().unwrap() {
            body[key] = value.clone();
        }
        json!({"loadbalancer": body})
    }

    /// What the plan rests on: the port carries the ID of a load balancer that does not exist, and can be deleted.
    pub async fn octavia_leaves_its_port_behind(&mut self) {
        let vip = json!({"vip_subnet_id": self.subnets[0], "vip_address": "10.60.0.200", "description": "lab:fails"});
        let body = self.balancer("refused", &vip);
        self.sim.expect(Fate::Raises);
        assert_eq!(self.send(Method::Post, "/loadbalancers", &body, None, "a creation that fails").await, 500);
        // The address is in use then, and Octavia says so in a way of its own.
        let vip = json!({"vip_subnet_id": self.subnets[0], "vip_address": "10.60.0.200"});
        let body = self.balancer("again", &vip);
        assert_eq!(self.send(Method::Post, "/loadbalancers", &body, None, "the same address again").await, 500);
        let query = "/ports?fixed_ips=ip_address%3D10.60.0.200";
        let port = self.neutron.get(query).await.unwrap()["ports"][0].clone();
        let balancer = text(&port["device_id"]).strip_prefix("lb-").unwrap().to_owned();
        assert_eq!((&port["device_owner"], text(&port["name"])), (&json!("Octavia"), format!("octavia-lb-{balancer}")));
        let gone = self.cloud.octavia().get(&format!("/loadbalancers/{balancer}")).await.unwrap_err();
        assert_eq!(gone.code, 404);
        let port = self.to_model(&text(&port["id"]));
        assert_eq!(self.send(Method::Delete, &format!("/ports/{port}"), &Value::Null, None, "what is left").await, 204);
    }

    /// Octavia does not write itself into a port that it was given, so a second load balancer can have it too.
    pub async fn two_load_balancers_on_one_port(&mut self) {
        let fixed = json!([
            {"subnet_id": self.subnets[0], "ip_address": "10.60.0.210"},
            {"subnet_id": self.subnets[1], "ip_address": "10.61.0.210"},
        ]);
        let network = self.sim.network_of(&self.subnets[0]).unwrap().to_owned();
        let body = json!({"port": {"network_id": network, "project_id": self.project, "fixed_ips": fixed}});
        self.send(Method::Post, "/ports", &body, None, "a port with two addresses").await;
        let port = self.sim.handle(&SimRequest::get("/v2.0/ports")).body["ports"][0]["id"].clone();
        let more = json!([{"subnet_id": self.subnets[1], "ip_address": "10.61.0.210"}]);
        // Which of two addresses is the VIP has to be said: by the subnet, which is allowed beside the port.
        let vips = [
            (json!({"vip_port_id": port}), 400),
            (json!({"vip_port_id": port, "vip_subnet_id": self.subnets[0], "additional_vips": more}), 201),
            (json!({"vip_port_id": port, "vip_subnet_id": self.subnets[0], "additional_vips": more}), 201),
        ];
        for (nth, (vip, expected)) in vips.iter().enumerate() {
            let body = self.balancer(&format!("on one port {nth}"), vip);
            let what = format!("load balancer {nth} on one port");
            assert_eq!(self.send(Method::Post, "/loadbalancers", &body, None, &what).await, *expected);
        }
        self.nothing_left().await;
    }

    async fn nothing_left(&mut self) {
        let balancers = self.sim.handle(&SimRequest::get("/v2/lbaas/loadbalancers")).body;
        for row in balancers["loadbalancers"].as_array().cloned().unwrap_or_default() {
            let path = format!("/loadbalancers/{}?cascade=true", text(&row["id"]));
            self.send(Method::Delete, &path, &Value::Null, None, "cleaning up").await;
        }
        for port in self.rows("ports").await[1].clone() {
            self.send(Method::Delete, &format!("/ports/{}", text(&port["id"])), &Value::Null, None, "cleaning up")
                .await;
        }
    }

    pub async fn random_request(&mut self, nth: u64, seed: u64) {
        if nth == 0 {
            self.dice = Dice::new(seed);
        }
        let ports: Vec<String> = self.rows("ports").await[1].iter().map(|row| text(&row["id"])).collect();
        let floating: Vec<String> = self.rows("floatingips").await[1].iter().map(|row| text(&row["id"])).collect();
        let balancers = self.sim.handle(&SimRequest::get("/v2/lbaas/loadbalancers")).body;
        let balancers: Vec<String> =
            balancers["loadbalancers"].as_array().into_iter().flatten().map(|row| text(&row["id"])).collect();
        let (method, path, body, revision) = self.request(&ports, &floating, &balancers);
        let what = format!("request {nth} of seed {seed}: {method:?} {path} {body} {revision:?}");
        self.send(method, &path, &body, revision, &what).await;
    }

    fn request(
        &mut self,
        ports: &[String],
        floating: &[String],
        balancers: &[String],
    ) -> (Method, String, Value, Option<bool>) {
        let host = 10 + self.dice.below(4);
        let inside = |nth: usize| format!("10.6{nth}.0.{host}");
        let project = self.project.clone();
        let revision = self.dice.pick(&[None, None, Some(true), Some(false)]);
        let port = if ports.is_empty() { Value::Null } else { json!(self.dice.pick(ports)) };
        match self.dice.below(10) {
            0 | 1 => {
                let mut fixed = vec![json!({"subnet_id": self.subnets[0], "ip_address": inside(0)})];
                if self.dice.one_in(3) {
                    fixed.push(json!({"subnet_id": self.subnets[1], "ip_address": inside(1)}));
                }
                let network = self.sim.network_of(&self.subnets[0]).unwrap().to_owned();
                let body =
                    json!({"network_id": network, "project_id": project, "fixed_ips": fixed, "description": "d"});
                (Method::Post, "/ports".into(), json!({"port": body}), None)
            }
            2 if !ports.is_empty() => (Method::Delete, format!("/ports/{}", text(&port)), Value::Null, None),
            3 if !ports.is_empty() => {
                let body = json!({"port": {"description": format!("d{host}")}});
                (Method::Put, format!("/ports/{}", text(&port)), body, revision)
            }
            4 | 5 => {
                let mut body = json!({
                    "floating_network_id": self.external, "project_id": project,
                    "floating_ip_address": format!("203.0.113.{host}"), "description": "f",
                });
                if self.dice.one_in(2) {
                    body["port_id"] = port;
                }
                (Method::Post, "/floatingips".into(), json!({"floatingip": body}), None)
            }
            6 if !floating.is_empty() => {
                let id = self.dice.pick(floating);
                let body =
                    self.dice.pick(&[json!({"port_id": port}), json!({"port_id": null}), json!({"description": "g"})]);
                (Method::Put, format!("/floatingips/{id}"), json!({"floatingip": body}), revision)
            }
            7 if !floating.is_empty() && self.dice.one_in(2) => {
                (Method::Delete, format!("/floatingips/{}", self.dice.pick(floating)), Value::Null, None)
            }
            8 if !balancers.is_empty() => {
                let id = self.dice.pick(balancers);
                (Method::Delete, format!("/loadbalancers/{id}?cascade=true"), Value::Null, None)
            }
            _ => {
                let mut vip = match self.dice.below(3) {
                    0 if !ports.is_empty() => json!({"vip_port_id": port}),
                    1 if !ports.is_empty() => json!({"vip_port_id": port, "vip_subnet_id": self.subnets[0]}),
                    _ => json!({"vip_subnet_id": self.subnets[0], "vip_address": inside(0)}),
                };
                if vip["vip_port_id"].is_null() && self.dice.one_in(3) {
                    let nth = usize::from(!self.dice.one_in(4));
                    vip["additional_vips"] = json!([{"subnet_id": self.subnets[nth], "ip_address": inside(nth)}]);
                }
                if self.dice.one_in(6) {
                    vip["description"] = json!("lab:fails");
                    self.sim.expect(Fate::Raises);
                }
                (Method::Post, "/loadbalancers".into(), self.balancer("random", &vip), None)
            }
        }
    }
}

fn chosen(row: &Value, keys: &[&str]) -> Value {
    keys.iter().map(|key| ((*key).to_owned(), row[*key].clone())).collect()
}

fn all_chosen(rows: &[Value], keys: &[&str]) -> Vec<Value> {
    rows.iter().map(|row| chosen(row, keys)).collect()
}
