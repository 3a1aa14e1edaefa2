//! A Keystone behind TLS, whose catalog has endpoints without TLS.

use gimbal_discoverer::SourceStatus as _;
use gimbal_testkit::fake_openstack::{FakeOpenStack, Fault};
use gimbal_testkit::{CapturedLog, Pki, terminate_tls};

use super::Run;

/// Every list carries a token, so the warning is logged before the first list.
#[tokio::test]
async fn a_warning_comes_before_a_token_goes_there() {
    let log = CapturedLog::default();
    let _guard = tracing::subscriber::set_default(tracing_subscriber::fmt().with_writer(log.clone()).finish());
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::create(dir.path().join("pki")).unwrap();
    let fake = FakeOpenStack::start().await.unwrap();
    let port = terminate_tls(&pki.server("keystone").unwrap(), &fake.url()).await.unwrap();
    let url = format!("https://localhost:{port}/v3");
    let authority = std::fs::read_to_string(pki.ca()).unwrap();
    let keys = [
        ("keystoneUrl", &*url),
        ("username", "fake"),
        ("password", "fake-secret"),
        ("certificateAuthorityData", &authority),
    ];
    fake.fail(Fault::on("/lbaas/loadbalancers").status(500));
    let mut run = Run::with(fake, |_| {}, &keys, &[]);
    run.until("a list has failed", |source, _| source.state.trouble().is_some()).await;
    let logged = log.text();
    assert!(logged.contains("its catalog sends tokens on without"), "{logged}");
}
