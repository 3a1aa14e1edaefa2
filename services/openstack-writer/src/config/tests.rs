//! Tests of the configuration file.

use std::sync::Arc;

use gimbal_kuryr_model::{MemberAddressing, MemberMode, VipMode};
use gimbal_octavia_registry::OwnPort;
use gimbal_transport::PeerCertificate;

use super::*;

fn read(text: &str) -> Result<ClustersConfig, String> {
    ClustersConfig::parse(Path::new("clusters.yaml"), text).map_err(|error| error.to_string())
}

const FULL: &str = include_str!("../../../../deploy/examples/openstack-writer.yaml");

#[test]
fn the_example() {
    let config = read(FULL).unwrap();
    assert!(config.admins.iter().map(AdminPrincipal::as_str).eq(["spiffe://gimbal.example/admin"]));
    let [cluster] = &config.clusters[..] else { panic!("one cluster") };
    assert_eq!((cluster.name.as_str(), cluster.uid.as_deref(), cluster.quarantine), ("prod1", None, false));
    assert!(cluster.former_uids.is_empty());
    let policy = &cluster.policy;
    assert_eq!(policy.provider, None, "Kuryr's `default`");
    assert_eq!(
        (policy.vip, policy.own_port, policy.members),
        (VipMode::ClusterIp, OwnPort::LoadBalancer, MemberMode::Pod)
    );
    assert_eq!(policy.defaults.algorithm, None, "the provider's");
    assert_eq!(policy.quota, crate::policy::ClusterQuota::default(), "the example holds the defaults");
    assert_eq!(cluster.guards, ClusterGuards::default());
}

/// The error for an unknown key lists the keys that there are.
#[test]
fn the_example_names_every_key() {
    let cluster = |rest: &str| format!("clusters: [{{name: a, identity: a, {rest}}}]");
    let sections = [
        "neutron_defaults",
        "octavia_defaults",
        "kubernetes",
        "pod_vif_nested",
        "vif_pool",
        "projects",
        "vip",
        "podSubnets",
        "members",
        "floating",
        "providers",
        "quota",
        "guard",
    ];
    let wrong = sections.map(|section| cluster(&format!("{section}: {{unknown: 1}}")));
    for text in wrong.iter().map(String::as_str).chain(["unknown: 1", &cluster("unknown: 1")]) {
        let error = read(text).unwrap_err();
        let (_, keys) = error.split_once("expected one of ").or_else(|| error.split_once("expected ")).unwrap();
        for key in keys.split(", ") {
            let key = key.trim_matches('`');
            assert!(FULL.contains(&format!("{key}:")), "{key} is missing in the example ({error})");
        }
    }
}

#[test]
fn bad_files() {
    for (bad, expected) in [
        ("", "clusters.yaml: is empty: name at least one cluster, or write {} for none"),
        ("clusters: [", "clusters.yaml:1:11: "),
        ("clusters:\n- identity: a\n", "clusters.yaml:2:3: missing field `name`"),
        (
            "clusters:\n- name: a\n  identity: a\n",
            "clusters.yaml:2:9: neutron_defaults.project of a: name the project of its load balancers",
        ),
        (
            "clusters:\n- {name: a, identity: a, neutron_defaults: {project: p}}\n- {name: a, identity: b}\n",
            "clusters.yaml:3:10: two clusters have the name a: give one of them another",
        ),
        (
            "clusters:\n- {name: a, identity: A}\n- {name: b, identity: a}\n",
            "clusters.yaml:3:23: two clusters have the identity \"a\": each needs its own",
        ),
        (
            "admins: [Boss]\nclusters:\n- {name: a, identity: boss}\n",
            "clusters.yaml:3:23: the identity \"boss\" is one of admins: a cluster must not have an administrator's",
        ),
        (
            "clusters:\n- {name: a, identity: a, clusterUid: u1, formerUids: [u0, u1]}\n",
            "clusters.yaml:2:59: formerUids of a has its clusterUid \"u1\": take it out of one of them",
        ),
        (
            "clusters:\n- name: a\n  identity: a\n  neutron_defaults: {projekt: p}\n",
            "clusters.yaml:4:22: unknown field `projekt`, expected one of project, service_subnet, ",
        ),
        (
            "clusters:\n- name: a\n  identity: a\n  octavia_defaults: {member_mode: L4}\n",
            "clusters.yaml:4:35: \"L4\" is no member_mode: use L2 or L3",
        ),
        (
            "clusters:\n- name: a\n  identity: a\n  octavia_defaults: {lb_algorithm: RANDOM}\n",
            "clusters.yaml:4:36: \"RANDOM\" is no lb_algorithm: use ROUND_ROBIN, LEAST_CONNECTIONS, SOURCE_IP or SOURCE_IP_PORT",
        ),
        (
            "clusters:\n- name: a\n  identity: a\n  members: {allow: [10.0.0.1]}\n",
            "clusters.yaml:4:21: members: \"10.0.0.1\" is no range of addresses: write it as in 10.0.0.0/8",
        ),
        (
            "clusters:\n- name: a\n  identity: a\n  neutron_defaults: {project: p}\n  guard: {window: 1ms}\n",
            "clusters.yaml:5:19: guard.window: shorter than 1s, which would hold nothing: make it longer",
        ),
        (
            "clusters:\n- name: a\n  identity: a\n  neutron_defaults: {project: p}\n  guard: {maxDropPercent: 101}\n",
            "clusters.yaml:5:27: guard.maxDropPercent: 101 is no percentage: use 0 to 100",
        ),
        (
            "clusters:\n- name: a\n  identity: a\n  kuryrConf: /nowhere/kuryr.conf\n",
            "clusters.yaml:4:14: kuryrConf: /nowhere/kuryr.conf cannot be read: ",
        ),
    ] {
        let error = read(bad).map(|_| ()).unwrap_err();
        assert!(error.starts_with(expected), "{bad}\n{error}");
    }
}

/// Whoever has the key of an authority can sign any name, and no certificate that was signed before.
#[test]
fn an_admin_may_be_one_certificate() {
    let fingerprint = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    let config = read(&format!("admins: ['sha256:{}']\nclusters: []\n", fingerprint.to_uppercase())).unwrap();
    let is_admin = |fingerprint: &str| {
        let certificate = PeerCertificate {
            sans: vec!["spiffe://gimbal.example/admin".to_owned()],
            fingerprint_sha256: fingerprint.to_owned(),
            not_after: std::time::SystemTime::UNIX_EPOCH,
            address: ([192, 0, 2, 1], 1).into(),
        };
        config.identify(&Peer::Certificate(Arc::new(certificate))).is_admin()
    };
    assert!(is_admin(fingerprint));
    assert!(!is_admin(&fingerprint.replace("00", "01")));
    let error = read("admins: ['sha256:0011']\nclusters: []\n").map(|_| ()).unwrap_err();
    assert!(error.contains("write sha256: and 64 hexadecimal digits"), "{error}");
}

/// They become parts of requests, and of what controllers receive.
#[test]
fn texts_that_openstack_cannot_have_are_refused_by_line_and_key() {
    let in_cluster = |key: &str| format!("clusters:\n- name: a\n  identity: a\n  {key}\n");
    for (key, problem) in [
        ("neutron_defaults: {project: ../x}", "neutron_defaults.project: \"../x\" is not an ID"),
        ("neutron_defaults: {project: a/b}", "neutron_defaults.project: \"a/b\" is not an ID"),
        ("neutron_defaults: {service_subnet: 'a b'}", "neutron_defaults.service_subnet: \"a b\" is not an ID"),
        ("neutron_defaults: {pod_subnet: a?b}", "neutron_defaults.pod_subnet: \"a?b\" is not an ID"),
        (
            "neutron_defaults: {pod_security_groups: [a, ..]}",
            "neutron_defaults.pod_security_groups: \"..\" is not an ID",
        ),
        ("neutron_defaults: {external_svc_net: 'é'}", "neutron_defaults.external_svc_net: \"é\" is not an ID"),
        ("neutron_defaults: {external_svc_subnet: a#b}", "neutron_defaults.external_svc_subnet: \"a#b\" is not an ID"),
        ("neutron_defaults: {resource_tags: ['a,b']}", "neutron_defaults.resource_tags: \"a,b\" has a comma"),
        (
            "neutron_defaults: {resource_tags: ['k8s-svc-uid:x']}",
            "neutron_defaults.resource_tags: \"k8s-svc-uid:x\" is what",
        ),
        (
            "kubernetes: {endpoints_driver_octavia_provider: ' ovn'}",
            "kubernetes.endpoints_driver_octavia_provider: \" ovn\"",
        ),
        ("pod_vif_nested: {worker_nodes_subnets: [a/b]}", "pod_vif_nested.worker_nodes_subnets: \"a/b\" is not an ID"),
        ("projects: {allow: [p, '']}", "projects.allow: a value is empty"),
        ("projects: {allow: [../x]}", "projects.allow: \"../x\" is not an ID"),
        ("formerProjects: [../x]", "formerProjects: \"../x\" is not an ID"),
        ("certificates: {allow: ['https://x /y']}", "certificates.allow: \"https://x /y\" has a blank"),
        ("vip: {subnets: [a/b]}", "vip.subnets: \"a/b\" is not an ID"),
        ("vip: {networks: [a/b]}", "vip.networks: \"a/b\" is not an ID"),
        ("vip: {ports: [a/b]}", "vip.ports: \"a/b\" is not an ID"),
        ("podSubnets: {subnetPool: a/b}", "podSubnets.subnetPool: \"a/b\" is not an ID"),
        ("podSubnets: {router: a/b}", "podSubnets.router: \"a/b\" is not an ID"),
        ("floating: {allow: [a/b]}", "floating.allow: \"a/b\" is not an ID"),
        ("providers: {allow: ['']}", "providers.allow: a value is empty"),
        ("providers: {flavors: [a/b]}", "providers.flavors: \"a/b\" is not an ID"),
        ("providers: {availabilityZones: ['a ']}", "providers.availabilityZones: \"a \" begins or ends with a blank"),
        ("classes: {c: {network: a/b}}", "classes.*.network: \"a/b\" is not an ID"),
        ("classes: {'': {}}", "classes: a value is empty"),
        ("clusterUid: a,b", "clusterUid: \"a,b\" is not an ID"),
        ("formerUids: [a, 'b c']", "formerUids: \"b c\" is not an ID"),
        ("sharedGroups: {web: [team2]}", "sharedGroups: \"web\" is no group: write it as NAMESPACE/NAME"),
        ("sharedGroups: {team1/web: [Team]}", "sharedGroups.*: \"Team\" can match no namespace"),
    ] {
        let error = read(&in_cluster(key)).map(|_| ()).unwrap_err();
        let (place, said) = error.split_once(": ").unwrap();
        assert!(place.starts_with("clusters.yaml:4:") && said.starts_with(problem), "{key}\n{error}");
    }
    // What is left empty is not given.
    let empty = "neutron_defaults: {project: p, service_subnet: '', pod_subnet: null}\n  clusterUid: ''";
    let config = read(&in_cluster(empty)).unwrap();
    let cluster = &config.clusters[0];
    assert_eq!((&cluster.uid, &cluster.policy.service_subnet, &cluster.policy.pod_subnet), (&None, &None, &None));
    // As Keystone, Octavia and Neutron write theirs.
    let good = "neutron_defaults: {project: 8f0c8cf8d7c84bbab9e8e8a8a3f0b1c2, service_subnet: 2b1e9d4e-3f4e-4ac0-9d3b-6d1d2b6f0a11, \
                resource_tags: [mine, 'team:a']}\n  providers: {availabilityZones: ['zone 1']}\n  certificates: {allow: ['*', \
                'https://barbican:9311/v1/containers/*']}\n  sharedGroups: {team1/web: ['*', shop-*]}";
    assert!(read(&in_cluster(good)).is_ok());
}

const KURYR: &str = "\
[DEFAULT]
debug = true
[neutron_defaults]
project = from-conf
service_subnet: conf-subnet
# a comment
pod_security_groups = one,
    two
external_svc_net =
external_svc_subnet = outside
l7_router_ip = 203.0.113.9
[octavia_defaults]
member_mode = L2
timeout_client_data = 50000
[kubernetes]
endpoints_driver_octavia_provider = ovn
enable_ingress = True
[vif_pool]
ports_pool_batch = 7
";

#[test]
fn kuryrs_own_file_is_read_and_the_yaml_wins() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("kuryr.conf"), KURYR).unwrap();
    let text = "clusters:\n- name: a\n  identity: a\n  kuryrConf: kuryr.conf\n  neutron_defaults: {service_subnet: yaml-subnet}\n";
    let config = ClustersConfig::parse(&dir.path().join("clusters.yaml"), text).unwrap();
    let policy = &config.clusters[0].policy;
    assert_eq!((&*policy.project, policy.service_subnet.as_deref()), ("from-conf", Some("yaml-subnet")));
    assert_eq!(policy.security_groups, ["one".into(), "two".into()]);
    assert_eq!((policy.external_network.as_deref(), policy.provider.as_deref()), (None, Some("ovn")));
    assert_eq!((policy.defaults.addressing, policy.defaults.timeout_client_data), (MemberAddressing::L2, 50000));
    let address = policy.l7_router_ip.map(|address| address.to_string());
    assert_eq!((policy.enable_ingress, address.as_deref()), (true, Some("203.0.113.9")));
    assert_eq!(policy.external_subnet.as_deref(), Some("outside"));
    for (bad, expected) in [
        (
            "[octavia_defaults]\nmember_mode = L4\n",
            "kuryr.conf:2:1: [octavia_defaults] member_mode: \"L4\" is not valid",
        ),
        (
            "[kubernetes]\nenable_ingress = maybe\n",
            "kuryr.conf:2:1: [kubernetes] enable_ingress: \"maybe\" is not valid",
        ),
        ("[neutron_defaults]\nproject = ../x\n", "kuryr.conf:2:1: neutron_defaults.project: \"../x\" is not an ID"),
        (
            "[pod_vif_nested]\nworker_nodes_subnets = a,'b/c'\n",
            "kuryr.conf:2:1: pod_vif_nested.worker_nodes_subnets: \"b/c\" is not an ID",
        ),
        ("[kubernetes\n", "kuryr.conf:1:1: is neither [section] nor key = value"),
        ("  more\n", "kuryr.conf:1:1: continues no key"),
        ("root:x:0:0:root:/root:/bin/bash\n", "kuryr.conf:1:1: is in no section: is this a kuryr.conf?"),
    ] {
        std::fs::write(dir.path().join("kuryr.conf"), bad).unwrap();
        let error = ClustersConfig::parse(&dir.path().join("clusters.yaml"), text).unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
    }
}

#[test]
fn a_missing_file() {
    let error = std::fs::read_to_string("/nowhere/clusters.yaml").unwrap_err();
    let error = ClustersConfig::unreadable(Path::new("/nowhere/clusters.yaml"), &error).to_string();
    assert_eq!(error, "/nowhere/clusters.yaml: cannot be read: No such file or directory (os error 2)");
}
