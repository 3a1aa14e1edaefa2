//! L7 policies: their order, what they lock, and who answers a request.
#![expect(clippy::unwrap_used, reason = "helpers of a test panic as a test does")]

use std::time::Duration;

use gimbal_octavia_sim::{Answered, CloudModel, Fate, Method, ProjectQuota, Provider, SimRequest};
use serde_json::{Value, json};

const SUBNET: &str = "50b00000-0000-4000-8000-000000000000";

/// A cloud with one load balancer: an HTTP listener, and the pools `main`, its default, and `api`.
struct World {
    cloud: CloudModel,
    balancer: String,
    listener: String,
}

impl World {
    fn new(policies: &Value) -> Self {
        let mut provider = Provider::default();
        provider.invents_vips = true;
        let mut cloud = CloudModel::with_provider(provider);
        let pool = |name: &str, port: u16| {
            let members = [json!({"address": "10.0.0.1", "protocol_port": port})];
            json!({"name": name, "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN", "members": members})
        };
        let listener = json!({
            "name": "l", "protocol": "HTTP", "protocol_port": 80, "default_pool": {"name": "main"}, "l7policies": policies,
        });
        let body = json!({"loadbalancer": {
            "project_id": "p", "vip_subnet_id": SUBNET, "listeners": [listener], "pools": [pool("main", 1), pool("api", 2)],
        }});
        let made = cloud.handle(&SimRequest::post("/v2/lbaas/loadbalancers", body));
        assert_eq!(made.status, 201, "{}", made.body);
        let balancer = made.body["loadbalancer"]["id"].as_str().unwrap().to_owned();
        let listener = made.body["loadbalancer"]["listeners"][0]["id"].as_str().unwrap().to_owned();
        cloud.advance(Duration::from_secs(60));
        Self { cloud, balancer, listener }
    }

    /// Sends a request and lets the provider finish. Returns the status, and the object.
    fn send(&mut self, method: Method, path: &str, body: Value) -> (u16, Value) {
        let answer = self.begin(method, path, body);
        self.cloud.advance(Duration::from_secs(60));
        answer
    }

    fn begin(&mut self, method: Method, path: &str, body: Value) -> (u16, Value) {
        let answer = self.cloud.handle(&SimRequest::new(method, &format!("/v2/lbaas/{path}"), body));
        let object = answer.body.as_object().and_then(|body| body.values().next().cloned()).unwrap_or_default();
        (answer.status, if answer.status < 300 { object } else { answer.body })
    }

    fn pool(&mut self, name: &str) -> String {
        let (_, pools) = self.send(Method::Get, "pools", Value::Null);
        let pool = pools.as_array().unwrap().iter().find(|pool| pool["name"] == name).unwrap();
        pool["id"].as_str().unwrap().to_owned()
    }

    fn policy(&mut self, name: &str, position: Option<u64>) -> String {
        let pool = self.pool("api");
        let mut body =
            json!({"name": name, "listener_id": self.listener, "action": "REDIRECT_TO_POOL", "redirect_pool_id": pool});
        if let Some(position) = position {
            body["position"] = json!(position);
        }
        let (status, made) = self.send(Method::Post, "l7policies", json!({"l7policy": body}));
        assert_eq!(status, 201, "{made}");
        made["id"].as_str().unwrap().to_owned()
    }

    fn rule(&mut self, policy: &str, kind: &str, compare: &str, value: &str) -> (u16, Value) {
        let rule = json!({"rule": {"type": kind, "compare_type": compare, "value": value}});
        self.send(Method::Post, &format!("l7policies/{policy}/rules"), rule)
    }

    /// Returns the names of the policies in order, and checks that they are numbered.
    fn order(&mut self) -> String {
        let (_, rows) = self.send(Method::Get, "l7policies", Value::Null);
        let mut rows = rows.as_array().unwrap().clone();
        rows.sort_by_key(|row| row["position"].as_u64());
        for (row, position) in rows.iter().zip(1..) {
            assert_eq!(row["position"], json!(position), "{rows:?}");
        }
        rows.iter().map(|row| row["name"].as_str().unwrap()).collect()
    }

    /// Returns the name of the pool that answers, or the status.
    fn ask(&self, host: &str, path: &str) -> String {
        match self.cloud.ask(&self.balancer, 80, Some(host), path).unwrap() {
            Answered::Pool { targets, .. } => {
                ["main", "api"][usize::from(targets.first().unwrap().port) - 1].to_owned()
            }
            Answered::Redirect { status, location } => format!("{status} {location}"),
            Answered::Status(status) => status.to_string(),
        }
    }
}

fn nested(action: &Value, rules: &[(&str, &str, &str)]) -> Value {
    let rule =
        |(kind, compare, value): &(&str, &str, &str)| json!({"type": kind, "compare_type": compare, "value": value});
    let mut policy = action.clone();
    policy["rules"] = rules.iter().map(rule).collect();
    policy
}

fn to_api() -> Value {
    json!({"action": "REDIRECT_TO_POOL", "redirect_pool": {"name": "api"}})
}

#[test]
fn positions_are_numbers_without_gaps() {
    let mut world = World::new(&json!([]));
    for (name, position) in [("a", None), ("b", None), ("c", Some(1)), ("d", Some(2)), ("e", Some(9))] {
        world.policy(name, position);
    }
    assert_eq!(world.order(), "cdabe");
    let (_, rows) = world.send(Method::Get, "l7policies", Value::Null);
    let id = |name: &str| {
        let row = rows.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
        format!("l7policies/{}", row["id"].as_str().unwrap())
    };
    for (name, position, order) in [("c", 3, "dacbe"), ("e", 1, "edacb"), ("e", 99, "dacbe"), ("a", 2, "dacbe")] {
        world.send(Method::Put, &id(name), json!({"l7policy": {"position": position}}));
        assert_eq!(world.order(), order, "{name} at {position}");
    }
    // The gap closes when the policy is gone, not when it begins to go.
    world.begin(Method::Delete, &id("a"), Value::Null);
    let (_, left) = world.begin(Method::Get, &id("c"), Value::Null);
    assert_eq!(left["position"], 3);
    world.cloud.advance(Duration::from_secs(60));
    assert_eq!(world.order(), "dcbe");
}

#[test]
fn a_change_locks_the_load_balancer_the_listener_and_for_rules_the_policy() {
    let mut world = World::new(&json!([nested(&to_api(), &[("PATH", "EQUAL_TO", "/a")])]));
    let [policy, rule] = {
        let (_, policies) = world.send(Method::Get, "l7policies", Value::Null);
        [policies[0]["id"].clone(), policies[0]["rules"][0]["id"].clone()].map(|id| id.as_str().unwrap().to_owned())
    };
    let paths = [
        format!("loadbalancers/{}", world.balancer),
        format!("listeners/{}", world.listener),
        format!("l7policies/{policy}"),
        format!("l7policies/{policy}/rules/{rule}"),
        format!("pools/{}", world.pool("api")),
    ];
    let rule_path = &paths[3].clone();
    let member = json!({"member": {"address": "10.0.0.9", "protocol_port": 2}});
    for (method, path, body, pending) in [
        (Method::Put, &paths[2], json!({"l7policy": {"name": "n"}}), "lbn listener policy"),
        (Method::Put, rule_path, json!({"rule": {"value": "/b"}}), "lbn listener policy rule"),
        // A listener uses the pools that its policies lead to.
        (Method::Post, &format!("{}/members", paths[4]), member, "lbn listener pool"),
        (Method::Delete, rule_path, Value::Null, "lbn listener policy rule"),
    ] {
        let (status, _) = world.begin(method, path, body);
        assert!(status < 300, "{path}: {status}");
        let names = ["lbn", "listener", "policy", "rule", "pool"];
        let is_pending = |path: &String| {
            let (_, row) = world.begin(Method::Get, path, Value::Null);
            row["provisioning_status"].as_str().unwrap().starts_with("PENDING_")
        };
        let are: Vec<bool> = paths.iter().map(is_pending).collect();
        let found: Vec<&str> = names.iter().zip(&are).filter(|(_, is)| **is).map(|(name, _)| *name).collect();
        assert_eq!(found.join(" "), pending, "{method:?} {path}");
        let (status, _) = world.begin(Method::Put, &paths[2], json!({"l7policy": {"name": "n"}}));
        assert_eq!(status, 409);
        world.cloud.advance(Duration::from_secs(60));
    }
    // Without a rule the policy does not count.
    let (_, pool) = world.send(Method::Get, &paths[4], Value::Null);
    assert_eq!(pool["listeners"], json!([]));
    assert_eq!(world.begin(Method::Delete, &paths[4], Value::Null).0, 409);
    world.cloud.expect(Fate::Fails);
    world.send(Method::Delete, &paths[2], Value::Null);
    assert_eq!(world.send(Method::Get, &paths[2], Value::Null).1["provisioning_status"], "ERROR");
    assert_eq!(world.send(Method::Delete, &paths[2], Value::Null).0, 204);
    assert_eq!(world.send(Method::Delete, &paths[4], Value::Null).0, 204);
}

#[test]
fn what_is_refused() {
    let mut world = World::new(&json!([]));
    let policy = world.policy("a", None);
    for (kind, compare, value, status) in [
        ("PATH", "REGEX", "x".repeat(255), 201),
        ("PATH", "REGEX", "x".repeat(256), 400),
        ("PATH", "REGEX", "(".to_owned(), 400),
        ("PATH", "EQUAL_TO", "/a b".to_owned(), 400),
        ("PATH", "EQUAL_TO", "/ä".to_owned(), 400),
        ("PATH", "REGEX", "a\nb".to_owned(), 400),
        ("PATH", "EQUAL_TO", String::new(), 400),
        ("HEADER", "EQUAL_TO", "x".to_owned(), 400),
        ("FILE_TYPE", "STARTS_WITH", "x".to_owned(), 400),
        ("QUERY", "EQUAL_TO", "x".to_owned(), 400),
    ] {
        assert_eq!(world.rule(&policy, kind, compare, &value).0, status, "{kind} {compare} {value:?}");
    }
    for n in 1..50 {
        assert_eq!(world.rule(&policy, "PATH", "EQUAL_TO", &format!("/{n}")).0, 201);
    }
    assert_eq!(world.rule(&policy, "PATH", "EQUAL_TO", "/50").0, 409);
    let listener = world.listener.clone();
    let url = "https://a.example";
    for (body, status) in [
        (json!({"action": "REDIRECT_TO_POOL"}), 400),
        (json!({"action": "REDIRECT_TO_POOL", "redirect_pool_id": SUBNET}), 404),
        (json!({"action": "REDIRECT_PREFIX"}), 400),
        (json!({"action": "REDIRECT_PREFIX", "redirect_prefix": "a.example"}), 400),
        (json!({"action": "REDIRECT_PREFIX", "redirect_prefix": url, "redirect_http_code": 300}), 400),
        (json!({"action": "REDIRECT_PREFIX", "redirect_prefix": url}), 201),
        (json!({"action": "REJECT", "position": 0}), 400),
        (json!({"action": "REJECT"}), 201),
        (json!({"listener_id": SUBNET, "action": "REJECT"}), 404),
    ] {
        let mut all = json!({"listener_id": listener});
        all.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        let (found, answer) = world.send(Method::Post, "l7policies", json!({"l7policy": all}));
        assert_eq!(found, status, "{body}: {answer}");
    }
    world.cloud.set_quota("p", ProjectQuota { policies: Some(3), rules: Some(50), ..ProjectQuota::default() });
    let body = json!({"l7policy": {"listener_id": listener, "action": "REJECT"}});
    let (status, answer) = world.send(Method::Post, "l7policies", body.clone());
    assert_eq!((status, &answer["faultstring"]), (403, &json!("Quota has been met for resources: L7 Policy")));
    world.cloud.set_quota("p", ProjectQuota::default());
    world.cloud.provider_mut().l7 = false;
    assert_eq!(world.send(Method::Post, "l7policies", body).0, 501);
    assert_eq!(
        world.send(Method::Get, &format!("listeners/{listener}"), Value::Null).1["provisioning_status"],
        "ACTIVE"
    );
}

#[test]
fn who_answers() {
    let world = World::new(&json!([
        nested(
            &to_api(),
            &[("HOST_NAME", "REGEX", r"^www\.example\.com(:[0-9]+)?$"), ("PATH", "REGEX", "^(/a|/b)(/|$)")]
        ),
        nested(&to_api(), &[("HOST_NAME", "REGEX", r"^[^.]+\.wild\.example(:[0-9]+)?$")]),
        nested(
            &json!({"action": "REDIRECT_PREFIX", "redirect_prefix": "https://o.example"}),
            &[("PATH", "STARTS_WITH", "/a/old")]
        ),
        nested(&json!({"action": "REJECT"}), &[("PATH", "STARTS_WITH", "/a/old/no")]),
        to_api(),
    ]));
    for (host, path, expected) in [
        ("www.example.com", "/a", "api"),
        ("WWW.example.com:8080", "/b/c?d", "api"),
        ("www.example.com", "/ab", "main"),
        ("www.example.com", "/A", "main"),
        ("www.example.com", "/%61", "main"),
        ("other.example", "/a", "main"),
        ("x.wild.example", "/", "api"),
        ("x.y.wild.example", "/", "main"),
        ("wild.example", "/", "main"),
        // A redirect comes before a pool, and a rejection before a redirect, whatever their positions are.
        ("www.example.com", "/a/old?x", "302 https://o.example/a/old?x"),
        ("www.example.com", "/a/old/no", "403"),
    ] {
        assert_eq!(world.ask(host, path), expected, "{host}{path}");
    }
    assert_eq!(world.cloud.ask(&world.balancer, 81, None, "/"), None);
}

#[test]
fn a_redirect_whose_address_is_cut_takes_every_request() {
    for (address, expected) in [("https://o.example/a", "main"), ("https://o.example/a#b", "302 https://o.example/a/x")]
    {
        let redirect = json!({"action": "REDIRECT_PREFIX", "redirect_prefix": address});
        let world = World::new(&json!([nested(&redirect, &[("PATH", "EQUAL_TO", "/r")])]));
        assert_eq!(world.ask("h", "/x"), expected, "{address}");
    }
}

#[test]
fn what_reaches_haproxy_is_not_what_a_rule_says() {
    for (value, path, expected) in [
        ("^/it's$", "/it's", Some("main")),
        (r"^/it\x27s$", "/it's", Some("api")),
        // What follows `#`, and that is in `&#39;`, is a comment.
        ("^/a#b$", "/axyz", Some("api")),
        ("^/it's$", "/it&amp", Some("api")),
        ("^(/it's|/b)$", "/b", None),
    ] {
        let mut world = World::new(&json!([]));
        let policy = world.policy("a", None);
        world.rule(&policy, "PATH", "REGEX", value);
        let path_of = format!("loadbalancers/{}", world.balancer);
        let (_, balancer) = world.send(Method::Get, &path_of, Value::Null);
        let status = if expected.is_some() { "ACTIVE" } else { "ERROR" };
        assert_eq!(balancer["provisioning_status"], status, "{value}");
        assert_eq!(world.ask("h", path), expected.unwrap_or("main"), "{value} {path}");
    }
}
