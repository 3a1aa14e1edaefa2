//! Where clients of the router are led, as Octavia's and Neutron's databases have it: asking an API as often would slow down
//! what is measured.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use gimbal_tests::WayBack;

use super::ingresses::{Path, host};

const LOOK: Duration = Duration::from_millis(50);
const WITHIN: Duration = Duration::from_secs(1800);
const ROUTERS: &str =
    "from octavia.load_balancer b where b.name like '%kuryr-l7-router' and b.provisioning_status <> 'DELETED'";

/// Waits until the router behind the floating IP is ACTIVE, with exactly the paths of each Ingress as policies that are up and
/// ACTIVE.
pub async fn until_routes(stage: &WayBack, wanted: &[Vec<Path>]) -> anyhow::Result<()> {
    let of_host = |(number, paths): (usize, &Vec<Path>)| {
        let host = host(number);
        paths.iter().map(move |(path, to)| line(&host, path, to)).collect::<Vec<_>>()
    };
    let wanted: BTreeSet<String> = wanted.iter().enumerate().flat_map(of_host).collect();
    let end = Instant::now() + WITHIN;
    loop {
        let found = routes(stage).await?;
        if found.as_ref() == Some(&wanted) {
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < end, "there is {found:#?}, not {wanted:#?}\n{}", stage.logs());
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until there is one router, and nothing of a former one.
pub async fn until_one_router(stage: &WayBack) -> anyhow::Result<()> {
    let end = Instant::now() + WITHIN;
    loop {
        let count = stage.cloud.sql(&format!("select count(*) {ROUTERS}")).await?;
        if count.trim() == "1" {
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < end, "{count} routers\n{}", stage.logs());
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns the policies that clients meet; unset: no router that is ACTIVE is behind a floating IP.
async fn routes(stage: &WayBack) -> anyhow::Result<Option<BTreeSet<String>>> {
    // One after the other: the two databases compare texts in different ways.
    let led = stage.cloud.sql("select fixed_port_id from neutron.floatingips where fixed_port_id is not null").await?;
    let ports: Vec<String> = led.lines().map(|port| format!("'{port}'")).collect();
    if ports.is_empty() {
        return Ok(None);
    }
    let router = format!(
        "{ROUTERS} and b.provisioning_status = 'ACTIVE' and b.id in (select load_balancer_id from octavia.vip where \
         port_id in ({}))",
        ports.join(", ")
    );
    let routers = stage.cloud.sql(&format!("select b.id {router}")).await?;
    if routers.lines().count() != 1 {
        return Ok(None);
    }
    let policies = format!(
        "select host.value, path.value, pool.name from octavia.l7policy policy \
         join octavia.l7rule host on host.l7policy_id = policy.id and host.type = 'HOST_NAME' \
         join octavia.l7rule path on path.l7policy_id = policy.id and path.type = 'PATH' \
         join octavia.pool pool on pool.id = policy.redirect_pool_id \
         join octavia.listener listener on listener.id = policy.listener_id \
         where policy.enabled = 1 and policy.provisioning_status = 'ACTIVE' and listener.load_balancer_id in (select b.id {router})"
    );
    let rows = stage.cloud.sql(&policies).await?;
    // The client of the database writes a backslash as two.
    Ok(Some(rows.lines().map(|row| row.replace('\\', "")).collect()))
}

/// The rules and the pool of a path, without backslashes.
fn line(host: &str, path: &str, service: &str) -> String {
    format!("^{host}(:[0-9]+)?$\t^{path}(/|$)\tshop_{service}")
}
