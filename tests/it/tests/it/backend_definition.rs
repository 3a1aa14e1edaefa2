//! The definition of Backends, as a chart of another release may have installed it (`--backends objects`).

use gimbal_testkit::Process;
use gimbal_testkit::process::{binary, free_port};
use gimbal_tests::{SOON, Scene};
use serde_json::{Map, Value};

use super::backend_objects::{DEFINITION, OBJECTS, file, scene};

const GUARD: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/guard/properties";

/// Changes the keys that a Backend may have below `spec.guard`.
async fn edit_guard<T>(scene: &Scene, edit: impl FnOnce(&mut Map<String, Value>) -> T) -> T {
    let api = scene.gimbal.admin();
    let mut definition = api.get(DEFINITION).await.unwrap();
    let edited = edit(definition.pointer_mut(GUARD).and_then(Value::as_object_mut).unwrap());
    api.put(DEFINITION, &definition).await.unwrap();
    edited
}

/// The API server would drop the field of every Backend, and the guard would hold nothing for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_knows_a_field_more_names_it_and_does_not_start() {
    let scene = scene().await;
    let floors = edit_guard(&scene, |guard| guard.remove("floors").unwrap()).await;

    let (config, ports) = (file(&scene), [free_port().unwrap(), free_port().unwrap()]);
    let user = scene.gimbal.user("writer").unwrap();
    let args = scene.writer_args(user.kubeconfig(), ports[0], ports[1], &config, &OBJECTS).unwrap();
    let (program, log) = (binary("gimbal-writer").unwrap(), scene.path("refused.log"));
    let mut refused = Process::start("gimbal-writer", &program, &args, &log).unwrap();
    let ended = refused.wait_exit(SOON).await.unwrap();
    let said = refused.log();
    assert_eq!(ended.code, Some(2), "{said}");
    let expected =
        "the definition backends.gimbal.projectcontour.io lacks spec.guard.floors: install the chart gimbal-crds";
    assert!(said.contains(expected), "{said}");

    // With the field it starts.
    edit_guard(&scene, |guard| guard.insert("floors".to_owned(), floors)).await;
    scene.writer(&config, &OBJECTS).await.unwrap();
}
