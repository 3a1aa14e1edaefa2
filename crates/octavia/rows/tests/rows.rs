//! Recorded rows of both dialects are readable, and an odd row does not affect other rows.
#![allow(clippy::unwrap_used)] // A panic is the report.

use gimbal_octavia_rows::{
    Address, L7Policy, Listener, LoadBalancer, Member, OperatingStatus, Pool, Project, Protocol, ProvisioningStatus,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn read<T: DeserializeOwned>(row: Value) -> T {
    serde_json::from_value(row).unwrap()
}

/// Rows recorded from real Octavia 18.0.1 and neutron-lbaas 14.0.1.
#[test]
fn recorded_rows_of_both_dialects() {
    let octavia: LoadBalancer = read(
        json!({"listeners": [{"id": "l1"}], "pools": [{"id": "p1"}], "id": "5a493979-d7c5-4215-9ed1-60907e9e70b7",
        "name": "lb1", "description": "", "provisioning_status": "PENDING_CREATE", "operating_status": "OFFLINE", "admin_state_up": true,
        "project_id": "e9b7467128c042df97c964218a759567", "created_at": "2026-11-21T04:21:56", "updated_at": null, "vip_address": "10.20.1.41",
        "vip_sg_ids": [], "additional_vips": [], "provider": "lab", "flavor_id": null, "tags": [], "vip_vnic_type": "normal",
        "tenant_id": "e9b7467128c042df97c964218a759567"}),
    );
    let mitaka: LoadBalancer = read(
        json!({"id": "5a493979-d7c5-4215-9ed1-60907e9e70b7", "tenant_id": "e9b7467128c042df97c964218a759567",
        "name": "lb1", "description": "", "vip_subnet_id": "bd56", "vip_address": "10.9.0.239", "operating_status": "ONLINE",
        "provisioning_status": "PENDING_CREATE", "admin_state_up": true, "listeners": [{"id": "l1"}], "pools": [{"id": "p1"}],
        "provider": "loggingnoop"}),
    );
    assert_eq!(octavia, mitaka);
    assert_eq!(octavia.provisioning, ProvisioningStatus::Pending);
    assert_eq!(octavia.project.as_str(), "e9b7467128c042df97c964218a759567");

    let listener: Listener = read(
        json!({"id": "li", "tenant_id": "e9", "name": "li", "default_pool_id": null, "protocol": "HTTP",
        "protocol_port": 80, "connection_limit": -1, "admin_state_up": true, "loadbalancers": [{"id": "9e"}], "sni_container_refs": []}),
    );
    assert_eq!((listener.port, listener.default_pool_id), (Some(80), None));
    assert_eq!((listener.load_balancers.len(), listener.l7_policies), (1, None));
    assert_eq!((listener.provisioning, listener.updated_at), (ProvisioningStatus::Active, None));
    let listener: Listener =
        read(json!({"id": "li", "protocol": "SCTP", "protocol_port": 80, "l7policies": [{"id": "x"}],
        "default_pool_id": "p", "updated_at": "2026-11-21T04:21:57"}));
    assert_eq!(listener.l7_policies.unwrap().len(), 1);
    assert_eq!(listener.updated_at, Some("2026-11-21T04:21:57Z".parse().unwrap()));

    for (monitor, monitored) in
        [(json!({}), false), (json!({"healthmonitor_id": null}), false), (json!({"healthmonitor_id": "h"}), true)]
    {
        let mut row = json!({"id": "po", "protocol": "HTTP", "admin_state_up": true, "members": [{"id": "m"}],
            "loadbalancers": [{"id": "9e"}], "listeners": [{"id": "li"}], "session_persistence": null});
        row.as_object_mut().unwrap().extend(monitor.as_object().unwrap().clone());
        let pool: Pool = read(row);
        assert_eq!((pool.monitored, pool.tls_enabled, pool.admin_state_up), (monitored, false, true));
        assert_eq!((pool.members.len(), pool.operating, pool.updated_at), (1, OperatingStatus::Other, None));
    }

    let member: Member =
        read(json!({"id": "m", "tenant_id": "e9", "address": "10.9.0.9", "protocol_port": 80, "weight": 1,
        "admin_state_up": true, "subnet_id": "bd56", "name": ""}));
    assert_eq!(member.address, Address::Ip("10.9.0.9".parse().unwrap()));
    assert_eq!((member.port, member.weight, member.backup), (Some(80), 1, false));

    let policy: L7Policy =
        read(json!({"id": "x", "listener_id": "li", "action": "REDIRECT_TO_POOL", "redirect_pool_id": "po",
        "position": 1, "admin_state_up": true, "rules": []}));
    assert_eq!(policy.redirect_pool.unwrap().as_str(), "po");
    let policy: L7Policy =
        read(json!({"id": "x", "listeners": [{"id": "li"}], "action": "REJECT", "redirect_pool_id": "po"}));
    assert_eq!((policy.redirect_pool, policy.listener.unwrap().as_str()), (None, "li"));

    let project: Project =
        read(json!({"id": "e9", "name": "alpha", "enabled": true, "domain_id": "default", "links": {"self": "x"}}));
    assert_eq!((project.id.as_str(), &*project.name), ("e9", "alpha"));
}

#[test]
fn what_is_odd_is_read_and_told_apart_later() {
    let member = |field: &str, value: Value| {
        let mut row = json!({"id": "m", "address": "10.0.0.1", "protocol_port": 80});
        row[field] = value;
        read::<Member>(row)
    };
    for (value, expected) in [
        (json!("db.example"), Address::Unreadable("db.example".into())),
        (json!("10.0.0.1/32"), Address::Unreadable("10.0.0.1/32".into())),
        (json!(""), Address::Missing),
        (json!(null), Address::Missing),
        (json!("fd00::1"), Address::Ip("fd00::1".parse().unwrap())),
    ] {
        assert_eq!(member("address", value.clone()).address, expected, "{value}");
    }
    for (value, expected) in
        [(json!(null), None), (json!(0), None), (json!(-1), None), (json!(65536), None), (json!(65535), Some(65535))]
    {
        assert_eq!(member("protocol_port", value.clone()).port, expected, "{value}");
    }
    for (value, expected) in [(json!(null), 1), (json!(0), 0), (json!(-1), 0), (json!(256), 256)] {
        assert_eq!(member("weight", value.clone()).weight, expected, "{value}");
    }
    assert!(member("admin_state_up", json!(null)).admin_state_up);
    assert!(!member("backup", json!(null)).backup);
    assert_eq!(member("operating_status", json!("DRAINING")).operating, OperatingStatus::Other);
    assert_eq!(member("operating_status", json!("ERROR")).operating, OperatingStatus::Error);
    let pool: Pool = read(json!({"id": "p", "protocol": "QUIC", "updated_at": "yesterday", "members": null}));
    assert_eq!((pool.protocol, pool.updated_at), (Protocol::Other("QUIC".into()), None));
    let unnamed: LoadBalancer = read(json!({"id": "p", "project_id": "x", "name": null}));
    assert_eq!(&*unnamed.name, "");
}

#[test]
fn what_cannot_be_read_says_what_is_wrong() {
    fn error<T: DeserializeOwned>(row: Value) -> String {
        serde_json::from_value::<T>(row).err().unwrap().to_string()
    }
    assert_eq!(error::<Pool>(json!({"protocol": "TCP"})), "missing field `id`");
    assert_eq!(error::<LoadBalancer>(json!({"id": "a"})), "missing field `project_id`, and `tenant_id` too");
    assert!(error::<Member>(json!({"id": "m", "protocol_port": "80"})).contains("invalid type: string \"80\""));
    for id in ["", "../x", "a/b", "a b", "-a", "ä", &"x".repeat(65)] {
        assert!(error::<Project>(json!({"id": id})).ends_with("starting with a letter or digit"), "{id}");
    }
}
