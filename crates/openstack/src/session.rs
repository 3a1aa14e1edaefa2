//! Calls with a token of one scope.

use std::sync::Arc;

use gimbal_load_balancing::rows::Project;
use reqwest::Url;

use crate::answer::Answer;
use crate::cloud::Shared;
use crate::slot::Slot;
use crate::token::Token;
use crate::transport::Question;
use crate::{CallKind, Error, LoadBalancing, Projects, Scope};

/// One scope of a cloud. As long as it lives, its token is kept.
#[derive(Debug, Clone)]
pub struct Session {
    pub(crate) shared: Arc<Shared>,
    scope: Scope,
    slot: Arc<Slot>,
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>, scope: Scope, slot: Arc<Slot>) -> Self {
        Self { shared, scope, slot }
    }

    /// What its token is good for.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Names of the roles that the user has in this scope.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::Forbidden`] when there is none.
    pub async fn roles(&self) -> Result<Vec<String>, Error> {
        Ok(self.token().await?.roles.clone())
    }

    /// The project that the token is scoped to, if it is to one.
    ///
    /// # Errors
    /// As [`Session::roles`].
    pub async fn project(&self) -> Result<Option<Project>, Error> {
        Ok(self.token().await?.project.clone())
    }

    /// All projects of the cloud (`/v3/projects`), for those who may list them; also those for which this user may have no
    /// token.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::Forbidden`] for most users.
    pub async fn all_projects(&self) -> Result<Projects, Error> {
        self.projects_at("projects").await
    }

    /// Finds where load balancing is served, as the token's catalog has it now.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::Catalog`] where it is not served, or in several regions of which none was named.
    pub async fn load_balancing(&self) -> Result<LoadBalancing, Error> {
        let (dialect, url) = self.token().await?.load_balancing.clone()?;
        Ok(LoadBalancing::new(self.clone(), dialect, url))
    }

    pub(crate) async fn projects_at(&self, path: &str) -> Result<Projects, Error> {
        Projects::read(&self.get(CallKind::Projects, self.shared.keystone(path)).await?)
    }

    pub(crate) async fn token(&self) -> Result<Arc<Token>, Error> {
        self.slot.token(async || self.make().await).await
    }

    async fn make(&self) -> Result<Token, Error> {
        match &self.scope {
            Scope::Unscoped | Scope::Bound => self.shared.authenticate().await,
            scope => self.shared.rescope(scope).await,
        }
    }

    /// A GET. A 401 may mean a token that was revoked: another one is tried, once.
    pub(crate) async fn get(&self, kind: CallKind, url: Url) -> Result<Answer, Error> {
        let token = self.token().await?;
        let mut question = Question::get(kind, url, Some(&token.value));
        match self.shared.transport.ask(&question).await {
            Err(Error::Unauthorized { .. }) => {}
            result => return result,
        }
        self.shared.transport.calls.add_rejected_token();
        let token = self.slot.another(&token, async || self.make().await).await?;
        question.headers.insert("x-auth-token", token.value.clone());
        self.shared.transport.ask(&question).await
    }
}
