//! The rights that the controller needs in its cluster. `deploy/rbac` grants them.

use std::sync::Arc;

use gimbal_discoverer::{RightsReview, rights};
use gimbal_kubernetes_client::{Cluster, Right};

use crate::args::Args;

/// Group of the custom resources.
const RESOURCES: &str = "openstack.org";
/// What is done to the custom resources.
const MAKE: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];
/// What is done to the objects that they are made for.
const FOLLOW: &[&str] = &["get", "list", "watch", "patch"];

/// Returns the rights. Those to Nodes are left out: only where the writer's configuration says so, members are Nodes.
fn needed(ingress: bool, lease_namespace: Option<&str>) -> Vec<Right> {
    let mut all = Right::each("", &["services"], FOLLOW, "");
    all.extend(Right::each("", &["services/status"], &["patch"], ""));
    all.extend(Right::each("discovery.k8s.io", &["endpointslices"], &["list", "watch"], ""));
    all.extend(Right::each(RESOURCES, &["kuryrloadbalancers"], MAKE, ""));
    all.extend(Right::each(RESOURCES, &["kuryrloadbalancers/status"], &["patch"], ""));
    all.extend(Right::each("", &["events"], &["create", "patch"], ""));
    all.extend(Right::each("", &["namespaces"], &["get"], "").into_iter().map(|right| right.of_object("kube-system")));
    if ingress {
        let group = "networking.k8s.io";
        all.extend(Right::each(group, &["ingresses"], FOLLOW, ""));
        all.extend(Right::each(group, &["ingresses/status"], &["patch"], ""));
        all.extend(Right::each(group, &["ingressclasses"], &["get", "list", "watch"], ""));
        all.extend(Right::each("", &["secrets"], &["get", "list", "watch"], ""));
        all.extend(Right::each(RESOURCES, &["kuryrl7routers"], MAKE, ""));
        all.extend(Right::each(RESOURCES, &["kuryrl7routers/status"], &["patch"], ""));
    }
    if let Some(own) = lease_namespace {
        all.extend(Right::each("coordination.k8s.io", &["leases"], &["get", "create", "update"], own));
    }
    all
}

/// Returns how missing rights are found: over connections of their own, when somebody asks.
pub(crate) fn review(args: &Args, cluster: &Cluster) -> RightsReview {
    let lease_namespace = args.leader_election.then(|| args.own_namespace());
    let (needed, cluster) = (needed(args.ingress, lease_namespace.as_deref()), cluster.apart());
    Arc::new(move || {
        let (needed, cluster) = (needed.clone(), cluster.clone());
        Box::pin(async move { rights(cluster.missing_rights(&needed)).await })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use gimbal_testkit::Rights;

    use super::*;

    #[test]
    fn what_is_asked_for_is_what_is_deployed() {
        let deployed = |roles: &[&str]| Rights::deployed(roles).unwrap().in_namespace("own").each();
        let needed = |ingress| needed(ingress, Some("own")).into_iter().collect::<BTreeSet<_>>();
        assert_eq!(needed(false), deployed(&["gimbal-kuryr-controller"]));
        assert_eq!(needed(true), deployed(&["gimbal-kuryr-controller", "gimbal-kuryr-controller-ingress"]));
        assert!(super::needed(false, None).iter().all(|right| right.resource != "leases"));
    }
}
