//! What is said to Keystone, and what it says of projects. Pure.

use gimbal_load_balancing::List;
use gimbal_load_balancing::rows::Project;
use http::HeaderValue;
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::credentials::{Proof, User};
use crate::page;
use crate::{Credentials, Domain, Error, Scope};

/// A list of projects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projects {
    /// What came.
    pub list: List<Project>,
    /// Keystone cut the list off (`list_limit`): what is not in it may be there all the same.
    pub truncated: bool,
}

#[derive(Deserialize)]
struct Cut {
    #[serde(default)]
    truncated: bool,
    #[serde(default)]
    links: Links,
}

#[derive(Default, Deserialize)]
struct Links {
    #[serde(default)]
    next: Option<String>,
}

impl Projects {
    pub(crate) fn read(answer: &Answer) -> Result<Self, Error> {
        let page = page::Page::read("projects", &answer.body)?;
        let cut: Cut = serde_json::from_slice(&answer.body)
            .map_err(|error| Error::Undecodable { message: format!("projects: {error}") })?;
        let (rows, unreadable) = page.decode();
        let list = List { rows, unreadable, server_time: answer.server_time() };
        Ok(Self { list, truncated: cut.truncated || cut.links.next.is_some() })
    }
}

/// Asks for a token with what the user was given. The body holds a secret.
pub(crate) fn by_proof(credentials: &Credentials) -> Value {
    match &credentials.proof {
        // Said, since Keystone would scope it to the user's default project otherwise.
        Proof::Password { user, password } => {
            let mut user = user_json(user);
            user["password"] = password.expose_secret().into();
            json!({"auth": {
                "identity": {"methods": ["password"], "password": {"user": user}},
                "scope": "unscoped",
            }})
        }
        Proof::Credential { id, secret } => {
            by_application_credential(json!({"id": id, "secret": secret.expose_secret()}))
        }
        Proof::NamedCredential { name, user, secret } => {
            by_application_credential(json!({"name": name, "user": user_json(user), "secret": secret.expose_secret()}))
        }
    }
}

fn by_application_credential(credential: Value) -> Value {
    json!({"auth": {"identity": {"methods": ["application_credential"], "application_credential": credential}}})
}

/// Asks for a token of another scope with a token. It lives no longer than the first.
pub(crate) fn by_token(token: &HeaderValue, scope: &Scope) -> Value {
    let token = String::from_utf8_lossy(token.as_bytes());
    json!({"auth": {
        "identity": {"methods": ["token"], "token": {"id": token}},
        "scope": scope_json(scope),
    }})
}

fn scope_json(scope: &Scope) -> Value {
    match scope {
        Scope::Unscoped | Scope::Bound => "unscoped".into(),
        Scope::Project(id) => json!({"project": {"id": id}}),
        Scope::NamedProject { name, domain } => json!({"project": {"name": name, "domain": domain_json(domain)}}),
        Scope::System => json!({"system": {"all": true}}),
    }
}

fn user_json(user: &User) -> Value {
    match user {
        User::Id(id) => json!({"id": id}),
        User::Name { name, domain } => json!({"name": name, "domain": domain_json(domain)}),
    }
}

fn domain_json(domain: &Domain) -> Value {
    match domain {
        Domain::Id(id) => json!({"id": id}),
        Domain::Name(name) => json!({"name": name}),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;

    fn auth(settings: &[(&str, &str)]) -> String {
        let all = [("OS_AUTH_URL", "http://k")];
        let find = |name: &str| settings.iter().chain(&all).find(|(key, _)| *key == name).map(|pair| pair.1.to_owned());
        by_proof(&Credentials::from_env(find).unwrap()).to_string()
    }

    #[test]
    fn what_is_shown_to_keystone() {
        for (settings, expected) in [
            (
                vec![("OS_USERNAME", "u"), ("OS_PASSWORD", "p"), ("OS_USER_DOMAIN_NAME", "d")],
                r#"{"auth":{"identity":{"methods":["password"],"password":{"user":{"domain":{"name":"d"},"name":"u","password":"p"}}},"scope":"unscoped"}}"#,
            ),
            (
                vec![("OS_USER_ID", "i"), ("OS_PASSWORD", "p"), ("OS_PROJECT_ID", "x")],
                r#"{"auth":{"identity":{"methods":["password"],"password":{"user":{"id":"i","password":"p"}}},"scope":"unscoped"}}"#,
            ),
            (
                vec![("OS_APPLICATION_CREDENTIAL_ID", "c"), ("OS_APPLICATION_CREDENTIAL_SECRET", "s")],
                r#"{"auth":{"identity":{"application_credential":{"id":"c","secret":"s"},"methods":["application_credential"]}}}"#,
            ),
            (
                vec![
                    ("OS_APPLICATION_CREDENTIAL_NAME", "c"),
                    ("OS_APPLICATION_CREDENTIAL_SECRET", "s"),
                    ("OS_USERNAME", "u"),
                ],
                r#"{"auth":{"identity":{"application_credential":{"name":"c","secret":"s","user":{"domain":{"id":"default"},"name":"u"}},"methods":["application_credential"]}}}"#,
            ),
        ] {
            assert_eq!(auth(&settings), expected);
        }
    }

    #[test]
    fn scopes() {
        let name = || "n".to_owned();
        for (scope, expected) in [
            (Scope::Project("x".into()), r#"{"project":{"id":"x"}}"#),
            (
                Scope::NamedProject { name: name(), domain: Domain::Id("d".into()) },
                r#"{"project":{"domain":{"id":"d"},"name":"n"}}"#,
            ),
            (Scope::System, r#"{"system":{"all":true}}"#),
            (Scope::Unscoped, r#""unscoped""#),
        ] {
            assert_eq!(scope_json(&scope).to_string(), expected);
        }
    }

    fn projects(body: &'static str) -> Result<Projects, Error> {
        Projects::read(&Answer { headers: HeaderMap::new(), body: Bytes::from_static(body.as_bytes()) })
    }

    #[test]
    fn a_list_of_projects_says_whether_it_is_whole() {
        let whole =
            projects(r#"{"projects":[{"id":"a","name":"x","domain_id":"d"},{"name":7}],"links":{"next":null}}"#);
        let whole = whole.unwrap();
        assert_eq!((whole.list.rows.len(), whole.list.unreadable.len(), whole.truncated), (1, 1, false));
        assert!(projects(r#"{"projects":[],"truncated":true}"#).unwrap().truncated);
        assert!(projects(r#"{"projects":[],"links":{"next":"http://k/v3/projects?marker=a"}}"#).unwrap().truncated);
        assert!(projects("{}").is_err());
    }
}
