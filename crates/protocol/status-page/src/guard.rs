//! Headers that keep the page to itself, and requests that are not for it away.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Nothing from elsewhere, nothing inline, no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(&str, &str); 7] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cache-control", "no-store"),
];

const REFUSED: &str =
    "this page is served as localhost, under an address, and under the names of --status-page-hosts\n";

/// Refuses requests under another host's name, and adds the headers to every answer. Such a request comes from a page elsewhere
/// whose name leads here, and which would read this one with the rights of the person who looks at it: through a port-forward, or
/// from within a network. So it does not matter on which address the page is served.
pub(super) async fn guard(State(hosts): State<Arc<[String]>>, request: Request, next: Next) -> Response {
    let mut response = match is_own(request.headers(), &hosts) {
        false => (StatusCode::FORBIDDEN, REFUSED).into_response(),
        true => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether a request names its host by `localhost`, an address, or one of `hosts`. A name that somebody else points here is
/// another one.
fn is_own(headers: &HeaderMap, hosts: &[String]) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_named = |own: &str| name.eq_ignore_ascii_case(own);
    is_named("localhost") || name.parse::<std::net::IpAddr>().is_ok() || hosts.iter().any(|host| is_named(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_leads_here_by_its_own_name_is_answered() {
        let asked = |host: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.extend(host.map(|host| (header::HOST, HeaderValue::from_static(host))));
            is_own(&headers, &["gimbal.example".to_owned()])
        };
        for here in [
            "localhost",
            "LOCALHOST:7480",
            "127.0.0.1:7480",
            "[::1]:7480",
            "10.0.0.7",
            "Gimbal.example:7480",
            "gimbal.example",
        ] {
            assert!(asked(Some(here)), "{here}");
        }
        for elsewhere in [
            "evil.example",
            "localhost.evil.example:7480",
            "sub.gimbal.example",
            "gimbal.example.evil.example",
            "",
            "[evil",
            "127.0.0.1.evil.example",
        ] {
            assert!(!asked(Some(elsewhere)), "{elsewhere}");
        }
        assert!(!asked(None));
    }
}
