//! Ports.

use serde_json::{Value, json};

use crate::NeutronModel;
use crate::model::{GROUPS, ModelRefusal, ModelRow, NETWORKS, PORTS, missing};

impl NeutronModel {
    /// Does what the agent of a node does when it has found the interface of a port there.
    pub fn wire(&mut self, port: &str) {
        let is_bound = self.row(PORTS, port).is_some_and(|row| row["binding:vif_type"] == "ovs");
        if is_bound {
            self.set_status(port, "ACTIVE");
        }
    }

    /// Does what the agent does when the interface of a port is gone.
    pub fn unwire(&mut self, port: &str) {
        self.set_status(port, "DOWN");
    }

    fn set_status(&mut self, port: &str, status: &str) {
        if let Some(row) = self.objects.get_mut(&(PORTS, port.to_owned())) {
            // The status is no part of what is counted.
            row.insert("status".into(), json!(status));
        }
    }

    pub(crate) fn complete_port(&mut self, row: &mut ModelRow) -> Result<(), ModelRefusal> {
        let network = row.get("network_id").and_then(Value::as_str).unwrap_or_default().to_owned();
        if self.row(NETWORKS, &network).is_none() {
            return Err(missing(NETWORKS, &network));
        }
        self.check_groups(&Value::Object(row.clone()))?;
        if !row.contains_key("fixed_ips") {
            row.insert("fixed_ips".into(), json!(self.allocate(&network)?));
        }
        for field in ["device_id", "device_owner", "dns_name", "binding:host_id"] {
            row.entry(field).or_insert(json!(""));
        }
        row.entry("security_groups").or_insert(json!([]));
        let host = row["binding:host_id"].as_str().unwrap_or_default();
        let kind = match host {
            "" => "unbound",
            host if self.dead_hosts.contains(host) => "binding_failed",
            _ => "ovs",
        };
        row.insert("binding:vif_type".into(), json!(kind));
        row.insert("status".into(), json!("DOWN"));
        let address = row["fixed_ips"][0]["ip_address"].as_str().unwrap_or_default();
        row.insert("mac_address".into(), json!(format!("fa:16:3e:{}", address.replace('.', ":"))));
        Ok(())
    }

    pub(crate) fn check_groups(&self, body: &Value) -> Result<(), ModelRefusal> {
        let groups = body["security_groups"].as_array().map(Vec::as_slice).unwrap_or_default();
        let unknown = groups.iter().filter_map(Value::as_str).find(|id| self.row(GROUPS, id).is_none());
        unknown.map_or(Ok(()), |id| Err(missing(GROUPS, id)))
    }

    pub(crate) fn check_port_removal(row: &Value) -> Result<(), ModelRefusal> {
        if !row["device_owner"].as_str().is_some_and(|owner| owner.starts_with("network:router")) {
            return Ok(());
        }
        let id = row["id"].as_str().unwrap_or_default();
        Err((409, format!("Port {id} cannot be deleted directly via the port API: has device owner.")))
    }

    pub(crate) fn check_group_removal(&self, id: &str) -> Result<(), ModelRefusal> {
        let carries =
            |row: &Value| row["security_groups"].as_array().is_some_and(|all| all.iter().any(|one| one == id));
        if self.rows(PORTS).any(|row| carries(&row)) {
            return Err((409, format!("Security Group {id} in use.")));
        }
        Ok(())
    }
}
