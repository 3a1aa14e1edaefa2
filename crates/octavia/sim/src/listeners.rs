//! `/listeners`.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::cloud::CloudModel;
use crate::http::{ApiRefusal, SimResponse};
use crate::objects::Progress;
use crate::schema::{self, ApiKind, Fields};

/// The protocols that pools of a listener may have: `VALID_LISTENER_POOL_PROTOCOL_MAP`.
const POOLS_OF: [(&str, &[&str]); 6] = [
    ("TCP", &["HTTP", "HTTPS", "PROXY", "PROXYV2", "TCP"]),
    ("HTTP", &["HTTP", "PROXY", "PROXYV2"]),
    ("HTTPS", &["HTTPS", "PROXY", "PROXYV2", "TCP"]),
    ("TERMINATED_HTTPS", &["HTTP", "PROXY", "PROXYV2"]),
    ("UDP", &["UDP"]),
    ("SCTP", &["SCTP"]),
];

impl CloudModel {
    pub(crate) fn create_listener(&mut self, body: &Value) -> Result<SimResponse, ApiRefusal> {
        let mut fields = schema::created(ApiKind::Listener, body, &["loadbalancer_id"])?;
        let balancer = body["loadbalancer_id"].as_str().unwrap_or_default().to_owned();
        let project = self.store.get(ApiKind::LoadBalancer, &balancer)?.project.clone();
        self.quotas.check(&self.store, &project, ApiKind::Listener, 1)?;
        let id = self.transaction(&balancer, |cloud| {
            let pool = fields.get("default_pool_id").and_then(Value::as_str).map(str::to_owned);
            if let Some(pool) = &pool {
                cloud.check_pool(&balancer, pool, text(&fields, "protocol"))?;
            }
            cloud.store.lock(&balancer, Progress::PendingUpdate)?;
            let id = cloud.insert_listener(&balancer, &project, std::mem::take(&mut fields))?;
            if pool.is_some() && cloud.shares_its_port(&balancer, &id) {
                // Its list of the listeners at the port leaves a load balancer without a VIP in the session, where the next query
                // finds it: `_validate_create_listener` of Octavia 18.
                return Err(ApiRefusal::new(500, "'NoneType' object has no attribute 'ip_address'".to_owned()));
            }
            cloud.dispatch(&id)?;
            Ok(id)
        })?;
        self.answer(201, ApiKind::Listener, &id)
    }

    pub(crate) fn update_listener(&mut self, id: &str, body: &Value) -> Result<SimResponse, ApiRefusal> {
        let listener = self.store.get(ApiKind::Listener, id)?;
        let protocol = listener.text("protocol").to_owned();
        let fields = schema::updated(ApiKind::Listener, body)?;
        let balancer = self.store.balancer_of(id);
        self.check_cidrs(&balancer, &fields)?;
        self.check_certificates(&protocol, &fields)?;
        self.transaction(&balancer, |cloud| {
            if let Some(pool) = fields.get("default_pool_id").and_then(Value::as_str) {
                cloud.check_pool(&balancer, pool, &protocol)?;
            }
            cloud.store.lock(&balancer, Progress::PendingUpdate)?;
            cloud.store.mark(id, Progress::PendingUpdate);
            if let Some(listener) = cloud.store.get_mut(id) {
                listener.fields.extend(fields);
            }
            cloud.dispatch(id)
        })?;
        self.answer(200, ApiKind::Listener, id)
    }

    pub(crate) fn delete_listener(&mut self, id: &str) -> Result<SimResponse, ApiRefusal> {
        self.store.get(ApiKind::Listener, id)?;
        let balancer = self.store.balancer_of(id);
        self.transaction(&balancer, |cloud| {
            cloud.store.lock(&balancer, Progress::PendingUpdate)?;
            cloud.store.mark(id, Progress::PendingDelete);
            cloud.dispatch(id)
        })?;
        Ok(SimResponse::empty(204))
    }

    /// Adds a listener, after the checks of `_validate_create_listener`.
    pub(crate) fn insert_listener(
        &mut self,
        balancer: &str,
        project: &str,
        fields: Fields,
    ) -> Result<String, ApiRefusal> {
        let protocol = text(&fields, "protocol");
        if !self.provider.protocols.iter().any(|one| one == protocol) {
            return Err(self.provider.refuse(&format!("protocol {protocol}")));
        }
        let has = |key: &str| match fields.get(key) {
            Some(Value::Array(all)) => !all.is_empty(),
            other => other.is_some_and(Value::is_string),
        };
        if protocol == "TERMINATED_HTTPS" && !has("default_tls_container_ref") && !has("sni_container_refs") {
            let words = "An SNI or default certificate container reference must be provided for TERMINATED_HTTPS protocol listeners.";
            return Err(ApiRefusal::invalid(words));
        }
        let port = fields.get("protocol_port").and_then(Value::as_i64);
        for (_, other) in self.store.below(balancer, ApiKind::Listener) {
            if Some(other.number("protocol_port")) == port && transport(other.text("protocol")) == transport(protocol) {
                let (protocol, port) = (other.text("protocol"), other.number("protocol_port"));
                let words = format!(
                    "Another Listener on this Load Balancer is already using protocol {protocol} and protocol_port {port}"
                );
                return Err(ApiRefusal::new(409, words));
            }
        }
        if let Some(pool) = fields.get("default_pool_id").and_then(Value::as_str) {
            self.check_pool(balancer, pool, protocol)?;
        }
        self.check_cidrs(balancer, &fields)?;
        self.check_certificates(protocol, &fields)?;
        Ok(self.insert(ApiKind::Listener, balancer, project, fields))
    }

    /// Whether another listener has the number of its port, for another transport.
    fn shares_its_port(&self, balancer: &str, id: &str) -> bool {
        let listeners: Vec<_> = self.store.below(balancer, ApiKind::Listener).collect();
        let port = listeners.iter().find(|(one, _)| *one == id).map(|(_, row)| row.number("protocol_port"));
        listeners.iter().any(|(one, row)| *one != id && Some(row.number("protocol_port")) == port)
    }

    fn check_cidrs(&self, balancer: &str, fields: &Fields) -> Result<(), ApiRefusal> {
        let Some(cidrs) = fields.get("allowed_cidrs").and_then(Value::as_array) else { return Ok(()) };
        if !self.provider.allowed_cidrs {
            return Err(self.provider.refuse("allowed_cidrs"));
        }
        let row = self.store.get(ApiKind::LoadBalancer, balancer)?;
        let has_groups = row.fields.get("vip_sg_ids").and_then(Value::as_array).is_some_and(|all| !all.is_empty());
        if has_groups && !cidrs.is_empty() {
            let words = "Allowed CIDRs are not allowed when using custom VIP Security Groups.";
            return Err(ApiRefusal::invalid(words));
        }
        let vip = row.text("vip_address").to_owned();
        let vip_is_v6 = vip.parse::<IpAddr>().is_ok_and(|vip| vip.is_ipv6());
        for cidr in cidrs.iter().filter_map(Value::as_str) {
            if cidr.contains(':') != vip_is_v6 {
                let words = format!("CIDR {cidr} IP version incompatible with all VIPs ['{vip}'] IP version.");
                return Err(ApiRefusal::invalid(words));
            }
        }
        Ok(())
    }

    fn check_pool(&self, balancer: &str, pool: &str, listener: &str) -> Result<(), ApiRefusal> {
        let found = self.store.get(ApiKind::Pool, pool)?;
        if found.parent.as_deref() != Some(balancer) {
            return Err(ApiRefusal::not_found(ApiKind::Pool.name(), pool));
        }
        check_protocols(listener, found.text("protocol"))
    }

    /// Returns an object as the answer to a change of it.
    pub(crate) fn answer(&self, status: u16, kind: ApiKind, id: &str) -> Result<SimResponse, ApiRefusal> {
        let object = self.store.get(kind, id)?;
        Ok(SimResponse::ok(status, json!({kind.singular(): self.store.row(id, object)})))
    }
}

/// Checks that a listener may send to a pool: `_validate_protocol`.
pub(crate) fn check_protocols(listener: &str, pool: &str) -> Result<(), ApiRefusal> {
    let valid = POOLS_OF.iter().any(|(one, pools)| *one == listener && pools.contains(&pool));
    let words = || format!("The pool protocol '{pool}' is invalid while the listener protocol is '{listener}'.");
    if valid { Ok(()) } else { Err(ApiRefusal::invalid(words())) }
}

pub(crate) fn text<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the protocol below: two listeners of one may not share a port (`L4_PROTOCOL_MAP`).
fn transport(protocol: &str) -> &str {
    match protocol {
        "UDP" | "SCTP" => protocol,
        _ => "TCP",
    }
}
