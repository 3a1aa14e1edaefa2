//! `--endpoints-api`: slices, the older Endpoints, or both; and switches between all of them by a restart.

use std::collections::BTreeSet;

use gimbal_testkit::eventually;
use gimbal_tests::{Ep, Mirror, SOON, Scene, Writer, slice, svc};
use serde_json::Value;

/// As `addresses`, without a mark for terminating endpoints: Endpoints have only ready and not ready.
fn packed(endpoints: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for subset in endpoints["subsets"].as_array().into_iter().flatten() {
        for (field, mark) in [("addresses", ""), ("notReadyAddresses", "!")] {
            for address in subset[field].as_array().into_iter().flatten() {
                for port in subset["ports"].as_array().into_iter().flatten() {
                    found.insert(format!("{mark}{}:{}", address["ip"].as_str().unwrap(), port["port"]));
                }
            }
        }
    }
    found
}

fn texts(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().map(ToString::to_string).collect()
}

struct Offer {
    name: &'static str,
    /// The endpoints in slices.
    slices: BTreeSet<String>,
    /// Number of published slices with them.
    count: usize,
    /// The endpoints in the Endpoints object.
    packed: BTreeSet<String>,
}

/// Offers Services with every form of endpoints.
async fn offer(scene: &Scene) -> Vec<Offer> {
    let http = [("http", 80)];
    let both = [("http", 80), ("metrics", 9090)];
    let put = async |object| scene.put(&object).await.unwrap();

    put(svc("team1", "plain", &both)).await;
    let endpoints = [Ep::Ready("10.1.0.1"), Ep::NotReady("10.1.0.2"), Ep::Terminating("10.1.0.3")];
    put(slice("team1", "plain", "v4", &both, &endpoints)).await;
    let plain = Offer {
        name: "plain",
        slices: texts(&[
            "10.1.0.1:8080",
            "!10.1.0.2:8080",
            "~10.1.0.3:8080",
            "10.1.0.1:17090",
            "!10.1.0.2:17090",
            "~10.1.0.3:17090",
        ]),
        count: 1,
        // Terminating endpoints are left out, as by the endpoints controller.
        packed: texts(&["10.1.0.1:8080", "!10.1.0.2:8080", "10.1.0.1:17090", "!10.1.0.2:17090"]),
    };

    put(svc("team1", "dual", &http)).await;
    put(slice("team1", "dual", "v4", &http, &[Ep::Ready("10.2.0.1"), Ep::Ready("10.2.0.2")])).await;
    put(slice("team1", "dual", "v6", &http, &[Ep::Ready("fd00::2:1"), Ep::NotReady("fd00::2:2")])).await;
    let dual = texts(&["10.2.0.1:8080", "10.2.0.2:8080", "fd00::2:1:8080", "!fd00::2:2:8080"]);
    let dual = Offer { name: "dual", slices: dual.clone(), count: 2, packed: dual };

    // A named target port with different numbers in some pods; a pod with only one of the ports; and one address in two
    // sets, which the API server may repack.
    put(svc("team1", "sets", &both)).await;
    let endpoints = [Ep::Ready("10.3.0.1"), Ep::NotReady("10.3.0.9")];
    put(slice("team1", "sets", "a", &both, &endpoints)).await;
    put(slice("team1", "sets", "b", &[("http", 81), ("metrics", 9090)], &[Ep::Ready("10.3.0.2")])).await;
    put(slice("team1", "sets", "c", &http, &[Ep::Ready("10.3.0.3"), Ep::Ready("10.3.0.2")])).await;
    let sets = texts(&[
        "10.3.0.1:8080",
        "10.3.0.1:17090",
        "!10.3.0.9:8080",
        "!10.3.0.9:17090",
        "10.3.0.2:8081",
        "10.3.0.2:17090",
        "10.3.0.3:8080",
        "10.3.0.2:8080",
    ]);
    let sets = Offer { name: "sets", slices: sets.clone(), count: 3, packed: sets };

    put(svc("team1", "empty", &http)).await;
    let empty = Offer { name: "empty", slices: BTreeSet::new(), count: 0, packed: BTreeSet::new() };
    vec![plain, dual, sets, empty]
}

async fn expect(scene: &Scene, offers: &[Offer], api: &str) {
    for offer in offers {
        let name = format!("node02-{}", offer.name);
        let check = |mirror: &Mirror| {
            let (slices, count) =
                if api == "endpoints" { (BTreeSet::new(), 0) } else { (offer.slices.clone(), offer.count) };
            anyhow::ensure!(mirror.addresses() == slices, "{api}: {:?} in slices", mirror.addresses());
            anyhow::ensure!(mirror.slices.len() == count, "{api}: {} slices", mirror.slices.len());
            match (&mirror.endpoints, api) {
                (None, "endpointslices") => {}
                (Some(endpoints), "endpoints" | "both") => {
                    anyhow::ensure!(packed(endpoints) == offer.packed, "{api}: {:?} packed", packed(endpoints));
                    let labels = &endpoints["metadata"]["labels"];
                    anyhow::ensure!(labels["gimbal.projectcontour.io/managed-by"] == "gimbal-writer", "{labels}");
                    let skipped = labels["endpointslice.kubernetes.io/skip-mirror"] == "true";
                    anyhow::ensure!(skipped == (api == "both"), "{api}: {labels}");
                }
                (endpoints, _) => anyhow::bail!("{api}: Endpoints are {endpoints:?}"),
            }
            Ok(())
        };
        Mirror::expect_that(&scene.gimbal, "team1", &name, check).await.unwrap();
    }
}

const OFTEN: [&str; 3] = ["--comparison-interval", "1s", "--endpoints-api"];

async fn start(scene: &Scene, config: &std::path::Path, port: u16, api: &str) -> Writer {
    scene.writer_at(port, config, &[&OFTEN[..], &[api]].concat()).await.unwrap()
}

fn count(writes: &[String], what: &str) -> usize {
    writes.iter().filter(|write| write.starts_with(what)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_api_holds_every_endpoint_and_a_restart_leads_from_each_to_each() {
    let scene = Scene::start().await.unwrap();
    let offers = offer(&scene).await;
    let slices: usize = offers.iter().map(|offer| offer.count).sum();
    let objects = offers.len();
    let config = scene.config(&["node02"], "").unwrap();
    let mut writer = scene.writer(&config, &[&OFTEN[..], &["endpointslices"]].concat()).await.unwrap();
    let port = writer.port;
    let _agent = scene.discoverer("node02", &scene.source, port, &[]).unwrap();
    expect(&scene, &offers, "endpointslices").await;

    let mut api = "endpointslices";
    for next in ["endpoints", "both", "endpointslices", "both", "endpoints", "endpointslices"] {
        writer.settled(1).await.unwrap();
        let mark = scene.gimbal.audit_mark().await.unwrap();
        writer.process.terminate(SOON).await.unwrap();
        writer = start(&scene, &config, port, next).await;
        expect(&scene, &offers, next).await;
        writer.settled(1).await.unwrap();
        let switch = format!("from {api} to {next}");
        let writes = scene.writes_since(mark).await.unwrap();
        let (has, gets) = (api != "endpoints", next != "endpoints");
        assert_eq!(count(&writes, "create endpointslices"), if gets && !has { slices } else { 0 }, "{switch}");
        assert_eq!(count(&writes, "delete endpointslices"), if has && !gets { slices } else { 0 }, "{switch}");
        let (has, gets) = (api != "endpointslices", next != "endpointslices");
        assert_eq!(count(&writes, "create endpoints "), if gets && !has { objects } else { 0 }, "{switch}");
        assert_eq!(count(&writes, "delete endpoints "), if has && !gets { objects } else { 0 }, "{switch}");
        // The label that keeps the mirroring controller away is added and removed.
        assert_eq!(count(&writes, "update endpoints "), if has && gets { objects } else { 0 }, "{switch}");
        assert_eq!(count(&writes, "update endpointslices") + count(&writes, "update services"), 0, "{switch}");
        api = next;

        // However the API server packed them, there is no difference.
        let published = scene.published().await.unwrap();
        let mark = scene.gimbal.audit_mark().await.unwrap();
        writer.process.terminate(SOON).await.unwrap();
        writer = start(&scene, &config, port, api).await;
        writer.settled(1).await.unwrap();
        assert_eq!(scene.writes_since(mark).await.unwrap(), [""; 0], "{api} again");
        assert_eq!(scene.published().await.unwrap(), published);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_apis_follow_one_change_and_one_deletion_together() {
    let scene = Scene::start().await.unwrap();
    offer(&scene).await;
    let config = scene.config(&["node02"], "").unwrap();
    let writer = scene.writer(&config, &["--endpoints-api", "both"]).await.unwrap();
    let _agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    let slices = ["10.2.0.1:8080", "10.2.0.2:8080", "fd00::2:1:8080", "!fd00::2:2:8080"];
    Mirror::expect(&scene.gimbal, "team1", "node02-dual", &slices).await.unwrap();
    let there = async |wanted: &[&str]| {
        Mirror::expect_that(&scene.gimbal, "team1", "node02-dual", |mirror| {
            let (slices, endpoints) = (mirror.addresses(), mirror.endpoints.as_ref().map(packed).unwrap_or_default());
            anyhow::ensure!(slices == texts(wanted) && endpoints == slices, "{slices:?} and {endpoints:?}");
            Ok(())
        })
        .await
        .unwrap()
    };
    there(&slices).await;

    let mark = scene.gimbal.audit_mark().await.unwrap();
    let v4 = [Ep::Ready("10.2.0.1"), Ep::NotReady("10.2.0.2"), Ep::Ready("10.2.0.3")];
    scene.put(&slice("team1", "dual", "v4", &[("http", 80)], &v4)).await.unwrap();
    there(&["10.2.0.1:8080", "!10.2.0.2:8080", "10.2.0.3:8080", "fd00::2:1:8080", "!fd00::2:2:8080"]).await;
    let writes = scene.writes_since(mark).await.unwrap();
    assert_eq!((count(&writes, "update endpointslices"), count(&writes, "update endpoints ")), (1, 1), "{writes:?}");
    assert_eq!(writes.len(), 2, "{writes:?}");

    // An edited or deleted Endpoints object of Gimbal is repaired, a foreign one is not touched.
    let path = "/api/v1/namespaces/team1/endpoints/node02-dual";
    let api = scene.gimbal.admin();
    api.patch(path, &serde_json::json!({"subsets": []})).await.unwrap();
    there(&["10.2.0.1:8080", "!10.2.0.2:8080", "10.2.0.3:8080", "fd00::2:1:8080", "!fd00::2:2:8080"]).await;
    api.delete(path).await.unwrap();
    let mirror =
        there(&["10.2.0.1:8080", "!10.2.0.2:8080", "10.2.0.3:8080", "fd00::2:1:8080", "!fd00::2:2:8080"]).await;
    assert_eq!(mirror.slices.len(), 2);
    let unmarked = serde_json::json!({"metadata": {"labels": {"gimbal.projectcontour.io/managed-by": null}}});
    api.patch(path, &unmarked).await.unwrap();
    let given = api.get(path).await.unwrap();
    let mark = scene.gimbal.audit_mark().await.unwrap();
    let message =
        scene.ask(&writer).unwrap().expect_rejected("node02", "team1", "dual", "NAME_CONFLICT").await.unwrap();
    assert!(message.contains("Endpoints team1/node02-dual exists and is not ours"), "{message}");
    scene.put(&slice("team1", "dual", "v4", &[("http", 80)], &v4[..1])).await.unwrap();
    scene.remove("team1", "empty").await.unwrap();
    Mirror::expect_gone(&scene.gimbal, "team1", "node02-empty").await.unwrap();
    assert_eq!(api.get(path).await.unwrap(), given);
    // When a Service is deleted, the API server itself deletes Endpoints of its name, whoever owns them. Gimbal does
    // not.
    scene.remove("team1", "dual").await.unwrap();
    Mirror::expect_gone(&scene.gimbal, "team1", "node02-dual").await.unwrap();
    let mut writes = scene.writes_since(mark).await.unwrap();
    writes.retain(|write| write.contains(" endpoints team1/node02-dual "));
    assert!(writes.iter().all(|write| write.ends_with("create endpoints team1/node02-dual 409")), "{writes:?}");

    scene.remove("team1", "sets").await.unwrap();
    Mirror::expect_gone(&scene.gimbal, "team1", "node02-sets").await.unwrap();
    eventually("its Endpoints are gone", SOON, async || {
        match api.get("/api/v1/namespaces/team1/endpoints/node02-sets").await {
            Err(error) if error.code == 404 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();
}
