//! A Gimbal cluster that the original Gimbal filled, with the controller of Kubernetes that mirrors its Endpoints as slices, is
//! taken over, and goes back: no consumer sees fewer ready endpoints at any event.

mod original;
mod refusals;
mod stage;
mod witness;

use std::collections::BTreeSet;

use gimbal_testkit::eventually;
use gimbal_tests::{Mirror, SOON, expect_metric, metric, slice_of};
use serde_json::{Value, json};

use original::Made;
use stage::{MARK, SLICE_MARK, Stage};
use witness::Witness;

const MIRRORING: &str = "endpointslicemirroring-controller.k8s.io";

/// What is deleted when Endpoints go: themselves, and the slices that mirror them.
fn endpoints_of(all: &[&Made]) -> BTreeSet<String> {
    let of = |one: &&Made| [format!("Endpoints {}", one.name), format!("EndpointSlice {MIRRORING} {}", one.name)];
    all.iter().flat_map(of).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_taken_over_without_a_gap_and_nothing_goes_but_endpoints_and_their_mirrors() {
    let stage = Stage::start().await;
    let gimbal = &stage.scene.gimbal;
    let witness = Witness::start(gimbal, "last").await;
    let (writer, agent) = stage.programs("endpointslices").await;
    stage.expect_conflicts(&writer).await;

    let before = stage.scene.published().await.unwrap();
    let shown = stage.gimbalctl(writer.port, "--dry-run");
    for made in &stage.offered {
        let rows: Vec<String> =
            shown.out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for (kind, rest) in [("Service", "take"), ("Endpoints", "wait its Service is first")] {
            assert!(rows.contains(&format!("{kind} team1/{} {rest}", made.name)), "{shown:?}");
        }
    }
    assert!(shown.out.contains("nothing that the backend offers leads to this name"), "{shown:?}");
    assert!(shown.out.contains("it has a selector"), "{shown:?}");
    assert!(shown.out.contains("to take: 4 Services, 4 Endpoints"), "{shown:?}");
    stage.gimbalctl(writer.port, "--id node02-12345678").expect_refusal("it is no longer the same");
    assert_eq!(stage.scene.published().await.unwrap(), before, "a dry run changes nothing");
    let others = (stage.left.there(gimbal).await, stage.foreign().await);
    let services = stage.services().await;

    let mark = gimbal.audit_mark().await.unwrap();
    let taken = stage.adopt(writer.port);
    assert_eq!(taken.code, Some(0), "{taken:?}");
    assert!(taken.out.ends_with("taken: 4 Services, 4 Endpoints; they are the writer's now\n"), "{taken:?}");
    for made in &stage.offered {
        stage.is_ours(made).await;
    }
    assert_eq!(stage.services().await, services, "each Service is the one that it was");
    assert_eq!((stage.left.there(gimbal).await, stage.foreign().await), others, "what is left is not touched");
    let again = stage.gimbalctl(writer.port, "--dry-run").out;
    assert!(again.contains("to take: 0 Services, 0 Endpoints"), "{again}");
    let writes = stage.scene.writes_since(mark).await.unwrap();
    let deletes: Vec<&String> = writes.iter().filter(|write| write.starts_with("delete")).collect();
    assert!(deletes.iter().all(|write| write.starts_with("delete endpoints ")), "{writes:?}");
    assert_eq!(deletes.iter().filter(|write| write.ends_with(" 200")).count(), 4, "{writes:?}");

    let seen = witness.end(gimbal).await;
    assert_eq!(seen.fewer, [""; 0], "after {} events", seen.events);
    assert_eq!(seen.deleted, endpoints_of(&stage.offered.iter().collect::<Vec<_>>()));

    // They follow their source from now on.
    stage.scene.put(&slice_of("team1", "web", "v4", 7, 4)).await.unwrap();
    Mirror::expect_count(gimbal, "team1", "node02-web", 4).await.unwrap();
    agent.ask().expect_synced("node02", "team1", "web").await.unwrap();
}

/// For consumers that read Endpoints, they stay the objects that they were.
#[tokio::test(flavor = "multi_thread")]
async fn with_both_apis_the_endpoints_stay_and_their_mirrors_go() {
    let stage = Stage::start().await;
    let gimbal = &stage.scene.gimbal;
    let mut uids = Vec::new();
    for made in &stage.offered {
        uids.push(made.there(gimbal).await[1]["metadata"]["uid"].clone());
    }
    let witness = Witness::start(gimbal, "last").await;
    let (writer, agent) = stage.programs("both").await;
    stage.expect_conflicts(&writer).await;
    let taken = stage.adopt(writer.port);
    assert_eq!(taken.code, Some(0), "{taken:?}");
    for (made, uid) in stage.offered.iter().zip(&uids) {
        stage
            .is_ours_with(made, |endpoints| {
                let meta = endpoints.map(|endpoints| &endpoints["metadata"]);
                anyhow::ensure!(meta.is_some_and(|meta| meta["uid"] == *uid), "{meta:?}");
                let skips = |meta: &Value| meta["labels"]["endpointslice.kubernetes.io/skip-mirror"] == "true";
                anyhow::ensure!(meta.is_some_and(skips), "{meta:?}");
                Ok(())
            })
            .await;
    }
    for source in stage::OFFERED {
        agent.ask().expect_synced("node02", "team1", source).await.unwrap();
    }
    let seen = witness.end(gimbal).await;
    assert_eq!(seen.fewer, [""; 0], "after {} events", seen.events);
    let mut mirrors = endpoints_of(&stage.offered.iter().collect::<Vec<_>>());
    mirrors.retain(|deleted| deleted.starts_with("EndpointSlice "));
    assert_eq!(seen.deleted, mirrors);
}

/// Where the source has fewer endpoints than the Endpoints of the original that was stopped, a person says that they may go.
#[tokio::test(flavor = "multi_thread")]
async fn endpoints_that_the_source_has_no_more_go_only_by_order() {
    let stage = Stage::start().await;
    stage.scene.put(&slice_of("team1", "web", "v4", 7, 2)).await.unwrap();
    let (writer, _agent) = stage.programs("endpointslices").await;
    stage.expect_conflicts(&writer).await;
    let web = &stage.offered[0];
    let (id, _) = stage.next(writer.port, "--dry-run");
    let waits = stage.gimbalctl(writer.port, &format!("--id {id} --wait 8"));
    waits.expect_refusal("one object is not taken yet");
    assert!(
        waits.out.contains("1 of its 3 ready endpoints are in no slice of the writer, as 10.0.0.9 8080/TCP (http)")
    );
    assert!(waits.out.contains("taken: 4 Services, 3 Endpoints"), "{waits:?}");
    stage.scene.ask(&writer).unwrap().expect_synced("node02", "team1", "web").await.unwrap();
    let (id, shown) = stage.next(writer.port, "--drop-gone --dry-run");
    assert!(shown.contains("to take: 0 Services, 1 Endpoints"), "{shown}");
    let taken = stage.gimbalctl(writer.port, &format!("--drop-gone --id {id}"));
    assert_eq!(taken.code, Some(0), "{taken:?}");
    Mirror::expect_that(&stage.scene.gimbal, "team1", &web.name, |mirror| {
        anyhow::ensure!(mirror.endpoints.is_none() && mirror.addresses().len() == 2, "{mirror:?}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_the_original_and_back_to_it_nothing_is_missing() {
    let stage = Stage::start().await;
    let gimbal = &stage.scene.gimbal;
    let witness = Witness::start(gimbal, "last").await;
    let (writer, _agent) = stage.programs("endpointslices").await;
    stage.expect_conflicts(&writer).await;

    // Somebody sets the mark by hand, on Endpoints first: they stay until there are slices in their place.
    let path = format!("/api/v1/namespaces/team1/endpoints/{}", stage.offered[2].name);
    gimbal.admin().patch(&path, &json!({"metadata": {"labels": {MARK: "gimbal-writer"}}})).await.unwrap();
    let compared = async || metric(writer.admin_port, "gimbal_writer_comparisons", "").await;
    let before = compared().await.unwrap();
    eventually("the writer has compared everything twice", SOON, async || {
        let now = compared().await?;
        anyhow::ensure!(now >= before + 2.0, "{now} after {before}");
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    gimbal.admin().get(&path).await.unwrap();

    // The original still runs, and writes each time that the mark is set.
    let (id, _) = stage.next(writer.port, "--dry-run");
    let order = format!("--id {id}");
    let printed = tokio::select! {
        printed = stage.gimbalctl_beside(writer.port, &order) => printed,
        never = stage.offered[0].write_on(gimbal) => match never {},
    };
    printed.expect_refusal("Service team1/node02-web has lost the mark again: the original's discoverer still runs");
    stage.scene.ask(&writer).unwrap().expect_rejected("node02", "team1", "web", "NAME_CONFLICT").await.unwrap();
    assert_eq!(stage.adopt(writer.port).code, Some(0), "it was stopped");
    for made in &stage.offered {
        stage.is_ours(made).await;
    }
    // A resync of the original that was started again: its Endpoints are there beside the slices.
    for made in &stage.offered {
        made.write(gimbal).await;
        stage.is_mirrored(made).await;
    }
    for source in stage::OFFERED {
        let ask = stage.scene.ask(&writer).unwrap();
        ask.expect_rejected("node02", "team1", source, "NAME_CONFLICT").await.unwrap();
    }
    assert_eq!(stage.adopt(writer.port).code, Some(0), "it was stopped again");
    for made in &stage.offered {
        stage.is_ours(made).await;
    }

    // The way back, as docs/from-the-original.md has it: quarantine, the original, and when it has written, the slices.
    let taken = metric(writer.admin_port, "gimbal_writer_config_reloads_total", "taken").await.unwrap();
    stage.scene.config(&["node02"], "mode: quarantine").unwrap();
    expect_metric(writer.admin_port, "gimbal_writer_config_reloads_total", "taken", taken + 1.0).await.unwrap();
    let mark = gimbal.audit_mark().await.unwrap();
    for made in &stage.offered {
        made.write(gimbal).await;
    }
    for made in &stage.offered {
        stage.is_mirrored(made).await;
        let [service, _] = made.there(gimbal).await;
        assert_eq!(service["metadata"]["labels"][MARK], Value::Null, "the original writes all of it");
    }
    // What the original leaves the mark on, a person takes it off.
    for made in &stage.offered {
        let path = format!("/api/v1/namespaces/team1/services/{}", made.name);
        gimbal.admin().patch(&path, &json!({"metadata": {"labels": {MARK: null}}})).await.unwrap();
    }
    let selector = "labelSelector=endpointslice.kubernetes.io/managed-by%3Dgimbal-writer,gimbal.projectcontour.io/backend%3Dnode02";
    let slices = "/apis/discovery.k8s.io/v1/namespaces/team1/endpointslices";
    gimbal.admin().delete(&format!("{slices}?{selector}")).await.unwrap();
    eventually("the writer has no slice", SOON, async || {
        let left = gimbal.admin().items(&format!("{slices}?{selector}")).await?;
        anyhow::ensure!(left.is_empty(), "{} are left", left.len());
        Ok::<_, anyhow::Error>(())
    })
    .await
    .unwrap();
    assert_eq!(stage.scene.writes_since(mark).await.unwrap(), [""; 0], "in quarantine, nothing is written");

    let seen = witness.end(gimbal).await;
    assert_eq!(seen.fewer, [""; 0], "after {} events", seen.events);
    let mut expected = endpoints_of(&stage.offered.iter().collect::<Vec<_>>());
    expected.extend(stage.offered.iter().map(|made| format!("EndpointSlice gimbal-writer {}", made.name)));
    assert_eq!(seen.deleted, expected);
    for made in &stage.offered {
        let mirror = Mirror::get(gimbal, "team1", &made.name).await.unwrap().unwrap();
        let managers: BTreeSet<_> =
            mirror.slices.iter().map(|slice| slice["metadata"]["labels"][SLICE_MARK].to_string()).collect();
        assert_eq!(managers, [json!(MIRRORING).to_string()].into());
    }
}
