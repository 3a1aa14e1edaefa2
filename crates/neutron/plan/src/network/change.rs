//! Changes of networks, and the requests that they are.

use gimbal_kuryr_model::Text;
use gimbal_octavia_plan::{ApiService, ApiVerb, ServiceCall};
use serde_json::{Value, json};

/// One change. IDs are those of existing objects.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // `body` is the request's, `id` the object's.
pub enum NetworkChange {
    CreateNetwork {
        body: Value,
    },
    CreateSubnet {
        body: Value,
    },
    /// Gives a router an interface in a subnet, at the subnet's gateway.
    AddInterface {
        router: Text,
        subnet: Text,
    },
    RemoveInterface {
        router: Text,
        subnet: Text,
    },
    DeleteSubnet {
        id: Text,
    },
    /// Removes a network with its subnets.
    DeleteNetwork {
        id: Text,
    },
}

impl NetworkChange {
    /// Returns the request.
    #[must_use]
    pub fn request(&self) -> ServiceCall {
        use ApiVerb::{Create, Delete, Update};
        let (verb, resource, path, body) = match self {
            Self::CreateNetwork { body } => (Create, "network", "networks".to_owned(), json!({"network": body})),
            Self::CreateSubnet { body } => (Create, "subnet", "subnets".to_owned(), json!({"subnet": body})),
            Self::AddInterface { router, subnet } => {
                let path = format!("routers/{router}/add_router_interface");
                (Update, "router", path, json!({"subnet_id": &**subnet}))
            }
            Self::RemoveInterface { router, subnet } => {
                let path = format!("routers/{router}/remove_router_interface");
                (Update, "router", path, json!({"subnet_id": &**subnet}))
            }
            Self::DeleteSubnet { id } => (Delete, "subnet", format!("subnets/{id}"), Value::Null),
            Self::DeleteNetwork { id } => (Delete, "network", format!("networks/{id}"), Value::Null),
        };
        let service = ApiService::Neutron;
        ServiceCall { service, verb, resource, path, query: None, revision: None, body, payload: None }
    }

    /// Whether it removes something.
    pub(crate) fn is_removal(&self) -> bool {
        matches!(self, Self::RemoveInterface { .. } | Self::DeleteSubnet { .. } | Self::DeleteNetwork { .. })
    }
}
