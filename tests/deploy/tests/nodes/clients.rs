//! Clients of a mirrored Service: they read its EndpointSlices in the Gimbal cluster, as Envoy does through Contour, and send
//! requests to what is ready.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gimbal_deploy_tests::{list, text};
use gimbal_testkit::cluster::Api;
use serde_json::Value;
use tokio::task::JoinHandle;

/// How often endpoints are read.
const READ: Duration = Duration::from_millis(100);
/// How often a request is sent.
const SEND: Duration = Duration::from_millis(20);
/// What an answer may take.
const ANSWER: Duration = Duration::from_secs(2);

/// What came of the requests.
#[derive(Debug, Default, Clone)]
pub struct Traffic {
    pub answered: u64,
    pub failed: Vec<String>,
}

/// Clients that send until they are dropped.
pub struct Clients {
    traffic: Arc<Mutex<Traffic>>,
    tasks: [JoinHandle<()>; 2],
}

impl Clients {
    /// Starts them for the Services of a namespace.
    pub fn start(api: Api, namespace: &str) -> Self {
        let endpoints = Arc::new(Mutex::new(Vec::new()));
        let traffic = Arc::new(Mutex::new(Traffic::default()));
        let (read, path) = (endpoints.clone(), slices(namespace));
        let reader = tokio::spawn(async move {
            loop {
                if let Ok(slices) = api.items(&path).await {
                    *read.lock().unwrap() = ready(&slices);
                }
                tokio::time::sleep(READ).await;
            }
        });
        let counted = traffic.clone();
        let sender = tokio::spawn(async move {
            // A connection for each request, so that each may fail.
            let client =
                reqwest::Client::builder().no_proxy().timeout(ANSWER).pool_max_idle_per_host(0).build().unwrap();
            let mut turns = tokio::time::interval(SEND);
            for turn in 0.. {
                turns.tick().await;
                let chosen: Option<String> = {
                    let endpoints = endpoints.lock().unwrap();
                    (!endpoints.is_empty()).then(|| endpoints[turn % endpoints.len()].clone())
                };
                let Some(endpoint) = chosen else { continue };
                let answer = client.get(format!("http://{endpoint}/v2/")).send().await;
                let answer = answer.and_then(reqwest::Response::error_for_status);
                let mut traffic = counted.lock().unwrap();
                match answer {
                    Ok(_) => traffic.answered += 1,
                    Err(error) => traffic.failed.push(format!("{endpoint}: {error:?}")),
                }
            }
        });
        Self { traffic, tasks: [reader, sender] }
    }

    /// Returns what came of the requests until now.
    pub fn traffic(&self) -> Traffic {
        self.traffic.lock().unwrap().clone()
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Returns where the slices of a namespace are read.
pub fn slices(namespace: &str) -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices")
}

/// Returns the addresses of the endpoints that are ready, with their port.
pub fn ready(slices: &[Value]) -> Vec<String> {
    let mut found: Vec<String> = slices.iter().flat_map(of_slice).collect();
    found.sort();
    found
}

fn of_slice(slice: &Value) -> Vec<String> {
    let Some(port) = slice["ports"][0]["port"].as_u64() else { return Vec::new() };
    let ready = list(&slice["endpoints"]).filter(|endpoint| endpoint["conditions"]["ready"] != false);
    ready.flat_map(|endpoint| list(&endpoint["addresses"])).map(|address| format!("{}:{port}", text(address))).collect()
}
