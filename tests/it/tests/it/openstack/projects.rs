//! Projects that are renamed, disabled and deleted.

use gimbal_testkit::openstack::User;
use gimbal_tests::web;
use serde_json::json;

use super::stage::{Stage, path};

pub async fn a_renamed_project_moves(stage: &Stage) {
    let balancer = stage.cloud.create_load_balancer("beta", &web("mover", &["10.7.0.1"])).await.unwrap();
    stage.expect("beta", &balancer, &["10.7.0.1:8080"]).await;
    let beta = stage.cloud.project("beta").await.unwrap();
    rename(stage, &beta, "Beta Two").await;
    stage.expect("beta-two", &balancer, &["10.7.0.1:8080"]).await;
    stage.expect_gone("beta", &balancer).await;
    rename(stage, &beta, "beta").await;
    stage.expect("beta", &balancer, &["10.7.0.1:8080"]).await;
    stage.expect_gone("beta-two", &balancer).await;
    stage.cloud.delete(&path("loadbalancers", &balancer)).await.unwrap();
    stage.expect_gone("beta", &balancer).await;
}

async fn rename(stage: &Stage, project: &str, name: &str) {
    stage.cloud.update_project(project, &json!({"name": name})).await.unwrap();
    // Keystone caches a user's list of projects, with their names, until any role is granted or revoked.
    stage.cloud.grant(project, User::Nobody).await.unwrap();
    stage.cloud.revoke(project, User::Nobody).await.unwrap();
}

/// Its load balancers stay in Octavia, as in any cloud, without a project.
pub async fn a_deleted_project_takes_its_services_along(stage: &Stage) {
    let doomed = stage.cloud.create_load_balancer("gamma", &web("doomed", &["10.8.0.1"])).await.unwrap();
    let stays = stage.cloud.create_load_balancer("alpha", &web("stays", &["10.8.0.2"])).await.unwrap();
    stage.expect("gamma", &doomed, &["10.8.0.1:8080"]).await;
    let mirror = stage.expect("alpha", &stays, &["10.8.0.2:8080"]).await;
    let gamma = stage.cloud.project("gamma").await.unwrap();
    stage.cloud.delete_project(&gamma).await.unwrap();
    stage.expect_gone("gamma", &doomed).await;
    assert!(stage.cloud.octavia().get(&path("loadbalancers", &doomed)).await.is_ok());
    assert_eq!(stage.expect("alpha", &stays, &["10.8.0.2:8080"]).await, mirror);
}
