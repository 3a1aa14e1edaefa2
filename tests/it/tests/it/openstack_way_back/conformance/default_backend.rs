//! A backend for everything that no rule takes, whatever the method, the host and the path are.

use gimbal_testkit::openstack::ClientRequest;
use gimbal_tests::WayBack;

use super::Spec;

const NAME: &str = "default-backend";
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"];
const HOSTS: [Option<&str>; 4] = [Some("my-host"), Some("some.host.example"), Some("my-host:8080"), None];
/// Paths, and who answers.
const ROWS: [(&str, &str); 5] =
    [("/", NAME), ("/sub-path", NAME), ("/resource/?a=b", NAME), ("/ruled", "default-ruled"), ("/ruled/not", NAME)];

/// At a router of its own: on the shared one it would answer what no rule of the others takes.
pub(super) const INGRESSES: &[Spec] = &[Spec {
    name: NAME,
    annotations: &[("kuryr.openstack.org/l7-router", "own")],
    rules: &[("", "/ruled", "Exact", "default-ruled")],
    default_backend: Some(NAME),
    ..Spec::OURS
}];

pub(super) async fn any_request_is_answered(stage: &WayBack) {
    let router = super::address(stage, NAME).await.unwrap();
    super::until(stage, "each method, host and path is answered", async || {
        for method in METHODS {
            for host in HOSTS {
                for (path, expected) in ROWS {
                    let request = ClientRequest { method, host, path, tls: None, authority: None };
                    // An answer to HEAD has no body, so it names no member.
                    let expected = if method == "HEAD" { "" } else { expected };
                    let answer = super::answer(stage, &router, 80, &request).await?;
                    anyhow::ensure!(answer == expected, "{request:?} is answered by {answer:?}");
                }
            }
        }
        Ok(())
    })
    .await;
}
