//! What belongs together says so by the same names.

use std::collections::BTreeMap;

use gimbal_deploy_tests::{Chart, PROGRAMS, arguments, list, objects, of_kind, text};
use serde_json::Value;

/// What a deployment names is there: ports of probes, volumes, its pods in Services and network policies.
#[test]
fn a_deployment_is_of_one_piece() {
    for chart in PROGRAMS.into_iter().flat_map(|program| Chart::examples(program).unwrap()) {
        let objects = chart.render().unwrap();
        let deployment = of_kind(&objects, "Deployment").next().unwrap();
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let args = arguments(deployment);
        let ports: BTreeMap<&str, u64> = list(&container["ports"])
            .map(|port| (text(&port["name"]), port["containerPort"].as_u64().unwrap()))
            .collect();
        for (name, port) in &ports {
            assert!(args.iter().any(|arg| arg.ends_with(&format!("listen=0.0.0.0:{port}"))), "{chart:?}: {name}");
        }
        for (probe, path) in [("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
            let get = &container[probe]["httpGet"];
            assert_eq!((text(&get["path"]), text(&get["port"])), (path, "admin"), "{chart:?}");
        }
        let volumes: Vec<&str> = list(&pod["volumes"]).map(|volume| text(&volume["name"])).collect();
        assert_eq!(volumes.len(), list(&container["volumeMounts"]).count(), "{chart:?}");
        for mount in list(&container["volumeMounts"]) {
            assert!(volumes.contains(&text(&mount["name"])), "{chart:?}: {mount}");
            let folder = text(&mount["mountPath"]);
            assert!(args.iter().any(|arg| arg.contains(folder)), "{chart:?}: no flag uses {folder}");
        }
        let labels = &deployment["spec"]["template"]["metadata"]["labels"];
        let selects =
            |selector: &Value| selector.as_object().unwrap().iter().all(|(name, value)| &labels[name] == value);
        assert!(selects(&deployment["spec"]["selector"]["matchLabels"]), "{chart:?}");
        for object in &objects {
            let spec = &object["spec"];
            let (selector, named): (&Value, Vec<&Value>) = match text(&object["kind"]) {
                // The leader publishes itself in it.
                "Service" if spec["selector"].is_null() => {
                    let name = text(&object["metadata"]["name"]);
                    let publishes = |arg: &str| arg.starts_with("--publish=") && arg.ends_with(&format!("/{name}"));
                    assert!(args.iter().any(|arg| publishes(arg)), "{chart:?}: no one is an endpoint of {name}");
                    let target = list(&spec["ports"]).next().unwrap()["targetPort"].as_u64().unwrap();
                    assert!(ports.values().any(|port| *port == target), "{chart:?}: {name} leads to {target}");
                    continue;
                }
                "Service" => (&spec["selector"], list(&spec["ports"]).map(|port| &port["targetPort"]).collect()),
                "NetworkPolicy" => {
                    let rules = list(&spec["ingress"]).flat_map(|rule| list(&rule["ports"]));
                    (&spec["podSelector"]["matchLabels"], rules.map(|port| &port["port"]).collect())
                }
                "PodDisruptionBudget" => (&spec["selector"]["matchLabels"], Vec::new()),
                "ServiceMonitor" => {
                    let selector = spec["selector"]["matchLabels"].as_object().unwrap();
                    let mut services = of_kind(&objects, "Service");
                    let metrics = services.any(|service| {
                        let labels = &service["metadata"]["labels"];
                        list(&service["spec"]["ports"]).any(|port| port["name"] == spec["endpoints"][0]["port"])
                            && selector.iter().all(|(name, value)| &labels[name] == value)
                    });
                    assert!(metrics, "{chart:?}: no Service for Prometheus");
                    continue;
                }
                // The operator's is read from the API, and not mounted.
                "Certificate" if spec["isCA"] == true => {
                    let flag = format!("--authority-secret={}", text(&spec["secretName"]));
                    assert!(args.contains(&flag.as_str()), "{chart:?}: no flag names {}", spec["secretName"]);
                    continue;
                }
                "Certificate" => {
                    let secret = list(&pod["volumes"]).find(|volume| volume["name"] == "tls").unwrap();
                    assert_eq!(spec["secretName"], secret["secret"]["secretName"], "{chart:?}");
                    continue;
                }
                _ => continue,
            };
            assert!(selects(selector), "{chart:?}: {}", object["kind"]);
            for port in named {
                assert!(ports.contains_key(text(port)), "{chart:?}: {} names {port}", object["kind"]);
            }
        }
    }
}

/// A second release of a chart, elsewhere, shares no object with the first one, and nothing of it points to the first.
#[test]
fn two_releases_do_not_meet() {
    for program in PROGRAMS {
        let first = Chart::example(program, "minimal.yaml");
        let second = Chart { release: "other", namespace: "elsewhere", ..first.clone() };
        let id = |object: &Value| (text(&object["kind"]).to_owned(), text(&object["metadata"]["name"]).to_owned());
        let first: Vec<_> = first.render().unwrap().iter().map(id).collect();
        let second = second.render().unwrap();
        for object in &second {
            assert!(!first.contains(&id(object)), "{program}: {:?}", id(object));
            let written = object.to_string();
            assert!(
                !written.contains(":\"gimbal\"") || !written.contains("\"namespace\":\"gimbal\""),
                "{program}: {written}"
            );
        }
    }
}

/// What is applied again with each release overwrites neither credentials nor a configuration.
#[test]
fn plain_manifests_have_no_credentials_and_no_configuration() {
    let mut deployments = 0;
    for folder in ["manifests", "rbac", "crds"] {
        for (file, object) in objects(folder).unwrap() {
            let kind = text(&object["kind"]);
            assert!(!["Secret", "ConfigMap"].contains(&kind), "{file} has a {kind}");
            deployments += usize::from(kind == "Deployment");
        }
    }
    assert_eq!(deployments, PROGRAMS.len());
}

/// Names of Secrets in examples are those that the manifests mount.
#[test]
fn forms_of_credentials_fit_the_manifests() {
    let manifests = objects("manifests").unwrap();
    let forms = objects("examples").unwrap();
    let mounted = |secret: &Value| {
        let named = &secret["metadata"];
        manifests.iter().any(|(_, object)| {
            object["metadata"]["namespace"] == named["namespace"]
                && list(&object["spec"]["template"]["spec"]["volumes"])
                    .any(|volume| volume["secret"]["secretName"] == named["name"])
        })
    };
    let secrets: Vec<_> = forms.iter().filter(|(_, object)| object["kind"] == "Secret").collect();
    assert_eq!(secrets.len(), 2);
    for (file, secret) in secrets {
        assert!(mounted(secret), "{file}");
    }
}

/// Where OpenStack's services are without a proxy in front of them, and with one: the network policies let their clients there.
#[test]
fn the_usual_ports_of_the_catalogue_can_be_reached() {
    const PROXY: u64 = 443;
    const CATALOGUE: [(&str, u64); 4] = [("Keystone", 5000), ("Octavia", 9876), ("Neutron", 9696), ("Barbican", 9311)];
    for (program, services) in
        [("gimbal-openstack-discoverer", &CATALOGUE[..3]), ("gimbal-openstack-writer", &CATALOGUE[..])]
    {
        let objects = Chart::example(program, "minimal.yaml").render().unwrap();
        let policy = of_kind(&objects, "NetworkPolicy").next().unwrap();
        let rules = list(&policy["spec"]["egress"]).flat_map(|rule| list(&rule["ports"]));
        let open: Vec<u64> = rules.filter_map(|port| port["port"].as_u64()).collect();
        for (service, port) in services.iter().chain([&("a proxy", PROXY)]) {
            assert!(open.contains(port), "{program}: {service} at {port} is not in {open:?}");
        }
    }
}
