//! Each program, and both, killed at every step of the life of a Service.

use gimbal_testkit::openstack::Service;
use gimbal_tests::WayBack;
use serde_json::{Value, json};

use super::steps::{Killed, Steps};
use super::{BALANCERS, SERVICES, WRITER, kill_controller, kill_writer};

/// One that is alone needs no Lease, and does not wait for that of a killed one.
const CONTROLLER: [&str; 2] = ["--cluster-ip-services=false", "--leader-election=false"];
const PORTS: [(&str, u16, u16); 2] = [("http", 80, 8080), ("more", 81, 8081)];
const SLICED: [(&str, u16); 2] = [("http", 8080), ("more", 8081)];

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_every_step_nothing_is_lost_and_nothing_made_twice() {
    let mut stage = WayBack::build().await.unwrap();
    // A writer that is killed alone finds more of what it needs than one that is killed with its controller.
    let lives: &[(Killed, usize)] = match std::env::var_os("GIMBAL_PROVE") {
        Some(_) => &[(Killed::Writer, 9), (Killed::Both, 9), (Killed::Controller, 6)],
        None => &[(Killed::Both, 4)],
    };
    for (who, least) in lives.iter().copied() {
        stage.start_writer(&WRITER).await.unwrap();
        stage.start_controller(&CONTROLLER).await.unwrap();
        let kills = a_life(&mut stage, who).await;
        assert!(kills >= least, "killed {kills} times");
        kill_controller(&mut stage);
        kill_writer(&mut stage);
        assert_eq!(stage.left().await.unwrap(), [""; 0]);
    }
}

/// Returns how often somebody was killed.
async fn a_life(stage: &mut WayBack, who: Killed) -> usize {
    let mut steps = Steps::begin(stage, who, &CONTROLLER, &[Service::Octavia, Service::Neutron]).await;
    stage.set_members("web", &["10.1.0.1"], &SLICED).await.unwrap();
    stage.make_service("web", &PORTS).await.unwrap();
    steps.until(stage, "it is made", async |stage| with_members(stage, &["10.1.0.1"]).await).await;
    let before = stage.balancer("web").await.unwrap()["id"].clone();
    let address = stage.address("web").await.unwrap();
    stage.set_members("web", &["10.1.0.2", "10.1.0.3"], &SLICED).await.unwrap();
    steps.until(stage, "it is changed", async |stage| with_members(stage, &["10.1.0.2", "10.1.0.3"]).await).await;
    assert_eq!(stage.balancer("web").await.unwrap()["id"], before);
    assert_eq!(stage.address("web").await.unwrap(), address);
    stage.delete_service("web").await.unwrap();
    steps.until(stage, "it is gone", gone).await;
    steps.end(stage).await;
    steps.kills
}

/// Whether the Service is served as a whole, by these members.
async fn with_members(stage: &WayBack, members: &[&str]) -> anyhow::Result<()> {
    stage.address("web").await?;
    let balancer = stage.balancer("web").await?;
    anyhow::ensure!(balancer["provisioning_status"] == "ACTIVE", "{balancer}");
    let listeners = stage.cloud.octavia().get("/listeners").await?;
    let listeners = listeners["listeners"].as_array().cloned().unwrap_or_default();
    anyhow::ensure!(listeners.len() == PORTS.len(), "{listeners:?}");
    for listener in listeners {
        let pool = listener["default_pool_id"].as_str().unwrap_or_default();
        let found = stage.cloud.octavia().get(&format!("/pools/{pool}/members")).await?;
        let address = |one: &Value| one["address"].as_str().unwrap_or_default().to_owned();
        let mut found: Vec<String> = found["members"].as_array().into_iter().flatten().map(address).collect();
        found.sort();
        anyhow::ensure!(found == members, "{found:?}");
    }
    let object = stage.cluster.admin().get(&format!("{BALANCERS}/web")).await?;
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let is_ready = conditions.any(|one| one["type"] == "Ready" && one["status"] == "True");
    anyhow::ensure!(is_ready && object["status"]["memberCount"] == json!(members.len() * PORTS.len()), "{object}");
    let left = stage.left().await?;
    // A load balancer, its port, and its floating IP.
    anyhow::ensure!(left.len() == 3, "{left:?}");
    Ok(())
}

async fn gone(stage: &WayBack) -> anyhow::Result<()> {
    for path in [format!("{SERVICES}/web"), format!("{BALANCERS}/web")] {
        match stage.cluster.admin().get(&path).await {
            Err(error) if error.code == 404 => {}
            other => anyhow::bail!("{path}: {other:?}"),
        }
    }
    let left = stage.left().await?;
    anyhow::ensure!(left.is_empty(), "{left:?}");
    Ok(())
}
