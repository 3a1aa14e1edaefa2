//! A token and its lifetime. Pure: the time is an argument.

use std::time::Duration;

use gimbal_octavia_rows::Project;
use http::HeaderValue;
use jiff::Timestamp;
use serde::Deserialize;
use tokio::time::Instant;

use crate::answer::Answer;
use crate::keystone::Role;
use crate::service::CatalogEndpoints;
use crate::{CloudCredentials, Error, catalog};

/// A token and the details that Keystone returned with it. The value is marked as sensitive, so that `Debug` does not
/// show it.
#[derive(Debug)]
pub(crate) struct Token {
    pub value: HeaderValue,
    /// The names of the roles that the user had in the token's scope when it was issued.
    pub roles: Vec<String>,
    /// The project that the token is scoped to, if any.
    pub project: Option<Project>,
    /// The endpoints of the services for this token: their URLs may contain the project's ID.
    pub endpoints: CatalogEndpoints,
    renew_at: Instant,
    ends_at: Instant,
}

#[derive(Deserialize)]
struct Body {
    token: Described,
}

#[derive(Deserialize)]
struct Described {
    expires_at: Timestamp,
    issued_at: Option<Timestamp>,
    #[serde(default)]
    roles: Vec<Role>,
    project: Option<Project>,
    #[serde(default)]
    catalog: Vec<catalog::CatalogService>,
}

impl Token {
    /// Reads the answer to a request that was sent at `asked`. `random`, between 0 and 1, moves the renewal, so that a
    /// thousand tokens that were issued together are not renewed together.
    pub(crate) fn read(
        answer: &Answer,
        credentials: &CloudCredentials,
        asked: Instant,
        random: f64,
    ) -> Result<Self, Error> {
        let undecodable = |problem: &str| Error::Undecodable { message: format!("a token: {problem}") };
        let Some(mut value) = answer.headers.get("x-subject-token").cloned() else {
            return Err(undecodable("there is no header X-Subject-Token"));
        };
        value.set_sensitive(true);
        let Body { token } = serde_json::from_slice(&answer.body).map_err(|error| undecodable(&error.to_string()))?;
        // Compare only the server's times: this machine's clock may be off by more than a token's lifetime.
        let Some(now) = answer.server_time().or(token.issued_at) else {
            return Err(undecodable("neither a header Date nor issued_at says when it was issued"));
        };
        let life = Duration::try_from(token.expires_at.duration_since(now)).unwrap_or_default();
        if life.is_zero() {
            return Err(undecodable(&format!("it ended at {}, and it is {now} there", token.expires_at)));
        }
        Ok(Self {
            value,
            roles: token.roles.into_iter().map(|role| role.name).collect(),
            project: token.project,
            endpoints: catalog::endpoints(&token.catalog, credentials),
            renew_at: asked + life.mul_f64(0.8 - 0.1 * random.clamp(0.0, 1.0)),
            ends_at: asked + life,
        })
    }

    /// Returns whether the token is due for renewal.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.renew_at
    }

    /// Returns whether the token has not expired. It may have been revoked.
    pub(crate) fn is_good(&self, now: Instant) -> bool {
        now < self.ends_at
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, header};
    use serde_json::{Value, json};

    use super::*;

    pub(crate) fn credentials() -> CloudCredentials {
        let settings = [("OS_AUTH_URL", "http://k"), ("OS_USERNAME", "u"), ("OS_PASSWORD", "p")];
        CloudCredentials::from_env(|name| settings.iter().find(|(key, _)| *key == name).map(|pair| pair.1.to_owned()))
            .unwrap()
    }

    pub(crate) fn answer(date: Option<&'static str>, token: &Value) -> Answer {
        let mut headers = HeaderMap::new();
        headers.insert("x-subject-token", HeaderValue::from_static("very-secret"));
        if let Some(date) = date {
            headers.insert(header::DATE, HeaderValue::from_static(date));
        }
        Answer { headers, body: Bytes::from(json!({"token": token}).to_string()) }
    }

    const DATE: &str = "Sat, 21 Nov 2026 04:00:00 GMT";

    #[test]
    fn renewed_before_four_fifths_of_its_life_by_the_servers_clock() {
        let now = Instant::now();
        let an_hour = json!({"expires_at": "2026-11-21T05:00:00.000000Z"});
        for (random, due) in [(0.0, 2880), (0.5, 2700), (1.0, 2520), (7.0, 2520)] {
            let token = Token::read(&answer(Some(DATE), &an_hour), &credentials(), now, random).unwrap();
            let at = |seconds| now + Duration::from_secs(seconds);
            assert!(!token.is_due(at(due - 1)) && token.is_due(at(due + 1)), "{random}");
            assert!(token.is_good(at(3599)) && !token.is_good(at(3600)));
        }
    }

    #[test]
    fn without_a_date_its_issue_counts() {
        let now = Instant::now();
        let token = json!({"expires_at": "2026-11-21T05:00:00Z", "issued_at": "2026-11-21T04:59:50Z"});
        let token = Token::read(&answer(None, &token), &credentials(), now, 0.0).unwrap();
        assert!(!token.is_good(now + Duration::from_secs(10)));
    }

    #[test]
    fn what_is_no_token() {
        let read = |date, token: &Value| {
            Token::read(&answer(date, token), &credentials(), Instant::now(), 0.0).unwrap_err().to_string()
        };
        assert_eq!(
            read(Some(DATE), &json!({"expires_at": "2026-11-21T04:00:00Z"})),
            "cannot read the answer: a token: it ended at 2026-11-21T04:00:00Z, and it is 2026-11-21T04:00:00Z there"
        );
        assert!(read(None, &json!({"expires_at": "2026-11-21T04:00:00Z"})).contains("neither a header Date"));
        assert!(read(Some(DATE), &json!({})).contains("missing field `expires_at`"));
        let nameless = Answer { headers: HeaderMap::new(), body: Bytes::new() };
        let error = Token::read(&nameless, &credentials(), Instant::now(), 0.0).unwrap_err();
        assert!(error.to_string().ends_with("there is no header X-Subject-Token"));
    }

    #[test]
    fn debug_does_not_show_it() {
        let token = json!({"expires_at": "2026-11-21T05:00:00Z", "project": {"id": "x", "name": "alpha"}});
        let token = Token::read(&answer(Some(DATE), &token), &credentials(), Instant::now(), 0.0).unwrap();
        let shown = format!("{token:?}");
        assert!(shown.contains("alpha") && !shown.contains("very-secret"), "{shown}");
    }
}
