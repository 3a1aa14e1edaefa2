//! `gimbalctl why` on real programs: both ends are asked about a Service, and about one address of it.

use gimbal_testkit::eventually;
use gimbal_tests::{Discoverer, Ep, Mirror, Printed, SOON, Scene, Writer, gimbalctl, slice, svc};
use serde_json::{Value, json};

struct Asked<'a> {
    scene: &'a Scene,
    writer: &'a Writer,
    discoverer: &'a Discoverer,
}

impl Asked<'_> {
    fn printed(&self, words: &str) -> Printed {
        let words = format!("why {words} --discoverer http://127.0.0.1:{}", self.discoverer.port);
        gimbalctl(self.scene, self.writer.port, &words).unwrap()
    }

    /// Returns the exit code, and what both ends say of an address of the Service in the source.
    fn address(&self, address: &str) -> (Option<i32>, Value) {
        let printed = self.printed(&format!("team1/web/{address} --backend node02 -o json"));
        (printed.code, serde_json::from_str(&printed.out).unwrap_or_else(|error| panic!("{error}: {printed:?}")))
    }
}

async fn offer(scene: &Scene, more: &[Ep<'_>]) {
    let known = [Ep::Ready("10.0.0.1"), Ep::NotReady("10.0.0.2"), Ep::Ready("10.9.0.1")];
    let endpoints: Vec<Ep<'_>> = known.iter().chain(more).copied().collect();
    scene.put(&slice("team1", "web", "a", &[("http", 80)], &endpoints)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_is_followed_from_its_slice_in_the_source_to_the_one_in_the_gimbal_cluster() {
    let scene = Scene::start().await.unwrap();
    scene.put(&svc("team1", "web", &[("http", 80)])).await.unwrap();
    offer(&scene, &[]).await;
    let config = scene.config(&["node02"], "addresses: {allow: [10.0.0.0/16]}").unwrap();
    let writer = scene.writer(&config, &[]).await.unwrap();
    let discoverer = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    discoverer.ready().await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 2).await.unwrap();
    let asked = Asked { scene: &scene, writer: &writer, discoverer: &discoverer };

    it_is_at_both_ends(&asked).await;
    its_way_ends_where_something_is_against_it(&asked);
    people_see_the_same(&asked);
    a_context_names_the_other_end(&asked);
    who_is_no_discoverer_is_told(&asked);

    // Another look at the source, which has no stream: the change is at the source only.
    drop(discoverer);
    let other = scene.dry_run("node02", &scene.source, &[]).unwrap();
    other.ready().await.unwrap();
    offer(&scene, &[Ep::Ready("10.0.0.3")]).await;
    let asked = Asked { scene: &scene, writer: &writer, discoverer: &other };
    eventually("the new endpoint is at the source", SOON, async || {
        let (code, shown) = asked.address("10.0.0.3");
        let expected = json!({
            "at": "writer", "difference": "missing", "what": "no writer is configured: a dry run",
        });
        anyhow::ensure!(code == Some(0) && shown["difference"] == expected, "{shown}");
        anyhow::ensure!(shown["reasons"].to_string().contains("no agent is connected"), "{shown}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
}

async fn it_is_at_both_ends(asked: &Asked<'_>) {
    let shown = eventually("the writer has acknowledged it", SOON, async || {
        let (code, shown) = asked.address("10.0.0.1");
        anyhow::ensure!(code == Some(0) && !shown["discoverer"]["progress"]["acknowledgedMs"].is_null(), "{shown}");
        Ok::<_, anyhow::Error>(shown)
    })
    .await
    .unwrap();
    let (source, published) = (&shown["discoverer"]["address"]["objects"], &shown["address"]["objects"]);
    assert_eq!(
        source,
        &json!([{
            "kind": "EndpointSlice", "name": "web-a", "conditions": {"ready": true, "serving": true, "terminating": false},
        }])
    );
    let slices = asked.scene.gimbal.admin();
    let slices = slices.items("/apis/discovery.k8s.io/v1/namespaces/team1/endpointslices").await.unwrap();
    let names: Vec<&Value> = slices.iter().map(|slice| &slice["metadata"]["name"]).collect();
    assert_eq!(names, [&published[0]["name"]], "{published}");
    assert_eq!(shown["conclusion"], "the source, the writer and the Gimbal cluster agree");

    // Both ends tell of one frame, and of the writes that it led to.
    let (sent, came) = (&shown["discoverer"]["progress"], &shown["progress"]);
    for field in ["generation", "seq"] {
        assert!(sent[field] == came[field] && came[field].as_u64() > Some(0), "{field}: {sent} and {came}");
    }
    let write = &came["lastWrite"];
    assert_eq!((&write["verb"], &write["status"], &write["answer"]), (&json!("create"), &json!(201), &json!("ok")));
    assert_eq!(shown["agent"]["instance"], shown["discoverer"]["agent"]["instance"]);
}

fn its_way_ends_where_something_is_against_it(asked: &Asked<'_>) {
    let (code, shown) = asked.address("10.0.0.2");
    assert_eq!((code, &shown["difference"]), (Some(0), &Value::Null), "{shown}");
    let said = (&shown["discoverer"]["address"]["reasons"], &shown["address"]["reasons"][0]);
    assert_eq!(said, (&json!(["EndpointSlice web-a has it as not ready"]), &json!("it is not ready in the source")));

    let (code, shown) = asked.address("10.9.0.1");
    let what = shown["difference"]["what"].as_str().unwrap_or_default();
    assert_eq!((code, &shown["difference"]["at"]), (Some(0), &json!("cluster")), "{shown}");
    assert!(what.starts_with("it is not published: 10.9.0.1 is "), "{shown}");

    let (code, shown) = asked.address("fd00::1");
    assert_eq!((code, &shown["address"]["reasons"]), (Some(1), &json!(["the agent sent endpoints of IPv4 only"])));
    let nowhere = "the only EndpointSlice of Service team1/web has no endpoint with it";
    assert_eq!(shown["discoverer"]["address"]["reasons"], json!([nowhere]));
    asked.printed("team1/none --backend node02").expect_refusal("team1/none is not known here as a Service");
}

fn people_see_the_same(asked: &Asked<'_>) {
    // Named as in the Gimbal cluster: the writer knows which Service of which backend that is.
    let shown = asked.printed("team1/node02-web/10.0.0.1");
    assert_eq!(shown.code, Some(0), "{shown:?}");
    for words in [
        "PLACE    SERVICE",
        "source   2 of 3 endpoints ready, reported",
        "EndpointSlice web-a: ready",
        "cluster  2 endpoints, last write ",
        "create ",
        "ok (201)",
        "agent of backend node02: ",
        "the discoverer says:\n- Service team1/web has 3 endpoints, 2 of them ready, from 1 EndpointSlice objects: web-a",
        "the writer says:\n- team1/node02-web stands for team1/web of backend node02",
        "the source, the writer and the Gimbal cluster agree\n",
    ] {
        assert!(shown.out.contains(words), "{words}: {}", shown.out);
    }
    let alone = gimbalctl(asked.scene, asked.writer.port, "why team1/web --backend node02").unwrap();
    assert!(alone.code == Some(0) && alone.error.contains("--discoverer names the other end, too"), "{alone:?}");
}

fn a_context_names_the_other_end(asked: &Asked<'_>) {
    let file = asked.scene.path("contexts.yaml");
    let ctl = |words: &str| {
        let words = format!("{words} --config {}", file.display());
        gimbalctl(asked.scene, asked.writer.port, &words).unwrap()
    };
    let set = ctl(&format!("context set prod --discoverer node02=http://127.0.0.1:{} -o json", asked.discoverer.port));
    assert!(set.json()[0]["discoverers"]["node02"].as_str().is_some(), "{set:?}");
    let shown = ctl("why team1/node02-web/10.0.0.1 --context prod -o json").json();
    assert_eq!(shown[0]["discoverer"]["address"]["objects"][0]["name"], "web-a", "{shown:?}");
}

fn who_is_no_discoverer_is_told(asked: &Asked<'_>) {
    let port = asked.writer.port;
    for (discoverer, words) in [
        (format!("https://localhost:{port}"), "it is a writer"),
        ("http://127.0.0.1:1".to_owned(), "--discoverer http://127.0.0.1:1"),
        ("no-context".to_owned(), "there is no context \"no-context\""),
    ] {
        let words_given = format!("why team1/web --backend node02 --discoverer {discoverer}");
        let printed = gimbalctl(asked.scene, port, &words_given).unwrap();
        assert!(printed.code != Some(0) && printed.error.contains(words), "{printed:?}");
        assert!(printed.out.contains("the writer says:"), "what the writer said is shown all the same: {printed:?}");
    }
}
