//! Installs OpenStack's services and prepares the data that a testbed starts from, once, so that no test waits for it.

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    println!("{}", gimbal_testkit::openstack::OpenStack::prepare().await?.display());
    Ok(())
}
