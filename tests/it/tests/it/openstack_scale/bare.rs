//! The least work that a client could do: the same pages with the same concurrency, without reading their content.

use std::collections::VecDeque;
use std::time::Instant;

use gimbal_octavia_rows as rows;
use gimbal_testkit::openstack::{OpenStack, Service, User};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const AT_A_TIME: usize = 16;
const PAGE: usize = 1000;

pub struct Bare {
    client: reqwest::Client,
    url: String,
    token: String,
}

impl Bare {
    pub async fn log_in(cloud: &OpenStack) -> Self {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let user = cloud.credentials(User::Admin);
        let domain = json!({"name": user.user_domain});
        let body = json!({"auth": {
            "identity": {"methods": ["password"], "password": {
                "user": {"name": user.username, "password": user.password, "domain": domain},
            }},
            "scope": {"project": {"name": user.project, "domain": domain}},
        }});
        let answer = client.post(format!("{}/auth/tokens", user.keystone_url)).json(&body).send().await.unwrap();
        let token = answer.headers()["x-subject-token"].to_str().unwrap().to_owned();
        let bare = Self { client, url: format!("{}/v2/lbaas", cloud.url(Service::Octavia)), token };
        // The first request pays for what Octavia reads once, and for Keystone's validation of the token.
        bare.get("loadbalancers?limit=1").send().await.unwrap();
        bare
    }

    /// Returns seconds and calls of the three lists, read concurrently.
    pub async fn idle(&self) -> (f64, usize) {
        let start = Instant::now();
        let (a, b, c) = self.lists().await;
        (start.elapsed().as_secs_f64(), a.1 + b.1 + c.1)
    }

    /// As `idle`, with the members of all pools.
    pub async fn cold(&self) -> (f64, usize) {
        let start = Instant::now();
        let (a, b, pools) = self.lists().await;
        let fields = fields(rows::Member::DISCOVERY_FIELDS);
        let mut waiting: VecDeque<String> = pools.0.into();
        let (mut running, mut calls) = (JoinSet::new(), a.1 + b.1 + pools.1);
        while !waiting.is_empty() || !running.is_empty() {
            while running.len() < AT_A_TIME
                && let Some(pool) = waiting.pop_front()
            {
                let request = self.get(&format!("pools/{pool}/members?{fields}limit={PAGE}"));
                running.spawn(async move { request.send().await.unwrap().bytes().await.unwrap() });
                calls += 1;
            }
            running.join_next().await.unwrap().unwrap();
        }
        (start.elapsed().as_secs_f64(), calls)
    }

    async fn lists(&self) -> ((Vec<String>, usize), (Vec<String>, usize), (Vec<String>, usize)) {
        tokio::join!(
            self.list("loadbalancers", rows::LoadBalancer::DISCOVERY_FIELDS),
            self.list("listeners", rows::Listener::DISCOVERY_FIELDS),
            self.list("pools", rows::Pool::DISCOVERY_FIELDS),
        )
    }

    /// Returns the IDs, and the number of calls.
    async fn list(&self, name: &str, wanted: &[&str]) -> (Vec<String>, usize) {
        let (fields, mut ids, mut calls) = (fields(wanted), Vec::new(), 0);
        loop {
            let marker = ids.last().map(|id: &String| format!("&marker={id}")).unwrap_or_default();
            let answer = self.get(&format!("{name}?{fields}limit={PAGE}{marker}")).send().await.unwrap();
            let (status, text) = (answer.status(), answer.text().await.unwrap());
            let page: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{name}: {status} {text}"));
            calls += 1;
            let rows = page[name].as_array().unwrap();
            ids.extend(rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()));
            if rows.len() < PAGE {
                return (ids, calls);
            }
        }
    }

    fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.client.get(format!("{}/{path}", self.url)).header("x-auth-token", &self.token)
    }
}

fn fields(fields: &[&str]) -> String {
    fields.iter().map(|field| format!("fields={field}&")).collect()
}
