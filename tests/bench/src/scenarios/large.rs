//! Memory of the two programs of the way back for 10,000 load balancers of 20 members, which a model of Octavia has: a real one would
//! take hours to make them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use gimbal_testkit::process::{binary, free_port};
use gimbal_testkit::{Process, Rights, TestCluster, UserAccess, eventually};
use gimbal_tests::{Programs, metric};
use serde_json::{Value, json};

use crate::Context;
use crate::figure::{Aim, Figure, Outcome};
use crate::model_cloud::{ModelCloud, PROJECT};
use crate::proc::{Usage, forget_peak};

const MANY: usize = 10_000;
const MEMBERS: u8 = 20;
const CLUSTER: &str = "prod1";
const NAMESPACE: &str = "shop";
const USER: &str = "user-1";
/// Limits in MB.
const CONTROLLER: f64 = 60.0;
const WRITER: f64 = 150.0;
/// How long the programs may take to start, and each load balancer to be made.
const START: Duration = Duration::from_secs(60);
const EACH: Duration = Duration::from_millis(500);
/// Two of the writer's looks for drift.
const IDLE: Duration = Duration::from_secs(130);

struct Stage {
    /// Programs end before the servers that they use.
    controller: Option<Process>,
    writer: Option<Process>,
    programs: Programs,
    cloud: ModelCloud,
    cluster: TestCluster,
    user: UserAccess,
    config: PathBuf,
    /// The writer's port for controllers, then the admin ports of both.
    ports: [u16; 3],
    many: usize,
}

pub async fn run(context: &Context) -> anyhow::Result<Outcome> {
    let mut stage = Stage::build(context.scaled(MANY)).await?;
    let mut outcome = Outcome::default();
    stage.start().await?;
    let begin = Instant::now();
    let services = (0..stage.many).map(|number| stage.make_service(number));
    stream::iter(services).buffer_unordered(20).try_collect::<Vec<()>>().await?;
    stage.until_ready().await?;
    let what = format!("{} load balancers with {MEMBERS} members", stage.many);
    outcome.figures.push(Figure::new(format!("{what}: made in"), begin.elapsed().as_secs_f64(), "s"));
    stage.note("while they are made", &mut outcome)?;

    tokio::time::sleep(IDLE).await;
    stage.note("two idle minutes", &mut outcome)?;

    stage.controller.take().context("the controller does not run")?.kill()?;
    stage.writer.take().context("the writer does not run")?.kill()?;
    let (changes, audited, begin) = (stage.cloud.changes(), stage.cluster.audit_mark().await?, Instant::now());
    stage.start().await?;
    stage.until_ready().await?;
    outcome.figures.push(Figure::new("both killed and started: ready after", begin.elapsed().as_secs_f64(), "s"));
    tokio::time::sleep(IDLE).await;
    stage.note("both killed and started", &mut outcome)?;
    let mut writes = stage.cluster.audit_since(audited).await?;
    writes.retain(|entry| entry.user == USER && entry.is_write() && entry.resource != "leases");
    for (what, count) in
        [("changes of OpenStack", stage.cloud.changes() - changes), ("writes to Kubernetes", writes.len())]
    {
        let count = Figure::new(format!("both killed and started: {what}"), f64::from(u32::try_from(count)?), "");
        outcome.figures.push(count.aim(Aim::AtMost(0.0)));
    }
    outcome.notes.push(
        "against the model of Octavia behind HTTP; the most that was resident (VmHWM) in each phase alone, and what was resident at its end".to_owned(),
    );
    Ok(outcome)
}

impl Stage {
    async fn build(many: usize) -> anyhow::Result<Self> {
        let (cloud, cluster) = tokio::try_join!(ModelCloud::start(), TestCluster::start())?;
        cluster.install_crds().await?;
        cluster.namespace(NAMESPACE).await?;
        let user = cluster.user(USER)?;
        let rights = Rights::deployed(&["gimbal-kuryr-controller"])?.in_namespace("kube-system");
        cluster.bind(&user, &rights).await?;
        let programs = Programs::new(None)?;
        cloud.write_credentials(&programs.path("openstack"))?;
        let config = programs.path("openstack-writer.yaml");
        let settings = json!({"clusters": [{
            "name": CLUSTER,
            "identity": gimbal_testkit::pki::backend_identity(CLUSTER),
            "neutron_defaults": {"project": PROJECT, "service_subnet": cloud.subnet()},
            "members": {"allow": ["10.0.0.0/8"]},
            "vip": {"mode": "allocate"},
            "quota": {"loadBalancers": 100_000, "listeners": 100_000, "members": 10_000_000, "ports": 100_000,
                      // No limit: it would be the only thing that is measured.
                      "mutationsPerSecond": 0},
        }]});
        std::fs::write(&config, settings.to_string())?;
        let ports = [free_port()?, free_port()?, free_port()?];
        Ok(Self { controller: None, writer: None, programs, cloud, cluster, user, config, ports, many })
    }

    async fn start(&mut self) -> anyhow::Result<()> {
        let [port, writer_admin, controller_admin] = self.ports;
        let mut args = vec![
            format!("--config={}", self.config.display()),
            format!("--credentials={}", self.programs.path("openstack").display()),
            format!("--listen=127.0.0.1:{port}"),
        ];
        args.extend(self.programs.tls(&self.programs.pair("openstack-writer")?));
        self.writer = Some(self.program("gimbal-openstack-writer", args, writer_admin).await?);
        let mut args = vec![
            format!("--cluster-name={CLUSTER}"),
            format!("--kubeconfig={}", self.user.kubeconfig().display()),
            format!("--listen=127.0.0.1:{}", free_port()?),
            "--cluster-ip-services=false".to_owned(),
        ];
        args.extend(self.programs.to_writer(&self.programs.pair(CLUSTER)?, port));
        self.controller = Some(self.program("gimbal-kuryr-controller", args, controller_admin).await?);
        Ok(())
    }

    async fn program(&self, name: &str, mut args: Vec<String>, admin: u16) -> anyhow::Result<Process> {
        args.push(format!("--admin-listen=127.0.0.1:{admin}"));
        let mut process = Process::start(name, &binary(name)?, &args, &self.programs.path(&format!("{name}.log")))?;
        process.answers(&format!("http://127.0.0.1:{admin}/healthz"), START).await?;
        Ok(process)
    }

    /// Makes a Service, whose slice is there before it.
    async fn make_service(&self, number: usize) -> anyhow::Result<()> {
        let (api, name) = (self.cluster.admin(), format!("large-{number}"));
        let endpoints: Vec<Value> = (1..=MEMBERS)
            .map(|last| json!({"addresses": [format!("10.1.{}.{last}", number % 256)], "conditions": {"ready": true}}))
            .collect();
        let slice = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4", "endpoints": endpoints,
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        });
        api.post(&format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"), &slice).await?;
        let internal = json!({"service.beta.kubernetes.io/openstack-internal-load-balancer": "true"});
        let service = json!({
            "metadata": {"name": name, "annotations": internal},
            // There are not as many node ports as this has Services.
            "spec": {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false,
                     "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
        });
        api.post(&format!("/api/v1/namespaces/{NAMESPACE}/services"), &service).await?;
        Ok(())
    }

    /// Waits until all are ready, as the controller has heard.
    async fn until_ready(&self) -> anyhow::Result<()> {
        let within = START + EACH * u32::try_from(self.many)?;
        let result = eventually("all load balancers are ready", within, async || {
            let ready = metric(self.ports[2], "gimbal_kuryr_controller_load_balancers", "state=\"ready\"").await?;
            anyhow::ensure!(ready >= f64::from(u32::try_from(self.many)?), "{ready} are");
            anyhow::Ok(())
        });
        let logs = || [&self.controller, &self.writer].into_iter().flatten().map(Process::log_tail).collect::<String>();
        result.await.map_err(|error| anyhow::anyhow!("{error:#}\n{}", logs()))
    }

    /// Records memory in the phase that ends now.
    fn note(&self, phase: &str, outcome: &mut Outcome) -> anyhow::Result<()> {
        for (name, process, most) in
            [("controller", &self.controller, CONTROLLER), ("openstack-writer", &self.writer, WRITER)]
        {
            let id = process.as_ref().with_context(|| format!("the {name} does not run"))?.id();
            let Usage { peak, resident, .. } = Usage::of(id)?;
            eprintln!("{phase}: {name} {peak:.1} MB at most, {resident:.1} MB at the end");
            outcome.figures.push(Figure::new(format!("{name}, {phase}"), peak, "MB").aim(Aim::AtMost(most)));
            outcome.figures.push(Figure::new(format!("{name}, at the end of: {phase}"), resident, "MB"));
            forget_peak(id)?;
        }
        Ok(())
    }
}
