//! What must cost nothing: polls of an unchanged cloud, and restarts.

use std::collections::BTreeMap;

use gimbal_testkit::openstack::Service;
use gimbal_tests::{SOON, expect_metric, metric, web};

use super::stage::{BACKENDS, Stage, path};

/// In bulk mode without a sweep: one page of each list, and no other call, not even for a token.
pub async fn an_idle_poll_is_three_calls(stage: &mut Stage) {
    let balancer = stage.cloud.create_load_balancer("alpha", &web("idle", &["10.9.0.1"])).await.unwrap();
    stage.expect("alpha", &balancer, &["10.9.0.1:8080"]).await;
    for mut discoverer in std::mem::take(&mut stage.discoverers) {
        discoverer.process.terminate(SOON).await.unwrap();
    }
    let discoverer = stage.discoverer(BACKENDS[1], &["--poll-interval", "300ms", "--sweep", "0s"]);
    discoverer.ready().await.unwrap();
    // Two seconds after a change its second is over, and the members need not be read again.
    expect_metric(discoverer.admin_port, "gimbal_discoverer_poll_calls", "", 3.0).await.unwrap();
    let polls = async || metric(discoverer.admin_port, "gimbal_discoverer_polls_total", "").await.unwrap();
    let (first, octavia, keystone) = (polls().await, mark(stage, Service::Octavia), mark(stage, Service::Keystone));
    gimbal_testkit::eventually("ten polls", SOON, async || {
        anyhow::ensure!(polls().await >= first + 10.0, "not yet");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    // Before the log is read, which takes longer than a poll. The poll that ran when it began, and those that run while
    // it is read, may be in it.
    let polled = (polls().await - first) as usize;
    let own = |service: Service, seen: usize| {
        let calls = stage.cloud.calls_since(service, seen).unwrap();
        calls.into_iter().filter(|call| call.user_agent.starts_with("gimbal-openstack-discoverer/")).collect::<Vec<_>>()
    };
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for call in own(Service::Octavia, octavia) {
        assert_eq!(call.status, 200, "{call}");
        *counts.entry(call.path).or_default() += 1;
    }
    let lists: Vec<&str> = counts.keys().map(String::as_str).collect();
    assert_eq!(lists, ["/v2/lbaas/listeners", "/v2/lbaas/loadbalancers", "/v2/lbaas/pools"]);
    let ended = (polls().await - first) as usize;
    assert!(
        counts.values().all(|count| (polled - 1..=ended + 1).contains(count)),
        "{counts:?} in {polled}-{ended} polls"
    );
    assert_eq!(own(Service::Keystone, keystone), Vec::new());
    assert_eq!(metric(discoverer.admin_port, "gimbal_discoverer_poll_calls", "").await.unwrap(), 3.0);
    drop(discoverer);
    stage.start_discoverers();
    stage.cloud.delete(&path("loadbalancers", &balancer)).await.unwrap();
    stage.expect_gone("alpha", &balancer).await;
}

fn mark(stage: &Stage, service: Service) -> usize {
    stage.cloud.calls_mark(service).unwrap()
}

pub async fn restarts_write_nothing(stage: &mut Stage) {
    let balancer = stage.cloud.create_load_balancer("alpha", &web("quiet", &["10.10.0.1"])).await.unwrap();
    stage.expect("alpha", &balancer, &["10.10.0.1:8080"]).await;
    stage.writer.settled(BACKENDS.len()).await.unwrap();
    let mark = stage.scene.gimbal.audit_mark().await.unwrap();
    for mut discoverer in std::mem::take(&mut stage.discoverers) {
        let exit = discoverer.process.terminate(SOON).await.unwrap();
        assert_eq!(exit.code, Some(0));
    }
    stage.start_discoverers();
    stage.expect_complete(true).await;
    stage.writer.settled(BACKENDS.len()).await.unwrap();
    stage.restart_writer().await;
    stage.writer.settled(BACKENDS.len()).await.unwrap();
    assert_eq!(stage.scene.writes_since(mark).await.unwrap(), Vec::<String>::new());
    stage.cloud.delete(&path("loadbalancers", &balancer)).await.unwrap();
    stage.expect_gone("alpha", &balancer).await;
}
