//! The writer owns objects with its mark, and no others.

use std::time::Duration;

use gimbal_testkit::eventually;
use gimbal_tests::{Discoverer, Grpcurl, Mirror, SOON, Scene, Writer, put, slice_of, svc};
use serde_json::{Value, json};

const MARK: &str = "gimbal.projectcontour.io/managed-by";
const SLICE_MARK: &str = "endpointslice.kubernetes.io/managed-by";
const SERVICES: &str = "/api/v1/namespaces/team1/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/team1/endpointslices";

async fn offer(scene: &Scene, name: &str) {
    scene.put(&svc("team1", name, &[("http", 80)])).await.unwrap();
    scene.put(&slice_of("team1", name, "v4", 7, 3)).await.unwrap();
}

async fn arrived(scene: &Scene, name: &str) -> Mirror {
    Mirror::expect_count(&scene.gimbal, "team1", name, 3).await.unwrap()
}

/// Returns an object without the fields that the API server adds.
fn bare(object: &Value) -> Value {
    let mut object = object.clone();
    for field in ["resourceVersion", "uid", "creationTimestamp", "managedFields", "generation", "generateName"] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    object
}

fn bare_all(mirror: &Mirror) -> Vec<Value> {
    let mut all: Vec<Value> = mirror.slices.iter().map(bare).collect();
    all.push(bare(&mirror.service));
    all.sort_by_key(|object| object["metadata"]["name"].to_string());
    all
}

fn version(object: &Value) -> &Value {
    &object["metadata"]["resourceVersion"]
}

async fn rejected(asks: &[&Grpcurl], backend: &str, name: &str, words: &str) {
    for ask in asks {
        let message = ask.expect_rejected(backend, "team1", name, "NAME_CONFLICT").await.unwrap();
        assert!(message.contains(words), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_own_is_never_touched_and_its_name_is_taken_up_when_it_is_free() {
    let scene = Scene::start().await.unwrap();
    let config = scene.config(&["node02"], "").unwrap();
    let mut writer = scene.writer(&config, &["--comparison-interval", "1s"]).await.unwrap();
    let agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    let api = scene.gimbal.admin();
    // Published once, to learn the name of its slice.
    offer(&scene, "api").await;
    let name = arrived(&scene, "node02-api").await.slices[0]["metadata"]["name"].as_str().unwrap().to_owned();
    scene.remove("team1", "api").await.unwrap();
    Mirror::expect_gone(&scene.gimbal, "team1", "node02-api").await.unwrap();

    // With a label and an annotation of Gimbal's, which a user may have copied, but without the mark.
    let mut foreign = svc("team1", "node02-web", &[("other", 81)]);
    foreign["metadata"]["labels"]["gimbal.projectcontour.io/backend"] = json!("node02");
    foreign["metadata"]["annotations"]["gimbal.projectcontour.io/source"] = json!("team1/web");
    put(&scene.gimbal, &foreign).await.unwrap();
    let mut foreign_slice = slice_of("team1", "node02-other", "v4", 99, 1);
    foreign_slice["metadata"]["name"] = json!(name);
    put(&scene.gimbal, &foreign_slice).await.unwrap();
    let service = api.get(&format!("{SERVICES}/node02-web")).await.unwrap();
    let slice = api.get(&format!("{SLICES}/{name}")).await.unwrap();

    let mark = scene.gimbal.audit_mark().await.unwrap();
    offer(&scene, "web").await;
    offer(&scene, "api").await;
    let asks = [&scene.ask(&writer).unwrap(), &agent.ask()];
    rejected(&asks, "node02", "web", "is not ours").await;
    // The Service whose slice's name is taken uses another name.
    let mirror = arrived(&scene, "node02-api").await;
    assert_ne!(mirror.slices[0]["metadata"]["name"], json!(name));
    // Other Services are served, and so are changes of the rejected one.
    scene.put(&slice_of("team1", "web", "v4", 7, 4)).await.unwrap();
    offer(&scene, "late").await;
    arrived(&scene, "node02-late").await;
    rejected(&asks, "node02", "web", "is not ours").await;

    // A restarted writer must learn all of this anew without damage.
    writer.process.kill().unwrap();
    writer = scene.writer_at(writer.port, &config, &["--comparison-interval", "1s"]).await.unwrap();
    let asks = [&scene.ask(&writer).unwrap(), &agent.ask()];
    rejected(&asks, "node02", "web", "is not ours").await;
    scene.remove("team1", "late").await.unwrap();
    Mirror::expect_gone(&scene.gimbal, "team1", "node02-late").await.unwrap();
    let again = Mirror::get(&scene.gimbal, "team1", "node02-api").await.unwrap().unwrap();
    assert_eq!(again, mirror, "what has another name keeps it");

    let tries = scene.writes_since(mark).await.unwrap();
    let tries: Vec<_> = tries.iter().filter(|write| write.contains("/node02-web")).collect();
    assert!(tries.iter().all(|write| write.as_str() == "create services team1/node02-web 409"), "{tries:?}");
    assert!(tries.len() < 25, "it backs off: {}", tries.len());
    assert_eq!(api.get(&format!("{SERVICES}/node02-web")).await.unwrap(), service);
    assert_eq!(api.get(&format!("{SLICES}/{name}")).await.unwrap(), slice);

    // The name is free, so it is used.
    api.delete(&format!("{SERVICES}/node02-web")).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-web", 4).await.unwrap();
    for ask in &asks {
        ask.expect_synced("node02", "team1", "web").await.unwrap();
    }
    assert_eq!(api.get(&format!("{SLICES}/{name}")).await.unwrap(), slice);
}

/// Returns merge patches to a Service, with a description of each.
fn service_edits() -> Vec<(&'static str, Value)> {
    let meta = |kind: &str, key: &str, value: Value| json!({"metadata": {kind: {key: value}}});
    vec![
        ("a label of the source", meta("labels", "app", json!("edited"))),
        ("a label of the source that is removed", meta("labels", "app", json!(null))),
        ("a further label", meta("labels", "more", json!("x"))),
        ("the backend label", meta("labels", "gimbal.projectcontour.io/backend", json!("other"))),
        ("the backend label that is removed", meta("labels", "gimbal.projectcontour.io/backend", json!(null))),
        ("the service label", meta("labels", "gimbal.projectcontour.io/service", json!("other"))),
        ("a further annotation", meta("annotations", "more", json!("x"))),
        ("the source annotation", meta("annotations", "gimbal.projectcontour.io/source", json!("team1/stays"))),
        ("no source annotation", meta("annotations", "gimbal.projectcontour.io/source", json!(null))),
        ("every annotation", json!({"metadata": {"annotations": null}})),
        ("ports", json!({"spec": {"ports": [{"name": "other", "port": 81}]}})),
        ("a selector", json!({"spec": {"selector": {"app": "mine"}}})),
        ("addresses", json!({"spec": {"externalIPs": ["192.0.2.1"]}})),
        ("another type", json!({"spec": {"type": "ExternalName", "externalName": "a.example", "clusterIP": ""}})),
    ]
}

fn slice_edits() -> Vec<(&'static str, Value)> {
    let meta = |kind: &str, key: &str, value: Value| json!({"metadata": {kind: {key: value}}});
    vec![
        ("the Service's name", meta("labels", "kubernetes.io/service-name", json!("node02-stays"))),
        ("no Service's name", meta("labels", "kubernetes.io/service-name", json!(null))),
        ("the backend label", meta("labels", "gimbal.projectcontour.io/backend", json!("other"))),
        ("no headless label", meta("labels", "service.kubernetes.io/headless", json!(null))),
        ("the source annotation", meta("annotations", "gimbal.projectcontour.io/source", json!("team1/stays"))),
        ("a further label", meta("labels", "more", json!("x"))),
        ("no endpoints", json!({"endpoints": []})),
        ("a further endpoint", json!({"endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": true}}]})),
        ("ports", json!({"ports": [{"name": "http", "port": 1, "protocol": "TCP"}]})),
        ("no ports", json!({"ports": []})),
    ]
}

struct Edited {
    scene: Scene,
    /// The objects in their desired state.
    wanted: Vec<Value>,
    slice: String,
}

impl Edited {
    async fn repaired(&self, what: &str) {
        eventually(&format!("{what} is repaired"), SOON, async || {
            let mirror = Mirror::get(&self.scene.gimbal, "team1", "node02-web").await?;
            let there = bare_all(&mirror.ok_or_else(|| anyhow::anyhow!("it is not there"))?);
            anyhow::ensure!(there == self.wanted, "{there:#?}\nis not\n{:#?}", self.wanted);
            Ok::<_, anyhow::Error>(())
        })
        .await
        .unwrap();
    }

    /// Edits one object and waits for the one write that repairs it.
    async fn edit(&self, what: &str, path: &str, patch: Option<&Value>) {
        let api = self.scene.gimbal.admin();
        let mark = self.scene.gimbal.audit_mark().await.unwrap();
        match patch {
            Some(patch) => drop(api.patch(path, patch).await.unwrap_or_else(|error| panic!("{what}: {error}"))),
            None => drop(api.delete(path).await.unwrap()),
        }
        self.repaired(what).await;
        let writes = self.scene.writes_since(mark).await.unwrap();
        assert_eq!(writes.len(), 1, "{what}: {writes:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hand_edits_are_repaired_and_removing_the_mark_gives_an_object_away() {
    let scene = Scene::start().await.unwrap();
    let config = scene.config(&["node02", "other"], "").unwrap();
    let mut writer = scene.writer(&config, &["--comparison-interval", "1s"]).await.unwrap();
    let agent = scene.discoverer("node02", &scene.source, writer.port, &[]).unwrap();
    offer(&scene, "stays").await;
    offer(&scene, "web").await;
    let stays = arrived(&scene, "node02-stays").await;
    let mirror = arrived(&scene, "node02-web").await;
    let slice = mirror.slices[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let (service_path, slice_path) = (format!("{SERVICES}/node02-web"), format!("{SLICES}/{slice}"));
    let edited = Edited { scene, wanted: bare_all(&mirror), slice };

    for (what, patch) in service_edits() {
        edited.edit(&format!("Service: {what}"), &service_path, Some(&patch)).await;
    }
    for (what, patch) in slice_edits() {
        edited.edit(&format!("slice: {what}"), &slice_path, Some(&patch)).await;
    }
    edited.edit("a deleted Service", &service_path, None).await;
    edited.edit("a deleted slice", &slice_path, None).await;

    // The same while no writer runs.
    let api = edited.scene.gimbal.admin().clone();
    let edits = service_edits().into_iter().map(|edit| (&service_path, edit));
    for (path, (what, patch)) in edits.chain(slice_edits().into_iter().map(|edit| (&slice_path, edit))) {
        writer.process.kill().unwrap();
        api.patch(path, &patch).await.unwrap();
        let mark = edited.scene.gimbal.audit_mark().await.unwrap();
        writer = edited.scene.writer_at(writer.port, &config, &["--comparison-interval", "1s"]).await.unwrap();
        edited.repaired(&format!("{what}, edited while the writer was down")).await;
        let writes = edited.scene.writes_since(mark).await.unwrap();
        assert_eq!(writes.len(), 1, "{what}: {writes:?}");
    }
    writer.settled(1).await.unwrap();
    let scene = &edited.scene;
    assert_eq!(Mirror::get(&scene.gimbal, "team1", "node02-stays").await.unwrap().unwrap(), stays);

    // A slice without the mark is foreign, and its name is taken.
    api.patch(&slice_path, &json!({"metadata": {"labels": {SLICE_MARK: "me"}}})).await.unwrap();
    let given = api.get(&slice_path).await.unwrap();
    let second = eventually("another slice replaces it", SOON, async || {
        let slices = Mirror::get(&scene.gimbal, "team1", "node02-web").await?.unwrap().slices;
        let ours = slices.into_iter().find(|slice| slice["metadata"]["labels"][SLICE_MARK] == "gimbal-writer");
        ours.ok_or_else(|| anyhow::anyhow!("none is ours"))
    })
    .await
    .unwrap();
    assert_eq!(second["endpoints"], mirror.slices[0]["endpoints"]);
    // A Service without the mark is foreign, and writes for the source stop.
    let asks = [&scene.ask(&writer).unwrap(), &agent.ask()];
    for ask in asks {
        ask.expect_synced("node02", "team1", "web").await.unwrap();
    }
    api.patch(&service_path, &json!({"metadata": {"labels": {MARK: null}}})).await.unwrap();
    let service = api.get(&service_path).await.unwrap();
    rejected(&asks, "node02", "web", "is not ours").await;
    let mut changed = svc("team1", "web", &[("http", 80)]);
    changed["metadata"]["labels"]["app"] = json!("changed");
    scene.put(&changed).await.unwrap();
    scene.put(&slice_of("team1", "stays", "v4", 7, 5)).await.unwrap();
    Mirror::expect_count(&scene.gimbal, "team1", "node02-stays", 5).await.unwrap();
    rejected(&asks, "node02", "web", "is not ours").await;
    // It is not deleted even if its source deletes it.
    scene.remove("team1", "web").await.unwrap();
    eventually("what is still ours goes", SOON, async || {
        let slices = Mirror::get(&scene.gimbal, "team1", "node02-web").await?.unwrap().slices;
        anyhow::ensure!(slices.len() == 1, "{} slices", slices.len());
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    assert_eq!(version(&api.get(&service_path).await.unwrap()), version(&service));
    assert_eq!(version(&api.get(&slice_path).await.unwrap()), version(&given));

    // Marked again, it is Gimbal's again, and it is deleted because the source does not have it any more.
    api.patch(&service_path, &json!({"metadata": {"labels": {MARK: "gimbal-writer"}}})).await.unwrap();
    eventually("it is deleted", SOON, async || match api.get(&service_path).await {
        Err(error) if error.code == 404 => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
    assert_eq!(version(&api.get(&slice_path).await.unwrap()), version(&given));
    assert_eq!(edited.slice, given["metadata"]["name"]);
}

struct Collision {
    scene: Scene,
    config: std::path::PathBuf,
}

impl Collision {
    fn agent(&self, backend: &str, writer: &Writer) -> Discoverer {
        self.scene.discoverer(backend, &self.scene.source, writer.port, &[]).unwrap()
    }

    async fn restarted(&self, mut writer: Writer) -> Writer {
        writer.process.kill().unwrap();
        self.scene.writer_at(writer.port, &self.config, &["--comparison-interval", "1s"]).await.unwrap()
    }

    /// Waits until the name belongs to this backend.
    async fn stands_for(&self, backend: &str) -> Mirror {
        Mirror::expect_that(&self.scene.gimbal, "team1", "a-b-c", |mirror| {
            let label = &mirror.service["metadata"]["labels"]["gimbal.projectcontour.io/backend"];
            let slices = mirror.slices.iter().map(|s| &s["metadata"]["labels"]["gimbal.projectcontour.io/backend"]);
            anyhow::ensure!(slices.chain([label]).all(|label| label == backend), "it is {mirror:?}");
            anyhow::ensure!(mirror.addresses().len() == 3, "{:?}", mirror.addresses());
            Ok(())
        })
        .await
        .unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_want_one_name_the_first_keeps_it_in_whatever_order_they_come_back() {
    let scene = Scene::start().await.unwrap();
    // `a` + `b-c` and `a-b` + `c`.
    offer(&scene, "b-c").await;
    offer(&scene, "c").await;
    let config = scene.config(&["a", "a-b"], "").unwrap();
    let mut writer = scene.writer(&config, &["--comparison-interval", "1s"]).await.unwrap();
    let collision = Collision { scene, config };
    let scene = &collision.scene;
    let mut first = collision.agent("a", &writer);
    let held = collision.stands_for("a").await;
    let mut second = collision.agent("a-b", &writer);
    arrived(scene, "a-b-b-c").await;
    rejected(&[&scene.ask(&writer).unwrap(), &second.ask()], "a-b", "c", "the name team1/a-b-c is taken").await;
    scene.ask(&writer).unwrap().expect_synced("a", "team1", "b-c").await.unwrap();

    // The second one comes back alone: it does not get the name of a backend that is only away.
    first.process.kill().unwrap();
    writer = collision.restarted(writer).await;
    rejected(&[&scene.ask(&writer).unwrap(), &second.ask()], "a-b", "c", "the name team1/a-b-c is taken").await;
    writer.settled(1).await.unwrap();
    assert_eq!(collision.stands_for("a").await, held);
    first = collision.agent("a", &writer);
    writer.settled(2).await.unwrap();
    rejected(&[&scene.ask(&writer).unwrap(), &second.ask()], "a-b", "c", "the name team1/a-b-c is taken").await;
    assert_eq!(collision.stands_for("a").await, held);

    // The first one's source deletes its Service: the second gets the name. The name may be missing for a moment.
    scene.remove("team1", "b-c").await.unwrap();
    collision.stands_for("a-b").await;
    for ask in [&scene.ask(&writer).unwrap(), &second.ask()] {
        ask.expect_synced("a-b", "team1", "c").await.unwrap();
    }
    // Now with the roles exchanged.
    offer(scene, "b-c").await;
    rejected(&[&scene.ask(&writer).unwrap(), &first.ask()], "a", "b-c", "the name team1/a-b-c is taken").await;
    let held = collision.stands_for("a-b").await;
    second.process.kill().unwrap();
    writer = collision.restarted(writer).await;
    rejected(&[&scene.ask(&writer).unwrap(), &first.ask()], "a", "b-c", "the name team1/a-b-c is taken").await;
    assert_eq!(collision.stands_for("a-b").await, held);
    // It was deleted while its agent was away: the other one gets the name when that is proven.
    scene.remove("team1", "c").await.unwrap();
    second = collision.agent("a-b", &writer);
    collision.stands_for("a").await;
    scene.ask(&writer).unwrap().expect_synced("a", "team1", "b-c").await.unwrap();
    writer.settled(2).await.unwrap();
    assert!(second.process.terminate(SOON).await.unwrap().after < Duration::from_secs(10));
}
