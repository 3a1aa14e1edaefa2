//! Certificates and authorities that are replaced, expire, or are refused, while everything runs.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gimbal_testkit::{Pair, Pki, San, eventually, pki::backend_identity};
use gimbal_tests::{
    Discoverer, Ep, Grpcurl, Mirror, SOON, Scene, Writer, expect_log, expect_metric, metric, slice, svc,
};
use serde_json::json;
use tokio::net::TcpStream;

const WEB: &str = "node02-web";

async fn offer(scene: &Scene, address: &str) {
    scene.put(&slice("team1", "web", "a", &[("http", 80)], &[Ep::Ready(address)])).await.unwrap();
}

async fn arrives(scene: &Scene, address: &str) -> Mirror {
    offer(scene, address).await;
    Mirror::expect(&scene.gimbal, "team1", WEB, &[&format!("{address}:8080")]).await.unwrap()
}

/// Makes one change after the other to the same Service, each awaited in the Gimbal cluster, until `stop` is set.
/// Returns their number.
async fn changes_flow(scene: &Scene, stop: &AtomicBool) -> u32 {
    let first = arrives(scene, "10.1.0.1").await;
    let mut count = 1;
    while !stop.load(Ordering::Relaxed) {
        count += 1;
        let mirror = arrives(scene, &format!("10.1.{}.{}", count / 250, count % 250 + 1)).await;
        assert_eq!(mirror.service["metadata"]["uid"], first.service["metadata"]["uid"]);
    }
    count
}

fn copy(from: &Pair, to: &Pair) {
    for (from, to) in [(&from.key, &to.key), (&from.cert, &to.cert)] {
        std::fs::write(to, std::fs::read(from).unwrap()).unwrap();
    }
}

fn bundle(scene: &Scene, authorities: &[&Path]) {
    let texts: String = authorities.iter().map(|ca| std::fs::read_to_string(ca).unwrap()).collect();
    std::fs::write(scene.pki.ca(), texts).unwrap();
}

pub(crate) fn pair_at(scene: &Scene, name: &str) -> Pair {
    let dir = scene.pki.ca().with_file_name("");
    Pair { cert: dir.join(format!("{name}.pem")), key: dir.join(format!("{name}.key")) }
}

/// Waits until both programs have loaded these numbers of changes of their files.
async fn reloads(writer: &Writer, discoverer: &Discoverer, at_writer: u32, at_discoverer: u32) {
    expect_metric(writer.admin_port, "gimbal_writer_tls_reloads_total", "", at_writer.into()).await.unwrap();
    let name = "gimbal_discoverer_tls_reloads_total";
    expect_metric(discoverer.admin_port, name, "", at_discoverer.into()).await.unwrap();
}

async fn streams(discoverer: &Discoverer) -> f64 {
    metric(discoverer.admin_port, "gimbal_discoverer_streams_total", "").await.unwrap()
}

async fn expect_streams(discoverer: &Discoverer, at_least: f64) {
    eventually("the agent has opened another stream", SOON, async || {
        let streams = streams(discoverer).await;
        anyhow::ensure!(streams >= at_least, "{streams} streams");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    expect_metric(discoverer.admin_port, "gimbal_discoverer_connected", "", 1.0).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_renewed_while_changes_flow() {
    let scene = Scene::start().await.unwrap();
    scene.put(&svc("team1", "web", &[("http", 80)])).await.unwrap();
    let first_ca = scene.path("first-ca.pem");
    std::fs::copy(scene.pki.ca(), &first_ca).unwrap();
    let second = Pki::create(scene.path("second")).unwrap();
    let writer = scene.writer(&scene.config(&["node02"], "").unwrap(), &[]).await.unwrap();
    let discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    discoverer.ready().await.unwrap();
    arrives(&scene, "10.1.0.1").await;
    // There may be several: the first ones before the source was read, or before the writer led.
    let before = streams(&discoverer).await;
    let old = copy_of(&scene, "node02", "old");

    let stop = AtomicBool::new(false);
    let renew = async {
        // The agent's certificate.
        scene.pki.backend("node02").unwrap();
        reloads(&writer, &discoverer, 0, 1).await;
        // The authority, with an overlap.
        bundle(&scene, &[&first_ca, second.ca()]);
        reloads(&writer, &discoverer, 1, 2).await;
        // The writer's certificate, and the agent's, by the new authority.
        copy(&second.server("writer").unwrap(), &pair_at(&scene, "writer"));
        reloads(&writer, &discoverer, 2, 2).await;
        copy(&second.backend("node02").unwrap(), &pair_at(&scene, "node02"));
        reloads(&writer, &discoverer, 2, 3).await;
        // No stream had to be opened anew for any of it.
        assert_eq!(streams(&discoverer).await, before, "{}", discoverer.process.log_tail());

        // The old authority is removed, and the stream that was opened under it ends: it is opened again under the new
        // one.
        bundle(&scene, &[second.ca()]);
        reloads(&writer, &discoverer, 3, 4).await;
        expect_streams(&discoverer, before + 1.0).await;
        expect_metric(writer.admin_port, "gimbal_writer_goodbyes_total", "reason=\"Certificate\"", 1.0).await.unwrap();
        stop.store(true, Ordering::Relaxed);
    };
    let (changes, ()) = tokio::join!(changes_flow(&scene, &stop), renew);
    assert!(changes > 10, "{changes} changes");

    let late = Grpcurl::tls(&second, &old, writer.port);
    let error = late.call("InspectionService/ListBackends", &json!({})).unwrap_err().to_string();
    assert!(!error.contains("first") && !error.contains("deny"), "{error}");
    let parts = ["refused a connection", "UnknownAuthority", "--tls-ca", &backend_identity("node02")];
    expect_log(&writer.process, &parts).await.unwrap();
    let failures = "gimbal_writer_handshake_failures_total";
    let refused = metric(writer.admin_port, failures, "reason=\"UnknownAuthority\"").await.unwrap();
    assert!(refused >= 1.0, "{refused}");
    arrives(&scene, "10.2.0.1").await;
}

/// Copies the current pair to another name.
fn copy_of(scene: &Scene, name: &str, kept: &str) -> Pair {
    let (from, to) = (pair_at(scene, name), pair_at(scene, kept));
    copy(&from, &to);
    to
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_on_the_deny_list_is_out_within_seconds() {
    let scene = Scene::start().await.unwrap();
    scene.put(&svc("team1", "web", &[("http", 80)])).await.unwrap();
    let config = scene.config(&["node02", "other"], "").unwrap();
    let writer = scene.writer(&config, &[]).await.unwrap();
    let discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    let other = scene.discoverer("other", &scene.source, writer.port, &[]).unwrap();
    let mirror = arrives(&scene, "10.1.0.1").await;
    expect_streams(&other, 1.0).await;
    Mirror::expect(&scene.gimbal, "team1", "other-web", &["10.1.0.1:8080"]).await.unwrap();
    let others = streams(&other).await;
    let stolen = copy_of(&scene, "node02", "stolen");

    let text = std::fs::read_to_string(&config).unwrap();
    let fingerprint = fingerprint(&stolen.cert);
    std::fs::write(&config, format!("denyCertificates: [\"sha256:{fingerprint}\"]\n{text}")).unwrap();
    expect_log(&discoverer.process, &["no stream to the writer", "Certificate", "not accepted any more"])
        .await
        .unwrap();
    expect_metric(discoverer.admin_port, "gimbal_discoverer_connected", "", 0.0).await.unwrap();
    expect_log(&writer.process, &["ends a connection", "Denied", &fingerprint]).await.unwrap();
    expect_log(&writer.process, &["refused a connection", "Denied", &fingerprint]).await.unwrap();

    // What it had published stays, and it cannot change it any more. Other backends are not affected.
    offer(&scene, "10.1.0.2").await;
    mirror.expect_unchanged(&scene.gimbal, Duration::from_secs(1)).await.unwrap();
    Mirror::expect(&scene.gimbal, "team1", "other-web", &["10.1.0.2:8080"]).await.unwrap();
    assert_eq!(streams(&other).await, others);

    // The rightful owner gets a new certificate, and the thief is refused as before.
    scene.pki.backend("node02").unwrap();
    Mirror::expect(&scene.gimbal, "team1", WEB, &["10.1.0.2:8080"]).await.unwrap();
    let thief = Grpcurl::tls(&scene.pki, &stolen, writer.port);
    assert!(thief.call("InspectionService/ListBackends", &json!({})).is_err());
    let tail = writer.process.log();
    let lines = tail.lines().filter(|line| line.contains("refused a connection") && line.contains("Denied")).count();
    assert_eq!(lines, 1, "once a minute for each host:\n{tail}");

    // A name that is removed from the file no longer stands for a backend, however good the certificate is.
    let mirror = Mirror::expect(&scene.gimbal, "team1", "other-web", &["10.1.0.2:8080"]).await.unwrap();
    scene.config(&["node02"], "").unwrap();
    expect_log(&other.process, &["no stream to the writer", "UnknownBackend"]).await.unwrap();
    expect_metric(other.admin_port, "gimbal_discoverer_connected", "", 0.0).await.unwrap();
    arrives(&scene, "10.1.0.3").await;
    mirror.expect_unchanged(&scene.gimbal, Duration::from_millis(500)).await.unwrap();
}

fn fingerprint(cert: &Path) -> String {
    let files = gimbal_transport::TlsFiles { cert: cert.into(), key: cert.with_extension("key"), ca: cert.into() };
    gimbal_transport::TlsCredentials::load(files).unwrap().0.own().fingerprint()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_its_certificate_and_comes_back_with_the_next() {
    let scene = Scene::start().await.unwrap();
    scene.put(&svc("team1", "web", &[("http", 80)])).await.unwrap();
    let writer = scene.writer(&scene.config(&["node02"], "").unwrap(), &[]).await.unwrap();
    let identity = backend_identity("node02");
    let names = [San::Uri(&identity), San::Dns("localhost"), San::Ip("127.0.0.1")];
    let issue = |seconds| scene.pki.issue_for("node02", &names, Duration::from_secs(seconds)).unwrap();
    let pair = issue(10);
    let discoverer = scene.discoverer_as(&pair, "node02", &scene.source, writer.port, &[]).unwrap();
    let mirror = arrives(&scene, "10.1.0.1").await;

    // The certificate is not renewed.
    expect_log(&discoverer.process, &["no stream to the writer", "Certificate", "has expired"]).await.unwrap();
    expect_log(&writer.process, &["refused a connection", "Expired", &identity]).await.unwrap();
    expect_metric(discoverer.admin_port, "gimbal_discoverer_connected", "", 0.0).await.unwrap();
    offer(&scene, "10.1.0.2").await;
    mirror.expect_unchanged(&scene.gimbal, Duration::from_secs(1)).await.unwrap();

    // It is renewed, and from now on in time: one stream takes over from the other, and nothing is lost.
    issue(12);
    Mirror::expect(&scene.gimbal, "team1", WEB, &["10.1.0.2:8080"]).await.unwrap();
    let before = streams(&discoverer).await;
    issue(3600);
    let stop = AtomicBool::new(false);
    let expire = async {
        expect_streams(&discoverer, before + 1.0).await;
        stop.store(true, Ordering::Relaxed);
    };
    tokio::join!(changes_flow(&scene, &stop), expire);
    assert_eq!(streams(&discoverer).await, before + 1.0, "{}", discoverer.process.log_tail());
    arrives(&scene, "10.2.0.1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_writer_says_what_was_wrong_at_its_door_and_how_it_stands_with_its_files() {
    let scene = Scene::start().await.unwrap();
    let writer = scene.writer(&scene.config(&["node02"], "").unwrap(), &[]).await.unwrap();
    let read = async |name: &str, labels: &str| {
        metric(writer.admin_port, &format!("gimbal_writer_{name}"), labels).await.unwrap()
    };

    // A health check is not counted as an attack.
    for _ in 0..3 {
        drop(TcpStream::connect(("127.0.0.1", writer.port)).await.unwrap());
    }
    expect_metric(writer.admin_port, "gimbal_writer_probes_total", "", 3.0).await.unwrap();
    assert_eq!(read("handshake_failures_total", "").await, 0.0);
    assert!(!writer.process.log().contains("refused a connection"), "{}", writer.process.log_tail());

    let expired = scene.pki.issue_expired("expired", &[San::Uri("spiffe://gimbal.example/backend/late")]).unwrap();
    let expired = Grpcurl::tls(&scene.pki, &expired, writer.port);
    for _ in 0..3 {
        let error = expired.call("InspectionService/ListBackends", &json!({})).unwrap_err().to_string();
        assert!(!error.contains("spiffe"), "{error}");
    }
    let labels = "reason=\"Expired\"";
    let failures = eventually("three are counted", SOON, async || {
        let failures = read("handshake_failures_total", labels).await;
        anyhow::ensure!(failures >= 3.0, "{failures} failures");
        Ok::<_, anyhow::Error>(failures)
    });
    assert_eq!(failures.await.unwrap(), read("handshake_failures_total", "").await, "of this reason only");
    let parts = ["refused a connection", "127.0.0.1", "Expired", "asked_for=\"localhost\"", "backend/late", "serial:"];
    expect_log(&writer.process, &parts).await.unwrap();
    assert_eq!(writer.process.log().matches("refused a connection").count(), 1, "{}", writer.process.log_tail());

    // Half of a new pair: logged once, and the old pair is still served.
    let not_after = read("tls_certificate_not_after_seconds", "").await;
    let good =
        async |wanted| expect_metric(writer.admin_port, "gimbal_writer_tls_files_good", "", wanted).await.unwrap();
    good(1.0).await;
    let next = Pki::issue_for(&scene.pki, "next", &[San::Dns("localhost")], Duration::from_secs(100_000)).unwrap();
    let served = pair_at(&scene, "writer");
    std::fs::copy(&next.cert, &served.cert).unwrap();
    good(0.0).await;
    assert_eq!(read("tls_certificate_not_after_seconds", "").await, not_after);
    scene.ask(&writer).unwrap().call("InspectionService/ListBackends", &json!({})).unwrap();
    std::fs::copy(&next.key, &served.key).unwrap();
    good(1.0).await;
    assert_ne!(read("tls_certificate_not_after_seconds", "").await, not_after);
    scene.ask(&writer).unwrap().call("InspectionService/ListBackends", &json!({})).unwrap();
    assert_eq!(
        writer.process.log().matches("is not the key of the certificate").count(),
        1,
        "{}",
        writer.process.log_tail()
    );
}
