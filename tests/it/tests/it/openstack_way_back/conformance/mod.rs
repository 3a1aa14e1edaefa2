//! What Kubernetes expects of everything that serves Ingresses, as data: a table for each feature of which
//! ingress-controller-conformance has scenarios. haproxy answers, as Octavia's own templates configure it.
//!
//! Everything is there before the programs start, so that each router is made in one change.

mod default_backend;
mod host_rules;
mod ingress_class;
mod load_balancing;
mod path_rules;
mod routers;
mod tls;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gimbal_testkit::eventually;
use gimbal_testkit::openstack::{ClientRequest, Options, Reply};
use gimbal_tests::{INGRESSES, WayBack};
use serde_json::{Value, json};

const WITHIN: Duration = Duration::from_secs(240);
const CONTROLLER: [&str; 2] = ["--cluster-ip-services=false", "--ingress"];
/// The answer where no rule takes a request. The scenarios have 404, which Octavia cannot answer with
/// (docs/decisions/022-l7-as-haproxy-has-it.md#no-rule).
const NO_RULE: &str = "503";
const FEATURES: [&[Spec]; 6] = [
    host_rules::INGRESSES,
    path_rules::INGRESSES,
    default_backend::INGRESSES,
    tls::INGRESSES,
    ingress_class::INGRESSES,
    load_balancing::INGRESSES,
];

/// An Ingress.
struct Spec {
    name: &'static str,
    class: Option<&'static str>,
    annotations: &'static [(&'static str, &'static str)],
    rules: &'static [Rule],
    default_backend: Option<&'static str>,
    /// Names in its certificate, which is in the Secret that has the name of the Ingress; without any it has no `tls`.
    certificate: &'static [&'static str],
}

/// Host (empty: any), path, type of the path, and Service; `SERVICE:PORT` names its port, else it is number 80.
type Rule = (&'static str, &'static str, &'static str, &'static str);
/// A request over HTTP: host, path, and the Service that answers, or a status.
type Row = (&'static str, &'static str, &'static str);

#[tokio::test(flavor = "multi_thread")]
async fn ingresses_do_what_kubernetes_expects() {
    let options = Options { data_plane: true, key_manager: true, ..Options::with_checked_tokens() };
    let mut stage = WayBack::build_for_ingresses_on(options).await.unwrap();
    stage.reserve_router_address(routers::OUTSIDE, routers::SHARED).await.unwrap();
    stage.make_ingress_class().await.unwrap();
    stage.make_class_of(ingress_class::OTHER, "example.com/other").await.unwrap();
    let certificates = make_everything(&stage).await;
    stage.start_writer(&[]).await.unwrap();
    stage.start_controller(&CONTROLLER).await.unwrap();
    steps![
        routers::each_ingress_has_the_address_of_its_router(&stage),
        routers::each_is_made_in_one_request(&stage),
        host_rules::hosts(&stage),
        path_rules::paths(&stage),
        default_backend::any_request_is_answered(&stage),
        tls::certificates_by_name(&stage, &certificates),
        ingress_class::only_ours_are_served(&stage),
        load_balancing::all_members_answer(&stage),
        routers::go_with_their_last_ingress(&stage),
    ];
}

/// Makes all Services, certificates and Ingresses. Returns the fingerprints of the certificates.
async fn make_everything(stage: &WayBack) -> BTreeMap<&'static str, String> {
    let specs = || FEATURES.into_iter().flatten();
    let named = |spec: &'static Spec| spec.rules.iter().map(|rule| rule.3).chain(spec.default_backend);
    let services: BTreeSet<&str> = specs().flat_map(named).map(|service| service.split(':').next().unwrap()).collect();
    let mut free = (1..=254).map(|last| format!("10.1.0.{last}"));
    for service in services {
        let names = load_balancing::members(service);
        let members: Vec<(String, String)> = names.into_iter().zip(&mut free).collect();
        let members: Vec<(&str, &str)> = members.iter().map(|(name, address)| (&**name, &**address)).collect();
        stage.make_backend(service, &members).await.unwrap();
    }
    let mut certificates = BTreeMap::new();
    for spec in specs() {
        if !spec.certificate.is_empty() {
            let certificate = stage.make_certificate(spec.name, spec.certificate).await.unwrap();
            certificates.insert(spec.name, certificate);
        }
        stage.cluster.admin().post(INGRESSES, &manifest(spec)).await.unwrap();
    }
    certificates
}

fn manifest(spec: &Spec) -> Value {
    let backend = |service: &str| match service.split_once(':') {
        Some((name, port)) => json!({"service": {"name": name, "port": {"name": port}}}),
        None => json!({"service": {"name": service, "port": {"number": 80}}}),
    };
    let rule = |(host, path, kind, service): &Rule| {
        let path = json!({"path": path, "pathType": kind, "backend": backend(service)});
        let mut rule = json!({"http": {"paths": [path]}});
        if !host.is_empty() {
            rule["host"] = json!(host);
        }
        rule
    };
    let mut manifest = json!({
        "metadata": {"name": spec.name, "annotations": BTreeMap::from_iter(spec.annotations.iter().copied())},
        "spec": {"rules": spec.rules.iter().map(rule).collect::<Vec<_>>()},
    });
    let fields = &mut manifest["spec"];
    if let Some(class) = spec.class {
        fields["ingressClassName"] = json!(class);
    }
    if let Some(service) = spec.default_backend {
        fields["defaultBackend"] = backend(service);
    }
    if !spec.certificate.is_empty() {
        fields["tls"] = json!([{"hosts": spec.certificate, "secretName": spec.name}]);
    }
    manifest
}

/// Returns the address in the status of an Ingress.
async fn address(stage: &WayBack, name: &str) -> anyhow::Result<String> {
    let ingress = stage.cluster.admin().get(&format!("{INGRESSES}/{name}")).await?;
    let address = ingress["status"]["loadBalancer"]["ingress"][0]["ip"].as_str();
    address.map(str::to_owned).ok_or_else(|| anyhow::anyhow!("{ingress}"))
}

/// Waits until the requests of a table are answered as it says, all in one go.
async fn expect(stage: &WayBack, router: &str, rows: &[Row]) {
    until(stage, "each request is answered as the table says", async || {
        let mut wrong = Vec::new();
        for &(host, path, expected) in rows {
            let request = ClientRequest { method: "GET", host: Some(host), path, tls: None, authority: None };
            match answer(stage, router, 80, &request).await? {
                answer if answer == expected => {}
                answer => wrong.push(format!("{host}{path} is answered by {answer} and not by {expected}")),
            }
        }
        anyhow::ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(())
    })
    .await;
}

/// Returns the member that answers a request, which arrived there as it was sent; else the status, and where it leads to.
async fn answer(stage: &WayBack, router: &str, port: u16, request: &ClientRequest<'_>) -> anyhow::Result<String> {
    let Reply { status, body, location, arrived, .. } = stage.plane()?.send(router, port, request).await?;
    if status != 200 {
        return Ok(location.map_or_else(|| status.to_string(), |to| format!("{status} {to}")));
    }
    let sent = format!("{} {}", request.method, request.host.unwrap_or_default());
    anyhow::ensure!(arrived.as_deref() == Some(sent.trim_end()), "{sent:?} arrived as {arrived:?}");
    let path = if request.path == "/" { "" } else { request.path };
    let member = if request.method == "HEAD" { Some(&*body) } else { body.strip_suffix(path) };
    member.map(str::to_owned).ok_or_else(|| anyhow::anyhow!("{path} arrived as {body:?}"))
}

async fn until<T>(stage: &WayBack, what: &str, holds: impl AsyncFn() -> anyhow::Result<T>) -> T {
    let result = eventually(what, WITHIN, async || holds().await).await;
    result.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.logs()))
}

impl Spec {
    /// One of ours, at the shared router.
    const OURS: Self =
        Self { name: "", class: Some("kuryr"), annotations: &[], rules: &[], default_backend: None, certificate: &[] };
}
