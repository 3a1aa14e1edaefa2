//! Reads answers: status, headers, and the message of an error. Pure.

use std::time::Duration;

use bytes::Bytes;
use gimbal_error_text::first_line;
use http::{HeaderMap, StatusCode, header};
use jiff::Timestamp;
use serde::Deserialize;

use crate::Error;

/// An answer with status 2xx.
#[derive(Debug)]
pub(crate) struct Answer {
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    /// Returns the server's own time (`Date`, to a second), the only clock that its `updated_at` can be compared with.
    pub(crate) fn server_time(&self) -> Option<Timestamp> {
        date(self.headers.get(header::DATE)?.to_str().ok()?)
    }
}

/// Returns the wait that `Retry-After` requests, which is a number of seconds or a time on the server's clock.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    // Without `Date` the wait is not known: the server's clock may differ from ours.
    let now = date(headers.get(header::DATE)?.to_str().ok()?)?;
    Some(Duration::try_from(date(text)?.duration_since(now)).unwrap_or_default())
}

fn date(text: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::parse(text).ok().map(|time| time.timestamp())
}

/// Returns the error for a status other than 2xx. `what` names the request.
pub(crate) fn refusal(what: &str, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Error {
    let message = match words(body) {
        Some(words) => format!("{what}: {} {words}", status.as_u16()),
        None => format!("{what}: {status}"),
    };
    match status.as_u16() {
        400 if message.contains("marker") => Error::InvalidMarker { message },
        401 => Error::Unauthorized { message },
        403 => Error::Forbidden { message },
        404 => Error::NotFound { message },
        429 => Error::RateLimited { message, retry_after: retry_after(headers) },
        status @ 500.. => Error::Server { message, status, retry_after: retry_after(headers) },
        300..400 => {
            let place = headers.get(header::LOCATION).and_then(|place| place.to_str().ok()).unwrap_or("elsewhere");
            Error::Refused { message: format!("{message} (redirects, to {}, are not followed)", first_line(place)) }
        }
        _ => Error::Refused { message },
    }
}

/// The four shapes in which Keystone, keystonemiddleware, Octavia and Neutron write an error.
#[derive(Deserialize)]
struct Fault {
    error: Option<Inner>,
    #[serde(rename = "NeutronError")]
    neutron: Option<Inner>,
    faultstring: Option<String>,
    description: Option<String>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct Inner {
    message: Option<String>,
}

/// Returns the message of an error body, if a service wrote it and not, say, a proxy.
pub(crate) fn words(body: &[u8]) -> Option<String> {
    let fault = serde_json::from_slice::<Fault>(body).ok()?;
    let inner = fault.error.or(fault.neutron).and_then(|inner| inner.message);
    let text = inner.or(fault.faultstring).or(fault.description).or(fault.message)?;
    Some(first_line(&text)).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(header::HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    fn read(code: u16, body: &str) -> Error {
        refusal("GET /x", StatusCode::from_u16(code).unwrap(), &HeaderMap::new(), body.as_bytes())
    }

    #[test]
    fn statuses_and_the_words_of_every_service() {
        let m = |text: &str| format!("GET /x: {text}");
        for (code, body, expected) in [
            (
                401,
                r#"{"error":{"code":401,"message":"no","title":"Unauthorized"}}"#,
                Error::Unauthorized { message: m("401 no") },
            ),
            (
                403,
                r#"{"faultcode":"Client","faultstring":"Policy does not allow","debuginfo":null}"#,
                Error::Forbidden { message: m("403 Policy does not allow") },
            ),
            (404, r#"{"NeutronError":{"message":"gone"}}"#, Error::NotFound { message: m("404 gone") }),
            (
                400,
                r#"{"code":400,"title":"Bad Request","description":"limit 'abc'"}"#,
                Error::Refused { message: m("400 limit 'abc'") },
            ),
            (
                400,
                r#"{"faultcode":"Client","faultstring":"Supplied pagination marker a-b is not valid"}"#,
                Error::InvalidMarker { message: m("400 Supplied pagination marker a-b is not valid") },
            ),
            (429, "", Error::RateLimited { message: m("429 Too Many Requests"), retry_after: None }),
            (
                500,
                "<h1><p>Internal Server Error</p></h1>",
                Error::Server { message: m("500 Internal Server Error"), status: 500, retry_after: None },
            ),
            (302, "", Error::Refused { message: m("302 Found (redirects, to elsewhere, are not followed)") }),
        ] {
            assert_eq!(read(code, body), expected, "{code} {body}");
        }
    }

    #[test]
    fn retry_after_in_seconds_and_as_a_date() {
        let date = (header::DATE, "Sat, 21 Nov 2026 04:00:00 GMT");
        for (pairs, seconds) in [
            (vec![], None),
            (vec![(header::RETRY_AFTER, "7")], Some(7)),
            (vec![(header::RETRY_AFTER, "soon")], None),
            (vec![(header::RETRY_AFTER, "-1")], None),
            (vec![(header::RETRY_AFTER, "Sat, 21 Nov 2026 04:01:30 GMT"), date.clone()], Some(90)),
            (vec![(header::RETRY_AFTER, "Sat, 21 Nov 2026 03:00:00 GMT"), date.clone()], Some(0)),
            (vec![(header::RETRY_AFTER, "Sat, 21 Nov 2026 04:01:30 GMT")], None),
        ] {
            assert_eq!(retry_after(&headers(&pairs)), seconds.map(Duration::from_secs), "{pairs:?}");
        }
    }

    #[test]
    fn the_servers_clock() {
        let time =
            |text: &'static str| Answer { headers: headers(&[(header::DATE, text)]), body: Bytes::new() }.server_time();
        assert_eq!(time("Sat, 21 Nov 2026 04:00:00 GMT"), Some("2026-11-21T04:00:00Z".parse().unwrap()));
        assert_eq!(time("yesterday"), None);
    }
}
