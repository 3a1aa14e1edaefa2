//! Routers, and their interfaces in subnets.

use serde_json::{Value, json};

use crate::NeutronModel;
use crate::model::{ModelRefusal, ModelRow, PORTS, ROUTERS, SUBNETS};

/// The owner of the port by which a router is in a subnet.
const INTERFACE: &str = "network:router_interface";

impl NeutronModel {
    /// Adds a router, and returns its ID.
    pub fn add_router(&mut self) -> String {
        self.add(ROUTERS, ModelRow::new())
    }

    pub(crate) fn add_interface(&mut self, router: &str, body: &Value) -> Result<Value, ModelRefusal> {
        self.get(ROUTERS, router)?;
        let id = body["subnet_id"].as_str().unwrap_or_default();
        let subnet = self.get(SUBNETS, id)?;
        if self.interface(router, id).is_some() {
            return Err((400, format!("Bad router request: Router already has a port on subnet {id}.")));
        }
        let gateway = subnet["gateway_ip"].as_str().unwrap_or_default();
        if gateway.parse().is_ok_and(|address| self.is_taken(id, address)) {
            return Err((409, format!("IP address {gateway} already allocated in subnet {id}")));
        }
        let port = json!({
            "network_id": subnet["network_id"], "project_id": subnet["project_id"], "device_id": router,
            "device_owner": INTERFACE, "fixed_ips": [{"subnet_id": id, "ip_address": subnet["gateway_ip"]}],
        });
        let port = self.add(PORTS, port.as_object().cloned().unwrap_or_default());
        Ok(json!({"id": router, "subnet_id": id, "port_id": port}))
    }

    pub(crate) fn remove_interface(&mut self, router: &str, body: &Value) -> Result<Value, ModelRefusal> {
        self.get(ROUTERS, router)?;
        let subnet = body["subnet_id"].as_str().unwrap_or_default();
        let words = || format!("Router {router} has no interface on subnet {subnet}");
        let port = self.interface(router, subnet).ok_or_else(|| (404, words()))?;
        self.objects.remove(&(PORTS, port.clone()));
        Ok(json!({"id": router, "subnet_id": subnet, "port_id": port}))
    }

    fn interface(&self, router: &str, subnet: &str) -> Option<String> {
        let is_it = |row: &Value| {
            row["device_owner"] == INTERFACE
                && row["device_id"] == router
                && row["fixed_ips"].as_array().is_some_and(|all| all.iter().any(|one| one["subnet_id"] == subnet))
        };
        self.rows(PORTS).find(is_it).and_then(|row| row["id"].as_str().map(str::to_owned))
    }

    pub(crate) fn check_router_removal(&self, id: &str) -> Result<(), ModelRefusal> {
        if self.rows(PORTS).any(|row| row["device_id"] == id && row["device_owner"] == INTERFACE) {
            return Err((409, format!("Router {id} still has ports")));
        }
        Ok(())
    }
}
