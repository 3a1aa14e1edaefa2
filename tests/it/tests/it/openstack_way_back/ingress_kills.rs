//! Each program, and both, killed at every step of the life of an Ingress with a certificate, beside one that serves.

use std::time::Duration;

use gimbal_testkit::openstack::{Options, Service};
use gimbal_tests::{INGRESSES, SECRETS, WayBack, ingress_path};
use serde_json::{Value, json};

use super::ingress::until;
use super::steps::{Killed, Steps};
use super::{WRITER, kill_controller, kill_writer};

const CONTROLLER: [&str; 3] = ["--cluster-ip-services=false", "--ingress", "--leader-election=false"];
const STEPS: [Service; 3] = [Service::Octavia, Service::Neutron, Service::Barbican];
/// Hosts, which are the names of the Services that answer, too: one that stays, and one that comes and goes.
const KEPT: &str = "kept";
const KILLED: &str = "killed";
const OTHER: &str = "other";
/// Their Secrets: the name of the one that goes is a part of the other's, and begins it.
const SECRET_OF_KEPT: &str = "foo-bar";
const SECRET_OF_KILLED: &str = "foo";
const BACKENDS: [(&str, &str); 3] = [(KEPT, "10.1.0.1"), (KILLED, "10.1.0.2"), (OTHER, "10.1.0.3")];
/// How often the host that stays gets a request.
const EVERY: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_every_step_of_an_ingress_no_request_is_led_elsewhere() {
    let options = Options { data_plane: true, key_manager: true, ..Options::with_checked_tokens() };
    let mut stage = WayBack::build_for_ingresses_on(options).await.unwrap();
    stage.make_ingress_class().await.unwrap();
    for (name, address) in BACKENDS {
        stage.make_backend(name, &[(name, address)]).await.unwrap();
    }
    stage.make_certificate(SECRET_OF_KEPT, &[KEPT]).await.unwrap();
    stage.cluster.admin().post(INGRESSES, &ingress(KEPT, KEPT)).await.unwrap();
    stage.start_writer(&WRITER).await.unwrap();
    stage.start_controller(&CONTROLLER).await.unwrap();
    let router = until(&stage, "the Ingress that stays has an address", async || {
        let ingress = stage.cluster.admin().get(&format!("{INGRESSES}/{KEPT}")).await?;
        let address = ingress["status"]["loadBalancer"]["ingress"][0]["ip"].as_str();
        address.map(str::to_owned).ok_or_else(|| anyhow::anyhow!("{ingress}"))
    })
    .await;
    until(&stage, "the Ingress that stays is served", async || is_led(&stage, &router, KEPT, KEPT).await).await;
    let before = rows(&stage).await.unwrap();
    let plane = stage.plane().unwrap();
    plane.tls_client(KEPT, (&router, 443), KEPT, EVERY).await.unwrap();
    let lives: &[(Killed, usize)] = match std::env::var_os("GIMBAL_PROVE") {
        Some(_) => &[(Killed::Writer, 12), (Killed::Both, 12), (Killed::Controller, 4)],
        None => &[(Killed::Both, 6)],
    };
    for (who, least) in lives.iter().copied() {
        let kills = a_life(&mut stage, &router, who, &before).await;
        println!("{who:?}: killed {kills} times");
        assert!(kills >= least, "{who:?}: killed {kills} times");
    }
    let traffic = stage.plane().unwrap().stop_client(KEPT).await.unwrap();
    assert!(traffic.failed.is_empty() && traffic.answered > 100, "{traffic:?}");
    assert_eq!(traffic.by.keys().collect::<Vec<_>>(), [KEPT], "{traffic:?}");
    kill_controller(&mut stage);
    kill_writer(&mut stage);
}

/// An Ingress over HTTP and HTTPS.
fn ingress(host: &str, service: &str) -> Value {
    let secret = if host == KEPT { SECRET_OF_KEPT } else { SECRET_OF_KILLED };
    json!({
        "metadata": {"name": host},
        "spec": {
            "ingressClassName": "kuryr",
            "tls": [{"hosts": [host], "secretName": secret}],
            "rules": [{"host": host, "http": {"paths": [ingress_path("/", "Prefix", service)]}}],
        },
    })
}

/// Returns how often somebody was killed.
async fn a_life(stage: &mut WayBack, router: &str, who: Killed, before: &[String]) -> usize {
    let mut steps = Steps::begin(stage, who, &CONTROLLER, &STEPS).await;
    let (secret, path) = (format!("{SECRETS}/{SECRET_OF_KILLED}"), format!("{INGRESSES}/{KILLED}"));
    let first = stage.make_certificate(SECRET_OF_KILLED, &[KILLED]).await.unwrap();
    stage.cluster.admin().post(INGRESSES, &ingress(KILLED, KILLED)).await.unwrap();
    let served = async |stage: &WayBack, service: &str, certificate: &str| {
        is_led(stage, router, KILLED, service).await?;
        let reply = stage.plane()?.request_tls(router, 443, KILLED, "/").await?;
        anyhow::ensure!(reply.body == service && reply.certificate.as_deref() == Some(certificate), "{reply:?}");
        // Policies of both hosts over HTTP and HTTPS, and what they lead to.
        let rows = rows(stage).await?;
        let policies = rows.iter().filter(|row| row.starts_with("l7policies")).count();
        anyhow::ensure!(policies == 4 && rows.len() == before.len() + 4, "{rows:#?}");
        Ok(())
    };
    steps.until(stage, "it is served", async |stage| served(stage, KILLED, &first).await).await;
    // Another certificate, and another Service.
    let second = stage.renew_certificate(SECRET_OF_KILLED, &[KILLED]).await.unwrap();
    stage.cluster.admin().patch(&path, &json!({"spec": ingress(KILLED, OTHER)["spec"]})).await.unwrap();
    steps.until(stage, "it is changed", async |stage| served(stage, OTHER, &second).await).await;
    // Another router is made for it, and the shared one loses it. It takes minutes.
    if std::env::var_os("GIMBAL_PROVE").is_some() {
        let own = json!({"metadata": {"annotations": {"kuryr.openstack.org/l7-router": "own"}}});
        stage.cluster.admin().patch(&path, &own).await.unwrap();
        steps.until(stage, "it is moved", async |stage| is_moved(stage, router, &path, &second).await).await;
    }
    stage.cluster.admin().delete(&path).await.unwrap();
    let gone = async |stage: &WayBack| {
        match stage.cluster.admin().get(&path).await {
            Err(error) if error.code == 404 => {}
            other => anyhow::bail!("{other:?}"),
        }
        is_led(stage, router, KILLED, "503").await?;
        let rows = rows(stage).await?;
        anyhow::ensure!(rows == before, "{rows:#?}");
        Ok(())
    };
    steps.until(stage, "it is gone", gone).await;
    steps.end(stage).await;
    stage.cluster.admin().delete(&secret).await.unwrap();
    steps.kills
}

/// Whether the Ingress is served by a router of its own, and by the shared one no more.
async fn is_moved(stage: &WayBack, shared: &str, path: &str, certificate: &str) -> anyhow::Result<()> {
    let ingress = stage.cluster.admin().get(path).await?;
    let address = ingress["status"]["loadBalancer"]["ingress"][0]["ip"].as_str();
    let own = address.filter(|own| *own != shared).ok_or_else(|| anyhow::anyhow!("{ingress}"))?;
    is_led(stage, own, KILLED, OTHER).await?;
    let reply = stage.plane()?.request_tls(own, 443, KILLED, "/").await?;
    anyhow::ensure!(reply.body == OTHER && reply.certificate.as_deref() == Some(certificate), "{reply:?}");
    is_led(stage, shared, KILLED, "503").await
}

/// Whether requests for a host over HTTP are answered by this Service, or with this status. The Service of the host that stays never answers for another one.
async fn is_led(stage: &WayBack, router: &str, host: &str, service: &str) -> anyhow::Result<()> {
    let reply = stage.plane()?.request(router, 80, Some(host), "/").await?;
    let answer = if reply.status == 200 { reply.body } else { reply.status.to_string() };
    assert!(host == KEPT || answer != KEPT, "{host} is answered by {answer}");
    anyhow::ensure!(answer == service, "{host} is answered by {answer}");
    Ok(())
}

/// What routers are made of: the kind and the name of each row.
async fn rows(stage: &WayBack) -> anyhow::Result<Vec<String>> {
    let mut all = stage.left().await?.iter().map(|row| row.chars().take(13).collect()).collect::<Vec<String>>();
    for kind in ["listeners", "pools", "l7policies"] {
        let list = stage.cloud.octavia().get(&format!("/{kind}")).await?;
        all.extend(list[kind].as_array().into_iter().flatten().map(|row| format!("{kind} {}", row["name"])));
    }
    let secrets = stage.cloud.sql("select name from barbican.secrets where deleted = 0").await?;
    // A name has the hash of the content in it.
    let name = |line: &str| format!("secret {}", line.rsplit('/').next().unwrap_or_default());
    all.extend(secrets.lines().map(name));
    all.sort();
    Ok(all)
}
