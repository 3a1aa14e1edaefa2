use gimbal_kubernetes_objects::{ServicePort, ServiceSpec};

use super::*;

fn service() -> Service {
    let port =
        ServicePort { name: Some("agents".into()), port: 7443, protocol: Some("TCP".into()), ..ServicePort::default() };
    Service {
        metadata: Meta { name: "writer".into(), namespace: "gimbal".into(), uid: "1".into(), ..Meta::default() },
        spec: ServiceSpec { ports: vec![port], ..ServiceSpec::default() },
    }
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Returns the slice as a server has stored it.
fn stored(address: &str) -> EndpointSlice {
    let mut slice = leader_slice(&service(), at(address));
    slice.metadata.uid = "2".into();
    slice.metadata.resource_version = "17".into();
    slice
}

#[test]
fn the_leader_is_the_only_endpoint_of_each_port() {
    let SliceWrite::Create(slice) = decide(&service(), None, at("10.0.0.7:7443")).unwrap() else {
        panic!("not created")
    };
    assert_eq!(
        serde_json::to_value(&slice).unwrap(),
        serde_json::json!({
            "metadata": {
                "name": "writer-leader", "namespace": "gimbal",
                "labels": {
                    "endpointslice.kubernetes.io/managed-by": "gimbal-writer-leader", "kubernetes.io/service-name": "writer",
                },
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.7"], "conditions": {"ready": true}}],
            "ports": [{"name": "agents", "port": 7443, "protocol": "TCP"}],
        })
    );
}

#[test]
fn what_is_right_is_not_written_again() {
    assert_eq!(decide(&service(), Some(stored("10.0.0.7:7443")), at("10.0.0.7:7443")).unwrap(), SliceWrite::None);
}

#[test]
fn the_next_leader_replaces_the_version_that_it_read() {
    let mut found = stored("10.0.0.7:7443");
    found.metadata.labels.insert("of".into(), "somebody".into());
    let SliceWrite::Replace(slice) = decide(&service(), Some(found), at("10.0.0.8:7443")).unwrap() else {
        panic!("not replaced")
    };
    assert_eq!((&*slice.metadata.resource_version, &*slice.metadata.uid), ("17", "2"));
    assert_eq!(&*slice.endpoints[0].addresses[0], "10.0.0.8");
    assert_eq!(slice.metadata.labels.get("of").map(|of| &**of), Some("somebody"));
}

#[test]
fn another_family_needs_another_slice() {
    let found = stored("10.0.0.7:7443");
    let SliceWrite::Delete(meta) = decide(&service(), Some(found), at("[fd00::7]:7443")).unwrap() else {
        panic!("not deleted")
    };
    assert_eq!((&*meta.resource_version, &*meta.uid), ("17", "2"));
}

#[test]
fn nothing_of_others_is_touched() {
    let mut selects = service();
    selects.spec.selector.insert("app".into(), "writer".into());
    assert!(matches!(decide(&selects, None, at("10.0.0.7:7443")), Err(PublishError::HasSelector)));
    let mut mirrored = service();
    mirrored.metadata.labels.insert(keys::MANAGED_BY.into(), keys::MANAGER.into());
    assert!(matches!(decide(&mirrored, None, at("10.0.0.7:7443")), Err(PublishError::Mirrored)));
    let mut strangers = stored("10.0.0.7:7443");
    strangers.metadata.labels.insert(keys::SLICE_MANAGED_BY.into(), "another".into());
    assert!(matches!(decide(&service(), Some(strangers), at("10.0.0.8:7443")), Err(PublishError::NotOurs(_))));
}

#[test]
fn flags_name_a_service_and_an_address_that_others_reach() {
    for wrong in ["", "writer", "/writer", "gimbal/", "Gimbal/writer", "gimbal/writer/leader", "gimbal/-writer"] {
        assert!(wrong.parse::<PublishedService>().is_err(), "{wrong}");
    }
    assert!("gimbal/writer".parse::<PublishedService>().is_ok());
    for wrong in
        ["", "writer:7443", "10.0.0.7:0", "0.0.0.0:7443", "127.0.0.1:7443", "::1", "169.254.169.254", "::ffff:10.0.0.7"]
    {
        assert!(wrong.parse::<Advertised>().is_err(), "{wrong}");
    }
    let listen = at("0.0.0.0:7443");
    for (text, address) in [
        ("10.0.0.7:8443", "10.0.0.7:8443"),
        ("10.0.0.7", "10.0.0.7:7443"),
        ("fd00::7", "[fd00::7]:7443"),
        ("[fd00::7]:8443", "[fd00::7]:8443"),
    ] {
        assert_eq!(text.parse::<Advertised>().unwrap().at(listen), at(address));
    }
}
