//! What administrators remove, and what they hand over to people.

use std::sync::Arc;
use std::time::Duration;

use gimbal_kuryr_model::{DesiredLoadBalancer, FloatingWish};
use gimbal_testkit::eventually;
use gimbal_testkit::openstack::Service;
use serde_json::{Value, json};

use super::admin::{configure_one, eventually_lb, lb};
use super::controller::wanted;
use super::stage::{PROD1, PROD2, Stage};

/// Several looks for drift.
const A_WHILE: Duration = Duration::from_secs(5);

fn owner(number: u32) -> String {
    format!("cccccccc-0000-4000-8000-{number:012}")
}

/// With a port of its own and a floating IP of this network, as for a Service of type LoadBalancer.
fn floating(mut wanted: DesiredLoadBalancer, network: &str) -> DesiredLoadBalancer {
    let header = Arc::make_mut(&mut wanted.header);
    header.vip.from_outside = true;
    header.floating = Some(Box::new(FloatingWish { network: Some(network.into()), ..FloatingWish::default() }));
    wanted
}

async fn floating_ips(stage: &Stage) -> Vec<Value> {
    let found = stage.cloud.neutron(Service::Neutron).unwrap().get("/floatingips").await.unwrap();
    found["floatingips"].as_array().unwrap().clone()
}

/// Everything of a cluster goes when an admin says so twice, and nothing of anybody else.
#[tokio::test(flavor = "multi_thread")]
async fn everything_of_a_cluster_goes_and_nothing_else() {
    let mut stage = Stage::start(&["--drift-interval", "1s"]).await;
    let network = stage.cloud.create_external_network("172.24.4.0/24").await.unwrap();
    stage.cloud.create_router("alpha", &network, &stage.subnet).await.unwrap();
    let floats = format!("floating: {{allow: [{network}]}}");
    stage.stop_writer().await;
    configure_one(&stage, "prod1", &floats);
    stage.start_writer().await;
    let (one, two) = (stage.controller(PROD1), stage.controller(PROD2));
    one.want("web", floating(wanted(&owner(1), 1, &stage.subnet, &[80, 81], &["10.0.0.1"]), &network));
    one.want("plain", wanted(&owner(2), 1, &stage.subnet, &[80], &["10.0.0.1"]));
    two.want("web", wanted(&owner(3), 1, &stage.subnet, &[80], &["10.0.0.1"]));
    one.expect_ready("web", 1).await;
    one.expect_ready("plain", 1).await;
    let others = two.expect_ready("web", 1).await;
    let people = json!({"name": "shop/web", "vip_subnet_id": stage.subnet});
    let people = stage.cloud.create_load_balancer("alpha", &people).await.unwrap();
    assert_eq!((floating_ips(&stage).await.len(), stage.marked_ports(&owner(1)).await.len()), (1, 1));

    lb(&stage, "decommission --cluster prod1 --dry-run").expect_refusal("set its mode to quarantine first");
    lb(&stage, "decommission --cluster prod9 --dry-run").expect_refusal("prod9 is not configured");
    configure_one(&stage, "prod1", &format!("mode: quarantine\n  {floats}"));
    let marks = stage.marks();
    let shown = eventually_lb(&stage, "decommission --cluster prod1 --dry-run -o json").await;
    let [shown] = &shown.json()[..] else { panic!("not one") };
    assert_eq!(shown["objects"], json!({"floatingip": 1, "listener": 3, "loadbalancer": 2, "pool": 3, "port": 1}));
    assert_eq!(stage.changes_since(marks), Vec::<String>::new(), "a dry run");

    let ask = stage.programs.ask(stage.writer()).unwrap();
    let order =
        |id: &str| ask.call("gimbal.kuryr.v1.AdminService/Decommission", &json!({"cluster": "prod1", "id": id}));
    let refused = order("prod1-1").unwrap_err().to_string();
    assert!(refused.contains("look at a dry run first"), "{refused}");
    let answer = order(shown["id"].as_str().unwrap()).unwrap();
    assert_eq!((&answer["id"], &answer["objects"]["loadbalancer"]), (&shown["id"], &json!("2")));
    let tag = format!("k8s-cluster:{}", PROD1.1);
    let wait = eventually("nothing of the cluster is left", Duration::from_secs(60), async || {
        let left = (stage.balancers(&tag).await.len(), stage.marked_ports(&owner(1)).await, floating_ips(&stage).await);
        let none = (0, Vec::<Value>::new(), Vec::<Value>::new());
        if left == none { Ok(()) } else { Err(format!("{left:?}")) }
    });
    wait.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.writer().process.log_tail()));
    let wait = eventually("the removal has ended", Duration::from_secs(20), async || {
        let clusters = ask.call("gimbal.kuryr.v1.InspectionService/ListClusters", &json!({})).unwrap();
        let prod1 = clusters["clusters"].as_array().unwrap().iter().find(|one| one["name"] == "prod1").unwrap().clone();
        if prod1["decommission"].is_null() { Ok(()) } else { Err(prod1.to_string()) }
    });
    wait.await.unwrap();
    // Its controller is connected and wants them, and does not fight.
    one.expect_open(true).await;
    let marks = stage.marks();
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(stage.changes_since(marks), Vec::<String>::new());
    let left: Vec<Value> = stage.balancers("").await.iter().map(|one| one["id"].clone()).collect();
    assert!(left.len() == 2 && left.contains(&people["id"]) && left.contains(&json!(others)), "{left:?}");

    configure_one(&stage, "prod1", &floats);
    let wait =
        eventually("the cluster is admitted, and has its load balancers again", Duration::from_secs(60), async || {
            let found = stage.balancers(&tag).await.len();
            if found == 2 { Ok(()) } else { Err(found) }
        });
    wait.await.unwrap();
}

/// What no Service wants any more is left to people as it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_load_balancer_is_handed_over_to_people() {
    let stage = Stage::start(&["--drift-interval", "1s", "--orphan-grace", "20s"]).await;
    let controller = stage.controller(PROD1);
    controller.want("web", {
        let mut wanted = wanted(&owner(11), 1, &stage.subnet, &[80, 81], &["10.0.0.1", "10.0.0.2"]);
        Arc::make_mut(&mut wanted.header).vip.from_outside = true;
        wanted
    });
    let id = controller.expect_ready("web", 1).await;
    let forget = format!("forget {id} --cluster prod1");
    lb(&stage, &forget).expect_refusal("wants the load balancer for");
    lb(&stage, &format!("forget {id} --cluster prod2")).expect_refusal("is not known: set clusterUid");
    let other = stage.controller(PROD2);
    other.expect_facts().await;
    lb(&stage, &format!("forget {id} --cluster prod2")).expect_refusal("does not carry the mark of cluster prod2");
    controller.forget("web");
    let ask = stage.programs.ask(stage.writer()).unwrap();
    let wait = eventually("it is counted as an orphan", Duration::from_secs(20), async || {
        let clusters = ask.call("gimbal.kuryr.v1.InspectionService/ListClusters", &json!({})).unwrap();
        let orphans = clusters["clusters"][0]["orphans"].clone();
        if orphans == "1" { Ok(()) } else { Err(clusters.to_string()) }
    });
    wait.await.unwrap();
    let before = stage.members(&id).await;
    let marks = stage.marks();
    let shown = eventually_lb(&stage, &format!("{forget} --dry-run -o json")).await.json();
    let kinds: Vec<&str> = shown.iter().map(|change| change["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["port", "members", "pool", "members", "pool", "listener", "listener", "loadbalancer"]);
    assert_eq!(stage.changes_since(marks), Vec::<String>::new(), "a dry run");
    let done = lb(&stage, &forget);
    assert_eq!(done.code, Some(0), "{done:?}");
    let row = stage.cloud.octavia().get(&format!("/loadbalancers/{id}")).await.unwrap();
    assert_eq!((&row["loadbalancer"]["tags"], &row["loadbalancer"]["description"]), (&json!([]), &json!("")));
    assert_eq!(stage.marked_ports(&owner(11)).await, Vec::<Value>::new());
    lb(&stage, &forget).expect_refusal("does not carry the mark of cluster prod1");
    // Longer than an orphan may stay.
    let marks = stage.marks();
    tokio::time::sleep(Duration::from_secs(24)).await;
    assert_eq!(stage.changes_since(marks), Vec::<String>::new());
    stage.cloud.settled(&format!("/loadbalancers/{id}")).await.unwrap();
    assert_eq!(stage.members(&id).await, before, "it serves as it did");
}
