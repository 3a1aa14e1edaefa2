//! Headers that keep the page to itself, and requests that are not for it away.

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

/// Refuses requests under another host's name, and adds the headers to every answer.
pub(super) async fn guard(State(only_here): State<bool>, request: Request, next: Next) -> Response {
    let mut response = match only_here && !is_here(request.headers()) {
        true => (StatusCode::FORBIDDEN, "this page is for localhost only\n").into_response(),
        false => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether a request names this machine as its host: by `localhost` or an address. A name that somebody else points at
/// loopback is another one.
fn is_here(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_here() {
        let asked = |host: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.extend(host.map(|host| (header::HOST, HeaderValue::from_static(host))));
            is_here(&headers)
        };
        for here in ["localhost", "LOCALHOST:7480", "127.0.0.1:7480", "[::1]:7480", "10.0.0.7"] {
            assert!(asked(Some(here)), "{here}");
        }
        for elsewhere in ["evil.example", "localhost.evil.example:7480", "", "[evil", "127.0.0.1.evil.example"] {
            assert!(!asked(Some(elsewhere)), "{elsewhere}");
        }
        assert!(!asked(None));
    }
}
