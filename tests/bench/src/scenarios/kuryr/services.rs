//! The Services of a stage.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use gimbal_tests::WayBack;

/// The port of every member.
pub const TARGET: u16 = 8080;
/// How often a Service is asked for.
const LOOK: Duration = Duration::from_millis(20);
/// How long many load balancers may take, and each one besides.
const WITHIN: Duration = Duration::from_secs(600);
const EACH: Duration = Duration::from_secs(5);

/// Makes a Service with this many ports, whose slice is there before it.
pub async fn make(stage: &WayBack, name: &str, ports: u16, members: u8) -> anyhow::Result<()> {
    let names: Vec<String> = (80..80 + ports).map(|port| format!("p{port}")).collect();
    set_members(stage, name, ports, &addresses(members)).await?;
    let ports: Vec<_> = names.iter().zip(80..).map(|(name, port)| (name.as_str(), port, TARGET)).collect();
    stage.make_internal_service(name, &ports).await
}

/// Writes a Service's slice.
pub async fn set_members(stage: &WayBack, name: &str, ports: u16, addresses: &[String]) -> anyhow::Result<()> {
    let names: Vec<String> = (80..80 + ports).map(|port| format!("p{port}")).collect();
    let ports: Vec<(&str, u16)> = names.iter().map(|name| (name.as_str(), TARGET)).collect();
    stage.set_members(name, &addresses.iter().map(String::as_str).collect::<Vec<_>>(), &ports).await
}

/// Waits until each of these Services has an address; often, for the time is measured.
pub async fn until_addresses(stage: &WayBack, names: &[String]) -> anyhow::Result<()> {
    let end = Instant::now() + WITHIN + EACH * u32::try_from(names.len())?;
    for name in names {
        while let Err(error) = stage.address(name).await {
            anyhow::ensure!(Instant::now() < end, "{name}: {error:#}\n{}", stage.logs());
            tokio::time::sleep(LOOK).await;
        }
    }
    Ok(())
}

/// Waits until Octavia has this many members that are ACTIVE.
pub async fn until_members(stage: &WayBack, wanted: usize) -> anyhow::Result<()> {
    let end = Instant::now() + WITHIN;
    loop {
        let count = stage.cloud.sql("select count(*) from octavia.member where provisioning_status = 'ACTIVE'").await?;
        let count: usize = count.trim().parse()?;
        if count == wanted {
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < end, "{count} members, not {wanted}\n{}", stage.logs());
        tokio::time::sleep(LOOK).await;
    }
}

/// Deletes Services, and waits until nothing is left of them.
pub async fn remove(stage: &WayBack, names: &[String]) -> anyhow::Result<()> {
    let mut uids = Vec::new();
    for name in names {
        uids.push(stage.delete_service(name).await.with_context(|| format!("cannot delete {name}"))?);
    }
    for (name, uid) in names.iter().zip(&uids) {
        stage.until_gone(name, uid).await?;
    }
    Ok(())
}

/// The first addresses of members.
pub fn addresses(count: u8) -> Vec<String> {
    (1..=count).map(|last| format!("10.1.0.{last}")).collect()
}
