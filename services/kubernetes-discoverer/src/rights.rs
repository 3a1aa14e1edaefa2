//! The rights that the discoverer cannot do without. `deploy/rbac` grants them.

use std::sync::Arc;

use gimbal_discoverer::{RightsReview, rights};
use gimbal_kubernetes_client::{Cluster, Right};

/// Returns the rights. Those to Endpoints are only needed where there are no slices, and those to write Events may be granted in
/// some namespaces only: that neither is missing anywhere is not known.
fn needed() -> Vec<Right> {
    let read = &["list", "watch"];
    let mut all = Right::each("", &["services"], read, "");
    all.extend(Right::each("discovery.k8s.io", &["endpointslices"], read, ""));
    all.extend(Right::each("", &["namespaces"], &["get"], "").into_iter().map(|right| right.of_object("kube-system")));
    all
}

/// Returns how missing rights are found: over connections of their own, when somebody asks.
pub(crate) fn review(cluster: &Cluster) -> RightsReview {
    let cluster = cluster.apart();
    Arc::new(move || {
        let cluster = cluster.clone();
        Box::pin(async move { rights(cluster.missing_rights(&needed())).await })
    })
}

#[cfg(test)]
mod tests {
    use gimbal_testkit::Rights;

    use super::*;

    #[test]
    fn what_is_asked_for_is_deployed() {
        let deployed = Rights::deployed(&["gimbal-kubernetes-discoverer"]).unwrap().each();
        let lacking: Vec<String> =
            needed().iter().filter(|right| !deployed.contains(right)).map(ToString::to_string).collect();
        assert_eq!(lacking, Vec::<String>::new());
    }
}
