//! Request bodies for Keystone, and its answers about projects and roles. Pure.

use std::collections::BTreeSet;

use http::HeaderValue;
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::credentials::{Proof, User};
use crate::list_page::RowPage;
use crate::{CloudCredentials, Domain, Error, TokenScope};

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

/// Reads a page of projects. [`RowPage::next`] is set if Keystone says that there may be more: by a link, or only by
/// `truncated` where it has no pagination.
pub(crate) fn projects(answer: &Answer) -> Result<RowPage<'_>, Error> {
    let mut page = RowPage::read("projects", &answer.body)?;
    let cut: Cut = serde_json::from_slice(&answer.body)
        .map_err(|error| Error::Undecodable { message: format!("projects: {error}") })?;
    page.next = cut.truncated || cut.links.next.is_some();
    Ok(page)
}

/// Returns the names of the roles in Keystone's answer about a token.
pub(crate) fn roles(answer: &Answer) -> Result<BTreeSet<String>, Error> {
    let Looked { token } = serde_json::from_slice(&answer.body)
        .map_err(|error| Error::Undecodable { message: format!("the roles of a token: {error}") })?;
    Ok(token.roles.into_iter().map(|role| role.name).collect())
}

#[derive(Deserialize)]
struct Looked {
    token: Roles,
}

#[derive(Deserialize)]
struct Roles {
    #[serde(default)]
    roles: Vec<Role>,
}

/// A role, as tokens list them.
#[derive(Deserialize)]
pub(crate) struct Role {
    pub(crate) name: String,
}

/// Returns the body of a request for a token by credentials. The body contains a secret.
pub(crate) fn by_proof(credentials: &CloudCredentials) -> Value {
    match &credentials.proof {
        // Explicit, because Keystone would otherwise scope the token to the user's default project.
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

/// Returns the body of a request for a token of another scope by a token. The new token does not outlive the first.
pub(crate) fn by_token(token: &HeaderValue, scope: &TokenScope) -> Value {
    let token = String::from_utf8_lossy(token.as_bytes());
    json!({"auth": {
        "identity": {"methods": ["token"], "token": {"id": token}},
        "scope": scope_json(scope),
    }})
}

fn scope_json(scope: &TokenScope) -> Value {
    match scope {
        TokenScope::Unscoped | TokenScope::Bound => "unscoped".into(),
        TokenScope::Project(id) => json!({"project": {"id": id}}),
        TokenScope::NamedProject { name, domain } => json!({"project": {"name": name, "domain": domain_json(domain)}}),
        TokenScope::System => json!({"system": {"all": true}}),
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
        by_proof(&CloudCredentials::from_env(find).unwrap()).to_string()
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
            (TokenScope::Project("x".into()), r#"{"project":{"id":"x"}}"#),
            (
                TokenScope::NamedProject { name: name(), domain: Domain::Id("d".into()) },
                r#"{"project":{"domain":{"id":"d"},"name":"n"}}"#,
            ),
            (TokenScope::System, r#"{"system":{"all":true}}"#),
            (TokenScope::Unscoped, r#""unscoped""#),
        ] {
            assert_eq!(scope_json(&scope).to_string(), expected);
        }
    }

    fn answer(body: &'static str) -> Answer {
        Answer { headers: HeaderMap::new(), body: Bytes::from_static(body.as_bytes()) }
    }

    #[test]
    fn a_page_of_projects_says_whether_there_may_be_more() {
        for (body, more) in [
            (r#"{"projects":[{"id":"a","name":"x"},{"name":7}],"links":{"next":null}}"#, Some(false)),
            (r#"{"projects":[],"truncated":true}"#, Some(true)),
            (r#"{"projects":[],"links":{"next":"http://k/v3/projects?marker=a"}}"#, Some(true)),
            ("{}", None),
        ] {
            assert_eq!(projects(&answer(body)).ok().map(|page| page.next), more, "{body}");
        }
    }

    #[test]
    fn the_roles_of_a_token() {
        let some = roles(&answer(r#"{"token":{"roles":[{"id":"1","name":"b"},{"id":"2","name":"a"}]}}"#)).unwrap();
        assert_eq!(some.into_iter().collect::<Vec<_>>(), ["a", "b"]);
        assert!(roles(&answer(r#"{"token":{}}"#)).unwrap().is_empty());
        assert!(roles(&answer("{}")).is_err());
    }
}
