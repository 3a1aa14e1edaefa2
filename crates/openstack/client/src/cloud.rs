//! A connection to one cloud as one user.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use gimbal_octavia_rows::CompleteList;
use gimbal_octavia_rows::Project;
use http::{HeaderMap, Method};
use reqwest::Url;
use serde_json::Value;
use tokio::time::Instant;

use crate::page_size::PageSize;
use crate::slot::Slot;
use crate::token::Token;
use crate::transport::{ApiRequest, Transport};
use crate::{CallKind, Calls, CloudCredentials, Error, Session, TokenScope, keystone};

/// For this long after a scope was refused to a new base token, that token is not replaced because of the same scope.
const REFUSED: Duration = Duration::from_secs(30);

/// Options of the client.
#[derive(Clone)]
pub struct ClientOptions {
    /// The time-out for a connection. Default: 10 s.
    pub connect_timeout: Duration,
    /// The time-out for a page of load balancers, listeners, pools or L7 policies, for which an old Octavia needs many
    /// seconds. Default: 60 s.
    pub list_timeout: Duration,
    /// The time-out for any other call. Default: 30 s.
    pub timeout: Duration,
    /// The maximum total time that one call waits for `Retry-After`. A call that would wait longer fails. Default: 30
    /// s.
    pub longest_wait: Duration,
    /// The number of rows in a page, at most 1000. Default: 1000.
    pub page: u32,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// Returns numbers between 0 and 1 that spread the renewal of tokens.
    pub random: Arc<dyn Fn() -> f64 + Send + Sync>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            list_timeout: Duration::from_secs(60),
            timeout: Duration::from_secs(30),
            longest_wait: Duration::from_secs(30),
            page: 1000,
            user_agent: "gimbal-openstack".to_owned(),
            random: Arc::new(|| 0.0),
        }
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("connect_timeout", &self.connect_timeout)
            .field("list_timeout", &self.list_timeout)
            .field("timeout", &self.timeout)
            .field("longest_wait", &self.longest_wait)
            .field("page", &self.page)
            .field("user_agent", &self.user_agent)
            .finish_non_exhaustive()
    }
}

/// A client for one cloud. Clones share its connection pool, tokens and counters. Proxy settings of the environment are
/// ignored. Credentials that Keystone refused are presented again after a pause of five minutes that grows to an hour; other
/// credentials need another client.
#[derive(Debug, Clone)]
pub struct Cloud {
    shared: Arc<Shared>,
}

/// State that a cloud and its sessions share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub transport: Transport,
    pub credentials: CloudCredentials,
    random: Random,
    /// The token issued for the credentials. All other tokens are made from it, so the password is sent once in a
    /// token's lifetime.
    base: Arc<Slot>,
    /// The tokens of the existing sessions.
    slots: Mutex<HashMap<TokenScope, Weak<Slot>>>,
    /// Scopes that were refused to a base token that had just been issued, and when.
    refused: Mutex<HashMap<TokenScope, Instant>>,
    /// Page sizes, by the resource that is listed.
    pages: Mutex<HashMap<&'static str, Arc<PageSize>>>,
}

struct Random(Arc<dyn Fn() -> f64 + Send + Sync>);

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random")
    }
}

impl Cloud {
    /// Presents the credentials to Keystone and, if a scope was configured, requests a token for it.
    ///
    /// # Errors
    /// [`Error::InvalidCredentials`] if Keystone refuses them; [`Error::Forbidden`] if the user has no role on the
    /// configured project; any other error is not the credentials' fault.
    pub async fn connect(credentials: CloudCredentials, options: ClientOptions) -> Result<Self, Error> {
        let cloud = Self::new(credentials, options)?;
        let scope = cloud.shared.credentials.scope.clone();
        cloud.session(&scope).token().await?;
        Ok(cloud)
    }

    /// Like [`Cloud::connect`], but sends nothing yet.
    ///
    /// # Errors
    /// Fails only if the HTTP client cannot be set up.
    pub fn new(credentials: CloudCredentials, options: ClientOptions) -> Result<Self, Error> {
        let random = Random(options.random.clone());
        let transport = Transport::new(&credentials, options)?;
        let base = Arc::new(Slot::from_credentials());
        let (slots, refused, pages) = (Mutex::default(), Mutex::default(), Mutex::default());
        let shared = Shared { transport, credentials, random, base, slots, refused, pages };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns Keystone's URL, including `/v3`.
    #[must_use]
    pub fn keystone_url(&self) -> String {
        self.shared.credentials.keystone.to_string()
    }

    /// Returns the configured region, if any.
    #[must_use]
    pub fn region(&self) -> Option<&str> {
        self.shared.credentials.region.as_deref()
    }

    /// Returns the configured scope, if any. That of an application credential counts as configured.
    #[must_use]
    pub fn scope(&self) -> Option<&TokenScope> {
        self.shared.credentials.scope()
    }

    /// Returns the counters of all calls.
    #[must_use]
    pub fn calls(&self) -> Arc<Calls> {
        self.shared.transport.calls.clone()
    }

    /// Begins another round of calls. In each round, calls that a server answers with 502 or 503 are repeated once,
    /// until one of them fails again.
    pub fn begin_round(&self) {
        self.shared.transport.allow_second_tries();
    }

    /// Lists the projects for which this user may get a token (`/v3/auth/projects`). With an application credential,
    /// only its own project can be used.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::Cut`] if Keystone returns only a part of the list.
    pub async fn projects(&self) -> Result<CompleteList<Project>, Error> {
        let scope = match self.shared.credentials.scope {
            TokenScope::Bound => TokenScope::Bound,
            _ => TokenScope::Unscoped,
        };
        self.session(&scope).own_projects().await
    }

    /// Returns a session with a token of this scope, which is requested when it is first needed.
    #[must_use]
    pub fn session(&self, scope: &TokenScope) -> Session {
        let slot = match scope {
            TokenScope::Unscoped | TokenScope::Bound => self.shared.base.clone(),
            scoped => self.shared.slot(scoped),
        };
        Session::new(self.shared.clone(), scope.clone(), slot)
    }
}

impl Shared {
    /// Returns the token slot of a scope, which all sessions of that scope share. It is dropped with the last of them.
    fn slot(&self, scope: &TokenScope) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(scope).and_then(Weak::upgrade) {
            return slot;
        }
        slots.retain(|_, slot| slot.strong_count() > 0);
        let slot = Arc::new(Slot::default());
        slots.insert(scope.clone(), Arc::downgrade(&slot));
        slot
    }

    /// Returns the page size of the lists of a resource.
    pub(crate) fn page_size(&self, resource: &'static str) -> Arc<PageSize> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.entry(resource).or_insert_with(|| Arc::new(PageSize::new(self.transport.page()))).clone()
    }

    /// Returns a URL below Keystone's `/v3`.
    pub(crate) fn keystone(&self, path: &str) -> Url {
        let mut url = self.credentials.keystone.clone();
        url.set_path(&format!("{}/{path}", url.path()));
        url
    }

    /// Requests a token with the credentials. A 401 is final here: only other credentials would help.
    pub(crate) async fn authenticate(&self) -> Result<Token, Error> {
        self.issue(keystone::by_proof(&self.credentials)).await.map_err(|error| match error {
            Error::Unauthorized { message } => Error::InvalidCredentials { message },
            other => other,
        })
    }

    /// Returns the token issued for the credentials.
    pub(crate) async fn base(&self) -> Result<Arc<Token>, Error> {
        self.base.token(async || self.authenticate().await).await
    }

    /// Requests a token of another scope with the base token. Keystone answers 404 if the base token was revoked, 401
    /// if it is not accepted, and also 401 if the user has no role on the project. A retry with a new base token shows
    /// which it was.
    pub(crate) async fn rescope(&self, scope: &TokenScope) -> Result<Token, Error> {
        let base = self.base().await?;
        let no_role = |message| Error::Forbidden { message: format!("{message}: no role on {scope:?}") };
        match self.issue(keystone::by_token(&base.value, scope)).await {
            // Whoever tries again and again must not log in each time.
            Err(Error::Unauthorized { message }) if self.was_refused_lately(scope) => return Err(no_role(message)),
            Err(Error::Unauthorized { .. } | Error::NotFound { .. }) => {}
            result => return result,
        }
        let base = self.base.another(&base, async || self.authenticate().await).await?;
        let result = self.issue(keystone::by_token(&base.value, scope)).await;
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.remove(scope);
        result.map_err(|error| match error {
            Error::Unauthorized { message } => {
                refused.insert(scope.clone(), Instant::now());
                no_role(message)
            }
            other => other,
        })
    }

    /// Returns whether a new base token did not help for a scope a moment ago.
    fn was_refused_lately(&self, scope: &TokenScope) -> bool {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.retain(|_, at| at.elapsed() < REFUSED);
        refused.contains_key(scope)
    }

    async fn issue(&self, body: Value) -> Result<Token, Error> {
        let asked = Instant::now();
        let question = ApiRequest {
            kind: Some(CallKind::Token),
            labels: None,
            method: Method::POST,
            url: self.keystone("auth/tokens"),
            headers: HeaderMap::new(),
            body: Bytes::from(body.to_string()),
            timeout: None,
            permit: None,
        };
        let answer = self.transport.ask(&question).await?;
        Token::read(&answer, &self.credentials, asked, (self.random.0)())
    }
}
