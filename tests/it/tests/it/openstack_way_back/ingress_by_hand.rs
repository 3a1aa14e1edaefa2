//! What people do to a router in OpenStack and behind the controller's back: it comes back, and what is not wanted goes.

use gimbal_testkit::openstack::{Options, Service};
use gimbal_tests::{CLUSTER, INGRESSES, ROUTERS, WayBack, gimbalctl, ingress_path};
use serde_json::{Value, json};

use super::ingress::{until, until_gone};
use super::{WRITER, expect_looks, kill_controller};

const CONTROLLER: [&str; 3] = ["--cluster-ip-services=false", "--ingress", "--leader-election=false"];
/// A host, which is the name of the Service, of the Secret and of the Ingress as well; and another one without TLS.
const HOST: &str = "kept";
const OTHER: &str = "other";

#[tokio::test(flavor = "multi_thread")]
async fn what_people_delete_of_a_router_comes_back() {
    let options = Options { data_plane: true, key_manager: true, ..Options::with_checked_tokens() };
    let mut stage = WayBack::build_for_ingresses_on(options).await.unwrap();
    stage.make_ingress_class().await.unwrap();
    for (name, address) in [(HOST, "10.1.0.1"), (OTHER, "10.1.0.2")] {
        stage.make_backend(name, &[(name, address)]).await.unwrap();
    }
    let certificate = stage.make_certificate(HOST, &[HOST]).await.unwrap();
    let tls = json!([{"hosts": [HOST], "secretName": HOST}]);
    for ingress in [ingress(HOST, &tls), ingress(OTHER, &json!([]))] {
        stage.cluster.admin().post(INGRESSES, &ingress).await.unwrap();
    }
    stage.start_writer(&WRITER).await.unwrap();
    stage.start_controller(&CONTROLLER).await.unwrap();
    until_served(&stage, &certificate).await;
    it_is_explained(&stage).await;
    for kind in ["listener", "secret", "floating IP", "load balancer"] {
        delete(&stage, kind).await;
        until_served(&stage, &certificate).await;
    }
    // What is left of the one that was deleted, such as its port, goes at a later look.
    until(&stage, "it is at rest", async || {
        let marks = stage.marks()?;
        expect_looks(&stage, 2).await;
        let changes: Vec<String> = stage.changes_since(marks)?.iter().map(ToString::to_string).collect();
        anyhow::ensure!(changes.is_empty(), "{changes:?}");
        Ok(())
    })
    .await;
    an_ingress_is_deleted_while_the_controller_is_stopped(&mut stage, &certificate).await;
}

fn ingress(name: &str, tls: &Value) -> Value {
    let rules = json!([{"host": name, "http": {"paths": [ingress_path("/", "Prefix", name)]}}]);
    json!({"metadata": {"name": name}, "spec": {"ingressClassName": "kuryr", "tls": tls, "rules": rules}})
}

/// The address that the Ingress shows, which is another one where the floating IP was deleted.
async fn address(stage: &WayBack) -> anyhow::Result<String> {
    let ingress = stage.cluster.admin().get(&format!("{INGRESSES}/{HOST}")).await?;
    let address = ingress["status"]["loadBalancer"]["ingress"][0]["ip"].as_str();
    address.map(str::to_owned).ok_or_else(|| anyhow::anyhow!("{ingress}"))
}

async fn answer(stage: &WayBack, host: &str) -> anyhow::Result<String> {
    let reply = stage.plane()?.request(&address(stage).await?, 80, Some(host), "/").await?;
    Ok(if reply.status == 200 { reply.body } else { reply.status.to_string() })
}

/// Waits until the host is served over HTTP and HTTPS at the address that its Ingress shows.
async fn until_served(stage: &WayBack, certificate: &str) {
    until(stage, "the router serves", async || {
        let answer = answer(stage, HOST).await?;
        anyhow::ensure!(answer == HOST, "{answer}");
        let reply = stage.plane()?.request_tls(&address(stage).await?, 443, HOST, "/").await?;
        anyhow::ensure!(reply.body == HOST && reply.certificate.as_deref() == Some(certificate), "{reply:?}");
        let stored = secrets(stage).await?;
        anyhow::ensure!(stored.len() == 1, "{stored:?}");
        Ok(())
    })
    .await;
}

async fn secrets(stage: &WayBack) -> anyhow::Result<Vec<String>> {
    let rows = stage.cloud.sql("select id from barbican.secrets where deleted = 0").await?;
    Ok(rows.lines().map(str::to_owned).collect())
}

async fn row(stage: &WayBack, kind: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    let list = stage.cloud.octavia().get(&format!("/{kind}")).await.unwrap();
    let found = list[kind].as_array().unwrap().iter().find(|row| is_it(row));
    found.unwrap_or_else(|| panic!("none: {list}")).clone()
}

/// Deletes a part of the router as somebody else, and waits until another one of its kind is there.
async fn delete(stage: &WayBack, kind: &str) {
    let is_router = |row: &Value| row["name"].as_str().is_some_and(|name| name.ends_with("/kuryr-l7-router"));
    let id = |row: &Value| row["id"].as_str().unwrap().to_owned();
    let balancer = row(stage, "loadbalancers", is_router).await;
    let neutron = stage.cloud.neutron(Service::Neutron).unwrap();
    match kind {
        "listener" => {
            let of_router = json!([{"id": balancer["id"]}]);
            let is_it = |row: &Value| row["protocol_port"] == 80 && row["loadbalancers"] == of_router;
            let listener = row(stage, "listeners", is_it).await;
            stage.cloud.delete(&format!("/listeners/{}", id(&listener))).await.unwrap();
        }
        "secret" => {
            let before = secrets(stage).await.unwrap();
            stage.cloud.sql("update barbican.secrets set deleted = 1 where deleted = 0").await.unwrap();
            until(stage, "the certificate is stored again", async || {
                let after = secrets(stage).await?;
                anyhow::ensure!(after.len() == 1 && after != before, "{after:?}");
                Ok(())
            })
            .await;
        }
        "floating IP" => {
            let path = format!("/floatingips?port_id={}", balancer["vip_port_id"].as_str().unwrap());
            let floating = neutron.get(&path).await.unwrap()["floatingips"][0].clone();
            let before = address(stage).await.unwrap();
            assert_eq!(floating["floating_ip_address"], before);
            neutron.delete(&format!("/floatingips/{}", id(&floating))).await.unwrap();
            until(stage, "the Ingress shows an address that there is", async || {
                let shown = address(stage).await?;
                let list = neutron.get(&format!("/floatingips?floating_ip_address={shown}")).await?;
                let another = &list["floatingips"][0]["id"];
                anyhow::ensure!(another.is_string() && *another != floating["id"], "{shown}: {list}");
                Ok(())
            })
            .await;
        }
        _ => stage.cloud.delete(&format!("/loadbalancers/{}", id(&balancer))).await.unwrap(),
    }
}

/// The router has its part of what an administrator is shown.
async fn it_is_explained(stage: &WayBack) {
    let routers = stage.cluster.admin().items(ROUTERS).await.unwrap();
    let [router] = &routers[..] else { panic!("{routers:?}") };
    let [namespace, name] = ["namespace", "name"].map(|key| router["metadata"][key].as_str().unwrap());
    let port = stage.writer.as_ref().unwrap().port;
    until(stage, "the router is explained", async || {
        let words = format!("lb why {namespace}/KuryrL7Router:{name} --cluster {CLUSTER}");
        let why = gimbalctl(&stage.programs, port, &words)?;
        let is_told = why.code == Some(0) && why.out.contains("It is ready") && why.out.contains(name);
        anyhow::ensure!(is_told, "{why:?}");
        Ok(())
    })
    .await;
}

/// Its finalizer has kept it, and its routes and its Service's pool go when the controller is there again.
async fn an_ingress_is_deleted_while_the_controller_is_stopped(stage: &mut WayBack, certificate: &str) {
    assert_eq!(answer(stage, OTHER).await.unwrap(), OTHER);
    kill_controller(stage);
    stage.cluster.admin().delete(&format!("{INGRESSES}/{OTHER}")).await.unwrap();
    let ingress = stage.cluster.admin().get(&format!("{INGRESSES}/{OTHER}")).await.unwrap();
    assert!(ingress["metadata"]["deletionTimestamp"].is_string(), "its finalizer keeps it: {ingress}");
    stage.start_controller(&CONTROLLER).await.unwrap();
    until_gone(stage, OTHER).await;
    until_served(stage, certificate).await;
    assert_eq!(answer(stage, OTHER).await.unwrap(), "503");
    let list = stage.cloud.octavia().get("/l7policies").await.unwrap();
    let names: Vec<&Value> = list["l7policies"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert!(names.iter().all(|name| **name == format!("shop/{HOST}")), "{names:?}");
    until(stage, "its pool is gone", async || {
        let list = stage.cloud.octavia().get("/pools").await?;
        let has_it = list["pools"].as_array().into_iter().flatten().any(|pool| pool["name"] == format!("shop_{OTHER}"));
        anyhow::ensure!(!has_it, "{list}");
        Ok(())
    })
    .await;
}
