//! Which Services get a load balancer.

use gimbal_kuryr_model::{CloudFacts, VipMode};
use gimbal_kuryr_translate::{ControllerSettings, Input, Nodes, NotBalanced, translate, unwanted};
use serde_json::json;

use crate::common::{facts, joined, pod, service, slice};

#[test]
fn by_type_class_and_name() {
    let ours = ControllerSettings { load_balancer_class: Some("ours".into()), ..ControllerSettings::default() };
    let off = ControllerSettings { cluster_ip_services: false, ..ControllerSettings::default() };
    let plain = ControllerSettings::default();
    for (spec, settings, expected) in [
        (json!({}), &plain, None),
        (json!({"type": "ClusterIP"}), &plain, None),
        (json!({"type": null}), &plain, None),
        (json!({"type": "ClusterIP"}), &off, Some(NotBalanced::ClusterIpOff)),
        (json!({}), &off, None),
        (json!({"type": "NodePort"}), &plain, Some(NotBalanced::Type)),
        (json!({"type": "ExternalName"}), &plain, Some(NotBalanced::Type)),
        (json!({"clusterIP": "None"}), &plain, Some(NotBalanced::Headless)),
        (json!({"clusterIP": ""}), &plain, Some(NotBalanced::NoClusterIp)),
        (json!({"loadBalancerClass": "ours"}), &plain, Some(NotBalanced::Class)),
        (json!({"loadBalancerClass": "ours"}), &ours, None),
        (json!({"loadBalancerClass": "theirs"}), &ours, Some(NotBalanced::Class)),
        (json!({}), &ours, None),
    ] {
        assert_eq!(unwanted(&service(spec.clone(), json!({})), settings, None), expected, "{spec}");
    }
}

#[test]
fn by_what_else_is_known() {
    let allocate = CloudFacts { vip: VipMode::Allocate, ..facts() };
    let settings = ControllerSettings::default();
    let of = |service: &_, facts| unwanted(service, &settings, facts);
    let cluster_ip = service(json!({"type": "ClusterIP"}), json!({}));
    assert_eq!(of(&cluster_ip, Some(&allocate)), Some(NotBalanced::Allocated));
    assert_eq!(of(&service(json!({"clusterIP": ""}), json!({})), Some(&allocate)), None);
    let mut api_server = service(json!({}), json!({}));
    api_server.metadata.meta.name = "kubernetes".into();
    assert_eq!(of(&api_server, None), None);
    api_server.metadata.meta.namespace = "default".into();
    assert_eq!(of(&api_server, None), Some(NotBalanced::ApiServer));
    let mut going = service(json!({}), json!({}));
    going.metadata.meta.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
    assert_eq!(of(&going, None), Some(NotBalanced::Deleted));
    let old = service(json!({}), json!({"openstack.org/kuryr-lbaas-spec": "{}"}));
    assert_eq!(of(&old, None), Some(NotBalanced::OldAnnotation));
}

#[test]
fn endpoints_are_waited_for_only_where_that_is_asked_for() {
    let without = joined(service(json!({}), json!({})), vec![slice("a", json!([]))]);
    let with = joined(service(json!({}), json!({})), vec![slice("a", json!([pod("10.1.0.4", "a")]))]);
    for (require_endpoints, exists, joined, made) in [
        (false, false, &without, true),
        (true, false, &without, false),
        (true, true, &without, true),
        (true, false, &with, true),
    ] {
        let settings = ControllerSettings { require_endpoints, ..ControllerSettings::default() };
        let input = Input { joined, nodes: &Nodes::default(), facts: None, settings: &settings, exists, chosen: None };
        let error = translate(&input).err();
        assert_eq!(error, (!made).then_some(NotBalanced::NoEndpoints), "{require_endpoints} {exists}");
    }
}
