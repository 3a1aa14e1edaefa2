//! Turns the state into the answers of `InspectionService`. Read-only.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use gimbal_model::{AddressInSource, BackendName, SourceKey};
use gimbal_session::{EntryProgress, KeptEntry as _, Key as _, Scope, Services, Summary};
use gimbal_transport::{Part, Place, pb};

use crate::payload::OfferedPayload;
use crate::publisher::Publisher;
use crate::source::SourceStatus;

/// Most Services that one question reads, so that none blocks the owner for long.
const PART: usize = 500;

/// The state that calls are answered from.
pub(crate) struct InspectionView<'a, P: OfferedPayload = Services> {
    pub(crate) backend: &'a BackendName,
    pub(crate) instance: &'a str,
    /// Program and version.
    pub(crate) version: &'a str,
    pub(crate) source: &'a dyn SourceStatus<P>,
    pub(crate) publisher: &'a Publisher<P>,
    /// Whether the writer accepted the stream.
    pub(crate) connected: bool,
    /// Whether no writer is configured.
    pub(crate) dry_run: bool,
    /// Why there is no stream to the writer, as a text; `None` before the first failure and once the writer accepted a
    /// stream.
    pub(crate) link_trouble: Option<&'a str>,
    /// Who reads it.
    pub(crate) reader: Reader,
    pub(crate) now: Instant,
}

/// Who reads what an inspection answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Whoever has a certificate for it, or is on this machine.
    Operator,
    /// Whoever reaches the status page. What a server or a plug-in said is not for them.
    Page,
}

impl<P: OfferedPayload> InspectionView<'_, P> {
    /// Describes this discoverer.
    pub(crate) fn backend(&self) -> pb::Backend {
        let agent = &self.publisher.agent;
        let tree = agent.tree();
        pb::Backend {
            name: self.backend.to_string(),
            connected: self.connected,
            complete: self.publisher.is_complete() && self.source.is_whole(),
            generation: agent.generation().unwrap_or_default(),
            agent_instance: self.instance.to_owned(),
            agent_version: self.version.to_owned(),
            source_incarnation: self.source.incarnation().unwrap_or_default().to_owned(),
            sources: self.source.freshness(self.now).iter().map(Into::into).collect(),
            held: Some(Summary { count: tree.count(), digest: tree.root() }.into()),
            endpoints: self.parts(),
            pending: agent.pending() as u64,
            rejected: agent.rejects().len() as u64,
            unknown: self.unknown(),
            held_changes: Vec::new(),
            trouble: self.trouble().join("; "),
            peer_capabilities: agent.writer_capabilities().iter().map(ToString::to_string).collect(),
            ..pb::Backend::default()
        }
    }

    fn parts(&self) -> u64 {
        self.publisher.agent.entries().map(|(_, entry)| entry.part_count() as u64).sum()
    }

    fn unknown(&self) -> Vec<pb::UnknownScope> {
        let namespaces = |scope: &Scope| match scope {
            Scope::All => Vec::new(),
            Scope::Namespaces(namespaces) => namespaces.iter().map(ToString::to_string).collect(),
        };
        let unknown = |(scope, reason): &(Scope, String)| {
            let scope = Some(pb::Scope { namespaces: namespaces(scope) });
            pb::UnknownScope { scope, reason: reason.clone() }
        };
        self.publisher.unknown().iter().map(unknown).collect()
    }

    /// Returns what is wrong now, in sentences.
    pub(crate) fn trouble(&self) -> Vec<String> {
        let (source, identity) = match self.reader {
            Reader::Operator => (self.source.trouble(), self.source.identity_trouble()),
            Reader::Page => (self.source.public_trouble(), self.source.identity_trouble().map(|_| "it cannot be read")),
        };
        let source = source.map(|reason| format!("source: {reason}"));
        let identified_by = self.source.identified_by();
        let identity = identity.map(|reason| format!("source identity ({identified_by}): {reason}"));
        let link = self.link_trouble.map(|reason| format!("writer: {reason}"));
        source.into_iter().chain(identity).chain(link).collect()
    }

    /// Returns those of the next Services after a place that a request selects.
    pub(crate) fn part(&self, request: &pb::ListServicesRequest, after: Option<&Place>) -> Part {
        // Nothing of this backend comes after a place in a later one.
        if !self.is_asked_for(&request.backend) || after.is_some_and(|after| after.backend > *self.backend) {
            return Part::default();
        }
        let after = after.filter(|after| after.backend == *self.backend);
        let after = after.and_then(|after| P::key_shown_as(&after.key));
        let keys: Vec<_> = self.publisher.agent.keys_after(&request.namespace, after.as_ref()).take(PART).collect();
        let wanted = |status: &pb::ServiceStatus| !request.only_trouble || status.state != SYNCED;
        let services = keys.iter().filter_map(|key| self.service(key)).filter(wanted).collect();
        let last = keys.last().filter(|_| keys.len() == PART);
        let seen = last.map(|key| Place { backend: self.backend.clone(), key: P::shown_key(key) });
        Part { services, seen }
    }

    /// Returns whether a request asks for this backend.
    pub(crate) fn is_asked_for(&self, backend: &str) -> bool {
        backend.is_empty() || backend == self.backend.as_str()
    }

    /// Describes an entry, if it is offered.
    pub(crate) fn service(&self, key: &P::Key) -> Option<pb::ServiceStatus> {
        let kept = self.publisher.agent.entry(key)?;
        let reject = self.publisher.agent.rejects().get(key);
        let (state, message) = self.state(key);
        let mut status = pb::ServiceStatus {
            backend: self.backend.to_string(),
            source: Some((&P::shown_key(key)).into()),
            target: Some(P::target(self.backend, key)),
            state: state.into(),
            endpoints: kept.part_count() as u64,
            reject_reason: reject.map_or(0, |reject| P::shown_reason(reject.reason).into()),
            message,
            digest: self.publisher.agent.digest(key).map(|digest| digest.to_bytes().to_vec()).unwrap_or_default(),
            ..pb::ServiceStatus::default()
        };
        P::describe(&kept.entry(), &mut status);
        Some(status)
    }

    fn state(&self, key: &P::Key) -> (pb::ServiceState, String) {
        let agent = &self.publisher.agent;
        if let Some(reject) = agent.rejects().get(key) {
            return (pb::ServiceState::Rejected, reject.message.clone());
        }
        if self.dry_run {
            return (pb::ServiceState::Pending, "no writer is configured: a dry run".into());
        }
        if let Some(reason) = self.publisher.unknown_namespace(key.namespace()) {
            return (pb::ServiceState::Held, format!("the source is not fully known: {reason}"));
        }
        if !self.connected {
            let reason = self.link_trouble.unwrap_or("not yet connected");
            return (pb::ServiceState::Pending, format!("no stream to the writer: {reason}"));
        }
        if agent.is_pending(key) {
            return (pb::ServiceState::Pending, "on its way to the writer".into());
        }
        (pb::ServiceState::Synced, String::new())
    }

    /// Explains where an object comes from, or why it is missing.
    pub(crate) fn explain(&self, request: &pb::ExplainRequest, address: Option<IpAddr>) -> pb::ExplainResponse {
        match &request.object {
            Some(pb::explain_request::Object::Source(pb::SourceRef { backend, key: Some(key) })) => {
                if self.is_asked_for(backend) {
                    match P::key_shown_as(&SourceKey::new(&*key.namespace, &*key.name)) {
                        Some(key) => self.explain_source(&key, address),
                        None => reason(format!("{}/{} names none of the {}", key.namespace, key.name, P::ENTRIES)),
                    }
                } else {
                    reason(format!("this discoverer serves backend {} only", self.backend))
                }
            }
            Some(pb::explain_request::Object::Target(target)) => {
                let mut keys = self.publisher.agent.entries().map(|(key, _)| key);
                match keys.find(|key| P::target(self.backend, key) == *target) {
                    Some(key) => self.explain_source(key, address),
                    None => reason(format!(
                        "backend {} offers nothing that would be {}/{} (its namespace as in the source; only the writer knows how namespaces are mapped)",
                        self.backend, target.namespace, target.name
                    )),
                }
            }
            _ => reason("name an object: target, or source with its key".into()),
        }
    }

    fn explain_source(&self, key: &P::Key, address: Option<IpAddr>) -> pb::ExplainResponse {
        let service = self.service(key);
        let mut reasons = self.source.explain(key);
        reasons.extend(service.iter().map(|status| status.message.clone()).filter(|message| !message.is_empty()));
        reasons.extend(self.trouble());
        pb::ExplainResponse {
            service,
            reasons,
            progress: self.progress(key),
            address: address.map(|address| self.address(key, address)),
            ..pb::ExplainResponse::default()
        }
    }

    /// Returns how far an entry has come, if it is offered.
    fn progress(&self, key: &P::Key) -> Option<pb::ServiceProgress> {
        let EntryProgress { reported, sent, acknowledged } = self.publisher.agent.progress(key)?;
        let since = |at: Instant| millis(self.now.saturating_duration_since(at));
        Some(pb::ServiceProgress {
            generation: sent.map_or(0, |frame| frame.generation),
            seq: sent.map_or(0, |frame| frame.seq),
            carried_ms: sent.map(|frame| since(frame.at)),
            reported_ms: Some(since(reported)),
            acknowledged_ms: acknowledged.map(since),
            ..pb::ServiceProgress::default()
        })
    }

    /// Returns what is known of an address of an entry.
    fn address(&self, key: &P::Key, address: IpAddr) -> pb::AddressStatus {
        let AddressInSource { objects, reasons } = self.source.explain_address(key, address);
        let kept = self.publisher.agent.entry(key);
        pb::AddressStatus {
            address: address.to_string(),
            endpoint: kept.and_then(|kept| P::conditions_at(&kept.entry(), address)).map(Into::into),
            objects: objects.iter().map(Into::into).collect(),
            reasons,
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

const SYNCED: i32 = pb::ServiceState::Synced as i32;

fn reason(reason: String) -> pb::ExplainResponse {
    pb::ExplainResponse { reasons: vec![reason], ..pb::ExplainResponse::default() }
}
