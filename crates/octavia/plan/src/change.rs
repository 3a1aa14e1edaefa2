//! Changes, and the requests that they are.

use gimbal_kuryr_model::CertificateHash;
use serde_json::{Value, json};

use crate::memory::Root;
use crate::secret::SecretPayload;

/// The service that a request goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiService {
    /// Octavia; paths below `/v2/lbaas`.
    Octavia,
    /// Neutron; paths below `/v2.0`.
    Neutron,
    /// Barbican; paths below `/v1`.
    KeyManager,
}

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiVerb {
    /// POST.
    Create,
    /// PUT.
    Update,
    /// DELETE.
    Delete,
}

/// A request to a service.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceCall {
    /// The service.
    pub service: ApiService,
    /// The method.
    pub verb: ApiVerb,
    /// The resource, for metrics: one of a few words.
    pub resource: &'static str,
    /// The path below the service's endpoint, without a leading slash.
    pub path: String,
    /// A parameter of the query.
    pub query: Option<(&'static str, &'static str)>,
    /// The revision that the object must still have: `If-Match: revision_number=<it>`. Only Neutron's objects have one.
    pub revision: Option<u64>,
    /// The body; null if there is none.
    pub body: Value,
    /// What the body of a new secret has besides, as `payload` in base64. Whoever sends it puts it in, so that nothing else has it.
    pub payload: Option<SecretPayload>,
}

/// One change of OpenStack. IDs are those of existing objects.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // `fields` and `body` are the request's, `id` the object's, the others its parents.
pub enum CloudChange {
    CreatePort {
        body: Value,
    },
    /// Changes a port, if it is still as it was seen.
    UpdatePort {
        id: String,
        revision: Option<u64>,
        fields: Value,
    },
    /// Replaces the tags of a port.
    TagPort {
        id: String,
        tags: Value,
    },
    DeletePort {
        id: String,
    },
    CreateBalancer {
        body: Value,
    },
    UpdateBalancer {
        id: String,
        fields: Value,
    },
    DeleteBalancer {
        id: String,
    },
    /// Replaces what a load balancer runs on, while it serves. Only some roles may.
    FailoverBalancer {
        id: String,
    },
    CreateListener {
        body: Value,
    },
    UpdateListener {
        id: String,
        fields: Value,
    },
    DeleteListener {
        id: String,
    },
    /// Makes a policy, after all others of its listener.
    CreatePolicy {
        body: Value,
    },
    UpdatePolicy {
        id: String,
        fields: Value,
    },
    /// Removes a policy with its rules.
    DeletePolicy {
        id: String,
    },
    CreateRule {
        policy: String,
        body: Value,
    },
    CreatePool {
        body: Value,
    },
    UpdatePool {
        id: String,
        fields: Value,
    },
    DeletePool {
        id: String,
    },
    CreateMonitor {
        pool: String,
        body: Value,
    },
    UpdateMonitor {
        pool: String,
        id: String,
        fields: Value,
    },
    DeleteMonitor {
        pool: String,
        id: String,
    },
    /// Sets members of a pool in one request. With `additive`, members that are not named stay.
    SetMembers {
        pool: String,
        members: Vec<Value>,
        additive: bool,
    },
    CreateMember {
        pool: String,
        body: Value,
    },
    UpdateMember {
        pool: String,
        id: String,
        fields: Value,
    },
    DeleteMember {
        pool: String,
        id: String,
    },
    CreateFloatingIp {
        body: Value,
    },
    /// Changes a floating IP, if it is still as it was seen.
    UpdateFloatingIp {
        id: String,
        revision: Option<u64>,
        fields: Value,
    },
    /// Replaces the tags of a floating IP.
    TagFloatingIp {
        id: String,
        tags: Value,
    },
    DeleteFloatingIp {
        id: String,
    },
    /// Stores a certificate. The project is that of the token.
    CreateSecret {
        project: String,
        name: String,
        hash: CertificateHash,
        payload: SecretPayload,
    },
    DeleteSecret {
        id: String,
    },
}

impl CloudChange {
    /// Returns the request.
    #[must_use]
    pub fn request(&self) -> ServiceCall {
        use ApiVerb::{Create, Delete, Update};
        let (verb, resource, path, body) = match self {
            Self::CreatePort { body } => (Create, "port", "ports".into(), json!({"port": body})),
            Self::UpdatePort { id, revision: _, fields } => {
                (Update, "port", format!("ports/{id}"), json!({"port": fields}))
            }
            Self::TagPort { id, tags } => (Update, "port", format!("ports/{id}/tags"), json!({"tags": tags})),
            Self::DeletePort { id } => (Delete, "port", format!("ports/{id}"), Value::Null),
            Self::CreateBalancer { body } => {
                (Create, "loadbalancer", "loadbalancers".into(), json!({"loadbalancer": body}))
            }
            Self::UpdateBalancer { id, fields } => {
                (Update, "loadbalancer", format!("loadbalancers/{id}"), json!({"loadbalancer": fields}))
            }
            Self::DeleteBalancer { id } => (Delete, "loadbalancer", format!("loadbalancers/{id}"), Value::Null),
            Self::FailoverBalancer { id } => {
                (Update, "loadbalancer", format!("loadbalancers/{id}/failover"), Value::Null)
            }
            Self::CreateListener { body } => (Create, "listener", "listeners".into(), json!({"listener": body})),
            Self::UpdateListener { id, fields } => {
                (Update, "listener", format!("listeners/{id}"), json!({"listener": fields}))
            }
            Self::DeleteListener { id } => (Delete, "listener", format!("listeners/{id}"), Value::Null),
            Self::CreatePolicy { body } => (Create, "l7policy", "l7policies".into(), json!({"l7policy": body})),
            Self::UpdatePolicy { id, fields } => {
                (Update, "l7policy", format!("l7policies/{id}"), json!({"l7policy": fields}))
            }
            Self::DeletePolicy { id } => (Delete, "l7policy", format!("l7policies/{id}"), Value::Null),
            Self::CreateRule { policy, body } => {
                (Create, "l7rule", format!("l7policies/{policy}/rules"), json!({"rule": body}))
            }
            Self::CreatePool { body } => (Create, "pool", "pools".into(), json!({"pool": body})),
            Self::UpdatePool { id, fields } => (Update, "pool", format!("pools/{id}"), json!({"pool": fields})),
            Self::DeletePool { id } => (Delete, "pool", format!("pools/{id}"), Value::Null),
            Self::CreateMonitor { body, .. } => {
                (Create, "healthmonitor", "healthmonitors".into(), json!({"healthmonitor": body}))
            }
            Self::UpdateMonitor { id, fields, .. } => {
                (Update, "healthmonitor", format!("healthmonitors/{id}"), json!({"healthmonitor": fields}))
            }
            Self::DeleteMonitor { id, .. } => (Delete, "healthmonitor", format!("healthmonitors/{id}"), Value::Null),
            Self::SetMembers { pool, members, .. } => {
                (Update, "members", format!("pools/{pool}/members"), json!({"members": members}))
            }
            Self::CreateMember { pool, body } => {
                (Create, "member", format!("pools/{pool}/members"), json!({"member": body}))
            }
            Self::UpdateMember { pool, id, fields } => {
                (Update, "member", format!("pools/{pool}/members/{id}"), json!({"member": fields}))
            }
            Self::DeleteMember { pool, id } => (Delete, "member", format!("pools/{pool}/members/{id}"), Value::Null),
            Self::CreateFloatingIp { body } => {
                (Create, "floatingip", "floatingips".into(), json!({"floatingip": body}))
            }
            Self::UpdateFloatingIp { id, revision: _, fields } => {
                (Update, "floatingip", format!("floatingips/{id}"), json!({"floatingip": fields}))
            }
            Self::TagFloatingIp { id, tags } => {
                (Update, "floatingip", format!("floatingips/{id}/tags"), json!({"tags": tags}))
            }
            Self::DeleteFloatingIp { id } => (Delete, "floatingip", format!("floatingips/{id}"), Value::Null),
            Self::CreateSecret { name, .. } => (Create, "secret", "secrets".into(), secret_body(name)),
            Self::DeleteSecret { id } => (Delete, "secret", format!("secrets/{id}"), Value::Null),
        };
        let query = match self {
            Self::DeleteBalancer { .. } => Some(("cascade", "true")),
            Self::SetMembers { additive: true, .. } => Some(("additive_only", "true")),
            _ => None,
        };
        let revision = match self {
            Self::UpdatePort { revision, .. } | Self::UpdateFloatingIp { revision, .. } => *revision,
            _ => None,
        };
        let service = match resource {
            "port" | "floatingip" => ApiService::Neutron,
            "secret" => ApiService::KeyManager,
            _ => ApiService::Octavia,
        };
        let payload = match self {
            Self::CreateSecret { payload, .. } => Some(payload.clone()),
            _ => None,
        };
        ServiceCall { service, verb, resource, path, query, revision, body, payload }
    }

    /// Returns the kind of object whose owner is left alone for a while after a change of unknown outcome: it would be there
    /// twice, or the change would come late and undo a newer one, as when a floating IP moves or a port is used again.
    pub(crate) fn root(&self) -> Option<Root> {
        match self {
            Self::CreateBalancer { .. } | Self::DeleteBalancer { .. } => Some(Root::Balancer),
            Self::CreatePort { .. } | Self::DeletePort { .. } => Some(Root::Port),
            Self::CreateFloatingIp { .. } | Self::UpdateFloatingIp { .. } => Some(Root::FloatingIp),
            _ => None,
        }
    }

    /// Returns the object that it removes.
    pub(crate) fn deletes(&self) -> Option<&str> {
        match self {
            Self::DeletePort { id }
            | Self::DeleteBalancer { id }
            | Self::DeleteListener { id }
            | Self::DeletePolicy { id }
            | Self::DeletePool { id }
            | Self::DeleteMonitor { id, .. }
            | Self::DeleteMember { id, .. }
            | Self::DeleteFloatingIp { id }
            | Self::DeleteSecret { id } => Some(id),
            _ => None,
        }
    }

    /// Whether it removes an object.
    pub(crate) fn is_deletion(&self) -> bool {
        self.deletes().is_some()
    }

    /// Returns the load balancer, listener, policy or pool that it changes, or in which it changes something: Octavia locks that load
    /// balancer for it. `None` for a new load balancer, and for Neutron's objects.
    pub(crate) fn about(&self) -> Option<&str> {
        match self {
            Self::CreatePort { .. }
            | Self::UpdatePort { .. }
            | Self::TagPort { .. }
            | Self::DeletePort { .. }
            | Self::CreateBalancer { .. }
            | Self::CreateFloatingIp { .. }
            | Self::UpdateFloatingIp { .. }
            | Self::TagFloatingIp { .. }
            | Self::DeleteFloatingIp { .. }
            | Self::CreateSecret { .. }
            | Self::DeleteSecret { .. } => None,
            Self::CreateListener { body } | Self::CreatePool { body } => body["loadbalancer_id"].as_str(),
            Self::CreatePolicy { body } => body["listener_id"].as_str(),
            Self::UpdateBalancer { id, .. }
            | Self::DeleteBalancer { id }
            | Self::FailoverBalancer { id }
            | Self::UpdateListener { id, .. }
            | Self::DeleteListener { id }
            | Self::UpdatePolicy { id, .. }
            | Self::DeletePolicy { id }
            | Self::CreateRule { policy: id, .. }
            | Self::UpdatePool { id, .. }
            | Self::DeletePool { id } => Some(id),
            Self::CreateMonitor { pool, .. }
            | Self::UpdateMonitor { pool, .. }
            | Self::DeleteMonitor { pool, .. }
            | Self::SetMembers { pool, .. }
            | Self::CreateMember { pool, .. }
            | Self::UpdateMember { pool, .. }
            | Self::DeleteMember { pool, .. } => Some(pool),
        }
    }
}

/// Returns the body of a new secret, but for what it holds: a bundle of PKCS#12, which is what Octavia tries first.
fn secret_body(name: &str) -> Value {
    json!({
        "name": name,
        "secret_type": "opaque",
        "payload_content_type": "application/octet-stream",
        "payload_content_encoding": "base64",
    })
}
