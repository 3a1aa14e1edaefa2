//! The connection to the cloud: its client, where its services are, and each call with what came of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gimbal_octavia_plan::{ApiService, ApiVerb, ChangeOutcome, ServiceCall, ServiceRefusal};
use gimbal_octavia_registry::{CallAnswer, CloudCall, CloudRead};
use gimbal_openstack_client::{
    ClientOptions, Cloud, CloudCredentials, Complaint, Error, Mutation, MutationRefusal, MutationResult, NotSent,
    RawQuery, ServiceEndpoint, ServiceType, Session, TokenScope,
};
use serde_json::Value;

use crate::outages::{self, Outages};

/// How long a catalog without Neutron, or without Barbican, is believed.
const WITHOUT_NEUTRON: Duration = Duration::from_secs(60);
/// What is said where there is no Barbican.
const NO_KEY_MANAGER: &str = "the catalog has no service of type key-manager";
/// How long a certificate may take to be stored or removed: whatever else its router needs waits for that.
const SECRET_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the cloud's services are. Every token must say the same.
#[derive(Debug, Clone)]
pub struct CloudServices {
    /// Octavia.
    pub octavia: ServiceEndpoint,
    /// Neutron, or what the catalog says instead.
    neutron: Result<ServiceEndpoint, Error>,
}

/// Where Barbican is, and until when that is taken for granted.
type KeyManagerPlace = (Option<ServiceEndpoint>, Option<Instant>);

/// The connection to the cloud. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CloudAccess(Arc<Connection>);

#[derive(Debug)]
struct Connection {
    options: ClientOptions,
    state: Mutex<ConnectionState>,
    outages: Mutex<Outages>,
}

#[derive(Debug)]
struct ConnectionState {
    cloud: Cloud,
    credentials: CloudCredentials,
    /// As the first token's catalog had them, and until when that is taken for granted.
    services: Option<(CloudServices, Option<Instant>)>,
    /// Whether a policy names something of Neutron.
    needs_network: bool,
    key_manager: Option<KeyManagerPlace>,
    /// A session for each project keeps its token.
    sessions: BTreeMap<String, Session>,
}

impl CloudAccess {
    /// Returns a connection. Sends nothing yet. No call waits for a `Retry-After`: the registry does, which has other calls to make
    /// meanwhile.
    ///
    /// # Errors
    /// Fails only if the HTTP client cannot be set up.
    pub fn new(credentials: CloudCredentials, options: ClientOptions) -> Result<Self, Error> {
        let options = ClientOptions { longest_wait: Duration::ZERO, ..options };
        let cloud = Cloud::new(credentials.clone(), options.clone())?;
        let state = ConnectionState {
            cloud,
            credentials,
            services: None,
            needs_network: false,
            key_manager: None,
            sessions: BTreeMap::new(),
        };
        Ok(Self(Arc::new(Connection { options, state: Mutex::new(state), outages: Mutex::default() })))
    }

    fn with<T>(&self, work: impl FnOnce(&mut ConnectionState) -> T) -> T {
        work(&mut self.0.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the client, for its counters.
    #[must_use]
    pub fn cloud(&self) -> Cloud {
        self.with(|state| state.cloud.clone())
    }

    /// Uses other credentials from now on, unless they are the same. Returns whether they are others.
    ///
    /// # Errors
    /// Fails only if the HTTP client cannot be set up.
    pub fn replace(&self, credentials: CloudCredentials) -> Result<bool, Error> {
        if self.with(|state| state.credentials.show_the_same_as(&credentials)) {
            return Ok(false);
        }
        let cloud = Cloud::new(credentials.clone(), self.0.options.clone())?;
        self.with(|state| {
            (state.cloud, state.credentials) = (cloud, credentials);
            state.sessions.clear();
        });
        Ok(true)
    }

    /// Returns a session in a project.
    #[must_use]
    pub fn session(&self, project: &str) -> Session {
        self.with(|state| {
            let ConnectionState { cloud, sessions, .. } = state;
            let make = || match cloud.scope() {
                // An application credential has no other project than its own.
                Some(TokenScope::Bound) => cloud.session(&TokenScope::Bound),
                _ => cloud.session(&TokenScope::Project(project.to_owned())),
            };
            sessions.entry(project.to_owned()).or_insert_with(make).clone()
        })
    }

    /// Returns where the services are, as the first token's catalog had them. One without Neutron is looked at again.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn services(&self, session: &Session) -> Result<CloudServices, Error> {
        let known = self.with(|state| state.services.clone());
        if let Some((services, until)) = &known
            && until.is_none_or(|until| Instant::now() < until)
        {
            return Ok(services.clone());
        }
        let octavia = session.endpoint(ServiceType::LoadBalancer).await?;
        let neutron = match session.endpoint(ServiceType::Network).await {
            Err(error) if !matches!(error, Error::Catalog { .. }) => return Err(error),
            neutron => neutron,
        };
        // A catalog may be corrected; what it once had is required of every token from then on.
        let until = neutron.is_err().then(|| Instant::now() + WITHOUT_NEUTRON);
        let found = CloudServices { octavia, neutron };
        if known.is_none() && found.neutron.is_err() && !self.with(|state| state.needs_network) {
            tracing::warn!("the catalog has no service of type network: there are neither ports nor floating IPs");
        }
        Ok(self.with(|state| {
            if state.services.as_ref().is_none_or(|(known, _)| known.neutron.is_err()) {
                state.services = Some((found.clone(), until));
            }
            state.services.as_ref().map_or(found, |(services, _)| services.clone())
        }))
    }

    /// Takes note that a policy names something of Neutron. A catalog without it says nothing about what exists from then on.
    pub fn need_network(&self) {
        self.with(|state| state.needs_network = true);
    }

    /// Returns where Neutron is; `None` if the catalog does not have it: then there are neither ports nor floating IPs.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::Catalog`] if a policy [needs it](Self::need_network).
    pub async fn neutron(&self, session: &Session) -> Result<Option<ServiceEndpoint>, Error> {
        match self.services(session).await?.neutron {
            Ok(neutron) => Ok(Some(neutron)),
            Err(error) if self.with(|state| state.needs_network) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Returns where Barbican is, as the first token's catalog that had it said; `None` if there is none.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn key_manager(&self, session: &Session) -> Result<Option<ServiceEndpoint>, Error> {
        let known = self.with(|state| state.key_manager.clone());
        if let Some((place, until)) = known
            && until.is_none_or(|until| Instant::now() < until)
        {
            return Ok(place);
        }
        let place = match session.endpoint(ServiceType::KeyManager).await {
            Ok(place) => Some(place),
            Err(Error::Catalog { .. }) => None,
            Err(error) => return Err(error),
        };
        let until = place.is_none().then(|| Instant::now() + WITHOUT_NEUTRON);
        self.with(|state| state.key_manager = Some((place.clone(), until)));
        Ok(place)
    }

    async fn read_secrets(&self, session: &Session) -> CallAnswer {
        let refused = |words: String| CallAnswer::ReadRefused { words };
        let rows = match self.key_manager(session).await {
            Ok(None) => return refused(NO_KEY_MANAGER.to_owned()),
            Ok(Some(at)) => session.secrets(&at).await,
            Err(error) => Err(error),
        };
        match rows {
            Ok(rows) => CallAnswer::Rows(rows),
            // The cluster learns the answer, and not where Barbican is.
            Err(error @ (Error::Forbidden { .. } | Error::NotFound { .. })) => {
                refused(answer_in(&error).unwrap_or("the role does not allow it").to_owned())
            }
            Err(error) => CallAnswer::ReadFailed { words: unanswered(&error), retry_after: error.retry_after() },
        }
    }

    /// Makes one call. A change is sent once, and only if `permit` still returns true when its request is written.
    pub async fn call(
        &self,
        project: &str,
        what: &CloudCall,
        permit: impl Fn() -> bool + Send + Sync + 'static,
    ) -> CallAnswer {
        match what {
            CloudCall::Read(read) => self.read(project, read).await,
            CloudCall::Change(change) => self.change(project, &change.request(), permit).await,
        }
    }

    async fn read(&self, project: &str, read: &CloudRead) -> CallAnswer {
        let session = self.session(project);
        if read.service == ApiService::KeyManager {
            let answer = self.read_secrets(&session).await;
            let error = match &answer {
                CallAnswer::ReadFailed { words, .. } | CallAnswer::ReadRefused { words } => Some(words.as_str()),
                _ => None,
            };
            self.note(project, read.resource, error);
            return answer;
        }
        let at = match read.service {
            ApiService::Neutron => self.neutron(&session).await,
            ApiService::Octavia | ApiService::KeyManager => {
                self.services(&session).await.map(|services| Some(services.octavia))
            }
        };
        let rows = match at {
            Ok(Some(at)) => read_rows(&session, &at, read).await,
            // Without Neutron nothing of it exists.
            Ok(None) => Ok(CallAnswer::Rows(Vec::new())),
            Err(error) => Err(error),
        };
        // What lies below an object that is gone by now (the members of a pool) was answered.
        let is_below_one_gone = |error: &Error| matches!(error, Error::NotFound { .. }) && read.path.contains('/');
        let outage = rows.as_ref().err().filter(|error| !is_below_one_gone(error)).map(ToString::to_string);
        self.note(project, read.resource, outage.as_deref());
        rows.unwrap_or_else(|error| read_failed(&error))
    }

    /// Returns where a service is, or what its absence says about a change.
    async fn place(
        &self,
        session: &Session,
        service: ApiService,
    ) -> Result<Result<ServiceEndpoint, MutationResult>, Error> {
        let (place, missing) = match service {
            ApiService::Octavia => (Some(self.services(session).await?.octavia), ""),
            ApiService::Neutron => (self.neutron(session).await?, "the catalog has no service of type network"),
            ApiService::KeyManager => (self.key_manager(session).await?, NO_KEY_MANAGER),
        };
        Ok(place.ok_or_else(|| {
            let (error, what) = (Error::Catalog { message: missing.to_owned() }, missing.to_owned());
            let complaint = Some(Complaint::Unsupported { what });
            MutationResult::Refused(MutationRefusal { error, status: 501, complaint })
        }))
    }

    /// Logs when calls begin to fail, and when they are answered again.
    pub(crate) fn note(&self, project: &str, what: &'static str, error: Option<&str>) {
        let mut outages = self.0.outages.lock().unwrap_or_else(PoisonError::into_inner);
        let news = outages.called(project, what, error.is_none(), Instant::now());
        drop(outages);
        outages::log(project, what, news, error);
    }

    /// Makes one change, as [`Self::call`] does.
    pub async fn change(
        &self,
        project: &str,
        change: &ServiceCall,
        permit: impl Fn() -> bool + Send + Sync + 'static,
    ) -> CallAnswer {
        let session = self.session(project);
        let result = match self.place(&session, change.service).await {
            Ok(Ok(at)) => session.mutate(&at, &mutation_of(change), permit).await,
            Ok(Err(refused)) => refused,
            Err(error) => MutationResult::NotSent(NotSent::Failed(error)),
        };
        match &result {
            MutationResult::NotSent(NotSent::Failed(error)) => {
                self.note(project, "changes", Some(&error.to_string()));
            }
            MutationResult::NotSent(NotSent::NotPermitted) => {}
            _ => self.note(project, "changes", None),
        }
        answer_of(result)
    }
}

fn read_failed(error: &Error) -> CallAnswer {
    CallAnswer::ReadFailed { words: unreadable(error), retry_after: error.retry_after() }
}

/// Returns why a read failed, as the cluster may learn it: its tenants see it in an Event. The log says where OpenStack is, too.
fn unreadable(error: &Error) -> String {
    match (error, shareable_answer(error)) {
        (_, Some(answer)) => format!("OpenStack answers {answer}"),
        (Error::Timeout { .. }, None) => "OpenStack does not answer".to_owned(),
        (Error::Cut { .. } | Error::RepeatedPage { .. } | Error::InvalidMarker { .. }, None) => {
            "OpenStack does not return its list as a whole".to_owned()
        }
        (Error::Undecodable { .. } | Error::TooLarge { .. }, None) => "OpenStack's answer cannot be used".to_owned(),
        (error, None) => unsendable(error).to_owned(),
    }
}

async fn read_rows(session: &Session, at: &ServiceEndpoint, read: &CloudRead) -> Result<CallAnswer, Error> {
    let path: Vec<&str> = read.path.split('/').collect();
    let query = RawQuery::new(read.resource, read.key, &path);
    let query = read.query.iter().fold(query, |query, (key, value)| query.with(key, value));
    Ok(match (read.list, read.is_long) {
        (true, true) => CallAnswer::Listed(session.rows(at, &query).await?.rows),
        (true, false) => CallAnswer::Rows(session.rows(at, &query).await?.rows),
        (false, _) => CallAnswer::Rows(session.row(at, &query).await?.into_iter().collect()),
    })
}

fn mutation_of(request: &ServiceCall) -> Mutation {
    let path: Vec<&str> = request.path.split('/').collect();
    let mutation = match (request.verb, &request.payload) {
        (ApiVerb::Create, Some(payload)) => {
            Mutation::create_secret(request.resource, &path, &request.body, payload.bytes())
        }
        (ApiVerb::Create, None) => Mutation::create(request.resource, &path, &request.body),
        (ApiVerb::Update, _) => Mutation::update(request.resource, &path, &request.body),
        (ApiVerb::Delete, _) => Mutation::delete(request.resource, &path),
    };
    let mutation = request.query.iter().fold(mutation, |mutation, (key, value)| mutation.with_query(key, value));
    let mutation = match request.service {
        ApiService::KeyManager => mutation.with_timeout(SECRET_TIMEOUT),
        ApiService::Octavia | ApiService::Neutron => mutation,
    };
    match request.revision {
        Some(revision) => mutation.with_if_match(&format!("revision_number={revision}")),
        None => mutation,
    }
}

/// Returns what the result of a change means for its load balancer.
pub(crate) fn answer_of(result: MutationResult) -> CallAnswer {
    CallAnswer::Changed(match result {
        MutationResult::Accepted(body) => match body.is_empty() {
            true => ChangeOutcome::Accepted(Value::Null),
            false => match serde_json::from_slice(&body) {
                Ok(body) => ChangeOutcome::Accepted(body),
                Err(_) => ChangeOutcome::Unknown("the answer is not JSON".to_owned()),
            },
        },
        MutationResult::NotSent(NotSent::NotPermitted) => return CallAnswer::NotSent,
        MutationResult::NotSent(NotSent::Failed(error)) => {
            return CallAnswer::Unsendable { words: unsendable(&error).to_owned() };
        }
        MutationResult::Refused(refusal) => ChangeOutcome::Refused(refusal_of(refusal)),
        MutationResult::ProviderFailed(_) => ChangeOutcome::Refused(ServiceRefusal::ProviderFailed),
        MutationResult::Unknown(error) => ChangeOutcome::Unknown(unanswered(&error)),
    })
}

/// Returns why a change could not be sent, as the cluster may learn it: the log says where OpenStack is, too.
fn unsendable(error: &Error) -> &'static str {
    match error {
        Error::Forbidden { .. } => "openstack-writer has no role there",
        Error::InvalidCredentials { .. } | Error::Unauthorized { .. } => {
            "OpenStack refuses openstack-writer's credentials"
        }
        Error::Catalog { .. } | Error::Region { .. } => "OpenStack's catalog lacks the service, or has it elsewhere",
        _ => "OpenStack cannot be reached",
    }
}

/// Returns what came instead of the service's own answer, as the cluster may learn it.
fn unanswered(error: &Error) -> String {
    match shareable_answer(error) {
        Some(answer) => format!("the answer {answer:?} does not tell whether it was done"),
        None => "OpenStack did not answer".to_owned(),
    }
}

/// Returns of an answer what the cluster may learn: its status, and its words unless they may tell where OpenStack is.
fn shareable_answer(error: &Error) -> Option<&str> {
    let answer = answer_in(error)?;
    Some(match error {
        // Those of a redirect, or of a failure inside the service.
        Error::Refused { .. } | Error::Server { .. } => answer.split(' ').next().unwrap_or_default(),
        _ => answer,
    })
}

/// Returns the status and the words of an answer.
fn answer_in(error: &Error) -> Option<&str> {
    let (Error::Unauthorized { message }
    | Error::Forbidden { message }
    | Error::NotFound { message }
    | Error::RateLimited { message, .. }
    | Error::Server { message, .. }
    | Error::Refused { message }) = error
    else {
        return None;
    };
    Some(message.split_once(": ").map_or(message, |(_, answer)| answer))
}

fn refusal_of(refusal: MutationRefusal) -> ServiceRefusal {
    let MutationRefusal { error, status, complaint } = refusal;
    // The cluster learns what was refused, and not where OpenStack is: the request with its URL comes first in a message.
    let words = || answer_in(&error).map_or_else(|| error.to_string(), str::to_owned);
    match complaint {
        Some(Complaint::Immutable | Complaint::InvalidState) => ServiceRefusal::Pending,
        Some(Complaint::Duplicate) => ServiceRefusal::Duplicate,
        Some(Complaint::InUse | Complaint::PoolInUseByPolicy) => ServiceRefusal::InUse,
        Some(Complaint::Quota { resource }) => ServiceRefusal::Quota(resource),
        Some(Complaint::Exhausted { words }) => ServiceRefusal::Exhausted(words),
        Some(Complaint::Unreachable { words }) => ServiceRefusal::Unreachable(words),
        Some(Complaint::ProjectBusy) => ServiceRefusal::ProjectBusy(error.retry_after()),
        Some(Complaint::Busy) => ServiceRefusal::Busy(error.retry_after()),
        Some(Complaint::Unsupported { what }) => ServiceRefusal::Unsupported(what),
        Some(Complaint::Validation { detail }) => ServiceRefusal::Invalid(detail),
        Some(Complaint::PreconditionFailed) => ServiceRefusal::Changed(String::new()),
        None => match status {
            401 | 403 => ServiceRefusal::Forbidden(words()),
            404 => ServiceRefusal::NotFound(words()),
            409 => ServiceRefusal::Changed(words()),
            500.. => ServiceRefusal::Busy(error.retry_after()),
            _ => ServiceRefusal::Invalid(words()),
        },
    }
}

#[cfg(test)]
pub(crate) mod tests;
