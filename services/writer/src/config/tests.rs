//! Good files, bad files, and what follows from them.

use std::sync::Arc;

use gimbal_link::{Peer, PeerCertificate};

use super::*;

/// DESIGN 6's example.
const FULL: &str = r#"
admins: ["spiffe://gimbal.example/admin"]
denyCertificates: ["sha256:00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF", "serial:00:A1:B2"]
refusedAddresses: ["10.96.0.0/12"]
backends:
- name: node02
  identity: spiffe://gimbal.example/backend/node02
  namespaces: {allow: ["team-*"], deny: ["team-x"], map: {project-a: team-a}, create: false}
  addresses:  {allow: ["10.0.0.0/8", "fd00::/8"]}
  strip:      {labels: [], annotations: ["a.example/*"]}
  quota:      {services: 5000, endpoints: 250000, bytes: 100000000, changesPerSecond: 500}
  onLoss:     {notReadyAfter: 10m, drainAfter: null}
  guard:      {maxDropPercent: 40, minEndpoints: 10, window: 500ms, quietTime: 30s, releaseAllAfter: 1h}
  mode:       admit
- name: osp1
  identity: osp1.backends.gimbal.example
"#;

fn read(text: &str) -> Result<Config, String> {
    file::read(Path::new("gimbal.yaml"), text).map_err(|error| error.to_string())
}

fn peer(sans: &[&str]) -> Peer {
    Peer::Certificate(Arc::new(PeerCertificate {
        sans: sans.iter().map(|san| (*san).to_owned()).collect(),
        fingerprint_sha256: String::new(),
        address: ([192, 0, 2, 1], 1).into(),
    }))
}

/// The backend that a certificate with these names speaks for, or why it speaks for none.
fn speaker(config: &Config, sans: &[&str]) -> Result<String, String> {
    match config.identify(&peer(sans)) {
        Identity::Certified { backend, .. } => backend.map(|backend| backend.name.to_string()),
        Identity::Anyone => panic!("a certificate is somebody's"),
    }
}

#[test]
fn the_whole_schema() {
    let config = read(FULL).unwrap();
    assert_eq!(config.admins, ["spiffe://gimbal.example/admin"]);
    let denied = ["sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", "serial:a1b2"];
    assert_eq!(config.denied, denied.iter().map(|text| text.parse().unwrap()).collect());
    let node02 = &config.backends[0];
    assert_eq!(node02.name.as_str(), "node02");
    assert!(node02.addresses.check("10.96.0.1".parse().unwrap()).is_err(), "refused to all");
    assert!(node02.addresses.check("10.1.0.1".parse().unwrap()).is_ok());
    assert!(node02.addresses.check("192.0.2.1".parse().unwrap()).is_err());
    assert!(node02.strip.labels.is_empty());
    assert_eq!(node02.strip.annotations, [gimbal_plan::Pattern::new("a.example/*")]);
    assert_eq!(node02.quota.changes_per_second, Some(500));
    assert_eq!(node02.on_loss, OnLoss { not_ready_after: Some(Duration::from_secs(600)), drain_after: None });
    assert_eq!(
        node02.guard,
        GuardPolicy {
            max_drop_percent: 40,
            min_endpoints: 10,
            window: Duration::from_millis(500),
            quiet_time: Duration::from_secs(30),
            release_all_after: Some(Duration::from_secs(3600)),
        }
    );
}

#[test]
fn what_is_left_out_has_the_defaults() {
    let config = read(FULL).unwrap();
    let osp1 = &config.backends[1];
    assert_eq!(osp1.namespaces, NamespacePolicy::default());
    assert!(osp1.addresses.check("192.0.2.1".parse().unwrap()).is_ok());
    assert!(osp1.addresses.check("10.96.0.1".parse().unwrap()).is_err());
    assert_eq!(osp1.strip, Strip::default());
    assert_eq!((osp1.quota, osp1.on_loss, osp1.mode), (Quota::default(), OnLoss::default(), Mode::Admit));
    let guard = GuardPolicy {
        max_drop_percent: 50,
        min_endpoints: 20,
        window: Duration::from_secs(60),
        quiet_time: Duration::from_secs(60),
        release_all_after: None,
    };
    assert_eq!(osp1.guard, guard);
    assert!(read("{}").unwrap().backends.is_empty());
}

#[test]
fn bad_files() {
    for (bad, expected) in [
        ("", "gimbal.yaml: is empty: name at least one backend, or write {} for none"),
        ("backends: [", "gimbal.yaml:1:11: unclosed bracket '['"),
        ("backends:\n\t- name: a", "gimbal.yaml:2:2: tabs disallowed within this context (block indentation)"),
        (
            "backend: []",
            "gimbal.yaml:1:1: unknown field `backend`, expected one of admins, denyCertificates, refusedAddresses, backends",
        ),
        ("backends:\n- name: a\n", "gimbal.yaml:2:3: missing field `identity`"),
        (
            "backends:\n- {name: a, identity: a, quotas: {}}",
            "gimbal.yaml:2:26: unknown field `quotas`, expected one of name, identity, namespaces, addresses, strip, quota, onLoss, guard, mode",
        ),
        (
            "backends:\n- {name: Node02, identity: a}",
            "gimbal.yaml:2:10: backend name \"Node02\" is invalid: use lower-case letters, digits and '-', start with a letter, end with a letter or digit, at most 63 characters",
        ),
        (
            "backends:\n- {name: a, identity: 'a b'}",
            "gimbal.yaml:2:23: \"a b\" is no identity: use one URI or DNS name of its certificate, without wildcards",
        ),
        (
            "backends:\n- {name: a, identity: '*.example'}",
            "gimbal.yaml:2:23: \"*.example\" is no identity: use one URI or DNS name of its certificate, without wildcards",
        ),
        (
            "admins: ['spiffe://']",
            "gimbal.yaml:1:10: \"spiffe://\" is no identity: use one URI or DNS name of its certificate, without wildcards",
        ),
        (
            "backends:\n- {name: a, identity: a}\n- {name: a, identity: b}",
            "gimbal.yaml:3:10: two backends have the name a: give one of them another",
        ),
        (
            "backends:\n- {name: a, identity: x}\n- {name: b, identity: X}",
            "gimbal.yaml:3:23: two backends have the identity \"X\": each needs its own",
        ),
        (
            "backends:\n- name: a\n  identity: a\n  guard:\n    maxDropPercent: 101\n",
            "gimbal.yaml:5:21: \"101\" is no percentage: use 0 to 100",
        ),
        (
            "backends:\n- name: a\n  identity: a\n  guard: {maxDropPercent: -1}\n",
            "gimbal.yaml:4:27: \"-1\" is no percentage: use 0 to 100",
        ),
        (
            "backends:\n- name: a\n  identity: a\n  guard: {window: 30}\n",
            "gimbal.yaml:4:19: \"30\" is no duration: a number has no unit; write it like 30s, 10m, 1h30m or 500ms",
        ),
        (
            "backends:\n- name: a\n  identity: a\n  guard: {window: 1w}\n",
            "gimbal.yaml:4:19: \"1w\" is no duration: the unit is not one of d, h, m, s, ms; write it like 30s, 10m, 1h30m or 500ms",
        ),
        (
            "backends:\n- name: a\n  identity: a\n  guard: {window: 99999999999999999h}\n",
            "gimbal.yaml:4:19: \"99999999999999999h\" is no duration: it is too long; write it like 30s, 10m, 1h30m or 500ms",
        ),
        (
            "backends:\n- name: a\n  identity: a\n  onLoss: {drainAfter: soon}\n",
            "gimbal.yaml:4:24: \"soon\" is no duration: a number is missing; write it like 30s, 10m, 1h30m or 500ms",
        ),
        (
            "backends:\n- name: a\n  identity: a\n  addresses: {allow: [10.0.0.0/8, 10.0.0.1]}\n",
            "gimbal.yaml:4:35: \"10.0.0.1\" is no range of addresses: add the length of its prefix, as in 10.0.0.0/8",
        ),
        (
            "refusedAddresses:\n- 10.0.0.0/33\n",
            "gimbal.yaml:2:3: \"10.0.0.0/33\" is no range of addresses: write it as in 10.0.0.0/8",
        ),
        (
            "backends:\n- name: a\n  identity: a\n  namespaces: {allow: ['Team-*']}\n",
            "gimbal.yaml:4:24: namespace pattern \"Team-*\" is invalid: use lower-case letters, digits, '-' and '*'",
        ),
        (
            "backends:\n- name: a\n  identity: a\n  namespaces: {map: {a: B}}\n",
            "gimbal.yaml:4:25: \"B\" is no namespace: use lower-case letters, digits and '-', at most 63",
        ),
        (
            "backends:\n- name: a\n  identity: a\n  mode: off\n",
            "gimbal.yaml:4:9: unknown variant `off`, expected one of admit, quarantine",
        ),
        (
            "backends:\n- name: a\n  identity: a\n  quota: {services: many}\n",
            "gimbal.yaml:4:21: \"many\" is no number: use digits only",
        ),
        (
            "backends:\n- name: a\n  name: b\n  identity: a\n",
            "gimbal.yaml:3:3: duplicate mapping key: name not allowed here",
        ),
        (
            "denyCertificates: ['serial:00', 'serial:0g']",
            "gimbal.yaml:1:33: \"serial:0g\" is no certificate: write serial: and at most 40 hexadecimal digits",
        ),
        (
            "denyCertificates: ['sha256:00']",
            "gimbal.yaml:1:20: \"sha256:00\" is no certificate: write sha256: and 64 hexadecimal digits",
        ),
        (
            "denyCertificates: ['sha256:zz112233445566778899aabbccddeeff00112233445566778899aabbccddeeff']",
            "gimbal.yaml:1:20: \"sha256:zz112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\" is no certificate: write sha256: and 64 hexadecimal digits",
        ),
    ] {
        assert_eq!(read(bad).map(|_| ()), Err(expected.to_owned()), "{bad}");
    }
}

#[test]
fn a_missing_file() {
    assert_eq!(
        Config::load(Path::new("/nowhere/gimbal.yaml")).unwrap_err().to_string(),
        "/nowhere/gimbal.yaml: cannot be read: No such file or directory (os error 2)"
    );
}

#[test]
fn who_speaks() {
    let config = read(FULL).unwrap();
    let (node02, osp1) = ("spiffe://gimbal.example/backend/node02", "osp1.backends.gimbal.example");
    let nobody = |identity: &str| Err(format!("no backend has the identity {identity}"));
    for (sans, expected) in [
        (&[node02][..], Ok("node02".to_owned())),
        (&["other", node02], Ok("node02".to_owned())),
        (&[node02, "localhost", node02], Ok("node02".to_owned())),
        (&["OSP1.backends.gimbal.example"], Ok("osp1".to_owned())), // DNS names know no case,
        (&["spiffe://gimbal.example/backend/NODE02"], nobody("spiffe://gimbal.example/backend/NODE02")), // URIs do.
        (&["spiffe://gimbal.example/backend/node02/x"], nobody("spiffe://gimbal.example/backend/node02/x")),
        (&["spiffe://gimbal.example/admin"], nobody("spiffe://gimbal.example/admin")),
        (&["*.backends.gimbal.example"], nobody("*.backends.gimbal.example")),
        (&["osp1.backends.gimbal.example."], nobody("osp1.backends.gimbal.example.")),
        (&["a", "b"], nobody("a or b")),
        (&[""], nobody("")),
        (&[], Err("the certificate has no URI or DNS name (subject alternative name)".to_owned())),
        (&[osp1, node02], Err("the certificate has the identities of two backends, node02 and osp1".to_owned())),
    ] {
        assert_eq!(speaker(&config, sans), expected, "{sans:?}");
    }
    let unlisted = BackendName::parse("node03").unwrap();
    assert!(config.backend_named(&unlisted).is_none());
    assert!(config.backend_named(&BackendName::parse("node02").unwrap()).is_some());
}

#[test]
fn who_is_an_admin() {
    let config = read(FULL).unwrap();
    let (admin, node02) = ("spiffe://gimbal.example/admin", "spiffe://gimbal.example/backend/node02");
    assert!(config.identify(&peer(&[admin])).is_admin());
    assert!(config.identify(&peer(&[node02, admin])).is_admin());
    assert_eq!(speaker(&config, &[node02, admin]).as_deref(), Ok("node02"), "and a backend as well");
    assert!(!config.identify(&peer(&[node02])).is_admin());
    assert!(!config.identify(&peer(&[])).is_admin());
    assert!(config.identify(&Peer::Loopback).is_admin());
}

#[test]
fn a_first_look_admits_any_name_and_no_certificate() {
    let config = Config::first_look();
    let backend = config.backend_named(&BackendName::parse("node03").unwrap()).unwrap();
    assert_eq!(backend.namespaces.target("default").as_deref(), Ok("default"));
    assert!(speaker(&config, &["anyone"]).is_err());
    assert!(!config.identify(&peer(&["anyone"])).is_admin());
}

#[test]
fn quarantine_is_never_admission() {
    let config = read("backends:\n- {name: a, identity: a, mode: quarantine}").unwrap();
    assert_eq!(speaker(&config, &["a"]), Err("backend a is in quarantine".to_owned()));
    assert!(config.backend_named(&BackendName::parse("a").unwrap()).is_none());
}

#[test]
fn a_list_that_stays_the_same_wakes_nobody() {
    let current = Current::new(read(FULL).unwrap());
    let (mut config, mut denied) = (current.config(), current.denied());
    current.replace(read(FULL).unwrap());
    assert!(config.has_changed().unwrap() && !denied.has_changed().unwrap());
    config.mark_unchanged();
    current.replace(read("{}").unwrap());
    assert!(config.borrow_and_update().backends.is_empty());
    assert!(denied.has_changed().unwrap() && *denied.borrow_and_update() == Denied::default());
}

#[test]
fn what_is_not_enforced_is_said() {
    assert_eq!(read("backends:\n- {name: a, identity: a, onLoss: {}, quota: {}}").unwrap().not_enforced(), [""; 0]);
    let text = FULL.replace("create: false", "create: true").replace("mode:       admit", "mode: quarantine");
    assert_eq!(
        read(&text).unwrap().not_enforced(),
        [
            "quota of backend node02 is not enforced yet: it may publish more",
            "onLoss of backend node02 is not enforced yet: what was last known is held",
            "namespaces.create of backend node02 is not enforced yet: create them yourself",
            "mode quarantine of backend node02 is not there yet: the backend is refused",
        ]
    );
}

#[test]
fn targets() {
    let policy = &read(FULL).unwrap().backends[0].namespaces;
    for (source, expected) in [
        ("team-a", Ok("team-a")),
        ("project-a", Ok("team-a")),
        ("other", Err("namespace \"other\" is not allowed to this backend (namespaces.allow)")),
        ("team-x", Err("namespace \"team-x\" is denied to this backend (namespaces.deny)")),
        ("kube-public", Err("namespace \"kube-public\" is the Gimbal cluster's own (kube-*)")),
        ("../team-a", Err("\"../team-a\" cannot be the name of a namespace; map it to one that can (namespaces.map)")),
    ] {
        let target = policy.target(source).map_err(|refused| refused.to_string());
        assert_eq!(target.as_deref().map_err(String::as_str), expected);
    }
    let all = NamespacePolicy::default();
    assert_eq!(all.target("anything").as_deref(), Ok("anything"));
    assert!(all.target("kube-system").is_err());
    let map = [("kubes".to_owned(), "kube-system".to_owned())].into();
    let to_system = NamespacePolicy { map, ..NamespacePolicy::default() };
    assert!(to_system.target("kubes").is_err(), "not even by a map");
    let none = NamespacePolicy { allow: Some(vec![]), ..NamespacePolicy::default() };
    assert!(none.target("anything").is_err(), "an empty list allows nothing");
}
