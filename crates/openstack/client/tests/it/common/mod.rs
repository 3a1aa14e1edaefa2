//! Connects clients to the fake cloud.

#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "helpers of a test panic as a test does")]

use std::time::Duration;

use gimbal_openstack_client::{ClientOptions, Cloud, CloudCredentials, Error, LoadBalancing, TokenScope};
use gimbal_testkit::fake_openstack::FakeOpenStack;

/// Returns credentials for Keystone at `url`, read from variables.
pub fn credentials(url: &str, more: &[(&str, &str)]) -> CloudCredentials {
    let all = [("OS_AUTH_URL", url), ("OS_USERNAME", "fake"), ("OS_PASSWORD", "fake-secret")];
    let find = |name: &str| more.iter().chain(&all).find(|(key, _)| *key == name).map(|pair| pair.1.to_owned());
    CloudCredentials::from_env(find).unwrap()
}

/// Returns options with small pages, and time-outs that a test can wait for.
pub fn options() -> ClientOptions {
    ClientOptions { page: 3, list_timeout: Duration::from_millis(700), ..ClientOptions::default() }
}

pub async fn connect(fake: &FakeOpenStack) -> Result<Cloud, Error> {
    Cloud::connect(credentials(&fake.url(), &[]), options()).await
}

/// Starts a cloud with project p1 and its `count` load balancers lb0, lb1, ...
pub async fn cloud_with(count: usize) -> (FakeOpenStack, Cloud) {
    let fake = FakeOpenStack::start().await.unwrap();
    fake.set(|cloud| {
        cloud.project("p1", "alpha");
        for number in 0..count {
            cloud.load_balancer("p1", &format!("lb{number}"), "web");
        }
    });
    let cloud = connect(&fake).await.unwrap();
    (fake, cloud)
}

pub async fn load_balancing(cloud: &Cloud) -> LoadBalancing {
    cloud.session(&TokenScope::Project("p1".into())).load_balancing().await.unwrap()
}

/// Returns the IDs of all load balancers that project p1's token sees, in one line.
pub async fn list(cloud: &Cloud) -> Result<String, Error> {
    let list = load_balancing(cloud).await.load_balancers(None).await?;
    Ok(list.rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>().join(" "))
}
