//! Objects of Neutron's that a search for a mark does not find.

use gimbal_kuryr_model::Text;
use gimbal_octavia_plan::ApiService;
use serde_json::Value;

use super::{LookPart, LookRead, one};

/// A port or floating IP whose description holds an owner's mark and more, so that a search for the mark does not find it.
#[derive(Debug)]
pub(crate) struct Stray {
    is_port: bool,
    pub(super) id: String,
    project: Text,
}

impl Stray {
    /// Returns what a row of Neutron's is.
    pub(crate) fn of(row: &Value) -> Option<Self> {
        let is_port = row.get("floating_ip_address").is_none();
        let project = row["project_id"].as_str().unwrap_or_default().into();
        Some(Self { is_port, id: row["id"].as_str()?.to_owned(), project })
    }

    pub(super) fn read(&self) -> LookRead {
        let (part, resource, list) = match self.is_port {
            true => (LookPart::Ports, "port", "ports"),
            false => (LookPart::Floating, "floatingip", "floatingips"),
        };
        (part, self.project.clone(), one(ApiService::Neutron, resource, format!("{list}/{}", self.id)))
    }
}
