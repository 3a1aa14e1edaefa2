//! Secrets leave this crate only in requests.

use crate::common::{cloud_with, connect, list};
use gimbal_openstack_client::TokenScope;
use gimbal_testkit::CapturedLog;
use gimbal_testkit::fake_openstack::Fault;

/// Keystone's errors about a malformed body repeat the body, and so does this fake.
#[tokio::test]
async fn no_secret_in_errors_logs_or_debug() {
    let log = CapturedLog::default();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let (fake, cloud) = cloud_with(1).await;
    let session = cloud.session(&TokenScope::Project("p1".into()));
    let load_balancing = session.load_balancing().await.unwrap();
    list(&cloud).await.unwrap();
    let mut seen = format!("{cloud:?} {session:?} {load_balancing:?} {:?}", cloud.calls());

    for status in [400, 401, 403, 500] {
        let echo = r#"{"error":{"message":"on instance: fake-secret fake-token-1"}}"#;
        fake.fail(Fault::on("/auth/tokens").text(status, echo));
        let error = connect(&fake).await.unwrap_err();
        seen.push_str(&format!("{error} {error:?}"));
    }
    fake.fail(Fault::on("/loadbalancers").times(1).retry_after("0"));
    seen.push_str(&format!("{:?}", load_balancing.load_balancers(None).await));

    let log = log.text();
    assert!(log.contains("asked to wait"), "the log is not caught: {log}");
    for secret in ["fake-secret", "fake-token"] {
        assert!(!seen.contains(secret), "{seen}");
        assert!(!log.contains(secret), "{log}");
    }
}
