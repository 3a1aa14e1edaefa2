//! One real Octavia and one model, and which of their IDs belong together.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gimbal_octavia_sim::{CloudModel, Method, Provider, SimRequest};
use gimbal_testkit::eventually;
use gimbal_testkit::openstack::OpenStack;
use serde_json::{Map, Value, json};

/// A subnet that does not exist; without Neutron it is not checked.
pub const SUBNET: &str = "50b00000-0000-4000-8000-000000000000";
/// What the two invent by themselves.
const NOT_COMPARED: [&str; 6] =
    ["created_at", "updated_at", "vip_address", "vip_port_id", "vip_network_id", "additional_vips"];

/// What tells a new object from its siblings.
const IDENTITY: [&str; 8] =
    ["name", "address", "protocol_port", "protocol", "position", "type", "compare_type", "value"];

pub struct Pair<'a> {
    pub cloud: &'a OpenStack,
    pub sim: CloudModel,
    pub project: String,
    /// The model's ID for each real one.
    model_ids: BTreeMap<String, String>,
    /// The kinds of request that both accepted.
    pub accepted: BTreeSet<String>,
}

impl<'a> Pair<'a> {
    /// Starts with an empty model; the real project is empty too.
    pub async fn new(cloud: &'a OpenStack, project: &str) -> Self {
        let project = cloud.project(project).await.unwrap();
        let mut provider = Provider::default();
        provider.invents_vips = true;
        Self {
            cloud,
            sim: CloudModel::with_provider(provider),
            project,
            model_ids: BTreeMap::new(),
            accepted: BTreeSet::new(),
        }
    }

    /// Sends one request, with the model's IDs, to both, and compares the answers. Returns the status code.
    pub async fn send(&mut self, method: Method, path: &str, body: &Value, what: &str) -> u16 {
        let (bare, query) = path.split_once('?').unwrap_or((path, ""));
        let mut request = SimRequest::new(method, &format!("/v2/lbaas{bare}"), body.clone());
        for (key, value) in query.split('&').filter_map(|one| one.split_once('=')) {
            request = request.with_query(key, value);
        }
        let ours = self.sim.handle(&request);
        let (path, sent) = (self.to_real(path), self.to_real(&body.to_string()));
        let sent: Value = serde_json::from_str(&sent).unwrap();
        let octavia = self.cloud.octavia();
        let theirs = match method {
            Method::Get => octavia.get(&path).await,
            Method::Post => octavia.post(&path, &sent).await,
            Method::Put => octavia.put(&path, &sent).await,
            Method::Delete => octavia.delete(&path).await,
        };
        match theirs {
            Err(refused) => {
                let ours_said = ours.body["faultstring"].as_str().unwrap_or_default();
                assert_eq!(ours.status, refused.code, "{what}\nOctavia: {refused}\nmodel: {ours_said}");
                // What is wrong with a request may be said in many words; all else differs by its words.
                let theirs_said = self.to_model(&refused.message);
                // Which of several policies uses a pool, Octavia does not say twice in the same way.
                let ours_said = ours_said.split(" in use by L7 policy").next().unwrap_or_default();
                assert!(
                    refused.code == 400 || theirs_said.contains(ours_said),
                    "{what}\nOctavia: {refused}\nmodel: {ours_said}"
                );
            }
            Ok(answer) => {
                assert!(ours.status < 300, "{what}\nOctavia accepts, the model: {} {}", ours.status, ours.body);
                let kind = path.split(['/', '?']).filter(|part| !part.is_empty() && !part.contains('-'));
                self.accepted.insert(format!("{method:?} {}", kind.collect::<Vec<_>>().join("/")));
                self.pair_up(&answer, &ours.body);
                // What is pending has the operating status that it happens to have: a new member's differs from run to run.
                let [theirs, ours] =
                    [&answer, &ours.body].map(|tree| without(self.normal(tree, &ours.body), "operating_status"));
                assert_same(&theirs, &ours, &format!("{what}: the answer"));
            }
        }
        ours.status
    }

    /// Waits until nothing is pending.
    pub async fn settle(&mut self) {
        self.sim.advance(Duration::from_secs(60));
        let path = format!("/loadbalancers?project_id={}&fields=provisioning_status", self.project);
        eventually("every load balancer has settled", Duration::from_secs(60), async || {
            let listed = self.cloud.octavia().get(&path).await.map_err(|refused| refused.to_string())?;
            let pending = listed.to_string().contains("PENDING_");
            if pending { Err(listed.to_string()) } else { Ok(()) }
        })
        .await
        .unwrap();
    }

    /// Compares every row.
    pub async fn compare(&mut self, what: &str) {
        // Members first: a batch answers without their IDs, which the rows of pools show.
        for pool in self.rows("pools") {
            let id = pool["id"].as_str().unwrap();
            self.compare_list(&format!("pools/{id}/members"), what).await;
        }
        for kind in ["loadbalancers", "listeners", "pools", "healthmonitors", "l7policies"] {
            self.compare_list(kind, what).await;
        }
        for policy in self.rows("l7policies") {
            let id = policy["id"].as_str().unwrap();
            self.compare_list(&format!("l7policies/{id}/rules"), what).await;
        }
    }

    async fn compare_list(&mut self, kind: &str, what: &str) {
        let request = SimRequest::get(&format!("/v2/lbaas/{kind}")).with_query("project_id", &self.project);
        let ours = self.sim.handle(&request).body;
        let path = format!("/{}?project_id={}", self.to_real(kind), self.project);
        let theirs = self.cloud.octavia().get(&path).await.unwrap();
        let key = kind.rsplit('/').next().unwrap();
        let (theirs, ours) = (json!({key: theirs[key]}), json!({key: ours[key]}));
        self.pair_up(&theirs, &ours);
        let normal = self.normal(&ours, &ours);
        assert_same(&self.normal(&theirs, &ours), &normal, &format!("{what}: {kind}"));
    }

    /// Returns the ID of the model's first object of a kind.
    pub fn first(&mut self, kind: &str) -> String {
        let rows = self.rows(kind);
        rows[0]["id"].as_str().unwrap().to_owned()
    }

    /// Returns the model's rows of a kind.
    pub fn rows(&self, kind: &str) -> Vec<Value> {
        let body = self.sim.clone().handle(&SimRequest::get(&format!("/v2/lbaas/{kind}"))).body;
        body[kind.rsplit('/').next().unwrap()].as_array().cloned().unwrap()
    }

    /// Finds out which objects of two equal trees belong together, and remembers their IDs.
    fn pair_up(&mut self, theirs: &Value, ours: &Value) {
        match (theirs, ours) {
            (Value::Object(theirs), Value::Object(ours)) => {
                if let (Some(their_id), Some(our_id)) = (theirs.get("id"), ours.get("id")) {
                    let (their_id, our_id) = (their_id.as_str().unwrap(), our_id.as_str().unwrap());
                    self.model_ids.entry(their_id.to_owned()).or_insert_with(|| our_id.to_owned());
                }
                for (key, ours) in ours {
                    self.pair_up(theirs.get(key).unwrap_or(&Value::Null), ours);
                }
            }
            (Value::Array(theirs), Value::Array(ours))
                if ours.iter().any(|row| row.get("provisioning_status").is_some()) =>
            {
                let mut left: Vec<&Value> = theirs.iter().collect();
                for ours in ours {
                    let at = left.iter().position(|row| self.is_same(row, ours));
                    if let Some(at) = at {
                        let theirs = left.remove(at);
                        self.pair_up(theirs, ours);
                    }
                }
            }
            _ => {}
        }
    }

    fn is_same(&self, theirs: &Value, ours: &Value) -> bool {
        match self.model_ids.get(theirs["id"].as_str().unwrap_or_default()) {
            Some(known) => ours["id"] == json!(known),
            None => IDENTITY.iter().all(|key| theirs[*key] == ours[*key]),
        }
    }

    /// Returns a tree with the model's IDs, in the model's order, with the keys that the model has.
    fn normal(&self, tree: &Value, shape: &Value) -> Value {
        match (tree, shape) {
            (Value::Object(tree), Value::Object(shape)) => {
                let compared = shape.iter().filter(|(key, _)| !NOT_COMPARED.contains(&key.as_str()));
                let of = |(key, shape): (&String, &Value)| {
                    (key.clone(), self.normal(tree.get(key).unwrap_or(&Value::Null), shape))
                };
                Value::Object(compared.map(of).collect::<Map<_, _>>())
            }
            (Value::Array(tree), Value::Array(shape)) => {
                let row = |id: &Value| shape.iter().find(|row| row["id"] == *id);
                let mut rows: Vec<Value> = tree
                    .iter()
                    .map(|one| {
                        let id = json!(self.to_model(one["id"].as_str().unwrap_or_default()));
                        self.normal(one, row(&id).unwrap_or(one))
                    })
                    .collect();
                rows.sort_by_key(ToString::to_string);
                Value::Array(rows)
            }
            (Value::String(text), _) => json!(self.to_model(text)),
            (other, _) => other.clone(),
        }
    }

    fn to_model(&self, text: &str) -> String {
        self.model_ids.iter().fold(text.to_owned(), |text, (real, model)| text.replace(real, model))
    }

    /// Returns a text with the real IDs in the place of the model's.
    pub fn to_real(&self, text: &str) -> String {
        self.model_ids.iter().fold(text.to_owned(), |text, (real, model)| text.replace(model, real))
    }
}

pub fn without(tree: Value, key: &str) -> Value {
    match tree {
        Value::Object(tree) => {
            tree.into_iter().filter(|(one, _)| one != key).map(|(name, value)| (name, without(value, key))).collect()
        }
        Value::Array(all) => all.into_iter().map(|one| without(one, key)).collect(),
        other => other,
    }
}

/// Fails with the first place where two trees differ.
fn assert_same(theirs: &Value, ours: &Value, at: &str) {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            for (key, ours) in ours {
                assert_same(theirs.get(key).unwrap_or(&Value::Null), ours, &format!("{at} / {key}"));
            }
        }
        (Value::Array(theirs), Value::Array(ours)) if theirs.len() == ours.len() => {
            for (nth, (theirs, ours)) in theirs.iter().zip(ours).enumerate() {
                assert_same(theirs, ours, &format!("{at} / {nth}"));
            }
        }
        _ => assert_eq!(theirs, ours, "{at}: Octavia's (left) and the model's"),
    }
}
