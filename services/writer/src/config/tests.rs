//! Good files, bad files, and what follows from them.

use std::sync::Arc;

use gimbal_guard::{Floors, GuardConfig};
use gimbal_model::AddressRules;
use gimbal_reconcile::{LossPolicy, Mode, Quota, RemovalPolicy};
use gimbal_transport::{Peer, PeerCertificate};

use super::*;

/// A configuration with every key.
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
  keep:       {labels: null, annotations: []}
  appProtocol: {grpc: kubernetes.io/h2c, mysql: null}
  quota:      {services: 5000, endpoints: 250000, bytes: 100000000, changesPerSecond: 500}
  onLoss:     {notReadyAfter: 10m, drainAfter: null, sourceStaleAfter: 2m}
  onRemoval:  {notReadyFor: 1h}
  guard:      {maxDropPercent: 40, minEndpoints: 10, window: 1500ms, quietTime: 30s, releaseAllAfter: 1h, floors: {endpointsPerNamespace: 3, endpointsPerService: 1}, readiness: true}
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
        not_after: std::time::SystemTime::UNIX_EPOCH,
        address: ([192, 0, 2, 1], 1).into(),
    }))
}

/// Returns the backend that a certificate with these names speaks for, or why it speaks for none.
fn speaker(config: &Config, sans: &[&str]) -> Result<String, String> {
    match config.identify(&peer(sans)) {
        Identity::Certified { tenant, .. } => tenant.map(|backend| backend.name.to_string()),
        Identity::Anyone => panic!("a certificate is somebody's"),
    }
}

#[test]
fn the_whole_schema() {
    let config = read(FULL).unwrap();
    assert!(config.admins.iter().map(AdminPrincipal::as_str).eq(["spiffe://gimbal.example/admin"]));
    let denied = ["sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", "serial:a1b2"];
    assert_eq!(config.denied, denied.iter().map(|text| text.parse().unwrap()).collect());
    let node02 = &config.backends[0];
    assert_eq!(node02.name.as_str(), "node02");
    let policy = &node02.policy;
    assert!(policy.addresses.check("10.96.0.1".parse().unwrap()).is_err(), "refused to all");
    assert!(policy.addresses.check("10.1.0.1".parse().unwrap()).is_ok());
    assert!(policy.addresses.check("192.0.2.1".parse().unwrap()).is_err());
    assert!(policy.strip.labels.is_empty());
    assert_eq!(policy.strip.annotations, [gimbal_plan::Pattern::new("a.example/*")]);
    assert_eq!(policy.keep, gimbal_plan::Keep { labels: None, annotations: Some(Vec::new()) });
    let protocols = [("grpc", Some("kubernetes.io/h2c")), ("mysql", None)];
    let protocols = protocols.into_iter().map(|(from, to)| (from.into(), to.map(Into::into))).collect();
    assert_eq!(policy.app_protocols, protocols);
    assert_eq!(policy.namespaces.target("project-a", None).as_deref(), Ok("team-a"));
    assert!(policy.namespaces.target("team-x", None).is_err());
    assert!(!policy.namespaces.create);
    let quota = Quota {
        services: Some(5000),
        endpoints: Some(250_000),
        bytes: Some(100_000_000),
        changes_per_second: Some(500),
    };
    assert_eq!((policy.quota, policy.mode), (quota, Mode::Admit));
    let seconds = Duration::from_secs;
    assert_eq!(
        policy.on_loss,
        LossPolicy { not_ready_after: Some(seconds(600)), drain_after: None, source_stale_after: Some(seconds(120)) }
    );
    assert_eq!(policy.on_removal, RemovalPolicy { not_ready_for: seconds(3600) });
    assert_eq!(
        policy.guard,
        GuardConfig {
            max_drop_percent: 40,
            min_endpoints: 10,
            window: Duration::from_millis(1500),
            quiet_time: seconds(30),
            release_all_after: Some(seconds(3600)),
            floors: Floors { endpoints_per_namespace: 3, endpoints_per_service: 1 },
            readiness: true,
        }
    );
}

#[test]
fn what_is_left_out_has_the_defaults() {
    let config = read(FULL).unwrap();
    let refused = AddressRules { refused: vec!["10.96.0.0/12".parse().unwrap()], allowed: None };
    assert_eq!(config.backends[1].policy, Policy { addresses: refused, ..Policy::default() });
    let guard = GuardConfig {
        max_drop_percent: 50,
        min_endpoints: 20,
        window: Duration::from_secs(60),
        quiet_time: Duration::from_secs(60),
        release_all_after: None,
        floors: Floors { endpoints_per_namespace: 0, endpoints_per_service: 0 },
        readiness: false,
    };
    assert_eq!(Policy::default().guard, guard);
    assert_eq!(Policy::default().on_removal, RemovalPolicy { not_ready_for: Duration::from_secs(60) });
    assert!(read("{}").unwrap().backends.is_empty());
}

/// Each key of a backend, as it is written in a file and in an object.
const SECTIONS: [(&str, &str); 12] = [
    ("", "{}"),
    (
        r#"namespaces: {allow: ["team-*"], deny: ["team-x"], map: {project-a: team-a}, create: true}"#,
        r#"{"namespaces": {"allow": ["team-*"], "deny": ["team-x"], "map": {"project-a": "team-a"}, "create": true}}"#,
    ),
    (r#"addresses: {allow: ["10.0.0.0/8", "fd00::/8"]}"#, r#"{"addresses": {"allow": ["10.0.0.0/8", "fd00::/8"]}}"#),
    (
        r#"strip: {labels: [], annotations: ["a.example/*"]}"#,
        r#"{"strip": {"labels": [], "annotations": ["a.example/*"]}}"#,
    ),
    ("keep: {labels: [a], annotations: null}", r#"{"keep": {"labels": ["a"]}}"#),
    (
        "appProtocol: {grpc: kubernetes.io/h2c, mysql: null}",
        r#"{"appProtocol": {"grpc": "kubernetes.io/h2c", "mysql": ""}}"#,
    ),
    (
        "quota: {services: 1, endpoints: 2, bytes: 3, changesPerSecond: 4}",
        r#"{"quota": {"services": 1, "endpoints": 2, "bytes": 3, "changesPerSecond": 4}}"#,
    ),
    (
        "onLoss: {notReadyAfter: 10m, drainAfter: 1d, sourceStaleAfter: 2m}",
        r#"{"onLoss": {"notReadyAfter": "10m", "drainAfter": "24h", "sourceStaleAfter": "2m"}}"#,
    ),
    ("onRemoval: {notReadyFor: 0s}", r#"{"onRemoval": {"notReadyFor": "0s"}}"#),
    (
        "guard: {maxDropPercent: 40, minEndpoints: 10, window: 1500ms, quietTime: 30s, releaseAllAfter: 1h}",
        r#"{"guard": {"maxDropPercent": 40, "minEndpoints": 10, "window": "1500ms", "quietTime": "30s", "releaseAllAfter": "1h"}}"#,
    ),
    (
        "guard: {floors: {endpointsPerNamespace: 3, endpointsPerService: 1}, readiness: true}",
        r#"{"guard": {"floors": {"endpointsPerNamespace": 3, "endpointsPerService": 1}, "readiness": true}}"#,
    ),
    ("mode: quarantine", r#"{"mode": "quarantine"}"#),
];

fn from_object(spec: &str) -> BackendConfig {
    let mut spec: serde_json::Value = serde_json::from_str(spec).unwrap();
    spec["identity"] = "a".into();
    let object = serde_json::json!({"metadata": {"name": "a"}, "spec": spec});
    let object: gimbal_backend::BackendResource = serde_json::from_value(object).unwrap();
    BackendConfig::new(object.name().unwrap(), object.read_spec().unwrap(), &["10.96.0.0/12".parse().unwrap()])
}

#[test]
fn a_file_and_an_object_give_the_same_policy() {
    let mut keys = std::collections::BTreeSet::new();
    let mut policies = Vec::new();
    for (file, object) in SECTIONS {
        let text = format!("refusedAddresses: [10.96.0.0/12]\nbackends:\n- name: a\n  identity: a\n  {file}\n");
        let config = read(&text).unwrap();
        assert_eq!(config.backends[0], from_object(object), "{file}");
        assert!(!policies.contains(&config.backends[0].policy), "another one changes nothing: {file}");
        policies.push(config.backends[0].policy.clone());
        keys.extend(file.split_once(':').map(|(key, _)| key));
    }
    // As `bad_files` has it, the keys of a backend but for its name and its identity.
    let all =
        ["addresses", "appProtocol", "guard", "keep", "mode", "namespaces", "onLoss", "onRemoval", "quota", "strip"];
    assert!(keys.iter().eq(&all), "{keys:?}");
}

#[test]
fn beside_objects_a_file_names_no_backend() {
    let error = read(FULL).unwrap().without_backends().unwrap_err().to_string();
    assert!(error.starts_with("backends: node02: backends are objects (--backends objects)"), "{error}");
    let rest = read("admins: [a]").unwrap();
    assert_eq!(rest.clone().without_backends(), Ok(rest));
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
            "gimbal.yaml:2:26: unknown field `quotas`, expected one of name, identity, namespaces, addresses, strip, keep, appProtocol, quota, onLoss, onRemoval, guard, mode",
        ),
        (
            "backends:\n- {name: a, identity: a, appProtocol: {grpc: 'h 2'}}",
            "gimbal.yaml:2:46: \"h 2\" is no appProtocol: write it as in kubernetes.io/h2c, or null for none",
        ),
        (
            "backends:\n- name: a\n  identity: a\n  onLoss: {notReadyAfter: 500ms}",
            "gimbal.yaml:4:11: onLoss of a: a time shorter than 1s: the agent's mere reconnect would count as a loss; make it longer",
        ),
        (
            "backends:\n- name: a\n  identity: a\n  onLoss: {sourceStaleAfter: 0s}",
            "gimbal.yaml:4:11: onLoss of a: sourceStaleAfter is shorter than 1s: the source would always count as silent; make it longer",
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
            "gimbal.yaml:4:24: namespace pattern \"Team-*\" is invalid: use lower-case letters, digits, '-' and '*', no '-' at either end, at most 63 characters \
             besides '*'",
        ),
        (
            "backends:\n- name: a\n  identity: a\n  namespaces: {map: {a: B}}\n",
            "gimbal.yaml:4:25: \"B\" is no namespace: use lower-case letters, digits and '-', at most 63",
        ),
        (
            "backends:\n- name: a\n  identity: a\n  onLoss: {notReadyAfter: 10m, drainAfter: 5m}\n",
            "gimbal.yaml:4:11: onLoss of a: drainAfter comes before notReadyAfter: make it longer",
        ),
        (
            "backends:\n- name: a\n  identity: a\n  quota: {changesPerSecond: 0}\n",
            "gimbal.yaml:4:29: 0 would let nothing through: use at least 1, or quarantine the backend (mode)",
        ),
        (
            "backends:\n- name: a\n  identity: a\n  guard: {window: 1ms}\n",
            "gimbal.yaml:4:19: shorter than 1s, which would hold nothing: make it longer, or turn the guard off with maxDropPercent: 100",
        ),
        (
            "backends:\n- name: a\n  identity: a\n  quota: {services: -1}\n",
            "gimbal.yaml:4:21: \"-1\" is no number: use digits only",
        ),
        (
            "backends:\n- name: a\n  identity: a\n  namespaces:\n    alow: [x]\n",
            "gimbal.yaml:5:5: unknown field `alow`, expected one of allow, deny, map, create",
        ),
        (
            "backends:\n- name: a\n  identity: a\n  guard: {floors: {endpoints: 1}}\n",
            "gimbal.yaml:4:20: unknown field `endpoints`, expected one of endpointsPerNamespace, endpointsPerService",
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
        (&["OSP1.backends.gimbal.example"], Ok("osp1".to_owned())), // DNS names: without case.
        (&["spiffe://gimbal.example/backend/NODE02"], nobody("spiffe://gimbal.example/backend/NODE02")), // URIs: with case.
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

/// Whoever has the key of an authority can sign any name, and no certificate that was signed before.
#[test]
fn an_admin_may_be_one_certificate() {
    let fingerprint = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    let written = fingerprint.to_uppercase();
    let config = read(&format!("admins: ['sha256:{written}']\nbackends:\n- {{name: a, identity: a}}")).unwrap();
    let with = |fingerprint: &str, sans: &[&str]| {
        let Peer::Certificate(certificate) = peer(sans) else { panic!("it has none") };
        let fingerprint_sha256 = fingerprint.to_owned();
        Peer::Certificate(Arc::new(PeerCertificate { fingerprint_sha256, ..PeerCertificate::clone(&certificate) }))
    };
    assert!(config.identify(&with(fingerprint, &["spiffe://gimbal.example/anyone"])).is_admin());
    let other = fingerprint.replace("00", "01");
    let names = ["spiffe://gimbal.example/anyone", &format!("sha256:{fingerprint}")];
    assert!(!config.identify(&with(&other, &names)).is_admin(), "what it calls itself does not matter");
    let error = read("admins: ['sha256:0011']").unwrap_err();
    assert!(error.contains("write sha256: and 64 hexadecimal digits"), "{error}");
}

#[test]
fn a_first_look_admits_any_name_and_no_certificate() {
    let config = Config::first_look();
    let backend = config.backend_named(&BackendName::parse("node03").unwrap()).unwrap();
    assert_eq!(backend.policy.namespaces.target("default", None).as_deref(), Ok("default"));
    assert!(speaker(&config, &["anyone"]).is_err());
    assert!(!config.identify(&peer(&["anyone"])).is_admin());
}

#[test]
fn a_backend_in_quarantine_may_speak() {
    let config = read("backends:\n- {name: a, identity: a, mode: quarantine}").unwrap();
    assert_eq!(speaker(&config, &["a"]).as_deref(), Ok("a"));
    assert_eq!(config.backend_named(&BackendName::parse("a").unwrap()).unwrap().policy.mode, Mode::Quarantine);
}

/// The example says what the defaults are.
#[test]
fn the_example_holds_the_defaults() {
    let config = read(include_str!("../../../../deploy/examples/writer.yaml")).unwrap();
    let any = |ranges: &[&str]| Some(ranges.iter().map(|range| range.parse().unwrap()).collect());
    let mut policy = config.backends[0].policy.clone();
    assert_eq!(policy.addresses.allowed, any(&["0.0.0.0/0", "::/0"]));
    assert_eq!(policy.namespaces.allow, Some(vec!["*".parse().unwrap()]));
    (policy.addresses, policy.namespaces.allow) = (AddressRules::default(), None);
    assert_eq!(policy, Policy::default());
}

/// The error for an unknown key lists the keys that there are.
#[test]
fn the_example_names_every_key() {
    let example = include_str!("../../../../deploy/examples/writer.yaml");
    for wrong in ["unknown: 1", "backends: [{name: a, identity: a, unknown: 1}]"] {
        let error = read(wrong).unwrap_err();
        let (_, keys) = error.split_once("expected one of ").unwrap();
        for key in keys.split(", ") {
            assert!(example.contains(&format!("{key}:")), "{key} is missing in the example");
        }
    }
}

#[test]
fn names_that_join_give_a_warning() {
    let of = |names: &[&str]| {
        let backends = names.iter().map(|name| format!("- {{name: {name}, identity: {name}.example}}\n"));
        let text = format!("backends:\n{}", backends.collect::<String>());
        Config::parse(Path::new("writer.yaml"), &text).unwrap().warnings()
    };
    let apart = "backends:\n\
                 - {name: a, identity: a.example, namespaces: {allow: [team1]}}\n\
                 - {name: a-b, identity: b.example, namespaces: {allow: [team2, other-*]}}\n";
    assert_eq!(Config::parse(Path::new("writer.yaml"), apart).unwrap().warnings(), Vec::<String>::new());
    assert_eq!(of(&["a", "ab", "b-a"]), Vec::<String>::new());
    let warnings = of(&["a-b", "a", "a-b-c"]);
    let pairs: Vec<_> = warnings.iter().filter_map(|sentence| sentence.split(':').next()).collect();
    assert_eq!(pairs, ["backends a-b and a-b-c", "backends a and a-b", "backends a and a-b-c"]);
}

#[test]
fn more_backends_than_the_design_has_give_a_warning() {
    let of = |count: usize| {
        let backends = (0..count).map(|n| format!("- {{name: b{n}x, identity: b{n}.example}}\n"));
        read(&format!("backends:\n{}", backends.collect::<String>())).unwrap().warnings()
    };
    assert_eq!(of(255), Vec::<String>::new());
    assert_eq!(of(256), ["256 backends are more than the 255 that one writer is built for"]);
}

#[test]
fn a_loss_that_a_reconnect_may_reach_is_doubtful() {
    let file = |after: &str| format!("backends: [{{name: a, identity: a, onLoss: {{notReadyAfter: {after}}}}}]");
    assert_eq!(read(&file("15s")).unwrap().warnings(), Vec::<String>::new());
    let warnings = read(&file("10s")).unwrap().warnings();
    assert!(
        matches!(warnings.as_slice(), [one] if one.starts_with("backend a: onLoss.notReadyAfter is 10 s")),
        "{warnings:?}"
    );
}

#[test]
fn the_example_of_an_object_names_every_key_and_can_be_used() {
    let example = include_str!("../../../../deploy/examples/backend.yaml");
    let object: gimbal_backend::BackendResource = serde_saphyr::from_str(example).unwrap();
    object.read_spec().unwrap();
    let keys: std::collections::BTreeSet<_> = object.spec.as_object().unwrap().keys().map(String::as_str).collect();
    let mut all: std::collections::BTreeSet<_> =
        SECTIONS.iter().filter_map(|(file, _)| Some(file.split_once(':')?.0)).collect();
    all.extend(["identity", "source"]);
    assert_eq!(keys, all);
}
