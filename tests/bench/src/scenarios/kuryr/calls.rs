//! What the writer's calls are for.

use std::collections::BTreeMap;
use std::time::Duration;

use gimbal_testkit::openstack::Call;
use gimbal_tests::WayBack;

/// Calls by what they are for.
#[derive(Debug, Default)]
pub struct Calls {
    /// Changes.
    pub changes: Vec<String>,
    /// Reads because of a load balancer that changes or is new.
    pub reads: Vec<String>,
    /// Lists of everything that the cluster has.
    pub polls: Vec<String>,
    /// Their second pages and the later ones.
    pub pages: Vec<String>,
    /// Subnets, quotas, roles: what the cloud is like.
    pub cloud: Vec<String>,
}

impl Calls {
    /// Returns the calls since these marks.
    pub fn since(stage: &WayBack, marks: [usize; 2]) -> anyhow::Result<Self> {
        let mut calls = Self::default();
        for call in stage.calls_since(marks)? {
            let kind = calls.kind(&call);
            kind.push(short(&call));
        }
        Ok(calls)
    }

    /// The calls for load balancers.
    pub fn counted(&self) -> usize {
        self.changes.len() + self.reads.len()
    }

    /// `2 GET loadbalancers/ID, POST loadbalancers`.
    pub fn sequence(&self) -> String {
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for call in self.changes.iter().chain(&self.reads) {
            *kinds.entry(call).or_default() += 1;
        }
        let counted = |(call, count): (&str, usize)| match count {
            1 => call.to_owned(),
            more => format!("{more} {call}"),
        };
        kinds.into_iter().map(counted).collect::<Vec<_>>().join(", ")
    }

    fn kind(&mut self, call: &Call) -> &mut Vec<String> {
        let (_, last) = call.path.rsplit_once('/').unwrap_or(("", &call.path));
        let asks = |key: &str| call.query.contains(key);
        if call.method != "GET" {
            return &mut self.changes;
        }
        match last {
            "loadbalancers" | "listeners" | "pools" | "l7policies"
                if !asks("k8s-svc-uid") && !asks("provisioning_status") && !asks("loadbalancer_id=") =>
            {
                self.polled(call)
            }
            "floatingips" if !asks("description=") && !asks("port_id=") && !asks("address=") => self.polled(call),
            "ports" if asks("device_id=") => self.polled(call),
            _ if ["subnets", "networks", "quotas", "roles"].iter().any(|kind| call.path.contains(kind)) => {
                &mut self.cloud
            }
            "" | "v2" => &mut self.cloud,
            _ => &mut self.reads,
        }
    }

    fn polled(&mut self, call: &Call) -> &mut Vec<String> {
        if call.query.contains("marker=") { &mut self.pages } else { &mut self.polls }
    }
}

/// Waits until the writer has made no call for load balancers for a while, nor read a list, and returns the calls since the marks.
pub async fn at_rest(stage: &WayBack, marks: [usize; 2], rest: Duration) -> anyhow::Result<Calls> {
    // Of many load balancers a list has pages, and takes longer than the rest.
    let all = |calls: &Calls| calls.counted() + calls.polls.len() + calls.pages.len();
    loop {
        let before = all(&Calls::since(stage, marks)?);
        tokio::time::sleep(rest).await;
        let calls = Calls::since(stage, marks)?;
        if all(&calls) == before {
            return Ok(calls);
        }
    }
}

/// `GET pools/ID/members`, with the keys of a query.
fn short(call: &Call) -> String {
    let path = call.path.trim_start_matches("/v2/lbaas/").trim_start_matches("/v2.0/");
    let is_id = |part: &str| part.len() == 36 && part.bytes().filter(|byte| *byte == b'-').count() == 4;
    let parts: Vec<&str> = path.split('/').map(|part| if is_id(part) { "ID" } else { part }).collect();
    let keys: Vec<&str> = call.query.split('&').filter_map(|pair| pair.split_once('=')).map(|(key, _)| key).collect();
    let keys = if keys.is_empty() { String::new() } else { format!("?{}", keys.join("&")) };
    format!("{} {}{keys}", call.method, parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &str, path: &str, query: &str) -> Call {
        let text = |text: &str| text.to_owned();
        Call {
            method: text(method),
            path: text(path),
            query: text(query),
            status: 200,
            user_agent: text("gimbal"),
            came: 0.0,
        }
    }

    #[test]
    fn lists_of_everything_are_not_for_one_load_balancer() {
        let kind = |method: &str, path: &str, query: &str| {
            let mut calls = Calls::default();
            calls.kind(&call(method, path, query)).push(String::new());
            [calls.changes.len(), calls.reads.len(), calls.polls.len(), calls.cloud.len()]
        };
        assert_eq!(kind("GET", "/v2/lbaas/pools", "tags=k8s-cluster%3A1&project_id=2&marker=3"), [0, 0, 0, 0]);
        assert_eq!(kind("GET", "/v2/lbaas/loadbalancers", "tags=k8s-cluster%3A1&project_id=2"), [0, 0, 1, 0]);
        assert_eq!(kind("GET", "/v2/lbaas/loadbalancers", "tags=k8s-cluster%3A1%2Ck8s-svc-uid%3A3"), [0, 1, 0, 0]);
        assert_eq!(kind("GET", "/v2/lbaas/loadbalancers", "tags=k&provisioning_status=PENDING_CREATE"), [0, 1, 0, 0]);
        assert_eq!(kind("GET", "/v2.0/floatingips", "project_id=2"), [0, 0, 1, 0]);
        assert_eq!(kind("GET", "/v2.0/floatingips", "port_id=2"), [0, 1, 0, 0]);
        assert_eq!(kind("GET", "/v2.0/ports", "project_id=2&device_id="), [0, 0, 1, 0]);
        assert_eq!(kind("GET", "/v2.0/subnets/1", ""), [0, 0, 0, 1]);
        assert_eq!(kind("POST", "/v2/lbaas/loadbalancers", ""), [1, 0, 0, 0]);
    }

    #[test]
    fn calls_are_shown_without_ids() {
        let members = call("GET", "/v2/lbaas/pools/5a49c3c1-2f58-4c4c-8d0e-6a1d6a3c0b11/members", "limit=9");
        assert_eq!(short(&members), "GET pools/ID/members?limit");
        let calls = Calls { reads: vec![short(&members), short(&members)], ..Calls::default() };
        assert_eq!(calls.sequence(), "2 GET pools/ID/members?limit");
    }
}
