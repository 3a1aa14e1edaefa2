//! Which alerts fire for what the programs themselves expose while something goes wrong, and that none does while nothing is.

use std::time::Duration;

use gimbal_testkit::api_proxy::{Calls, Trouble};
use gimbal_testkit::{ApiProxy, Pki, San};
use gimbal_tests::{Alerts, Discoverer, Mirror, Scene, Target, Writer, expect_log, expect_metric, slice_of, svc};

use super::certificates::pair_at;

const SERVICES: u32 = 4;

fn web(number: u32) -> String {
    format!("web{number}")
}

/// Gives each Service this number of endpoints.
async fn offer(scene: &Scene, endpoints: u32) {
    for number in 0..SERVICES {
        scene.put(&slice_of("team1", &web(number), "a", 1000 * number + 1, endpoints)).await.unwrap();
    }
}

/// Waits until both say that they have each other: what they expose is a little behind what they do.
async fn all_is_well(writer: &Writer, discoverer: &Discoverer) {
    expect_metric(writer.admin_port, "gimbal_writer_leading", "", 1.0).await.unwrap();
    expect_metric(writer.admin_port, "gimbal_writer_backend_connected", "node02", 1.0).await.unwrap();
    expect_metric(discoverer.admin_port, "gimbal_discoverer_connected", "", 1.0).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_trouble_fires_its_own_alert_and_quiet_fires_none() {
    let scene = Scene::start().await.unwrap();
    scene.source.namespace("nowhere").await.unwrap();
    for number in 0..SERVICES {
        scene.put(&svc("team1", &web(number), &[("http", 80)])).await.unwrap();
    }
    offer(&scene, 10).await;
    let config = scene.config(&["node02"], "").unwrap();
    let mut writer = scene.writer(&config, &[]).await.unwrap();
    let mut discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    for number in 0..SERVICES {
        let name = format!("node02-{}", web(number));
        Mirror::expect_count(&scene.gimbal, "team1", &name, 10).await.unwrap();
    }
    let targets = [
        Target { job: "gimbal-writer", admin_port: writer.admin_port },
        Target { job: "gimbal-kubernetes-discoverer", admin_port: discoverer.admin_port },
    ];
    all_is_well(&writer, &discoverer).await;
    let alerts = Alerts::watch(&targets).await;
    // Changes are no trouble.
    offer(&scene, 12).await;
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web0", 12).await.unwrap();
    alerts.expect(&[]).await.unwrap();

    // A Service that cannot be published.
    let lost = svc("nowhere", "lost", &[("http", 80)]);
    scene.put(&lost).await.unwrap();
    alerts.expect(&["GimbalServicesRejected"]).await.unwrap();
    scene.remove("nowhere", "lost").await.unwrap();
    alerts.expect(&[]).await.unwrap();

    // A removal that the guard holds.
    offer(&scene, 1).await;
    alerts.expect(&["GimbalBackendHeld"]).await.unwrap();
    offer(&scene, 12).await;
    alerts.expect(&[]).await.unwrap();

    // A configuration that cannot be read.
    let good = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, "backends: {").unwrap();
    alerts.expect(&["GimbalWriterFilesBad"]).await.unwrap();
    std::fs::write(&config, good).unwrap();
    alerts.expect(&[]).await.unwrap();

    // A discoverer whose backend the writer does not know.
    let stranger = scene.discoverer("other", &scene.source, writer.port, &[]).unwrap();
    expect_log(&stranger.process, &["no stream to the writer", "UnknownBackend"]).await.unwrap();
    alerts.expect(&["GimbalBackendRefused"]).await.unwrap();
    drop(stranger);

    // One whose certificate is of another authority.
    let alerts = Alerts::watch(&targets).await;
    let pair = Pki::create(scene.path("elsewhere")).unwrap().backend("node02").unwrap();
    let stranger = scene.discoverer_as(&pair, "node02", &scene.source, writer.port, &[]).unwrap();
    alerts.expect(&["GimbalHandshakesFail"]).await.unwrap();
    drop(stranger);
    // What was counted is of the past now.
    let alerts = Alerts::watch(&targets).await;

    discoverer.process.kill().unwrap();
    alerts.expect(&["GimbalBackendDisconnected"]).await.unwrap();

    let discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    let targets = [targets[0], Target { admin_port: discoverer.admin_port, ..targets[1] }];
    all_is_well(&writer, &discoverer).await;
    let alerts = Alerts::watch(&targets).await;
    writer.process.kill().unwrap();
    alerts.expect(&["GimbalKubernetesDiscovererDisconnected", "GimbalWriterWithoutLeader"]).await.unwrap();
}

/// The API server fails to write: what waits for it is rejected for that long, which is the second alert.
#[tokio::test(flavor = "multi_thread")]
async fn writes_that_fail_fire_theirs() {
    let scene = Scene::start().await.unwrap();
    for number in 0..SERVICES {
        scene.put(&svc("team1", &web(number), &[("http", 80)])).await.unwrap();
    }
    offer(&scene, 10).await;
    let api = ApiProxy::start(&scene.gimbal, &scene.gimbal.user("writer").unwrap()).await.unwrap();
    let writer = scene.writer_through(&api, &scene.config(&["node02"], "").unwrap(), &[]).await.unwrap();
    let discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    for number in 0..SERVICES {
        Mirror::expect_count(&scene.gimbal, "team1", &format!("node02-{}", web(number)), 10).await.unwrap();
    }
    all_is_well(&writer, &discoverer).await;
    let alerts = Alerts::watch(&[Target { job: "gimbal-writer", admin_port: writer.admin_port }]).await;
    api.trouble(&[Calls::Writes], Trouble::Answer(500, None));
    offer(&scene, 12).await;
    alerts.expect(&["GimbalServicesRejected", "GimbalWritesFail"]).await.unwrap();
    api.recover();
    for number in 0..SERVICES {
        Mirror::expect_count(&scene.gimbal, "team1", &format!("node02-{}", web(number)), 12).await.unwrap();
    }
}

/// Replaces a pair by one that ends in three days.
pub(crate) fn let_it_end_soon(scene: &Scene, name: &str, sans: &[San<'_>]) {
    let next = scene.pki.issue_for(&format!("{name}-next"), sans, Duration::from_secs(3 * 86_400)).unwrap();
    let pair = pair_at(scene, name);
    std::fs::copy(&next.key, &pair.key).unwrap();
    std::fs::copy(&next.cert, &pair.cert).unwrap();
}

/// A source that is silent, writes that hang, a lost backend and certificates near their end are reported as times.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_reported_as_a_time_fires_its_own() {
    let scene = Scene::start().await.unwrap();
    for number in 0..SERVICES {
        scene.put(&svc("team1", &web(number), &[("http", 80)])).await.unwrap();
    }
    offer(&scene, 10).await;
    let api = ApiProxy::start(&scene.gimbal, &scene.gimbal.user("writer").unwrap()).await.unwrap();
    let config = scene.config(&["node02"], "onLoss: {notReadyAfter: 1s}").unwrap();
    let writer = scene.writer_through(&api, &config, &["--loss-grace", "1s"]).await.unwrap();
    let mut discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    for number in 0..SERVICES {
        Mirror::expect_count(&scene.gimbal, "team1", &format!("node02-{}", web(number)), 10).await.unwrap();
    }
    let targets = [
        Target { job: "gimbal-writer", admin_port: writer.admin_port },
        Target { job: "gimbal-kubernetes-discoverer", admin_port: discoverer.admin_port },
    ];
    all_is_well(&writer, &discoverer).await;
    let alerts = Alerts::watch(&targets).await;
    alerts.expect(&[]).await.unwrap();

    scene.source.pause().unwrap();
    let age = "gimbal_writer_backend_source_age_seconds";
    alerts.expect_as_time_passes(age, &["GimbalBackendSourceStale"]).await.unwrap();
    scene.source.resume().unwrap();

    api.trouble(&[Calls::Writes], Trouble::Silence);
    offer(&scene, 11).await;
    alerts.expect_as_time_passes("gimbal_writer_oldest_pending_seconds", &["GimbalWritesLate"]).await.unwrap();
    api.recover();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web0", 11).await.unwrap();

    let alerts = Alerts::watch(&targets).await;
    let_it_end_soon(&scene, "writer", &[San::Dns("localhost"), San::Ip("127.0.0.1")]);
    alerts.expect(&["GimbalWriterCertificateEnds"]).await.unwrap();
    let alerts = Alerts::watch(&targets[1..]).await;
    let identity = gimbal_testkit::pki::backend_identity("node02");
    let_it_end_soon(&scene, "node02", &[San::Uri(&identity), San::Dns("localhost"), San::Ip("127.0.0.1")]);
    alerts.expect(&["GimbalKubernetesDiscovererCertificateEnds"]).await.unwrap();
    std::fs::write(pair_at(&scene, "node02").key, "no key").unwrap();
    alerts.expect(&["GimbalKubernetesDiscovererCertificateEnds", "GimbalKubernetesDiscovererFilesBad"]).await.unwrap();
    let_it_end_soon(&scene, "node02", &[San::Uri(&identity), San::Dns("localhost"), San::Ip("127.0.0.1")]);
    alerts.expect(&["GimbalKubernetesDiscovererCertificateEnds"]).await.unwrap();

    // A discoverer that starts while its source is away knows nothing of it.
    discoverer.process.kill().unwrap();
    scene.source.pause().unwrap();
    let discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    expect_metric(discoverer.admin_port, "gimbal_discoverer_connected", "", 1.0).await.unwrap();
    let job = targets[1].job;
    let alerts = Alerts::watch(&[Target { job, admin_port: discoverer.admin_port }]).await;
    let of_discoverer = ["GimbalKubernetesDiscovererCertificateEnds", "GimbalKubernetesDiscovererSourceUnknown"];
    alerts.expect(&of_discoverer).await.unwrap();
    scene.source.resume().unwrap();
    alerts.expect(&of_discoverer[..1]).await.unwrap();

    let alerts = Alerts::watch(&targets[..1]).await;
    drop(discoverer);
    let lost = ["GimbalBackendDisconnected", "GimbalBackendLost", "GimbalWriterCertificateEnds"];
    alerts.expect(&lost).await.unwrap();
}
