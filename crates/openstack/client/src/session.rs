//! Calls with a token of one scope.

use std::collections::BTreeSet;
use std::sync::Arc;

use gimbal_octavia_rows::CompleteList;
use gimbal_octavia_rows::Project;
use reqwest::Url;

use crate::answer::Answer;
use crate::cloud::Shared;
use crate::keystone;
use crate::list_page::RowPage;
use crate::list_walk::{Walk, WalkStep};
use crate::send_permit::SendPermit;
use crate::service::below;
use crate::slot::Slot;
use crate::token::Token;
use crate::transport::ApiRequest;
use crate::{
    ApiLocation, CallKind, Error, LoadBalancing, Mutation, MutationRefusal, MutationResult, NotSent, ServiceEndpoint,
    ServiceType, TokenScope,
};

/// Rows in a page of projects. Keystone returns fewer if its `max_db_limit` is lower.
const PROJECTS_PER_PAGE: u32 = 1000;

/// A session in one scope of a cloud. Its token is cached while a session of the scope exists.
#[derive(Debug, Clone)]
pub struct Session {
    pub(crate) shared: Arc<Shared>,
    scope: TokenScope,
    slot: Arc<Slot>,
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>, scope: TokenScope, slot: Arc<Slot>) -> Self {
        Self { shared, scope, slot }
    }

    /// Returns the scope of the session's token.
    #[must_use]
    pub fn scope(&self) -> &TokenScope {
        &self.scope
    }

    /// Returns the names of the roles that the user had in this scope when the token was issued.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::Forbidden`] if the user has no role.
    pub async fn roles(&self) -> Result<BTreeSet<String>, Error> {
        Ok(self.token().await?.roles.iter().cloned().collect())
    }

    /// Returns the names of the roles that the user has in this scope now. Keystone computes them whenever a service
    /// validates the token, so a token stays valid after a role is lost, and sees less. Every token may validate
    /// itself.
    ///
    /// # Errors
    /// As [`Session::roles`]. A token that is no longer accepted is replaced once, which fails with
    /// [`Error::Forbidden`] if no role is left.
    pub async fn roles_now(&self) -> Result<BTreeSet<String>, Error> {
        let token = self.token().await?;
        match self.validate_token(&token).await {
            Err(Error::Unauthorized { .. } | Error::NotFound { .. }) => {}
            result => return result,
        }
        self.shared.transport.calls.add_rejected_token();
        let token = self.slot.another(&token, async || self.make().await).await?;
        self.validate_token(&token).await
    }

    async fn validate_token(&self, token: &Token) -> Result<BTreeSet<String>, Error> {
        let mut question = ApiRequest::get(CallKind::Roles, self.shared.keystone("auth/tokens"), Some(&token.value));
        question.url.query_pairs_mut().append_key_only("nocatalog");
        question.headers.insert("x-subject-token", token.value.clone());
        keystone::roles(&self.shared.transport.ask(&question).await?)
    }

    /// Returns the project that the token is scoped to, if any.
    ///
    /// # Errors
    /// As [`Session::roles`].
    pub async fn project(&self) -> Result<Option<Project>, Error> {
        Ok(self.token().await?.project.clone())
    }

    /// Lists all projects of the cloud (`/v3/projects`), also those for which this user gets no token, if the user may
    /// list them. Since release 27 Keystone returns at most 1,000 and says so only if a page is requested; earlier
    /// releases have no pagination.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::Forbidden`] for most users, [`Error::Cut`] if Keystone returns only a part of the list.
    pub async fn all_projects(&self) -> Result<CompleteList<Project>, Error> {
        let mut walk = Walk::of_a_silent_server();
        let mut complete = CompleteList::from(Vec::new());
        loop {
            let mut url = self.shared.keystone("projects");
            url.query_pairs_mut().append_pair("limit", &PROJECTS_PER_PAGE.to_string());
            if let Some(marker) = walk.marker() {
                url.query_pairs_mut().append_pair("marker", marker);
            }
            let answer = match self.get(CallKind::Projects, url).await {
                // Keystone answers 404 for a marker whose project was deleted.
                Err(Error::NotFound { message }) if walk.marker().is_some() => {
                    if !walk.restart() {
                        return Err(Error::InvalidMarker { message });
                    }
                    complete = CompleteList::from(Vec::new());
                    continue;
                }
                answer => answer?,
            };
            let page = keystone::projects(&answer)?;
            let step = match walk.add_page("projects", &page.ids, page.next, PROJECTS_PER_PAGE) {
                Err(Error::RepeatedPage { .. }) if page.next => return Err(cut()),
                step => step?,
            };
            complete.server_time = complete.server_time.or_else(|| answer.server_time());
            if step != WalkStep::Echo {
                add(&mut complete, page);
            }
            if step != WalkStep::More {
                return Ok(complete);
            }
        }
    }

    /// Returns a client for the load balancing API, at the place that the token's catalog has now.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::Catalog`] if load balancing is not served, or served in several regions and none was
    /// configured.
    pub async fn load_balancing(&self) -> Result<LoadBalancing, Error> {
        let token = self.token().await?;
        let (dialect, url) = token.endpoints.load_balancing.clone()?;
        let place = ApiLocation::of(dialect, &url, token.project.as_ref());
        Ok(LoadBalancing::new(self.clone(), dialect, url, place))
    }

    /// Like [`Session::load_balancing`], but fails unless the API is served at `expected`, because another service's
    /// lists may be empty. A token whose catalog differs is dropped, because the catalog may be corrected soon.
    ///
    /// # Errors
    /// As [`Session::load_balancing`]; [`Error::Catalog`] also if the catalog has another place.
    pub async fn load_balancing_at(&self, expected: &ApiLocation) -> Result<LoadBalancing, Error> {
        let token = self.token().await?;
        let found = token.endpoints.load_balancing.clone().map(|(dialect, url)| {
            let place = ApiLocation::of(dialect, &url, token.project.as_ref());
            (place == *expected).then(|| LoadBalancing::new(self.clone(), dialect, url, place.clone())).ok_or(place)
        });
        match found {
            Ok(Ok(load_balancing)) => Ok(load_balancing),
            Ok(Err(place)) => {
                self.slot.forget(&token);
                let message = format!(
                    "it says that load balancing is served {place}, and at the start it was {expected}; \
                     start again if it has moved for good"
                );
                Err(Error::Catalog { message })
            }
            Err(error) => {
                self.slot.forget(&token);
                Err(error)
            }
        }
    }

    /// Lists the projects for which this user may get a token. This list has no pages.
    pub(crate) async fn own_projects(&self) -> Result<CompleteList<Project>, Error> {
        let answer = self.get(CallKind::Projects, self.shared.keystone("auth/projects")).await?;
        let page = keystone::projects(&answer)?;
        if page.next {
            return Err(cut());
        }
        let mut list = CompleteList::from(Vec::new());
        list.server_time = answer.server_time();
        add(&mut list, page);
        Ok(list)
    }

    pub(crate) async fn token(&self) -> Result<Arc<Token>, Error> {
        self.slot.token(async || self.make().await).await
    }

    async fn make(&self) -> Result<Token, Error> {
        match &self.scope {
            TokenScope::Unscoped | TokenScope::Bound => self.shared.authenticate().await,
            scope => self.shared.rescope(scope).await,
        }
    }

    pub(crate) async fn get(&self, kind: CallKind, url: Url) -> Result<Answer, Error> {
        let token = self.token().await?;
        let question = ApiRequest::get(kind, url, Some(&token.value));
        self.ask(token, question).await
    }

    /// Sends a GET with this token. After a 401 the token may have been revoked, so it is replaced and the request is
    /// repeated once.
    pub(crate) async fn ask(&self, token: Arc<Token>, mut question: ApiRequest) -> Result<Answer, Error> {
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

/// Changes.
impl Session {
    /// Returns where a service is served, as the token's catalog says now. Call this once, at start, and pass the
    /// result to every [`Session::mutate`].
    ///
    /// # Errors
    /// See [`Error`]; [`Error::Catalog`] if the service is not in the catalog.
    pub async fn endpoint(&self, service: ServiceType) -> Result<ServiceEndpoint, Error> {
        let token = self.token().await?;
        match token.endpoints.get(service) {
            Ok(url) => Ok(ServiceEndpoint::new(service, &url, token.project.as_ref())),
            Err(error) => {
                // The catalog may be corrected soon.
                self.slot.forget(&token);
                Err(error)
            }
        }
    }

    /// Sends a change once. The result says whether it happened, did not happen, or may have happened; no request is
    /// repeated unless the service has refused the token (401), which it checks before anything else. A `Retry-After`
    /// is returned and not waited for.
    ///
    /// `permit` returns whether the change may still be sent. It is called when a token and a connection are there and the
    /// request is about to be written; after false, nothing is sent ([`NotSent::NotPermitted`]). It must not block.
    pub async fn mutate(
        &self,
        at: &ServiceEndpoint,
        mutation: &Mutation,
        permit: impl Fn() -> bool + Send + Sync + 'static,
    ) -> MutationResult {
        let permit = SendPermit::new(permit);
        let token = match self.token().await {
            Ok(token) => token,
            Err(error) => return MutationResult::NotSent(NotSent::Failed(error)),
        };
        let result = self.mutate_with(&token, at, mutation, &permit).await;
        if !matches!(result, MutationResult::Refused(MutationRefusal { status: 401, .. })) {
            return result;
        }
        self.shared.transport.calls.add_rejected_token();
        match self.slot.another(&token, async || self.make().await).await {
            Ok(token) => self.mutate_with(&token, at, mutation, &permit).await,
            Err(error) => MutationResult::NotSent(NotSent::Failed(error)),
        }
    }

    async fn mutate_with(
        &self,
        token: &Arc<Token>,
        at: &ServiceEndpoint,
        mutation: &Mutation,
        permit: &SendPermit,
    ) -> MutationResult {
        match self.request(token, at, mutation, permit) {
            Ok(request) => self.shared.transport.mutate(&request, mutation.labels(at.service)).await,
            Err(error) => {
                if matches!(error, Error::Catalog { .. } | Error::Region { .. }) {
                    // The catalog may be corrected soon.
                    self.slot.forget(token);
                }
                MutationResult::NotSent(NotSent::Failed(error))
            }
        }
    }

    fn request(
        &self,
        token: &Token,
        at: &ServiceEndpoint,
        mutation: &Mutation,
        permit: &SendPermit,
    ) -> Result<ApiRequest, Error> {
        let mut url = below(&base_url(token, at)?, &mutation.path())?;
        for (key, value) in mutation.query() {
            url.query_pairs_mut().append_pair(key, value);
        }
        let mut headers = mutation.headers()?;
        headers.insert("x-auth-token", token.value.clone());
        let (method, body) = (mutation.method(), mutation.body().clone());
        let permit = Some(permit.clone());
        Ok(ApiRequest { kind: None, labels: None, method, url, headers, body, timeout: mutation.timeout(), permit })
    }
}

/// Returns the URL of a service by a token's catalog, which must have it where it was at the start.
pub(crate) fn base_url(token: &Token, at: &ServiceEndpoint) -> Result<Url, Error> {
    let base = token.endpoints.get(at.service)?;
    let found = ServiceEndpoint::new(at.service, &base, token.project.as_ref());
    if found == *at {
        return Ok(base);
    }
    let message = format!("it has {found}, and at the start it had {at}; start again if it has moved for good");
    Err(Error::Catalog { message })
}

fn add(list: &mut CompleteList<Project>, page: RowPage<'_>) {
    let (rows, unreadable) = page.decode();
    list.rows.extend(rows);
    list.unreadable.extend(unreadable);
}

fn cut() -> Error {
    let message = "projects: Keystone gives a part of them and no more; raise its list_limit".to_owned();
    Error::Cut { message }
}
