//! A certificate goes from its Secret to openstack-writer, when that asks for it, and nowhere else.

use gimbal_kuryr_model::{
    CertificateContent, CertificateHash, CloudFacts, DesiredEntry, LoadBalancerHeader, RouteTarget,
};
use gimbal_kuryr_wire::Kuryr;
use gimbal_session::{AgentMessage, Content as _};
use gimbal_testkit::pki::{Pki, San};
use gimbal_testkit::scripted_openstack::facts;
use gimbal_testkit::{Rights, eventually};
use gimbal_tests::SOON;
use gimbal_wire::WirePayload as _;
use prost::Message as _;
use serde_json::{Value, json};

use super::stage::{Controller, SERVICES, Stage, USERS, condition};

const SECRETS: &str = "/api/v1/namespaces/team/secrets";
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/team/ingresses";
const ROUTERS: &str = "/apis/openstack.org/v1/namespaces/kube-system/kuryrl7routers";
const ROUTER: (&str, &str) = ("kube-system", "kuryr-l7-router");

struct Shop {
    stage: Stage,
    pki: Pki,
    _dir: tempfile::TempDir,
    controller: Controller,
    /// Parts of all keys, as they are in PEM and as Secrets have them.
    markers: Vec<Vec<u8>>,
}

impl Shop {
    /// A cluster with an Ingress whose Secret is not there yet.
    async fn open() -> Self {
        let stage = Stage::start().await;
        let names = ["gimbal-kuryr-controller", "gimbal-kuryr-controller-ingress"];
        let rights = Rights::deployed(&names).unwrap().in_namespace("kube-system");
        stage.cluster.bind(&stage.cluster.user(USERS[0]).unwrap(), &rights).await.unwrap();
        stage.openstack.set_facts(CloudFacts { enable_ingress: true, certificates: true, ..facts() });
        let class = json!({"metadata": {"name": "kuryr"}, "spec": {"controller": "kuryr.openstack.org/ingress"}});
        stage.post("/apis/networking.k8s.io/v1/ingressclasses", &class).await;
        stage.make_service("web", "ClusterIP").await;
        stage.make_slice("web", &["10.1.0.4"]).await;
        let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
        let rule = json!({"host": "shop.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}});
        let ingress = json!({
            "metadata": {"name": "shop", "annotations": {"kuryr.openstack.org/redirect-http": "true"}},
            "spec": {"ingressClassName": "kuryr", "rules": [rule],
                "tls": [{"hosts": ["shop.example.com"], "secretName": "shop-tls"}]},
        });
        stage.post(INGRESSES, &ingress).await;
        let writer = format!("--writer={}", stage.openstack.url);
        let mut controller = stage.controller_with(USERS[0], &[&writer, "--ingress"], &[("GIMBAL_LOG", "trace")]);
        controller.ready().await;
        let dir = tempfile::tempdir().unwrap();
        let pki = Pki::create(dir.path()).unwrap();
        Self { stage, pki, _dir: dir, controller, markers: Vec::new() }
    }

    fn content(&self, name: &str) -> CertificateContent {
        let pair = self.pki.issue(name, &[San::Dns("shop.example.com")]).unwrap();
        CertificateContent::new(&std::fs::read(pair.cert).unwrap(), &std::fs::read(pair.key).unwrap())
    }

    /// Creates the Secret, or replaces what it has, as `kubectl apply` does: with a copy in an annotation.
    async fn set_secret(&mut self, chain: &CertificateContent, key: &CertificateContent) {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let content = json!({"tls.crt": text(chain.chain()), "tls.key": text(key.key())});
        let applied = json!({"kubectl.kubernetes.io/last-applied-configuration": content.to_string()});
        let secret = json!({
            "metadata": {"name": "shop-tls", "annotations": applied}, "type": "kubernetes.io/tls", "stringData": content,
        });
        let api = self.stage.cluster.admin();
        let secret = match self.stage.get(SECRETS, "shop-tls").await {
            None => self.stage.post(SECRETS, &secret).await,
            Some(_) => api.patch(&format!("{SECRETS}/shop-tls"), &secret).await.unwrap(),
        };
        // The beginning is that of every key, and a log has line breaks in another form.
        let line = key.key().split(|byte| *byte == b'\n').nth(2).unwrap();
        self.markers.push(line[..40].to_vec());
        self.markers.push(secret["data"]["tls.key"].as_str().unwrap().as_bytes()[100..140].to_vec());
    }

    fn header(&self) -> Option<std::sync::Arc<LoadBalancerHeader>> {
        let entry = self.stage.openstack.router(ROUTER.0, ROUTER.1)?;
        let DesiredEntry::LoadBalancer(wanted) = &*entry else { return None };
        Some(wanted.header.clone())
    }

    fn hashes(&self) -> Vec<CertificateHash> {
        let header = self.header();
        let routing = header.as_ref().and_then(|header| header.routing.as_deref());
        routing.into_iter().flat_map(|routing| &routing.certificates).map(|wish| wish.hash).collect()
    }

    async fn until_served(&self, content: &CertificateContent) {
        eventually("the writer has the certificate", SOON, async || {
            let contents = self.stage.openstack.contents();
            let is_there = contents.get(&content.hash()) == Some(&Some(content.clone()));
            if is_there && self.hashes() == [content.hash()] {
                Ok(())
            } else {
                Err(format!("streamed {:?}, asked for {contents:?}", self.hashes()))
            }
        })
        .await
        .unwrap();
        let hash = content.hash().to_string();
        let shows = |router: Option<&Value>| {
            router.is_some_and(|router| router["status"]["secrets"][0]["contentHash"] == *hash)
        };
        self.stage.until("the status shows it", (ROUTERS, ROUTER.1), shows).await;
    }

    /// Waits until the router's condition of this type has this reason.
    async fn until_said(&self, type_: &str, reason: &str) {
        let says = |router: Option<&Value>| router.is_some_and(|router| condition(router, type_)["reason"] == *reason);
        self.stage.until(&format!("it says {reason}"), (ROUTERS, ROUTER.1), says).await;
    }

    fn shows_a_key(&self, bytes: &[u8]) -> bool {
        self.markers.iter().any(|marker| bytes.windows(marker.len()).any(|part| part == marker))
    }
}

fn encoded(message: AgentMessage<Kuryr>) -> Vec<u8> {
    Kuryr::encode_agent(message).encode_to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_goes_to_the_writer_that_asks_and_nowhere_else() {
    let mut shop = Shop::open().await;
    shop.until_said("Unsupported", "NoSecret").await;
    let ports = || shop.header().map(|header| header.listeners.iter().map(|one| one.id.port).collect::<Vec<_>>());
    eventually("it is streamed without", SOON, async || {
        if ports() == Some(vec![80]) { Ok(()) } else { Err(format!("{:?}", ports())) }
    })
    .await
    .unwrap();
    let first = shop.content("first");
    shop.set_secret(&first, &first).await;
    shop.until_served(&first).await;
    let header = shop.header().unwrap();
    let routing = header.routing.as_ref().unwrap();
    assert_eq!((&*routing.certificates[0].secret, header.listeners.len()), ("team/shop-tls", 2));
    let routes: Vec<_> = routing.routes.iter().map(|route| (route.listener.port, route.to.clone())).collect();
    let redirect = RouteTarget::Redirect("https://shop.example.com".into());
    assert_eq!(routes, [(80, redirect), (443, RouteTarget::Pool("team/web/80".into()))]);

    // A new one takes its place; what is no pair does not, and neither does its absence.
    let second = shop.content("second");
    shop.set_secret(&second, &second).await;
    shop.until_served(&second).await;
    shop.set_secret(&first, &second).await;
    shop.until_said("Held", "CertificateKept").await;
    assert_eq!(shop.hashes(), [second.hash()]);
    shop.stage.delete(SECRETS, "shop-tls").await;
    shop.stage.delete(SERVICES, "web").await;
    shop.until_said("Unsupported", "NoService").await;
    assert_eq!(shop.hashes(), [second.hash()]);
    // What no Secret has any more cannot be had, and neither can what is no router's.
    for hash in [second.hash(), first.hash()] {
        shop.stage.openstack.want_content(hash);
        eventually("there is an answer", SOON, async || match shop.stage.openstack.contents().get(&hash) {
            Some(None) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await
        .unwrap();
    }

    let admin = format!("http://127.0.0.1:{}", shop.controller.admin_port);
    let metrics = shop.controller.process.answers(&format!("{admin}/metrics"), SOON).await.unwrap();
    let of_process = |file: &str| std::fs::read(format!("/proc/{}/{file}", shop.controller.process.id()));
    let limits = String::from_utf8(of_process("limits").unwrap()).unwrap();
    assert!(
        limits.lines().any(|line| line.split_whitespace().eq("Max core file size 0 0 bytes".split(' '))),
        "{limits}"
    );
    let events = shop.stage.events("shop").await;
    let reasons: Vec<&str> = events.iter().map(|event| &*event[0]).collect();
    assert!(reasons.contains(&"KuryrCertificateNotAsAsked"), "{events:?}");
    for (what, bytes) in [
        ("the log", shop.controller.process.log().into_bytes()),
        ("the metrics", metrics.into_bytes()),
        // What the kernel shows to no one shows no key.
        ("the environment", of_process("environ").unwrap_or_else(|_| b"hidden".to_vec())),
        ("the arguments", of_process("cmdline").unwrap()),
        ("the router", shop.stage.get(ROUTERS, ROUTER.1).await.unwrap().to_string().into_bytes()),
        ("the Ingress", shop.stage.get(INGRESSES, "shop").await.unwrap().to_string().into_bytes()),
        ("the Events", format!("{events:?}").into_bytes()),
    ] {
        assert!(!bytes.is_empty() && !shop.shows_a_key(&bytes), "a key is in {what}");
    }
    let mut contents = Vec::new();
    for message in shop.stage.openstack.messages() {
        match message {
            message @ AgentMessage::Content { .. } => contents.push(encoded(message)),
            message => {
                let said = format!("{message:?}");
                assert!(!shop.shows_a_key(&encoded(message)), "a key is in {said}");
            }
        }
    }
    assert_eq!(contents.iter().filter(|content| shop.shows_a_key(content)).count(), 2, "one answer for each");
    shop.stage.expect_rights_to_suffice().await;
}
