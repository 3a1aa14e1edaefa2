//! A cloud in trouble: nothing is lost, nothing is deleted, and the trouble is reported.

use std::process::Command;

use gimbal_testkit::openstack::{Service, User};
use gimbal_testkit::process::binary;
use gimbal_tests::{SOON, expect_log, expect_metric, get, metric, web};

use super::stage::{A_WHILE, BACKENDS, Stage, path};

pub async fn the_mode_is_told(stage: &Stage) {
    for (discoverer, mode) in stage.discoverers.iter().zip(["per-project", "bulk"]) {
        expect_log(&discoverer.process, &[&format!("mode: {mode}")]).await.unwrap();
        let label = format!("mode=\"{mode}\"");
        expect_metric(discoverer.admin_port, "gimbal_discoverer_mode", &label, 1.0).await.unwrap();
    }
}

/// While `service` is down, everything stays published and is reported as stale; afterwards it continues by itself.
async fn down_for_a_while(stage: &Stage, service: Service, name: &str) {
    let balancer = stage.cloud.create_load_balancer("alpha", &web(name, &["10.11.0.1"])).await.unwrap();
    let mirror = stage.expect("alpha", &balancer, &["10.11.0.1:8080"]).await;
    stage.cloud.stop(service).await.unwrap();
    stage.expect_complete(false).await;
    let beginner = stage.discoverer("osp3", &["--poll-interval", "500ms"]);
    expect_log(&beginner.process, &["the source is unknown"]).await.unwrap();
    assert_eq!(get(beginner.admin_port, "/readyz").await.unwrap().0, 503);
    mirror.expect_unchanged(&stage.scene.gimbal, A_WHILE).await.unwrap();
    for (discoverer, backend) in stage.discoverers.iter().zip(BACKENDS) {
        let stale = metric(discoverer.admin_port, "gimbal_discoverer_source_age_seconds", "loadbalancers").await;
        assert!(stale.unwrap() >= A_WHILE.as_secs_f64());
        let own = discoverer.ask().backend(backend).unwrap();
        assert!(own["trouble"].as_str().unwrap().starts_with("source: "), "{own}");
        let asked = stage.scene.ask(&stage.writer).unwrap();
        asked
            .expect_backend(backend, "is reported as unknown", |backend| backend["unknown"][0]["reason"].is_string())
            .await
            .unwrap();
    }
    stage.cloud.resume(service).await.unwrap();
    stage.expect_complete(true).await;
    beginner.ready().await.unwrap();
    drop(beginner);
    assert_eq!(stage.expect("alpha", &balancer, &["10.11.0.1:8080"]).await, mirror);
    stage.cloud.delete(&path("loadbalancers", &balancer)).await.unwrap();
    stage.expect_gone("alpha", &balancer).await;
}

pub async fn keystone_is_down_for_a_while(stage: &Stage) {
    stage.cloud.credentials(User::Discoverer).write_secret(&stage.scene.path("osp3")).unwrap();
    down_for_a_while(stage, Service::Keystone, "no-keystone").await;
}

pub async fn octavia_is_down_for_a_while(stage: &Stage) {
    down_for_a_while(stage, Service::Octavia, "no-octavia").await;
}

pub async fn a_password_that_changes_is_read_again(stage: &Stage) {
    let balancer = stage.cloud.create_load_balancer("alpha", &web("kept", &["10.12.0.1"])).await.unwrap();
    let mirror = stage.expect("alpha", &balancer, &["10.12.0.1:8080"]).await;
    let discoverer = &stage.discoverers[0];
    stage.cloud.set_password(User::Discoverer, "another-secret").await.unwrap();
    expect_log(&discoverer.process, &["invalid credentials"]).await.unwrap();
    expect_metric(discoverer.admin_port, "gimbal_discoverer_source_complete", "", 0.0).await.unwrap();
    mirror.expect_unchanged(&stage.scene.gimbal, A_WHILE).await.unwrap();
    std::fs::write(stage.scene.path(BACKENDS[0]).join("password"), "another-secret").unwrap();
    expect_metric(discoverer.admin_port, "gimbal_discoverer_source_complete", "", 1.0).await.unwrap();
    assert_eq!(stage.expect("alpha", &balancer, &["10.12.0.1:8080"]).await, mirror);
    let log = discoverer.process.log();
    assert!(!log.contains("another-secret") && !log.contains("discoverer-secret"));
    stage.cloud.delete(&path("loadbalancers", &balancer)).await.unwrap();
    stage.expect_gone("alpha", &balancer).await;
}

pub async fn invalid_credentials_end_the_start(stage: &Stage) {
    let folder = stage.scene.path("wrong");
    stage.cloud.credentials(User::Discoverer).write_secret(&folder).unwrap();
    std::fs::write(folder.join("password"), "not-to-be-repeated").unwrap();
    let program = binary("gimbal-openstack-discoverer").unwrap();
    let folder = folder.display().to_string();
    let run = tokio::task::spawn_blocking(move || {
        Command::new(program).args(["--backend-name", "osp1", "--credentials", &folder]).output()
    });
    let output = tokio::time::timeout(SOON, run).await.unwrap().unwrap().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    let errors: Vec<&str> = text.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{text}");
    assert!(errors[0].contains("--credentials: invalid credentials"), "{text}");
    assert!(!text.contains("not-to-be-repeated"), "{text}");
}
