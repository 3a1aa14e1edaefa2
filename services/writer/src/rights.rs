//! The rights that the writer needs in the Gimbal cluster. `deploy/rbac` grants the same.

use gimbal_kubernetes_client::Right;

/// What of a writer decides which rights it needs.
#[derive(Debug, Clone)]
pub struct RightsScope {
    /// Namespace of the Lease and of the stored state.
    pub namespace: String,
    /// Whether it competes for a Lease.
    pub elects: bool,
    /// Whether backends are objects.
    pub objects: bool,
}

/// What is done to objects that are published.
const PUBLISH: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete"];
const BACKENDS: &str = "gimbal.projectcontour.io";

impl RightsScope {
    /// Returns the rights that are needed. `creates_namespaces`: a backend's policy has namespaces made.
    #[must_use]
    pub fn needed(&self, creates_namespaces: bool) -> Vec<Right> {
        let (slices, own) = ("discovery.k8s.io", &*self.namespace);
        let mut all = Right::each("", &["services", "endpoints"], PUBLISH, "");
        all.extend(Right::each(slices, &["endpointslices"], PUBLISH, ""));
        all.extend(Right::each(slices, &["endpointslices/restricted"], &["create"], ""));
        all.extend(Right::each("", &["endpoints/restricted"], &["create"], ""));
        all.extend(Right::each("", &["namespaces"], &["list", "watch"], ""));
        all.extend(Right::each("", &["configmaps"], &["get", "list", "create", "update", "delete"], own));
        if self.elects {
            all.extend(Right::each("coordination.k8s.io", &["leases"], &["get", "create", "update"], own));
        }
        if creates_namespaces {
            all.extend(Right::each("", &["namespaces"], &["create"], ""));
        }
        if self.objects {
            all.extend(Right::each(BACKENDS, &["backends"], &["list", "watch", "patch"], ""));
            all.extend(Right::each(BACKENDS, &["backends/status"], &["patch"], ""));
            let definition = Right::each("apiextensions.k8s.io", &["customresourcedefinitions"], &["get"], "");
            all.extend(definition.into_iter().map(|right| right.of_object("backends.gimbal.projectcontour.io")));
            // Events about objects that are in no namespace are kept there.
            all.extend(Right::each("", &["events"], &["create", "patch"], "default"));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use gimbal_testkit::Rights;

    use super::*;

    #[test]
    fn what_is_asked_for_is_what_is_deployed() {
        let deployed = |roles: &[&str]| Rights::deployed(roles).unwrap().in_namespace("own").each();
        let needed = |objects, creates_namespaces| {
            let scope = RightsScope { namespace: "own".into(), elects: true, objects };
            scope.needed(creates_namespaces).into_iter().collect::<BTreeSet<_>>()
        };
        assert_eq!(needed(false, false), deployed(&["gimbal-writer"]));
        assert_eq!(needed(true, false), deployed(&["gimbal-writer", "gimbal-writer-backends"]));
        assert_eq!(needed(false, true), deployed(&["gimbal-writer", "gimbal-writer-namespaces"]));
        let alone = RightsScope { namespace: "own".into(), elects: false, objects: false }.needed(false);
        assert!(alone.iter().all(|right| right.resource != "leases"));
    }
}
