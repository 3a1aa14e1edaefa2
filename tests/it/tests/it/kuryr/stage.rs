//! A cluster with the custom resources, a scripted openstack-writer, and controllers with exactly the rights of deploy/rbac.

use gimbal_testkit::process::{binary, free_port};
use gimbal_testkit::scripted_openstack::{ScriptedOpenStack, facts};
use gimbal_testkit::{Process, Rights, TestCluster, eventually};
use gimbal_tests::SOON;
use serde_json::{Value, json};

pub const SERVICE_FINALIZER: &str = "kuryr.openstack.org/service-finalizer";
pub const BALANCER_FINALIZER: &str = "kuryr.openstack.org/kuryrloadbalancer-finalizers";

/// The user of the first controller, and of the second one.
pub const USERS: [&str; 2] = ["user-1", "user-2"];

pub struct Stage {
    pub cluster: TestCluster,
    pub openstack: ScriptedOpenStack,
    dir: tempfile::TempDir,
}

/// A running `gimbal-kuryr-controller`.
pub struct Controller {
    pub process: Process,
    pub port: u16,
    pub admin_port: u16,
}

impl Stage {
    pub async fn start() -> Self {
        let stage = Self::without_crds().await;
        stage.cluster.install_crds().await.unwrap();
        stage
    }

    pub async fn without_crds() -> Self {
        let cluster = TestCluster::start().await.unwrap();
        cluster.namespace("team").await.unwrap();
        for user in USERS {
            cluster.bind(&cluster.user(user).unwrap(), &rights()).await.unwrap();
        }
        // The Lease as a controller leaves it at a clean stop. Without it, the first one would wait for a lease duration.
        let lease = json!({"metadata": {"name": "gimbal-kuryr-controller"}, "spec": {}});
        cluster.admin().post("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", &lease).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        Self { cluster, openstack: ScriptedOpenStack::start(facts()).await, dir }
    }

    /// Starts a controller as this user, with the scripted writer and these further flags.
    pub fn controller_as(&self, user: &str, flags: &[&str]) -> Controller {
        let writer = format!("--writer={}", self.openstack.url);
        self.controller_without_writer(user, &[&[&*writer], flags].concat())
    }

    pub fn controller(&self) -> Controller {
        self.controller_as(USERS[0], &[])
    }

    pub fn controller_without_writer(&self, user: &str, flags: &[&str]) -> Controller {
        self.controller_with(user, flags, &[])
    }

    /// As [`Self::controller_without_writer`], with further environment variables.
    pub fn controller_with(&self, user: &str, flags: &[&str], env: &[(&str, &str)]) -> Controller {
        let (port, admin_port) = (free_port().unwrap(), free_port().unwrap());
        let kubeconfig = self.cluster.user(user).unwrap();
        let mut args = vec![
            "--cluster-name=prod1".to_owned(),
            format!("--kubeconfig={}", kubeconfig.kubeconfig().display()),
            format!("--listen=127.0.0.1:{port}"),
            format!("--admin-listen=127.0.0.1:{admin_port}"),
        ];
        args.extend(flags.iter().map(ToString::to_string));
        let name = "gimbal-kuryr-controller";
        let log = self.dir.path().join(format!("{name}-{port}.log"));
        let process = Process::start_with(name, &binary(name).unwrap(), &args, env, &log).unwrap();
        Controller { process, port, admin_port }
    }

    pub async fn post(&self, path: &str, object: &Value) -> Value {
        self.cluster.admin().post(path, object).await.unwrap()
    }

    pub async fn make_service(&self, name: &str, type_: &str) -> Value {
        self.post(SERVICES, &service(name, type_)).await
    }

    pub async fn make_slice(&self, service: &str, addresses: &[&str]) {
        self.post(SLICES, &slice(service, addresses)).await;
    }

    /// Replaces the endpoints of a slice.
    pub async fn set_addresses(&self, service: &str, addresses: &[&str]) {
        let endpoints = slice(service, addresses)["endpoints"].clone();
        let path = format!("{SLICES}/{service}");
        self.cluster.admin().patch(&path, &json!({"endpoints": endpoints})).await.unwrap();
    }

    pub async fn get(&self, collection: &str, name: &str) -> Option<Value> {
        match self.cluster.admin().get(&format!("{collection}/{name}")).await {
            Ok(object) => Some(object),
            Err(error) if error.code == 404 => None,
            Err(error) => panic!("{error}"),
        }
    }

    pub async fn delete(&self, collection: &str, name: &str) {
        self.cluster.admin().delete(&format!("{collection}/{name}")).await.unwrap();
    }

    /// Waits until an object is as expected; `None` where it does not exist.
    pub async fn until(
        &self,
        what: &str,
        (collection, name): (&str, &str),
        holds: impl Fn(Option<&Value>) -> bool,
    ) -> Option<Value> {
        eventually(what, SOON, async || {
            let object = self.get(collection, name).await;
            if holds(object.as_ref()) { Ok(object) } else { Err(format!("{object:?}")) }
        })
        .await
        .unwrap()
    }

    /// Waits until the KuryrLoadBalancer of a Service is ready, and returns it.
    pub async fn until_ready(&self, name: &str) -> Value {
        let ready =
            |object: Option<&Value>| object.is_some_and(|object| condition(object, "Ready")["status"] == "True");
        self.until(&format!("{name} is ready"), (BALANCERS, name), ready).await.unwrap()
    }

    pub async fn until_gone(&self, collection: &str, name: &str) {
        self.until(&format!("{name} is gone"), (collection, name), |object| object.is_none()).await;
    }

    /// Returns the writes of the controllers since `mark`, except those about the Lease.
    pub async fn writes(&self, mark: usize) -> Vec<String> {
        let entries = self.cluster.audit_since(mark).await.unwrap();
        let own = entries.iter().filter(|entry| USERS.contains(&&*entry.user) && entry.is_write());
        let own = own.filter(|entry| entry.resource != "leases");
        own.map(|e| format!("{} {} {}/{} {}", e.verb, e.resource, e.namespace, e.name, e.code)).collect()
    }

    /// Fails if the API server has refused anything to a controller for want of a right.
    pub async fn expect_rights_to_suffice(&self) {
        let entries = self.cluster.audit().await.unwrap();
        let refused: Vec<_> =
            entries.iter().filter(|entry| USERS.contains(&&*entry.user) && entry.code == 403).collect();
        assert!(refused.is_empty(), "{refused:?}");
    }

    /// Returns reason, type and message of the Events on an object.
    pub async fn events(&self, name: &str) -> Vec<[String; 3]> {
        let events = self.cluster.admin().items("/api/v1/namespaces/team/events").await.unwrap();
        let about = events.iter().filter(|event| {
            event["involvedObject"]["name"] == name && event["reportingComponent"] == "gimbal-kuryr-controller"
        });
        let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
        about.map(|event| ["reason", "type", "message"].map(|field| text(event, field))).collect()
    }
}

impl Controller {
    pub async fn ready(&mut self) {
        let url = format!("http://127.0.0.1:{}/readyz", self.admin_port);
        self.process.answers(&url, SOON).await.unwrap();
    }
}

/// The rights of deploy/rbac, for a controller whose Lease is in kube-system.
pub fn rights() -> Rights {
    Rights::deployed(&["gimbal-kuryr-controller"]).unwrap().in_namespace("kube-system")
}

pub const SERVICES: &str = "/api/v1/namespaces/team/services";
pub const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/team/endpointslices";
pub const BALANCERS: &str = "/apis/openstack.org/v1/namespaces/team/kuryrloadbalancers";

pub fn service(name: &str, type_: &str) -> Value {
    let mut service = json!({
        "metadata": {"name": name},
        "spec": {"type": type_, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    });
    if type_ == "LoadBalancer" {
        // Node ports would differ from Service to Service.
        service["spec"]["allocateLoadBalancerNodePorts"] = json!(false);
    }
    service
}

pub fn slice(service: &str, addresses: &[&str]) -> Value {
    let endpoint = |address: &&str| json!({"addresses": [address], "conditions": {"ready": true}});
    json!({
        "metadata": {"name": service, "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}],
        "endpoints": addresses.iter().map(endpoint).collect::<Vec<_>>(),
    })
}

pub fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().map(|name| name.as_str().unwrap()).collect()
}

/// Returns a condition of an object; null if it has none of this type.
pub fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let mut all = object["status"]["conditions"].as_array().into_iter().flatten();
    all.find(|condition| condition["type"] == type_).unwrap_or(&Value::Null)
}
