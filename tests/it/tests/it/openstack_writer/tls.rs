//! Certificates in a real Barbican, read there by a real Octavia, and served by the haproxy that it configures.

use std::sync::Mutex;
use std::time::Duration;

use gimbal_kuryr_model::{CertificateHash, DesiredLoadBalancer, LoadBalancerReport, Phase};
use gimbal_testkit::openstack::{Service, Steer};
use gimbal_testkit::{San, eventually};

use super::admin::lb;
use super::controller::{Controller, MADE};
use super::routes::routed;
use super::stage::{PROD1, Stage};

const OWNER: &str = "cccccccc-0000-4000-8000-000000000001";
const ROUTER: &str = "router";
/// Hosts, and the member that answers for each.
const HOSTS: [(&str, &str, &str); 2] = [("a.test", "10.0.0.1", "one"), ("b.test", "10.0.0.2", "two")];

/// A certificate: its key as it must be found nowhere, and by what clients know it.
pub struct Issued {
    pub hash: CertificateHash,
    /// As PEM, for another controller that has it, too.
    pub chain: Vec<u8>,
    pub key: Vec<u8>,
    fingerprint: String,
    marker: String,
}

/// Keys that were ever sent.
static MARKERS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Lets the cluster have a new certificate for a host.
pub fn issued(stage: &Stage, controller: &Controller, host: &str, turn: u32) -> Issued {
    let pair = stage.programs.pki.issue(&format!("{host}-{turn}"), &[San::Dns(host)]).unwrap();
    let chain = [std::fs::read(&pair.cert).unwrap(), std::fs::read(stage.programs.pki.ca()).unwrap()].concat();
    let key = std::fs::read(&pair.key).unwrap();
    let marker = String::from_utf8(key.clone()).unwrap().lines().nth(1).unwrap()[40..].to_owned();
    MARKERS.lock().unwrap().push(marker.clone());
    Issued {
        hash: controller.has_certificate(&chain, &key),
        chain,
        key,
        fingerprint: gimbal_testkit::fingerprint(&pair.cert).unwrap(),
        marker,
    }
}

fn router(stage: &Stage, generation: i64, certificates: &[(&str, CertificateHash)]) -> DesiredLoadBalancer {
    let routes = HOSTS.map(|(host, _, service)| (host, "", service));
    routed(stage, (OWNER, generation), &routes, certificates)
}

/// Returns the address of the router, when it is ready.
async fn ready(controller: &Controller, generation: i64) -> String {
    controller.expect_ready(ROUTER, generation).await;
    controller.report(ROUTER).unwrap().objects.load_balancer.unwrap().address.to_string()
}

/// Waits until a host is served with a certificate.
pub async fn expect_certificate(stage: &Stage, address: &str, host: &str, member: &str, fingerprint: &str) {
    let plane = stage.cloud.data_plane().unwrap();
    let what = format!("{host} is served by {member}");
    let wait = eventually(&what, MADE, async || {
        let reply = plane.request_tls(address, 443, host, "/").await.map_err(|error| error.to_string())?;
        let is_it = reply.status == 200 && reply.body == member && reply.certificate.as_deref() == Some(fingerprint);
        if is_it { Ok(()) } else { Err(format!("{reply:?}")) }
    });
    wait.await.unwrap_or_else(|error| panic!("{error:#}\n{}", stage.writer().process.log_tail()));
}

/// No key is in what the writer logs, reports, shows or explains, and none would be in a dump of its memory.
async fn assert_nothing_shown(stage: &Stage, controller: &Controller) {
    let process = &stage.writer().process;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", process.id())).unwrap();
    let is_none = |line: &str| line.split_whitespace().eq("Max core file size 0 0 bytes".split(' '));
    assert!(limits.lines().any(is_none), "{limits}");
    let log = process.log();
    assert!(log.contains("TRACE"), "it logs all that it can");
    let (_, metrics) = gimbal_tests::get(stage.writer().admin_port, "/metrics").await.unwrap();
    let why = lb(stage, &format!("why shop/KuryrL7Router:{ROUTER} --cluster {}", PROD1.0));
    assert!(why.code == Some(0) || why.error.contains("there is no router"), "{why:?}");
    let told = format!("{log}{:?}{metrics}{why:?}", controller.report(ROUTER));
    for marker in MARKERS.lock().unwrap().iter() {
        // As text, and as the bytes of a body that is not.
        let bytes = format!("{:?}", marker.as_bytes());
        for form in [marker.as_str(), bytes.trim_matches(['[', ']'])] {
            assert!(!told.contains(form), "a key is shown");
        }
    }
}

pub async fn two_certificates_are_served_by_name(stage: &Stage) {
    let controller = stage.controller(PROD1);
    assert!(controller.expect_facts().await.certificates);
    let plane = stage.cloud.data_plane().unwrap();
    for (_, address, name) in HOSTS {
        plane.member(address, 8080, name).await.unwrap();
    }
    let (a, b) = (issued(stage, &controller, "a.test", 1), issued(stage, &controller, "b.test", 1));
    assert!(a.marker.len() > 15 && a.marker != b.marker);
    controller.want(ROUTER, router(stage, 1, &[("a", a.hash), ("b", b.hash)]));
    let address = ready(&controller, 1).await;
    expect_certificate(stage, &address, "a.test", "one", &a.fingerprint).await;
    expect_certificate(stage, &address, "b.test", "two", &b.fingerprint).await;
    // Who names no host that a certificate has gets the first.
    let other = plane.request_tls(&address, 443, "c.test", "/").await.unwrap();
    assert_eq!((other.status, other.certificate), (503, Some(a.fingerprint)));
    let names = [("a", a.hash), ("b", b.hash)]
        .map(|(secret, hash)| format!("gimbal/{}/{}/{OWNER}/{hash}/shop/{secret}", PROD1.0, PROD1.1));
    let mut names = names.to_vec();
    names.sort();
    assert_eq!((stage.secrets().await, controller.asked()), (names, 2));
    assert_eq!(controller.report(ROUTER).unwrap().objects.certificates.len(), 2);
    assert_nothing_shown(stage, &controller).await;
}

pub async fn a_certificate_is_turned_without_a_failed_request(stage: &Stage) {
    let controller = stage.controller(PROD1);
    let (a, b) = (issued(stage, &controller, "a.test", 2), issued(stage, &controller, "b.test", 2));
    controller.want(ROUTER, router(stage, 2, &[("a", a.hash), ("b", b.hash)]));
    let address = ready(&controller, 2).await;
    let plane = stage.cloud.data_plane().unwrap();
    let every = Duration::from_millis(50);
    plane.tls_client("turned", (&address, 443), "a.test", every).await.unwrap();
    let new = issued(stage, &controller, "a.test", 3);
    controller.want(ROUTER, router(stage, 3, &[("a", new.hash), ("b", b.hash)]));
    ready(&controller, 3).await;
    expect_certificate(stage, &address, "a.test", "one", &new.fingerprint).await;
    expect_certificate(stage, &address, "b.test", "two", &b.fingerprint).await;
    let traffic = plane.stop_client("turned").await.unwrap();
    assert!(traffic.failed.is_empty() && traffic.answered > 10, "{traffic:?}");
    let secrets = stage.secrets().await;
    assert_eq!(secrets.len(), 2, "{secrets:?}");
    assert!(!secrets.iter().any(|name| name.contains(&a.hash.to_string())), "the old one is gone: {secrets:?}");
    assert_nothing_shown(stage, &controller).await;
}

pub async fn killed_while_one_is_turned(stage: &mut Stage) {
    let controller = stage.controller(PROD1);
    let (a, b) = (issued(stage, &controller, "a.test", 4), issued(stage, &controller, "b.test", 4));
    controller.want(ROUTER, router(stage, 4, &[("a", a.hash), ("b", b.hash)]));
    let wait = eventually("a new one is stored beside the old ones", MADE, async || {
        let secrets = stage.secrets().await;
        let is_new =
            secrets.iter().any(|name| name.contains(&a.hash.to_string()) || name.contains(&b.hash.to_string()));
        if is_new { Ok(()) } else { Err(format!("{secrets:?}")) }
    });
    wait.await.unwrap();
    stage.kill_writer();
    stage.start_writer().await;
    let address = ready(&controller, 4).await;
    expect_certificate(stage, &address, "a.test", "one", &a.fingerprint).await;
    expect_certificate(stage, &address, "b.test", "two", &b.fingerprint).await;
    let secrets = stage.secrets().await;
    assert_eq!(secrets.len(), 2, "{secrets:?}");
    assert_nothing_shown(stage, &controller).await;
}

pub async fn nothing_is_left_of_a_router(stage: &Stage) {
    let controller = stage.controller(PROD1);
    controller.remove(ROUTER, OWNER).await;
    assert_eq!((stage.balancers("").await.len(), stage.secrets().await), (0, Vec::new()));
}

/// HTTP is served, the condition says why TLS is not, and with the right it is.
pub async fn a_key_manager_that_refuses(stage: &mut Stage) {
    let body = r#"{"code": 403, "title": "Forbidden", "description": "Secrets retrieval attempt not allowed"}"#;
    let refuse = Steer::calls("GET", "/v1/secrets$").answer(403, &[], body);
    stage.cloud.steer(Service::Barbican, &refuse).await.unwrap();
    let controller = stage.controller(PROD1);
    let a = issued(stage, &controller, "a.test", 5);
    controller.want(ROUTER, router(stage, 5, &[("a", a.hash)]));
    let is_told = |report: &LoadBalancerReport| {
        report.phase == Phase::Blocked && report.conditions.iter().any(|one| &*one.reason == "Certificate")
    };
    let report = controller.expect(ROUTER, "without its certificate", is_told).await;
    let address = report.objects.load_balancer.unwrap().address.to_string();
    let plane = stage.cloud.data_plane().unwrap();
    let wait = eventually("HTTP is served", MADE, async || {
        let reply = plane.request(&address, 80, Some("a.test"), "/").await.map_err(|error| error.to_string())?;
        if reply.body == "one" { Ok(()) } else { Err(format!("{reply:?}")) }
    });
    wait.await.unwrap();
    assert_eq!(stage.secrets().await, Vec::<String>::new());
    stage.cloud.stop_all_steering(Service::Barbican).await.unwrap();
    // A writer that starts asks at once.
    stage.kill_writer();
    stage.start_writer().await;
    let address = ready(&controller, 5).await;
    expect_certificate(stage, &address, "a.test", "one", &a.fingerprint).await;
    controller.remove(ROUTER, OWNER).await;
    assert_eq!(stage.secrets().await, Vec::<String>::new());
    assert_nothing_shown(stage, &controller).await;
}
