//! Which certificates are trusted.

use crate::common::{credentials, options};
use gimbal_openstack_client::{Cloud, Error};
use gimbal_testkit::fake_openstack::FakeOpenStack;
use gimbal_testkit::{Pki, San, terminate_tls};

#[tokio::test]
async fn only_the_authority_that_was_named_is_believed() {
    let dir = tempfile::tempdir().unwrap();
    let fake = FakeOpenStack::start().await.unwrap();
    let ours = Pki::create(dir.path().join("ours")).unwrap();
    let theirs = Pki::create(dir.path().join("theirs")).unwrap();
    let port = terminate_tls(&ours.server("keystone").unwrap(), &fake.url()).await.unwrap();
    let elsewhere = ours.issue("elsewhere", &[San::Dns("keystone.example")]).unwrap();
    let other_name = terminate_tls(&elsewhere, &fake.url()).await.unwrap();
    let (ours, theirs) = (ours.ca().display().to_string(), theirs.ca().display().to_string());
    for (port, authority, good) in [
        (port, ours.as_str(), true),
        (port, theirs.as_str(), false),
        (port, "", false),
        (other_name, ours.as_str(), false),
    ] {
        let credentials = credentials(&format!("https://localhost:{port}"), &[("OS_CACERT", authority)]);
        let result = Cloud::connect(credentials, options()).await;
        match (good, result) {
            (true, result) => drop(result.unwrap()),
            (false, Err(Error::Tls { message, .. })) => assert!(message.contains("certificate"), "{message}"),
            (false, other) => panic!("{port} {authority}: {other:?}"),
        }
    }
}
