//! Random requests: most are valid, and many are not.

use gimbal_octavia_sim::{Dice, Method};
use serde_json::{Value, json};

use crate::pair::{Pair, SUBNET};

pub struct Random(pub Dice);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(Dice::new(seed))
    }

    /// Returns a request for what is there now, with the model's IDs.
    pub fn request(&mut self, pair: &Pair<'_>) -> (Method, String, Value) {
        let ids = |kind: &str| -> Vec<String> {
            pair.rows(kind).iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
        };
        let balancers = ids("loadbalancers");
        if balancers.is_empty() || (balancers.len() < 4 && self.0.one_in(8)) {
            return (Method::Post, "/loadbalancers".into(), self.balancer(&pair.project));
        }
        let balancer = self.0.pick(&balancers);
        let (listeners, pools, monitors) = (ids("listeners"), ids("pools"), ids("healthmonitors"));
        let policies = ids("l7policies");
        match self.0.below(31) {
            21..=30 if !listeners.is_empty() => self.routing(pair, &listeners, &pools, &policies),
            0 => (Method::Put, format!("/loadbalancers/{balancer}"), json!({"loadbalancer": self.common()})),
            1 if self.0.one_in(3) => {
                let cascade = self.0.pick(&["", "?cascade=true", "?cascade=false"]);
                (Method::Delete, format!("/loadbalancers/{balancer}{cascade}"), Value::Null)
            }
            1..=3 => {
                let mut listener = self.listener();
                listener["loadbalancer_id"] = json!(balancer);
                if !pools.is_empty() && self.0.one_in(2) {
                    listener["default_pool_id"] = json!(self.0.pick(&pools));
                }
                (Method::Post, "/listeners".into(), json!({"listener": listener}))
            }
            4..=6 if !listeners.is_empty() => {
                let mut body = self.common();
                match self.0.below(5) {
                    0 => body["connection_limit"] = self.0.pick(&[json!(null), json!(-1), json!(7), json!(-2)]),
                    1 => body["timeout_client_data"] = self.0.pick(&[json!(null), json!(1_000), json!(-1)]),
                    2 => body["allowed_cidrs"] = self.cidrs(),
                    3 if !pools.is_empty() => body["default_pool_id"] = json!(self.0.pick(&pools)),
                    _ => body["default_pool_id"] = json!(null),
                }
                (Method::Put, format!("/listeners/{}", self.0.pick(&listeners)), json!({"listener": body}))
            }
            7 if !listeners.is_empty() => {
                (Method::Delete, format!("/listeners/{}", self.0.pick(&listeners)), Value::Null)
            }
            8 | 9 => {
                let mut pool = self.pool();
                if !listeners.is_empty() && self.0.one_in(2) {
                    pool["listener_id"] = json!(self.0.pick(&listeners));
                } else {
                    pool["loadbalancer_id"] = json!(balancer);
                }
                (Method::Post, "/pools".into(), json!({"pool": pool}))
            }
            10 if !pools.is_empty() => {
                let mut body = self.common();
                let algorithm = self.0.pick(&["LEAST_CONNECTIONS", "SOURCE_IP", "NONE"]);
                body["lb_algorithm"] = json!(algorithm);
                (Method::Put, format!("/pools/{}", self.0.pick(&pools)), json!({"pool": body}))
            }
            11 if !pools.is_empty() => (Method::Delete, format!("/pools/{}", self.0.pick(&pools)), Value::Null),
            12..=17 if !pools.is_empty() => self.members(pair, &pools),
            18 if !monitors.is_empty() && self.0.one_in(2) => {
                let monitor = self.0.pick(&monitors);
                if self.0.one_in(2) {
                    return (Method::Delete, format!("/healthmonitors/{monitor}"), Value::Null);
                }
                let body = self.0.pick(&[json!({"delay": 9}), json!({"url_path": "/x"}), json!({"max_retries": 11})]);
                (Method::Put, format!("/healthmonitors/{monitor}"), json!({"healthmonitor": body}))
            }
            20 => {
                let few = [json!(-1), json!(1), json!(3), json!(6), json!(10)];
                let mut quota = json!({});
                for kind in ["load_balancer", "listener", "pool", "member", "health_monitor", "l7policy", "l7rule"] {
                    if self.0.one_in(3) {
                        quota[kind] = self.0.pick(&few);
                    }
                }
                (Method::Put, format!("/quotas/{}", pair.project), json!({"quota": quota}))
            }
            18 | 19 if !pools.is_empty() => {
                let mut monitor = self.monitor();
                monitor["pool_id"] = json!(self.0.pick(&pools));
                (Method::Post, "/healthmonitors".into(), json!({"healthmonitor": monitor}))
            }
            _ => (Method::Get, format!("/loadbalancers/{balancer}"), Value::Null),
        }
    }

    fn members(&mut self, pair: &Pair<'_>, pools: &[String]) -> (Method, String, Value) {
        let pool = self.0.pick(pools);
        let path = format!("/pools/{pool}/members");
        let existing = pair.rows(path.trim_start_matches('/'));
        match self.0.below(6) {
            0 => (Method::Post, path, json!({"member": self.member()})),
            1 if !existing.is_empty() => {
                let id = self.0.pick(&existing)["id"].as_str().unwrap().to_owned();
                let mut body = self.common();
                body["weight"] = self.0.pick(&[json!(0), json!(256), json!(257), json!(null)]);
                if self.0.one_in(8) {
                    body["address"] = json!("10.9.9.9");
                }
                (Method::Put, format!("{path}/{id}"), json!({"member": body}))
            }
            2 if !existing.is_empty() => {
                let id = self.0.pick(&existing)["id"].as_str().unwrap().to_owned();
                (Method::Delete, format!("{path}/{id}"), Value::Null)
            }
            _ => {
                let members: Vec<Value> = (0..self.0.below(5)).map(|_| self.member()).collect();
                let additive = self.0.pick(&["", "?additive_only=true"]);
                (Method::Put, format!("{path}{additive}"), json!({"members": members}))
            }
        }
    }

    fn balancer(&mut self, project: &str) -> Value {
        let mut body = self.common();
        body["project_id"] = json!(project);
        body["vip_subnet_id"] = json!(SUBNET);
        let pools: Vec<Value> = (0..self.0.below(3))
            .map(|n| {
                let mut pool = self.pool();
                pool["name"] = json!(format!("p{}", if self.0.one_in(10) { 0 } else { n }));
                pool["members"] = (0..self.0.below(4)).map(|_| self.member()).collect();
                if self.0.one_in(3) {
                    pool["healthmonitor"] = self.monitor();
                }
                pool
            })
            .collect();
        body["listeners"] = (0..self.0.below(3))
            .map(|n| {
                let mut listener = self.listener();
                listener["name"] = json!(format!("l{n}"));
                if !pools.is_empty() || self.0.one_in(10) {
                    listener["default_pool"] = json!({"name": format!("p{}", self.0.below(2))});
                }
                if self.0.one_in(2) {
                    listener["l7policies"] = (0..self.0.below(3)).map(|nth| self.nested_policy(nth)).collect();
                }
                listener
            })
            .collect();
        body["pools"] = json!(pools);
        json!({"loadbalancer": body})
    }

    pub fn common(&mut self) -> Value {
        let mut body = json!({"name": format!("n{}", self.0.below(1000))});
        if self.0.one_in(4) {
            body["tags"] = self.0.pick(&[json!([]), json!(["a"]), json!(["b:c", "a"])]);
        }
        if self.0.one_in(6) {
            body["admin_state_up"] = json!(self.0.one_in(2));
        }
        body
    }

    fn listener(&mut self) -> Value {
        let mut body = self.common();
        body["protocol"] = json!(self.0.pick(&["TCP", "TCP", "HTTP", "UDP", "SCTP", "FTP"]));
        body["protocol_port"] = json!(self.0.pick(&[80, 81, 443, 0]));
        if self.0.one_in(4) {
            body["allowed_cidrs"] = self.cidrs();
        }
        body
    }

    fn cidrs(&mut self) -> Value {
        self.0.pick(&[
            json!(["10.0.0.7/8"]),
            json!([]),
            json!(null),
            json!(["10.1.0.0/16", "192.0.2.1"]),
            json!(["2001:db8::/32"]),
            json!(["ten/8"]),
        ])
    }

    fn pool(&mut self) -> Value {
        let mut body = self.common();
        body["protocol"] = json!(self.0.pick(&["TCP", "TCP", "HTTP", "UDP", "PROXY"]));
        if !self.0.one_in(12) {
            body["lb_algorithm"] = json!(self.0.pick(&["ROUND_ROBIN", "SOURCE_IP"]));
        }
        body
    }

    fn member(&mut self) -> Value {
        let mut body = json!({
            "address": self.0.pick(&["10.0.0.1", "10.0.0.2", "10.0.0.3", "2001:db8::1", "ten"]),
            "protocol_port": self.0.pick(&[80, 8080]),
        });
        if self.0.one_in(3) {
            body["weight"] = json!(self.0.below(5));
        }
        if self.0.one_in(3) {
            body["name"] = json!(format!("m{}", self.0.below(100)));
        }
        if self.0.one_in(6) {
            body["backup"] = json!(true);
        }
        body
    }

    fn monitor(&mut self) -> Value {
        let mut body = json!({"name": "m", "type": self.0.pick(&["TCP", "HTTP", "UDP-CONNECT", "PING"]), "delay": 5, "timeout": 5});
        if !self.0.one_in(8) {
            body["max_retries"] = json!(3);
        }
        if self.0.one_in(3) {
            body["url_path"] = json!("/healthz");
        }
        body
    }
}
