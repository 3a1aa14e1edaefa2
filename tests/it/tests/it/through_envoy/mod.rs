//! Requests through the real Contour and Envoy to Services that Gimbal publishes. Everything runs where there is no network, so
//! that a wrong address leads nowhere. `cargo xtask prove envoy` runs these tests, since Contour takes long to build.

mod conditions;
mod ports;
mod requests;
mod service_types;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gimbal_testkit::contour::GATEWAY;
use gimbal_testkit::{Answering, Contour, EnvoyAnswer, EnvoyClient, answering, eventually, is_without_network};
use gimbal_tests::Scene;
use serde_json::{Value, json};

/// The namespace of Services and routes, on both sides: the Gateway takes routes of its own namespace only.
const NAMESPACE: &str = GATEWAY.0;
/// The port of Services, and the one that their endpoints listen on ([`gimbal_tests::slice`]).
const PORT: u16 = 90;
const TARGET_PORT: u16 = PORT + 8000;
/// How long Contour may take to hear of a change: when its API server was away, it asks again only after a while.
const HEARS: Duration = Duration::from_secs(90);
const PROXIES: &str = "/apis/projectcontour.io/v1/namespaces/gateway-conformance-infra/httpproxies";
const ROUTES: &str = "/apis/gateway.networking.k8s.io/v1/namespaces/gateway-conformance-infra/httproutes";

/// Held while a test runs: beside another one's four servers and two proxies, requests are answered late.
static TURN: Mutex<()> = Mutex::new(());

/// Returns whether this is where there is no network; the test runs there, one at a time.
fn is_alone(test: &str) -> bool {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let prepare = || {
        for name in ["gimbal-writer", "gimbal-kubernetes-discoverer"] {
            gimbal_testkit::process::binary(name)?;
        }
        Contour::prepare()
    };
    is_without_network(&format!("through_envoy::{test}"), prepare).unwrap()
}

/// Both clusters, and what leads requests to the Services in the Gimbal cluster.
struct Stage {
    scene: Scene,
    contour: Contour,
    client: EnvoyClient,
}

impl Stage {
    async fn start() -> Self {
        answering::make_room().unwrap();
        let scene = Scene::start().await.unwrap();
        scene.source.namespace(NAMESPACE).await.unwrap();
        let contour = Contour::start(&scene.gimbal).await.unwrap();
        Self { scene, contour, client: EnvoyClient::new().unwrap() }
    }

    /// Writes a configuration of the writer in which backend `mapped` has a policy of its own.
    fn config(&self, policy_of_mapped: &str) -> PathBuf {
        let path = self.scene.config(&["node02", "mapped"], "").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{text}  {policy_of_mapped}\n")).unwrap();
        path
    }

    /// Leads a host to a Service, by an object of Contour's own.
    async fn proxy(&self, host: &str, service: &str, port: u16) {
        let proxy = json!({
            "apiVersion": "projectcontour.io/v1", "kind": "HTTPProxy", "metadata": {"name": host},
            "spec": {"virtualhost": {"fqdn": host}, "routes": [{"services": [{"name": service, "port": port}]}]},
        });
        self.scene.gimbal.admin().post(PROXIES, &proxy).await.unwrap();
    }

    /// Leads a host to a Service, by an object of Gateway API.
    async fn route(&self, host: &str, service: &str, port: u16) {
        let route = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": host},
            "spec": {
                "parentRefs": [{"name": GATEWAY.1}], "hostnames": [host],
                "rules": [{"backendRefs": [{"name": service, "port": port}]}],
            },
        });
        self.scene.gimbal.admin().post(ROUTES, &route).await.unwrap();
    }

    /// Waits until a request for a host is answered so.
    async fn expect(&self, host: &str, path: &str, status: u16, body: &str) {
        let wanted = format!("{host}{path} is answered with {status} {body}");
        let result = eventually(&wanted, HEARS, async || {
            let answer = self.client.get(host, path).await?;
            let EnvoyAnswer { status: got, body: text } = &answer;
            anyhow::ensure!(*got == status && text.contains(body), "{got} {text}");
            Ok::<_, anyhow::Error>(())
        });
        result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", self.contour.logs()));
    }

    /// Waits until Envoy sends requests for a Service to these addresses.
    async fn expect_endpoints(&self, service: &str, wanted: &[&str]) {
        let what = format!("Envoy sends requests for {service} to {wanted:?}");
        let result = eventually(&what, HEARS, async || {
            let there = self.contour.endpoints(NAMESPACE, service).await?;
            anyhow::ensure!(there == wanted, "to {there:?}");
            Ok::<_, anyhow::Error>(())
        });
        result.await.unwrap_or_else(|error| panic!("{error:#}\n{}", self.contour.logs()));
    }

    /// Sends requests for a host, and returns what they are answered with.
    async fn answers(&self, host: &str, requests: u32) -> BTreeSet<String> {
        let mut bodies = BTreeSet::new();
        for _ in 0..requests {
            let answer = self.client.get(host, "/").await.unwrap();
            assert_eq!(answer.status, 200, "{host}: {}", answer.body);
            bodies.insert(answer.body);
        }
        bodies
    }

    /// Waits until Contour says this of an object, in its status.
    async fn expect_status(&self, path: &str, name: &str, text: &str) -> Value {
        let what = format!("the status of {name} says {text}");
        let status = eventually(&what, HEARS, async || {
            let object = self.scene.gimbal.admin().get(&format!("{path}/{name}")).await?;
            let status = object["status"].clone();
            anyhow::ensure!(status.to_string().contains(text), "{status}");
            Ok::<_, anyhow::Error>(status)
        });
        status.await.unwrap_or_else(|error| panic!("{error:#}\n{}", self.contour.logs()))
    }
}

/// Starts servers at these addresses, which end with the returned value.
async fn servers(addresses: &[&str], port: u16) -> Vec<Answering> {
    let mut started = Vec::new();
    for address in addresses {
        started.push(Answering::start(address.parse().unwrap(), port).await.unwrap());
    }
    started
}
