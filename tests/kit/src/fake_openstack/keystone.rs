//! Tokens and projects.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::FakeCloud;
use super::answer::{Answer, Asked};
use super::cloud::Token;

impl FakeCloud {
    /// Revokes every token issued so far.
    pub fn revoke_tokens(&mut self) {
        self.tokens.clear();
    }

    /// Returns the token of a request, if it is accepted.
    pub(super) fn token(&self, asked: &Asked) -> Option<&Token> {
        self.tokens.get(&asked.token).filter(|token| token.expires_at > Timestamp::now())
    }

    /// An unknown user and one without a role get the same answer, as from the real service.
    pub(super) fn issue_token(&mut self, asked: &Asked) -> Answer {
        let auth = &asked.body["auth"];
        let identity = &auth["identity"];
        let lives_until = Timestamp::now() + self.token_life;
        let mut is_bound = false;
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
            is_bound = true;
            (lives_until, self.projects.first().cloned())
        } else {
            let value = identity["token"]["id"].as_str().unwrap_or_default();
            let Some(token) = self.tokens.get(value).filter(|token| token.expires_at > Timestamp::now()) else {
                return Answer::status(404);
            };
            if token.bound {
                return Answer::no_rescoping();
            }
            // A new scope does not extend the token's life.
            (token.expires_at, None)
        };
        let project = match self.scope(&auth["scope"]) {
            Ok(project) => project.or(bound),
            Err(refused) => return refused,
        };
        let system = auth["scope"]["system"]["all"] == true;
        self.give(Token { project: None, bound: is_bound, system, expires_at }, project)
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

    fn give(&mut self, token: Token, project: Option<Value>) -> Answer {
        self.issued += 1;
        let value = format!("fake-token-{}", self.issued);
        let id = project.as_ref().and_then(|project| project["id"].as_str()).map(str::to_owned);
        let token = Token { project: id, ..token };
        let mut said = self.described(&token);
        if token.project.is_some() || token.system {
            let own = if self.octavia { "load-balancer" } else { "network" };
            let endpoint = json!({"interface": "public", "region": "fake", "region_id": "fake", "url": self.url});
            let kinds = self.catalog.clone().unwrap_or_else(|| vec![own]);
            said["project"] = project.unwrap_or_default();
            said["catalog"] = kinds.iter().map(|kind| json!({"type": kind, "endpoints": [&endpoint]})).collect();
        }
        self.tokens.insert(value.clone(), token);
        Answer::json(201, &json!({"token": said})).with_header("x-subject-token", &value)
    }

    /// Returns Keystone's description of a token. Its roles are computed for every request.
    fn described(&self, token: &Token) -> Value {
        let mut said = json!({"issued_at": Timestamp::now().to_string(), "expires_at": token.expires_at.to_string()});
        if token.project.is_some() || token.system {
            let roles = if self.global { vec!["member", "load-balancer_global_observer"] } else { vec!["member"] };
            said["roles"] =
                roles.into_iter().chain(self.roles.iter().copied()).map(|name| json!({"name": name})).collect();
        }
        said
    }

    pub(super) fn keystone(&self, path: &[&str], asked: &Asked) -> Answer {
        if self.token(asked).is_none() {
            return Answer::unauthorized();
        }
        let mut body = match path {
            ["auth", "tokens"] => return self.looked_at(asked),
            ["auth", "projects"] => {
                let own: Vec<_> = self.projects.iter().filter(|project| !self.is_foreign(project)).collect();
                json!({"projects": own, "links": {"next": null}})
            }
            ["projects"] if !self.global => return Answer::forbidden(),
            ["projects"] => match self.page_of_projects(asked) {
                Ok(page) => page,
                Err(refused) => return refused,
            },
            ["projects", id] => match self.projects.iter().find(|project| project["id"] == *id) {
                _ if !self.global => return Answer::forbidden(),
                None => return Answer::status(404),
                Some(project) => return Answer::json(200, &json!({"project": project})),
            },
            _ => return Answer::status(404),
        };
        if self.projects_truncated {
            body["truncated"] = true.into();
        }
        Answer::json(200, &body)
    }

    /// Answers a token that asks about itself.
    fn looked_at(&self, asked: &Asked) -> Answer {
        match self.tokens.get(&asked.subject).filter(|_| asked.subject == asked.token) {
            Some(token) => Answer::json(200, &json!({"token": self.described(token)})),
            None => Answer::status(404),
        }
    }

    /// As in Keystone 27: returns at most its maximum, and indicates more only to requests for a page. Earlier versions
    /// have no pages, and a maximum only if `list_limit` is set.
    fn page_of_projects(&self, asked: &Asked) -> Result<Value, Answer> {
        let mut rows: Vec<_> = self.projects.iter().collect();
        rows.sort_by_key(|project| project["id"].as_str().unwrap_or_default());
        if !self.projects_paged {
            return Ok(json!({"projects": rows, "links": {"next": null}}));
        }
        let start = match asked.marker() {
            None => 0,
            Some(marker) => match rows.iter().position(|project| project["id"] == *marker) {
                Some(at) => at + 1,
                None => return Err(Answer::status(404)),
            },
        };
        let limit = asked.limit().map(|limit| limit.min(self.projects_max));
        let page: Vec<_> =
            rows.into_iter().skip(start).take(self.projects_max).take(limit.unwrap_or(usize::MAX)).collect();
        let full = limit.is_some_and(|limit| page.len() >= limit);
        let mut body = json!({"projects": page, "links": {"next": null}});
        if full {
            body["truncated"] = true.into();
            body["links"]["next"] = format!("{}/nowhere", self.url).into();
        }
        Ok(body)
    }

    fn is_foreign(&self, project: &Value) -> bool {
        project["id"].as_str().is_some_and(|id| self.foreign.contains(id))
    }
}
