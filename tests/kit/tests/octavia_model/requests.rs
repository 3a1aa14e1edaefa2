//! What clients get from a listener with L7 policies: the real Octavia and a real haproxy, and beside them the model, which
//! answers alike (docs/decisions/022-l7-as-haproxy-has-it.md).

use std::time::Duration;

use gimbal_octavia_sim::{Answered, CloudModel, Method, Provider, SimRequest};
use gimbal_testkit::openstack::{OpenStack, Options};
use serde_json::{Value, json};

use crate::pair::SUBNET;

const VIP: &str = "10.20.0.7";
/// Pools, each with one member of its name.
const POOLS: [&str; 4] = ["main", "shop", "wild", "tool"];
const PORT: u16 = 8080;
/// A host that no policy is about.
const HOST: &str = "other.example";

/// The same load balancer twice: in Octavia, and in the model.
struct Both {
    cloud: OpenStack,
    model: CloudModel,
    balancer: String,
}

#[tokio::test]
async fn requests_go_where_policies_lead_them() {
    let mut both = Both::start().await;
    hosts_and_paths(&both).await;
    actions_come_before_positions(&mut both).await;
    what_is_down_is_left_out(&mut both).await;
    characters_of_values(&mut both).await;
    an_expression_that_is_cut_breaks_the_load_balancer(&mut both).await;
}

async fn hosts_and_paths(both: &Both) {
    let shop = "www.shop.example";
    for (host, path, expected) in [
        (Some(shop), "/cart", "shop/cart"),
        (Some(shop), "/cart/", "shop/cart/"),
        (Some(shop), "/cart/7?a=/x", "shop/cart/7?a=/x"),
        (Some(shop), "/cart?a", "shop/cart?a"),
        (Some(shop), "/deep/path", "shop/deep/path"),
        // Segments, and not texts; in their own case, as they were written.
        (Some(shop), "/carts", "main/carts"),
        (Some(shop), "/Cart", "main/Cart"),
        (Some(shop), "/%63art", "main/%63art"),
        (Some(shop), "/x/../cart", "main/x/../cart"),
        (Some(shop), "//cart", "main//cart"),
        // Hosts in any case, and with a port; not with a dot at the end.
        (Some("WWW.Shop.EXAMPLE"), "/cart", "shop/cart"),
        (Some("www.shop.example:80"), "/cart", "shop/cart"),
        (Some("www.shop.example:8080"), "/cart", "shop/cart"),
        (Some("www.shop.example."), "/cart", "main/cart"),
        (Some("xwww.shop.example"), "/cart", "main/cart"),
        (None, "/cart", "main/cart"),
        // haproxy takes a header apart at its commas.
        (Some("a, www.shop.example"), "/cart", "shop/cart"),
        // One label, and only one.
        (Some("a.wild.example"), "/", "wild"),
        (Some("A.wild.example:1"), "/x", "wild/x"),
        (Some("a.b.wild.example"), "/", "main"),
        (Some("wild.example"), "/", "main"),
        (Some(".wild.example"), "/", "main"),
        // An exact path of any host.
        (Some(HOST), "/exact", "tool/exact"),
        (Some(HOST), "/exact?q", "tool/exact?q"),
        (Some(HOST), "/exact/", "main/exact/"),
    ] {
        both.expect(host, path, expected).await;
    }
    for path in ["/\u{e9}", "/cart#a", "/cart a"] {
        let reply = both.cloud.data_plane().unwrap().request(VIP, 80, Some(shop), path).await.unwrap();
        assert_eq!(reply.status, 400, "{path}");
    }
}

async fn actions_come_before_positions(both: &mut Both) {
    let prefix = json!({"name": "moved", "action": "REDIRECT_PREFIX", "redirect_prefix": "https://new.example"});
    both.add(prefix, &[("PATH", "STARTS_WITH", "/exact/old")]).await;
    let url = json!({
        "name": "away", "action": "REDIRECT_TO_URL", "redirect_url": "https://away.example/x?y=1", "redirect_http_code": 301,
    });
    both.add(url, &[("PATH", "STARTS_WITH", "/exact/old/away")]).await;
    both.add(json!({"name": "no", "action": "REJECT"}), &[("PATH", "STARTS_WITH", "/exact/old/away/no")]).await;
    let all = json!({"name": "first", "action": "REDIRECT_TO_POOL", "pool": "tool", "position": 1});
    both.add(all, &[("PATH", "STARTS_WITH", "/exact")]).await;
    for (path, expected) in [
        ("/exact/", "tool/exact/"),
        // The first policy leads to a pool, and takes none of what a later one redirects.
        ("/exact/old/1?a=b&c", "302 https://new.example/exact/old/1?a=b&c"),
        ("/exact/old/away", "302 https://new.example/exact/old/away"),
        ("/exact/old/away/no", "403"),
    ] {
        both.expect(Some(HOST), path, expected).await;
    }
    both.change("away", json!({"position": 1})).await;
    both.expect(Some(HOST), "/exact/old/away", "301 https://away.example/x?y=1").await;
    both.expect(Some(HOST), "/exact/old/away/no", "403").await;
    // `#` starts a comment, and the condition is in it.
    both.change("moved", json!({"redirect_prefix": "https://new.example/a#b"})).await;
    both.expect(Some(HOST), "/", "302 https://new.example/a/").await;
    for name in ["moved", "away", "no"] {
        both.remove(name).await;
    }
    both.expect(Some(HOST), "/exact/old/away", "tool/exact/old/away").await;
    // Between pools the position decides.
    let other = json!({"name": "second", "action": "REDIRECT_TO_POOL", "pool": "wild"});
    both.add(other, &[("PATH", "STARTS_WITH", "/exact/old")]).await;
    both.expect(Some(HOST), "/exact/old", "tool/exact/old").await;
    both.change("second", json!({"position": 1})).await;
    both.expect(Some(HOST), "/exact/old", "wild/exact/old").await;
    both.remove("first").await;
    both.remove("second").await;
}

async fn what_is_down_is_left_out(both: &mut Both) {
    // Made as a router makes it: down and without a rule; then up.
    both.add(json!({"name": "new", "action": "REDIRECT_TO_POOL", "pool": "tool", "admin_state_up": false}), &[]).await;
    both.expect(Some(HOST), "/n", "main/n").await;
    both.change("new", json!({"admin_state_up": true})).await;
    // Up, and without a rule: it takes nothing.
    both.expect(Some(HOST), "/n", "main/n").await;
    both.add_rule("new", "PATH", "EQUAL_TO", "/n").await;
    both.expect(Some(HOST), "/n", "tool/n").await;
    // With both of its rules it takes less.
    both.add_rule("new", "HOST_NAME", "EQUAL_TO", "n.example").await;
    both.expect(Some(HOST), "/n", "main/n").await;
    both.expect(Some("n.example"), "/n", "tool/n").await;
    both.change("new", json!({"admin_state_up": false})).await;
    both.expect(Some("n.example"), "/n", "main/n").await;
    both.change("new", json!({"admin_state_up": true})).await;
    both.send(Method::Put, "pools", "tool", json!({"pool": {"admin_state_up": false}})).await;
    both.expect(Some("n.example"), "/n", "main/n").await;
    both.send(Method::Put, "pools", "main", json!({"pool": {"admin_state_up": false}})).await;
    both.expect(Some("n.example"), "/n", "503").await;
    for pool in ["tool", "main"] {
        both.send(Method::Put, "pools", pool, json!({"pool": {"admin_state_up": true}})).await;
    }
    both.remove("new").await;
}

/// Octavia writes a value into haproxy's configuration as if that were HTML: see docs/decisions/022-l7-as-haproxy-has-it.md.
async fn characters_of_values(both: &mut Both) {
    both.add(json!({"name": "odd", "action": "REDIRECT_TO_POOL", "pool": "tool"}), &[("PATH", "REGEX", "^/$")]).await;
    for (value, path, is_taken) in [
        (r"^/a'b$", "/a'b", false),
        (r"^/a&b$", "/a&b", false),
        (r"^/a<b>$", "/a<b>", false),
        (r#"^/a"b$"#, r#"/a"b"#, false),
        // `#` starts a comment, and there is one in `&#39;`: too much is taken.
        (r"^/a#b$", "/axyz", true),
        (r"^/a'b$", "/a&xyz", true),
        // Written by their numbers they are themselves.
        (r"^/a\x27b$", "/a'b", true),
        (r"^/a\x26b$", "/a&b", true),
        (r"^/a\x3cb\x3e$", "/a<b>", true),
        (r"^/a\x22b$", r#"/a"b"#, true),
        (r"^/a\x26b$", "/a&", false),
        // The others are as they are, what an expression gives a meaning with a backslash.
        (r"^/a%20b$", "/a%20b", true),
        (r"^/a;b,c:d@e!f=g~h_i-j$", "/a;b,c:d@e!f=g~h_i-j", true),
        (r"^/\$\{HOME\}\(\)\[\]\*\+\|\^\.$", "/${HOME}()[]*+|^.", true),
        (r"^/a\\b$", r"/a\b", true),
        (r"^/a`b$", "/a`b", true),
        (r"^/%C3%A9$", "/%C3%A9", true),
        (r"^/%C3%A9$", "/%c3%a9", false),
        // A tab is between two values.
        ("^/x$\t^/y$", "/y", true),
    ] {
        both.set_rule("odd", value).await;
        both.expect(Some(HOST), path, &format!("{}{path}", if is_taken { "tool" } else { "main" })).await;
    }
    both.remove("odd").await;
}

async fn an_expression_that_is_cut_breaks_the_load_balancer(both: &mut Both) {
    both.add(json!({"name": "cut", "action": "REDIRECT_TO_POOL", "pool": "tool"}), &[("PATH", "REGEX", "^/$")]).await;
    both.set_rule("cut", "^(/a'b|/c)$").await;
    let real = both.cloud.octavia().get("/loadbalancers").await.unwrap();
    let path = format!("/v2/lbaas/loadbalancers/{}", both.balancer);
    let model = both.model.handle(&SimRequest::get(&path)).body;
    let status = |row: &Value| row["provisioning_status"].as_str().unwrap().to_owned();
    assert_eq!([status(&real["loadbalancers"][0]), status(&model["loadbalancer"])], ["ERROR", "ERROR"]);
    // What was served before is served on.
    both.expect(Some("www.shop.example"), "/cart", "shop/cart").await;
}

impl Both {
    async fn start() -> Self {
        let cloud =
            OpenStack::start_with(Options { data_plane: true, ..Options::with_checked_tokens() }).await.unwrap();
        let mut provider = Provider::default();
        provider.invents_vips = true;
        let mut model = CloudModel::with_provider(provider);
        for (name, last) in POOLS.iter().zip(1..) {
            cloud.data_plane().unwrap().member(&format!("10.1.0.{last}"), PORT, name).await.unwrap();
        }
        let pool = |(name, last): (&&str, i32)| {
            let member = json!({"address": format!("10.1.0.{last}"), "protocol_port": PORT});
            json!({"name": name, "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN", "members": [member]})
        };
        let pools: Vec<Value> = POOLS.iter().zip(1..).map(pool).collect();
        let policy = |pool: &str, rules: &[(&str, &str, &str)]| {
            let rules: Vec<Value> = rules.iter().copied().map(rule).collect();
            json!({"name": pool, "action": "REDIRECT_TO_POOL", "redirect_pool": {"name": pool}, "rules": rules})
        };
        let host = r"^www\.shop\.example(:[0-9]+)?$";
        let policies = [
            policy("shop", &[("HOST_NAME", "REGEX", host), ("PATH", "REGEX", "^(/cart|/deep/path)(/|$)")]),
            policy("wild", &[("HOST_NAME", "REGEX", r"^[^.]+\.wild\.example(:[0-9]+)?$")]),
            policy("tool", &[("PATH", "EQUAL_TO", "/exact")]),
        ];
        let listener = json!({
            "name": "http", "protocol": "HTTP", "protocol_port": 80, "default_pool": {"name": "main"}, "l7policies": policies,
        });
        let body = json!({"name": "router", "vip_address": VIP, "vip_subnet_id": SUBNET, "listeners": [listener], "pools": pools});
        cloud.create_load_balancer("alpha", &body).await.unwrap();
        let mut of_model = body;
        of_model["project_id"] = json!("alpha");
        let made = model.handle(&SimRequest::post("/v2/lbaas/loadbalancers", json!({"loadbalancer": of_model})));
        assert_eq!(made.status, 201, "{}", made.body);
        model.advance(Duration::from_secs(60));
        let balancer = made.body["loadbalancer"]["id"].as_str().unwrap().to_owned();
        Self { cloud, model, balancer }
    }

    /// Checks who answers: a pool, with the path as it arrived there unless that is `/`, or the load balancer.
    async fn expect(&self, host: Option<&str>, path: &str, expected: &str) {
        let what = format!("{host:?} {path}");
        let model = match self.model.ask(&self.balancer, 80, host, path).unwrap() {
            Answered::Pool { targets, .. } => {
                let last = targets[0].address.rsplit('.').next().unwrap().parse::<usize>().unwrap();
                format!("{}{}", POOLS[last - 1], if path == "/" { "" } else { path })
            }
            Answered::Redirect { status, location } => format!("{status} {location}"),
            Answered::Status(status) => status.to_string(),
        };
        let reply = self.cloud.data_plane().unwrap().request(VIP, 80, host, path).await.unwrap();
        let real = match (reply.status, reply.location) {
            (200, _) => reply.body,
            (status, Some(location)) => format!("{status} {location}"),
            (status, None) => status.to_string(),
        };
        assert_eq!([real.as_str(), model.as_str()], [expected; 2], "{what}: haproxy, and the model");
    }

    async fn add(&mut self, mut policy: Value, rules: &[(&str, &str, &str)]) {
        let name = policy["name"].as_str().unwrap().to_owned();
        let pool = policy.as_object_mut().unwrap().remove("pool");
        let bodies = [true, false].map(|real| (real, policy.clone()));
        let mut sent = Vec::new();
        for (real, mut body) in bodies {
            body["listener_id"] = json!(self.id(real, "listeners", "http").await);
            if let Some(pool) = pool.as_ref().and_then(Value::as_str) {
                body["redirect_pool_id"] = json!(self.id(real, "pools", pool).await);
            }
            sent.push(json!({"l7policy": body}));
        }
        let [real, model] = [sent[0].clone(), sent[1].clone()];
        self.both(Method::Post, ["/l7policies".into(), "/l7policies".into()], [real, model]).await;
        for (kind, compare, value) in rules {
            self.add_rule(&name, kind, compare, value).await;
        }
    }

    async fn add_rule(&mut self, policy: &str, kind: &str, compare: &str, value: &str) {
        let paths = self.paths("l7policies", policy).await.map(|path| format!("{path}/rules"));
        let body = json!({"rule": rule((kind, compare, value))});
        self.both(Method::Post, paths, [body.clone(), body]).await;
    }

    /// Gives the only rule of a policy another value.
    async fn set_rule(&mut self, policy: &str, value: &str) {
        let [real, model] = self.paths("l7policies", policy).await.map(|path| format!("{path}/rules"));
        let listed = self.cloud.octavia().get(&real).await.unwrap();
        let of_model = self.model.handle(&SimRequest::get(&format!("/v2/lbaas{model}"))).body;
        let path = |base: &str, rows: &Value| format!("{base}/{}", rows["rules"][0]["id"].as_str().unwrap());
        let body = json!({"rule": {"value": value}});
        self.both(Method::Put, [path(&real, &listed), path(&model, &of_model)], [body.clone(), body]).await;
    }

    async fn change(&mut self, policy: &str, fields: Value) {
        self.send(Method::Put, "l7policies", policy, json!({"l7policy": fields})).await;
    }

    async fn remove(&mut self, policy: &str) {
        self.send(Method::Delete, "l7policies", policy, Value::Null).await;
    }

    /// Sends a request about the object of this name to both.
    async fn send(&mut self, method: Method, kind: &str, name: &str, body: Value) {
        let paths = self.paths(kind, name).await;
        self.both(method, paths, [body.clone(), body]).await;
    }

    /// Sends a request to both, and waits until it has settled.
    async fn both(&mut self, method: Method, [real, model]: [String; 2], [body, of_model]: [Value; 2]) {
        let octavia = self.cloud.octavia();
        let sent = match method {
            Method::Post => octavia.post(&real, &body).await.map(drop),
            Method::Put => octavia.put(&real, &body).await.map(drop),
            _ => octavia.delete(&real).await.map(drop),
        };
        sent.unwrap_or_else(|refused| panic!("{method:?} {real} {body}: {refused}"));
        let listed = octavia.get("/loadbalancers").await.unwrap();
        let balancer = listed["loadbalancers"][0]["id"].as_str().unwrap();
        self.cloud.settled(&format!("/loadbalancers/{balancer}")).await.unwrap();
        let answer = self.model.handle(&SimRequest::new(method, &format!("/v2/lbaas{model}"), of_model));
        assert!(answer.status < 300, "{method:?} {model}: {}", answer.body);
        self.model.advance(Duration::from_secs(60));
    }

    async fn paths(&mut self, kind: &str, name: &str) -> [String; 2] {
        [self.id(true, kind, name).await, self.id(false, kind, name).await].map(|id| format!("/{kind}/{id}"))
    }

    async fn id(&mut self, real: bool, kind: &str, name: &str) -> String {
        let rows = match real {
            true => self.cloud.octavia().get(&format!("/{kind}")).await.unwrap(),
            false => self.model.handle(&SimRequest::get(&format!("/v2/lbaas/{kind}"))).body,
        };
        let row = rows[kind].as_array().unwrap().iter().find(|row| row["name"] == name);
        row.unwrap_or_else(|| panic!("no {name} in {rows}"))["id"].as_str().unwrap().to_owned()
    }
}

fn rule((kind, compare, value): (&str, &str, &str)) -> Value {
    json!({"type": kind, "compare_type": compare, "value": value})
}
