//! Requests to the model, as the writers' edge and as somebody else make them.

use gimbal_octavia_plan::{ApiService, ApiVerb, ChangeOutcome, ServiceCall, ServiceRefusal};
use gimbal_octavia_registry::{CallAnswer, CloudRead};
use gimbal_octavia_sim::{Method, SimRequest, SimResponse};
use serde_json::Value;

use crate::world::{SECOND, World};

impl World {
    /// Reads as a client does: pages of lists, and one request for each of several descriptions.
    pub fn read(&mut self, read: &CloudRead) -> Vec<Value> {
        let base = base(read.service);
        let path = format!("{base}/{}", read.path);
        if !read.list {
            let SimResponse { status, body } = self.cloud.handle(&SimRequest::get(&path));
            assert!(status == 200 || status == 404, "{status} {body}");
            return if status == 200 { vec![body[read.key].clone()] } else { Vec::new() };
        }
        let descriptions: Vec<&String> =
            read.query.iter().filter(|(key, _)| *key == "description").map(|(_, value)| value).collect();
        let others = || read.query.iter().filter(|(key, _)| *key != "description");
        let mut rows = Vec::new();
        let any = [None];
        let each: Vec<Option<&String>> =
            if descriptions.is_empty() { any.to_vec() } else { descriptions.into_iter().map(Some).collect() };
        for description in each {
            let mut marker: Option<String> = None;
            loop {
                let mut request = SimRequest::get(&path);
                for (key, value) in others() {
                    request = request.with_query(key, value);
                }
                if let Some(description) = description {
                    request = request.with_query("description", description);
                }
                if let Some(marker) = &marker {
                    request = request.with_query("marker", marker);
                }
                let SimResponse { status, body } = self.cloud.handle(&request);
                if status == 404 {
                    // The pool of the members is gone.
                    break;
                }
                assert_eq!(status, 200, "{body}");
                let page = body[read.key].as_array().unwrap().clone();
                marker = page.last().and_then(|row| row["id"].as_str()).map(str::to_owned);
                let full = page.len() == 1000 && read.service == ApiService::Octavia;
                rows.extend(page);
                if !full {
                    break;
                }
            }
        }
        rows
    }

    /// Reads all secrets, as the edge does where the key manager lets it.
    pub fn read_secrets(&mut self) -> CallAnswer {
        let request = SimRequest::get("/v1/secrets").with_query("limit", "1000");
        let SimResponse { status, body } = self.cloud.handle(&request);
        let words = body["description"].as_str().unwrap_or_default().to_owned();
        match status {
            200 => CallAnswer::Rows(body["secrets"].as_array().unwrap().clone()),
            500.. => CallAnswer::ReadFailed { words, retry_after: None },
            _ => CallAnswer::ReadRefused { words },
        }
    }

    /// Returns how the services refuse a change of what is in another project than the one that asks: Neutron does not know it,
    /// Octavia forbids it.
    pub fn is_elsewhere(&mut self, call: &ServiceCall, project: &str) -> Option<ServiceRefusal> {
        if call.service == ApiService::KeyManager {
            // The model keeps the secrets of all projects in one.
            return None;
        }
        let mut path = call.path.split('/');
        let body = &call.body[call.resource];
        let parents = [("loadbalancers", &body["loadbalancer_id"]), ("pools", &body["pool_id"])];
        let parent = || parents.into_iter().find_map(|(list, id)| Some((list, id.as_str()?)));
        let of = match (path.next()?, path.next()) {
            (list, Some(id)) => Some((list, id)),
            _ => parent(),
        };
        let row = match of {
            Some((list, id)) => {
                let found = self.cloud.handle(&SimRequest::get(&format!("{}/{list}/{id}", base(call.service))));
                found.body.as_object().filter(|_| found.status == 200)?.values().next()?.clone()
            }
            None => body.clone(),
        };
        let is_there = row["project_id"].as_str().is_none_or(|of| of.is_empty() || of == project);
        (!is_there).then(|| match call.service {
            ApiService::Neutron | ApiService::KeyManager => ServiceRefusal::NotFound(String::new()),
            ApiService::Octavia => ServiceRefusal::Forbidden(format!("it is not in {project}")),
        })
    }

    pub fn rows(&mut self, path: &str, key: &str) -> Vec<Value> {
        let mut rows: Vec<Value> = Vec::new();
        loop {
            let mut request = SimRequest::get(path);
            if let Some(last) = rows.last().and_then(|row| row["id"].as_str()) {
                request = request.with_query("marker", last);
            }
            let page = self.cloud.handle(&request).body[key].as_array().cloned().unwrap_or_default();
            let is_full = page.len() == 1000 && path.starts_with("/v2/lbaas");
            rows.extend(page);
            if !is_full {
                return rows;
            }
        }
    }

    /// Sends a request as somebody else, and lets Octavia finish.
    pub fn by_hand(&mut self, request: &SimRequest) -> Value {
        let SimResponse { status, body } = self.cloud.handle(request);
        assert!(status < 300, "{status} {body}");
        body
    }

    /// Makes a load balancer as somebody else, with one listener, and lets Octavia finish.
    pub fn made_by_hand(&mut self, tags: &[&str], address: Option<&str>) -> String {
        let mut body = serde_json::json!({
            "name": "somebody's", "project_id": "p1", "vip_subnet_id": self.subnet, "tags": tags,
            "pools": [{"name": "pool", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN",
                "members": [{"address": "10.1.0.1", "protocol_port": 8080}]}],
            "listeners": [{"name": "web", "protocol": "TCP", "protocol_port": 80, "default_pool": {"name": "pool"}}],
        });
        if let Some(address) = address {
            body["vip_address"] = address.into();
        }
        let made =
            self.by_hand(&SimRequest::post("/v2/lbaas/loadbalancers", serde_json::json!({"loadbalancer": body})));
        self.cloud.advance(60 * SECOND);
        made["loadbalancer"]["id"].as_str().unwrap().to_owned()
    }

    /// Returns the row of a load balancer.
    pub fn row(&mut self, id: &str) -> Value {
        self.cloud.handle(&SimRequest::get(&format!("/v2/lbaas/loadbalancers/{id}"))).body["loadbalancer"].clone()
    }
}

fn base(service: ApiService) -> &'static str {
    match service {
        ApiService::Octavia => "/v2/lbaas",
        ApiService::Neutron => "/v2.0",
        ApiService::KeyManager => "/v1",
    }
}

pub fn request_of(call: &ServiceCall) -> SimRequest {
    let method = match call.verb {
        ApiVerb::Create => Method::Post,
        ApiVerb::Update => Method::Put,
        ApiVerb::Delete => Method::Delete,
    };
    let request = SimRequest::new(method, &format!("{}/{}", base(call.service), call.path), call.body.clone());
    call.query.iter().fold(request, |request, (key, value)| request.with_query(key, value))
}

pub fn outcome(response: SimResponse) -> ChangeOutcome {
    let SimResponse { status, body } = response;
    let words = body["faultstring"].as_str().or_else(|| body["NeutronError"]["message"].as_str());
    let words = words.or_else(|| body["description"].as_str());
    let words = words.unwrap_or_default().to_owned();
    ChangeOutcome::Refused(match status {
        200..300 => return ChangeOutcome::Accepted(body),
        409 if words.contains("immutable") || words.contains("Invalid state") => ServiceRefusal::Pending,
        409 if words.contains("in use") => ServiceRefusal::InUse,
        409 if words.contains("No more IP addresses") => ServiceRefusal::Exhausted(words),
        409 => ServiceRefusal::Duplicate,
        412 => ServiceRefusal::Changed(words),
        // As the client does: the resource alone is given.
        403 if words.contains("Quota") => ServiceRefusal::Quota(words.rsplit(": ").next().unwrap().to_owned()),
        403 => ServiceRefusal::Forbidden(words),
        404 => ServiceRefusal::NotFound(words),
        400 => ServiceRefusal::Invalid(words),
        500 => ServiceRefusal::ProviderFailed,
        501 => ServiceRefusal::Unsupported(words),
        503 => ServiceRefusal::Busy(None),
        other => panic!("{other} {words}"),
    })
}
