//! The messages that all payloads have in common: Hello and Welcome, heartbeats, credit, goodbyes. Parsers name every
//! field, so that a new one cannot be left unread.

use std::borrow::Cow;
use std::time::Duration;

use gimbal_session::capability::Capabilities;
use gimbal_session::{Credit, Freshness, Goodbye, GoodbyeReason, Hello, Need, Scope, Summary, Welcome};

use crate::parse::{self, LABEL, Parsed, WireError, invalid, millis, prose};
use crate::pb;
use crate::pb::need::Need as PbNeed;

/// Longest text of a Hello in bytes. The writer keeps these texts as long as the backend.
const IDENTITY: usize = 1024;
/// Largest number of capabilities, and of kinds of a heartbeat.
const LISTED: usize = 64;

/// Encodes a Hello.
#[must_use]
pub fn encode_hello(hello: Hello) -> pb::Hello {
    let Hello { protocol, capabilities, backend, agent_instance, source_incarnation, held, agent_version } = hello;
    let (protocol_min, protocol_max) = protocol;
    let held = held.map(Into::into);
    pb::Hello {
        protocol_min,
        protocol_max,
        capabilities: encode_capabilities(&capabilities),
        backend,
        agent_instance,
        source_incarnation,
        held,
        agent_version,
    }
}

/// Parses a Hello.
///
/// # Errors
/// Returns an error when a text or a list is too long, or the digest has another length.
pub fn parse_hello(hello: pb::Hello) -> Parsed<Hello> {
    let pb::Hello {
        protocol_min,
        protocol_max,
        capabilities,
        backend,
        agent_instance,
        source_incarnation,
        held,
        agent_version,
    } = hello;
    let capabilities = parse_capabilities(capabilities)?;
    parse::bounded("backend", &backend, IDENTITY)?;
    parse::bounded("agent_instance", &agent_instance, IDENTITY)?;
    parse::bounded("source_incarnation", &source_incarnation, IDENTITY)?;
    Ok(Hello {
        protocol: (protocol_min, protocol_max),
        capabilities,
        backend,
        agent_instance,
        source_incarnation,
        held: held.map(parse::summary).transpose()?,
        agent_version: prose(agent_version),
    })
}

fn encode_capabilities(capabilities: &Capabilities) -> Vec<String> {
    capabilities.iter().map(ToString::to_string).collect()
}

fn parse_capabilities(capabilities: Vec<String>) -> Parsed<Capabilities> {
    if capabilities.len() > LISTED {
        return invalid("capabilities", format!("has {} entries, more than {LISTED}", capabilities.len()));
    }
    let name = |name: String| parse::bounded("capability", &name, LABEL).map(|()| Cow::Owned(name));
    capabilities.into_iter().map(name).collect::<Parsed<Vec<_>>>().map(Cow::Owned)
}

/// Encodes a heartbeat.
#[must_use]
pub fn encode_heartbeat(sources: &[Freshness], backlog: u64, clock_ms: Option<i64>) -> pb::Heartbeat {
    pb::Heartbeat { sources: sources.iter().map(Into::into).collect(), backlog, clock_ms }
}

/// Parses a heartbeat: its kinds of objects, its backlog and its clock.
///
/// # Errors
/// Returns an error when there are too many kinds, or a name is too long.
pub fn parse_heartbeat(heartbeat: pb::Heartbeat) -> Parsed<(Vec<Freshness>, u64, Option<i64>)> {
    let pb::Heartbeat { sources, backlog, clock_ms } = heartbeat;
    Ok((parse_sources(sources)?, backlog, clock_ms))
}

/// Encodes that a part of the source cannot be read.
#[must_use]
pub fn encode_scope_unknown(scope: &Scope, reason: String) -> pb::ScopeUnknown {
    pb::ScopeUnknown { scope: Some(scope.into()), reason }
}

/// Parses that a part of the source cannot be read: which part, and why.
///
/// # Errors
/// Returns an error when the part is missing, or names something that is no namespace.
pub fn parse_scope_unknown(unknown: pb::ScopeUnknown) -> Parsed<(Scope, String)> {
    let pb::ScopeUnknown { scope, reason } = unknown;
    Ok((parse::scope(scope)?, prose(reason)))
}

/// Encodes the beginning of a snapshot.
#[must_use]
pub fn encode_snapshot_begin(scope: &Scope) -> pb::SnapshotBegin {
    pb::SnapshotBegin { scope: Some(scope.into()) }
}

/// Parses the beginning of a snapshot.
///
/// # Errors
/// Returns an error when its scope is missing, or names something that is no namespace.
pub fn parse_snapshot_begin(begin: pb::SnapshotBegin) -> Parsed<Scope> {
    let pb::SnapshotBegin { scope } = begin;
    parse::scope(scope)
}

/// Encodes the end of a snapshot.
#[must_use]
pub fn encode_snapshot_end(summary: Summary) -> pb::SnapshotEnd {
    pb::SnapshotEnd { summary: Some(summary.into()) }
}

/// Parses the end of a snapshot.
///
/// # Errors
/// Returns an error when its summary is missing, or has a digest of another length.
pub fn parse_snapshot_end(end: pb::SnapshotEnd) -> Parsed<Summary> {
    let pb::SnapshotEnd { summary } = end;
    parse::summary(summary.ok_or(WireError::Missing("summary"))?)
}

/// Encodes a request for a snapshot.
#[must_use]
pub fn encode_resync(need: Need, reason: String) -> pb::Resync {
    pb::Resync { need: Some(encode_need(need)), reason }
}

/// Parses a request for a snapshot: what it has to cover, and why.
///
/// # Errors
/// Returns an error when what it has to cover is missing or cannot be read.
pub fn parse_resync(resync: pb::Resync) -> Parsed<(Need, String)> {
    let pb::Resync { need, reason } = resync;
    Ok((parse_need(need)?, prose(reason)))
}

fn parse_sources(sources: Vec<pb::SourceFreshness>) -> Parsed<Vec<Freshness>> {
    if sources.len() > LISTED {
        return invalid("sources", format!("has {} entries, more than {LISTED}", sources.len()));
    }
    let sources = sources.into_iter().map(|pb::SourceFreshness { kind, age_ms }| {
        parse::bounded("kind", &kind, LABEL)?;
        Ok(Freshness { kind, age: age_ms.map(Duration::from_millis) })
    });
    sources.collect()
}

/// Encodes a Welcome.
#[must_use]
pub fn encode_welcome(welcome: Welcome) -> pb::Welcome {
    let Welcome { protocol, generation, need, credit, backend, heartbeat_timeout, capabilities } = welcome;
    pb::Welcome {
        protocol,
        generation,
        need: Some(encode_need(need)),
        credit: Some(encode_credit(credit)),
        backend,
        heartbeat_timeout_ms: millis(heartbeat_timeout, u32::MAX),
        capabilities: encode_capabilities(&capabilities),
    }
}

/// Parses a Welcome.
///
/// # Errors
/// Returns an error when a part is missing, or cannot be read, or a list is too long.
pub fn parse_welcome(welcome: pb::Welcome) -> Parsed<Welcome> {
    let pb::Welcome { protocol, generation, need, credit, backend, heartbeat_timeout_ms, capabilities } = welcome;
    let capabilities = parse_capabilities(capabilities)?;
    Ok(Welcome {
        protocol,
        generation,
        need: parse_need(need)?,
        credit: parse_credit(credit.ok_or(WireError::Missing("credit"))?),
        backend,
        heartbeat_timeout: Duration::from_millis(heartbeat_timeout_ms.into()),
        capabilities,
    })
}

/// Encodes a window.
#[must_use]
pub fn encode_credit(credit: Credit) -> pb::Credit {
    let Credit { changes, bytes } = credit;
    pb::Credit { changes, bytes }
}

/// Parses a window.
#[must_use]
pub fn parse_credit(credit: pb::Credit) -> Credit {
    let pb::Credit { changes, bytes } = credit;
    Credit { changes, bytes }
}

fn encode_need(need: Need) -> pb::Need {
    let need = match need {
        Need::Nothing => PbNeed::Nothing(pb::need::Nothing {}),
        Need::Namespaces(held) => {
            let held = held.into_iter().map(|(namespace, summary)| pb::NamespaceSummary {
                namespace: namespace.to_string(),
                summary: Some(summary.into()),
            });
            PbNeed::Namespaces(pb::need::Namespaces { held: held.collect() })
        }
        Need::All => PbNeed::All(pb::need::All {}),
    };
    pb::Need { need: Some(need) }
}

fn parse_need(need: Option<pb::Need>) -> Parsed<Need> {
    match need.and_then(|pb::Need { need }| need).ok_or(WireError::Missing("need"))? {
        PbNeed::Nothing(pb::need::Nothing {}) => Ok(Need::Nothing),
        PbNeed::All(pb::need::All {}) => Ok(Need::All),
        PbNeed::Namespaces(pb::need::Namespaces { held }) => {
            let held = held.into_iter().map(|pb::NamespaceSummary { namespace, summary }| {
                parse::name("namespace", &namespace)?;
                let summary = summary.ok_or(WireError::Missing("summary"))?;
                Ok((namespace.into(), parse::summary(summary)?))
            });
            held.collect::<Parsed<_>>().map(Need::Namespaces)
        }
    }
}

/// Encodes a Goodbye.
#[must_use]
pub fn encode_goodbye(goodbye: Goodbye) -> pb::Goodbye {
    let Goodbye { reason, message, retry_after } = goodbye;
    let reason = match reason {
        GoodbyeReason::Shutdown => pb::GoodbyeReason::Shutdown,
        GoodbyeReason::Superseded => pb::GoodbyeReason::Superseded,
        GoodbyeReason::UnknownBackend => pb::GoodbyeReason::UnknownBackend,
        GoodbyeReason::Incarnation => pb::GoodbyeReason::Incarnation,
        GoodbyeReason::Protocol => pb::GoodbyeReason::Protocol,
        GoodbyeReason::ProtocolError => pb::GoodbyeReason::ProtocolError,
        GoodbyeReason::NotLeader => pb::GoodbyeReason::NotLeader,
        GoodbyeReason::Timeout => pb::GoodbyeReason::Timeout,
        GoodbyeReason::Certificate => pb::GoodbyeReason::Certificate,
    };
    pb::Goodbye {
        reason: reason.into(),
        message,
        // 0 means that the agent uses its own back-off, so "at once" is sent as 1 ms.
        retry_after_ms: retry_after.map_or(0, |after| millis(after, u32::MAX).max(1)),
    }
}

/// Parses a Goodbye.
///
/// # Errors
/// Returns an error when its reason is not known in this version.
pub fn parse_goodbye(goodbye: pb::Goodbye) -> Parsed<Goodbye> {
    use pb::GoodbyeReason as Pb;
    let pb::Goodbye { reason: number, message, retry_after_ms } = goodbye;
    let reason = match Pb::try_from(number) {
        Ok(Pb::Shutdown) => GoodbyeReason::Shutdown,
        Ok(Pb::Superseded) => GoodbyeReason::Superseded,
        Ok(Pb::UnknownBackend) => GoodbyeReason::UnknownBackend,
        Ok(Pb::Incarnation) => GoodbyeReason::Incarnation,
        Ok(Pb::Protocol) => GoodbyeReason::Protocol,
        Ok(Pb::ProtocolError) => GoodbyeReason::ProtocolError,
        Ok(Pb::NotLeader) => GoodbyeReason::NotLeader,
        Ok(Pb::Timeout) => GoodbyeReason::Timeout,
        Ok(Pb::Certificate) => GoodbyeReason::Certificate,
        Ok(Pb::Unspecified) | Err(_) => {
            return invalid("reason", format!("is {number}, which this version does not know"));
        }
    };
    let retry_after = (retry_after_ms > 0).then(|| Duration::from_millis(retry_after_ms.into()));
    Ok(Goodbye { reason, message: prose(message), retry_after })
}
