//! L7 policies: random requests about them, and steps in an order that random requests rarely have.

use gimbal_octavia_sim::{Method, ProjectQuota};
use gimbal_testkit::openstack::OpenStack;
use serde_json::{Value, json};

use crate::pair::{Pair, SUBNET};
use crate::random::Random;

const ACTIONS: [&str; 4] = ["REDIRECT_TO_POOL", "REDIRECT_PREFIX", "REDIRECT_TO_URL", "REJECT"];

impl Random {
    /// Returns a request about the policies and rules of these listeners.
    pub fn routing(
        &mut self,
        pair: &Pair<'_>,
        listeners: &[String],
        pools: &[String],
        policies: &[String],
    ) -> (Method, String, Value) {
        let dice = &mut self.0;
        if policies.is_empty() || dice.one_in(5) {
            let mut body = self.policy(pools);
            body["listener_id"] = json!(self.0.pick(listeners));
            if self.0.one_in(6) {
                // Octavia breaks when it is to make them.
                body["rules"] = json!([self.rule()]);
            }
            return (Method::Post, "/l7policies".into(), json!({"l7policy": body}));
        }
        let policy = dice.pick(policies);
        let path = format!("/l7policies/{policy}");
        let any_rule = |dice: &mut gimbal_octavia_sim::Dice| {
            // Whichever policy it is asked for by, a rule is found.
            let of = dice.pick(policies);
            let rules = pair.rows(&format!("l7policies/{of}/rules"));
            let of_it = pair.rows(&format!("l7policies/{policy}/rules"));
            let rules = if of_it.is_empty() || dice.one_in(8) { rules } else { of_it };
            (!rules.is_empty()).then(|| dice.pick(&rules)["id"].as_str().unwrap().to_owned())
        };
        match dice.below(10) {
            0 => (Method::Delete, path, Value::Null),
            1 => (Method::Put, path, json!({"l7policy": {"position": self.position()}})),
            2 => (Method::Put, path, json!({"l7policy": self.common()})),
            3 => {
                let mut body = self.policy(pools);
                if self.0.one_in(2) {
                    body.as_object_mut().unwrap().remove("action");
                }
                (Method::Put, path, json!({"l7policy": body}))
            }
            4 if dice.one_in(3) => {
                let bodies =
                    [json!({}), json!({"redirect_pool_id": null}), json!({"action": null}), json!({"rules": []})];
                (Method::Put, path, json!({"l7policy": dice.pick(&bodies)}))
            }
            5 => match any_rule(dice) {
                Some(rule) => (Method::Delete, format!("{path}/rules/{rule}"), Value::Null),
                None => (Method::Get, format!("{path}/rules/{SUBNET}"), Value::Null),
            },
            6 => match any_rule(dice) {
                Some(rule) => (Method::Put, format!("{path}/rules/{rule}"), json!({"rule": self.rule()})),
                None => (Method::Get, format!("/l7policies/{SUBNET}/rules"), Value::Null),
            },
            7 => match any_rule(dice) {
                Some(rule) => (Method::Get, format!("{path}/rules/{rule}"), Value::Null),
                None => (Method::Get, path, Value::Null),
            },
            _ => (Method::Post, format!("{path}/rules"), json!({"rule": self.rule()})),
        }
    }

    /// Returns a policy of a listener that is created with its load balancer.
    pub fn nested_policy(&mut self, nth: u64) -> Value {
        let mut body = self.policy(&[]);
        body["name"] = json!(format!("y{nth}"));
        if body["action"] == "REDIRECT_TO_POOL" {
            body["redirect_pool"] = json!({"name": format!("p{}", self.0.below(2))});
        }
        if self.0.one_in(30) {
            body["redirect_pool_id"] = json!(SUBNET);
        }
        body["rules"] = (0..self.0.below(3)).map(|_| self.valid_rule()).collect();
        body
    }

    fn policy(&mut self, pools: &[String]) -> Value {
        let mut body = self.common();
        let action = self.0.pick(&ACTIONS);
        body["action"] = json!(action);
        let url = "https://www.example.com/x?y=z#a";
        match action {
            "REDIRECT_TO_POOL" if !pools.is_empty() && !self.0.one_in(10) => {
                body["redirect_pool_id"] = json!(self.0.pick(pools));
            }
            "REDIRECT_TO_URL" => body["redirect_url"] = json!(self.0.pick(&[url, url, "www.example.com", "ftp://a/"])),
            "REDIRECT_PREFIX" => {
                body["redirect_prefix"] = json!(self.0.pick(&[url, url, "https://a b/", "https:///a"]))
            }
            _ => {}
        }
        if self.0.one_in(10) {
            body["redirect_prefix"] = json!("http://a.example");
        }
        if self.0.one_in(6) {
            body["redirect_http_code"] = self.0.pick(&[json!(301), json!(308), json!(300), json!(null)]);
        }
        if self.0.one_in(3) {
            body["position"] = self.position();
        }
        body
    }

    fn position(&mut self) -> Value {
        self.0.pick(&[json!(1), json!(1), json!(2), json!(3), json!(7), json!(2_147_483_647), json!(0)])
    }

    fn valid_rule(&mut self) -> Value {
        let (kind, value) =
            self.0.pick(&[("PATH", "^/a(/|$)"), ("HOST_NAME", r"^www\.example\.com(:[0-9]+)?$"), ("PATH", "/b")]);
        json!({"type": kind, "compare_type": "REGEX", "value": value})
    }

    fn rule(&mut self) -> Value {
        if self.0.one_in(3) {
            return self.valid_rule();
        }
        let mut body = json!({
            "type": self.0.pick(&["HOST_NAME", "PATH", "FILE_TYPE", "HEADER", "COOKIE", "QUERY"]),
            "compare_type": self.0.pick(&["REGEX", "STARTS_WITH", "ENDS_WITH", "CONTAINS", "EQUAL_TO"]),
            "value": self.0.pick(&["/a", "jpg", "^/(a|b)$", "(", "/a b", "/\u{e4}", "", "a;b", "\"a b\"", "a\nb"]),
        });
        if self.0.one_in(3) {
            body["key"] = json!(self.0.pick(&["X-Key", "a b", ""]));
        }
        if self.0.one_in(4) {
            body["invert"] = json!(self.0.one_in(2));
        }
        if self.0.one_in(4) {
            body["admin_state_up"] = json!(self.0.one_in(2));
        }
        if self.0.one_in(4) {
            body["tags"] = json!(["b", "a"]);
        }
        body
    }
}

/// Sends requests one after the other; all rows are equal after each.
pub async fn steps_have_the_same_rows(cloud: &OpenStack) {
    cloud.create_project("delta").await.unwrap();
    let mut pair = Pair::new(cloud, "delta").await;
    let rule = |value: &str| json!({"type": "PATH", "compare_type": "STARTS_WITH", "value": value});
    let policy = |name: &str, rules: Value| json!({"name": name, "action": "REDIRECT_TO_POOL", "redirect_pool": {"name": "api"}, "rules": rules});
    let pool = |name: &str| json!({"name": name, "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN"});
    let listener = |port: u16, policies: Value| json!({"name": port.to_string(), "protocol": "HTTP", "protocol_port": port, "l7policies": policies});
    let all =
        json!([policy("a", json!([rule("/a"), rule("/b")])), policy("b", json!([])), policy("c", json!([rule("/c")]))]);
    let tree = json!({"loadbalancer": {
        "project_id": pair.project, "vip_subnet_id": SUBNET, "name": "router", "pools": [pool("api"), pool("main")],
        "listeners": [listener(80, all.clone()), listener(81, all)],
    }});
    step(&mut pair, Method::Post, "/loadbalancers", &tree, 201).await;
    let (api, main) = (id_of(&pair, "pools", "api"), id_of(&pair, "pools", "main"));
    step(&mut pair, Method::Delete, &format!("/pools/{api}"), &Value::Null, 409).await;
    let [first, second] = ["80", "81"].map(|name| id_of(&pair, "listeners", name));
    // What was made with the load balancer was not taken from a quota, and now counts.
    let (project, quota) = (pair.project.clone(), json!({"quota": {"l7policy": 7, "l7rule": 7}}));
    step(&mut pair, Method::Put, &format!("/quotas/{project}"), &quota, 202).await;
    pair.sim.set_quota(&project, ProjectQuota { policies: Some(7), rules: Some(7), ..ProjectQuota::default() });
    let new = |listener: &str| {
        json!({"l7policy": {
            "name": "d", "listener_id": listener, "action": "REDIRECT_TO_POOL", "redirect_pool_id": main, "position": 2,
            "admin_state_up": false,
        }})
    };
    step(&mut pair, Method::Post, "/l7policies", &new(&first), 201).await;
    step(&mut pair, Method::Post, "/l7policies", &new(&first), 403).await;
    let made = id_of(&pair, "l7policies", "d");
    let (path, rules) = (format!("/l7policies/{made}"), format!("/l7policies/{made}/rules"));
    step(&mut pair, Method::Post, &rules, &json!({"rule": rule("/d")}), 201).await;
    step(&mut pair, Method::Post, &rules, &json!({"rule": rule("/e")}), 403).await;
    // A router's way: its rules first, then its place, and up.
    let up = json!({"l7policy": {"position": 1, "admin_state_up": true}});
    step(&mut pair, Method::Put, &path, &up, 200).await;
    let url = json!({"l7policy": {"action": "REDIRECT_TO_URL", "redirect_url": "https://a.example/"}});
    step(&mut pair, Method::Put, &path, &url, 200).await;
    step(&mut pair, Method::Put, &path, &json!({"l7policy": {"redirect_pool_id": main}}), 200).await;
    step(&mut pair, Method::Delete, &path, &Value::Null, 204).await;
    // What goes with its policy or listener is not given back; a rule that goes by itself is.
    step(&mut pair, Method::Delete, &format!("/listeners/{second}"), &Value::Null, 204).await;
    let rules = format!("/l7policies/{}/rules", id_of(&pair, "l7policies", "a"));
    step(&mut pair, Method::Post, &rules, &json!({"rule": rule("/f")}), 403).await;
    let gone = pair.first(rules.trim_start_matches('/'));
    step(&mut pair, Method::Delete, &format!("{rules}/{gone}"), &Value::Null, 204).await;
    step(&mut pair, Method::Post, &rules, &json!({"rule": rule("/f")}), 201).await;
    step(&mut pair, Method::Post, &rules, &json!({"rule": rule("/g")}), 403).await;
    let balancer = pair.first("loadbalancers");
    step(&mut pair, Method::Delete, &format!("/loadbalancers/{balancer}?cascade=true"), &Value::Null, 204).await;
    step(&mut pair, Method::Post, "/loadbalancers", &tree, 201).await;
    let listener = id_of(&pair, "listeners", "80");
    step(
        &mut pair,
        Method::Post,
        "/l7policies",
        &json!({"l7policy": {"listener_id": listener, "action": "REJECT"}}),
        201,
    )
    .await;
}

/// A provider as OVN's takes neither HTTP nor policies.
pub async fn a_provider_without_l7_refuses(cloud: &OpenStack) {
    cloud.create_project("epsilon").await.unwrap();
    let mut pair = Pair::new(cloud, "epsilon").await;
    let provider = pair.sim.provider_mut();
    "lab-l4".clone_into(&mut provider.name);
    provider.l7 = false;
    provider.protocols = ["TCP", "UDP", "SCTP"].map(str::to_owned).into();
    let tcp = |port: u16| json!({"name": "l", "protocol": "TCP", "protocol_port": port});
    let tree = |listener: &Value| {
        json!({"loadbalancer": {
            "project_id": pair.project, "vip_subnet_id": SUBNET, "name": "l4", "provider": "lab-l4", "listeners": [listener],
        }})
    };
    let (http, tcp_only) = (tree(&json!({"protocol": "HTTP", "protocol_port": 80})), tree(&tcp(80)));
    step(&mut pair, Method::Post, "/loadbalancers", &http, 501).await;
    step(&mut pair, Method::Post, "/loadbalancers", &tcp_only, 201).await;
    let (balancer, listener) = (pair.first("loadbalancers"), pair.first("listeners"));
    let http = json!({"loadbalancer_id": balancer, "protocol": "HTTP", "protocol_port": 81});
    step(&mut pair, Method::Post, "/listeners", &json!({"listener": http}), 501).await;
    let pool = json!({"loadbalancer_id": balancer, "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN"});
    step(&mut pair, Method::Post, "/pools", &json!({"pool": pool}), 501).await;
    let policy = json!({"listener_id": listener, "action": "REJECT"});
    step(&mut pair, Method::Post, "/l7policies", &json!({"l7policy": policy}), 501).await;
}

async fn step(pair: &mut Pair<'_>, method: Method, path: &str, body: &Value, expected: u16) {
    let what = format!("{method:?} {path} {body}");
    let status = pair.send(method, path, body, &what).await;
    assert_eq!(status, expected, "{what}");
    pair.settle().await;
    pair.compare(&what).await;
}

fn id_of(pair: &Pair<'_>, kind: &str, name: &str) -> String {
    let rows = pair.rows(kind);
    let row = rows.iter().find(|row| row["name"] == name).unwrap();
    row["id"].as_str().unwrap().to_owned()
}
