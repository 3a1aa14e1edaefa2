//! Annotations of Services that say where a load balancer is made and what of: each is shown by a field in OpenStack.

use gimbal_testkit::eventually;
use gimbal_testkit::openstack::{Options, Service};
use gimbal_tests::WayBack;
use serde_json::{Map, Value, json};

use super::people::is_whole;
use super::{CONTROLLER, SERVICES, WITHIN, WRITER, expect_looks, expect_no_change};

const INTERNAL: &str = "service.beta.kubernetes.io/openstack-internal-load-balancer";
const PROJECT: &str = "openstack.org/kuryr-project";
const ZONE: &str = "zone-1";
/// The one address of a second subnet outside.
const OUTSIDE: &str = "203.0.114.9";
/// The Service that leaves its floating IP behind.
const KEEPS: &str = "outside";

/// What of the cloud Services ask for.
struct Offered {
    subnet: String,
    network: String,
    port: String,
    outside_network: String,
    outside_subnet: String,
    flavor: String,
    /// Another project, and a subnet of it.
    project: String,
    its_subnet: String,
}

/// A Service: its name, its annotations, and what shows that they count: the kind of object, the field and the value.
type Asked = (&'static str, Vec<(String, String)>, [&'static str; 2], Value);

#[tokio::test(flavor = "multi_thread")]
async fn what_annotations_ask_for_is_in_octavia() {
    let mut stage = WayBack::build_on(Options::with_checked_tokens(), "").await.unwrap();
    let offered = offer(&stage).await;
    stage.configure(&policy(&offered)).unwrap();
    stage.start_writer(&WRITER).await.unwrap();
    stage.start_controller(&CONTROLLER).await.unwrap();
    let all = asked(&offered);
    for (name, annotations, ..) in &all {
        make(&stage, name, annotations).await;
    }
    for (name, _, [kind, field], value) in &all {
        stage.until_address(name).await.unwrap();
        stage.until_resource(name, "is whole", is_whole).await.unwrap();
        let what = format!("{field} of the {kind} of {name} is {value}");
        let result = eventually(&what, WITHIN, async || {
            let row = shown(&stage, name, kind).await?;
            anyhow::ensure!(row[field] == *value, "{row}");
            Ok(())
        });
        result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()));
    }
    // It reads as what it wrote: twice in each of two projects.
    let marks = stage.marks().unwrap();
    expect_looks(&stage, 4).await;
    expect_no_change(&stage, marks);

    let kept = shown(&stage, KEEPS, "floating IP").await.unwrap()["id"].as_str().unwrap().to_owned();
    for (name, ..) in &all {
        let uid = stage.delete_service(name).await.unwrap();
        stage.until_gone(name, &uid).await.unwrap();
    }
    let neutron = stage.cloud.neutron(Service::Neutron).unwrap();
    let kept = neutron.get(&format!("/floatingips/{kept}")).await.unwrap();
    assert!(kept["floatingip"]["port_id"].is_null(), "{kept}");
    neutron.get(&format!("/ports/{}", offered.port)).await.expect("the port is its maker's");
    assert_eq!(stage.left().await.unwrap(), [""; 0]);
}

/// As an operator and users of the project do.
async fn offer(stage: &WayBack) -> Offered {
    let (cloud, octavia) = (&stage.cloud, stage.cloud.octavia());
    let neutron = cloud.neutron(Service::Neutron).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let network_of =
        async |subnet: &str| text(&neutron.get(&format!("/subnets/{subnet}")).await.unwrap()["subnet"]["network_id"]);
    let subnet = cloud.create_subnet("alpha", "10.98.0.0/24").await.unwrap();
    let network = network_of(&cloud.create_subnet("alpha", "10.99.0.0/24").await.unwrap()).await;
    let port = json!({"network_id": network_of(&stage.subnet).await, "project_id": stage.project, "name": "a user's"});
    let port = text(&neutron.post("/ports", &json!({"port": port})).await.unwrap()["port"]["id"]);

    let networks = neutron.get("/networks?router:external=true").await.unwrap();
    let pool = json!([{"start": OUTSIDE, "end": OUTSIDE}]);
    let body = json!({
        "network_id": networks["networks"][0]["id"], "ip_version": 4, "cidr": "203.0.114.0/24", "enable_dhcp": false,
        "allocation_pools": pool,
    });
    let outside_subnet = text(&neutron.post("/subnets", &json!({"subnet": body})).await.unwrap()["subnet"]["id"]);
    let outside_network = cloud.create_external_network("198.51.100.0/24").await.unwrap();
    cloud.create_router("alpha", &outside_network, &subnet).await.unwrap();

    let profile = json!({"name": "small", "provider_name": "lab", "flavor_data": "{}"});
    let profile = octavia.post("/flavorprofiles", &json!({"flavorprofile": profile})).await.unwrap();
    let flavor = json!({"name": "small", "flavor_profile_id": profile["flavorprofile"]["id"], "enabled": true});
    let flavor = text(&octavia.post("/flavors", &json!({"flavor": flavor})).await.unwrap()["flavor"]["id"]);
    let profile =
        json!({"name": ZONE, "provider_name": "lab", "availability_zone_data": "{\"compute_zone\": \"one\"}"});
    let body = json!({"availability_zone_profile": profile});
    let profile = octavia.post("/availabilityzoneprofiles", &body).await.unwrap();
    let profile = &profile["availability_zone_profile"]["id"];
    let zone = json!({"name": ZONE, "availability_zone_profile_id": profile, "enabled": true});
    octavia.post("/availabilityzones", &json!({"availability_zone": zone})).await.unwrap();

    let project = cloud.project("beta").await.unwrap();
    let its_subnet = cloud.create_subnet("beta", "10.97.0.0/24").await.unwrap();
    Offered { subnet, network, port, outside_network, outside_subnet, flavor, project, its_subnet }
}

/// The lines of configuration that allow all of it.
fn policy(offered: &Offered) -> String {
    let Offered { subnet, network, port, outside_network, outside_subnet: _, flavor, project, its_subnet } = offered;
    format!(
        "vip: {{mode: allocate, subnets: [{subnet}, {its_subnet}], networks: [{network}], ports: [{port}]}}\n  \
         floating: {{allow: [{outside_network}]}}\n  projects: {{allow: [{project}]}}\n  \
         providers: {{flavors: [{flavor}], availabilityZones: [{ZONE}]}}"
    )
}

/// Those in a network that no router leads to are internal.
fn asked(offered: &Offered) -> Vec<Asked> {
    let Offered { subnet, network, port, outside_network, outside_subnet, flavor, project, its_subnet } = offered;
    let of_cloud = |name: &str, value: &str| (format!("loadbalancer.openstack.org/{name}"), value.to_owned());
    let internal = || (INTERNAL.to_owned(), "true".to_owned());
    let balancer = |field| ["load balancer", field];
    vec![
        ("subnet", vec![of_cloud("subnet-id", subnet), internal()], balancer("vip_subnet_id"), json!(subnet)),
        ("network", vec![of_cloud("network-id", network), internal()], balancer("vip_network_id"), json!(network)),
        ("port", vec![of_cloud("port-id", port), internal()], balancer("vip_port_id"), json!(port)),
        ("flavor", vec![of_cloud("flavor-id", flavor), internal()], balancer("flavor_id"), json!(flavor)),
        ("zone", vec![of_cloud("availability-zone", ZONE), internal()], balancer("availability_zone"), json!(ZONE)),
        (
            "project",
            vec![(PROJECT.to_owned(), project.clone()), of_cloud("subnet-id", its_subnet), internal()],
            balancer("project_id"),
            json!(project),
        ),
        (
            "inspect",
            vec![of_cloud("timeout-tcp-inspect", "700"), internal()],
            ["listener", "timeout_tcp_inspect"],
            json!(700),
        ),
        (
            KEEPS,
            vec![
                of_cloud("subnet-id", subnet),
                of_cloud("floating-network-id", outside_network),
                of_cloud("keep-floatingip", "true"),
            ],
            ["floating IP", "floating_network_id"],
            json!(outside_network),
        ),
        (
            "address",
            vec![of_cloud("floating-subnet-id", outside_subnet)],
            ["floating IP", "floating_ip_address"],
            json!(OUTSIDE),
        ),
    ]
}

async fn make(stage: &WayBack, name: &str, annotations: &[(String, String)]) {
    let annotations: Map<String, Value> =
        annotations.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let port = json!({"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"});
    let service = json!({
        "metadata": {"name": name, "annotations": annotations}, "spec": {"type": "LoadBalancer", "ports": [port]},
    });
    stage.cluster.admin().post(SERVICES, &service).await.unwrap();
    stage.set_members(name, &["10.1.0.1"], &[("http", 8080)]).await.unwrap();
}

/// The load balancer of a Service, its listener, or its floating IP.
async fn shown(stage: &WayBack, name: &str, kind: &str) -> anyhow::Result<Value> {
    let balancer = stage.balancer(name).await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(match kind {
        "listener" => {
            let path = format!("/listeners?loadbalancer_id={}", text(&balancer["id"]));
            stage.cloud.octavia().get(&path).await?["listeners"][0].take()
        }
        "floating IP" => {
            let path = format!("/floatingips?port_id={}", text(&balancer["vip_port_id"]));
            stage.cloud.neutron(Service::Neutron)?.get(&path).await?["floatingips"][0].take()
        }
        _ => balancer,
    })
}
