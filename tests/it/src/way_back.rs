//! The way back on one stage: a real cluster, a real cloud whose load balancers answer, and both programs between them.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use gimbal_testkit::openstack::{Call, DataPlane, Got, OpenStack, Options, Service, User};
use gimbal_testkit::process::{binary, free_port};
use gimbal_testkit::{AuditEntry, Process, Rights, TestCluster, UserAccess, eventually};
use serde_json::{Value, json};

use crate::ingresses::ENABLE_INGRESS;
use crate::{Grpcurl, Programs};

/// The cluster's name.
pub const CLUSTER: &str = "prod1";
/// The namespace of the Services.
pub const NAMESPACE: &str = "shop";
/// The project of the load balancers.
pub const PROJECT: &str = "alpha";
/// The range of the cluster's Services, which is a subnet of the cloud.
const SERVICE_RANGE: &str = "10.96.0.0/16";
/// The range of floating IPs.
const OUTSIDE: &str = "203.0.113.0/24";
/// The user of the cluster that the controller is.
const USER: &str = "user-1";
const MARK: &str = "k8s-cluster:";
/// How long a step may take: a real Neutron is slow on a busy machine.
const WITHIN: Duration = Duration::from_secs(90);

/// A running `gimbal-kuryr-controller` or `gimbal-openstack-writer`.
pub struct WayBackProgram {
    /// The process.
    pub process: Process,
    /// Port for inspection, and the writer's port for controllers.
    pub port: u16,
    /// Port for metrics and health.
    pub admin_port: u16,
}

/// The stage. Everything ends when it is dropped.
pub struct WayBack {
    /// Started programs end before the servers that they use.
    pub controller: Option<WayBackProgram>,
    /// As `controller`.
    pub writer: Option<WayBackProgram>,
    /// Certificates and files.
    pub programs: Programs,
    /// The cluster of the Services.
    pub cluster: TestCluster,
    /// The cloud, with Neutron and a data plane.
    pub cloud: OpenStack,
    /// The ID of the project of the load balancers.
    pub project: String,
    /// The ID of the subnet of VIPs.
    pub subnet: String,
    config: PathBuf,
    pub(crate) settings: String,
    user: UserAccess,
    ports: [u16; 4],
}

impl WayBack {
    /// Starts the servers, and prepares the cluster's definitions and rights and the cloud's networks. No program runs.
    ///
    /// # Errors
    /// A server's error.
    pub async fn build() -> anyhow::Result<Self> {
        Self::build_with("").await
    }

    /// As [`WayBack::build`], with this line of YAML in the cluster's configuration.
    ///
    /// # Errors
    /// As [`WayBack::build`].
    pub async fn build_with(extra: &str) -> anyhow::Result<Self> {
        Self::build_on(Options { data_plane: true, ..Options::with_checked_tokens() }, extra).await
    }

    /// As [`WayBack::build_with`], in a cloud with these options and Neutron.
    ///
    /// # Errors
    /// As [`WayBack::build`].
    pub async fn build_on(options: Options, extra: &str) -> anyhow::Result<Self> {
        Self::build_as(&["gimbal-kuryr-controller"], options, extra).await
    }

    /// As [`WayBack::build`], for Ingresses: the writer has leave for them, and the controller the rights.
    ///
    /// # Errors
    /// As [`WayBack::build`].
    pub async fn build_for_ingresses() -> anyhow::Result<Self> {
        Self::build_for_ingresses_on(Options { data_plane: true, ..Options::with_checked_tokens() }).await
    }

    /// As [`WayBack::build_for_ingresses`], in a cloud with these options and Neutron.
    ///
    /// # Errors
    /// As [`WayBack::build`].
    pub async fn build_for_ingresses_on(options: Options) -> anyhow::Result<Self> {
        let roles = ["gimbal-kuryr-controller", "gimbal-kuryr-controller-ingress"];
        Self::build_as(&roles, options, ENABLE_INGRESS).await
    }

    async fn build_as(roles: &[&str], options: Options, extra: &str) -> anyhow::Result<Self> {
        let options = Options { neutron: true, ..options };
        let (cloud, cluster) = tokio::try_join!(OpenStack::start_with(options), TestCluster::start())?;
        cluster.install_crds().await?;
        cluster.namespace(NAMESPACE).await?;
        let user = cluster.user(USER)?;
        cluster.bind(&user, &Rights::deployed(roles)?.in_namespace("kube-system")).await?;
        let outside = cloud.create_external_network(OUTSIDE).await?;
        let subnet = cloud.create_subnet(PROJECT, SERVICE_RANGE).await?;
        cloud.create_router(PROJECT, &outside, &subnet).await?;
        let programs = Programs::new(None)?;
        cloud.credentials(User::Discoverer).write_secret(&programs.path("openstack"))?;
        let config = programs.path("openstack-writer.yaml");
        let identity = gimbal_testkit::pki::backend_identity(CLUSTER);
        let project = cloud.project(PROJECT).await?;
        let settings = format!(
            "admins: [\"spiffe://gimbal.example/admin\"]\nclusters:\n- name: {CLUSTER}\n  identity: {identity}\n  \
             neutron_defaults: {{project: {project}, service_subnet: {subnet}, external_svc_net: {outside}}}\n  \
             members: {{allow: [\"10.0.0.0/8\"]}}\n"
        );
        let ports = [free_port()?, free_port()?, free_port()?, free_port()?];
        let (controller, writer) = (None, None);
        let stage =
            Self { controller, writer, programs, cluster, cloud, project, subnet, config, settings, user, ports };
        stage.configure(extra)?;
        Ok(stage)
    }

    /// Replaces the line of YAML in the cluster's configuration, which a running writer reads again.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn configure(&self, extra: &str) -> anyhow::Result<()> {
        let text = format!("{}  {extra}\n", self.settings);
        std::fs::write(&self.config, text).with_context(|| format!("cannot write {}", self.config.display()))
    }

    /// Starts `gimbal-openstack-writer`, on the same ports each time, and waits until it lives.
    ///
    /// # Errors
    /// It does not; the message has the end of its log.
    pub async fn start_writer(&mut self, args: &[&str]) -> anyhow::Result<()> {
        let pair = self.programs.pair("openstack-writer")?;
        let mut all = vec![
            format!("--config={}", self.config.display()),
            format!("--credentials={}", self.programs.path("openstack").display()),
        ];
        all.extend(self.programs.tls(&pair));
        all.extend(args.iter().map(ToString::to_string));
        self.writer = Some(self.start("gimbal-openstack-writer", &all, [self.ports[0], self.ports[1]]).await?);
        Ok(())
    }

    /// Starts `gimbal-kuryr-controller`, on the same ports each time, and waits until it lives.
    ///
    /// # Errors
    /// As [`WayBack::start_writer`].
    pub async fn start_controller(&mut self, args: &[&str]) -> anyhow::Result<()> {
        let mut all =
            vec![format!("--cluster-name={CLUSTER}"), format!("--kubeconfig={}", self.user.kubeconfig().display())];
        all.extend(self.programs.to_writer(&self.programs.pair(CLUSTER)?, self.ports[0]));
        all.extend(args.iter().map(ToString::to_string));
        self.controller = Some(self.start("gimbal-kuryr-controller", &all, [self.ports[2], self.ports[3]]).await?);
        Ok(())
    }

    /// Starts another `gimbal-kuryr-controller` as another user of the cluster, and waits until it lives.
    ///
    /// # Errors
    /// As [`WayBack::start_writer`].
    pub async fn another_controller(&self, user: &str, args: &[&str]) -> anyhow::Result<WayBackProgram> {
        let user = self.cluster.user(user)?;
        self.cluster.bind(&user, &Rights::deployed(&["gimbal-kuryr-controller"])?.in_namespace("kube-system")).await?;
        let mut all =
            vec![format!("--cluster-name={CLUSTER}"), format!("--kubeconfig={}", user.kubeconfig().display())];
        all.extend(self.programs.to_writer(&self.programs.pair(CLUSTER)?, self.ports[0]));
        all.extend(args.iter().map(ToString::to_string));
        self.start("gimbal-kuryr-controller", &all, [free_port()?, free_port()?]).await
    }

    async fn start(&self, name: &str, args: &[String], [port, admin_port]: [u16; 2]) -> anyhow::Result<WayBackProgram> {
        let listen = [format!("--listen=127.0.0.1:{port}"), format!("--admin-listen=127.0.0.1:{admin_port}")];
        let log = self.programs.path(&format!("{name}.log"));
        let mut process = Process::start(name, &binary(name)?, &[args, &listen].concat(), &log)?;
        process.answers(&format!("http://127.0.0.1:{admin_port}/healthz"), WITHIN).await?;
        Ok(WayBackProgram { process, port, admin_port })
    }

    /// Returns a client that asks the writer as an admin.
    ///
    /// # Errors
    /// The writer does not run.
    pub fn ask_writer(&self) -> anyhow::Result<Grpcurl> {
        let writer = self.writer.as_ref().context("the writer does not run")?;
        Ok(Grpcurl::tls(&self.programs.pki, &self.programs.admin()?, writer.port))
    }

    /// Returns the ends of the programs' logs, to find the cause of a failure.
    #[must_use]
    pub fn logs(&self) -> String {
        let tails =
            [("controller", &self.controller), ("writer", &self.writer)].into_iter().filter_map(|(name, one)| {
                one.as_ref().map(|one| format!("--- the end of the {name}'s log:\n{}\n", one.process.log_tail()))
            });
        tails.collect()
    }

    /// Returns what answers at the addresses of the load balancers.
    ///
    /// # Errors
    /// The cloud has none; see [`WayBack::build_on`].
    pub fn plane(&self) -> anyhow::Result<&DataPlane> {
        self.cloud.data_plane()
    }

    /// Creates a Service of type LoadBalancer; each port is name, port and the members' port.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn make_service(&self, name: &str, ports: &[(&str, u16, u16)]) -> anyhow::Result<()> {
        self.make(json!({"name": name}), ports).await
    }

    /// As [`WayBack::make_service`], without a floating IP.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn make_internal_service(&self, name: &str, ports: &[(&str, u16, u16)]) -> anyhow::Result<()> {
        let internal = json!({"service.beta.kubernetes.io/openstack-internal-load-balancer": "true"});
        self.make(json!({"name": name, "annotations": internal}), ports).await
    }

    async fn make(&self, metadata: Value, ports: &[(&str, u16, u16)]) -> anyhow::Result<()> {
        let ports: Vec<Value> = ports
            .iter()
            .map(|(name, port, target)| json!({"name": name, "port": port, "targetPort": target, "protocol": "TCP"}))
            .collect();
        let service = json!({"metadata": metadata, "spec": {"type": "LoadBalancer", "ports": ports}});
        self.cluster.admin().post(&services(""), &service).await?;
        Ok(())
    }

    /// Creates or replaces the Service's one slice: these addresses, ready, on these ports (name and number).
    ///
    /// # Errors
    /// The API server's error.
    pub async fn set_members(&self, name: &str, addresses: &[&str], ports: &[(&str, u16)]) -> anyhow::Result<()> {
        let ready = json!({"ready": true, "serving": true, "terminating": false});
        let endpoints: Vec<Value> =
            addresses.iter().map(|address| json!({"addresses": [address], "conditions": ready})).collect();
        let ports: Vec<Value> =
            ports.iter().map(|(name, port)| json!({"name": name, "port": port, "protocol": "TCP"})).collect();
        let slice = json!({
            "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": endpoints, "ports": ports,
            "metadata": {
                "name": format!("{name}-1"), "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": name},
            },
        });
        crate::put(&self.cluster, &slice).await
    }

    /// Deletes a Service, and its slice as the cluster's controllers would. Returns the Service's UID.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn delete_service(&self, name: &str) -> anyhow::Result<String> {
        let api = self.cluster.admin();
        let uid = api.get(&services(name)).await?["metadata"]["uid"].as_str().map(str::to_owned);
        api.delete(&services(name)).await?;
        api.delete(&format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices/{name}-1")).await?;
        uid.context("a Service without a UID")
    }

    /// Returns the KuryrLoadBalancer of a Service, if there is one.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn resource(&self, name: &str) -> anyhow::Result<Option<Value>> {
        match self.cluster.admin().get(&format!("{BALANCERS}/{name}")).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.code == 404 => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the KuryrLoadBalancer of a Service is as expected, and returns it.
    ///
    /// # Errors
    /// It is not in time; the message has the programs' logs.
    pub async fn until_resource(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        let what = format!("KuryrLoadBalancer {name} {what}");
        let result = eventually(&what, WITHIN, async || {
            let object = self.resource(name).await?;
            object.clone().filter(&holds).with_context(|| format!("{object:?}"))
        });
        result.await.map_err(|error| anyhow::anyhow!("{error:#}\n{}", self.logs()))
    }

    /// Returns reason and message of the Events on a Service.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn events(&self, name: &str) -> anyhow::Result<Vec<(String, String)>> {
        let events = self.cluster.admin().items(&format!("/api/v1/namespaces/{NAMESPACE}/events")).await?;
        let about = events.iter().filter(|event| event["involvedObject"]["name"] == name);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(about.map(|event| (text(&event["reason"]), text(&event["message"]))).collect())
    }

    /// Returns the address in the Service's status.
    ///
    /// # Errors
    /// It has none; the message has the KuryrLoadBalancer.
    pub async fn address(&self, name: &str) -> anyhow::Result<String> {
        let api = self.cluster.admin();
        let service = api.get(&services(name)).await?;
        if let Some(address) = service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str() {
            return Ok(address.to_owned());
        }
        match api.get(&format!("{BALANCERS}/{name}")).await {
            Ok(balancer) => anyhow::bail!("{balancer}"),
            Err(error) => anyhow::bail!("{service}; its KuryrLoadBalancer: {error}"),
        }
    }

    /// Waits until the Service's status has an address, and returns it.
    ///
    /// # Errors
    /// It does not in time; the message has the KuryrLoadBalancer and the programs' logs.
    pub async fn until_address(&self, name: &str) -> anyhow::Result<String> {
        let what = format!("Service {name} has an address");
        let result = eventually(&what, WITHIN, async || self.address(name).await).await;
        result.map_err(|error| anyhow::anyhow!("{error:#}\n{}", self.logs()))
    }

    /// Waits until a request to this address and port is answered by exactly these members, each of them seen.
    ///
    /// # Errors
    /// It is not in time; the message has the programs' logs.
    pub async fn until_answers(&self, address: &str, port: u16, members: &[&str]) -> anyhow::Result<()> {
        let what = format!("{address}:{port} is answered by {members:?}");
        let result = eventually(&what, WITHIN, async || {
            let mut seen = std::collections::BTreeSet::new();
            // Twice around, with equal weights.
            for _ in 0..2 * members.len().max(1) {
                match self.plane()?.get(address, port, None).await? {
                    Got::Answer(200, name) => seen.insert(name),
                    other => anyhow::bail!("{other:?}"),
                };
            }
            let wanted = members.iter().map(ToString::to_string).collect();
            anyhow::ensure!(seen == wanted, "{seen:?}");
            Ok::<_, anyhow::Error>(())
        });
        result.await.map_err(|error| anyhow::anyhow!("{error:#}\n{}", self.logs()))
    }

    /// Waits until a Service that is being deleted is gone, with its KuryrLoadBalancer, and nothing with its UID is left
    /// in OpenStack.
    ///
    /// # Errors
    /// They are not in time; the message has what is left.
    pub async fn until_gone(&self, name: &str, uid: &str) -> anyhow::Result<()> {
        let what = format!("Service {name} is gone");
        let result = eventually(&what, WITHIN, async || {
            for path in [services(name), format!("{BALANCERS}/{name}")] {
                match self.cluster.admin().get(&path).await {
                    Err(error) if error.code == 404 => {}
                    other => anyhow::bail!("{path}: {other:?}"),
                }
            }
            let mut left = self.left().await?;
            left.retain(|one| one.contains(uid));
            anyhow::ensure!(left.is_empty(), "left in OpenStack: {left:?}");
            Ok::<_, anyhow::Error>(())
        });
        result.await.map_err(|error| anyhow::anyhow!("{error:#}\n{}", self.logs()))
    }

    /// Returns the load balancers that are marked as a cluster's.
    ///
    /// # Errors
    /// Octavia's error.
    pub async fn balancers(&self) -> anyhow::Result<Vec<Value>> {
        let mut found = Vec::new();
        let mut path = "/loadbalancers".to_owned();
        loop {
            let list = self.cloud.octavia().get(&path).await?;
            let page = list["loadbalancers"].as_array().map(Vec::as_slice).unwrap_or_default();
            found.extend(page.iter().filter(|one| one.to_string().contains(MARK)).cloned());
            let last = page.last().and_then(|one| one["id"].as_str());
            // A page has no more than the service allows.
            let Some(last) = last else { return Ok(found) };
            path = format!("/loadbalancers?marker={last}");
        }
    }

    /// Returns the load balancer of a Service.
    ///
    /// # Errors
    /// There is not exactly one.
    pub async fn balancer(&self, name: &str) -> anyhow::Result<Value> {
        let wanted = format!("{NAMESPACE}/{name}");
        let mut found = self.balancers().await?;
        found.retain(|one| one["name"] == wanted);
        anyhow::ensure!(found.len() == 1, "{} load balancers are called {wanted}", found.len());
        found.pop().context("none")
    }

    /// Returns everything in OpenStack that is marked as a cluster's: load balancers, floating IPs, ports, groups.
    ///
    /// # Errors
    /// A service's error.
    pub async fn left(&self) -> anyhow::Result<Vec<String>> {
        let mut left: Vec<String> = self.balancers().await?.iter().map(|one| format!("load balancer {one}")).collect();
        let neutron = self.cloud.neutron(Service::Neutron)?;
        for kind in ["floatingips", "ports", "security-groups"] {
            let list = neutron.get(&format!("/{kind}")).await?;
            let rows = list[kind.replace('-', "_")].as_array().cloned().unwrap_or_default();
            left.extend(rows.iter().filter(|row| row.to_string().contains(MARK)).map(|row| format!("{kind} {row}")));
        }
        Ok(left)
    }

    /// Returns the writer's calls since the marks that change something; see [`WayBack::marks`].
    ///
    /// # Errors
    /// A log of calls cannot be read.
    pub fn changes_since(&self, marks: [usize; 2]) -> anyhow::Result<Vec<Call>> {
        Ok(self.calls_since(marks)?.into_iter().filter(|call| call.method != "GET").collect())
    }

    /// Returns the writer's calls of Octavia and Neutron since the marks.
    ///
    /// # Errors
    /// A log of calls cannot be read.
    pub fn calls_since(&self, [octavia, neutron]: [usize; 2]) -> anyhow::Result<Vec<Call>> {
        let mut calls = self.cloud.calls_since(Service::Octavia, octavia)?;
        calls.extend(self.cloud.calls_since(Service::Neutron, neutron)?);
        // Octavia calls Neutron, too.
        calls.retain(|call| call.user_agent.starts_with("gimbal"));
        Ok(calls)
    }

    /// Returns the controller's writes to its cluster since a mark of [`TestCluster::audit_mark`], without those of its Lease.
    ///
    /// # Errors
    /// The audit log cannot be read.
    pub async fn writes_since(&self, mark: usize) -> anyhow::Result<Vec<AuditEntry>> {
        let mut entries = self.cluster.audit_since(mark).await?;
        entries.retain(|entry| entry.user == USER && entry.is_write() && entry.resource != "leases");
        Ok(entries)
    }

    /// Returns the numbers of calls so far.
    ///
    /// # Errors
    /// A log of calls cannot be read.
    pub fn marks(&self) -> anyhow::Result<[usize; 2]> {
        Ok([self.cloud.calls_mark(Service::Octavia)?, self.cloud.calls_mark(Service::Neutron)?])
    }
}

/// How often a client of the stage sends a request.
pub const OFTEN: Duration = Duration::from_millis(20);

const BALANCERS: &str = "/apis/openstack.org/v1/namespaces/shop/kuryrloadbalancers";

fn services(name: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/services/{name}").trim_end_matches('/').to_owned()
}
