//! Several writers on one Gimbal cluster: one writes, and another takes over.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use gimbal_testkit::api_proxy::{Calls, Trouble};
use gimbal_testkit::process::free_port;
use gimbal_testkit::{ApiProxy, eventually};
use gimbal_tests::{
    Mirror, Proxy, SOON, Scene, Writer, expect_log, expect_metric, gimbalctl, metric, slice_of, svc, writer_rights,
};
use serde_json::Value;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/gimbal-writer";
const SECOND: &str = "user-1";

async fn scene() -> (Scene, PathBuf) {
    let scene = Scene::start().await.unwrap();
    // The audit log distinguishes writers by their users.
    scene.gimbal.bind(&scene.gimbal.user(SECOND).unwrap(), &writer_rights().unwrap()).await.unwrap();
    let config = scene.config(&["node02"], "").unwrap();
    (scene, config)
}

async fn leads(writer: &Writer) {
    expect_metric(writer.admin_port, "gimbal_writer_leading", "", 1.0).await.unwrap();
}

async fn lease(scene: &Scene) -> Value {
    scene.gimbal.admin().get(LEASE).await.unwrap()["spec"].clone()
}

async fn offer(scene: &Scene, name: &str, first: u32, count: u32) {
    scene.put(&svc("team1", name, &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", name, "a", first, count)).await.unwrap();
}

/// Returns the writes to published objects since `mark`, by user.
async fn writes(scene: &Scene, mark: usize) -> Vec<(String, String)> {
    let entries = scene.gimbal.audit_since(mark).await.unwrap();
    let entries = entries.into_iter().filter(gimbal_testkit::AuditEntry::is_publication);
    entries.map(|e| (e.user, format!("{} {} {}/{} {}", e.verb, e.resource, e.namespace, e.name, e.code))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_leader_is_killed_the_other_takes_over_and_finishes() {
    let (scene, config) = scene().await;
    let mut first = scene.writer(&config, &[]).await.unwrap();
    leads(&first).await;
    let second = scene.writer_as(SECOND, free_port().unwrap(), &config, &[]).await.unwrap();
    // A follower observes, so it is ready to take over.
    assert_eq!(metric(second.admin_port, "gimbal_writer_leading", "").await.unwrap(), 0.0);

    // A client that wants a decision gets the leader's address.
    let request = serde_json::json!({"backend": "node02", "sourceIncarnation": "another"});
    let asked = scene.ask(&second).unwrap().call("AdminService/ConfirmIncarnation", &request);
    let refused = asked.unwrap_err().to_string();
    assert!(refused.contains("Unavailable") && refused.contains(&format!("127.0.0.1:{}", first.port)), "{refused}");

    // What it shows comes with the remark that it is not the leader's.
    let shown = gimbalctl(&scene, second.port, "services -o json").unwrap();
    assert!(shown.code == Some(0) && shown.error.contains("this writer does not lead"), "{shown:?}");
    let shown = gimbalctl(&scene, second.port, "backends -o json").unwrap().json();
    assert_eq!(shown[0]["writer"]["leading"], false);
    gimbalctl(&scene, second.port, "services --backend nope").unwrap().expect_refusal("no backend \"nope\" is known");

    // An agent that knows only the follower is refused, and keeps trying.
    let hopeful = scene.discoverer("node02", &scene.source, second.port, &[]).unwrap();
    expect_log(&hopeful.process, &["no stream to the writer", "NotLeader"]).await.unwrap();
    let refused = metric(second.admin_port, "gimbal_writer_refused_streams_total", "NotLeader").await.unwrap();
    eventually("it tries on", SOON, async || {
        let now = metric(second.admin_port, "gimbal_writer_refused_streams_total", "NotLeader").await?;
        anyhow::ensure!(now > refused + 1.0, "{now} refusals");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    drop(hopeful);

    // One that connects to both in turn, as through a Service, finds the leader.
    let proxy = Proxy::start(&[second.port, first.port]).await.unwrap();
    let discoverer = scene.discoverer("node02", &scene.source, proxy.port, &[]).unwrap();
    discoverer.ready().await.unwrap();
    offer(&scene, "web", 1, 3).await;
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();
    let by_second = writes(&scene, 0).await.into_iter().filter(|(user, _)| user == SECOND).count();
    assert_eq!(by_second, 0, "a follower writes nothing");

    // The API server does not answer, so these writes are in flight and pending when the leader dies.
    scene.gimbal.pause().unwrap();
    for number in 0..20 {
        offer(&scene, &format!("late{number}"), 1000 * (number + 1), 3).await;
    }
    eventually("the leader has writes under way", SOON, async || {
        let (waiting, under_way) = (
            metric(first.admin_port, "gimbal_writer_pending", "").await?,
            metric(first.admin_port, "gimbal_writer_in_flight", "").await?,
        );
        anyhow::ensure!(waiting + under_way >= 1.0, "none");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    first.process.kill().unwrap();
    scene.gimbal.resume().unwrap();
    let killed = Instant::now();
    leads(&second).await;
    assert!(killed.elapsed() < Duration::from_secs(10), "took over after {:?}", killed.elapsed());
    for number in 0..20 {
        Mirror::expect_count(&scene.gimbal, "team1", &format!("node02-late{number}"), 3).await.unwrap();
    }
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();
    let by_second =
        writes(&scene, 0).await.into_iter().filter(|(user, what)| user == SECOND && what.contains("node02-web"));
    assert_eq!(by_second.collect::<Vec<_>>(), [], "what was right is not written again");
    let transitions = lease(&scene).await["leaseTransitions"].as_u64();
    assert_eq!(transitions, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_slept_longer_than_its_lease_writes_nothing_more() {
    let (scene, config) = scene().await;
    // So slow that it is frozen with many pending writes.
    let first = scene.writer(&config, &["--write-qps", "10"]).await.unwrap();
    leads(&first).await;
    let second = scene.writer_as(SECOND, free_port().unwrap(), &config, &[]).await.unwrap();
    for number in 0..80 {
        offer(&scene, &format!("web{number}"), 1000 * number, 3).await;
    }
    let discoverer = scene.discoverer("node02", &scene.source, first.port, &[]).unwrap();
    eventually("the first one writes", SOON, async || {
        anyhow::ensure!(!writes(&scene, 0).await.is_empty(), "not yet");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();

    first.process.signal("STOP").unwrap();
    leads(&second).await;
    let mark = scene.gimbal.audit_mark().await.unwrap();
    let left = metric(second.admin_port, "gimbal_writer_backend_endpoints", "node02").await.unwrap();
    assert!(left < 120.0, "{left} endpoints were written already: there is little left to be tempted by");
    first.process.signal("CONT").unwrap();
    expect_metric(first.admin_port, "gimbal_writer_leading", "", 0.0).await.unwrap();
    expect_log(&first.process, &["goodbye", "NotLeader"]).await.unwrap();
    expect_log(&discoverer.process, &["no stream to the writer", "NotLeader"]).await.unwrap();
    drop(discoverer);

    let proxy = Proxy::start(&[first.port, second.port]).await.unwrap();
    let _discoverer = scene.discoverer("node02", &scene.source, proxy.port, &[]).unwrap();
    for number in 0..80 {
        Mirror::expect_count(&scene.gimbal, "team1", &format!("node02-web{number}"), 3).await.unwrap();
    }
    let by_first: Vec<_> = writes(&scene, mark).await.into_iter().filter(|(user, _)| user != SECOND).collect();
    assert_eq!(by_first, [], "the sleeper wrote");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_stop_hands_the_lease_on_and_a_restart_takes_its_own_back() {
    // Whoever waits until it expires waits longer than this test does.
    const LONG: [&str; 1] = ["--lease-duration=90s"];
    let (scene, config) = scene().await;
    let port = free_port().unwrap();
    let mut first = scene.writer_at(port, &config, &LONG).await.unwrap();
    leads(&first).await;
    let holder = lease(&scene).await["holderIdentity"].clone();
    assert!(holder.as_str().unwrap().contains(&format!("127.0.0.1:{port}")), "{holder}");

    // Killed, and back on the same host and address: it need not wait for its own lease.
    first.process.kill().unwrap();
    let mut first = scene.writer_at(port, &config, &LONG).await.unwrap();
    leads(&first).await;
    let spec = lease(&scene).await;
    assert_eq!(spec["holderIdentity"], holder);
    assert_eq!(spec["leaseTransitions"], 1, "{spec}");

    let mut second = scene.writer_as(SECOND, free_port().unwrap(), &config, &LONG).await.unwrap();
    assert_eq!(metric(second.admin_port, "gimbal_writer_leading", "").await.unwrap(), 0.0);
    let exit = first.process.terminate(Duration::from_secs(5)).await.unwrap();
    assert_eq!(exit.code, Some(0));
    assert_ne!(lease(&scene).await["holderIdentity"], holder);
    expect_log(&first.process, &["the lease is released"]).await.unwrap();
    leads(&second).await;

    // The last one leaves the Lease without a holder.
    second.process.terminate(Duration::from_secs(5)).await.unwrap();
    assert_eq!(lease(&scene).await["holderIdentity"].as_str().unwrap_or_default(), "");
}

/// A leader that is cut off from its API server alone does not know of another leader, and its agents still reach it:
/// it sends them away before the other counts them as lost.
#[tokio::test(flavor = "multi_thread")]
async fn the_agents_of_a_leader_that_is_cut_off_find_the_other_one() {
    let (scene, _) = scene().await;
    let config = scene.config(&["node02"], "onLoss: {notReadyAfter: 2m}").unwrap();
    let api = ApiProxy::start(&scene.gimbal, &scene.gimbal.user("writer").unwrap()).await.unwrap();
    let first = scene.writer_through(&api, &config, &[]).await.unwrap();
    leads(&first).await;
    let second = scene.writer_as(SECOND, free_port().unwrap(), &config, &[]).await.unwrap();
    let both = format!("https://127.0.0.1:{},https://127.0.0.1:{}", first.port, second.port);
    let mut args = vec!["--writer".to_owned(), both];
    args.extend(scene.tls_of("node02").unwrap());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let _discoverer = scene.dry_run("node02", &scene.source, &args).unwrap();
    offer(&scene, "web", 1, 3).await;
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 3).await.unwrap();

    api.trouble(&Calls::ALL, Trouble::Silence);
    leads(&second).await;
    expect_metric(first.admin_port, "gimbal_writer_leading", "", 0.0).await.unwrap();
    offer(&scene, "web", 1, 4).await;
    let ready = |mirror: &Mirror| {
        let endpoints = mirror.slices.iter().filter_map(|slice| slice["endpoints"].as_array()).flatten();
        endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true).count()
    };
    let mirrored = eventually("the other one hears of it", Duration::from_secs(150), async || {
        let mirror = Mirror::get(&scene.gimbal, "team1", "node02-web").await.unwrap().unwrap();
        let (ready, all) = (ready(&mirror), mirror.addresses().len());
        // Ready throughout: no backend was lost.
        assert_eq!(ready, all);
        if all == 4 { Ok(()) } else { Err(format!("{all} endpoints")) }
    });
    mirrored.await.unwrap();
    assert!(!second.process.log().contains("the backend is lost"), "{}", second.process.log_tail());
}
