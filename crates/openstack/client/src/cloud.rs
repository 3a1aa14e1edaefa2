//! One cloud as one user.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use gimbal_octavia_rows::List;
use gimbal_octavia_rows::Project;
use http::{HeaderMap, Method};
use reqwest::Url;
use serde_json::Value;
use tokio::time::Instant;

use crate::page_size::PageSize;
use crate::slot::Slot;
use crate::token::Token;
use crate::transport::{Question, Transport};
use crate::{CallKind, Calls, Credentials, Error, Scope, Session, keystone};

/// How a cloud is asked.
#[derive(Clone)]
pub struct Options {
    /// How long a connection may take.
    pub connect_timeout: Duration,
    /// How long a page of load balancers, listeners, pools or L7 policies may take: an old Octavia needs many seconds.
    pub list_timeout: Duration,
    /// How long anything else may take.
    pub timeout: Duration,
    /// How long one call waits at most, all in all, for servers that say when to come again; beyond it, it fails.
    pub longest_wait: Duration,
    /// Rows a page, at most 1000.
    pub page: u32,
    /// How this client calls itself.
    pub user_agent: String,
    /// Gives numbers between 0 and 1 that move the renewal of tokens apart.
    pub random: Arc<dyn Fn() -> f64 + Send + Sync>,
}

impl Default for Options {
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

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("connect_timeout", &self.connect_timeout)
            .field("list_timeout", &self.list_timeout)
            .field("timeout", &self.timeout)
            .field("longest_wait", &self.longest_wait)
            .field("page", &self.page)
            .field("user_agent", &self.user_agent)
            .finish_non_exhaustive()
    }
}

/// A cloud, through one connection pool. Clones share it, its tokens and its counters. Proxies of the environment are not
/// used.
#[derive(Debug, Clone)]
pub struct Cloud {
    shared: Arc<Shared>,
}

/// What a cloud and its sessions have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub transport: Transport,
    pub credentials: Credentials,
    random: Random,
    /// The token that the credentials give; all others are made from it, so that the password is shown once a token's life.
    base: Arc<Slot>,
    /// The tokens of the sessions that there are.
    slots: Mutex<HashMap<Scope, Weak<Slot>>>,
    pub pages: HashMap<CallKind, PageSize>,
}

struct Random(Arc<dyn Fn() -> f64 + Send + Sync>);

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random")
    }
}

impl Cloud {
    /// Shows the credentials to Keystone and, where a scope was configured, asks for it too.
    ///
    /// # Errors
    /// [`Error::InvalidCredentials`] when Keystone says so; [`Error::Forbidden`] when the user has no role on the configured
    /// project; any other for what is not the credentials' fault.
    pub async fn connect(credentials: Credentials, options: Options) -> Result<Self, Error> {
        let cloud = Self::new(credentials, options)?;
        let scope = cloud.shared.credentials.scope.clone();
        cloud.session(&scope).token().await?;
        Ok(cloud)
    }

    /// As [`Cloud::connect`], without asking anything yet.
    ///
    /// # Errors
    /// Only when the HTTP client cannot be set up.
    pub fn new(credentials: Credentials, options: Options) -> Result<Self, Error> {
        let lists =
            [CallKind::LoadBalancers, CallKind::Listeners, CallKind::Pools, CallKind::L7Policies, CallKind::Members];
        let pages = lists.into_iter().map(|kind| (kind, PageSize::new(options.page))).collect();
        let random = Random(options.random.clone());
        let transport = Transport::new(&credentials, options)?;
        let shared = Shared { transport, credentials, random, base: Arc::default(), slots: Mutex::default(), pages };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Keystone's address, up to and with `/v3`.
    #[must_use]
    pub fn keystone_url(&self) -> String {
        self.shared.credentials.keystone.to_string()
    }

    /// The region that was configured.
    #[must_use]
    pub fn region(&self) -> Option<&str> {
        self.shared.credentials.region.as_deref()
    }

    /// The scope that was configured (an application credential's own is one), if any.
    #[must_use]
    pub fn scope(&self) -> Option<&Scope> {
        self.shared.credentials.scope()
    }

    /// What went over the wire.
    #[must_use]
    pub fn calls(&self) -> Arc<Calls> {
        self.shared.transport.calls.clone()
    }

    /// Another round of questions begins. In each of them a call to which a server says that it is away is tried once more,
    /// until one of those fails again.
    pub fn begin_round(&self) {
        self.shared.transport.hope_again();
    }

    /// The projects for which this user may have a token (`/v3/auth/projects`). Of an application credential only its own is
    /// of use.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::Cut`] when Keystone gives only a part of them.
    pub async fn projects(&self) -> Result<List<Project>, Error> {
        let scope = match self.shared.credentials.scope {
            Scope::Bound => Scope::Bound,
            _ => Scope::Unscoped,
        };
        self.session(&scope).own_projects().await
    }

    /// Talks to the cloud's services with a token of this scope, which is asked for when it is first needed.
    #[must_use]
    pub fn session(&self, scope: &Scope) -> Session {
        let slot = match scope {
            Scope::Unscoped | Scope::Bound => self.shared.base.clone(),
            scoped => self.shared.slot(scoped),
        };
        Session::new(self.shared.clone(), scope.clone(), slot)
    }
}

impl Shared {
    /// The slot of a scope: all sessions of one share it, and it goes with the last of them.
    fn slot(&self, scope: &Scope) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(scope).and_then(Weak::upgrade) {
            return slot;
        }
        slots.retain(|_, slot| slot.strong_count() > 0);
        let slot = Arc::new(Slot::default());
        slots.insert(scope.clone(), Arc::downgrade(&slot));
        slot
    }

    /// An address below Keystone's `/v3`.
    pub(crate) fn keystone(&self, path: &str) -> Url {
        let mut url = self.credentials.keystone.clone();
        url.set_path(&format!("{}/{path}", url.path()));
        url
    }

    /// Shows the credentials. A 401 is final here: nothing but other credentials would help.
    pub(crate) async fn authenticate(&self) -> Result<Token, Error> {
        self.issue(keystone::by_proof(&self.credentials)).await.map_err(|error| match error {
            Error::Unauthorized { message } => Error::InvalidCredentials { message },
            other => other,
        })
    }

    /// The token that the credentials give.
    pub(crate) async fn base(&self) -> Result<Arc<Token>, Error> {
        self.base.token(async || self.authenticate().await).await
    }

    /// Makes a token of another scope from the first one. Keystone answers 404 when that was revoked, 401 when it is not
    /// accepted, and 401 as well when there is no role on the project: only a first token that is new tells which it was.
    pub(crate) async fn rescope(&self, scope: &Scope) -> Result<Token, Error> {
        let base = self.base().await?;
        match self.issue(keystone::by_token(&base.value, scope)).await {
            Err(Error::Unauthorized { .. } | Error::NotFound { .. }) => {}
            result => return result,
        }
        let base = self.base.another(&base, async || self.authenticate().await).await?;
        self.issue(keystone::by_token(&base.value, scope)).await.map_err(|error| match error {
            Error::Unauthorized { message } => Error::Forbidden { message: format!("{message}: no role on {scope:?}") },
            other => other,
        })
    }

    async fn issue(&self, body: Value) -> Result<Token, Error> {
        let asked = Instant::now();
        let question = Question {
            kind: Some(CallKind::Token),
            method: Method::POST,
            url: self.keystone("auth/tokens"),
            headers: HeaderMap::new(),
            body: Bytes::from(body.to_string()),
            timeout: None,
        };
        let answer = self.transport.ask(&question).await?;
        Token::read(&answer, &self.credentials, asked, (self.random.0)())
    }
}
