//! The Deployment of a discoverer: the same pod as its chart makes (deploy/charts).

use gimbal_backend::{KubernetesSourceSection, NamespaceRule, OpenstackSourceSection, ProjectRule};
use serde_json::{Value, json};

use crate::certificate::pair_secret_name;
use crate::source::{SourceKind, WantedDiscoverer};
use crate::wanted::selector;
use crate::{DiscovererTraces, OperatorSettings};

/// Annotation of the pod: a hash of its credentials, so that a change of these makes another pod.
const CONTENT: &str = "gimbal.projectcontour.io/content";
/// Where credentials are mounted, and the name of their volume.
const KUBECONFIG: [&str; 2] = ["kubeconfig", "/kubeconfig"];
const CREDENTIALS: [&str; 2] = ["credentials", "/credentials"];

/// Returns the spec of the Deployment. `content` is the hash of what its pod mounts.
pub(crate) fn deployment_spec(discoverer: &WantedDiscoverer, settings: &OperatorSettings, content: &str) -> Value {
    let labels = selector(discoverer);
    let mut pod_labels = labels.clone();
    pod_labels["app.kubernetes.io/part-of"] = json!("gimbal");
    let mut template = json!({
        "metadata": {"labels": pod_labels, "annotations": {CONTENT: content}},
        "spec": pod_spec(discoverer, settings),
    });
    if !settings.pull_secrets.is_empty() {
        let secrets = settings.pull_secrets.iter().map(|name| json!({ "name": name }));
        template["spec"]["imagePullSecrets"] = secrets.collect();
    }
    json!({
        // Two would only take the stream from each other.
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": labels},
        "template": template,
    })
}

fn pod_spec(discoverer: &WantedDiscoverer, settings: &OperatorSettings) -> Value {
    let (image, [volume, folder]) = match discoverer.source {
        SourceKind::Kubernetes(_) => (&settings.kubernetes_image, KUBECONFIG),
        SourceKind::Openstack(_) => (&settings.openstack_image, CREDENTIALS),
    };
    let container = json!({
        "name": "discoverer",
        "image": image,
        "imagePullPolicy": settings.pull_policy.as_str(),
        "args": args(discoverer, settings),
        "ports": [{"name": "inspection", "containerPort": 7444}, {"name": "admin", "containerPort": 7481}],
        "livenessProbe": {
            "httpGet": {"path": "/livez", "port": "admin"}, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 3,
        },
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "admin"}, "periodSeconds": 5, "timeoutSeconds": 5},
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": volume, "mountPath": folder, "readOnly": true},
            {"name": "tls", "mountPath": "/tls", "readOnly": true},
        ],
    });
    json!({
        // Its only credentials are those of its source.
        "automountServiceAccountToken": false,
        "serviceAccountName": discoverer.object_name(),
        // Else each Service of the namespace would become variables that begin like those of the program.
        "enableServiceLinks": false,
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            {"name": volume, "secret": {"secretName": discoverer.secret()}},
            {"name": "tls", "secret": {"secretName": pair_secret_name(discoverer)}},
        ],
    })
}

fn args(discoverer: &WantedDiscoverer, settings: &OperatorSettings) -> Vec<String> {
    let mut args = vec![format!("--backend-name={}", discoverer.name)];
    args.push(match discoverer.source {
        SourceKind::Kubernetes(_) => "--kubeconfig=/kubeconfig/kubeconfig".into(),
        SourceKind::Openstack(_) => "--credentials=/credentials".into(),
    });
    args.push(format!("--writer={}", settings.writer.join(",")));
    let common = [
        "--tls-cert=/tls/tls.crt",
        "--tls-key=/tls/tls.key",
        "--tls-ca=/tls/ca.crt",
        "--listen=0.0.0.0:7444",
        "--admin-listen=0.0.0.0:7481",
    ];
    args.extend(common.map(str::to_owned));
    match &discoverer.source {
        SourceKind::Kubernetes(cluster) => cluster_args(cluster, &mut args),
        SourceKind::Openstack(cloud) => cloud_args(cloud, &mut args),
    }
    args.extend(["--worker-threads=1", "--log-format=json"].map(str::to_owned));
    if let Some(DiscovererTraces { endpoint, ratio }) = &settings.traces {
        args.extend([format!("--otlp-endpoint={endpoint}"), format!("--trace-ratio={ratio}")]);
    }
    args
}

fn cluster_args(cluster: &KubernetesSourceSection, args: &mut Vec<String>) {
    let patterns = |rules: &[NamespaceRule]| rules.iter().map(|rule| rule.0.as_str().to_owned()).collect();
    push_list(args, "namespaces", patterns(&cluster.namespaces));
    push_list(args, "exclude-namespaces", patterns(&cluster.exclude_namespaces));
    args.extend(cluster.service_selector.iter().map(|selector| format!("--service-selector={selector}")));
    args.push(format!("--export={}", cluster.export.as_str()));
}

fn cloud_args(cloud: &OpenstackSourceSection, args: &mut Vec<String>) {
    let names = |rules: &[ProjectRule]| rules.iter().map(|rule| rule.0.clone()).collect();
    args.extend(cloud.poll_interval.iter().map(|time| format!("--poll-interval={time}")));
    push_list(args, "projects", names(&cloud.projects));
    push_list(args, "exclude-projects", names(&cloud.exclude_projects));
    args.push(format!("--mode={}", cloud.mode.as_str()));
    args.push(format!("--service-name={}", cloud.service_name.as_str()));
}

fn push_list(args: &mut Vec<String>, flag: &str, values: Vec<String>) {
    if !values.is_empty() {
        args.push(format!("--{flag}={}", values.join(",")));
    }
}
