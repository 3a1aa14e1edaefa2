//! Routers, as far as they matter for the load balancers of Services: each is an owner too, and what exists for it goes with it alone.

use std::collections::BTreeSet;

use gimbal_kuryr_crd::KuryrL7Router;
use gimbal_kuryr_model::Text;
use gimbal_kuryr_resource::Sighting;

use crate::KuryrController;

/// The UIDs of the routers that there are.
#[derive(Debug, Default)]
pub(crate) struct RouterUids {
    uids: BTreeSet<Text>,
    /// Those of a list that goes on.
    listed: BTreeSet<Text>,
    /// Whether there are no others.
    is_complete: bool,
}

impl<T> KuryrController<T> {
    /// Takes in an event of the watch of routers, where there is one. A KuryrLoadBalancer that names a router as its owner removes
    /// nothing; while routers may exist that have not been seen, neither does one whose owner was not seen as a Service.
    pub fn saw_router(&mut self, sighting: &Sighting<KuryrL7Router>) {
        let routers = &mut self.routers;
        match sighting {
            Sighting::ListBegan => routers.listed.clear(),
            Sighting::Set(router) => {
                routers.uids.insert(router.metadata.meta.uid.clone());
                routers.listed.insert(router.metadata.meta.uid.clone());
            }
            Sighting::Deleted(router) => {
                routers.uids.remove(&router.metadata.meta.uid);
                routers.listed.remove(&router.metadata.meta.uid);
            }
            Sighting::ListDone => {
                routers.uids = std::mem::take(&mut routers.listed);
                routers.is_complete = true;
                self.dirty.append(&mut self.shared_owner);
            }
            Sighting::Unreadable(_) => routers.is_complete = false,
            Sighting::WentBack => self.routers_went_back(),
        }
    }

    /// Which routers the restored store has is not known before they are listed again.
    pub(crate) fn routers_went_back(&mut self) {
        self.routers.listed.clear();
        self.routers.is_complete = false;
    }

    pub(crate) fn is_router(&self, owner: &Text) -> bool {
        self.routers.uids.contains(owner)
    }

    /// Whether there may be routers that have not been seen. Before the writer has said whether there are any, there may be.
    pub(crate) fn may_lack_routers(&self) -> bool {
        !self.routers.is_complete && self.facts.as_ref().is_none_or(|facts| facts.enable_ingress)
    }
}
