//! Ingresses of this class, and of others.

use gimbal_tests::{INGRESSES as PATH, WayBack};
use serde_json::json;

use super::{NO_RULE, Row, Spec, routers};

/// A class of another controller.
pub(super) const OTHER: &str = "other";

pub(super) const INGRESSES: &[Spec] = &[
    Spec {
        name: "class-annotation",
        class: None,
        annotations: &[("kubernetes.io/ingress.class", "kuryr")],
        rules: &[("annotation.class.example", "/", "Prefix", "class-annotation")],
        ..Spec::OURS
    },
    Spec {
        name: "class-missing",
        class: Some("missing"),
        rules: &[("missing.class.example", "/", "Prefix", "class-missing")],
        ..Spec::OURS
    },
    // Without a default class.
    Spec {
        name: "class-none",
        class: None,
        rules: &[("none.class.example", "/", "Prefix", "class-none")],
        ..Spec::OURS
    },
    Spec {
        name: "class-other",
        class: Some(OTHER),
        rules: &[("other.class.example", "/", "Prefix", "class-other")],
        ..Spec::OURS
    },
];
const NOT_OURS: [&str; 3] = ["class-missing", "class-none", "class-other"];

const ROWS: [Row; 4] = [
    ("annotation.class.example", "/", "class-annotation"),
    ("missing.class.example", "/", NO_RULE),
    ("none.class.example", "/", NO_RULE),
    ("other.class.example", "/", NO_RULE),
];

/// The Ingresses of all features were there before the controller was, so those that it serves it has served by now.
pub(super) async fn only_ours_are_served(stage: &WayBack) {
    super::expect(stage, routers::SHARED, &ROWS).await;
    for name in NOT_OURS {
        let ingress = stage.cluster.admin().get(&format!("{PATH}/{name}")).await.unwrap();
        assert_eq!(ingress["status"], json!({"loadBalancer": {}}), "{name} has no address");
        assert!(ingress["metadata"]["finalizers"].is_null(), "{ingress}");
    }
    // Nothing else kept it from being served.
    let path = format!("{PATH}/class-none");
    stage.cluster.admin().patch(&path, &json!({"spec": {"ingressClassName": "kuryr"}})).await.unwrap();
    super::expect(stage, routers::SHARED, &[("none.class.example", "/", "class-none")]).await;
}
