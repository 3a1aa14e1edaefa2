//! The model of Neutron (`gimbal-neutron-sim`) beside the real one: the same requests get the same answers.
#![expect(clippy::unwrap_used, reason = "helpers of a test panic as a test does")]

use std::collections::{BTreeMap, BTreeSet};

use gimbal_neutron_sim::NeutronModel;
use gimbal_octavia_sim::{Method, SimRequest};
use gimbal_testkit::openstack::{Api, OpenStack, Options, Service};
use serde_json::{Value, json};

struct Both {
    real: Api,
    sim: NeutronModel,
    /// The real ID for each of the model's.
    ids: BTreeMap<String, String>,
    project: String,
}

impl Both {
    /// Sends a request, with the model's IDs, to both, and compares the answers: status, words of a refusal, and the IDs that there
    /// are. Returns both bodies.
    async fn send(&mut self, method: Method, path: &str, body: &Value, revision: Option<bool>) -> [Value; 2] {
        let what = format!("{method:?} {path} {body} {revision:?}");
        let (bare, query) = path.split_once('?').unwrap_or((path, ""));
        let mut request = SimRequest::new(method, &format!("/v2.0{bare}"), body.clone());
        for (key, value) in query.split('&').filter_map(|one| one.split_once('=')) {
            request = request.with_query(key, &value.replace("%20", " "));
        }
        let (real_path, sent) = (self.to_real(path), serde_json::from_str(&self.to_real(&body.to_string())).unwrap());
        let mut at = None;
        if let Some(is_right) = revision {
            let off = if is_right { 0 } else { 7 };
            let [theirs, ours] = self.revisions(bare).await;
            (request, at) = (request.with_revision(Some(ours + off)), Some(theirs + off));
        }
        let ours = self.sim.handle(&request);
        let theirs = match (method, at) {
            (Method::Get, _) => self.real.get(&real_path).await,
            (Method::Post, _) => self.real.post(&real_path, &sent).await,
            (Method::Put, Some(revision)) => self.real.put_at(&real_path, &sent, revision).await,
            (Method::Put, None) => self.real.put(&real_path, &sent).await,
            (Method::Delete, _) => self.real.delete(&real_path).await,
        };
        match theirs {
            Err(refused) => {
                assert_eq!(ours.status, refused.code, "{what}\nreal: {refused}\nmodel: {}", ours.body);
                let words = self.to_real(ours.body["NeutronError"]["message"].as_str().unwrap_or_default());
                let is_said = refused.code == 412 || refused.message.contains(&words);
                assert!(is_said, "{what}\nreal: {refused}\nmodel: {words}");
                [Value::Null, ours.body]
            }
            Ok(theirs) => {
                assert!(ours.status < 300, "{what}\naccepted, but the model: {} {}", ours.status, ours.body);
                self.learn(&theirs, &ours.body);
                [theirs, ours.body]
            }
        }
    }

    fn to_real(&self, text: &str) -> String {
        self.ids.iter().fold(text.to_owned(), |text, (model, real)| text.replace(model, real))
    }

    /// Creates one object, and returns the model's ID.
    async fn create(&mut self, plural: &str, singular: &str, mut body: Value) -> String {
        body["project_id"] = json!(self.project);
        let [_, ours] = self.send(Method::Post, &format!("/{plural}"), &json!({singular: body}), None).await;
        ours[singular]["id"].as_str().unwrap().to_owned()
    }

    fn learn(&mut self, theirs: &Value, ours: &Value) {
        let rows = |body: &Value| -> Vec<Value> {
            let inner = body.as_object().and_then(|one| one.values().next()).cloned().unwrap_or_default();
            inner.as_array().cloned().unwrap_or_else(|| vec![inner])
        };
        for (theirs, ours) in rows(theirs).iter().zip(rows(ours)) {
            if let (Some(theirs), Some(ours)) = (theirs["id"].as_str(), ours["id"].as_str()) {
                self.ids.entry(ours.to_owned()).or_insert_with(|| theirs.to_owned());
            }
        }
    }

    async fn revisions(&mut self, path: &str) -> [u64; 2] {
        let of = |row: &Value| row.as_object().unwrap().values().next().unwrap()["revision_number"].as_u64().unwrap();
        let theirs = self.real.get(&self.to_real(path)).await.unwrap();
        [of(&theirs), of(&self.sim.handle(&SimRequest::get(&format!("/v2.0{path}"))).body)]
    }

    /// Sends a change of a port, and checks that both count as many revisions for it. Returns how many.
    async fn counted(&mut self, port: &str, path: &str, body: &Value, revision: Option<bool>) -> u64 {
        let row = format!("/ports/{port}");
        let before = self.revisions(&row).await;
        self.send(Method::Put, path, body, revision).await;
        let after = self.revisions(&row).await;
        assert_eq!(after[0] - before[0], after[1] - before[1], "revisions of {path} {body}: {before:?}, {after:?}");
        after[0] - before[0]
    }

    /// The model's IDs of what a list shows, on both sides.
    async fn listed(&mut self, query: &str) -> usize {
        let path = format!("/ports?{query}");
        let theirs = self.real.get(&self.to_real(&path)).await.unwrap();
        let mut request = SimRequest::get("/v2.0/ports");
        for (key, value) in query.split('&').filter_map(|one| one.split_once('=')) {
            request = request.with_query(key, &value.replace("%20", " "));
        }
        let ids = |body: &Value| -> BTreeSet<String> {
            body["ports"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
        };
        let ours = ids(&self.sim.handle(&request).body);
        assert_eq!(ids(&theirs), ours.iter().map(|id| self.to_real(id)).collect(), "{query}");
        ours.len()
    }
}

#[tokio::test]
async fn the_model_is_as_neutron() {
    let cloud = OpenStack::start_with(Options { neutron: true, ..Options::with_checked_tokens() }).await.unwrap();
    let real = cloud.neutron(Service::Neutron).unwrap();
    let project = cloud.project("alpha").await.unwrap();
    let mut both = Both { real, sim: NeutronModel::new(), ids: BTreeMap::new(), project };
    let (network, subnet) = a_namespace(&mut both).await;
    let ports = ports(&mut both, &cloud, &network).await;
    a_removal(&mut both, &network, &subnet, &ports).await;
}

/// A network, a subnet from a pool, a router: made in order, and refused otherwise.
async fn a_namespace(both: &mut Both) -> (String, String) {
    let pool = json!({"name": "pods", "prefixes": ["10.70.0.0/23"], "default_prefixlen": 24});
    let pool = both.create("subnetpools", "subnetpool", pool).await;
    let network = both.create("networks", "network", json!({"name": "ns/shop"})).await;
    let subnet =
        |network: &str| json!({"network_id": network, "subnetpool_id": pool, "ip_version": 4, "enable_dhcp": false});
    let first = both.create("subnets", "subnet", subnet(&network)).await;
    let rows = both.send(Method::Get, &format!("/subnets/{first}"), &Value::Null, None).await;
    assert_eq!(rows.map(|row| row["subnet"]["cidr"].clone()), [json!("10.70.0.0/24"), json!("10.70.0.0/24")]);
    let other = both.create("networks", "network", json!({"name": "ns/other"})).await;
    both.create("subnets", "subnet", subnet(&other)).await;
    let full = json!({"subnet": subnet(&other)});
    both.send(Method::Post, "/subnets", &full, None).await;
    let router = both.create("routers", "router", json!({"name": "pods"})).await;
    let (add, remove) =
        (format!("/routers/{router}/add_router_interface"), format!("/routers/{router}/remove_router_interface"));
    let body = json!({"subnet_id": first});
    both.send(Method::Put, &remove, &body, None).await;
    both.send(Method::Put, &add, &body, None).await;
    both.send(Method::Put, &add, &body, None).await;
    both.send(Method::Delete, &format!("/subnets/{first}"), &Value::Null, None).await;
    both.send(Method::Delete, &format!("/networks/{network}"), &Value::Null, None).await;
    both.send(Method::Put, &remove, &body, None).await;
    both.send(Method::Delete, &format!("/networks/{other}"), &Value::Null, None).await;
    (network, first)
}

/// Several ports in one request, quotas, revisions, tags, and the filters by which they are found.
async fn ports(both: &mut Both, cloud: &OpenStack, network: &str) -> Vec<String> {
    let group = both.create("security-groups", "security_group", json!({"name": "web"})).await;
    let project = both.project.clone();
    let body = |description: &str, group: &str| {
        json!({
            "network_id": network, "project_id": project, "name": "kuryr-pool-port", "description": description,
            "device_owner": "compute:kuryr", "binding:host_id": "node-1", "security_groups": [group], "admin_state_up": true,
        })
    };
    let three = json!({"ports": [body("of a", &group), body("of a", &group), body("of b", &group)]});
    let [theirs, ours] = both.send(Method::Post, "/ports", &three, None).await;
    for rows in [&theirs, &ours] {
        let rows = rows["ports"].as_array().unwrap();
        assert!(rows.iter().all(|row| row["fixed_ips"].as_array().is_some_and(|all| all.len() == 1)), "{rows:?}");
        assert!(rows.iter().all(|row| row["binding:host_id"] == "node-1" && row["tags"] == json!([])), "{rows:?}");
    }
    let ids: Vec<String> =
        ours["ports"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    // All or none.
    let nowhere = "00000000-0000-4000-8000-00000000dead";
    both.send(Method::Post, "/ports", &json!({"ports": [body("of c", &group), body("of c", nowhere)]}), None).await;
    let used = 3;
    cloud.set_quota(Service::Neutron, &project, &json!({"port": used + 1})).await.unwrap();
    both.sim.set_port_quota(&project, Some(used + 1));
    both.send(Method::Post, "/ports", &json!({"ports": [body("of c", &group), body("of c", &group)]}), None).await;
    cloud.set_quota(Service::Neutron, &project, &json!({"port": -1})).await.unwrap();
    both.sim.set_port_quota(&project, None);
    let mine = format!("project_id={project}&device_owner=compute:kuryr");
    assert_eq!(both.listed(&mine).await, 3);
    assert_eq!(both.listed(&format!("project_id={project}&description=of%20a&description=of%20c")).await, 2);
    assert_eq!(both.listed(&format!("id={}&id={}", ids[0], ids[2])).await, 2);
    let port = format!("/ports/{}", ids[0]);
    let given = json!({"port": {"description": "of d", "name": "shop/web"}});
    both.send(Method::Put, &port, &given, Some(false)).await;
    assert_eq!(both.listed(&format!("project_id={project}&description=of%20d")).await, 0, "another revision was named");
    assert_eq!(both.counted(&ids[0], &port, &given, Some(true)).await, 1);
    assert_eq!(both.counted(&ids[0], &port, &given, None).await, 1, "it says the same as before");
    assert_eq!(both.counted(&ids[0], &port, &json!({"port": {"security_groups": [nowhere]}}), None).await, 0);
    let tags = json!({"tags": ["k8s-cluster:c1", "k8s-svc-uid:d"]});
    assert_eq!(both.counted(&ids[0], &format!("{port}/tags"), &tags, None).await, 1);
    assert_eq!(both.listed(&format!("project_id={project}&tags=k8s-cluster:c1,k8s-svc-uid:d")).await, 1);
    let groups = json!({"port": {"security_groups": [], "description": "of a"}});
    // The real one counts the groups and the rest by themselves.
    both.send(Method::Put, &port, &groups, Some(true)).await;
    both.send(Method::Delete, &format!("/security-groups/{group}"), &Value::Null, None).await;
    ids
}

/// What is in the way of a removal, and the order without that.
async fn a_removal(both: &mut Both, network: &str, subnet: &str, ports: &[String]) {
    both.send(Method::Delete, &format!("/subnets/{subnet}"), &Value::Null, None).await;
    both.send(Method::Delete, &format!("/networks/{network}"), &Value::Null, None).await;
    for port in ports {
        both.send(Method::Delete, &format!("/ports/{port}"), &Value::Null, None).await;
    }
    both.send(Method::Delete, &format!("/ports/{}", ports[0]), &Value::Null, None).await;
    both.send(Method::Delete, &format!("/subnets/{subnet}"), &Value::Null, None).await;
    both.send(Method::Delete, &format!("/networks/{network}"), &Value::Null, None).await;
    both.send(Method::Get, &format!("/networks/{network}"), &Value::Null, None).await;
}
