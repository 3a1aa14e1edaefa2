//! `cargo xtask demo --kuryr`: Services of a cluster become load balancers of a real OpenStack cloud, whose addresses
//! answer; and the circle: the same load balancers, discovered, become Services of a Gimbal cluster.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use gimbal_testkit::TestCluster;
use gimbal_testkit::openstack::{Service, User};
use gimbal_tests::{NAMESPACE, OFTEN, WayBack};
use tokio::time::timeout;

use crate::openstack::stage::CloudMirror;
use crate::report::Report;
use crate::view::{self, View};

/// How long a step may take. The limit ends a demo that does not work; it is not a measure of speed.
const WITHIN: Duration = Duration::from_secs(60);
/// Longer than the writer looks for drift here.
const A_WHILE: Duration = Duration::from_secs(4);
/// Drift is looked for often, so that the demo need not wait a minute.
const WRITER: [&str; 1] = ["--drift-interval=2s"];
/// Kubernetes' own Services are in the way: the demo has Services of type LoadBalancer.
const CONTROLLER: [&str; 1] = ["--cluster-ip-services=false"];
/// Addresses and names of the members.
const PODS: [(&str, &str); 4] =
    [("10.1.0.1", "web-0"), ("10.1.0.2", "web-1"), ("10.1.0.3", "web-2"), ("10.1.0.4", "web-3")];
const HTTP: (&str, u16) = ("http", 8080);

pub async fn play(report: &mut Report, once: bool) -> anyhow::Result<()> {
    let (mut stage, gimbal) = tokio::try_join!(WayBack::build(), TestCluster::start())?;
    let mut circle = CloudMirror::build(gimbal, &stage.cloud.credentials(User::Discoverer)).await?;
    report.title("cluster", &format!("{}  (started for the demo)", stage.cluster.url()));
    let cloud = stage.cloud.keystone_url();
    report.title("cloud", &format!("{cloud}  (Keystone, Octavia and Neutron, started for the demo)"));
    report.title("data plane", "haproxy and the members, in a network namespace without a way out");
    report.title("gimbal cluster", &format!("{}  (started for the demo)", circle.gimbal.url()));
    let result = steps(&mut stage, &mut circle, report).await;
    result.map_err(|error| error.context(stage.logs()).context(circle.processes.logs()))?;
    report.table(&view::target(&circle.gimbal.client()?).await?);
    report.times();
    for (what, line) in hints(&stage, &circle)? {
        report.hint(what, &line);
    }
    if once {
        return at_the_end(&mut stage, &mut circle, report).await;
    }
    report.note("everything keeps running: change the cluster and look; Ctrl-C ends it");
    std::future::pending().await
}

async fn steps(stage: &mut WayBack, circle: &mut CloudMirror, report: &mut Report) -> anyhow::Result<()> {
    for (address, name) in PODS {
        stage.plane()?.member(address, HTTP.1, name).await?;
    }
    let address = made(stage, report).await?;
    stage.plane()?.client("visitor", &address, 80, OFTEN).await?;
    changes(stage, report, &address).await?;
    nothing_changes(stage, report, &address).await?;
    let visits = stage.plane()?.stop_client("visitor").await?;
    anyhow::ensure!(visits.failed.is_empty(), "{} of {} requests failed: {visits:?}", visits.failed.len(), visits.sent);
    report.holds(&format!("{} requests meanwhile, one each 20 ms: every one was answered", visits.sent));
    by_hand(stage, report, &address).await?;
    around(stage, circle, report).await
}

async fn made(stage: &mut WayBack, report: &mut Report) -> anyhow::Result<String> {
    report.note("start: a Service of type LoadBalancer with three endpoints is there, and neither program runs");
    stage.make_service("web", &[("http", 80, HTTP.1)]).await?;
    stage.set_members("web", &addresses(3), &[HTTP]).await?;
    let begin = Instant::now();
    stage.start_writer(&WRITER).await?;
    stage.start_controller(&CONTROLLER).await?;
    let address = stage.until_address("web").await?;
    report.took(&format!("its status has the address {address}, from the programs' start on"), begin.elapsed());
    stage.until_answers(&address, 80, &names(3)).await?;
    report.took("each of its three members has answered there", begin.elapsed());
    let marks = stage.marks()?;
    let begin = Instant::now();
    stage.make_service("shop", &[("http", 80, HTTP.1), ("admin", 81, HTTP.1)]).await?;
    stage.set_members("shop", &addresses(1), &[HTTP, ("admin", HTTP.1)]).await?;
    let second = stage.until_address("shop").await?;
    let calls = stage.calls_since(marks)?.len();
    report.took(
        &format!("a second Service, with two ports, has the address {second}, by {calls} calls"),
        begin.elapsed(),
    );
    stage.until_answers(&second, 81, &names(1)).await?;
    Ok(address)
}

async fn changes(stage: &WayBack, report: &mut Report, address: &str) -> anyhow::Result<()> {
    report.note("members come and go: from the slice to what a visitor gets");
    let begin = Instant::now();
    stage.set_members("web", &addresses(4), &[HTTP]).await?;
    stage.until_answers(address, 80, &names(4)).await?;
    report.took("a fourth member answers", begin.elapsed());
    let begin = Instant::now();
    stage.set_members("web", &addresses(2), &[HTTP]).await?;
    stage.until_answers(address, 80, &names(2)).await?;
    report.took("two members are gone", begin.elapsed());
    Ok(())
}

async fn nothing_changes(stage: &mut WayBack, report: &Report, address: &str) -> anyhow::Result<()> {
    report.note("both programs are killed (SIGKILL), and start again with nothing changed");
    stage.controller.take().context("the controller does not run")?.process.kill()?;
    stage.writer.take().context("the writer does not run")?.process.kill()?;
    stage.until_answers(address, 80, &names(2)).await?;
    report.holds("without them, the address answers as before");
    let marks = stage.marks()?;
    stage.start_writer(&WRITER).await?;
    stage.start_controller(&CONTROLLER).await?;
    tokio::time::sleep(A_WHILE).await;
    let changed = stage.changes_since(marks)?;
    anyhow::ensure!(changed.is_empty(), "OpenStack was changed although nothing had: {changed:?}");
    report.holds("with them, nothing in OpenStack was changed");
    Ok(())
}

async fn by_hand(stage: &WayBack, report: &mut Report, address: &str) -> anyhow::Result<()> {
    report.note("somebody deletes the load balancer in OpenStack");
    let balancer = stage.balancer("web").await?;
    stage.cloud.delete(&format!("/loadbalancers/{}", balancer["id"].as_str().unwrap_or_default())).await?;
    let begin = Instant::now();
    stage.until_answers(address, 80, &names(2)).await?;
    report.took("the same address answers again", begin.elapsed());
    let again = stage.balancer("web").await?;
    anyhow::ensure!(again["id"] != balancer["id"], "it was not deleted");
    report.holds(&format!("by a new load balancer, {}", again["id"].as_str().unwrap_or_default()));
    Ok(())
}

async fn around(stage: &WayBack, circle: &mut CloudMirror, report: &mut Report) -> anyhow::Result<()> {
    report.note("the circle: the load balancers are discovered, and become Services of a Gimbal cluster");
    circle.start_writer().await?;
    let begin = Instant::now();
    circle.start_discoverer().await?;
    let id = stage.balancer("web").await?["id"].as_str().unwrap_or_default().to_owned();
    landed(circle, report, begin, "both Services are there, web with 2 endpoints", |view| {
        view.len() == 2 && view.iter().any(|(source, seen)| source.ends_with(&id) && seen.ready == 2)
    })
    .await?;
    let begin = Instant::now();
    stage.set_members("web", &addresses(3), &[HTTP]).await?;
    landed(
        circle,
        report,
        begin,
        "a member more: from the cluster's slice, through the cloud, into the Gimbal cluster",
        |view| view.iter().any(|(source, seen)| source.ends_with(&id) && seen.ready == 3),
    )
    .await
}

/// Removes both Services, and checks that nothing is left.
async fn at_the_end(stage: &mut WayBack, circle: &mut CloudMirror, report: &mut Report) -> anyhow::Result<()> {
    report.note("end: the Services are deleted");
    let begin = Instant::now();
    let uids = [("web", stage.delete_service("web").await?), ("shop", stage.delete_service("shop").await?)];
    for (name, uid) in &uids {
        stage.until_gone(name, uid).await?;
    }
    report.took("they are gone, and so is everything that was made for them", begin.elapsed());
    let left = stage.left().await?;
    anyhow::ensure!(left.is_empty(), "left in OpenStack: {left:?}");
    report.holds("no load balancer, floating IP, port or security group is left in OpenStack");
    landed(circle, report, begin, "the Services in the Gimbal cluster are gone", View::is_empty).await
}

async fn landed(
    circle: &mut CloudMirror,
    report: &mut Report,
    begin: Instant,
    what: &str,
    right: impl Fn(&View) -> bool,
) -> anyhow::Result<()> {
    let seen = timeout(WITHIN, circle.sight.until(right)).await;
    let at = seen.with_context(|| format!("{what}: not within {WITHIN:?}"))??;
    report.took(what, at.saturating_duration_since(begin));
    Ok(())
}

/// Returns commands for further exploration.
fn hints(stage: &WayBack, circle: &CloudMirror) -> anyhow::Result<Vec<(&'static str, String)>> {
    let kubectl = format!("kubectl --kubeconfig {}", stage.cluster.kubeconfig().display());
    let octavia = stage.cloud.url(Service::Octavia);
    let variables = stage.cloud.credentials(User::Admin).variables();
    let variables: Vec<String> = variables.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    let metrics = stage.writer.as_ref().context("the writer does not run")?.admin_port;
    let mut hints = vec![
        ("the Services and what stands for them", format!("{kubectl} -n {NAMESPACE} get services,kuryrloadbalancers")),
        ("scale the Service away", format!("{kubectl} -n {NAMESPACE} delete endpointslice web-1")),
        (
            "the cloud, by OpenStack's own client",
            format!("{} openstack loadbalancer list  # {octavia}", variables.join(" ")),
        ),
        (
            "what the writer knows of them",
            stage.ask_writer()?.line("gimbal.kuryr.v1.InspectionService/ListLoadBalancers")?,
        ),
        ("what its changes cost", format!("curl -s http://127.0.0.1:{metrics}/metrics")),
    ];
    hints.extend(circle.hints()?);
    Ok(hints)
}

fn addresses(count: usize) -> Vec<&'static str> {
    PODS.iter().take(count).map(|(address, _)| *address).collect()
}

fn names(count: usize) -> Vec<&'static str> {
    PODS.iter().take(count).map(|(_, name)| *name).collect()
}
