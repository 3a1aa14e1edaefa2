//! What the charts grant: no more than a program needs, and what is optional only where it is wanted.

use std::collections::BTreeSet;

use gimbal_deploy_tests::{Chart, PROGRAMS, list, of_kind, text};
use serde_json::{Value, json};

/// Returns what a chart's objects allow, as `verb resource`; of ClusterRoles and Roles that are bound to the pod's account.
fn allowed(objects: &[Value]) -> BTreeSet<String> {
    let pod = &of_kind(objects, "Deployment").next().unwrap()["spec"]["template"]["spec"];
    let namespace = &of_kind(objects, "Deployment").next().unwrap()["metadata"]["namespace"];
    let mut allowed = BTreeSet::new();
    for (binding, role) in [("ClusterRoleBinding", "ClusterRole"), ("RoleBinding", "Role")] {
        for bound in of_kind(objects, binding) {
            let subject = &bound["subjects"][0];
            assert_eq!((&subject["name"], &subject["namespace"]), (&pod["serviceAccountName"], namespace));
            assert_eq!(bound["roleRef"]["kind"], role);
            let role =
                of_kind(objects, role).find(|role| role["metadata"]["name"] == bound["roleRef"]["name"]).unwrap();
            assert_eq!(role["metadata"]["namespace"], bound["metadata"]["namespace"]);
            for rule in list(&role["rules"]) {
                let named = if rule["resourceNames"].is_null() { "" } else { " by name" };
                for resource in list(&rule["resources"]) {
                    allowed
                        .extend(list(&rule["verbs"]).map(|verb| format!("{} {}{named}", text(verb), text(resource))));
                }
            }
        }
    }
    allowed
}

/// Secrets hold the policy of the writer and everyone's keys; Pods show more than a program needs. Who serves Ingresses reads their
/// certificates, and who runs discoverers has their Secrets in a namespace of its own.
#[test]
fn no_program_may_read_secrets_or_pods_or_everything() {
    let of_discoverers =
        json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch", "create", "patch", "delete"]});
    let certificates = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]});
    for chart in PROGRAMS.into_iter().flat_map(|program| Chart::examples(program).unwrap()) {
        let objects = chart.render().unwrap();
        let roles = of_kind(&objects, "ClusterRole").chain(of_kind(&objects, "Role"));
        let of_ingress = |role: &Value| text(&role["metadata"]["name"]).ends_with("-kuryr-controller-ingress");
        let rules = roles.flat_map(|role| list(&role["rules"]).map(move |rule| (role, rule)));
        let is_own = |role: &Value, rule: &Value| {
            chart.name == "gimbal-operator" && role["kind"] == "Role" && *rule == of_discoverers
        };
        let rules = rules.filter(|(role, rule)| !is_own(role, rule));
        for (_, rule) in rules.filter(|(role, rule)| !of_ingress(role) || **rule != certificates) {
            for word in ["resources", "verbs", "apiGroups"].into_iter().flat_map(|part| list(&rule[part])).map(text) {
                let refused = ["secrets", "pods", "*", "escalate", "bind", "impersonate"];
                assert!(!refused.contains(&word), "{chart:?}: {rule}");
            }
        }
    }
}

#[test]
fn what_is_optional_is_granted_only_where_it_is_wanted() {
    for (program, value, further) in [
        ("gimbal-writer", "rights.createNamespaces=true", &["create namespaces"][..]),
        (
            "gimbal-writer",
            "backends=\"objects\"",
            &[
                "create events",
                "get customresourcedefinitions by name",
                "list backends",
                "patch backends",
                "patch backends/status",
                "patch events",
                "watch backends",
            ],
        ),
        ("gimbal-kubernetes-discoverer", "writeEvents=true", &["create events", "patch events", "get services"]),
        ("gimbal-kuryr-controller", "rights.nodes=true", &["list nodes", "watch nodes"]),
        (
            "gimbal-kuryr-controller",
            "ingress.enabled=true",
            &[
                "create kuryrl7routers",
                "delete kuryrl7routers",
                "get ingressclasses",
                "get ingresses",
                "get kuryrl7routers",
                "get secrets",
                "list ingressclasses",
                "list ingresses",
                "list kuryrl7routers",
                "list secrets",
                "patch ingresses",
                "patch ingresses/status",
                "patch kuryrl7routers",
                "patch kuryrl7routers/status",
                "watch ingressclasses",
                "watch ingresses",
                "watch kuryrl7routers",
                "watch secrets",
            ],
        ),
    ] {
        let least = Chart::example(program, "minimal.yaml");
        let without = allowed(&least.render().unwrap());
        let with = allowed(&least.set(value).render().unwrap());
        let added: BTreeSet<&str> = with.difference(&without).map(String::as_str).collect();
        assert!(!without.is_empty(), "{program}");
        assert_eq!(added, further.iter().copied().collect(), "{program}");
    }
}

/// Neither an API server's token nor a right, where a program has no use for one.
#[test]
fn who_needs_no_cluster_has_no_rights_in_it() {
    let kubeconfig = Chart::example("gimbal-kubernetes-discoverer", "kubeconfig.yaml");
    let openstack = ["gimbal-openstack-discoverer", "gimbal-openstack-writer"];
    let charts = openstack.into_iter().flat_map(|program| Chart::examples(program).unwrap());
    for chart in charts.chain([kubeconfig]) {
        let objects = chart.render().unwrap();
        let kinds: Vec<&str> = objects.iter().map(|object| text(&object["kind"])).collect();
        assert!(kinds.iter().all(|kind| !kind.contains("Role") && *kind != "FlowSchema"), "{chart:?}: {kinds:?}");
        let pod = &of_kind(&objects, "Deployment").next().unwrap()["spec"]["template"]["spec"];
        assert_eq!(pod["automountServiceAccountToken"], false, "{chart:?}");
    }
}

/// The Lease's priority is that of the account which renews it.
#[test]
fn the_priority_of_a_lease_is_the_accounts() {
    for program in ["gimbal-writer", "gimbal-kuryr-controller"] {
        let chart = Chart { release: "other", namespace: "elsewhere", ..Chart::example(program, "minimal.yaml") };
        let objects = chart.render().unwrap();
        let rule = &of_kind(&objects, "FlowSchema").next().unwrap()["spec"]["rules"][0];
        let account = &rule["subjects"][0]["serviceAccount"];
        let pod = &of_kind(&objects, "Deployment").next().unwrap()["spec"]["template"]["spec"];
        assert_eq!((&account["name"], text(&account["namespace"])), (&pod["serviceAccountName"], "elsewhere"));
        assert_eq!(rule["resourceRules"][0]["namespaces"][0], "elsewhere");
    }
}
