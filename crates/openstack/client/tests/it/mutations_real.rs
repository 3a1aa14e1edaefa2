//! Changes in a real Octavia and Neutron: what they accept, what their refusals mean, and what happened when an answer is
//! lost. Their refusals are compared with those recorded in `tests/openstack/recorded/mutations`, from which the unit tests
//! of the client's table read them; `GIMBAL_RECORD=1` writes these files.
#![expect(clippy::unwrap_used, reason = "helpers of a test panic as a test does")]

use std::time::Duration;

use gimbal_openstack_client::{
    Cloud, CloudCredentials, Complaint, Error, Mutation, MutationResult, ServiceEndpoint, ServiceType, Session,
    TokenScope,
};
use gimbal_testkit::eventually;
use gimbal_testkit::openstack::{self, AnswerCutter, OpenStack, Service, User};
use reqwest::Method;
use serde_json::{Value, json};

use crate::common::options;
use crate::recording::{Raw, keep};

/// An ID that no object has.
const NOTHING: &str = "00000000-0000-4000-8000-000000000000";
const LONG: Duration = Duration::from_secs(30);

/// A client of one user, in the project `alpha`.
struct Client {
    session: Session,
    octavia: ServiceEndpoint,
    neutron: ServiceEndpoint,
    raw: Raw,
}

impl Client {
    /// Connects as `user`. `more` are additional variables, for example to call a service through a proxy.
    async fn connect(cloud: &OpenStack, user: User, more: &[(&str, &str)]) -> Self {
        let credentials = cloud.credentials(user);
        let project = cloud.project("alpha").await.unwrap();
        let raw = Raw::connect(cloud, &credentials, &project).await;
        let variables = credentials.variables();
        let find = |name: &str| {
            let more = more.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            more.or_else(|| variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()))
        };
        let cloud = Cloud::connect(CloudCredentials::from_env(find).unwrap(), options()).await.unwrap();
        let session = cloud.session(&TokenScope::Project(project));
        let octavia = session.endpoint(ServiceType::LoadBalancer).await.unwrap();
        let neutron = session.endpoint(ServiceType::Network).await.unwrap();
        Self { session, octavia, neutron, raw }
    }

    async fn octavia(&self, mutation: &Mutation) -> MutationResult {
        self.session.mutate(&self.octavia, mutation, || true).await
    }

    async fn neutron(&self, mutation: &Mutation) -> MutationResult {
        self.session.mutate(&self.neutron, mutation, || true).await
    }

    /// Makes Octavia refuse a request twice: once to compare its answer with the recorded one, and once by the client.
    async fn refused(&self, name: &str, method: Method, path: &str, body: &Value) -> Option<Complaint> {
        keep(name, &self.raw.octavia(method.clone(), path, body).await);
        refusal(name, &self.octavia(&mutation(&method, path, body)).await)
    }

    /// The same of Neutron.
    async fn refused_by_neutron(&self, name: &str, method: Method, path: &str, body: &Value) -> Option<Complaint> {
        keep(name, &self.raw.neutron(method.clone(), path, &[], body).await);
        refusal(name, &self.neutron(&mutation(&method, path, body)).await)
    }
}

fn mutation(method: &Method, path: &str, body: &Value) -> Mutation {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let segments: Vec<&str> = path.split('/').collect();
    let mutation = match *method {
        Method::POST => Mutation::create("object", &segments, body),
        Method::PUT => Mutation::update("object", &segments, body),
        _ => Mutation::delete("object", &segments),
    };
    match query {
        "additive_only=true" => mutation.with_query("additive_only", "true"),
        "cascade=true" => mutation.with_query("cascade", "true"),
        "" => mutation,
        other => panic!("{other}"),
    }
}

fn accepted(result: MutationResult) -> Value {
    match result {
        MutationResult::Accepted(body) if body.is_empty() => Value::Null,
        MutationResult::Accepted(body) => serde_json::from_slice(&body).unwrap(),
        other => panic!("not accepted: {other:?}"),
    }
}

fn refusal(name: &str, result: &MutationResult) -> Option<Complaint> {
    match result {
        MutationResult::Refused(refusal) => refusal.complaint.clone(),
        other => panic!("{name} is not refused: {other:?}"),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn member(host: u8) -> Value {
    json!({"address": format!("10.60.0.{host}"), "protocol_port": 8080})
}

fn tree(subnet: &str, owner: &str) -> Value {
    let pool = json!({
        "name": "web", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "members": [member(11), member(12)],
        "healthmonitor": {"type": "TCP", "delay": 5, "timeout": 3, "max_retries": 3},
    });
    let listener = json!({"name": "web", "protocol": "TCP", "protocol_port": 80, "default_pool": pool});
    json!({"loadbalancer": {"name": "ns/web", "vip_subnet_id": subnet, "tags": [owner], "listeners": [listener]}})
}

#[tokio::test]
async fn changes_in_a_real_cloud() {
    let cloud = OpenStack::start_with(openstack::Options { neutron: true, ..Default::default() }).await.unwrap();
    let subnet = cloud.create_subnet("alpha", "10.60.0.0/24").await.unwrap();
    let client = Client::connect(&cloud, User::Discoverer, &[]).await;

    let (balancer, pool) = a_tree_in_one_request(&cloud, &client, &subnet).await;
    refusals_of_octavia(&client, &balancer, &pool, &subnet).await;
    a_pool_that_a_policy_uses(&cloud, &client, &balancer).await;
    what_a_provider_cannot_do(&cloud, &client, &balancer, &subnet).await;
    while_a_change_is_pending(&cloud, &client, &subnet).await;
    without_the_right(&cloud, &subnet).await;
    refusals_of_neutron(&cloud, &client, &subnet).await;
    lost_answers(&cloud, &subnet).await;
    quotas(&cloud, &client, &balancer, &subnet).await;
    a_whole_tree_goes(&cloud, &client, &balancer).await;
}

/// One POST creates everything, and its answer has all IDs.
async fn a_tree_in_one_request(cloud: &OpenStack, client: &Client, subnet: &str) -> (String, String) {
    let body = tree(subnet, "k8s-svc-uid:one");
    let made = accepted(client.octavia(&mutation(&Method::POST, "loadbalancers", &body)).await);
    let made = &made["loadbalancer"];
    assert_eq!(text(&made["provisioning_status"]), "PENDING_CREATE");
    assert_eq!(made["pools"][0]["members"].as_array().unwrap().len(), 2, "{made}");
    assert_eq!(made["listeners"][0]["default_pool_id"], made["pools"][0]["id"]);
    let (balancer, pool) = (text(&made["id"]).to_owned(), text(&made["pools"][0]["id"]).to_owned());
    let object = format!("/loadbalancers/{balancer}");
    cloud.settled(&object).await.unwrap();

    let members = format!("pools/{pool}/members");
    let addresses = async || {
        cloud.settled(&object).await.unwrap();
        let found = cloud.octavia().get(&format!("/{members}")).await.unwrap();
        let mut found: Vec<_> =
            found["members"].as_array().unwrap().iter().map(|row| text(&row["address"]).to_owned()).collect();
        found.sort_unstable();
        found.join(" ")
    };
    let more = json!({"members": [member(13)]});
    accepted(client.octavia(&mutation(&Method::PUT, &format!("{members}?additive_only=true"), &more)).await);
    assert_eq!(addresses().await, "10.60.0.11 10.60.0.12 10.60.0.13");
    let all = json!({"members": [member(12), member(13)]});
    accepted(client.octavia(&mutation(&Method::PUT, &members, &all)).await);
    assert_eq!(addresses().await, "10.60.0.12 10.60.0.13");
    (balancer, pool)
}

async fn refusals_of_octavia(client: &Client, balancer: &str, pool: &str, subnet: &str) {
    let members = format!("pools/{pool}/members");
    let listener =
        |port: u16| json!({"listener": {"loadbalancer_id": balancer, "protocol": "TCP", "protocol_port": port}});
    let refused =
        async |name: &str, method: Method, path: &str, body: &Value| client.refused(name, method, path, body).await;

    let duplicate = Some(Complaint::Duplicate);
    assert_eq!(refused("duplicate-listener", Method::POST, "listeners", &listener(80)).await, duplicate);
    assert_eq!(refused("duplicate-member", Method::POST, &members, &json!({"member": member(12)})).await, duplicate);
    let monitor =
        json!({"healthmonitor": {"pool_id": pool, "type": "TCP", "delay": 5, "timeout": 3, "max_retries": 3}});
    assert_eq!(refused("duplicate-monitor", Method::POST, "healthmonitors", &monitor).await, duplicate);

    let invalid = |complaint: Option<Complaint>| matches!(complaint, Some(Complaint::Validation { .. }));
    let unknown =
        json!({"listener": {"loadbalancer_id": balancer, "protocol": "TCP", "protocol_port": 81, "bogus": 1}});
    assert!(invalid(refused("unknown-attribute", Method::POST, "listeners", &unknown).await));
    let nowhere = json!({"loadbalancer": {"vip_subnet_id": NOTHING}});
    assert!(invalid(refused("unknown-subnet", Method::POST, "loadbalancers", &nowhere).await));
    let no_provider = json!({"loadbalancer": {"vip_subnet_id": subnet, "provider": "none-such"}});
    assert!(invalid(refused("unknown-provider", Method::POST, "loadbalancers", &no_provider).await));
    let whole = format!("loadbalancers/{balancer}");
    assert!(invalid(refused("delete-without-cascade", Method::DELETE, &whole, &Value::Null).await));

    let gone = format!("loadbalancers/{NOTHING}?cascade=true");
    assert_eq!(refused("delete-of-what-is-gone", Method::DELETE, &gone, &Value::Null).await, None);
    let result = client.octavia(&mutation(&Method::DELETE, &gone, &Value::Null)).await;
    assert!(matches!(result.error(), Some(Error::NotFound { .. })), "{result:?}");
    // Octavia passes Neutron's conflict on as a fault of its own, so it is not known how far it went.
    let found = client.raw.octavia(Method::GET, &whole, &Value::Null).await.json();
    let taken = json!({"loadbalancer": {"vip_subnet_id": subnet, "vip_address": found["loadbalancer"]["vip_address"]}});
    keep("vip-address-in-use", &client.raw.octavia(Method::POST, "loadbalancers", &taken).await);
    let result = client.octavia(&mutation(&Method::POST, "loadbalancers", &taken)).await;
    assert!(matches!(result, MutationResult::Unknown(Error::Server { status: 500, .. })), "{result:?}");
    // Octavia has a second form of errors, and uses it here.
    let nothing = json!({"members": [member(12)]});
    let path = format!("pools/{NOTHING}/members");
    assert_eq!(refused("members-of-a-pool-that-is-gone", Method::PUT, &path, &nothing).await, None);
}

async fn a_pool_that_a_policy_uses(cloud: &OpenStack, client: &Client, balancer: &str) {
    let pool = json!({"loadbalancer_id": balancer, "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN"});
    let pool = cloud.create("/pools", &pool).await.unwrap();
    let listener = json!({"loadbalancer_id": balancer, "protocol": "HTTP", "protocol_port": 8080});
    let listener = cloud.create("/listeners", &listener).await.unwrap();
    let policy = json!({"listener_id": listener["id"], "action": "REDIRECT_TO_POOL", "redirect_pool_id": pool["id"]});
    cloud.create("/l7policies", &policy).await.unwrap();
    let pool = format!("pools/{}", text(&pool["id"]));
    let complaint = client.refused("pool-in-use-by-policy", Method::DELETE, &pool, &Value::Null).await;
    assert_eq!(complaint, Some(Complaint::PoolInUseByPolicy));
}

/// The lab provider refuses by the description. Octavia leaves no row behind, but leaves the port of the VIP in Neutron.
async fn what_a_provider_cannot_do(cloud: &OpenStack, client: &Client, balancer: &str, subnet: &str) {
    let listener = |words: &str| json!({"listener": {"loadbalancer_id": balancer, "protocol": "TCP", "protocol_port": 82, "description": words}});
    let complaint = client.refused("unsupported-option", Method::POST, "listeners", &listener("lab:unsupported")).await;
    assert!(matches!(complaint, Some(Complaint::Unsupported { .. })), "{complaint:?}");
    let fails = listener("lab:fails");
    keep("provider-failed", &client.raw.octavia(Method::POST, "listeners", &fails).await);
    let result = client.octavia(&mutation(&Method::POST, "listeners", &fails)).await;
    assert!(matches!(result, MutationResult::ProviderFailed(_)), "{result:?}");

    let ports = async || {
        let found = cloud.neutron(Service::Neutron).unwrap().get("/ports?device_owner=Octavia").await.unwrap();
        found["ports"].as_array().unwrap().len()
    };
    let before = ports().await;
    let create = json!({"loadbalancer": {"vip_subnet_id": subnet, "description": "lab:unsupported"}});
    refusal("a load balancer", &client.octavia(&mutation(&Method::POST, "loadbalancers", &create)).await);
    assert_eq!(ports().await, before + 1);
}

async fn while_a_change_is_pending(cloud: &OpenStack, client: &Client, subnet: &str) {
    let pool = json!({"name": "p", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "members": []});
    let body = json!({"vip_subnet_id": subnet, "pools": [pool]});
    let made = cloud.create_load_balancer("alpha", &body).await.unwrap();
    let (balancer, pool) = (text(&made["id"]), text(&made["pools"][0]["id"]));
    let object = format!("loadbalancers/{balancer}");
    cloud.octavia().put(&format!("/{object}"), &json!({"loadbalancer": {"tags": ["lab:stall"]}})).await.unwrap();

    let members = format!("pools/{pool}/members?additive_only=true");
    let more = json!({"members": [member(14)]});
    let complaint = client.refused("members-while-pending", Method::PUT, &members, &more).await;
    assert_eq!(complaint, Some(Complaint::Immutable));
    let rename = json!({"loadbalancer": {"name": "other"}});
    let complaint = client.refused("load-balancer-while-pending", Method::PUT, &object, &rename).await;
    assert_eq!(complaint, Some(Complaint::InvalidState));
    let complaint =
        client.refused("delete-while-pending", Method::DELETE, &format!("{object}?cascade=true"), &Value::Null).await;
    assert_eq!(complaint, Some(Complaint::InvalidState));
}

async fn without_the_right(cloud: &OpenStack, subnet: &str) {
    let observer = Client::connect(cloud, User::Observer, &[]).await;
    let body = json!({"loadbalancer": {"vip_subnet_id": subnet}});
    assert_eq!(observer.refused("no-right", Method::POST, "loadbalancers", &body).await, None);
    let network = json!({"network": {"name": "n"}});
    assert_eq!(observer.refused_by_neutron("no-right-in-neutron", Method::POST, "networks", &network).await, None);
    let stranger = observer.raw.with_token("no-token");
    keep("unknown-token", &stranger.octavia(Method::POST, "loadbalancers", &body).await);
    keep("unknown-token-in-neutron", &stranger.neutron(Method::POST, "networks", &[], &network).await);
}

async fn refusals_of_neutron(cloud: &OpenStack, client: &Client, subnet: &str) {
    let found = cloud.neutron(Service::Neutron).unwrap().get(&format!("/subnets/{subnet}")).await.unwrap();
    let network = text(&found["subnet"]["network_id"]).to_owned();
    let fixed = json!({"port": {"network_id": network, "fixed_ips": [{"ip_address": "10.60.0.9"}]}});
    let port = accepted(client.neutron(&mutation(&Method::POST, "ports", &fixed)).await);
    no_address_and_no_router(cloud, client, &port["port"]["id"]).await;
    let port = format!("ports/{}", text(&port["port"]["id"]));
    let in_use = Some(Complaint::InUse);
    assert_eq!(client.refused_by_neutron("address-in-use", Method::POST, "ports", &fixed).await, in_use);
    let path = format!("subnets/{subnet}");
    assert_eq!(client.refused_by_neutron("subnet-in-use", Method::DELETE, &path, &Value::Null).await, in_use);

    let group = json!({"security_group": {"name": "web"}});
    let group = accepted(client.neutron(&mutation(&Method::POST, "security-groups", &group)).await);
    let group = text(&group["security_group"]["id"]).to_owned();
    let rule = json!({"security_group_rule": {
        "security_group_id": group, "direction": "ingress", "protocol": "tcp", "port_range_min": 80, "port_range_max": 80,
    }});
    accepted(client.neutron(&mutation(&Method::POST, "security-group-rules", &rule)).await);
    let complaint = client.refused_by_neutron("duplicate-rule", Method::POST, "security-group-rules", &rule).await;
    assert_eq!(complaint, Some(Complaint::Duplicate));
    let attach = json!({"port": {"security_groups": [group]}});
    accepted(client.neutron(&mutation(&Method::PUT, &port, &attach)).await);
    let path = format!("security-groups/{group}");
    assert_eq!(client.refused_by_neutron("group-in-use", Method::DELETE, &path, &Value::Null).await, in_use);

    // Neutron compares the revision only if the change makes a difference.
    let rename = json!({"port": {"name": "other"}});
    let outdated = [("if-match", "revision_number=77")];
    keep("outdated-revision", &client.raw.neutron(Method::PUT, &port, &outdated, &rename).await);
    let result = client.neutron(&mutation(&Method::PUT, &port, &rename).with_if_match("revision_number=77")).await;
    assert_eq!(refusal("outdated revision", &result), Some(Complaint::PreconditionFailed));
    let path = format!("ports/{NOTHING}");
    assert_eq!(client.refused_by_neutron("port-that-is-gone", Method::DELETE, &path, &Value::Null).await, None);
    let wrong = json!({"port": {"network_id": "x"}});
    let complaint = client.refused_by_neutron("invalid-port", Method::POST, "ports", &wrong).await;
    assert!(matches!(complaint, Some(Complaint::Validation { .. })), "{complaint:?}");
}

async fn no_address_and_no_router(cloud: &OpenStack, client: &Client, port: &Value) {
    // Each has one address beside that of its gateway.
    let external = cloud.create_external_network("172.24.9.0/30").await.unwrap();
    let subnet = cloud.create_subnet("alpha", "10.61.0.0/30").await.unwrap();
    let floating = json!({"floatingip": {"floating_network_id": external, "port_id": port}});
    let complaint = client.refused_by_neutron("no-router", Method::POST, "floatingips", &floating).await;
    assert!(matches!(complaint, Some(Complaint::Unreachable { .. })), "{complaint:?}");
    let found = cloud.neutron(Service::Neutron).unwrap().get(&format!("/subnets/{subnet}")).await.unwrap();
    let inside = json!({"port": {"network_id": found["subnet"]["network_id"]}});
    let floating = json!({"floatingip": {"floating_network_id": external}});
    for (name, path, body) in [("no-address", "ports", inside), ("no-floating-ip", "floatingips", floating)] {
        accepted(client.neutron(&mutation(&Method::POST, path, &body)).await);
        let complaint = client.refused_by_neutron(name, Method::POST, path, &body).await;
        assert!(matches!(complaint, Some(Complaint::Exhausted { .. })), "{name}: {complaint:?}");
    }
}

/// The service has done what was asked, and its answer is lost: the client does not know, does not repeat, and the caller
/// finds the object by its mark.
async fn lost_answers(cloud: &OpenStack, subnet: &str) {
    let octavia = AnswerCutter::start(cloud, Service::Octavia).await.unwrap();
    let neutron = AnswerCutter::start(cloud, Service::Neutron).await.unwrap();
    let more = [("OS_LOAD_BALANCER_ENDPOINT_OVERRIDE", octavia.url()), ("OS_NETWORK_ENDPOINT_OVERRIDE", neutron.url())];
    let client = Client::connect(cloud, User::Discoverer, &more).await;
    let is_unknown = |result: MutationResult| {
        assert!(matches!(result, MutationResult::Unknown(Error::Unreachable { .. })), "{result:?}");
    };
    let mark = cloud.calls_mark(Service::Octavia).unwrap();

    octavia.lose_one();
    let create = mutation(&Method::POST, "loadbalancers", &tree(subnet, "k8s-svc-uid:lost"));
    is_unknown(client.octavia(&create).await);
    let found = cloud.octavia().get("/loadbalancers?tags=k8s-svc-uid:lost").await.unwrap();
    let found = found["loadbalancers"].as_array().unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    let object = format!("/loadbalancers/{}", text(&found[0]["id"]));
    let pool = text(&cloud.settled(&object).await.unwrap()["pools"][0]["id"]).to_owned();

    octavia.lose_one();
    let all = json!({"members": [member(21)]});
    is_unknown(client.octavia(&mutation(&Method::PUT, &format!("pools/{pool}/members"), &all)).await);
    cloud.settled(&object).await.unwrap();
    let members = cloud.octavia().get(&format!("/pools/{pool}/members")).await.unwrap();
    assert_eq!(text(&members["members"][0]["address"]), "10.60.0.21");

    octavia.lose_one();
    is_unknown(
        client.octavia(&mutation(&Method::DELETE, &format!("{}?cascade=true", &object[1..]), &Value::Null)).await,
    );
    gone(cloud, &object).await;
    let calls = cloud.calls_since(Service::Octavia, mark).unwrap();
    assert_eq!(calls.iter().filter(|call| call.method != "GET").count(), 3, "{calls:?}");

    neutron.lose_one();
    let network = json!({"network": {"name": "n", "description": "k8s-svc-uid:lost"}});
    is_unknown(client.neutron(&mutation(&Method::POST, "networks", &network)).await);
    let found = cloud.neutron(Service::Neutron).unwrap().get("/networks?description=k8s-svc-uid:lost").await.unwrap();
    assert_eq!(found["networks"].as_array().unwrap().len(), 1, "{found}");
    assert!(octavia.is_done() && neutron.is_done());
}

async fn quotas(cloud: &OpenStack, client: &Client, balancer: &str, subnet: &str) {
    let project = cloud.project("alpha").await.unwrap();
    let quota = json!({"quota": {"load_balancer": 1, "listener": 1}});
    cloud.octavia().put(&format!("/quotas/{project}"), &quota).await.unwrap();
    let met = |resource: &str| Some(Complaint::Quota { resource: resource.to_owned() });
    let body = json!({"loadbalancer": {"vip_subnet_id": subnet}});
    let complaint = client.refused("quota-of-load-balancers", Method::POST, "loadbalancers", &body).await;
    assert_eq!(complaint, met("Load Balancer"));
    let body = json!({"listener": {"loadbalancer_id": balancer, "protocol": "TCP", "protocol_port": 83}});
    assert_eq!(client.refused("quota-of-listeners", Method::POST, "listeners", &body).await, met("Listener"));

    let neutron = cloud.neutron(Service::Neutron).unwrap();
    let used = neutron.get(&format!("/networks?project_id={project}")).await.unwrap();
    let quota = json!({"quota": {"network": used["networks"].as_array().unwrap().len()}});
    neutron.put(&format!("/quotas/{project}"), &quota).await.unwrap();
    let body = json!({"network": {"name": "one too many"}});
    let complaint = client.refused_by_neutron("quota-of-networks", Method::POST, "networks", &body).await;
    assert_eq!(complaint, met("['network']"));
}

async fn a_whole_tree_goes(cloud: &OpenStack, client: &Client, balancer: &str) {
    let delete = mutation(&Method::DELETE, &format!("loadbalancers/{balancer}?cascade=true"), &Value::Null);
    accepted(client.octavia(&delete).await);
    gone(cloud, &format!("/loadbalancers/{balancer}")).await;
    let result = client.octavia(&delete).await;
    assert!(matches!(result.error(), Some(Error::NotFound { .. })), "{result:?}");
}

async fn gone(cloud: &OpenStack, object: &str) {
    eventually(&format!("{object} is gone"), LONG, async || match cloud.octavia().get(object).await {
        Err(refused) if refused.code == 404 => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
}
