//! Values are checked before anything is installed: a misspelt one is refused by its name.

use std::collections::BTreeSet;

use gimbal_deploy_tests::{Chart, PROGRAMS, deploy, list, text};
use serde_json::{Value, json};

fn schema(program: &str) -> Value {
    let file = deploy("charts").join(program).join("values.schema.json");
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

fn defaults(program: &str) -> Value {
    let text = std::fs::read_to_string(deploy("charts").join(program).join("values.yaml")).unwrap();
    gimbal_deploy_tests::documents(&text).unwrap().remove(0)
}

/// Follows a reference to `$defs`.
fn resolved<'a>(schema: &'a Value, part: &'a Value) -> &'a Value {
    match part["$ref"].as_str() {
        Some(target) => &schema["$defs"][target.rsplit('/').next().unwrap()],
        None => part,
    }
}

fn keys(object: &Value) -> BTreeSet<&str> {
    object.as_object().into_iter().flatten().map(|(key, _)| &**key).collect()
}

/// Calls `see` with each object of the schema that names its keys, and with the default beside it.
fn walk(schema: &Value, part: &Value, default: &Value, path: &str, see: &mut dyn FnMut(&str, &Value, &Value)) {
    let part = resolved(schema, part);
    let Some(properties) = part["properties"].as_object() else { return };
    see(path, part, default);
    for (key, part) in properties {
        walk(schema, part, &default[key], &format!("{path}{key}."), see);
    }
}

#[test]
fn every_value_has_a_default_and_every_default_a_schema() {
    for program in PROGRAMS {
        let (schema, defaults) = (schema(program), defaults(program));
        walk(&schema, &schema, &defaults, "", &mut |path, part, default| {
            let mut known = keys(&part["properties"]);
            // What a chart says that has this one as a subchart; a group and claims have no default in Kubernetes either.
            known.retain(|key| !["global", "enabled"].contains(key) || !path.is_empty());
            known.retain(|key| {
                !["issuerRef.group", "resources.claims"].iter().any(|one| format!("{path}{key}").ends_with(one))
            });
            assert_eq!(known, keys(default), "{program}: {path}");
        });
    }
}

#[test]
fn a_misspelt_value_is_refused_wherever_it_is() {
    for program in PROGRAMS {
        let (schema, mut places) = (schema(program), Vec::new());
        walk(&schema, &schema, &defaults(program), "", &mut |path, part, _| {
            assert_eq!(part["additionalProperties"], false, "{program}: {path}");
            places.push(format!("{path}misspelt=1"));
        });
        assert!(places.len() >= 8, "{program}: {places:?}");
        for place in places {
            let refused = Chart::example(program, "minimal.yaml").set(&place).render().unwrap_err().to_string();
            assert!(refused.contains("additional properties 'misspelt' not allowed"), "{program}: {place}: {refused}");
        }
    }
}

#[test]
fn as_a_subchart_it_is_told_what_all_are() {
    for program in PROGRAMS {
        let chart = Chart::example(program, "minimal.yaml").set(r#"global={"registry":"x"}"#).set("enabled=true");
        chart.render().unwrap();
    }
}

#[test]
fn bad_values_are_refused() {
    let of_all = [
        (r#"image.repository="""#, "/image/repository"),
        (r#"image.repository="registry.example/x:1.0""#, "/image/repository"),
        (r#"image.tag="a b""#, "/image/tag"),
        (r#"image.digest="sha256:12""#, "/image/digest"),
        (r#"image.pullPolicy="Sometimes""#, "/image/pullPolicy"),
        (r#"imagePullSecrets=["registry"]"#, "/imagePullSecrets/0"),
        (r#"fullnameOverride="Gimbal""#, "/fullnameOverride"),
        (r#"logFormat="yaml""#, "/logFormat"),
        ("workerThreads=0", "/workerThreads"),
        (r#"podLabels={"a":1}"#, "/podLabels/a"),
        (r#"resources={"limit":{}}"#, "/resources"),
        (r#"tls.certManager={"enabled":true,"issuerRef":{"name":""}}"#, "/tls/certManager"),
        (r#"tls.certManager={"enabled":true,"issuerRef":{"name":"a"},"uris":["no-uri"]}"#, "/tls/certManager/uris/0"),
        // A certificate for no one.
        (r#"tls.certManager={"enabled":true,"issuerRef":{"name":"a"}}"#, "/tls/certManager"),
        (r#"networkPolicy.dns=[{"cidr":"10.0.0.0/8"}]"#, "/networkPolicy/dns/0"),
        (r#"networkPolicy.dns=[{}]"#, "/networkPolicy/dns/0"),
    ];
    for program in PROGRAMS {
        let has_pair = !schema(program)["properties"]["tls"].is_null();
        for (value, path) in of_all.iter().filter(|(value, _)| has_pair || !value.starts_with("tls.")) {
            refused(program, value, path);
        }
    }
    for program in ["gimbal-kubernetes-discoverer", "gimbal-openstack-discoverer", "gimbal-kuryr-controller"] {
        // Plain text and an unknown port would fail later only, and network policies need the port.
        for url in ["http://writer:7443", "https://writer", "writer:7443", "https://a:1,https://b:2", "https://a:b@c:1"]
        {
            refused(program, &format!("writer=[\"{url}\"]"), "/writer/0");
        }
        refused(program, r#"writer="https://writer:7443""#, "/writer");
    }
    for (program, value, path) in [
        ("gimbal-writer", "replicas=0", "/replicas"),
        ("gimbal-writer", r#"endpointsApi="slices""#, "/endpointsApi"),
        ("gimbal-writer", r#"leaseDuration="1500ms""#, "/leaseDuration"),
        ("gimbal-writer", r#"leaseDuration="1s""#, "/leaseDuration"),
        ("gimbal-writer", r#"lossGrace="30""#, "/lossGrace"),
        ("gimbal-writer", r#"lossGrace="30s1m""#, "/lossGrace"),
        ("gimbal-writer", "writeQps=-1", "/writeQps"),
        ("gimbal-writer", "writeConcurrency=0", "/writeConcurrency"),
        ("gimbal-writer", "config=null", ""),
        // The schema of everything but the Lease comes one after it, and 10000 is the last.
        ("gimbal-writer", "flowSchema.matchingPrecedence=10000", "/flowSchema/matchingPrecedence"),
        ("gimbal-writer", r#"service.type="ExternalName""#, "/service/type"),
        ("gimbal-writer", "networkPolicy.apiServerPorts=[]", "/networkPolicy/apiServerPorts"),
        ("gimbal-writer", "networkPolicy.apiServerPorts=[70000]", "/networkPolicy/apiServerPorts/0"),
        ("gimbal-kubernetes-discoverer", r#"backendName="Node02""#, "/backendName"),
        ("gimbal-kubernetes-discoverer", r#"backendName="2nodes""#, "/backendName"),
        ("gimbal-kubernetes-discoverer", r#"export="opt""#, "/export"),
        ("gimbal-kubernetes-discoverer", r#"namespaces=["A"]"#, "/namespaces/0"),
        ("gimbal-kubernetes-discoverer", r#"namespaces="team-*""#, "/namespaces"),
        ("gimbal-kubernetes-discoverer", r#"writeEvents="true""#, "/writeEvents"),
        ("gimbal-openstack-discoverer", r#"credentialsSecret="""#, "/credentialsSecret"),
        ("gimbal-openstack-discoverer", r#"mode="both""#, "/mode"),
        ("gimbal-openstack-discoverer", "concurrency=257", "/concurrency"),
        ("gimbal-openstack-discoverer", r#"projects=["a,b"]"#, "/projects/0"),
        ("gimbal-openstack-discoverer", r#"serviceName="name""#, "/serviceName"),
        ("gimbal-kuryr-controller", r#"clusterName="""#, "/clusterName"),
        ("gimbal-kuryr-controller", r#"clusterIpServices="yes""#, "/clusterIpServices"),
        ("gimbal-kuryr-controller", "rights.nodes=1", "/rights/nodes"),
        ("gimbal-kuryr-controller", r#"ingress.enabled="yes""#, "/ingress/enabled"),
        ("gimbal-openstack-writer", r#"orphanGrace=10"#, "/orphanGrace"),
        ("gimbal-openstack-writer", r#"kuryrConf={"a.conf":{}}"#, "/kuryrConf/a.conf"),
        ("gimbal-openstack-writer", "networkPolicy.openstackPorts=[0]", "/networkPolicy/openstackPorts/0"),
        ("gimbal-operator", "writer=[]", "/writer"),
        ("gimbal-operator", r#"identityPrefix="spiffe://gimbal.example/backend""#, "/identityPrefix"),
        ("gimbal-operator", r#"identityPrefix="spiffe://gimbal.example/""#, "/identityPrefix"),
        ("gimbal-operator", r#"certificateDuration="90""#, "/certificateDuration"),
        ("gimbal-operator", r#"discoverers.imagePullPolicy="Sometimes""#, "/discoverers/imagePullPolicy"),
        ("gimbal-operator", r#"discoverers.traces.endpoint="collector:4317""#, "/discoverers/traces/endpoint"),
        ("gimbal-operator", "certManager.enabled=true", "/certManager/issuerRef/name"),
        ("gimbal-operator", r#"certManager.duration="90d""#, "/certManager/duration"),
        ("gimbal-operator", "discoverers.traces.ratio=2", "/discoverers/traces/ratio"),
    ] {
        refused(program, value, path);
    }
}

fn refused(program: &'static str, value: &str, path: &str) {
    match Chart::example(program, "minimal.yaml").set(value).render() {
        Ok(_) => panic!("{program} takes {value}"),
        Err(error) => assert!(format!("{error:#}").contains(&format!("at '{path}'")), "{program}: {value}: {error:#}"),
    }
}

/// What must be set is asked for at once, by name.
#[test]
fn without_values_it_says_what_it_needs() {
    for (program, needed) in [
        ("gimbal-writer", &["/image/repository"][..]),
        ("gimbal-kubernetes-discoverer", &["/image/repository", "/backendName"]),
        ("gimbal-openstack-discoverer", &["/image/repository", "/backendName", "/credentialsSecret"]),
        ("gimbal-kuryr-controller", &["/image/repository", "/clusterName"]),
        ("gimbal-openstack-writer", &["/image/repository", "/credentialsSecret"]),
        ("gimbal-operator", &["/discoverers", "/identityPrefix", "/image/repository", "/writer"]),
    ] {
        let chart = Chart { values: Vec::new(), ..Chart::example(program, "") };
        let said = chart.render().unwrap_err().to_string();
        let found: BTreeSet<&str> =
            said.lines().filter_map(|line| line.strip_prefix("- at '")?.split('\'').next()).collect();
        assert_eq!(found, needed.iter().copied().collect(), "{program}: {said}");
    }
}

/// One word of the schemas means the same in each.
#[test]
fn definitions_are_the_same_in_all_schemas() {
    let mut all = serde_json::Map::new();
    for program in PROGRAMS {
        for (name, part) in schema(program)["$defs"].as_object().unwrap() {
            assert_eq!(all.entry(name).or_insert_with(|| part.clone()), part, "{program}: {name}");
        }
    }
    assert!(all.len() > 10);
}

/// The alerts that a chart installs are those of its program.
#[test]
fn a_chart_has_the_alerts_of_its_program() {
    let of = |program| {
        let objects = Chart::example(program, "full.yaml").render().unwrap();
        let rule = gimbal_deploy_tests::of_kind(&objects, "PrometheusRule").next().unwrap().clone();
        let groups: Vec<String> = list(&rule["spec"]["groups"]).map(|group| text(&group["name"]).to_owned()).collect();
        assert_eq!(groups, [program]);
        assert_eq!(rule["metadata"]["labels"]["release"], json!("prometheus"));
        list(&rule["spec"]["groups"][0]["rules"]).count()
    };
    let file = gimbal_deploy_tests::objects("alerts").unwrap();
    let written: usize =
        file.iter().flat_map(|(_, file)| list(&file["groups"])).map(|group| list(&group["rules"]).count()).sum();
    assert_eq!(PROGRAMS.into_iter().map(of).sum::<usize>(), written);
}
