//! A provider that knows nothing of HTTP, as OVN's: an Ingress gets an Event, no other route answers in its place, and Services are served.

use gimbal_tests::{ROUTERS, WayBack};
use serde_json::{Value, json};

use super::WRITER;
use super::ingress::{rule, until};

const PROVIDER: &str = "lab-l4";
const CONTROLLER: [&str; 2] = ["--cluster-ip-services=false", "--ingress"];

#[tokio::test(flavor = "multi_thread")]
async fn an_ingress_is_told_that_the_provider_has_no_routes() {
    let mut stage = WayBack::build_for_ingresses().await.unwrap();
    let kubernetes = format!("kubernetes: {{enable_ingress: true, endpoints_driver_octavia_provider: {PROVIDER}}}");
    stage.configure(&format!("{kubernetes}\n  providers: {{allow: [{PROVIDER}]}}")).unwrap();
    stage.make_ingress_class().await.unwrap();
    stage.make_backend("s1", &[("s1", "10.1.0.1")]).await.unwrap();
    stage.make_ingress("test", &json!([rule("www.example.com", &[("/", "Prefix", "s1")])])).await.unwrap();
    stage.start_writer(&WRITER).await.unwrap();
    stage.start_controller(&CONTROLLER).await.unwrap();
    until(&stage, "the Ingress has an Event that names the provider", async || {
        let events = stage.events("test").await?;
        let is_told = |(_, message): &(String, String)| message.contains(&format!("Provider '{PROVIDER}'"));
        anyhow::ensure!(events.iter().any(is_told), "{events:?}");
        Ok(())
    })
    .await;
    until(&stage, "the router has the condition Unsupported", async || {
        let routers = stage.cluster.admin().items(ROUTERS).await?;
        let conditions = |one: &Value| one["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let mut all = routers.iter().flat_map(conditions);
        let is_it = |one: Value| one["type"] == "Unsupported" && one["status"] == "True";
        anyhow::ensure!(all.any(is_it), "{routers:?}");
        Ok(())
    })
    .await;
    // What it can do goes on beside that.
    stage.make_internal_service("web", &[("http", 80, 8080)]).await.unwrap();
    stage.set_members("web", &["10.1.0.1"], &[("http", 8080)]).await.unwrap();
    let address = stage.until_address("web").await.unwrap();
    stage.until_answers(&address, 80, &["s1"]).await.unwrap();
}
