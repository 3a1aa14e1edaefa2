//! A whole cluster: what is written, and what is said.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;

use super::common::{Cluster, backend, findings, ingress, one_rule, rule, secret, service, slice};
use super::tls::asking;

pub fn same_as_file(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/translate/golden/{name}.txt"));
    if std::env::var_os("GIMBAL_WRITE_DOCS").is_some() {
        return std::fs::write(&path, text).unwrap();
    }
    let file = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        file == text,
        "{} differs; to write it again:\n  GIMBAL_WRITE_DOCS=1 cargo test -p gimbal-kuryr-translate\n{text}",
        path.display()
    );
}

fn cluster() -> Cluster {
    let shop = json!({
        "rules": [rule("shop.example.com", &["/cart* cart:http", "/cart/pay pay:80", "* web:80"])],
        "tls": [{"hosts": ["shop.example.com"], "secretName": "cert"}],
    });
    let rest = json!({"rules": [rule("*.example.com", &["* web:80", "/admin/* web:81"])], "defaultBackend": backend("web:80")});
    let late = json!({"rules": [rule("SHOP.example.com", &["/cart* cart:http", "/new* later:80", "/ä* web:80"])]});
    Cluster::with([
        asking(ingress("shop", shop), "true"),
        ingress("rest", rest),
        ingress("late", late),
        one_rule("api", "api.example.com", &["/v1* api:80"]),
    ])
    .and_services([
        service("cart", &["http:80"]),
        service("pay", &["http:80"]),
        service("web", &["http:80", "admin:81"]),
        service("api", &["http:80"]),
    ])
    .and_secrets([secret("team/cert", 1, &["shop.example.com"])])
    .and_slices([
        slice("cart-1", "cart", &["http:80"], &["10.1.0.4", "10.1.0.5"]),
        slice("web-1", "web", &["http:80", "admin:81"], &["10.1.0.6"]),
        slice("api-1", "api", &["http:80"], &["10.1.0.7"]),
    ])
}

#[test]
fn a_router() {
    let made = cluster().shared();
    let mut text = serde_json::to_string_pretty(&made.spec).unwrap();
    text.push('\n');
    for (finding, said) in made.findings.iter().zip(findings(&made)) {
        writeln!(text, "{} {said}", finding.event()).unwrap();
    }
    same_as_file("router", &text);
}
