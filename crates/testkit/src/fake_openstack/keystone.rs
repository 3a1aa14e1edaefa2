//! Tokens and projects.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::FakeCloud;
use super::answer::{Answer, Asked};
use super::cloud::Token;

impl FakeCloud {
    /// Makes every token that was given out worthless.
    pub fn revoke_tokens(&mut self) {
        self.tokens.clear();
    }

    /// The token of a request, if it is accepted.
    pub(super) fn token(&self, asked: &Asked) -> Option<&Token> {
        self.tokens.get(&asked.token).filter(|token| token.expires_at > Timestamp::now())
    }

    /// Whoever is not known, or has no role, hears the same, as from the real one.
    pub(super) fn issue_token(&mut self, asked: &Asked) -> Answer {
        let auth = &asked.body["auth"];
        let identity = &auth["identity"];
        let lives_until = Timestamp::now() + self.token_life;
        let (expires_at, bound) = if identity["methods"] == json!(["password"]) {
            let user = &identity["password"]["user"];
            if user["name"] != "fake" || user["password"] != *self.password {
                return Answer::unauthorized();
            }
            (lives_until, None)
        } else if identity["methods"] == json!(["application_credential"]) {
            let credential = &identity["application_credential"];
            if credential["id"] != "fake" || credential["secret"] != *self.password {
                return Answer::unauthorized();
            }
            (lives_until, self.projects.first().cloned())
        } else {
            let value = identity["token"]["id"].as_str().unwrap_or_default();
            let Some(token) = self.tokens.get(value).filter(|token| token.expires_at > Timestamp::now()) else {
                return Answer::status(404);
            };
            // To change the scope does not prolong its life.
            (token.expires_at, None)
        };
        let project = match self.scope(&auth["scope"]) {
            Ok(project) => project.or(bound),
            Err(refused) => return refused,
        };
        self.give(expires_at, project)
    }

    fn scope(&self, scope: &Value) -> Result<Option<Value>, Answer> {
        let wanted = &scope["project"];
        if wanted.is_null() {
            return Ok(None);
        }
        let meant = |project: &&Value| project["id"] == wanted["id"] || project["name"] == wanted["name"];
        match self.projects.iter().find(meant) {
            Some(project) if !self.is_foreign(project) => Ok(Some(project.clone())),
            _ => Err(Answer::unauthorized()),
        }
    }

    fn give(&mut self, expires_at: Timestamp, project: Option<Value>) -> Answer {
        self.issued += 1;
        let value = format!("fake-token-{}", self.issued);
        let id = project.as_ref().and_then(|project| project["id"].as_str()).map(str::to_owned);
        self.tokens.insert(value.clone(), Token { project: id, expires_at });
        let mut token = json!({"issued_at": Timestamp::now().to_string(), "expires_at": expires_at.to_string()});
        if let Some(project) = project {
            let roles = if self.global { vec!["member", "load-balancer_global_observer"] } else { vec!["member"] };
            let kind = if self.octavia { "load-balancer" } else { "network" };
            let endpoint = json!({"interface": "public", "region": "fake", "region_id": "fake", "url": self.url});
            token["project"] = project;
            token["roles"] = roles.into_iter().map(|name| json!({"name": name})).collect();
            token["catalog"] = json!([{"type": kind, "endpoints": [endpoint]}]);
        }
        Answer::json(201, &json!({"token": token})).with_header("x-subject-token", &value)
    }

    pub(super) fn keystone(&self, path: &[&str], asked: &Asked) -> Answer {
        if self.token(asked).is_none() {
            return Answer::unauthorized();
        }
        let projects: Vec<_> = match path {
            ["auth", "projects"] => self.projects.iter().filter(|project| !self.is_foreign(project)).collect(),
            ["projects"] if self.global => self.projects.iter().collect(),
            ["projects"] => return Answer::forbidden(),
            _ => return Answer::status(404),
        };
        let mut body = json!({"projects": projects, "links": {"next": null}});
        if self.projects_truncated {
            body["truncated"] = true.into();
        }
        Answer::json(200, &body)
    }

    fn is_foreign(&self, project: &Value) -> bool {
        project["id"].as_str().is_some_and(|id| self.foreign.contains(id))
    }
}
