//! The project of what a change or a look is about. Services take no request about what is in another project than the one that asks.

use gimbal_kuryr_model::DesiredEntry;

use crate::actor::Actor;
use crate::change::CloudChange;
use crate::seen::{SeenBalancer, SeenListener};
use crate::step::CloudLook;

impl Actor {
    /// Returns the project of the object that a change is about; `None` if it is not known. What one owner has may be in several.
    #[must_use]
    pub fn project_of<'a>(&'a self, change: &'a CloudChange) -> Option<&'a str> {
        let project = match change {
            CloudChange::CreatePort { body }
            | CloudChange::CreateBalancer { body }
            | CloudChange::CreateFloatingIp { body } => body["project_id"].as_str(),
            CloudChange::CreateSecret { project, .. } => Some(project.as_str()),
            CloudChange::DeleteSecret { id } => {
                self.seen.secrets.iter().find(|one| one.id == *id).map(|one| one.project.as_str())
            }
            CloudChange::UpdatePort { id, .. } | CloudChange::TagPort { id, .. } | CloudChange::DeletePort { id } => {
                let seen = self.seen.ports.iter().find(|one| one.id == *id).map(|one| one.project.as_str());
                seen.or_else(|| self.memory.suspect.as_ref().filter(|one| one.is_about(id)).map(|one| one.project()))
            }
            CloudChange::UpdateFloatingIp { id, .. }
            | CloudChange::TagFloatingIp { id, .. }
            | CloudChange::DeleteFloatingIp { id } => {
                let asked = self.memory.asked_floating.iter().flatten();
                self.seen.floating.iter().chain(asked).find(|one| one.id == *id).map(|one| one.project.as_str())
            }
            _ => change.about().and_then(|id| self.project_with(id)),
        };
        project.filter(|project| !project.is_empty())
    }

    /// Returns the project that a look is made in; `None` if it is made in several, or that is not known.
    #[must_use]
    pub fn project_of_look(&self, look: &CloudLook) -> Option<&str> {
        let project = match (look, &self.desired) {
            (CloudLook::Members { pool }, _) => self.project_with(pool),
            (CloudLook::AddressHolder { .. }, _) => self.memory.suspect.as_ref().map(|one| one.project()),
            (CloudLook::FloatingIp { .. } | CloudLook::Balancer { .. }, DesiredEntry::LoadBalancer(wanted)) => {
                Some(&*wanted.header.placement.project)
            }
            (CloudLook::FloatingIp { .. } | CloudLook::Balancer { .. } | CloudLook::Owner, _) => None,
        };
        project.filter(|project| !project.is_empty())
    }

    /// Returns the project of the load balancer that has this ID, or a listener, policy or pool with it.
    fn project_with(&self, id: &str) -> Option<&str> {
        let is_listener = |one: &SeenListener| one.id == id || one.policies.iter().any(|one| one.id == id);
        let has = |one: &&SeenBalancer| {
            one.id == id || one.listeners.iter().any(is_listener) || one.pools.iter().any(|one| one.id == id)
        };
        self.seen.balancers.iter().find(has).map(|one| one.project.as_str())
    }
}
