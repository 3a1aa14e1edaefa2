//! The pod that the operator makes is the one that the charts make: compared with what Helm rendered (deploy/manifests).
#![allow(clippy::unwrap_used)] // A panic is the report.

mod decisions;
mod notices;
mod observed;

use gimbal_operator_core::{DiscovererTraces, OperatorSettings, SourcedBackend, WantedObject, wanted};
use serde_json::{Value, json};

fn settings() -> OperatorSettings {
    OperatorSettings {
        namespace: "gimbal-discovery".into(),
        writer: vec!["https://writer.example:7443".into()],
        kubernetes_image: "registry.example/gimbal-kubernetes-discoverer:0.1.0".into(),
        openstack_image: "registry.example/gimbal-openstack-discoverer:0.1.0".into(),
        identity_prefix: "spiffe://gimbal.example/backend/".into(),
        authority_secret: "gimbal-authority".into(),
        network_policies: true,
        monitoring_namespace: "monitoring".into(),
        api_server_ports: vec![443, 6443],
        openstack_ports: vec![443, 5000, 9876, 9696],
        ..OperatorSettings::default()
    }
}

fn backend(name: &str, source: &Value) -> SourcedBackend {
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": format!("uid-of-{name}"), "generation": 1},
        "spec": {"identity": format!("spiffe://gimbal.example/backend/{name}"), "source": source},
    }))
    .unwrap()
}

fn kubernetes() -> Value {
    json!({"kubernetes": {"kubeconfigSecret": {"name": "node02-kubeconfig"}}})
}

/// Returns an object of a manifest.
fn of_manifest(program: &str, kind: &str) -> Value {
    let file = format!("{}/../../../deploy/manifests/{program}.yaml", env!("CARGO_MANIFEST_DIR"));
    let all: Vec<Value> = serde_saphyr::from_multiple(&std::fs::read_to_string(file).unwrap()).unwrap();
    all.into_iter().find(|object| object["kind"] == kind).unwrap()
}

fn of_operator(name: &str, source: &Value) -> (Value, Value, Value) {
    let discoverer = backend(name, source).discoverer(&settings()).unwrap();
    let (mut account, mut policy, mut deployment) = (Value::Null, Value::Null, Value::Null);
    for wanted in wanted(&discoverer, &settings(), Some("content")) {
        match wanted {
            WantedObject::ServiceAccount(object) => account = serde_json::to_value(object).unwrap(),
            WantedObject::NetworkPolicy(object) => policy = serde_json::to_value(object).unwrap(),
            WantedObject::Deployment(object) => deployment = serde_json::to_value(object).unwrap(),
        }
    }
    (account, policy, deployment)
}

/// Returns what must be the same, without what differs on purpose: names, the credentials, and what only a chart can be set to.
fn essence(deployment: &Value) -> Value {
    let mut spec = deployment["spec"].clone();
    spec["selector"] = Value::Null;
    spec["template"]["metadata"] = Value::Null;
    let pod = &mut spec["template"]["spec"];
    for field in ["serviceAccountName", "automountServiceAccountToken"] {
        pod[field] = Value::Null;
    }
    pod["volumes"] = Value::Null;
    let container = &mut pod["containers"][0];
    container["volumeMounts"] = Value::Null;
    container["args"] = Value::Null;
    spec
}

fn args(deployment: &Value) -> Vec<String> {
    serde_json::from_value(deployment["spec"]["template"]["spec"]["containers"][0]["args"].clone()).unwrap()
}

/// Returns the volumes, and where they are mounted. The Secret with the pair is called after the discoverer.
fn mounts(deployment: &Value) -> Vec<Value> {
    let pod = &deployment["spec"]["template"]["spec"];
    let mut all = [&pod["volumes"], &pod["containers"][0]["volumeMounts"]].map(|list| list.as_array().unwrap().clone());
    let pair = all[0].iter_mut().find(|volume| volume["name"] == "tls").unwrap();
    assert!(pair["secret"]["secretName"].as_str().unwrap().ends_with("-tls"));
    pair["secret"]["secretName"] = Value::Null;
    all.concat()
}

/// Returns those of the first that the second has not.
fn without<T: PartialEq>(all: Vec<T>, others: &[T]) -> Vec<T> {
    all.into_iter().filter(|one| !others.contains(one)).collect()
}

/// Flags that the chart of the OpenStack discoverer gives with the program's own defaults (as tests/deploy checks), and the
/// operator does not.
const DEFAULTS: [&str; 8] = [
    "--poll-timeout=10m",
    "--sweep=5m",
    "--projects-interval=5m",
    "--concurrency=16",
    "--list-timeout=60s",
    "--call-timeout=30s",
    "--project-hold=10m",
    "--second-look=5m",
];

#[test]
fn a_pod_is_that_of_its_chart() {
    let cloud = json!({"openstack": {"credentialsSecret": {"name": "openstack-osp1"}, "pollInterval": "30s"}});
    // A chart runs the discoverer in its source, where it needs no kubeconfig.
    let kubeconfig = vec![
        json!({"name": "kubeconfig", "secret": {"secretName": "node02-kubeconfig"}}),
        json!({"name": "kubeconfig", "mountPath": "/kubeconfig", "readOnly": true}),
    ];
    for (program, name, source, own, defaults, own_mounts) in [
        (
            "kubernetes-discoverer",
            "node02",
            kubernetes(),
            &["--kubeconfig=/kubeconfig/kubeconfig"][..],
            &[][..],
            kubeconfig,
        ),
        ("openstack-discoverer", "osp1", cloud, &[][..], &DEFAULTS[..], vec![]),
    ] {
        let (account, policy, deployment) = of_operator(name, &source);
        let chart = of_manifest(program, "Deployment");
        assert_eq!(essence(&deployment), essence(&chart), "{program}");
        let (rendered, made) = (args(&chart), args(&deployment));
        assert_eq!(without(made.clone(), &rendered), own, "{program}");
        assert_eq!(without(rendered, &made), defaults, "{program}");
        let (of_chart, of_operator) = (mounts(&chart), mounts(&deployment));
        assert_eq!(without(of_operator.clone(), &of_chart), own_mounts, "{program}");
        assert!(without(of_chart, &of_operator).is_empty(), "{program}");
        let account_of_chart = of_manifest(program, "ServiceAccount");
        assert_eq!(account["automountServiceAccountToken"], account_of_chart["automountServiceAccountToken"]);
        let mut of_chart = of_manifest(program, "NetworkPolicy")["spec"].clone();
        for rule in of_chart["egress"].as_array_mut().unwrap() {
            // Everyone, which is left out here.
            rule.as_object_mut().unwrap().retain(|_, peers| *peers != json!([]));
        }
        of_chart["podSelector"] = policy["spec"]["podSelector"].clone();
        assert_eq!(policy["spec"], of_chart, "{program}");
    }
}

#[test]
fn what_a_source_says_becomes_flags() {
    let source = json!({"kubernetes": {
        "kubeconfigSecret": {"name": "a"}, "namespaces": ["team-*", "shop"], "excludeNamespaces": ["team-secret"],
        "serviceSelector": "tier in (front, back)", "export": "opt-in",
    }});
    let all = args(&of_operator("node02", &source).2);
    for arg in [
        "--namespaces=team-*,shop",
        "--exclude-namespaces=team-secret",
        "--service-selector=tier in (front, back)",
        "--export=opt-in",
    ] {
        assert!(all.iter().any(|one| one == arg), "{arg}: {all:?}");
    }
    let source = json!({"openstack": {
        "credentialsSecret": {"name": "a"}, "pollInterval": "1m", "projects": ["a", "b-*"], "excludeProjects": ["b-c"],
        "mode": "per-project", "serviceName": "id",
    }});
    let all = args(&of_operator("osp1", &source).2);
    for arg in
        ["--poll-interval=1m", "--projects=a,b-*", "--exclude-projects=b-c", "--mode=per-project", "--service-name=id"]
    {
        assert!(all.iter().any(|one| one == arg), "{arg}: {all:?}");
    }
}

/// As the chart of a discoverer has it.
#[test]
fn traces_are_sent_where_a_collector_is_named() {
    let discoverer = backend("node02", &kubernetes()).discoverer(&settings()).unwrap();
    let made = |traces| {
        let settings = OperatorSettings { traces, ..settings() };
        let (mut egress, mut all) = (Value::Null, Vec::new());
        for wanted in wanted(&discoverer, &settings, Some("content")) {
            match wanted {
                WantedObject::NetworkPolicy(object) => egress = object.spec["egress"].clone(),
                WantedObject::Deployment(object) => all = args(&serde_json::to_value(object).unwrap()),
                WantedObject::ServiceAccount(_) => {}
            }
        }
        (egress.as_array().unwrap().clone(), all)
    };
    let (egress, all) = made(None);
    let traced = DiscovererTraces { endpoint: "http://collector.observability:4317".into(), ratio: 0.5 };
    let (with_traces, flags) = made(Some(traced));
    assert_eq!(without(with_traces, &egress), [json!({"ports": [{"port": 4317}]})]);
    assert_eq!(without(flags, &all), ["--otlp-endpoint=http://collector.observability:4317", "--trace-ratio=0.5"]);
}

#[test]
fn objects_have_the_mark_and_go_with_their_backend() {
    let (account, policy, deployment) = of_operator("node02", &kubernetes());
    for object in [account, policy, deployment] {
        let metadata = &object["metadata"];
        assert_eq!(metadata["name"], "gimbal-kubernetes-discoverer-node02");
        assert_eq!(metadata["labels"]["app.kubernetes.io/managed-by"], "gimbal-operator");
        let owner = json!([{
            "apiVersion": "gimbal.projectcontour.io/v1alpha1", "kind": "Backend", "name": "node02", "uid": "uid-of-node02",
        }]);
        assert_eq!(metadata["ownerReferences"], owner);
    }
}
