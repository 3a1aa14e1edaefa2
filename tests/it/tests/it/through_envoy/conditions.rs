//! What Contour makes of the conditions of endpoints.

use gimbal_tests::{Ep, slice, svc};
use serde_json::json;

use super::{NAMESPACE, PORT, Stage, TARGET_PORT, is_alone, servers};

const PORTS: [(&str, u16); 1] = [("http", PORT)];
const ALL: [&str; 6] = ["10.77.1.1", "10.77.1.2", "10.77.1.3", "10.77.1.4", "10.77.1.5", "fd77::1"];

/// Requests go to what is ready, in both address families, and to nothing else, although a server is everywhere.
#[tokio::test(flavor = "multi_thread")]
async fn ready_decides() {
    if !is_alone("conditions::ready_decides") {
        return;
    }
    let stage = Stage::start().await;
    let _servers = servers(&ALL, TARGET_PORT).await;
    let writer = stage.scene.writer(&stage.scene.config(&["node02"], "").unwrap(), &[]).await.unwrap();
    let _discoverer = stage.scene.discoverer("node02", &stage.scene.source, writer.port, &[]).unwrap();

    stage.scene.put(&svc(NAMESPACE, "mixed", &PORTS)).await.unwrap();
    let endpoints =
        [Ep::Ready(ALL[0]), Ep::Ready(ALL[1]), Ep::NotReady(ALL[2]), Ep::Ready(ALL[3]), Ep::Terminating(ALL[4])];
    let mut four = slice(NAMESPACE, "mixed", "4", &PORTS, &endpoints);
    // Unset means ready.
    four["endpoints"][1]["conditions"] = json!({});
    // Serving is not looked at.
    four["endpoints"][3]["conditions"] = json!({"ready": false, "serving": true, "terminating": false});
    stage.scene.put(&four).await.unwrap();
    stage.scene.put(&slice(NAMESPACE, "mixed", "6", &PORTS, &[Ep::Ready(ALL[5])])).await.unwrap();
    stage.proxy("mixed.example", "node02-mixed", PORT).await;
    stage.expect_endpoints("node02-mixed", &["10.77.1.1:8090", "10.77.1.2:8090", "[fd77::1]:8090"]).await;
    stage.expect("mixed.example", "/", 200, "").await;
    let answered = stage.answers("mixed.example", 60).await;
    let expected = ["10.77.1.1", "10.77.1.2", "fd77::1"].map(|address| format!("{address} HTTP/1.1"));
    assert_eq!(answered, expected.into());

    // Where nothing is ready, a request is refused at once.
    stage.scene.put(&svc(NAMESPACE, "down", &PORTS)).await.unwrap();
    stage.scene.put(&slice(NAMESPACE, "down", "4", &PORTS, &[Ep::NotReady(ALL[2])])).await.unwrap();
    stage.proxy("down.example", "node02-down", PORT).await;
    stage.expect("down.example", "/", 503, "no healthy upstream").await;
}
