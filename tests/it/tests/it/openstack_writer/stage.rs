//! A real cloud, and a real openstack-writer with its files.

use std::path::PathBuf;

use gimbal_testkit::openstack::{OpenStack, Options, Service, Steer, Steered, User};
use gimbal_testkit::process::free_port;
use gimbal_testkit::{San, eventually};
use gimbal_tests::{Programs, SOON, Writer};
use serde_json::{Value, json};

use super::controller::{Controller, MADE};

/// Clusters of every configuration: name, and UID of its `kube-system`.
pub const PROD1: (&str, &str) = ("prod1", "11111111-0000-4000-8000-000000000001");
pub const PROD2: (&str, &str) = ("prod2", "22222222-0000-4000-8000-000000000002");

pub struct Stage {
    pub programs: Programs,
    pub cloud: OpenStack,
    pub project: String,
    pub subnet: String,
    pub config: PathBuf,
    pub writer: Option<Writer>,
    /// Security groups that VIPs may have.
    groups: Vec<String>,
    /// Tags that everything carries besides the mark, as they are written in YAML.
    tags: Vec<String>,
    port: u16,
    args: Vec<String>,
    /// Variables of the writer's environment.
    env: Vec<(&'static str, &'static str)>,
}

/// What a cloud has beside the subnet of VIPs.
pub struct Surroundings {
    /// A network of floating IPs, with a router to the subnet of VIPs.
    pub outside: String,
    /// An IPv6 subnet in the network of VIPs.
    pub second: String,
    /// A security group of the project.
    pub group: String,
}

impl Stage {
    pub async fn start(args: &[&str]) -> Self {
        Self::start_on(Options::with_checked_tokens(), args).await
    }

    /// As [`Stage::start`], in a cloud with these options and Neutron.
    pub async fn start_on(options: Options, args: &[&str]) -> Self {
        let mut stage = Self::without_writer(options, args).await;
        stage.configure("");
        stage.start_writer().await;
        stage
    }

    /// Starts a writer that may use everything that there is around the subnet of VIPs.
    pub async fn wide(args: &[&str]) -> (Self, Surroundings) {
        Self::wide_with_tags(args, &[]).await
    }

    /// As [`Stage::wide`], where everything carries these tags besides the mark.
    pub async fn wide_with_tags(args: &[&str], tags: &[&str]) -> (Self, Surroundings) {
        let mut stage = Self::without_writer(Options::with_checked_tokens(), args).await;
        stage.tags = tags.iter().map(|tag| format!("'{tag}'")).collect();
        let outside = stage.cloud.create_external_network("203.0.113.0/24").await.unwrap();
        stage.cloud.create_router("alpha", &outside, &stage.subnet).await.unwrap();
        let neutron = stage.cloud.neutron(Service::Neutron).unwrap();
        let subnet = neutron.get(&format!("/subnets/{}", stage.subnet)).await.unwrap();
        let body = json!({
            "network_id": subnet["subnet"]["network_id"], "project_id": stage.project, "ip_version": 6,
            "cidr": "fd00:60::/64",
        });
        let made = neutron.post("/subnets", &json!({"subnet": body})).await.unwrap();
        let second = made["subnet"]["id"].as_str().unwrap().to_owned();
        let body = json!({"security_group": {"name": "vips", "project_id": stage.project}});
        let made = neutron.post("/security-groups", &body).await.unwrap();
        let group = made["security_group"]["id"].as_str().unwrap().to_owned();
        stage.groups.push(group.clone());
        stage.configure(&format!(
            "vip: {{subnets: [{second}]}}\nfloating: {{allow: [{outside}]}}\nproviders: {{allow: [lab, lab2]}}"
        ));
        stage.start_writer().await;
        (stage, Surroundings { outside, second, group })
    }

    /// As [`Stage::start_on`], in a cloud with a key manager and a data plane, for clusters whose Ingresses are served. The writer
    /// logs all that it can.
    pub async fn with_certificates(args: &[&str]) -> Self {
        let options = Options { key_manager: true, data_plane: true, ..Options::with_checked_tokens() };
        let mut stage = Self::without_writer(options, args).await;
        stage.configure("kubernetes: {enable_ingress: true}");
        stage.env.push(("GIMBAL_LOG", "trace"));
        stage.start_writer().await;
        stage
    }

    /// Returns the names of the secrets that there are.
    pub async fn secrets(&self) -> Vec<String> {
        let rows = self.cloud.sql("select name from barbican.secrets where deleted = 0 order by name").await.unwrap();
        rows.lines().map(str::to_owned).collect()
    }

    async fn without_writer(options: Options, args: &[&str]) -> Self {
        let cloud = OpenStack::start_with(Options { neutron: true, ..options }).await.unwrap();
        let project = cloud.project("alpha").await.unwrap();
        let subnet = cloud.create_subnet("alpha", "10.60.0.0/24").await.unwrap();
        let programs = Programs::new(None).unwrap();
        cloud.credentials(User::Discoverer).write_secret(&programs.path("credentials")).unwrap();
        let config = programs.path("clusters.yaml");
        let args = args.iter().map(ToString::to_string).collect();
        let (groups, tags, port, env) = (Vec::new(), Vec::new(), free_port().unwrap(), Vec::new());
        Self { programs, cloud, project, subnet, config, writer: None, groups, tags, port, args, env }
    }

    /// Writes the configuration, with more keys for each cluster.
    pub fn configure(&self, more: &str) {
        let mut text = "admins: ['spiffe://gimbal.example/admin']\nclusters:\n".to_owned();
        for (name, _) in [PROD1, PROD2] {
            let (project, subnet) = (&self.project, &self.subnet);
            let (groups, tags) = (self.groups.join(", "), self.tags.join(", "));
            text.push_str(&format!(
                "- name: {name}\n  identity: spiffe://gimbal.example/cluster/{name}\n  \
                 neutron_defaults: {{project: {project}, service_subnet: {subnet}, pod_security_groups: [{groups}], \
                 resource_tags: [{tags}]}}\n  \
                 members: {{allow: [10.0.0.0/8]}}\n"
            ));
            for line in more.lines() {
                text.push_str(&format!("  {line}\n"));
            }
        }
        std::fs::write(&self.config, text).unwrap();
    }

    pub async fn start_writer(&mut self) {
        self.writer = Some(self.writer_at(self.port).await);
    }

    /// Starts another writer, on a port of its own.
    pub async fn another_writer(&self) -> Writer {
        self.writer_at(free_port().unwrap()).await
    }

    async fn writer_at(&self, port: u16) -> Writer {
        let credentials = self.programs.path("credentials");
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        self.programs.start_openstack_writer(&credentials, port, &self.config, &args, &self.env).await.unwrap()
    }

    pub fn writer(&self) -> &Writer {
        self.writer.as_ref().unwrap()
    }

    /// Ends the writer as an orchestrator does.
    pub async fn stop_writer(&mut self) {
        let mut writer = self.writer.take().unwrap();
        writer.process.terminate(SOON).await.unwrap();
    }

    /// Kills the writer (SIGKILL).
    pub fn kill_writer(&mut self) {
        let mut writer = self.writer.take().unwrap();
        writer.process.kill().unwrap();
    }

    pub fn controller(&self, cluster: (&str, &str)) -> Controller {
        self.controller_to(self.port, cluster)
    }

    /// Starts the writer again, with other flags.
    pub async fn restart_with(&mut self, args: &[&str]) {
        self.stop_writer().await;
        self.args = args.iter().map(ToString::to_string).collect();
        self.start_writer().await;
    }

    /// Starts a controller that speaks to the writer on this port.
    pub fn controller_to(&self, port: u16, (name, uid): (&str, &str)) -> Controller {
        let identity = format!("spiffe://gimbal.example/cluster/{name}");
        let pair = self.programs.pki.issue(&format!("{name}-{uid}"), &[San::Uri(&identity)]).unwrap();
        Controller::start(&self.programs.pki, &pair, name, uid, port)
    }

    /// Returns the load balancers of the project with this tag; empty: all.
    pub async fn balancers(&self, tag: &str) -> Vec<Value> {
        let filter = if tag.is_empty() { String::new() } else { format!("&tags={tag}") };
        let path = format!("/loadbalancers?project_id={}{filter}", self.project);
        let found = self.cloud.octavia().get(&path).await.unwrap();
        found["loadbalancers"].as_array().unwrap().clone()
    }

    /// Returns the ports of Neutron in the project that carry an owner's mark.
    pub async fn marked_ports(&self, owner: &str) -> Vec<Value> {
        let neutron = self.cloud.neutron(Service::Neutron).unwrap();
        let found = neutron.get(&format!("/ports?project_id={}", self.project)).await.unwrap();
        let marked = |port: &&Value| port["description"].as_str().unwrap_or_default().contains(owner);
        found["ports"].as_array().unwrap().iter().filter(marked).cloned().collect()
    }

    /// Returns the addresses of the members of a load balancer's pools, by the port of the listener.
    pub async fn members(&self, balancer: &str) -> Vec<(u64, Vec<String>)> {
        let api = self.cloud.octavia();
        let listeners = api.get(&format!("/listeners?loadbalancer_id={balancer}")).await.unwrap();
        let mut all = Vec::new();
        for listener in listeners["listeners"].as_array().unwrap() {
            let pool = listener["default_pool_id"].as_str().unwrap_or("none");
            let members = api.get(&format!("/pools/{pool}/members")).await.unwrap();
            let address = |member: &Value| member["address"].as_str().unwrap().to_owned();
            let mut addresses: Vec<String> = members["members"].as_array().unwrap().iter().map(address).collect();
            addresses.sort();
            all.push((listener["protocol_port"].as_u64().unwrap(), addresses));
        }
        all.sort();
        all
    }

    /// Waits until the pools of a load balancer have these members.
    pub async fn expect_members(&self, balancer: &str, ports: &[u64], members: &[&str]) {
        let members: Vec<String> = members.iter().map(ToString::to_string).collect();
        let expected: Vec<_> = ports.iter().map(|port| (*port, members.clone())).collect();
        let what = format!("{balancer} has {expected:?}");
        let wait = eventually(&what, MADE, async || {
            let found = self.members(balancer).await;
            if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
        });
        wait.await.unwrap_or_else(|error| panic!("{error:#}\n{}", self.writer().process.log_tail()));
    }

    /// Returns the number of requests of the writer that changed something in Octavia or Neutron since the marks.
    pub fn changes_since(&self, marks: (usize, usize)) -> Vec<String> {
        let mut changes = Vec::new();
        for (service, mark) in [(Service::Octavia, marks.0), (Service::Neutron, marks.1)] {
            let calls = self.cloud.calls_since(service, mark).unwrap();
            let writes = calls
                .iter()
                .filter(|call| call.method != "GET" && call.user_agent.starts_with("gimbal-openstack-writer"));
            changes.extend(writes.map(|call| format!("{} {}", call.method, call.path)));
        }
        changes
    }

    /// Waits until the writer has looked at all load balancers again `times` times.
    pub async fn expect_looks(&self, times: usize) {
        let (mark, _) = self.marks();
        let wait = eventually("the writer looks again", MADE, async || {
            let calls = self.cloud.calls_since(Service::Octavia, mark).unwrap();
            let looks = calls.iter().filter(|call| call.method == "GET" && call.path.ends_with("/loadbalancers"));
            let looks = looks.filter(|call| call.user_agent.starts_with("gimbal")).count();
            if looks >= times { Ok(()) } else { Err(looks) }
        });
        wait.await.unwrap();
    }

    /// Puts a rule into force in Octavia.
    pub async fn steer(&self, rule: &Steer) -> Steered {
        self.cloud.steer(Service::Octavia, rule).await.unwrap()
    }

    /// Waits until a rule has applied `times` times.
    pub async fn expect_steered(&self, rule: Steered, times: u64) {
        let wait = eventually("the rule applies", MADE, async || {
            let applied = self.cloud.steered(rule).await.unwrap();
            if applied >= times { Ok(()) } else { Err(applied) }
        });
        wait.await.unwrap_or_else(|error| panic!("{error:#}\n{}", self.writer().process.log_tail()));
    }

    /// Returns the rows of a list of Octavia, with a query if there is one. A pool that has gone meanwhile has no members.
    pub async fn rows(&self, collection: &str, query: &str) -> Vec<Value> {
        let found = match self.cloud.octavia().get(&format!("/{collection}?{query}")).await {
            Err(refused) if refused.code == 404 => return Vec::new(),
            found => found.unwrap(),
        };
        found[collection.rsplit('/').next().unwrap()].as_array().unwrap().clone()
    }

    pub fn marks(&self) -> (usize, usize) {
        let mark = |service| self.cloud.calls_mark(service).unwrap();
        (mark(Service::Octavia), mark(Service::Neutron))
    }
}
