//! Rules by which a test makes the services misbehave.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use serde_json::{Value, json};

use super::api::Api;
use super::{OpenStack, Service, USER_AGENT};

/// A rule: what it applies to, how often, and what happens then. `tests/openstack/plugins/lab_rules.py` applies it.
///
/// ```
/// # use gimbal_testkit::openstack::Steer;
/// // The first load balancer is made, and its client gets no answer.
/// let lost = Steer::calls("POST", "/loadbalancers$").once().lose_the_answer();
/// // A provider that takes load balancers one part at a time.
/// let stepwise = Steer::provider("loadbalancer_create").populated().unsupported();
/// // Every update of `web` stays PENDING until the rule is removed.
/// let stuck = Steer::settling("update").named("^web$").stall();
/// ```
#[derive(Debug, Clone, Serialize)]
pub struct Steer {
    kind: &'static str,
    #[serde(rename = "match")]
    facts: BTreeMap<&'static str, String>,
    skip: u32,
    times: Option<u32>,
    act: BTreeMap<&'static str, Value>,
}

/// A rule that is in force; see [`OpenStack::steer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steered {
    service: Service,
    id: u64,
}

impl Steer {
    fn new(kind: &'static str, facts: &[(&'static str, &str)]) -> Self {
        let facts = facts.iter().map(|(fact, pattern)| (*fact, (*pattern).to_owned())).collect();
        Self { kind, facts, skip: 0, times: None, act: BTreeMap::new() }
    }

    /// Applies to HTTP calls with these regular expressions in their method and their path. Calls of the test kit itself
    /// are left out.
    #[must_use]
    pub fn calls(method: &str, path: &str) -> Self {
        Self::new("call", &[("method", method), ("path", path), ("user_agent", &format!("^(?!{USER_AGENT})"))])
    }

    /// Applies only to calls of clients with this regular expression in their User-Agent. OpenStack's services call each other,
    /// too.
    #[must_use]
    pub fn by(self, client: &str) -> Self {
        self.only("user_agent", client)
    }

    /// Applies to calls of the provider driver, by the driver's name for what it does: `loadbalancer_create`,
    /// `member_batch_update`, `pool_delete` and so on; a regular expression. Octavia's transaction is open then.
    #[must_use]
    pub fn provider(op: &str) -> Self {
        Self::new("driver", &[("op", op)])
    }

    /// Applies to changes of whole load balancers that are PENDING, by the change: `create`, `update` or `delete`; a
    /// regular expression. Each process of Octavia counts a change that it sees, so use it with one
    /// ([`super::Options::octavia_workers`]).
    #[must_use]
    pub fn settling(op: &str) -> Self {
        Self::new("settle", &[("op", op)])
    }

    /// Applies only to calls of clients with this regular expression in their User-Agent: the services call one another, too.
    #[must_use]
    pub fn of_client(self, user_agent: &str) -> Self {
        self.only("user_agent", user_agent)
    }

    /// Applies only to a load balancer (or another object of a provider's call) with this regular expression in its name.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        self.only("name", name)
    }

    /// Applies only within a project, given by its ID.
    #[must_use]
    pub fn project(self, id: &str) -> Self {
        self.only("project", id)
    }

    /// Applies only to load balancers that are created together with listeners or pools.
    #[must_use]
    pub fn populated(self) -> Self {
        self.only("populated", "yes")
    }

    /// Applies only to objects of a protocol, for instance `UDP`.
    #[must_use]
    pub fn protocol(self, protocol: &str) -> Self {
        self.only("protocol", &format!("^{protocol}$"))
    }

    /// Applies only to listeners with source ranges.
    #[must_use]
    pub fn with_source_ranges(self) -> Self {
        self.only("allowed_cidrs", "yes")
    }

    fn only(mut self, fact: &'static str, pattern: &str) -> Self {
        self.facts.insert(fact, pattern.to_owned());
        self
    }

    /// Applies only to the first thing that it matches.
    #[must_use]
    pub fn once(self) -> Self {
        self.times(1)
    }

    /// Applies only to the first `times` things that it matches.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Lets the first `count` things pass that it matches.
    #[must_use]
    pub fn after(mut self, count: u32) -> Self {
        self.skip = count;
        self
    }

    /// Answers a call in the service's place, which never sees it. `headers` are added.
    #[must_use]
    pub fn answer(self, status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let headers: BTreeMap<&str, &str> = headers.iter().copied().collect();
        self.act("answer", json!({"status": status, "headers": headers, "body": body}))
    }

    /// Answers 429 with this Retry-After, in whole seconds.
    #[must_use]
    pub fn too_many(self, retry_after: u32) -> Self {
        self.answer(429, &[("Retry-After", &retry_after.to_string())], r#"{"faultstring": "too many requests"}"#)
    }

    /// Answers 503, as a proxy in front of the service does.
    #[must_use]
    pub fn unavailable(self) -> Self {
        self.answer(503, &[("Content-Type", "text/html")], "<html><body>503 Service Unavailable</body></html>")
    }

    /// Holds a call up before the service sees it: a client that has gone by then does not keep the change from being
    /// made.
    #[must_use]
    pub fn late(self, time: Duration) -> Self {
        self.act("before", time.as_secs_f64().into())
    }

    /// Holds the answer up after the service has committed.
    #[must_use]
    pub fn answer_late(self, time: Duration) -> Self {
        self.act("after", time.as_secs_f64().into())
    }

    /// Closes the connection when the service has committed, without an answer.
    #[must_use]
    pub fn lose_the_answer(self) -> Self {
        self.act("lose", true.into())
    }

    /// Closes the connection in the middle of the answer.
    #[must_use]
    pub fn cut_the_answer(self) -> Self {
        self.act("cut", true.into())
    }

    /// The provider lacks what is asked for: 501.
    #[must_use]
    pub fn unsupported(self) -> Self {
        self.act("refuse", "unsupported".into())
    }

    /// The provider fails: 500.
    #[must_use]
    pub fn fail(self) -> Self {
        self.act("refuse", "fails".into())
    }

    /// Holds Octavia's transaction open, with the locks that it has taken.
    #[must_use]
    pub fn hold(self, time: Duration) -> Self {
        self.act("hold", time.as_secs_f64().into())
    }

    /// Leaves the load balancer PENDING until the rule is removed.
    #[must_use]
    pub fn stall(self) -> Self {
        self.act("stall", true.into())
    }

    /// Leaves the load balancer PENDING for a while.
    #[must_use]
    pub fn delay(self, time: Duration) -> Self {
        self.act("delay", time.as_secs_f64().into())
    }

    /// Ends in this provisioning status, with all parts that changed.
    #[must_use]
    pub fn end_in(self, status: &str) -> Self {
        self.act("status", status.into())
    }

    fn act(mut self, what: &'static str, how: Value) -> Self {
        self.act.insert(what, how);
        self
    }
}

impl OpenStack {
    /// Puts a rule into force; rules about providers and PENDING load balancers are Octavia's. Of several that match, the
    /// oldest applies.
    ///
    /// # Errors
    /// The service does not run, has no such rules (neutron-lbaas), or does not understand the rule.
    pub async fn steer(&self, service: Service, rule: &Steer) -> anyhow::Result<Steered> {
        let made = Api::hooks(&self.layout, service)?.post("/rules", &serde_json::to_value(rule)?).await?;
        let id = made["id"].as_u64().with_context(|| format!("a rule without an ID: {made}"))?;
        Ok(Steered { service, id })
    }

    /// Returns how often a rule was applied.
    ///
    /// # Errors
    /// The rule is removed, or the service does not run.
    pub async fn steered(&self, rule: Steered) -> anyhow::Result<u64> {
        let listed = Api::hooks(&self.layout, rule.service)?.get("/rules").await?;
        let found = listed["rules"].as_array().into_iter().flatten().find(|one| one["id"] == rule.id);
        found.and_then(|one| one["applied"].as_u64()).with_context(|| format!("no rule {} in {listed}", rule.id))
    }

    /// Removes a rule; what it stalled goes on.
    ///
    /// # Errors
    /// The service does not run.
    pub async fn stop_steering(&self, rule: Steered) -> anyhow::Result<()> {
        Api::hooks(&self.layout, rule.service)?.delete(&format!("/rules/{}", rule.id)).await?;
        Ok(())
    }

    /// Removes all rules of a service.
    ///
    /// # Errors
    /// The service does not run.
    pub async fn stop_all_steering(&self, service: Service) -> anyhow::Result<()> {
        Api::hooks(&self.layout, service)?.delete("/rules").await?;
        Ok(())
    }
}
