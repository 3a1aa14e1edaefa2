//! Which alerts fire for what an operator exposes.

use gimbal_tests::{Alerts, Target};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_secret_an_authority_that_ends_and_an_operator_that_is_gone_fire_theirs() {
    let stage = Stage::start().await;
    let mut operator = stage.operator();
    expect_metric(operator.admin_port, "gimbal_operator_leading", "", 1.0).await.unwrap();
    let targets = [Target { job: "gimbal-operator", admin_port: operator.admin_port }];
    let alerts = Alerts::watch(&targets).await;
    alerts.expect(&[]).await.unwrap();

    stage.backend("node02", &kubernetes()).await;
    stage.until_condition("node02", "False", "SecretMissing").await;
    alerts.expect(&["GimbalOperatorBlocked"]).await.unwrap();
    stage.secret("node02-kubeconfig", &json!({"kubeconfig": "a kubeconfig"})).await;
    stage.until_condition("node02", "False", "NotAvailable").await;
    stage.make_available().await;
    stage.until_condition("node02", "True", "Available").await;
    alerts.expect(&[]).await.unwrap();

    let KeyedCertificate { certificate, key } = make_authority(None, std::time::Duration::from_secs(86_400)).unwrap();
    stage.secret("gimbal-authority", &json!({"ca.crt": certificate, "ca.key": key.as_str()})).await;
    alerts.expect(&["GimbalOperatorAuthorityEnds"]).await.unwrap();

    operator.process.kill().unwrap();
    alerts.expect(&["GimbalOperatorWithoutLeader"]).await.unwrap();
}
