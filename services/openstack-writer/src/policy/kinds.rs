//! Which kinds of entries a cluster may have.

use gimbal_kuryr_model::{DesiredKey, DesiredKind, DesiredLoadBalancer};
use gimbal_kuryr_wire::KuryrReason;

use super::{ClusterPolicy, PolicyBreach, breach};

impl ClusterPolicy {
    /// Checks that entries of this kind are made for the cluster, and that this one is what its kind says. An update of its members
    /// alone may have brought some of a pool that its routing lacks.
    ///
    /// # Errors
    /// They are not, or it is not.
    pub fn may_be(&self, key: &DesiredKey, wanted: &DesiredLoadBalancer) -> Result<(), PolicyBreach> {
        match key.kind {
            DesiredKind::LoadBalancer => {}
            DesiredKind::L7Router if self.enable_ingress => {}
            DesiredKind::L7Router => {
                let message = "enable_ingress is false for this cluster (kubernetes.enable_ingress of the writer)";
                return breach(KuryrReason::Unsupported, message.to_owned());
            }
            DesiredKind::Port | DesiredKind::Network | DesiredKind::SecurityGroup => {
                let message = format!("this writer makes no {}", key.kind.as_str());
                return breach(KuryrReason::Unsupported, message);
            }
        }
        wanted.contradiction(key.kind).map_or(Ok(()), |message| breach(KuryrReason::Invalid, message))
    }
}
